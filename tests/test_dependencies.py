"""What the package asks for is declared, justified, and nothing more."""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "dependencies.md"
# Distributions whose module has another name.
MODULES = {"apache-tvm-ffi": "tvm_ffi"}
# What is used only where the user has it; IPython and mypy only where they run already.
OPTIONAL = {"IPython", "lsprotocol", "mypy", "onnx", "pygls", "sklearn", "torch"}


def declared() -> list[str]:
    """Read the names of the core dependencies, in the order of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (table,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    return re.findall(r'^  "([\w-]+)', table, re.MULTILINE)


@functools.cache
def imported(folder: Path) -> frozenset[str]:
    """Return the top-level names of the modules that the source imports, late imports included."""
    names: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names.add(node.module.split(".")[0])
            elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
                names.update(
                    a.value.split(".")[0] for a in node.args if isinstance(a, ast.Constant)
                )
    return frozenset(names)


def test_every_core_dependency_has_its_reason():
    table = PAGE.read_text(encoding="utf-8").partition("\nExtras")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| \S.+ \|$", table, re.MULTILINE)
    assert rows == declared()
    assert declared() == sorted(declared(), key=str.lower)


def test_every_core_dependency_is_imported_and_every_import_is_declared():
    modules = {MODULES.get(name, name) for name in declared()}
    outside = imported(ROOT / "src") - set(sys.stdlib_module_names) - {"loomir"}
    assert modules - outside == set(), "declared and not used"
    assert outside - modules - OPTIONAL == set(), "used and not declared"


@pytest.mark.parametrize("name", ["tvm", "jax", "numba"])
def test_no_peer_is_imported(name: str):
    assert name not in imported(ROOT / "src")
