"""Prove that a change leaves machine code as it is: compare hashes of assembly with a revision's.

    python -m tools.code_hashes REVISION [REVISION ...] [--count 500] [--jobs 2]

The programs are all examples, kernels and graphs; all rows of ``benchmarks.kernels`` with their
weights as constants; and ``--count`` random programs of ``fuzz.families``. The working tree writes
them as text. It and a worktree of the revision then compile the same texts, each by its own
``src``, for several kinds of targets, and hash the assembly. Python's hash seed is random, so that
code that depends on it shows too. Exits with 1 and the names of what differs, or with 0.

Several revisions are compared each with the one before, not with the working tree.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
TARGETS: Final = ("haswell", "skylake-avx512", "sapphirerapids", "neoverse-n1")
"""Each of a kind of its own; random programs take one each, in turn."""


def main() -> int:
    """Compare two trees, or be the worker of one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revisions", nargs="*", help="what to compare, as git names it")
    parser.add_argument("--count", type=int, default=500, help="random programs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes per tree")
    parser.add_argument("--hash", nargs=3, metavar=("FOLDER", "K", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hash:
        folder, share, shares = options.hash
        print(json.dumps(dict(_hashed(Path(folder), int(share), int(shares)))))
        return 0
    if not options.revisions:
        parser.error("name the revision to compare with, such as HEAD~1")
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts"
        texts.mkdir()
        _write_programs(texts, options.count)
        differing = 0
        before: tuple[str, dict[str, str]] | None = None
        for name, tree in _trees(Path(folder), options.revisions):
            now = (name, _tree(tree, texts, options.jobs))
            if before is not None:
                differing += _compare(before, now)
            before = now
    return 1 if differing else 0


def _trees(folder: Path, revisions: list[str]) -> Iterator[tuple[str, Path]]:
    """Check out one revision after the other; a single one is followed by the tree at hand."""
    for number, revision in enumerate(revisions):
        tree = folder / f"tree{number}"
        add = ["git", "worktree", "add", "--quiet", "--detach", str(tree), revision]
        subprocess.run(add, cwd=ROOT, check=True)
        try:
            yield revision, tree
        finally:
            drop = ["git", "worktree", "remove", "--force", str(tree)]
            subprocess.run(drop, cwd=ROOT, check=True)
    if len(revisions) == 1:
        yield "this tree", ROOT


def _compare(before: tuple[str, dict[str, str]], now: tuple[str, dict[str, str]]) -> int:
    """Print what differs between two trees, and return how much that is."""
    (old, hashes), (new, others) = before, now
    differing = sorted(k for k in hashes.keys() | others.keys() if hashes.get(k) != others.get(k))
    for key in differing:
        print(f"differs: {key}: {hashes.get(key)} in {old}, {others.get(key)} in {new}")
    refused = sum(":" in v for v in others.values())
    print(
        f"{len(others)} compiles ({refused} refused) of {old} and of {new}: "
        f"{len(differing)} differ",
        flush=True,
    )
    return len(differing)


# -- the programs --------------------------------------------------------------------------------
def _write_programs(folder: Path, count: int) -> None:
    """Write each program to a file, behind a line of JSON with its targets and constants."""
    for k, (name, text, constants, targets) in enumerate(_programs(count)):
        head = json.dumps({"name": name, "constants": constants, "targets": targets})
        (folder / f"{k:05}.txt").write_text(f"{head}\n{text}", encoding="utf-8")


def _programs(count: int) -> Iterator[tuple[str, str, dict[str, Any], tuple[str, ...]]]:
    driver = importlib.import_module("loomir.driver")
    for path in sorted((ROOT / "examples").rglob("*.py")):
        for name, value in runpy.run_path(str(path)).items():
            try:
                module = driver.as_module(value)
            except Exception:  # noqa: BLE001 - not a program: a helper, an array, a number
                continue
            yield f"{path.relative_to(ROOT)}:{name}", module.script(), {}, TARGETS
    te = importlib.import_module("loomir.te")
    rows = importlib.import_module("benchmarks.rows").ROWS
    kernels = importlib.import_module("benchmarks.peers.loomir_default").PROGRAMS
    for row in rows:
        given = [te.placeholder(s, row.dtype, name=f"x{i}") for i, s in enumerate(row.shapes)]
        func = te.create_prim_func([*given, kernels[row.kind](row, *given)])
        constants = {f"x{i}": (row.shapes[i], row.dtype) for i in row.constant}
        yield row.name, driver.as_module(func).script(), constants, TARGETS
    families = importlib.import_module("fuzz.families.table").FAMILIES
    for k in range(count):
        family = sorted(families)[k % len(families)]
        target = TARGETS[k // len(families) % len(TARGETS)]
        yield f"{family} {k}", families[family](k).module.script(), {}, (target,)


# -- one tree ------------------------------------------------------------------------------------
def _tree(tree: Path, texts: Path, jobs: int) -> dict[str, str]:
    """Compile all programs by the sources of a tree, in so many processes."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    command = [sys.executable, str(Path(__file__)), "--hash", str(texts)]
    workers = [
        subprocess.Popen(
            [*command, str(k), str(jobs)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        for k in range(jobs)
    ]
    made: dict[str, str] = {}
    for worker in workers:
        out, _ = worker.communicate()
        if worker.returncode != 0:
            sys.exit(f"a worker of {tree} ended with {worker.returncode}")
        made |= json.loads(out)
    return made


def _hashed(folder: Path, share: int, shares: int) -> Iterator[tuple[str, str]]:
    """Compile one share of the programs with the ``loomir`` that is imported here."""
    loomir = importlib.import_module("loomir")
    script = importlib.import_module("loomir.script")
    for path in sorted(folder.iterdir())[share::shares]:
        head, text = path.read_text(encoding="utf-8").split("\n", 1)
        facts = json.loads(head)
        constants = {k: _weights(*v) for k, v in facts["constants"].items()}
        for target in facts["targets"]:
            try:
                program = script.from_source(text)
                made = loomir.compile(program, target, cache=False, constants=constants)
                told = hashlib.sha256(made.assembly().encode()).hexdigest()[:16]
            except Exception as error:  # noqa: BLE001 - what is refused must be refused alike
                told = f"{type(error).__name__}: {error}"
            yield f"{facts['name']} for {target}", told


def _weights(shape: list[int], dtype: str) -> Any:
    np = importlib.import_module("numpy")
    made = np.random.default_rng(0).standard_normal(shape)
    return made.astype(getattr(importlib.import_module("ml_dtypes"), dtype, dtype))


if __name__ == "__main__":
    sys.exit(main())
