"""Hold schedules to the programs that they come from, on many random sequences of primitives.

    python -m fuzz.schcampaign --count 2000 --jobs 2

As ``fuzz.campaign`` does for programs: sequences run in processes of their own, and failures are
kept under ``--save`` as the seed, what happened, the trace and the texts.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path
from typing import Any

from fuzz.campaign import Report, Worker
from fuzz.schgen import VERSION, sequence_of_seed

__all__ = ["keep", "main", "run_campaign"]


def run_campaign(
    seeds: range, *, limit: float = 60.0, save: Path | None = None, jobs: int = 1
) -> Report:
    """Check the sequences of seeds."""
    report, lock, left = Report(resume=seeds.start), threading.Lock(), iter(seeds)

    def work() -> None:
        worker = Worker([], limit, command=("-m", "fuzz.schworker"))
        try:
            while True:
                with lock:
                    seed = next(left, None)
                if seed is None:
                    return
                reply = worker.ask(seed)
                with lock:
                    report.add(reply)
                if reply["found"] and save is not None:
                    keep(reply, save)
        finally:
            worker.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report


def keep(reply: dict[str, Any], folder: Path) -> Path:
    """Write a failure down: what happened, the trace, and the program before and after."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"sch{VERSION}-{reply['seed']}.txt"
    lines = [f"# seed {reply['seed']} of schgen {VERSION}"]
    for name, what in reply["found"].items():
        lines += [f"# {name}: {line}" for line in str(what).splitlines()]
    if "process" not in reply["found"] and "generator" not in reply["found"]:
        made = sequence_of_seed(reply["seed"])
        lines += [made.program.func.script(), str(made.sch.trace), made.sch.mod.script()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> int:
    """Run a campaign from the command line; the status is 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="how many sequences")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one sequence")
    parser.add_argument("--save", type=Path, default=Path("fuzz/failures"))
    parser.add_argument("--kinds", action="store_true", help="say how often primitives occur")
    options = parser.parse_args()
    started = time.monotonic()
    seeds = range(options.start, options.start + options.count)
    report = run_campaign(seeds, limit=options.limit, save=options.save, jobs=options.jobs)
    out = sys.stdout.write
    for failure in report.failures:
        for name, what in failure["found"].items():
            out(f"seed {failure['seed']} {name}: {str(what).strip().splitlines()[-1]}\n")
    if options.kinds:
        for kind, count in report.kinds.most_common():
            out(f"{count / max(1, report.count):7.2%} {kind}\n")
    seconds = time.monotonic() - started
    dead = sum("process" in failure["found"] for failure in report.failures)
    out(
        f"{report.count} sequences: {len(report.failures) - dead} mismatches, {dead} crashes or "
        f"hangs, {seconds:.0f} seconds, {report.count / seconds:.1f} sequences per second\n"
    )
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
