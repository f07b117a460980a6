"""Compare default schedules for any machine with their original programs, by families.

    python -m fuzz.schedules --family contractions --target sapphirerapids --count 1000 --seed 0
    python -m fuzz.schedules --family contractions --native --count 1000

Each program is scheduled for each target, with small caches and panels in most cases, and the
scheduled loops are interpreted, so that no other machine is needed. With ``--native`` they are
compiled and run here, for those targets whose code this machine can run. Results must equal those
of the family's own reference, in NumPy or Python; interpreted results on other floats, without any
rounding, must equal those of the loops as written. A process that ends is a failure too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from fuzz.default_schedule.worker import TOO_LARGE, TOO_LONG, runs_here
from fuzz.families.campaign import FamilyCampaign
from fuzz.families.table import FAMILIES
from fuzz.processes import Worker, add_options, run_campaign
from fuzz.reach import REACH, Candidate, written
from loomir.target.table import CPUS

__all__ = ["TARGETS", "SchedulesCampaign", "main"]

TARGETS: Final = (
    "x86-64",
    "haswell",
    "alderlake",
    "skylake-avx512",
    "icelake-server",
    "znver4",
    "sapphirerapids",
    "neoverse-n1",
    "apple-m1",
)
"""A target of each kind of machine: each has instructions that others have not."""


class SchedulesCampaign(FamilyCampaign):
    """Checks default schedules."""

    command = ("-m", "fuzz.default_schedule.worker")
    unchecked = (TOO_LONG, TOO_LARGE)
    reached: ClassVar[set[tuple[str, int, int]]] = set()
    """Lines of rules that ran, each with the one that ran next."""
    candidates: ClassVar[set[Candidate]] = set()
    """What rules could decide, and whether they did."""

    def look_again(self, reply: dict[str, Any], others: Sequence[Worker]) -> None:
        """Collect which lines were reached, and which candidates."""
        found = {tuple(arc) for arc in reply.pop("reach", ())}
        offered = {tuple(candidate) for candidate in reply.pop("candidates", ())}
        with self.lock:
            self.reached.update(found)
            self.candidates.update(offered)

    def repeat(self, seed: int) -> str:
        """Return the command that checks the program of a seed again."""
        family, way, *names = self.engines
        how = "" if way == "interpreted" else f" --{way}"
        options = f"--family {family}{how} --target {' '.join(names)} --seed {seed} --count 1"
        return f"python -m fuzz.schedules {options}"


def main() -> int:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", choices=sorted(FAMILIES), required=True)
    parser.add_argument("--target", nargs="+", choices=["native", *CPUS], metavar="NAME")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--native", action="store_true", help="run compiled code on this machine")
    how.add_argument("--unrun", action="store_true", help="schedule programs, and run none")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--reach", type=Path, help="a file that says what of the rules ran")
    add_options(parser)
    options = parser.parse_args()
    if options.native:
        names = options.target or ["native", *filter(runs_here, TARGETS)]
        strange = [name for name in names if not runs_here(name)]
        if strange:
            parser.error(f"code for {', '.join(strange)} does not run on this machine")
    else:
        names = options.target or list(TARGETS)
    options.limit *= len(names)
    way = "native" if options.native else "unrun" if options.unrun else "interpreted"
    if options.reach is not None:
        os.environ[REACH] = "1"
    status = run_campaign(SchedulesCampaign, options.seed, [options.family, way, *names], options)
    if options.reach is not None:
        ran = SchedulesCampaign
        total = written(options.reach, ran.reached, candidates=ran.candidates)
        sys.stdout.write(f"reached, with earlier runs: {total}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
