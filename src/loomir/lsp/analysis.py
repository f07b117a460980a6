"""Analyse a file for an editor: mistakes, names and their meanings, functions.

The file is parsed, never run. A program in it is parsed again only if its text changed, or
something before it that it uses.
"""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final, NamedTuple

from loomir.check.relax.verify import verify, warnings_of
from loomir.lsp.meanings import Binding, Bindings
from loomir.lsp.places import Place, lines_of, place_of
from loomir.script.parser.whole_file import Part, ReadResult, is_under, parts_of, read_part
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError
from loomir.tc.lower import lower
from loomir.tc.parse import parse

__all__ = ["Analysis", "Analyzer", "Finding", "Symbol", "is_tc"]

_KEPT: Final = 4096
"""How many programs are cached."""
_NAMES_A_LINE: Final = re.compile(r"\bline \d")


class Finding(NamedTuple):
    """An error, a warning or a hint, with its location."""

    place: Place
    code: str
    severity: str
    message: str
    related: tuple[tuple[Place, str], ...] = ()

    def move(self, lines: int) -> Finding:
        """Return the finding moved down by some lines."""
        related = tuple((place.move(lines), text) for place, text in self.related)
        return self._replace(place=self.place.move(lines), related=related)


class Symbol(NamedTuple):
    """A function or module in the outline."""

    name: str
    kind: str
    place: Place
    name_place: Place
    parts: tuple[Symbol, ...] = ()


class Analysis(NamedTuple):
    """The analysis of one version of a file."""

    text: str
    findings: tuple[Finding, ...]
    bindings: tuple[Binding, ...]
    symbols: tuple[Symbol, ...]

    def functions(self) -> Iterator[Symbol]:
        """List the functions and modules, also those inside modules."""
        stack = list(reversed(self.symbols))
        while stack:
            symbol = stack.pop()
            yield symbol
            stack += reversed(symbol.parts)


class _Read(NamedTuple):
    """The analysis of one program, relative to its first line; ``outside`` is in other files."""

    findings: tuple[Finding, ...]
    bindings: tuple[Binding, ...]
    outside: tuple[Finding, ...] = ()


def is_tc(name: str) -> bool:
    """Tell whether a file is in Tensor Comprehensions."""
    return PurePath(name).suffix == ".tc"


class Analyzer:
    """Analyses versions of files, and caches the programs in them."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ...], _Read] = OrderedDict()
        self.reads = 0
        """How many programs were read, rather than found in the cache."""

    def analyze(
        self, text: str, name: str, is_wanted: Callable[[], bool] = lambda: True
    ) -> Analysis | None:
        """Analyse a file; None as soon as ``is_wanted`` says that there is a newer version."""
        if is_tc(name):
            return _analyze_tc(text, name)
        try:
            tree, parts = parts_of(text, name)
        except CompileError as error:
            return Analysis(text, tuple(_make_finding(d) for d in error.diagnostics), (), ())
        findings: list[Finding] = []
        bindings: list[Binding] = []
        for part in parts:
            if not is_wanted():
                return None
            start = Place.of_node(part.node).line - 1
            read = self._read(part, start)
            findings += [*(f.move(start) for f in read.findings), *read.outside]
            bindings += [b.move(start) for b in read.bindings]
        # Every program that uses a macro reports its mistakes.
        findings = list(dict.fromkeys(findings))
        return Analysis(text, tuple(findings), tuple(bindings), _symbols(tree, lines_of(text)))

    def _read(self, part: Part, start: int) -> _Read:
        key = part.key()
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        self.reads += 1
        made = _read_program(part, start)
        if not made.outside and not any(_NAMES_A_LINE.search(f.message) for f in made.findings):
            self._known[key] = made
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return made


def _read_program(part: Part, start: int) -> _Read:
    """Analyse one program: its mistakes, and the meanings of its names."""
    bindings = Bindings()
    try:
        found = read_part(part, bindings.note)
        problems = _list_mistakes(found)
    except LoomirError as error:  # a bug of Loomir must not hide the rest of the file
        text = f"this program cannot be checked: {error}"
        where = Place.of_node(part.node)
        return _Read((Finding(where, "", "hint", text).move(-start),), ())
    if found.program is not None:
        bindings.explain(found.program)
    findings = [_make_finding(d) for d in problems]
    findings += [
        Finding(
            place_of(span),
            "",
            "hint",
            f"{name} is known only once the file runs: what depends on it is not checked",
        )
        for name, span in found.unknown.items()
    ]
    name = part.source.name
    return _Read(
        tuple(f.move(-start) for f in findings if f.place.line > start),
        tuple(b.move(-start) for b in bindings.list_file(name) if b.place.line > start),
        tuple(f for f in findings if f.place.line <= start),
    )


def _list_mistakes(found: ReadResult) -> list[Diagnostic]:
    """List the mistakes and warnings that verifying a parsed program finds."""
    problems = [*found.problems, *found.warnings]
    if found.program is not None and not found.problems:
        mistakes = verify(found.program)
        problems += mistakes or warnings_of(found.program)
    return problems


def _analyze_tc(text: str, name: str) -> Analysis:
    try:
        problems = lower(parse(text, name)).warnings
    except CompileError as error:
        problems = error.diagnostics
    symbols = tuple(
        Symbol(m["name"], "function", place, place)
        for m in re.finditer(r"^[ \t]*def[ \t]+(?P<name>\w+)", text, re.MULTILINE)
        for place in (Place.of_offsets(text, m.start("name"), m.end("name")),)
    )
    return Analysis(text, tuple(_make_finding(d) for d in problems), (), symbols)


def _make_finding(problem: Diagnostic) -> Finding:
    span = problem.span
    place = Place(1, 1, 1, 1) if span is None else place_of(span)
    lines = [problem.message + (f": {problem.label}" if problem.label else "")]
    lines += [f"note: {note}" for note in problem.notes]
    lines += [f"help: {problem.help}"] * bool(problem.help)
    related = tuple(
        (place_of(other), label or "see here")
        for other, label in problem.secondary
        if span is not None and other.source.name == span.source.name
    )
    return Finding(place, problem.code, problem.severity, "\n".join(lines), related)


# -- the outline ---------------------------------------------------------------------------------
_PROGRAMS: Final = frozenset({"prim_func", "function", "ir_module", "macro", "inline"})


def _symbols(tree: ast.Module, lines: list[str]) -> tuple[Symbol, ...]:
    return tuple(
        _symbol(node, lines, tuple(_symbol(part, lines) for part in _list_defined(node)))
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and is_under(node, _PROGRAMS)
    )


def _list_defined(node: ast.FunctionDef | ast.ClassDef) -> list[ast.FunctionDef]:
    if isinstance(node, ast.FunctionDef):
        return []
    return [part for part in node.body if isinstance(part, ast.FunctionDef)]


def _symbol(
    node: ast.FunctionDef | ast.ClassDef, lines: list[str], parts: tuple[Symbol, ...] = ()
) -> Symbol:
    kind = "module" if isinstance(node, ast.ClassDef) else "function"
    whole = Place.of_node(node)
    line = lines[node.lineno - 1]
    start = max(0, line.find(node.name, line.find(" ", node.col_offset))) + 1  # after ``def``
    name = Place(node.lineno, start, node.lineno, start + len(node.name))
    return Symbol(node.name, kind, whole, name, parts)
