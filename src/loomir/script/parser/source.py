"""Find the source of a decorated object, by the syntax tree of the file that contains it.

The file is read through ``linecache``, so programs work wherever Python keeps their source:
modules, interactive sessions, doctests, and ``exec`` of a text that was registered there.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from loomir.script.builder.mistakes import mistake
from loomir.script.parser.convert import Places, parse_text
from loomir.support.diagnostics import CompileError
from loomir.support.span import Source

__all__ = [
    "Definition",
    "class_around",
    "find_class",
    "find_function",
    "live_scopes_of",
    "scopes_of",
]


class Definition(NamedTuple):
    """A definition in a file, the classes and functions around it outermost first."""

    node: ast.AST
    places: Places
    around: tuple[ast.AST, ...]


class _File(NamedTuple):
    lines: tuple[str, ...]
    places: Places
    definitions: list[tuple[ast.AST, tuple[ast.AST, ...]]]


# The file that was read last: decorators of one file come one after the other.
_LAST: dict[str, _File] = {}


def _file(name: str, globals_: Mapping[str, Any]) -> _File:
    linecache.checkcache(name)
    lines = tuple(linecache.getlines(name, dict(globals_)))
    known = _LAST.get(name)
    if known is not None and known.lines == lines:
        return known
    if not lines:
        raise _no_source(name)
    try:
        tree, places = parse_text(Source(name, "".join(lines)))
    except CompileError as error:
        raise _no_source(name) from error
    made = _File(lines, places, _definitions(tree))
    _LAST.clear()
    _LAST[name] = made
    return made


def _no_source(name: str) -> CompileError:
    return mistake(
        "SCR0011",
        "the source of this program cannot be found",
        notes=(f"it was defined in {name}",),
        help="write it in a file, or give its text to loomir.script.from_source",
    )


def _definitions(tree: ast.AST) -> list[tuple[ast.AST, tuple[ast.AST, ...]]]:
    found: list[tuple[ast.AST, tuple[ast.AST, ...]]] = []
    stack: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while stack:
        node, around = stack.pop()
        is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if is_definition:
            found.append((node, around))
            around = (*around, node)
        if isinstance(node, ast.expr):
            continue
        stack.extend((part, around) for part in ast.iter_child_nodes(node))
    return found


def _find_first_line(node: Any) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def find_function(code: CodeType, globals_: Mapping[str, Any]) -> Definition:
    """Find the definition of a function.

    Errors: SCR0011.
    """
    file = _file(code.co_filename, globals_)
    for node, around in file.definitions:
        if (
            isinstance(node, ast.FunctionDef)
            and node.name == code.co_name
            and code.co_firstlineno in (_find_first_line(node), node.lineno)
        ):
            return Definition(node, file.places, around)
    raise _no_source(code.co_filename)


def find_class(cls: type, frame: FrameType) -> Definition:
    """Find the definition of a class that ``frame`` is decorating.

    Errors: SCR0011.
    """
    name = frame.f_code.co_filename
    file = _file(name, frame.f_globals)
    path = [part for part in cls.__qualname__.split(".") if part != "<locals>"]
    fitting = [
        Definition(node, file.places, around)
        for node, around in file.definitions
        if isinstance(node, ast.ClassDef)
        and [getattr(part, "name", "") for part in (*around, node)][-len(path) :] == path
    ]
    at = frame.f_lineno
    for found in fitting:
        node: Any = found.node
        if _find_first_line(node) <= at <= node.end_lineno:
            return found
    if len(fitting) == 1:
        return fitting[0]
    raise _no_source(name)


def class_around(definition: Definition) -> ast.ClassDef | None:
    """Return the class whose body a definition stands in, or None."""
    last = definition.around[-1] if definition.around else None
    return last if isinstance(last, ast.ClassDef) else None


class _Cells(Mapping[str, object]):
    """What the names of a function's closure mean, looked up when asked for."""

    def __init__(self, func: Any) -> None:
        self.cells = dict(zip(func.__code__.co_freevars, func.__closure__ or (), strict=True))

    def __getitem__(self, name: str) -> object:
        try:
            return self.cells[name].cell_contents
        except ValueError as error:  # not assigned yet
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)


def live_scopes_of(func: FunctionType) -> tuple[Mapping[str, object], ...]:
    """List the names that a function can see, with the meanings of the time when they are used."""
    return (_Cells(func), func.__globals__)


def scopes_of(frame: FrameType, func: Any = None) -> list[Mapping[str, object]]:
    """List the names that a definition can see: its closure, locals around it, globals."""
    found: list[Mapping[str, object]] = []
    if func is not None and func.__closure__:
        closure: dict[str, object] = {}
        for name, cell in zip(func.__code__.co_freevars, func.__closure__, strict=True):
            try:
                closure[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        found.append(closure)
    at: FrameType | None = frame
    while at is not None and at.f_locals is not at.f_globals:
        found.append(dict(at.f_locals))
        # Names of a function around a class body are not among the body's own.
        inside_class = not at.f_code.co_flags & inspect.CO_OPTIMIZED
        at = at.f_back if inside_class else None
    found.append(frame.f_globals)
    return found
