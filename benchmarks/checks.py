"""Measure the cost of bounds checks: time with ``check_bounds=True`` divided by time without.

The kernels are those of ``benchmarks.kernels``, without constant inputs, and kernels whose indices
cannot be proved: sizes that arrays do not share, and indices from arrays. Both versions take turns;
their results are compared first. Kernels with identical machine code are not timed.

Run: python -m benchmarks.checks [--rows PATTERN] [--rounds 20]
"""

# ruff: noqa: F821 - names of programs

from __future__ import annotations

import argparse
import fnmatch
import math
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Table

import loomir
from benchmarks.odd import least
from benchmarks.peers.loomir_default import PROGRAMS
from benchmarks.rows import ROWS, Row, inputs_of
from loomir import te
from loomir.script import tir as T
from loomir.tir.function import PrimFunc

N: Final = 1 << 20


class Case(NamedTuple):
    """A kernel, its inputs, and its output."""

    name: str
    program: PrimFunc
    inputs: list[Any]
    out: Any


@T.prim_func
def scaled(x: T.Buffer(("n",), "float32"), y: T.Buffer(("m",), "float32")):
    for i in range(n):
        y[i] = x[i] * T.float32(2)


@T.prim_func
def product(
    a: T.Buffer(("n", "k"), "float32"),
    b: T.Buffer(("k_", "m"), "float32"),
    c: T.Buffer(("n_", "m_"), "float32"),
):
    for i, j in T.grid(n, m):
        c[i, j] = T.float32(0)
        for r in range(k):
            c[i, j] += a[i, r] * b[r, j]


@T.prim_func
def blurred(x: T.Buffer(("n", "m"), "float32"), y: T.Buffer(("n_", "m_"), "float32")):
    for i, j in T.grid(n - 2, m - 2):
        y[i, j] = (x[i, j] + x[i + 1, j + 1] + x[i + 2, j + 2]) * T.float32(0.333)


@T.prim_func
def gathered(
    x: T.Buffer(("n",), "float32"), at: T.Buffer(("m",), "int64"), y: T.Buffer(("m",), "float32")
):
    for i in range(m):
        y[i] = x[at[i]]


@T.prim_func
def embedded(
    x: T.Buffer(("n", 256), "float32"),
    at: T.Buffer(("m",), "int64"),
    y: T.Buffer(("m", 256), "float32"),
):
    for i, j in T.grid(m, 256):
        y[i, j] = x[at[i], j]


@T.prim_func
def scattered(
    x: T.Buffer(("m",), "float32"), at: T.Buffer(("m",), "int64"), y: T.Buffer(("n",), "float32")
):
    for i in range(m):
        y[at[i]] = x[i]


@T.prim_func
def multiplied(
    starts: T.Buffer(("rows1",), "int64"),
    columns: T.Buffer(("count",), "int64"),
    values: T.Buffer(("count",), "float32"),
    x: T.Buffer(("n",), "float32"),
    y: T.Buffer(("rows",), "float32"),
):
    for i in range(rows):
        y[i] = T.float32(0)
        for k in range(starts[i], starts[i + 1]):
            y[i] += values[k] * x[columns[k]]


def unproved_cases() -> list[Case]:
    """List the kernels whose indices nothing proves."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(N, "float32")
    at = rng.integers(0, N, N)
    square = rng.standard_normal((512, 512), "float32")
    image = rng.standard_normal((1024, 1024), "float32")
    table = rng.standard_normal((50000, 256), "float32")
    words = rng.integers(0, 50000, 512)
    starts = np.arange(0, N + 1, 16)
    rows = len(starts) - 1
    return [
        Case("copy, two sizes", scaled, [x], np.empty(N, "float32")),
        Case("product, six sizes", product, [square, square], np.empty((512, 512), "float32")),
        Case("stencil, four sizes", blurred, [image], np.empty((1022, 1022), "float32")),
        Case("gather 1M", gathered, [x, at], np.empty(N, "float32")),
        Case("embedding 512×256", embedded, [table, words], np.empty((512, 256), "float32")),
        Case("scatter 1M", scattered, [x, rng.permutation(N)], np.empty(N, "float32")),
        Case("CSR, 16 a row", multiplied, [starts, at, x, x], np.empty(rows, "float32")),
    ]


def case_of(row: Row) -> Case:
    """Make the kernel of a row of ``benchmarks.kernels``."""
    given = [te.placeholder(s, row.dtype, name=f"x{i}") for i, s in enumerate(row.shapes)]
    program = te.create_prim_func([*given, PROGRAMS[row.kind](row, *given)])
    dtype = ml_dtypes.bfloat16 if row.out_dtype == "bfloat16" else row.out_dtype
    return Case(row.name, program, inputs_of(row), np.empty(row.out, dtype))


def measure(case: Case, rounds: int) -> dict[str, float] | None:
    """Time a kernel without and with checks, in turns; None where the code is the same.

    Errors: SystemExit where results differ.
    """
    calls: dict[str, Callable[[], object]] = {}
    found: list[Any] = []
    compiled = {
        "plain": loomir.compile(case.program),
        "checked": loomir.compile(case.program, check_bounds=True),
    }
    if len({run.assembly() for run in compiled.values()}) == 1:
        return None
    for way, run in compiled.items():
        run(*case.inputs, case.out)
        found.append(np.array(case.out, "float64"))
        calls[way] = lambda run=run: run(*case.inputs, case.out)
    if not np.allclose(*found, rtol=1e-4, atol=1e-4):
        raise SystemExit(f"{case.name}: not the same result")
    return least(calls, rounds)


def main() -> int:
    """Print a row for each kernel, and the geometric mean of the ratios."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.checks")
    options.add_argument("--rows", help="patterns, separated by commas", default="*")
    options.add_argument("--rounds", type=int, default=20)
    chosen = options.parse_args()
    patterns = chosen.rows.split(",")
    makers: dict[str, Callable[[], Case]] = {r.name: lambda r=r: case_of(r) for r in ROWS}
    makers |= {case.name: lambda case=case: case for case in unproved_cases()}
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table(title="bounds checks", title_justify="left")
    for column in ("kernel", "ms without", "ms with", "ratio"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    ratios: list[float] = []
    same = 0
    for name, make in makers.items():
        if not any(fnmatch.fnmatch(name, f"*{p}*") for p in patterns):
            continue
        found = measure(make(), chosen.rounds)
        if found is None:
            table.add_row(name, "", "", "same code")
            same += 1
            continue
        ratios.append(found["checked"] / found["plain"])
        times = [f"{found[way] * 1e3:.3f}" for way in ("plain", "checked")]
        table.add_row(name, *times, f"{ratios[-1]:.2f}")
    console.print(table)
    console.print(f"{same} kernels have the same code with checks and without")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        console.print(f"geometric mean of the other {len(ratios)} ratios: {mean:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
