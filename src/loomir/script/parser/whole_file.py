"""Parse the programs of a Python file without running the file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, NamedTuple, cast

from loomir.ir.trust import mark_untrusted
from loomir.script.builder.frame import Program
from loomir.script.parser import doc
from loomir.script.parser.convert import Places, convert, parse_text
from loomir.script.parser.core import Parser
from loomir.script.parser.entry import read_tree, sort_mistakes
from loomir.script.parser.evaluate.captured_names import CapturedNames
from loomir.script.parser.evaluate.dialect import PoisonedValue
from loomir.script.parser.evaluate.namespaces import BY_IMPORT, Namespace
from loomir.script.parser.evaluate.var_table import POISON, Entry
from loomir.script.parser.module import visit_module
from loomir.support.compile_warning import caution
from loomir.support.diagnostics import CompileError, Diagnostic, InternalError
from loomir.support.span import Source, Span

__all__ = [
    "FileOfPrograms",
    "FileParts",
    "Part",
    "ReadResult",
    "holds_programs",
    "is_under",
    "parse_file",
    "parts_of",
    "read_file",
    "read_part",
]

_DECORATORS: Final = frozenset({"prim_func", "ir_module", "function"})
_WORD: Final = re.compile(r"[^\W\d]\w*")
_MACROS: Final = frozenset({"macro", "inline"})


class ValueOfTheFile:
    """A value that only running the file would give."""

    def __repr__(self) -> str:
        return "unknown"


class FileOfPrograms(NamedTuple):
    """The programs of a file by name, and what may not be meant in them."""

    programs: dict[str, Program]
    warnings: tuple[Diagnostic, ...]


def parse_file(text: str, *, name: str = "<string>", trusted: bool = True) -> dict[str, Program]:
    """Read all programs of a Python file, by name, as ``from_source`` does; the file is not run.

    Constants at the top of the file (``N = 1024``) are worked out from its text. All else that is
    no program is passed over. ``trusted`` is as for ``from_source``.

    Errors: those of ``from_source``, all mistakes of all programs at once.
    """
    found = read_file(text, name=name)
    caution(found.warnings)
    if trusted:
        return found.programs
    return {key: mark_untrusted(program) for key, program in found.programs.items()}


def read_file(
    text: str, *, name: str, constants: Mapping[str, int | float] | None = None
) -> FileOfPrograms:
    """Read all programs of a Python file, as ``parse_file`` does, and list the warnings.

    ``constants`` replace those of the file, by name.
    """
    tree, places = parse_text(Source(name, text))
    head: list[ast.stmt] = []
    values: dict[str, object] = {}
    programs: dict[str, Program] = {}
    problems: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    for part in tree.body:
        if not _is_program(part):
            _note(part, head, values, places, constants or {})
            continue
        node = cast("ast.FunctionDef", part)
        try:
            programs[node.name] = _read_one(head, node, values, places, warnings)
        except CompileError as error:
            problems += error.diagnostics
    if problems:
        raise CompileError.of(sort_mistakes(problems))
    return FileOfPrograms(programs, tuple(warnings))


class Part(NamedTuple):
    """A program of a file, before it is read: what stands before it, and constants known there."""

    source: Source
    head: tuple[ast.stmt, ...]
    node: ast.FunctionDef | ast.ClassDef
    values: dict[str, object]
    places: Places

    def key(self) -> tuple[str, ...]:
        """Return all that the reading rests on, but for the lines where the program stands."""
        texts = [_lines_of(part, self.source) for part in (*self.head, self.node)]
        names = {name for text in texts for name in _WORD.findall(text)}
        used = [f"{name}={self.values[name]!r}" for name in sorted(names & self.values.keys())]
        return (self.source.name, *used, *texts)


class ReadResult(NamedTuple):
    """What was read of a program: itself where nothing is wrong, and all mistakes in it.

    ``unknown`` are the values that only running the file would give, where they are used first.
    """

    program: Program | None
    problems: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]
    unknown: dict[str, Span]


class _FileConstants(CapturedNames):
    """The constants of a file; what rests on an unknown one is passed over without a mistake."""

    def __init__(self, values: Mapping[str, object]) -> None:
        super().__init__(values)
        self.unknown: set[str] = set()

    def get(self, name: str) -> object:
        """Find a value."""
        if isinstance(self.scopes[0].get(name), ValueOfTheFile):
            self.unknown.add(name)
            return POISON
        return super().get(name)


class FileParts(NamedTuple):
    """A file as Python reads it, and its programs."""

    tree: ast.Module
    parts: tuple[Part, ...]


def parts_of(text: str, name: str) -> FileParts:
    """List the programs of a file, to be read one by one.

    Errors: SCR0001 where the file is no Python.
    """
    source = Source(name, text)
    tree, places = parse_text(source)
    head: list[ast.stmt] = []
    values: dict[str, object] = {}
    found: list[Part] = []
    for part in tree.body:
        if _is_program(part):
            node = cast("ast.FunctionDef", part)
            found.append(Part(source, tuple(head), node, dict(values), places))
        else:
            _note(part, head, values, places, {})
    return FileParts(tree, tuple(found))


def read_part(part: Part, watch: Callable[[str, Entry], None] | None = None) -> ReadResult:
    """Read one program; ``watch`` is called with each name that is bound."""
    captured = _FileConstants(part.values)
    parser = Parser(captured)
    parser.vars.watch = watch
    program, problems = None, ()
    try:
        program = _read_by(parser, list(part.head), part.node, part.places)
    except CompileError as error:
        problems = error.diagnostics
    except InternalError:
        if not captured.unknown:
            raise
    warnings = tuple(parser.builder.warnings)
    return ReadResult(program, problems, warnings, _uses(part, captured.unknown))


def _uses(part: Part, names: Set[str]) -> dict[str, Span]:
    """Find where names are used first."""
    found: dict[str, Span] = {}
    for node in ast.walk(part.node):
        if isinstance(node, ast.Name) and node.id in names:
            line = part.source.line(node.lineno) or ""
            column = len(line.encode()[: node.col_offset].decode(errors="replace")) + 1
            span = Span(part.source, node.lineno, column, node.lineno, column + len(node.id))
            known = found.get(node.id)
            if known is None or (span.line, span.column) < (known.line, known.column):
                found[node.id] = span
    return found


def _lines_of(part: ast.stmt, source: Source) -> str:
    first = min([part.lineno, *(d.lineno for d in getattr(part, "decorator_list", ()))])
    last = part.end_lineno or part.lineno
    return "\n".join(source.line(number) or "" for number in range(first, last + 1))


def holds_programs(tree: ast.Module) -> bool:
    """Tell whether a file defines a program at its top level."""
    return any(map(_is_program, tree.body))


def _is_program(part: ast.stmt) -> bool:
    return isinstance(part, (ast.FunctionDef, ast.ClassDef)) and is_under(part, _DECORATORS)


def _note(
    part: ast.stmt,
    head: list[ast.stmt],
    values: dict[str, object],
    places: Places,
    constants: Mapping[str, int | float],
) -> None:
    """Note what a statement beside the programs of a file means to those below it."""
    if _is_head(part):
        head.append(part)
    elif isinstance(part, ast.Assign) and _names_an_extent(part):
        pass  # as a string would: shapes declare the name themselves
    elif isinstance(part, ast.Assign):
        _note_constants(part, values, places)
        values.update({k: v for k, v in constants.items() if k in values})
    elif isinstance(part, (ast.Import, ast.ImportFrom)):
        for alias in part.names:
            values[(alias.asname or alias.name).split(".")[0]] = ValueOfTheFile()
    elif isinstance(part, (ast.FunctionDef, ast.ClassDef)):
        values[part.name] = ValueOfTheFile()


def _is_head(part: ast.stmt) -> bool:
    """Tell whether a statement means something to the programs below it: an import, a macro.

    So does the section of metadata that printed programs begin with.
    """
    if isinstance(part, ast.ImportFrom):
        return _names_dialects(part)
    if isinstance(part, ast.Assign):
        called = part.value.func if isinstance(part.value, ast.Call) else None
        return isinstance(called, ast.Attribute) and called.attr == "load_json"
    return isinstance(part, ast.FunctionDef) and is_under(part, _MACROS)


def _names_an_extent(part: ast.Assign) -> bool:
    """Tell whether this is ``n = TypeVar("n")``."""
    called = part.value.func if isinstance(part.value, ast.Call) else None
    return getattr(called, "id", getattr(called, "attr", "")) == "TypeVar"


def _names_dialects(part: ast.ImportFrom) -> bool:
    """Tell whether an import is of ``T``, ``I`` and their like, and of nothing else."""
    homes = ("loomir", "loomir.script", "tvm", "tvm.script", "tvm.script.parser")
    return part.module in homes and all(alias.name in BY_IMPORT for alias in part.names)


def is_under(part: ast.FunctionDef | ast.ClassDef, names: frozenset[str]) -> bool:
    """Whether one of its decorators is an attribute of one of these names, or a call of it."""
    for decorator in part.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(called, ast.Attribute) and called.attr in names:
            return True
    return False


def _read_one(
    head: list[ast.stmt],
    part: ast.stmt,
    values: dict[str, object],
    places: Places,
    warnings: list[Diagnostic],
) -> Program:
    """Read a program below the imports of its file, with the constants known so far."""
    parser = Parser(CapturedNames(dict(values)))
    made = _read_by(parser, head, part, places)
    warnings += parser.builder.warnings
    return made


def _read_by(parser: Parser, head: list[ast.stmt], part: ast.stmt, places: Places) -> Program:
    module = ast.Module(body=[*head, part], type_ignores=[])

    def read(node: doc.AST) -> None:
        visit_module(parser, cast("doc.Module", node))

    return read_tree(parser, module, places, read)


def _note_constants(part: ast.Assign, values: dict[str, object], places: Places) -> None:
    """Work out ``NAME = value`` and ``A, B = value``; what cannot be is noted as unknown."""
    value = _value_of(part.value, values, places)
    for target in part.targets:
        if isinstance(target, ast.Name):
            values[target.id] = value
        elif isinstance(target, ast.Tuple):
            items: list[Any] = []
            if isinstance(value, (tuple, list)):
                items = list(cast("tuple[Any, ...]", value))
            for index, item in enumerate(target.elts):
                if isinstance(item, ast.Name):
                    known = len(items) == len(target.elts)
                    values[item.id] = items[index] if known else ValueOfTheFile()


def _value_of(expr: ast.expr, values: dict[str, object], places: Places) -> object:
    parser = Parser(CapturedNames(dict(values)))
    node = convert(expr, places, parser.problems)
    if node is None or parser.problems:
        return ValueOfTheFile()
    try:
        found = parser.evaluate(cast("doc.ExprNode", node))
    except (CompileError, PoisonedValue):
        return ValueOfTheFile()
    return ValueOfTheFile() if isinstance(found, Namespace) else found
