"""The tools that read the source without running it: format, lint, types.

They are tests so that one command, `python -m pytest`, checks everything on any machine that has
only Python; `make lint` runs only them. The layers have tests of their own (test_layers.py).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.type_errors import compare, find_errors, read_list

ROOT = Path(__file__).parents[1]
PYTHON = (sys.executable, "-m")
TOOLS = {
    "format": (*PYTHON, "ruff", "format", "--check", "."),
    "lint": (*PYTHON, "ruff", "check", "."),
}


@pytest.mark.static
@pytest.mark.parametrize("tool", TOOLS)
def test_source_passes(tool: str):
    done = subprocess.run(TOOLS[tool], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{done.stdout}\n{done.stderr}", pytrace=False)


@pytest.mark.static
def test_types_are_complete_but_for_what_the_list_allows():
    wrong = compare(find_errors(), read_list())
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_only_what_is_written_and_run_by_hand_may_have_type_errors():
    assert {path.split("/")[0] for path in read_list()} <= {"tests"}
    assert all(count > 0 and (ROOT / path).exists() for path, count in read_list().items())


def test_type_errors_are_compared_with_the_list():
    found = {"a.py": ["a.py:1:1: one", "a.py:2:1: two"], "b.py": ["b.py:1:1: one"]}
    assert compare(found, {"a.py": 2, "b.py": 1}) == []
    assert compare(found, {"a.py": 1, "b.py": 1}) == [
        "a.py: 2 type errors, where 1 are allowed",
        "a.py:1:1: one",
        "a.py:2:1: two",
    ]
    (new,) = compare({"c.py": ["c.py:1:1: one"]}, {})[:1]
    assert new == "c.py: 1 type errors, where 0 are allowed"
    (high,) = compare(found, {"a.py": 3, "b.py": 1})
    assert high.startswith("a.py: 2 type errors are left, and the list still allows 3")
    (done,) = compare({}, {"gone.py": 1})
    assert done.startswith("gone.py: 0 type errors are left")
