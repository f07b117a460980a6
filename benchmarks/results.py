"""Results of kernels: a table, JSON, Markdown, and a plot."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from rich.console import Console
from rich.table import Table

from benchmarks.rows import Row

__all__ = ["Outcome", "RowTimes", "as_json", "as_markdown", "as_svg", "draw_ratios", "print_rows"]


@dataclass
class RowTimes:
    """A row: the least seconds of each round, of each peer that has it and is right."""

    row: Row
    times: dict[str, list[float]]
    errors: dict[str, float]
    compile: dict[str, float]
    problems: dict[str, str]

    def seconds(self, peer: str) -> float:
        """Return the least time."""
        return min(self.times[peer], default=math.nan) if peer in self.times else math.nan

    def variation(self, peer: str) -> float:
        """Say how much more the median round took, as a share."""
        times = self.times.get(peer)
        return statistics.median(times) / min(times) - 1 if times else math.nan

    @property
    def best(self) -> str | None:
        """Name the fastest peer."""
        others = [p for p, t in self.times.items() if p != "loomir" and t]
        return min(others, key=self.seconds, default=None)

    @property
    def ratio(self) -> float:
        """Return the best peer's time over Loomir's."""
        return self.seconds(self.best) / self.seconds("loomir") if self.best else math.nan


@dataclass
class Outcome:
    """All rows with one number of threads, on one machine."""

    threads: int
    cpu: str
    cpus: int
    roof: dict[str, float]
    found: list[RowTimes]
    complaints: dict[str, str]

    def share(self, found: RowTimes, peer: str) -> float:
        """Return share of the roof: the least time that this machine could take, over its own."""
        work = found.row
        flops = self.roof.get(f"{work.dtype} flops", self.roof["flops"])
        least = max(work.flops / flops, work.bytes / self.roof["bandwidth"])
        return least / found.seconds(peer)

    @property
    def mean(self) -> float:
        """Return the geometric mean of the ratios."""
        logs = [math.log(f.ratio) for f in self.found if not math.isnan(f.ratio)]
        return math.exp(sum(logs) / len(logs)) if logs else math.nan

    @property
    def title(self) -> str:
        """Say what was measured where."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        flops, bandwidth = self.roof["flops"] / 1e9, self.roof["bandwidth"] / 1e9
        return f"{self.cpu}, {threads}: {flops:.0f} GFLOP/s of float32, {bandwidth:.1f} GB/s"


HEADINGS = ("kernel", "Loomir", "of roof", "variation", "best peer", "time", "of roof", "variation")


def _cells(outcome: Outcome, found: RowTimes) -> list[str]:
    ours = found.seconds("loomir")
    cells = [found.row.name]
    if math.isnan(ours):
        cells += [found.problems.get("loomir", "none")[:24], "", ""]
    else:
        cells += [_time(ours), f"{outcome.share(found, 'loomir'):.0%}", _more(found, "loomir")]
    best = found.best
    if best is None:
        cells += ["", "", "", ""]
    else:
        share = f"{outcome.share(found, best):.0%}"
        cells += [best, _time(found.seconds(best)), share, _more(found, best)]
    ratio = "" if math.isnan(found.ratio) else f"{found.ratio:.2f}"
    compiled = found.compile.get("loomir")
    return [*cells, ratio, "" if compiled is None else f"{compiled * 1e3:.0f} ms"]


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _more(found: RowTimes, peer: str) -> str:
    return f"+{found.variation(peer):.0%}"


def print_rows(console: Console, outcome: Outcome) -> None:
    """Print the table: ratios above 1 are rows where Loomir is ahead."""
    table = Table(title=outcome.title, title_justify="left")
    for heading in (*HEADINGS, "ratio", "compile"):
        table.add_column(heading, justify="left" if heading in ("kernel", "best peer") else "right")
    for found in outcome.found:
        style = "" if math.isnan(found.ratio) or found.ratio >= 0.9 else "red"
        table.add_row(*_cells(outcome, found), style=style)
    table.caption = f"geometric mean of the ratios: {outcome.mean:.2f}"
    console.print(table)
    for name, text in outcome.complaints.items():
        console.print(f"{name} could not start: {text}", highlight=False, markup=False)


