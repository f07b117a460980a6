"""The table of converters: a row for each operator and the first version to which it applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from loomir.frontend.onnx.node import Node

__all__ = [
    "MICROSOFT",
    "Converter",
    "Row",
    "find_row",
    "is_as_shipped",
    "known_operators",
    "register_converter",
    "row",
]

Converter: TypeAlias = "Callable[[Node], Any]"
"""Makes the outputs of a node: an expression of Relax for one, a sequence for several.

In the sequence None stands for an output that nobody uses.
"""
MICROSOFT: Final = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Row:
    """How an operator is imported from a version of its domain on."""

    operator: str
    convert: Converter
    since: int = 1
    domain: str = ""
    small: bool = False
    """Whether it also takes elements of less than a byte, and floats of a byte."""
    moves: bool = False
    """Whether outputs have elements of the type of the first input, whatever that is."""
    note: str = ""
    """What is not supported, for the table of operators."""


_rows: Final[dict[tuple[str, str], list[Row]]] = {}
_registered: Final[list[str]] = []


def row(
    operator: str,
    convert: Converter,
    *,
    since: int = 1,
    domain: str = "",
    small: bool = False,
    moves: bool = False,
    note: str = "",
) -> Row:
    """Make a row."""
    return Row(operator, convert, since, domain, small or moves, moves, note)


def add_rows(rows: Sequence[Row]) -> None:
    """Add rows to the table; each replaces one for the same operator and version."""
    for one in rows:
        found = _rows.setdefault((one.domain, one.operator), [])
        found[:] = sorted([r for r in found if r.since != one.since] + [one], key=lambda r: r.since)


def register_converter(
    operator: str, convert: Converter, *, domain: str = "", since: int = 1
) -> None:
    """Register a converter of an operator for ``loomir.onnx.load``, replacing any other.

    ``convert`` takes a ``Node`` and returns a Relax expression for its output, or a sequence of
    them. ``domain`` is that of the operator, empty for those of the standard. The converter is
    used from the version ``since`` of its domain on.
    """
    _registered.append(operator)
    add_rows((Row(operator, convert, since, "" if domain == "ai.onnx" else domain),))


def is_as_shipped() -> bool:
    """Whether nobody has registered a converter."""
    return not _registered


def find_row(domain: str, operator: str, version: int) -> Row | None:
    """Return the row of the latest version that is not above ``version``."""
    found = _rows.get((domain, operator), ())
    return next((r for r in reversed(found) if r.since <= version), None)


def known_operators() -> Mapping[tuple[str, str], Sequence[Row]]:
    """Return all rows, by domain and operator."""
    return MappingProxyType({key: tuple(_rows[key]) for key in sorted(_rows)})
