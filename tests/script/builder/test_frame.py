# ruff: noqa: N806  (names as in the programs)
"""Programs built in Python, frame by frame."""

# To pyright a call of a decorator is a decorator, and never a frame: see docs/editors.md.
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

import threading
from typing import Any

import pytest

from loomir.ir import IRModule, assert_structural_equal
from loomir.script import IRBuilder, from_source
from loomir.script import ir as I
from loomir.script import tir as T
from loomir.script.builder import function
from loomir.script.builder.tir import blocks, loops
from loomir.script.builder.tir.table import AXIS, BUILDER_NAMES, NAMES
from loomir.support.diagnostics import CompileError
from loomir.tir import Evaluate, For, IntImm, PrimFunc, Var, decl_buffer
from tests.clause import clauses


@clauses("TS-BLD-01", "TS-BLD-02", "TS-BLD-05", "TS-BLD-10")
def test_a_function_built_by_hand_is_the_one_that_is_read():
    with IRBuilder() as ib, T.prim_func():
        T.func_name("f")
        A = T.arg("A", T.Buffer((8,), "float32"))
        B = T.arg("B", T.Buffer(("n",), "float32"))
        with T.serial(0, 8) as i:
            T.buffer_store(B, A[i] + 1, [i])
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer(("n",), "float32")):
    for i in range(8):
        B[i] = A[i] + 1.0
"""
    assert_structural_equal(ib.get(), from_source(text))


@clauses(
    *("TS-BLD-04", "TS-BLD-06", "TS-BLD-07", "TS-BLD-08", "TS-BLD-09", "TS-BLD-11", "TS-BLD-12"),
    *("TS-BLD-14", "TS-BLD-15"),
)
def test_a_module_with_blocks_built_by_hand():
    with IRBuilder() as ib, I.ir_module():
        I.module_attrs({"k": 1})
        with T.prim_func(private=True):
            T.func_name("g")
            T.func_attr({"a": 1})
            a = T.arg("a", T.handle)
            m = T.arg("m", T.int64)
            A = T.match_buffer(a, (m, 8), "float32")
            C = T.alloc_buffer((m,), "float32")
            with T.grid(m, 8) as (i, j), T.sblock("sum"):
                vi = T.axis.spatial(m, i)
                vj = T.axis.reduce(8, j)
                T.where(i < 3)
                T.reads(A[vi, vj])
                T.writes(C[vi])
                T.sblock_attr({"x": 2})
                with T.init():
                    T.buffer_store(C, 0.0, [vi])
                T.buffer_store(C, C[vi] + A[vi, vj], [vi])
        with T.prim_func():
            T.func_name("main")
            x = T.arg("x", T.int32)
            T.func_ret(T.int32)
            T.evaluate(T.ret(x))
    text = """
@I.ir_module
class M:
    I.module_attrs({"k": 1})

    @T.prim_func(private=True)
    def g(a: T.handle, m: T.int64):
        T.func_attr({"a": 1})
        A = T.match_buffer(a, (m, 8), "float32")
        C = T.alloc_buffer((m,), "float32")
        for i, j in T.grid(m, 8):
            with T.sblock("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.where(i < 3)
                T.sblock_attr({"x": 2})
                with T.init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vj]

    @T.prim_func
    def main(x: T.int32) -> T.int32:
        return x
"""
    assert isinstance(ib.get(), IRModule)
    assert_structural_equal(ib.get(), from_source(text))


def test_statements_of_all_kinds():
    with IRBuilder() as ib, T.prim_func():
        T.func_name("f")
        A = T.arg("A", T.Buffer((8,), "int32"))
        x = T.arg("x", T.int32)
        with T.If(x > 0):
            with T.Then(), T.LetStmt(x + 1) as y:
                T.evaluate(y)
            with T.Else(), T.Assert(x < 0, "zero"):
                T.evaluate(x)
        with T.While(x > 3):
            T.evaluate(T.break_loop())
        with T.allocate([4], "float32") as p, T.decl_buffer((4,), "float32", data=p) as B:
            T.buffer_store(B, 1, [0])
        with T.attr(x, "key", 1), T.launch_thread("threadIdx.x", 4) as tx:
            T.buffer_store(A, tx, [slice(0, 1)])
        with T.thread_binding(0, 4, thread="threadIdx.y"):
            T.evaluate(0)
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), x: T.int32):
    if x > 0:
        y = x + 1
        T.evaluate(y)
    else:
        with T.Assert(x < 0, "zero"):
            T.evaluate(x)
    while x > 3:
        break
    with T.allocate([4], "float32") as p:
        B = T.decl_buffer((4,), "float32", data=p)
        B[0] = 1.0
    with T.attr(x, "key", 1):
        tx = T.launch_thread("threadIdx.x", 4)
        A[0] = tx
    for i in T.thread_binding(0, 4, thread="threadIdx.y"):
        T.evaluate(0)
"""
    assert_structural_equal(ib.get(), from_source(text))


@clauses("TS-BLD-04", "TS-OV-06")
def test_the_kinds_of_frames():
    assert isinstance(T.prim_func(), function.PrimFuncFrame)
    assert isinstance(I.ir_module(), function.IRModuleFrame)
    assert isinstance(T.grid(2, 3), loops.ForFrame)
    assert isinstance(T.sblock("b"), blocks.SBlockFrame)


