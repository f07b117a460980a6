"""Measure each stage of compilation, from text to a callable function, by size of the program.

If apache-tvm is installed (the extra ``bench``), it does the same in the same run, in turns, and
ratios are printed: its time divided by Loomir's, so that above 1 Loomir is faster.

Run: python -m benchmarks.compile_time [--most STATEMENTS] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import loomir
from benchmarks.table import print_table
from loomir.ir import structural_equal
from loomir.script import from_source
from loomir.transform.tir.simplify.stmt_simplify import stmt_simplify

STAGES: Final = ("parse", "print", "equal", "verify", "simplify", "compile")
COMPILED: Final = 2_000
"""Statements up to which the peer compiles: its time grows with the square."""


# -- programs ----------------------------------------------------------------------------------
def body(statements: int) -> list[str]:
    """Write so many statements: loops of two levels around a store, and stores."""
    lines: list[str] = []
    for k in range(max(1, statements // 4)):
        lines += [
            "for i, j in T.grid(64, 64):",
            f"    A[i, j] = A[i, j] + T.int32({k})",
            f"B[{k % 64}, {k % 64}] = B[3, {k % 61}] * T.float32({k}.5) + T.exp(B[0, {k % 64}])",
        ]
    return lines


def source(functions: int, statements: int, decorator: str) -> str:
    """Write a module of so many functions, each of so many statements."""
    lines = ["@I.ir_module", "class Module:"]
    for number in range(functions):
        lines += [
            f"    {decorator}",
            f"    def f{number}(A: T.Buffer((64, 64), 'int32'), B: T.Buffer((64, 64), 'float32')):",
            *(f"        {line}" for line in body(statements)),
        ]
    return "\n".join(lines) + "\n"


# -- both sides --------------------------------------------------------------------------------
class Loomir:
    """The stages of this compiler."""

    name = "loomir"
    decorator = "@T.prim_func"

    def parse(self, text: str) -> Any:
        """Read text."""
        return from_source("from loomir.script import ir as I, tir as T\n\n" + text)

    def print(self, mod: Any) -> str:
        """Write text."""
        return mod.script()

    def equal(self, a: Any, b: Any) -> bool:
        """Compare two modules."""
        return structural_equal(a, b)

    def verify(self, mod: Any) -> None:
        """Check a module."""
        assert not loomir.verify(mod)

    def simplify(self, mod: Any) -> None:
        """Simplify every function."""
        for func in mod.functions.values():
            stmt_simplify(func)

    def compile(self, mod: Any) -> None:
        """Compile, and call every function once."""
        exe = loomir.compile(mod, cache=False)
        for name in exe.functions:
            exe[name](np.zeros((64, 64), "int32"), np.zeros((64, 64), "float32"))


class Tvm:
    """The same stages of apache-tvm."""

    name = "apache-tvm"
    decorator = "@T.prim_func(s_tir=True)"

    def __init__(self) -> None:
        self.tvm = importlib.import_module("tvm")
        self.script = importlib.import_module("tvm.script")
        self.tirx = importlib.import_module("tvm.tirx")
        self.compare = importlib.import_module("tvm_ffi").structural_equal

    def parse(self, text: str) -> Any:
        """Read text."""
        return self.script.from_source(text)

    def print(self, mod: Any) -> str:
        """Write text."""
        return mod.script()

    def equal(self, a: Any, b: Any) -> bool:
        """Compare two modules."""
        return self.compare(a, b)

    def verify(self, mod: Any) -> None:
        """Check a module."""
        assert self.tirx.analysis.verify_well_formed(mod)

    def simplify(self, mod: Any) -> None:
        """Simplify every function."""
        self.tirx.transform.StmtSimplify()(mod)

    def compile(self, mod: Any) -> None:
        """Compile, and call every function once."""
        built = self.tvm.compile(mod, target="llvm").jit()
        for var in mod.get_global_vars():
            a, b = np.zeros((64, 64), "int32"), np.zeros((64, 64), "float32")
            built[var.name_hint](*(self.tvm.runtime.tensor(x) for x in (a, b)))


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Run once; give the time and the result."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def stages(side: Any, text: str, compiles: bool) -> dict[str, float]:
    """Take one module through every stage."""
    found: dict[str, float] = {}
    found["parse"], mod = seconds(lambda: side.parse(text))
    other = side.parse(text)
    found["print"], _ = seconds(lambda: side.print(mod))
    found["equal"], same = seconds(lambda: side.equal(mod, other))
    assert same
    found["verify"], _ = seconds(lambda: side.verify(mod))
    found["simplify"], _ = seconds(lambda: side.simplify(mod))
    if compiles:
        found["compile"], _ = seconds(lambda: side.compile(mod))
    return found


def measure(sides: list[Any], functions: int, statements: int) -> dict[str, dict[str, float]]:
    """Take the least time of each stage over rounds in which the sides take turns."""
    total = functions * statements
    # What takes microseconds is measured often; compiling takes long enough to need few rounds.
    rounds, compiled = (40, 5) if total <= 200 else (5, 3) if total <= 2_000 else (1, 1)
    best: dict[str, dict[str, float]] = {side.name: {} for side in sides}
    for turn in range(rounds):
        for side in sides:
            text = source(functions, statements, side.decorator)
            compiles = isinstance(side, Loomir) or statements <= COMPILED
            compiles &= turn < compiled
            for stage, value in stages(side, text, compiles).items():
                best[side.name][stage] = min(value, best[side.name].get(stage, value))
    return best


# -- reports -----------------------------------------------------------------------------------
def report(label: str, best: dict[str, dict[str, float]]) -> None:
    """Print one line per side, and the ratios where there are two."""
    for name, found in best.items():
        cells = "".join(f"{found[s] * 1e3:11.2f}" if s in found else "          –" for s in STAGES)
        print(f"{label:<28}{name:<12}{cells}")
    if len(best) == 2:
        ours, theirs = best.values()
        cells = "".join(
            f"{theirs[s] / ours[s]:11.2f}" if s in theirs else "          –" for s in STAGES
        )
        print(f"{'':<28}{'ratio':<12}{cells}")


def imports(peer: bool) -> dict[str, float]:
    """Time starting Python with an import, without the start itself."""
    whats = ["pass", "import numpy", "import loomir", "from loomir.script import tir"]
    if peer:
        whats += ["import tvm", "from tvm.script import tirx"]
    taken: dict[str, list[float]] = {what: [] for what in whats}
    for _ in range(7):
        for what in whats:
            command = [sys.executable, "-c", what]
            taken[what].append(seconds(lambda c=command: subprocess.run(c, check=True))[0])
    return {f"python -c '{what}'": statistics.median(times) for what, times in taken.items()}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000, help="the largest function")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    has_peer = importlib.util.find_spec("tvm") is not None
    sides: list[Any] = [Loomir(), Tvm()] if has_peer else [Loomir()]
    made: dict[str, Any] = {"imports": imports(has_peer)}
    print_table("starting Python", made["imports"], "python -c 'import numpy'", "ms")
    heads = "".join(f"{s:>11}" for s in STAGES)
    print(f"\n{'milliseconds':<40}{heads}")
    measure(sides, 1, 4)  # warms both up
    for count in (1, 10, 100):
        label = f"{count} functions of 8"
        made[label] = measure(sides, count, 8)
        report(label, made[label])
    size = 1_000
    while size <= options.most:
        label = f"1 function of {size:,}"
        made[label] = measure(sides, 1, size)
        report(label, made[label])
        size *= 10
    if options.json is not None:
        options.json.write_text(json.dumps(made, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
