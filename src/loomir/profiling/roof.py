"""What this machine can do: bytes and float operations per second, measured by two kernels."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from loomir.runtime.profile import Roof
from loomir.script import from_source
from loomir.support.config import SETTINGS
from loomir.target import Target

__all__ = ["measure_roof", "measured_roof"]

_MULTIPLY: Final = """
from loomir.script import tir as T

@T.prim_func
def multiply(out: T.Buffer(({threads}, {sums}), "float32")):
    for t in T.parallel({threads}):
        with T.sblock("thread"):
            acc = T.alloc_buffer(({sums},), "float32")
            for j in T.vectorized({sums}):
                acc[j] = out[t, j]
            for k in range({times}):
                for i in T.unroll({chains}):
                    for j in T.vectorized({lanes}):
                        acc[i * {lanes} + j] = T.fma(
                            acc[i * {lanes} + j], T.float32(0.999), T.float32(0.001)
                        )
            for j in T.vectorized({sums}):
                out[t, j] = acc[j]
"""
_COPY: Final = """
from loomir.script import tir as T

@T.prim_func
def scale(
    A: T.Buffer(({threads}, {length}), "float32"), B: T.Buffer(({threads}, {length}), "float32")
):
    for t in T.parallel({threads}):
        for i in range({length}):
            B[t, i] = A[t, i] * T.float32(0.5)
"""
_CHAINS: Final = 10  # enough to hide the latency of an fma, few enough for 16 registers
_TIMES: Final = 200_000
_BYTES: Final = 1 << 26  # of each array: more than caches hold
_SECONDS: Final = 0.5

_known: dict[str, Roof] = {}


def measured_roof(compile: Callable[[Any], Any]) -> Roof:
    """Measure the machine, or read what was measured before; ``compile`` is the compiler."""
    target = Target("native")
    key = f"{target.cpu}-{target.cores}"
    if key not in _known:
        folder = SETTINGS.cache_dir
        path = None if folder is None else folder / f"roof-{key}.json"
        found = None if path is None else _read(path)
        if found is None:
            found = measure_roof(compile)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(found._asdict()), encoding="utf-8")
        _known[key] = found
    return _known[key]


def measure_roof(compile: Callable[[Any], Any]) -> Roof:
    """Measure the machine now, on the CPUs that the process may use."""
    target = Target("native")
    return Roof(_bandwidth(compile, target), _flops(compile, target))


def _read(path: Path) -> Roof | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return Roof(float(held["bandwidth"]), float(held["flops"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _flops(compile: Callable[[Any], Any], target: Target) -> float:
    lanes = max(4, target.vector_bits // 32)
    sums = lanes * _CHAINS
    text = _MULTIPLY.format(
        threads=target.cores, lanes=lanes, sums=sums, chains=_CHAINS, times=_TIMES
    )
    out = np.ones((target.cores, sums), np.float32)
    return 2.0 * target.cores * sums * _TIMES / _best(compile(from_source(text)), out)


def _bandwidth(compile: Callable[[Any], Any], target: Target) -> float:
    length = _BYTES // 4 // target.cores // 64 * 64
    text = _COPY.format(threads=target.cores, length=length)
    a = np.ones((target.cores, length), np.float32)
    b = np.ones_like(a)
    return (a.nbytes + b.nbytes) / _best(compile(from_source(text)), a, b)


def _best(function: Callable[..., object], *args: object) -> float:
    """Give the least time of the calls that fit half a second, three at least."""
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < 4 or time.perf_counter() < end:
        start = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - start)
    return min(times[1:])
