"""Time kernels as Loomir compiles them by default, beside every installed peer.

Each peer has a process of its own with the same inputs and threads. They take turns in every round;
the others are stopped meanwhile, with all of their threads. Results are compared with float64 in
the same run. Times are the least of all calls; the variation is how much longer the median of the
rounds' least times is. Install peers with ``pip install '.[bench]'``; missing ones are left out.
Run: python -m benchmarks.kernels [--threads 1,2] [--rows PATTERN] [--peers NAMES] [--quick]
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.peers import PEERS, missing
from benchmarks.processes import Process, cpu_name
from benchmarks.results import Outcome, RowTimes, as_json, as_markdown, as_svg, print_rows
from benchmarks.rows import ROWS, Row, inputs_of, reference_of

CONSOLE = Console() if sys.stdout.isatty() else Console(width=140)

FAR = 3.0  # times the best: who is so far behind has one turn only
LONG = 0.5  # seconds: who is so slow has none, the first call counts


def main() -> None:
    """Measure, print and write."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no stopped process is left behind
    rows = [r for r in ROWS if any(fnmatch.fnmatch(r.name, f"*{p}*") for p in options.rows)]
    absent = {p: missing(p) for p in options.peers if missing(p)}
    peers = [p for p in options.peers if p not in absent]
    for name, packages in absent.items():
        CONSOLE.print(f"{name} is left out: {', '.join(packages)} not installed", highlight=False)
    outcomes: list[Outcome] = []
    for threads in options.threads:
        outcomes.append(_measured(rows, peers, threads, options))
        print_rows(CONSOLE, outcomes[-1])
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("kernels.json", as_json(outcomes)),
            ("kernels.md", as_markdown(outcomes)),
            ("kernels.svg", as_svg(outcomes)),
        ):
            (options.out / name).write_text(text, encoding="utf-8")
            CONSOLE.print(f"wrote {options.out / name}", highlight=False)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description="Measure kernels beside peers.", epilog=f"Peers: {', '.join(PEERS)}."
    )
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="as in 1,2")
    parser.add_argument("--rows", type=words, default=["*"], help="patterns, as in 'gemm*,conv'")
    parser.add_argument("--peers", type=words, default=list(PEERS), help="names")
    parser.add_argument("--cpus", type=numbers, help="the CPUs to run on, as in 2,3")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer")
    parser.add_argument("--seconds", type=float, default=0.06, help="of each turn")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--verbose", action="store_true", help="show what peers complain of")
    parser.add_argument("--out", type=Path, help="a folder for JSON, Markdown and SVG")
    made = parser.parse_args()
    if made.quick:
        made.rounds, made.seconds = 2, 0.02
    unknown = [p for p in made.peers if p not in PEERS]
    if unknown:
        parser.error(f"no peer is named {unknown[0]!r}; there are {', '.join(PEERS)}")
    if not any(fnmatch.fnmatch(r.name, f"*{p}*") for r in ROWS for p in made.rows):
        parser.error(f"no row is named so; there are {', '.join(r.name for r in ROWS)}")
    if "loomir" not in made.peers:
        made.peers = ["loomir", *made.peers]
    return made


def _measured(rows: list[Row], peers: list[str], threads: int, options: Any) -> Outcome:
    """Measure all rows with so many threads."""
    usable = options.cpus or sorted(os.sched_getaffinity(0))
    if len(usable) < threads:
        sys.exit(f"{threads} threads need as many CPUs; there are {len(usable)}")
    cpus = usable[-threads:]
    processes = {p: Process(p, threads, cpus, options.verbose) for p in peers}
    complaints: dict[str, str] = {}
    try:
        for name, process in list(processes.items()):
            reply = process.ask("start", name, threads)
            if "error" in reply:
                complaints[name] = reply["error"]
                processes.pop(name).end()
        roof = processes["loomir"].ask("roof")
        found: list[RowTimes] = []
        for row in rows:
            found.append(_row(row, processes, roof, options))
            if len(found) in (1, 4, 16):  # others may use the machine too: keep the best
                later = processes["loomir"].ask("roof")
                roof = {k: max(v, later.get(k, v)) for k, v in roof.items()}
    finally:
        for process in processes.values():
            process.end()
    return Outcome(threads, cpu_name(), os.cpu_count() or 1, roof, found, complaints)


def _row(row: Row, processes: dict[str, Process], roof: dict[str, float], options: Any) -> RowTimes:
    """Let every peer compile a row, compare what they give, and time them in turns."""
    wanted = reference_of(row, inputs_of(row))
    made = RowTimes(row, {}, {}, {}, {})
    with tempfile.TemporaryDirectory() as folder:
        for name, process in processes.items():
            path = Path(folder) / "result.npy"
            reply = process.ask("prepare", row.name, str(path))
            if "error" in reply:
                made.problems[name] = reply["error"]
            elif not reply.get("skipped"):
                made.compile[name] = reply["compile"]
                error = _error(np.load(path), wanted)
                if not error <= row.tolerance:
                    made.problems[name] = f"wrong: differs by {error:.1e} of the greatest value"
                else:
                    made.errors[name] = error
                    made.times[name] = [reply["once"]] if reply["once"] > LONG else []
    for _ in range(options.rounds):
        for name in list(made.times):
            if made.times[name] and name != "loomir" and made.seconds(name) > FAR * _least(made):
                continue  # its time is known well enough
            reply = processes[name].ask("turn", options.seconds)
            if "error" in reply:
                made.problems[name] = reply["error"]
                del made.times[name]
            else:
                made.times[name].append(min(reply["times"]))
    best = min(((min(t), n) for n, t in made.times.items() if n != "loomir"), default=None)
    ours = min(made.times["loomir"], default=math.nan) if "loomir" in made.times else math.nan
    beside = "" if best is None else f", {best[1]} {best[0] * 1e3:.3f} ms"
    CONSOLE.print(f"{row.name}: loomir {ours * 1e3:.3f} ms{beside}", highlight=False)
    for name, problem in made.problems.items():
        CONSOLE.print(f"  {name}: {problem}", highlight=False, markup=False)
    return made


def _least(made: RowTimes) -> float:
    return min(min(times) for times in made.times.values() if times)


def _error(result: Any, wanted: Any) -> float:
    if result.shape != wanted.shape:
        return math.inf
    scale = float(np.abs(wanted).max()) or 1.0
    return float(np.abs(result - wanted).max()) / scale


if __name__ == "__main__":
    main()
