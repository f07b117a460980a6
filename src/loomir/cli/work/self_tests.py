"""Small programs that test an installation, one for each feature that may fail."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import loomir
from loomir.codegen.llvm.support.pool import cap_threads, worker_count
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.script import from_source
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import with_count
from loomir.support.dtype import DataType, numpy_of
from loomir.target import Target

__all__ = ["SELF_TESTS", "TestOutcome"]


class TestOutcome(NamedTuple):
    """The message of a test, and whether it passed."""

    said: str
    is_well: bool


_DOUBLE: Final = """
@T.prim_func
def double(x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")):
    for i in T.parallel(4096):
        y[i] = x[i] + x[i]
"""
_CHAINS: Final = """
@T.prim_func
def chains(x: T.Buffer((64, 16), "float32")):
    for t in T.parallel(64):
        for s in range(20000):
            for i in T.vectorized(16):
                x[t, i] = x[t, i] * T.float32(0.5) + T.float32(1)
"""
_INT8: Final = """
@T.prim_func
def product(
    a: T.Buffer((64, 64), "{left}"),
    b: T.Buffer((64, 64), "{right}"),
    c: T.Buffer((64, 64), "{out}"),
):
    for i, j, k in T.grid(64, 64, 64):
        with T.block("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = T.{out}(0)
            c[vi, vj] = c[vi, vj] + T.{out}(a[vi, vk]) * T.{out}(b[vk, vj])
"""


def _compiles() -> TestOutcome:
    """Compile a loop on threads, run it, and compare the result."""
    x = np.arange(4096, dtype="float32")
    y = np.zeros_like(x)
    start = time.perf_counter()
    loomir.compile(from_source(_DOUBLE), cache=False, schedule=False)(x, y)
    spent = (time.perf_counter() - start) * 1000
    if not np.array_equal(y, x + x):
        return TestOutcome("yes, and the results are wrong", False)
    return TestOutcome(f"yes, in {spent:.0f} ms, and runs", True)


def _threads() -> TestOutcome:
    """Run the same work on one thread and on all."""
    chains = loomir.compile(from_source(_CHAINS), schedule=False)
    x = np.ones((64, 16), "float32")
    with cap_threads(1):
        one = _best(lambda: chains(x))
    many = _best(lambda: chains(x))
    count = worker_count() + 1
    if not np.array_equal(x, np.full_like(x, 2)):
        return TestOutcome("the results are wrong", False)
    ratio = one / many
    return TestOutcome(f"{with_count(count, 'thread')}, {ratio:.1f} times as fast as one", True)


def _best(call: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _cache() -> TestOutcome:
    """Write an entry to the cache and read it."""
    if SETTINGS.cache_dir is None:
        return TestOutcome("off, since LOOMIR_CACHE_DIR is empty", True)
    cache = ObjectCache(SETTINGS.cache_dir)
    key, data = secrets.token_hex(32), secrets.token_bytes(64)
    if not cache.put(key, data):
        return TestOutcome("cannot be written: programs are compiled anew in each process", False)
    found = cache.get(key)
    cache.remove(key)
    if found != data:
        return TestOutcome("does not give back what was written", False)
    return TestOutcome("written and read", True)


def _small(rng: np.random.Generator, dtype: str, *, signed: bool) -> Any:
    """Draw integers whose products and sums are exact in any dtype."""
    drawn = rng.integers(-4 if signed else 0, 5, (64, 64))
    return drawn.astype(numpy_of(DataType(dtype)))


def _amx() -> TestOutcome:
    """Multiply int8 and bfloat16 matrices, with the matrix unit if there is one."""
    extensions = Target("native").extensions
    unit = sorted(e for e in extensions if e.startswith("amx"))
    for left, right, out in (("uint8", "int8", "int32"), ("bfloat16", "bfloat16", "float32")):
        program = from_source(_INT8.format(left=left, right=right, out=out))
        rng = np.random.default_rng(0)
        a, b = (_small(rng, dtype, signed=dtype != "uint8") for dtype in (left, right))
        c = np.zeros((64, 64), out)
        loomir.compile(program)(a, b, c)
        if not np.array_equal(c, a.astype("float64") @ b.astype("float64")):
            return TestOutcome(f"products of {left} are wrong", False)
    how = "with " + ", ".join(unit) if unit else "this processor has none, or the system denies it"
    return TestOutcome(f"{how}; products of int8 and bfloat16 are right", True)


SELF_TESTS: Final[dict[str, Callable[[], TestOutcome]]] = {
    "compiles": _compiles,
    "threads": _threads,
    "cached": _cache,
    "amx": _amx,
}
"""The tests in order, by the word before their message."""
