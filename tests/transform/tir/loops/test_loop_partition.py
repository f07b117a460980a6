"""Tiles within an array do not ask at each element whether they are; those at its end do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.driver import as_module
from loomir.tir.function import PrimFunc
from loomir.transform import lower
from loomir.transform.tir.loops.loop_partition import loop_partition
from tests.transform.meaning import assert_becomes, assert_stays, check, only

HEAD = """
@T.prim_func
def main(A: T.Buffer((64, 64), "int32"), B: T.Buffer((64, 64), "int32"), n: T.int32):
"""


def body(text: str) -> str:
    return HEAD + "\n".join("    " + line for line in text.strip("\n").splitlines()) + "\n"


def becomes(before: str, after: str) -> None:
    assert_becomes(loop_partition, body(before), body(after))


def test_the_last_tile_is_shorter():
    becomes(
        """
for i in range(4):
    for j in T.vectorized(8):
        if i * 8 + j < 30:
            B[0, i * 8 + j] = A[0, i * 8 + j]
""",
        """
for i in range(4):
    if i < 3:
        for j in T.vectorized(8):
            B[0, i * 8 + j] = A[0, i * 8 + j]
    else:
        for j in T.vectorized(6):
            B[0, j + 24] = A[0, j + 24]
""",
    )


def test_conditions_of_several_tiles_are_asked_where_their_loops_are():
    becomes(
        """
for i in T.parallel(3):
    for j in range(3):
        for k in range(5):
            for r in T.unroll(4):
                for c in T.vectorized(8):
                    if i * 4 + r < 10 and j * 8 + c < 20:
                        B[i * 4 + r, j * 8 + c] = B[i * 4 + r, j * 8 + c] + A[i * 4 + r, k]
""",
        """
for i in T.parallel(3):
    if i < 2:
        for j in range(3):
            if j < 2:
                for k in range(5):
                    for r in T.unroll(4):
                        for c in T.vectorized(8):
                            B[i * 4 + r, j * 8 + c] = B[i * 4 + r, j * 8 + c] + A[i * 4 + r, k]
            else:
                for k in range(5):
                    for r in T.unroll(4):
                        for c in T.vectorized(4):
                            B[i * 4 + r, c + 16] = B[i * 4 + r, c + 16] + A[i * 4 + r, k]
    else:
        for j in range(3):
            if j < 2:
                for k in range(5):
                    for r in T.unroll(2):
                        for c in T.vectorized(8):
                            B[r + 8, j * 8 + c] = B[r + 8, j * 8 + c] + A[r + 8, k]
            else:
                for k in range(5):
                    for r in T.unroll(2):
                        for c in T.vectorized(4):
                            B[r + 8, c + 16] = B[r + 8, c + 16] + A[r + 8, k]
""",
    )


def test_what_is_the_same_for_all_lanes_is_asked_before():
    becomes(
        """
for j in T.vectorized(8):
    if n > 3:
        B[0, j] = A[0, j]
""",
        """
if n > 3:
    for j in T.vectorized(8):
        B[0, j] = A[0, j]
""",
    )


@pytest.mark.parametrize(
    ("condition", "whole"),
    [
        ("i * 8 + j <= n", "i * 8 + 7 <= n"),
        ("n > i * 8 + j", "i * 8 + 7 < n"),
        ("n <= i * 8 + j", "i * 8 >= n"),
        ("60 - i * 8 - j > n", "53 - i * 8 > n"),
    ],
)
def test_conditions_may_have_either_side_and_symbolic_ends(condition: str, whole: str):
    made = check(
        body(f"""
for i in range(4):
    for j in T.vectorized(8):
        if {condition}:
            B[0, i * 8 + j] = A[0, i * 8 + j] + 1
"""),
        {"n": 19},
    )
    vectors = re.findall(r"\bB_1\[\w+ \* T.int64\(8\):", made.script())
    assert vectors, made.script()


STAYS = {
    "no vector loop": """
for i, j in T.grid(4, 8):
    if i * 8 + j < 30:
        B[0, i * 8 + j] = A[0, i * 8 + j]
""",
    "asked of what is loaded": """
for i in range(4):
    for j in T.vectorized(8):
        if A[0, i * 8 + j] < 30:
            B[0, i * 8 + j] = 1
""",
    "something else otherwise": """
for i in range(4):
    for j in T.vectorized(8):
        if i * 8 + j < 30:
            B[0, i * 8 + j] = 1
        else:
            B[0, i * 8 + j] = 2
""",
    "of no tile": """
for i in range(4):
    for j in T.vectorized(8):
        if j < n:
            B[i, j] = A[i, j]
""",
    "no multiple of the element": """
for i in range(4):
    for j in T.vectorized(8):
        if (i * 8 + j) * (i + j) < 300:
            B[0, i * 8 + j] = 1
""",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_other_conditions_stay(text: str):
    assert_stays(loop_partition, body(text))


def test_indices_that_wrap_are_asked_about_each():
    text = """
for i in range(4):
    for j in T.vectorized(8):
        if i * 8 + j + 2147483630 < n:
            B[i, j] = 1
"""
    mod = check(body(text), {"n": 2147483640})
    assert "if" in mod.script()


def scheduled(n: int) -> PrimFunc:
    """Schedule a product by tiles that do not divide it."""
    x, w = te.placeholder((n, n), name="x"), te.placeholder((n, n), name="w")
    k = te.reduce_axis((0, n), name="k")
    made = te.compute((n, n), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="C")
    work = loomir.Schedule(te.create_prim_func([x, w, made]))
    block = work.get_sblock("C")
    i, j, r = work.get_loops(block)
    i_outer, i_inner = work.split(i, [None, 4])
    j_outer, j_inner = work.split(j, [None, 16])
    work.reorder(i_outer, j_outer, r, i_inner, j_inner)
    work.vectorize(j_inner)
    work.unroll(i_inner)
    work.parallel(i_outer)
    work.decompose_reduction(block, r)
    (func,) = work.mod.functions.values()
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("n", [5, 31, 36, 50])
def test_products_of_odd_sizes_are_right_and_of_vectors(n: int):
    func = scheduled(n)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((n, n)).astype("float32") for _ in range(2))
    wanted, found = np.zeros((2, n, n), "float32")
    loomir.interpret(func, "main", x, w, wanted)
    loomir.compile(func)(x, w, found)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    if n > 16:
        text = only(lower(as_module(func))).script()
        assert "T.Broadcast(x_1[" in text
