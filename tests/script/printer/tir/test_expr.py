from __future__ import annotations

import math

import pytest

import loomir.script  # noqa: F401, makes str() of nodes print
from loomir.ir import GlobalVar
from loomir.support.dtype import BOOL, HANDLE, VOID, DataType
from loomir.tir import (
    BUILTINS,
    Add,
    And,
    Broadcast,
    BufferLoad,
    BufferRegion,
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
    Range,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Type,
    Var,
    call_builtin,
    const,
    convert,
    decl_buffer,
)
from loomir.tir.types import VOID_TYPE

X, Y = Var("x", "int32"), Var("y", "int32")
F = Var("f", "float32")
P, Q = Var("p", "bool"), Var("q", "bool")
V = Var("v", "int32x4")
A = decl_buffer((16, 16), name="A")
B = decl_buffer((64,), name="B")
ONE, TWO = convert(1), convert(2)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (ONE, "1"),
        (convert(-5), "-5"),
        (const(1, "int64"), "T.int64(1)"),
        (const(2**64 - 1, "uint64"), "T.uint64(18446744073709551615)"),
        (IntImm(1, BOOL), "T.bool(True)"),
        (const(0.1, "float32"), "T.float32(0.1)"),
        (const(-0.0, "float64"), "T.float64(-0.0)"),
        (FloatImm(math.inf, DataType("float16")), 'T.float16("inf")'),
        (FloatImm(-math.inf, DataType("bfloat16")), 'T.bfloat16("-inf")'),
        (FloatImm(math.nan, DataType("float32")), 'T.float32("nan")'),
        (StringImm('a "b"\n'), '"a \\"b\\"\\n"'),
        (X + 1, "x + 1"),
        (1 - X, "1 - x"),
        (Add(ONE, TWO), "T.int32(1) + 2"),
        (Mul(Add(X, Y), TWO), "(x + y) * 2"),
        (Div(X, Y), "x / y"),
        (FloorDiv(X, TWO), "x // 2"),
        (FloorMod(X, TWO), "x % 2"),
        (Mod(X, TWO), "T.truncmod(x, 2)"),
        (Min(X, Y), "T.min(x, y)"),
        (Max(ONE, TWO), "T.max(T.int32(1), 2)"),
        (Sub(X, Sub(X, Y)), "x - (x - y)"),
        (Eq(X < Y, P), "(x < y) == p"),
        (And(P, Or(Q, P)), "p and (q or p)"),
        (Not(And(P, Q)), "not (p and q)"),
        (-X, "0 - x"),
        (Cast(X, DataType("float16")), 'T.Cast("float16", x)'),
        (Cast(ONE, HANDLE), 'T.Cast("handle", 1)'),
        (Select(P, X, TWO), "T.Select(p, x, 2)"),
        (Ramp(X, TWO, 4), "T.Ramp(x, 2, 4)"),
        (Broadcast(X, 4), "T.Broadcast(x, 4)"),
        (Shuffle((V, V), (convert(7), ONE)), "T.Shuffle([v, v], [7, 1])"),
        (Let(Y, ONE, X + Y), "T.Let(x + y, where={y: 1})"),
        (call_builtin("exp", F), "T.exp(f)"),
        (call_builtin("shift_left", X, TWO), "x << 2"),
        (call_builtin("bitwise_and", X, Add(X, Y)), "x & x + y"),
        (call_builtin("bitwise_not", X + Y), "~(x + y)"),
        (call_builtin("if_then_else", P, ONE, TWO), "T.if_then_else(p, 1, 2)"),
        (call_builtin("reinterpret", X, dtype=DataType("float32")), 'T.reinterpret("float32", x)'),
        (Call(VOID, BUILTINS["exp"].op, (F,)), 'T.Call("void", "tir.exp", [f])'),
        (Call(VOID, GlobalVar("g"), (F,)), 'T.Call("void", I.GlobalVar("g"), [f])'),
        (BufferLoad(A, (X, const(3, "int64"))), "A[x, T.int64(3)]"),
        (BufferLoad(decl_buffer((), name="s"), ()), "s[()]"),
        (BufferLoad(B, (Ramp(X * 4, ONE, 4),)), "B[x * 4:x * 4 + 4]"),
        (BufferLoad(B, (Ramp(convert(0), ONE, 16),)), "B[0:16]"),
        (BufferLoad(B, (Ramp(X, TWO, 4),)), "B[T.Ramp(x, 2, 4)]"),
        (
            BufferLoad(B, (Ramp(const(8, "int64"), const(1, "int64"), 4),)),
            "B[T.int64(8):T.int64(12)]",
        ),
        (A.data, "A"),
    ],
)
def test_expressions(expr: PrimExpr, text: str):
    assert str(expr) == text
    assert repr(expr) == text


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        (((convert(0), convert(4)), (X, ONE)), "A[0:4, x]"),
        (((convert(2), convert(4)), (convert(3), ONE)), "A[2:6, 3]"),
        (((X, convert(4)), (X, Y)), "A[x:x + 4, x:x + y]"),
        (((X, Sub(Y, X)), (convert(0), Y)), "A[x:y, 0:y]"),
        (((X, Sub(Add(X, ONE), X)), (X, ONE)), "A[x:x + (x + 1 - x), x]"),
        (((TWO, Y), (convert(0), Sub(TWO, ONE))), "A[2:2 + y, 0:T.int32(2) - 1]"),
        (((convert(0), const(4, "int64")), (X, None)), "A[T.Range(0, T.int64(4)), T.Range(x)]"),
    ],
)
def test_regions(ranges: tuple[tuple[PrimExpr, PrimExpr | None], ...], text: str):
    assert str(BufferRegion(A, tuple(Range(*pair) for pair in ranges))) == text


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (PrimType(DataType("int32x4")), "T.int32x4"),
        (PrimType(HANDLE), "T.handle"),
        (PointerType(PrimType(DataType("int8"))), 'T.handle("int8")'),
        (PointerType(PrimType(DataType("int8")), "local"), 'T.handle("int8", "local")'),
        (VOID_TYPE, "T.void"),
    ],
)
def test_types(annotation: Type, text: str):
    assert str(annotation) == text


def test_buffers_and_ranges_print_by_themselves():
    assert str(A) == 'T.Buffer((16, 16), "float32")'
    strided = decl_buffer((4,), "int8", strides=(X,), elem_offset=2, scope="local")
    assert str(strided) == 'T.Buffer((4,), "int8", strides=(x,), elem_offset=2, scope="local")'
    assert str(Range(X, TWO)) == "T.Range(x, 2)"


def test_a_sum_of_many_terms_prints():
    total: PrimExpr = X
    for _ in range(100_000):
        total = Add(total, X)
    assert str(total) == " + ".join(["x"] * 100_001)
    nested: PrimExpr = X
    for _ in range(20_000):
        nested = Add(X, nested)
    assert str(nested).count("(") == 19_999
