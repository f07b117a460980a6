"""Values: scalars, vectors and handles, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.tir import BufferLoad, PointerType, PrimExpr, PrimType, Var, convert, decl_buffer
from tests.conformance.compare_engines import Array, both, dt, numpy_named, refused, values, zeros
from tests.tir.refusal import refused as refuses

SCALARS = [
    "bool",
    *[f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)],
    "float16",
    "float32",
    "float64",
    "bfloat16",
]


@pytest.mark.parametrize("dtype", SCALARS)
def test_TIR_VAL_01_scalars(dtype: str):
    """A scalar is a float, a bfloat, or a signed or unsigned integer; each goes through a program."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer((2,), "{dtype}"), B: T.Buffer((2,), "{dtype}")):
            x = A[1]
            B[0] = x
    """
    given = values(dtype, 0, 1)
    assert both(source, given, values(dtype, 0, 0)).tolist() == [1, 0]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_TIR_VAL_02_integers(bits: int):
    """Integers have 8, 16, 32 or 64 bits: their ends are where two's complement puts them."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2,), "{0}"), B: T.Buffer((2,), "{0}")):
            for i in range(2):
                B[i] = A[i] + T.{0}(1)
    """
    signed = np.array([2 ** (bits - 1) - 1, -1], f"int{bits}")
    assert both(source.format(f"int{bits}"), signed, np.zeros_like(signed)).tolist() == [
        -(2 ** (bits - 1)),
        0,
    ]
    unsigned = np.array([2**bits - 1, 0], f"uint{bits}")
    assert both(source.format(f"uint{bits}"), unsigned, np.zeros_like(unsigned)).tolist() == [0, 1]


def test_TIR_VAL_03_booleans():
    """An unsigned integer of one bit is a truth value, and is the same as bool (T19)."""
    assert dt("uint1") is dt("bool")
    source = """
        @T.prim_func
        def main(A: T.Buffer((2,), "uint1"), B: T.Buffer((2,), "bool")):
            for i in range(2):
                B[i] = not A[i]
    """
    flags = np.array([True, False])
    assert both(source, flags, np.zeros(2, bool)).tolist() == [False, True]


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 10), ("float32", 23), ("float64", 52)])
def test_TIR_VAL_04_floats(dtype: str, digits: int):
    """Floats have 16, 32 or 64 bits: 1 plus half a last place is 1, plus a whole one is not."""
    half, whole = 2.0 ** -(digits + 1), 2.0**-digits
    out = both(ADDS.format(dtype), values(dtype, half, whole), zeros(2, dtype=dtype))
    assert out.tolist() == [1.0, 1.0 + whole]


ADDS = """
    @T.prim_func
    def main(A: T.Buffer((2,), "{0}"), B: T.Buffer((2,), "{0}")):
        for i in range(2):
            B[i] = T.{0}(1) + A[i]
"""


def test_TIR_VAL_05_bfloat():
    """A bfloat has 16 bits, 7 of which follow the point."""
    with refuses("TIR0001"):
        dt("bfloat32")
    given: Array = values("bfloat16", 2.0**-8, 2.0**-7)
    out = both(ADDS.format("bfloat16"), given, zeros(2, dtype="bfloat16"))
    assert out.astype(float).tolist() == [1.0, 1.0078125]


def test_TIR_VAL_06_scalars_do_not_change():
    """A scalar keeps its value: what it was read from may change, it does not."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((2,), "int32")):
            x = A[0]
            A[0] = 9
            A[1] = x
    """
    assert both(source, np.array([4, 0], np.int32)).tolist() == [9, 4]
    refused(
        "SCR0016",
        """
        @T.prim_func
        def main(x: T.int32, A: T.Buffer((2,), "int32")):
            x = A[0]  # <--
        """,
    )


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("dtype", ["int8", "float64", "bfloat16", "bool"])
def test_TIR_VAL_07_vectors(dtype: str, lanes: int):
    """A vector has 2, 3, 4, 8, 16, 32 or 64 elements of a scalar dtype (T20)."""
    source = f"""
        @T.prim_func
        def main(A: T.Buffer(({lanes},), "{dtype}"), B: T.Buffer(({lanes},), "{dtype}")):
            B[0:{lanes}] = A[0:{lanes}]
    """
    given = (np.arange(lanes) % 2).astype(numpy_named(dtype))
    assert both(source, given, zeros(lanes, dtype=dtype)).tolist() == given.tolist()


def test_TIR_VAL_08_vectors_are_seen_by_lanes_only():
    """How a vector is kept is the machine's own affair: only its lanes show, in order."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((3,), "int16"), B: T.Buffer((6,), "int16")):
            B[T.Ramp(5, -2, 3)] = A[T.Ramp(0, 1, 3)]
    """
    out = both(source, values("int16", 1, 2, 3), zeros(6, dtype="int16"))
    assert out.tolist() == [0, 3, 0, 2, 0, 1]


def test_TIR_VAL_09_handles():
    """A handle points to memory, of a known element type or none."""
    opaque, typed = Var("p", "handle"), decl_buffer((4,), "int8").data
    assert isinstance(opaque.type_annotation, PrimType)
    assert isinstance(typed.type_annotation, PointerType)
    assert opaque.dtype == typed.dtype == "handle"
    source = """
        @T.prim_func
        def main(p: T.handle, x: T.int32) -> T.int32:
            return x
    """
    assert both(source, None, 3) == 3


def test_TIR_VAL_10_no_pointers_to_vectors():
    """No pointer is to a vector: memory is given element by element."""
    source = """
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((2,), "int32")):
            B[0:2] = A[3:5]
    """
    assert both(source, np.arange(8, dtype=np.int32), zeros(2)).tolist() == [3, 4]
    with refuses("TIR0001"):
        dt("handlex4")


def test_TIR_VAL_11_buffers_are_no_values():
    """A buffer is not a value: no expression gives one, and none takes one."""
    buffer = decl_buffer((4,), "int32")
    assert not isinstance(buffer, PrimExpr)
    assert isinstance(BufferLoad(buffer, (convert(0),)), PrimExpr)
    refused(
        "SCR0009",
        """
        @T.prim_func
        def main(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
            B[0] = A + 1  # <--
        """,
    )
