"""Datatype rules of expressions: what each node takes, and the dtype that it has."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from loomir.ir import structural_equal
from loomir.ir.module import GlobalVar
from loomir.support.dtype import HANDLE, VOID
from loomir.tir import (
    GE,
    GT,
    LE,
    LT,
    NE,
    TRUE,
    VOID_TYPE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Eq,
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
    decl_buffer,
)
from tests.conformance.compare_engines import both, dt, each, f32, i8, refused, zeros
from tests.tir.refusal import refused as refuses

ARITHMETIC = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max)
COMPARISONS = (Eq, NE, LT, LE, GE, GT)


def of(dtype: str) -> Var:
    """Make an expression of a dtype."""
    return Var("x", dtype)


def i(value: int) -> IntImm:
    return IntImm(value, dt("int32"))


# -- Var -----------------------------------------------------------------------------------------
def test_TIR_ETY_01_dtype_or_type():
    """A variable is made from a dtype or a type; neither, or two that disagree, is an error."""
    with refuses("TIR0111"):
        Var("x")
    with refuses("TIR0111"):
        Var("x", dt("int32"), PrimType(dt("int64")))


def test_TIR_ETY_01a_from_a_dtype():
    """A dtype other than void gives the plain type of that dtype."""
    for dtype in ("int8", "boolx4", "handle"):
        assert structural_equal(of(dtype).type_annotation, PrimType(dt(dtype)))


def test_TIR_ETY_01b_from_void():
    """The dtype void gives the empty tuple type."""
    assert structural_equal(Var("x", VOID).type_annotation, TupleType(()))


def test_TIR_ETY_01c_from_a_prim_type():
    """A plain type gives its dtype."""
    for dtype in ("int8", "float16x4"):
        assert Var("x", type_annotation=PrimType(dt(dtype))).dtype is dt(dtype)


def test_TIR_ETY_01d_from_a_pointer_type():
    """A pointer type gives a handle of 64 bits and one lane."""
    made = Var("p", type_annotation=PointerType(PrimType(dt("int8")), "shared")).dtype
    assert (made.code.name, made.bits, made.lanes) == ("HANDLE", 64, 1)


def test_TIR_ETY_01e_from_the_empty_tuple():
    """The empty tuple type gives void."""
    assert Var("x", type_annotation=VOID_TYPE).dtype is VOID


def test_TIR_ETY_01f_from_another_type():
    """No other type annotates a variable."""
    with refuses("TIR0111"):
        Var("x", type_annotation=TupleType((PrimType(dt("int32")),)))


# -- constants -----------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["int32x4", "uint8x2", "boolx4"])
def test_TIR_ETY_02_integer_constants_are_scalars(dtype: str):
    """An integer constant has one lane."""
    with refuses("TIR0104"):
        IntImm(0, dt(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "handle", "void"])
def test_TIR_ETY_02a_integer_constants_are_integers(dtype: str):
    """An integer constant is signed or unsigned."""
    with refuses("TIR0104"):
        IntImm(0, dt(dtype))
    assert IntImm(0, dt("int8")).dtype.is_int
    assert IntImm(0, dt("uint8")).dtype.is_uint


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_TIR_ETY_02b_unsigned_range(bits: int):
    """An unsigned constant is from 0 to 2 to the power bits, exclusive, also in 64 bits (T22)."""
    dtype = dt(f"uint{bits}")
    for value in (0, 2**bits - 1):
        assert IntImm(value, dtype).value == value
    for value in (-1, 2**bits):
        with refuses("TIR0103"):
            IntImm(value, dtype)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_TIR_ETY_02c_signed_range(bits: int):
    """A signed constant is within two's complement, also in 64 bits (T22)."""
    dtype, half = dt(f"int{bits}"), 2 ** (bits - 1)
    for value in (-half, half - 1):
        assert IntImm(value, dtype).value == value
    for value in (-half - 1, half):
        with refuses("TIR0103"):
            IntImm(value, dtype)


def test_TIR_ETY_02d_one_bit():
    """A constant of one bit is 0 or 1."""
    assert [IntImm(v, dt("bool")).value for v in (0, 1)] == [0, 1]
    for value in (-1, 2):
        with refuses("TIR0103"):
            IntImm(value, dt("bool"))


def test_TIR_ETY_02e_dtype_of_an_integer_constant():
    """An integer constant has the dtype that it was given."""
    for dtype in ("int8", "uint64", "bool"):
        assert IntImm(1, dt(dtype)).dtype is dt(dtype)


