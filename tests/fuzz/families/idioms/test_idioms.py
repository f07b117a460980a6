"""Idioms of every form: right as they are written, and as machine code of any CPU of the machine."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from fuzz.default_schedule.worker import runs_here
from fuzz.families.cases import Case
from fuzz.families.idioms.idioms import draw
from fuzz.families.idioms.values import Value, cast, popcount, smaller, truncated_quotient
from fuzz.schedules import TARGETS
from loomir.interp import interpret


def holds(case: Case, arguments: tuple[Any, ...]) -> None:
    for found, wanted in zip(arguments, case.expected, strict=True):
        if wanted is not None:
            kind = "float64" if wanted.dtype == ml_dtypes.bfloat16 else wanted.dtype
            np.testing.assert_array_equal(found.astype(kind), wanted.astype(kind))


@pytest.mark.parametrize("seed", range(40))
def test_numpy_and_the_interpreter_agree_on_what_is_written(seed: int) -> None:
    case, again = draw(seed), draw(seed)
    assert case.module.script() == again.module.script()
    interpret(case.module, case.entry, *case.arguments)
    holds(case, case.arguments)


@pytest.mark.parametrize("seed", range(1_000, 1_040))
def test_machine_code_agrees(seed: int) -> None:
    """Those of the CPUs take turns whose code runs on the machine at hand."""
    names = ("native", *(name for name in TARGETS if runs_here(name)))
    case = draw(seed)
    exe = loomir.compile(case.module, names[seed % len(names)], cache=False)
    exe[case.entry](*case.arguments)
    holds(case, case.arguments)


def value(numbers: list[float], dtype: str) -> Value:
    return Value(dtype, "x", np.array(numbers, dtype))


def test_the_judge_converts_as_the_language_does() -> None:
    nan, inf = float("nan"), float("inf")
    saturated = cast(value([300.0, -5.0, 255.9, -0.5, nan, inf], "float32"), "uint8").array
    assert saturated.tolist() == [255, 0, 255, 0, 0, 255]
    assert cast(value([2.0**63, -(2.0**64)], "float64"), "int64").array.tolist() == [
        2**63 - 1,
        -(2**63),
    ]
    near = cast(
        value([1 + 2**-8 + 2**-40, 1 + 2**-8, 1 + 3 * 2**-8 - 2**-40], "float64"), "bfloat16"
    )
    assert near.array.astype(float).tolist() == [1 + 2**-7, 1.0, 1 + 2**-7]
    assert near.array.dtype == ml_dtypes.bfloat16
    large = Value("uint64", "x", np.array([2**63 + 2**55, 2**63 + 2**55 + 1], "uint64"))
    assert cast(large, "bfloat16").array.astype(float).tolist() == [2.0**63, 2.0**63 + 2.0**56]


def test_the_judge_divides_counts_and_compares() -> None:
    x = value([-7, 7, -128, 127], "int8")
    assert truncated_quotient(x, 2).array.tolist() == [-3, 3, -64, 63]
    assert popcount(x).array.tolist() == [6, 3, 1, 7]
    zeros = smaller(value([0.0, -0.0, 1.0], "float32"), value([-0.0, 0.0, float("nan")], "float32"))
    assert np.signbit(zeros.array)[:2].tolist() == [False, True]
    assert np.isnan(zeros.array[2])
