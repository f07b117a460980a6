"""The rules of the house that no linter knows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "loomir"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 900
# Names that say nothing about what is in the file.
EMPTY_NAMES = {"utils", "util", "misc", "helpers", "helper", "common", "base"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|root|home)/")


@pytest.mark.parametrize("file", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file_is_small_named_and_finished(file: Path):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert file.stem not in EMPTY_NAMES
    assert not file.stem.startswith("new_")
    assert not re.search(r"_v\d+$", file.stem)
    assert UNFINISHED.findall(text) == []


def tracked() -> list[Path]:
    """Give the text files that the repository holds, or that an unpacked archive has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        return [p for d in ("src", "tests", "docs", "examples") for p in (ROOT / d).rglob("*.*")]
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_file_names_a_place_on_somebody_s_machine():
    found = []
    for file in tracked():
        if file == Path(__file__) or not file.is_file() or file.suffix in {".png", ".pyc", ".npz"}:
            continue
        if MACHINE_PATHS.search(file.read_text(encoding="utf-8")):
            found.append(str(file.relative_to(ROOT)))
    assert found == []


def test_packages_carry_types():
    assert (PACKAGE / "py.typed").exists()
