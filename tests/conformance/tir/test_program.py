"""Program organisation: modules, and functions that call one another."""

from __future__ import annotations

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import attr, node
from loomir.tir import Call, Evaluate, PrimFunc
from tests.conformance.compare_engines import both, dt, mistakes, read, run_both, zeros

CALLS = """
    @I.ir_module
    class Module:
        @T.prim_func
        def twice(x: T.int32) -> T.int32:
            return x * 2

        @T.prim_func
        def main(x: T.int32) -> T.int32:
            return cls.twice(x) + cls.twice(x + 1)
"""


def test_TIR_PROG_01_execution_begins_with_one_function():
    """A program is a module; a run begins with one of its functions, whichever is asked for."""
    module = read(CALLS)
    assert isinstance(module, IRModule)
    assert run_both(module, 5, name="main").value == 22
    assert run_both(module, 5, name="twice").value == 10


def test_TIR_PROG_02_functions_call_others():
    """A function may call others of the module, through several levels, with buffers."""
    assert both(CALLS, -3) == -10
    fill = """
        @I.ir_module
        class Module:
            @T.prim_func(private=True)
            def put(A: T.Buffer((4,), "int32"), i: T.int32, x: T.int32):
                A[i] = x

            @T.prim_func(private=True)
            def row(A: T.Buffer((4,), "int32")):
                for i in range(4):
                    cls.put(A, i, i * i)

            @T.prim_func
            def main(A: T.Buffer((4,), "int32")):
                cls.row(A)
    """
    assert both(fill, zeros(4)).tolist() == [0, 1, 4, 9]


def test_TIR_PROG_03_a_function_calls_itself():
    """A function may call itself, directly or through another."""
    ackermann = """
        @I.ir_module
        class Module:
            @T.prim_func
            def main(m: T.int32, n: T.int32) -> T.int32:
                if m == 0:
                    return n + 1
                if n == 0:
                    return cls.main(m - 1, 1)
                return cls.main(m - 1, cls.main(m, n - 1))
    """
    assert both(ackermann, 2, 3) == 9
    parity = """
        @I.ir_module
        class Module:
            @T.prim_func
            def even(n: T.int32) -> T.int32:
                if n == 0:
                    return 1
                return cls.odd(n - 1)

            @T.prim_func
            def odd(n: T.int32) -> T.int32:
                if n == 0:
                    return 0
                return cls.even(n - 1)
    """
    assert [run_both(parity, n, name="even").value for n in (0, 7, 10)] == [1, 0, 1]


@node
class Elsewhere(BaseFunc):
    """A function of another language."""

    attrs: dict[str, object] = attr(default_factory=dict)


def test_TIR_PROG_04_other_functions_are_not_called():
    """A module may hold functions of other languages; loop programs run beside, and never call them."""
    module = read(CALLS)
    assert isinstance(module, IRModule)
    beside = module.with_function("graph", Elsewhere())
    assert both(beside, 5) == 22
    call = Evaluate(Call(dt("void"), GlobalVar("graph"), ()))
    calls = beside.with_function("main", PrimFunc((), call, attrs={"global_symbol": "main"}))
    assert mistakes(calls) == ["TIR0410"]
