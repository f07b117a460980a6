"""What the parts of a nest read and write, in terms of the loops around them."""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.ir.substitution import substitute
from loomir.ir.visit import children, pre_order
from loomir.tir.access_regions import infer_access_regions
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, Range
from loomir.tir.effects import Does, effects_of_node
from loomir.tir.expr import Call, IntImm, PrimExpr, Var
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
    Stmt,
    While,
    seq,
)

__all__ = ["Access", "Nest", "block_regions", "nest_of", "obstacle_in"]

_OPAQUE: Final = (While, AssertStmt, AttrStmt, Allocate, BufferRealize, DeclBuffer)


class Access(NamedTuple):
    """A box of a buffer that a block, or a statement outside of blocks, reads or writes."""

    buffer: Buffer
    region: tuple[Range, ...]
    is_write: bool

    @property
    def point(self) -> tuple[PrimExpr, ...] | None:
        """The indices, where it is one element."""
        if any(not isinstance(r.extent, IntImm) or r.extent.value != 1 for r in self.region):
            return None
        return tuple(r.min for r in self.region)


class Nest(NamedTuple):
    """A statement's accesses, its loops outside of blocks, and what hides further effects."""

    accesses: tuple[Access, ...]
    loops: dict[Var, Range]
    obstacle: str


def block_regions(
    block: Block,
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """Give what a block reads and writes, by what it does and not by what it declares.

    What a reduction updates counts as read as well.
    """
    body = block.body if block.init is None else seq((block.init, block.body))
    return infer_access_regions(body, None, block.alloc_buffers, block.match_buffers)


def obstacle_in(stmt: Stmt) -> str:
    """Name what a statement has in it besides loops, blocks and stores; empty where nothing."""
    for node in pre_order(stmt):
        if isinstance(node, _OPAQUE):
            return f"{type(node).__name__} stands in it"
        if isinstance(node, Call) and effects_of_node(node) & Does.ACTS:
            return f"it calls {getattr(node.op, 'name', node.op)}, which may do anything"
    return ""


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
            loops[node.loop_var] = Range(node.min, node.extent)
        elif isinstance(node, BufferStore):
            found.append(
                Access(node.buffer, tuple(Range(i, IntImm(1, i.dtype)) for i in node.indices), True)
            )
    return Nest(tuple(found), loops, obstacle_in(stmt))


def _loads(part: object, found: list[Access]) -> None:
    if isinstance(part, PrimExpr):
        for node in pre_order(part):
            if isinstance(node, BufferLoad):
                ranges = tuple(Range(i, IntImm(1, i.dtype)) for i in node.indices)
                found.append(Access(node.buffer, ranges, False))


def _block(node: BlockRealize, found: list[Access]) -> None:
    for part in (*node.values, node.predicate):
        _loads(part, found)
    reads, writes = block_regions(node.block)
    bound = dict(zip((it.var for it in node.block.iter_vars), node.values, strict=True))
    for regions, is_write in ((reads, False), (writes, True)):
        for region in regions:
            placed = substitute(region, bound)
            found.append(Access(placed.buffer, placed.region, is_write))
