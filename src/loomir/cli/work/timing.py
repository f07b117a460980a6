"""Time calls, in turns with the NumPy version if a file has one."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

from loomir.cli.files.user_traceback import ask

__all__ = ["Timing", "time_call"]

_SECONDS: Final = 2.0
_IN_A_ROW: Final = 5


class Timing(NamedTuple):
    """Median seconds of a call and of the file's baseline, and their work in operations."""

    seconds: float
    numpy: float | None
    flops: float

    def __str__(self) -> str:
        line = self._speed(self.seconds)
        if self.numpy is not None:
            ratio = self.numpy / self.seconds
            line += f"; NumPy: {self._speed(self.numpy)}; {ratio:.2f} times NumPy's speed"
        return line

    def _speed(self, seconds: float) -> str:
        rate = f", {self.flops / seconds / 1e9:.1f} GFLOP/s" if self.flops else ""
        return f"{seconds * 1e3:.3f} ms{rate}"


def time_call(
    file: ModuleType,
    call: Callable[..., object],
    arguments: Sequence[Any],
    sizes: Mapping[str, int | float],
) -> Timing:
    """Measure a call and the file's ``baseline``; ``flops`` may take the sizes.

    Errors: CLI0011.
    """
    baseline: Any = getattr(file, "baseline", None)
    if baseline is not None:
        ask(file, baseline, *arguments)
    ours: list[float] = []
    theirs: list[float] = []
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(ours) < 3:
        ours += _turn(call, arguments)
        if baseline is not None:
            theirs += _turn(baseline, arguments)
    return Timing(
        statistics.median(ours),
        statistics.median(theirs) if theirs else None,
        _flops(file, sizes),
    )


def _flops(file: ModuleType, sizes: Mapping[str, int | float]) -> float:
    flops: Any = getattr(file, "flops", None)
    if flops is None:
        return 0.0
    named = inspect.signature(flops).parameters.values() if callable(flops) else ()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in named)
    names = sizes.keys() if takes_any else {p.name for p in named} & sizes.keys()
    return float(ask(file, flops, **{name: sizes[name] for name in names}))


def _turn(call: Callable[..., object], arguments: Sequence[Any]) -> list[float]:
    """Time a few calls in a row, after threads of earlier calls have gone to sleep."""
    time.sleep(0.1)
    call(*arguments)
    return [_seconds(call, arguments) for _ in range(_IN_A_ROW)]


def _seconds(call: Callable[..., object], arguments: Sequence[Any]) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start
