from __future__ import annotations

import math

import pytest

from loomir.ir import GlobalVar, structural_equal
from loomir.ir.node import NODE_CLASSES
from loomir.support.dtype import BOOL, HANDLE, VOID, DataType
from loomir.tir import (
    BUILTINS,
    GE,
    GT,
    LE,
    LT,
    NE,
    VOID_TYPE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpOp,
    Div,
    Eq,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    LogicalOp,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PointerType,
    PrimExpr,
    PrimType,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    TupleType,
    Var,
    const,
    convert,
    decl_buffer,
    match_dtypes,
)
from tests.clause import clauses
from tests.tir.refusal import refused

INT8, INT32, INT64 = DataType("int8"), DataType("int32"), DataType("int64")
UINT8, FLOAT16, FLOAT32 = DataType("uint8"), DataType("float16"), DataType("float32")
BINARY = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)
COMPARE = (Eq, NE, LT, LE, GE, GT)


def var(dtype: str, name: str = "x") -> Var:
    return Var(name, dtype)


@clauses("TIR-GRAM-23", "TIR-GRAM-25", "TIR-GRAM-26", "TIR-GRAM-27", "TIR-VAL-11")
def test_the_expressions_are_those_of_the_grammar():
    named = {
        "Var": ("name_hint", "dtype", "type_annotation"),
        "IntImm": ("value", "dtype"),
        "FloatImm": ("value", "dtype"),
        "StringImm": ("value",),
        "Cast": ("value", "dtype"),
        "Select": ("condition", "true_value", "false_value"),
        "BufferLoad": ("buffer", "indices"),
        "Ramp": ("base", "stride", "lanes"),
        "Broadcast": ("value", "lanes"),
        "Let": ("var", "value", "body"),
        "Call": ("dtype", "op", "args"),
        "Shuffle": ("vectors", "indices"),
        **{cls.__name__: ("a", "b") for cls in (*BINARY, *COMPARE, And, Or)},
        "Not": ("a",),
    }
    made = {
        cls.__name__: tuple(f.name for f in cls.node_fields if f.name != "span")
        for cls in NODE_CLASSES.values()
        if cls.__module__.startswith("loomir.tir.") and issubclass(cls, PrimExpr)
    }
    assert made == named
    assert {c.__name__ for c in NODE_CLASSES.values() if issubclass(c, BinaryOp)} == {
        c.__name__ for c in BINARY
    }
    assert {c for c in NODE_CLASSES.values() if issubclass(c, CmpOp)} == set(COMPARE)
    assert {c for c in NODE_CLASSES.values() if issubclass(c, LogicalOp)} == {And, Or, Not}


@clauses("TIR-DT-01")
def test_every_expression_has_a_dtype():
    x = var("int32")
    buffer = decl_buffer((4,))
    for expr in (x, convert(1), x + 1, Cast(x, INT64), x < 1, Ramp(x, convert(1), 4), buffer[x]):
        assert isinstance(expr, PrimExpr)
        assert isinstance(expr.dtype, DataType)


# -- Var -----------------------------------------------------------------------------------------


@clauses("TIR-ETY-01")
def test_a_variable_needs_a_dtype_or_a_type_that_agree():
    with refused("TIR0111", "neither"):
        Var("x")
    with refused("TIR0111"):
        Var("x", INT32, PrimType(INT64))


@clauses("TIR-ETY-01a", "TIR-ETY-01c", "TIR-TY-01")
@pytest.mark.parametrize("dtype", ["int32", "float16x4", "bool", "handle"])
def test_a_dtype_and_its_type_make_the_same_variable(dtype: str):
    by_dtype, by_type = Var("x", dtype), Var("x", type_annotation=PrimType(DataType(dtype)))
    assert structural_equal(by_dtype.type_annotation, by_type.type_annotation)
    assert by_dtype.dtype is by_type.dtype is DataType(dtype)


