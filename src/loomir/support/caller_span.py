"""Find the position in the user's Python at which a tensor expression was written.

Tensor expressions are Python code that runs, so a mistake is at the innermost frame outside of
Loomir.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NamedTuple

from loomir.support.column_positions import columns_of
from loomir.support.diagnostics import CompileError
from loomir.support.span import Source, Span

__all__ = ["WrittenCall", "located", "parse_call", "read_call", "span_of", "user_span"]

_OURS: Final = __name__.partition(".")[0]
_BETWEEN: Final = frozenset((_OURS, "contextlib", "functools"))
"""Packages whose frames stand between the user's code and what it calls."""


def user_span() -> Span | None:
    """Return the location in the user's code of the current call into Loomir."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return None if frame is None else span_of(frame.f_code, frame.f_lineno, frame.f_lasti)


class located:  # noqa: N801 - used as a function in ``with``
    """Add the location in the user's code to errors raised inside a ``with`` statement."""

    def __enter__(self) -> None:
        """Do nothing: the location is computed only for an error."""

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raise an error without a location again, with the location."""
        if not isinstance(error, CompileError) or all(d.span for d in error.diagnostics):
            return
        span = _innermost(traceback) or user_span()
        raise CompileError.of(tuple(d.at(span) for d in error.diagnostics)) from None


def _innermost(traceback: TracebackType | None) -> Span | None:
    found: Span | None = None
    while traceback is not None:
        if not _is_ours(traceback.tb_frame):
            found = span_of(traceback.tb_frame.f_code, traceback.tb_lineno, traceback.tb_lasti)
        traceback = traceback.tb_next
    return found


def _is_ours(frame: FrameType) -> bool:
    """Tell by the module, since generated methods have no file, what is not the user's code."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _BETWEEN


def span_of(code: CodeType, line: int, instruction: int) -> Span:
    """Return the location of an instruction, by its line and its offset in the code."""
    source = _source(code.co_filename)
    text = source.line(line)
    start, end = 1, len(text or "") + 1
    if text is not None:
        start = len(text) - len(text.lstrip()) + 1
    where = _positions(code, line, instruction, source.text)
    if where is not None:
        line, end_line, column, end_column = where
        if end_line == line:
            # Columns count bytes of UTF-8.
            raw = (source.line(line) or "").encode()
            start = len(raw[:column].decode(errors="replace")) + 1
            end = len(raw[:end_column].decode(errors="replace")) + 1
        else:
            start = column + 1
            end = len(source.line(line) or "") + 1
    return Span(source, line, start, line, max(end, start + 1))


def _positions(
    code: CodeType, line: int, instruction: int, text: str
) -> tuple[int, int, int, int] | None:
    """Return first line, last line, and columns in bytes of an instruction's expression."""
    positions: Any = getattr(code, "co_positions", None)
    if instruction < 0:
        return None
    if positions is None:
        return columns_of(code, instruction, line, text)
    rows: list[Any] = list(islice(positions(), instruction // 2, instruction // 2 + 1))
    return rows[0] if rows and None not in rows[0] else None


# The latest content of each file name: notebooks and generated programs change under one name.
_sources: Final[dict[str, tuple[list[str], Source]]] = {}


def _source(name: str) -> Source:
    lines = linecache.getlines(name)
    known = _sources.get(name)
    if known is None or known[0] is not lines:
        known = _sources[name] = (lines, Source(name, "".join(lines)))
    return known[1]


# -- calls as written ------------------------------------------------------------------------------
class WrittenCall(NamedTuple):
    """A call by name: ``exp`` of the module ``math`` and ``x`` for ``math.exp(x)``."""

    module: str
    name: str
    arguments: str


def parse_call(span: Span | None) -> ast.Call | None:
    """Return the call at a place, if there is one and it stands on one line."""
    if span is None or span.line != span.end_line:
        return None
    line = span.source.line(span.line) or ""
    text = line[span.column - 1 : span.end_column - 1]
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return found if isinstance(found, ast.Call) else None


def read_call(span: Span | None) -> WrittenCall | None:
    """Return the call at a place, if it names what it calls."""
    call = parse_call(span)
    if call is None:
        return None
    names = ast.unparse(call.func).rpartition(".")
    if not names[2].isidentifier():
        return None
    call.func = ast.Name("f")
    return WrittenCall(names[0], names[2], ast.unparse(call)[2:-1])
