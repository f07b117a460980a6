"""Measure what it costs to write a kernel differently: time of the plain form by that of others.

Each kernel is written in the form that the rules know best, and in equivalent ones: named values,
other loop kinds, blocks, accumulators in locals or in buffers of one element, other loop orders.
All take turns. Results are compared before they are timed.

Run: python -m benchmarks.odd [--kinds product,softmax] [--rounds 40] [--plans]
"""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
import time
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import loomir
from benchmarks.odd_forms import FORMS
from benchmarks.odd_kernels import KINDS, Kind
from loomir.autoschedule.driver import schedule_function
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.function import PrimFunc

GOAL = 0.95
"""The least ratio that is wanted for every way of writing."""


def read(kind: Kind, body: str) -> PrimFunc:
    """Read a way of writing a kernel."""
    head = f"from loomir.script import tir as T\n@T.prim_func\ndef kernel({kind.arrays}):\n"
    func = from_source(head + textwrap.indent(body.strip("\n"), "    ") + "\n")
    assert isinstance(func, PrimFunc)
    return func


def draw(func: PrimFunc) -> list[NDArray[np.generic]]:
    """Draw arguments."""
    rng = np.random.default_rng(1)
    made: list[NDArray[np.generic]] = []
    for buffer in func.buffer_map.values():
        shape = [int(getattr(extent, "value", 0)) for extent in buffer.shape]
        if buffer.dtype.is_float:
            made.append(rng.standard_normal(shape).astype(str(buffer.dtype)) / 8)
        else:
            made.append(rng.integers(-128, 127, shape).astype(str(buffer.dtype)))
    return made


def compare(name: str, kind: Kind, rounds: int) -> dict[str, tuple[float, float, str]]:
    """Time all ways of a kernel in turns: seconds, ratio and groups of each."""
    calls: dict[str, Callable[[], object]] = {}
    plans: dict[str, str] = {}
    wanted: NDArray[np.float64] | None = None
    *given, out = draw(read(kind, kind.plain))  # where arrays begin is the same for all
    for way, body in {"plain": kind.plain, **kind.ways}.items():
        func = read(kind, body)
        run = loomir.compile(func)
        run(*given, out)
        found = out.astype("float64")
        if wanted is None:
            wanted = found
        step = 1.0 if out.dtype.kind == "i" else 1e-4  # a declared sum may round the other way
        if kind.alike and not np.allclose(found, wanted, rtol=1e-4, atol=step):
            raise SystemExit(f"{name}, {way}: not the same result")
        calls[way] = lambda run=run: run(*given, out)
        made = schedule_function(func, Target("native")).plans
        plans[way] = ", ".join(plan.kind for plan in made) or "as it is written"
    seconds = least(calls, rounds)
    return {way: (s, seconds["plain"] / s, plans[way]) for way, s in seconds.items()}


def least(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least seconds of each call; they take turns, so that all meet the same noise."""
    found = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def main() -> int:
    """Print a table for each kernel, and what falls short of the goal."""
    kinds = {**KINDS, **FORMS}
    options = argparse.ArgumentParser(prog="python -m benchmarks.odd")
    options.add_argument("--kinds", help="kernels, separated by commas", default=",".join(kinds))
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--plans", action="store_true", help="print the groups of each schedule")
    chosen = options.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    count, short = 0, list[str]()
    for name in chosen.kinds.split(","):
        rows = compare(name, kinds[name], chosen.rounds)
        table = Table(title=name, title_justify="left")
        table.add_column("written with")
        table.add_column("ms", justify="right")
        table.add_column("ratio", justify="right")
        if chosen.plans:
            table.add_column("groups")
        for way, (seconds, ratio, plans) in rows.items():
            more = [plans] if chosen.plans else []
            table.add_row(way, f"{seconds * 1e3:.3f}", f"{ratio:.2f}", *more)
            count += way != "plain"
            if ratio < GOAL:
                short.append(f"{name}, {way}: {ratio:.2f}")
        console.print(table)
    console.print(f"{count - len(short)} of {count} ways reach {GOAL} of the plain form")
    for line in short:
        console.print(f"  {line}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