@clauses("TIR-ETY-01b", "TIR-ETY-01e", "TIR-TY-05", "TIR-DT-07")
def test_a_void_variable_has_the_empty_tuple_type():
    assert structural_equal(Var("x", VOID).type_annotation, VOID_TYPE)
    assert Var("x", type_annotation=VOID_TYPE).dtype is VOID


@clauses("TIR-ETY-01d", "TIR-TY-02")
def test_a_pointer_variable_is_a_handle():
    pointer = PointerType(PrimType(FLOAT32), "shared")
    assert Var("p", type_annotation=pointer).dtype is HANDLE
    with refused("TIR0111"):
        Var("p", INT64, pointer)


@clauses("TIR-ETY-01f")
def test_no_other_type_annotates_a_variable():
    with refused("TIR0111"):
        Var("x", type_annotation=TupleType((PrimType(INT32),)))


# -- constants -----------------------------------------------------------------------------------


@clauses("TIR-ETY-02", "TIR-ETY-02a")
@pytest.mark.parametrize("dtype", ["int32x4", "float32", "handle", "bfloat16"])
def test_an_integer_constant_has_a_scalar_integer_dtype(dtype: str):
    with refused("TIR0104"):
        IntImm(0, DataType(dtype))


@clauses("TIR-ETY-02b", "TIR-ETY-02c", "TIR-ETY-02d", "TIR-ETY-02e")
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int8", -128, 127),
        ("int64", -(2**63), 2**63 - 1),
        ("uint8", 0, 255),
        ("uint64", 0, 2**64 - 1),
        ("bool", 0, 1),
    ],
)
def test_an_integer_constant_fits_its_dtype(dtype: str, low: int, high: int):
    for value in (low, high):
        made = IntImm(value, DataType(dtype))
        assert (made.value, made.dtype) == (value, DataType(dtype))
    for value in (low - 1, high + 1):
        with refused("TIR0103", str(value)):
            IntImm(value, DataType(dtype))


@clauses("TIR-ETY-03")
@pytest.mark.parametrize("dtype", ["int32", "float32x4", "bool", "handle"])
def test_a_float_constant_has_a_scalar_float_dtype(dtype: str):
    with refused("TIR0104"):
        FloatImm(0.0, DataType(dtype))


@clauses("TIR-ETY-03a", "TIR-ETY-03b")
@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        ("float16", 65504.0),
        ("bfloat16", 3.3895313892515355e38),
        ("float32", 3.4028234663852886e38),
        ("float64", 1.7976931348623157e308),
    ],
)
def test_a_float_constant_fits_its_dtype_or_is_not_finite(dtype: str, largest: float):
    wanted = DataType(dtype)
    for value in (largest, -largest, math.inf, -math.inf, math.nan, -0.0):
        assert FloatImm(value, wanted).dtype is wanted
    if dtype != "float64":
        with refused("TIR0103"):
            FloatImm(math.nextafter(largest, math.inf), wanted)


@clauses("TIR-ETY-04")
def test_a_string_is_a_handle():
    assert StringImm("s").dtype is HANDLE


# -- conversions and choices ---------------------------------------------------------------------


@clauses("TIR-ETY-05", "TIR-ETY-05c")
def test_a_cast_keeps_the_lanes():
    assert Cast(var("int32x4"), DataType("float16x4")).dtype == "float16x4"
    with refused("TIR0105", "lanes"):
        Cast(var("int32x4"), FLOAT16)


@clauses("TIR-ETY-05a")
def test_a_handle_is_cast_to_a_handle_only():
    assert Cast(var("handle"), HANDLE).dtype is HANDLE
    for dtype in ("int64", "float32", "bool", "void"):
        with refused("TIR0105"):
            Cast(var("handle"), DataType(dtype))


@clauses("TIR-ETY-05b")
def test_integers_and_handles_are_cast_to_a_handle():
    for dtype in ("int64", "uint8"):
        assert Cast(var(dtype), HANDLE).dtype is HANDLE
    for dtype in ("float32", "bfloat16"):
        with refused("TIR0105"):
            Cast(var(dtype), HANDLE)


