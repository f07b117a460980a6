"""The profile of a call: a row for each kernel, a trace, a roofline."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from loomir.runtime.report.roofline import Point, roofline
from loomir.runtime.storage.container import write_file
from loomir.support.argument_errors import explain_methods
from loomir.support.displaying import HtmlDisplay
from loomir.support.fork_safe import import_module

__all__ = ["KernelCall", "KernelTotal", "Profile", "Roof", "Work"]


class Roof(NamedTuple):
    """The machine's limits: bytes and float32 operations per second, on all cores."""

    bandwidth: float
    flops: float

    def seconds(self, work: Work) -> float:
        """Return the least time that a kernel can take."""
        return max(work.bytes / self.bandwidth, work.flops / self.flops)


class Work(NamedTuple):
    """The estimated work of a call: bytes that must move, and operations on floats."""

    bytes: int
    flops: int
    exact: bool


class KernelCall(NamedTuple):
    """One call of a kernel: nanoseconds of the monotonic clock, sizes, and its work.

    ``work`` is None if it is unknown.
    """

    kernel: str
    start: int
    end: int
    sizes: Mapping[str, int]
    work: Work | None


class KernelTotal(NamedTuple):
    """All calls of a kernel. ``roof`` is the fraction of the machine's limit that they reach."""

    kernel: str
    calls: int
    seconds: float
    share: float
    bytes: int | None
    flops: int | None
    roof: float | None


@explain_methods
class Profile(HtmlDisplay):
    """Where the time of one call went; ``print`` shows a table.

    ``seconds`` is the time of the whole call; ``truncated`` tells that there were more calls of
    kernels than were recorded.
    """

    def __init__(
        self,
        name: str,
        calls: tuple[KernelCall, ...],
        start: int,
        end: int,
        roof: Roof,
        truncated: bool = False,
    ) -> None:
        self.name = name
        self.calls = calls
        self.roof = roof
        self.truncated = truncated
        self._start, self._end = start, end

    @property
    def seconds(self) -> float:
        """The time of the whole call."""
        return (self._end - self._start) / 1e9

    @property
    def kernels(self) -> tuple[KernelTotal, ...]:
        """A row for each kernel, the longest first."""
        grouped: dict[str, list[KernelCall]] = {}
        for call in self.calls:
            grouped.setdefault(call.kernel, []).append(call)
        rows = [self._total(name, calls) for name, calls in grouped.items()]
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def _total(self, name: str, calls: list[KernelCall]) -> KernelTotal:
        seconds = sum(call.end - call.start for call in calls) / 1e9
        works = [call.work for call in calls if call.work is not None]
        share = seconds / self.seconds if self.seconds else 0.0
        if len(works) < len(calls):
            return KernelTotal(name, len(calls), seconds, share, None, None, None)
        least = sum(self.roof.seconds(work) for work in works)
        return KernelTotal(
            name,
            len(calls),
            seconds,
            share,
            sum(work.bytes for work in works),
            sum(work.flops for work in works),
            least / seconds if seconds else None,
        )

    # -- as a table ------------------------------------------------------------------------------
    def __rich__(self) -> Any:
        table = import_module("rich.table").Table(
            title=f"{self.name}: {_time(self.seconds)}",
            caption=f"the machine: {self.roof.bandwidth / 1e9:.1f} GB/s, "
            f"{self.roof.flops / 1e9:.1f} GFLOP/s"
            + ("; more calls than could be noted" if self.truncated else ""),
        )
        for heading in ("kernel", "calls", "time", "share", "MB", "MFLOP", "GB/s", "GFLOP/s"):
            table.add_column(heading, justify="left" if heading == "kernel" else "right")
        table.add_column("of the roof", justify="right")
        rest = self.seconds
        for row in self.kernels:
            rest -= row.seconds
            table.add_row(
                row.kernel,
                str(row.calls),
                _time(row.seconds),
                f"{row.share:.1%}",
                _number(row.bytes, 1e6),
                _number(row.flops, 1e6),
                _rate(row.bytes, row.seconds),
                _rate(row.flops, row.seconds),
                "" if row.roof is None else f"{row.roof:.1%}",
            )
        share = rest / self.seconds if self.seconds else 0.0
        table.add_row("(outside of kernels)", "", _time(rest), f"{share:.1%}")
        return table

    def __str__(self) -> str:
        out = io.StringIO()
        console = import_module("rich.console").Console(file=out, width=120)
        console.print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())

    def __repr__(self) -> str:
        return f"<profile of {self.name}: {len(self.calls)} calls, {_time(self.seconds)}>"

    # -- as files --------------------------------------------------------------------------------
    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the calls in Chrome's trace format, which Perfetto opens.

        Errors: RUN0467 if the file cannot be written.
        """
        whole = _event(self.name, "graph", self._start, self._end, self._start, {})
        events = [
            _event(call.kernel, "kernel", call.start, call.end, self._start, _details(call))
            for call in self.calls
        ]
        content = {"traceEvents": [whole, *events], "displayTimeUnit": "ns"}
        write_file(Path(path), (json.dumps(content, indent=1) + "\n").encode())

    def save_roofline(self, path: str | os.PathLike[str]) -> None:
        """Draw the roofline of the machine with each kernel, as SVG. Errors: RUN0467."""
        points = [
            Point(row.kernel, row.flops / row.bytes, row.flops / row.seconds, row.share)
            for row in self.kernels
            if row.bytes and row.flops and row.seconds
        ]
        text = roofline(points, self.roof.bandwidth, self.roof.flops)
        write_file(Path(path), text.encode())


def _event(
    name: str, kind: str, start: int, end: int, zero: int, details: Mapping[str, object]
) -> dict[str, object]:
    return {
        "name": name,
        "cat": kind,
        "ph": "X",
        "ts": (start - zero) / 1e3,
        "dur": (end - start) / 1e3,
        "pid": 1,
        "tid": 1,
        "args": dict(details),
    }


def _details(call: KernelCall) -> dict[str, object]:
    work = {} if call.work is None else {"bytes": call.work.bytes, "flops": call.work.flops}
    return {**call.sizes, **work}


def _time(seconds: float) -> str:
    if abs(seconds) >= 1:
        return f"{seconds:.3f} s"
    return f"{seconds * 1e3:.3f} ms" if abs(seconds) >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _number(count: int | None, unit: float) -> str:
    return "" if count is None else f"{count / unit:,.3f}"


def _rate(count: int | None, seconds: float) -> str:
    rate = math.nan if count is None or not seconds else count / seconds / 1e9
    return "" if math.isnan(rate) else f"{rate:,.2f}"
