"""Compare engines with the interpreter on many random graphs.

    python -m fuzz.rxcampaign --count 2000 --jobs 2

Failures are saved under ``--save``: the seed, what happened, and the text.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fuzz.processes import Campaign, kept, run_from_command_line
from fuzz.relax.engines import CHECKS, ENGINES
from fuzz.relax.generate import VERSION, program_of_seed

__all__ = ["GraphCampaign", "main"]


class GraphCampaign(Campaign):
    """Checks graphs."""

    command = ("-m", "fuzz.relax.worker")
    programs = "graphs"

    def keep(self, reply: dict[str, Any], folder: Path) -> Path:
        """Write a failure down: what happened, the arguments, and the program."""
        lines = [f"# seed {reply['seed']} of rxgen {VERSION}"]
        for engine, what in reply["found"].items():
            lines += [f"# {engine}: {line}" for line in str(what).splitlines()]
        if "generator" not in reply["found"]:
            program = program_of_seed(reply["seed"])
            lines += [f"# {a!r}".replace("\n", "\n# ") for a in program.arguments]
            lines.append(program.module.script(constants="inline"))
        return kept(reply, folder, f"rx{VERSION}", lines)


def main() -> int:
    """Run a campaign from the command line."""
    return run_from_command_line(GraphCampaign, __doc__, [*sorted(ENGINES), *sorted(CHECKS)])


if __name__ == "__main__":
    sys.exit(main())
