"""A generated program with everything that is needed to run it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fuzz.choices import Choices
from loomir.interp.values import pack, rounder
from loomir.ir.module import IRModule
from loomir.support.dtype import DataType, numpy_of

INPUTS = ("random", "special", "equal")
"""How arguments are filled: from everywhere, with the corners of their dtype, all alike."""

__all__ = ["INPUTS", "ArraySpec", "Program", "ScalarSpec", "values_of"]


@dataclass(frozen=True)
class ArraySpec:
    """An array argument; what holds it is larger where it is strided or offset."""

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    steps: tuple[int, ...] = ()
    """Elements of the larger array per element, by axis; empty means that the array is compact."""
    offset: int = 0
    tolerance: int = 0
    """Units in the last place by which engines may differ here."""


@dataclass(frozen=True)
class ScalarSpec:
    """A number argument."""

    name: str
    dtype: DataType
    low: int | None = None
    high: int | None = None


@dataclass
class Program:
    """A module, the function to call, and its arguments."""

    module: IRModule
    entry: str
    arguments: list[ArraySpec | ScalarSpec]
    may_fail: bool
    """Whether a run-time error is a possible meaning; then arrays are not compared after one."""
    notes: dict[str, int] = field(default_factory=dict)

    def make_arguments(self, choices: Choices, how: str = "random") -> list[Any]:
        """Make fresh arguments; the same decisions give the same values."""
        return [fresh() for fresh in self.drawn(choices, how)]

    def drawn(self, choices: Choices, how: str) -> list[Callable[[], Any]]:
        """Draw the values of arguments once; each call of what this gives makes them anew."""
        made: list[Callable[[], Any]] = []
        for spec in self.arguments:
            if isinstance(spec, ScalarSpec):
                made.append(partial(_itself, _scalar(choices, spec, how)))
            else:
                made.append(_array(choices, spec, how))
        return made


def _itself(value: Any) -> Any:
    return value


def _scalar(choices: Choices, spec: ScalarSpec, how: str) -> Any:
    if spec.low is not None and spec.high is not None:
        return choices.integer(spec.low, spec.high)
    return values_of(choices, spec.dtype, 1, how)[0]


def _array(choices: Choices, spec: ArraySpec, how: str) -> Callable[[], Any]:
    """Fill an array; one that is not compact is a view of a larger one."""
    steps = spec.steps or (1,) * len(spec.shape)
    whole = [e * abs(s) for e, s in zip(spec.shape, steps, strict=True)]
    count = math.prod(whole) + spec.offset
    flat = np.array(values_of(choices, spec.dtype, count, how), numpy_of(spec.dtype))
    part = (..., *(slice(None, None, s) for s in steps))

    def view() -> Any:
        return flat.copy()[spec.offset :].reshape(whole)[part]

    return view


def _special(dtype: DataType) -> list[Any]:
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        tiny = 5e-324 if dtype.bits == 64 else 2.0 ** -(133 if dtype.is_bfloat else 140)
        if dtype.bits == 16 and not dtype.is_bfloat:
            tiny = 2.0**-24
        limit = dtype.max_finite
        return [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            math.inf,
            -math.inf,
            math.nan,
            tiny,
            -tiny,
            limit,
            -limit,
        ]
    low, high = dtype.min_value, dtype.max_value
    return [0, 1, low, high, high - 1, low + 1, -1 if dtype.is_int else 2, 7, high // 2]


def values_of(choices: Choices, dtype: DataType, count: int, how: str) -> list[Any]:
    """Draw values of a scalar dtype."""
    if how == "equal":
        return values_of(choices, dtype, 1, "special" if choices.chance(0.5) else "random") * count
    special = _special(dtype)
    made: list[Any] = []
    for _ in range(count):
        if how == "special" and choices.chance(0.8):
            made.append(choices.pick(special))
        elif dtype.is_bool:
            made.append(choices.chance(0.5))
        elif not dtype.is_float:
            small = choices.chance(0.5)
            low = max(dtype.min_value, -20) if small else dtype.min_value
            high = min(dtype.max_value, 20) if small else dtype.max_value
            made.append(choices.integer(low, high))
        else:
            x = choices.integer(-4000, 4000) / choices.pick([1, 3, 16, 1000])
            made.append(rounder(dtype)(x))
    return made


def bits_of(array: Any, dtype: DataType) -> bytes:
    """Return the bytes of an array with every NaN made the same."""
    if not dtype.is_float:
        return bytes(np.ascontiguousarray(array).tobytes())
    flat = np.ascontiguousarray(array).copy()
    flat[np.isnan(flat.astype(np.float64))] = np.nan
    return bytes(flat.tobytes())


def same_scalar(a: Any, b: Any, dtype: DataType) -> bool:
    """Whether two results are the same, all NaNs equal."""
    if a is None or b is None:
        return a is b
    if dtype.is_float:
        return (a != a and b != b) or pack(float(a), dtype) == pack(float(b), dtype)
    return bool(a == b)
