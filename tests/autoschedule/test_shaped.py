"""Loops that are vectors already need few of LLVM's passes; all others get all of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.schedule import schedule_module
from loomir.build import as_module
from loomir.codegen.llvm.shaped import is_shaped
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from loomir.transform import lower


def shaped(func: PrimFunc) -> bool:
    (made,) = lower(as_module(func)).functions.values()
    assert isinstance(made, PrimFunc)
    return is_shaped(made)


def name_of(func: PrimFunc) -> str:
    return str(func.attrs["global_symbol"])


@T.prim_func
def vectors(A: T.Buffer((64, 40), "float32"), B: T.Buffer((64, 40), "float32")):
    for i, j in T.grid(64, 5):
        for lane in T.vectorized(8):
            B[i, j * 8 + lane] = A[i, j * 8 + lane] * T.float32(2)


@T.prim_func
def turned(A: T.Buffer((64, 40), "float32"), B: T.Buffer((40, 64), "float32")):
    for i, j in T.grid(64, 40):
        B[j, i] = A[i, j]


@T.prim_func
def chosen(A: T.Buffer((64, 40), "float32"), B: T.Buffer((40, 64), "float32")):
    for i, j in T.grid(64, 40):
        B[j, i] = T.if_then_else(i < 60, A[i, j], T.float32(0))


@T.prim_func
def flipped(A: T.Buffer((64, 40), "int32"), B: T.Buffer((40, 64), "int32")):
    for i, j in T.grid(64, 40):
        B[j, i] = A[i, j] ^ 255


@T.prim_func
def flipped_in_place(A: T.Buffer((64, 40), "int32"), B: T.Buffer((64, 40), "int32")):
    for i, j in T.grid(64, 40):
        B[i, j] = A[i, j] ^ 255


@T.prim_func
def few(A: T.Buffer((64, 8), "float32"), B: T.Buffer((64, 8), "float32")):
    for i, j in T.grid(64, 8):
        B[i, j] = A[i, j] * T.float32(2)


@T.prim_func
def border(A: T.Buffer((64, 40), "float32"), B: T.Buffer((64, 40), "float32")):
    for i in range(64):
        for lane in T.vectorized(32):
            B[i, lane] = A[i, lane] * T.float32(2)
        for j in range(8):
            B[i, j + 32] = A[i, j + 32] * T.float32(2)


@T.prim_func
def rest(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n // 16):
        for lane in T.vectorized(16):
            B[i * 16 + lane] = A[i * 16 + lane] + T.float32(1)
    for i in range(n - n // 16 * 16):
        B[n // 16 * 16 + i] = A[n // 16 * 16 + i] + T.float32(1)


@T.prim_func
def computed(A: T.Buffer((64, 40), "float32"), B: T.Buffer((64, 40), "float32")):
    for i, j in T.grid(64, 40):
        B[i, j] = A[i, j] * T.float32(2)


@T.prim_func
def converted(A: T.Buffer((64, 40), "float16"), B: T.Buffer((40, 64), "float32")):
    for i, j in T.grid(64, 40):
        B[j, i] = T.cast(A[i, j], "float32")


@T.prim_func
def copied(A: T.Buffer((64, 40), "float32"), B: T.Buffer((64, 40), "float32")):
    for i, j in T.grid(64, 40):
        B[i, j] = A[i, j]


@T.prim_func
def summed(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
    for i in range(64):
        B[0] = B[0] + A[i]


@T.prim_func
def halved(A: T.Buffer((1,), "int32")):
    while A[0] > 10:
        A[0] = A[0] // 2


@pytest.mark.parametrize("func", [vectors, turned, chosen, flipped, border, rest], ids=name_of)
def test_nothing_is_left_for_llvm(func: PrimFunc):
    assert shaped(func)


@pytest.mark.parametrize(
    "func", [computed, converted, copied, flipped_in_place, few, summed, halved], ids=name_of
)
def test_loops_of_scalars_are_left_to_llvm(func: PrimFunc):
    assert not shaped(func)


def test_what_is_left_as_it_is_written_becomes_vectors_all_the_same():
    text = loomir.compile(computed, "haswell", schedule=False).assembly()
    assert re.search(r"v(add|mul)ps\s.*%ymm", text)


def kernels() -> dict[str, PrimFunc]:
    x, w = te.placeholder((67, 96), name="x"), te.placeholder((96, 70), name="w")
    image, kernel = te.placeholder((1, 8, 14, 14)), te.placeholder((16, 8, 3, 3))
    return {
        "product": te.create_prim_func([x, w, topi.matmul(x, w)]),
        "softmax": te.create_prim_func([x, topi.softmax(x)]),
        "exp": te.create_prim_func([x, topi.exp(x)]),
        "sum": te.create_prim_func([x, topi.sum(x, 1)]),
        "conv": te.create_prim_func([image, kernel, topi.conv(image, kernel, padding=1)]),
    }


@pytest.mark.parametrize("name", kernels())
def test_the_default_schedule_shapes_loops_and_both_ways_give_the_same_bits(name: str):
    func = kernels()[name]
    machine = loomir.Target()
    (lowered,) = lower(schedule_module(as_module(func), machine)).functions.values()
    assert isinstance(lowered, PrimFunc)
    assert is_shaped(lowered)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([int(s.value) for s in func.buffer_map[p].shape]).astype("float32")  # type: ignore[union-attr]
        for p in func.params
    ]
    results: list[bytes] = []
    for level in (2, 3):
        arrays[-1][...] = 0
        loomir.compile(func, opt_level=level)(*arrays)
        results.append(arrays[-1].tobytes())
    assert results[0] == results[1]
