"""Describe a layout: the axes of a tensor in another order, some of them split into blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loomir.op.nn.layouts import Layout, read_layout
from loomir.support.diagnostics import InternalError

__all__ = ["Arrangement"]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The order of a tensor's axes; each is an original axis, or a part of one.

    ``parts`` has a pair for each axis: the original axis, and 0 for a whole axis or for the axis
    that counts blocks, or the size of the blocks for the axis within a block.
    """

    rank: int
    """The rank of the original tensor."""
    parts: tuple[tuple[int, int], ...]

    @staticmethod
    def plain(rank: int) -> Arrangement:
        """Return the arrangement of an unchanged tensor."""
        return Arrangement(rank, tuple((axis, 0) for axis in range(rank)))

    @staticmethod
    def from_layouts(own: str, wanted: str) -> Arrangement | None:
        """Return the arrangement from a layout without blocks to another layout, or None."""
        names, made = _letters(own), read_layout(wanted)
        if names is None or made is None:
            return None
        parts = tuple((names.index(letter.upper()), size) for letter, size in made.parts)
        return Arrangement(len(names), parts)

    @property
    def is_plain(self) -> bool:
        """Whether the axes are in their original order."""
        return self.parts == tuple((axis, 0) for axis in range(self.rank))

    @property
    def blocks(self) -> dict[int, int]:
        """The block size of each axis that is split into blocks."""
        return {axis: size for axis, size in self.parts if size}

    def text(self, own: str) -> str | None:
        """Return it as a layout, if the original tensor has the layout ``own``; else None."""
        names = _letters(own)
        if names is None or len(names) != self.rank:
            return None
        return "".join(f"{size}{names[a].lower()}" if size else names[a] for a, size in self.parts)

    def place(self, axis: int) -> int | None:
        """Return the position of an original axis (may be negative); None if it is split."""
        axis %= self.rank
        return None if axis in self.blocks else self.parts.index((axis, 0))

    def places(self, axes: Iterable[int]) -> list[int] | None:
        """Return the positions of original axes; None if one of them is split."""
        found = [self.place(axis) for axis in axes]
        whole = [place for place in found if place is not None]
        return whole if len(whole) == len(found) else None

    def drop_axes(self, axes: Iterable[int]) -> Arrangement:
        """Return the arrangement after removing original axes."""
        gone = {axis % self.rank for axis in axes}
        left = [axis for axis in range(self.rank) if axis not in gone]
        parts = tuple((left.index(a), size) for a, size in self.parts if a not in gone)
        return Arrangement(len(left), parts)

    def permute(self, order: Sequence[int]) -> Arrangement:
        """Return the arrangement after permuting the original axes."""
        table = {axis % self.rank: at for at, axis in enumerate(order)}
        return Arrangement(self.rank, tuple((table[axis], size) for axis, size in self.parts))

    def order_to(self, other: Arrangement) -> list[int] | None:
        """Return the permutation from this arrangement to another one, or None."""
        if sorted(self.parts) != sorted(other.parts):
            return None
        return [self.parts.index(part) for part in other.parts]

    def map_to(self, other: Arrangement) -> str:
        """Return the index map from this arrangement to another one."""
        names = {part: f"i{at}" for at, part in enumerate(self.parts)}
        own, wanted = self.blocks, other.blocks
        made: list[str] = []
        for axis, size in other.parts:
            if (axis, size) in names and own.get(axis) == wanted.get(axis):
                made.append(names[axis, size])
                continue
            whole = names[axis, 0]
            if axis in own:
                whole = f"({whole} * {own[axis]} + {names[axis, own[axis]]})"
            if axis in wanted:
                made.append(f"{whole} % {size}" if size else f"{whole} // {wanted[axis]}")
            else:
                made.append(whole)
        return f"lambda {', '.join(names.values())}: ({', '.join(made)},)"


def _letters(text: str) -> list[str] | None:
    """List the letters of a layout; None for one with blocks."""
    made: Layout | None = read_layout(text)
    if made is None:
        raise InternalError(f"{text!r} is not a layout")
    return None if made.blocks else [letter for letter, _ in made.parts]
