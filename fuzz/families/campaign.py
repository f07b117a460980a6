"""Campaigns over the programs of a family: what a failure leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from fuzz.families.table import FAMILIES
from fuzz.processes import Campaign, kept

__all__ = ["FamilyCampaign"]


class FamilyCampaign(Campaign):
    """Checks programs of a family, which is the first of the engines."""

    first: ClassVar[str] = "--seed"

    def repeat(self, seed: int) -> str:
        """Return the command that checks the program of a seed again."""
        raise NotImplementedError

    def name(self) -> str:
        """Return what files of failures are named after, besides the seed."""
        return self.engines[0]

    def keep(self, reply: dict[str, Any], folder: Path) -> Path:
        """Write a failure down: how to see it again, what happened, and the program."""
        lines = [f"# {self.repeat(reply['seed'])}"]
        for engine, said in reply["found"].items():
            lines += [f"# {engine}: {line}" for line in str(said).splitlines()]
        if "generator" not in reply["found"]:
            lines.append(FAMILIES[self.engines[0]](reply["seed"]).module.script())
        return kept(reply, folder, self.name(), lines)
