"""Read the programs of a Python file without running the file."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from loomir.ir.trust import mark_untrusted
from loomir.script.builder.frame import Built
from loomir.script.parser import doc
from loomir.script.parser.convert import Places, convert, parse_text
from loomir.script.parser.core import Parser
from loomir.script.parser.entry import read_tree, sort_mistakes
from loomir.script.parser.evaluate.captured import Captured
from loomir.script.parser.evaluate.evaluator import Poisoned
from loomir.script.parser.evaluate.namespaces import BY_IMPORT, Namespace
from loomir.script.parser.module import visit_module
from loomir.support.compile_warning import caution
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Source

__all__ = ["FileOfPrograms", "holds_programs", "parse_file", "read_file"]

Program: TypeAlias = Built

_DECORATORS: Final = frozenset({"prim_func", "ir_module", "function"})
_MACROS: Final = frozenset({"macro", "inline"})


class ValueOfTheFile:
    """A value that only running the file would give."""


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
        if _is_head(part):
            head.append(part)
        elif isinstance(part, (ast.FunctionDef, ast.ClassDef)) and _is_under(part, _DECORATORS):
            try:
                programs[part.name] = _read_one(head, part, values, places, warnings)
            except CompileError as error:
                problems += error.diagnostics
        elif isinstance(part, ast.Assign):
            _note_constants(part, values, places)
            values.update({k: v for k, v in (constants or {}).items() if k in values})
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            for alias in part.names:
                values[(alias.asname or alias.name).split(".")[0]] = ValueOfTheFile()
        elif isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            values[part.name] = ValueOfTheFile()
    if problems:
        raise CompileError.of(sort_mistakes(problems))
    return FileOfPrograms(programs, tuple(warnings))


def holds_programs(tree: ast.Module) -> bool:
    """Tell whether a file defines a program at its top level."""
    return any(
        isinstance(part, (ast.FunctionDef, ast.ClassDef)) and _is_under(part, _DECORATORS)
        for part in tree.body
    )


def _is_head(part: ast.stmt) -> bool:
    """Tell whether a statement means something to the programs below it: an import, a macro.

    So does the section of metadata that printed programs begin with.
    """
    if isinstance(part, ast.ImportFrom):
        return _names_dialects(part)
    if isinstance(part, ast.Assign):
        called = part.value.func if isinstance(part.value, ast.Call) else None
        return isinstance(called, ast.Attribute) and called.attr == "load_json"
    return isinstance(part, ast.FunctionDef) and _is_under(part, _MACROS)


def _names_dialects(part: ast.ImportFrom) -> bool:
    """Tell whether an import is of ``T``, ``I`` and their like, and of nothing else."""
    homes = ("loomir", "loomir.script", "tvm", "tvm.script", "tvm.script.parser")
    return part.module in homes and all(alias.name in BY_IMPORT for alias in part.names)


def _is_under(part: ast.FunctionDef | ast.ClassDef, names: frozenset[str]) -> bool:
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
    parser = Parser(Captured(dict(values)))
    module = ast.Module(body=[*head, part], type_ignores=[])

    def read(node: doc.AST) -> None:
        visit_module(parser, cast("doc.Module", node))

    made = read_tree(parser, module, places, read)
    warnings += parser.builder.warnings
    return made


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
    parser = Parser(Captured(dict(values)))
    node = convert(expr, places, parser.problems)
    if node is None or parser.problems:
        return ValueOfTheFile()
    try:
        found = parser.evaluate(cast("doc.ExprNode", node))
    except (CompileError, Poisoned):
        return ValueOfTheFile()
    return ValueOfTheFile() if isinstance(found, Namespace) else found
