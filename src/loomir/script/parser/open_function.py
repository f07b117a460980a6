"""Generic functions, whose parameters have open types, parsed once for each set of types.

An array is open if its parameter has no annotation or a bare ``T.Buffer`` or ``R.Tensor``, or if
this lacks the shape or has ``...`` as the dtype; a number is open if it has no annotation. A
function that mentions the language of graphs is one.
"""

from __future__ import annotations

import ast
import copy
import pickle
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple, cast

from loomir.relax.expr import Function
from loomir.runtime.errors import RunTypeError
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.mistakes import mistake
from loomir.script.parser import doc, source
from loomir.script.parser.convert import Places, parse_text
from loomir.script.parser.core import Parser
from loomir.script.parser.decorators import Options
from loomir.script.parser.entry import read_tree
from loomir.script.parser.evaluate.captured_names import CapturedNames
from loomir.script.parser.evaluate.namespaces import FUNCTION, PRIM_FUNC
from loomir.script.parser.module import read_function
from loomir.support.compile_warning import caution
from loomir.support.diagnostics import Diagnostic, with_article
from loomir.support.dtype import DataType
from loomir.support.span import Source, Span
from loomir.support.stack_space import call_with_stack
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc

__all__ = ["ArgumentType", "OpenFunction", "OpenParameter", "open_function"]


class ArgumentType(NamedTuple):
    """What an argument is: the dtype, and the number of axes, None for a number.

    ``extents`` are those of an argument of a graph: names, of which equal ones stand for equal
    extents, and 1.
    """

    dtype: DataType
    rank: int | None = None
    extents: tuple[str | int, ...] | None = None

    def __str__(self) -> str:
        if self.rank is None:
            return str(self.dtype)
        if self.extents is not None:
            return f"{self.dtype}[{', '.join(map(str, self.extents))}]"
        return f"{self.dtype}[{', '.join(':' * self.rank)}]"


@dataclass(frozen=True, slots=True)
class OpenParameter:
    """A parameter, and what its annotation leaves to the argument."""

    name: str
    needs_dtype: bool
    needs_rank: bool
    may_be_number: bool
    """Whether a number does for it."""
    is_written: bool
    """Whether elements are assigned."""
    span: Span | None

    @property
    def is_open(self) -> bool:
        """Whether the argument decides anything."""
        return self.needs_dtype or self.needs_rank


