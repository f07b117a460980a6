"""Resolve where a buffer is in memory: its data pointer, strides and offset.

- The offset of a parameter is part of the pointer that the caller passes, so it counts as 0 here.
- A declared buffer begins ``elem_offset`` elements after its data pointer.
- A ``match_buffer`` lies within its source: it has the same data pointer, the strides of the
  source's last axes, and the offset of the region's first element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from loomir.arith.fold import add, imm64, int64, mul, product, sub
from loomir.ir.equality import structural_equal
from loomir.ir.visit import nodes_outside
from loomir.tir.buffer import Buffer, MatchBufferRegion
from loomir.tir.expr import FloorDiv, FloorMod, IntImm, Max, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Allocate, AttrStmt, Block, BufferRealize, DeclBuffer, For, LetStmt

__all__ = ["Layout", "View", "compact_strides", "is_flat", "list_bound", "reach"]


def is_flat(buffer: Buffer) -> bool:
    """Tell whether an index of this buffer is a position relative to its data."""
    return len(buffer.shape) == 1 and not buffer.strides and buffer.elem_offset is None


class View(NamedTuple):
    """A buffer in memory; strides and offset are int64 and count elements."""

    data: Var
    strides: tuple[PrimExpr, ...]
    offset: PrimExpr

    def locate(self, indices: Iterable[PrimExpr]) -> PrimExpr:
        """Return the position of an element, counted from ``data``."""
        position: PrimExpr | None = None
        for index, stride in _merge_digits(zip(indices, self.strides)):
            term = mul(int64(index), stride)
            position = term if position is None else add(position, term)
        return self.offset if position is None else add(position, self.offset)


def _merge_digits(terms: Iterable[tuple[PrimExpr, PrimExpr]]) -> list[tuple[PrimExpr, PrimExpr]]:
    """Merge ``x // n`` and ``x % n`` into ``x`` where strides differ by a factor of n.

    Schedules create such pairs. With them, later passes would not recognise contiguous reads: for
    an image of 56 x 56, elements were gathered one by one, which took 19 times as long.
    """
    made: list[tuple[PrimExpr, PrimExpr]] = []
    for index, stride in terms:
        if isinstance(index, IntImm) and index.value == 0:
            continue
        whole = _merge_pair(*made[-1], index, stride) if made else None
        if whole is None:
            made.append((index, stride))
        else:
            made[-1] = (whole, stride)
    return made


def _merge_pair(high: PrimExpr, far: PrimExpr, low: PrimExpr, near: PrimExpr) -> PrimExpr | None:
    if not isinstance(high, FloorDiv) or not isinstance(low, FloorMod):
        return None
    if not isinstance(low.b, IntImm) or not low.b.value or not structural_equal(high.b, low.b):
        return None
    adjacent = structural_equal(mul(int64(low.b), near), far)
    return low.a if adjacent and structural_equal(high.a, low.a) else None


def compact_strides(shape: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """Return the strides of a row-major array."""
    strides: list[PrimExpr] = []
    step: PrimExpr = imm64(1)
    for extent in reversed(shape):
        strides.append(step)
        step = mul(int64(extent), step)
    return tuple(reversed(strides))


def reach(buffer: Buffer, offset: PrimExpr | None) -> PrimExpr:
    """Return the number of elements from a buffer's data to the end of its last element."""
    if buffer.strides:
        last: PrimExpr = imm64(1)
        for extent, stride in zip(buffer.shape, buffer.strides):
            last = add(last, mul(sub(int64(extent), imm64(1)), int64(stride)))
        total = last if isinstance(last, IntImm) and last.value >= 0 else Max(last, imm64(0))
    else:
        total = product(buffer.shape)
    return total if offset is None else add(total, int64(offset))


class Layout:
    """The buffers of a function and their places in memory."""

    def __init__(self, func: PrimFunc) -> None:
        self.matches: dict[int, MatchBufferRegion] = {}
        self._params = {id(buffer) for buffer in func.buffer_map.values()}
        self._views: dict[int, View] = {}
        self._keep: list[Buffer] = []
        self.by_data: dict[int, Buffer] = {}
        for param, buffer in func.buffer_map.items():
            self._add(buffer)
            self.by_data.setdefault(id(param), buffer)
        for part in nodes_outside(func.body, PrimExpr):
            if isinstance(part, Block):
                for buffer in part.alloc_buffers:
                    self._add(buffer)
                for match in part.match_buffers:
                    self.matches[id(match.buffer)] = match
                    self._add(match.buffer)
            elif isinstance(part, (DeclBuffer, BufferRealize)):
                self._add(part.buffer)

    def _add(self, buffer: Buffer) -> None:
        self.by_data.setdefault(id(buffer.data), buffer)

    def is_parameter(self, buffer: Buffer) -> bool:
        """Tell whether a buffer belongs to a parameter."""
        return id(buffer) in self._params

    def view(self, buffer: Buffer) -> View:
        """Return the place of a buffer in memory."""
        chain = [buffer]
        while id(chain[-1]) in self.matches and id(chain[-1]) not in self._views:
            chain.append(self.matches[id(chain[-1])].source.buffer)
        for at in reversed(chain):
            if id(at) not in self._views:
                self._views[id(at)] = self._view(at, self._views)
                self._keep.append(at)
        return self._views[id(buffer)]

    def _view(self, buffer: Buffer, known: Mapping[int, View]) -> View:
        match = self.matches.get(id(buffer))
        if match is not None:
            source = known[id(match.source.buffer)]
            offset = source.locate(r.min for r in match.source.region)
            return View(
                source.data, source.strides[len(source.strides) - len(buffer.shape) :], offset
            )
        if buffer.strides:
            strides = tuple(int64(s) for s in buffer.strides)
        else:
            strides = compact_strides(buffer.shape)
        offset = imm64(0)
        if buffer.elem_offset is not None and not self.is_parameter(buffer):
            offset = int64(buffer.elem_offset)
        return View(buffer.data, strides, offset)


def list_bound(func: PrimFunc) -> set[int]:
    """List the variables that are bound otherwise than by shapes of aliases or realised buffers."""
    bound = {id(p) for p in func.params}
    for buffer in func.buffer_map.values():
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            bound.add(id(e))
    for part in nodes_outside(func.body, PrimExpr):
        if isinstance(part, LetStmt):
            bound.add(id(part.var))
        elif isinstance(part, For):
            bound.add(id(part.loop_var))
        elif isinstance(part, Allocate):
            bound.add(id(part.buffer_var))
        elif isinstance(part, AttrStmt):
            bound.add(id(part.node))
        elif isinstance(part, Block):
            bound.update(id(it.var) for it in part.iter_vars)
    return bound
