"""Index the operands and the result of a product by row, column and depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm64, mul, product, sub
from loomir.autoschedule.ir.stage import Axis
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class
from loomir.support.dtype import DataType
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Cast, FloorDiv, FloorMod, IntImm, Min, PrimExpr, Ramp, Var, cast
from loomir.tir.stmt import LetStmt, Stmt

__all__ = [
    "ceil_div",
    "conversions",
    "convert",
    "extent_of",
    "is_contiguous_along",
    "let",
    "load_under_casts",
    "minimum",
    "ramp",
    "ravel",
    "size_of",
    "stride_along",
    "unravel",
]


def extent_of(axes: Sequence[Axis]) -> PrimExpr:
    """Return the number of values that axes take together."""
    return product(axis.extent for axis in axes)


def size_of(axes: Sequence[Axis]) -> int | None:
    """Return the number of values, where it is known."""
    extent = extent_of(axes)
    return extent.value if isinstance(extent, IntImm) else None


def ceil_div(size: PrimExpr, step: int) -> PrimExpr:
    """Count the steps that cover ``size``."""
    if isinstance(size, IntImm):
        return imm64(-(-size.value // step))
    return size if step == 1 else FloorDiv(add(size, imm64(step - 1)), imm64(step))


def minimum(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return the lesser of two sizes."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a if a.value <= b.value else b
    return Min(a, b)


def unravel(axes: Sequence[Axis], index: PrimExpr) -> dict[Var, PrimExpr]:
    """Delinearize an index over axes, the last axis fastest."""
    table: dict[Var, PrimExpr] = {axis.var: imm64(0) for axis in axes if axis.size == 1}
    left = [axis for axis in axes if axis.size != 1]
    for axis in reversed(left[1:]):
        table[axis.var] = FloorMod(index, axis.extent)
        index = FloorDiv(index, axis.extent)
    if left:
        table[left[0].var] = index
    return table


def let(name: str, value: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Bind a name to a value, unless it is a constant or a name already."""
    if isinstance(value, (IntImm, Var)):
        return body(value)
    var = Var(name, value.dtype)
    return LetStmt(var, value, body(var))


def ramp(start: PrimExpr, lanes: int) -> PrimExpr:
    """Return the indices of ``lanes`` neighbours."""
    return start if lanes == 1 else Ramp(start, imm64(1), lanes)


def load_under_casts(factor: PrimExpr) -> BufferLoad | None:
    """Find the load under a chain of casts; None for other factors."""
    while isinstance(factor, Cast):
        factor = factor.value
    return factor if isinstance(factor, BufferLoad) else None


def conversions(factor: PrimExpr) -> list[DataType]:
    """List the dtypes that a load is converted to, one after the other."""
    found: list[DataType] = []
    while isinstance(factor, Cast):
        found.append(factor.dtype)
        factor = factor.value
    return found[::-1]


def convert(value: PrimExpr, dtypes: Sequence[DataType]) -> PrimExpr:
    """Cast a scalar or a vector to dtypes, one after the other."""
    for dtype in dtypes:
        value = cast(value, dtype.with_lanes(value.dtype.lanes))
    return value


def is_contiguous_along(factor: PrimExpr, axes: Sequence[Axis]) -> bool:
    """Whether a factor is contiguous along the only one of ``axes`` that is not of extent 1."""
    load = load_under_casts(factor)
    many = [axis for axis in axes if axis.size != 1]
    if load is None or not load.indices or len(many) != 1:
        return False
    outer = BufferLoad(load.buffer, (*load.indices[:-1], imm64(0)))
    return stride_along(factor, many) == 1 and stride_along(outer, many) == 0


def stride_along(factor: PrimExpr, axes: Sequence[Axis]) -> int | None:
    """Compute the stride of a factor along the last of ``axes``; 1 is contiguous.

    None if that differs from place to place, or between the arrays of a factor.
    """
    last = next((axis for axis in reversed(axes) if axis.size != 1), None)
    if last is None:
        return 0
    loads: list[BufferLoad] = by_class(factor).get(BufferLoad, [])
    found = {_stride(load, last.var) for load in loads} - {0}
    if len(found) > 1:
        return None
    return next(iter(found), 0)


def _stride(load: BufferLoad, var: Var) -> int | None:
    step: Mapping[Var, PrimExpr] = {var: add(var, imm64(1))}
    analyzer = Analyzer()
    total, scale = 0, 1
    shape, strides = load.buffer.shape, load.buffer.strides
    for axis in reversed(range(len(shape))):
        index = load.indices[axis]
        moved = analyzer.simplify(sub(substitute(index, step), index))
        if not isinstance(moved, IntImm):
            return None
        if strides:
            given = strides[axis]
            if moved.value and not isinstance(given, IntImm):
                return None
            total += moved.value * (given.value if isinstance(given, IntImm) else 0)
        elif moved.value:
            if scale is None:
                return None
            total += moved.value * scale
        extent = shape[axis]
        scale = scale * extent.value if scale is not None and isinstance(extent, IntImm) else None
    return total


def ravel(base: PrimExpr, scale: PrimExpr | int, offset: PrimExpr) -> PrimExpr:
    """Linearize: compute ``base * scale + offset``."""
    return add(mul(base, imm64(scale) if isinstance(scale, int) else scale), offset)
