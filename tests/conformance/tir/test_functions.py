"""Statement semantics, first part: what happens when a function is called."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.compare_engines import (
    both,
    both_ways,
    f32,
    fails,
    i32,
    numpy_named,
    refused,
    run_both,
    zeros,
)


def signature(params: str, *, returns: str = "int32", body: str = "return 0") -> str:
    """Write a function with these parameters."""
    lines = "".join(f"\n            {line}" for line in body.splitlines())
    return f"""
        @T.prim_func
        def main({params}) -> T.{returns}:{lines}
    """


def test_TIR_STMT_01_parameters():
    """Parameters have the values that are passed, in order; too few or too many are refused."""
    source = signature("a: T.int32, b: T.int32, c: T.float32", body="return a * 100 + b")
    assert both(source, 7, -3, 1.5) == 697
    for args in ((7, -3), (7, -3, 1.5, 2)):
        fails("RUN0101", source, *args)


@pytest.mark.parametrize(
    ("value", "code"), [(2**31, "RUN0009"), (-(2**31) - 1, "RUN0009"), (1.5, "RUN0009")]
)
def test_TIR_STMT_01_scalars_must_fit(value: float, code: str):
    """A number is passed only where its parameter can hold it (T40)."""
    fails(code, signature("a: T.int32", body="return a"), value)


SHAPED = """
    @T.prim_func
    def main(a: T.handle{}) -> T.int64:
        {}A = T.match_buffer(a, (n, 3), "int32")
        A[0, 0] = 1
        return n
"""


def test_TIR_STMT_01a_names_in_shapes():
    """A name in a shape need not be passed; where it is a parameter it must be, and agree (T37)."""
    inferred, listed = SHAPED.format("", ""), SHAPED.format(", n: T.int64", "")
    assert both(inferred, zeros(5, 3)) == 5
    assert both(listed, zeros(5, 3), 5) == 5
    fails("RUN0010", listed, zeros(5, 3), 4)
    fails("RUN0101", listed, zeros(5, 3))


def test_TIR_STMT_01b_arrays():
    """A parameter of a buffer takes an array, and nothing else (T39)."""
    source = signature('A: T.Buffer((2,), "int32")', body="A[1] = 9\nreturn A[0]")
    value, (array,) = run_both(source, i32(4, 0))
    assert value == 4
    assert array.tolist() == [4, 9]
    for wrong in (4, [4, 0], None, "A"):
        fails("RUN0103", source, wrong)


VECTORS = """
    @T.prim_func
    def main(A: T.Buffer((4,), "{0}x2"), B: T.Buffer((4,), "{0}")):
        B[0:4] = A[T.Ramp(3, -2, 2)]
        A[0] = A[2]
"""


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "bool", "float64"])
def test_TIR_STMT_01b_vectors(dtype: str):
    """A buffer of vectors takes an array with one more axis, which holds the lanes side by side."""
    data = np.arange(8).reshape(4, 2).astype(numpy_named(dtype))
    _, (array, out) = run_both(VECTORS.format(dtype), data, zeros(4, dtype=dtype))
    assert out.tolist() == data[[3, 1]].ravel().tolist()
    assert array.tolist() == data[[2, 1, 2, 3]].tolist()


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("RUN0003", zeros(4)),
        ("RUN0003", zeros(4, 3)),
        ("RUN0003", zeros(4, 2, dtype="int64")),
        ("RUN0005", zeros(5, 2)),
        ("RUN0006", zeros(8, 2)[::2]),
        ("RUN0109", zeros(4, 4)[:, ::2]),
        ("RUN0109", zeros(4, 3)[:, :2]),
    ],
)
def test_TIR_STMT_01b_no_vectors(code: str, wrong: np.ndarray):
    """An array without that axis is refused, as is one whose lanes have a stride."""
    fails(code, VECTORS.format("int32"), wrong, zeros(4))


class Exporter:
    """An array of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_TIR_STMT_01b_other_libraries():
    """An array of any library is taken in place, for vectors too."""
    for source, shape in [(VECTORS.format("int32"), (4, 2)), (ROWS, (2, 3))]:
        for run in both_ways(source):
            data = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
            if source is ROWS:
                assert run(Exporter(data)) == 35
            else:
                run(Exporter(data), zeros(4))
                assert data[0].tolist() == [4, 5]


