"""Statements: loops and their bounds, jumps, allocation and cleaning up, lazy evaluation."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from loomir.support.dtype import BOOL, DataType
from loomir.tir import expr as e
from loomir.tir.buffer import decl_buffer
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import IntImm, PrimExpr, Ramp, StringImm, Var
from loomir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from loomir.tir.types import PointerType, PrimType
from tests.clause import clauses
from tests.codegen.llvm.tir.compare_engines import check, compiled, flat, func, get, i64, loop, put

I32 = DataType("int32")
TRUE = IntImm(1, BOOL)


def ret(value: PrimExpr) -> Stmt:
    return Evaluate(call_builtin("ret", value))


def error_of(found: object) -> str:
    assert isinstance(found, list)
    return found[0][0]


# -- loops -------------------------------------------------------------------------------------
def collect(start: PrimExpr, extent: PrimExpr, dtype: str) -> Stmt:
    """Append each value of the loop variable to A; the count is in N[0]."""
    out, count = flat("A", 512, dtype), flat("N", 1, "int64")

    def body(i: Var) -> Stmt:
        stores = (put(out, get(count, 0), i), put(count, 0, get(count, 0) + 1))
        return SeqStmt(stores)

    made = loop(extent, body, start=start, dtype=dtype)
    return func("main", [out, count], made)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@clauses("TIR-STMT-12")
def test_loop_bounds_that_are_constants(dtype: str) -> None:
    kind = DataType(dtype)
    starts = [0, 3, kind.max_value, kind.max_value - 5, kind.min_value]
    for start in starts:
        for extent in (0, 1, 5, 6, 7, *((-1, kind.min_value) if kind.is_int else ())):
            f = collect(IntImm(start, kind), IntImm(extent, kind), dtype)
            check(f, np.zeros(512, dtype), np.zeros(1, np.int64))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_loop_bounds_that_vary(dtype: str) -> None:
    kind = DataType(dtype)
    start, extent = Var("start", dtype), Var("extent", dtype)
    out, count = flat("A", 512, dtype), flat("N", 1, "int64")

    def body(i: Var) -> Stmt:
        return SeqStmt((put(out, get(count, 0), i), put(count, 0, get(count, 0) + 1)))

    f = func("main", [out, count, start, extent], loop(extent, body, start=start, dtype=dtype))
    low = [-3, kind.min_value] if kind.is_int else [0]
    for first in (0, 1, kind.max_value, kind.max_value - 5, *low):
        for many in (0, 1, 5, 6, 7, 100, kind.max_value, *low):
            if many > 200 and first + many - 1 <= kind.max_value:
                continue  # would run for long
            check(f, np.zeros(512, dtype), np.zeros(1, np.int64), first, many)


def test_extent_is_evaluated_once() -> None:
    a = flat("A", 4, "int64")
    body = loop(get(a, 0), lambda i: SeqStmt((put(a, 0, i64(1)), put(a, 1, get(a, 1) + 1))))
    got = check(func("main", [a], body), np.array([5, 0, 0, 0]))
    assert got[0][1] == 5  # type: ignore[index]


def test_nested_loops_with_dependent_bounds() -> None:
    a, n = flat("A", 1, "int64"), Var("n", "int32")

    def inner(i: Any):
        return loop(
            n - i,
            lambda j: put(a, 0, get(a, 0) * 3 + e.Cast(j, i64(0).dtype)),
            start=i,
            dtype="int32",
        )

    check(func("main", [a, n], loop(n, inner, dtype="int32")), np.zeros(1, np.int64), 9)


def test_break_continue_and_return() -> None:
    a, n = flat("A", 16, "int32"), Var("n", "int32")

    def body(i: Var) -> Stmt:
        return SeqStmt(
            (
                IfThenElse(i.equal(n), Evaluate(call_builtin("break_loop"))),
                IfThenElse((i % 2).equal(1), Evaluate(call_builtin("continue_loop"))),
                put(a, e.Cast(i, i64(0).dtype), i * i),
                IfThenElse(i.equal(12), ret(i + 100)),
            )
        )

    f = func("main", [a, n], SeqStmt((loop(16, body, dtype="int32"), ret(n))))
    for stop in (0, 5, 12, 13, 99):
        check(f, np.zeros(16, np.int32), stop)


def test_while() -> None:
    a, n = flat("A", 2, "int64"), Var("n", "int64")
    step = SeqStmt(
        (
            put(a, 0, get(a, 0) - 1),
            IfThenElse((get(a, 0) % 3).equal(0), Evaluate(call_builtin("continue_loop"))),
            put(a, 1, get(a, 1) + get(a, 0)),
            IfThenElse(get(a, 1) > n, Evaluate(call_builtin("break_loop"))),
        )
    )
    f = func("main", [a, n], While(get(a, 0), step))
    for first, limit in ((0, 5), (10, 1000), (100, 50)):
        check(f, np.array([first, 0]), limit)


def test_end_without_return() -> None:
    n = Var("n", "int32")
    f = func("main", [n], IfThenElse(n > 0, ret(n)))
    assert check(f, 3) == 3
    assert error_of(check(f, 0)) == "RunValueError"


def test_code_behind_a_jump_is_dropped() -> None:
    a = flat("A", 1, "int32")
    body = SeqStmt((ret(IntImm(1, I32)), put(a, 0, IntImm(7, I32)), ret(IntImm(2, I32))))
    assert check(func("main", [a], body), np.zeros(1, np.int32)) == 1


# -- laziness ----------------------------------------------------------------------------------
@clauses("TIR-EVAL-14")
def test_and_or_stop_early() -> None:
    n = Var("n", "int32")
    divides = ((IntImm(10, I32) // n) > 2).astype(BOOL)
    for make in (e.And(n.not_equal(0), divides), e.Or(n.equal(0), divides)):
        f = func("main", [n], ret(make))
        for value in (0, 1, 3, 5, -1):
            check(f, value)
    for make in (e.And(divides, n.not_equal(0)), e.Or(divides, n.equal(0))):
        assert error_of(check(func("main", [n], ret(make)), 0)) == "RunZeroDivisionError"


def test_select_is_strict_and_if_then_else_lazy() -> None:
    n = Var("n", "int32")
    quotient, other = IntImm(10, I32) // n, IntImm(-1, I32)
    lazy = func("main", [n], ret(call_builtin("if_then_else", n.not_equal(0), quotient, other)))
    strict = func("main", [n], ret(e.Select(n.not_equal(0), quotient, other)))
    assert check(lazy, 0) == -1
    assert check(lazy, 5) == 2
    assert error_of(check(strict, 0)) == "RunZeroDivisionError"


def test_if_then_else_does_not_read_what_it_does_not_choose() -> None:
    a, out = flat("A", 8), flat("B", 32)

    def body(i: Var) -> Stmt:
        inside = e.And(i >= 12, i < 20)
        read = get(a, i - 12)
        return put(out, i, call_builtin("if_then_else", inside, read, e.const(0.0, "float32")))

    check(
        func("main", [a, out], loop(32, body)),
        np.arange(8, dtype=np.float32),
        np.ones(32, np.float32),
    )


# -- assert ------------------------------------------------------------------------------------
def test_assert() -> None:
    n, a = Var("n", "int32"), flat("A", 1, "int32")
    message = 'n is {0} %d "positive"\n'
    f = func("main", [n, a], AssertStmt(n > 0, StringImm(message), put(a, 0, n)))
    check(f, 3, np.zeros(1, np.int32))
    found = check(f, 0, np.zeros(1, np.int32))
    assert found == [("RunAssertionError", "RUN0202", message)]


def test_assert_with_a_number() -> None:
    n, a = Var("n", "int32"), flat("A", 1, "int32")
    f = func("main", [n, a], AssertStmt(n > 0, n * 2, put(a, 0, n)))
    found = check(f, -21, np.zeros(1, np.int32))
    assert found == [("RunAssertionError", "RUN0202", "-42")]


# -- memory ------------------------------------------------------------------------------------
def allocating(
    dtype: str, extents: tuple[PrimExpr, ...], body: object, condition: PrimExpr = TRUE
) -> Stmt:
    kind = DataType(dtype)
    data = Var("tmp", type_annotation=PointerType(PrimType(kind)))
    count = extents[0] if len(extents) == 1 else i64(1 << 20)
    buffer = decl_buffer((count,), kind, "tmp", data=data)
    inside = body(buffer)  # type: ignore[operator]
    return Allocate(data, kind, extents, condition, DeclBuffer(buffer, inside))


@pytest.mark.parametrize("count", [1, 16, 1000, 5000])
def test_allocations_on_stack_and_heap(count: int) -> None:
    a, out = flat("A", count), flat("B", count)

    def use(tmp: object) -> Stmt:
        copy = loop(count, lambda i: put(tmp, i, get(a, i)))  # type: ignore[arg-type]
        back = loop(count, lambda i: put(out, i, get(tmp, i64(count - 1) - i)))  # type: ignore[arg-type]
        return SeqStmt((copy, back))

    f = func("main", [a, out], allocating("float32", (i64(count),), use))
    check(f, np.arange(count, dtype=np.float32), np.zeros(count, np.float32))


def test_allocation_that_is_not_wanted_skips_the_body() -> None:
    n, a = Var("n", "int32"), flat("A", 1, "int32")
    stmt = allocating("int32", (i64(8),), lambda tmp: put(a, 0, n), condition=n > 0)
    f = func("main", [n, a], stmt)
    check(f, 1, np.zeros(1, np.int32))
    check(f, 0, np.zeros(1, np.int32))


def test_sizes_that_cannot_be() -> None:
    n, m, a = Var("n", "int64"), Var("m", "int64"), flat("A", 1, "int32")
    stmt = allocating("int32", (n, m), lambda tmp: put(a, 0, IntImm(1, I32)))
    f = func("main", [n, m, a], stmt)
    blank = np.zeros(1, np.int32)
    for pair in ((2, 3), (0, 1 << 62), (1 << 62, 0), (0, 0)):
        check(f, *pair, blank)
    for pair in ((-1, 3), (3, -1), (-1, -1), (-1, 0), (1 << 62, 4), (1 << 40, 1 << 40)):
        assert error_of(check(f, *pair, blank)) == "RunValueError"
    huge = compiled(f)["main"]
    with pytest.raises(MemoryError):
        huge(1 << 40, 1 << 20, blank)


def test_memory_is_freed_on_every_way_out() -> None:
    n, a = Var("n", "int64"), flat("A", 1, "int64")
    big = i64(1 << 24)

    def inner(x: object, y: object) -> Stmt:
        touch = loop(1 << 12, lambda i: put(y, i * 4096, i))  # type: ignore[arg-type]
        return SeqStmt(
            (
                touch,
                put(x, 0, get(y, 4096)),  # type: ignore[arg-type]
                IfThenElse(n.equal(0), ret(get(x, 0))),  # type: ignore[arg-type]
                IfThenElse(n.equal(1), Evaluate(call_builtin("break_loop"))),
                IfThenElse(n.equal(2), Evaluate(call_builtin("continue_loop"))),
                put(a, 0, i64(7) // (n - 3)),
            )
        )

    def body(i: Any):
        return allocating(
            "int64", (big,), lambda x: allocating("int64", (big,), lambda y: inner(x, y))
        )

    f = compiled(func("main", [n, a], SeqStmt((loop(2, body), ret(i64(-1))))))["main"]
    blank = np.zeros(1, np.int64)
    for way in (0, 1, 2, 4):
        f(way, blank)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(40):
        for way in (0, 1, 2, 4):
            f(way, blank)
        with pytest.raises(ZeroDivisionError):
            f(3, blank)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Each round touches 64 MiB and more.
    assert (after - before) * 1024 < 256 << 20


def test_declared_buffers_add_their_offset() -> None:
    a, n = flat("A", 32), Var("n", "int32")
    view = decl_buffer((i64(8),), a.dtype, "view", data=a.data, elem_offset=n * 2)
    store = loop(8, lambda i: put(view, i, get(view, i) * 2))
    f = func("main", [a, n], DeclBuffer(view, store))
    check(f, np.arange(32, dtype=np.float32), 5)


def test_names_for_handles() -> None:
    a = flat("A", 8)
    other = Var("other", type_annotation=PointerType(PrimType(a.dtype)))
    view = decl_buffer((i64(8),), a.dtype, "view", data=other)
    use = SeqStmt(tuple(put(view, i, get(a, i) + get(view, 7 - i)) for i in range(8)))
    f = func("main", [a], LetStmt(other, a.data, DeclBuffer(view, use)))
    check(f, np.arange(8, dtype=np.float32))


def test_notes_for_the_compiler_change_nothing() -> None:
    a = flat("A", 4)
    body = loop(4, lambda i: put(a, i, get(a, i) + 1))
    for node, key in ((a.data, "volatile_scope"), (a, "whatever")):
        f = func("main", [a], AttrStmt(node, key, IntImm(1, I32), body))
        check(f, np.arange(4, dtype=np.float32))


# -- places ------------------------------------------------------------------------------------
@pytest.mark.parametrize("stride", [1, -1, 0, 2, 3])
def test_strided_vectors(stride: int) -> None:
    a, out = flat("A", 64, "int32"), flat("B", 64, "int32")
    index = Ramp(i64(30), i64(stride), 8)
    shifted = Ramp(i64(3), i64(stride), 8) + e.Broadcast(i64(27), 8)
    body = SeqStmt(
        (put(out, Ramp(i64(5), i64(1), 8), get(a, index)), put(out, shifted, get(a, index)))
    )
    check(func("main", [a, out], body), np.arange(64, dtype=np.int32), np.zeros(64, np.int32))


def test_gather_and_scatter() -> None:
    a, k, out = flat("A", 16, "float16"), flat("K", 8, "int32"), flat("B", 16, "float16")
    index = get(k, Ramp(i64(0), i64(1), 8))
    body = put(out, index, get(a, index) * e.const(2.0, "float16x8"))
    where = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
    check(
        func("main", [a, k, out], body),
        np.arange(16).astype(np.float16),
        where,
        np.zeros(16, np.float16),
    )


@pytest.mark.parametrize("lanes", [2, 3, 4, 8])
@pytest.mark.parametrize("element", ["int8", "float32", "bfloat16", "bool"])
def test_buffers_of_vectors(element: str, lanes: int) -> None:
    kind = DataType(element).with_lanes(lanes)
    out, n = flat("B", 8 * lanes, element), Var("n", "int64")
    a = flat("A", 8 * lanes, element)

    def use(tmp: object) -> Stmt:
        fill = loop(8, lambda i: put(tmp, i, get(a, Ramp(i * lanes, i64(1), lanes))))  # type: ignore[arg-type]
        read = loop(8, lambda i: put(out, Ramp(i * lanes, i64(1), lanes), get(tmp, i64(7) - i)))  # type: ignore[arg-type]
        return SeqStmt((fill, read))

    f = func("main", [a, out, n], allocating(str(kind), (i64(8),), use))
    size = 8 * lanes
    made = np.arange(size) % 2 == 0 if element == "bool" else np.arange(size)
    numpy = {"bfloat16": "float32", "bool": bool}.get(element, element)
    values = np.asarray(made).astype(numpy)
    if element == "bfloat16":
        import ml_dtypes

        values = values.astype(ml_dtypes.bfloat16)
    check(f, values, np.zeros_like(values), 3)


def test_checked_index() -> None:
    a, n = flat("A", 8, "int32"), Var("n", "int64")
    index = call_builtin("checked_index", n, i64(8), StringImm("A"), IntImm(0, I32))
    f = func("main", [a, n], ret(get(a, index)))
    for k in (0, 7):
        assert check(f, np.arange(8, dtype=np.int32), k) == k
    for k in (8, -1, 1 << 62, -(1 << 63)):
        found = check(f, np.arange(8, dtype=np.int32), k)
        assert found == [
            ("RunIndexError", "RUN0203", f"index {k} is outside of axis 0 of A, whose extent is 8")
        ]


def test_checked_vectors_of_indices() -> None:
    a, n, out = flat("A", 16, "int32"), Var("n", "int64"), flat("B", 8, "int32")
    ramp = Ramp(n, i64(1), 8)
    index = call_builtin("checked_index", ramp, i64(16), StringImm("A"), IntImm(0, I32))
    f = func("main", [a, n, out], put(out, Ramp(i64(0), i64(1), 8), get(a, index)))
    for k in (0, 8, 9, -3):
        check(f, np.arange(16, dtype=np.int32), k, np.zeros(8, np.int32))


def test_deep_programs_do_not_exhaust_the_stack() -> None:
    a, n = flat("A", 1, "int64"), Var("n", "int64")
    body: Stmt = put(a, 0, get(a, 0) + n)
    for i in range(3 * sys.getrecursionlimit()):
        if i % 2:
            body = IfThenElse(n > 0, body)
        else:
            x = Var("x", "int64")
            body = LetStmt(x, n + i, body)
    check(func("main", [a, n], body), np.zeros(1, np.int64), 3)


ENDLESS = """
import numpy as np
import loomir
from loomir.script import from_source

made = loomir.compile(from_source('''
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    while A[0] == A[0]:
        A[1] = A[1] + 1
'''), opt_level=LEVEL)
print("compiled", flush=True)
made(np.zeros(8, "int32"))
print("left")
"""


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_loop_without_end_goes_on(level: int):
    command = [sys.executable, "-c", ENDLESS.replace("LEVEL", str(level))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "compiled\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.kill()
        assert process.stdout.read() == ""