@pytest.mark.parametrize("dtype", ["int32", "bool", "handle", "float32x4"])
def test_TIR_ETY_03_float_constants_are_floats(dtype: str):
    """A constant with a point is a float or a bfloat."""
    with refuses("TIR0104"):
        FloatImm(0.0, dt(dtype))


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        ("float16", 65504.0),
        ("bfloat16", 3.3895313892515355e38),
        ("float32", 3.4028234663852886e38),
        ("float64", 1.7976931348623157e308),
    ],
)
def test_TIR_ETY_03a_float_range(dtype: str, largest: float):
    """It is NaN, infinite, or no larger than the largest of its dtype (T21)."""
    for value in (largest, -largest, math.inf, -math.inf, math.nan, -0.0):
        FloatImm(value, dt(dtype))
    above = math.nextafter(largest, math.inf)
    for value in (above, -above) if math.isfinite(above) else ():
        with refuses("TIR0103"):
            FloatImm(value, dt(dtype))


def test_TIR_ETY_03b_dtype_of_a_float_constant():
    """A constant with a point has the dtype that it was given."""
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        assert FloatImm(1.5, dt(dtype)).dtype is dt(dtype)


def test_TIR_ETY_04_strings():
    """A text is a handle of 64 bits and one lane."""
    assert StringImm("x").dtype is HANDLE


# -- Cast and Select -----------------------------------------------------------------------------
def test_TIR_ETY_05_cast_keeps_lanes():
    """A cast keeps the number of lanes."""
    for source, target in [("int32", "int8x4"), ("int32x4", "int8"), ("int32x4", "int32x8")]:
        with refuses("TIR0105"):
            Cast(of(source), dt(target))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "bool"])
def test_TIR_ETY_05a_cast_of_a_handle(dtype: str):
    """A handle is cast to handles only."""
    with refuses("TIR0105"):
        Cast(of("handle"), dt(dtype))
    assert Cast(of("handle"), HANDLE).dtype is HANDLE


def test_TIR_ETY_05b_cast_to_a_handle():
    """Integers and handles are cast to a handle, floats are not."""
    for dtype in ("int64", "uint32", "handle"):
        assert Cast(of(dtype), HANDLE).dtype is HANDLE
    for dtype in ("float64", "bfloat16"):
        with refuses("TIR0105"):
            Cast(of(dtype), HANDLE)


def test_TIR_ETY_05c_dtype_of_a_cast():
    """A cast has the dtype that it is to."""
    for source, target in [("int8", "uint64"), ("float32x4", "boolx4"), ("bool", "bfloat16")]:
        assert Cast(of(source), dt(target)).dtype is dt(target)


def test_TIR_ETY_06_condition_of_select():
    """The condition of a selection is a truth value, or a vector of them."""
    assert Select(of("boolx4"), of("int32x4"), of("int32x4")).dtype == "int32x4"
    for dtype in ("int32", "uint8", "float32"):
        with refuses("TIR0106"):
            Select(of(dtype), i(1), i(2))
    refused(
        "TIR0106",
        """
        @T.prim_func
        def main(x: T.int32) -> T.int32:
            return T.Select(x, 1, 2)  # <--
        """,
    )


def test_TIR_ETY_06a_values_of_select():
    """Both values of a selection have one dtype."""
    for a, b in [("int32", "int64"), ("int32", "uint32"), ("int32", "int32x4")]:
        with refuses("TIR0106"):
            Select(TRUE, of(a), of(b))


def test_TIR_ETY_06b_lanes_of_select():
    """The condition has one lane, or as many as the values."""
    with refuses("TIR0106"):
        Select(of("boolx2"), of("int32x4"), of("int32x4"))
    with refuses("TIR0106"):
        Select(of("boolx2"), of("int32"), of("int32"))
    assert Select(of("bool"), of("int32x4"), of("int32x4")).dtype == "int32x4"


def test_TIR_ETY_06c_dtype_of_select():
    """A selection has the dtype of its values."""
    for dtype in ("float16", "handle", "bfloat16x8"):
        assert Select(TRUE, of(dtype), of(dtype)).dtype is dt(dtype)


# -- loads ---------------------------------------------------------------------------------------
def test_TIR_ETY_07_vector_indices():
    """Only the last index may be a vector; there is one index for each axis (T26)."""
    buffer = decl_buffer((4, 8), "int32")
    assert BufferLoad(buffer, (i(0), of("int32x4"))).dtype == "int32x4"
    with refuses("TIR0107"):
        BufferLoad(buffer, (of("int32x4"), i(0)))
    for indices in ((i(0),), (i(0), i(0), i(0)), ()):
        with refuses("TIR0107"):
            BufferLoad(buffer, indices)


def test_TIR_ETY_07a_integer_indices():
    """Indices are integers, signed and unsigned of any width in any mix (T24)."""
    buffer = decl_buffer((4, 8), "int32")
    for a, b in [("int8", "uint64"), ("uint16", "int32"), ("int64", "int8x4")]:
        BufferLoad(buffer, (of(a), of(b)))
    for wrong in ("float32", "bool", "handle"):
        with refuses("TIR0107"):
            BufferLoad(buffer, (i(0), of(wrong)))


