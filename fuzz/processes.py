"""Campaigns: check many random programs in separate processes.

A program that kills its process, or does not end, is a failure like any other.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TextIO

from fuzz.serving import ROTATION
from loomir.support.diagnostics import with_count

__all__ = [
    "Campaign",
    "Report",
    "Worker",
    "add_options",
    "kept",
    "run_campaign",
    "run_from_command_line",
]

LIFETIME = 2_000
"""Programs until a process is replaced: a leak shall not end a long campaign."""


class Worker:
    """A process that checks programs, started anew when it dies."""

    def __init__(
        self,
        engines: list[str],
        limit: float,
        command: tuple[str, ...],
        hash_seed: int = 0,
    ) -> None:
        self.engines = engines
        self.limit = limit
        self.command = command
        self.hash_seed = hash_seed
        self.patience = 5.0 + limit / 2
        """Seconds after the limit for a process to say itself that it has no answer."""
        self._process: subprocess.Popen[str] | None = None
        self._complaints: Any = None
        self._asked = 0

    def _start(self) -> subprocess.Popen[str]:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._asked = 0
        self._process = subprocess.Popen(
            [sys.executable, *self.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONHASHSEED": str(self.hash_seed)},
        )
        return self._process

    def ask(self, seed: int) -> dict[str, Any]:
        """Check the program of a seed."""
        if self._asked >= LIFETIME:
            self.close()
        process = self._process or self._start()
        self._asked += 1
        assert process.stdin is not None
        assert process.stdout is not None
        line, ready = "", True
        try:
            process.stdin.write(" ".join([str(seed), str(self.limit), *self.engines]) + "\n")
            process.stdin.flush()
            # It ends by itself after the limit, and says where it was; this is for one that cannot.
            ready = bool(select.select([process.stdout], [], [], self.limit + self.patience)[0])
            line = process.stdout.readline() if ready else ""
        except BrokenPipeError:
            pass
        if line:
            reply: dict[str, Any] = json.loads(line)
            return reply
        return {"seed": seed, "found": {"process": self._obituary(process, ready)}}

    def _obituary(self, process: subprocess.Popen[str], ended: bool) -> str:
        if ended:
            process.wait()
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace")
        self.close()
        if "Timeout (" in said:
            where = [part.strip() for part in said.splitlines() if part.startswith("  File")]
            return f"no answer in {self.limit:g} seconds; it was in {'; '.join(where[:4])}"
        if not ended:
            return f"no answer in {self.limit:g} seconds"
        return f"the process ended with status {process.returncode} {said[-500:]}".strip()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._complaints):
                if pipe is not None:
                    pipe.close()
            self._process = None


@dataclass
class Report:
    """What a campaign found."""

    count: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    engines: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    slowest: dict[str, Any] = field(default_factory=dict)
    spent: Counter[str] = field(default_factory=Counter)
    """Seconds by what they went to."""
    twice: int = 0
    """How many programs were compiled in a second process."""
    resume: int = 0
    """The first seed that is not done."""

    def add(self, reply: dict[str, Any]) -> None:
        """Count a program."""
        self.count += 1
        self.kinds.update(reply.get("kinds", ()))
        self.engines.update(reply.get("engines", ()))
        for name, seconds in reply.get("spent", {}).items():
            self.spent[name] += seconds
        if "seconds" in reply:
            self.seconds.append(reply["seconds"])
            if reply["seconds"] > self.slowest.get("seconds", 0):
                self.slowest = reply
        if reply["found"]:
            self.failures.append(reply)

    def times(self) -> str:
        """Say how long programs took, in milliseconds."""
        if len(self.seconds) < 2:
            return ""
        cuts = statistics.quantiles(self.seconds, n=100)
        marks = ", ".join(f"{p} %: {cuts[p - 1] * 1e3:.0f}" for p in (10, 50, 90, 99))
        mean = statistics.fmean(self.seconds) * 1e3
        shares = ", ".join(
            f"{name} {seconds / sum(self.seconds):.0%}"
            for name, seconds in self.spent.most_common()
        )
        most = f"most {max(self.seconds) * 1e3:.0f} (seed {self.slowest['seed']})"
        return f"ms per program: mean {mean:.0f}, {marks}, {most}\nof it {shares}"


class Campaign:
    """What the threads of a campaign share: the seeds left, and the report.

    ``command`` is what Python runs to check programs; ``programs`` is what they are called.
    """

    command: ClassVar[tuple[str, ...]]
    programs: ClassVar[str] = "programs"
    unchecked: ClassVar[tuple[str, ...]] = ()
    """Kinds of programs that were not checked in full; they are counted in any case."""
    first: ClassVar[str] = "--start"
    """The option that says which seed is the first."""

    def __init__(
        self, seeds: range, engines: list[str], limit: float = 60.0, save: Path | None = None
    ) -> None:
        self.seeds = iter(seeds)
        self.engines = engines
        self.limit = limit
        self.save = save
        self.report = Report(resume=seeds.start)
        self.lock = threading.Lock()
        self.stopped = False
        self._done: set[int] = set()

    def keep(self, reply: dict[str, Any], folder: Path) -> Path:
        """Write a failure down."""
        raise NotImplementedError

    def others(self) -> Sequence[Worker]:
        """Start the other processes that a thread needs."""
        return ()

    def look_again(self, reply: dict[str, Any], others: Sequence[Worker]) -> None:
        """Ask more about a program that was checked."""

    def next_seed(self) -> int | None:
        """Return a seed that nobody has, or None where there are no more."""
        with self.lock:
            return None if self.stopped else next(self.seeds, None)

    def work(self) -> None:
        """Check programs until there are no more; runs in a thread for each process."""
        worker, others = Worker(self.engines, self.limit, self.command), self.others()
        try:
            while (seed := self.next_seed()) is not None:
                reply = worker.ask(seed)
                self.look_again(reply, others)
                self._take(reply)
        finally:
            for one in (worker, *others):
                one.close()

    def _take(self, reply: dict[str, Any]) -> None:
        with self.lock:
            self.report.add(reply)
            self._done.add(reply["seed"])
            while self.report.resume in self._done:
                self._done.discard(self.report.resume)
                self.report.resume += 1
        if reply["found"] and self.save is not None:
            self.keep(reply, self.save)

    def run(
        self,
        jobs: int = 1,
        watch: Callable[[Report], None] | None = None,
        seconds: float | None = None,
    ) -> Report:
        """Check all programs, or those that are begun in so many seconds.

        ``watch`` sees the report about every five seconds.
        """
        end = time.monotonic() + (math.inf if seconds is None else seconds)
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(min(5.0, max(0.1, end - time.monotonic())))
                    self.stopped |= time.monotonic() >= end
                    if watch is not None:
                        watch(self.report)
        except KeyboardInterrupt:
            self.stopped = True
            for thread in threads:
                thread.join(self.limit)
        return self.report


def kept(reply: dict[str, Any], folder: Path, name: str, lines: Sequence[str]) -> Path:
    """Write lines about a failure to a file named after its seed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{reply['seed']}.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _progress(total: int, programs: str, out: TextIO) -> Callable[[Report], None]:
    started = time.monotonic()

    def watch(report: Report) -> None:
        pace = report.count / (time.monotonic() - started)
        left = (total - report.count) / pace if pace else 0
        out.write(
            f"\r{report.count} of {total} {programs}, {len(report.failures)} failures, "
            f"{pace:.1f} per second, {left / 60:.0f} minutes left "
        )
        out.flush()

    return watch


