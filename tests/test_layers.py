"""The contract on layers holds, and it fails for what it is there to stop.

What is linted is a copy of the source, so that a package which is still to come can be tried. One
run of the linter shows all that is broken.
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


@pytest.mark.static
def test_the_source_obeys(tmp_path: Path):
    done = House(tmp_path).lint()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


PACKAGES = ("relax", "te", "schedule", "interp", "codegen", "target", "runtime", "tir")
ALLOWED = {
    **{f"{package}/probe.py": "X = 1" for package in PACKAGES},
    "runtime/probe_outside.py": "import tvm_ffi",
    "frontend/torch/probe.py": "import torch",
    "frontend/onnx/probe.py": "from onnx import helper",
}


def test_new_modules_obey_and_import_outside_packages_where_these_belong(tmp_path: Path):
    house = House(tmp_path)
    for path, line in ALLOWED.items():
        house.write(path, line + "\n")
    done = house.lint()
    assert done.returncode == 0, done.stdout + done.stderr


# What is written to which new module, and what the report says that it imports.
UPWARD = {
    "tir/probe_1.py": ("from loomir.relax.probe import X", "loomir.relax.probe"),
    "tir/probe_2.py": ("import loomir.relax", "loomir.relax"),
    "tir/probe_3.py": ("from loomir import relax", "loomir.relax"),
    "support/probe_4.py": ("import loomir.tir", "loomir.tir"),
    "runtime/probe_5.py": ("import loomir.target", "loomir.target"),
    "codegen/probe_6.py": ("import loomir.interp", "loomir.interp"),
    "check/probe_7.py": ("import loomir.script", "loomir.script"),
}
OUTSIDE = {
    "support/probe_8.py": ("import tvm_ffi", "tvm_ffi"),
    "runtime/probe_9.py": ("import tvm", "tvm"),
    "runtime/probe_10.py": ("import torch", "torch"),
    "frontend/onnx/probe_11.py": ("import tvm.relax", "tvm"),
}
WITHOUT_LAYER = {
    "utils/strings.py": "utils",
    "onnxish/strings.py": "onnxish",
    "helpers.py": "helpers",
}
CIRCLE = {"support/probe_a.py": "probe_b", "support/probe_b.py": "probe_a"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Break the contracts in every way at once, and return the lines of the report."""
    house = House(tmp_path_factory.mktemp("broken"))
    house.write("relax/probe.py", "X = 1\n")
    for path, (line, _) in {**UPWARD, **OUTSIDE}.items():
        house.write(path, line + "\n")
    for path in WITHOUT_LAYER:
        house.write(path, "X = 1\n")
    for path, other in CIRCLE.items():
        house.write(path, f"import loomir.support.{other}\n")
    done = house.lint()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "0 kept, 3 broken" in done.stdout  # the tool itself has not failed
    return done.stdout.splitlines()


def module_of(path: str) -> str:
    return "loomir." + path.removesuffix(".py").replace("/", ".")


@pytest.mark.parametrize("path", UPWARD)
def test_an_import_upward_or_sideways_fails(report: list[str], path: str):
    assert f"- {module_of(path)} -> {UPWARD[path][1]} (l.2)" in report


@pytest.mark.parametrize("path", OUTSIDE)
def test_an_outside_package_where_it_does_not_belong_fails(report: list[str], path: str):
    assert f"-   {module_of(path)} -> {OUTSIDE[path][1]} (l.2)" in report


@pytest.mark.parametrize("path", WITHOUT_LAYER)
def test_what_has_no_layer_fails(report: list[str], path: str):
    first = report.index("The following modules are not listed as layers:")
    assert f"- loomir.{WITHOUT_LAYER[path]}" in report[first:]


def test_a_circle_between_modules_of_one_package_fails(report: list[str]):
    assert any("probe_a" in line and "probe_b" in line for line in report)
