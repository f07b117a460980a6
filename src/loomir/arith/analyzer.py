"""The analyzer: simplify and prove expressions from known facts about their variables."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Any, Final, NamedTuple

from loomir.arith.bounds import modular
from loomir.arith.bounds.int_set import IntSet, set_of
from loomir.arith.bounds.interval import Interval
from loomir.arith.bounds.modular import ModularSet
from loomir.arith.linear_form import add_terms
from loomir.arith.simplify.canonical import FALSE, TRUE, Canonical
from loomir.arith.simplify.form import AtomKind, Form, Terms, residue_of, scale_terms
from loomir.arith.simplify.prover import FUEL, Inequality
from loomir.arith.simplify.rewrite import rewrite_expr
from loomir.ir.visit import fold
from loomir.support.diagnostics import InternalError
from loomir.tir.analysis.effects import Effects
from loomir.tir.buffer import Range
from loomir.tir.expr import (
    NE,
    And,
    CmpOp,
    Div,
    ExprLike,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Var,
    match_dtypes,
)

__all__ = ["Analyzer", "ConstIntBound"]

_ROUNDS: Final = 4
"""The most turns of rules and canonical forms; they end earlier if nothing gets simpler."""
_SIZE_LIMIT: Final = 1 << 31
"""Sizes are assumed to be below this: indices of 32 bits reach no farther."""


class ConstIntBound(NamedTuple):
    """All integers from ``min_value`` to ``max_value``; infinite if nothing is known."""

    min_value: int | float
    max_value: int | float


class Analyzer:
    """Simplifies and proves expressions, from facts about variables and conditions.

    All results hold for the language's arithmetic: integers wrap, quotients round down, floats stay
    unchanged, and so does what may fail. A variable may be bound once in each scope; facts learned
    between ``enter`` and ``exit`` are forgotten there. Add facts about a variable before asking
    about expressions that use it: earlier answers are not revised.
    """

    def __init__(self) -> None:
        self._canonical = Canonical()
        self._bound: dict[int, Var] = {}

    # -- facts -------------------------------------------------------------------------------------
    def bind(self, var: Var, value: Range | ExprLike) -> None:
        """Add the fact that a variable has a value, or is in ``[min, min + extent)``.

        A value that reads memory only bounds the variable, since memory may change.
        """
        if id(var) in self._bound:
            raise InternalError(f"variable {var.name_hint!r} is bound twice in one scope")
        c = self._canonical
        c.note(self._bound, id(var), var)
        if isinstance(value, Range):
            if value.extent is None:
                self._bind_value(var, value.min)
            else:
                self._bind_range(var, value.min, value.extent)
        else:
            made = value if isinstance(value, PrimExpr) else match_dtypes(var, value)[1]
            self._bind_value(var, made)

    def _bind_value(self, var: Var, value: PrimExpr) -> None:
        c = self._canonical
        form = c.read(value)
        if not isinstance(form, Form) or var.dtype is not value.dtype:
            return
        if c.does(value):
            low, high = c.value_bounds(form)
            c.tighten(self._number(var), low, high)
        else:
            c.bind_value(var, form)
        c.renew()

    def know_equal(self, var: Var, value: PrimExpr) -> None:
        """Add the value of a variable for proofs: ``simplify`` does not replace the variable."""
        c = self._canonical
        form = c.read(value)
        if not isinstance(form, Form) or var.dtype is not value.dtype:
            return
        if not c.does(value) and form.exact:
            self._relate(self._number(var), form, form)
        low, high = c.value_bounds(form)
        c.tighten(self._number(var), low, high)
        c.forget(var)

    def _number(self, var: Var) -> int:
        form = self._canonical.read(var)
        if not isinstance(form, Form) or len(form.terms) != 1:
            raise InternalError(f"nothing can be known about variable {var.name_hint!r}")
        ((mono, _),) = form.terms.items()
        return mono[0]

    def _bind_range(self, var: Var, start: PrimExpr, extent: PrimExpr) -> None:
        c, number = self._canonical, self._number(var)
        first, count = c.read(start), c.read(extent)
        if not (isinstance(first, Form) and isinstance(count, Form)):
            return
        low = c.value_bounds(first)
        high = c.value_bounds(count)
        c.tighten(number, low.low, low.high + high.high - 1)
        c.forget(var)
        if c.does(start) | c.does(extent):
            return
        first, count = c.exact(first), c.exact(count)
        terms = add_terms(first.terms, count.terms, 1)
        last = first.const + count.const - 1
        if terms:
            form = Form(terms, last, *c.bounds(terms, last), var.dtype)
            self._relate(number, first if first.terms else None, form)

    def _relate(self, number: int, low: Form | None, high: Form | None) -> None:
        c = self._canonical
        own: Terms = {(number,): 1}
        if low is not None:
            c.relate(number, Inequality(add_terms(own, low.terms, -1), -low.const))
        if high is not None:
            c.relate(number, Inequality(add_terms(high.terms, own, -1), high.const))

    def assume_size(self, var: Var, limit: int = _SIZE_LIMIT) -> None:
        """Add the fact that a variable is a size: at least 0, and below ``limit``."""
        top = min(limit - 1, var.dtype.max_value)
        self._canonical.tighten(self._number(var), 0, top)
        self._canonical.forget(var)

    def enter(self, condition: PrimExpr | None = None) -> None:
        """Start a scope, in which a condition, if given, is assumed to hold."""
        self._canonical.enter()
        if condition is not None:
            self._learn(condition)

    def exit(self) -> None:
        """End the latest scope and forget what it learned."""
        self._canonical.leave()

    @contextmanager
    def assume(self, condition: PrimExpr) -> Generator[None]:
        """Assume that a condition holds in a ``with`` statement, as in the body of an ``if``."""
        self.enter(condition)
        try:
            yield
        finally:
            self.exit()

    def _learn(self, condition: PrimExpr) -> None:
        c = self._canonical
        todo = [condition]
        seen = 0
        while todo and seen < 64:
            part = todo.pop()
            seen += 1
            made = c.expr_of(c.read(part))
            if isinstance(made, And):
                todo += (made.b, made.a)
                continue
            if c.does(part) or c.does(made):
                continue
            if isinstance(made, Not) and isinstance(made.a, Or):
                todo += (Not(made.a.b), Not(made.a.a))
                continue
            self._learn_one(made)
        c.renew()

    def _learn_one(self, made: PrimExpr) -> None:
        c = self._canonical
        test = c.test_of(made)
        if test is None:
            if isinstance(made, NE):
                self._learn_unequal(made)
            if not isinstance(made, IntImm):
                c.note(c.truths, id(made), TRUE)
                if isinstance(made, Not):
                    c.note(c.truths, id(made.a), FALSE)
            return
        ordered, terms, const = test
        c.facts.append(Inequality(terms, const))
        self._narrow(terms, const)
        if not ordered:
            down = scale_terms(terms, -1)
            c.facts.append(Inequality(down, -const))
            self._narrow(down, -const)
            self._learn_residue(terms, const)

    def _narrow(self, terms: Terms, const: int) -> None:
        """Tighten the bounds of an atom for which ``factor * atom + const >= 0``."""
        if len(terms) != 1:
            return
        ((mono, factor),) = terms.items()
        if len(mono) != 1:
            return
        if factor > 0:
            self._canonical.tighten(mono[0], -(const // factor), None)
        else:
            self._canonical.tighten(mono[0], None, const // -factor)

    def _learn_residue(self, terms: Terms, const: int) -> None:
        """Learn from ``x % c == r`` the class of ``x``."""
        c = self._canonical
        if len(terms) != 1:
            return
        ((mono, factor),) = terms.items()
        atom = c.atoms[mono[0]]
        if len(mono) != 1 or factor != 1 or atom.kind != AtomKind.FLOORMOD:
            return
        a, b = atom.parts
        if not b.is_constant or len(a.terms) != 1:
            return
        ((inner, times),) = a.terms.items()
        if len(inner) == 1 and times == 1:
            # Loads, and expressions of them, do not get here, so that the residue class stays
            # valid.
            c.learn_residue(inner[0], modular.residue(b.const, -const - a.const))

    def _learn_unequal(self, test: NE) -> None:
        """Tighten bounds by a value at one of their ends that is known not to occur."""
        c = self._canonical
        a, b = c.read(test.a), c.read(test.b)
        if not (isinstance(a, Form) and isinstance(b, Form) and b.is_constant):
            return
        if len(a.terms) == 1 and a.exact:
            ((mono, factor),) = a.terms.items()
            gap = b.const - a.const
            if len(mono) == 1 and factor == 1:
                low, high = c.range_of(mono[0])
                c.tighten(mono[0], low + (gap == low), high - (gap == high))

    # -- questions ---------------------------------------------------------------------------------
    def const_int_bound(self, expr: PrimExpr) -> ConstIntBound:
        """Return the least and greatest value of a scalar integer or condition."""
        c = self._canonical
        form = c.read(expr)
        if isinstance(form, Form):
            return ConstIntBound(*c.value_bounds(form))
        if expr.dtype.is_bool and expr.dtype.lanes == 1:
            return ConstIntBound(int(form is TRUE), int(form is not FALSE))
        return ConstIntBound(-inf, inf)

    def modular_set(self, expr: PrimExpr) -> ModularSet:
        """Return the residue class of a scalar integer's value."""
        c = self._canonical
        form = c.read(expr)
        if not isinstance(form, Form):
            return modular.ANY
        found = residue_of(form, c.atoms)
        return found if form.exact else modular.wrap(found, expr.dtype)

    def rewrite_simplify(self, expr: PrimExpr) -> PrimExpr:
        """Fold constants and apply the rules of the table, innermost first."""
        return rewrite_expr(expr, self)

    def canonical_simplify(self, expr: PrimExpr) -> PrimExpr:
        """Bring integers into canonical form: sums of multiples, in a fixed order."""
        c = self._canonical
        made = c.expr_of(c.read(expr))
        return made if made is expr or _binds_once(made) else expr

    def simplify(self, expr: PrimExpr, *, rules: bool = True) -> PrimExpr:
        """Return the cheapest equivalent expression that is found, or the same one.

        Without ``rules``, only canonical forms are used, which takes a third of the time.
        """
        replaced = self._canonical.values
        best, cost = expr, _cost(expr, replaced)
        current = expr
        for _ in range(_ROUNDS if rules else 1):
            made = self.rewrite_simplify(current) if rules else current
            made = self.canonical_simplify(made)
            now = _cost(made, replaced)
            if now >= cost or (rules and not _binds_once(made)):
                break
            best, cost, current = made, now, made
        return best

    def can_prove(self, condition: PrimExpr) -> bool:
        """Tell whether a condition certainly holds."""
        c = self._canonical
        todo = [condition]
        while todo:
            part = todo.pop()
            made = c.expr_of(c.read(part))
            if made is TRUE:
                continue
            if c.does(part) & (Effects.FAILS | Effects.ACTS):
                return False
            if isinstance(made, And):
                todo += (made.a, made.b)
            elif not self._prove(made):
                return False
        return True

    def _prove(self, made: PrimExpr) -> bool:
        c = self._canonical
        if isinstance(made, Or):
            return self._prove(made.a) or self._prove(made.b) or self._prove_by_cases(made)
        test = c.test_of(made)
        if test is not None:
            ordered, terms, const = test
            if not c.is_nonnegative(terms, const, FUEL):
                return False
            return ordered or c.is_nonnegative(scale_terms(terms, -1), -const, FUEL)
        if isinstance(made, CmpOp) and isinstance(made, NE):
            a, b = c.read(made.a), c.read(made.b)
            if isinstance(a, Form) and isinstance(b, Form) and a.exact and b.exact:
                terms, const = add_terms(a.terms, b.terms, -1), a.const - b.const
                return c.is_nonnegative(terms, const - 1, FUEL) or c.is_nonnegative(
                    scale_terms(terms, -1), -const - 1, FUEL
                )
        return False

    def _prove_by_cases(self, either: Or) -> bool:
        """Prove ``a or b`` by proving ``b`` under the assumption that ``a`` does not hold."""
        with self.assume(Not(either.a)):
            return self._canonical.read(either.b) is TRUE

    def can_prove_equal(self, x: ExprLike, y: ExprLike) -> bool:
        """Tell whether two expressions certainly have the same value, modulo their width."""
        a, b = match_dtypes(x, y)
        c = self._canonical
        p, q = c.read(a), c.read(b)
        if isinstance(p, Form) and isinstance(q, Form) and a.dtype is b.dtype:
            terms, const = add_terms(p.terms, q.terms, -1), p.const - q.const
            period = 1 << a.dtype.bits
            if const % period == 0 and all(f % period == 0 for f in terms.values()):
                return True
            if not (p.exact and q.exact):
                p, q = c.exact(p), c.exact(q)
                terms, const = add_terms(p.terms, q.terms, -1), p.const - q.const
            if not terms and const == 0:
                return True
            return c.is_nonnegative(terms, const, FUEL) and c.is_nonnegative(
                scale_terms(terms, -1), -const, FUEL
            )
        return p is q and not c.does(a) & (Effects.FAILS | Effects.ACTS)

    def can_prove_greater_equal(self, expr: PrimExpr, bound: int) -> bool:
        """Tell whether a scalar integer is certainly at least a number."""
        c = self._canonical
        form = c.read(expr)
        if not isinstance(form, Form):
            return False
        form = c.exact(form)
        return c.is_nonnegative(form.terms, form.const - bound, FUEL)

    def int_set(self, expr: PrimExpr, dom_map: Mapping[Var, Range]) -> IntSet:
        """Return an interval of all values of an expression while variables run over their ranges.

        Its ends are expressions of the other variables.
        """
        return set_of(self, expr, dom_map)

    def does(self, expr: PrimExpr) -> Effects:
        """Return the effects of evaluating an expression; safe divisions have none."""
        self._canonical.read(expr)
        return self._canonical.does(expr)

    def is_bound(self, var: Var) -> bool:
        """Tell whether a variable was bound in a scope that lasts."""
        return id(var) in self._bound

    def is_exact(self, expr: PrimExpr) -> bool:
        """Tell whether a scalar integer certainly equals its value in unbounded integers."""
        form = self._canonical.read(expr)
        return isinstance(form, Form) and form.exact

    def interval_of(self, expr: PrimExpr) -> Interval:
        """Return the bounds of a scalar integer, as integers."""
        c = self._canonical
        form = c.read(expr)
        if not isinstance(form, Form):
            raise InternalError("only scalar integers have bounds")
        return c.value_bounds(form)


