"""Find the files for a command: those named, and those with programs in folders."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from loomir.cli.files.source import is_tc, split_target
from loomir.script.parser.whole_file import holds_programs
from loomir.support.diagnostics import CompileError, Diagnostic

__all__ = ["gather", "with_count_of_files"]

_MENTIONS: Final = re.compile(rb"\b(loomir|tvm)\b")
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def gather(targets: Sequence[str]) -> list[Path]:
    """List the named files, and the files with programs in named folders, each once.

    In folders: Python files with TVMScript, and files in Tensor Comprehensions.
    Errors: CLI0002 for a folder without programs.
    """
    found: dict[Path, None] = {}
    for target in targets:
        path, _ = split_target(target)
        if not path.is_dir():
            found[path] = None
            continue
        inside = list(_programs_below(path))
        if not inside:
            raise CompileError(
                Diagnostic(
                    "CLI0002",
                    f"no file below {path} holds a program",
                    notes=("looked for Python files with TVMScript, and for .tc files",),
                    help="give another folder, or the files themselves",
                )
            )
        found.update(dict.fromkeys(inside))
    return list(found)


def with_count_of_files(number: int) -> str:
    """Return the number of files as text."""
    return f"{number} file{'s' * (number != 1)}"


def _programs_below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if n[0] != "." and n not in _SKIPPED)
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and (is_tc(path) or (path.suffix == ".py" and _has_script(path))):
                yield path


def _has_script(path: Path) -> bool:
    """Tell whether a Python file has programs; a text with errors may, if it mentions Loomir."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    if not _MENTIONS.search(data):
        return False
    try:
        return holds_programs(ast.parse(data))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return b"@T." in data or b"@I." in data or b"@R." in data