def test_TIR_STMT_01c_no_axes():
    """An array of shape () holds the element at its address."""
    source = signature('A: T.Buffer((), "int32")', body="A[()] = A[()] + 1\nreturn A[()]")
    memory = i32(1, 2, 3)
    value, (array,) = run_both(source, memory[1:2].reshape(()))
    assert (value, array[()]) == (3, 3)


ROWS = signature('A: T.Buffer((2, 3), "int32")', body="return A[1, 0] * 10 + A[1, 2]")


def test_TIR_STMT_01d_packed():
    """Without strides, elements lie packed in row-major order (T32)."""
    assert both(ROWS, np.arange(6, dtype=np.int32).reshape(2, 3)) == 35


STRIDED = """
    @T.prim_func
    def main(a: T.handle) -> T.int64:
        A = T.match_buffer(a, (2, 3), "int32", strides=(s, t))
        A[1, 2] = A[1, 0] + 100
        return s * 100 + t
"""


@pytest.mark.parametrize(
    "cut",
    [
        lambda x: x[:2, :3],
        lambda x: x[::2, ::2][:2, :3],
        lambda x: x[::-1, ::-1][:2, :3],
        lambda x: x.T[:2, :3],
        lambda x: x[1:3, 2:5],
    ],
)
def test_TIR_STMT_01e_strided(cut: object):
    """With strides, an element lies at the sum of its indices times the strides, from the start (T32)."""
    x = cut(np.arange(64, dtype=np.int32).reshape(8, 8))  # type: ignore[operator]
    value, (array,) = run_both(STRIDED, x)
    assert value == x.strides[0] // 4 * 100 + x.strides[1] // 4
    assert array[1, 2] == x[1, 0] + 100


@pytest.mark.parametrize("dtype", ["int64", "uint32", "float32", "bool"])
def test_TIR_STMT_01f_dtypes(dtype: str):
    """An array holds the buffer's dtype, else it is refused."""
    fails("RUN0003", ROWS, zeros(2, 3, dtype=dtype))


def test_TIR_STMT_01g_offsets():
    """A start inside of a larger array is in the address; a named offset counts from there (T32, T36)."""
    source = """
        @T.prim_func
        def main(a: T.handle) -> T.int32:
            A = T.match_buffer(a, (3,), "int32", elem_offset=o)
            return A[0] * 10 + T.cast(o, "int32")
    """
    assert both(source, np.arange(6, dtype=np.int32)[3:]) == 30
    fails("RUN0011", source.replace("=o", "=3").replace(' + T.cast(o, "int32")', ""), zeros(6)[3:])
    between = np.zeros(4, [("a", "u1"), ("b", "i4")])["b"]
    fails("RUN0109", source, between[:3])


def test_TIR_STMT_01h_without_strides():
    """An array must be packed where the buffer has no strides (T34)."""
    for wrong in (zeros(3, 2).T, zeros(2, 6)[:, ::2], zeros(4, 3)[::2], zeros(2, 3)[::-1]):
        fails("RUN0006", ROWS, wrong)
    # Where an axis has one element, or there is none, no stride matters (T33).
    thin = signature('A: T.Buffer((1, 3), "int32")', body="return A[0, 2]")
    assert both(thin, np.arange(12, dtype=np.int32).reshape(4, 3)[::4]) == 2