def test_TIR_ETY_07b_lanes_of_a_load():
    """A load has the lanes of its last index times those of the buffer's elements."""
    for element, index, wanted in [
        ("int32", "int32", "int32"),
        ("int32", "int32x4", "int32x4"),
        ("float16x2", "int32", "float16x2"),
        ("float16x2", "int32x4", "float16x8"),
    ]:
        assert BufferLoad(decl_buffer((4,), element), (of(index),)).dtype is dt(wanted)
    assert BufferLoad(decl_buffer((), "int8x4"), ()).dtype == "int8x4"


# -- vectors -------------------------------------------------------------------------------------
@pytest.mark.parametrize("lanes", [1, 0, -4])
def test_TIR_ETY_08_lanes_of_a_ramp(lanes: int):
    """A ramp has more than one lane."""
    with refuses("TIR0108"):
        Ramp(i(0), i(1), lanes)


def test_TIR_ETY_08a_parts_of_a_ramp():
    """The base and stride of a ramp are scalars of one dtype."""
    for a, b in [("int32", "int64"), ("int32", "uint32"), ("int32x4", "int32x4")]:
        with refuses("TIR0108"):
            Ramp(of(a), of(b), 4)


@pytest.mark.parametrize("dtype", ["float32", "bool", "handle", "bfloat16"])
def test_TIR_ETY_08b_ramps_of_integers(dtype: str):
    """The base and stride of a ramp are integers (T27)."""
    with refuses("TIR0108"):
        Ramp(of(dtype), of(dtype), 4)


def test_TIR_ETY_08c_dtype_of_a_ramp():
    """A ramp has its base's dtype, in its own number of lanes (T27)."""
    assert Ramp(of("uint16"), of("uint16"), 8).dtype == "uint16x8"


def test_TIR_ETY_09_broadcasts_of_scalars():
    """What is repeated is a scalar."""
    with refuses("TIR0108"):
        Broadcast(of("int32x2"), 4)


@pytest.mark.parametrize("lanes", [1, 0, -4])
def test_TIR_ETY_09a_lanes_of_a_broadcast(lanes: int):
    """A broadcast has more than one lane."""
    with refuses("TIR0108"):
        Broadcast(i(0), lanes)


def test_TIR_ETY_09b_dtype_of_a_broadcast():
    """A broadcast has its value's dtype, in its own number of lanes."""
    for dtype in ("bool", "bfloat16", "uint64"):
        assert Broadcast(of(dtype), 16).dtype is dt(f"{dtype}x16")


# -- Let and Call --------------------------------------------------------------------------------
def test_TIR_ETY_10_let():
    """A variable and its value have one dtype."""
    for dtype in ("int64", "uint32", "int32x4", "float32"):
        with refuses("TIR0109"):
            Let(of("int32"), of(dtype), i(1))


def test_TIR_ETY_10a_dtype_of_let():
    """A binding has the dtype of its body."""
    assert Let(of("int32"), i(1), of("float16x4")).dtype == "float16x4"


def test_TIR_ETY_11_call():
    """A call has the dtype that it declares, whatever the callee would give."""
    for dtype in ("int32", "float64x2", "void"):
        assert Call(dt(dtype), GlobalVar("f"), (i(1),)).dtype is dt(dtype)


# -- Shuffle -------------------------------------------------------------------------------------
def test_TIR_ETY_12_vectors_of_a_shuffle():
    """A shuffle has at least one vector."""
    with refuses("TIR0110"):
        Shuffle((), (i(0),))


def test_TIR_ETY_12a_elements_of_a_shuffle():
    """All vectors of a shuffle share code and bits; their lanes may differ."""
    Shuffle((of("int32x4"), of("int32"), of("int32x2")), (i(6),))
    for other in ("uint32x4", "int64x4", "float32x4"):
        with refuses("TIR0110"):
            Shuffle((of("int32x4"), of(other)), (i(0), i(1)))


def test_TIR_ETY_12b_total_lanes():
    """A shuffle picks from as many lanes as its vectors have together."""
    vectors = (of("int32x4"), of("int32"), of("int32x3"))
    assert Shuffle(vectors, (i(7),)).dtype == "int32"
    with refuses("TIR0110", "8 lanes"):
        Shuffle(vectors, (i(8),))


def test_TIR_ETY_12c_number_of_indices():
    """A shuffle has any number of indices, but at least one (T5)."""
    for count in (1, 2, 8):
        assert Shuffle((of("int32x4"),), (i(3),) * count).dtype.lanes == count
    with refuses("TIR0110"):
        Shuffle((of("int32x4"),), ())


