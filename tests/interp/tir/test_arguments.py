"""Arguments: what a call checks and binds, and what it says when it refuses."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from loomir.interp import explain, interpret
from loomir.runtime.errors import RunOverflowError, RunTypeError, RunValueError
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType
from loomir.tir import (
    Buffer,
    Cast,
    Evaluate,
    PrimFunc,
    StringImm,
    Var,
    call_builtin,
    decl_buffer,
    seq,
)
from tests.clause import clauses
from tests.interp.build import array, func, i32, load, ret, run, store

N, M = Var("n", "int64"), Var("m", "int64")
FLOATS = np.zeros((4, 3), np.float32)


def nothing(*params: Buffer | Var) -> PrimFunc:
    return func(list(params), Evaluate(i32(0)))


def refused(f: PrimFunc, *args: object, **kwargs: Any) -> RunError:
    """Return the error of a call; explaining the same call gives the same."""
    with pytest.raises(RunError) as caught:
        interpret(f, "main", *args, **kwargs)
    if not kwargs and len(args) == len(f.params):
        with pytest.raises(RunError) as explained:
            explain(f, args)
        assert str(explained.value) == str(caught.value)
    return caught.value


def codes(error: RunError) -> list[str]:
    return [d.code for d in error.diagnostics]


def accepted(f: PrimFunc, *args: object) -> object:
    explain(f, args)
    return interpret(f, "main", *args)


# -- scalars -----------------------------------------------------------------------------------
@clauses("TIR-STMT-01")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_integers_must_fit(dtype: str) -> None:
    x, kind = Var("x", dtype), DataType(dtype)
    f = func([x], ret(x))
    for value in (kind.min_value, kind.max_value, 0, True, np.int16(5), np.uint8(7)):
        assert accepted(f, value) == int(value)
    for value in (kind.max_value + 1, kind.min_value - 1, 2**70, -(2**70)):
        error = refused(f, value)
        assert isinstance(error, RunOverflowError)
        assert isinstance(error, OverflowError)
    assert codes(refused(f, kind.max_value + 1)) in (["RUN0009"], ["RUN0111"])
    error = refused(f, 1.7)
    assert isinstance(error, RunTypeError)
    assert codes(error) == ["RUN0009"]
    assert "1.7" in str(error)
    assert isinstance(refused(f, "3"), RunTypeError)
    assert isinstance(refused(f, None), RunTypeError)


@clauses("TIR-STMT-01")
def test_floats_take_integers_and_round() -> None:
    x = Var("x", "float32")
    f = func([x], ret(x))
    assert accepted(f, 3) == 3.0
    assert accepted(f, True) == 1.0
    assert accepted(f, 0.1) == float(np.float32(0.1))
    assert accepted(f, float("inf")) == float("inf")
    assert codes(refused(f, 1e300)) == ["RUN0009"]
    half = Var("h", "float16")
    assert accepted(func([half], ret(half)), 2049.0) == 2048.0
    assert isinstance(refused(f, [1.0]), RunTypeError)


@clauses("TIR-STMT-01")
def test_bools() -> None:
    x = Var("x", "bool")
    f = func([x], ret(x))
    assert accepted(f, True) is True
    assert accepted(f, 0) is False
    assert codes(refused(f, 2)) == ["RUN0009"]
    assert codes(refused(f, 1.0)) == ["RUN0009"]


def test_handles() -> None:
    p = Var("p", "handle")
    f = nothing(p)
    accepted(f, None)
    accepted(f, ctypes.c_void_p(64))
    assert isinstance(refused(f, 3), RunTypeError)


@clauses("TIR-STMT-01", "TIR-STMT-01a")
def test_too_few_and_too_many() -> None:
    a = decl_buffer((N,), "float32", "A")
    f = nothing(a, N)
    data = np.zeros(4, np.float32)
    accepted(f, data, 4)
    for args in ((), (data,), (data, 4, 5)):
        assert codes(refused(f, *args)) == ["RUN0101"]
    assert interpret(f, "main", data, n=4) is None
    assert codes(refused(f, data, k=4)) == ["RUN0102"]
    assert codes(refused(f, data, 4, A=data)) == ["RUN0102"]


# -- kinds of arrays -----------------------------------------------------------------------------
@clauses("TIR-STMT-01b")
def test_what_is_no_array() -> None:
    f = nothing(decl_buffer((2,), "float32", "A"))
    for value in ([1.0, 2.0], 1.0, None, "A", object()):
        error = refused(f, value)
        assert codes(error) == ["RUN0103"]
        assert "A must be an array of float32" in str(error)


@clauses("TIR-STMT-01f")
def test_another_dtype() -> None:
    f = nothing(decl_buffer((4, 3), "float32", "A"))
    error = refused(f, FLOATS.astype(np.float64))
    assert isinstance(error, RunTypeError)
    assert codes(error) == ["RUN0003"]
    assert "A must hold float32, not float64" in str(error)
    assert "A.astype('float32')" in str(error)
    for other in (np.int32, np.uint32, bool, ml_dtypes.bfloat16, np.float16):
        assert codes(refused(f, FLOATS.astype(other))) == ["RUN0003"]


def test_elements_that_tir_lacks() -> None:
    f = nothing(decl_buffer((4, 3), "float32", "A"))
    swapped = ">" if sys.byteorder == "little" else "<"
    for bad in (FLOATS.astype(f"{swapped}f4"), FLOATS.astype(complex), FLOATS.astype(object)):
        assert codes(refused(f, bad)) == ["RUN0105"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "uint64"])
def test_every_dtype_of_arrays(dtype: str) -> None:
    a = decl_buffer((3,), dtype, "A")
    data = array(1, 0, 1, dtype=dtype)
    copy = store(a, load(a, 2), 1)
    run([a], copy, args=(data,))
    assert data.tolist() == [1, 1, 1]


class Exporter:
    """An array of another library."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __dlpack__(self, **options: Any) -> object:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()


