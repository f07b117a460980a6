"""Evaluation of expressions: variables, constants, casts, choices, loads, vectors, calls."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loomir.ir.module import GlobalVar, IRModule
from loomir.tir import (
    Call,
    Cast,
    DeclBuffer,
    Evaluate,
    LetStmt,
    PointerType,
    PrimFunc,
    PrimType,
    Ramp,
    Select,
    SeqStmt,
    Shuffle,
    StringImm,
    Var,
    call_builtin,
    convert,
    decl_buffer,
)
from tests.conformance.compare_engines import (
    both,
    dt,
    each,
    f32,
    f64,
    fails,
    i8,
    i32,
    mistakes,
    refused,
    run_both,
    truths,
    u8,
    u32,
    u64,
    values,
    zeros,
)
from tests.conformance.tir.test_program import Elsewhere
from tests.tir.programs import func, ret, store, use

INF, NAN = math.inf, math.nan


# -- variables and constants ---------------------------------------------------------------------
def test_TIR_EVAL_01_var():
    """A variable gives the value bound to it, its innermost name's; an unbound one is an error."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((3,), "int32")):
            y = x + 1
            for i in range(3):
                z = y * 10 + i
                A[i] = z
    """
    assert both(source, 4, zeros(3)).tolist() == [50, 51, 52]
    assert mistakes(func(use(Var("x", "int32")))) == ["TIR0401"]
    refused(
        "SCR0003",
        """
        @T.prim_func
        def main(A: T.Buffer((3,), "int32")):
            A[0] = missing  # <--
        """,
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_TIR_EVAL_02_constants(dtype: str):
    """A constant is its value in its dtype, up to the ends of the dtype."""
    ends = dt(dtype)
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((3,), "{dtype}")):
            A[0] = T.{dtype}({ends.min_value})
            A[1] = T.{dtype}({ends.max_value})
            A[2] = 7
    """
    assert both(source, zeros(3, dtype=dtype)).tolist() == [ends.min_value, ends.max_value, 7]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_TIR_EVAL_02_float_constants(dtype: str):
    """A constant with a point is rounded to its dtype, half to even; the special values are kept."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((5,), "{dtype}")):
            A[0] = T.{dtype}(0.1)
            A[1] = T.{dtype}("inf")
            A[2] = T.{dtype}("-inf")
            A[3] = T.{dtype}("nan")
            A[4] = T.{dtype}(-0.0)
    """
    out = both(source, zeros(5, dtype=dtype))
    wanted = values(dtype, 0.1, INF, -INF)
    assert out[:3].tolist() == wanted.tolist()
    assert np.isnan(out[3])
    assert np.signbit(out[4])


def test_TIR_EVAL_03_strings():
    """A text is a pointer to its bytes, a NUL after them, which stay for good."""
    p = Var("p", type_annotation=PointerType(PrimType(dt("uint8"))))
    out = decl_buffer((8,), "uint8", "A")
    there = decl_buffer((4,), "uint8", "S", data=p)
    body = SeqStmt(tuple(store(out, there[k], k) for k in range(4)))
    made = func(LetStmt(p, StringImm("hé"), DeclBuffer(there, body)), out)
    assert both(made, zeros(8, dtype="uint8")).tolist()[:4] == [*"hé".encode(), 0]


# -- casts ---------------------------------------------------------------------------------------
def cast(dtype: str) -> str:
    return f'T.Cast("{dtype}", a)'


def test_TIR_EVAL_04_cast():
    """A cast converts as C does, lane by lane."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "int8")):
            B[0:4] = T.Cast("int8x4", A[0:4])
    """
    assert both(source, f32(1.9, -1.9, 0.5, 100), zeros(4, dtype="int8")).tolist() == [
        1,
        -1,
        0,
        100,
    ]
    # An integer that a float cannot hold is rounded, half to even.
    rows = i32(2**24 + 1, 2**24 + 3, -(2**31), 2**31 - 1)
    assert each(cast("float32"), "float32", a=rows).tolist() == [
        2.0**24,
        2.0**24 + 4,
        -(2.0**31),
        2.0**31,
    ]
    assert each(cast("float16"), "float16", a=f64(65519.9, 65520, 1e-8, 2049)).tolist() == [
        65504.0,
        INF,
        0.0,
        2048.0,
    ]


