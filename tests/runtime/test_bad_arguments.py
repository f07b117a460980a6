"""Sixty bad arguments: each is refused by a typed error that says which, what is wanted, and what came.

Native code and the interpreter say the same.
"""

from __future__ import annotations

import ctypes
import textwrap
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.runtime.ffi import tensor_from_capsule
from loomir.script import from_source
from loomir.support.diagnostics import RunError

Z = np.zeros
MODULE = from_source(
    textwrap.dedent(
        """
        @I.ir_module
        class M:
            @T.prim_func
            def fixed(x: T.Buffer((4, 3), "float32")):
                T.evaluate(0)

            @T.prim_func
            def put(x: T.Buffer((4,), "float32")):
                x[0] = T.float32(1)

            @T.prim_func
            def symbolic(a: T.handle, b: T.handle):
                n = T.int64()
                x = T.match_buffer(a, (n,), "float32")
                y = T.match_buffer(b, (n, 2 * n), "float32")
                T.evaluate(0)

            @T.prim_func
            def narrow(a: T.handle):
                n = T.int8()
                x = T.match_buffer(a, (n,), "int8")
                T.evaluate(0)

            @T.prim_func
            def strided(a: T.handle):
                x = T.match_buffer(a, (4, 3), "float32", strides=(6, 2))
                T.evaluate(0)

            @T.prim_func
            def offset(a: T.handle):
                x = T.match_buffer(a, (4,), "float32", elem_offset=2)
                T.evaluate(0)

            @T.prim_func
            def half(x: T.Buffer((4,), "bfloat16")):
                T.evaluate(0)

            @T.prim_func
            def truths(x: T.Buffer((4,), "bool")):
                T.evaluate(0)

            @T.prim_func
            def sized(x: T.Buffer((4,), "float32"), n: T.int32):
                T.evaluate(0)

            @T.prim_func
            def i8(n: T.int8):
                T.evaluate(0)

            @T.prim_func
            def i32(n: T.int32):
                T.evaluate(0)

            @T.prim_func
            def i64(n: T.int64):
                T.evaluate(0)

            @T.prim_func
            def u8(n: T.uint8):
                T.evaluate(0)

            @T.prim_func
            def u64(n: T.uint64):
                T.evaluate(0)

            @T.prim_func
            def f32(n: T.float32):
                T.evaluate(0)

            @T.prim_func
            def truth(n: T.bool):
                T.evaluate(0)

            @T.prim_func
            def pointer(p: T.handle):
                T.evaluate(0)

            @T.prim_func
            def two(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
                y[0] = x[0]

            @T.prim_func
            def read(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"), z: T.Buffer((1,), "float32")):
                z[0] = x[0] + y[3]

            @T.prim_func
            def six(a: T.Buffer((2,), "int8"), b: T.Buffer((2,), "int8"), c: T.Buffer((2,), "int8"),
                    d: T.Buffer((2,), "int8"), e: T.Buffer((2,), "int8"), g: T.Buffer((2,), "int8")):
                e[0] = a[0] + b[0] + c[0] + d[0] + g[0]
        """
    )
)


class Exporter:
    """An object of another library that lends its memory."""

    def __init__(self, array: Any, device: int = 1, offset: int = 0) -> None:
        self.array, self.device, self.offset = array, device, offset

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> object:
        capsule = self.array.__dlpack__(max_version=(1, 0))
        get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_GetPointer", ctypes.pythonapi)
        )
        start = get(capsule, b"dltensor_versioned") + 32
        ctypes.c_uint64.from_address(start + 40).value = self.offset
        return capsule


class Closed:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> object:
        raise BufferError("closed")


def locked() -> Any:
    data = Z(4, "f4")
    data.flags.writeable = False
    return data


def crooked() -> Any:
    return np.lib.stride_tricks.as_strided(Z(64, "i1").view("f4"), (4, 3), (14, 4))


def pairs(i: int, j: int) -> tuple[Any, ...]:
    data = [Z(2, "i1") for _ in range(6)]
    data[j] = data[i]
    return tuple(data)


class Case(NamedTuple):
    function: str
    args: Callable[[], tuple[Any, ...]]
    error: type[Exception]
    code: str
    words: tuple[str, ...]
    """What the message says: the argument, what it must be, what it is."""


def one(value: Callable[[], Any]) -> Callable[[], tuple[Any, ...]]:
    return lambda: (value(),)


