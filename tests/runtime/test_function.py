"""Calls that work, faults from inside, and arguments that are refused, through a native entry."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from loomir.runtime import Function, ffi
from loomir.support.diagnostics import InternalError, RunError
from tests.clause import clauses
from tests.runtime.native import (
    ADD_F32,
    COPY_BF16,
    COPY_F32,
    HANDLE_BITS,
    ID_BOOL,
    ID_FLOAT,
    ID_INT,
    ID_UINT64,
    NOT_BOOL,
    NOTHING,
    RAISES,
    Explainer,
    add_f32,
    buffer,
    compile_ir,
    function,
    scalar,
)


def vector(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.fixture(scope="module")
def add() -> Function:
    return add_f32()


@pytest.fixture(scope="module")
def copy() -> Function:
    return function(COPY_F32, buffer("A"), buffer("B", written=True))


def refused(code: str, kind: type, call: Any) -> str:
    """The text of the error that a call raises, after checking what it is."""
    with pytest.raises(RunError) as caught:
        call()
    assert isinstance(caught.value, kind)
    assert caught.value.diagnostic.code == code
    return str(caught.value)


# -- arrays that are passed on as they are -------------------------------------------------------
@clauses("TIR-STMT-01m")
def test_results_are_written_in_place(add: Function):
    out = vector(0, 0, 0)
    assert add(vector(1, 2, 3), vector(10, 20, 30), out) is None
    assert out.tolist() == [11, 22, 33]


def test_by_name_and_mixed(add: Function):
    a, b, out = vector(1), vector(2), vector(0)
    add(C=out, A=a, B=b)
    assert out.tolist() == [3]
    add(out, C=a, B=b)
    assert a.tolist() == [5]


def test_reversed_and_strided_views(add: Function):
    base = np.arange(12, dtype=np.float32)
    out = np.zeros(12, np.float32)
    add(base[3::-1], base[::3], out[1:12:3])
    assert out.tolist() == [0, 3, 0, 0, 5, 0, 0, 7, 0, 0, 9, 0]


def test_empty_arrays(add: Function):
    add(vector(), vector(), vector())


def test_misaligned_arrays(add: Function):
    def shifted(*values: float) -> np.ndarray:
        raw = np.zeros(4 * len(values) + 1, np.uint8)
        view = raw[1:].view(np.float32)
        view[:] = values
        return view

    out = shifted(0, 0)
    assert not out.flags.aligned
    add(shifted(1, 2), shifted(3, 4), out)
    assert out.tolist() == [4, 6]


def test_bool_arrays():
    f = function(NOT_BOOL, buffer("A", "bool"), buffer("B", "bool", written=True))
    out = np.zeros(3, bool)
    f(np.array([True, False, True]), out)
    assert out.tolist() == [False, True, False]


def test_tensors_of_the_calling_convention_itself(copy: Function):
    source, out = vector(1, 2), vector(0, 0)
    tensor = ffi.tensor_from_capsule(source.__dlpack__())
    copy(tensor, out)
    assert out.tolist() == [1, 2]


def test_memory_map(copy: Function, tmp_path: Path):
    mapped = np.memmap(tmp_path / "a.bin", np.float32, "w+", shape=(2,))
    mapped[:] = [4, 5]
    out = vector(0, 0)
    copy(mapped, out)
    assert out.tolist() == [4, 5]


# -- arrays that need another form ---------------------------------------------------------------
def test_bfloat16_is_not_copied():
    f = function(COPY_BF16, buffer("A", "bfloat16"), buffer("B", "bfloat16", written=True))
    source = np.array([1.5, -2, np.inf, 0.1], ml_dtypes.bfloat16)
    out = np.zeros(4, ml_dtypes.bfloat16)
    f(source, out)
    assert out.tobytes() == source.tobytes()
    f(source[::-1], out[:4])
    assert out.tobytes() == source[::-1].tobytes()
    f(source[:0], out[:0])
    assert source.dtype == ml_dtypes.bfloat16


def test_uint16_is_not_bfloat16():
    asked = Explainer()
    f = function(
        COPY_BF16,
        buffer("A", "bfloat16"),
        buffer("B", "bfloat16", written=True),
        explain=asked,
    )
    source, out = np.ones(2, np.uint16), np.zeros(2, ml_dtypes.bfloat16)
    refused("RUN0001", RunError, lambda: f(source, out))
    assert asked.asked[0][0] is source
    assert asked.asked[0][1] is out


def test_bfloat16_for_another_dtype_is_explained():
    asked = Explainer()
    f = add_f32(asked)
    source = np.ones(2, ml_dtypes.bfloat16)
    refused("RUN0001", RunError, lambda: f(source, vector(1, 1), vector(1, 1)))
    assert asked.asked[0][0] is source


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def test_read_only_inputs_work(add: Function):
    out = vector(0, 0)
    add(frozen(vector(1, 2)), np.broadcast_to(np.float32(5), (2,)), out)
    assert out.tolist() == [6, 7]


def test_read_only_bfloat16_input():
    f = function(COPY_BF16, buffer("A", "bfloat16"), buffer("B", "bfloat16", written=True))
    out = np.zeros(1, ml_dtypes.bfloat16)
    f(frozen(np.ones(1, ml_dtypes.bfloat16)), out)
    assert out.tolist() == [1]


@clauses("TIR-STMT-01m")
def test_read_only_outputs_are_refused_and_not_written(add: Function):
    for out in (frozen(vector(7, 8)), np.frombuffer(bytes(8), np.float32)):
        before = out.copy()
        text = refused("RUN0108", ValueError, lambda: add(vector(1, 2), vector(1, 2), out))  # noqa: B023
        assert "C is read-only, and the function writes to it" in text
        assert out.tobytes() == before.tobytes()


def test_read_only_bfloat16_output_is_refused():
    f = function(COPY_BF16, buffer("A", "bfloat16"), buffer("B", "bfloat16", written=True))
    out = frozen(np.zeros(1, ml_dtypes.bfloat16))
    refused("RUN0108", ValueError, lambda: f(np.ones(1, ml_dtypes.bfloat16), out))
    assert out.tolist() == [0]


class Exporter:
    """An array of a library that is not NumPy."""

    def __init__(self, array: np.ndarray, device: int = 1, old: bool = False) -> None:
        self.array, self.device, self.old = array, device, old

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __dlpack__(self, **kwargs: object) -> object:
        if self.old and kwargs:
            raise TypeError("no keywords here")
        return self.array.__dlpack__(**kwargs)


@pytest.mark.parametrize("old", [False, True])
def test_any_library_s_arrays(add: Function, old: bool):
    out = vector(0, 0)
    add(Exporter(vector(1, 2), old=old), Exporter(vector(3, 4), old=old), Exporter(out, old=old))
    assert out.tolist() == [4, 6]


def test_any_library_s_read_only_arrays(add: Function):
    out = vector(7)
    add(Exporter(frozen(vector(1))), vector(1), out)
    assert out.tolist() == [2]
    text = refused("RUN0108", ValueError, lambda: add(vector(1), vector(1), Exporter(frozen(out))))
    assert "C is read-only" in text
    assert out.tolist() == [2]


def test_immutable_arrays_are_not_written_though_their_memory_is_not_marked(add: Function):
    class Silent(Exporter):
        """What exports read-only memory in the old form of DLPack, which cannot say so."""

        def __dlpack__(self, **kwargs: object) -> object:
            return self.array.__dlpack__()

    Silent.__module__ = "jaxlib._jax"
    out = vector(7)
    add(Silent(vector(1)), vector(1), out)
    refused("RUN0108", ValueError, lambda: add(out, out.copy(), Silent(out)))
    assert out.tolist() == [2]


def test_what_shows_itself_read_only_is_not_written(add: Function):
    class Shown(bytearray):
        """Memory that DLPack gives for writing, and the buffer protocol for reading."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **kwargs: object) -> object:
            return np.frombuffer(self, np.float32).__dlpack__()

    class Kept(bytes):
        __dlpack_device__ = Shown.__dlpack_device__

        def __dlpack__(self, **kwargs: object) -> object:
            address = np.frombuffer(self, np.float32).ctypes.data
            raw = (ctypes.c_float * 1).from_address(address)
            return np.frombuffer(raw, np.float32).__dlpack__()

    out = Shown(4)
    add(vector(1), vector(2), out)
    assert np.frombuffer(out, np.float32).tolist() == [3]
    kept = Kept(bytes(4))
    add(kept, vector(2), out)
    refused("RUN0108", ValueError, lambda: add(vector(1), vector(2), kept))
    assert kept == bytes(4)


