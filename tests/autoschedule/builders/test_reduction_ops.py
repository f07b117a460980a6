"""Pieces of reductions: what is used twice is named, once."""

from __future__ import annotations

import pytest

from loomir.arith.fold import imm64
from loomir.autoschedule.builders.reduction_ops import (
    COMPARISONS,
    accumulate,
    load_vectors,
    reduce_lanes,
    reduce_vectors,
)
from loomir.autoschedule.ir.stage import Combine
from loomir.ir.visit import pre_order
from loomir.tir.buffer import BufferLoad, decl_buffer
from loomir.tir.expr import Let


@pytest.mark.parametrize("combine", [*COMPARISONS, Combine.SUM, Combine.MAX, Combine.AND])
@pytest.mark.parametrize("left", [1, 2, 4])
def test_no_variable_is_bound_twice(combine: Combine, left: int):
    dtype = "bool" if combine is Combine.AND else "float64"
    wide, narrow = decl_buffer((32,), dtype, "wide"), decl_buffer((16,), dtype, "narrow")
    parts = reduce_vectors(combine, load_vectors(wide, 8, 4), left)
    others = load_vectors(narrow, left, 4)
    parts = [accumulate(combine, *pair) for pair in zip(parts, others, strict=True)]
    (total,) = reduce_vectors(combine, parts)
    made = accumulate(combine, BufferLoad(wide, (imm64(0),)), reduce_lanes(combine, total))
    names = [part.var for part in pre_order(made) if isinstance(part, Let)]
    assert len(names) == len(set(names))
