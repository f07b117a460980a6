"""Compile programs of families here, and run them by an emulated CPU of another kind.

    python -m tools.emulate set-up FOLDER aarch64
    python -m fuzz.crosscompiled FOLDER --cpu neoverse-n1 --family contractions --count 1000

Programs are compiled for the CPU as they are for users, with the default schedule at levels 1 to 3,
and saved; a Python on the emulated CPU loads and calls them. So only their own code is slow, and
not the compiler. Results must equal those of the family's own reference, in NumPy or Python; a
process that ends is a failure too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from fuzz.families.campaign import FamilyCampaign
from fuzz.families.table import FAMILIES
from fuzz.processes import add_options, run_campaign
from loomir.target.table import CPUS
from tools.emulate import EmulationError, write_wrapper

__all__ = ["CrossCompiledCampaign", "main"]

_TARGETS: Final = {"Nehalem": "nehalem", "Haswell": "haswell"}
"""Targets whose names are not QEMU's names of the CPU."""


class CrossCompiledCampaign(FamilyCampaign):
    """Checks machine code for another kind of machine."""

    command = ("-m", "fuzz.cross.worker")

    def repeat(self, seed: int) -> str:
        """Return the command that checks the program of a seed again."""
        family, name, *wrapper = self.engines
        where = f"--cpu {name}"
        if wrapper:
            python = Path(*wrapper)
            where = f"{python.parent} --cpu {python.name.removeprefix('python-')} --target {name}"
        return f"python -m fuzz.crosscompiled {where} --family {family} --seed {seed} --count 1"

    def name(self) -> str:
        """Return the family and the target."""
        return "-".join(self.engines[:2])


def main() -> int:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", help="what `python -m tools.emulate set-up` made"
    )
    parser.add_argument(
        "--cpu", required=True, help="QEMU's name of a CPU: neoverse-n1, Haswell; or a target"
    )
    parser.add_argument("--target", choices=[*CPUS], metavar="NAME", help="by default the CPU")
    parser.add_argument("--family", choices=sorted(FAMILIES), required=True)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    add_options(parser)
    options = parser.parse_args()
    target = options.target or _TARGETS.get(options.cpu, options.cpu)
    if target not in CPUS:
        parser.error(f"there is no target {target!r}: name one by --target")
    engines = [options.family, target]
    if options.folder is None:
        return run_campaign(CrossCompiledCampaign, options.seed, engines, options)
    try:
        wrapper = write_wrapper(options.folder.resolve(), options.cpu)
    except EmulationError as error:
        parser.error(str(error))
    started = subprocess.run([wrapper, "-c", ""], capture_output=True, text=True, check=False)
    if started.returncode:
        parser.error(f"Python does not run on this CPU: {started.stderr.strip()}")
    engines.append(str(wrapper))
    return run_campaign(CrossCompiledCampaign, options.seed, engines, options)


if __name__ == "__main__":
    sys.exit(main())
