"""Mixed-radix digits of iterators, and index arithmetic on sums of them.

An iterator that counts from 0 has digits like a number: ``i // 4 % 8`` is a digit of extent 8 and
weight 4. (TVM calls it ``IterSplitExpr``.) Quotients and remainders only need to add, cut and merge
digits, as long as cuts fall between digits. If one does not, as in ``(i * 3 + j) // 2``, the digits
are fused: they become parts of a new mark, which owns them from then on, and has digits of its own.
A condition such as ``i * 4 + j < n`` also makes a mark, with fewer values than its parts together.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from loomir.arith.iterators.size import ONE, ZERO, NotAnIterMap, Poly, Size, Sizes
from loomir.tir.expr import PrimExpr, Var

__all__ = ["Chain", "Digit", "Digits", "Mark", "Sum"]

Key = tuple[int, Size, Size]


class Mark:
    """An iterator over ``[0, extent)``.

    It counts a variable from ``shift``, or is the scaled sum of ``parts`` minus ``shift``.
    ``owners`` are the marks of which its digits are parts.
    """

    __slots__ = ("extent", "limited", "owners", "parts", "shift", "var")

    def __init__(
        self, var: Var | None, extent: Size, shift: Poly, parts: tuple[Digit, ...] = ()
    ) -> None:
        self.var = var
        self.extent = extent
        self.shift = shift
        self.parts = parts
        self.limited = False
        self.owners: list[tuple[Digit, Mark]] = []


class Digit(NamedTuple):
    """``mark // lower % extent * scale``."""

    mark: Mark
    lower: Size
    extent: Size
    scale: Size

    @property
    def key(self) -> Key:
        """The identity of a digit regardless of its scale."""
        return (id(self.mark), self.lower, self.extent)


def _sort_key(digit: Digit) -> tuple[int, int, tuple[int, ...]]:
    """Return the sort key of a digit within its mark: a divisor of a position comes first."""
    return len(digit.lower.atoms), digit.lower.number, digit.lower.atoms


def _is_whole(digit: Digit) -> bool:
    """Tell whether a digit is all of its variables."""
    todo = [digit]
    while todo:
        each = todo.pop()
        if each.lower != ONE or each.extent != each.mark.extent:
            return False
        todo += each.mark.parts
    return True


def _is_moved(digit: Digit) -> bool:
    """Tell whether a fused iterator in a digit's mark has a lower limit."""
    todo = [digit.mark]
    while todo:
        mark = todo.pop()
        if mark.parts and mark.shift:
            return True
        todo += [part.mark for part in mark.parts]
    return False


class Sum(NamedTuple):
    """Distinct digits, and a base without iterators."""

    digits: dict[Key, Digit]
    base: Poly

    @property
    def is_invariant(self) -> bool:
        """Whether there are no digits."""
        return not self.digits


class Chain(NamedTuple):
    """Adjacent digits, lowest first, which form one fused iterator."""

    digits: tuple[Digit, ...]
    scale: Size
    extent: Size


