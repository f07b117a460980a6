"""Time models as Loomir runs them by default, beside every installed runtime.

Each runtime reads a model from a file in its own format, in a process of its own: once with an
empty cache (*cold*), then again with the cache of the first process (*warm*). The second process
then runs the model in turns with the others, which are stopped meanwhile. The time to the first
result counts from the start of the process; memory is the peak that the kernel reports. Results are
compared with PyTorch in float64, within the bound of each model. Missing runtimes are left out.
``loomir`` reads ONNX, ``loomir pt2`` a file of ``torch.export``. Exporting needs the package torch.
Run: python -m benchmarks.models [--size small|full] [--threads 1 2] [--models NAMES] [--out DIR]
"""

from __future__ import annotations

import argparse
import compileall
import fnmatch
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import loomir
from benchmarks.models.cases import CASES, Case
from benchmarks.models.peers import PEERS, missing
from benchmarks.models.results import (
    OWN,
    ModelTimes,
    Outcome,
    RuntimeResult,
    as_json,
    as_markdown,
    as_svg,
    print_tables,
)
from benchmarks.processes import Process, cpu_name

CONSOLE = Console() if sys.stdout.isatty() else Console(width=180)

FAR = 3.0  # times the best: who is so far behind has one turn only


def main() -> None:
    """Measure, print and write."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no stopped process is left behind
    cases = [c for c in CASES if any(fnmatch.fnmatch(c.name, p) for p in options.models)]
    absent = {p: missing(p) for p in options.peers if missing(p)}
    peers = [p for p in options.peers if p not in absent]
    for name, packages in absent.items():
        _say(f"{name} is left out: {', '.join(packages)} not installed")
    # Peers were compiled to bytecode when they were installed; a source tree may not be.
    compileall.compile_dir(str(Path(loomir.__file__).parent), quiet=2)
    outcomes = [Outcome(t, cpu_name(), options.size, (0.0, 0.0), []) for t in options.threads]
    before = os.getloadavg()[0]
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            files = _files(case, peers, options, Path(folder))
            for outcome in outcomes:
                outcome.found.append(_measure(case, files, peers, outcome.threads, options))
    for outcome in outcomes:
        outcome.load = (before, os.getloadavg()[0])
        print_tables(CONSOLE, outcome)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("models.json", as_json(outcomes)),
            ("models.md", as_markdown(outcomes)),
            ("models.svg", as_svg(outcomes)),
        ):
            (options.out / name).write_text(text, encoding="utf-8")
            _say(f"wrote {options.out / name}")


def _say(text: str) -> None:
    CONSOLE.print(text, highlight=False, markup=False)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models",
        description="Measure models beside other runtimes.",
        epilog=f"Models: {', '.join(c.name for c in CASES)}. Peers: {', '.join(PEERS)}.",
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="as in 1 2")
    parser.add_argument("--models", nargs="+", default=["*"], help="patterns, as in 'bert*' vit")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), help="names")
    parser.add_argument("--size", choices=["small", "full"], default="full")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn")
    parser.add_argument("--files", type=Path, help="a folder to keep exported models in")
    parser.add_argument("--verbose", action="store_true", help="show what peers complain of")
    parser.add_argument("--out", type=Path, help="a folder for JSON, Markdown and SVG")
    made = parser.parse_args()
    unknown = [p for p in made.peers if p not in PEERS]
    if unknown:
        parser.error(f"no peer is named {unknown[0]!r}; there are {', '.join(PEERS)}")
    for pattern in made.models:
        if not any(fnmatch.fnmatch(c.name, pattern) for c in CASES):
            names = ", ".join(c.name for c in CASES)
            parser.error(f"no model is named {pattern!r}; there are {names}")
    usable = len(os.sched_getaffinity(0))
    if max(made.threads) > usable or min(made.threads) < 1:
        parser.error(f"--threads: from 1 to {usable}, as many as there are CPUs to use")
    if "loomir" not in made.peers:
        made.peers = ["loomir", *made.peers]
    return made


def _files(case: Case, peers: Collection[str], options: Any, folder: Path) -> Path:
    """Write the files of a case, or find those that an earlier run kept."""
    formats = sorted({PEERS[p].format for p in peers})
    if options.files is not None:
        folder = options.files / f"{case.name}-{options.size}"
        if set(formats) <= set(_formats(folder)):
            return folder
        folder.mkdir(parents=True, exist_ok=True)
    _say(f"{case.name}: exporting")
    command = [sys.executable, "-m", "benchmarks.models.files", case.name, options.size]
    stream = None if options.verbose else subprocess.DEVNULL
    subprocess.run([*command, str(folder), *formats], check=True, stdout=stream, stderr=stream)
    return folder


def _formats(folder: Path) -> dict[str, str]:
    try:
        return json.loads((folder / "formats.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def _measure(case: Case, files: Path, peers: list[str], threads: int, options: Any) -> ModelTimes:
    """Let every peer run a model cold and warm, compare results, and time calls in turns."""
    formats = _formats(files)
    made = ModelTimes(case, {}, {})
    running: dict[str, Process] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for peer in peers:
                problem = formats[PEERS[peer].format]
                if problem:
                    made.problems[peer] = f"not exported: {problem}"
                    continue
                work = Path(folder) / peer.replace(" ", "_")
                (work / "cache").mkdir(parents=True)
                found, process = _first_results(case, peer, files, work, threads, options, made)
                if process is not None:
                    made.by_peer[peer], running[peer] = found, process
            _take_turns(made, running, options)
        finally:
            for process in running.values():
                process.end()
    _report(made, threads)
    return made


def _first_results(
    case: Case, peer: str, files: Path, work: Path, threads: int, options: Any, made: ModelTimes
) -> tuple[RuntimeResult, Process | None]:
    """Start a peer twice; the second process goes on where the result is right."""
    found = RuntimeResult()
    for attempt in ("cold", "warm"):
        process, reply = _start(peer, files, work, threads, options)
        if "error" in reply:
            made.problems[peer] = reply["error"]
        else:
            stages = {s: reply[s] - process.began for s in ("imported", "loaded", "called")}
            if attempt == "cold":
                found.cold, found.memory = stages, reply["memory"]
            else:
                found.warm, found.warm_memory = stages, reply["memory"]
            found.error = _error(work / "result.npz", files / "wanted.npz")
            if not found.error <= case.bound:
                made.problems[peer] = f"wrong: differs by {found.error:.1e}, not {case.bound:.0e}"
        if peer in made.problems:
            process.end()
            return found, None
        if attempt == "warm":
            return found, process
        process.end()
    return found, None


def _start(
    peer: str, files: Path, work: Path, threads: int, options: Any
) -> tuple[Process, dict[str, Any]]:
    cpus = sorted(os.sched_getaffinity(0))[-threads:]
    process = Process(peer, threads, cpus, options.verbose, "benchmarks.models.peers.worker")
    places = [str(files), str(work / "cache"), str(work / "result.npz")]
    return process, process.ask("start", peer, threads, *places)


def _take_turns(made: ModelTimes, running: dict[str, Process], options: Any) -> None:
    for _ in range(options.rounds):
        for peer, process in list(running.items()):
            times = made.by_peer[peer].times
            least = min((m.latency for m in made.by_peer.values() if m.times), default=math.inf)
            if times and peer not in OWN and made.by_peer[peer].latency > FAR * least:
                continue  # its time is known well enough
            reply = process.ask("turn", options.seconds)
            if "error" in reply:
                made.problems[peer] = reply["error"]
                running.pop(peer).end()
            else:
                times.append(min(reply["times"]))


def _error(results: Path, wanted: Path) -> float:
    """Return the largest difference as a share of the largest element of its output."""
    worst = 0.0
    with np.load(results) as ours, np.load(wanted) as theirs:
        if set(ours.files) != set(theirs.files):
            return math.inf
        for name in theirs.files:
            got, want = ours[name].astype("float64"), theirs[name].astype("float64")
            if got.shape != want.shape or not np.isfinite(got).all():
                return math.inf
            scale = float(np.abs(want).max(initial=0.0)) or 1.0
            worst = max(worst, float(np.abs(got - want).max(initial=0.0)) / scale)
    return worst


def _report(made: ModelTimes, threads: int) -> None:
    for peer, found in made.by_peer.items():
        _say(
            f"{made.case.name}, {threads} thread(s), {peer}: {found.latency * 1e3:.3g} ms, first "
            f"result {found.cold['called']:.2f} s cold, {found.warm['called']:.2f} s warm, "
            f"peak {found.memory['peak'] / 1e6:.0f} MB, error {found.error:.1e}"
        )
    for peer, problem in made.problems.items():
        _say(f"{made.case.name}, {threads} thread(s), {peer}: {problem}")


if __name__ == "__main__":
    main()