def test_arrays_on_other_devices_are_refused(add: Function):
    text = refused(
        "RUN0107", ValueError, lambda: add(Exporter(vector(1), device=2), vector(1), vector(1))
    )
    assert "A is on a device of DLPack type 2" in text


def test_a_library_that_gives_no_memory(add: Function):
    class Broken(Exporter):
        def __dlpack__(self, **kwargs: object) -> object:
            raise BufferError("not today")

    class NotACapsule(Exporter):
        def __dlpack__(self, **kwargs: object) -> object:
            return 3

    for exporter in (Broken(vector(1)), NotACapsule(vector(1))):
        text = refused(
            "RUN0110",
            ValueError,
            lambda e=exporter: add(e, vector(1), vector(1)),
        )
        assert "does not export its memory" in text


def test_memory_newer_than_known_is_refused(add: Function):
    class Future(Exporter):
        def __dlpack__(self, **kwargs: object) -> object:
            capsule = self.array.__dlpack__(max_version=(1, 0))
            get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
                ("PyCapsule_GetPointer", ctypes.pythonapi)
            )
            major = ctypes.c_uint32.from_address(get(capsule, b"dltensor_versioned"))
            major.value = 2
            return capsule

    out = vector(0)
    for args in ((Future(vector(1)), vector(1), out), (vector(1), vector(1), Future(out))):
        refused("RUN0110", ValueError, lambda a=args: add(*a))
    assert out.tolist() == [0]


