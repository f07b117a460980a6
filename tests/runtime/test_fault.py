from __future__ import annotations

from typing import Any

import pytest

from loomir.runtime import Fault, FaultKind, Value
from loomir.support.diagnostics import RunError
from loomir.support.span import Source, Span

PYTHON_CLASS = {
    FaultKind.ZERO_DIVISION: ZeroDivisionError,
    FaultKind.ASSERTION: AssertionError,
    FaultKind.OUT_OF_BOUNDS: IndexError,
    FaultKind.RECURSION: RecursionError,
    FaultKind.MISSING_RETURN: ValueError,
    FaultKind.BAD_SIZE: ValueError,
    FaultKind.ALLOCATION: MemoryError,
    FaultKind.UNINITIALIZED: ValueError,
    FaultKind.RACE: ValueError,
    FaultKind.MISMATCH: ValueError,
    FaultKind.WRONG_TYPE: TypeError,
    FaultKind.WRONG_VALUE: ValueError,
    FaultKind.CALLEE: TypeError,
}


@pytest.mark.parametrize("kind", FaultKind)
def test_each_kind_is_a_run_error_and_the_python_class(kind: Any):
    error = Fault(kind, ("stopped",)).error()
    assert isinstance(error, RunError)
    assert isinstance(error, PYTHON_CLASS[kind])
    assert error.diagnostic.code == kind.value
    assert str(error) == f"error[{kind.value}]: stopped"


def test_parts_of_a_message():
    fault = Fault(
        FaultKind.OUT_OF_BOUNDS,
        ("{0} %d index ", 0, " of ", Value(1), ", size ", Value(2, unsigned=True)),
    )
    assert fault.diagnostic((-3, 8, -1)).message == (
        "{0} %d index -3 of 8, size 18446744073709551615"
    )


def test_place_notes_and_help_come_with_it():
    span = Span(Source("a.py", "x = a // b\n"), 1, 5, 1, 11)
    fault = Fault(
        FaultKind.ZERO_DIVISION,
        ("division by zero",),
        span=span,
        label="b is zero",
        notes=("b: int32",),
        help="guard it",
        code="RUN0299",
    )
    assert str(fault.error()) == (
        "error[RUN0299]: division by zero\n"
        " --> a.py:1:5\n"
        "  |\n"
        "1 | x = a // b\n"
        "  |     ^^^^^^ b is zero\n"
        "  = note: b: int32\n"
        "  = help: guard it"
    )
