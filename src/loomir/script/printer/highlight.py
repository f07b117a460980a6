"""TVMScript on the terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.syntax import Syntax

__all__ = ["show_text"]


def show_text(text: str) -> None:
    """Print a program, in colour where standard output is a terminal."""
    if sys.stdout.isatty():
        Console(file=sys.stdout).print(
            Syntax(text.rstrip(), "python", background_color="default", word_wrap=False)
        )
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
