"""Einsum: sums of products by subscripts, contracted in pairs in an order with few operations.

16-bit floats are summed in float32 and rounded once; integers wrap in their own dtype.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from loomir.support.dtype import DataType
from loomir.te import reduction as te
from loomir.te.tensor import Tensor
from loomir.te.topi.elementwise import cast
from loomir.te.topi.shape import Size, bad, broadcast_shapes, compute_dtype, dims, make, need, read
from loomir.tir.expr import Mul, PrimExpr, convert
from loomir.tir.expr import cast as converted

__all__ = ["einsum"]

_EXHAUSTIVE: Final = 8
"""So many operands have 3025 ways to split some of them in two; more are paired greedily."""
_UNKNOWN: Final = 256
"""The number that a symbolic extent counts as."""
_ROOM: Final = (1 << 20, 4)
"""Intermediate results have so many elements, or so many times those of the largest tensor."""


def _subscripts(text: str, count: int) -> tuple[list[str], str]:
    """Read the letters of the operands and of the result, in NumPy's order where it is implied."""
    found = re.fullmatch(r"([A-Za-z]*(?:,[A-Za-z]*)*)(->([A-Za-z]*))?", text.replace(" ", ""))
    if found is None:
        bad("einsum", f"{text!r} are not subscripts", 'write letters, as in "ij,jk->ik"')
    inputs = found[1].split(",")
    every = "".join(inputs)
    output = found[3] if found[2] else "".join(c for c in sorted({*every}) if every.count(c) == 1)
    if len(inputs) != count or len({*output}) < len(output) or not {*output} <= {*every}:
        bad("einsum", f"{text!r} does not fit {count} operands", "name each axis of each operand")
    return inputs, output


def einsum(subscripts: str, *operands: Tensor) -> Tensor:
    """Sum products over letters: ``einsum("ij,jk->ik", a, b)``; without ``->``, over repeated ones.

    Where that takes fewer operations, operands are multiplied in pairs, and letters summed as soon
    as no other operand has them: sums of floats may be rounded otherwise, and be infinite or NaN
    where a sum of all products is not, or the other way round.
    Shapes: those of the letters, each of one extent, or 1. Errors: TE0101, TE0103, TE0104.
    """
    if not operands:
        bad("einsum", "there are no operands", "give a tensor for each group of letters")
    need("einsum", "number", *operands)
    inputs, output = _subscripts(subscripts, len(operands))
    extents = _extents(inputs, operands)
    out, wide = operands[0].dtype, compute_dtype(operands[0].dtype)
    parts = list(zip(inputs, operands, strict=True))
    for step in _order(inputs, output, extents):
        taken = [parts[k] for k in step.taken]
        made = _product("part", taken, step.letters, wide)
        parts = [p for k, p in enumerate(parts) if k not in step.taken]
        parts.append((step.letters, made))
    made = _product("einsum", parts, output, wide)
    return made if made.dtype is out else cast(made, out)


def _extents(inputs: Sequence[str], operands: Sequence[Tensor]) -> dict[str, Size]:
    extents: dict[str, Size] = {}
    for letters, x in zip(inputs, operands, strict=True):
        if len(letters) != x.ndim:
            bad("einsum", f"{letters!r} does not name {x.ndim} axes", "name each axis")
        for letter, d in zip(letters, dims(x), strict=True):
            before = extents.get(letter, 1)
            (extents[letter],) = broadcast_shapes("einsum", [before], [d])
    return extents


def _product(
    name: str, parts: Sequence[tuple[str, Tensor]], output: str, dtype: DataType
) -> Tensor:
    """Multiply tensors in one nest of loops, summing over what the result does not name."""
    extents = _extents([letters for letters, _ in parts], [x for _, x in parts])
    summed = [c for c in extents if c not in output]
    axes = {c: te.reduce_axis((0, convert(extents[c])), c) for c in summed}

    def element(*i: PrimExpr) -> PrimExpr:
        at: dict[str, PrimExpr] = {**dict(zip(output, i, strict=True)), **axes}
        made: PrimExpr | None = None
        for letters, x in parts:
            value = converted(read(x, [at[c] for c in letters]), dtype)
            made = value if made is None else Mul(made, value)
        return te.sum(made, axis=list(axes.values())) if axes else made  # pyright: ignore[reportReturnType]

    shape: Sequence[Size] = [extents[c] for c in output]
    made: Tensor = make(name, shape, element)
    return made


# -- the order ---------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Step:
    """Operands, by their numbers among those that are left, and the letters of their product."""

    taken: tuple[int, ...]
    letters: str


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """A way to multiply some operands: its cost, its parts, and the letters of the result."""

    cost: float
    letters: str
    parts: tuple[_Way, ...] = ()
    number: int = 0


