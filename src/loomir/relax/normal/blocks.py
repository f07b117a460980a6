"""Blocks of a sequence under construction, to which bindings are added."""

from __future__ import annotations

from loomir.relax.expr import Binding, BindingBlock, DataflowBlock, SeqExpr
from loomir.relax.node import RelaxExpr

__all__ = ["Scope", "is_dataflow", "make_block"]


def is_dataflow(block: BindingBlock) -> bool:
    """Whether a block is a dataflow block."""
    return isinstance(block, DataflowBlock)


def make_block(
    dataflow: bool, bindings: list[Binding], origin: BindingBlock | None = None
) -> BindingBlock:
    """Make a block, or return ``origin`` if it has these bindings."""
    if origin is not None and is_dataflow(origin) == dataflow:
        old = origin.bindings
        if len(old) == len(bindings) and all(a is b for a, b in zip(old, bindings)):
            return origin
    cls = DataflowBlock if dataflow else BindingBlock
    return cls(tuple(bindings), span=None if origin is None else origin.span)


class _OpenBlock:
    """A block that is being built; ``origin`` is the block of the old program that it began as."""

    __slots__ = ("bindings", "dataflow", "origin")

    def __init__(self, dataflow: bool, origin: BindingBlock | None) -> None:
        self.dataflow = dataflow
        self.origin = origin
        self.bindings: list[Binding] = []


class Scope:
    """A sequence that is being built.

    Bindings go to the last block. Empty blocks vanish, and a block of the kind of the one before
    is merged with it, so the blocks are always those of the normal form.
    """

    __slots__ = ("_blocks", "_start", "pure")

    def __init__(self, pure: bool) -> None:
        self.pure = pure
        """Whether calls in the scope must be pure."""
        self._blocks = [_OpenBlock(False, None)]
        self._start = 0

    @property
    def dataflow(self) -> bool:
        """Whether bindings go to a dataflow block."""
        return self._blocks[-1].dataflow

    @property
    def bindings(self) -> list[Binding]:
        """The bindings of the last block."""
        return self._blocks[-1].bindings

    def open(self, dataflow: bool, origin: BindingBlock | None = None) -> None:
        """Continue in a block of a kind."""
        blocks = self._blocks
        if not blocks[-1].bindings:
            blocks.pop()
        if not blocks or blocks[-1].dataflow != dataflow:
            blocks.append(_OpenBlock(dataflow, origin))
        self._start = len(blocks[-1].bindings)

    def add(self, binding: Binding) -> None:
        """Add a binding."""
        self._blocks[-1].bindings.append(binding)

    def close(self) -> BindingBlock:
        """Return what was added since the last block was opened."""
        last = self._blocks[-1]
        return make_block(last.dataflow, last.bindings[self._start :])

    def finish(self, body: RelaxExpr, origin: SeqExpr | None = None) -> SeqExpr:
        """Make the sequence, or return ``origin`` if it is equal."""
        blocks = tuple(
            [make_block(b.dataflow, b.bindings, b.origin) for b in self._blocks if b.bindings]
        )
        if origin is not None:
            old = origin.blocks
            same = len(old) == len(blocks) and all(a is b for a, b in zip(old, blocks))
            if same and origin.body is body:
                return origin
        return SeqExpr(blocks, body, span=None if origin is None else origin.span)
