"""Memory that kernels give back is found again, and never shared by two at a time."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

from loomir.codegen.llvm.support.ir.scratch import GIVE_SCRATCH, TAKE_SCRATCH
from loomir.codegen.llvm.support.pool import pool_symbols

TAKE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(pool_symbols()[TAKE_SCRATCH])
GIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(pool_symbols()[GIVE_SCRATCH])


def test_what_is_given_back_is_taken_next() -> None:
    size = 5 << 20
    first = TAKE(size)
    second = TAKE(size)
    assert first
    assert second
    assert first % 64 == second % 64 == 0
    assert abs(first - second) >= size
    GIVE(first)
    assert TAKE(size - 640) == first
    GIVE(second)
    assert TAKE(2 * size) != second
    assert TAKE(64) != second  # far too large for that
    assert TAKE(size) == second


def test_memory_that_is_not_there_is_null() -> None:
    assert TAKE(1 << 62) is None


def test_blocks_move_on_and_the_oldest_go() -> None:
    blocks = [TAKE(1 << 16) for _ in range(20)]
    assert len(set(blocks)) == 20
    for block in blocks:
        GIVE(block)
    assert [TAKE(1 << 16) for _ in range(8)] == blocks[:-9:-1]


def test_threads_never_hold_the_same_block() -> None:
    def work(number: int) -> bool:
        for step in range(2000):
            size = 4096 << (step % 5)
            memory = TAKE(size)
            words = (ctypes.c_int64 * 2).from_address(memory + size - 16)
            words[0] = words[1] = number
            if (words[0], words[1]) != (number, number):
                return False
            GIVE(memory)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
