"""Options of the form ``--arg N=1024``."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.support.diagnostics import CompileError, Diagnostic

__all__ = ["read_settings"]


def read_settings(pairs: Sequence[str], option: str) -> dict[str, int | float]:
    """Read ``NAME=NUMBER`` pairs. Errors: CLI0005."""
    made: dict[str, int | float] = {}
    for pair in pairs:
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
