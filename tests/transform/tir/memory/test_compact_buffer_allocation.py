"""Buffers shrink to what one iteration stores and loads, where iterations share nothing."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.driver import as_module
from loomir.ir.module import IRModule
from loomir.ir.passes import apply, pass_of
from loomir.ir.visit import by_class
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Allocate
from loomir.transform import lower
from loomir.transform.tir.blocks.lower_opaque_block import lower_opaque_block
from loomir.transform.tir.memory.compact_buffer_allocation import compact_buffer_allocation
from tests.transform.meaning import assert_becomes, assert_stays, check, only, parse

HEAD = """
@T.prim_func
def main(A: T.Buffer((18, 16), "int32"), B: T.Buffer((16, 16), "int32"), n: T.int32):
"""


def block(text: str, spaces: int = 4) -> str:
    return "\n".join(" " * spaces + line for line in text.strip("\n").splitlines()) + "\n"


def outside(text: str, shape: str = "(18, 16)") -> str:
    """Write a program with its buffer outside of all loops."""
    made = f"""
    d = T.allocate({shape}, "int32", "global")
    t = T.decl_buffer({shape}, "int32", data=d)
"""
    return HEAD + made + block(text)


def becomes(before: str, shape: str, after: str, old: str = "(18, 16)") -> None:
    """Check that the buffer moves to where ``after`` says ``ALLOCATE``, with another shape."""
    place = (
        f'd = T.allocate({shape}, "int32", "global")\nINt = T.decl_buffer({shape}, "int32", data=d)'
    )
    lines: list[str] = []
    for line in after.strip("\n").splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(line.replace("ALLOCATE", place.replace("IN", indent)))
    assert_becomes(compact_buffer_allocation, outside(before, old), HEAD + block("\n".join(lines)))


def test_a_row_that_each_iteration_makes_is_all_that_is_kept():
    becomes(
        """
for i in T.parallel(16):
    for j in range(16):
        t[i, j] = A[i, j] * 2
    for j in range(16):
        B[i, j] = t[i, j] + t[i, 15 - j]
""",
        "(1, 16)",
        """
for i in T.parallel(16):
    ALLOCATE
    for j in range(16):
        t[0, j] = A[i, j] * 2
    for j in range(16):
        B[i, j] = t[0, j] + t[0, 15 - j]
""",
    )


def test_rows_around_one_are_kept_together():
    becomes(
        """
for i in range(16):
    for r, j in T.grid(3, 16):
        t[i + r, j] = A[i + r, j] * 2
    for j in range(16):
        B[i, j] = t[i, j] + t[i + 2, j]
""",
        "(3, 16)",
        """
for i in range(16):
    ALLOCATE
    for r, j in T.grid(3, 16):
        t[r, j] = A[i + r, j] * 2
    for j in range(16):
        B[i, j] = t[0, j] + t[2, j]
""",
    )


def test_sums_of_a_tile_are_kept_while_they_grow():
    becomes(
        """
for i, j in T.grid(4, 4):
    for r, c in T.grid(4, 4):
        t[i * 4 + r, j * 4 + c] = 0
    for k, r, c in T.grid(16, 4, 4):
        t[i * 4 + r, j * 4 + c] = t[i * 4 + r, j * 4 + c] + A[i * 4 + r, k] * A[k, j * 4 + c]
    for r, c in T.grid(4, 4):
        B[i * 4 + r, j * 4 + c] = t[i * 4 + r, j * 4 + c]
""",
        "(4, 4)",
        """
for i, j in T.grid(4, 4):
    ALLOCATE
    for r, c in T.grid(4, 4):
        t[r, c] = 0
    for k, r, c in T.grid(16, 4, 4):
        t[r, c] = t[r, c] + A[i * 4 + r, k] * A[k, j * 4 + c]
    for r, c in T.grid(4, 4):
        B[i * 4 + r, j * 4 + c] = t[r, c]