def test_TIR_ETY_12d_indices_of_a_shuffle():
    """The indices of a shuffle are integer scalars, and constant (T5)."""
    Shuffle((of("int32x4"),), (IntImm(1, dt("uint8")), IntImm(2, dt("int64"))))
    for wrong in (of("int32"), const(1.0, "float32"), of("int32x2")):
        with refuses("TIR0110"):
            Shuffle((of("int32x4"),), (wrong, i(0)))


def test_TIR_ETY_12e_dtype_of_a_shuffle():
    """A shuffle has its vectors' element, in as many lanes as it has indices (T5)."""
    assert Shuffle((of("uint8x4"), of("uint8x4")), (i(0),) * 3).dtype == "uint8x3"


# -- operators -----------------------------------------------------------------------------------
@pytest.mark.parametrize("op", ARITHMETIC)
def test_TIR_ETY_13_arithmetic(op: Callable[..., PrimExpr]):
    """Both operands have one dtype, which is the result's."""
    for dtype in ("int8", "uint64", "int32x4"):
        assert op(of(dtype), of(dtype)).dtype is dt(dtype)
    for a, b in [("int32", "int64"), ("int32", "uint32"), ("int32", "int32x4")]:
        with refuses("TIR0101"):
            op(of(a), of(b))


@pytest.mark.parametrize("op", ARITHMETIC)
def test_TIR_ETY_13a_no_arithmetic_on_handles(op: Callable[..., PrimExpr]):
    """Handles have no arithmetic."""
    with refuses("TIR0102"):
        op(of("handle"), of("handle"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64x4"])
def test_TIR_ETY_13b_mod_is_for_integers(dtype: str):
    """The remainder of the truncated quotient is for integers; that of the floor is for floats too."""
    with refuses("TIR0102"):
        Mod(of(dtype), of(dtype))
    assert FloorMod(of(dtype), of(dtype)).dtype is dt(dtype)


@pytest.mark.parametrize("op", [And, Or])
def test_TIR_ETY_14_and_or(op: Callable[..., PrimExpr]):
    """The operands of and, or are truth values of equal lanes; so is the result."""
    for dtype in ("bool", "boolx8"):
        assert op(of(dtype), of(dtype)).dtype is dt(dtype)
    with refuses("TIR0101"):
        op(of("bool"), of("boolx8"))
    for dtype in ("int32", "uint8", "float32"):
        with refuses("TIR0102"):
            op(of(dtype), of("bool"))
        with refuses("TIR0102"):
            op(of("bool"), of(dtype))


def test_TIR_ETY_15_not():
    """The operand of not is a truth value; the result has its lanes."""
    for dtype in ("bool", "boolx4"):
        assert Not(of(dtype)).dtype is dt(dtype)
    with refuses("TIR0102"):
        Not(of("int32"))


@pytest.mark.parametrize("op", COMPARISONS)
def test_TIR_ETY_16_comparisons(op: Callable[..., PrimExpr]):
    """Both sides of a comparison have one dtype; the result is bool with their lanes (T9)."""
    for dtype, wanted in [("int8", "bool"), ("bfloat16x4", "boolx4"), ("boolx2", "boolx2")]:
        assert op(of(dtype), of(dtype)).dtype is dt(wanted)
    for a, b in [("int32", "int64"), ("int32", "uint32"), ("int32", "int32x4")]:
        with refuses("TIR0101"):
            op(of(a), of(b))


@pytest.mark.parametrize("op", COMPARISONS)
def test_TIR_ETY_16a_no_comparison_of_handles(op: Callable[..., PrimExpr]):
    """Handles are not compared."""
    with refuses("TIR0102"):
        op(of("handle"), of("handle"))


# -- the same rules where programs are read ------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "expression"),
    [
        ("TIR0101", "x + T.uint32(1)"),
        ("TIR0102", "T.And(x, x)"),
        ("TIR0103", "T.int8(128)"),
        ("TIR0105", 'T.Cast("int32x4", x)'),
        ("TIR0108", "T.Ramp(x, 1, 1)"),
        ("TIR0110", "T.Shuffle([T.Ramp(x, 1, 4)], [4])"),
    ],
)
def test_a_text_follows_the_rules(code: str, expression: str):
    """What a constructor refuses is refused in a text too, on its line."""
    refused(
        code,
        f"""
        @T.prim_func
        def main(x: T.int32):
            T.evaluate(0)
            T.evaluate({expression})  # <--
        """,
    )


def test_values_have_the_dtypes_derived():
    """The dtype that is derived is the one that a program's values have."""
    assert each("T.cast(a, 'int8') + T.int8(1)", gives="int8", a=f32(1.9)).tolist() == [2]
    assert each("a + a", a=i8(100)).tolist() == [-56]
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            A[0:4] = T.Select(T.Ramp(0, 1, 4) < 2, T.Ramp(10, 1, 4), T.Broadcast(7, 4))
    """
    assert both(source, zeros(4)).tolist() == [10, 11, 7, 7]