def run_from_command_line(kind: type[Campaign], description: str | None, names: list[str]) -> int:
    """Run a campaign as the command line says; the status is 1 where something failed.

    ``names`` are those of the engines and checks that can be asked for.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--engines", nargs="+", choices=[ROTATION, *names], default=[ROTATION])
    add_options(parser)
    options = parser.parse_args()
    return run_campaign(kind, options.start, options.engines, options)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all campaigns have."""
    parser.add_argument("--count", type=int, default=2_000, help="how many programs")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--minutes", type=float, help="begin no program after that")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one program")
    parser.add_argument("--save", type=Path, default=Path("fuzz/failures"))
    parser.add_argument("--kinds", action="store_true", help="say how often kinds of things occur")


def run_campaign(
    kind: type[Campaign], start: int, engines: list[str], options: argparse.Namespace
) -> int:
    """Run a campaign from a seed on; the status is 1 where something failed."""
    started = time.monotonic()
    end = start + options.count
    campaign = kind(range(start, end), engines, options.limit, options.save)
    watch = _progress(options.count, kind.programs, sys.stderr)
    limit = None if options.minutes is None else 60 * options.minutes
    report = campaign.run(options.jobs, watch, limit)
    out = sys.stdout.write
    sys.stderr.write("\n")
    for failure in report.failures:
        for engine, what in failure["found"].items():
            out(f"seed {failure['seed']} {engine}: {what}\n")
    if options.kinds:
        for thing, count in report.kinds.most_common():
            out(f"{count / max(1, report.count):7.2%} {thing}\n")
    turns = ", ".join(f"{name} {count}" for name, count in report.engines.most_common())
    twice = f"; compiled twice: {report.twice}" if report.twice else ""
    out(f"engines: {turns}{twice}\n{report.times()}\n")
    for thing in kind.unchecked:
        out(f"{thing}: {with_count(report.kinds[thing], 'program')}\n")
    seconds = time.monotonic() - started
    dead = sum("process" in failure["found"] for failure in report.failures)
    out(
        f"{report.count} {kind.programs}: {len(report.failures) - dead} mismatches, "
        f"{dead} crashes or hangs, {seconds:.0f} seconds, {report.count / seconds:.1f} per second\n"
    )
    if report.resume < end:
        out(f"stopped: go on with {kind.first} {report.resume} --count {end - report.resume}\n")
        return 1
    return 1 if report.failures else 0
