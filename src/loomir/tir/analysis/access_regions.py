"""Derive the regions that a block reads and writes from its body.

If an access's index uses only names from outside of the block's body (its iterators, loops around
it), the region is that index. Otherwise, and if accesses of one buffer differ, it is the whole
axis. A buffer whose pointer is passed to a call counts as read and written as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loomir.ir.equality import structural_equal
from loomir.ir.node import Node
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import children, pre_order
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion, Range
from loomir.tir.expr import IntImm, Let, PrimExpr, Ramp, Var
from loomir.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    Stmt,
)

__all__ = ["infer_access_regions"]


def infer_access_regions(
    body: Stmt,
    init: Stmt | None = None,
    alloc_buffers: Iterable[Buffer] = (),
    match_buffers: Iterable[MatchBufferRegion] = (),
    pointers: Mapping[int, Buffer] | None = None,
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """Return the regions that a block reads and those that it writes, in order of first access.

    With an ``init``, buffers that the block writes are not listed as read: it initialises them.
    ``pointers`` maps the id of a data variable to the buffer whose memory it is.
    """
    found = _Accesses(list(match_buffers), pointers or {})
    found.skip(b.data for b in alloc_buffers)
    if init is not None:
        found.visit(init)
    found.visit(body)
    writes = found.writes.regions()
    reads = found.reads.regions()
    if init is not None:
        written = {id(r.buffer) for r in writes}
        reads = tuple(r for r in reads if id(r.buffer) not in written)
    return reads, writes


class _Regions:
    """Regions by buffer, in order of first access."""

    def __init__(self) -> None:
        self.found: dict[int, BufferRegion] = {}

    def add(self, buffer: Buffer, ranges: list[Range]) -> None:
        old = self.found.get(id(buffer))
        if old is not None:
            whole = buffer.whole().region
            ranges = [
                a if structural_equal(a, b) else w
                for a, b, w in zip(old.region, ranges, whole, strict=True)
            ]
        self.found[id(buffer)] = BufferRegion(buffer, tuple(ranges))

    def regions(self) -> tuple[BufferRegion, ...]:
        return tuple(self.found.values())


class _Accesses:
    def __init__(self, matches: list[MatchBufferRegion], pointers: Mapping[int, Buffer]) -> None:
        self.reads, self.writes = _Regions(), _Regions()
        self.inner: set[int] = set()
        self.skipped: set[int] = set()
        self.declared: set[int] = set()
        self.pointers = pointers
        self.matched = {id(m.buffer.data): m.source for m in matches}
        for match in matches:
            self.visit_parts(match.source.region)

    def skip(self, pointers: Iterable[Var]) -> None:
        """Ignore memory that the block itself allocates."""
        self.skipped.update(id(p) for p in pointers)

    def visit_parts(self, parts: Iterable[Node]) -> None:
        for part in parts:
            self.visit(part)

    def visit(self, root: Node) -> None:
        """Note the accesses in a statement or expression, in program order."""
        for inner in pre_order(root):
            self._define(inner)
        stack: list[Node] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, BufferLoad):
                self._access(self.reads, node.buffer, node.indices)
            elif isinstance(node, BufferStore):
                self._access(self.writes, node.buffer, node.indices)
            elif isinstance(node, BlockRealize):
                self._block(node)
                stack.extend(reversed(node.values))
                continue
            elif isinstance(node, Var) and id(node) in self.pointers:
                self._opaque(self.pointers[id(node)])
            stack.extend(reversed(children(node)))

    def _define(self, node: Node) -> None:
        if isinstance(node, For):
            self.inner.add(id(node.loop_var))
        elif isinstance(node, (LetStmt, Let)):
            self.inner.add(id(node.var))
        elif isinstance(node, Allocate):
            self.skipped.add(id(node.buffer_var))
        elif isinstance(node, AttrStmt):
            noted: Any = node.node
            self.inner.add(id(getattr(noted, "var", noted)))
        elif isinstance(node, Block):
            self.inner.update(id(it.var) for it in node.iter_vars)
            self.skip(b.data for b in node.alloc_buffers)
        elif isinstance(node, BufferRealize):
            self.skip((node.buffer.data,))
        elif isinstance(node, DeclBuffer):
            self.declared.add(id(node.buffer))

    def _opaque(self, buffer: Buffer) -> None:
        if id(buffer.data) not in self.skipped:
            whole = list(buffer.whole().region)
            self._note(self.reads, buffer, whole)
            self._note(self.writes, buffer, whole)

    def _block(self, node: BlockRealize) -> None:
        block = node.block
        values = {it.var: value for it, value in zip(block.iter_vars, node.values, strict=True)}
        for regions, into in ((block.reads, self.reads), (block.writes, self.writes)):
            for region in regions:
                outside = substitute(region, values)
                self._note(
                    into,
                    region.buffer,
                    [self._outer(region.buffer, a, r) for a, r in enumerate(outside.region)],
                )

    def _access(self, into: _Regions, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        ranges = [self._range(buffer, axis, index) for axis, index in enumerate(indices)]
        self._note(into, buffer, ranges)

    def _note(self, into: _Regions, buffer: Buffer, ranges: list[Range]) -> None:
        seen: set[int] = set()
        while id(buffer.data) in self.matched and id(buffer.data) not in seen:
            seen.add(id(buffer.data))
            source = self.matched[id(buffer.data)]
            buffer, ranges = source.buffer, list(source.region)
        if id(buffer) in self.declared:  # no name outside the block; its memory may have one
            owner = self.pointers.get(id(buffer.data))
            if owner is None or id(owner) in self.declared:
                return
            buffer, ranges = owner, list(owner.whole().region)
        if id(buffer.data) not in self.skipped:
            into.add(buffer, ranges)

    def _range(self, buffer: Buffer, axis: int, index: PrimExpr) -> Range:
        if isinstance(index, Ramp):
            stride = index.stride
            if isinstance(stride, IntImm) and stride.value == 1:
                made = Range(index.base, IntImm(index.lanes, index.base.dtype))
                return self._outer(buffer, axis, made)
        if index.dtype.lanes != 1:
            return self._cover_axis(buffer, axis)
        return self._outer(buffer, axis, Range(index, IntImm(1, index.dtype)))

    def _outer(self, buffer: Buffer, axis: int, found: Range) -> Range:
        """Return the range, or the whole axis if the range depends on names bound in the block."""
        for node in pre_order(found):
            if isinstance(node, (BufferLoad, Let)):  # a copied Let would bind its name twice
                return self._cover_axis(buffer, axis)
        if any(id(name) in self.inner for name in free_definitions(found)):
            return self._cover_axis(buffer, axis)
        return found

    def _cover_axis(self, buffer: Buffer, axis: int) -> Range:
        return buffer.whole().region[axis]
