"""The scheduled matrix product of examples/ beside NumPy, each on one thread.

Run: python -m benchmarks.matmul [SIZE …]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Before NumPy starts its threads; the pool of Loomir follows the CPUs that the process may use.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np  # noqa: E402

import loomir  # noqa: E402
from benchmarks.table import measure, print_table  # noqa: E402
from loomir.cli.files.source import load_file  # noqa: E402

EXAMPLE = Path(__file__).parent.parent / "examples" / "matmul_scheduled.py"


def main(sizes: list[int]) -> None:
    """Print a table for each size."""
    for n in sizes:
        function = loomir.compile(load_file(EXAMPLE, {"N": n}).matmul)["matmul"]
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal((n, n)).astype("float32") for _ in range(2))
        c, d = np.empty_like(a), np.empty_like(a)
        function(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-3)
        seconds = measure(
            {
                "NumPy": lambda a=a, b=b, d=d: np.matmul(a, b, out=d),
                "loomir": lambda a=a, b=b, c=c, f=function: f(a, b, c),
            }
        )
        rate = {name: 2 * n**3 / s / 1e9 for name, s in seconds.items()}
        print_table(f"matmul {n}, float32, one thread", seconds, "NumPy", "ms")
        for name, value in rate.items():
            sys.stdout.write(f"{name}: {value:.1f} GFLOP/s\n")


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [512, 1024])