class OpenFunction:
    """The source of a function, and the values of the names in it."""

    def __init__(
        self, node: ast.FunctionDef, places: Places, values: Mapping[str, object], rest: Any = None
    ) -> None:
        self._node, self._places, self._values = node, places, dict(values)
        self._rest: Mapping[str, object] = {} if rest is None else rest
        self.name = node.name
        own = (*_names_in(node), *_roots_of_annotations(node))
        self._graphs = next((n for n in own if self._find(n) is _relax_script()), None)
        parts = [*node.args.posonlyargs, *node.args.args]
        self.parameters = tuple([self._parameter(part) for part in parts])

    def _parameter(self, part: ast.arg) -> OpenParameter:
        given = _annotation(part)
        span = self._places.span(part)
        is_written = part.arg in _list_written_names(self._node)
        if given is None:
            return OpenParameter(part.arg, True, True, True, is_written, span)
        kind = "Tensor" if self.is_graph else "Buffer"
        if _ends_with(given, kind):
            return OpenParameter(part.arg, True, True, False, is_written, span)
        if not isinstance(given, ast.Call) or not _ends_with(given.func, kind):
            return OpenParameter(part.arg, False, False, False, is_written, span)
        shape, dtype = _argument(given, 0, "shape"), _argument(given, 1, "dtype")
        needs_dtype = _is_dots(dtype) or (dtype is None and (shape is None or self.is_graph))
        return OpenParameter(part.arg, needs_dtype, shape is None, False, is_written, span)

    @property
    def is_open(self) -> bool:
        """Whether any parameter leaves anything open."""
        return any(p.is_open for p in self.parameters)

    @property
    def is_graph(self) -> bool:
        """Whether the function is a graph, and no kernel."""
        return self._graphs is not None

    def read(self, types: Mapping[str, ArgumentType]) -> PrimFunc | Function:
        """Read the function with the types that its open parameters are given.

        Errors: those of ``T.prim_func`` and ``R.function``.
        """
        node = copy.copy(self._node)
        node.decorator_list = []
        node.args = copy.copy(node.args)
        declared: dict[str, object] = {}

        def close(part: ast.arg) -> ast.arg:
            found = types.get(part.arg)
            if found is None:
                return part
            given = _annotation(part)
            if self._graphs is not None and not isinstance(given, ast.Call):
                return _as_tensor(part, self._graphs, found)
            if isinstance(given, ast.Call):
                return _with_types(part, given, found)
            declared[part.arg] = _describe(part.arg, found)
            return part

        node.args.posonlyargs = [close(part) for part in node.args.posonlyargs]
        node.args.args = [close(part) for part in node.args.args]
        parser = Parser(CapturedNames(self._values, self._rest))
        parser.declared = declared

        def read(made: doc.AST) -> None:
            marker = FUNCTION if self.is_graph else PRIM_FUNC
            read_function(parser, cast("doc.FunctionDef", made), Options(), marker)

        made = read_tree(parser, node, self._places, read)
        caution(parser.builder.warnings)
        return cast("PrimFunc | Function", made)

    # -- pickling ------------------------------------------------------------------------------
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source, and the values of the names that it uses. Errors: RUN0468."""
        node = self._node
        lines = self._places.source.text.splitlines(keepends=True)
        text = textwrap.dedent("".join(lines[node.lineno - 1 : node.end_lineno]))
        first_line = node.lineno + self._places.shift
        packed: dict[str, object] = {}
        values = {name: self._find(name) for name in _names_in(node)}
        for name, value in values.items():
            if value is _MISSING:
                continue
            if isinstance(value, ModuleType):
                packed[name] = _Module(value.__name__)
                continue
            try:
                pickle.dumps(value)
            except Exception as error:
                raise RunTypeError(
                    Diagnostic(
                        "RUN0468",
                        f"{self.name} cannot be pickled: it uses {name}, "
                        f"{with_article(type(value).__name__)}, which cannot be",
                        help=f"define {name} in a module, or pass what it holds as an argument",
                    )
                ) from error
            packed[name] = value
        return _unpickle, (self._places.source.name, text, first_line, packed)

    def _find(self, name: str) -> object:
        found = self._values.get(name, _MISSING)
        return self._rest.get(name, _MISSING) if found is _MISSING else found


_MISSING: Final = object()


class _Module(NamedTuple):
    """Stands for a module in a pickle."""

    name: str


def _unpickle(name: str, text: str, first_line: int, packed: Mapping[str, object]) -> OpenFunction:
    tree, places = parse_text(Source(name, text, first_line))
    values = {
        key: sys.modules.get(value.name, _MISSING) if isinstance(value, _Module) else value
        for key, value in packed.items()
    }
    known = {key: value for key, value in values.items() if value is not _MISSING}
    return OpenFunction(cast("ast.FunctionDef", tree.body[0]), places, known)


def open_function(func: FunctionType, frame: FrameType) -> OpenFunction:
    """Find the source of a function that Python has made, and the values of the names in it.

    Errors: SCR0011 where Python does not keep the source, SCR0014 for a lambda.
    """
    if func.__name__ == "<lambda>":
        raise mistake("SCR0014", "a lambda is not a program", help="write the program with def")
    found = source.find_function(func.__code__, func.__globals__)
    node = cast("ast.FunctionDef", found.node)
    scopes = source.scopes_of(frame, func)
    values: dict[str, object] = {}
    for name in _names_in(node):
        for scope in scopes:
            if name in scope:
                values[name] = scope[name]
                break
    # What is defined below the function is known when it is first called.
    return OpenFunction(node, found.places, values, func.__globals__)


def _names_in(node: ast.FunctionDef) -> Iterator[str]:
    """List the names that a function mentions, also in annotations that are strings."""
    own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    trees: list[ast.AST] = [*node.body]
    for part in (*node.args.posonlyargs, *node.args.args):
        given = _annotation(part)
        trees += [] if given is None else [given]
    trees += [] if node.returns is None else [node.returns]
    seen: set[str] = own
    for tree in trees:
        for part in ast.walk(tree):
            if isinstance(part, ast.Name) and part.id not in seen:
                seen.add(part.id)
                yield part.id


def _list_written_names(node: ast.FunctionDef) -> set[str]:
    """List the names whose elements a function assigns."""
    return {
        part.value.id
        for part in ast.walk(node)
        if isinstance(part, ast.Subscript)
        and isinstance(part.ctx, ast.Store)
        and isinstance(part.value, ast.Name)
    }


def _annotation(part: ast.arg) -> ast.expr | None:
    """Return what a parameter is annotated with; a string stands for the expression in it."""
    given = part.annotation
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        try:
            return call_with_stack(partial(ast.parse, given.value.strip(), mode="eval")).body
        except SyntaxError:
            return given  # reported when it is read
    return given


def _ends_with(node: ast.expr, name: str) -> bool:
    found = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return found == name


def _roots_of_annotations(node: ast.FunctionDef) -> Iterator[str]:
    """List the names before the dot in annotations: ``R`` of ``R.Tensor``."""
    for part in (*node.args.posonlyargs, *node.args.args):
        given = _annotation(part)
        given = given.func if isinstance(given, ast.Call) else given
        if isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name):
            yield given.value.id


def _relax_script() -> object:
    """Return the language of graphs, where it was imported."""
    return sys.modules.get("loomir.script.relax", _ABSENT)


_ABSENT: Final = object()


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    if len(call.args) > place:
        return call.args[place]
    return next((word.value for word in call.keywords if word.arg == name), None)


def _is_dots(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _with_types(part: ast.arg, given: ast.Call, found: ArgumentType) -> ast.arg:
    """Write what ``T.Buffer(…)`` lacks into it."""
    shape, dtype = _argument(given, 0, "shape"), _argument(given, 1, "dtype")
    if shape is None:
        shape = ast.Tuple(_extents(part.arg, found), ast.Load())
    if dtype is None or _is_dots(dtype):
        dtype = ast.Constant(str(found.dtype))
    others = [word for word in given.keywords if word.arg not in ("shape", "dtype", "ndim")]
    return _annotate(part, ast.Call(given.func, [shape, dtype, *given.args[2:]], others))


def _as_tensor(part: ast.arg, graphs: str, found: ArgumentType) -> ast.arg:
    """Annotate a parameter of a graph with ``R.Tensor(…)``, or ``R.Prim(…)`` for a number."""
    dtype = ast.Constant(str(found.dtype))
    shape = ast.Tuple(_extents(part.arg, found), ast.Load())
    args = [dtype] if found.rank is None else [shape, dtype]
    kind = "Prim" if found.rank is None else "Tensor"
    func = ast.Attribute(ast.Name(graphs, ast.Load()), kind, ast.Load())
    return _annotate(part, ast.Call(func, list[ast.expr](args), []))


def _extents(name: str, found: ArgumentType) -> list[ast.expr]:
    """Return the extents of an argument as what declares them: names as texts, and 1."""
    names = found.extents or tuple([f"{name}_{axis}" for axis in range(found.rank or 0)])
    return [ast.Constant(extent) for extent in names]


def _annotate(part: ast.arg, call: ast.Call) -> ast.arg:
    made = copy.copy(part)
    # As a string, which stands as a whole where the annotation does.
    made.annotation = ast.copy_location(
        ast.Constant(ast.unparse(call)), part if part.annotation is None else part.annotation
    )
    return made


def _describe(name: str, found: ArgumentType) -> object:
    if found.rank is None:
        return DTypeFunction(str(found.dtype))
    sizes = [Var(f"{name}_{axis}", DataType("int64")) for axis in range(found.rank)]
    return BufferSpec(sizes, found.dtype)