@clauses("TIR-ETY-06", "TIR-ETY-06a", "TIR-ETY-06b", "TIR-ETY-06c")
def test_a_select_takes_a_bool_and_two_values_of_one_dtype():
    x, y = var("int32x4"), var("int32x4")
    assert Select(var("bool"), x, y).dtype == "int32x4"
    assert Select(var("boolx4"), x, y).dtype == "int32x4"
    with refused("TIR0106"):
        Select(var("int32"), x, y)
    with refused("TIR0106"):
        Select(var("bool"), x, var("float32x4"))
    with refused("TIR0106"):
        Select(var("boolx8"), x, y)


# -- vectors -------------------------------------------------------------------------------------


@clauses("TIR-ETY-08", "TIR-ETY-08a", "TIR-ETY-08b", "TIR-ETY-08c")
def test_a_ramp_is_of_scalar_integers():
    assert Ramp(var("uint8"), var("uint8"), 4).dtype == "uint8x4"
    for lanes in (1, 0, -4):
        with refused("TIR0108"):
            Ramp(var("int32"), var("int32"), lanes)
    with refused("TIR0108"):
        Ramp(var("int32"), var("int64"), 4)
    with refused("TIR0108"):
        Ramp(var("int32x4"), var("int32x4"), 4)
    with refused("TIR0108"):
        Ramp(var("float32"), var("float32"), 4)


@clauses("TIR-ETY-09", "TIR-ETY-09a", "TIR-ETY-09b")
def test_a_broadcast_repeats_a_scalar():
    assert Broadcast(var("bool"), 8).dtype == "boolx8"
    with refused("TIR0108"):
        Broadcast(var("int32x4"), 4)
    with refused("TIR0108"):
        Broadcast(var("int32"), 1)


@clauses("TIR-GRAM-05", "TIR-VAL-07")
@pytest.mark.parametrize("lanes", [5, 7, 128])
def test_lanes_outside_of_the_language_are_refused(lanes: int):
    with refused("TIR0001"):
        Broadcast(var("int32"), lanes)


@clauses("TIR-ETY-12", "TIR-ETY-12a", "TIR-ETY-12b", "TIR-ETY-12c", "TIR-ETY-12e")
def test_a_shuffle_has_as_many_lanes_as_indices():
    a, b = var("int32x4"), var("int32x4")
    assert Shuffle((a, b), (convert(7), convert(0))).dtype == "int32x2"
    assert Shuffle((a,), (convert(3),)).dtype is INT32
    with refused("TIR0110"):
        Shuffle((), (convert(0),))
    with refused("TIR0110"):
        Shuffle((a,), ())
    with refused("TIR0110"):
        Shuffle((a, var("int8x4")), (convert(0),))
    with refused("TIR0110", "0 to 7"):
        Shuffle((a, b), (convert(8),))


@clauses("TIR-ETY-12d")
def test_the_indices_of_a_shuffle_are_integer_constants():
    for index in (var("int32"), const(1.0, "float32"), convert(-1)):
        with refused("TIR0110"):
            Shuffle((var("int32x4"),), (index,))


# -- Let and Call --------------------------------------------------------------------------------


@clauses("TIR-ETY-10", "TIR-ETY-10a")
def test_a_let_binds_a_value_of_the_variables_dtype():
    x = var("int64")
    assert Let(x, const(1, INT64), x < const(2, INT64)).dtype is BOOL
    with refused("TIR0109"):
        Let(x, convert(1), x)


@clauses("TIR-ETY-11", "TIR-GRAM-24")
def test_a_call_has_the_dtype_that_it_declares():
    assert Call(FLOAT16, BUILTINS["exp"].op, (convert(1),)).dtype is FLOAT16
    assert Call(VOID, GlobalVar("f"), ()).dtype is VOID


