"""The meaning of expressions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loomir.interp import interpret
from loomir.runtime.errors import RunIndexError, RunZeroDivisionError
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir import (
    NE,
    Add,
    And,
    Broadcast,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
    call_builtin,
    const,
    decl_buffer,
)
from tests.clause import clauses
from tests.interp.build import array, f32, func, i32, load, loop, ret, run, store, value_of

X, Y = Var("x", "int32"), Var("y", "int32")
V4 = Ramp(i32(1), i32(1), 4)


@clauses("TIR-EVAL-01")
def test_a_variable_has_the_value_bound_to_it() -> None:
    assert value_of(X, {X: 5}) == 5


@clauses("TIR-EVAL-01")
def test_an_unbound_variable_is_refused() -> None:
    with pytest.raises(CompileError, match="'y' is used where nothing binds it"):
        value_of(X + Y, {X: 5})


@clauses("TIR-EVAL-01", "TIR-EVAL-09")
def test_a_let_variable_ends_with_its_body() -> None:
    with pytest.raises(CompileError, match="nothing binds it"):
        value_of(Let(Y, i32(1), Y) + Y)


@clauses("TIR-EVAL-02")
def test_constants() -> None:
    assert value_of(IntImm(-7, DataType("int8"))) == -7
    assert value_of(FloatImm(0.1, DataType("float32"))) == float(np.float32(0.1))
    assert value_of(FloatImm(0.1, DataType("float16"))) == float(np.float16(0.1))
    assert value_of(IntImm(1, DataType("bool"))) is True


@clauses("TIR-EVAL-03")
def test_a_string_is_a_handle_to_its_characters() -> None:
    text = StringImm("abc")
    assert text.dtype.is_handle
    p = Var("p", "handle")
    # It can be bound and passed on; nothing but a builtin looks at it.
    assert value_of(Let(p, text, i32(4))) == 4


@clauses("TIR-EVAL-04d", "TIR-EVAL-04e")
def test_handles_cast_only_to_handles() -> None:
    p, q = Var("p", "handle"), Var("q", "handle")
    null = Cast(i32(0), DataType("handle"))
    assert value_of(Let(p, null, Let(q, Cast(p, DataType("handle")), i32(1)))) == 1
    with pytest.raises(CompileError):
        Cast(p, DataType("int64"))


@clauses("TIR-EVAL-04", "TIR-EVAL-04a", "TIR-EVAL-04b", "TIR-EVAL-04c")
def test_casts_of_scalars_and_vectors() -> None:
    assert value_of(Cast(X, DataType("uint8")), {X: -1}) == 255
    assert value_of(Cast(X, DataType("int8")), {X: 200}) == -56
    b = Var("b", "int8")
    assert value_of(Cast(b, DataType("int64")), {b: -3}) == -3
    f = Var("f", "float32")
    assert value_of(Cast(f, DataType("int32")), {f: -2.9}) == -2
    assert value_of(Cast(f, DataType("int8")), {f: 1e9}) == 127
    assert value_of(Cast(f, DataType("int8")), {f: math.nan}) == 0
    assert value_of(Cast(V4, DataType("float32x4"))) == [1.0, 2.0, 3.0, 4.0]


@clauses("TIR-EVAL-04")
def test_a_cast_to_bool_is_unequal_to_zero() -> None:
    assert value_of(Cast(X, DataType("bool")), {X: 2}) is True
    assert value_of(Cast(X, DataType("bool")), {X: 256}) is True
    assert value_of(Cast(X, DataType("bool")), {X: 0}) is False
    f = Var("f", "float32")
    assert value_of(Cast(f, DataType("bool")), {f: 0.5}) is True
    assert value_of(Cast(f, DataType("bool")), {f: math.nan}) is True


@clauses("TIR-EVAL-05", "TIR-EVAL-05a")
def test_select_evaluates_both_values() -> None:
    chosen = Select(X.not_equal(0), i32(10) // X, i32(-1))
    assert value_of(chosen, {X: 3}) == 3
    with pytest.raises(RunZeroDivisionError):
        value_of(chosen, {X: 0})


@clauses("TIR-EVAL-05b")
def test_select_by_a_vector_chooses_per_lane() -> None:
    even = (V4 % 2).equal(Broadcast(i32(0), 4))
    assert value_of(Select(even, V4, Broadcast(i32(-1), 4))) == [-1, 2, -1, 4]
    assert value_of(Select(X > 0, V4, Broadcast(i32(0), 4)), {X: 1}) == [1, 2, 3, 4]


# -- loads -------------------------------------------------------------------------------------
@clauses("TIR-EVAL-06", "TIR-BUF-03")
def test_a_buffer_without_axes_holds_one_element() -> None:
    a = decl_buffer((), "int32", "A")
    assert run([a], ret(load(a)), args=(array(9).reshape(()),)) == 9


@clauses("TIR-BUF-01", "TIR-BUF-02", "TIR-EVAL-06c")
def test_a_load_reads_the_element_at_its_indices() -> None:
    a = decl_buffer((2, 2, 3), "int32", "A")
    data = np.arange(1, 13, dtype=np.int32).reshape(2, 2, 3)
    assert run([a], ret(load(a, 0, 1, 1)), args=(data,)) == 5
    assert run([a], ret(load(a, 1, 0, 2)), args=(data,)) == 9


@clauses("TIR-EVAL-06d")
def test_a_vector_in_the_last_index_reads_lanes() -> None:
    a = decl_buffer((2, 8), "float32", "A")
    out = decl_buffer((4,), "float32", "out")
    data = np.arange(16, dtype=np.float32).reshape(2, 8)
    result = np.zeros(4, np.float32)
    body = store(out, load(a, 1, Ramp(i32(7), i32(-2), 4)), Ramp(i32(0), i32(1), 4))
    run([a, out], body, args=(data, result))
    assert result.tolist() == [15.0, 13.0, 11.0, 9.0]


@clauses("TIR-EVAL-06b")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_indices_of_any_width(dtype: str) -> None:
    a = decl_buffer((4,), "int32", "A")
    i = Var("i", dtype)
    assert run([a, i], ret(load(a, i)), args=(array(5, 6, 7, 8), 2)) == 7


@clauses("TIR-EVAL-06b", "TIR-EVAL-06e")
def test_an_index_outside_is_an_error_here() -> None:
    a = decl_buffer((4, 3), "int32", "A")
    i, j = Var("i", "int32"), Var("j", "int32")
    data = np.zeros((4, 3), np.int32)
    for bad, axis in (((-1, 0), 0), ((4, 0), 0), ((0, -1), 1), ((0, 3), 1)):
        with pytest.raises(RunIndexError, match=f"axis {axis} of A") as caught:
            run([a, i, j], ret(load(a, i, j)), args=(data, *bad))
        assert caught.value.diagnostic.code == "RUN0203"
    wide = Var("w", "uint64")
    with pytest.raises(RunIndexError):
        run([a, wide], ret(load(a, wide, 0)), args=(data, 2**64 - 1))


@clauses("TIR-EVAL-06a")
def test_indices_are_evaluated_left_to_right() -> None:
    a = decl_buffer((4, 4), "int32", "A")
    first = i32(1) // X
    second = load(a, i32(9), i32(0))
    with pytest.raises(RunZeroDivisionError):
        run([a, X], ret(load(a, first, second)), args=(np.zeros((4, 4), np.int32), 0))


# -- vectors -----------------------------------------------------------------------------------
@clauses("TIR-EVAL-07")
def test_a_ramp_counts_and_wraps() -> None:
    assert value_of(Ramp(X, Y, 4), {X: 5, Y: -2}) == [5, 3, 1, -1]
    b = Var("b", "int8")
    assert value_of(Ramp(b, const(100, "int8"), 4), {b: 100}) == [100, -56, 44, -112]


@clauses("TIR-EVAL-08")
def test_a_broadcast_repeats() -> None:
    assert value_of(Broadcast(X, 3), {X: 4}) == [4, 4, 4]


@clauses("TIR-EVAL-15", "TIR-EVAL-15a", "TIR-EVAL-15b")
def test_a_shuffle_picks_lanes_of_all_vectors() -> None:
    w = Broadcast(X, 2)
    picked = Shuffle((V4, w, Y), tuple(i32(i) for i in (6, 0, 5, 3)))
    assert value_of(picked, {X: 9, Y: 7}) == [7, 1, 9, 4]
    assert value_of(Shuffle((V4,), (i32(2),))) == 3


@clauses("TIR-EVAL-16a", "TIR-EVAL-21c")
def test_operators_act_on_each_lane() -> None:
    assert value_of(Add(V4, Broadcast(i32(10), 4))) == [11, 12, 13, 14]
    assert value_of(Mul(V4, V4)) == [1, 4, 9, 16]
    assert value_of(V4 > 2) == [False, False, True, True]


@clauses("TIR-EVAL-16e")
def test_one_zero_lane_is_a_division_by_zero() -> None:
    with pytest.raises(RunZeroDivisionError):
        value_of(Div(V4, V4 - 1))


# -- operators ---------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [Div, Mod, FloorDiv, FloorMod])
@clauses("TIR-EVAL-16e")
def test_division_by_zero_names_its_place(kind: type) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        value_of(kind(X, Y), {X: 1, Y: 0})
    assert isinstance(caught.value, RunZeroDivisionError)
    assert caught.value.diagnostic.code == "RUN0201"
    assert kind.__name__ in caught.value.diagnostic.message


@clauses("TIR-EVAL-16c")
def test_overflow_wraps() -> None:
    assert value_of(X + 1, {X: 2**31 - 1}) == -(2**31)
    assert value_of((X + 1) > X, {X: 2**31 - 1}) is False
    assert value_of(X * 2 // 2, {X: 2**30}) == -(2**30)
    u = Var("u", "uint8")
    assert value_of(u - const(1, "uint8"), {u: 0}) == 255


@clauses("TIR-EVAL-16b", "TIR-EVAL-21a")
def test_floats_are_not_reals() -> None:
    f = Var("f", "float32")
    assert value_of(f.equal(f), {f: math.nan}) is False
    assert math.isnan(value_of(f - f, {f: math.inf}))
    assert math.isnan(value_of(f * 0.0, {f: math.inf}))
    assert value_of((f + 1.0) - f, {f: 1e30}) == 0.0
    assert value_of(Not(f < 1.0), {f: math.nan}) is True
    assert value_of(f >= 1.0, {f: math.nan}) is False


@clauses("TIR-EVAL-16k")
def test_min_and_max() -> None:
    f, g = Var("f", "float32"), Var("g", "float32")
    for a, b in ((math.nan, 2.0), (2.0, math.nan)):
        assert math.isnan(value_of(Min(f, g), {f: a, g: b}))
        assert math.isnan(value_of(Max(f, g), {f: a, g: b}))
    assert value_of(Min(X, Y), {X: -1, Y: 1}) == -1
    assert value_of(Max(X, Y), {X: -1, Y: 1}) == 1


@clauses("TIR-EVAL-17", "TIR-EVAL-18")
def test_scalar_logic_stops_when_decided() -> None:
    safe = And(X.not_equal(0), (i32(6) // X) > 1)
    assert value_of(safe, {X: 0}) is False
    assert value_of(safe, {X: 2}) is True
    assert value_of(safe, {X: 6}) is False
    either = Or(X.equal(0), (i32(6) // X) > 1)
    assert value_of(either, {X: 0}) is True
    assert value_of(either, {X: 6}) is False


@clauses("TIR-EVAL-17")
def test_logic_evaluates_the_first_operand_always() -> None:
    with pytest.raises(RunZeroDivisionError):
        value_of(And((i32(6) // X) > 1, X.not_equal(0)), {X: 0})


@clauses("TIR-EVAL-19", "TIR-EVAL-20")
def test_vector_logic_is_lane_wise() -> None:
    low, high = V4 > 1, V4 < 4
    assert value_of(And(low, high)) == [False, True, True, False]
    assert value_of(Or(Not(low), Not(high))) == [True, False, False, True]
    assert value_of(Not(X > 1), {X: 1}) is True


@clauses("TIR-EVAL-16", "TIR-EVAL-21")
def test_operands_are_evaluated_in_order() -> None:
    a = decl_buffer((1,), "int32", "A")
    outside = load(a, i32(5))
    by_zero = i32(1) // X
    for kind in (Add, NE):
        made: PrimExpr = kind(outside, by_zero)
        with pytest.raises(RunIndexError):
            run([a, X], ret(Cast(made, DataType("int32"))), args=(array(1), 0))


@clauses("TIR-EVAL-09")
def test_let_binds_its_value_once() -> None:
    v = Var("v", "int32")
    assert value_of(Let(v, X * 3, v + v), {X: 2}) == 12
    inner = Var("w", "int32")
    assert value_of(Let(v, i32(2), Let(inner, v + 1, inner * v))) == 6


# -- depth -------------------------------------------------------------------------------------
def test_an_expression_of_a_hundred_thousand_nodes() -> None:
    expr: PrimExpr = X
    for _ in range(50_000):
        expr = expr + 1
    assert value_of(expr, {X: 5}) == 50_005
    expr = X
    for _ in range(50_000):
        expr = i32(1) - expr
    assert value_of(expr, {X: 5}) == 5


def test_deep_logic_lets_and_choices_stay_lazy() -> None:
    condition: PrimExpr = X.not_equal(0)
    chosen: PrimExpr = X
    for _ in range(3_000):
        condition = And(condition, (i32(4) // X) >= -4)
        chosen = call_builtin(
            "if_then_else", X.equal(0), i32(3), i32(1) // X + chosen - i32(1) // X
        )
        v = Var("v", "int32")
        chosen = Let(v, chosen, v)
    assert value_of(condition, {X: 0}) is False
    assert value_of(condition, {X: 2}) is True
    assert value_of(chosen, {X: 0}) == 3
    assert value_of(chosen, {X: 4}) == 4


def test_a_fault_deep_inside_is_still_that_fault() -> None:
    expr: PrimExpr = i32(1) // X
    for _ in range(5_000):
        expr = expr + 1
    with pytest.raises(RunZeroDivisionError):
        value_of(expr, {X: 0})


@clauses("TIR-VAL-06")
def test_a_value_bound_before_a_store_does_not_change() -> None:
    a, v, i = decl_buffer((1,), "float32", "A"), Var("v", "float32"), Var("i", "int32")
    from loomir.tir import LetStmt, seq

    body = LetStmt(v, load(a, 0), seq([store(a, f32(9.0), 0), ret(v)]))
    assert interpret(func([a], loop(i, 1, body)), "main", array(4.0, dtype="float32")) == 4.0