def test_TIR_EVAL_04a_to_unsigned():
    """To unsigned drops the high bits, or puts zeros before an unsigned value."""
    assert each(cast("uint8"), "uint8", a=i32(256, 511, -1, -256, 2**31 - 1)).tolist() == [
        0,
        255,
        255,
        0,
        255,
    ]
    assert each(cast("uint64"), "uint64", a=u8(255, 128, 0)).tolist() == [255, 128, 0]
    # From signed, C extends the sign first.
    assert each(cast("uint32"), "uint32", a=i8(-1, -128, 127)).tolist() == [
        2**32 - 1,
        2**32 - 128,
        127,
    ]


def test_TIR_EVAL_04b_to_signed():
    """To signed extends the sign, or keeps the low bits."""
    assert each(cast("int64"), "int64", a=i8(-1, -128, 127)).tolist() == [-1, -128, 127]
    assert each(cast("int8"), "int8", a=u32(128, 255, 256, 2**32 - 1)).tolist() == [-128, -1, 0, -1]
    assert each(cast("int64"), "int64", a=u64(2**63, 2**64 - 1)).tolist() == [-(2**63), -1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_TIR_EVAL_04c_float_to_integer(dtype: str):
    """A float loses its fraction, towards zero; beyond the ends it saturates, NaN is 0 (T17)."""
    rows = values(dtype, 1.875, -1.875, 0.5, -0.5, INF, -INF, NAN, -0.0, 300, -300)
    ends = [127, -128, 0, 0, 127, -128]
    assert each(cast("int8"), "int8", a=rows).tolist() == [1, -1, 0, 0, *ends]
    assert each(cast("uint8"), "uint8", a=rows).tolist() == [1, 0, 0, 0, 255, 0, 0, 0, 255, 0]


def test_TIR_EVAL_04c_wide_ends():
    """The ends of 32 and 64 bits are met exactly, where the float has none between (T17)."""
    near = np.nextafter(np.float64(2**63), 0)
    rows = f64(2.0**63, near, -(2.0**63), -(2.0**64), 2.0**64)
    assert each(cast("int64"), "int64", a=rows).tolist() == [
        2**63 - 1,
        int(near),
        -(2**63),
        -(2**63),
        2**63 - 1,
    ]
    assert each(cast("uint64"), "uint64", a=f64(2.0**64, -1, 2.0**63)).tolist() == [
        2**64 - 1,
        0,
        2**63,
    ]
    assert each(cast("uint32"), "uint32", a=f32(2.0**32, -0.9, 3e9)).tolist() == [
        2**32 - 1,
        0,
        3_000_000_000,
    ]


def test_TIR_EVAL_04_to_bool():
    """To bool is whether the value is not 0, NaN and halves included (T18)."""
    assert each(cast("bool"), "bool", a=i32(2, 256, -1, 0)).tolist() == [True, True, True, False]
    assert each(cast("bool"), "bool", a=f32(NAN, 0.5, -0.0, 1e-45)).tolist() == [
        True,
        True,
        False,
        True,
    ]
    assert each(cast("float16"), "float16", a=truths(1, 0)).tolist() == [1, 0]


def test_TIR_EVAL_04d_handles_to_handles():
    """A handle is cast to a handle only, and stays the same pointer."""
    p = Var("p", type_annotation=PointerType(PrimType(dt("int32"))))
    source = decl_buffer((2,), "int32", "A")
    same = decl_buffer((2,), "int32", "B", data=p)
    body = DeclBuffer(same, store(same, 9, 1))
    made = func(LetStmt(p, Cast(source.data, dt("handle")), body), source)
    assert both(made, zeros(2)).tolist() == [0, 9]
    refused(
        "TIR0105",
        """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            T.evaluate(T.cast(A.data, "int64"))  # <--
        """,
    )


def test_TIR_EVAL_04e_null():
    """The integer 0 as a handle is the null pointer, which a function may be given."""
    source = """
        @I.ir_module
        class Module:
            @T.prim_func
            def take(p: T.handle, x: T.int32) -> T.int32:
                return x

            @T.prim_func
            def main(x: T.int32) -> T.int32:
                return cls.take(T.Cast("handle", T.int64(0)), x)
    """
    assert run_both(source, 5, name="main").value == 5


# -- Select --------------------------------------------------------------------------------------
def test_TIR_EVAL_05_both_values():
    """A selection evaluates its condition, then both values: a division in either one raises (T16)."""
    source = """
        @T.prim_func
        def main(x: T.int32) -> T.int32:
            return T.Select(x != 0, {0}, {1})  # <--
    """
    for order in (("10 // x", "-1"), ("-1", "10 // x")):
        made = source.format(*order)
        fails("RUN0201", made, 0)
    assert both(source.format("10 // x", "-1"), 5) == 2
    lazy = source.replace("T.Select", "T.if_then_else").format("10 // x", "-1")
    assert both(lazy, 0) == -1


def test_TIR_EVAL_05_condition_first():
    """The condition of a selection is evaluated before its values."""
    x = Var("x", "int32")
    first = decl_buffer((1,), "int32", "A")
    made = func(ret(Select((convert(1) // x).equal(1), convert(1) % x, x)), first, x)
    assert "FloorDiv" in fails("RUN0201", made, zeros(1), 0).message


def test_TIR_EVAL_05a_scalar_condition():
    """A condition of one lane gives the first value where it holds, else the second, vectors too."""
    flags, a, b = truths(1, 0, 1), i32(1, 2, 3), i32(10, 20, 30)
    out = each("T.Select(c, a, b)", "int32", c=flags, a=a, b=b)
    assert out.tolist() == [1, 20, 3]
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4,), "int32")):
            A[0:4] = T.Select(x > 0, T.Ramp(0, 1, 4), T.Broadcast(x, 4))
    """
    assert both(source, 7, zeros(4)).tolist() == [0, 1, 2, 3]
    assert both(source, -7, zeros(4)).tolist() == [-7] * 4


def test_TIR_EVAL_05b_vector_condition():
    """A condition of several lanes chooses lane by lane."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            B[0:4] = T.Select(A[0:4] > T.Broadcast(T.float32(0), 4), A[0:4], T.Broadcast(T.float32(-0.0), 4))
    """
    out = both(source, f32(1, -2, NAN, INF), f32(9, 9, 9, 9))
    assert out.tolist() == [1.0, 0.0, 0.0, INF]
    assert np.signbit(out).tolist() == [False, True, True, False]


# -- loads ---------------------------------------------------------------------------------------
def test_TIR_EVAL_06_no_indices():
    """A load without indices gives the only element."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((), "float32")) -> T.float32:
            return A[()] * T.float32(2)
    """
    assert both(source, np.array(1.25, np.float32)) == 2.5


def test_TIR_EVAL_06a_indices_in_order():
    """Indices are evaluated from left to right: the first that fails is the one that is told."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4, 4), "int32")) -> T.int32:
            return A[{}, {}]  # <--
    """
    assert "FloorDiv" in fails("RUN0201", source.format("1 // x", "1 % x"), 0, zeros(4, 4)).message
    assert "FloorMod" in fails("RUN0201", source.format("1 % x", "1 // x"), 0, zeros(4, 4)).message


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_TIR_EVAL_06b_index_dtypes(dtype: str):
    """Indices of any width are widened to the machine's, unsigned ones without a sign (T25)."""
    source = f"""
        @T.prim_func
        def main(x: T.{dtype}, A: T.Buffer((300,), "int32")) -> T.int32:
            return A[x]
    """
    data = np.arange(300, dtype=np.int32)
    for index in {5, min(dt(dtype).max_value, 299)}:
        assert both(source, index, data) == index


def test_TIR_EVAL_06b_computed_indices_wrap_first():
    """An index wraps in its own dtype before it is widened (T12, T25)."""
    source = """
        @T.prim_func
        def main(x: T.int8, y: T.uint8, A: T.Buffer((300,), "int32"), B: T.Buffer((2,), "int32")):
            B[0] = A[x + T.int8(100) + T.int8(100)]
            B[1] = A[y + T.uint8(200)]
    """
    data = np.arange(300, dtype=np.int32)
    assert both(source, 100, 100, data, zeros(2)).tolist() == [44, 44]


def test_TIR_EVAL_06c_one_element():
    """Scalar indices read one element, in any number of axes."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2, 3, 4), "int16"), B: T.Buffer((4, 3, 2), "int16")):
            for i, j, k in T.grid(2, 3, 4):
                B[k, j, i] = A[i, j, k]
    """
    data = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    out = both(source, data, zeros(4, 3, 2, dtype="int16"))
    assert out.tolist() == data.transpose(2, 1, 0).tolist()


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        ("T.Ramp(1, 1, 4)", [1, 2, 3, 4]),
        ("T.Ramp(7, -2, 4)", [7, 5, 3, 1]),
        ("T.Broadcast(x, 4)", [6, 6, 6, 6]),
        ("T.Ramp(0, 3, 4) % 8", [0, 3, 6, 1]),
    ],
)
def test_TIR_EVAL_06d_vector_index(index: str, wanted: list[int]):
    """A vector as the last index reads one element for each lane, side by side."""
    source = f"""
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((2, 8), "int32"), B: T.Buffer((4,), "int32")):
            B[0:4] = A[1, {index}]
    """
    data = np.arange(-8, 8, dtype=np.int32).reshape(2, 8)
    assert both(source, 6, data, zeros(4)).tolist() == wanted


