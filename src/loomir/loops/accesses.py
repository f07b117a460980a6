"""Find the accesses of each part of a nest, in terms of the loops around it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from loomir.ir.equality import are_equal
from loomir.ir.node import Node
from loomir.ir.substitution import substitute
from loomir.ir.visit import children, pre_order
from loomir.loops.ranges import loop_range
from loomir.loops.regions import KEPT, block_regions, box_of
from loomir.tir.analysis.copy_statement import definitions_in
from loomir.tir.analysis.effects import Effects, effects_of_node
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, Range
from loomir.tir.expr import Call, IntImm, Let, PrimExpr, Var
from loomir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    Stmt,
    While,
)

__all__ = ["Access", "Nest", "iteration_of", "loads_and_stores", "nest_of", "obstacle_in"]

_MOST: Final = 16
"""How many elements of one buffer are distinguished; with more, their bounding box is used."""
_ACTING: Final = (AssertStmt, AttrStmt, BufferRealize)
_OPAQUE: Final = (*_ACTING, While, Allocate, DeclBuffer)


class Access(NamedTuple):
    """A box of a buffer that a block, or a statement outside of blocks, reads or writes."""

    buffer: Buffer
    region: tuple[Range, ...]
    is_write: bool

    def is_same_box(self, other: Access) -> bool:
        """Tell whether another access of the buffer is of the same box, as it is written."""
        return are_equal(self.region, other.region)

    @property
    def point(self) -> tuple[PrimExpr, ...] | None:
        """The indices, where it is one element."""
        if any(not isinstance(r.extent, IntImm) or r.extent.value != 1 for r in self.region):
            return None
        return tuple(r.min for r in self.region)


class Nest(NamedTuple):
    """A statement's accesses, its loops outside of blocks, and what hides further effects."""

    accesses: tuple[Access, ...]
    loops: Mapping[Var, Range]
    obstacle: str


def obstacle_in(stmt: Stmt, opaque: tuple[type[Stmt], ...] = _OPAQUE) -> str:
    """Name what a statement has in it besides loops, blocks and stores; empty if nothing."""
    for node in pre_order(stmt):
        if isinstance(node, opaque):
            return f"{type(node).__name__} stands in it"
        if isinstance(node, Call) and effects_of_node(node) & Effects.ACTS:
            return f"it calls {getattr(node.op, 'name', node.op)}, which may do anything"
    return ""


def loads_and_stores(found: Mapping[type, list[Any]]) -> list[BufferLoad | BufferStore]:
    """List the accesses among nodes that ``by_class`` has grouped."""
    return [*found.get(BufferLoad, ()), *found.get(BufferStore, ())]


@lru_cache(maxsize=KEPT)
def nest_of(stmt: Stmt) -> Nest:
    """Find what a statement reads and writes."""
    found: list[Access] = []
    loops: dict[Var, Range] = {}
    stack: list[Stmt] = [stmt]
    while stack:
        node = stack.pop()
        if isinstance(node, BlockRealize):
            _block(node, found)
            continue
        for part in reversed(children(node)):
            if isinstance(part, Stmt):
                stack.append(part)
            else:
                _loads(part, found)
        if isinstance(node, For):
            loops[node.loop_var] = loop_range(node)
        elif isinstance(node, BufferStore):
            found.append(Access(node.buffer, box_of(node).region, True))
    bound = {id(n.var) for n in pre_order(stmt) if isinstance(n, (Let, LetStmt))}
    return Nest(tuple(_widen_inner_axes(a, bound) for a in found), loops, obstacle_in(stmt))


def _widen_inner_axes(access: Access, bound: set[int]) -> Access:
    """Widen an access to all of an axis whose index is computed within the nest."""

    def is_found(r: Range) -> bool:
        return any(isinstance(n, BufferLoad) or id(n) in bound for n in pre_order(r.min))

    if not any(map(is_found, access.region)):
        return access
    pairs = zip(access.region, access.buffer.whole().region)
    return access._replace(region=tuple(all_of if is_found(r) else r for r, all_of in pairs))


def iteration_of(loop: For) -> Nest:
    """Find what iterations of a loop read and write, but for memory that each has for itself.

    Accesses under a ``While`` count as well: how often they happen makes no difference.
    """
    nest = nest_of(loop)
    local = {id(part.buffer_var) for part in pre_order(loop) if isinstance(part, Allocate)}
    shared = tuple(a for a in nest.accesses if id(a.buffer.data) not in local)
    return Nest(shared, nest.loops, obstacle_in(loop, _ACTING))


def _loads(part: object, found: list[Access]) -> None:
    if isinstance(part, PrimExpr):
        for node in pre_order(part):
            if isinstance(node, BufferLoad):
                found.append(Access(node.buffer, box_of(node).region, False))


def _block(node: BlockRealize, found: list[Access]) -> None:
    for part in (*node.values, node.predicate):
        _loads(part, found)
    bound = dict(zip((it.var for it in node.block.iter_vars), node.values, strict=True))
    for access in _elements(node.block) or _boxes(node.block):
        region = substitute(BufferRegion(access.buffer, access.region), bound).region
        found.append(access._replace(region=region))


def _boxes(block: Block) -> list[Access]:
    """Return one box for each buffer that a block reads, and for each that it writes."""
    reads, writes = block_regions(block)
    found = [Access(r.buffer, r.region, False) for r in reads]
    return found + [Access(r.buffer, r.region, True) for r in writes]


@lru_cache(maxsize=KEPT)
def _elements(block: Block) -> tuple[Access, ...] | None:
    """Return the single elements that a block reads and writes, None if these are not known.

    Regions are boxes around all of them: three neighbours are the whole axis there.
    """
    if block.match_buffers or block.alloc_buffers:
        return None
    parts = [block.body] if block.init is None else [block.init, block.body]
    hidden = {id(d) for part in parts for d in definitions_in(part)}
    found: list[Access] = []
    seen: dict[tuple[int, bool], list[Access]] = {}
    for node in (n for part in parts for n in pre_order(part)):
        if isinstance(node, (BlockRealize, Call)) and not _is_plain(node):
            return None
        if not isinstance(node, (BufferLoad, BufferStore)):
            continue
        region = _element(node, hidden)
        if region is None:
            return None
        made = Access(node.buffer, region, isinstance(node, BufferStore))
        same = seen.setdefault((id(node.buffer), made.is_write), [])
        if not any(made.is_same_box(other) for other in same):
            same.append(made)
            found.append(made)
            if len(same) > _MOST:
                return None
    return tuple(found)


def _is_plain(node: Node) -> bool:
    """Tell whether a call takes values only."""
    return isinstance(node, Call) and not any(a.dtype.is_handle for a in node.args)


def _element(node: BufferLoad | BufferStore, hidden: set[int]) -> tuple[Range, ...] | None:
    """Return an element as a box: all of an axis whose index is found inside of the block."""
    made: list[Range] = []
    for index, whole in zip(node.indices, node.buffer.whole().region):
        if index.dtype.lanes != 1:
            return None
        inner = any(id(n) in hidden or isinstance(n, BufferLoad) for n in pre_order(index))
        made.append(whole if inner else Range(index, IntImm(1, index.dtype)))
    return tuple(made)