# -- arrays that are refused ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(2, ">f4"), "byte order of other machines (>f4)"),
        (np.zeros(2, object), "NumPy's dtype object"),
        (np.zeros(2, "U3"), "NumPy's dtype <U3"),
        (np.zeros(2, "S3"), "NumPy's dtype |S3"),
        (np.zeros(2, [("x", "f4"), ("y", "i4")]), "NumPy's dtype [('x', '<f4'), ('y', '<i4')]"),
        (np.zeros(2, np.complex64), "NumPy's dtype complex64"),
        (np.zeros(2, "M8[s]"), "NumPy's dtype datetime64[s]"),
        (np.zeros(2, np.longdouble), "NumPy's dtype float128"),
        (np.zeros(2, ml_dtypes.float8_e4m3fn), "NumPy's dtype float8_e4m3fn"),
    ],
    ids=lambda v: str(v.dtype) if isinstance(v, np.ndarray) else "",
)
@pytest.mark.parametrize("place", [0, 2])
@clauses("TIR-STMT-01d")
def test_elements_of_other_kinds(add: Function, array: Any, words: str, place: int):
    args = [vector(1, 2), vector(1, 2), vector(1, 2)]
    args[place] = array
    text = refused("RUN0105", TypeError, lambda: add(*args))
    assert f"{'ABC'[place]} has elements" in text
    assert words in text


def test_byte_swapped_array_gets_a_remedy(add: Function):
    text = refused("RUN0105", TypeError, lambda: add(np.zeros(1, ">f4"), vector(1), vector(1)))
    assert "pass A.astype('float32')" in text


def test_masked_arrays(add: Function):
    masked = np.ma.MaskedArray([1.0, 2.0], [True, False], np.float32)
    text = refused("RUN0106", ValueError, lambda: add(masked, vector(1, 2), vector(1, 2)))
    assert "A is a masked array" in text


def test_strides_between_elements(add: Function):
    packed = np.zeros(3, [("x", "f4"), ("y", "i1")])
    text = refused(
        "RUN0109", ValueError, lambda: add(packed["x"], vector(1, 2, 3), vector(1, 2, 3))
    )
    assert "A has strides of (5,) bytes" in text


