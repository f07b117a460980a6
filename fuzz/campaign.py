"""Hold engines to the interpreter on many random programs.

    python -m fuzz.campaign --count 2000 --engines native lowered

Programs run in a process of their own: one that kills it, or does not end, is a failure like
any other. Failures are kept under ``--save`` as the seed, what happened, and the program's text.
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fuzz.engines import ENGINES
from fuzz.tirgen import VERSION, program_of_seed

__all__ = ["Worker", "main", "run_campaign"]


class Worker:
    """A process that checks programs, started anew when it dies."""

    def __init__(
        self, engines: list[str], limit: float, command: tuple[str, ...] = ("-m", "fuzz.worker")
    ) -> None:
        self.engines = engines
        self.limit = limit
        self.command = command
        self._process: subprocess.Popen[str] | None = None

    def ask(self, seed: int) -> dict[str, Any]:
        """Check the program of a seed."""
        process = self._process
        if process is None:
            process = self._process = subprocess.Popen(
                [sys.executable, *self.command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=Path(__file__).parents[1],
            )
        assert process.stdin is not None
        assert process.stdout is not None
        line, ready = "", True
        try:
            process.stdin.write(" ".join([str(seed), *self.engines]) + "\n")
            process.stdin.flush()
            ready = bool(select.select([process.stdout], [], [], self.limit)[0])
            line = process.stdout.readline() if ready else ""
        except BrokenPipeError:
            pass
        if line:
            reply: dict[str, Any] = json.loads(line)
            return reply
        self.close()
        died = f"the process ended with status {process.returncode}"
        what = died if ready else f"no answer in {self.limit:g} seconds"
        return {"seed": seed, "found": {"process": what}, "kinds": {}, "seconds": 0}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


def run_campaign(
    seeds: range, engines: list[str], *, limit: float = 60.0, save: Path | None = None
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Check the programs of seeds; gives the failures, and how many programs have each kind."""
    failures: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    worker = Worker(engines, limit)
    try:
        for seed in seeds:
            reply = worker.ask(seed)
            kinds.update(reply["kinds"].keys())
            if reply["found"]:
                failures.append(reply)
                if save is not None:
                    keep(reply, save)
    finally:
        worker.close()
    return failures, kinds


def keep(reply: dict[str, Any], folder: Path) -> Path:
    """Write a failure down: what happened, and the program."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{VERSION}-{reply['seed']}.txt"
    lines = [f"# seed {reply['seed']} of tirgen {VERSION}"]
    lines += [f"# {engine}: {what}" for engine, what in reply["found"].items()]
    if "generator" not in reply["found"]:
        lines.append(program_of_seed(reply["seed"]).module.script())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> int:
    """Run a campaign from the command line; the status is 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="how many programs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--engines", nargs="+", choices=sorted(ENGINES), default=["native"])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one program")
    parser.add_argument("--save", type=Path, default=Path("fuzz/failures"))
    parser.add_argument("--kinds", action="store_true", help="say how often kinds of nodes occur")
    options = parser.parse_args()
    started = time.monotonic()
    seeds = range(options.start, options.start + options.count)
    failures, kinds = run_campaign(seeds, options.engines, limit=options.limit, save=options.save)
    out = sys.stdout.write
    for failure in failures:
        for engine, what in failure["found"].items():
            out(f"seed {failure['seed']} {engine}: {what}\n")
    if options.kinds:
        for kind, count in kinds.most_common():
            out(f"{count / options.count:7.1%} {kind}\n")
    seconds = time.monotonic() - started
    out(
        f"{options.count} programs, {' '.join(options.engines)}: {len(failures)} failures, "
        f"{seconds:.0f} seconds\n"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
