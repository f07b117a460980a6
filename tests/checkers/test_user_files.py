"""Files that users write have no errors under pyright and mypy, in their basic modes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import loomir
from tests.docs.markdown import ROOT, blocks

FILES = Path(__file__).parent / "files"
SOURCE = Path(loomir.__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("users")
    for file in (*FILES.glob("*.py"), *(ROOT / "examples").rglob("*.py")):
        shutil.copy(file, made / f"{file.parent.name}_{file.name}")
    for page in PAGES:
        text = "\n\n".join(_checked(page))
        (made / f"page_{page.stem.replace('-', '_')}.py").write_text(text, encoding="utf-8")
    (made / "wrong.py").write_text(
        "from loomir.script import tir as T\n\n"
        "@T.prim_func\n"
        "def f(n: T.int32) -> T.int32:\n    return n\n\n"
        "@T.prim_func(private=True)\n"
        "def g(n: T.int32) -> T.int32:\n    return n\n\n"
        "f.no_such_name\nT.no_such_name\n",
        encoding="utf-8",
    )
    settings = {"typeCheckingMode": "basic", "extraPaths": [str(SOURCE)]}
    (made / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    (made / "mypy.ini").write_text(
        "[mypy]\nplugins = loomir.checkers.mypy\nallow_redefinition = True\n"
        "disable_error_code = no-redef\n",  # pages define functions anew, as notebooks do
        encoding="utf-8",
    )
    return made


def _checked(page: Path) -> Iterator[str]:
    """Yield the code of a page; what it shows to be wrong is not read, but may name a value."""
    for block in blocks(page):
        if block.language == "python":
            raises = "raises" in block.options
            yield (
                "other = None  # type: ignore"
                if raises and "other =" in block.text
                else ("" if raises else block.text)
            )


def run(folder: Path, *command: str) -> str:
    env = {
        **os.environ,
        "MYPYPATH": str(SOURCE),
        "PYTHONPATH": str(SOURCE),
        "NODE_OPTIONS": "--max-semi-space-size=128",
    }
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.stdout}{done.stderr}"


@pytest.mark.static
def test_pyright_finds_nothing_but_what_is_wrong(folder: Path):
    shown = run(folder, "pyright", "--pythonpath", sys.executable, "--outputjson")
    errors = [d for d in json.loads(shown)["generalDiagnostics"] if d["severity"] == "error"]
    told = [(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in errors]
    assert told == [("wrong.py", 11), ("wrong.py", 12)], [d["message"] for d in errors]


@pytest.mark.static
def test_mypy_finds_nothing_but_what_is_wrong(folder: Path):
    names = sorted(f.name for f in folder.glob("*.py"))
    options = ("--follow-imports=silent", "--no-error-summary", "--hide-error-context")
    lines = run(folder, "mypy", *options, *names).splitlines()
    assert [line.partition(" error:")[0] for line in lines] == ["wrong.py:12:"], lines
