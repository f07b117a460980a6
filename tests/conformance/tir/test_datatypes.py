"""Datatypes: which are scalars, vectors, handles, and how they are written."""

from __future__ import annotations

import pytest

from loomir.support.dtype import BOOL, HANDLE, VOID
from loomir.tir import (
    TRUE,
    Broadcast,
    Cast,
    Let,
    Not,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
    call_builtin,
    const,
    convert,
    decl_buffer,
)
from tests.conformance.compare_engines import dt
from tests.conformance.tir.test_values import SCALARS
from tests.tir.refusal import refused as refuses

X = Var("x", "int32")


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (X, "int32"),
        (const(2.5, "float16"), "float16"),
        (StringImm("s"), "handle"),
        (Cast(X, dt("uint8")), "uint8"),
        (Select(TRUE, X, X), "int32"),
        (decl_buffer((4,), "float64")[X], "float64"),
        (Ramp(X, convert(1), 4), "int32x4"),
        (Broadcast(X, 8), "int32x8"),
        (Let(X, convert(1), const(1.0, "float32")), "float32"),
        (call_builtin("clz", const(1, "int64")), "int32"),
        (Shuffle((Broadcast(X, 4),), (convert(1), convert(0))), "int32x2"),
        (X + 1, "int32"),
        (X < 1, "bool"),
        (Not(X < 1), "bool"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, PrimExpr) else v,
)
def test_TIR_DT_01_every_expression_has_a_dtype(made: PrimExpr, dtype: str):
    """Each expression has a datatype, known when it is made."""
    assert made.dtype is dt(dtype)


@pytest.mark.parametrize("dtype", [*SCALARS, "int8x4", "boolx2", "handle", "void"])
def test_TIR_DT_02_scalars(dtype: str):
    """A scalar is an integer, float or bfloat of one lane."""
    assert dt(dtype).is_scalar == (dtype in SCALARS)


@pytest.mark.parametrize("dtype", SCALARS)
def test_TIR_DT_03_vectors(dtype: str):
    """A vector has the codes of scalars, and more than one lane."""
    assert not dt(dtype).is_vector
    for lanes in (2, 3, 4, 8, 16, 32, 64):
        made = dt(f"{dtype}x{lanes}")
        assert made.is_vector
        assert not made.is_scalar
        assert (made.code, made.bits, made.lanes) == (dt(dtype).code, dt(dtype).bits, lanes)
    assert not HANDLE.is_vector


def test_TIR_DT_04_handles():
    """A handle has the code for pointers; its bits are a pointer's width."""
    assert HANDLE.is_handle
    assert (HANDLE.code.name, HANDLE.bits) == ("HANDLE", 64)
    assert not any(dt(t).is_handle for t in [*SCALARS, "int64x4", "void"])


def test_TIR_DT_05_lanes_of_handles():
    """A handle is kept with one lane, and cannot be given more."""
    assert HANDLE.lanes == VOID.lanes == 1
    with refuses("TIR0001"):
        HANDLE.with_lanes(4)


def test_TIR_DT_06_bool():
    """Bool is the unsigned integer of one bit, as a scalar or a vector (T19)."""
    for lanes in ("", "x2", "x64"):
        made = dt(f"bool{lanes}")
        assert made.is_bool
        assert made.is_uint
        assert made.bits == 1
        assert (made.min_value, made.max_value) == (0, 1)
    assert dt("uint1") is BOOL


def test_TIR_DT_07_void():
    """Void is the handle of no bits; it is not a pointer."""
    assert (VOID.code, VOID.bits) == (HANDLE.code, 0)
    assert VOID.is_void
    assert not VOID.is_handle
    assert not HANDLE.is_void


@pytest.mark.parametrize("dtype", [d for d in SCALARS if d != "bool"])
def test_TIR_DT_08_text_of_scalars(dtype: str):
    """A scalar is written as its code in lower case and its bits."""
    made = dt(dtype)
    assert str(made) == f"{made.code.name.lower()}{made.bits}" == dtype


@pytest.mark.parametrize("dtype", ["float16x4", "int8x8", "uint64x64", "bfloat16x2", "boolx16"])
def test_TIR_DT_09_text_of_vectors(dtype: str):
    """A vector is written as its element, an x, and its lanes."""
    made = dt(dtype)
    assert str(made) == f"{made.element}x{made.lanes}" == dtype
