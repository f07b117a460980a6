"""Measure the cost of an empty parallel region, while the pool is spinning.

Run: python -m benchmarks.fork_join
"""

from __future__ import annotations

import sys

from loomir.codegen.llvm.support.pool import measure_fork_join


def main() -> None:
    """Print median and 99th percentile."""
    result = measure_fork_join()
    sys.stdout.write(
        f"fork and join of {result.threads} threads: {result.median} ns, "
        f"{result.p99} ns at the 99th percentile\n"
    )


if __name__ == "__main__":
    main()
