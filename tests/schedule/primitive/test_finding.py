"""Queries."""

from __future__ import annotations

import pytest

from loomir import Schedule, ScheduleError
from tests.schedule.programs import chain, matmul, softmax


def names(sch: Schedule, blocks: list) -> list[str]:
    return [sch.get(b).name_hint for b in blocks]


def test_blocks_know_what_they_need_and_who_needs_them():
    sch = Schedule(softmax())
    assert names(sch, sch.get_producers("softmax")) == ["power", "share"]
    assert names(sch, sch.get_consumers("power")) == ["total", "softmax"]
    assert names(sch, sch.get_output_blocks("root")) == ["softmax"]
    assert len(sch.get_child_blocks(sch.get_sblock("root"))) == 6


def test_loops_are_listed_outermost_first():
    sch = Schedule(matmul())
    found = sch.get_loops("C")
    assert [sch.get(loop).loop_var.name_hint for loop in found] == ["i", "j", "k"]
    assert names(sch, sch.get_child_blocks(found[0])) == ["C"]
    assert sch.get_loops("root") == []


def test_get_block_is_an_older_name():
    sch = Schedule(chain())
    assert sch.get(sch.get_block("C", "main")) is sch.get(sch.get_sblock("C"))


def test_a_name_that_is_not_there_is_told_with_what_is():
    sch = Schedule(matmul())
    with pytest.raises(ScheduleError) as caught:
        sch.get_sblock("E")
    assert (caught.value.diagnostic.code, caught.value.diagnostic.help) == (
        "SCH0001",
        "there are: C, D, root",
    )
