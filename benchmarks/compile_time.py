"""How long text takes to become a callable function, by stage, without the cache on disk.

Run: python -m benchmarks.compile_time
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import numpy as np

import loomir
from benchmarks.table import print_table
from loomir.script import from_source

TEXT = """
from loomir.script import tir as T

@T.prim_func
def add(
    A: T.Buffer((1024,), "float32"),
    B: T.Buffer((1024,), "float32"),
    C: T.Buffer((1024,), "float32"),
):
    for i in range(1024):
        C[i] = A[i] + B[i]
"""


def stages() -> dict[str, float]:
    """Take one program from text to its first call."""
    arrays = [np.ones(1024, "float32") for _ in range(3)]
    marks = [time.perf_counter()]
    program = from_source(TEXT)
    marks.append(time.perf_counter())
    exe = loomir.compile(program, cache=False)
    marks.append(time.perf_counter())
    exe(*arrays)
    marks.append(time.perf_counter())
    names = ("parse", "compile", "link and first call")
    made = {name: b - a for name, a, b in zip(names, marks, marks[1:], strict=False)}
    made["all"] = marks[-1] - marks[0]
    return made


def main() -> None:
    """Print the tables."""
    stages()
    runs = [stages() for _ in range(15)]
    seconds = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    print_table("a small kernel from text to its first call", seconds, "all", "ms")
    imports = {}
    for what in ("pass", "import numpy", "import loomir", "import loomir.script.tir"):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", what], check=True)
            times.append(time.perf_counter() - start)
        imports[f"python -c '{what}'"] = statistics.median(times)
    print_table("starting Python", imports, "python -c 'import numpy'", "ms")


if __name__ == "__main__":
    main()
