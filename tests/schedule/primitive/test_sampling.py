"""Drawings."""

from __future__ import annotations

import math

import pytest

from loomir import Schedule, ScheduleError
from tests.schedule.programs import copy, symbolic


@pytest.mark.parametrize("seed", range(5))
def test_tiles_are_perfect(seed: int):
    sch = Schedule(copy(48), seed=seed)
    (i,) = sch.get_loops("B")
    drawn = [sch.get(v) for v in sch.sample_perfect_tile(i, 3, max_innermost_factor=8)]
    assert math.prod(drawn) == 48
    assert drawn[-1] <= 8
    drawn = [sch.get(v) for v in sch.sample_partitioned_tile(i, 3, 1, 4)]
    assert math.prod(drawn) == 48
    assert math.prod(drawn[1:]) % 4 == 0


def test_the_same_seed_draws_the_same():
    made = []
    for _ in range(2):
        sch = Schedule(copy(48), seed=3)
        (i,) = sch.get_loops("B")
        drawn = sch.sample_perfect_tile(i, 2)
        chosen = sch.sample_categorical([10, 20, 30], [0.2, 0.3, 0.5])
        made.append([sch.get(v) for v in (*drawn, chosen)])
    assert made[0] == made[1]


def test_drawn_numbers_can_be_computed_with():
    sch = Schedule(copy(48), seed=0)
    (i,) = sch.get_loops("B")
    two = sch.sample_categorical([2], [1.0])
    assert sch.get(two * 3 + 1) == 7
    outer, _ = sch.split(i, [None, two * 4])
    assert sch.get(outer).extent.value == 6


def test_decisions_that_are_none_are_refused():
    sch = Schedule(copy(48))
    (i,) = sch.get_loops("B")
    for call in (
        lambda: sch.sample_perfect_tile(i, 2, decision=[5, 9]),
        lambda: sch.sample_partitioned_tile(i, 2, decision=[48]),
        lambda: sch.sample_categorical([1, 2], [1.0]),
        lambda: sch.sample_categorical([1], [1.0], decision=1),
    ):
        with pytest.raises(ScheduleError) as caught:
            call()
        assert caught.value.diagnostic.code == "SCH0003"
    sch = Schedule(symbolic())
    with pytest.raises(ScheduleError) as caught:
        sch.sample_perfect_tile(sch.get_loops("B")[0], 2)
    assert caught.value.diagnostic.code == "SCH0005"


def test_drawings_end_for_every_extent():
    for extent in (2**31 - 1, 2**31 - 19, 2**30):
        sch = Schedule(copy(extent))
        (loop,) = sch.get_loops("B")
        assert math.prod(sch.get(f) for f in sch.sample_perfect_tile(loop, 3)) == extent
        for n in (0, -1, 2**31):
            with pytest.raises(ScheduleError, match="SCH0003"):
                sch.sample_perfect_tile(loop, n)
            with pytest.raises(ScheduleError, match="SCH0003"):
                sch.sample_partitioned_tile(loop, n)
