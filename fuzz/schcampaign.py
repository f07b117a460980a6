"""Compare schedules with their original programs, on many random sequences of primitives.

    python -m fuzz.schcampaign --count 2000 --jobs 2

It is ``fuzz.campaign`` for schedules. Failures are saved under ``--save``: the seed, what happened,
the program before, the trace, and the program after.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fuzz.processes import Campaign, kept, run_from_command_line
from fuzz.schedule.generate import VERSION, sequence_of_seed

__all__ = ["ScheduleCampaign", "main"]


class ScheduleCampaign(Campaign):
    """Checks schedules."""

    command = ("-m", "fuzz.schedule.worker")
    programs = "sequences"

    def keep(self, reply: dict[str, Any], folder: Path) -> Path:
        """Write a failure down: what happened, the trace, and the program before and after."""
        lines = [f"# seed {reply['seed']} of schgen {VERSION}"]
        for name, what in reply["found"].items():
            lines += [f"# {name}: {line}" for line in str(what).splitlines()]
        if not {"process", "generator"} & reply["found"].keys():
            made = sequence_of_seed(reply["seed"])
            lines += [made.program.func.script(), str(made.sch.trace), made.sch.mod.script()]
        return kept(reply, folder, f"sch{VERSION}", lines)


def main() -> int:
    """Run a campaign from the command line."""
    return run_from_command_line(ScheduleCampaign, __doc__, [])


if __name__ == "__main__":
    sys.exit(main())
