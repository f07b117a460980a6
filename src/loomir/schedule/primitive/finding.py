"""Queries: blocks by name, the loops around a block, its producers and its consumers."""

from __future__ import annotations

from loomir.loops.regions import block_regions
from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Place, Sblock, query
from loomir.support.diagnostics import nearest

__all__ = [
    "get_child_blocks",
    "get_consumers",
    "get_loops",
    "get_output_blocks",
    "get_producers",
    "get_sblock",
]


@query
def get_sblock(context: Context, name: str, func_name: str | None = None) -> Ref:
    """Find a block by its name, in the current function or in another one.

    Errors: SCH0001.
    """
    function = context.function
    if func_name is not None:
        found = context.state.function(func_name)
        if found is None:
            names = context.state.names()
            refuse(_describe_missing("function", func_name, names))
        function = found
    blocks = [r for r in function.refs() if not r.is_loop]
    named = [r for r in blocks if r.block.name_hint == name]
    if not named:
        refuse(_describe_missing("block", name, sorted({r.block.name_hint for r in blocks})))
    if len(named) > 1:
        refuse(
            Refusal(
                "SCH0001",
                "{} blocks are named {!r}",
                (len(named), name),
                "give blocks unique names, or go down from the loop with get_child_blocks",
                named[0].stmt,
            )
        )
    return named[0]


def _describe_missing(what: str, name: str, names: list[str]) -> Refusal:
    guess = nearest(name, names)
    advice = f"did you mean {guess!r}?" if guess else f"there are: {', '.join(names) or 'none'}"
    return Refusal("SCH0001", "there is no {} {!r}", (what, name), advice)


@query
def get_loops(context: Context, block: Sblock) -> list[Ref]:
    """List the loops between a block and the enclosing block, outermost first."""
    return block.loops()


@query
def get_child_blocks(context: Context, block_or_loop: Place) -> list[Ref]:
    """List the outermost blocks in a block or loop, in program order."""
    return block_or_loop.blocks()


def _siblings(block: Ref) -> list[tuple[Ref, set[int], set[int]]]:
    """List the blocks of a block's scope with the memory that they read and write."""
    found: list[tuple[Ref, set[int], set[int]]] = []
    for ref in block.scope.blocks():
        reads, writes = block_regions(ref.block)
        found.append((ref, {id(r.buffer.data) for r in reads}, {id(r.buffer.data) for r in writes}))
    return found


@query
def get_producers(context: Context, block: Sblock) -> list[Ref]:
    """List the blocks of the same scope that write what a block reads, in program order."""
    found = _siblings(block)
    wanted = next((reads for ref, reads, _ in found if ref is block), set[int]())
    return [ref for ref, _, writes in found if ref is not block and not wanted.isdisjoint(writes)]


@query
def get_consumers(context: Context, block: Sblock) -> list[Ref]:
    """List the blocks of the same scope that read what a block writes, in program order."""
    found = _siblings(block)
    made = next((writes for ref, _, writes in found if ref is block), set[int]())
    return [ref for ref, reads, _ in found if ref is not block and not made.isdisjoint(reads)]


@query
def get_output_blocks(context: Context, scope_block: Sblock) -> list[Ref]:
    """List the blocks of a scope that write its outputs: buffers that live on after it."""
    inside: set[int] = {id(b.data) for b in scope_block.block.alloc_buffers}
    found: list[Ref] = []
    for ref in scope_block.blocks():
        _, writes = block_regions(ref.block)
        if any(id(r.buffer.data) not in inside for r in writes):
            found.append(ref)
    return found
