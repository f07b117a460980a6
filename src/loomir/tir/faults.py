"""The table of run-time faults, shared by the interpreter and native code.

A row has the message of a mistake and its remedy, so that both engines report it in the same words.
In a message, ``{name}`` is known at compile time, and ``{0}`` is value number 0 that comes with the
fault; ``{index}`` stands for indices that follow the other values.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Formatter
from typing import Final, NamedTuple

from loomir.runtime.fault import Fault, FaultKind, Value
from loomir.support.span import Span

__all__ = ["FAULTS", "Row", "fault"]


class Row(NamedTuple):
    """A kind of mistake; an empty ``code`` means that of the kind."""

    kind: FaultKind
    message: str
    help: str = ""
    label: str = ""
    code: str = ""


FAULTS: Final[dict[str, Row]] = {
    "zero_division": Row(
        FaultKind.ZERO_DIVISION,
        "{operator} divides by zero",
        "test the divisor first; T.if_then_else evaluates only what it chooses",
        "the divisor is 0 here",
    ),
    "assertion": Row(FaultKind.ASSERTION, "{text}", label="this does not hold"),
    "assertion_number": Row(FaultKind.ASSERTION, "{0}", label="this does not hold"),
    "index": Row(
        FaultKind.OUT_OF_BOUNDS,
        "index {0} is outside of axis {axis} of {buffer}, whose extent is {1}",
        "keep the index at least 0 and below the extent",
        "this element does not exist",
    ),
    "memory": Row(
        FaultKind.OUT_OF_BOUNDS,
        "{buffer}{index} lies outside of the memory that {buffer} is declared on",
        "declare the buffer no larger than its memory",
        "this element does not exist",
    ),
    "recursion": Row(
        FaultKind.RECURSION,
        "{function} is called more than {limit} calls deep",
        "end the recursion earlier, or write a loop",
    ),
    "stack": Row(
        FaultKind.RECURSION,
        "the stack of this thread has no room for {function}",
        "end a recursion earlier, or call it in a thread with a larger stack: "
        "threading.stack_size(8 << 20) before the thread is made",
    ),
    "missing_return": Row(
        FaultKind.MISSING_RETURN,
        "{function} reached its end without returning {dtype}",
        "return a value on every path",
    ),
    "size": Row(
        FaultKind.BAD_SIZE,
        "{buffer} cannot be allocated: an extent is negative, or its size overflows",
        "extents are 0 or more, and all bytes together less than 2**63",
    ),
    "allocation": Row(
        FaultKind.ALLOCATION,
        "there is no memory for the {0} bytes of {buffer}",
        "allocate less, or free memory",
    ),
    "loop": Row(
        FaultKind.BAD_SIZE,
        "{variable} cannot count from {0} over {1} iterations: it is {dtype}",
        "use a wider loop variable, such as T.int64",
        code="RUN0208",
    ),
    "uninitialized": Row(
        FaultKind.UNINITIALIZED,
        "{buffer}{index} is read before anything is written to it",
        "write it first: a fresh allocation holds nothing in particular",
        "this element holds nothing yet",
    ),
    "race_read": Row(
        FaultKind.RACE,
        "iteration {0} of a parallel loop reads {buffer}{index}, which another iteration writes",
        "let each iteration read only what it writes itself, or what none writes",
    ),
    "race_write": Row(
        FaultKind.RACE,
        "iteration {0} of a parallel loop writes {buffer}{index}, which another iteration writes "
        "too",
        "let each iteration write elements of its own",
    ),
    "race_overwrite": Row(
        FaultKind.RACE,
        "iteration {0} of a parallel loop writes {buffer}{index}, which another iteration reads",
        "let each iteration write elements of its own",
    ),
    "callee": Row(
        FaultKind.CALLEE,
        "{function} did not return",
        "see what the function raised",
        "called here",
    ),
    "interrupted": Row(
        FaultKind.CALLEE,
        "the call was interrupted",
        "call it again: what it wrote until then is part of its results only",
    ),
    "match": Row(
        FaultKind.MISMATCH,
        "match_buffer: {buffer} says {what} is {0}, the region's is {1}",
        "declare the buffer with the shape, strides and offset of the region",
    ),
    "match_axis": Row(
        FaultKind.MISMATCH,
        "match_buffer: {buffer} leaves out an axis whose extent is {0}",
        "leave out only axes of extent 1",
    ),
    "extent": Row(
        FaultKind.MISMATCH,
        "an extent of {buffer} is {0}, not {1}",
        "give tensors whose shapes fit each other",
        code="RUN0212",
    ),
    "few": Row(
        FaultKind.MISMATCH,
        "an axis of {buffer} has {0} elements, and at least {1} must be there",
        "give a tensor with more elements there",
        code="RUN0212",
    ),
}


def fault(
    row: str,
    span: Span | None,
    *,
    unsigned: bool = False,
    axes: int = 0,
    first: int = 0,
    **words: object,
) -> Fault:
    """Describe a mistake at a place of the program.

    ``unsigned``: whether its values are unsigned; ``axes`` indices begin at value ``first``.
    """
    found = FAULTS[row]
    return Fault(
        found.kind,
        tuple(_parts(found.message, words, unsigned, range(first, first + axes))),
        span,
        found.label,
        help=found.help,
        code=found.code,
    )


def _parts(
    template: str, words: dict[str, object], unsigned: bool, index: Sequence[int]
) -> list[str | int | Value]:
    parts: list[str | int | Value] = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name == "index":
            parts += _index(index)
        elif name is not None and name.isdigit():
            parts.append(Value(int(name), unsigned))
        elif name is not None:
            parts.append(str(words[name]))
    return parts


def _index(values: Sequence[int]) -> list[str | int | Value]:
    parts: list[str | int | Value] = ["["]
    for number, value in enumerate(values):
        parts += [", ", value] if number else [value]
    return [*parts, "]"]
