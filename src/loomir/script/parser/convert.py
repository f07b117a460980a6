"""Convert text to a Doc AST with positions, and report what Python or TVMScript cannot parse.

Errors: SCR0001 if the text is not valid Python, SCR0002 for syntax outside of the language.
"""

from __future__ import annotations

import ast
import re
import warnings
from functools import partial
from typing import Any, Final, TypeAlias, cast

from loomir.script.parser import doc
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Source, Span
from loomir.support.stack_space import call_with_stack

__all__ = ["Places", "convert", "parse_text", "read_expression"]

_OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.UAdd: "+",
    ast.USub: "-",
    ast.Invert: "~",
    ast.Not: "not",
    ast.And: "and",
    ast.Or: "or",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}

# What the syntax is called, and what to do instead.
_REFUSED: Final[dict[str, tuple[str, str]]] = {
    "Try": ("try", "errors of a program end it; check before, with an if or an assert"),
    "TryStar": ("try", "errors of a program end it; check before, with an if or an assert"),
    "Raise": ("raise", 'end the program with `assert condition, "text"`'),
    "Yield": ("yield", "write results to a buffer"),
    "YieldFrom": ("yield from", "write results to a buffer"),
    "Await": ("await", "remove it: programs run from start to end"),
    "AsyncFunctionDef": ("async def", "write def"),
    "AsyncFor": ("async for", "write for; T.parallel runs iterations in any order"),
    "AsyncWith": ("async with", "write with"),
    "ListComp": ("a list comprehension", "write the elements, or a loop"),
    "SetComp": ("a set comprehension", "write a loop"),
    "DictComp": ("a dict comprehension", "write a loop"),
    "GeneratorExp": ("a generator expression", "write a loop"),
    "Lambda": (
        "lambda",
        "write the expression where it is used; an index map is text: 'lambda i, j: (j, i)'",
    ),
    "Global": ("global", "names from around the function can be read without it"),
    "Nonlocal": ("nonlocal", "names from around the function can be read without it"),
    "Delete": ("del", "remove it: names end with their scope"),
    "NamedExpr": ("an assignment expression", "assign in a statement of its own"),
    "Set": ("a set", "write a tuple or a list"),
    "Match": ("match", "write if and elif"),
    "TypeAlias": ("a type alias", "write the type where it is used"),
}


_Task: TypeAlias = "tuple[ast.AST, Any, Any]"


class Places:
    """Turns Python's places (byte offsets in lines) into spans (characters, from 1).

    ``shift`` is added to line numbers: the text's first line is ``shift + 1`` in the file.
    """

    def __init__(self, source: Source, lines: list[str], shift: int = 0) -> None:
        self.source, self.lines, self.shift = source, lines, shift
        self.plain = [line.isascii() for line in lines]
        self.is_plain = all(self.plain)

    def column(self, line: int, offset: int) -> int:
        """Return the column of a byte offset in a line of the text."""
        if not 0 < line <= len(self.lines) or self.plain[line - 1]:
            return offset + 1
        head = self.lines[line - 1].encode("utf-8", "surrogatepass")[:offset]
        return len(head.decode("utf-8", "replace")) + 1

    def make_span(self, offset: int, text: str) -> Span:
        """Return the span of the character at an offset in a text."""
        head = text[:offset].split("\n")
        line, column = len(head) + self.shift, len(head[-1]) + 1
        return Span(self.source, line, column, line, column + 1)

    def span(self, node: Any) -> Span:
        """Return the span of one of Python's nodes."""
        line, end = node.lineno, node.end_lineno
        column, stop = node.col_offset, node.end_col_offset
        if not self.is_plain:
            column, stop = self.column(line, column) - 1, self.column(end, stop) - 1
        return Span(self.source, line + self.shift, column + 1, end + self.shift, stop + 1)


