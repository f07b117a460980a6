"""Walks over programs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from loomir.ir import visit
from loomir.ir.node import DECLARED
from loomir.ir.substitution import substitute
from loomir.ir.visit import (
    by_class,
    nodes_outside,
    of_classes,
    pre_order,
    remember_classes,
    rewrite,
)
from loomir.script import from_source
from loomir.tir.expr import Add, BinaryOp, Mul, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore, For, Stmt

PROGRAM = """
from loomir.script import tir as T

@T.prim_func
def main(x: T.Buffer((8, 8), "float32"), n: T.int32):
    for i, j in T.grid(8, 8):
        with T.block("sum"):
            vi, vj = T.axis.remap("SS", [i, j])
            with T.init():
                x[vi, vj] = T.float32(0)
            if vi + vj < n:
                x[vi, vj] = x[vi, vj] * T.float32(2) + T.if_then_else(vi > 0, x[vi - 1, vj], 0.0)
    for k in T.serial(n + 1, annotations={"note": 1}):
        T.evaluate(k * k)
"""


def _is_in_expression(func: PrimFunc) -> set[int]:
    return {
        id(part) for e in pre_order(func.body) if isinstance(e, PrimExpr) for part in pre_order(e)
    }


def test_statements_are_what_is_outside_of_expressions_in_order() -> None:
    func = from_source(PROGRAM)
    assert isinstance(func, PrimFunc)
    hidden = _is_in_expression(func)
    expected = [part for part in pre_order(func.body) if id(part) not in hidden]
    listed = nodes_outside(func.body, PrimExpr)
    assert [id(part) for part in listed] == [id(part) for part in expected]
    assert len(listed) < len(list(pre_order(func.body))) / 2


def test_each_kind_hides_its_own() -> None:
    func = from_source(PROGRAM)
    assert isinstance(func, PrimFunc)
    listed = nodes_outside(func.body, BinaryOp)
    assert any(isinstance(part, PrimExpr) for part in listed)
    assert not any(isinstance(part, BinaryOp) for part in listed)
    assert nodes_outside(func.body, type(func.body)) == []


def test_nodes_of_classes_are_listed_in_order_with_those_of_subclasses() -> None:
    func = from_source(PROGRAM)
    assert isinstance(func, PrimFunc)
    expected = [id(part) for part in pre_order(func.body) if isinstance(part, (BinaryOp, For))]
    assert [id(part) for part in of_classes(func.body, BinaryOp, For)] == expected
    assert expected


def test_what_is_remembered_is_of_the_same_program_and_for_a_while() -> None:
    funcs = [from_source(PROGRAM) for _ in range(6)]
    with remember_classes():
        found = [by_class(func) for func in funcs]
        assert by_class(funcs[-1]) is found[-1]
        assert by_class(funcs[0]) is not found[0]  # only the last ones are kept
        with remember_classes():
            assert by_class(funcs[-1]) is not found[-1]
        assert by_class(funcs[-1]) is found[-1]
        for func, groups in zip(funcs, found):
            assert {id(node) for nodes in groups.values() for node in nodes} == set(
                map(id, pre_order(func))
            )
    assert by_class(funcs[-1]) is not found[-1]


def test_rewriting_sees_all_that_a_function_owns_while_passes_remember() -> None:
    func = from_source(PROGRAM)
    assert isinstance(func, PrimFunc)
    seen: list[Stmt] = []

    def note(stmt: Stmt) -> Stmt:
        seen.append(stmt)
        return stmt

    with remember_classes():
        assert rewrite(func, {BufferStore: note}) is func
        assert rewrite(func.body, {BufferStore: note}) is func.body
        assert len(seen) == 4
        assert rewrite(func, {PrimFunc: lambda f: f.body}) is func.body
        assert rewrite(func, {Mul: lambda e: Add(e.a, e.b)}) is not func


def test_names_are_replaced_however_deep_and_shared() -> None:
    x, y = Var("x", "int32"), Var("y", "int32")
    deep: PrimExpr = x
    for _ in range(1000):
        deep = Add(deep, x)
    shared: PrimExpr = x
    for _ in range(200):  # 2**200 nodes as a tree
        shared = Add(shared, shared)
    for e in (deep, Mul(shared, deep)):
        made = substitute(e, {x: y})
        if e is deep:
            assert {id(v) for v in by_class(made)[Var]} == {id(y)}
        assert substitute(made, {x: y}) is made
        assert substitute(e, {y: x}) is e


# -- rules about statements ------------------------------------------------------------------------
class _Asked(visit._Rewriters):
    """The functions that rewrite, and the classes for which one was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.classes: set[type] = set()

    def __getitem__(self, kind: type) -> Any:
        self.classes.add(kind)
        return super().__getitem__(kind)


@pytest.mark.parametrize("kind", [For, BufferStore])
def test_rules_about_statements_do_not_touch_expressions(
    monkeypatch: pytest.MonkeyPatch, kind: type[Stmt]
) -> None:
    func = from_source(PROGRAM)
    assert isinstance(func, PrimFunc)
    asked = _Asked()
    monkeypatch.setattr(visit, "_REWRITERS", asked)
    seen: list[Any] = []

    def note(s: Any) -> Any:
        seen.append(s)
        return s

    assert rewrite(func, {kind: note}) is func
    expected = {id(part) for part in pre_order(func.body) if isinstance(part, kind)}
    assert {id(part) for part in seen} == expected
    assert expected
    assert not any(issubclass(cls, PrimExpr) for cls in asked.classes)
    # A rule about an expression too needs all of them.
    rewrite(func, {kind: note, Mul: note})
    assert Mul in asked.classes


def test_no_expression_owns_a_statement() -> None:
    for cls in DECLARED:
        if issubclass(cls, PrimExpr):
            forms = {
                f.name: str(f.type) for f in dataclasses.fields(cls) if f.name in cls.child_names
            }
            assert not any("Stmt" in form for form in forms.values()), cls
