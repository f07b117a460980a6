"""The meaning of statements."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loomir.interp import interpret
from loomir.runtime.errors import (
    RunAssertionError,
    RunMemoryError,
    RunValueError,
    RunZeroDivisionError,
)
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import BOOL, DataType
from loomir.tir import (
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    Buffer,
    BufferRealize,
    Cast,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    LetStmt,
    PointerType,
    PrimType,
    Ramp,
    Range,
    SeqStmt,
    Stmt,
    StringImm,
    Var,
    While,
    call_builtin,
    const,
    decl_buffer,
    seq,
)
from tests.clause import clauses
from tests.interp.build import array, f32, func, i32, load, loop, ret, run, store

X, K, J = Var("x", "int32"), Var("i", "int32"), Var("j", "int32")
A = decl_buffer((8,), "int32", "A")
FLAG = IntImm(0, BOOL)


def after(*body: Stmt, start: list[int] | None = None, params: tuple = (), args: tuple = ()):
    """Run with an int32 array of 8 elements, and give what it holds then."""
    data = array(*(start or [0] * 8))
    run([A, *params], *body, args=(data, *args))
    return data.tolist()


@clauses("TIR-STMT-09", "TIR-STMT-05", "TIR-STMT-05c")
def test_a_sequence_runs_in_order() -> None:
    assert after(store(A, i32(1), 0), store(A, load(A, 0) + 1, 1), store(A, i32(9), 0))[:2] == [
        9,
        2,
    ]
    data = array(7, 0, 0, 0, 0, 0, 0, 0)
    run([A], SeqStmt(()), args=(data,))
    assert data[0] == 7


@clauses("TIR-STMT-02")
def test_let_binds_for_its_body() -> None:
    v = Var("v", "int32")
    body = LetStmt(v, load(A, 0) + 1, seq([store(A, i32(5), 0), store(A, v, 1)]))
    assert after(body, start=[1] * 8)[:2] == [5, 2]
    with pytest.raises(CompileError, match="nothing binds it"):
        after(LetStmt(v, i32(1), store(A, v, 0)), store(A, v, 1))


@clauses("TIR-STMT-02", "TIR-STMT-08")
def test_let_binds_a_pointer() -> None:
    p = Var("p", type_annotation=PointerType(PrimType(DataType("int32"))))
    b = decl_buffer((4,), "int32", "B", data=p, elem_offset=2)
    assert after(LetStmt(p, A.data, DeclBuffer(b, store(b, i32(3), 1))))[3] == 3


@clauses("TIR-STMT-03")
def test_unknown_attributes_only_run_their_body() -> None:
    for key in ("pragma_x", "volatile_scope"):
        assert after(AttrStmt(A.data, key, i32(1), store(A, i32(4), 2)))[2] == 4


@clauses("TIR-STMT-03a", "TIR-STMT-03b", "TIR-STMT-03d")
@pytest.mark.parametrize("key", ["thread_extent", "virtual_thread"])
def test_thread_attributes_run_once_per_thread(key: str) -> None:
    assert after(AttrStmt(K, key, i32(5), store(A, K * K, K))) == [0, 1, 4, 9, 16, 0, 0, 0]
    with pytest.raises(CompileError):
        after(AttrStmt(K, key, i32(5), store(A, K, K)), store(A, K, 0))


@clauses("TIR-STMT-03c", "TIR-STMT-13b", "TIR-STATE-05")
@pytest.mark.parametrize("kind", list(ForKind))
def test_an_error_stops_at_the_loop(kind: ForKind) -> None:
    data = array(*[0] * 8)
    body = loop(K, 8, AssertStmt(K < 3, StringImm("three"), store(A, K + 1, K)), kind=kind)
    with pytest.raises(RunAssertionError, match="three"):
        run([A], body, store(A, i32(99), 7), args=(data,))
    assert data[7] == 0


@clauses("TIR-STMT-04", "TIR-STATE-05")
def test_assertions() -> None:
    good = AssertStmt(X > 0, StringImm("x must be positive"), store(A, X, 0))
    assert after(good, params=(X,), args=(3,))[0] == 3
    with pytest.raises(AssertionError) as caught:
        after(good, params=(X,), args=(0,))
    assert isinstance(caught.value, RunAssertionError)
    assert caught.value.diagnostic.message == "x must be positive"
    assert caught.value.diagnostic.code == "RUN0202"


@clauses("TIR-STMT-04", "TIR-STY-03")
def test_an_integer_message_is_its_digits() -> None:
    with pytest.raises(RunAssertionError, match="42"):
        after(AssertStmt(X > 0, X + 42, store(A, X, 0)), params=(X,), args=(0,))
    assert after(AssertStmt(X > 0, X + 42, store(A, X, 0)), params=(X,), args=(1,))[0] == 1


@clauses("TIR-STMT-05")
def test_the_value_is_evaluated_before_the_indices() -> None:
    bad_index = load(A, i32(20))
    with pytest.raises(RunZeroDivisionError):
        after(store(A, i32(1) // X, bad_index), params=(X,), args=(0,))


@clauses("TIR-STMT-05b")
def test_a_store_into_a_buffer_without_axes() -> None:
    b = decl_buffer((), "float32", "B")
    data = np.zeros((), np.float32)
    run([b], store(b, f32(2.5)), args=(data,))
    assert data[()] == 2.5


@clauses("TIR-STMT-05a", "TIR-STMT-05d", "TIR-STMT-05e")
def test_a_vector_store_writes_its_lanes() -> None:
    value = Ramp(i32(10), i32(1), 4)
    assert after(store(A, value, Ramp(i32(6), i32(-2), 4))) == [13, 0, 12, 0, 11, 0, 10, 0]
    with pytest.raises(IndexError, match="index 8 is outside of axis 0 of A"):
        after(store(A, value, Ramp(i32(5), i32(1), 4)))


@clauses("TIR-STMT-05d", "TIR-EVAL-06d")
def test_buffers_of_vectors() -> None:
    b = decl_buffer((3,), "int32x2", "B")
    value = Ramp(i32(1), i32(1), 4)
    data = np.zeros((3, 2), np.int32)
    run([b], store(b, value, Ramp(i32(0), i32(2), 2)), args=(data,))
    assert data.tolist() == [[1, 2], [0, 0], [3, 4]]
    copy = store(b, load(b, 2), 1)
    run([b], copy, args=(data,))
    assert data.tolist() == [[1, 2], [3, 4], [3, 4]]


# -- allocations -------------------------------------------------------------------------------
@clauses("TIR-STMT-06", "TIR-STMT-06a", "TIR-SCOPE-09")
def test_buffer_realize_allocates_the_shape() -> None:
    b = decl_buffer((4,), "int32", "B")
    bounds = (Range(i32(1), i32(1)),)
    body = seq([store(b, i32(6), 3), store(A, load(b, 3), 0)])
    assert after(BufferRealize(b, bounds, FLAG, body))[0] == 6
    n, s = Var("n", "int32"), Var("s", "int32")
    c = decl_buffer((n,), "int32", "C", strides=(s,))
    bound = (Range(i32(0), X),)
    assert (
        after(BufferRealize(c, bound, TRUE, store(A, n * 10 + s, 0)), params=(X,), args=(5,))[0]
        == 51
    )


def raw(condition: IntImm, body: Stmt, extent: object = 4) -> tuple[Buffer, Allocate]:
    p = Var("p", type_annotation=PointerType(PrimType(DataType("int32"))))
    b = decl_buffer((4,), "int32", "B", data=p)
    extents = (extent if not isinstance(extent, int) else i32(extent),)
    return b, Allocate(p, DataType("int32"), extents, condition, DeclBuffer(b, body))


@clauses("TIR-STMT-07", "TIR-STMT-07b", "TIR-STMT-07c", "TIR-SCOPE-08")
def test_allocate_runs_its_body_only_on_the_condition() -> None:
    _, yes = raw(TRUE, store(A, i32(1), 0))
    _, no = raw(FLAG, store(A, i32(2), 1))
    assert after(yes, no)[:2] == [1, 0]


@clauses("TIR-STMT-07", "TIR-STMT-07a")
def test_allocate_without_its_condition_does_not_evaluate_extents() -> None:
    _, never = raw(FLAG, store(A, i32(2), 1), i32(1) // X)
    assert after(never, params=(X,), args=(0,))[1] == 0


@clauses("TIR-STMT-07b", "TIR-BUF-04", "TIR-STATE-03")
def test_each_allocation_is_fresh_and_holds_a_pattern() -> None:
    p = Var("p", type_annotation=PointerType(PrimType(DataType("int32"))))
    b = decl_buffer((4,), "int32", "B", data=p)
    body = DeclBuffer(b, seq([store(A, load(b, 1), K), store(b, i32(7), 1)]))
    made = after(loop(K, 2, Allocate(p, DataType("int32"), (i32(4),), TRUE, body)))
    poison = int.from_bytes(b"\xcd" * 4, "little", signed=True)
    assert made[:2] == [poison, poison]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_fresh_float_is_nan(dtype: str) -> None:
    p = Var("p", type_annotation=PointerType(PrimType(DataType(dtype))))
    b = decl_buffer((2,), dtype, "B", data=p)
    body = DeclBuffer(b, ret(load(b, 1)))
    assert math.isnan(run([], Allocate(p, DataType(dtype), (i32(2),), TRUE, body)))


def test_what_cannot_be_allocated() -> None:
    n = Var("n", "int64")
    for size in (-1, 2**62):
        _, made = raw(TRUE, store(A, i32(1), 0), n)
        with pytest.raises(RunValueError) as caught:
            after(made, params=(n,), args=(size,))
        assert caught.value.diagnostic.code == "RUN0206"
    _, made = raw(TRUE, store(A, i32(1), 0), n)
    with pytest.raises(RunMemoryError):
        after(made, params=(n,), args=(2**58,))


@clauses("TIR-STMT-08")
def test_a_declared_buffer_is_a_name_for_memory() -> None:
    b = decl_buffer((2, 3), "int32", "B", data=A.data, elem_offset=1, strides=(4, 1))
    assert after(DeclBuffer(b, store(b, i32(5), 1, 2))) == [0] * 7 + [5]
    with pytest.raises(IndexError):
        after(DeclBuffer(b, store(b, i32(5), 0, 3)))
    large = decl_buffer((20,), "int32", "L", data=A.data)
    with pytest.raises(IndexError):
        after(DeclBuffer(large, store(large, i32(5), 8)))


def test_a_buffer_on_known_memory_needs_no_declaration() -> None:
    b = decl_buffer((4, 2), "int32", "B", data=A.data)
    assert after(store(b, i32(3), 3, 1))[7] == 3


def test_bool_memory_reads_any_nonzero_byte_as_true() -> None:
    b = decl_buffer((3,), "bool", "B")
    data = np.array([0, 2, 255], np.uint8).view(bool)
    for i, wanted in enumerate((0, 1, 1)):
        assert run([b], ret(Cast(load(b, i), DataType("int32"))), args=(data,)) == wanted
    run([b], store(b, load(b, 1), 0), args=(data,))
    assert data.view(np.uint8)[0] == 1


# -- choices and loops -------------------------------------------------------------------------
@clauses("TIR-STMT-10")
def test_if_runs_one_case() -> None:
    both = IfThenElse(X > 0, store(A, i32(1), 0), store(A, i32(2), 0))
    one = IfThenElse(X > 0, store(A, i32(3), 1))
    assert after(both, one, params=(X,), args=(1,))[:2] == [1, 3]
    assert after(both, one, params=(X,), args=(0,))[:2] == [2, 0]


@clauses("TIR-STMT-11")
def test_evaluate_evaluates() -> None:
    assert after(Evaluate(X + 1), params=(X,), args=(0,)) == [0] * 8
    with pytest.raises(RunZeroDivisionError):
        after(Evaluate(i32(1) // X), params=(X,), args=(0,))


@pytest.mark.parametrize("kind", list(ForKind))
@clauses("TIR-STMT-12", "TIR-STMT-12a", "TIR-STMT-13", "TIR-STMT-13a", "TIR-STMT-14")
@clauses("TIR-STMT-15", "TIR-STMT-16", "TIR-STMT-12d")
def test_loops_run_from_min_over_extent(kind: ForKind) -> None:
    assert after(loop(K, 3, store(A, K * 10, K), start=2, kind=kind)) == [0, 0, 20, 30, 40, 0, 0, 0]


@pytest.mark.parametrize("extent", [0, -1, -5, -(2**31)])
@pytest.mark.parametrize("kind", list(ForKind))
@clauses("TIR-STMT-12c")
def test_an_extent_of_zero_or_less_runs_nothing(kind: ForKind, extent: int) -> None:
    assert after(loop(K, X, store(A, i32(1), 0), kind=kind), params=(X,), args=(extent,))[0] == 0


@clauses("TIR-STMT-12b", "TIR-STMT-12c")
def test_bounds_are_evaluated_once() -> None:
    body = seq([store(A, load(A, 1) + 1, 1), store(A, i32(1), 0)])
    assert after(loop(K, load(A, 0), body), start=[5, 0, 0, 0, 0, 0, 0, 0])[1] == 5


@clauses("TIR-STMT-12", "TIR-STMT-12b")
def test_min_is_evaluated_before_the_extent() -> None:
    made = For(K, i32(1) // X, load(A, 20), ForKind.SERIAL, store(A, K, 0))
    with pytest.raises(RunZeroDivisionError):
        after(made, params=(X,), args=(0,))


@clauses("TIR-STMT-12")
def test_constant_bounds_take_the_width_of_the_variable() -> None:
    wide = Var("w", "int64")
    made = For(
        wide,
        IntImm(2, DataType("int8")),
        IntImm(2, DataType("int32")),
        ForKind.SERIAL,
        store(A, i32(1), wide),
    )
    assert after(made) == [0, 0, 1, 1, 0, 0, 0, 0]


@clauses("TIR-STMT-12c")
def test_a_loop_up_to_the_largest_value() -> None:
    b = Var("b", "int8")
    made = loop(b, 3, store(A, load(A, 0) + Cast(b, DataType("int32")), 0), start=125)
    assert after(made)[0] == 125 + 126 + 127
    over = loop(b, 4, store(A, i32(1), 0), start=125)
    with pytest.raises(RunValueError) as caught:
        after(over)
    assert caught.value.diagnostic.code == "RUN0208"
    q = Var("q", "uint64")
    far = For(
        q,
        const(2**64 - 2, "uint64"),
        const(2, "uint64"),
        ForKind.SERIAL,
        store(A, load(A, 0) + 1, 0),
    )
    assert after(far)[0] == 2


@clauses("TIR-STMT-12e", "TIR-STMT-13d", "TIR-SCOPE-07")
def test_a_loop_variable_ends_with_its_loop() -> None:
    with pytest.raises(CompileError, match="nothing binds it"):
        after(loop(K, 2, store(A, K, K)), store(A, K, 0))


@clauses("TIR-STMT-17")
def test_while_runs_as_long_as_its_condition_is_not_zero() -> None:
    body = seq([store(A, load(A, 0) - 1, 0), store(A, load(A, 1) + 1, 1)])
    assert after(While(load(A, 0) > 0, body), start=[5, *[0] * 7])[1] == 5
    assert after(While(load(A, 0), body), start=[3, *[0] * 7])[1] == 3
    assert after(While(load(A, 0) > 0, body))[1] == 0


@clauses("TIR-BLTN-09")
def test_break_and_continue() -> None:
    leave, skip = (Evaluate(call_builtin(n)) for n in ("break_loop", "continue_loop"))
    body = seq([IfThenElse(K.equal(2), skip), IfThenElse(K.equal(5), leave), store(A, K + 1, K)])
    assert after(loop(K, 8, body)) == [1, 2, 0, 4, 5, 0, 0, 0]
    inner = loop(J, 8, IfThenElse(J > K, leave), store(A, load(A, K) + 1, K))
    assert after(loop(K, 3, inner)) == [1, 2, 3, 0, 0, 0, 0, 0]
    count = seq([store(A, load(A, 0) + 1, 0), IfThenElse(load(A, 0) > 6, leave), skip])
    assert after(While(TRUE, count))[0] == 7
    with pytest.raises(CompileError, match="outside of a loop"):
        after(leave)


@clauses("TIR-BLTN-10", "TIR-STMT-01n")
def test_return_ends_the_function() -> None:
    first = loop(K, 8, IfThenElse(load(A, K) > 2, ret(K)))
    f = func([A], first, ret(i32(-1)))
    assert interpret(f, "main", array(0, 1, 2, 3, 4, 5, 6, 7)) == 3
    assert interpret(f, "main", array(*[0] * 8)) == -1
    assert interpret(func([A], store(A, i32(1), 0)), "main", array(*[0] * 8)) is None


def test_return_inside_an_expression() -> None:
    lazy = call_builtin("if_then_else", X > 0, call_builtin("ret", i32(7)), i32(1))
    assert run([X], Evaluate(lazy), ret(i32(8)), args=(1,)) == 7
    assert run([X], Evaluate(lazy), ret(i32(8)), args=(0,)) == 8


def test_the_end_without_a_return_is_an_error() -> None:
    f = func([X], IfThenElse(X > 0, ret(i32(1))))
    assert interpret(f, "main", 1) == 1
    with pytest.raises(RunValueError) as caught:
        interpret(f, "main", 0)
    assert caught.value.diagnostic.code == "RUN0205"


# -- depth and watching ------------------------------------------------------------------------
def test_a_thousand_nested_loops() -> None:
    body: Stmt = store(A, load(A, 0) + 1, 0)
    for depth in range(1_000):
        body = loop(Var(f"i{depth}", "int32"), 2 if depth % 250 == 0 else 1, body)
    assert after(body)[0] == 2**4


def test_ten_thousand_nested_lets() -> None:
    names = [Var(f"v{i}", "int32") for i in range(10_000)]
    body: Stmt = store(A, names[-1], 0)
    for previous, name in reversed(list(zip([X, *names], names, strict=False))):
        body = LetStmt(name, previous + 1, body)
    assert after(body, params=(X,), args=(0,))[0] == 10_000


def test_reading_what_was_never_written_is_found() -> None:
    b, made = raw(TRUE, seq([]))
    bad = Allocate(
        made.buffer_var, made.dtype, made.extents, TRUE, DeclBuffer(b, store(A, load(b, 1), 0))
    )
    good = Allocate(
        made.buffer_var,
        made.dtype,
        made.extents,
        TRUE,
        DeclBuffer(b, seq([store(b, i32(4), 1), store(A, load(b, 1), 0)])),
    )
    data = array(*[0] * 8)
    run([A], good, args=(data,), track=True)
    assert data[0] == 4
    with pytest.raises(RunValueError) as caught:
        run([A], bad, args=(data,), track=True)
    assert caught.value.diagnostic.code == "RUN0209"


@clauses("TIR-STMT-13c", "TIR-STMT-14")
@pytest.mark.parametrize("kind", [ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING])
def test_iterations_in_each_others_way_are_found(kind: ForKind) -> None:
    data = array(*range(8))
    independent = loop(K, 8, store(A, load(A, K) + 1, K), kind=kind)
    run([A], independent, args=(data,), track=True)
    assert data.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    shift = loop(K, 7, store(A, load(A, K + 1), K), kind=kind)
    same = loop(K, 8, store(A, K, 0), kind=kind)
    for bad in (shift, same):
        with pytest.raises(RunValueError) as caught:
            run([A], bad, args=(data,), track=True)
        assert caught.value.diagnostic.code == "RUN0210"
    run([A], loop(K, 7, store(A, load(A, K + 1), K)), args=(data,), track=True)


@clauses("TIR-STATE-01", "TIR-STATE-02", "TIR-STATE-06", "TIR-STMT-01m")
def test_what_a_program_writes_is_in_the_callers_array() -> None:
    data = np.arange(16, dtype=np.int32)[4:12]
    run([A], loop(K, 8, store(A, load(A, K) * 2, K)), args=(data,))
    assert data.tolist() == [2 * i for i in range(4, 12)]
    assert data.base is not None
    assert data.base.tolist()[:5] == [0, 1, 2, 3, 8]