def test_arrays_of_other_libraries() -> None:
    a = decl_buffer((3,), "int32", "A")
    data = array(1, 2, 3)
    run([a], store(a, i32(9), 1), args=(Exporter(data),))
    assert data.tolist() == [1, 9, 3]


@clauses("TIR-STMT-01j")
def test_another_rank() -> None:
    f = nothing(decl_buffer((4, 3), "float32", "A"))
    for bad in (FLOATS.ravel(), FLOATS[None], FLOATS[0, 0]):
        error = refused(f, np.asarray(bad))
        assert codes(error) == ["RUN0004"]
        assert "A must have 2 axes" in str(error)


@clauses("TIR-STMT-01c")
def test_arrays_without_axes() -> None:
    a = decl_buffer((), "float32", "A")
    assert run([a], ret(load(a)), args=(np.array(2.5, np.float32),)) == 2.5


@clauses("TIR-STMT-01k")
def test_extents_that_differ() -> None:
    f = nothing(decl_buffer((4, 3), "float32", "A"))
    error = refused(f, np.zeros((5, 2), np.float32))
    assert isinstance(error, RunValueError)
    assert codes(error) == ["RUN0005", "RUN0005"]
    assert "the extent of axis 0 of A must be 4, not 5" in str(error)
    assert "the extent of axis 1 of A must be 3, not 2" in str(error)


# -- names in shapes -----------------------------------------------------------------------------
@clauses("TIR-STMT-01k", "TIR-STMT-01a")
def test_a_name_is_bound_by_its_first_place_and_checked_at_others() -> None:
    a, b = decl_buffer((N,), "float32", "A"), decl_buffer((N, M), "float32", "B")
    f = func([a, b], ret(N * 100 + M))
    x, y = np.zeros(4, np.float32), np.zeros((4, 7), np.float32)
    assert accepted(f, x, y) == 407
    error = refused(f, x, np.zeros((5, 7), np.float32))
    assert codes(error) == ["RUN0010"]
    assert "the extent of axis 0 of B is 5, but the extent of axis 0 of A is 4" in str(error)


@clauses("TIR-STMT-01k", "TIR-STMT-01g")
def test_expressions_are_checked_after_all_names_are_bound() -> None:
    a, b = decl_buffer((N * 2, N * M), "float32", "A"), decl_buffer((M, N), "float32", "B")
    f = func([a, b], ret(N * 100 + M))
    assert accepted(f, np.zeros((6, 12), np.float32), np.zeros((4, 3), np.float32)) == 304
    error = refused(f, np.zeros((7, 12), np.float32), np.zeros((4, 3), np.float32))
    assert codes(error) == ["RUN0005"]
    assert "the extent of axis 0 of A must be 6, not 7" in str(error)


