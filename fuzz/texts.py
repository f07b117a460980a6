"""Mutate texts of programs at random, and read, verify, compile and run the results.

    python -m fuzz.texts --count 20000
    TEXTS=folder python -m fuzz.texts --count 20000

Texts are those of ``tests.script``, and the ``*.py`` of a folder that ``TEXTS`` names. A text must
be refused with the positions of its mistakes, or be a program: one that is well-formed compiles,
and a checked run of it ends with values or a typed error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fuzz.processes import Campaign, kept, run_from_command_line
from fuzz.textworker import text_of_seed

__all__ = ["TextCampaign", "main"]


class TextCampaign(Campaign):
    """Checks changed texts."""

    command = ("-m", "fuzz.textworker")
    programs = "texts"

    def keep(self, reply: dict[str, Any], folder: Path) -> Path:
        """Write a failure down: what happened, and the text."""
        lines = [f"# seed {reply['seed']} of texts"]
        for name, what in reply["found"].items():
            lines += [f"# {name}: {line}" for line in str(what).splitlines()]
        return kept(reply, folder, "texts", [*lines, text_of_seed(reply["seed"])])


def main() -> int:
    """Run a campaign from the command line."""
    return run_from_command_line(TextCampaign, __doc__, ["text"])


if __name__ == "__main__":
    sys.exit(main())
