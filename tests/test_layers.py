"""The contract on layers holds, and it fails for what it is there to stop.

Each test lints a copy of the source, so that a package which is still to come can be tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = """
import sys
from importlinter.cli import lint_imports

sys.exit(lint_imports(no_logo=True, no_cache=True))
"""


class House:
    """A copy of the repository's source with its contracts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "src" / "loomir"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src", root / "src", ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", root)

    def write(self, path: str, text: str) -> None:
        """Add lines to a file, which is made, with its packages, where there is none."""
        file = self.package / path
        for folder in (file.parent, *file.parent.parents):
            if folder == self.package:
                break
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "__init__.py").touch()
        with file.open("a", encoding="utf-8") as out:
            out.write("\n" + text)

    def lint(self) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "PYTHONPATH": str(self.root / "src"),
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }
        return subprocess.run(
            [sys.executable, "-c", LINT],
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def assert_broken(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Hold that a contract is broken (not that the tool failed), and that its report says so."""
    assert done.returncode == 1, done.stdout + done.stderr
    for word in ("BROKEN", *words):
        assert word in done.stdout


@pytest.mark.static
def test_the_source_obeys(house: House):
    done = house.lint()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


PACKAGES = ("relax", "te", "schedule", "interp", "codegen", "target", "runtime", "tir")


def test_packages_of_every_layer_obey_before_they_import(house: House):
    for package in PACKAGES:
        house.write(f"{package}/probe.py", "X = 1\n")
    assert house.lint().returncode == 0


@pytest.mark.parametrize(
    ("path", "line", "broken"),
    [
        (
            "tir/probe.py",
            "from loomir.relax.probe import X",
            "loomir.tir.probe -> loomir.relax.probe",
        ),
        ("tir/probe.py", "import loomir.relax", "loomir.tir.probe -> loomir.relax"),
        ("tir/probe.py", "from loomir import relax", "loomir.tir.probe -> loomir.relax"),
        ("support/probe.py", "import loomir.tir", "loomir.support.probe -> loomir.tir"),
        ("runtime/probe.py", "import loomir.target", "loomir.runtime.probe -> loomir.target"),
        ("codegen/probe.py", "import loomir.interp", "loomir.codegen.probe -> loomir.interp"),
        ("schedule/probe.py", "import loomir.te", "loomir.schedule.probe -> loomir.te"),
    ],
)
def test_an_import_upward_or_sideways_fails(house: House, path: str, line: str, broken: str):
    for package in PACKAGES:
        house.write(f"{package}/probe.py", "X = 1\n")
    house.write(path, line + "\n")
    assert_broken(house.lint(), broken)


@pytest.mark.parametrize("package", ["utils", "onnxish"])
def test_a_package_without_a_layer_fails(house: House, package: str):
    house.write(f"{package}/strings.py", "X = 1\n")
    assert_broken(house.lint(), package)


def test_a_module_at_the_top_without_a_layer_fails(house: House):
    house.write("helpers.py", "X = 1\n")
    assert_broken(house.lint(), "helpers")


def test_a_circle_between_modules_of_one_package_fails(house: House):
    house.write("support/probe_a.py", "import loomir.support.probe_b\n")
    house.write("support/probe_b.py", "import loomir.support.probe_a\n")
    assert_broken(house.lint(), "probe_a")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("support/probe.py", "import tvm_ffi"),
        ("runtime/probe.py", "import tvm"),
        ("runtime/probe.py", "import torch"),
        ("frontend/onnx/probe.py", "import tvm.relax"),
    ],
)
def test_an_outside_package_where_it_does_not_belong_fails(house: House, path: str, line: str):
    house.write(path, line + "\n")
    assert_broken(house.lint(), line.split()[1].split(".")[0])


def test_outside_packages_may_be_imported_where_they_belong(house: House):
    house.write("runtime/probe.py", "import tvm_ffi\n")
    house.write("frontend/torch/probe.py", "import torch\n")
    house.write("frontend/onnx/probe.py", "from onnx import helper\n")
    done = house.lint()
    assert done.returncode == 0, done.stdout + done.stderr
