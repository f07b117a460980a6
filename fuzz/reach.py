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
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

__all__ = [
    "FOLDER",
    "PACKAGE",
    "REACH",
    "VERIFIERS",
    "Candidate",
    "Function",
    "Recorder",
    "functions_of",
    "merged",
    "written",
]

REACH: Final = "LOOMIR_FUZZ_REACH"
"""The variable of the environment that asks which lines are reached."""
PACKAGE: Final = "loomir.autoschedule"
VERIFIERS: Final = "verify_"
"""What names of modules begin with that verify what others made."""
_MOST: Final = 24
"""Candidates that are listed of a decision, of those that were never chosen."""
_HITS: Final = "__reached__"
"""The global name by which modules note what ran."""


def _folder_of(package: str) -> Path:
    """Find a package without importing its modules, which are changed when they are imported."""
    top, *inner = package.split(".")
    spec = importlib.util.find_spec(top)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]).joinpath(*inner)


FOLDER: Final = _folder_of(PACKAGE)

STATEMENT, TAKEN, LEFT = 0, 1, 2
"""What ran at a line: the statement that begins there, what an ``if`` guards, or what else."""

Ran = tuple[str, int, int]
"""A module, a line, and what ran there."""
Candidate = tuple[str, str, str, bool]
"""A module, the name of a decision in it, a candidate as JSON, and whether it was chosen."""


class Recorder:
    """Changes modules so that they note what runs in them: that costs little, unlike tracing."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.hits = bytearray()
        self._places: list[Ran] = []
        self._known: set[Ran] = set()

    def compiled(self, path: Path) -> CodeType:
        """Compile a module of the folder with notes in it."""
        tree = ast.parse(path.read_text())
        name = str(path.relative_to(self.folder))
        for func in ast.walk(tree):
            if isinstance(func, ast.FunctionDef):
                self._note_body(name, func)
        return compile(ast.fix_missing_locations(tree), str(path), "exec")

    def run(self, module: ModuleType, path: Path) -> None:
        """Run a module of the folder with notes in it."""
        vars(module)[_HITS] = self.hits
        exec(self.compiled(path), vars(module))  # noqa: S102 - it is what importing does

    def install(self, package: str = PACKAGE) -> None:
        """Change the modules of a package that are imported from now on."""
        sys.meta_path.insert(0, _Finder(self, package))

    def new(self) -> list[Ran]:
        """Return what ran since this was last asked."""
        found = {self._places[k] for k, ran in enumerate(self.hits) if ran} - self._known
        self._known |= found
        return sorted(found)

    def _note_body(self, module: str, func: ast.AST) -> None:
        """Put notes before the statements in a function, but not in functions within."""
        for holder, field, stmts in list(_bodies(func)):
            made: list[ast.stmt] = []
            for stmt in stmts:
                if not _is_bare(stmt):
                    made.append(self._note(module, STATEMENT, stmt))
                made.append(stmt)
            setattr(holder, field, made)
        for branch in _branches(func):
            branch.body.insert(0, self._note(module, TAKEN, branch))
            branch.orelse.insert(0, self._note(module, LEFT, branch))

    def _note(self, module: str, what: int, at: ast.stmt) -> ast.stmt:
        self._places.append((module, at.lineno, what))
        self.hits.append(0)
        place = ast.Constant(len(self.hits) - 1)
        target = ast.Subscript(ast.Name(_HITS, ast.Load()), place, ast.Store())
        return ast.copy_location(ast.Assign([target], ast.Constant(1)), at)


_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HOLDERS: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)


class _Finder(MetaPathFinder):
    def __init__(self, recorder: Recorder, package: str) -> None:
        self.recorder, self.package = recorder, package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{self.package}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = _Loader(self.recorder, spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, recorder: Recorder, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self.recorder = recorder

    def exec_module(self, module: ModuleType) -> None:
        self.recorder.run(module, Path(self.path))


def _within(func: ast.AST) -> Iterator[ast.AST]:
    """List the nodes of a function that hold its statements; those of functions within do not."""
    todo: list[ast.AST] = [func]
    while todo:
        node = todo.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _SCOPES) and isinstance(child, _HOLDERS):
                todo.append(child)


def _bodies(func: ast.AST) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    """List the bodies in a function, but not in functions within: what holds each, and as what."""
    for holder in _within(func):
        for field in ("body", "orelse", "finalbody"):
            stmts = getattr(holder, field, None)
            if isinstance(stmts, list):
                yield holder, field, stmts


def _branches(func: ast.AST) -> list[ast.If | ast.While]:
    """List the places in a function that go one of two ways: ``while True`` does not."""
    found = [node for node in _within(func) if isinstance(node, (ast.If, ast.While))]
    return [node for node in found if not isinstance(node.test, ast.Constant)]


def _is_bare(stmt: ast.stmt) -> bool:
    """Whether a statement is a docstring or an ellipsis."""
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)


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


def functions_of(module: str, text: str, ran: Iterable[tuple[int, int]]) -> list[Function]:
    """Say what ran of each function of a module."""
    known = set(ran)
    made: list[Function] = []
    for name, func in _functions(ast.parse(text), ""):
        stmts = [s for _, _, body in _bodies(func) for s in body if not _is_bare(s)]
        lines = frozenset(s.lineno for s in stmts)
        if not lines:
            continue
        branches = [branch.lineno for branch in _branches(func)]
        missed = [
            (line, what == TAKEN)
            for line in sorted(branches)
            for what in (TAKEN, LEFT)
            if (line, what) not in known
        ]
        reached = frozenset(line for line in lines if (line, STATEMENT) in known)
        row = (lines, reached, 2 * len(branches), tuple(missed))
        made.append(Function(module, name, func.lineno, *row))
    return made


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """List the functions in a module by their qualified names."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inner = f"{prefix}{child.name}."
        if isinstance(child, ast.FunctionDef):
            yield f"{prefix}{child.name}", child
        yield from _functions(child, inner)


def merged(
    data: Path,
    ran: Iterable[Ran],
    folder: Path = FOLDER,
    candidates: Iterable[Candidate] = (),
) -> dict[str, Any]:
    """Add what was recorded to what a file holds; return all that is known, by module."""
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
        places: set[tuple[int, ...]] = {tuple(place) for place in old.get("ran", ())}
        made[name] = {"digest": digest, "ran": places, "decisions": old.get("decisions", {})}
    for name, *place in ran:
        if name in made:
            made[name]["ran"].add(tuple(place))
    for name, decision, candidate, chosen in candidates:
        if name in made:
            of_name: dict[str, bool] = made[name]["decisions"].setdefault(decision, {})
            of_name[candidate] = of_name.get(candidate, False) or chosen
    for row in made.values():
        row["ran"] = sorted(row["ran"])
    data.write_text(json.dumps(made))
    return made


def written(
    report: Path,
    ran: Iterable[Ran],
    folder: Path = FOLDER,
    candidates: Iterable[Candidate] = (),
) -> str:
    """Write a report, with what earlier runs reached; return its first line, the sums."""
    known = merged(report.with_name(report.name + ".json"), ran, folder, candidates)
    table: list[str] = []
    left: list[str] = []
    sums = _Counts()
    for module, row in known.items():
        counts = _Counts()
        for func in functions_of(module, (folder / module).read_text(), map(tuple, row["ran"])):
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
