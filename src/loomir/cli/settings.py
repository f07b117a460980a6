"""Parse options of the form ``--size N=1024``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

from loomir.support.diagnostics import CompileError, Diagnostic

__all__ = ["OptimizeGraph", "Sizes", "read_settings"]

Sizes: TypeAlias = Annotated[
    list[str] | None,  # typer reads this annotation at run time, on Python 3.10 too
    typer.Option(
        "--size",
        "--arg",
        metavar="n=128",
        help="A size, a scalar argument, or a constant of the file; may be repeated.",
    ),
]
"""The option of every command that draws arguments or reads constants."""
OptimizeGraph: TypeAlias = Annotated[
    bool,
    typer.Option(help="Rewrite graphs to faster ones, whose results may differ by rounding."),
]
"""The option of every command that compiles graphs."""


def read_settings(pairs: Sequence[str] | None, option: str = "--size") -> dict[str, int | float]:
    """Read ``NAME=NUMBER`` pairs. Errors: CLI0005."""
    made: dict[str, int | float] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        try:
            value: int | float = int(text, 0)
        except ValueError:
            try:
                value = float(text)
            except ValueError:
                equals = ""
                value = 0
        if not equals or not name.isidentifier():
            raise CompileError(
                Diagnostic(
                    "CLI0005",
                    f"{option} {pair} is not a name and a number",
                    help=f"write it as in {option} N=1024",
                )
            )
        made[name] = value
    return made