""",
    )


@pytest.mark.parametrize("first", ["k == 0", "k == 0 and m == 0", "k * 2 + m == 0"])
def test_the_first_iteration_of_a_sum_stores_for_all(first: str):
    becomes(
        f"""
for i in range(16):
    for k, m in T.grid(8, 2):
        for j in range(16):
            if {first}:
                t[i, j] = 1
            t[i, j] = t[i, j] + A[k * 2 + m, j]
    for j in range(16):
        B[i, j] = t[i, j]
""",
        "(1, 16)",
        f"""
for i in range(16):
    ALLOCATE
    for k, m in T.grid(8, 2):
        for j in range(16):
            if {first}:
                t[0, j] = 1
            t[0, j] = t[0, j] + A[k * 2 + m, j]
    for j in range(16):
        B[i, j] = t[0, j]
""",
    )


def test_one_axis_may_stay_whole():
    becomes(
        """
for i in range(16):
    for j in range(18):
        t[j, i] = A[j, i]
    for j in range(16):
        B[j, i] = t[(j + 5) % 18, i]
""",
        "(18, 1)",
        """
for i in range(16):
    ALLOCATE
    for j in range(18):
        t[j, 0] = A[j, i]
    for j in range(16):
        B[j, i] = t[(j + 5) % 18, 0]
""",
    )


def test_what_nothing_loads_is_kept_for_one_iteration():
    becomes(
        "for i in range(16):\n    t[i, 3] = A[i, 0]",
        "(1, 1)",
        "for i in range(16):\n    ALLOCATE\n    t[0, 0] = A[i, 0]",
    )


@pytest.mark.parametrize("extent", ["n", "n - 1", "2 ** 31 - 1, 2 ** 31 - 1"])
def test_an_allocation_that_may_fail_fails_where_it_is(extent: str):
    text = f"""
t = T.alloc_buffer(({extent}, 16), "int32")
for i in range({"n - 1" if extent == "n - 1" else "n"}):
    t[{"0, " * extent.count(",")}i, 0] = A[i, 0]
"""
    mod = apply(pass_of(lower_opaque_block), parse(HEAD + block(text)), None)
    assert apply(pass_of(compact_buffer_allocation), mod, None) is mod


STAYS = {
    "read from the iteration before": """
for i in range(1, 16):
    for j in range(16):
        t[i, j] = A[i, j]
    for j in range(16):
        B[i, j] = t[i - 1, j]
""",
    "stored with gaps": """
for i in range(16):
    for j in range(8):
        t[i, j * 2] = A[i, j]
    for j in range(16):
        B[i, j] = t[i, j]
""",
    "stored along a diagonal": """
for i in range(16):
    for j in range(2):
        t[i + j, j] = A[i, j]
    for j in range(2):
        B[i, j] = t[i + j, 1 - j]
""",
    "stored under a condition": """
for i in range(16):
    for j in range(16):
        if A[i, j] > 0:
            t[i, j] = A[i, j]
    for j in range(16):
        B[i, j] = t[i, j]
""",
    "stored by a loop that may not run": """
for i in range(16):
    for j in range(n):
        t[i, 0] = A[i, j]
    B[i, 0] = t[i, 0]
""",
    "loaded before it is stored": """
for i in range(16):
    B[i, 0] = t[i, 0]
    t[i, 0] = A[i, 0]
""",
    "loaded by the store": "for i in range(16):\n    t[i, 0] = t[i, 0] + A[i, 0]",
    "stored in the other branch": """
for i in range(16):
    if A[i, 0] > 0:
        t[i, 0] = A[i, 0]
    else:
        B[i, 0] = t[i, 0]
""",
    "left before it is stored": """
for i in range(16):
    for j in range(16):
        if j == 4:
            T.evaluate(T.break_loop())
        t[i, j] = A[i, j]
    for j in range(16):
        B[i, j] = t[i, j]
""",
    "stored first by one of many at once": """
for i in range(16):
    for k in T.parallel(4):
        if k == 0:
            t[i, 0] = 1
        B[i, k] = t[i, 0]
""",
    "stored first where it is not reached": """
