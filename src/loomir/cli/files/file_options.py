"""Settings for commands that a file defines beside its programs: SIZES, INTERPRET and inputs."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

import numpy as np

from loomir.cli.files.user_traceback import ask
from loomir.support.diagnostics import CompileError, Diagnostic

__all__ = ["ask_for_inputs", "constants"]


def constants(file: ModuleType | None, name: str) -> dict[str, int | float]:
    """Return the numbers by name that a file defines, if any. Errors: CLI0012 for other values.

    ``name``: SIZES or INTERPRET.
    """
    given = _require_mapping(getattr(file, name, {}), name, "numbers")
    for key, value in given.items():
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise _odd(f"{name}[{key!r}]", value, "number", f"{name} = {{{key!r}: 64}}")
    return {key: value if isinstance(value, int) else value.item() for key, value in given.items()}


def ask_for_inputs(file: ModuleType | None, seed: int, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Call the file's function ``inputs`` for arguments by name. Errors: CLI0011, CLI0012."""
    maker: Any = getattr(file, "inputs", None)
    if maker is None:
        return {}
    return _require_mapping(
        ask(file, maker, np.random.default_rng(seed), **sizes), "inputs", "arguments"
    )


def _require_mapping(given: object, name: str, of: str) -> dict[str, Any]:
    way = "return {'x': x}" if name == "inputs" else f"{name} = {{'n': 64}}"
    what = "what inputs gives" if name == "inputs" else name
    if not isinstance(given, Mapping):
        raise _odd(what, given, f"dictionary of {of} by name", way)
    listed = dict(cast("Mapping[Any, Any]", given))
    for key in listed:
        if not isinstance(key, str):
            raise _odd(f"a key of {what}", key, "name", way)
    return listed


def _odd(what: str, value: object, wanted: str, way: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "CLI0012",
            f"{what} is {reprlib.repr(value)}, which is no {wanted}",
            help=f"write it as in {way}",
        )
    )