CASES: dict[str, Case] = {
    # kinds of objects
    "none for an array": Case("fixed", one(lambda: None), TypeError, "RUN0103", ("x", "float32", "None")),
    "number for an array": Case("fixed", one(lambda: 1.5), TypeError, "RUN0103", ("x", "float32", "float")),
    "list for an array": Case("fixed", one(lambda: [[1.0] * 3] * 4), TypeError, "RUN0103", ("x", "list")),
    "tuple for an array": Case("fixed", one(lambda: ()), TypeError, "RUN0103", ("x", "tuple")),
    "text for an array": Case("fixed", one(lambda: "x"), TypeError, "RUN0103", ("x", "str")),
    "bytes for an array": Case("fixed", one(lambda: b"x" * 48), TypeError, "RUN0103", ("x", "bytes")),
    "dict for an array": Case("fixed", one(dict), TypeError, "RUN0103", ("x", "dict")),
    "class for an array": Case("fixed", one(lambda: np.ndarray), TypeError, "RUN0103", ("x", "type")),
    "NumPy scalar for an array": Case("fixed", one(lambda: np.float32(1)), TypeError, "RUN0103", ("x", "float32")),
    "array for a number": Case("i32", one(lambda: Z(2, "i4")), TypeError, "RUN0104", ("n", "int32", "ndarray")),
    "none for a number": Case("i32", one(lambda: None), TypeError, "RUN0104", ("n", "int32", "None")),
    "text for a number": Case("i32", one(lambda: "1"), TypeError, "RUN0104", ("n", "int32", "str")),
    "complex for a number": Case("f32", one(lambda: 1j), TypeError, "RUN0104", ("n", "float32", "complex")),
    "fraction for a number": Case("i32", one(lambda: Fraction(1, 2)), TypeError, "RUN0104", ("n", "Fraction")),
    "list for a number": Case("f32", one(lambda: [1.0]), TypeError, "RUN0104", ("n", "float32", "list")),
    "text for a truth value": Case("truth", one(lambda: "yes"), TypeError, "RUN0104", ("n", "bool", "str")),
    "number for a handle": Case("pointer", one(lambda: 4096), TypeError, "RUN0104", ("p", "handle", "int")),
    "array for a handle": Case("pointer", one(lambda: Z(2)), TypeError, "RUN0104", ("p", "handle", "ndarray")),
    # dtypes
    "float64 for float32": Case("fixed", one(lambda: Z((4, 3))), TypeError, "RUN0003", ("x", "float32", "float64")),
    "int32 for float32": Case("fixed", one(lambda: Z((4, 3), "i4")), TypeError, "RUN0003", ("x", "float32", "int32")),
    "bfloat16 for float32": Case(
        "fixed", one(lambda: Z((4, 3), ml_dtypes.bfloat16)), TypeError, "RUN0003", ("x", "float32", "bfloat16")
    ),
    "float16 for bfloat16": Case("half", one(lambda: Z(4, "f2")), TypeError, "RUN0003", ("x", "bfloat16", "float16")),
    "uint16 for bfloat16": Case("half", one(lambda: Z(4, "u2")), TypeError, "RUN0003", ("x", "bfloat16", "uint16")),
    "int8 for bool": Case("truths", one(lambda: Z(4, "i1")), TypeError, "RUN0003", ("x", "bool", "int8")),
    "other byte order": Case("fixed", one(lambda: Z((4, 3), ">f4")), TypeError, "RUN0105", ("x", "byte order")),
    "complex numbers": Case("fixed", one(lambda: Z((4, 3), "c8")), TypeError, "RUN0105", ("x", "complex64")),
    "objects": Case("fixed", one(lambda: Z((4, 3), object)), TypeError, "RUN0105", ("x", "object")),
    "texts": Case("fixed", one(lambda: Z((4, 3), "U1")), TypeError, "RUN0105", ("x", "<U1")),
    "dates": Case("fixed", one(lambda: Z((4, 3), "M8[s]")), TypeError, "RUN0105", ("x", "datetime64[s]")),
    "records": Case("fixed", one(lambda: Z((4, 3), "f4,f4")), TypeError, "RUN0105", ("x",)),
    # ranks and extents
    "rank too low": Case("fixed", one(lambda: Z(12, "f4")), ValueError, "RUN0004", ("x", "2 axes", "1")),
    "rank too high": Case("fixed", one(lambda: Z((1, 4, 3), "f4")), ValueError, "RUN0004", ("x", "2 axes", "3")),
    "no rank": Case("fixed", one(lambda: np.array(1, "f4")), ValueError, "RUN0004", ("x", "2 axes", "0")),
    "first extent": Case("fixed", one(lambda: Z((5, 3), "f4")), ValueError, "RUN0005", ("x", "axis 0", "4", "5")),
    "last extent": Case("fixed", one(lambda: Z((4, 2), "f4")), ValueError, "RUN0005", ("x", "axis 1", "3", "2")),
    "empty": Case("fixed", one(lambda: Z((0, 3), "f4")), ValueError, "RUN0005", ("x", "axis 0", "4", "0")),
    "extents that differ": Case(
        "symbolic", lambda: (Z(3, "f4"), Z((4, 6), "f4")), ValueError, "RUN0010", ("y", "x", "4", "3")
    ),
    "an extent that is computed": Case(
        "symbolic", lambda: (Z(3, "f4"), Z((3, 5), "f4")), ValueError, "RUN0005", ("y", "axis 1", "6", "5")
    ),
    "extent beyond its variable": Case("narrow", one(lambda: Z(128, "i1")), OverflowError, "RUN0009", ("x", "128", "int8")),
    # strides and offsets
    "columns first": Case("fixed", one(lambda: Z((3, 4), "f4").T), ValueError, "RUN0006", ("x", "row-major", "(1, 4)")),
    "every second": Case("fixed", one(lambda: Z((4, 6), "f4")[:, ::2]), ValueError, "RUN0006", ("x", "(6, 2)")),
    "backwards": Case("fixed", one(lambda: Z((4, 3), "f4")[::-1]), ValueError, "RUN0006", ("x", "(-3, 1)")),
    "repeated": Case(
        "fixed", one(lambda: np.broadcast_to(np.float32(1), (4, 3))), ValueError, "RUN0006", ("x", "(0, 0)")
    ),
    "other strides": Case("strided", one(lambda: Z((4, 3), "f4")), ValueError, "RUN0006", ("x", "6", "3")),
    "strides between elements": Case("fixed", one(crooked), ValueError, "RUN0109", ("x", "(14, 4)", "4 bytes")),
    "other offset": Case("offset", one(lambda: Z(4, "f4")), ValueError, "RUN0011", ("x", "2", "0")),
    "offset between elements": Case(
        "fixed", one(lambda: Exporter(Z((5, 3), "f4")[:4], offset=6)), ValueError, "RUN0011", ("x", "6", "4 bytes")
    ),
    "tensor with an offset between elements": Case(
        "fixed",
        one(lambda: tensor_from_capsule(Exporter(Z((5, 3), "f4")[:4], offset=6).__dlpack__())),
        ValueError,
        "RUN0011",
        ("x", "6", "4 bytes"),
    ),
    # memory that cannot be used
    "read-only": Case("put", one(locked), ValueError, "RUN0108", ("x", "read-only")),
    "masked": Case("fixed", one(lambda: np.ma.zeros((4, 3), "f4")), ValueError, "RUN0106", ("x", "masked")),
    "on another device": Case("fixed", one(lambda: Exporter(Z((4, 3), "f4"), 2)), ValueError, "RUN0107", ("x", "2", "CPU")),
    "not lent": Case("fixed", one(Closed), ValueError, "RUN0110", ("x", "closed")),
    "the same twice": Case("two", lambda: (Z(4, "f4"),) * 2, ValueError, "RUN0008", ("x", "y", "overlap")),
    "parts that overlap": Case(
        "two", lambda: (lambda a: (a[:4], a[3:7]))(Z(7, "f4")), ValueError, "RUN0008", ("x", "y", "overlap")
    ),
    "two of six that overlap": Case("six", lambda: pairs(2, 4), ValueError, "RUN0008", ("c and e",)),
    "a result that is read": Case(
        "read", lambda: (lambda a: (a, a, a[2:3]))(Z(4, "f4")), ValueError, "RUN0008", ("x and z", "overlap")
    ),
    # numbers
    "float for an integer": Case("i32", one(lambda: 1.5), TypeError, "RUN0009", ("n", "int32", "1.5")),
    "whole float for an integer": Case("i32", one(lambda: 4.0), TypeError, "RUN0009", ("n", "int32", "4.0")),
    "not a number for an integer": Case("i32", one(lambda: float("nan")), TypeError, "RUN0009", ("n", "nan")),
    "too large for int32": Case("i32", one(lambda: 2**31), OverflowError, "RUN0009", ("n", "int32", "2147483648")),
    "too small for int32": Case("i32", one(lambda: -(2**31) - 1), OverflowError, "RUN0009", ("n", "int32", "-2147483649")),
    "two to the 40 for int32": Case("i32", one(lambda: 2**40), OverflowError, "RUN0009", ("n", "int32", "1099511627776")),
    "too large for int8": Case("i8", one(lambda: 128), OverflowError, "RUN0009", ("n", "int8", "128")),
    "negative for uint8": Case("u8", one(lambda: -1), OverflowError, "RUN0009", ("n", "uint8", "-1")),
    "too large for uint8": Case("u8", one(lambda: 256), OverflowError, "RUN0009", ("n", "uint8", "256")),
    "negative for uint64": Case("u64", one(lambda: -1), OverflowError, "RUN0009", ("n", "uint64", "-1")),
    "too large for uint64": Case("u64", one(lambda: 2**64), OverflowError, "RUN0111", ("n", "uint64")),
    "too large for int64": Case("i64", one(lambda: 2**63), OverflowError, "RUN0111", ("n", "int64")),
    "too large for a float": Case("f32", one(lambda: 10**400), OverflowError, "RUN0111", ("n", "float32")),
    "two for a truth value": Case("truth", one(lambda: 2), OverflowError, "RUN0009", ("n", "bool", "2")),
    # how many
    "none": Case("sized", lambda: (), TypeError, "RUN0101", ("sized", "2 arguments", "0")),
    "too few": Case("sized", lambda: (Z(4, "f4"),), TypeError, "RUN0101", ("sized", "2 arguments", "1")),
    "too many": Case("sized", lambda: (Z(4, "f4"), 1, 2), TypeError, "RUN0101", ("sized", "2 arguments", "3")),
    "swapped": Case("sized", lambda: (1, Z(4, "f4")), TypeError, "RUN0103", ("x", "float32", "int")),
}  # fmt: skip