@clauses("TIR-STMT-01a")
def test_a_name_that_is_a_parameter_must_be_passed_and_agree() -> None:
    a = decl_buffer((N,), "float32", "A")
    f = func([a, N], ret(N))
    assert accepted(f, np.zeros(4, np.float32), 4) == 4
    error = refused(f, np.zeros(4, np.float32), 5)
    assert codes(error) == ["RUN0010"]
    assert "must be 5, not 4" in str(error)


def test_a_name_too_narrow_for_the_extent() -> None:
    small = Var("k", "int8")
    f = nothing(decl_buffer((small,), "int8", "A"))
    accepted(f, np.zeros(127, np.int8))
    error = refused(f, np.zeros(128, np.int8))
    assert isinstance(error, RunOverflowError)
    assert "which does not fit k" in str(error)


# -- layout ------------------------------------------------------------------------------------
@clauses("TIR-STMT-01d", "TIR-STMT-01h")
def test_a_buffer_without_strides_takes_row_major_arrays() -> None:
    a = decl_buffer((4, 3), "float32", "A")
    f = nothing(a)
    accepted(f, FLOATS)
    error = refused(f, np.zeros((3, 4), np.float32).T)
    assert codes(error) == ["RUN0006"]
    assert "strides (3, 1), not (1, 4)" in str(error)
    assert "numpy.ascontiguousarray(A)" in str(error)
    assert codes(refused(f, np.zeros((4, 6), np.float32)[:, ::2])) == ["RUN0006"]
    assert codes(refused(f, np.broadcast_to(np.float32(0), (4, 3)))) == ["RUN0006"]


@clauses("TIR-STMT-01h")
def test_axes_of_one_element_and_empty_arrays_have_any_strides() -> None:
    thin = decl_buffer((1, 3), "float32", "A")
    accepted(nothing(thin), np.zeros((4, 3), np.float32)[::4])
    column = np.lib.stride_tricks.as_strided(FLOATS, (4, 1), (12, 400))
    assert codes(refused(nothing(decl_buffer((4, 1), "float32", "A")), column)) == ["RUN0006"]
    empty = decl_buffer((N, 3), "float32", "A")
    accepted(nothing(empty), np.zeros((3, 0), np.float32).T)


@clauses("TIR-STMT-01e", "TIR-STMT-01i")
def test_names_for_strides_are_bound() -> None:
    s, t = Var("s", "int64"), Var("t", "int64")
    a = decl_buffer((4, 3), "int32", "A", strides=(s, t))
    f = func([a], store(a, i32(9), 2, 1), ret(s * 100 + t))
    wide = np.zeros((3, 8), np.int32)
    assert accepted(f, wide[:, ::2].T) == 208
    assert wide[1, 4] == 9
    backwards = np.zeros((4, 3), np.int32)
    assert interpret(f, "main", backwards[::-1]) == -299
    assert backwards[1, 1] == 9
    assert accepted(f, np.zeros((4, 3), np.int32)) == 301


@clauses("TIR-STMT-01i")
def test_given_strides_must_agree() -> None:
    a = decl_buffer((4, 3), "float32", "A", strides=(6, 2))
    f = nothing(a)
    accepted(f, np.zeros((4, 6), np.float32)[:, ::2])
    error = refused(f, FLOATS)
    assert codes(error) == ["RUN0006", "RUN0006"]
    assert "the stride of axis 0 of A must be 6, not 3" in str(error)


@clauses("TIR-STMT-01g")
def test_the_offset_is_in_the_address_already() -> None:
    o = Var("o", "int64")
    a = decl_buffer((3,), "int32", "A", elem_offset=o)
    base = array(0, 1, 2, 3, 4, 5)
    assert accepted(func([a], ret(load(a, 0) * 10 + Cast(o, DataType("int32")))), base[3:]) == 30
    fixed = decl_buffer((3,), "int32", "A", elem_offset=3)
    assert codes(refused(nothing(fixed), base[3:])) == ["RUN0011"]


