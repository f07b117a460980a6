"""Measure the roof of this machine, by two kernels: bytes and float operations per second."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

from loomir.runtime.report.profile import Roof
from loomir.runtime.storage.object_cache import read_own_file, replace_own_file
from loomir.script import from_source
from loomir.support.config import SETTINGS
from loomir.target import Target

__all__ = ["find_roof", "measure_roof", "renew_roof"]

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
_CHAINS: Final = 10  # enough to hide the latency of an FMA, few enough for 16 registers
_TIMES: Final = 200_000  # turns of the loop of FMAs: a fraction of a millisecond
_BYTES: Final = 1 << 26  # of each array: more than fits the caches
_SECONDS: Final = 0.5  # of measuring: the best run counts

_HOUR: Final = 3600.0
"""Seconds for which a measurement is valid; the machine may have been busy."""
_KEPT: Final = 8
_OLD: Final = 30 * 24 * _HOUR
"""The newest measurements that are kept, and the age at which they are dropped."""


class _MeasuredLimits(NamedTuple):
    when: float
    roof: Roof


_known: dict[str, tuple[_MeasuredLimits, ...]] = {}


def find_roof(compile: Callable[[Any], Any]) -> Roof:
    """Return the best recent measurement; ``compile`` is the compiler.

    Other load on the machine makes results lower, never higher. So the machine is measured again if
    the last measurement is over an hour old, and the best of the last few counts, for up to a
    month.
    """
    target = Target("native")
    key = f"{target.cpu}-{target.cores}"
    now = time.time()
    known = _latest(_known.get(key, ()), now)
    if not _is_fresh(known, now):
        path = None if SETTINGS.cache_dir is None else SETTINGS.cache_dir / f"roof-{key}.json"
        kept = () if path is None else _read(path)
        known = _latest({*kept, *known}, now)
        if not _is_fresh(known, now):
            known = _latest((*known, _MeasuredLimits(now, measure_roof(compile))), now)
            if path is not None:
                _write(path, known)
    _known[key] = known
    return Roof(
        max(one.roof.bandwidth for one in known),
        max(one.roof.flops for one in known),
    )


def renew_roof(compile: Callable[[Any], Any]) -> Roof:
    """Measure the machine now, and forget earlier measurements, also on disk."""
    target = Target("native")
    key = f"{target.cpu}-{target.cores}"
    made = _MeasuredLimits(time.time(), measure_roof(compile))
    _known[key] = (made,)
    if SETTINGS.cache_dir is not None:
        _write(SETTINGS.cache_dir / f"roof-{key}.json", _known[key])
    return made.roof


def measure_roof(compile: Callable[[Any], Any]) -> Roof:
    """Measure the machine now, on the CPUs that the process may use."""
    target = Target("native")
    return Roof(_bandwidth(compile, target), _flops(compile, target))


def _latest(measured: Iterable[_MeasuredLimits], now: float) -> tuple[_MeasuredLimits, ...]:
    """Return the last few, in order, without dates in the future, which a wrong clock set."""
    return tuple(sorted(m for m in measured if now - _OLD <= m.when <= now))[-_KEPT:]


def _is_fresh(known: Sequence[_MeasuredLimits], now: float) -> bool:
    return bool(known) and now - known[-1].when < _HOUR


def _read(path: Path) -> list[_MeasuredLimits]:
    """Return the measurements in a file; none if it cannot be read."""
    try:
        rows = cast("list[dict[str, Any]]", json.loads(read_own_file(path) or b"[]"))
        found = [
            _MeasuredLimits(float(r["when"]), Roof(float(r["bandwidth"]), float(r["flops"])))
            for r in rows
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [m for m in found if all(math.isfinite(n) and n > 0 for n in m.roof)]


def _write(path: Path, known: Sequence[_MeasuredLimits]) -> None:
    """Store measurements. If that fails, the next process measures again."""
    rows = [{"when": m.when, **m.roof._asdict()} for m in known]
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_own_file(path, json.dumps(rows).encode())


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
    """Return the least time of the calls within half a second, at least three."""
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < 4 or time.perf_counter() < end:
        start = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - start)
    return min(times[1:])
