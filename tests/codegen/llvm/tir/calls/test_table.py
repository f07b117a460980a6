"""Functions that call one another, and parallel loops."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from loomir.codegen.llvm.support.pool import worker_count
from loomir.ir.module import GlobalVar, IRModule
from loomir.support.dtype import HANDLE, VOID, DataType
from loomir.tir import expr as e
from loomir.tir.buffer import Buffer, decl_buffer
from loomir.tir.builtins.table import STACK_MAKE_ARRAY, STACK_MAKE_SHAPE, call_builtin
from loomir.tir.expr import Call, IntImm, PrimExpr, StringImm, Var
from loomir.tir.stmt import (
    AssertStmt,
    DeclBuffer,
    Evaluate,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tests.codegen.llvm.tir.compare_engines import (
    check,
    compiled,
    flat,
    func,
    get,
    i64,
    loop,
    module,
    put,
    values_of,
)
from tests.codegen.llvm.tir.test_statements import allocating, error_of, ret

I32 = DataType("int32")


def array_of(
    data: Buffer,
    shape: tuple[PrimExpr, ...],
    strides: tuple[PrimExpr, ...] = (),
    offset: PrimExpr | int = 0,
) -> PrimExpr:
    """Describe an argument as lowering does."""
    start = i64(offset) if isinstance(offset, int) else offset
    dtype = data.dtype
    zero = e.const(0, dtype)
    parts = [Call(HANDLE, STACK_MAKE_SHAPE, numbers) for numbers in (shape, strides)]
    rank = IntImm(len(shape), I32)
    return Call(HANDLE, STACK_MAKE_ARRAY, (data.data, parts[0], parts[1], rank, zero, start))


def call(name: str, dtype: DataType, *args: PrimExpr) -> Call:
    return Call(dtype, GlobalVar(name), args)


def test_recursion() -> None:
    n = Var("n", "int32")
    body = SeqStmt(
        (
            IfThenElse(n < 2, ret(n)),
            ret(call("main", I32, n - 1) + call("main", I32, n - 2)),
        )
    )
    assert check(module(("main", func("main", [n], body))), 12) == 144


def test_recursion_has_an_end() -> None:
    n = Var("n", "int32")
    body = SeqStmt((IfThenElse(n < 1, ret(n)), ret(call("main", I32, n - 1) + 1)))
    program = module(("main", func("main", [n], body)))
    assert check(program, 1000) == 1000
    found = check(program, 1001)
    assert error_of(found) == "RunRecursionError"
    assert error_of(check(program, 1 << 30)) == "RunRecursionError"


def test_recursion_with_local_memory_has_an_end() -> None:
    n = Var("n", "int32")

    def use(tmp: object) -> Stmt:
        fill = loop(1000, lambda i: put(tmp, i, e.Cast(i, I32)))  # type: ignore[arg-type]
        deeper = call("main", I32, n + 1)
        return SeqStmt((fill, ret(deeper + get(tmp, 3))))  # type: ignore[arg-type]

    program = module(("main", func("main", [n], allocating("int32", (i64(1000),), use))))
    assert error_of(check(program, 0)) == "RunRecursionError"


def double_rows() -> tuple[str, object]:
    """A private function that doubles a matrix of any size and returns the number of rows."""
    n, m = Var("n", "int64"), Var("m", "int32")
    source = decl_buffer((n, m), DataType("float32"), "S")
    lowered = decl_buffer((n * e.Cast(m, n.dtype),), source.dtype, "S", data=source.data)
    body = loop(lowered.shape[0], lambda i: put(lowered, i, get(lowered, i) * 2))
    return "double", func("double", [source], SeqStmt((body, ret(n))), private=True)


def test_arrays_are_passed_on() -> None:
    a = flat("A", 48)
    whole = array_of(a, (i64(6), i64(8)))
    part = array_of(a, (i64(2), i64(4)), offset=16)
    rows = call("double", DataType("int64"), whole)
    body = SeqStmt((Evaluate(call("double", DataType("int64"), part)), ret(rows)))
    program = module(("main", func("main", [a], body)), double_rows())  # type: ignore[arg-type]
    assert check(program, np.arange(48, dtype=np.float32)) == 6


def test_arrays_that_do_not_fit_inside() -> None:
    a = flat("A", 48)
    shapes = {
        "strides": array_of(a, (i64(2), i64(4)), (i64(8), i64(1))),
        "fits": array_of(a, (i64(2), i64(4)), (i64(4), i64(1))),
        "one row": array_of(a, (i64(1), i64(4)), (i64(99), i64(1))),
        "too wide": array_of(a, (i64(1), i64(1 << 31))),
    }
    for shape in shapes.values():
        f = func("main", [a], Evaluate(call("double", DataType("int64"), shape)))
        program = module(("main", f), double_rows())  # type: ignore[arg-type]
        native = compiled(program)["main"]
        data = np.arange(48, dtype=np.float32)
        if shape in (shapes["strides"], shapes["too wide"]):
            with pytest.raises((ValueError, OverflowError)) as caught:
                native(data)
            assert caught.value.diagnostic.code in ("RUN0006", "RUN0009")  # type: ignore[attr-defined]
        else:
            check(program, data)


def test_overlap_inside() -> None:
    a, b = flat("X", 8), flat("Y", 8)
    copy = func("copy", [a, b], loop(8, lambda i: put(b, i, get(a, i))), private=True)
    whole = flat("A", 16)
    for offset, fine in ((8, True), (7, False), (0, False)):
        args = array_of(whole, (i64(8),)), array_of(whole, (i64(8),), offset=offset)
        f = func("main", [whole], Evaluate(call("copy", VOID, *args)))
        native = compiled(module(("main", f), ("copy", copy)))["main"]
        data = np.arange(16, dtype=np.float32)
        if fine:
            native(data)
            assert (data[8:] == data[:8]).all()
        else:
            with pytest.raises(ValueError, match="overlap"):
                native(data)


def test_faults_pass_through_calls() -> None:
    n = Var("n", "int32")
    inner = func("inner", [n], ret(IntImm(10, I32) // n), private=True)
    m = Var("m", "int32")
    program = module(("main", func("main", [m], ret(call("inner", I32, m) + 1))), ("inner", inner))
    assert check(program, 3) == 4
    assert error_of(check(program, 0)) == "RunZeroDivisionError"


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bfloat16", "float64", "bool"])
def test_scalars_are_passed_on(dtype: str) -> None:
    kind = DataType(dtype)
    a, x = flat("A", 4, dtype), Var("x", dtype)
    same = func("same", [x], ret(x), private=True)
    body = loop(3, lambda i: put(a, i + 1, call("same", kind, get(a, i))))
    program = module(("main", func("main", [a], body)), ("same", same))
    check(program, values_of(dtype, 4))


# -- parallel loops ----------------------------------------------------------------------------
def parallel(count: int | PrimExpr, body: object, **options: object) -> Stmt:
    return loop(count, body, kind=ForKind.PARALLEL, **options)  # type: ignore[arg-type]


def test_parallel_loop() -> None:
    n = Var("n", "int64")
    a, b = flat("A", n), flat("B", n)
    f = func("main", [a, b], parallel(n, lambda i: put(b, i, get(a, i) * 3 + 1)))
    for size in (0, 1, 2, 1000):
        check(f, np.arange(size, dtype=np.float32), np.zeros(size, np.float32))
    assert worker_count() >= 0


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64", "uint64"])
def test_parallel_loop_from_elsewhere(dtype: str) -> None:
    start, count = Var("start", dtype), Var("count", dtype)
    out = flat("A", 200, dtype)
    body = lambda i: put(out, e.Cast(i, DataType("int64")), i)  # noqa: E731
    f = func("main", [out, start, count], parallel(count, body, start=start, dtype=dtype))
    for first, many in ((0, 0), (3, 100), (100, 27)):
        check(f, np.zeros(200, dtype), first, many)


def test_parallel_body_sees_what_is_around() -> None:
    """Scalars of all kinds, vectors, buffers on the stack and heap, shifted buffers."""
    a, out = flat("A", 64), flat("B", 64)
    truth, half, wide = Var("t", "bool"), Var("h", "float16"), Var("w", "float32x4")
    big, view_n = Var("n", "int64"), Var("k", "int32")
    view = decl_buffer((i64(32),), a.dtype, "view", data=a.data, elem_offset=view_n)

    def inside(tmp: object) -> Stmt:
        def body(i: Var) -> Stmt:
            extra = e.Select(truth, e.Cast(half, a.dtype), get(view, i % 32))
            lane = e.Shuffle((wide,), (i64(2),))
            return put(out, i, get(tmp, i) + extra + lane + e.Cast(big, a.dtype))  # type: ignore[arg-type]

        fill = loop(64, lambda i: put(tmp, i, get(a, i)))  # type: ignore[arg-type]
        return SeqStmt((fill, parallel(64, body)))

    ramp = e.Ramp(i64(0), i64(1), 4)
    for size in (64, 4096):
        stmt: Stmt = allocating("float32", (i64(size),), inside)
        stmt = LetStmt(wide, get(a, ramp), DeclBuffer(view, stmt))
        f = func("main", [a, out, truth, half, big, view_n], stmt)
        for flag in (True, False):
            check(f, np.arange(64, dtype=np.float32), np.zeros(64, np.float32), flag, 1.5, 7, 9)


def test_parallel_and_vectors_of_truths() -> None:
    a, out = flat("A", 8, "int32"), flat("B", 64, "bool")
    flags = Var("flags", "boolx8")
    ramp = lambda at: e.Ramp(at, i64(1), 8)  # noqa: E731
    value = e.LT(get(a, ramp(i64(0))), e.const(4, "int32x8"))
    body = parallel(8, lambda i: put(out, ramp(i * 8), flags))
    check(
        func("main", [a, out], LetStmt(flags, value, body)),
        np.arange(8, dtype=np.int32),
        np.zeros(64, bool),
    )


@pytest.mark.parametrize("where", [0, 3, 63])
def test_faults_in_parallel_loops_stop_the_function(where: int) -> None:
    a, n = flat("A", 64, "int32"), Var("n", "int64")

    def body(i: Var) -> Stmt:
        return AssertStmt(i.not_equal(n), StringImm("not this one"), put(a, i, IntImm(1, I32)))

    rest = put(a, 0, IntImm(9, I32))
    f = func("main", [a, n], SeqStmt((parallel(64, body), rest)))
    assert error_of(check(f, np.zeros(64, np.int32), where)) == "RunAssertionError"
    check(f, np.zeros(64, np.int32), 64)


def test_the_first_fault_in_order_is_told() -> None:
    a = flat("A", 64, "int32")
    f = func("main", [a], parallel(64, lambda i: put(a, i, IntImm(1, I32) // get(a, i))))
    check(f, np.array([1] * 20 + [0] * 44, np.int32))


def test_nested_parallel_loops() -> None:
    a = flat("A", 256, "int32")
    inner = lambda i: parallel(16, lambda j: put(a, i * 16 + j, e.Cast(i * j, I32)))  # noqa: E731
    check(func("main", [a], parallel(16, inner)), np.zeros(256, np.int32))


def test_continue_and_calls_in_parallel_loops() -> None:
    a, x = flat("A", 64, "int32"), Var("x", "int32")
    square = func("square", [x], ret(x * x), private=True)

    def body(i: Var) -> Stmt:
        skip = IfThenElse((i % 3).equal(0), Evaluate(call_builtin("continue_loop")))
        return SeqStmt((skip, put(a, i, call("square", I32, e.Cast(i, I32)))))

    program = module(("main", func("main", [a], parallel(64, body))), ("square", square))
    check(program, np.zeros(64, np.int32))


def test_parallel_functions_from_many_threads() -> None:
    n = Var("n", "int64")
    a = flat("A", n, "int64")
    f = compiled(func("main", [a], parallel(n, lambda i: put(a, i, get(a, i) + i))))["main"]
    arrays = [np.zeros(1000, np.int64) for _ in range(4)]

    def work(array: np.ndarray) -> None:
        for _ in range(50):
            f(array)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for array in arrays:
        assert (array == np.arange(1000) * 50).all()


def test_functions_of_odd_names() -> None:
    names = ["a b", 'a"b', "a%b", "a_b", "ä", "", "a\nb", "@x{}", "0"]
    n = Var("n", "int32")
    program = IRModule(
        {
            GlobalVar(name): func(name, [v := Var(n.name_hint, "int32")], ret(v + i))
            for i, name in enumerate(names)
        }
    )
    functions = compiled(program)
    assert [functions[name](10) for name in names] == list(range(10, 10 + len(names)))


def test_odd_names_of_variables_and_buffers() -> None:
    odd = 'x" }\n define void @evil() { ret void } ; %'
    a = flat(odd, 4, "int32")
    var = Var(odd, "int32")
    check(func("main", [a, var], put(a, 1, get(a, 0) + var)), np.arange(4, dtype=np.int32), 5)
