"""The table of converters: a row for each overload of an ATen operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from loomir.support.diagnostics import InternalError

if TYPE_CHECKING:
    from loomir.frontend.torch.node import Node

__all__ = [
    "Converter",
    "Row",
    "find_row",
    "known_operators",
    "register",
    "register_converter",
]

Converter: TypeAlias = "Callable[[Node], Any]"
"""Makes the outputs of a node: an expression of Relax for one, a sequence for several.

In the sequence None stands for an output that nobody uses.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """How an overload of an operator is imported."""

    operator: str
    convert: Converter
    note: str = ""
    """What is not supported, for the table of operators."""


_rows: Final[dict[str, Row]] = {}
_complex_rows: Final[dict[str, Row]] = {}
"""The converters of nodes with a complex argument or result, which get no others."""


def register(
    *operators: str, note: str = "", complex: bool = False
) -> Callable[[Converter], Converter]:
    """Add a converter to the table, for overloads such as ``"aten.add.Tensor"``.

    ``complex``: it is for nodes with a complex argument or result, the others keep theirs. It gets
    a complex tensor as a real one whose last axis has the real and the imaginary part.
    """
    rows = _complex_rows if complex else _rows

    def add(convert: Converter) -> Converter:
        for operator in operators:
            if operator in rows:
                raise InternalError(f"{operator} has two converters")
            rows[operator] = Row(operator, convert, note)
        return convert

    return add


def register_converter(operator: Any, convert: Converter, *, complex: bool = False) -> None:
    """Register a converter of an operator for ``loomir.torch``, replacing any other.

    ``operator`` is an overload, such as ``torch.ops.aten.relu.default``, or its name,
    ``"aten.relu.default"``. ``convert`` takes a ``Node`` and returns a Relax expression for its
    output, or a sequence of them. An operator that has a converter is not decomposed.

    ``complex``: the converter is for nodes with a complex argument or result. Such a tensor is a
    real one with one more axis, the last, for the real and the imaginary part;
    ``node.is_complex(place)`` tells which arguments are.
    """
    name = str(operator)
    (_complex_rows if complex else _rows)[name] = Row(name, convert)


def find_row(operator: str, *, complex: bool = False) -> Row | None:
    """Return the row of an overload; ``complex``: the one for complex numbers."""
    return (_complex_rows if complex else _rows).get(operator)


def known_operators() -> Mapping[str, Row]:
    """Return all rows by the overload that they are for."""
    rows = {**_complex_rows, **_rows}
    return MappingProxyType({name: rows[name] for name in sorted(rows)})
