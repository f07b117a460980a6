"""Watched code finds what the interpreter finds, and says it in the same words."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from loomir.support.diagnostics import Diagnostic, RunError
from tests.clause import clauses

Z = np.zeros
F = "float32"


def outcomes(text: str, name: str, args: Callable[[], tuple[Any, ...]]) -> list[Diagnostic | None]:
    """Run a program by both engines; what they raise, and what they leave behind where they don't.

    Arrays must be equal after both.
    """
    module = from_source(textwrap.dedent(text))
    exe = loomir.compile(module, checked=True, cache=False)
    found: list[Diagnostic | None] = []
    left: list[tuple[Any, ...]] = []
    for run in (exe[name], lambda *a: loomir.interpret(module, name, *a, track=True)):
        given = args()
        try:
            run(*given)
            found.append(None)
        except RunError as error:
            found.append(error.diagnostic)
        left.append(given)
    if found == [None, None]:
        for a, b in zip(*left, strict=True):
            np.testing.assert_array_equal(a, b)
    return found


def wrong(text: str, code: str, message: str, line: int, *args: Any, name: str = "f") -> None:
    native, judge = outcomes(text, name, lambda: tuple(np.copy(a) for a in args))
    assert native == judge
    assert native is not None
    assert native.code == code
    assert message in native.message
    assert native.span is not None
    assert native.span.line == line


def right(text: str, *args: Any, name: str = "f") -> None:
    assert outcomes(text, name, lambda: tuple(np.copy(a) for a in args)) == [None, None]


@clauses("TIR-STMT-02", "TIR-STMT-18a")
def test_a_read_of_what_nothing_wrote():
    text = """
    @T.prim_func
    def f(y: T.Buffer((1,), "float32"), n: T.int32):
        A = T.alloc_buffer((4, 3), "float32")
        A[2, 1] = T.float32(5)
        y[0] = A[n, 1]
    """
    right(text, Z(1, F), 2)
    wrong(text, "RUN0209", "A[1, 1]", 6, Z(1, F), 1)
    wrong(text, "RUN0203", "index 4 is outside of axis 0 of A", 6, Z(1, F), 4)


def test_each_iteration_has_memory_of_its_own():
    text = """
    @T.prim_func
    def f(y: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            with T.sblock("b"):
                A = T.alloc_buffer((2,), "int32")
                if i < n:
                    A[1] = i
                y[i] = A[1]
    """
    right(text, Z(4, "i4"), 4)
    wrong(text, "RUN0209", "A[1]", 9, Z(4, "i4"), 2)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "int64", "float64"])
def test_elements_of_every_size(dtype: str):
    text = f"""
    @T.prim_func
    def f(y: T.Buffer((1,), "int32"), n: T.int32):
        A = T.alloc_buffer((8,), "{dtype}")
        for i in range(5):
            A[i] = T.Cast("{dtype}", i)
        y[0] = T.Cast("int32", A[n])
    """
    right(text, Z(1, "i4"), 4)
    wrong(text, "RUN0209", "A[5]", 7, Z(1, "i4"), 5)


def test_lanes_are_distinguished():
    text = """
    @T.prim_func
    def f(y: T.Buffer((4,), "int32"), n: T.int32):
        A = T.alloc_buffer((16,), "int32")
        A[T.Ramp(2, 1, 4)] = T.Broadcast(7, 4)
        A[T.Ramp(8, 2, 4)] = T.Broadcast(7, 4)
        y[T.Ramp(0, 1, 4)] = A[T.Ramp(n, 1, 4)]
        y[T.Ramp(0, 1, 4)] = A[T.Ramp(8, n, 4)]
    """
    right(text, Z(4, "i4"), 2)
    wrong(text, "RUN0209", "A[6]", 7, Z(4, "i4"), 3)
    wrong(text, "RUN0209", "A[1]", 7, Z(4, "i4"), 1)


def test_vectors_as_elements():
    text = """
    @T.prim_func
    def f(y: T.Buffer((4,), "int32"), n: T.int32):
        A = T.alloc_buffer((4,), "int32x4")
        A[1] = T.Broadcast(7, 4)
        y[T.Ramp(0, 1, 4)] = A[n]
    """
    right(text, Z(4, "i4"), 1)
    wrong(text, "RUN0209", "A[2]", 6, Z(4, "i4"), 2)


def test_other_names_of_the_same_memory():
    text = """
    @T.prim_func
    def f(y: T.Buffer((4,), "int32"), n: T.int32):
        A = T.alloc_buffer((8,), "int32")
        B = T.decl_buffer((16,), "int16", data=A.data)
        with T.sblock("b"):
            V = T.match_buffer(A[2:6], (4,), "int32")
            V[1] = 5
            y[0] = A[n]
            y[1] = T.Cast("int32", B[2 * n + 1])
            y[2] = V[n - 2]
    """
    right(text, Z(4, "i4"), 3)
    wrong(text, "RUN0209", "A[2]", 9, Z(4, "i4"), 2)
    halves = """
    @T.prim_func
    def f(y: T.Buffer((4,), "int32"), n: T.int32):
        A = T.alloc_buffer((8,), "int32")
        B = T.decl_buffer((16,), "int16", data=A.data)
        B[2] = T.int16(3)
        if n > 0:
            B[3] = T.int16(4)
        y[0] = A[1]
    """
    right(halves, Z(4, "i4"), 1)
    wrong(halves, "RUN0209", "A[1]", 9, Z(4, "i4"), 0)
    view = """
    @T.prim_func
    def f(y: T.Buffer((4,), "int32"), n: T.int32):
        A = T.alloc_buffer((8, 4), "int32")
        A[3, 2] = 1
        with T.sblock("b"):
            V = T.match_buffer(A[n, 1:4], (3,), "int32")
            y[0] = V[1]
    """
    right(view, Z(4, "i4"), 3)
    wrong(view, "RUN0209", "V[1]", 8, Z(4, "i4"), 2)


def test_a_buffer_beyond_its_memory():
    text = """
    @T.prim_func
    def f(y: T.Buffer((4,), "int32"), n: T.int32):
        A = T.alloc_buffer((4,), "int32")
        B = T.decl_buffer((6,), "int32", data=A.data)
        B[n] = 1
        y[0] = B[n]
    """
    right(text, Z(4, "i4"), 3)
    wrong(text, "RUN0203", "B[4] lies outside of the memory", 6, Z(4, "i4"), 4)


CALLS = """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def half(a: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(n):
            b[i] = a[i]

    @T.prim_func
    def f(x: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
        A = T.alloc_buffer((8,), "int32")
        with T.sblock("b"):
            V = T.match_buffer(A[2:6], (4,), "int32")
            M.half(x.data, V.data, n)
            M.half(V.data, x.data, m)
"""


@clauses("TIR-STATE-02")
def test_memory_is_watched_through_calls():
    right(CALLS, np.arange(4, dtype="i4"), 3, 3)
    wrong(CALLS, "RUN0209", "a[3]", 7, np.arange(4, dtype="i4"), 3, 4)


@clauses("TIR-STMT-13c", "TIR-STMT-14", "TIR-STMT-16")
@pytest.mark.parametrize(
    "loop", ["T.parallel(4)", "T.vectorized(4)", 'T.thread_binding(4, thread="threadIdx.x")']
)
def test_iterations_that_meet(loop: str):
    text = f"""
    @T.prim_func
    def f(x: T.Buffer((8,), "int32"), n: T.int32, m: T.int32):
        for i in {loop}:
            x[i * n] = x[i * n + m]
    """
    data = np.arange(8, dtype="i4")
    right(text, data, 1, 0)
    right(text, data, 2, 1)
    wrong(text, "RUN0210", "iteration 1 of a parallel loop reads x[0], which", 5, data, 0, 0)
    wrong(text, "RUN0210", "iteration 1 of a parallel loop writes x[1], which", 5, data, 1, 1)


def test_which_accesses_meet():
    reads = """
    @T.prim_func
    def f(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32"), n: T.int32):
        for i in T.parallel(4):
            y[i] = x[0]
            if i == n:
                x[0] = 1
    """
    data = np.arange(8, dtype="i4")
    right(reads, data, data, 4)
    wrong(reads, "RUN0210", "iteration 1 of a parallel loop reads x[0]", 5, data, data, 0)
    wrong(reads, "RUN0210", "iteration 3 of a parallel loop writes x[0], which another iteration "
          "reads", 7, data, data, 3)  # fmt: skip


@clauses("TIR-STMT-13c")
def test_loops_within_loops():
    text = """
    @T.prim_func
    def f(x: T.Buffer((4, 4), "int32"), n: T.int32, m: T.int32):
        for i in T.parallel(4):
            for k in range(2):
                for j in T.parallel(4):
                    x[i * n, j * m] = x[i * n, j * m] + i
    """
    data = Z((4, 4), "i4")
    right(text, data, 1, 1)
    wrong(text, "RUN0210", "iteration 1 of a parallel loop reads x[0, 0]", 7, data, 0, 1)
    wrong(text, "RUN0210", "iteration 1 of a parallel loop reads x[0, 0]", 7, data, 1, 0)


@clauses("TIR-STMT-03b")
def test_threads_that_meet():
    text = """
    @T.prim_func
    def f(x: T.Buffer((4,), "int32"), n: T.int32):
        with T.launch_thread("blockIdx.x", 4) as i:
            x[i * n] = x[i * n] + 1
    """
    right(text, Z(4, "i4"), 1)
    wrong(text, "RUN0210", "reads x[0]", 5, Z(4, "i4"), 0)


def test_memory_of_one_iteration_is_no_meeting():
    text = """
    @T.prim_func
    def f(x: T.Buffer((4,), "int32")):
        for i in T.parallel(4):
            with T.sblock("b"):
                A = T.alloc_buffer((2,), "int32")
                A[0] = i
                x[i] = A[0]
    """
    right(text, Z(4, "i4"))


def test_arrays_of_any_strides_are_watched():
    text = """
    @T.prim_func
    def f(a: T.handle, n: T.int32):
        s, t = T.int64(), T.int64()
        x = T.match_buffer(a, (4, 3), "int32", strides=(s, t))
        for i in T.parallel(4):
            x[i, 0] = x[i * n, 0] + x[i, 2]
    """
    module = from_source(textwrap.dedent(text))
    exe = loomir.compile(module, checked=True, cache=False)["f"]
    for view in (np.s_[::2, ::3], np.s_[::-2, ::-3], np.s_[7::-2, 1::3]):
        data = Z((8, 9), "i4")
        exe(data[view], 1)
        with pytest.raises(RunError) as caught:
            exe(data[view], 0)
        assert caught.value.diagnostic.code == "RUN0210"


@clauses("TIR-STMT-13c")
def test_a_loop_that_calls():
    text = """
    @I.ir_module
    class M:
        @T.prim_func(private=True)
        def put(a: T.Buffer((8,), "int32"), n: T.int32):
            for i in T.parallel(2):
                a[n + i] = a[n + i] + 1

        @T.prim_func
        def f(x: T.Buffer((8,), "int32"), n: T.int32):
            for i in T.parallel(3):
                M.put(x.data, i * n)
    """
    right(text, Z(8, "i4"), 2)
    wrong(text, "RUN0210", "iteration 1 of a parallel loop reads a[1]", 7, Z(8, "i4"), 1)


def test_functions_that_call_themselves():
    text = """
    @I.ir_module
    class M:
        @T.prim_func
        def f(x: T.Buffer((8,), "int32"), n: T.int32):
            if n > 0:
                for i in T.parallel(2):
                    x[n + i] = x[n + i] + n
                M.f(x.data, n - 1)
    """
    right(text, Z(8, "i4"), 5)


def test_overlapping_arguments_are_refused():
    text = """
    @T.prim_func
    def f(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        for i in T.parallel(4):
            y[i] = x[i]
    """
    module = from_source(textwrap.dedent(text))
    data = Z(6, "i4")
    with pytest.raises(RunError, match="x and y overlap"):
        loomir.compile(module, checked=True)["f"](data[:4], data[1:5])
    loomir.compile(module, checked=True, allow_alias=True)["f"](data[:4], data[1:5])


def test_unchecked_code_has_none_of_it():
    module = from_source(textwrap.dedent(CALLS))
    assert "loomir.read" not in loomir.compile(module, cache=False).llvm_ir()
    assert "loomir.read" in loomir.compile(module, checked=True, cache=False).llvm_ir()


@clauses("TIR-STATE-04")
def test_calls_out_of_the_program_may_write_what_they_get():
    def fill(array: Any) -> None:
        np.from_dlpack(array)[:2] = 3

    loomir.register_func("tests.watched_fill", fill, override=True)
    text = """
    @T.prim_func
    def f(y: T.Buffer((4,), "float32"), n: T.int32):
        A = T.alloc_buffer((4,), "float32")
        if n > 0:
            T.call_packed("tests.watched_fill", A)
        y[0] = A[1]
    """
    right(text, Z(4, F), 1)
    wrong(text, "RUN0209", "A[1]", 7, Z(4, F), 0)