def as_markdown(outcomes: list[Outcome]) -> str:
    """Write the tables, and all times of all peers below."""
    parts: list[str] = []
    for outcome in outcomes:
        parts += [f"## {outcome.title}", ""]
        headings = (*HEADINGS, "ratio", "compile")
        parts += ["| " + " | ".join(headings) + " |", "| --- |" + " ---: |" * (len(headings) - 1)]
        parts += ["| " + " | ".join(_cells(outcome, f)) + " |" for f in outcome.found]
        parts += ["", f"Geometric mean of the ratios: {outcome.mean:.2f}.", "", "All times:", ""]
        peers = list(dict.fromkeys(p for f in outcome.found for p in f.times))
        parts += ["| kernel | " + " | ".join(peers) + " |", "| --- |" + " ---: |" * len(peers)]
        for found in outcome.found:
            cells = [_time(found.seconds(p)) if p in found.times else "" for p in peers]
            parts.append(f"| {found.row.name} | " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts)


def as_json(outcomes: list[Outcome]) -> str:
    """Write all that is known."""
    return json.dumps([_facts(outcome) for outcome in outcomes], indent=1) + "\n"


def _facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "threads": outcome.threads,
        "cpu": outcome.cpu,
        "cpus": outcome.cpus,
        "roof": outcome.roof,
        "mean": _number(outcome.mean),
        "complaints": outcome.complaints,
        "rows": [
            {
                "name": f.row.name,
                "flops": f.row.flops,
                "bytes": f.row.bytes,
                "ratio": _number(f.ratio),
                "best": f.best,
                "seconds": {p: f.seconds(p) for p in f.times},
                "rounds": f.times,
                "errors": f.errors,
                "compile": f.compile,
                "problems": f.problems,
            }
            for f in outcome.found
        ],
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


# -- a plot ------------------------------------------------------------------------------------
_LEFT, _WIDTH, _STEP, _TOP = 230, 520, 18, 46
_LEAST, _MOST = 1 / 16, 16
FONT = 'font-family="sans-serif" font-size="11"'


def as_svg(outcomes: list[Outcome]) -> str:
    """Draw the ratios of all rows."""
    return draw_ratios(
        [(o.title, [(f.row.name, f.ratio, f.best or "") for f in o.found]) for o in outcomes]
    )


def draw_ratios(groups: Sequence[tuple[str, Sequence[tuple[str, float, str]]]]) -> str:
    """Draw ratios as bars from 1, on a scale of powers of two.

    Each group has a title, and for each bar a name, the ratio and the best peer.
    """
    height = _TOP + _STEP * sum(len(bars) + 3 for _, bars in groups)
    width = _LEFT + _WIDTH + 60
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {FONT}>',
        f'<rect width="100%" height="{height}" fill="#ffffff"/>',
        '<text x="10" y="18" font-size="13">Time of the best peer over the time of Loomir</text>',
    ]
    y = _TOP
    for title, bars in groups:
        lines.append(f'<text x="10" y="{y}" font-weight="bold">{escape(title)}</text>')
        y += _STEP
        bottom = y + _STEP * len(bars)
        for power in range(-4, 5):
            x = _place(2.0**power)
            colour = "#606060" if power == 0 else "#dddddd"
            label = f"{2**power}×" if power >= 0 else f"1/{2**-power}×"
            lines.append(f'<path d="M{x:.1f} {y - 8}V{bottom}" stroke="{colour}"/>')
            lines.append(f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">{label}</text>')
        for bar in bars:
            lines += _bar(*bar, y)
            y += _STEP
        y += 2 * _STEP
    return "\n".join([*lines, "</svg>"]) + "\n"


def _place(ratio: float) -> float:
    share = math.log(min(max(ratio, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + share * _WIDTH


def _bar(name: str, ratio: float, best: str, y: int) -> list[str]:
    label = f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
    if math.isnan(ratio):
        return [label]
    one, end = _place(1.0), _place(ratio)
    colour = "#2a7f3f" if ratio >= 1 else "#c08a1e" if ratio >= 0.9 else "#b3332b"
    x, width = min(one, end), max(abs(end - one), 1.0)
    text = f"{ratio:.2f} ({best})"
    side, anchor = (end + 4, "start") if ratio >= 1 else (one + 4, "start")
    return [
        label,
        f'<rect x="{x:.1f}" y="{y - 6}" width="{width:.1f}" height="12" fill="{colour}"/>',
        f'<text x="{side:.1f}" y="{y + 4}" text-anchor="{anchor}">{escape(text)}</text>',
    ]
