"""Every access has one int64 index, built without needless arithmetic."""

from __future__ import annotations

from loomir.transform.tir.memory.flatten_buffer import flatten_buffer
from tests.clause import clauses
from tests.transform.meaning import assert_becomes, assert_stays, check


@clauses("TIR-STMT-01d", "TIR-STMT-05a")
def test_row_major_positions():
    assert_becomes(
        flatten_buffer,
        """
@T.prim_func
def main(A: T.Buffer((4, 5, 6), "int32"), B: T.Buffer((6,), "int32")):
    for i in range(6):
        A[2, T.min(i, 4), i] = B[i]
""",
        """
@T.prim_func
def main(A: T.Buffer((4, 5, 6), "int32"), B: T.Buffer((6,), "int32")):
    A_1 = T.decl_buffer((T.int64(120),), "int32", data=A.data)
    for i in range(6):
        A_1[
            T.Cast("int64", T.min(i, 4)) * T.int64(6) + T.Cast("int64", i) + T.int64(60)
        ] = B[T.Cast("int64", i)]
""",
    )


def test_parts_of_one_number_are_put_together():
    assert_becomes(
        flatten_buffer,
        """
@T.prim_func
def main(A: T.Buffer((9, 4, 1, 6), "int32"), B: T.Buffer((9, 5, 6), "int32")):
    for i in range(T.int64(216)):
        A[i // T.int64(6) // T.int64(4), i // T.int64(6) % T.int64(4), 0, i % T.int64(6)] = 1
    for i in range(54):
        B[i // 6, 2, i % 6] = B[i // 6, i % 5, i % 6]
""",
        """
@T.prim_func
def main(A: T.Buffer((9, 4, 1, 6), "int32"), B: T.Buffer((9, 5, 6), "int32")):
    A_1 = T.decl_buffer((T.int64(216),), "int32", data=A.data)
    B_1 = T.decl_buffer((T.int64(270),), "int32", data=B.data)
    for i in range(T.int64(216)):
        A_1[i] = 1
    for i in range(54):
        B_1[
            T.Cast("int64", i // 6) * T.int64(30) + T.Cast("int64", i % 6) + T.int64(12)
        ] = B_1[
            T.Cast("int64", i // 6) * T.int64(30)
            + T.Cast("int64", i % 5) * T.int64(6)
            + T.Cast("int64", i % 6)
        ]
""",
    )


@clauses("TIR-STMT-01e")
def test_strides_of_a_parameter():
    assert_becomes(
        flatten_buffer,
        """
@T.prim_func
def main(a: T.handle):
    s = T.int64()
    A = T.match_buffer(a, (4, 5), "int32", strides=[s, 1])
    for i in range(T.int64(4)):
        A[i, 2] = 1
""",
        """
@T.prim_func
def main(a: T.handle):
    s = T.int64()
    A = T.match_buffer(a, (4, 5), "int32", strides=[s, 1])
    A_1 = T.decl_buffer((T.max(s * T.int64(3) + T.int64(5), T.int64(0)),), "int32", data=A.data)
    for i in range(T.int64(4)):
        A_1[i * s + T.int64(2)] = 1
""",
    )


@clauses("TIR-STMT-05b")
def test_a_buffer_without_axes_has_one_element():
    assert_becomes(
        flatten_buffer,
        """
@T.prim_func
def main(A: T.Buffer((), "float32")):
    A[()] = A[()] + T.float32(1)
""",
        """
@T.prim_func
def main(A: T.Buffer((), "float32")):
    A_1 = T.decl_buffer((T.int64(1),), "float32", data=A.data)
    A_1[T.int64(0)] = A_1[T.int64(0)] + T.float32(1)
""",
    )


def test_a_declared_buffer_begins_at_its_offset():
    assert_becomes(
        flatten_buffer,
        """
@T.prim_func
def main(A: T.Buffer((32,), "int32")):
    D = T.decl_buffer((2, 3), "int32", data=A.data, elem_offset=7)
    D[1, 2] = 5
""",
        """
@T.prim_func
def main(A: T.Buffer((32,), "int32")):
    D = T.decl_buffer((T.int64(13),), "int32", data=A.data)
    D[T.int64(12)] = 5
""",
    )


def test_a_parameters_offset_is_part_of_its_pointer():
    made = check(
        """
@T.prim_func
def main(a: T.handle):
    o = T.int64()
    A = T.match_buffer(a, (4, 4), "int32", elem_offset=o)
    A[1, 1] = T.cast(o, "int32")
"""
    )
    assert "A_1[T.int64(5)] = T.Cast" in made.script()


def test_indices_keep_their_own_arithmetic():
    """A sum that wraps in int8 wraps before it is extended; an unsigned index is not negative."""
    check(
        """
@T.prim_func
def main(A: T.Buffer((256, 2), "int32"), x: T.int8, u: T.uint8):
    A[T.cast(x + T.int8(120) + T.int8(100), "uint8"), 1] = 1
    A[u + T.uint8(250), 0] = 2
""",
        {"x": 1, "u": 3},
    )


def test_a_vector_index_stays_one():
    made = check(
        """
@T.prim_func
def main(A: T.Buffer((4, 16), "int32"), B: T.Buffer((4, 16), "int32")):
    for i in range(4):
        A[i, 4:12] = B[3 - i, T.Ramp(0, 2, 8)]
"""
    )
    text = made.script()
    assert (
        "A_1[i * T.int64(16) + T.int64(4):i * T.int64(16) + T.int64(12)]" in text or "Ramp" in text
    )


def test_flat_buffers_stay():
    assert_stays(
        flatten_buffer,
        """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for i in range(T.int64(4)):
        A[i] = T.float32(0)
""",
    )