# -- operators -----------------------------------------------------------------------------------


@clauses("TIR-ETY-13", "TIR-ETY-13a")
@pytest.mark.parametrize("op", BINARY)
def test_arithmetic_takes_and_gives_one_dtype(op: type[BinaryOp]):
    for dtype in ("int32", "uint8x4"):
        made = op(var(dtype), var(dtype))
        assert made.dtype == dtype
    with refused("TIR0101"):
        op(var("int32"), var("int64"))
    with refused("TIR0101"):
        op(var("int32"), var("int32x4"))
    with refused("TIR0102"):
        op(var("handle"), var("handle"))


@clauses("TIR-ETY-13b")
def test_mod_is_for_integers():
    with refused("TIR0102", "fmod"):
        Mod(var("float32"), var("float32"))
    assert FloorMod(var("float32"), var("float32")).dtype is FLOAT32


@clauses("TIR-ETY-16", "TIR-ETY-16a", "TIR-EVAL-21c")
@pytest.mark.parametrize("op", COMPARE)
def test_comparisons_give_bools_with_the_lanes(op: type[CmpOp]):
    for dtype, result in (("int32", "bool"), ("float16x8", "boolx8"), ("bool", "bool")):
        made = op(var(dtype), var(dtype))
        assert made.dtype == result
    with refused("TIR0101"):
        op(var("int32"), var("uint8"))
    with refused("TIR0102"):
        op(var("handle"), var("handle"))


@clauses("TIR-ETY-14")
@pytest.mark.parametrize("op", [And, Or])
def test_logic_is_of_bools_with_equal_lanes(op: type[And]):
    assert op(var("boolx4"), var("boolx4")).dtype == "boolx4"
    with refused("TIR0102"):
        op(var("bool"), var("int32"))
    with refused("TIR0101"):
        op(var("bool"), var("boolx4"))


@clauses("TIR-ETY-15")
def test_not_is_of_a_bool():
    assert Not(var("boolx4")).dtype == "boolx4"
    with refused("TIR0102"):
        Not(var("int32"))


# -- plain numbers -------------------------------------------------------------------------------


def test_plain_numbers_take_the_other_operands_dtype():
    for dtype in ("int8", "uint64", "float16", "int32x4"):
        made = var(dtype) + 1
        assert made.dtype == dtype
    assert (var("int32") * 1.5).dtype is FLOAT32
    assert (var("int32") + 2**40).dtype is INT64
    with refused("TIR0103"):
        var("uint8") + 256


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("int32", "int64", "int64"),
        ("uint8", "uint32", "uint32"),
        ("float16", "float32", "float32"),
        ("bfloat16", "float32", "float32"),
        ("int64", "float16", "float16"),
        ("int32", "int32x4", "int32x4"),
    ],
)
def test_two_dtypes_meet_where_nothing_is_lost(a: str, b: str, result: str):
    for x, y in ((a, b), (b, a)):
        left, right = match_dtypes(var(x), var(y))
        assert left.dtype == right.dtype == result


@pytest.mark.parametrize(
    ("a", "b"),
    [("int32", "uint32"), ("float16", "bfloat16"), ("int32x4", "int32x8"), ("bool", "int32")],
)
def test_other_dtypes_do_not_mix(a: str, b: str):
    with refused("TIR0101"):
        var(a) + var(b)


def test_minus_of_a_float_keeps_the_sign_of_zero():
    made = -var("float32")
    assert isinstance(made, Mul)
    assert isinstance(-var("int32"), Sub)


def test_an_expression_has_no_truth_value():
    with refused("TIR0112"):
        bool(var("int32") < 1)


@clauses("TIR-ETY-07")
def test_a_load_is_made_by_indexing():
    buffer = decl_buffer((4, 4), "float16")
    load = buffer[1, var("int64")]
    assert isinstance(load, BufferLoad)
    assert load.dtype is FLOAT16
