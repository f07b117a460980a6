"""The text of programs, run as Python: blocks, inits, choices, conversions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fuzz.choices import SeedChoices
from fuzz.families.as_python import cast, run_as_python
from fuzz.families.cases import fresh, outcome
from fuzz.families.drafts import Draft
from fuzz.families.table import FAMILIES
from loomir.interp import interpret

WRITTEN = ("algorithms", "elements", "named", "reductions", "windows")
"""Families whose programs are judged by their text as Python."""

SUMS = """
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, b: T.Buffer((3,), "int32")):
        n = T.int64()
        A = T.match_buffer(a, (3, n), "int8")
        for i, k in T.grid(3, n):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.where(i < 2)
                with T.init():
                    b[vi] = T.int32(100)
                b[vi] += T.Cast("int32", T.if_then_else(vk > 0, A[vi, vk - 1], T.int8(1)))
"""


def test_a_block_starts_where_its_sum_starts_and_choices_are_lazy() -> None:
    a, b = np.full((3, 4), -2, "int8"), np.full(3, 7, "int32")
    run_as_python(SUMS, "main", (a, b))
    np.testing.assert_array_equal(b, [95, 95, 7])


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        ("int8", np.int32(300), 44),
        ("uint8", np.int8(-1), 255),
        ("int32", np.float32("inf"), 2**31 - 1),
        ("int16", np.float64("nan"), 0),
        ("uint16", np.float32(-3.5), 0),
        ("float32", np.int64(2**24 + 1), 2.0**24),
        ("bfloat16", np.float64(1 + 2.0**-8 + 2.0**-40), 1 + 2.0**-7),
        ("bfloat16", np.float64(1 + 2.0**-8), 1.0),
        ("float16", np.int64(2**60), np.inf),
        ("bool", np.float32(0.5), True),
    ],
)
def test_conversions_are_those_of_programs(dtype: str, value: Any, wanted: Any) -> None:
    with np.errstate(over="ignore"):
        made = cast(dtype, value)
    assert made == wanted
    assert np.dtype(type(made)).name == dtype


def test_a_number_between_two_is_rounded_once() -> None:
    for real in np.random.default_rng(1).standard_normal(2_000):
        made = float(cast("bfloat16", real))
        steps = [float(ml_dtypes.bfloat16(made * (1 + s * 2.0**-7))) for s in (-1, 0, 1)]
        assert min(abs(s - real) for s in steps) == abs(made - real)


def test_sizes_without_an_array_of_their_own_are_passed() -> None:
    draft = Draft(SeedChoices(1), symbolic=1.0)
    size, other = draft.dim(3), draft.dim(2)
    a = draft.argument("A", "int32", [size + other])
    draft.line(draft.loop(0, "i", size), f"{a.at('i')} = T.int32(1)")
    case = draft.case("drafts", 0)
    assert case.arguments[1:] == (3, 2)
    np.testing.assert_array_equal(case.expected[0], [1, 1, 1, 55, 55])


@pytest.mark.parametrize("family", WRITTEN)
@pytest.mark.parametrize("seed", range(100, 106))
def test_python_and_the_interpreter_agree(family: str, seed: int) -> None:
    case = FAMILIES[family](seed)
    arguments = [fresh(argument) for argument in case.arguments]
    interpret(case.module, case.entry, *arguments)
    assert outcome(case, arguments) == ""