def test_TIR_STMT_01i_strides_agree():
    """Given strides must be the array's; a named one is bound to it, and agrees wherever it is (T33, T36)."""
    source = """
        @T.prim_func
        def main(a: T.handle) -> T.int32:
            A = T.match_buffer(a, (2, 3), "int32", strides={})
            return A[1, 2]
    """
    wide = np.arange(12, dtype=np.int32).reshape(2, 6)[:, ::2]
    assert both(source.format("(6, 2)"), wide) == 10
    fails("RUN0006", source.format("(6, 1)"), wide)
    assert both(source.format("(s * 3, s)"), wide) == 10
    fails("RUN0010", source.format("(s, s)"), wide)
    fails("RUN0004", source.format("(6, 2)"), zeros(6))


def test_TIR_STMT_01j_rank():
    """An array has as many axes as the buffer (T35)."""
    for wrong in (zeros(6), zeros(1, 2, 3), zeros()):
        fails("RUN0004", ROWS, wrong)


def test_TIR_STMT_01k_shape():
    """An extent must be the given number, or what its name has elsewhere; a new name is bound (T35, T36)."""
    for wrong in ((2, 4), (3, 3), (0, 3)):
        fails("RUN0005", ROWS, zeros(*wrong))
    source = """
        @T.prim_func
        def main(a: T.handle, b: T.handle) -> T.int64:
            A = T.match_buffer(a, (n * m, m + 1), "int32")
            B = T.match_buffer(b, (m, n, n), "int32")
            return n * 100 + m
    """
    assert both(source, zeros(6, 4), zeros(3, 2, 2)) == 203
    fails("RUN0005", source, zeros(7, 4), zeros(3, 2, 2))
    fails("RUN0010", source, zeros(6, 4), zeros(3, 2, 3))
    small = signature('A: T.Buffer(("n",), "int8"), n: T.int8', returns="int8", body="return n")
    assert both(small, zeros(127, dtype="int8"), 127) == 127


def test_TIR_STMT_01l_no_aliases():
    """No two arrays may share memory, unless the caller vouches for it (T38)."""
    source = signature(
        'A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")', body="B[0] = A[1]\nreturn 0"
    )
    memory = np.arange(12, dtype=np.int32)
    fails("RUN0008", source, memory[:4], memory[:4])
    fails("RUN0008", source, memory[:4], memory[3:7])
    run_both(source, memory[:4], memory[4:8])
    _, arrays = run_both(source, memory[:4], memory[:4], allow_alias=True)
    assert arrays[0].tolist() == arrays[1].tolist() == [1, 1, 2, 3]


def test_TIR_STMT_01m_results_in_place():
    """What the body writes is in the caller's arrays afterwards, strided ones too (T42)."""
    _, (array,) = run_both(STRIDED, zeros(8, 8)[1::3, ::3][:2, :3])
    assert array.tolist() == [[0, 0, 0], [0, 0, 100]]
    assert array.strides == (96, 12)


def test_TIR_STMT_01n_results():
    """A function gives what it returns, else nothing; not to return where it says so is an error (T42)."""
    assert both(signature("x: T.float32", returns="float32", body="return x * x"), 1.5) == 2.25
    void = """
        @T.prim_func
        def main(A: T.Buffer((1,), "float32")):
            A[0] = T.float32(1)
    """
    assert run_both(void, f32(0)).value is None
    some = """
        @T.prim_func
        def main(x: T.int32) -> T.int32:
            if x > 0:
                return x
    """
    assert both(some, 3) == 3
    fails("RUN0205", some, 0)
    refused("TIR0406", some.replace("return x", "T.evaluate(x)"))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", -128),
        ("uint8", 255),
        ("int64", -(2**63)),
        ("uint64", 2**64 - 1),
        ("bool", True),
        ("float16", 2.5),
        ("bfloat16", 2.5),
        ("float64", 0.1),
    ],
)
def test_TIR_STMT_01n_dtypes_of_results(dtype: str, value: float):
    """A number of any dtype goes in and comes back as it was."""
    found = both(signature(f"x: T.{dtype}", returns=dtype, body="return x"), value)
    assert found == value
    assert type(found) is type(value)