def test_unaligned_and_null_memory() -> None:
    a = decl_buffer((2,), "float64", "A")
    raw = np.zeros(17, np.uint8)
    odd = raw[1:].view(np.float64)
    run([a], store(a, load(a, 0) + 1.0, 1), args=(odd,))
    assert odd.tolist() == [0.0, 1.0]
    accepted(nothing(decl_buffer((N,), "float32", "A")), np.zeros(0, np.float32))


def test_elements_between_elements() -> None:
    record = np.zeros(4, [("a", "u1"), ("b", "f4")])
    f = nothing(decl_buffer((4,), "float32", "A"))
    assert codes(refused(f, record["b"])) == ["RUN0109"]


def test_read_only_arrays() -> None:
    a = decl_buffer((2,), "int32", "A")
    data = array(1, 2)
    data.flags.writeable = False
    assert accepted(func([a], ret(load(a, 1))), data) == 2
    assert codes(refused(func([a], store(a, i32(1), 0)), data)) == ["RUN0108"]


# -- overlap -------------------------------------------------------------------------------------
@clauses("TIR-STMT-01l", "TIR-BUF-04")
def test_arrays_must_not_overlap() -> None:
    a, b = decl_buffer((N,), "int32", "A"), decl_buffer((M,), "int32", "B")
    f = func([a, b], store(b, i32(1), 0))
    data = np.arange(10, dtype=np.int32)
    error = refused(f, data, data)
    assert isinstance(error, RunValueError)
    assert codes(error) == ["RUN0008"]
    assert "A and B overlap" in str(error)
    assert codes(refused(f, data[:6], data[5:])) == ["RUN0008"]
    accepted(f, data[:5], data[5:])
    accepted(f, data[:0], data)
    assert interpret(f, "main", data, data, allow_alias=True) is None
    explain(f, (data, data), allow_alias=True)
    accepted(nothing(a, b), data, data)


def test_strided_arrays_overlap_where_their_ranges_do() -> None:
    s, t = Var("s", "int64"), Var("t", "int64")
    a = decl_buffer((N,), "int32", "A", strides=(s,))
    b = decl_buffer((M,), "int32", "B", strides=(t,))
    f = func([a, b], store(b, i32(1), 0))
    data = np.arange(10, dtype=np.int32)
    assert codes(refused(f, data[::2], data[1::2])) == ["RUN0008"]
    assert codes(refused(f, data[::-1], data[:1])) == ["RUN0008"]
    accepted(f, data[4::-1], data[5:])


# -- all at once ---------------------------------------------------------------------------------
def test_every_mistake_is_listed() -> None:
    a, b = decl_buffer((4, 3), "float32", "A"), decl_buffer((N,), "int32", "B")
    x = Var("x", "int8")
    f = nothing(a, b, N, x)
    error = refused(f, np.zeros((4, 2)), [1], 2.5, 1000)
    assert codes(error) == ["RUN0103", "RUN0009", "RUN0009", "RUN0003", "RUN0005"]
    for d in error.diagnostics:
        assert d.help


def test_nothing_is_written_by_a_refused_call() -> None:
    a, b = decl_buffer((2,), "int32", "A"), decl_buffer((2,), "int32", "B")
    data = array(1, 2)
    refused(func([a, b], store(a, i32(9), 0)), data, array(1))
    assert data.tolist() == [1, 2]


@clauses("TIR-BUF-05")
def test_a_pointer_of_the_caller_has_no_bounds_to_check() -> None:
    from loomir.tir import DeclBuffer, PointerType, PrimType

    p = Var("p", type_annotation=PointerType(PrimType(DataType("int32"))))
    b = decl_buffer((4,), "int32", "B", data=p)
    f = func([p], DeclBuffer(b, store(b, i32(1), 0)))
    assert codes(_raised(f, ctypes.c_void_p(4096))) == ["RUN0093"]


def _raised(f: PrimFunc, *args: object) -> RunError:
    with pytest.raises(RunError) as caught:
        interpret(f, "main", *args)
    return caught.value


def test_messages_survive_braces_in_names() -> None:
    a = decl_buffer((2,), "int32", "A{0}%s")
    error = refused(nothing(a), array(1))
    assert "axis 0 of A{0}%s must be 2" in str(error)
    f = func([], seq([Evaluate(call_builtin("likely", StringImm("{}")))]))
    assert interpret(f, "main") is None
