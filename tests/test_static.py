"""The tools that read the source without running it: format, lint, types.

They are tests so that one command, `python -m pytest`, checks everything on any machine that has
only Python; `make lint` runs only them. The layers have tests of their own (test_layers.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = (sys.executable, "-m")
TOOLS = {
    "format": (*PYTHON, "ruff", "format", "--check", "."),
    "lint": (*PYTHON, "ruff", "check", "."),
    # Without --pythonpath it would look into the machine's Python and miss what is installed here.
    "types": (*PYTHON, "pyright", "--pythonpath", sys.executable),
}


@pytest.mark.static
@pytest.mark.parametrize("tool", TOOLS)
def test_source_passes(tool: str):
    # Collecting garbage often is a fifth of the work of the type checker, which runs in Node.
    env = {**os.environ, "NODE_OPTIONS": "--max-semi-space-size=128"}
    done = subprocess.run(
        TOOLS[tool], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.fail(f"{done.stdout}\n{done.stderr}", pytrace=False)