def kind_of(value: object) -> str:
    """Name a case without its address, which differs between the processes of one run."""
    return type(value).__name__


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "not None"),
        (3, "not an int"),
        (2.5, "not a float"),
        (True, "not a bool"),
        (np.float32(1), "not a numpy.float32"),
        ([1.0, 2.0], "not a list"),
        ("text", "not a str"),
        (b"bytes", "not a bytes"),
        (memoryview(b"abcd"), "not a memoryview"),
        (ctypes.c_void_p(64), "not a ctypes.c_void_p"),
        (ctypes.pointer(ctypes.c_float(1)), "LP_c_float"),
        (object(), "not an object"),
        (len, "not a builtin_function_or_method"),
    ],
    ids=kind_of,
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_no_array(add: Function, value: Any, words: str, place: int):
    args: list[object] = [vector(1, 2), vector(1, 2), vector(1, 2)]
    args[place] = value
    text = refused("RUN0103", TypeError, lambda: add(*args))
    assert f"{'ABC'[place]} must be an array of float32" in text
    assert words in text


def test_a_pointer_is_never_taken_for_a_buffer(add: Function):
    """Not by native code either, which a caller could reach without the checks of Python."""
    array = vector(1)
    add(array, array.copy(), array.copy())
    native = add._native
    with pytest.raises(ffi.NativeFault) as caught:
        native(ctypes.c_void_p(array.ctypes.data), array, array)
    assert caught.value.split() == (-1, (0, 0, 0))


# -- what explain gets ---------------------------------------------------------------------------
@clauses("TIR-STMT-01i")
def test_misfits_go_to_explain_with_the_arguments():
    asked = Explainer()
    f = add_f32(asked)
    args = (vector(1, 2), vector(1), vector(1, 2))
    refused("RUN0001", RunError, lambda: f(*args))
    assert all(a is b for a, b in zip(asked.asked[0], args, strict=True))


def test_foreign_memory_is_shown_as_numpy_arrays():
    asked = Explainer()
    f = add_f32(asked)
    wide = np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::-1]
    refused("RUN0001", RunError, lambda: f(Exporter(wide), vector(1), Exporter(vector(1))))
    seen = asked.asked[0][0]
    assert isinstance(seen, np.ndarray)
    assert (seen.dtype, seen.shape, seen.strides) == (wide.dtype, wide.shape, wide.strides)
    assert seen.tolist() == wide.tolist()
    assert seen.ctypes.data == wide.ctypes.data


def test_foreign_memory_of_unknown_elements(add: Function):
    text = refused(
        "RUN0105", TypeError, lambda: add(Exporter(np.zeros(1, np.complex64)), vector(1), vector(1))
    )
    assert "A has elements of another kind, which TIR lacks" in text


def test_a_refusal_that_nobody_explains_is_our_bug():
    f = add_f32(Explainer(silent=True))
    with pytest.raises(InternalError, match="refused its arguments"):
        f(vector(1, 2), vector(1), vector(1, 2))


def test_scalars_are_shown_as_python_numbers():
    asked = Explainer()
    f = function(ID_BOOL, scalar("x", "uint64"), explain=asked)
    for given, seen in ((np.int64(3), 3), (2**63, 2**63), (np.float32(0.5), 0.5)):
        refused("RUN0001", RunError, lambda g=given: f(g))
        assert asked.asked[-1] == (seen,)
        assert type(asked.asked[-1][0]) is type(seen)


# -- scalars -------------------------------------------------------------------------------------
def test_results():
    assert function(NOTHING)() is None
    whole = function(ID_INT, scalar("n", "int64"))
    assert whole(-(2**63)) == -(2**63)
    assert type(whole(True)) is int
    assert function(ID_FLOAT, scalar("x", "float64"))(0.1) == 0.1
    assert function(ID_BOOL, scalar("b", "bool"))(True) is True


class Index:
    def __index__(self) -> int:
        return 41


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int8(-3), -3),
        (np.uint64(7), 7),
        (np.bool_(True), 1),
        (np.array(9), 9),
        (np.array(9, np.int16), 9),
        (Index(), 41),
    ],
)
def test_integers_of_other_kinds(value: Any, expected: int):
    assert function(ID_INT, scalar("n", "int64"))(value) == expected


