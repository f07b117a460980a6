"""Measure calls in turns and print them as a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table

__all__ = ["measure", "print_table"]


def measure(
    calls: Mapping[str, Callable[[], object]], *, rounds: int = 15, number: int = 1
) -> dict[str, float]:
    """Return the median seconds of each call; they take turns, so that all meet the same noise."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(number):
                call()
            times[name].append((time.perf_counter() - start) / number)
    return {name: statistics.median(all_) for name, all_ in times.items()}


def print_table(title: str, seconds: Mapping[str, float], beside: str, unit: str = "us") -> None:
    """Print each time and its ratio to that of ``beside``."""
    scale = {"ns": 1e9, "us": 1e6, "ms": 1e3}[unit]
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column(unit, justify="right")
    table.add_column(f"of {beside}", justify="right")
    for name, value in seconds.items():
        table.add_row(name, f"{value * scale:.3f}", f"{value / seconds[beside]:.2f}")
    Console().print(table)
