"""Conjunctions and their conjuncts."""

from __future__ import annotations

from loomir.arith.fold import imm
from loomir.loops.conditions import conjunction, conjuncts
from loomir.support.dtype import DataType
from loomir.tir.expr import LT, And, PrimExpr, Var
from loomir.tir.stmt import TRUE

A, B, C = (LT(Var(name, "int32"), imm(8, DataType("int32"))) for name in "abc")


def test_conjuncts_stand_in_the_order_of_evaluation():
    assert conjuncts(And(And(A, B), C)) == [A, B, C]
    assert conjuncts(And(A, And(B, C))) == [A, B, C]


def test_a_conjunction_of_nothing_is_true_and_true_has_no_conjuncts():
    assert conjunction([]) is TRUE
    assert conjuncts(TRUE) == []
    assert conjuncts(conjunction([A, B])) == [A, B]


def test_deep_conjunctions_do_not_recurse():
    deep: PrimExpr = A
    for _ in range(10_000):
        deep = And(deep, B)
    assert len(conjuncts(deep)) == 10_001