@pytest.mark.parametrize(
    "value",
    [np.float32(0.5), np.float64(0.5), np.float16(0.5), ml_dtypes.bfloat16(0.5), np.array(0.5)],
)
def test_floats_of_other_kinds(value: Any):
    assert function(ID_FLOAT, scalar("x", "float32"))(value) == 0.5


def test_an_integer_beyond_64_bits_for_a_float():
    f = function(ID_FLOAT, scalar("x", "float64"))
    assert f(2**70) == 2.0**70
    refused("RUN0111", OverflowError, lambda: f(10**400))


@clauses("TIR-STMT-01")
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64, 10**300])
def test_integers_that_do_not_fit(value: Any):
    f = function(ID_INT, scalar("n", "int64"))
    text = refused("RUN0111", OverflowError, lambda: f(value))
    assert "does not fit int64" in text


def test_uint64_uses_all_its_bits():
    f = function(ID_UINT64, scalar("n", "uint64"), returns="uint64")
    for value in (0, 1, 2**63 - 1, 2**63, 2**64 - 1, np.uint64(2**64 - 1)):
        assert f(value) == value
    for value in (2**64, -(2**63) - 1):
        refused("RUN0111", OverflowError, lambda v=value: f(v))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "3",
        3j,
        [3],
        np.array([3]),
        np.complex64(1),
        np.str_("3"),
        ctypes.c_void_p(3),
        vector(1),
    ],
    ids=kind_of,
)
@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
def test_what_is_no_number(value: Any, dtype: str):
    f = function(ID_INT if dtype == "int32" else ID_FLOAT, scalar("n", dtype))
    text = refused("RUN0104", TypeError, lambda: f(value))
    assert f"n must be a number ({dtype})" in text


def test_a_float_for_an_integer_is_left_to_explain():
    asked = Explainer()
    f = function(ID_INT, scalar("n", "int32"), explain=asked)
    refused("RUN0001", RunError, lambda: f(1.0))
    assert asked.asked == [(1.0,)]


def test_handles():
    f = function(HANDLE_BITS, scalar("h", "handle"))
    assert f(ctypes.c_void_p(4096)) == 4096
    assert f(None) == 0
    for value in (4096, vector(1), "x"):
        refused("RUN0104", TypeError, lambda v=value: f(v))


# -- arity and names -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "f takes 3 arguments, 0 were given; missing: A, B, C"),
        (1, "f takes 3 arguments, 1 was given; missing: B, C"),
        (2, "f takes 3 arguments, 2 were given; missing: C"),
        (4, "f takes 3 arguments, 4 were given"),
    ],
)
def test_wrong_numbers_of_arguments(add: Function, count: int, words: str):
    add(vector(1), vector(1), vector(1))  # so that the fast way is open
    text = refused("RUN0101", TypeError, lambda: add(*[vector(1)] * count))
    assert words in text
    assert "A: float32 buffer" in text


def test_wrong_names(add: Function):
    one = vector(1)
    text = refused("RUN0102", TypeError, lambda: add(one, one, CC=one))
    assert "f has no parameter 'CC'" in text
    text = refused("RUN0102", TypeError, lambda: add(one, one, one, A=one))
    assert "f got 'A' both by position and by name" in text
    refused("RUN0102", TypeError, lambda: add(one, A=one, B=one))
    refused("RUN0101", TypeError, lambda: add(A=one, C=one))


def test_parameters_may_be_named_like_python_s_own():
    f = function(ID_INT, scalar("self", "int64"))
    assert f(self=3) == 3


# -- faults --------------------------------------------------------------------------------------
@pytest.mark.parametrize("read_only", [False, True])
def test_a_fault_becomes_its_error(add: Function, read_only: bool):
    a = np.zeros(13, np.float32)
    if read_only:
        a = frozen(a)
    text = refused(
        "RUN0202", AssertionError, lambda: add(a, np.zeros(13, np.float32), np.ones(13, np.float32))
    )
    assert text == "error[RUN0202]: n is 13, {not} -1 or 7"


def test_an_error_has_no_inner_errors_in_its_trace(add: Function):
    with pytest.raises(RunError) as caught:
        add(*(np.zeros(13, np.float32) for _ in range(3)))
    assert caught.value.__context__ is None
    with pytest.raises(RunError) as caught:
        add(vector(1), vector(1), frozen(vector(1)))
    assert caught.value.__context__ is None


