"""Shared rules for axes, extents and dtypes, and how they refuse arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any, cast

from loomir.arith.fold import mul
from loomir.ir.module import VDevice
from loomir.relax.expr import Call, Constant
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.rules import need
from loomir.relax.shape import Dim, as_dim
from loomir.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from loomir.support.diagnostics import with_count
from loomir.support.dtype import VOID, DataType
from loomir.tir.expr import IntImm, PrimExpr

__all__ = [
    "as_floats",
    "common_extent",
    "dims_of",
    "find_common_dtype",
    "find_known_tensor",
    "find_shared_device",
    "format_dim",
    "holds",
    "integers",
    "is_one",
    "must_equal",
    "need_rank",
    "normalize_axes",
    "number_of",
    "product",
    "values_of",
]


# -- extents -------------------------------------------------------------------------------------
def number_of(dim: Dim) -> int | None:
    """Return an extent as a number, None if it is symbolic."""
    if isinstance(dim, int):
        return dim
    return dim.value if isinstance(dim, IntImm) else None


def is_one(dim: Dim) -> bool:
    """Whether an extent is the number 1."""
    return number_of(dim) == 1


def product(dims: Iterable[Dim]) -> PrimExpr:
    """Multiply extents."""
    made = as_dim(1)
    for dim in dims:
        made = mul(made, as_dim(dim))
    return made


def format_dim(dim: Dim) -> str:
    """Write an extent, a number without its dtype."""
    number = number_of(dim)
    return str(dim if number is None else number)


def dims_of(info: Any) -> list[Any]:
    """Return the extents that were inferred for a result, those that are known as numbers."""
    dims = cast("TensorStructInfo", info).dims
    assert dims is not None, "a result of unknown extents is not lowered"
    return [d.value if isinstance(d, IntImm) else d for d in dims]


def common_extent(a: Dim, b: Dim) -> PrimExpr:
    """Return the plainer of two extents that are equal: a number where one is."""
    return as_dim(b) if number_of(a) is None and number_of(b) is not None else as_dim(a)


def must_equal(c: OpContext, a: Dim, b: Dim, what: str, *, arg: int | None = None) -> None:
    """Refuse extents that are certain to differ. Errors: OPS0032."""
    if c.equal(a, b) is False:
        c.refuse(
            "OPS0032",
            f"{what} are {format_dim(a)} and {format_dim(b)}",
            help="give tensors whose extents are equal there",
            arg=arg,
        )


# -- axes ----------------------------------------------------------------------------------------
def normalize_axes(
    c: OpContext, axes: Sequence[int], rank: int, *, arg: int = 0, extra: int = 0
) -> tuple[int, ...]:
    """Return axes counted from 0, each named once. Errors: OPS0005, OPS0031."""
    made = tuple(c.axis(axis, rank, arg=arg, extra=extra) for axis in axes)
    if len(set(made)) < len(made):
        twice = next(axis for axis in made if made.count(axis) > 1)
        c.refuse(
            "OPS0031",
            f"axis {twice} is named twice in {tuple(axes)}",
            help="name each axis once; negative ones count from the end",
            arg=arg,
        )
    return made


def need_rank(c: OpContext, index: int, *ranks: int, least: int = 0) -> TensorStructInfo:
    """Return what is known of a tensor that must be of one of ``ranks``, or of a rank of ``least``.

    Errors: OPS0004, OPS0030.
    """
    info = c.tensor(index)
    fits = info.ndim in ranks if ranks else info.ndim >= least
    if info.ndim >= 0 and not fits:
        wanted = " or ".join(map(str, ranks)) if ranks else f"{least} or more"
        c.refuse(
            "OPS0030",
            f"argument {index + 1} has {with_count(info.ndim, 'axis', 'axes')}, not {wanted}",
            help="reshape it, or insert axes with R.expand_dims",
            arg=index,
        )
    return info


# -- dtypes --------------------------------------------------------------------------------------
def find_common_dtype(c: OpContext, infos: Sequence[TensorStructInfo]) -> DataType:
    """Return the dtype that tensors share, ``void`` where none is known. Errors: OPS0006."""
    found = VOID
    for info in infos:
        if not info.dtype.is_void and not found.is_void and info.dtype is not found:
            c.refuse(
                "OPS0006",
                f"the tensors are {found} and {info.dtype}",
                help=f"convert one, as in R.astype(x, {str(found)!r}): nothing is promoted",
            )
        if found.is_void:
            found = info.dtype
    return found


def integers(c: OpContext, index: int) -> TensorStructInfo:
    """Return what is known of a tensor of integers. Errors: OPS0004, OPS0007."""
    info = c.tensor(index)
    need(c, "integer", info.dtype, index)
    return info


def find_shared_device(infos: Iterable[TensorStructInfo]) -> VDevice | None:
    """Return the first device that is known."""
    return next((i.vdevice for i in infos if i.vdevice is not None), None)


def holds(dtype: DataType, value: float) -> bool:
    """Tell whether a dtype holds a number, which is rounded for a float."""
    if dtype.is_float:
        return not isfinite(value) or abs(value) <= dtype.max_finite
    if dtype.is_bool:
        return value in (0, 1)
    return float(value).is_integer() and dtype.min_value <= value <= dtype.max_value


# -- options -------------------------------------------------------------------------------------
_WORDS = ("inf", "-inf", "nan")


def as_floats(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Make what is given for some options floats, so that 1 and 1.0 make the same program.

    Integers that are no floats stay. What is not finite may be written as a word, ``"-inf"``.
    """

    def adapt(given: dict[str, Any]) -> dict[str, Any]:
        made = dict(given)
        for name in names:
            value = made.get(name)
            if (isinstance(value, str) and value in _WORDS) or (
                type(value) is int and abs(value) <= 2**53
            ):
                made[name] = float(value)
        return made

    return adapt


# -- values --------------------------------------------------------------------------------------
def values_of(c: OpContext, index: int) -> tuple[PrimExpr | None, ...] | None:
    """Return the scalars of a tuple, None if one is unknown, or where their number is.

    Errors: OPS0004 for what is not a tuple of scalars.
    """
    info = c.args[index]
    if isinstance(info, TupleStructInfo):
        found: list[PrimExpr | None] = []
        for field in info.fields:
            if isinstance(field, TensorStructInfo):
                break
            value = field.value if isinstance(field, PrimStructInfo) else None
            found.append(None if value is None else as_dim(value))
        else:
            return tuple(found)
    elif not isinstance(info, TensorStructInfo):
        return None
    c.refuse(
        "OPS0004",
        f"argument {index + 1} is not a tuple of scalars",
        help="give a tuple of integers, as in (0, n)",
        arg=index,
    )


def find_known_tensor(call: Call, index: int) -> TensorStructInfo | None:
    """Return what is known of an argument of a call in normal form, where that is a tensor."""
    arg = call.args[index]
    if isinstance(arg, Constant):
        return arg.struct_info
    info = getattr(arg, "struct_info_annotation", None)
    return info if isinstance(info, TensorStructInfo) else None
