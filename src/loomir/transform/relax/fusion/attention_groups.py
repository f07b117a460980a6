"""Find attention in a graph of kernels: a product, row-wise kernels, and another product.

However it is written (masks that are added or selected by, scores that are scaled before or after,
softmax in one operator or several), it becomes one kernel, so that scores never leave the cache.
Reshapes and transpositions of its operands become part of it: it reads them in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from loomir.transform.relax.fusion.fusion_groups import GraphNode
from loomir.transform.relax.fusion.op_pattern import OpPattern

__all__ = ["KernelInputs", "find_attention"]

_PRODUCT: Final = "relax.matmul"
_MOVES: Final = frozenset(
    {
        "relax.broadcast_to",
        "relax.expand_dims",
        "relax.permute_dims",
        "relax.repeat",
        "relax.reshape",
        "relax.squeeze",
        "relax.strided_slice",
        "relax.tile",
    }
)
_SCALES: Final = frozenset({"relax.multiply", "relax.divide"})
_MOST_MOVES: Final = 6
"""The most kernels that move an operand's elements and are fused into one group."""
_MOST: Final = 16
"""The most kernels between the two products."""


@dataclass(slots=True)
class KernelInputs:
    """What a kernel of a graph computes, and which kernels compute its arguments; -1 for others."""

    name: str = ""
    made_by: list[int] = field(default_factory=list[int])


def find_attention(nodes: Sequence[GraphNode], reads: Sequence[KernelInputs]) -> list[list[int]]:
    """List the kernels of each attention, in program order."""
    finder = _Finder(nodes, reads)
    products = [i for i, read in enumerate(reads) if _is_product(nodes[i], read)]
    for place in products:
        finder.search(place)
    return finder.found


def _is_product(node: GraphNode, read: KernelInputs) -> bool:
    known = node.kind is OpPattern.OUTPUT_FUSABLE and read.name == _PRODUCT
    return known and len(read.made_by) == 2


class _Finder:
    def __init__(self, nodes: Sequence[GraphNode], reads: Sequence[KernelInputs]) -> None:
        self.nodes = nodes
        self.reads = reads
        self.found: list[list[int]] = []
        self.taken: set[int] = set()

    def search(self, second: int) -> None:
        """Search for the attention that ends with a product."""
        rows = self._rows(second)
        if rows is None or rows & self.taken:
            return
        first = min(rows)
        group = {*rows, second}
        for operand in (*self.reads[first].made_by, self.reads[second].made_by[1]):
            group |= self._moves(operand, group)
        group |= self._moves_after(second)
        self.taken |= group
        self.found.append(sorted(group))

    def _rows(self, second: int) -> set[int] | None:
        """Return the kernels of the left operand: another product, and operations on its rows."""
        inside = {second}
        left = self.reads[second].made_by[0]
        first = -1
        pending = {left}
        while pending:
            place = max(pending)  # users before operands
            pending.discard(place)
            if place < 0 or not self._is_inner(place, inside) or len(inside) > _MOST:
                continue
            inside.add(place)
            if _is_product(self.nodes[place], self.reads[place]):
                if first >= 0:
                    return None
                first = place
            else:
                pending.update(self.reads[place].made_by)
        if first < 0:
            return None
        rows = {first}
        for place in sorted(inside - {second, first}):
            if rows.intersection(self.reads[place].made_by):
                rows.add(place)
        kinds = {self.nodes[place].kind for place in rows - {first}}
        combined = kinds & {OpPattern.OUTPUT_FUSABLE, OpPattern.REDUCTION}
        fits = not kinds & {OpPattern.INJECTIVE, OpPattern.OPAQUE}
        return rows if combined and fits and left in rows else None

    def _is_inner(self, place: int, inside: set[int]) -> bool:
        node = self.nodes[place]
        return not node.is_kept and all(user in inside for user, _ in node.users)

    def _moves(self, operand: int, group: set[int]) -> set[int]:
        """Return the kernels that move the elements of an operand and have no other users."""
        made: set[int] = set()
        place = operand
        while place >= 0 and len(made) < _MOST_MOVES and place not in self.taken:
            read = self.reads[place]
            if self.nodes[place].kind > OpPattern.INJECTIVE:
                break
            if not self._is_inner(place, group | made):
                break
            if read.name not in _MOVES and not (read.name in _SCALES and self._scales(place)):
                break
            made.add(place)
            before = [p for p in read.made_by if p >= 0]
            place = before[0] if before else -1
        return made

    def _scales(self, place: int) -> bool:
        """Tell whether a kernel scales an operand, rather than the result of a product."""
        made_by = self.reads[place].made_by
        before = max(made_by, default=-1)
        return min(made_by, default=-1) < 0 and (
            before < 0 or self.nodes[before].kind <= OpPattern.INJECTIVE
        )

    def _moves_after(self, second: int) -> set[int]:
        made: set[int] = set()
        place = second
        while len(made) < 2 and not self.nodes[place].is_kept and len(self.nodes[place].users) == 1:
            place, _ = self.nodes[place].users[0]
            if self.reads[place].name not in _MOVES or place in self.taken:
                break
            if self.nodes[place].kind is not OpPattern.INJECTIVE:
                break
            made.add(place)
        return made
