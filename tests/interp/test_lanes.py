"""Operators on vectors give what the operator on scalars gives, lane by lane."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from loomir.interp.arithmetic import binary_function
from loomir.interp.lanes import lanewise
from loomir.interp.rational import EXACT
from loomir.support.dtype import DataType
from loomir.tir.expr import Add, Max, Min, Mul, Sub

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _same(found: Any, wanted: Any) -> bool:
    both_nan = found != found and wanted != wanted
    signs = type(found) is not float or math.copysign(1, found) == math.copysign(1, wanted)
    return both_nan or (type(found) is type(wanted) and found == wanted and signs)


def _lanes_of(dtype: DataType) -> list[Any]:
    if not dtype.is_float:
        least, most = dtype.min_value, dtype.max_value
        return [0, 1, least, most, least + 1, most - 1, most // 3, 77]
    beyond = [math.inf, -math.inf, math.nan, 60000.0, 2.0**-24]
    return [0.0, -0.0, -2.0 if dtype.bits == 16 else -(2.0**127), *beyond]


@pytest.mark.parametrize("kind", [Add, Sub, Mul, Min, Max])
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int64", "uint64", *_FLOATS])
def test_vectors_are_computed_lane_by_lane(kind: type, name: str) -> None:
    dtype = DataType(name)
    lanes = _lanes_of(dtype)
    function = binary_function(kind, dtype)
    for turn in range(len(lanes)):
        others = lanes[turn:] + lanes[:turn]
        vector = lanewise(kind, dtype.with_lanes(len(lanes)), function, exact=False)
        found = vector(tuple(lanes), tuple(others))
        wanted = [function(a, b) for a, b in zip(lanes, others, strict=True)]
        assert all(map(_same, found, wanted)), (found, wanted)


@pytest.mark.parametrize("kind", [Add, Sub, Mul, Min, Max])
def test_vectors_of_numbers_are_not_rounded(kind: type) -> None:
    dtype = DataType("float32")
    lanes = [3, 2**70 + 1, Fraction(1, 3), -5, math.inf, math.nan, -math.inf, 0]
    function = EXACT.binary(kind, dtype)
    for turn in range(len(lanes)):
        others = lanes[turn:] + lanes[:turn]
        vector = lanewise(kind, dtype.with_lanes(len(lanes)), function, exact=True)
        found = vector(tuple(lanes), tuple(others))
        wanted = [function(a, b) for a, b in zip(lanes, others, strict=True)]
        assert all(map(_same, found, wanted)), (found, wanted)


def test_a_range_is_a_vector() -> None:
    """Ramps are ranges, which are added up and multiplied like other vectors."""
    dtype = DataType("int32")
    vector = lanewise(Mul, dtype.with_lanes(4), binary_function(Mul, dtype), exact=False)
    assert vector(range(3, 11, 2), (2, 2, 2, 2)) == (6, 10, 14, 18)