def test_a_fault_without_an_entry_in_the_table_is_our_bug():
    with pytest.raises(InternalError, match="fault 5 of 1"):
        function(RAISES)()


# -- life and threads ----------------------------------------------------------------------------
def test_code_lives_as_long_as_the_function_and_no_longer():
    code = compile_ir(ID_INT)

    class Owner:
        engine = code.engine

    owner = Owner()
    gone = weakref.ref(owner)
    f = Function("f", [scalar("n", "int64")], lambda: code.address, (), Explainer(), owner)
    del owner
    assert f(3) == 3
    assert gone() is not None
    del f
    gc.collect()
    assert gone() is None


def test_arguments_are_given_back():
    f = add_f32()
    arrays = [vector(1, 2), frozen(vector(1, 2)), vector(0, 0)]
    refs = [weakref.ref(a) for a in arrays]
    f(*arrays)
    with pytest.raises(RunError):
        f(arrays[0], arrays[2], arrays[1])
    del arrays
    gc.collect()
    assert [r() for r in refs] == [None] * 3


def test_the_entry_is_asked_once():
    asked: list[int] = []
    code = compile_ir(ID_INT)

    def entry() -> int:
        asked.append(1)
        return code.address

    f = Function("f", [scalar("n", "int64")], entry, (), Explainer(), code.engine)
    assert asked == []
    start = threading.Barrier(8)

    def use() -> None:
        start.wait()
        f(1)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    f(2)
    assert asked == [1]


def test_an_entry_that_fails_is_asked_again():
    code = compile_ir(ID_INT)
    answers: list[object] = [OSError("no room"), code.address]

    def entry() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, int)
        return answer

    f = Function("f", [scalar("n", "int64")], entry, (), Explainer(), code.engine)
    with pytest.raises(OSError, match="no room"):
        f(1)
    assert f(1) == 1


def test_eight_threads_get_right_answers(add: Function):
    wrong: list[object] = []
    start = threading.Barrier(8)

    def work(k: int) -> None:
        a = np.full(64, k, np.float32)
        bad = np.zeros(13, np.float32)
        out = np.zeros(64, np.float32)
        start.wait()
        for i in range(400):
            b = np.full(64, i, np.float32)
            if i % 3 == 0:
                b.flags.writeable = False
            add(a, b, out)
            if not (out == k + i).all():
                wrong.append((k, i))
            if i % 50 == 0:
                try:
                    add(bad, bad, bad)
                    wrong.append((k, i, "no fault"))
                except AssertionError:
                    continue

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_other_threads_run_during_a_call():
    """The GIL is released: a native loop that waits for a Python thread comes to its end."""
    text = """
    define i32 @entry(ptr %self, ptr %args, i32 %n, ptr %ret) {
      %slot = getelementptr i8, ptr %args, i32 8
      %flag = load ptr, ptr %slot
      br label %wait
    wait:
      %k = phi i64 [0, %0], [%next, %wait]
      %next = add i64 %k, 1
      %v = load atomic i32, ptr %flag acquire, align 4
      %set = icmp ne i32 %v, 0
      %tired = icmp sgt i64 %k, 20000000000
      %stop = or i1 %set, %tired
      br i1 %stop, label %end, label %wait
    end:
      call void @result(ptr %ret, i32 1, i64 %k)
      ret i32 0
    }
    """
    f = function(text, scalar("flag", "handle"))
    flag = ctypes.c_int32(1)
    assert f(ctypes.c_void_p(ctypes.addressof(flag))) == 0  # compiled now, and does not wait
    flag.value = 0
    timer = threading.Timer(0.05, lambda: setattr(flag, "value", 1))
    timer.start()
    assert f(ctypes.c_void_p(ctypes.addressof(flag))) < 20_000_000_000
    timer.join()


def test_repr_shows_the_signature():
    f = function(ADD_F32, buffer("A"), scalar("n", "int32"), returns="uint64")
    assert repr(f) == "<compiled f(A: float32 buffer, n: int32) -> uint64>"
