"""Check the shapes, axes and dtypes that operators get, and refuse what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import mul
from typing import Any, NoReturn, TypeAlias

from loomir.arith.analyzer import Analyzer
from loomir.support.caller_span import user_span
from loomir.support.diagnostics import with_count
from loomir.support.dtype import DataType
from loomir.te.operation import compute, is_same_size
from loomir.te.tensor import Tensor
from loomir.tir.expr import FloatImm, IntImm, PrimExpr, Var, cast, const, convert
from loomir.tir.rules import refuse

__all__ = [
    "Axes",
    "Size",
    "as_axes",
    "as_axis",
    "bad",
    "broadcast_shapes",
    "compute_dtype",
    "dims",
    "has_equal_sizes",
    "make",
    "need",
    "product",
    "read",
    "refuse_shapes",
    "size",
    "widen",
    "write_shape",
]

Size: TypeAlias = int | PrimExpr
"""An extent: a number where it is known, so that formulas of sizes are numbers too."""
Axes: TypeAlias = int | Sequence[int] | None

_PLAIN = (IntImm, Var)
_FLOAT32 = DataType("float32")


def size(extent: Size) -> Size:
    """Return an extent as a number where it is one."""
    return extent.value if isinstance(extent, IntImm) else extent


def dims(x: Tensor) -> list[Size]:
    """Return the extents of a tensor."""
    return [size(e) for e in x.shape]


def product(sizes: Iterable[Size]) -> Size:
    """Multiply extents."""
    known, unknown = 1, list[PrimExpr]()
    for s in sizes:
        if isinstance(s, int):
            known *= s
        else:
            unknown.append(s)
    if not unknown or known == 0:
        return known
    made = reduce(mul, unknown)
    return made if known == 1 else made * known


def has_equal_sizes(a: Size, b: Size) -> bool:
    """Tell whether two extents are certainly the same."""
    x, y = convert(a), convert(b)
    if is_same_size(x, y):
        return True
    plain = isinstance(x, _PLAIN) and isinstance(y, _PLAIN)
    return not plain and Analyzer().can_prove_equal(x, y)


def make(name: str, shape: Sequence[Size], formula: Callable[..., Any]) -> Any:
    """Compute a tensor of an operator."""
    return compute(tuple(shape), formula, name=name)


def bad(name: str, message: str, help: str) -> NoReturn:  # named after the diagnostic's field
    """Refuse a parameter of an operator. Errors: TE0104."""
    refuse("TE0104", f"{name}: {message}", help=help, span=user_span())


# -- axes --------------------------------------------------------------------------------------
def as_axis(name: str, axis: int, ndim: int) -> int:
    """Return the number of an axis, which may count from the end. Errors: TE0102."""
    if -ndim <= axis < ndim:
        return axis % ndim
    has = f"one of {-ndim} to {ndim - 1}" if ndim else "none, for a tensor of no axes"
    refuse(
        "TE0102",
        f"{name}: axis {axis} is outside of a tensor of {with_count(ndim, 'axis', 'axes')}",
        help=f"give {has}",
        span=user_span(),
    )


def as_axes(name: str, axis: Axes, ndim: int) -> tuple[int, ...]:
    """Return the numbers of axes in order, all of them for None. Errors: TE0102."""
    if axis is None:
        return tuple(range(ndim))
    given = [axis] if isinstance(axis, int) else list(axis)
    made = sorted(as_axis(name, a, ndim) for a in given)
    if len(set(made)) < len(made):
        refuse(
            "TE0102",
            f"{name}: an axis is named twice in {tuple(given)}",
            help="name each axis once; negative ones count from the end",
            span=user_span(),
        )
    return tuple(made)


# -- dtypes ------------------------------------------------------------------------------------
_KINDS: dict[str, Callable[[DataType], bool]] = {
    "float": lambda d: d.is_float,
    "integer": lambda d: d.is_integer,
    "number": lambda d: d.is_float or d.is_integer,
    "bool": lambda d: d.is_bool,
    "bits": lambda d: d.is_integer or d.is_bool,
}
_HELP = {
    "float": 'convert by topi.cast(x, "float32")',
    "integer": 'convert by topi.cast(x, "int32")',
    "number": 'convert by topi.cast(x, "int32")',
    "bool": 'compare first, or convert by topi.cast(x, "bool")',
    "bits": 'convert by topi.cast(x, "int32")',
}


def need(name: str, kind: str, *tensors: Tensor) -> None:
    """Require that tensors have one dtype, of a given kind. Errors: TE0103."""
    first = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype is not first:
            refuse(
                "TE0103",
                f"{name}: the tensors are {' and '.join(str(t.dtype) for t in tensors)}",
                help="convert them to one dtype by topi.cast",
                span=user_span(),
            )
    if kind != "any" and not _KINDS[kind](first):
        refuse(
            "TE0103",
            f"{name} takes {kind if kind == 'bits' else kind + 's'}, not {first}",
            help=_HELP[kind],
            span=user_span(),
        )


def compute_dtype(dtype: DataType) -> DataType:
    """Return dtype to compute in: floats of 16 bits are computed in float32 and rounded once."""
    return _FLOAT32 if dtype.is_float and dtype.bits == 16 else dtype


def refuse_shapes(name: str, *shapes: Sequence[Size]) -> NoReturn:
    """Refuse shapes that do not go together. Errors: TE0101."""
    refuse(
        "TE0101",
        f"{name}: shapes {' and '.join(map(write_shape, shapes))} do not fit each other",
        help="give extents that are equal, or 1 as a number where that is repeated",
        span=user_span(),
    )


def write_shape(shape: Sequence[Size]) -> str:
    """Write a shape as Python writes tuples."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


# -- broadcasting ------------------------------------------------------------------------------
def broadcast_shapes(name: str, *shapes: Sequence[Size]) -> list[Size]:
    """Return the shape that shapes broadcast to, aligned at their ends. Errors: TE0101."""
    ndim = max((len(s) for s in shapes), default=0)
    made: list[Size] = []
    for axis in range(ndim):
        here = [s[axis - ndim + len(s)] for s in shapes if axis - ndim + len(s) >= 0]
        wide = [s for s in here if not (isinstance(s, int) and s == 1)]
        made.append(wide[0] if wide else 1)
        if any(not has_equal_sizes(s, wide[0]) for s in wide[1:]):
            refuse_shapes(name, *shapes)
    return made


def read(x: Tensor, indices: Sequence[PrimExpr]) -> PrimExpr:
    """Read the element that stands at ``indices`` once ``x`` is broadcast to their number."""
    own = indices[len(indices) - x.ndim :]
    at = [0 if d == 1 and isinstance(d, int) else i for d, i in zip(dims(x), own, strict=True)]
    return x(*at)


def widen(value: PrimExpr) -> PrimExpr:
    """Return a value in the dtype to compute in."""
    wide = compute_dtype(value.dtype)
    return const(value.value, wide) if isinstance(value, FloatImm) else cast(value, wide)
