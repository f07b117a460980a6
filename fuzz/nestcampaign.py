"""Compare default schedules of random plain loops with the interpreter.

    python -m fuzz.nestcampaign --count 2000 --jobs 2

It is ``fuzz.campaign`` for plain loops; ``--kinds`` tells which rules took them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fuzz.nests.generate import VERSION, text_of_seed
from fuzz.processes import Campaign, kept, run_from_command_line
from fuzz.tir.engines import ENGINES

__all__ = ["NestCampaign", "main"]


class NestCampaign(Campaign):
    """Checks plain loops."""

    command = ("-m", "fuzz.nests.worker")

    def keep(self, reply: dict[str, Any], folder: Path) -> Path:
        """Write a failure down: what happened, and the program."""
        lines = [f"# seed {reply['seed']} of nests {VERSION}"]
        for name, what in reply["found"].items():
            lines += [f"# {name}: {line}" for line in str(what).splitlines()]
        if "generator" not in reply["found"]:
            lines.append(text_of_seed(reply["seed"]))
        return kept(reply, folder, f"nests{VERSION}", lines)


def main() -> int:
    """Run a campaign from the command line."""
    return run_from_command_line(NestCampaign, __doc__, sorted(ENGINES))


if __name__ == "__main__":
    sys.exit(main())
