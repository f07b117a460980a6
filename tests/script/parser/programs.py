"""Short ways to read programs in tests."""

from __future__ import annotations

from typing import cast

import pytest

from loomir.ir.module import IRModule
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tir import PrimFunc, Stmt

HEAD = '@T.prim_func\ndef f(A: T.Buffer((8, 8), "float32"), x: T.int32, p: T.handle):\n'


def read(text: str, **values: object) -> PrimFunc:
    """Read a function."""
    made = from_source(text, values=values)
    assert isinstance(made, PrimFunc)
    return made


def read_body(*lines: str, **values: object) -> Stmt:
    """Read the body of a function of a buffer ``A``, an int32 ``x`` and a handle ``p``."""
    return read(HEAD + "".join(f"    {line}\n" for line in lines), **values).body


def read_module(text: str) -> IRModule:
    """Read a module."""
    return cast("IRModule", from_source(text))


def refused(text: str, **values: object) -> list[Diagnostic]:
    """Read a text that is refused; return what was reported."""
    with pytest.raises(CompileError) as caught:
        from_source(text, values=values)
    return list(caught.value.diagnostics)


def refused_body(*lines: str) -> list[Diagnostic]:
    """Read the body of a function that is refused; its first line is line 3."""
    return refused(HEAD + "".join(f"    {line}\n" for line in lines))


def marked(text: str, found: Diagnostic) -> str:
    """Return the part of the text that a diagnostic underlines, in its first line."""
    span = found.span
    assert span is not None
    line = text.split("\n")[span.line - 1]
    stop = span.end_column - 1 if span.end_line == span.line else len(line)
    return line[span.column - 1 : stop]
