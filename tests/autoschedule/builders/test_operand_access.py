"""How a factor of a product lies along axes."""

from __future__ import annotations

import pytest

from loomir.autoschedule.builders.operand_access import is_contiguous_along
from loomir.autoschedule.ir.stage import Axis
from loomir.tir.buffer import BufferLoad, decl_buffer
from loomir.tir.expr import PrimExpr, Var, const

NEAR, FAR = [Axis(Var(name, "int64"), const(8, "int64")) for name in "ij"]


def load(*indices: PrimExpr) -> BufferLoad:
    return BufferLoad(decl_buffer((64,) * len(indices), "float32", "x"), indices)


@pytest.mark.parametrize(
    ("factor", "contiguous"),
    [
        (load(NEAR.var), True),
        (load(FAR.var, NEAR.var + FAR.var), True),
        (load(NEAR.var, FAR.var), False),
        (load(NEAR.var * const(2, "int64")), False),
        (load(FAR.var), False),
        (load(), False),
    ],
)
def test_a_factor_is_contiguous_along_its_last_axis(factor: BufferLoad, contiguous: bool):
    assert is_contiguous_along(factor, [NEAR]) is contiguous
