"""The page on the architecture names files, folders and tools that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "architecture.md"
HOMES = (ROOT, ROOT / "src", ROOT / "src" / "loomir", ROOT / "docs")
# In italics: what is not there yet.
PLANNED = re.compile(r"\*`[^`]*`\*")
PATH = re.compile(r"`([\w./-]+(?:/|\.py|\.pyi|\.md|\.toml|\.yml))`")


def missing_from(line: str) -> list[str]:
    """List paths that do not exist, nor in a folder that the line names before."""
    homes = list(HOMES)
    missing: list[str] = []
    for path in PATH.findall(PLANNED.sub("", line)):
        found: list[Path] = [home / path for home in homes if (home / path).exists()]
        homes += [place if place.is_dir() else place.parent for place in found]
        if not found:
            missing.append(path)
    return missing


def test_every_path_exists():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert sum(len(PATH.findall(line)) for line in lines) > 80
    assert [(n, path) for n, line in enumerate(lines, 1) for path in missing_from(line)] == []


def test_every_tool_exists():
    tools = re.findall(r"python -m (tools\.\w+)", PAGE.read_text(encoding="utf-8"))
    assert tools
    assert [t for t in tools if not (ROOT / t.replace(".", "/")).with_suffix(".py").is_file()] == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("| `codegen/llvm/` | `tir/` (loops) |", []),
        ("| `codegen/llvm/` | `emit/` (loops) |", ["emit/"]),
        ("| *`nowhere/`* |", []),
        ("| `nowhere/` |", ["nowhere/"]),
    ],
)
def test_missing_paths_are_found(line: str, missing: list[str]):
    assert missing_from(line) == missing
