"""How elements of the factors and of the result are written by rows, columns and depth."""

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
    "at",
    "ceil_div",
    "conversions",
    "converted",
    "extent_of",
    "lesser",
    "let",
    "plain_load",
    "reads_along",
    "size_of",
    "span",
    "split",
    "stride_along",
]


def extent_of(axes: Sequence[Axis]) -> PrimExpr:
    """Give the number of values that axes take together."""
    return product(axis.extent for axis in axes)


def size_of(axes: Sequence[Axis]) -> int | None:
    """Give the number of values, where it is known."""
    extent = extent_of(axes)
    return extent.value if isinstance(extent, IntImm) else None


def ceil_div(size: PrimExpr, step: int) -> PrimExpr:
    """Count the steps that cover ``size``."""
    if isinstance(size, IntImm):
        return imm64(-(-size.value // step))
    return size if step == 1 else FloorDiv(add(size, imm64(step - 1)), imm64(step))


def lesser(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Give the lesser of two sizes."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a if a.value <= b.value else b
    return Min(a, b)


def split(axes: Sequence[Axis], index: PrimExpr) -> dict[Var, PrimExpr]:
    """Give the values of axes at a place of their common order, the last axis fastest."""
    table: dict[Var, PrimExpr] = {axis.var: imm64(0) for axis in axes if axis.size == 1}
    left = [axis for axis in axes if axis.size != 1]
    for axis in reversed(left[1:]):
        table[axis.var] = FloorMod(index, axis.extent)
        index = FloorDiv(index, axis.extent)
    if left:
        table[left[0].var] = index
    return table


def let(name: str, value: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Give a name to a value that is more than a constant or a name."""
    if isinstance(value, (IntImm, Var)):
        return body(value)
    var = Var(name, value.dtype)
    return LetStmt(var, value, body(var))


def span(start: PrimExpr, lanes: int) -> PrimExpr:
    """Give the indices of ``lanes`` neighbours."""
    return start if lanes == 1 else Ramp(start, imm64(1), lanes)


def plain_load(factor: PrimExpr) -> BufferLoad | None:
    """Give the load that a factor is, but for conversions."""
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


def converted(value: PrimExpr, dtypes: Sequence[DataType]) -> PrimExpr:
    """Convert a number or a vector to dtypes, one after the other."""
    for dtype in dtypes:
        value = cast(value, dtype.with_lanes(value.dtype.lanes))
    return value


def reads_along(factor: PrimExpr, axes: Sequence[Axis]) -> bool:
    """Whether vectors of a factor can be loaded along the only one of ``axes`` that is long."""
    load = plain_load(factor)
    many = [axis for axis in axes if axis.size != 1]
    if load is None or len(many) != 1:
        return False
    outer = BufferLoad(load.buffer, (*load.indices[:-1], imm64(0)))
    return stride_along(factor, many) == 1 and stride_along(outer, many) == 0


def stride_along(factor: PrimExpr, axes: Sequence[Axis]) -> int | None:
    """Give how far apart neighbours along the last of ``axes`` lie in memory; 1 is contiguous.

    None where that differs from place to place, or between the arrays of a factor.
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


def at(base: PrimExpr, scale: PrimExpr | int, offset: PrimExpr) -> PrimExpr:
    """Give ``base * scale + offset``."""
    return add(mul(base, imm64(scale) if isinstance(scale, int) else scale), offset)