def test_TIR_EVAL_06d_buffers_of_vectors():
    """Elements that are vectors are put side by side, lane after lane."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((4,), "int32")):
            C = T.alloc_buffer((4,), "int32x2")
            for i in range(4):
                C[i] = A[i * 2 : i * 2 + 2]
            B[0:4] = C[T.Ramp(3, -2, 2)]
    """
    assert both(source, np.arange(8, dtype=np.int32), zeros(4)).tolist() == [6, 7, 2, 3]


def test_TIR_EVAL_06e_outside():
    """Nothing is promised outside of a buffer; with checks it is an error, and a constant always (T25)."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4,), "int32")) -> T.int32:
            return A[x]  # <--
    """
    for index in (-1, 4, 2**31 - 1, -(2**31)):
        fails("RUN0203", source, index, zeros(4), check_bounds=True)
    refused("SCR0019", source.replace("A[x]", "A[4]"))
    refused("SCR0019", source.replace("A[x]", "A[-1]"))


# -- vectors and bindings ------------------------------------------------------------------------
def test_TIR_EVAL_07_ramp():
    """Lane i of a ramp is base plus i times stride, which wraps as integers do."""
    source = """
        @T.prim_func
        def main(b: T.int8, s: T.int8, A: T.Buffer((4,), "int8")):
            A[0:4] = T.Ramp(b, s, 4)
    """
    empty = zeros(4, dtype="int8")
    for b, s in [(1, 2), (3, 0), (5, -3), (120, 5), (-128, -1), (0, 100)]:
        wanted = [(b + k * s + 128) % 256 - 128 for k in range(4)]
        assert both(source, b, s, empty).tolist() == wanted
    x = Var("x", "int32")
    order = func(use(Ramp(convert(1) // x, convert(1) % x, 4)), x)
    assert "FloorDiv" in fails("RUN0201", order, 0).message


def test_TIR_EVAL_08_broadcast():
    """A broadcast holds its value in each lane, NaN and the sign of zero included."""
    source = """
        @T.prim_func
        def main(x: T.float32, A: T.Buffer((8,), "float32")):
            A[0:8] = T.Broadcast(x, 8)
    """
    for value in (1.5, NAN, -0.0):
        out = both(source, value, f32(*[9.0] * 8))
        assert len(set(out.view(np.uint32).tolist())) == 1
        assert math.copysign(1, out[0]) == math.copysign(1, value) or math.isnan(value)


def test_TIR_EVAL_09_let():
    """A binding evaluates its value once, then its body, where the name stands for that."""
    source = """
        @T.prim_func
        def main(x: T.int32) -> T.int32:
            y = T.int32()
            z = T.int32()
            return T.Let(y * y + z, where={y: x + 1, z: y * 100}) + x
    """
    assert both(source, 3) == 16 + 400 + 3
    failing = """
        @T.prim_func
        def main(x: T.int32) -> T.int32:
            y = T.int32()
            return T.Let(T.int32(5), where={y: 1 // x})  # <--
    """
    fails("RUN0201", failing, 0)


# -- calls ---------------------------------------------------------------------------------------
def test_TIR_EVAL_10_builtins_have_their_own_rules():
    """Each builtin says itself what it does with its arguments; some need not be evaluated (T53)."""
    assert each("T.if_then_else(b != 0, a // b, 77)", a=i32(7, 7), b=i32(2, 0)).tolist() == [3, 77]
    x = Var("x", "float32")
    y = Var("y", "int32")
    ordered = func(ret(call_builtin("ldexp", x, convert(1) // y)), x, y)
    fails("RUN0201", ordered, 1.0, 0)
    assert both(ordered, 3.0, 1) == 6.0


PAIR = """
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def sub(a: T.int32, b: T.int32) -> T.int32:
            return a - b

        @T.prim_func
        def main(x: T.int32, A: T.Buffer((4,), "int32")) -> T.int32:
            return cls.sub({}, {})  # <--
"""


def test_TIR_EVAL_11_arguments_in_order():
    """Arguments of a function are evaluated from left to right, and keep their places (T43)."""
    assert both(PAIR.format("x * 2", "A[1]"), 5, i32(0, 3, 0, 0)) == 7
    for first, second, word in [("1 // x", "1 % x", "FloorDiv"), ("1 % x", "1 // x", "FloorMod")]:
        assert word in fails("RUN0201", PAIR.format(first, second), 0, zeros(4)).message


def test_TIR_EVAL_12_scopes_of_calls():
    """A callee runs in a scope of its own, with numbers by value and buffers as arrays (T43)."""
    source = """
        @I.ir_module
        class Module:
            @T.prim_func(private=True)
            def fill(a: T.handle, x: T.int32) -> T.int32:
                A = T.match_buffer(a, (n,), "int32")
                x_ = x + 1
                for i in range(n):
                    A[i] = x_ * 10 + T.cast(i, "int32")
                return x_

            @T.prim_func
            def main(x: T.int32, B: T.Buffer((3,), "int32"), A: T.Buffer((5,), "int32")):
                y = x * 2
                A[0] = cls.fill(B, y) + y * 1000
                A[1] = cls.fill(A, x)
                A[4] = B[2] + y
    """
    out = both(source, 1, zeros(3), zeros(5))
    assert out.tolist() == [20, 2, 22, 23, 34]


def test_TIR_EVAL_13_results_of_calls():
    """A call gives what the callee returned; one that returns nothing has no value (T43)."""
    assert both(PAIR.format("x", "x + x"), 8, zeros(4)) == -8
    void = """
        @I.ir_module
        class Module:
            @T.prim_func(private=True)
            def put(A: T.Buffer((4,), "int32")):
                A[0] = 3

            @T.prim_func
            def main(A: T.Buffer((4,), "int32")):
                {}  # <--
    """
    assert both(void.format("cls.put(A)"), zeros(4)).tolist() == [3, 0, 0, 0]
    refused("TIR0203", void.format("A[1] = cls.put(A)"))


def test_TIR_EVAL_14_calls_of_other_functions():
    """A call of something that is not a loop program is an error, told before it runs."""
    call = Evaluate(Call(dt("void"), GlobalVar("graph"), ()))
    main = PrimFunc((), call, attrs={"global_symbol": "main"})
    refused("TIR0410", IRModule({GlobalVar("graph"): Elsewhere(), GlobalVar("main"): main}))


# -- Shuffle -------------------------------------------------------------------------------------
def test_TIR_EVAL_15_order():
    """The vectors of a shuffle are evaluated in order."""
    x = Var("x", "int32")
    for parts, word in [
        ((convert(1) // x, convert(1) % x), "FloorDiv"),
        ((convert(1) % x, convert(1) // x), "FloorMod"),
    ]:
        made = func(use(Shuffle(parts, (convert(1), convert(0)))), x)
        assert word in fails("RUN0201", made, 0).message


def test_TIR_EVAL_15a_end_to_end():
    """A shuffle picks from its vectors put end to end, whatever their lanes."""
    source = """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((8,), "int32")):
            A[0:8] = T.Shuffle(
                [T.Ramp(x, 1, 4), x * 100, T.Ramp(x, -1, 3)], [7, 0, 4, 5, 3, 2, 1, 6]
            )
    """
    lanes = [5, 6, 7, 8, 500, 5, 4, 3]
    assert both(source, 5, zeros(8)).tolist() == [lanes[i] for i in (7, 0, 4, 5, 3, 2, 1, 6)]


def test_TIR_EVAL_15b_picked_lanes():
    """A shuffle has a lane for each index, which may repeat; one index gives a scalar (T5)."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
            B[0:2] = T.Shuffle([A[0:4]], [3, 3])
            B[2] = T.Shuffle([A[0:4]], [1])
    """
    assert both(source, i32(5, 6, 7, 8), zeros(4)).tolist() == [8, 8, 6, 0]
