"""Invert iterator maps: compute the variables from the values of the map."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, mul, sub, to_int
from loomir.arith.iterators.expr import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    is_number,
    is_top,
    marks_of,
    variable_of,
)
from loomir.support.diagnostics import InternalError
from loomir.tir.expr import FloorDiv, FloorMod, IntImm, PrimExpr, Var

__all__ = ["inverse_affine_iter_map", "mark_values"]


def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr],
    outputs: Sequence[PrimExpr],
    *,
    analyzer: Analyzer | None = None,
) -> dict[Var, PrimExpr]:
    """Return the values of variables for given values of an iterator map.

    ``iter_map`` are indices that ``detect_iter_map`` found. Digits that no index has are 0, and
    variables that no index depends on are left out. An analyzer simplifies the results.
    """
    found: dict[Var, PrimExpr] = {}
    for mark, value in mark_values(iter_map, outputs):
        if isinstance(mark.source, IterSumExpr):
            continue
        counted = variable_of(mark)
        if counted is None:
            raise InternalError(f"no variable is counted by {mark.source}")
        var, first = counted
        made = to_int(value if first is None else add(value, first), var.dtype)
        found[var] = made if analyzer is None else analyzer.simplify(made)
    return found


def mark_values(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr]
) -> list[tuple[IterMark, PrimExpr]]:
    """Return the value of each mark for given values of indices; fused marks before their parts."""
    if len(iter_map) != len(outputs):
        raise InternalError(f"{len(iter_map)} indices have no {len(outputs)} values")
    values: dict[int, PrimExpr] = {}
    for index, output in zip(iter_map, outputs):
        _distribute(index, to_int(output, index.base.dtype), values)
    marks = marks_of(tuple(iter_map))
    for mark in marks:
        if isinstance(mark.source, IterSumExpr):
            _distribute(mark.source, values[id(mark)], values)
    return [(mark, values[id(mark)]) for mark in marks]


def _distribute(e: IterSumExpr, value: PrimExpr, values: dict[int, PrimExpr]) -> None:
    """Add the contributions of a sum's value to the values of its marks."""
    base = e.base
    if isinstance(base, IntImm) and base.value < 0 and base.value > base.dtype.min_value:
        value = add(value, IntImm(-base.value, base.dtype))
    else:
        value = sub(value, base)
    for place, split in enumerate(e.args):
        made = value
        if not is_number(split.scale, 1):
            made = FloorDiv(made, split.scale)
        if place and not _is_all(split, e):
            made = FloorMod(made, split.extent)
        made = mul(made, split.lower_factor)
        known = values.get(id(split.source))
        values[id(split.source)] = made if known is None else add(known, made)


def _is_all(split: IterSplitExpr, e: IterSumExpr) -> bool:
    return len(e.args) == 1 and is_top(split)
