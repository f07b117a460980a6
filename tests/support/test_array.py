"""Arrays as constants: equal where all bytes are."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import loomir
from loomir.support.array import Array
from loomir.support.dtype import DataType, numpy_of

LARGE = np.arange(3 << 20, dtype="uint8")


@pytest.mark.parametrize(
    "data",
    [
        np.float32(1.5),
        np.empty((0, 3), "int64"),
        np.array([np.nan, -0.0]),
        np.arange(1025, dtype="int8"),
        LARGE,
    ],
)
def test_copies_are_equal_and_hash_alike(data: object) -> None:
    first, second = Array(data), Array(data)
    assert first == second
    assert hash(first) == hash(second)
    assert Array.from_bytes(first.to_bytes(), first.dtype, first.shape) == first


def test_arrays_of_other_bytes_dtype_or_shape_differ() -> None:
    zeros = Array(np.zeros(4, "float32"))
    assert zeros != Array(np.array([0, 0, -0.0, 0], "float32"))
    assert zeros != Array(np.zeros(4, "int32"))
    assert zeros != Array(np.zeros((2, 2), "float32"))
    assert zeros != "zeros"


@pytest.mark.parametrize("place", [0, 1, 12345, 1 << 20, len(LARGE) - 5000, len(LARGE) - 1])
def test_one_byte_of_many_makes_a_difference_wherever_it_is(place: int) -> None:
    other = LARGE.copy()
    other[place] ^= 1
    first, second = Array(LARGE), Array(other)
    assert first != second
    assert {first: 1, second: 2}[second] == 2
    assert first.digest() != second.digest()


def test_an_array_that_is_given_away_is_not_copied() -> None:
    for data in (np.arange(6.0).reshape(2, 3), np.array(3, "int32"), np.empty((0, 4), "int8")):
        made = Array.wrap_own(data)
        assert np.shares_memory(made.data, data) or not data.size
        assert made == Array(data)
        assert not data.flags.writeable
    transposed = Array.wrap_own(np.arange(6.0).reshape(2, 3).T)
    assert transposed == Array(np.arange(6.0).reshape(2, 3).T)
    with pytest.raises(loomir.CompileError):
        Array.wrap_own(np.array(["text"]))


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(5000, 3), (1, 40000), (2, 0, 9)])
def test_large_arrays_begin_with_a_line_of_the_cache(shape: tuple[int, ...], dtype: str) -> None:
    given = np.arange(int(np.prod(shape))).reshape(shape)[::-1]
    made = Array(given.astype(numpy_of(DataType(dtype))), dtype)
    assert made.data.ctypes.data % 64 == 0 or not made.data.size
    assert made.data.flags.c_contiguous
    assert not made.data.flags.writeable
    np.testing.assert_array_equal(made.data, given.astype(numpy_of(DataType(dtype))))


def test_what_numpy_makes_no_array_of_is_refused() -> None:
    class Null:
        __array_interface__ = {
            "shape": (3,),
            "typestr": "<f4",
            "data": (0, False),
            "version": 3,
        }

    for given in (Null(), [[1], [1, 2]]):
        with pytest.raises(loomir.CompileError) as caught:
            Array(given)
        assert caught.value.diagnostics[0].code == "RLX0001"


def test_elements_that_can_be_read_again_are_kept_only_on_request() -> None:
    reads: list[int] = []

    def read() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        reads.append(1)
        return LARGE.copy()

    late, plain = Array.read_lazily(read, "uint8", LARGE.shape), Array(LARGE)
    assert (late.dtype, late.shape, reads) == (plain.dtype, plain.shape, [])
    assert (late.read_once() == LARGE).all()
    assert hash(late) == hash(plain)
    assert late == plain
    assert pickle.loads(pickle.dumps(late)) == plain
    assert late.read_once() is not late.read_once()
    assert late.data is late.data
    before = len(reads)
    assert late.read_once() is late.data
    assert not late.data.flags.writeable
    assert len(reads) == before
    late.release()
    plain.release()
    assert (late.data == plain.data).all()
    assert len(reads) == before + 1
