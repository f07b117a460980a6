"""Traces: shown, stored, simplified, and done again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import loomir
from loomir import Schedule, ScheduleError
from loomir.schedule import Trace
from tests.schedule.programs import matmul


def scheduled(seed: int = 2) -> Schedule:
    sch = Schedule(matmul(), seed=seed)
    block = sch.get_sblock("C")
    sch.get_consumers(block)
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2))
    two = sch.sample_categorical([2, 2], [0.5, 0.5])
    j0, j1 = sch.split(j, [None, two + 1])
    sch.reorder(i0, j0, k, i1, j1)
    sch.parallel(sch.fuse(i0, j0))
    sch.annotate(block, "note", {"a": [1, "x"]})
    return sch


def test_a_trace_is_python(golden: Callable[[str], None]):
    sch = scheduled()
    golden(str(sch.trace))
    names: dict = {"loomir": loomir}
    exec(str(sch.trace), names)  # noqa: S102 - what it writes is what is tested
    again = Schedule(matmul())
    names["apply_func"](again)
    loomir.ir.assert_structural_equal(again.mod, sch.mod)


def test_a_trace_is_json():
    sch = scheduled()
    stored = json.dumps(sch.trace.as_json())
    again = Schedule(matmul())
    Trace.apply_json_to_schedule(json.loads(stored), again)
    loomir.ir.assert_structural_equal(again.mod, sch.mod)
    assert json.dumps(again.trace.as_json()) == stored


def test_a_trace_is_done_again_with_its_decisions_or_others():
    sch = scheduled()
    again = Schedule(matmul(), seed=99)
    sch.trace.apply_to_schedule(again)
    loomir.ir.assert_structural_equal(again.mod, sch.mod)
    asked = []

    def provide(inst: Any, arguments: Any, decision: Any):
        asked.append(inst.kind)
        return [8, 1] if inst.kind == "sample_perfect_tile" else decision

    other = Schedule(matmul())
    sch.trace.apply_to_schedule(other, provide)
    assert asked == ["sample_perfect_tile", "sample_categorical"]
    assert next(iter(other.trace.decisions.values())) == [8, 1]


def test_what_is_not_used_is_dropped():
    trace = scheduled().trace
    kinds = [inst.kind for inst in trace.simplified().insts]
    assert "get_consumers" not in kinds
    assert len(kinds) == len(trace.insts) - 1
    again = Schedule(matmul())
    trace.simplified().apply_to_schedule(again)
    loomir.ir.assert_structural_equal(again.mod, scheduled().mod)


def test_decisions_can_be_changed_in_a_trace():
    trace = scheduled().trace
    inst = next(i for i in trace.insts if i.kind == "sample_perfect_tile")
    assert trace.get_decision(inst) == inst.decision
    changed = trace.with_decision(inst, [1, 8])
    assert [1, 8] in changed.decisions.values()
    assert changed.pop() is not None
    assert Trace().pop() is None


@pytest.mark.parametrize(
    "row",
    [
        {"do": "splitt", "with": {}, "gives": []},
        {"do": "split"},
        3,
        {"do": "parallel", "with": {"loop": {"$rv": "l7"}}, "gives": None},
        {"do": "get_sblock", "with": {"name": "C"}, "gives": {"$rv": ""}},
    ],
)
def test_what_is_no_trace_is_refused(row: object):
    with pytest.raises(ScheduleError) as caught:
        Trace.from_json([row])
    assert caught.value.diagnostic.code == "SCH0009"


@pytest.mark.parametrize("gives", [[], [{"$rv": "l1"}], [{"$rv": f"l{k}"} for k in range(1, 9)]])
def test_another_number_of_results_is_told(gives: list[object]):
    rows = [
        {"do": "get_sblock", "with": {"name": "C"}, "gives": {"$rv": "b0"}},
        {"do": "get_loops", "with": {"block": {"$rv": "b0"}}, "gives": gives},
    ]
    with pytest.raises(ScheduleError, match="3 results here") as caught:
        Trace.from_json(rows).apply_to_schedule(Schedule(matmul()))
    assert caught.value.diagnostic.code == "SCH0009"


@pytest.mark.parametrize(
    ("rows", "help_"), [("[]", "pass json.loads(text)"), ({}, "pass the result of Trace.as_json")]
)
def test_a_trace_is_a_list(rows: Any, help_: str):
    with pytest.raises(ScheduleError) as caught:
        Trace.from_json(rows)
    assert caught.value.diagnostic.code == "SCH0009"
    assert caught.value.diagnostic.help == help_