for i in range(16):
    for k in range(4):
        if k > 0:
            if k == 0:
                t[i, 0] = 1
            B[i, k] = t[i, 0]
""",
    "stored first of fewer": """
for i in range(16):
    for k in range(4):
        for j in range(k):
            if k == 0:
                t[i, j] = 1
            B[i, j] = t[i, j]
""",
    "stored first of another": """
for i in range(16):
    for k in range(4):
        if k == 1:
            t[i, 0] = 1
        B[i, k] = t[i, 0]
""",
    "its address is taken": """
for i in range(16):
    t[i, 0] = A[i, 0]
    T.evaluate(T.call_extern("int32", "abs", T.address_of(t[i, 0])))
    B[i, 0] = t[i, 0]
""",
    "it is seen as another buffer": """
u = T.decl_buffer((288,), "int32", data=d)
for i in range(16):
    t[i, 0] = A[i, 0]
    B[i, 0] = u[i * 16]
""",
    "outside of loops": "t[0, 0] = A[0, 0]\nB[0, 0] = t[0, 0]",
    "of more than half": """
for i in range(2):
    for j, k in T.grid(16, 16):
        t[i + j, k] = A[i + j, k]
    for j, k in T.grid(16, 16):
        B[j, k] = t[i + j, k]
""",
    "in a loop of lanes": """
for i in T.vectorized(16):
    for j in range(16):
        t[i, j] = A[i, j]
        B[i, j] = t[i, j]
""",
    "in lanes": """
for i in T.vectorized(16):
    t[i, 0] = A[i, 0]
    B[i, 0] = t[i, 0]
""",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_what_may_be_shared_stays(text: str):
    assert_stays(compact_buffer_allocation, outside(text))


def test_sizes_may_be_symbolic():
    made = check(
        """
@T.prim_func
def main(a: T.handle, b: T.handle):
    m = T.int64()
    A = T.match_buffer(a, (m, 8), "int32")
    B = T.match_buffer(b, (m, 8), "int32")
    t = T.alloc_buffer((m, 8), "int32")
    for i in range(m):
        for j in range(8):
            t[i, j] = A[i, j] + 1
        for j in range(8):
            B[i, j] = t[i, 7 - j]
""",
        {"m": 5},
    )
    assert extents(made) == [[1, 8]]


def extents(mod: IRModule) -> list[list[int | None]]:
    """Return the extents of all allocations of the only function; None for what is not a constant."""
    allocations: list[Allocate] = by_class(only(mod).body).get(Allocate, [])
    return [[getattr(extent, "value", None) for extent in s.extents] for s in allocations]


def scheduled() -> PrimFunc:
    """Blur by columns in a tile of the rows that are blurred next."""
    a = te.placeholder((66, 66), name="A")
    b = te.compute((64, 66), lambda i, j: a[i, j] + a[i + 1, j] + a[i + 2, j], name="B")
    c = te.compute((64, 64), lambda i, j: b[i, j] + b[i, j + 1] + b[i, j + 2], name="C")
    work = loomir.Schedule(te.create_prim_func([a, c]))
    block = work.get_sblock("C")
    i, j = work.get_loops(block)
    i_outer, i_inner = work.split(i, [None, 8])
    j_outer, j_inner = work.split(j, [None, 16])
    work.reorder(i_outer, j_outer, i_inner, j_inner)
    work.compute_at(work.get_sblock("B"), j_outer)
    work.parallel(i_outer)
    (made,) = work.mod.functions.values()
    assert isinstance(made, PrimFunc)
    return made


def test_compute_at_leaves_a_tile():
    func = scheduled()
    assert extents(lower(as_module(func))) == [[8, 18]]
    a = np.random.default_rng(0).standard_normal((66, 66)).astype("float32")
    wanted, found = np.zeros((64, 64), "float32"), np.zeros((64, 64), "float32")
    loomir.interpret(func, "main", a, wanted)
    loomir.compile(func)(a, found)
    np.testing.assert_array_equal(found, wanted)
