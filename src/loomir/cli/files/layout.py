"""Format source files: Python by Ruff, Tensor Comprehensions by their own formatter."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import ruff

from loomir.cli.files.source import is_tc
from loomir.script.parser.convert import parse_text
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Source
from loomir.tc.fmt import fmt as fmt_tc
from loomir.tc.parse import parse

__all__ = ["format_text"]

_WIDTH: Final = 100


def format_text(text: str, path: Path) -> str:
    """Format the text of a file; comments, constants and names stay.

    Python files follow the file's settings of Ruff; if there are none, lines are as wide as those
    of the printer.
    Errors: SCR0001 and the mistakes of a text in Tensor Comprehensions, CLI0014.
    """
    if is_tc(path):
        return fmt_tc(parse(text, str(path)))
    parse_text(Source(str(path), text))
    try:
        command = [ruff.find_ruff_bin(), "format", "--quiet", "--stdin-filename", str(path), "-"]
        if not _has_settings(path):
            command += ["--config", f"line-length = {_WIDTH}"]
        done = subprocess.run(
            command, input=text, capture_output=True, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.CalledProcessError) as error:
        why = str(getattr(error, "stderr", "") or error).strip()
        raise CompileError(
            Diagnostic(
                "CLI0014",
                f"the formatter cannot format {path}: {why}",
                help="fix the settings of Ruff for this file, in ruff.toml or pyproject.toml",
            )
        ) from error
    return done.stdout


def _has_settings(path: Path) -> bool:
    """Tell whether Ruff finds settings for a file in its folder or one above."""
    for folder in path.absolute().parents:
        if (folder / "ruff.toml").exists() or (folder / ".ruff.toml").exists():
            return True
        project = folder / "pyproject.toml"
        if project.exists() and b"[tool.ruff" in project.read_bytes():
            return True
    return False
