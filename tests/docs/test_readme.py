"""The README's two commands are what CI and the packaging promise."""

from __future__ import annotations

import ast

from tests.docs.markdown import ROOT, blocks
from tests.docs.running import commands

README = ROOT / "README.md"


def shell_commands() -> list[str]:
    return [c for b in blocks(README) if b.language == "console" for c, _ in commands(b)]


def test_the_readme_shows_two_commands():
    first, second = shell_commands()
    for command in (first, second):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert ".venv/bin/loomir run examples/matmul_scheduled.py" in first
    assert second.endswith(".venv/bin/python -m pytest")


def test_ci_runs_the_test_command_of_the_readme_and_nothing_else():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    does = [line for line in script if line and not line.startswith("#")]
    assert does == [
        "set -euo pipefail",
        'cd "$(dirname "$0")/.."',
        shell_commands()[1],
    ]


def test_the_first_program_is_short():
    program = next(b for b in blocks(README) if b.language == "python")
    lines = [line for line in program.text.splitlines() if line.strip()]
    assert len(lines) <= 12
    assert ast.parse(program.text).body
