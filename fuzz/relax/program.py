"""A random graph program: its module, its arguments, and its expected outcome."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loomir.interp.tir.scalar import value_of
from loomir.ir.module import IRModule
from loomir.relax import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.runtime.shape import Shape
from loomir.support.dtype import DataType, dtype_of_numpy, numpy_of

__all__ = ["EXACT", "Record", "RelaxProgram", "Tolerance", "values_differ", "wrongly_described"]

Tolerance = tuple[float, float]
"""Units in the last place, and an absolute difference, by which a float may differ."""
EXACT: Tolerance = (0.0, 0.0)


@dataclass(frozen=True)
class Record:
    """A value that the program computes, and what was derived of it."""

    name: str
    info: StructInfo
    value: Any
    sizes: dict[Any, Any]


@dataclass
class RelaxProgram:
    """A module whose ``main`` is called; ``tolerances`` has the form of its result.

    ``closure_args`` are the arguments of closures that it returns.
    """

    module: IRModule
    arguments: list[Any]
    tolerances: Any
    records: list[Record] = field(default_factory=list)
    closure_args: tuple[Any, ...] = ()
    exact: bool = False
    """Whether all engines compute the very same, whatever the arguments are."""
    made: list[str] = field(default_factory=list)
    """What the generator put in: operators and constructs."""
    refused: list[str] = field(default_factory=list)
    """What it tried in vain."""

    def fresh(self) -> list[Any]:
        """Copy the arguments."""
        return [copy.deepcopy(a) for a in self.arguments]


def wrongly_described(info: StructInfo, value: Any, sizes: dict[Any, Any]) -> str:
    """Say in what structural information is wrong about a value; empty where it is right."""
    if isinstance(info, TensorStructInfo):
        if not isinstance(value, np.ndarray):
            return f"{type(value).__name__} is no tensor"
        if info.ndim not in (-1, value.ndim):
            return f"rank {value.ndim}, not {info.ndim}"
        dtype = dtype_of_numpy(value.dtype)
        if not info.dtype.is_void and info.dtype is not dtype:
            return f"{dtype}, not {info.dtype}"
        if info.dims is not None and not isinstance(info.shape, type(None)):
            wanted = tuple(int(value_of(d, sizes)) for d in info.dims)
            return "" if wanted == value.shape else f"shape {value.shape}, not {wanted}"
        return ""
    if isinstance(info, TupleStructInfo):
        if not isinstance(value, tuple) or len(value) != len(info.fields):
            return f"{value!r} is no tuple of {len(info.fields)}"
        said = (wrongly_described(f, v, sizes) for f, v in zip(info.fields, value, strict=True))
        return next((s for s in said if s), "")
    if isinstance(info, ShapeStructInfo):
        if not isinstance(value, Shape) or info.ndim not in (-1, len(value)):
            return f"{value!r} is no shape of rank {info.ndim}"
        if info.values is not None:
            wanted = tuple(int(value_of(d, sizes)) for d in info.values)
            return "" if wanted == tuple(value) else f"shape {value}, not {wanted}"
        return ""
    if isinstance(info, PrimStructInfo):
        if numpy_of(info.dtype) != np.asarray(value).dtype:
            return f"{value!r} is no {info.dtype}"
        if info.value is not None and value_of(info.value, sizes) != value:
            return f"{value!r} is not {info.value}"
        return ""
    if isinstance(info, FuncStructInfo):
        return "" if callable(value) else f"{value!r} is no function"
    return "" if isinstance(info, ObjectStructInfo) else f"nobody knows {info}"


# -- comparing ---------------------------------------------------------------------------------
def values_differ(wanted: Any, got: Any, tolerance: Any, args: tuple[Any, ...] = ()) -> str:
    """Say how two results differ; empty where they agree. Closures are called with ``args``."""
    if isinstance(wanted, np.ndarray):
        return _arrays_differ(wanted, got, tolerance)
    if isinstance(wanted, tuple) and not isinstance(wanted, Shape):
        if type(got) is not type(wanted) or len(got) != len(wanted):
            return f"{got!r} instead of {wanted!r}"
        parts = tolerance if isinstance(tolerance, list) else [tolerance] * len(wanted)
        for index, (a, b, t) in enumerate(zip(wanted, got, parts, strict=True)):
            said = values_differ(a, b, t, args)
            if said:
                return f"field {index}: {said}"
        return ""
    if callable(wanted):
        if not callable(got):
            return f"{got!r} is no closure"
        return values_differ(
            wanted(*copy.deepcopy(args)), got(*copy.deepcopy(args)), tolerance, args
        )
    same = type(wanted) is type(got) and (wanted == got or (wanted != wanted and got != got))
    return "" if same else f"{got!r} instead of {wanted!r}"


def _arrays_differ(wanted: Any, got: Any, tolerance: Tolerance) -> str:
    if type(got) is not np.ndarray or got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{_kind(got)} instead of {_kind(wanted)}"
    if got.tobytes() == wanted.tobytes():
        return ""
    if not DataType(str(wanted.dtype)).is_float:
        bad = got != wanted
    else:
        bad = ~_near(wanted, got, tolerance)
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{got[at]!r} instead of {wanted[at]!r} at {list(at)}"


def _near(wanted: Any, got: Any, tolerance: Tolerance) -> Any:
    lost = np.isnan(wanted) & np.isnan(got)
    if tolerance == EXACT:
        return lost | (_bits(wanted) == _bits(got))
    ulps, absolute = tolerance
    near = np.abs(_order(wanted) - _order(got)) <= ulps
    with np.errstate(all="ignore"):
        near |= np.abs(wanted.astype("float64") - got.astype("float64")) <= absolute
    return np.asarray(near, bool) | lost


def _bits(array: Any) -> Any:
    return array.view(f"int{8 * array.itemsize}")


def _order(array: Any) -> Any:
    bits = _bits(array).astype(object)
    return np.where(bits < 0, -(bits & ((1 << (8 * array.itemsize - 1)) - 1)), bits)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return repr(value)
