"""Describe names of a program in one line: buffers, loops and their ranges, values of graphs."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.visit import of_classes
from loomir.lsp.places import Place, place_of
from loomir.relax.expr import Var as GraphVar
from loomir.relax.info.describe import format_info
from loomir.script.builder.frame import Program
from loomir.script.parser.evaluate.var_table import Entry, MutableLocal
from loomir.support.span import Span
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, For

__all__ = ["Binding", "Bindings"]

_PASSED_OVER: Final = frozenset({"import", "poison", "module"})


class Binding(NamedTuple):
    """A name, its meaning, and where it is bound."""

    name: str
    text: str
    kind: str
    place: Place

    def move(self, lines: int) -> Binding:
        """Return the binding moved down by some lines."""
        return self._replace(place=self.place.move(lines))


class Bindings:
    """Collects the bindings of a parser."""

    def __init__(self) -> None:
        self._noted: list[tuple[str, Entry, Span]] = []
        self._ranges: dict[int, str] = {}

    def note(self, name: str, entry: Entry) -> None:
        """Record a binding; called by the parser."""
        if entry.span is not None and entry.kind not in _PASSED_OVER:
            self._noted.append((name, entry, entry.span))

    def explain(self, program: Program) -> None:
        """Add what the finished program tells of loops and axes."""
        functions: list[Any] = (
            list(program.functions.values()) if isinstance(program, IRModule) else [program]
        )
        for func in functions:
            if not isinstance(func, PrimFunc):
                continue
            for loop in of_classes(cast("Node", func.body), For, Block):
                if isinstance(loop, For):
                    kind = loop.kind.value[1:].lower()
                    text = f"{_range(loop.min, loop.extent)}, {kind}"
                    self._ranges[id(loop.loop_var)] = text
                else:
                    for axis in loop.iter_vars:
                        if axis.dom is not None and axis.dom.extent is not None:
                            self._ranges[id(axis.var)] = _range(axis.dom.min, axis.dom.extent)

    def list_file(self, file: str) -> list[Binding]:
        """List the bindings of a file, in the order of reading."""
        return [
            Binding(name, self._describe(name, entry), entry.kind, place_of(span))
            for name, entry, span in self._noted
            if span.source.name == file
        ]

    def _describe(self, name: str, entry: Entry) -> str:
        value = entry.value
        if isinstance(value, MutableLocal):
            return f"{name}: T.{value.buffer.dtype}"
        if isinstance(value, Buffer):
            shape = ", ".join(map(_short, value.shape)) + "," * (len(value.shape) == 1)
            return f'{name}: T.Buffer(({shape}), "{value.dtype}")'
        if isinstance(value, Var):
            found = self._ranges.get(id(value))
            return f"{name}: T.{value.dtype}" + (f"  # {found}" if found else "")
        if isinstance(value, GraphVar):
            info = value.struct_info_annotation
            return name if info is None else f"{name}: {format_info(info)}"
        if isinstance(value, PrimExpr):
            return f"{name}: T.{value.dtype}"
        if isinstance(value, (int, float, str, tuple)):
            shown = repr(cast("object", value))
            return f"{name} = {shown if len(shown) < 80 else shown[:79] + '…'}"
        return f"{name}: {entry.kind}"


def _range(start: PrimExpr, extent: PrimExpr) -> str:
    if isinstance(start, IntImm) and isinstance(extent, IntImm):
        return f"{start.value} to {start.value + extent.value - 1}"
    if isinstance(start, IntImm) and start.value == 0:
        return f"0 to {_short(extent)} - 1"
    return f"{_short(extent)} values from {_short(start)}"


def _short(value: PrimExpr) -> str:
    return str(value.value) if isinstance(value, IntImm) else str(value)
