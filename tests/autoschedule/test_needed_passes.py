"""Loops that are vectors already need few of LLVM's passes; all others get all of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.codegen.llvm.needs_loop_passes import is_shaped
from loomir.driver import as_module
from loomir.script import tir as T
from loomir.te import topi
from loomir.tir.function import PrimFunc
from loomir.transform import ScheduleOptions, lower, schedule

V4 = loomir.Target("x86-64-v4")


def shaped(func: PrimFunc, target: loomir.Target = V4) -> bool:
    (made,) = lower(as_module(func)).functions.values()
    assert isinstance(made, PrimFunc)
    return is_shaped(made, target)


def name_of(func: PrimFunc) -> str:
    return str(func.attrs["global_symbol"])


@T.prim_func
def vectors(A: T.Buffer((64, 160), "float32"), B: T.Buffer((64, 160), "float32")):
    for i, j in T.grid(64, 5):
        for lane in T.vectorized(32):
            B[i, j * 32 + lane] = A[i, j * 32 + lane] * T.float32(2)


@T.prim_func
def transposed(A: T.Buffer((64, 40), "float32"), B: T.Buffer((40, 64), "float32")):
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
    A = T.match_buffer(a, (n,), "float64")
    B = T.match_buffer(b, (n,), "float64")
    for i in range(n // 16):
        for lane in T.vectorized(16):
            B[i * 16 + lane] = A[i * 16 + lane] + T.float64(1)
    for i in range(n - n // 16 * 16):
        B[n // 16 * 16 + i] = A[n // 16 * 16 + i] + T.float64(1)


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


@T.prim_func
def mirrored(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[63 - i] = A[i]


@T.prim_func
def interleaved(
    A: T.Buffer((64,), "uint8"), B: T.Buffer((64,), "uint8"), C: T.Buffer((64, 2), "uint8")
):
    for i in range(64):
        C[i, 0] = A[i]
        C[i, 1] = B[i]


@T.prim_func
def stored_by_a_test(A: T.Buffer((64, 64), "int8"), B: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        if A[i, j] == T.int8(0):
            B[i, j] = T.float32(1)


@T.prim_func
def every_other_place(A: T.Buffer((64,), "uint8"), C: T.Buffer((64, 2), "uint8")):
    for i in range(64):
        C[i, 0] = A[i]


@T.prim_func
def stored_by_a_distant_test(A: T.Buffer((64, 64), "int8"), B: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        if A[j, i] == T.int8(0):
            B[j, i] = T.float32(1)


@pytest.mark.parametrize(
    "func",
    [
        vectors,
        transposed,
        chosen,
        flipped,
        border,
        rest,
        every_other_place,
        stored_by_a_distant_test,
    ],
    ids=name_of,
)
def test_nothing_is_left_for_llvm(func: PrimFunc):
    assert shaped(func)


@pytest.mark.parametrize(
    "func",
    [
        computed,
        converted,
        copied,
        flipped_in_place,
        few,
        summed,
        halved,
        mirrored,
        interleaved,
        stored_by_a_test,
    ],
    ids=name_of,
)
def test_loops_of_scalars_are_left_to_llvm(func: PrimFunc):
    assert not shaped(func)


@T.prim_func
def kept_in_registers(A: T.Buffer((64, 16), "float32"), B: T.Buffer((32,), "float32")):
    acc = T.alloc_buffer((32,), "float32", scope="local")
    for half in T.unroll(2):
        for lane in T.vectorized(16):
            acc[half * 16 + lane] = T.float32(0)
    for k in range(64):
        for half in T.unroll(2):
            for lane in T.vectorized(16):
                acc[half * 16 + lane] = acc[half * 16 + lane] + A[k, lane]
    for half in T.unroll(2):
        for lane in T.vectorized(16):
            B[half * 16 + lane] = acc[half * 16 + lane]


@T.prim_func
def read_by_a_loop(A: T.Buffer((64, 16), "float32"), B: T.Buffer((32,), "float32")):
    acc = T.alloc_buffer((32,), "float32", scope="local")
    for half in range(2):
        for lane in T.vectorized(16):
            acc[half * 16 + lane] = T.float32(0)
    for k in range(64):
        for half in T.unroll(2):
            for lane in T.vectorized(16):
                acc[half * 16 + lane] = acc[half * 16 + lane] + A[k, lane]
    for half in range(2):
        for lane in T.vectorized(16):
            B[half * 16 + lane] = acc[half * 16 + lane]


@T.prim_func
def in_the_result(A: T.Buffer((9, 64, 16), "float32"), B: T.Buffer((9, 16), "float32")):
    for i in range(9):
        for lane in T.vectorized(16):
            B[i, lane] = T.float32(0)
        for k in range(64):
            for lane in T.vectorized(16):
                B[i, lane] = B[i, lane] + A[i, k, lane]


@T.prim_func
def by_short_loops(A: T.Buffer((64, 16), "float32"), B: T.Buffer((4, 16), "float32")):
    for k, i in T.grid(64, 4):
        for lane in T.vectorized(16):
            B[i, lane] = B[i, lane] + A[k, lane]


@T.prim_func
def by_long_loops(A: T.Buffer((64, 3200), "float32"), B: T.Buffer((3200,), "float32")):
    for k, i in T.grid(64, 100):
        for lane in T.vectorized(32):
            B[i * 32 + lane] = B[i * 32 + lane] + A[k, i * 32 + lane]


@T.prim_func
def more_than_registers_hold(
    A: T.Buffer((64, 40, 32), "float32"), B: T.Buffer((40, 32), "float32")
):
    for k, u in T.grid(64, 5):
        for i in T.unroll(8):
            for lane in T.vectorized(32):
                B[u * 8 + i, lane] = B[u * 8 + i, lane] + A[k, u * 8 + i, lane]


@T.prim_func
def in_short_loops(A: T.Buffer((66, 3, 32), "float32"), B: T.Buffer((64, 32), "float32")):
    for i in range(64):
        for lane in T.vectorized(32):
            B[i, lane] = T.float32(0)
        for k, u in T.grid(3, 3):
            for lane in T.vectorized(32):
                B[i, lane] = B[i, lane] + A[i + k, u, lane]


@T.prim_func
def at_a_name(A: T.Buffer((9, 64, 32), "float32"), B: T.Buffer((9, 64), "float32")):
    for i, k in T.grid(9, 64):
        column = i % 2 * 32
        for lane in T.vectorized(32):
            B[i, column + lane] = B[i, column + lane] + A[i, k, lane]


@T.prim_func
def in_loops_one_after_another(A: T.Buffer((64, 96), "float32"), B: T.Buffer((64, 96), "float32")):
    twice = T.alloc_buffer((96,), "float32", scope="local")
    for i in range(64):
        for j in range(3):
            for lane in T.vectorized(32):
                twice[j * 32 + lane] = A[i, j * 32 + lane] * T.float32(2)
        for j in range(3):
            for lane in T.vectorized(32):
                twice[j * 32 + lane] = twice[j * 32 + lane] + T.float32(1)
        for j in range(3):
            for lane in T.vectorized(32):
                B[i, j * 32 + lane] = twice[j * 32 + lane]


def scheduled() -> PrimFunc:
    """Schedule a product as a user does: tiles of rows and vectors, sums in the result."""
    x, w = te.placeholder((64, 64), name="x"), te.placeholder((64, 64), name="w")
    work = loomir.Schedule(te.create_prim_func([x, w, topi.matmul(x, w)]))
    block = work.get_sblock("matmul")
    i, j, k = work.get_loops(block)
    i_outer, i_inner = work.split(i, [None, 4])
    j_outer, j_inner = work.split(j, [None, 16])
    work.reorder(i_outer, j_outer, k, i_inner, j_inner)
    work.unroll(i_inner)
    work.vectorize(j_inner)
    work.decompose_reduction(block, k)
    (made,) = work.mod.functions.values()
    assert isinstance(made, PrimFunc)
    return made


@pytest.mark.parametrize(
    "func", [kept_in_registers, by_long_loops, more_than_registers_hold], ids=name_of
)
def test_sums_in_registers_or_over_arrays_are_shaped(func: PrimFunc):
    assert shaped(func)


@pytest.mark.parametrize(
    "func",
    [
        read_by_a_loop,
        in_the_result,
        by_short_loops,
        in_short_loops,
        at_a_name,
        in_loops_one_after_another,
    ],
    ids=name_of,
)
def test_sums_that_wait_in_memory_are_left_to_llvm(func: PrimFunc):
    assert not shaped(func)


@T.prim_func
def short_loops_of_scalars(
    A: T.Buffer((64, 9), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((32,), "float32")
):
    for lane in T.vectorized(32):
        C[lane] = T.float32(0)
    for i in range(64):
        for j in range(3):
            B[i] = A[i, j] + A[i, j + 3] * A[i, j + 6]


@T.prim_func
def loaded_again(
    A: T.Buffer((64, 32), "float32"), S: T.Buffer((2,), "float32"), B: T.Buffer((64, 64), "float32")
):
    for i in range(64):
        for u in T.unroll(2):
            for lane in T.vectorized(32):
                B[i, u * 32 + lane] = A[i, lane] * S[u]


@T.prim_func
def added_several_times(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 32), "float32")):
    for i in range(64):
        for lane in T.vectorized(32):
            B[i, lane] = T.float32(0)
        for u in T.unroll(2):
            for lane in T.vectorized(32):
                B[i, lane] = B[i, lane] + A[i, u * 32 + lane]


@T.prim_func
def from_the_step_before(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32")):
    for i in range(63):
        for lane in T.vectorized(32):
            B[i + 1, lane] = B[i, lane] + A[i, lane]


@T.prim_func
def the_same_in_each_step(
    A: T.Buffer((64, 36), "float32"), W: T.Buffer((5,), "float32"), B: T.Buffer((64, 32), "float32")
):
    for i in range(64):
        for lane in T.vectorized(32):
            B[i, lane] = (
                A[i, lane] * W[0]
                + A[i, lane + 1] * W[1]
                + A[i, lane + 2] * W[2]
                + A[i, lane + 3] * W[3]
                + A[i, lane + 4] * W[4]
            )


@T.prim_func
def in_place(A: T.Buffer((64, 32), "float32")):
    for i in range(64):
        for lane in T.vectorized(32):
            A[i, lane] = A[i, lane] * T.float32(2)


@T.prim_func
def stored_and_read(
    A: T.Buffer((64, 32), "float32"),
    B: T.Buffer((64, 32), "float32"),
    C: T.Buffer((64, 32), "float32"),
):
    for i in range(64):
        for lane in T.vectorized(32):
            B[i, lane] = A[i, lane] * T.float32(2)
        for lane in T.vectorized(32):
            C[i, lane] = B[i, lane] + T.float32(1)


@T.prim_func
def small_steps(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
    for i in range(64):
        for lane in T.vectorized(16):
            B[i, lane] = A[i, lane] * T.float32(2)


@T.prim_func
def small_steps_of_functions(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
    for i in range(64):
        for lane in T.vectorized(16):
            B[i, lane] = T.exp(A[i, lane])


@pytest.mark.parametrize(
    "func",
    [
        short_loops_of_scalars,
        loaded_again,
        added_several_times,
        from_the_step_before,
        the_same_in_each_step,
        small_steps,
    ],
    ids=name_of,
)
def test_what_is_loaded_again_or_takes_small_steps_is_left_to_llvm(func: PrimFunc):
    assert not shaped(func)


@pytest.mark.parametrize("func", [in_place, stored_and_read, small_steps_of_functions], ids=name_of)
def test_values_of_one_statement_after_another_are_shaped(func: PrimFunc):
    assert shaped(func)


def test_what_is_a_small_step_depends_on_the_registers():
    assert shaped(small_steps, loomir.Target("haswell"))


def test_a_product_scheduled_by_hand_keeps_its_sums_in_registers():
    func = scheduled()
    assert not shaped(func)
    text = loomir.compile(func, "x86-64-v4").assembly()
    products = [m.start() for m in re.finditer(r"\bvf?m(add|ul)\w*ps\s.*%[xyz]mm", text)]
    steps = text[products[0] : products[-1]]
    assert not re.search(r"mov[au]ps\s+%[xyz]mm\d+, ", steps)


def test_what_is_left_as_it_is_written_becomes_vectors_all_the_same():
    text = loomir.compile(computed, "haswell", schedule=False).assembly()
    assert re.search(r"v(add|mul)ps\s.*%ymm", text)


def kernels() -> dict[str, PrimFunc]:
    x, w = te.placeholder((67, 96), name="x"), te.placeholder((96, 70), name="w")
    image, kernel = te.placeholder((1, 16, 14, 14)), te.placeholder((16, 16, 3, 3))
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
    (lowered,) = lower(schedule(as_module(func), ScheduleOptions(machine))).functions.values()
    assert isinstance(lowered, PrimFunc)
    assert is_shaped(lowered, machine)
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
