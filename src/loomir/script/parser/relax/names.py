"""The namespace ``R`` at parse time, loaded when a program first uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from loomir.script.builder.relax import functions, info, table
from loomir.script.builder.relax.table import Operators, Part
from loomir.script.builder.relax.values import Operator
from loomir.script.parser.evaluate.call_arguments import DECLARING, SCOPED, SHAPED, ShapeArgument
from loomir.script.parser.evaluate.metadata import read_metadata
from loomir.script.parser.evaluate.namespaces import (
    FUNCTION,
    INLINE,
    MACRO,
    REWRITER,
    Namespace,
    export,
)
from loomir.script.parser.relax.extents import read_extent
from loomir.script.parser.relax.function import (
    Head,
    declare_heads,
    order_for_reading,
    read_function,
)
from loomir.script.parser.relax.statements import TOKEN

__all__ = [
    "TABLE",
    "TOKEN",
    "Head",
    "declare_heads",
    "operator_of",
    "order_for_reading",
    "read_function",
    "read_metadata",
]

info.set_extent_reader(read_extent)
SHAPED.update(
    {
        id(info.tensor): ShapeArgument(0, None, texts=False),
        id(info.shape): ShapeArgument(0, None),
        id(info.prim): ShapeArgument(1, None, typed=True),
    }
)
DECLARING.update({id(table.match_cast): 1, id(functions.emit_match_cast): 1})
SCOPED.add(id(info.function_info))

for _value in table.NAMES.values():
    export(_value)


class _Names(Mapping[str, object]):
    """The names of ``R`` or of a part of it; operators and parts are found when asked for."""

    def __init__(self, operators: Operators) -> None:
        self.operators = operators
        self.parts: dict[str, Namespace] = {}

    def __getitem__(self, name: str) -> object:
        try:
            found = self.operators[name]
        except KeyError:
            if name not in self.parts:
                if name not in self.operators.parts():
                    raise
                prefix = f"{self.operators.prefix}{name}."
                inner = _Names(Operators(prefix, {}))
                self.parts[name] = Namespace(f"R.{prefix[:-1]}", inner)
            return self.parts[name]
        if isinstance(found, Operator):
            export(found)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from self.operators
        yield from self.operators.parts()

    def __len__(self) -> int:
        return sum(1 for _ in self)


TABLE: Final[Mapping[str, object]] = _Names(
    Operators(
        "",
        {
            **table.NAMES,
            "function": FUNCTION,
            "rewriter": REWRITER,
            "macro": MACRO,
            "inline": INLINE,
        },
    )
)
"""The names of ``R``."""


def operator_of(value: object) -> object:
    """Return what a captured operator or family of operators stands for, else None."""
    if type(value) is Operator:
        export(value)
        return value
    if type(value) is Part:
        found: object = TABLE
        for name in value.operators.prefix.split(".")[:-1]:
            inner = found.table if isinstance(found, Namespace) else found
            found = cast("Mapping[str, object]", inner)[name]
        return found
    return None
