"""Campaigns over families: what is wrong is told, and what is right is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuzz.default_schedule.constants
import fuzz.default_schedule.worker
from fuzz.default_schedule.exact_comparison import differs, has_floats
from fuzz.default_schedule.recording_target import RecordingTarget, answers_alike
from fuzz.default_schedule.worker import answer, runs_here
from fuzz.families.cases import Case, fresh, outcome
from fuzz.families.table import FAMILIES
from fuzz.schedules import SchedulesCampaign
from loomir.autoschedule.driver import ScheduledFunction
from loomir.interp import interpret
from loomir.ir.module import IRModule
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.function import PrimFunc

ADDS_ONE = """
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.Buffer((4,), "float32", strides=("s",)), n: T.int32):
        for i in range(4):
            x[i] = x[i] + T.Cast("float32", n)
"""


def adding() -> Case:
    module = from_source(ADDS_ONE)
    assert isinstance(module, IRModule)
    x = np.arange(8, dtype="float32")[6::-2]
    return Case("made", 0, module, "main", (x, 1), (x + 1, None))


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("seed", [3, 4])
def test_programs_of_families_are_right_in_both_ways(family: str, seed: int) -> None:
    assert FAMILIES[family](seed).module.script() == FAMILIES[family](seed).module.script()
    for way, name in (("interpreted", "sapphirerapids"), ("native", "native")):
        reply = answer(seed, [family, way, name])
        assert reply["found"] == {}
        assert reply["engines"] == [name] or reply["kinds"] == ["too long"]


def test_programs_whose_numbers_grow_are_counted_and_rounded() -> None:
    reply = answer(77025, ["algorithms", "interpreted", "haswell"])
    assert reply["found"] == {}
    assert "numbers too large" in reply["kinds"]
    assert reply["engines"] == ["haswell"]


def test_a_copy_lies_as_its_original() -> None:
    case = adding()
    again = fresh(case.arguments[0])
    assert again.strides == (-8,)
    np.testing.assert_array_equal(again, case.arguments[0])
    again[...] = 0
    assert case.arguments[0].any()
    assert fresh(1) == 1


def test_what_a_call_leaves_is_judged() -> None:
    case = adding()
    right = fresh(case.arguments[0])
    right += 1
    assert outcome(case, [right, 1]) == ""
    wrong = fresh(right)
    wrong[2] = np.nan
    assert outcome(case, [wrong, 1]) == (
        "argument 0[2] is np.float32(nan) instead of np.float32(3.0) (1 of 4 differ)"
    )
    near = fresh(right)
    near[0] = np.nextafter(near[0], np.float32(0))
    assert outcome(case, [near, 1])
    assert outcome(case._replace(ulps=1), [near, 1]) == ""
    beside = fresh(right)
    np.lib.stride_tricks.as_strided(beside, (7,), (-4,))[1] = 9
    assert outcome(case, [beside, 1]) == "argument 0: memory around it changed"


def test_arrays_without_elements_are_copied_whatever_their_strides() -> None:
    nothing = np.zeros(0).reshape(8, 0)[::-1]
    assert fresh(nothing).shape == (8, 0)
    assert fresh(nothing[:, ::2].T).shape == (0, 8)
    none_of_many = np.ones((4, 12, 13), "int64")[:0, ::-1, ::2]
    again = fresh(none_of_many)
    assert (again.shape, again.strides) == (none_of_many.shape, none_of_many.strides)


def test_programs_scheduled_by_hand_keep_their_meaning() -> None:
    """Steps of a schedule change the program; what it must give is what it gave before."""
    changed = [FAMILIES["primitives"](seed) for seed in range(8)]
    texts = [case.module.script() for case in changed]
    assert any("T.vectorized" in text or "T.unroll" in text for text in texts)
    assert any("T.where" in text or "cache" in text for text in texts)


def test_a_wrong_schedule_is_told_and_kept(monkeypatch: Any, tmp_path: Any) -> None:
    one = FAMILIES["contractions"](3)
    other = fuzz.default_schedule.constants.schedule_function

    def nothing_added(func: PrimFunc, target: Any, **more: Any) -> ScheduledFunction:
        scheduled = other(func, target, **more)
        made = from_source(scheduled.func.script().replace(" + ", " - "))
        assert isinstance(made, PrimFunc)
        return scheduled._replace(func=made)

    monkeypatch.setattr(fuzz.default_schedule.constants, "schedule_function", nothing_added)
    reply = answer(3, ["contractions", "interpreted", "haswell"])
    assert set(reply["found"]) == {"haswell"}
    campaign = SchedulesCampaign(range(3, 4), ["contractions", "interpreted", "haswell"])
    text = campaign.keep(reply, tmp_path).read_text()
    assert text.startswith(
        "# python -m fuzz.schedules --family contractions --target haswell --seed 3 --count 1\n"
    )
    assert one.module.script() in text


def test_targets_of_other_machines_do_not_run_here() -> None:
    assert runs_here("native")
    assert not (runs_here("neoverse-n1") and runs_here("x86-64"))


def test_rounding_hides_no_lost_term() -> None:
    module = from_source("""
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.Buffer((40,), "float32"), y: T.Buffer((1,), "float32")):
        y[0] = T.float32(0)
        for i in range(40):
            y[0] = y[0] + x[i] * T.float32(1e-12) + T.float32(1)
""")
    assert isinstance(module, IRModule)
    x, y = np.ones(40, "float32"), np.zeros(1, "float32")
    case = Case("made", 0, module, "main", (x, y), (x, np.full(1, 40, "float32")))
    assert has_floats(case)
    assert differs(case, module) == ""
    shorter = from_source(module.script().replace("x[i] *", "x[T.max(i, 1)] *"))
    assert isinstance(shorter, IRModule)
    assert differs(case, shorter).startswith("exactly, argument 1[0] is ")
    left = [fresh(a) for a in case.arguments]
    interpret(shorter, "main", *left)
    assert outcome(case, left) == ""  # which float32 does not see


def test_targets_that_answer_alike_share_loops(monkeypatch: Any) -> None:
    asked = RecordingTarget(Target("haswell"))
    assert asked.lanes(32) == 8
    assert not asked.has("avx512_vnni")
    assert asked.facts == {"vector_bits": 256, "has avx512_vnni": False}
    assert answers_alike(asked.facts, Target("alderlake"))
    assert not answers_alike(asked.facts, Target("skylake-avx512"))
    assert not asked.has("avx_vnni")
    assert not answers_alike(asked.facts, Target("alderlake"))

    calls: list[str] = []
    other = fuzz.default_schedule.constants.schedule_function

    def counted(func: PrimFunc, target: Target, **more: Any) -> ScheduledFunction:
        calls.append(target.name)
        return other(func, target, **more)

    monkeypatch.setattr(fuzz.default_schedule.constants, "schedule_function", counted)
    names = ["haswell", "haswell", "apple-m1", "neoverse-n1"]
    reply = answer(3, ["elements", "interpreted", *names])
    assert reply["engines"] == names
    assert len(calls) < len(names)


def test_long_programs_are_left_out_and_not_counted(monkeypatch: Any) -> None:
    monkeypatch.setattr(fuzz.default_schedule.worker, "_STEPS", 3)
    monkeypatch.setattr(fuzz.default_schedule.worker, "_LONG", 0.0)
    reply = answer(3, ["contractions", "interpreted", "haswell", "apple-m1"])
    assert reply["found"] == {}
    assert reply["engines"] == []
    assert reply["kinds"] == ["too long"]
