"""Conditions fold to what their constant parts decide, unless evaluation may fail."""

from __future__ import annotations

from loomir.arith.fold import fold_expr, imm
from loomir.support.dtype import DataType
from loomir.tir.expr import LT, And, Eq, FloorMod, IntImm, Or, PrimExpr, Var

BOOL = DataType("bool")
N = Var("n", DataType("int64"))
FALSE, TRUE = imm(False, BOOL), imm(True, BOOL)


def holds(e: PrimExpr) -> bool | None:
    """Return the truth of a folded condition; None where it is still open."""
    made = fold_expr(e)
    return bool(made.value) if isinstance(made, IntImm) else None


def test_a_constant_part_decides_on_either_side():
    open_condition = LT(N, imm(4, N.dtype))
    for one in (And(open_condition, FALSE), And(FALSE, open_condition)):
        assert holds(one) is False
        assert holds(And(one, open_condition)) is False
    for one in (Or(open_condition, TRUE), Or(TRUE, open_condition)):
        assert holds(one) is True
    assert fold_expr(And(open_condition, TRUE)) is open_condition
    assert fold_expr(Or(open_condition, FALSE)) is open_condition


def test_what_may_fail_is_still_evaluated():
    may_fail = Eq(FloorMod(imm(5, N.dtype), N), imm(0, N.dtype))
    assert holds(And(may_fail, FALSE)) is None
    assert holds(Or(may_fail, TRUE)) is None
    assert holds(And(FALSE, may_fail)) is False