@pytest.fixture(scope="module")
def exe() -> Any:
    return loomir.compile(MODULE)


def test_there_are_sixty() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_bad_argument(name: str, exe: Any) -> None:
    case = CASES[name]
    for run in (exe[case.function], lambda *a: loomir.interpret(MODULE, case.function, *a)):
        with pytest.raises(case.error) as caught:
            run(*case.args())
        assert isinstance(caught.value, RunError)
        found = caught.value.diagnostic
        assert found.code == case.code
        missing = [word for word in case.words if word not in found.message]
        assert not missing, found.message
        assert found.help or found.notes


def test_results_are_not_sent_to_a_copy(exe: Any) -> None:
    with pytest.raises(RunError) as caught:
        exe["put"](Z(8, "f4")[::2])
    assert caught.value.diagnostic.code == "RUN0006"
    assert caught.value.diagnostic.help == (
        "pass a row-major array for x, and copy it to this one after, or compile with copy_arguments=True"
    )


def test_arrays_that_are_only_read_may_overlap(exe: Any) -> None:
    x, z = np.arange(4, dtype="float32"), Z(1, "f4")
    shared = np.arange(2, dtype="int8")
    for run in (exe["read"], lambda *a: loomir.interpret(MODULE, "read", *a)):
        run(x, x, z)
        assert z.tolist() == [3]
    for run in (exe["six"], lambda *a: loomir.interpret(MODULE, "six", *a)):
        out = Z(2, "i1")
        run(*[shared] * 4, out, shared[:])
        assert out.tolist() == [0, 0]


def test_six_arrays_that_overlap_in_a_call_are_named() -> None:
    text = """
    @I.ir_module
    class M:
        @T.prim_func(private=True)
        def g(a: T.Buffer((2,), "int8"), b: T.Buffer((2,), "int8"), c: T.Buffer((2,), "int8"),
              d: T.Buffer((2,), "int8"), e: T.Buffer((2,), "int8"), h: T.Buffer((2,), "int8")):
            b[0] = h[1]

        @T.prim_func
        def f(x: T.Buffer((2,), "int8"), y: T.Buffer((2,), "int8")):
            A = T.alloc_buffer((2,), "int8")
            B = T.alloc_buffer((2,), "int8")
            C = T.alloc_buffer((2,), "int8")
            M.g(A.data, x.data, B.data, y.data, C.data, x.data)
    """
    module = from_source(textwrap.dedent(text))
    for run in (loomir.compile(module)["f"], lambda *a: loomir.interpret(module, "f", *a)):
        with pytest.raises(RunError, match="b and h overlap"):
            run(Z(2, "i1"), Z(2, "i1"))
