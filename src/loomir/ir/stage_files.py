"""Dump the stages of a compilation as numbered files, from the program to machine code."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from loomir.ir.module import IRModule
from loomir.support.diagnostics import CompileError
from loomir.support.files import replace_file, unwritable

__all__ = ["UNCHANGED", "StageFiles", "dump_to"]

UNCHANGED: Final = "# unchanged since "
"""The beginning of the file of a stage that changed nothing; another file's name follows."""


class StageFiles:
    """Writes each stage to its own file, such as ``03-relax.FoldConstant.py``.

    For a stage that changed nothing, the file names the one with the program.

    Errors: RUN0467 if a file cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise CompileError(unwritable(directory, error)) from error
        self.directory = directory
        self._count = 0
        self._last: tuple[IRModule, str] | None = None

    def write(self, name: str, mod: IRModule) -> None:
        """Write a module as TVMScript that reads back; large constants are in the cache."""
        path = self._number_path(name, ".py")
        if self._last is not None and self._last[0] is mod:
            _write(path, f"{UNCHANGED}{self._last[1]}")
            return
        self._last = mod, path.name
        _write(path, mod.script())

    def write_text(self, name: str, text: str) -> None:
        """Write a stage that is text already; ``name`` includes the file's extension."""
        _write(self._number_path(name, ""), text)

    def _number_path(self, name: str, suffix: str) -> Path:
        number = self._count
        self._count += 1
        return self.directory / f"{number:02d}-{name}{suffix}"


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path, (text if text.endswith("\n") else text + "\n").encode())
    except (OSError, ValueError) as error:
        raise CompileError(unwritable(path, error)) from error


def dump_to(directory: Path) -> StageFiles:
    """Make a writer of stages; its ``write`` is the ``on_stage`` of pipelines."""
    return StageFiles(directory)
