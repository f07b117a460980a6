"""``loomir tune`` searches, keeps records, and says what it found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from loomir.cli import app
from loomir.tuning import Database

PROGRAM = """
from loomir.script import tir as T

@T.prim_func
def scale(x: T.Buffer((5000,), "float32"), y: T.Buffer((5000,), "float32")):
    for i in range(5000):
        y[i] = x[i] * T.float32(2)

@T.prim_func
def other(x: T.Buffer((8,), "float32")):
    for i in range(8):
        x[i] = T.float32(1)
"""


def run(*arguments: str | Path) -> Any:
    """Call the command."""
    return CliRunner().invoke(app, ["tune", *map(str, arguments)])


def test_records_are_kept_where_the_option_says(tmp_path: Path):
    file, database = tmp_path / "p.py", tmp_path / "records.db"
    file.write_text(PROGRAM)
    options = ("--trials", "2", "--timeout", "300", "--database", database)
    done = run(f"{file}:scale", *options, "--json")
    assert done.exit_code == 0
    facts = json.loads(done.stdout)
    (kernel,) = facts["kernels"]
    assert (kernel["name"], kernel["trials"], kernel["failed"]) == ("scale", 2, 0)
    assert len(Database(database)) >= 1
    again = run(f"{file}:scale", *options)
    assert "scale: 2 trials" in again.stdout
    assert "records: " in again.stdout


def test_mistakes_are_told(tmp_path: Path):
    file = tmp_path / "p.py"
    file.write_text(PROGRAM)
    several = run(file)
    assert several.exit_code == 1
    assert "CLI0010" in several.output
    database = tmp_path / "bad.db"
    database.write_text("no database " * 200)
    damaged = run(f"{file}:scale", "--database", database)
    assert damaged.exit_code == 1
    assert "TUN0001" in damaged.output
    assert run(f"{file}:scale", "--timeout", "0").exit_code == 2
