"""Mistakes point to the part of a line that made them, in every version of Python."""

from __future__ import annotations

from typing import Any

import pytest

from loomir import te
from loomir.support.column_positions import columns_of
from loomir.support.diagnostics import CompileError

A = te.placeholder((4, 4), name="A")


def pointed_at(make: Any) -> str:
    """Return the text that a mistake underlines."""
    with pytest.raises(CompileError) as caught:
        make()
    span = caught.value.diagnostic.span
    assert span is not None
    line = span.source.line(span.line)
    assert line is not None
    return line[span.column - 1 : span.end_column - 1]


def test_elements_calls_and_operators():
    assert pointed_at(lambda: te.compute((4,), lambda i: A[i, 0] + A[i])) == "A[i]"
    assert (
        pointed_at(lambda: te.placeholder((4.5,), name="B")) == 'te.placeholder((4.5,), name="B")'
    )
    assert pointed_at(lambda: te.compute((4,), lambda i: te.const(1, "uint8") * 2 - i)) == (
        'te.const(1, "uint8") * 2 - i'
    )
    assert pointed_at(lambda: te.compute((4,), lambda ü: ü + A[ü])) == "A[ü]"


def test_lines_of_several_statements():
    def both():
        b = te.placeholder((4,), name="B"); te.compute((2, 2), lambda i: b[i])  # fmt: skip  # noqa: E702

    assert pointed_at(both) == "te.compute((2, 2), lambda i: b[i])"


def test_what_is_in_doubt_has_no_columns():
    code = compile("f(1)\n", "gone", "exec")
    assert columns_of(code, 10**6, 1, "f(1)\n") is None
    assert columns_of(code, 0, 1, "f(1\n") is None
