"""Put processes under stress: signals, forks, small stacks, many callers, little memory.

    python -m fuzz.stress --rounds 20
    python -m fuzz.stress forks memory --size 10 --minutes 30

Each round runs each scenario of ``fuzz/stress/scenarios.py`` in a process of its own, with a seed.
A process that dies, hangs, raises anything but a Loomir error, or computes a wrong result is a
failure; the printed command line runs it again. ``--size`` sets how much one process does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from fuzz.stress.scenarios import SCENARIOS

__all__ = ["failure_of", "main"]

_LIMIT = 600
"""Seconds for one size of a scenario; what takes more hangs."""


def failure_of(name: str, seed: int, size: int) -> str:
    """Run a scenario in a process of its own; says what is wrong, or nothing."""
    command = [sys.executable, "-m", "fuzz.stress.scenarios", name, str(seed), str(size)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT * size, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {_LIMIT * size} seconds"
    if done.returncode == 0:
        return ""
    last = "\n".join((done.stdout + done.stderr).splitlines()[-80:])
    died = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    return f"{died}\n{last}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rounds of scenarios from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.stress",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help=", ".join(sorted(SCENARIOS)))
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="begin no scenario after that")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in SCENARIOS]
    if unknown:
        parser.error(
            f"no scenario is called {unknown[0]}: there are {', '.join(sorted(SCENARIOS))}"
        )
    ends = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    ran = failed = 0
    for seed in range(options.seed, options.seed + options.rounds):
        for name in options.names or sorted(SCENARIOS):
            if ends is not None and time.monotonic() > ends:
                break
            ran += 1
            said = failure_of(name, seed, options.size)
            if said:
                failed += 1
                again = f"python -m fuzz.stress.scenarios {name} {seed} {options.size}"
                sys.stdout.write(f"FAILED {again}\n{said}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{ran} scenarios, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
