"""Describe a layout: the axes of a tensor in another order, some of them split into blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loomir.op.nn.layouts import Layout, read_layout
from loomir.support.diagnostics import InternalError

__all__ = ["Arrangement"]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Axes in their order: each is one of the original tensor, or a part of one.

    ``parts`` has an axis of the original tensor for each axis, and 0; or the size of the blocks in
    which that axis is cut, for the axis that goes through a block. The axis that counts the blocks
    has 0 too.
    """

    rank: int
    """How many axes the original tensor has."""
    parts: tuple[tuple[int, int], ...]

    @staticmethod
    def plain(rank: int) -> Arrangement:
        """Return that of a tensor as it is."""
        return Arrangement(rank, tuple((axis, 0) for axis in range(rank)))

    @staticmethod
    def between(own: str, wanted: str) -> Arrangement | None:
        """Return that of a layout for a tensor of another, which must have no blocks."""
        names, made = _letters(own), read_layout(wanted)
        if names is None or made is None:
            return None
        parts = tuple((names.index(letter.upper()), size) for letter, size in made.parts)
        return Arrangement(len(names), parts)

    @property
    def is_plain(self) -> bool:
        """Whether the axes are as they were."""
        return self.parts == tuple((axis, 0) for axis in range(self.rank))

    @property
    def blocks(self) -> dict[int, int]:
        """The size of the blocks of each axis that is cut."""
        return {axis: size for axis, size in self.parts if size}

    def text(self, own: str) -> str | None:
        """Write it as a layout, where the original tensor has the layout ``own``."""
        names = _letters(own)
        if names is None or len(names) != self.rank:
            return None
        return "".join(f"{size}{names[a].lower()}" if size else names[a] for a, size in self.parts)

    def place(self, axis: int) -> int | None:
        """Tell where an original axis stands, counted from the end too; None if it is cut."""
        axis %= self.rank
        return None if axis in self.blocks else self.parts.index((axis, 0))

    def places(self, axes: Iterable[int]) -> list[int] | None:
        """Tell where original axes stand; None if one of them is cut."""
        found = [self.place(axis) for axis in axes]
        whole = [place for place in found if place is not None]
        return whole if len(whole) == len(found) else None

    def without(self, axes: Iterable[int]) -> Arrangement:
        """Return that of a tensor from which original axes were taken away."""
        gone = {axis % self.rank for axis in axes}
        left = [axis for axis in range(self.rank) if axis not in gone]
        parts = tuple((left.index(a), size) for a, size in self.parts if a not in gone)
        return Arrangement(len(left), parts)

    def permute(self, order: Sequence[int]) -> Arrangement:
        """Return that of the original tensor with its axes in another order."""
        table = {axis % self.rank: at for at, axis in enumerate(order)}
        return Arrangement(self.rank, tuple((table[axis], size) for axis, size in self.parts))

    def order_to(self, other: Arrangement) -> list[int] | None:
        """Return the order of axes that makes the other arrangement of this; None if none does."""
        if sorted(self.parts) != sorted(other.parts):
            return None
        return [self.parts.index(part) for part in other.parts]

    def map_to(self, other: Arrangement) -> str:
        """Write the index map that makes the other arrangement of this."""
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
    """List the letters of a layout; None for one that has blocks."""
    made: Layout | None = read_layout(text)
    if made is None:
        raise InternalError(f"{text!r} is not a layout")
    return None if made.blocks else [letter for letter, _ in made.parts]