_WEIGHTS: Final[dict[type, int]] = {
    IntImm: 1,
    Var: 1,
    FloorDiv: 6,
    FloorMod: 6,
    Div: 6,
    Mod: 6,
    Mul: 3,
}
"""The cost of computing a node; others count 2."""
_DIVISIONS: Final = (FloorDiv, FloorMod, Div, Mod)
_REPLACED: Final = 1 << 20
"""The cost of a variable that is to be replaced: more than that of any expression without it."""

Cost = tuple[int, int, int]


def _binds_once(expr: PrimExpr) -> bool:
    """Tell whether each variable is bound in one place: expanding a product may repeat bindings."""
    bound: set[Any] = set()

    def join(e: Any, parts: list[int]) -> int:
        if e.__class__ is not Let:
            return sum(parts)
        bound.add(e.var)
        return sum(parts) + 1

    return fold(expr, join) == len(bound)


def _cost(expr: PrimExpr, replaced: Mapping[int, object]) -> Cost:
    """Return the sort key of expressions: work, then number of nodes, then size of dividends.

    Variables that are bound to a value cost the most: their values should replace them.
    """

    def join(e: Any, parts: list[Cost]) -> Cost:
        weight, nodes, below = _WEIGHTS.get(e.__class__, 2), 1, 0
        if e.__class__ is Var and id(e) in replaced:
            weight = _REPLACED
        for part in parts:
            weight += part[0]
            nodes += part[1]
            below += part[2]
        if e.__class__ in _DIVISIONS:
            below += parts[0][1]
        return weight, nodes, below

    return fold(expr, join)
