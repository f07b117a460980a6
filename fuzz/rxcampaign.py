"""Hold engines to the interpreter on many random graphs.

    python -m fuzz.rxcampaign --count 2000 --jobs 2

As ``fuzz.campaign`` does for loops: graphs run in processes of their own, and failures are kept
under ``--save`` as the seed, what happened, and the text.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.campaign import Report, Worker
from fuzz.rxengines import CHECKS, ENGINES
from fuzz.rxgen import VERSION, program_of_seed
from fuzz.rxworker import ROTATION

__all__ = ["keep", "main", "run_campaign"]


def run_campaign(
    seeds: range,
    engines: list[str],
    *,
    limit: float = 60.0,
    save: Path | None = None,
    jobs: int = 1,
    watch: Callable[[Report], None] | None = None,
) -> Report:
    """Check the programs of seeds; ``watch`` sees the report about every five seconds."""
    report, lock, left = Report(resume=seeds.start), threading.Lock(), iter(seeds)
    stopped = threading.Event()

    def work() -> None:
        worker = Worker(engines, limit, command=("-m", "fuzz.rxworker"))
        try:
            while not stopped.is_set():
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
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(5.0)
                if watch is not None:
                    watch(report)
    except KeyboardInterrupt:
        stopped.set()
        for thread in threads:
            thread.join(limit)
    report.resume = seeds.start + report.count
    return report


def keep(reply: dict[str, Any], folder: Path) -> Path:
    """Write a failure down: what happened, and the program."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rx{VERSION}-{reply['seed']}.txt"
    lines = [f"# seed {reply['seed']} of rxgen {VERSION}"]
    for engine, what in reply["found"].items():
        lines += [f"# {engine}: {line}" for line in str(what).splitlines()]
    if "generator" not in reply["found"]:
        program = program_of_seed(reply["seed"])
        lines += [f"# {a!r}".replace("\n", "\n# ") for a in program.arguments]
        lines.append(program.module.script(constants="inline"))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> int:
    """Run a campaign from the command line; the status is 1 where something failed."""
    names = [ROTATION, *sorted(ENGINES), *sorted(CHECKS)]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="how many programs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--engines", nargs="+", choices=names, default=[ROTATION])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one program")
    parser.add_argument("--save", type=Path, default=Path("fuzz/failures"))
    parser.add_argument("--kinds", action="store_true", help="say how often things occur")
    options = parser.parse_args()
    started = time.monotonic()
    out = sys.stdout.write

    def watch(report: Report) -> None:
        pace = report.count / (time.monotonic() - started)
        sys.stderr.write(
            f"\r{report.count} of {options.count} graphs, {len(report.failures)} failures, "
            f"{pace:.1f} per second "
        )
        sys.stderr.flush()

    report = run_campaign(
        range(options.start, options.start + options.count),
        options.engines,
        limit=options.limit,
        save=options.save,
        jobs=options.jobs,
        watch=watch,
    )
    sys.stderr.write("\n")
    for failure in report.failures:
        for engine, what in failure["found"].items():
            out(f"seed {failure['seed']} {engine}: {what}\n")
    if options.kinds:
        for kind, count in report.kinds.most_common():
            out(f"{count / max(1, report.count):7.2%} {kind}\n")
    turns = ", ".join(f"{name} {count}" for name, count in report.engines.most_common())
    out(f"engines: {turns}\n{report.times()}\n")
    seconds = time.monotonic() - started
    dead = sum("process" in failure["found"] for failure in report.failures)
    out(
        f"{report.count} graphs: {len(report.failures) - dead} mismatches, {dead} crashes or "
        f"hangs, {seconds:.0f} seconds, {report.count / seconds:.1f} graphs per second\n"
    )
    return 1 if report.failures or report.count < options.count else 0


if __name__ == "__main__":
    sys.exit(main())
