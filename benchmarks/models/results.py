"""Results of models: tables, JSON, Markdown, and a plot."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.models.cases import Case
from benchmarks.results import draw_ratios

__all__ = [
    "ModelTimes",
    "Outcome",
    "RuntimeResult",
    "as_json",
    "as_markdown",
    "as_svg",
    "print_tables",
]

OWN: Final = ("loomir", "loomir pt2")
"""What is Loomir: everything else is a peer."""


@dataclass
class RuntimeResult:
    """What one runtime did with one model: seconds, bytes, and the error beside float64."""

    cold: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds from the start of the process: ``imported``, ``loaded``, ``called``."""
    warm: Mapping[str, float] = field(default_factory=dict[str, float])
    memory: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes in the first process: resident when imported, loaded and called; and the peak."""
    warm_memory: Mapping[str, int] = field(default_factory=dict[str, int])
    error: float = math.nan
    times: list[float] = field(default_factory=list[float])

    @property
    def latency(self) -> float:
        """Return the least seconds of a call."""
        return min(self.times, default=math.nan)

    @property
    def variation(self) -> float:
        """Say how much more the median round took, as a share."""
        return statistics.median(self.times) / min(self.times) - 1 if self.times else math.nan


@dataclass
class ModelTimes:
    """A model on all runtimes that ran it within its bound."""

    case: Case
    by_peer: dict[str, RuntimeResult]
    problems: dict[str, str]

    def best(self, of: Callable[[RuntimeResult], float]) -> str | None:
        """Name the peer of the least value."""
        values = {p: of(m) for p, m in self.by_peer.items() if p not in OWN}
        known = {p: v for p, v in values.items() if not math.isnan(v)}
        return min(known, key=lambda p: known[p], default=None)

    def ratio(self, of: Callable[[RuntimeResult], float]) -> float:
        """Return the best peer's value over Loomir's."""
        best = self.best(of)
        if best is None or "loomir" not in self.by_peer:
            return math.nan
        return of(self.by_peer[best]) / of(self.by_peer["loomir"])


@dataclass
class Outcome:
    """All models with one number of threads, on one machine."""

    threads: int
    cpu: str
    size: str
    load: tuple[float, float]
    """The load of the machine in the minute before, and at the end."""
    found: list[ModelTimes]

    @property
    def title(self) -> str:
        """Say what was measured where."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        before, after = self.load
        return f"{self.cpu}, {threads}, {self.size} models, load {before:.1f} to {after:.1f}"

    def mean(self, of: Callable[[RuntimeResult], float]) -> float:
        """Return the geometric mean of the ratios."""
        logs = [math.log(r) for r in (f.ratio(of) for f in self.found) if not math.isnan(r)]
        return math.exp(sum(logs) / len(logs)) if logs else math.nan


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.0f} MB"


QUANTITIES: Final[
    Mapping[str, tuple[str, Callable[[RuntimeResult], float], Callable[[float], str]]]
] = {
    "latency": ("a call", lambda m: m.latency, _seconds),
    "cold": ("first result, cold", lambda m: m.cold.get("called", math.nan), _seconds),
    "warm": ("first result, warm", lambda m: m.warm.get("called", math.nan), _seconds),
    "peak": ("peak memory", lambda m: m.memory.get("peak", math.nan), _megabytes),
    "warm_peak": ("peak memory, warm", lambda m: m.warm_memory.get("peak", math.nan), _megabytes),
    "base": ("memory after the import", lambda m: m.memory.get("imported", math.nan), _megabytes),
    "error": ("error beside float64", lambda m: m.error, lambda v: f"{v:.1e}"),
}
"""The tables: heading, value, and how it is written."""
COMPARED: Final = ("latency", "cold", "warm", "peak", "warm_peak")


def _rows(outcome: Outcome, name: str) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of a quantity."""
    _, of, show = QUANTITIES[name]
    peers = list(dict.fromkeys(p for f in outcome.found for p in f.by_peer))
    compares = name in COMPARED
    last = ["best peer", "its value / Loomir's"] if compares else ["bound"] * (name == "error")
    rows: list[list[str]] = []
    for found in outcome.found:
        cells = [found.case.name]
        for peer in peers:
            value = of(found.by_peer[peer]) if peer in found.by_peer else math.nan
            cells.append("" if math.isnan(value) else show(value))
        if compares:
            ratio = found.ratio(of)
            cells += [found.best(of) or "", "" if math.isnan(ratio) else f"{ratio:.2f}"]
        elif name == "error":
            cells.append(f"{found.case.bound:.0e}")
        rows.append(cells)
    return ["model", *peers, *last], rows


def print_tables(console: Console, outcome: Outcome) -> None:
    """Print a table for each quantity: ratios above 1 are models where Loomir is ahead."""
    console.print(outcome.title, highlight=False)
    for name, (title, of, _) in QUANTITIES.items():
        headings, rows = _rows(outcome, name)
        table = Table(title=title, title_justify="left")
        for i, heading in enumerate(headings):
            table.add_column(heading, justify="right" if i else "left")
        for row in rows:
            table.add_row(*row)
        if name in COMPARED:
            table.caption = f"geometric mean of the ratios: {outcome.mean(of):.2f}"
        console.print(table)


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """Write the tables, and what did not run below."""
    parts: list[str] = []
    for outcome in outcomes:
        parts += [f"## {outcome.title}", ""]
        for name, (title, of, _) in QUANTITIES.items():
            headings, rows = _rows(outcome, name)
            parts += [f"### {title[0].upper()}{title[1:]}", ""]
            parts += ["| " + " | ".join(headings) + " |"]
            parts += ["| --- |" + " ---: |" * (len(headings) - 1)]
            parts += ["| " + " | ".join(row) + " |" for row in rows]
            if name in COMPARED:
                parts += ["", f"Geometric mean of the ratios: {outcome.mean(of):.2f}."]
            parts.append("")
        problems = [(f.case.name, p, w) for f in outcome.found for p, w in f.problems.items()]
        parts += [f"- {name}, {peer}: {what}" for name, peer, what in problems]
        parts += [""] * bool(problems)
    return "\n".join(parts)


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Write all that is known."""
    return json.dumps([_facts(outcome) for outcome in outcomes], indent=1) + "\n"


def _facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "threads": outcome.threads,
        "cpu": outcome.cpu,
        "size": outcome.size,
        "load": outcome.load,
        "mean": {name: _number(outcome.mean(QUANTITIES[name][1])) for name in COMPARED},
        "models": [
            {
                "name": f.case.name,
                "bound": f.case.bound,
                "ratio": {name: _number(f.ratio(QUANTITIES[name][1])) for name in COMPARED},
                "best": {name: f.best(QUANTITIES[name][1]) for name in COMPARED},
                "runtimes": {
                    p: {
                        "latency": _number(m.latency),
                        "rounds": m.times,
                        "cold": m.cold,
                        "warm": m.warm,
                        "memory": m.memory,
                        "warm_memory": m.warm_memory,
                        "error": _number(m.error),
                    }
                    for p, m in f.by_peer.items()
                },
                "problems": f.problems,
            }
            for f in outcome.found
        ],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def as_svg(outcomes: Sequence[Outcome]) -> str:
    """Draw the ratios of latency, of the time to the first result and of memory."""
    groups: list[tuple[str, list[tuple[str, float, str]]]] = []
    for outcome in outcomes:
        for name in COMPARED:
            title, of, _ = QUANTITIES[name]
            bars = [(f.case.name, f.ratio(of), f.best(of) or "") for f in outcome.found]
            groups.append((f"{title}: {outcome.title}", bars))
    return draw_ratios(groups)
