"""Iterator maps: decide whether index expressions are independent digits of iterators.

Schedules split, fuse and reorder loops; the resulting indices are quotients, remainders and linear
combinations of loops. If they form an iterator map, the map is known to be surjective or bijective
without enumerating its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import to_int
from loomir.arith.iterators.digits import Chain, Digit, Mark, Sum
from loomir.arith.iterators.expr import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
)
from loomir.arith.iterators.reader import Reader, index_dtype
from loomir.arith.iterators.size import ONE, IterMapError, NotAnIterMap, Poly, Size
from loomir.support.dtype import BOOL
from loomir.tir.buffer import Range
from loomir.tir.expr import LE, IntImm, Or, PrimExpr, Sub, Var

__all__ = [
    "CheckLevel",
    "IndexDigits",
    "IterMapResult",
    "Writer",
    "detect_chains",
    "detect_iter_map",
    "iter_map_simplify",
    "normalize_to_iter_sum",
    "run_reader",
]

CheckLevel: TypeAlias = Literal["none", "injective", "surjective", "bijective"]
_R = TypeVar("_R")
_LEVELS: Final = ("none", "injective", "surjective", "bijective")
_NEVER: Final = IntImm(0, BOOL)


class IterMapResult(NamedTuple):
    """The result of ``detect_iter_map``: a sum of at most one split for each index, or errors.

    ``padding_predicate`` is true for padding: iterators are extended to whole digits, beyond their
    ranges. It is constant false if digits fit.
    """

    indices: tuple[IterSumExpr, ...]
    errors: tuple[IterMapError, ...]
    padding_predicate: PrimExpr

    @property
    def ok(self) -> bool:
        """Whether the indices form a map of the requested level."""
        return not self.errors


class IndexDigits(NamedTuple):
    """Indices as chains of digits with their bases, and the reader that found them."""

    reader: Reader
    chains: tuple[tuple[Chain, Poly], ...]
    padded: tuple[Mark, ...]


def run_reader(
    exprs: Sequence[PrimExpr],
    iters: Mapping[Var, Range],
    predicate: PrimExpr | bool,
    analyzer: Analyzer | None,
    action: Callable[[Reader, Sequence[PrimExpr]], _R],
) -> _R:
    """Run an action with a reader; iterators and predicate are known in a scope of the analyzer.

    If that fails, it is tried again in canonical form, in which quotients may cancel that are no
    digits. Raises ``NotAnIterMap`` if that does not help.
    """
    analyzer = Analyzer() if analyzer is None else analyzer
    test = IntImm(int(predicate), BOOL) if isinstance(predicate, bool) else predicate
    dtype = index_dtype([e for e in exprs if e.dtype.is_int], iters)
    analyzer.enter()
    try:
        reader = Reader(analyzer, dtype)
        reader.declare(iters)
        try:
            reader.limit(test)
            return action(reader, exprs)
        except NotAnIterMap:
            simpler = [analyzer.canonical_simplify(e) for e in exprs]
            condition = analyzer.canonical_simplify(test)
            if condition is test and all(new is old for new, old in zip(simpler, exprs)):
                raise
            reader = Reader(analyzer, dtype)
            reader.declare(iters)
            try:
                reader.limit(condition)
                return action(reader, simpler)
            except NotAnIterMap:
                pass
            raise
    finally:
        analyzer.exit()


def detect_chains(
    reader: Reader, indices: Sequence[PrimExpr], check_level: CheckLevel
) -> IndexDigits:
    """Read indices as chains of independent digits, or raise ``NotAnIterMap``."""
    if check_level not in _LEVELS:
        raise NotAnIterMap(f"check_level is one of {', '.join(_LEVELS)}, not {check_level!r}")
    sums = [reader.read(index) for index in indices]
    # Marks that a later index fused may own digits of an earlier one.
    sums = [reader.digits.tidy(made) for made in sums]
    chains = [
        (reader.digits.chain(list(made.digits.values()), index), made.base)
        for made, index in zip(sums, indices)
    ]
    padded = _Check(reader, chains, check_level).run()
    return IndexDigits(reader, tuple(chains), tuple(padded))


class _Check:
    """Checks the digits in use against the marks that they belong to."""

    def __init__(self, reader: Reader, chains: list[tuple[Chain, Poly]], level: str) -> None:
        self._sizes = reader.sizes
        self._digits = reader.digits
        self._level = level
        self._marks: dict[int, Mark] = {}
        self._used: dict[int, list[Digit]] = {}
        for chain, _ in chains:
            for digit in chain.digits:
                self._use(digit)
        for mark in reader.marks.values():
            self._reach(mark)

    def _use(self, digit: Digit) -> None:
        self._reach(digit.mark)
        self._used[id(digit.mark)].append(digit)

    def _reach(self, mark: Mark) -> None:
        todo = [mark]
        while todo:
            mark = todo.pop()
            if id(mark) in self._marks:
                continue
            self._marks[id(mark)] = mark
            self._used.setdefault(id(mark), [])
            for part in mark.parts:
                self._used.setdefault(id(part.mark), []).append(part)
                todo.append(part.mark)
            todo += [owner for _, owner in mark.owners]

    def run(self) -> list[Mark]:
        """Raise ``NotAnIterMap`` if digits overlap, or do not fulfil the level."""
        return [mark for mark in self._marks.values() if self._check(mark)]

    def _check(self, mark: Mark) -> bool:
        """Check one mark; return whether its digits reach beyond its end."""
        sizes, used = self._sizes, self._used[id(mark)]
        where = _origin(mark)
        if self._digits.overlap(used) is not None:
            raise NotAnIterMap("digits of an iterator are used twice, or overlap", where)
        last: Poly = {}
        for digit in used:
            full = sizes.poly(sizes.mul(digit.lower, digit.extent))
            last = sizes.plus(sizes.plus(last, full), sizes.poly(digit.lower), -1)
        gap = sizes.plus(sizes.plus(sizes.poly(mark.extent), {(): 1}, -1), last, -1)
        padded = not sizes.is_nonnegative(gap)
        if padded and self._level in ("surjective", "bijective"):
            if used:
                raise NotAnIterMap(
                    "the extent of an iterator is not a multiple of its digits", where
                )
            raise NotAnIterMap("an iterator that is not used may have no values", where)
        if self._level in ("injective", "bijective"):
            end = ONE
            for digit in used:
                if digit.lower != end:
                    raise NotAnIterMap("a digit of an iterator is not used", where)
                end = sizes.mul(end, digit.extent)
            # Digits that fit and have as many values as the mark cover all of it.
            if not sizes.is_at_least(end, mark.extent):
                raise NotAnIterMap("an iterator is not used, or only some of its digits", where)
        return padded and bool(used)


def _origin(mark: Mark) -> PrimExpr | None:
    """Return a variable below a mark."""
    while mark.var is None:
        mark = mark.parts[-1].mark
    return mark.var


class Writer:
    """Writes digits as marks, splits and sums; one mark for each, however often it is used."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._sizes = reader.sizes
        self._marks: dict[int, IterMark] = {}
        self._exprs: dict[Size, PrimExpr] = {}

    def size(self, size: Size) -> PrimExpr:
        """Write a size, as the same node each time."""
        found = self._exprs.get(size)
        if found is None:
            found = self._exprs[size] = self._sizes.size_expr(size)
        return found

    def mark(self, mark: Mark) -> IterMark:
        """Write a mark, after the marks of its parts."""
        stack = [mark]
        while stack:
            top = stack[-1]
            if id(top) in self._marks:
                stack.pop()
                continue
            missing = [part.mark for part in top.parts if id(part.mark) not in self._marks]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._marks[id(top)] = IterMark(self._source(top), self.size(top.extent))
        return self._marks[id(mark)]

    def _source(self, mark: Mark) -> PrimExpr | IterSumExpr:
        if mark.var is not None:
            made = to_int(mark.var, self._sizes.dtype)
            return Sub(made, self._sizes.expr(mark.shift)) if mark.shift else made
        down = self._sizes.times(mark.shift, {(): -1})
        return self.sum(reversed(mark.parts), down)

    def split(self, digit: Digit) -> IterSplitExpr:
        """Write a digit."""
        return IterSplitExpr(
            self.mark(digit.mark),
            self.size(digit.lower),
            self.size(digit.extent),
            self.size(digit.scale),
            top=self._reader.digits.is_top(digit),
        )

    def sum(self, digits: Iterable[Digit], base: Poly) -> IterSumExpr:
        """Write a sum."""
        return IterSumExpr(tuple(self.split(digit) for digit in digits), self._sizes.expr(base))

    def fuse(self, digits: Sequence[Digit]) -> IterMark:
        """Write adjacent digits, lowest first, as one mark."""
        if len(digits) == 1:
            (digit,) = digits
            if digit.lower == ONE and digit.extent == digit.mark.extent:
                return self.mark(digit.mark)
        extent, parts = ONE, list[Digit]()
        for digit in digits:
            parts.append(digit._replace(scale=extent))
            extent = self._sizes.mul(extent, digit.extent)
        parts.reverse()
        return IterMark(self.sum(parts, {}), self.size(extent))

    def index(self, chain: Chain, base: Poly) -> IterSumExpr:
        """Write an index as a sum of at most one split."""
        digits = chain.digits
        if len(digits) <= 1:
            return self.sum(digits, base)
        mark = self.fuse(digits)
        split = IterSplitExpr(mark, self.size(ONE), mark.extent, self.size(chain.scale), top=True)
        return IterSumExpr((split,), self._sizes.expr(base))

    def write_padding(self, marks: Sequence[Mark]) -> PrimExpr:
        """Write the condition that marks are beyond their ends."""
        made: PrimExpr = _NEVER
        for mark in marks:
            written = self.mark(mark)
            beyond = LE(written.extent, normalize_iter_map_to_expr(written))
            made = beyond if made is _NEVER else Or(made, beyond)
        return made


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    *,
    check_level: CheckLevel = "surjective",
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Detect whether indices are independent iterators, built from digits of input iterators.

    Each index is then ``base + scale * f`` with ``f`` in ``[0, extent)``. At level ``surjective``
    every combination of the ``f`` occurs under the predicate, at ``injective`` none occurs twice,
    at ``bijective`` each occurs once; at ``none``, digits must only not overlap. At ``none`` and
    ``injective``, digits may reach beyond the ends of iterators. If that cannot be shown, the
    result has errors and no indices. Facts of the analyzer about iterators must hold in their whole
    ranges. Never raises for any indices.
    """

    def detect(reader: Reader, exprs: Sequence[PrimExpr]) -> IterMapResult:
        found = detect_chains(reader, exprs, check_level)
        writer = Writer(reader)
        made = tuple(writer.index(chain, base) for chain, base in found.chains)
        return IterMapResult(made, (), writer.write_padding(found.padded))

    try:
        return run_reader(indices, input_iters, predicate, analyzer, detect)
    except NotAnIterMap as refused:
        return IterMapResult((), (refused.error,), _NEVER)


def normalize_to_iter_sum(
    expr: PrimExpr, input_iters: Mapping[Var, Range], *, analyzer: Analyzer | None = None
) -> IterSumExpr:
    """Write an index as a sum of splits, those of larger scale first.

    The splits may overlap. An index that is not understood becomes the base, unchanged.
    """

    def normalize(reader: Reader, exprs: Sequence[PrimExpr]) -> IterSumExpr:
        made = reader.read(exprs[0])
        return Writer(reader).sum(_sort_by_scale(made), made.base)

    try:
        return run_reader((expr,), input_iters, True, analyzer, normalize)
    except NotAnIterMap:
        return IterSumExpr((), expr)


def _sort_by_scale(made: Sum) -> list[Digit]:
    return sorted(
        made.digits.values(),
        key=lambda d: (len(d.scale.atoms), abs(d.scale.number), d.scale.number),
        reverse=True,
    )


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr | bool = True,
    *,
    check_level: CheckLevel = "surjective",
    analyzer: Analyzer | None = None,
) -> tuple[PrimExpr, ...]:
    """Write indices by their digits; those that form no iterator map are only simplified."""
    analyzer = Analyzer() if analyzer is None else analyzer
    found = detect_iter_map(
        indices, input_iters, predicate, check_level=check_level, analyzer=analyzer
    )
    analyzer.enter()
    try:
        for var, range_ in input_iters.items():
            if _is_known(var, range_) and not analyzer.is_bound(var):
                analyzer.bind(var, range_)
        if found.errors:
            return tuple(analyzer.simplify(index) for index in indices)
        made = (normalize_iter_map_to_expr(index) for index in found.indices)
        return tuple(
            analyzer.simplify(to_int(expr, index.dtype)) for expr, index in zip(made, indices)
        )
    finally:
        analyzer.exit()


def _is_known(var: Var, range_: Range) -> bool:
    ends = [range_.min] if range_.extent is None else [range_.min, range_.extent]
    return all(e.dtype.is_integer and e.dtype.lanes == 1 for e in (var, *ends))
