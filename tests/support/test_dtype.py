from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

from loomir.support.diagnostics import CompileError
from loomir.support.dtype import (
    BOOL,
    HANDLE,
    LANES,
    VOID,
    DataType,
    TypeCode,
    dtype_of_numpy,
    numpy_of,
)
from tests.clause import clauses

NAMES = [
    "bool",
    "bfloat16",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
]


@clauses("TIR-DT-08", "TIR-DT-09", "TIR-GRAM-05")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lanes", LANES)
def test_text_and_dtype_are_the_same(name: str, lanes: int):
    text = name if lanes == 1 else f"{name}x{lanes}"
    dtype = DataType(text)
    assert str(dtype) == text
    assert DataType(dtype.code, dtype.bits, lanes) is dtype
    assert dtype == text
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@clauses("TIR-DT-02", "TIR-DT-03", "TIR-VAL-01")
@pytest.mark.parametrize("name", NAMES)
def test_scalars_have_one_lane_and_vectors_more(name: str):
    dtype = DataType(name)
    assert (dtype.is_scalar, dtype.is_vector) == (True, False)
    wide = dtype.with_lanes(4)
    assert (wide.is_scalar, wide.is_vector) == (False, True)
    assert wide.element is dtype


@clauses("TIR-DT-04", "TIR-DT-05", "TIR-DT-07")
def test_handles_have_64_bits_and_void_none():
    assert DataType("handle") is HANDLE
    assert (HANDLE.bits, HANDLE.lanes, HANDLE.is_handle) == (64, 1, True)
    assert DataType("void") is VOID
    assert (VOID.bits, VOID.is_void, VOID.is_handle) == (0, True, False)


@clauses("TIR-DT-06", "TIR-VAL-03")
def test_bool_is_the_unsigned_integer_of_one_bit():
    assert DataType("uint1") is BOOL
    assert DataType(TypeCode.UINT, 1) is BOOL
    assert BOOL == "uint1"
    assert (BOOL.is_bool, BOOL.is_uint, BOOL.itemsize) == (True, True, 1)


@pytest.mark.parametrize("name", NAMES)
def test_numpy_has_each_dtype(name: str):
    dtype = DataType(name)
    assert dtype_of_numpy(numpy_of(dtype)) is dtype
    assert numpy_of(dtype).itemsize == dtype.itemsize


def test_numpy_dtypes_outside_the_language_have_no_dtype():
    assert dtype_of_numpy(np.dtype("complex64")) is None
    assert dtype_of_numpy(np.dtype(">i4")) is None


@clauses("TIR-GRAM-04", "TIR-GRAM-05", "TIR-VAL-02", "TIR-VAL-04", "TIR-VAL-05", "TIR-VAL-07")
@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("int7", "int comes in 8, 16, 32, 64 bits"),
        ("float8", "float comes in 16, 32, 64 bits"),
        ("bfloat32", "bfloat comes in 16 bits"),
        ("int32x5", "the lane counts are 1, 2, 3, 4, 8, 16, 32, 64"),
        ("int32x1048576", "the lane counts are 1, 2, 3, 4, 8, 16, 32, 64"),
        ("flaot32", "did you mean 'float32'?"),
        ("inn8", "did you mean 'int8'?"),
        (
            "float8_e4m3fn",
            (
                'keep the bytes as "uint8" and convert them by T.reinterpret and shifts, '
                'or use "float16"'
            ),
        ),
        ("int32 ", "did you mean 'int32'?"),
    ],
)
def test_a_dtype_outside_the_language_is_refused(text: str, help: str):
    with pytest.raises(CompileError) as caught:
        DataType(text)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.help) == ("TIR0001", help)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16"])
def test_the_largest_finite_value_is_exact(name: str):
    dtype = DataType(name)
    info = ml_dtypes.finfo(numpy_of(dtype))
    assert dtype.max_finite == float(info.max)


@pytest.mark.parametrize("name", [n for n in NAMES if "int" in n])
def test_the_range_of_integers_is_exact(name: str):
    info = np.iinfo(name)
    assert (DataType(name).min_value, DataType(name).max_value) == (info.min, info.max)
