"""Compare engines with the interpreter on many random programs.

    python -m fuzz.campaign --count 2000 --jobs 2

Failures are saved under ``--save``: the seed, what happened, and the program's text. A campaign
that was stopped tells where to continue with ``--start``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fuzz.choices import SeedChoices
from fuzz.processes import Campaign, Worker, kept, run_from_command_line
from fuzz.tir.engines import ENGINES
from fuzz.tir.generate import VERSION, program_of_seed
from fuzz.tir.worker import CHECKS, ROTATION

__all__ = ["LoopCampaign", "main"]

TWICE = 0.005
"""The share of programs compiled in a second process, where the object must be the same."""


class LoopCampaign(Campaign):
    """Checks loops; some are compiled in two more processes."""

    command = ("-m", "fuzz.tir.worker")

    def others(self) -> Sequence[Worker]:
        """Start two processes that hash differently."""
        return [Worker(["digest"], self.limit, self.command, hash_seed=n) for n in (1, 2)]

    def look_again(self, reply: dict[str, Any], others: Sequence[Worker]) -> None:
        """Compile some programs twice."""
        seed = reply["seed"]
        if self.engines != [ROTATION] or not SeedChoices(f"twice {seed}").chance(TWICE):
            return
        digests = [one.ask(seed).get("digest") for one in others]
        if digests[0] is None or digests[0] != digests[1]:
            reply["found"]["digest"] = f"two processes made different objects: {digests}"
        with self.lock:
            self.report.twice += 1

    def keep(self, reply: dict[str, Any], folder: Path) -> Path:
        """Write a failure down: what happened, how to make it smaller, and the program."""
        lines = [f"# seed {reply['seed']} of tirgen {VERSION}"]
        lines += [f"# {engine}: {what}" for engine, what in reply["found"].items()]
        lines += [
            f"# python -m fuzz.tir.reduce {reply['seed']} --engine {engine}"
            for engine in reply["found"]
            if engine in ENGINES
        ]
        if "generator" not in reply["found"]:
            lines.append(program_of_seed(reply["seed"]).module.script())
        return kept(reply, folder, f"{VERSION}", lines)


def main() -> int:
    """Run a campaign from the command line."""
    return run_from_command_line(LoopCampaign, __doc__, [*sorted(ENGINES), *sorted(CHECKS)])


if __name__ == "__main__":
    sys.exit(main())