class _Counts:
    """Counts operations, as if symbolic extents were numbers."""

    def __init__(self, inputs: Sequence[str], output: str, extents: dict[str, Size]) -> None:
        self.inputs, self.output = inputs, output
        self.size = {c: e if isinstance(e, int) else _UNKNOWN for c, e in extents.items()}
        largest = max(map(self.elements, [*inputs, output]))
        self.room = max(_ROOM[0], _ROOM[1] * largest)

    def elements(self, letters: str) -> int:
        return prod(self.size[c] for c in {*letters})

    def letters_kept(self, letters: str, inside: int) -> str:
        """Return the letters that the result has, or an operand that does not take part."""
        others = {c for k, x in enumerate(self.inputs) if not inside >> k & 1 for c in x}
        return "".join(dict.fromkeys(c for c in letters if c in others or c in self.output))

    def take_operand(self, k: int) -> _Way:
        """Take an operand: its own letters are summed first where another one would repeat it."""
        plain = _Way(0, self.inputs[k], number=k)
        left = self.letters_kept(self.inputs[k], 1 << k)
        if len({*left}) == len({*self.inputs[k]}):
            return plain
        return _Way(self.elements(self.inputs[k]), left, (plain,))

    def pair(self, a: _Way, b: _Way, inside: int) -> _Way | None:
        """Multiply two; None if the product is too large to be kept."""
        every = "".join(dict.fromkeys(a.letters + b.letters))
        left = self.letters_kept(every, inside)
        if self.elements(left) > self.room:
            return None
        return _Way(a.cost + b.cost + self.elements(every), left, (a, b))


def _order(inputs: Sequence[str], output: str, extents: dict[str, Size]) -> list[_Step]:
    """Return products to make before the last one, none where one nest of loops does as well."""
    counts = _Counts(inputs, output, extents)
    at_once = counts.elements("".join(inputs))
    if len(inputs) < 2 or not {*"".join(inputs)} - {*output} or not at_once:
        return []
    best = _best(counts) if len(inputs) <= _EXHAUSTIVE else _greedy(counts)
    # A product of two factors is fast, so that it may take a little more; but what is added up
    # for no gain, as in "i,i,i->", is not kept.
    worth = 1.2 if len(inputs) > 2 else 0.5
    if best is None or best.cost > at_once * worth:
        return []
    return _steps(best, len(inputs))


def _best(counts: _Counts) -> _Way | None:
    """Find the cheapest order of all, from few operands to many."""
    n = len(counts.inputs)
    ways: dict[int, _Way] = {1 << k: counts.take_operand(k) for k in range(n)}
    for inside in sorted(range(1, 1 << n), key=int.bit_count):
        for a, b in _halves(inside):
            if a in ways and b in ways:
                made = counts.pair(ways[a], ways[b], inside)
                before = ways.get(inside)
                if made is not None and (before is None or made.cost < before.cost):
                    ways[inside] = made
    return ways.get((1 << n) - 1)


def _halves(inside: int) -> Iterator[tuple[int, int]]:
    """Split a set in two, in each way once: the lowest member is on the left."""
    lowest = inside & -inside
    rest = part = inside ^ lowest
    while part:
        yield inside ^ part, part
        part = (part - 1) & rest


def _greedy(counts: _Counts) -> _Way | None:
    """Multiply the two that leave the least, compared with what they were, until one is left."""
    ways = {1 << k: counts.take_operand(k) for k in range(len(counts.inputs))}
    while len(ways) > 1:
        found: list[tuple[int, float, int, int, _Way]] = []
        for a, one in ways.items():
            for b, other in ways.items():
                made = counts.pair(one, other, a | b) if a < b else None
                if made is not None:
                    grown = counts.elements(made.letters)
                    grown -= counts.elements(one.letters) + counts.elements(other.letters)
                    found.append((grown, made.cost, a, b, made))
        if not found:
            return None
        *_, a, b, made = min(found, key=lambda f: f[:4])
        del ways[a], ways[b]
        ways[a | b] = made
    return next(iter(ways.values()))


def _steps(best: _Way, count: int) -> list[_Step]:
    """List products, parts first, but the last; each takes numbers among what is left by then."""
    left: list[_Way | int] = list(range(count))
    made: list[_Step] = []
    post: list[_Way] = []
    stack = list(best.parts)
    while stack:
        way = stack.pop()
        if way.parts:
            post.append(way)
            stack += way.parts
    for way in reversed(post):
        wanted = [w if w.parts else w.number for w in way.parts]
        taken = tuple(left.index(w) for w in wanted)
        made.append(_Step(taken, way.letters))
        left = [w for k, w in enumerate(left) if k not in taken]
        left.append(way)
    return made
