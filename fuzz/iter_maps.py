"""Random index expressions of split, fused and reordered loops, checked by enumeration.

``problem`` compares the answers of iterator maps with the values at all points of the loops.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from loomir.arith import (
    Analyzer,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from loomir.ir import substitute
from loomir.ir.visit import fold, pre_order
from loomir.tir import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    PrimExpr,
    Range,
    Sub,
    Var,
    const,
)

_MOST_POINTS = 500
REFUSED = "a whole map is refused"
"""What ``problem`` begins with where an answer is no mistake, but misses something."""

_COMPUTED: dict[type, Any] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
    Min: np.minimum,
    Max: np.maximum,
    Eq: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    And: np.logical_and,
    Or: np.logical_or,
}


def values_of(expr: PrimExpr, given: dict[Var, Any], count: int) -> Any:
    """Evaluate an expression for many values of its variables at once, in its own dtypes."""

    def join(e: Any, parts: list[Any]) -> Any:
        if isinstance(e, IntImm):
            dtype = bool if e.dtype.is_bool else str(e.dtype)
            return np.full(count, e.value, dtype)
        if isinstance(e, Var):
            return given[e]
        if isinstance(e, Cast):
            return parts[0].astype(str(e.dtype))
        return _COMPUTED[type(e)](*parts)

    with np.errstate(all="ignore"):
        return fold(expr, join)


@dataclass
class Case:
    """Index expressions over loops, under a predicate."""

    indices: list[PrimExpr]
    iters: dict[Var, Range]
    predicate: PrimExpr | bool
    inner: list[Var]
    is_whole: bool
    """Whether nothing was broken: a bijective map by construction."""

    def at(self, symbols: dict[Var, int]) -> Case:
        """Return the case for given values of symbols."""
        if not symbols:
            return self
        given = {var: const(value, var.dtype) for var, value in symbols.items()}
        known = {var: np.array([value], str(var.dtype)) for var, value in symbols.items()}
        iters: dict[Var, Range] = {}
        for var, range_ in self.iters.items():
            assert range_.extent is not None
            extent = int(values_of(range_.extent, known, 1)[0])
            iters[var] = Range(range_.min, const(extent, var.dtype))
        indices = [substitute(index, given) for index in self.indices]
        predicate = self.predicate
        if not isinstance(predicate, bool):
            predicate = substitute(predicate, given)
        return Case(indices, iters, predicate, self.inner, self.is_whole)

    def __str__(self) -> str:
        loops = ", ".join(f"{v.name_hint} in {r.min}+[0,{r.extent})" for v, r in self.iters.items())
        inner = ", ".join(v.name_hint for v in self.inner)
        made = "; ".join(str(index) for index in self.indices)
        return f"({made}) for {loops} where {self.predicate}, inner {inner}"


class _Maker:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtype = self.rng.choice(["int32", "int32", "int64", "int16", "int8"])
        self.broken = False

    def number(self, value: int) -> PrimExpr:
        return const(value, self.dtype)

    def make(self) -> Case:
        rng = self.rng
        iters: dict[Var, Range] = {}
        terms: list[tuple[PrimExpr, int]] = []
        points = 1
        top = 100 if self.dtype == "int8" else _MOST_POINTS
        for name in "ijkl"[: rng.randint(1, 4)]:
            extent = rng.choice([1, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 24, 30])
            if points * extent > top:
                continue
            points *= extent
            var = Var(name, self.dtype)
            first = rng.choice([0, 0, 0, 0, 1, 3, -2])
            iters[var] = Range(self.number(first), self.number(extent))
            terms.append((var - first if first else var, extent))
        if not terms:
            return self.make()
        predicate: PrimExpr | bool = True
        for _ in range(rng.randint(0, 8)):
            terms, predicate = self.step(terms, predicate)
        if rng.random() < 0.3:
            self.spoil(terms, list(iters))
        if rng.random() < 0.4:
            rng.shuffle(terms)
        indices = [self.finished(expr) for expr, _ in terms]
        inner = [var for var in iters if rng.random() < 0.5]
        if rng.random() < 0.5:
            inner = list(iters)[rng.randint(0, len(iters)) :]
        return Case(indices, iters, predicate, inner, not self.broken)

    def step(
        self, terms: list[tuple[PrimExpr, int]], predicate: PrimExpr | bool
    ) -> tuple[list[tuple[PrimExpr, int]], PrimExpr | bool]:
        rng = self.rng
        at = rng.randrange(len(terms))
        expr, extent = terms[at]
        kind = rng.random()
        if kind < 0.45:
            factors = [f for f in range(2, extent) if extent % f == 0]
            if rng.random() < 0.1 or not factors:
                factors = [2, 3, 4, 5]
            factor = rng.choice(factors)
            if extent % factor:
                self.broken = True
            parts = [(expr // factor, -(-extent // factor)), (expr % factor, min(factor, extent))]
            terms[at : at + 1] = parts
        elif kind < 0.8 and len(terms) > 1:
            at = rng.randrange(len(terms) - 1)
            (a, m), (b, n) = terms[at], terms[at + 1]
            if m * n <= (127 if self.dtype == "int8" else 4000):
                terms[at : at + 2] = [(a * n + b, m * n)]
        elif kind < 0.9:
            rng.shuffle(terms)
        elif kind < 0.95 and extent > 2:
            limit = rng.randint(2, extent)
            test: PrimExpr = expr < limit
            if rng.random() < 0.3:
                low = rng.randint(0, limit - 1)
                test = And(test, expr >= low)
                if low:
                    self.broken = True
                    predicate = test if isinstance(predicate, bool) else And(predicate, test)
                    return terms, predicate
            predicate = test if isinstance(predicate, bool) else And(predicate, test)
            terms[at] = (expr, limit)
        return terms, predicate

    def spoil(self, terms: list[tuple[PrimExpr, int]], names: list[Var]) -> None:
        """Make a mistake: a gap, an overlap, a digit twice or not at all, no quotient."""
        rng = self.rng
        self.broken = True
        at = rng.randrange(len(terms))
        expr, extent = terms[at]
        other = rng.choice(names)
        kind = rng.randrange(9)
        if kind == 0:
            terms[at] = (expr * rng.choice([2, 3, -1]) + other, extent)
        elif kind == 1:
            terms.append((expr, extent))
        elif kind == 2:
            del terms[at]
        elif kind == 3:
            terms[at] = (expr * other, extent)
        elif kind == 4:
            terms[at] = (Min(expr, self.number(2)), extent)
        elif kind == 5:
            terms[at] = ((expr + rng.randint(1, 3)) // 2, extent)
        elif kind == 6:
            terms[at] = (expr // rng.choice([2, 3]), extent)
        elif kind == 7:
            terms[at] = (other % rng.choice([2, 3, 4]), extent)
        else:
            terms[at] = (self.number(extent - 1) - expr, extent)

    def finished(self, expr: PrimExpr) -> PrimExpr:
        rng = self.rng
        if rng.random() < 0.15:
            expr = expr + rng.choice([1, 2, 5, -3])
        if rng.random() < 0.1:
            expr = expr * rng.choice([2, 3])
            if self.dtype == "int8":
                self.broken = True
        elif rng.random() < 0.1:
            expr = expr + 4 - 4
        return expr


def make(seed: int) -> Case:
    """Make the case of a seed."""
    return _Maker(seed).make()


def points_of(iters: dict[Var, Range]) -> tuple[dict[Var, Any], int]:
    """List all points of loops."""
    axes: list[Any] = []
    for range_ in iters.values():
        assert isinstance(range_.min, IntImm)
        assert isinstance(range_.extent, IntImm)
        axes.append(np.arange(range_.min.value, range_.min.value + range_.extent.value))
    grid = np.meshgrid(*axes, indexing="ij")
    given = {var: axis.ravel().astype(str(var.dtype)) for var, axis in zip(iters, grid)}
    return given, len(grid[0].ravel())


class Look:
    """A case with the values of its indices at all points, for given values of its symbols."""

    def __init__(self, case: Case, symbols: dict[Var, int] | None = None) -> None:
        self.symbols = {} if symbols is None else symbols
        case = case.at(self.symbols)
        self.case = case
        self.everywhere, self.total = points_of(case.iters)
        predicate = case.predicate
        keep = (
            np.full(self.total, predicate)
            if isinstance(predicate, bool)
            else values_of(predicate, self.everywhere, self.total)
        )
        self.keep = keep
        self.count = int(keep.sum())
        self.given = {var: axis[keep] for var, axis in self.everywhere.items()}
        self.values = [values_of(index, self.given, self.count) for index in case.indices]

    def differs(self, exprs: list[PrimExpr]) -> bool:
        """Tell whether expressions have other values than the indices."""
        return any(
            not np.array_equal(self.values_at(expr), value)
            for expr, value in zip(exprs, self.values)
        )

    def is_injective(self) -> bool:
        """Tell whether no two points have the same indices."""
        if not self.values:
            return self.count <= 1
        return len(set(zip(*(value.tolist() for value in self.values)))) == self.count

    def number(self, expr: PrimExpr) -> int:
        """Return the value of an extent, a scale or a base."""
        given = {var: np.array([value], "int64") for var, value in self.symbols.items()}
        return int(values_of(expr, given, 1)[0])

    def values_at(self, expr: PrimExpr) -> Any:
        """Return the values of an expression at all points."""
        given = dict(self.given)
        for var, value in self.symbols.items():
            given[var] = np.full(self.count, value, str(var.dtype))
        return values_of(expr, given, self.count)

    def claim(self, indices: tuple[IterSumExpr, ...], level: str) -> str | None:
        """Compare what a result says with all values."""
        if self.differs([normalize_iter_map_to_expr(index) for index in indices]):
            return f"{level}: the indices found have other values"
        extents: list[int] = []
        columns: list[Any] = []
        for index, value in zip(indices, self.values):
            base = self.number(index.base)
            if not index.args:
                if not (value == base).all():
                    return f"{level}: an index is not its base"
                continue
            (split,) = index.args
            extent, scale = self.number(split.extent), self.number(split.scale)
            column, rest = np.divmod(value.astype("int64") - base, scale)
            if rest.any() or (column < 0).any() or (column >= extent).any():
                return f"{level}: an index leaves its extent"
            extents.append(extent)
            columns.append(column)
        if level == "injective" and not self.is_injective():
            return "injective: two points have the same indices"
        if level in ("none", "injective"):
            return None
        seen = len(set(zip(*(column.tolist() for column in columns)))) if columns else 1
        if seen != prod(extents):
            return f"{level}: not all combinations occur: {seen} of {extents}"
        if level == "bijective" and seen != self.count:
            return f"{level}: {self.count} points have {seen} values"
        return None

    def inverse(self, indices: tuple[IterSumExpr, ...]) -> str | None:
        """Check that the inverse leads back to each point."""
        outputs = [Var(f"o{place}", index.dtype) for place, index in enumerate(self.case.indices)]
        back = inverse_affine_iter_map(indices, outputs)
        given = dict(zip(outputs, self.values))
        for symbol, value in self.symbols.items():
            given[symbol] = np.full(self.count, value, str(symbol.dtype))
        for var, value in self.given.items():
            found = back.get(var)
            if found is None:
                if self.count and value.min() != value.max():
                    return f"inverse: {var.name_hint} is missing"
            elif not np.array_equal(values_of(found, given, self.count), value):
                return f"inverse: {var.name_hint} is not {found}"
        return None

    def division(self) -> str | None:
        """Check that both parts of a division are over their own loops, and give the indices."""
        case = self.case
        found = subspace_divide(case.indices, case.iters, case.inner, case.predicate)
        if not found.ok:
            return None
        inner = set(case.inner)
        for part in found.parts:
            for mark, wanted in ((part.outer, False), (part.inner, True)):
                expr = normalize_iter_map_to_expr(mark)
                if not _is_over(expr, inner, wanted):
                    return f"divide: {expr} is on the wrong side"
                value = self.values_at(expr)
                if (value < 0).any() or (value >= self.number(mark.extent)).any():
                    return f"divide: {expr} leaves its extent {mark.extent}"
        if self.differs([part.value() for part in found.parts]):
            return "divide: the parts make other values"
        limits = (found.outer_predicate, found.inner_predicate)
        if not _is_over(limits[0], inner, False) or not _is_over(limits[1], inner, True):
            return "divide: a predicate is on the wrong side"
        both = [values_of(limit, self.everywhere, self.total) for limit in limits]
        if not np.array_equal(both[0] & both[1], self.keep):
            return "divide: the predicates keep other points"
        return None


def _is_over(expr: PrimExpr, inner: set[Var], wanted: bool) -> bool:
    return all((part in inner) is wanted for part in pre_order(expr) if isinstance(part, Var))


def problem(case: Case, *, everything: bool = True) -> str | None:
    """Return what is wrong with the answers for a case, None where all is right.

    ``everything`` asks for more than the strictest level and the division.
    """
    look = Look(case)
    found = None
    for level in ("bijective", "injective", "surjective", "none"):
        found = detect_iter_map(case.indices, case.iters, case.predicate, check_level=level)
        if found.ok:
            wrong = look.claim(found.indices, level)
            if wrong is None and level == "bijective":
                wrong = look.inverse(found.indices)
            if wrong is not None:
                return wrong
        elif found.indices or not all(error.message for error in found.errors):
            return f"{level}: refused without a reason"
        elif level == "bijective" and case.is_whole and look.is_injective():
            return f"{REFUSED}: {found.errors[0]}"
        if found.ok and not everything:
            break
    if everything:
        # What is found must hold; what is not found costs a schedule only.
        plain = iter_map_simplify(case.indices, case.iters, case.predicate)
        if look.differs(list(plain)):
            return "simplify: other values"
        sums = [normalize_to_iter_sum(index, case.iters) for index in case.indices]
        if look.differs([normalize_iter_map_to_expr(each) for each in sums]):
            return "normalize: other values"
    return look.division()


# -- symbolic extents --------------------------------------------------------------------------
SIZES = ((1, 1), (2, 3), (3, 2), (4, 4), (5, 1), (0, 3), (6, 0), (8, 5), (12, 2))
"""Values of both symbols."""


def make_symbolic(seed: int) -> tuple[Case, Var, Var]:
    """Make the case of a seed, with loops over symbolic extents; it may be broken."""
    rng = random.Random(seed)
    n, m = Var("n", "int64"), Var("m", "int64")
    iters: dict[Var, Range] = {}
    terms: list[tuple[PrimExpr, PrimExpr]] = []
    four = const(4, "int64")
    predicate: PrimExpr | bool = True
    for name in "ijk"[: rng.randint(1, 3)]:
        extent = rng.choice([n, m, n * 4, n * m, four, (n + 3) // 4, n // 2, n + m])
        var = Var(name, "int64")
        iters[var] = Range(const(0, "int64"), extent)
        terms.append((var, extent))
    if rng.random() < 0.4:
        factor = rng.choice([2, 4, 5])
        outer, inner = Var("o", "int64"), Var("p", "int64")
        zero = const(0, "int64")
        iters[outer] = Range(zero, (n + (factor - 1)) // factor)
        iters[inner] = Range(zero, const(factor, "int64"))
        whole = outer * factor + inner
        terms.append((whole, n))
        predicate = whole < n
    for _ in range(rng.randint(0, 5)):
        at = rng.randrange(len(terms))
        expr, extent = terms[at]
        if rng.random() < 0.5:
            by = rng.choice([const(2, "int64"), four, n, m])
            terms[at : at + 1] = [(expr // by, extent // by), (expr % by, by)]
        elif len(terms) > 1:
            at = rng.randrange(len(terms) - 1)
            (a, p), (b, q) = terms[at], terms[at + 1]
            terms[at : at + 2] = [(a * q + b, p * q)]
    if rng.random() < 0.3:
        rng.shuffle(terms)
    if rng.random() < 0.1:
        terms.append(terms[0])
    inner_ones = [var for var in iters if rng.random() < 0.5]
    return Case([expr for expr, _ in terms], iters, predicate, inner_ones, False), n, m


def symbolic_problem(case: Case, n: Var, m: Var) -> tuple[str | None, bool]:
    """Return what is wrong for some values of the symbols, and whether a bijection was found."""
    analyzer = Analyzer()
    analyzer.assume_size(n, 1 << 15)
    analyzer.assume_size(m, 1 << 15)
    results = {
        level: detect_iter_map(
            case.indices, case.iters, case.predicate, check_level=level, analyzer=analyzer
        )
        for level in ("none", "injective", "surjective", "bijective")
    }
    plain = iter_map_simplify(case.indices, case.iters, case.predicate, analyzer=analyzer)
    for first, second in SIZES:
        symbols = {n: first, m: second}
        look = Look(case, symbols)
        if look.total > 20000:
            continue
        if look.differs(list(plain)):
            return f"simplify: other values for {first}, {second}", False
        for level, found in results.items():
            wrong = look.claim(found.indices, level) if found.ok else None
            if wrong is None and found.ok and level == "bijective":
                wrong = look.inverse(found.indices)
            if wrong is not None:
                return f"for {first}, {second}: {wrong}", False
    return None, results["bijective"].ok