def split_lines(text: str) -> list[str]:
    """Split as Python's parser does: at line feeds (and carriage returns), not at form feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def parse_text(source: Source) -> tuple[ast.Module, Places]:
    """Read a text as Python.

    Errors: SCR0001.
    """
    places = Places(source, split_lines(source.text), source.first_line - 1)
    text = source.text
    try:
        tree = _read(text, "exec", places)
    except CompileError:
        if re.search(_SIZES, text, re.MULTILINE) is None:
            raise
        tree = _read(re.sub(_SIZES, _blank, text, flags=re.MULTILINE), "exec", places)
    return cast("ast.Module", tree), places


_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_SIZES: Final = (
    rf"^([ \t]*def[ \t]+{_NAME}[ \t]*)(\[[ \t]*{_NAME}(?:[ \t]*,[ \t]*{_NAME})*[ \t,]*\])(?=\()"
)
"""The names in ``def f[n, m](…)``, which Python reads from 3.12 on."""


def _blank(found: re.Match[str]) -> str:
    """Leave the names out, for shapes declare them too; every place stays what it is."""
    return f"{found[1]}{' ' * len(found[2])}"


def read_expression(text: str, span: Span) -> doc.ExprNode:
    """Read an expression that a string holds; all of it stands where the string does."""
    source = Source(span.source.name, text)
    tree = cast("ast.Expression", _read(text.strip(), "eval", Places(source, [text]), span))
    problems: list[Diagnostic] = []
    made = convert(tree.body, _OnePlace(span), problems)
    if problems:
        raise CompileError(*problems)
    return cast("doc.ExprNode", made)


class _OnePlace(Places):
    def __init__(self, span: Span) -> None:
        super().__init__(span.source, [])
        self.fixed = span

    def span(self, node: Any) -> Span:
        return self.fixed


def _read(text: str, mode: str, places: Places, span: Span | None = None) -> ast.AST:
    try:
        if "\0" in text:  # some versions of Python call it a mistake of syntax
            raise ValueError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of what is refused here anyway
            return call_with_stack(partial(ast.parse, text, mode=mode))
    except SyntaxError as error:
        place = span or _syntax_place(error, places)
        message = (error.msg or "invalid syntax").split("\n")[0]
        raise _unreadable(
            message, place, "correct the syntax: a program is written as Python"
        ) from error
    except (RecursionError, MemoryError) as error:
        place = places.make_span(0, text) if span is None else span
        help_ = "name parts of the expression by assignments"
        raise _unreadable("the text is nested too deeply", place, help_) from error
    except ValueError as error:
        offset = error.start if isinstance(error, UnicodeEncodeError) else text.find("\0")
        place = places.make_span(max(offset, 0), text) if span is None else span
        message = "the text holds what is no character, or NUL"
        raise _unreadable(message, place, "save the text as UTF-8 without NUL bytes") from error


def _unreadable(message: str, span: Span | None, help: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "SCR0001", f"not valid Python: {message}", span, "here" if span else "", help=help
        )
    )


def _syntax_place(error: SyntaxError, places: Places) -> Span | None:
    line = error.lineno
    if line is None or line < 1:
        return None
    # A SyntaxError counts characters where an AST counts bytes, and may point behind the text.
    last = len(places.lines)
    row = min(line, last)
    width = len(places.lines[row - 1]) if places.lines else 0
    column = min(max(error.offset or 1, 1), width + 1)
    end_line, end_column = error.end_lineno or row, error.end_offset or 0
    if end_line != row or not column < end_column <= width + 1:
        end_column = column + 1
    shift = places.shift
    return Span(places.source, row + shift, column, row + shift, end_column)


def convert(root: ast.AST, places: Places, problems: list[Diagnostic]) -> doc.AST | None:
    """Make the Doc AST of Python's; what is not in the language is added to ``problems``.

    None if the root itself is refused. A refused part leaves a ``doc.Name`` of no name in its
    place, which nothing complains about again.
    """
    holder: list[Any] = [None]
    # (Python's node, where its mirror goes: an object and a field, or a list and an index)
    stack: list[_Task] = [(root, holder, 0)]
    while stack:
        node, owner, key = stack.pop()
        kind = type(node).__name__
        if kind == "Call":
            node = _with_index_maps(cast("ast.Call", node))
        span = places.span(node) if hasattr(node, "lineno") else _find_place(node, places)
        cls = doc.NODES.get(kind)
        made: Any
        if cls is None or (cls is doc.Constant and _is_refused(node)):
            problems.append(_refuse(node, kind, span))
            made = doc.Name(span, POISONED_NAME)
        else:
            made = object.__new__(cls)
            made.span = span
            for name in doc.FIELDS[kind]:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    value = _items(cast("list[Any]", value), stack)
                elif isinstance(value, ast.AST):
                    symbol = _OPERATORS.get(type(value))
                    if symbol is None:
                        stack.append((value, made, name))
                    value = symbol
                setattr(made, name, value)
        if isinstance(owner, list):
            owner[key] = made
        else:
            setattr(owner, key, made)
    return holder[0]


def _with_index_maps(node: ast.Call) -> ast.Call:
    """Make texts of the lambdas that map indices or reduce; nothing calls them as functions."""
    name = getattr(node.func, "attr", "")
    args = [_as_text(arg) if name in _TAKE_INDEX_MAPS else arg for arg in node.args]
    words = [
        ast.keyword(word.arg, _as_text(word.value), **_place(word))
        if word.arg in _INDEX_MAPS
        else word
        for word in node.keywords
    ]
    if all(a is b for a, b in zip((*args, *words), (*node.args, *node.keywords))):
        return node
    return ast.Call(node.func, args, words, **_place(node))


_TAKE_INDEX_MAPS: Final = frozenset(("index_map", "layout_transform", "comm_reducer"))
_INDEX_MAPS: Final = frozenset(("index_map", "inverse_index_map", "mapping", "combiner"))


def _as_text(node: ast.expr) -> ast.expr:
    is_map = isinstance(node, ast.Lambda)
    return ast.Constant(ast.unparse(node), **_place(node)) if is_map else node


def _place(node: Any) -> dict[str, Any]:
    start = {"lineno": node.lineno, "col_offset": node.col_offset}
    return {**start, "end_lineno": node.end_lineno, "end_col_offset": node.end_col_offset}


POISONED_NAME: Final = ""
"""The name of what was refused already."""


def _items(values: list[Any], stack: list[_Task]) -> list[Any]:
    """Return a list to be filled with the mirrors of a list's nodes; operators at once."""
    items: list[Any] = [_OPERATORS.get(cast("type[ast.AST]", type(item))) for item in values]
    for index, item in enumerate(values):
        if items[index] is None and isinstance(item, ast.AST):
            stack.append((item, items, index))
    return items


def _find_place(node: ast.AST, places: Places) -> Span:
    """Return a place to the few nodes that Python gives none (parameters, with-items, texts)."""
    parts = [places.span(n) for n in ast.iter_child_nodes(node) if hasattr(n, "lineno")]
    if parts:
        return min(parts, key=lambda span: (span.line, span.column))
    line = places.shift + 1
    return Span(places.source, line, 1, line, 1)


def _is_refused(node: Any) -> bool:
    return node.value is not None and not isinstance(node.value, (bool, int, float, str))


def _refuse(node: ast.AST, kind: str, span: Span) -> Diagnostic:
    if isinstance(node, ast.Constant):
        kind_ = type(node.value).__name__
        what, help_ = f"a constant of type {kind_}", "write a number or a string"
    else:
        what, help_ = _REFUSED.get(kind, (kind, "write it with what the language has"))
    keyword = what.split()[0]
    if not what.startswith(("a ", "an ")) and span.end_line != span.line:
        # A compound statement is marked at its keyword, not over all its lines.
        span = Span(span.source, span.line, span.column, span.line, span.column + len(keyword))
    return Diagnostic(
        "SCR0002", f"{what} is not part of TVMScript", span, "not supported", (), (), help_
    )
