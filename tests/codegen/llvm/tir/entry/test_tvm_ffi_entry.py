"""The way in: what is accepted and what is refused, exactly as by the interpreter."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from loomir.codegen.llvm.module import Options
from loomir.runtime import ffi
from loomir.runtime import layout as at
from loomir.support.dtype import DataType
from loomir.tir import expr as e
from loomir.tir.buffer import decl_buffer
from loomir.tir.expr import PrimExpr, Var
from loomir.tir.stmt import Evaluate, SeqStmt, Stmt
from tests.codegen.llvm.tir.compare_engines import check, compiled, flat, func, get, i64, loop, put
from tests.codegen.llvm.tir.test_statements import error_of, ret

F32 = DataType("float32")


def with_shape(*shape: PrimExpr | int, dtype: str = "float32", name: str = "A", **more: object):
    extents = tuple(i64(n) if isinstance(n, int) else n for n in shape)
    return decl_buffer(extents, DataType(dtype), name, **more)  # type: ignore[arg-type]


def nothing() -> Stmt:
    return Evaluate(i64(0))


def refused(found: object) -> bool:
    return isinstance(found, list) and bool(found) and isinstance(found[0], tuple)


# -- scalars -----------------------------------------------------------------------------------
INTEGERS = [f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)]
NUMBERS = [0, 1, 2, -1, 127, 128, -128, -129, 255, 256, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 32]
NUMBERS += [(1 << 63) - 1, -(1 << 63), 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63) - 1]
OTHERS = [True, False, 0.0, 1.5, float("nan"), np.int8(-3), np.uint64(1 << 63), np.float32(2.5)]


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool", "float16", "bfloat16", "float32", "float64"])
def test_scalars(dtype: str) -> None:
    x = Var("x", dtype)
    f = func("main", [x], ret(x))
    for value in (*NUMBERS, *OTHERS, "text", None, np.zeros(3)):
        check(f, value)


def test_arguments_by_number_and_name() -> None:
    x, y = Var("x", "int32"), Var("y", "int32")
    f = compiled(func("main", [x, y], ret(x - y)))["main"]
    assert f(7, y=2) == 5
    for args in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError):
            f(*args)


def test_the_entry_counts_its_arguments() -> None:
    x = Var("x", "int32")
    f = compiled(func("main", [x], ret(x)))["main"]
    assert f(1) == 1
    raw = ffi.function_from_address(f._entry())  # the boundary above it counts first
    assert raw(3) == 3
    for args in ((), (1, 2)):
        with pytest.raises(ffi.NativeFault, match="-1;0;0;0"):
            raw(*args)


# -- arrays ------------------------------------------------------------------------------------
def test_dtypes_and_ranks() -> None:
    n = Var("n", "int64")
    f = func("main", [with_shape(n, 4)], ret(n))
    for array in (
        np.zeros((3, 4), np.float32),
        np.zeros((0, 4), np.float32),
        np.zeros((3, 4), np.float64),
        np.zeros((3, 4), np.int32),
        np.zeros((3, 5), np.float32),
        np.zeros(12, np.float32),
        np.zeros((3, 4, 1), np.float32),
        np.zeros((), np.float32),
        7,
        [1.0, 2.0],
    ):
        check(f, array)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
def test_every_dtype_of_arrays(dtype: str) -> None:
    a = flat("A", 4, dtype)
    f = func("main", [a], ret(get(a, 2)))
    for other in ("bool", "uint8", "int64", "float16", "float64"):
        check(f, np.ones(4, other))


def test_strides() -> None:
    n, m = Var("n", "int64"), Var("m", "int64")
    f = func("main", [with_shape(n, m)], ret(n * 1000 + m))
    base = np.zeros((6, 8), np.float32)
    views = [
        base,
        base.T,
        base[::2],
        base[:, ::2],
        base[:, :4],
        base[:1],
        base[:1, ::2],
        base[::-1],
    ]
    views += [
        base[:0],
        base[:0, ::2],
        base[:, :1],
        base[2:3, 1:2],
        np.broadcast_to(base[0], (3, 8)),
    ]
    for view in views:
        check(f, view)


def test_strides_that_are_bound() -> None:
    n, s, t = Var("n", "int64"), Var("s", "int64"), Var("t", "int32")
    a = with_shape(n, 4, strides=(s, t))
    f = func("main", [a], ret(s * 1000 + e.Cast(t, s.dtype)))
    base = np.zeros((6, 8), np.float32)
    for view in (base[:, :4], base[:, ::2], base[::-1, :4], base[:, 7:3:-1], base[:0, ::2]):
        check(f, view)


def test_strides_that_are_declared() -> None:
    a = with_shape(3, 4, strides=(i64(8), i64(1)))
    f = func("main", [a], nothing())
    base = np.zeros((6, 8), np.float32)
    for view in (base[:3, :4], base[:6:2, :4], base[:3, ::2], np.zeros((3, 4), np.float32)):
        check(f, view)


def test_shapes_with_expressions() -> None:
    n, m = Var("n", "int64"), Var("m", "int64")
    first, second = with_shape(n * 2, n * m), with_shape(n, m, name="B")
    f = func("main", [first, second], ret(n * 100 + m))
    for k, j in ((2, 3), (1, 0), (0, 5)):
        check(f, np.zeros((k * 2, k * j), np.float32), np.zeros((k, j), np.float32))
        check(f, np.zeros((k * 2 + 1, k * j), np.float32), np.zeros((k, j), np.float32))


def test_shapes_with_division_by_zero() -> None:
    n = Var("n", "int64")
    f = func("main", [with_shape(n), with_shape(e.FloorDiv(i64(12), n), name="B")], ret(n))
    check(f, np.zeros(3, np.float32), np.zeros(4, np.float32))
    check(f, np.zeros(3, np.float32), np.zeros(5, np.float32))
    assert refused(check(f, np.zeros(0, np.float32), np.zeros(4, np.float32)))


def test_one_name_in_several_places() -> None:
    n = Var("n", "int64")
    f = func("main", [with_shape(n, n), with_shape(n, name="B")], ret(n))
    for shape, size in (((3, 3), 3), ((3, 4), 3), ((3, 3), 4)):
        check(f, np.zeros(shape, np.float32), np.zeros(size, np.float32))


def test_names_that_are_parameters_too() -> None:
    n = Var("n", "int32")
    a = with_shape(n)
    for params in ([n, a], [a, n]):
        f = func("main", params, ret(n))
        for count in (4, 5):
            args = [np.zeros(4, np.float32), count]
            check(f, *(args if params[0] is a else args[::-1]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint64"])
def test_extents_that_do_not_fit_their_names(dtype: str) -> None:
    n = Var("n", dtype)
    f = func("main", [with_shape(n, dtype="int8")], ret(n))
    for size in (0, 127, 128, 255, 256, 40000):
        check(f, np.zeros(size, np.int8))


# -- overlap -----------------------------------------------------------------------------------
def ranges(count: int, names: str = "ABCDEFGH") -> list[object]:
    return [
        with_shape(Var("n", "int64"), name=name, strides=(Var("s", "int64"),))
        for name in names[:count]
    ]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_overlapping_arrays(count: int) -> None:
    arrays: list[Any] = ranges(count)
    body = loop(arrays[1].shape[0], lambda i: put(arrays[1], i, get(arrays[1], i)))
    f = compiled(func("main", arrays, body))["main"]
    plain = compiled(func("main", arrays, body), Options(allow_alias=True))["main"]
    base = np.zeros(1000, np.float32)
    disjoint = [base[i * 100 : i * 100 + 100] for i in range(count)]
    f(*disjoint)
    cases = [
        (base[150:250], False),
        (base[199:201], False),
        (base[200:200], True),
        (base[120:120], True),
        (base[199:99:-1], False),
        (base[100:200], False),
        (base[900:999], True),
        (base[::300], False),
    ]
    for i in range(count):
        if i == 1:
            continue
        for array, fine in cases:
            args = [disjoint[1] if j == 1 else base[800 + j : 801 + j] for j in range(count)]
            args[i] = array
            if array is cases[-1][0]:
                args[1] = base[100:200]
            plain(*args)
            if fine:
                f(*args)
                continue
            with pytest.raises(ValueError, match="overlap"):
                f(*args)


def test_overlap_is_what_the_interpreter_says() -> None:
    a, b = with_shape(Var("n", "int64")), with_shape(Var("m", "int64"), name="B")
    f = func("main", [a, b], loop(b.shape[0], lambda i: put(b, i, get(a, 0))))
    native = compiled(f)["main"]
    base = np.zeros(20, np.float32)
    for start in range(12):
        args = base[5:10], base[start : start + 3]
        overlap = start < 10 and start + 3 > 5
        if overlap:
            with pytest.raises(ValueError, match="overlap"):
                native(*args)
        else:
            native(*args)


def test_with_aliases_allowed_stores_are_seen() -> None:
    n = Var("n", "int64")
    a, b = with_shape(n), with_shape(n, name="B")
    body = loop(n - 1, lambda i: put(b, i + 1, get(a, i) + 1))
    f = compiled(func("main", [a, b], body), Options(allow_alias=True))["main"]
    data = np.zeros(50, np.float32)
    f(data, data)
    assert (data == np.arange(50)).all()


# -- memory that lies oddly --------------------------------------------------------------------
def test_unaligned_arrays() -> None:
    n = Var("n", "int64")
    for dtype in ("float64", "int16", "float32"):
        a, b = flat("A", n, dtype), flat("B", n, dtype)
        f = compiled(func("main", [a, b], loop(n, lambda i: put(b, i, get(a, i) * 2))))["main"]  # noqa: B023
        size = np.dtype(dtype).itemsize
        memory = np.zeros(100 * size + 1, np.uint8)
        odd = memory[1 : 1 + 100 * size].view(dtype)
        assert not odd.flags.aligned
        odd[:] = np.arange(100)
        out = np.zeros(100, dtype)
        f(odd, out)
        assert (out == np.arange(100) * 2).all()
        f(out, odd)
        assert (odd == np.arange(100) * 4).all()


class Any16(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("pad", ctypes.c_int32), ("value", ctypes.c_uint64)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


def raw_call(address: int, tensor: Tensor, kind: int = at.TYPE_DLTENSOR_PTR) -> tuple[int, float]:
    """Call an entry as C would, with one array."""
    args = (Any16 * 1)(Any16(kind, 0, ctypes.addressof(tensor)))
    out = Any16()
    entry = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
    )(address)
    status = entry(None, ctypes.addressof(args), 1, ctypes.addressof(out))
    bits = ctypes.c_uint64(out.value)
    return status, ctypes.c_double.from_buffer(bits).value


def tensor_of(array: np.ndarray, shape: ctypes.Array, **fields: object) -> Tensor:
    made = Tensor(array.ctypes.data, 1, 0, array.ndim, 2, 32, 1, ctypes.addressof(shape), None, 0)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_arrays_as_c_passes_them() -> None:
    n = Var("n", "int64")
    a = flat("A", n)
    f = compiled(func("main", [a], SeqStmt((nothing(), ret(get(a, 1))))))["main"]
    address = f._entry()
    data = np.arange(8, dtype=np.float32)
    shape, strides = (ctypes.c_int64 * 1)(4), (ctypes.c_int64 * 1)(2)
    where = ctypes.addressof(strides)
    assert raw_call(address, tensor_of(data, shape)) == (0, 1.0)
    assert raw_call(address, tensor_of(data, shape, byte_offset=8)) == (0, 3.0)
    wrong = [
        {"byte_offset": 6},
        {"device": 2},
        {"ndim": 2},
        {"code": 0},
        {"bits": 64},
        {"lanes": 2},
        {"strides": where},
        {"data": None},
    ]
    for fields in wrong:
        assert raw_call(address, tensor_of(data, shape, **fields))[0] != 0, fields
    assert raw_call(address, tensor_of(data, shape), at.TYPE_OPAQUE_PTR)[0] != 0
    strides[0] = 1
    assert raw_call(address, tensor_of(data, shape, strides=where)) == (0, 1.0)
    for extent in (-1, 1 << 62, (1 << 63) - 1):
        shape[0] = extent
        assert raw_call(address, tensor_of(data, shape))[0] != 0


def test_no_memory_is_fine_for_no_elements() -> None:
    n = Var("n", "int64")
    a = flat("A", n)
    f = compiled(func("main", [a], ret(e.const(2.0, "float64"))))["main"]
    shape = (ctypes.c_int64 * 1)(0)
    data = np.zeros(1, np.float32)
    assert raw_call(f._entry(), tensor_of(data, shape, data=None)) == (0, 2.0)


def test_a_buffer_without_axes() -> None:
    a = with_shape()
    body = put(flat("A", 1), 0, e.const(1.0, "float32"))
    lowered = decl_buffer((i64(1),), F32, "A", data=a.data)
    body = put(lowered, 0, get(lowered, 0) + 1)
    check(func("main", [a], body), np.array(3.0, np.float32))
    assert refused(check(func("main", [a], body), np.zeros(1, np.float32)))


def test_handles() -> None:
    p = Var("p", "handle")
    f = compiled(func("main", [p], ret(e.const(1, "int32"))))["main"]
    assert f(None) == 1
    assert f(ctypes.c_void_p(16)) == 1


def test_errors_name_what_is_wrong() -> None:
    n = Var("n", "int64")
    f = func("main", [with_shape(n), with_shape(n, name="B")], nothing())
    found = check(f, np.zeros(3, np.float32), np.zeros(4, np.float32))
    assert error_of(found) == "RunValueError"
