"""Calls between the functions of a module."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.interp import Interpreter, interpret
from loomir.ir import structural_equal
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import attr, node
from loomir.runtime.errors import RunIndexError, RunRecursionError, RunZeroDivisionError
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, RunError
from loomir.support.dtype import DataType
from loomir.tir import (
    Evaluate,
    IfThenElse,
    LetStmt,
    PrimExpr,
    PrimType,
    Var,
    call_builtin,
    const,
    decl_buffer,
)
from tests.clause import clauses
from tests.interp.build import array, call, func, i32, load, loop, module, ret, store

INT = PrimType(DataType("int32"))
X, Y, N = Var("x", "int32"), Var("y", "int32"), Var("n", "int64")


def own(name: str) -> Var:
    return Var(name, "int32")


@clauses("TIR-PROG-01", "TIR-PROG-02", "TIR-EVAL-11", "TIR-EVAL-12", "TIR-EVAL-13")
def test_scalars_go_by_value_and_come_back() -> None:
    a, b = own("a"), own("b")
    sub = func([a, b], ret(a - b), name="sub")
    main = func([X], ret(call("sub", X * 2, i32(3), dtype="int32") + 1))
    assert interpret(module(sub, main), "main", 5) == 8


@clauses("TIR-EVAL-11")
def test_arguments_are_evaluated_left_to_right() -> None:
    a, b = own("a"), own("b")
    buffer = decl_buffer((1,), "int32", "A")
    sub = func([a, b], ret(a - b), name="sub")
    main = func([buffer, X], ret(call("sub", i32(1) // X, load(buffer, 7), dtype="int32")))
    with pytest.raises(RunZeroDivisionError):
        interpret(module(sub, main), "main", array(1), 0)
    with pytest.raises(RunIndexError):
        interpret(module(sub, main), "main", array(1), 1)


@clauses("TIR-EVAL-13")
def test_a_call_without_a_result_is_a_statement() -> None:
    b = decl_buffer((3,), "int32", "B")
    fill = func([b, Y], store(b, Y, 1), name="fill")
    a = decl_buffer((3,), "int32", "A")
    main = func([a], Evaluate(call("fill", a.data, i32(4))))
    data = array(0, 0, 0)
    assert interpret(module(fill, main), "main", data) is None
    assert data.tolist() == [0, 4, 0]


@clauses("TIR-PROG-03", "TIR-SCOPE-03")
def test_recursion() -> None:
    n = own("n")
    smaller = call("factorial", n - 1, dtype="int32")
    f = func([n], IfThenElse(n <= 1, ret(i32(1))), ret(n * smaller), name="factorial", ret=INT)
    assert interpret(module(f), "factorial", 10) == 3628800
    assert interpret(f, "factorial", 5) == 120


@clauses("TIR-PROG-03")
def test_mutual_recursion_with_lazy_arguments() -> None:
    a, b = own("a"), own("b")

    def parity(name: str, other: str, v: Var, at_zero: int) -> object:
        lazy = call_builtin(
            "if_then_else", v.equal(0), i32(at_zero), call(other, v - 1, dtype="int32")
        )
        return func([v], ret(lazy), name=name, ret=INT)

    m = module(parity("even", "odd", a, 1), parity("odd", "even", b, 0))
    assert [interpret(m, "even", k) for k in (0, 1, 6, 9)] == [1, 0, 1, 0]


def test_recursion_up_to_the_limit() -> None:
    n = own("n")
    down = func(
        [n],
        IfThenElse(n > 0, ret(call("down", n - 1, dtype="int32") + 1)),
        ret(i32(0)),
        name="down",
        ret=INT,
    )
    assert interpret(down, "down", 990) == 990
    with pytest.raises(RunRecursionError) as caught:
        interpret(down, "down", 5000)
    assert isinstance(caught.value, RecursionError)
    assert caught.value.diagnostic.code == "RUN0204"
    forever = func([n], Evaluate(call("down", n)), name="down")
    with pytest.raises(RunRecursionError):
        interpret(forever, "down", 1)


@clauses("TIR-EVAL-12")
def test_names_of_the_caller_survive_a_recursive_call() -> None:
    n, v = own("n"), own("v")
    again = call("sum", n - 1, dtype="int32")
    body = LetStmt(v, n * n, IfThenElse(n > 0, ret(again + v)))
    f = func([n], body, ret(i32(0)), name="sum", ret=INT)
    assert interpret(f, "sum", 4) == 30


@clauses("TIR-EVAL-12", "TIR-STMT-01k")
def test_buffers_bring_their_shape() -> None:
    b = decl_buffer((N,), "int32", "B")
    i = Var("i", "int64")
    double = func([b], loop(i, N, store(b, load(b, i) * 2, i)), name="double")
    a = decl_buffer((5,), "int32", "A")
    data = np.arange(5, dtype=np.int32)
    interpret(module(double, func([a], Evaluate(call("double", a.data)))), "main", data)
    assert data.tolist() == [0, 2, 4, 6, 8]


@clauses("TIR-EVAL-12", "TIR-STMT-01f", "TIR-STMT-01l")
def test_a_call_is_checked_like_one_from_python() -> None:
    b, c = decl_buffer((4,), "int32", "B"), decl_buffer((4,), "int32", "C")
    f = func([b, c], store(b, i32(1), 0), name="f")
    a = decl_buffer((5,), "int32", "A")
    main = func([a], Evaluate(call("f", a.data, a.data)))
    with pytest.raises(RunError) as caught:
        interpret(module(f, main), "main", array(1, 2, 3, 4, 5))
    assert [d.code for d in caught.value.diagnostics] == ["RUN0005", "RUN0005", "RUN0008"]
    for args in ((a.data, i32(1)), (i32(1), a.data), (a.data,)):
        with pytest.raises(RunError):
            interpret(
                module(f, func([a], Evaluate(call("f", *args)))), "main", array(1, 2, 3, 4, 5)
            )


@clauses("TIR-EVAL-12")
def test_descriptors_as_lowering_makes_them() -> None:
    b = decl_buffer((2, N), "int32", "B", strides=(Var("s", "int64"), 1))
    f = func([b], store(b, i32(7), 1, 2), name="f")
    a = decl_buffer((16,), "int32", "A")

    def shape(*extents: int) -> PrimExpr:
        return call_builtin("tvm_stack_make_shape", *[const(e, "int64") for e in extents])

    passed = call_builtin(
        "tvm_stack_make_array", a.data, shape(2, 3), shape(8, 1), i32(2), i32(0), const(1, "int64")
    )
    data = array(*[0] * 16)
    interpret(module(f, func([a], Evaluate(call("f", passed)))), "main", data)
    assert data.tolist() == [0] * 11 + [7] + [0] * 4
    compact = call_builtin(
        "tvm_stack_make_array", a.data, shape(2, 3), shape(), i32(2), i32(0), const(0, "int64")
    )
    interpret(module(f, func([a], Evaluate(call("f", compact)))), "main", data)
    assert data[5] == 7


def test_calls_inside_of_stores_conditions_and_bounds() -> None:
    v, i = own("v"), own("i")
    inc = func([v], ret(v + 1), name="inc", ret=INT)
    a = decl_buffer((8,), "int32", "A")

    def up(x: PrimExpr) -> PrimExpr:
        return call("inc", x, dtype="int32")

    body = loop(i, up(i32(3)), IfThenElse(up(i) > 2, store(a, up(up(i)), up(i))))
    data = array(*[0] * 8)
    interpret(module(inc, func([a], body)), "main", data)
    assert data.tolist() == [0, 0, 0, 4, 5, 0, 0, 0]


@node
class Foreign(BaseFunc):
    """A function of another IR."""

    attrs: dict[str, object] = attr(default_factory=dict)


@clauses("TIR-EVAL-14", "TIR-PROG-04")
def test_only_prim_funcs_can_be_called() -> None:
    main = func([X], IfThenElse(X > 0, Evaluate(call("other"))), ret(X))
    m = IRModule({GlobalVar("main"): main, GlobalVar("other"): Foreign()})
    assert interpret(m, "main", 0) == 0
    with pytest.raises(RunError, match="other is not a PrimFunc"):
        interpret(m, "main", 1)
    with pytest.raises(CompileError, match="no function named 'mian'"):
        interpret(m, "mian", 1)


def test_an_interpreter_is_used_again() -> None:
    a = decl_buffer((2,), "int32", "A")
    machine = Interpreter(func([a], store(a, load(a, 0) + 1, 0)))
    data = array(0, 0)
    for _ in range(3):
        machine.call("main", (data,), {})
    assert data.tolist() == [3, 0]


@clauses("TIR-STMT-01n", "TIR-STATE-03")
def test_a_fault_leaves_the_interpreter_usable() -> None:
    machine = Interpreter(func([X], ret(i32(1) // X)), track=True)
    with pytest.raises(RunZeroDivisionError):
        machine.call("main", (0,), {})
    assert machine.call("main", (1,), {}) == 1


def test_the_name_may_be_left_out_where_it_is_clear() -> None:
    f = func([X], ret(X + 1), name="next")
    g = func([Y], ret(Y + 2), name="skip")
    assert interpret(f, 3) == interpret(f, "next", 3) == interpret(module(f), 3) == 4
    assert interpret(module(f, g), "skip", 3) == 5
    with pytest.raises(RunError, match="none was named"):
        interpret(module(f, g), 3)
    with pytest.raises(RunError, match="is named 'next', not 'other'"):
        interpret(f, "other", 3)


def test_a_scalar_expression_by_itself() -> None:
    from loomir.interp.tir.scalar import value_of

    total: PrimExpr = X
    for _ in range(500):
        total = total + 1
    assert value_of(total * 2, {X: 1}) == 1002
    with pytest.raises(CompileError):
        value_of(X + Y, {X: 1})
    with pytest.raises(RunZeroDivisionError):
        value_of(i32(1) // X, {X: 0})


def test_a_view_is_passed_as_it_lies():
    mod = from_source(
        """
from loomir.script import ir as I, tir as T

@I.ir_module
class M:
    @T.prim_func
    def add(a: T.handle):
        s0, s1 = T.int32(), T.int32()
        A = T.match_buffer(a, (2, 2), "int32", strides=(s0, s1))
        for i, j in T.grid(2, 2):
            A[i, j] = A[i, j] + 100

    @T.prim_func
    def main(y: T.Buffer((4, 4), "int32")):
        V = T.decl_buffer((2, 2), "int32", data=y.data, strides=(4, 1), elem_offset=5)
        M.add(V)
"""
    )
    assert structural_equal(from_source(mod.script()), mod)
    expected = np.arange(16, dtype="int32").reshape(4, 4)
    expected[1:3, 1:3] += 100
    for run in (loomir.compile(mod)["main"], lambda a: loomir.interpret(mod, "main", a)):
        array = np.arange(16, dtype="int32").reshape(4, 4)
        run(array)
        np.testing.assert_array_equal(array, expected)
