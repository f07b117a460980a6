"""Slices of extents that are known, and of symbolic ones, mean what they do in Python."""

from __future__ import annotations

from itertools import product

import pytest

from loomir.arith.analyzer import Analyzer
from loomir.interp.tir.scalar import value_of
from loomir.op.rules.slicing import slice_bounds
from loomir.relax.info.proof import analyzer_for
from loomir.relax.shape import ShapeExpr
from loomir.tir import expr as tir

PLACES = [-(2**63), -5, -4, -1, 0, 1, 3, 4, 6, 2**63 - 1]
n, a, b = (tir.Var(name, "int64") for name in "nab")


@pytest.mark.parametrize("step", [-3, -1, 1, 2, 5])
def test_bounds_are_those_of_python(step: int):
    sizes = analyzer_for(ShapeExpr((n,)))
    free = slice_bounds(analyzer_for(ShapeExpr((n,))), n, a, b, step)
    for begin, end in product(PLACES, PLACES):
        symbolic = slice_bounds(sizes, n, begin, end, step)
        for extent in (0, 1, 4, 5):
            wanted = range(*slice(begin, end, step).indices(extent))
            known = slice_bounds(Analyzer(), extent, begin, end, step)
            values = {n: extent, a: begin, b: end}
            for start, length in (known, symbolic, free):
                assert value_of(length, values) == len(wanted), (extent, begin, end)
                if wanted:
                    assert value_of(start, values) == wanted.start, (extent, begin, end)
