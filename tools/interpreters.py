"""Build the packages, and test them on every Python with the oldest and the newest dependencies.

    python -m tools.interpreters FOLDER
    python -m tools.interpreters FOLDER --python PATH --bounds lowest -- -n 1 tests/tir

The wheel and the source distribution are built and checked (``twine``, ``check-wheel-contents``).
For each interpreter, a virtual environment in the folder gets the wheel; its dependencies are the
lowest versions that the package allows, or the newest. The tests of the source distribution then
run against the wheel, outside of the checkout. By default, those are the interpreters of
``python3.10`` to ``python3.14`` on the path, and the tests of ``TESTS``; pytest gets what follows
``--``. The output of each run is in the folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tools.emulate import FOR_TESTS

ROOT: Final = Path(__file__).parents[1]
BOUNDS: Final = ("lowest", "newest")
TESTS: Final = (
    "tests/arith", "tests/tir", "tests/te", "tests/tc", "tests/script", "tests/interp",
    "tests/runtime", "tests/schedule", "tests/codegen",
)  # fmt: skip
_VERSIONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")
_CHECKERS: Final = ("build", "check-wheel-contents", "twine")
_REQUIREMENT: Final = re.compile(r"^Requires-Dist: ([\w.-]+)>=([\w.]+)$", re.MULTILINE)
"""A dependency with its lower bound, in the metadata of a wheel."""


class _Outcome(NamedTuple):
    interpreter: str
    bounds: str
    status: int
    summary: str


def main() -> int:
    """Build, check, install and test; the status is 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where environments and packages are made")
    parser.add_argument("--python", nargs="+", metavar="PATH", help="the interpreters")
    parser.add_argument("--bounds", nargs="+", choices=BOUNDS, default=BOUNDS)
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    options, tests = parser.parse_args(given[:cut]), given[cut + 1 :] or TESTS
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wheel, source = build_packages(folder)
    outcomes = [
        _test(folder, python, bounds, wheel, source, tests)
        for python in options.python or find_interpreters()
        for bounds in options.bounds
    ]
    for outcome in outcomes:
        sys.stdout.write(f"{outcome.interpreter:<8} {outcome.bounds:<7} {outcome.summary}\n")
    return int(not outcomes or any(outcome.status for outcome in outcomes))


def find_interpreters() -> list[str]:
    """List the interpreters on the path that run and have a version that Loomir supports."""
    found = [shutil.which(f"python{version}") for version in _VERSIONS]
    return [python for python in found if python and _version(python)]


def _version(python: str) -> str:
    """Return an interpreter's version; empty for what does not run, as a shim without target."""
    code = "import platform; print(platform.python_version())"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def build_packages(folder: Path) -> tuple[Path, Path]:
    """Build and check both packages; return the wheel, and the unpacked sources without ``src``."""
    python = _environment(folder / "build", sys.executable, _CHECKERS)
    made = folder / "dist"
    shutil.rmtree(made, ignore_errors=True)
    _run([python, "-m", "build", "--outdir", made, ROOT])
    (wheel,), (archive,) = made.glob("*.whl"), made.glob("*.tar.gz")
    _run([python, "-m", "twine", "check", "--strict", wheel, archive])
    _run([python.with_name("check-wheel-contents"), wheel])
    unpacked = folder / "source"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(archive) as file:
        file.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    shutil.rmtree(source / "src")
    return wheel, source


def lowest_versions(metadata: str) -> list[str]:
    """Return pins of a wheel's dependencies to their lower bounds, from its metadata."""
    return [f"{name}=={version}" for name, version in _REQUIREMENT.findall(metadata)]


def _test(
    folder: Path, interpreter: str, bounds: str, wheel: Path, source: Path, tests: Sequence[str]
) -> _Outcome:
    version = _version(interpreter)
    python = _environment(folder / f"{version}-{bounds}", interpreter, ())
    install: list[object] = [python, "-m", "pip", "install", "-q", wheel, *FOR_TESTS]
    if bounds == "lowest":
        pins = folder / "lowest.txt"
        pins.write_text("\n".join(lowest_versions(_metadata(wheel))) + "\n", encoding="utf-8")
        install += ["-c", pins]
    _run(install)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        [*map(str, command)], cwd=source, env=_clean(), capture_output=True, text=True, check=False
    )
    (folder / f"{version}-{bounds}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    lines = done.stdout.strip().splitlines()
    return _Outcome(version, bounds, done.returncode, lines[-1] if lines else "pytest did not run")


def _metadata(wheel: Path) -> str:
    command = ["-m", "zipfile", "-e", str(wheel), str(wheel.parent / "wheel")]
    _run([sys.executable, *command])
    (file,) = (wheel.parent / "wheel").glob("*.dist-info/METADATA")
    return file.read_text(encoding="utf-8")


def _environment(folder: Path, interpreter: str, packages: Sequence[str]) -> Path:
    """Make a virtual environment, if there is none, and return its interpreter."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        _run([interpreter, "-m", "venv", folder])
    if packages:
        _run([python, "-m", "pip", "install", "-q", *packages])
    return python


def _run(command: Sequence[object]) -> None:
    subprocess.run([*map(str, command)], env=_clean(), check=True)


def _clean() -> dict[str, str]:
    """Return the variables of this process without those that let Python find the checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


if __name__ == "__main__":
    sys.exit(main())
