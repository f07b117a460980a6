"""The process that compiles programs for another CPU; engines: a family, a target and a Python.

contractions neoverse-n1 /tmp/arm/python-neoverse-n1

Without a Python, programs are only compiled.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Final

import loomir
from fuzz.choices import SeedChoices
from fuzz.cross.parcel import read_parcel, write_parcel
from fuzz.default_schedule.small_machines import LEVELS, draw_size
from fuzz.families.cases import Case, is_graph, outcome
from fuzz.families.table import FAMILIES
from fuzz.serving import answer_of, complaints, serve

__all__ = ["answer", "main", "stop_runners"]


class _Runner:
    """The other Python, started anew when it dies."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="loomir-cross-")
        self.folder = Path(self._folder.name)

    def call(self, entry: str, threads: int, wanted: str) -> str:
        """Run what is in the folder, and keep what is wanted of it; return what went wrong."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        line = ""
        try:
            process.stdin.write(f"{self.folder} {entry} {threads} {wanted}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            pass
        if line:
            said: str = json.loads(line)
            return said
        status = process.wait()
        self.close()
        return f"the process ended with status {status}"

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def remove_folder(self) -> None:
        """Remove the folder; nothing can be called after that."""
        self._folder.cleanup()

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [self._python, "-m", "fuzz.cross.runner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        return self._process


_RUNNERS: Final[dict[str, _Runner]] = {}


def _run_elsewhere(case: Case, name: str, python: str) -> str:
    """Compile a case here, run it there, and judge what comes of it."""
    choices = SeedChoices(f"cross {case.seed} {name}")
    level, threads = int(choices.weighted(LEVELS)), int(choices.weighted(((2.0, 1), (1.0, 2))))
    with draw_size(choices, name) as target:
        exe = loomir.compile(case.module, target, opt_level=level, cache=False)
    if not python:
        exe.save(os.devnull)
        return ""
    runner = _RUNNERS.get(python)
    if runner is None:
        runner = _RUNNERS[python] = _Runner(python)
    exe.save(str(runner.folder / "program.loom"))
    write_parcel(runner.folder / "arguments", case.arguments)
    said = runner.call(case.entry, threads, "result" if is_graph(case) else "arguments")
    if not said:
        said = outcome(case, read_parcel(runner.folder / "results"))
    return f"opt_level {level}, {threads} threads: {said}" if said else ""


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Draw the case of a seed, and run it for the target."""
    family, name, *rest = engines
    python = rest[0] if rest else ""
    started = time.process_time()
    case = FAMILIES[family](seed)
    spent = {"draw": time.process_time() - started}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = complaints([name], lambda target: _run_elsewhere(case, target, python), spent)
    return answer_of(seed, [name], found, (), spent)


def stop_runners() -> None:
    """End the other Pythons, and remove their folders."""
    for runner in _RUNNERS.values():
        runner.close()
        runner.remove_folder()
    _RUNNERS.clear()


def main() -> None:
    """Answer requests until there are no more."""
    try:
        serve(answer)
    finally:
        stop_runners()


if __name__ == "__main__":
    main()