@clauses("TS-BLD-03")
def test_each_thread_has_its_own_builder():
    seen: list[Any] = []

    def work() -> None:
        seen.append(IRBuilder.active())
        with IRBuilder() as ib:
            seen.append(IRBuilder.current() is ib)

    with IRBuilder() as outer:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with IRBuilder() as inner:
            assert IRBuilder.current() is inner
        assert IRBuilder.current() is outer
    assert seen == [None, True]
    assert IRBuilder.active() is None


def test_names_by_default():
    with IRBuilder() as ib, T.prim_func(), T.grid(2, 3) as (i, j):
        T.evaluate(i + j)
    func = ib.get()
    assert isinstance(func, PrimFunc)
    assert isinstance(func.body, For)
    assert func.body.loop_var.name_hint == "i"
    assert func.attrs == {}


# -- mistakes ----------------------------------------------------------------------------------
def refused(code: str, message: str) -> Any:
    return pytest.raises(CompileError, match=rf"{code}\]: {message}")


def test_what_needs_a_builder_or_a_frame_says_so():
    with refused("SCR0024", "this builds part of a program, but"):
        T.evaluate(1)
    with IRBuilder() as ib:
        with refused("SCR0024", "a statement is outside of a function"):
            T.evaluate(1)
        with refused("SCR0024", "the builder has no finished program"):
            ib.get()
        with refused("SCR0024", "T.arg is used outside of a function"):
            T.arg("x", T.int32)
        with refused("SCR0024", "I.module_attrs is used outside of `with I.ir_module"):
            I.module_attrs({})
        with T.prim_func():
            with refused("SCR0017", "T.reads is outside of a block"):
                T.reads()
            with refused("SCR0024", "a branch has no case"), T.If(Var("c", "bool")):
                pass
            with refused("SCR0024", "T.Then is used outside of `with T.If"), T.Then():
                pass
        assert ib.get() is not None


def leave_by_an_error() -> None:
    with T.serial(4):
        T.evaluate(1)
        raise KeyError


def test_a_frame_that_is_left_by_an_error_makes_nothing():
    with IRBuilder() as ib, T.prim_func():
        with pytest.raises(KeyError):
            leave_by_an_error()
        T.evaluate(2)
    func = ib.get()
    assert isinstance(func, PrimFunc)
    assert isinstance(func.body, Evaluate)


def test_a_frame_that_is_refused_leaves_the_stack_in_order():
    with IRBuilder() as ib, T.prim_func():
        with refused("TIR0202", "the message of assert"), T.Assert(Var("c", "bool"), 1.5):
            pass
        with refused("SCR0022", "nothing ends this loop"), T.While(True):
            T.evaluate(1)
        T.evaluate(2)
    assert isinstance(ib.get(), PrimFunc)


def test_two_functions_of_one_name():
    with IRBuilder(), refused("SCR0026", "the module has two functions"), I.ir_module():
        for _ in range(2):
            with T.prim_func():
                T.func_name("f")


def test_arguments_are_checked():
    A = decl_buffer((8,), "float32", "A")
    with refused("SCR0025", "an operand must be a value, not the buffer 'A'"):
        T.max(A, 1)  # type: ignore[arg-type]
    with refused("SCR0005", "the scope must be a string"):
        T.allocate([1], "int8", 5)  # type: ignore[arg-type]
    with refused("SCR0019", "index 8 is outside of axis 0"):
        T.buffer_load(A, [8])
    with refused("SCR0005", "T.float32 does not read the string 'one'"):
        T.float32("one")
    with refused("SCR0005", "int8 has no infinity"):
        T.infinity("int8")
    with refused("SCR0005", "handle has no least value"):
        T.min_value("handle")
    with refused("SCR0005", "a block is always realised"):
        T.sblock("b", no_realize=True)
    with refused("SCR0005", "a loop has both a stop and an extent"):
        T.serial(0, 8, extent=8)
    with refused("SCR0005", "T.grid has no extents"):
        T.grid()
    with refused("SCR0005", "there is no operator 'tir.nothing'"):
        T.Call("int32", "tir.nothing", [])


# -- the namespace -----------------------------------------------------------------------------
def test_python_and_programs_have_the_same_names():
    own = {"IRBuilder", "axis", "inline", "macro", "prim_func"}
    assert set(T.__all__) == {*NAMES, *BUILDER_NAMES, *own}
    for name in set(NAMES) - {"meta_var"}:
        assert getattr(T, name) is NAMES[name], name
    for name, value in AXIS.items():
        assert getattr(T.axis, name) == value


def test_annotations_are_harmless():
    spec = T.Buffer((8, "n * 2"), "no dtype", strides="x")
    assert (spec.dtype, spec.strides) == ("no dtype", "x")
    assert isinstance(T.Buffer[(8,), "float32"], T.Buffer)
    assert repr(T.float32) == "T.float32"


def test_dtypes_convert():
    assert_structural_equal(T.int8(5), IntImm(5, T.int8.dtype))
    assert isinstance(T.handle("float32", "local"), Var)
    assert T.meta_var(3) == 3
    stored = T.float32x4(1)
    assert str(stored.dtype) == "float32x4"
