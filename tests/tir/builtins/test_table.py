from __future__ import annotations

import pytest

from loomir.ir import Effect
from loomir.support.dtype import DataType
from loomir.tir import BUILTINS, PrimExpr, Var, call_builtin, convert, effect_of
from loomir.tir.builtins.table import AcceptedDTypes
from tests.clause import clauses
from tests.tir.refusal import refused

ARGUMENTS = {
    AcceptedDTypes.FLOAT: ("float16", "int32"),
    AcceptedDTypes.INTEGER: ("uint8", "float32"),
    AcceptedDTypes.NUMBER: ("int64", "bool"),
    AcceptedDTypes.BITS: ("bool", "float32"),
    AcceptedDTypes.TRUTH: ("bool", "int32"),
}


@clauses("TIR-BLTN-01")
@pytest.mark.parametrize("name", BUILTINS)
def test_every_builtin_says_its_effect_and_meaning(name: str):
    row = BUILTINS[name]
    assert row.op.name == f"tir.{name}"
    assert isinstance(row.op.effect, Effect)
    assert row.summary


@pytest.mark.parametrize("name", [n for n, r in BUILTINS.items() if r.accepts in ARGUMENTS])
def test_builtins_check_number_and_dtype(name: str):
    row = BUILTINS[name]
    good, bad = ARGUMENTS[row.accepts]
    assert row.arity is not None

    def args(dtype: str, count: int) -> list[PrimExpr]:
        return [Var("x", dtype) for _ in range(count)]

    made = call_builtin(name, *args(good, row.arity))
    assert made.op is row.op
    assert effect_of(made) is row.op.effect
    with refused("TIR0114", name):
        call_builtin(name, *args(bad, row.arity))
    with refused("TIR0113", name):
        call_builtin(name, *args(good, row.arity + 1))
    if row.arity > 1:
        with refused("TIR0114"):
            call_builtin(name, *args(good, row.arity - 1), Var("y", f"{good}x4"))


@pytest.mark.parametrize(
    ("name", "dtypes", "result"),
    [
        ("exp", ("float16x4",), "float16x4"),
        ("ldexp", ("float64", "int32"), "float64"),
        ("isnan", ("bfloat16x8",), "boolx8"),
        ("popcount", ("uint8x4",), "int32x4"),
        ("if_then_else", ("bool", "int8", "int8"), "int8"),
        ("shift_left", ("int8", "int8"), "int8"),
        ("likely", ("bool",), "bool"),
        ("ret", ("float32",), "float32"),
    ],
)
def test_builtins_give_their_dtype(name: str, dtypes: tuple[str, ...], result: str):
    assert call_builtin(name, *(Var("x", d) for d in dtypes)).dtype == result


def test_builtins_with_rules_of_their_own():
    for dtypes in (
        ("int32", "int8", "int8"),
        ("bool", "int8", "int16"),
        ("boolx4", "int8", "int8"),
    ):
        with refused("TIR0114"):
            call_builtin("if_then_else", *(Var("x", d) for d in dtypes))
    with refused("TIR0114"):
        call_builtin("ldexp", Var("x", "float32"), Var("e", "int64"))


def test_bits_are_read_as_a_dtype_of_their_size():
    x = Var("x", "float32")
    assert call_builtin("reinterpret", x, dtype=DataType("int32")).dtype == "int32"
    assert call_builtin("reinterpret", x, dtype=DataType("int8x4")).dtype == "int8x4"
    for dtype in ("int64", "bool", "int8"):
        with refused("TIR0114"):
            call_builtin("reinterpret", x, dtype=DataType(dtype))


def test_expressions_without_calls_are_pure():
    assert effect_of(convert(1)) is Effect.PURE
    assert effect_of(call_builtin("break_loop")) is Effect.CONTROL_JUMP
