"""Report the lines and branches of the scheduling rules that a campaign reached.

    python -m fuzz.schedules --family contractions --count 1000 --unrun --reach reach.txt
    python -m fuzz.reach reach.txt

The second command prints what the first one wrote: a table of modules, then what was not reached.
Runs accumulate in ``reach.txt.json`` beside the report, except for modules that have changed since.
A branch is an ``if`` or ``while`` that does what it guards, or that does not. A candidate is what a
rule could decide at a place (``autoschedule/ir/decision.py``), reached where it was chosen.

Modules that only look for mistakes of other modules (``VERIFIERS``) are not in the report: most of
them runs only for loops that no rule makes, which are those of their tests.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import loomir.autoschedule

__all__ = [
    "FOLDER",
    "VERIFIERS",
    "Candidate",
    "Function",
    "Recorder",
    "functions_of",
    "merged",
    "written",
]

FOLDER: Final = Path(loomir.autoschedule.__file__).parent
VERIFIERS: Final = "verify_"
"""What names of modules begin with that verify what others made."""
_MOST: Final = 24
"""Candidates that are listed of a decision, of those that were never chosen."""
_TURNS: Final = 10
"""Programs between two counts of what has run."""
_LEFT: Final = -1
"""The line that follows the last one of a call."""

Arc = tuple[str, int, int]
"""A module, a line, and the one that ran after it."""
Candidate = tuple[str, str, str, bool]
"""A module, the name of a decision in it, a candidate as JSON, and whether it was chosen."""


class Recorder:
    """Records which lines of the package run one after the other, while it is entered.

    A function of which all lines and branches ran is not looked at any more: tracing is slow.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._root = folder
        self._folder = f"{folder}/"
        self._whole: set[tuple[str, int]] = set()
        """Functions that ran in every way, by module and first line."""
        self._late: set[str] = set()
        """Modules of which more ran since functions were last counted."""
        self._turns = 0
        self._known: set[Arc] = set()
        self._new: set[Arc] = set()
        self._names: dict[str, str | None] = {}

    def __enter__(self) -> None:
        sys.settrace(self._called)

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def new(self) -> list[Arc]:
        """Return what was recorded since this was last asked."""
        found = sorted(self._new - self._known)
        self._known |= self._new
        self._new.clear()
        self._late |= {name for name, _, _ in found}
        self._turns += 1
        if self._turns % _TURNS == 0:
            self._count()
        return found

    def _count(self) -> None:
        for name in self._late:
            arcs = [(a, b) for module, a, b in self._known if module == name]
            for func in functions_of(name, (self._root / name).read_text(), arcs):
                if func.lines == func.reached and not func.missed:
                    self._whole.add((name, func.first))
        self._late.clear()

    def _name(self, filename: str) -> str | None:
        if filename not in self._names:
            inside = filename.startswith(self._folder)
            self._names[filename] = filename[len(self._folder) :] if inside else None
        return self._names[filename]

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = self._name(frame.f_code.co_filename)
        if name is None or (name, frame.f_code.co_firstlineno) in self._whole:
            return None
        arcs, last = self._new, frame.f_lineno

        def step(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal last
            if event == "line":
                arcs.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            elif event == "return":
                arcs.add((name, last, _LEFT))
            return step

        return step


class Function(NamedTuple):
    """A function of a module: its lines, those of them that ran, and branches that were not taken.

    A branch is a line and ``True``, where what it guards never ran, or ``False``.
    """

    module: str
    name: str
    first: int
    lines: frozenset[int]
    reached: frozenset[int]
    branches: int
    missed: tuple[tuple[int, bool], ...]


def functions_of(module: str, text: str, arcs: Iterable[tuple[int, int]]) -> list[Function]:
    """Say what ran of each function of a module."""
    pairs = set(arcs)
    ran = {line for _, line in pairs}
    tree = ast.parse(text)
    branches = list(_branches(tree))
    made: list[Function] = []
    for code in _codes(compile(tree, module, "exec")):
        lines = {line for _, _, line in code.co_lines() if line} - {code.co_firstlineno}
        if not lines:
            continue
        own = [b for b in branches if lines.intersection(b.tests)]
        missed: list[tuple[int, bool]] = []
        for branch in own:
            tests = branch.tests
            first = min(lines.intersection(tests))
            inside = range(branch.body, branch.body_end + 1)
            if not any(a in tests and b in inside and b not in tests for a, b in pairs):
                missed.append((first, True))
            if not any(a in tests and b not in tests and b not in inside for a, b in pairs):
                missed.append((first, False))
        name = str(getattr(code, "co_qualname", code.co_name)).replace(".<locals>", "")
        reached = frozenset(lines & ran)
        row = (frozenset(lines), reached, 2 * len(own), tuple(missed))
        made.append(Function(module, name, code.co_firstlineno, *row))
    return made


class _Branch(NamedTuple):
    tests: range
    body: int
    body_end: int


def _branches(tree: ast.AST) -> Iterator[_Branch]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While)):
            body = node.body[0]
            test_end = node.test.end_lineno or node.lineno
            if body.lineno > test_end:
                end = node.body[-1].end_lineno or body.lineno
                yield _Branch(range(node.lineno, test_end + 1), body.lineno, end)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """List the functions in a module, but not what is in their expressions."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            if not part.co_name.startswith("<") and not _is_class(part):
                yield part
            yield from _codes(part)


def _is_class(code: CodeType) -> bool:
    return "__module__" in code.co_names and "__qualname__" in code.co_names


def merged(
    data: Path,
    arcs: Iterable[Arc],
    folder: Path = FOLDER,
    candidates: Iterable[Candidate] = (),
) -> dict[str, Any]:
    """Add what was recorded to what a file holds; gives all that is known, by module."""
    known: dict[str, Any] = json.loads(data.read_text()) if data.exists() else {}
    made: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.py")):
        if path.name.startswith(VERIFIERS):
            continue
        name = str(path.relative_to(folder))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        old = known.get(name, {})
        if old.get("digest") != digest:
            old = {}
        pairs: set[tuple[int, ...]] = {tuple(arc) for arc in old.get("arcs", ())}
        made[name] = {"digest": digest, "arcs": pairs, "decisions": old.get("decisions", {})}
    for name, *pair in arcs:
        if name in made:
            made[name]["arcs"].add(tuple(pair))
    for name, decision, candidate, chosen in candidates:
        if name in made:
            of_name: dict[str, bool] = made[name]["decisions"].setdefault(decision, {})
            of_name[candidate] = of_name.get(candidate, False) or chosen
    for row in made.values():
        row["arcs"] = sorted(row["arcs"])
    data.write_text(json.dumps(made))
    return made


def written(
    report: Path,
    arcs: Iterable[Arc],
    folder: Path = FOLDER,
    candidates: Iterable[Candidate] = (),
) -> str:
    """Write a report, with what earlier runs reached; gives its first line, the sums."""
    known = merged(report.with_name(report.name + ".json"), arcs, folder, candidates)
    table: list[str] = []
    left: list[str] = []
    sums = _Counts()
    for module, row in known.items():
        counts = _Counts()
        for func in functions_of(module, (folder / module).read_text(), map(tuple, row["arcs"])):
            counts.add(func)
            sums.add(func)
            left += _told(func)
        for decision, chosen in sorted(row["decisions"].items()):
            counts.decide(chosen)
            sums.decide(chosen)
            left += _told_of_decision(f"{module} {decision}", chosen)
        if counts.functions:
            table.append(f"{module}: {counts}")
    report.write_text("\n".join([str(sums), "", *table, "", *left]) + "\n")
    return str(sums)


@dataclass
class _Counts:
    """How much there is of functions, lines and branches, and how much of each ran."""

    functions: int = 0
    entered: int = 0
    lines: int = 0
    reached: int = 0
    branches: int = 0
    taken: int = 0
    candidates: int = 0
    chosen: int = 0

    def decide(self, chosen: Mapping[str, bool]) -> None:
        self.candidates += len(chosen)
        self.chosen += sum(chosen.values())

    def add(self, func: Function) -> None:
        self.functions += 1
        self.entered += bool(func.reached)
        self.lines += len(func.lines)
        self.reached += len(func.reached)
        self.branches += func.branches
        self.taken += func.branches - len(func.missed)

    def __str__(self) -> str:
        decided = f", {self.chosen} of {self.candidates} candidates" if self.candidates else ""
        return (
            f"{self.entered} of {self.functions} functions, {self.reached} of {self.lines} lines, "
            f"{self.taken} of {self.branches} branches{decided}"
        )


def _told(func: Function) -> list[str]:
    """Describe what did not run of a function."""
    where = f"{func.module} {func.name}"
    if not func.reached:
        return [f"{where}: not reached"]
    left = sorted(func.lines - func.reached)
    made = [f"{where}: lines not reached: {', '.join(map(str, left))}"] if left else []
    for line, reached in func.missed:
        if line in func.reached:
            made.append(f"{where}: line {line} was never {reached}")
    return made


def _told_of_decision(where: str, chosen: Mapping[str, bool]) -> list[str]:
    """List the candidates that were never chosen."""
    never = [candidate for candidate, was in chosen.items() if not was]
    if not never:
        return []
    more = f" and {len(never) - _MOST} more" if len(never) > _MOST else ""
    return [f"{where}: candidates never chosen: {'; '.join(never[:_MOST])}{more}"]


def main() -> None:
    """Print the report of a file, as the modules are now."""
    for name in sys.argv[1:]:
        written(Path(name), ())
        sys.stdout.write(Path(name).read_text())


if __name__ == "__main__":
    main()
