"""Measure the gain of the default schedule over loops as written, and over NumPy.

First drafts of programs are compiled with the default schedule and with ``schedule=False``. Both
and NumPy take turns, on one thread, by processor time. Results are compared first.

Run: python -m benchmarks.as_written [--programs histogram,LU] [--rounds 30] [--plans]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

os.environ.setdefault("LOOMIR_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

import loomir
from benchmarks.programs import images, linear, sequences, sparse, studies
from benchmarks.programs.program import Program, read
from loomir.autoschedule.driver import schedule_function
from loomir.target import Target

PROGRAMS = {
    **sparse.PROGRAMS,
    **images.PROGRAMS,
    **sequences.PROGRAMS,
    **linear.PROGRAMS,
    **studies.PROGRAMS,
}
GOAL = 0.95
"""The least ratio that is wanted to the loops as written."""


class Row(NamedTuple):
    """What was measured of a program: seconds of each, and the groups of its schedule."""

    ours: float
    written: float
    numpy: float | None
    plans: str


def measure(program: Program, rounds: int) -> Row:
    """Compare results, and time all ways in turns."""
    func = read(program)
    given = program.inputs(np.random.default_rng(0))
    out = list(func.buffer_map.values())[-1]
    shape = [int(getattr(extent, "value", 0)) for extent in out.shape]
    wanted = np.asarray(program.reference(*given))
    found = {name: np.zeros(shape, str(out.dtype)) for name in ("ours", "written")}
    ours, written = loomir.compile(func), loomir.compile(func, schedule=False)
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(*given, found["ours"]),
        "written": lambda: written(*given, found["written"]),
    }
    for call in calls.values():
        call()
    for made in found.values():
        step = program.tolerance
        np.testing.assert_allclose(made.astype("float64"), wanted, rtol=1e-3, atol=step)
    if not loops_agree(found["ours"], found["written"], step=program.tolerance):
        raise SystemExit("the schedule changes the result")
    # Where the result begins is the same for both: a line of the cache more or less is a third of
    # the time of short rows.
    out_array = found["ours"]
    calls = {
        "ours": lambda: ours(*given, out_array),
        "written": lambda: written(*given, out_array),
    }
    if program.direct:
        calls["numpy"] = lambda: program.reference(*given)
    seconds = least(calls, rounds)
    plans = schedule_function(func, Target("native")).plans
    kinds = ", ".join(plan.kind for plan in plans) or "as written"
    return Row(seconds["ours"], seconds["written"], seconds.get("numpy"), kinds)


def loops_agree(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], *, step: float) -> bool:
    """Tell whether both results are the same, but for the order of declared sums."""
    return np.array_equal(a, b) or bool(np.allclose(a, b, rtol=1e-4, atol=step))


def least(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least seconds of each call; they take turns, so that all meet the same noise."""
    found = dict.fromkeys(calls, math.inf)
    repeats = dict.fromkeys(calls, 1)
    for name, call in calls.items():
        call()
        start = time.thread_time()
        call()
        taken = max(time.thread_time() - start, 1e-7)
        repeats[name] = max(1, min(200, int(2e-4 / taken)))
    for _ in range(rounds):
        for name, call in calls.items():
            times = repeats[name]
            call()  # the one before, above all NumPy, has left other data in the caches
            start = time.thread_time()
            for _ in range(times):
                call()
            found[name] = min(found[name], (time.thread_time() - start) / times)
    return found


def main() -> int:
    """Print a row for each program, and what falls short of the loops as written."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.as_written")
    options.add_argument("--programs", help="names, separated by commas", default="")
    options.add_argument("--rounds", type=int, default=30)
    options.add_argument("--plans", action="store_true", help="print the groups of each schedule")
    chosen = options.parse_args()
    names = [name for name in chosen.programs.split(",") if name] or list(PROGRAMS)
    console = Console(width=None if sys.stdout.isatty() else 170)
    table = Table()
    for title in ("program", "ms", "as written", "NumPy", *(["groups"] if chosen.plans else [])):
        table.add_column(title, justify="left" if title in ("program", "groups") else "right")
    ratios: dict[str, float] = {}
    for name in names:
        row = measure(PROGRAMS[name], chosen.rounds)
        ratios[name] = row.written / row.ours
        numpy = "" if row.numpy is None else f"{row.numpy / row.ours:.2f}"
        more = [row.plans] if chosen.plans else []
        table.add_row(name, f"{row.ours * 1e3:.3f}", f"{ratios[name]:.2f}", numpy, *more)
    console.print(table)
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    slow = {name: ratio for name, ratio in ratios.items() if ratio < GOAL}
    console.print(f"geometric mean to the loops as written: {mean:.2f}; slower: {len(slow)}")
    for name, ratio in slow.items():
        console.print(f"  {name}: {ratio:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
