"""Addresses become a pointer and a number of bytes."""

from __future__ import annotations

import pytest

from loomir.ir.visit import pre_order
from loomir.tir.builtins.table import BUILTINS
from loomir.tir.expr import Call
from loomir.transform.tir.lower_tvm_builtin import lower_tvm_builtin
from tests.transform.meaning import assert_becomes, assert_stays, check, lowered, only, parse

HEAD = """
@T.prim_func
def main(A: T.Buffer((T.int64(64),), "int32"), n: T.int32):
"""
USE = "\nD = T.decl_buffer((2,), 'int32', data=p)\nD[1] = D[0] + 1"


def indented(text: str) -> str:
    return HEAD + "\n".join("    " + line for line in text.strip().splitlines()) + "\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("T.address_of(A[T.int64(3)])", "T.handle_add_byte_offset(A.data, T.int64(12))"),
        (
            "T.ptr_byte_offset(A, n, 'int32')",
            "T.handle_add_byte_offset(A.data, T.Cast('int64', n))",
        ),
        (
            "T.handle_add_byte_offset(T.tvm_access_ptr('int16', A, n, 1, 3), 4)",
            "T.handle_add_byte_offset(T.handle_add_byte_offset(A.data, OFFSET), 4)".replace(
                "OFFSET", "T.Cast('int64', n) * T.int64(2)"
            ),
        ),
        ("T.address_of(A)", "A.data"),
    ],
)
def test_every_address_is_written_in_bytes(before: str, after: str) -> None:
    pointer = "p: T.handle('int32') = "
    assert_becomes(
        lower_tvm_builtin, indented(pointer + before + USE), indented(pointer + after + USE)
    )


def test_nothing_to_do() -> None:
    assert_stays(lower_tvm_builtin, indented("p = T.handle_add_byte_offset(A, 4)" + USE))


def test_addresses_of_strided_and_matched_buffers() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32", strides=(16, 2)), n: T.int32):
    for i in range(4):
        with T.sblock("b"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi + 1, 2:6])
            T.writes(A[vi + 1, 2:6])
            V = T.match_buffer(A[vi + 1, 2:6], (4,), "int32", strides=("s",))
            p = T.address_of(V[3])
            D = T.decl_buffer((1,), "int32", data=p)
            D[0] = D[0] + vi
"""
    made = check(text)
    used = {p.op for p in pre_order(only(made).body) if isinstance(p, Call)}
    assert BUILTINS["handle_add_byte_offset"].op in used


def test_memory_whose_address_is_taken_stays_where_it_is() -> None:
    # The buffer is written by its name in one loop and read by its address in another.
    text = """
@T.prim_func
def main(A: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    p = T.address_of(B[4])
    D = T.decl_buffer((12,), "int32", data=p)
    for i in T.vectorized(16):
        B[i] = A[i] * 2
    for i in range(12):
        A[i] = D[i]
"""
    check(text)


@pytest.mark.parametrize("kind", ["range", "T.vectorized", "T.unroll", "T.serial"])
def test_stores_through_another_pointer_are_seen(kind: str) -> None:
    text = f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32")):
    p = T.address_of(A[1])
    D = T.decl_buffer((15,), "int32", data=p)
    for i in {kind}(15):
        D[i] = A[i] + 1
"""
    check(text)


def test_no_address_is_left() -> None:
    made = lowered(parse(indented("p = T.address_of(A[n])" + USE)))
    assert "address_of" not in made.script()
