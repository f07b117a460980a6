"""Time math functions over arrays in cache, beside NumPy and, if installed, PyTorch.

Run: python -m benchmarks.vector_math [function ...]
"""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import loomir
from loomir.script import from_source
from loomir.tir.builtins.table import BUILTINS

SIZE = 8192
# The functions that NumPy calls otherwise; `None` where it has none.
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "pow": "power",
    "exp10": None,
    "erf": None,
    "sigmoid": None,
    "rsqrt": None,
}
TORCH = {"exp10": None, "pow": "pow", "gelu": None}
RANGES = {"acosh": (1.0, 10.0), "atanh": (-0.9, 0.9), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0)}
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "fmod"}
FUNCTIONS = [
    *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid"),
    *("erf", "gelu", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh"),
    *("atanh", "pow", "atan2", "fmod", "hypot"),
]
GELU = "A[i] * T.{dtype}(0.5) * (T.{dtype}(1) + T.erf(A[i] * T.{dtype}(0.7071067811865476)))"
PROGRAM = """
from loomir.script import tir as T

@T.prim_func
def main(
    A: T.Buffer(({size},), "{dtype}"),
    C: T.Buffer(({size},), "{dtype}"),
    B: T.Buffer(({size},), "{dtype}"),
):
    for i in range({size}):
        B[i] = {value}
"""


def arity(name: str) -> int:
    return 1 if name == "gelu" else BUILTINS[name].arity or 1


def compiled(name: str, dtype: str) -> Callable[..., object]:
    """Compile a plain serial loop."""
    value = f"T.{name}({', '.join(['A[i]', 'C[i]'][: arity(name)])})"
    if name == "gelu":
        value = GELU.format(dtype=dtype)
    source = PROGRAM.format(size=SIZE, dtype=dtype, value=value)
    return loomir.compile(from_source(source))["main"]


def others(name: str, a: Any, c: Any, out: Any) -> dict[str, Callable[[], object]]:
    """Return the same work for NumPy and PyTorch, where they have the function."""
    calls: dict[str, Callable[[], object]] = {}
    args = [a, c][: arity(name)]
    theirs = getattr(np, NUMPY.get(name, name) or "", None)
    if theirs is not None:
        calls["NumPy"] = lambda: theirs(*args, out=out)
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        tensors = [torch.from_numpy(x) for x in args]
        result = torch.from_numpy(out)
        if name == "gelu":
            calls["PyTorch"] = lambda: torch.nn.functional.gelu(*tensors)
        else:
            function = getattr(torch, TORCH.get(name, name) or "", None)
            if function is not None:
                calls["PyTorch"] = lambda: function(*tensors, out=result)
    return calls


def best(calls: dict[str, Callable[[], object]], rounds: int = 25, number: int = 8) -> list[float]:
    """Return for each call the least ns per element; in turns, so that all meet one noise."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for found, call in zip(times, calls.values(), strict=True):
            call()
            start = time.perf_counter()
            for _ in range(number):
                call()
            found.append((time.perf_counter() - start) / number / SIZE * 1e9)
    return [min(found) for found in times]


COLUMNS = ("function", "Loomir", "NumPy", "PyTorch", "NumPy / Loomir", "PyTorch / Loomir")


def timed(name: str, dtype: str) -> dict[str, float]:
    """Return ns per element by who does it."""
    rng = np.random.default_rng(0)
    low, high = RANGES.get(name, (0.1, 10.0) if name in POSITIVE else (-10.0, 10.0))
    a, c = (rng.uniform(low, high, SIZE).astype(dtype) for _ in range(2))
    ours, theirs = np.zeros_like(a), np.zeros_like(a)
    run = compiled(name, dtype)
    calls = {"Loomir": lambda: run(a, c, ours), **others(name, a, c, theirs)}
    return dict(zip(calls, best(calls), strict=True))


def main() -> None:
    """Print a table for each dtype."""
    for dtype in ("float32", "float64"):
        table = Table(title=f"ns per element, {dtype}, {SIZE} elements", title_justify="left")
        for column in COLUMNS:
            table.add_column(column, justify="left" if column == "function" else "right")
        ratios: list[float] = []
        for name in sys.argv[1:] or FUNCTIONS:
            found = timed(name, dtype)
            row = [f"{found[n]:.3f}" if n in found else "" for n in COLUMNS[1:4]]
            times = [found.get(n, 0.0) / found["Loomir"] for n in COLUMNS[2:4]]
            ratios += [times[0]] if "NumPy" in found else []
            table.add_row(name, *row, *[f"{t:.2f}" if t else "" for t in times])
        Console().print(table)
        if ratios:
            Console().print(f"median of NumPy / Loomir: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
