"""Run compiled programs of families for other machines, on an emulated CPU.

    python -m fuzz.emulator --family idioms --target sapphirerapids --count 1000 --seed 0

Programs are compiled for the target as they are for users, with the default schedule at levels 1 to
3, loaded into this process, and run by Bochs' CPU (``pip install 'loomir[emulator]'``), which has
AVX-512, VNNI, BF16 and AVX-VNNI; ``fuzz/bochs/tiles.py`` is the matrix unit (AMX). Results must
equal those of the family's own reference, in NumPy or Python. Everything runs on one thread, at
some 30 million instructions per second.
"""

from __future__ import annotations

import argparse
import os
import sys

from fuzz.bochs.library import MODELS, NotInstalledError, found
from fuzz.emulatorworker import LEVEL
from fuzz.families.campaign import FamilyCampaign
from fuzz.families.table import FAMILIES
from fuzz.processes import add_options, run_campaign

__all__ = ["EmulatorCampaign", "main"]


class EmulatorCampaign(FamilyCampaign):
    """Checks machine code for other machines."""

    command = ("-m", "fuzz.emulatorworker")

    def repeat(self, seed: int) -> str:
        """Return the command that checks the program of a seed again."""
        family, name = self.engines
        return f"python -m fuzz.emulator --family {family} --target {name} --seed {seed} --count 1"

    def name(self) -> str:
        """Return the family and the target."""
        return "-".join(self.engines)


def main() -> int:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", choices=sorted(FAMILIES), required=True)
    parser.add_argument("--target", choices=[*MODELS], metavar="NAME", required=True)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--level", type=int, choices=(1, 2, 3), help="instead of one by the seed")
    add_options(parser)
    options = parser.parse_args()
    try:
        found()
    except NotInstalledError as error:
        parser.error(str(error))
    # What a library looks up at the first call, it looks up with the registers that this CPU has.
    os.environ["LD_BIND_NOW"] = "1"
    os.environ[LEVEL] = str(options.level or "")
    return run_campaign(EmulatorCampaign, options.seed, [options.family, options.target], options)


if __name__ == "__main__":
    sys.exit(main())
