"""Pack the operands of attention once for all blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from loomir.arith.fold import add, imm64, mul
from loomir.autoschedule.builders.loops import INDEX, scratch
from loomir.autoschedule.builders.operand_access import (
    ceil_div,
    conversions,
    is_contiguous_along,
    load_under_casts,
    stride_along,
)
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rewrite
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Eq, FloorDiv, IntImm, Mul, PrimExpr, Sub, Var, const

__all__ = [
    "PackedOperand",
    "check_finite",
    "convert_rows",
    "pack_values",
    "round_up",
    "transpose_keys",
    "vars_of",
]

_ENOUGH: Final = 64
"""Rows from which an operand is packed: the copy takes as long as 1 to 2 rows."""


class PackedOperand(NamedTuple):
    """A packed operand."""

    copy: Stage
    reader: Stage
    """The product, which reads the copy."""
    text: str

    @property
    def buffer(self) -> Buffer:
        """The memory of the copy."""
        return self.copy.buffer


def round_up(size: PrimExpr, step: int) -> PrimExpr:
    """Round up to a multiple of ``step``."""
    return mul(ceil_div(size, step), imm64(step))


def vars_of(expr: PrimExpr) -> list[Var]:
    """List the variables of an expression, once for each use."""
    found: list[Var] = by_class(expr).get(Var, [])
    return found


def transpose_keys(
    product: Stage, outer: Sequence[Axis], keys: Axis, target: Target, whole: int = 1
) -> PackedOperand | None:
    """Pre-transpose keys that lie along the sum, so that neighbouring keys are contiguous.

    There is room for a ``whole`` number of keys.
    """
    assert isinstance(product.value, Mul)
    swapped = keys.var in vars_of(product.value.a)
    factor = product.value.a if swapped else product.value.b
    many = [a for a in product.reduced if a.size != 1]
    if len(many) != 1 or not is_contiguous_along(factor, product.reduced):
        return None
    lanes = target.lanes(factor.dtype.bits)
    # Rows of a power of two would share few sets of a cache.
    length = add(round_up(keys.extent, max(whole, lanes)), imm64(lanes))
    made = _copy_factor("transposed", product, factor, outer[:-1], (many[0], keys), length)
    return _share(product, made, swapped, "a factor transposed once, for all blocks")


def convert_rows(product: Stage, outer: Sequence[Axis], keys: Axis) -> PackedOperand | None:
    """Convert the operand of the rows once if it is widened, since every key uses each element.

    Then 512 rows and keys of float16 take 0.85 of the time (on a Xeon, Emerald Rapids).
    """
    assert isinstance(product.value, Mul)
    swapped = keys.var in vars_of(product.value.b)
    factor = product.value.a if swapped else product.value.b
    many = [a for a in product.reduced if a.size != 1]
    if len(many) != 1 or load_under_casts(factor) is None or not conversions(factor):
        return None
    made = _copy_factor(
        "widened", product, factor, outer[:-1], (outer[-1], many[0]), many[0].extent
    )
    return _share(product, made, swapped, "a factor converted once, for all keys")


def pack_values(product: Stage, outer: Sequence[Axis]) -> PackedOperand | None:
    """Pack the right operand of the second product if its rows are not contiguous.

    Heads of 128 numbers at distances of 4 KiB take 2 times as long in place (CPU not recorded):
    they map to few sets of L1, and each needs a page. Floats of 16 bits are converted only once,
    too.
    """
    assert isinstance(product.value, Mul)
    rows = outer[-1]
    swapped = rows.var not in vars_of(product.value.a)
    factor = product.value.a if swapped else product.value.b
    among = {axis.var for axis in outer}
    many = [a for a in product.reduced if a.size != 1]
    wide = [a for a in product.axes if a.size != 1 and a.var not in among]
    few = rows.size is not None and rows.size < _ENOUGH
    if few or load_under_casts(factor) is None or len(many) != 1 or len(wide) != 1:
        return None
    near = stride_along(factor, wide) == 1 and stride_along(factor, many) == wide[0].size
    if (near and not conversions(factor)) or rows.var in vars_of(factor):
        return None
    made = _copy_factor("beside", product, factor, outer[:-1], (many[0], wide[0]), wide[0].extent)
    return _share(product, made, swapped, "a factor brought together once, for all blocks")


def _share(product: Stage, made: tuple[Stage, PrimExpr], swapped: bool, text: str) -> PackedOperand:
    copy, load = made
    assert isinstance(product.value, Mul)
    pair = (load, product.value.b) if swapped else (product.value.a, load)
    return PackedOperand(copy, replace(product, value=Mul(*pair)), text)


def _copy_factor(
    name: str,
    product: Stage,
    factor: PrimExpr,
    batch: Sequence[Axis],
    inner: tuple[Axis, Axis],
    length: PrimExpr,
) -> tuple[Stage, PrimExpr]:
    """Return the stage that copies a factor, and the load that replaces the factor."""
    axes, where, value = _batch_axes(product, factor, batch)
    buffer = scratch(name, [*(a.extent for a in axes), inner[0].extent, length], factor.dtype)
    last = tuple(a.var for a in inner)
    stored = (*(a.var for a in axes), *last)
    stage = Stage(name, (*axes, *inner), (), buffer, stored, value, block=product.block)
    return stage, BufferLoad(buffer, (*where, *last))


def _batch_axes(
    product: Stage, factor: PrimExpr, batch: Sequence[Axis]
) -> tuple[list[Axis], list[PrimExpr], PrimExpr]:
    """Return the batch axes of a factor, the index of a batch among them, and the factor."""
    value = factor
    axes: list[Axis] = []
    where: list[PrimExpr] = []
    for axis in batch:
        if axis.var not in vars_of(value):
            continue
        number = _count_sharers(axis, value)
        place: PrimExpr = axis.var
        if number > 1:
            place = FloorDiv(axis.var, imm64(number))
            group = Var(axis.var.name_hint, INDEX)
            value = _group(value, place, group)
            axes.append(Axis(group, imm64((axis.size or 0) // number)))
        else:
            axes.append(axis)
        where.append(place)
    ones = [a.var for a in (*product.axes, *product.reduced) if a.size == 1]
    return axes, where, substitute(value, dict.fromkeys(ones, imm64(0)))


def check_finite(product: Stage, outer: Sequence[Axis]) -> tuple[Stage, PrimExpr] | None:
    """Emit a check that the right operand of the second product is finite for a batch.

    Returns the stage that checks, and the condition that holds where it is.
    """
    assert isinstance(product.value, Mul)
    rows = outer[-1]
    swapped = rows.var not in vars_of(product.value.a)
    factor = product.value.a if swapped else product.value.b
    if rows.var in vars_of(factor):
        return None
    among = {axis.var for axis in outer}
    wide = [a for a in product.axes if a.size != 1 and a.var not in among]
    axes, where, value = _batch_axes(product, factor, outer[:-1])
    buffer = scratch("strange", [a.extent for a in axes] or [1], factor.dtype)
    stored = tuple(a.var for a in axes) or (imm64(0),)
    many = tuple(a for a in product.reduced if a.size != 1)
    # Of what is finite the difference is 0, of infinities and NaN it is NaN.
    stage = Stage(
        "strange",
        tuple(axes),
        (*many, *wide),
        buffer,
        stored,
        Sub(value, value),
        Combine.SUM,
        const(0, factor.dtype),
        block=product.block,
    )
    return stage, Eq(BufferLoad(buffer, tuple(where) or (imm64(0),)), const(0, factor.dtype))


def _count_sharers(axis: Axis, factor: PrimExpr) -> int:
    """Count the neighbours along an axis that read the same, such as heads that share keys."""
    divisions: list[FloorDiv] = [d for d in by_class(factor).get(FloorDiv, []) if d.a is axis.var]
    sizes = {d.b.value for d in divisions if isinstance(d.b, IntImm)}
    once = vars_of(factor).count(axis.var) == len(divisions)
    if len(sizes) != 1 or not once or any(not isinstance(d.b, IntImm) for d in divisions):
        return 1
    (number,) = sizes
    return number if number > 1 and axis.size is not None and axis.size % number == 0 else 1


def _group(value: PrimExpr, place: PrimExpr, var: Var) -> PrimExpr:
    assert isinstance(place, FloorDiv)

    def use_group(d: FloorDiv) -> PrimExpr:
        return var if d.a is place.a else d

    made: PrimExpr = rewrite(value, {FloorDiv: use_group})
    return made