class Digits:
    """Computes with sums of digits."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.limited: list[Mark] = []

    def overlap(self, group: list[Digit]) -> tuple[Digit, Digit] | None:
        """Sort digits of one mark; return two that overlap, or None."""
        group.sort(key=_sort_key)
        for below, above in pairwise(group):
            end = self.sizes.mul(below.lower, below.extent)
            if self.sizes.divide(above.lower, end) is None:
                return below, above
        return None

    # -- sums --------------------------------------------------------------------------------------
    def make_single(self, mark: Mark) -> Digit:
        """Return the digit that is a whole mark."""
        return Digit(mark, ONE, mark.extent, ONE)

    def gather(self, digits: Iterable[Digit], base: Poly) -> Sum:
        """Build a sum: equal digits become one, those of extent 1 are dropped."""
        made: dict[Key, Digit] = {}
        for digit in digits:
            if digit.extent == ONE or digit.scale == ZERO:
                continue
            key = digit.key
            found = made.get(key)
            if found is None:
                made[key] = digit
                continue
            scale = self.sizes.sum(found.scale, digit.scale)
            if scale == ZERO:
                del made[key]
            else:
                made[key] = digit._replace(scale=scale)
        return Sum(made, base)

    def plus(self, a: Sum, b: Sum, factor: int) -> Sum:
        """Return ``a + factor * b``."""
        more = b.digits.values()
        if factor != 1:
            more = [d._replace(scale=Size(d.scale.number * factor, d.scale.atoms)) for d in more]
        base = self.sizes.plus(a.base, b.base, factor)
        if not a.digits and factor == 1:
            return Sum(b.digits, base)
        return self.gather((*a.digits.values(), *more), base)

    def times(self, a: Sum, factor: Poly) -> Sum:
        """Return ``factor * a``."""
        base = self.sizes.times(a.base, factor)
        if not a.digits:
            return Sum({}, base)
        size = self.sizes.size(factor)
        if size == ZERO:
            return Sum({}, base)
        mul = self.sizes.mul
        made = [d._replace(scale=mul(d.scale, size)) for d in a.digits.values()]
        return Sum({d.key: d for d in made}, base)

    # -- one digit ---------------------------------------------------------------------------------
    def is_top(self, digit: Digit) -> bool:
        """Tell whether a digit is the top of its mark."""
        whole = digit.mark.extent
        if not (whole.atoms or digit.lower.atoms or digit.extent.atoms):
            return digit.lower.number * digit.extent.number >= whole.number
        return digit.extent == self.sizes.ceil_divide(whole, digit.lower)

    def cut(self, digit: Digit, at: Size) -> tuple[Digit, Digit] | None:
        """Split a digit in two, the upper one first; None if the boundary is inside a digit."""
        sizes = self.sizes
        upper = sizes.divide(digit.extent, at)
        lower = sizes.mul(digit.lower, at)
        if upper is None:
            if not self.is_top(digit):
                return None
            upper = sizes.ceil_divide(digit.mark.extent, lower)
        high = Digit(digit.mark, lower, upper, sizes.mul(digit.scale, at))
        return high, Digit(digit.mark, digit.lower, at, digit.scale)

    def _end(self, digit: Digit) -> Size | None:
        """Return where a digit ends, None if its mark ends too."""
        return None if self.is_top(digit) else self.sizes.mul(digit.lower, digit.extent)

    def _move_to_owner(
        self, digit: Digit, part: Digit, owner: Mark
    ) -> tuple[list[Digit], Poly] | None:
        """Rebase a digit that overlaps a part on the part's owner, or split it at the part's ends.

        Returns None if they do not overlap, or not in a way that digits can express.
        """
        sizes = self.sizes
        inside = sizes.divide(digit.lower, part.lower)
        end, limit = self._end(digit), self._end(part)
        if inside is None:
            at = sizes.divide(part.lower, digit.lower)
            if at is None or (end is not None and sizes.divide(part.lower, end) is not None):
                return None
            pieces = self.cut(digit, at)
            return None if pieces is None else (list(pieces), {})
        if limit is not None:
            if sizes.divide(digit.lower, limit) is not None:
                return None
            if end is None or sizes.divide(limit, end) is None:
                at = sizes.divide(limit, digit.lower)
                pieces = None if at is None else self.cut(digit, at)
                return None if pieces is None else (list(pieces), {})
        elif part is not owner.parts[-1]:
            # The part ends inside its owner, although it is the top of its mark.
            over = part.extent if end is None else sizes.divide(part.extent, digit.extent)
            if over is None or sizes.divide(over, inside) is None:
                return None
        return self._rebase_on_owner(digit, part, owner, sizes.mul(inside, part.scale))

    def _rebase_on_owner(
        self, digit: Digit, part: Digit, owner: Mark, lower: Size
    ) -> tuple[list[Digit], Poly] | None:
        """Return a digit within a part as the digit of the part's owner at ``lower``."""
        sizes = self.sizes
        reaches = sizes.mul(lower, digit.extent)
        top = (
            (
                part is owner.parts[-1]
                and (
                    sizes.mul(digit.lower, digit.extent) == sizes.mul(part.lower, part.extent)
                    or self.is_top(digit)
                )
            )
            # A limit may remove all parts above.
            or (not owner.shift and sizes.is_at_least(reaches, owner.extent))
        )
        extent = sizes.ceil_divide(owner.extent, lower) if top else digit.extent
        base: Poly = {}
        if owner.shift:
            shift = sizes.size(owner.shift)
            if top:
                whole = sizes.divide(shift, lower)
                if whole is None:
                    return None
                base = sizes.poly(sizes.mul(whole, digit.scale))
            elif sizes.divide(shift, sizes.mul(lower, extent)) is None:
                return None
        return [Digit(owner, lower, extent, digit.scale)], base

    # -- normalising sums --------------------------------------------------------------------------
    def tidy(self, e: Sum) -> Sum:
        """Normalise a sum: use owners of marks, and merge adjacent digits."""
        made = self._merge(self._rewrite_by_owners(e))
        while True:
            shifted = self._replace_shifted_parts(made)
            if shifted is None:
                return made
            made = self._merge(self._rewrite_by_owners(shifted))

    def _rewrite_by_owners(self, e: Sum) -> Sum:
        if not any(digit.mark.owners for digit in e.digits.values()):
            return e
        base = e.base
        made: list[Digit] = []
        todo = list(e.digits.values())
        while todo:
            digit = todo.pop()
            for part, owner in digit.mark.owners:
                found = self._move_to_owner(digit, part, owner)
                if found is not None:
                    todo += found[0]
                    base = self.sizes.plus(base, found[1])
                    break
            else:
                made.append(digit)
        return self.gather(made, base)

    def _replace_shifted_parts(self, e: Sum) -> Sum | None:
        """Replace all parts of one mark that does not start at 0 by that mark."""
        sizes = self.sizes
        for digit in e.digits.values():
            for part, owner in digit.mark.owners:
                if not owner.shift or part is not owner.parts[0] or part.key != digit.key:
                    continue
                times, rest = digit.scale, dict(e.digits)
                for each in owner.parts:
                    found = rest.pop(each.key, None)
                    if found is None or found.scale != sizes.mul(times, each.scale):
                        break
                else:
                    base = sizes.plus(e.base, sizes.times(owner.shift, {times.atoms: times.number}))
                    return self.gather(
                        (*rest.values(), Digit(owner, ONE, owner.extent, times)), base
                    )
        return None

    def _merge(self, e: Sum) -> Sum:
        groups: dict[int, list[Digit]] = {}
        for digit in e.digits.values():
            groups.setdefault(id(digit.mark), []).append(digit)
        if len(groups) == len(e.digits):
            return e
        made: list[Digit] = []
        for group in groups.values():
            made += group if len(group) == 1 else self._merge_adjacent(self._cut_overlaps(group))
        return self.gather(made, e.base)

    def _cut_overlaps(self, group: list[Digit]) -> list[Digit]:
        """Split overlapping digits of one mark at each other's ends, and add equal ones."""
        if self.overlap(group) is None:
            return group
        marks = {digit.lower for digit in group}
        marks.update(end for end in map(self._end, group) if end is not None)
        made: list[Digit] = []
        todo = list(group)
        while todo:
            digit = todo.pop()
            for mark in marks:
                at = self.sizes.divide(mark, digit.lower)
                if at is None or at in (ONE, digit.extent) or not self._exceeds(digit, at):
                    continue
                pieces = self.cut(digit, at)
                if pieces is not None:
                    todo += pieces
                    break
            else:
                made.append(digit)
        return list(self.gather(made, {}).digits.values())

    def _merge_adjacent(self, group: list[Digit]) -> list[Digit]:
        """Merge adjacent digits of one mark."""
        sizes = self.sizes
        at = {digit.lower: digit for digit in group}
        if len(at) != len(group):
            return group
        after: dict[Size, Digit] = {}
        for digit in group:
            above = at.get(sizes.mul(digit.lower, digit.extent))
            if above is not None and above.scale == sizes.mul(digit.scale, digit.extent):
                after[digit.lower] = above
        inner = {digit.lower for digit in after.values()}
        made: list[Digit] = []
        for digit in group:
            if digit.lower in inner:
                continue
            extent, last = digit.extent, digit
            while last.lower in after:
                last = after[last.lower]
                extent = sizes.mul(extent, last.extent)
            if last is not digit and self.is_top(last):
                extent = sizes.ceil_divide(digit.mark.extent, digit.lower)
            made.append(digit._replace(extent=extent))
        return made

    def _exceeds(self, digit: Digit, at: Size) -> bool:
        """Tell whether a digit may reach a value."""
        extent, sizes = digit.extent, self.sizes
        if not extent.atoms and not at.atoms:
            return extent.number > at.number
        if sizes.divide(at, extent) is not None:
            return False
        return sizes.divide(extent, at) is not None or not sizes.is_at_least(at, extent)

    # -- quotients ---------------------------------------------------------------------------------
    def divide(self, e: Sum, by: Size, expr: PrimExpr) -> tuple[Sum, Sum]:
        """Return quotient and remainder by a size that is not negative."""
        sizes = self.sizes
        e = self.tidy(e)
        whole, base = self._split_base(e.base, by)
        upper: list[Digit] = []
        rest: list[Digit] = []
        for digit in e.digits.values():
            scale = sizes.divide(digit.scale, by)
            if scale is None:
                rest.append(digit)
            else:
                upper.append(digit._replace(scale=scale))
        if self._is_within(rest, base, by):
            return self.gather(upper, whole), self.gather(rest, base)
        lower: list[Digit] = []
        cuts: list[Digit] = []
        for digit in rest:
            at = sizes.divide(by, digit.scale) if sizes.sign(digit.scale) > 0 else None
            pieces = self.cut(digit, at) if at is not None and self._exceeds(digit, at) else None
            if pieces is None:
                lower.append(digit)
            else:
                cuts.append(pieces[0]._replace(scale=ONE))
                lower.append(pieces[1])
        if self._is_within(lower, base, by):
            return self.gather((*upper, *cuts), whole), self.gather(lower, base)
        if base:
            raise NotAnIterMap("an offset moves the values across multiples of the divisor", expr)
        digit = self.fuse(self.chain(rest, expr))
        at = sizes.divide(by, digit.scale)
        pieces = None if at is None else self.cut(digit, at)
        if pieces is None:
            raise NotAnIterMap("the divisor is not a multiple of what the iterators step by", expr)
        high, low = pieces
        return self.gather((*upper, high._replace(scale=ONE)), whole), self.gather((low,), {})

    def _split_base(self, base: Poly, by: Size) -> tuple[Poly, Poly]:
        """Split a base into a quotient and a remainder, whose constant is in range."""
        whole: Poly = {}
        rest: Poly = {}
        for atoms, number in base.items():
            exact = self.sizes.divide(Size(number, atoms), by)
            if exact is not None:
                whole = self.sizes.plus(whole, {exact.atoms: exact.number})
            elif atoms or by.atoms:
                rest[atoms] = number
            else:
                quotient, rest[()] = divmod(number, by.number)
                whole = self.sizes.plus(whole, {(): quotient})
        return {atoms: number for atoms, number in whole.items() if number}, rest

    def _is_within(self, digits: list[Digit], base: Poly, by: Size) -> bool:
        """Tell whether a sum is in ``[0, by)``."""
        ends = self.bounds(digits, base)
        if ends is None:
            return False
        low, high = ends
        gap = self.sizes.plus(self.sizes.plus(self.sizes.poly(by), {(): 1}, -1), high, -1)
        return self.sizes.is_nonnegative(low) and self.sizes.is_nonnegative(gap)

    def bounds(self, digits: Iterable[Digit], base: Poly) -> tuple[Poly, Poly] | None:
        """Return the least and the greatest value of a sum, None if signs are not known."""
        sizes = self.sizes
        low, high = base, base
        for digit in digits:
            sign = sizes.sign(digit.scale)
            if sign == 0:
                return None
            last = sizes.plus(
                sizes.poly(sizes.mul(digit.extent, digit.scale)), sizes.poly(digit.scale), -1
            )
            if sign > 0:
                high = sizes.plus(high, last)
            else:
                low = sizes.plus(low, last)
        return low, high

    # -- fusing ------------------------------------------------------------------------------------
    def chain(self, digits: list[Digit], expr: PrimExpr) -> Chain:
        """Sort digits such that each begins where the previous one ends."""
        sizes = self.sizes
        if not digits:
            return Chain((), ONE, ONE)
        at: dict[Size, Digit] = {}
        for digit in digits:
            if sizes.sign(digit.scale) <= 0:
                raise NotAnIterMap("an iterator runs backwards, or its step may be negative", expr)
            if digit.scale in at:
                raise NotAnIterMap(
                    "two iterators step by the same amount, so that values coincide", expr
                )
            at[digit.scale] = digit
        ends = {sizes.mul(digit.scale, digit.extent) for digit in digits}
        first = [digit for digit in digits if digit.scale not in ends]
        if len(first) != 1:
            raise NotAnIterMap("iterators overlap, or leave gaps", expr)
        found = [first[0]]
        while len(found) < len(digits):
            above = at.get(sizes.mul(found[-1].scale, found[-1].extent))
            if above is None or len(found) > len(digits):
                raise NotAnIterMap("iterators overlap, or leave gaps", expr)
            found.append(above)
        extent = ONE
        for digit in found:
            extent = sizes.mul(extent, digit.extent)
        return Chain(tuple(found), first[0].scale, extent)

    def fuse(self, chain: Chain) -> Digit:
        """Fuse a chain into one mark, which owns its digits, unless the chain is a whole mark."""
        first = chain.digits[0]
        if len(chain.digits) == 1 and first.lower == ONE and first.extent == first.mark.extent:
            return first
        mark = self._make_owner(chain.digits, chain.scale, chain.extent, {})
        return Digit(mark, ONE, mark.extent, chain.scale)

    def limit(self, chain: Chain, low: Poly, high: Poly, expr: PrimExpr) -> None:
        """Keep a fused iterator, counted in steps of its scale, within ``[low, high)``."""
        sizes = self.sizes
        first, last = sizes.size(low), sizes.size(high)
        digits, scale, extent = chain
        while len(digits) > 1:
            step = digits[0].extent
            low_step, high_step = sizes.divide(first, step), sizes.divide(last, step)
            if low_step is None or high_step is None:
                break
            first, last = low_step, high_step
            scale, digits = digits[1].scale, digits[1:]
            extent = ONE
            for digit in digits:
                extent = sizes.mul(extent, digit.extent)
        if len(digits) == 1 and self.is_top(digits[0]):
            # A limit on the highest digit limits the whole iterator.
            digit = digits[0]
            first, last = sizes.mul(first, digit.lower), sizes.mul(last, digit.lower)
            extent = digit.mark.extent
            digits, scale = (self.make_single(digit.mark),), ONE
        if not sizes.is_at_least(first, ZERO):
            if not sizes.is_at_least(ZERO, first):
                raise NotAnIterMap("it is not known whether a condition limits an iterator", expr)
            first = ZERO
        if sizes.is_at_least(last, extent):
            last = extent
        elif not sizes.is_at_least(extent, last):
            raise NotAnIterMap("it is not known whether a condition limits an iterator", expr)
        if first == ZERO and last == extent:
            return
        count = sizes.size(sizes.plus(sizes.poly(last), sizes.poly(first), -1))
        if not sizes.is_at_least(count, ONE if not count.atoms else ZERO):
            raise NotAnIterMap("a condition may leave no values", expr)
        moved = first != ZERO or any(map(_is_moved, digits))
        if count == ONE and moved and not all(map(_is_whole, digits)):
            # The digit would be constant, so that its iterator could not be recovered.
            raise NotAnIterMap("a condition leaves one value of a digit", expr)
        mark = self._make_owner(digits, scale, count, sizes.poly(first))
        mark.limited = True
        self.limited.append(mark)

    def _make_owner(
        self, digits: tuple[Digit, ...], scale: Size, extent: Size, shift: Poly
    ) -> Mark:
        parts: list[Digit] = []
        for digit in digits:
            position = self.sizes.divide(digit.scale, scale)
            parts.append(digit._replace(scale=ONE if position is None else position))
        mark = Mark(None, extent, shift, tuple(parts))
        for part in parts:
            part.mark.owners.append((part, mark))
        return mark
