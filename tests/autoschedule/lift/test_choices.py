"""Choices by comparison become combiners, which say what the program says of NaN and of zeros."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.ir.stage import Combine
from loomir.autoschedule.lift.lift_function import lift_function
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import interpret_kinds, read_function
from tests.autoschedule.rules.reduction.test_ordered_sums import exactly

SPECIAL = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0], "float32")


def kernel(update: str, dtype: str = "float32") -> PrimFunc:
    func = from_source(f"""
from loomir.script import tir as T
@T.prim_func
def main(x: T.Buffer((40, 70), "{dtype}"), o: T.Buffer((40,), "{dtype}")):
    for i in range(40):
        o[i] = x[i, 0]
        for k in range(70):
            {update}
""")
    assert isinstance(func, PrimFunc)
    return func


CHOICES = [
    ("if x[i, k] > o[i]:\n                o[i] = x[i, k]", Combine.GREATER),
    ("if o[i] <= x[i, k]:\n                o[i] = x[i, k]", Combine.NOT_LESS),
    ("o[i] = T.Select(x[i, k] < o[i], x[i, k], o[i])", Combine.LESS),
    ("o[i] = T.if_then_else(o[i] >= x[i, k], x[i, k], o[i])", Combine.NOT_GREATER),
]


@pytest.mark.parametrize(("update", "combine"), CHOICES)
def test_floats_are_compared_as_the_program_says(update: str, combine: Combine) -> None:
    func = kernel(update)
    stages = lift_function(func).parts
    assert [getattr(stage, "combine", None) for stage in stages] == [combine]
    assert not stages[0].free_order  # type: ignore[union-attr]
    made = schedule_function(func, Target("haswell"))
    assert [plan.kind for plan in made.plans] == ["reduction"]
    x = np.random.default_rng(1).choice(SPECIAL, (40, 70))
    found = []
    for way in (True, False):
        out = np.zeros(40, "float32")
        loomir.compile(func, schedule=way)(x, out)
        found.append(out.view("int32"))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("update", "combine"), CHOICES)
def test_integers_have_a_maximum(update: str, combine: Combine) -> None:
    (stage,) = lift_function(kernel(update, "int32")).parts
    greatest = combine in (Combine.GREATER, Combine.NOT_LESS)
    assert stage.combine is (Combine.MAX if greatest else Combine.MIN)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "update",
    [
        "if x[i, k] > T.float32(0):\n                o[i] = x[i, k]",
        "o[i] = T.Select(o[i] > x[i, k], x[i, 0], o[i])",
        "o[i] = T.Select(x[i, k] > o[i], o[i], x[i, k])",
    ],
)
def test_other_choices_stay_as_they_are(update: str) -> None:
    (part,) = lift_function(kernel(update)).parts
    assert not hasattr(part, "combine")


def test_code_that_a_pass_of_llvm_breaks_is_compiled_without_it() -> None:
    """LLVM 22 used a vector of these stores before it was defined, and ended the process."""
    func = from_source("""
from loomir.script import tir as T
@T.prim_func
def main(x: T.Buffer((11, 17), "float32"), o: T.Buffer((11,), "float32")):
    for i in range(11):
        top = T.min_value("float32")
        for k in range(17):
            if x[i, k] > top:
                top = x[i, k]
        o[i] = top
""")
    assert isinstance(func, PrimFunc)
    x, out = np.random.default_rng(2).random((11, 17), "float32"), np.zeros(11, "float32")
    loomir.compile(func, "x86-64")(x, out)
    np.testing.assert_array_equal(out, x.max(1))


GUARDED = [
    (f"if {{guard}}:\n                {update}", combine)
    for update, combine in [
        ("o[i] = T.max(o[i], x[i, k])", Combine.MAX),
        ("o[i] = T.min(x[i, k], o[i])", Combine.LAST_MIN),
        ("if x[i, k] > o[i]:\n                    o[i] = x[i, k]", Combine.GREATER),
        ("if x[i, k] >= o[i]:\n                    o[i] = x[i, k]", Combine.NOT_LESS),
        ("if x[i, k] < o[i]:\n                    o[i] = x[i, k]", Combine.LESS),
        ("o[i] = T.Select(x[i, k] <= o[i], x[i, k], o[i])", Combine.NOT_GREATER),
    ]
]


GUARDS = ["k > 2 and k + i < 60", "x[k % 40, i] > 0.5", "i > 50"]


@pytest.mark.parametrize(
    ("update", "combine", "guard"),
    [(*way, GUARDS[place % 3]) for place, way in enumerate(GUARDED)],
)
def test_updates_behind_a_condition(update: str, combine: Combine, guard: str) -> None:
    """Terms that a condition leaves out are infinities, which replace nothing, NaN neither."""
    func = kernel(update.format(guard=guard))
    (stage,) = lift_function(func).parts
    assert getattr(stage, "combine", None) is combine
    x = np.random.default_rng(2).choice(SPECIAL, (40, 70))
    assert np.isnan(x[:, 0]).any()
    exactly(func, x, np.zeros(40, "float32"), targets=("native",))


def test_maxima_within_borders_are_windows() -> None:
    func = from_source("""
from loomir.script import tir as T
@T.prim_func
def main(p: T.Buffer((20, 40), "float32"), o: T.Buffer((20, 40), "float32")):
    for y, x in T.grid(20, 40):
        top = T.float32(-1e30)
        for a, b in T.grid(3, 3):
            if y + a >= 1 and y + a <= 20 and x + b >= 1 and x + b <= 40:
                v = p[y + a - 1, x + b - 1]
                if v > top:
                    top = v
        o[y, x] = top
""")
    assert isinstance(func, PrimFunc)
    p = np.random.default_rng(3).choice(SPECIAL, (20, 40)).astype("float32")
    assert exactly(func, p, np.zeros_like(p), targets=("native",)) == ["windows"]


def test_truth_values_are_compared_in_order() -> None:
    func = read_function(
        'x: T.Buffer((6, 8), "bool"), o: T.Buffer((6,), "bool")',
        """
for i, k in T.grid(6, 8):
    if x[i, k] > o[i]:
        o[i] = x[i, k]
""",
    )
    (part,) = lift_function(func).parts
    assert not hasattr(part, "combine")
    x = np.random.default_rng(5).random((6, 8)) < 0.2
    assert interpret_kinds(func, [x, np.zeros(6, "bool")]) == []
