"""The options of ``loomir.compile``, and their check."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_type_hints

from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.runtime_types import DeclaredType, read_declared, show_value

__all__ = ["HARDEST", "CompileOptions", "check_options"]

HARDEST: Final = 3
"""The highest level, for loops written by hand: LLVM always runs all its passes."""


class CompileOptions(NamedTuple):
    """The options of ``loomir.compile``, where they are described."""

    checked: bool = False
    check_bounds: bool | None = False
    allow_alias: bool = False
    opt_level: int = 2
    schedule: bool = True
    cache: bool = True
    check_nan: bool = False
    constants: Mapping[Any, Any] = MappingProxyType({})
    winograd: bool | None = None
    verify_schedule: bool = False
    eager: bool = False
    copy_arguments: bool = False
    optimize_graph: bool = True


def check_options(options: Mapping[str, Any]) -> None:
    """Check options against their declared types. Errors: RUN0012."""
    for name, value in options.items():
        kind = _kinds()[name]
        fits, wanted = kind.accepts(value), kind.wanted
        if name == "opt_level":
            fits, wanted = fits and 0 <= value <= HARDEST, f"an integer from 0 to {HARDEST}"
        if not fits:
            raise CompileError(
                Diagnostic(
                    "RUN0012",
                    f"{name} is {show_value(value)}, not {wanted}",
                    help=f"give {wanted}, or leave it out",
                )
            )


@cache
def _kinds() -> dict[str, DeclaredType]:
    return {name: read_declared(hint) for name, hint in get_type_hints(CompileOptions).items()}
