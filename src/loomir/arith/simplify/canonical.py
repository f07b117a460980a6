"""Canonicalise expressions as polynomials over atoms.

Every integer expression is read as a polynomial that is congruent to it modulo ``2**width``. Sums,
differences, products and conversions preserve that congruence, whatever wraps on the way. If the
bounds of the polynomial fit the dtype, it is the value itself; only then quotients, minima and
comparisons are computed on it.

Expressions that may fail or have effects stay where they are, and only their parts are simplified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from typing import cast as cast_type

from loomir.arith.bounds import interval
from loomir.arith.bounds.interval import Interval, union, wrap
from loomir.arith.bounds.modular import join
from loomir.arith.linear_form import add_terms
from loomir.arith.simplify.division import floor_divide, fold_remainders, remainder
from loomir.arith.simplify.facts import Facts
from loomir.arith.simplify.form import (
    Atom,
    AtomKind,
    Form,
    Key,
    Terms,
    common_factor,
    key_of,
    multiply_terms,
    residue_of,
    scale_terms,
)
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.visit import children, nodes_in, plan_of, remake_node
from loomir.support.dtype import BOOL, DataType
from loomir.tir.analysis.effects import Effects, effects_of_node
from loomir.tir.builtins.table import BUILTINS, IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    CmpOp,
    Div,
    Eq,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)

__all__ = ["Canonical", "Result"]

_MOST_TERMS: Final = 24
_MOST_PRODUCTS: Final = 12
_MOST_FACTORS: Final = 4
"""Beyond these, operands of a sum or product become atoms; bounds on time, which were not tuned."""
_LIKELY: Final = BUILTINS["likely"].op
_FAILS: Final = int(Effects.FAILS)
_ACTS: Final = int(Effects.ACTS)
_HOLDS: Final = _FAILS | _ACTS
_BINARY: Final = frozenset(
    {Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, Eq, NE, LT, LE, GT, GE, And, Or}
)
_HARMLESS: Final = (_BINARY - {Div, Mod, FloorDiv, FloorMod}) | {Var, IntImm, Cast, Select, Not}
_DIVISIONS: Final = (FloorDiv, FloorMod, Div, Mod)
TRUE: Final = IntImm(1, BOOL)
FALSE: Final = IntImm(0, BOOL)

Result = Form | PrimExpr
"""The result of reading: a form for scalar integers, a canonical expression for anything else."""


class Canonical(Facts):
    """Reads expressions into canonical forms."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[int, tuple[Var, Form]] = {}
        self.truths: dict[int, PrimExpr] = {}
        self._memo: dict[int, tuple[int, Node, Result]] = {}
        self._flags: dict[int, tuple[Node, int]] = {}
        self._tests: dict[int, tuple[PrimExpr, bool, Terms, int]] = {}

    def forget(self, e: PrimExpr) -> None:
        """Forget the reading of one expression, since more is known about it."""
        self._memo.pop(id(e), None)

    def expr_of(self, result: Result) -> PrimExpr:
        """Return the canonical expression of a reading."""
        return self.write_form(result) if isinstance(result, Form) else result

    # -- reading -----------------------------------------------------------------------------------
    def read(self, e: PrimExpr) -> Result:
        """Read an expression of any depth."""
        memo, serial, rules = self._memo, self.serial, _RULES
        found = memo.get(id(e))
        if found is not None and found[0] == serial:
            return found[2]
        stack: list[Any] = [e]
        while stack:
            node = stack.pop()
            if node is None:
                node = stack.pop()
            else:
                found = memo.get(id(node))
                if found is not None and found[0] == serial:
                    continue
                parts = (node.a, node.b) if node.__class__ in _BINARY else children(node)
                pending: list[Any] = []
                for part in parts:
                    found = memo.get(id(part))
                    if found is None or found[0] != serial:
                        if part.__class__ is IntImm:
                            memo[id(part)] = (serial, part, self.number(cast_type("IntImm", part)))
                        else:
                            pending.append(part)
                if pending:
                    stack += (node, None)
                    pending.reverse()
                    stack += pending
                    continue
            memo[id(node)] = (serial, node, self._read(node, rules.get(node.__class__)))
        return memo[id(e)][2]

    def _read(self, node: Any, rule: Callable[[Canonical, Any], Result | None] | None) -> Result:
        does = 0
        if self._flags or node.__class__ not in _HARMLESS:
            does = self._effects(node)
        if rule is not None and not does & _HOLDS:
            made = rule(self, node)
            if made is None:
                made = self._generic(node, does)
        else:
            made = self._generic(node, does)
        if self.truths:
            known = self.truths.get(id(made))
            if known is not None:
                return known
        return made

    def _effects(self, node: Any) -> int:
        """Return the effects of a node and its parts; a divisor whose bounds exclude 0 is safe."""
        flags = self._flags
        does = 0
        for part in children(node):
            known = flags.get(id(part))
            if known is not None:
                does |= known[1]
        if node.__class__ not in _HARMLESS:
            own = int(effects_of_node(node))
            if own & _FAILS and isinstance(node, _DIVISIONS):
                divisor = self.get(node.b)
                if isinstance(divisor, Form):
                    low, high = self.value_bounds(divisor)
                    if low > 0 or high < 0:
                        own &= ~_FAILS
            does |= own
        if does or id(node) in flags:
            self.note(flags, id(node), (node, does))
        return does

    def get(self, e: Any) -> Result:
        """Return the reading of a part."""
        return self._memo[id(e)][2]

    def form_of(self, e: Any) -> Form:
        """Return the exact form of a part that is a scalar integer."""
        result = self._memo[id(e)][2]
        assert isinstance(result, Form)
        return result if result.exact else self.exact(result)

    def _generic(self, node: Any, does: int) -> Result:
        """Rebuild a node with canonical parts."""
        if isinstance(node, FloatImm):  # in Python, 0.0 and -0.0 are equal
            made = self.table.get((FloatImm, repr(node.value), node.dtype))
            if made is None:
                made = node
                self.note(self.table, (FloatImm, repr(node.value), node.dtype), node)
            return made
        plan = plan_of(node.__class__)
        done: dict[int, Any] = {id(None): None}
        parts = children(node)
        for part in parts:
            done[id(part)] = self.expr_of(self.get(part))
        key: Key
        if does & _ACTS or not isinstance(node, PrimExpr):
            key = ("node", id(node))
        else:
            owned = [id(part) for value in plan.get(node) for part in nodes_in(value)]
            refs = () if plan.get_refs is None else tuple(map(id, plan.get_refs(node)))
            key = (node.__class__, plan.get_attrs(node), refs, tuple(id(done[i]) for i in owned))
        found = self.table.get(key)
        if isinstance(found, Atom):
            return self.form_of_atom(found, node.dtype)
        if found is not None:
            return found
        made = remake_node(node, plan, done)
        if isinstance(made, PrimExpr) and made.dtype.is_integer and made.dtype.lanes == 1:
            low, high = self._generic_bounds(node)
            return self.form_of_atom(self.atom(key, lambda: made, low, high), node.dtype)
        # The table keeps both alive, so that their identities stay unique.
        self.note(self.table, key, made)
        self.note(self.table, ("alive", id(node), id(made)), (node, made))
        return made

    def _generic_bounds(self, node: Any) -> Interval:
        dtype: DataType = node.dtype
        kind: type = node.__class__
        if (
            kind is Call
            and isinstance(node.op, Op)
            and node.args
            and all(map(_is_scalar, node.args))
        ):
            args = [self.value_bounds(self.form_of(a)) for a in node.args]
            name = node.op.name.removeprefix("tir.")
            found = interval.call(name, args, node.args[0].dtype.bits)
            if found is not None:
                return wrap(found, dtype)
        if kind is Cast and node.value.dtype.is_bool:
            return Interval(0, 1)
        rule = interval.TRANSFER.get(kind)
        if rule is not None:
            a, b = self.form_of(node.a), self.form_of(node.b)
            return wrap(rule(self.value_bounds(a), self.value_bounds(b)), dtype)
        return interval.full(dtype)

    # -- rules -------------------------------------------------------------------------------------
    def var(self, e: Var) -> Result | None:
        """Read a variable: its value, or an atom."""
        known = self.values.get(id(e))
        if known is not None:
            return known[1]
        dtype = e.dtype
        if not (dtype.is_integer and dtype.lanes == 1):
            return e
        atom = self.atom(("var", id(e)), lambda: e, dtype.min_value, dtype.max_value)
        return self.form_of_atom(atom, dtype)

    def bind_value(self, var: Var, form: Form) -> None:
        """Bind a variable to its value from here on."""
        self.note(self.values, id(var), (var, form))

    def number(self, e: IntImm) -> Result:
        """Read a constant."""
        if e.dtype.is_bool:
            return TRUE if e.value else FALSE
        return Form({}, e.value, e.value, e.value, e.dtype)

    def add(self, e: Add | Sub) -> Result | None:
        """Read a sum or difference."""
        dtype = e.dtype
        if not _is_index(dtype):
            return None
        a, b = self._memo[id(e.a)][2], self._memo[id(e.b)][2]
        assert isinstance(a, Form)
        assert isinstance(b, Form)
        sign = 1 if e.__class__ is Add else -1
        if len(a.terms) + len(b.terms) > _MOST_TERMS:
            a, b = self._short(a), self._short(b)
        return self._sum(a, b, sign, dtype)

    def _sum(self, a: Form, b: Form, sign: int, dtype: DataType) -> Form:
        low, high = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
        within = Interval(a.low + low, a.high + high)
        const = a.const + sign * b.const
        if not b.terms:
            made = Form(a.terms, const, *within, dtype)
            return made if made.exact else self.form(a.terms, const, dtype)
        terms = add_terms(a.terms, b.terms, sign)
        made = Form(terms, const, *within, dtype)
        if len(terms) == len(a.terms) + len(b.terms) and made.exact:
            return fold_remainders(self, made)
        return fold_remainders(self, self.form(terms, const, dtype, within))

    def _short(self, form: Form) -> Form:
        """Return a form with a single term for one with many."""
        if len(form.terms) <= _MOST_TERMS // 2:
            return form
        low, high = self.value_bounds(form)
        key = ("wrap", form.dtype, *key_of(form.terms, form.const))
        atom = self.atom(key, lambda: self.write_form(form), low, high)
        return self.form_of_atom(atom, form.dtype)

    def mul(self, e: Mul) -> Result | None:
        """Read a product."""
        dtype = e.dtype
        if not _is_index(dtype):
            return None
        a, b = self._memo[id(e.a)][2], self._memo[id(e.b)][2]
        assert isinstance(a, Form)
        assert isinstance(b, Form)
        if not a.terms:
            a, b = b, a
        if not b.terms:
            by = b.const
            ends = (a.low * by, a.high * by)
            made = Form(scale_terms(a.terms, by), a.const * by, min(ends), max(ends), dtype)
            return made if made.exact else self.form(made.terms, made.const, dtype)
        corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
        within = Interval(min(corners), max(corners))
        degree = max(map(len, a.terms)) + max(map(len, b.terms))
        if degree > _MOST_FACTORS or len(a.terms) * len(b.terms) > _MOST_PRODUCTS:
            low, high = wrap(within, dtype)
            x, y = self.write_form(a), self.write_form(b)
            atom = self.atom(("mul", id(x), id(y)), lambda: self.cons(Mul, x, y), low, high)
            return self.form_of_atom(atom, dtype)
        return self.form(multiply_terms(a, b), a.const * b.const, dtype, within)

    def floordiv(self, e: FloorDiv) -> Result | None:
        """Read a quotient."""
        if not _is_index(e.dtype):
            return None
        return floor_divide(self, self.form_of(e.a), self.form_of(e.b), e.dtype)

    def floormod(self, e: FloorMod) -> Result | None:
        """Read a remainder; modulo a power of two, congruent dividends are equivalent."""
        if not _is_index(e.dtype):
            return None
        by = e.b.value if isinstance(e.b, IntImm) else 0
        if by > 0 and by & (by - 1) == 0:
            a = self._memo[id(e.a)][2]
            assert isinstance(a, Form)
            return remainder(self, a, self.form_of(e.b), e.dtype)
        return remainder(self, self.form_of(e.a), self.form_of(e.b), e.dtype)

    def div(self, e: Div | Mod) -> Result | None:
        """Read a truncated quotient or remainder of nonnegative operands."""
        if not _is_index(e.dtype):
            return None
        a, b = self.form_of(e.a), self.form_of(e.b)
        if a.low < 0 or b.low <= 0:
            return None
        rule = floor_divide if e.__class__ is Div else remainder
        return rule(self, a, b, e.dtype)

    def extreme(self, e: Min | Max) -> Result | None:
        """Read the smaller or larger of two."""
        dtype = e.dtype
        if not _is_index(dtype):
            return None
        a, b = self.form_of(e.a), self.form_of(e.b)
        smaller = e.__class__ is Min
        gap, const = add_terms(b.terms, a.terms, -1), b.const - a.const
        if self.is_nonnegative(gap, const):
            return a if smaller else b
        if self.is_nonnegative(scale_terms(gap, -1), -const):
            return b if smaller else a
        kind = AtomKind.MIN if smaller else AtomKind.MAX
        if (sorted(b.terms.items()), b.const) < (sorted(a.terms.items()), a.const):
            a, b = b, a
        rule = interval.TRANSFER[e.__class__]
        low, high = rule(a.interval, b.interval)
        key = (kind, key_of(a.terms, a.const), key_of(b.terms, b.const))
        atom = self.atom(
            key,
            lambda: self.cons(e.__class__, self._cast(a, dtype), self._cast(b, dtype)),
            low,
            high,
            kind,
            (a, b),
            join(residue_of(a, self.atoms), residue_of(b, self.atoms)),
        )
        return self.form_of_atom(atom, dtype)

    def _cast(self, form: Form, dtype: DataType) -> PrimExpr:
        is_same = form.dtype is dtype
        return self.write_form(form) if is_same else self.write(form.terms, form.const, dtype)

    def cast(self, e: Cast) -> Result | None:
        """Read a conversion: congruent to its operand, unless that wrapped in a narrower dtype."""
        source, target = e.value.dtype, e.dtype
        if source is target:
            return self.get(e.value)
        if not (_is_index(source) and _is_index(target)):
            return None
        form = self.get(e.value)
        assert isinstance(form, Form)
        if target.bits > source.bits and not form.exact:
            form = self.exact(form)
        return self.form(form.terms, form.const, target, form.interval)

    def choice(self, e: Any) -> Result | None:
        """Read a choice with a known condition or equal values."""
        condition, x, y = e.args if e.__class__ is Call else children(e)
        test = self.get(condition)
        if test is TRUE:
            return self.get(x)
        if test is FALSE:
            return self.get(y)
        a, b = self.get(x), self.get(y)
        if self.expr_of(a) is self.expr_of(b):
            return a
        if not _is_index(e.dtype) or not isinstance(test, PrimExpr):
            return None
        a, b = self.form_of(x), self.form_of(y)
        low, high = union(a.interval, b.interval)
        key = (e.__class__, id(test), key_of(a.terms, a.const), key_of(b.terms, b.const))

        def make() -> PrimExpr:
            p, q = self._cast(a, e.dtype), self._cast(b, e.dtype)
            if e.__class__ is Call:
                return Call(e.dtype, e.op, (test, p, q), span=e.span)
            return self.cons(Select, test, p, q)

        atom = self.atom(key, make, low, high, AtomKind.SELECT, (a, b))
        return self.form_of_atom(atom, e.dtype)

    def call(self, e: Call) -> Result | None:
        """Read a call."""
        if e.op is IF_THEN_ELSE:
            return self.choice(e)
        if e.op is _LIKELY:
            inside = self.get(e.args[0])
            if inside is TRUE or inside is FALSE:
                return inside
        return None

    # -- conditions --------------------------------------------------------------------------------
    def compare(self, e: CmpOp) -> Result | None:
        """Read a comparison of integers: whether a polynomial is at least 0, or is 0."""
        if not _is_index(e.a.dtype):
            return None
        a, b, kind = self.form_of(e.a), self.form_of(e.b), e.__class__
        if kind in (GT, GE):
            a, b = b, a
        terms, const = add_terms(b.terms, a.terms, -1), b.const - a.const
        if kind in (Eq, NE):
            return self._equal(terms, const, e.a.dtype, kind is NE)
        if kind in (LT, GT):
            const -= 1
        return self._require_nonnegative(terms, const, e.a.dtype, (a, b, kind in (LT, GT)))

    def _require_nonnegative(
        self, terms: Terms, const: int, dtype: DataType, sides: tuple[Form, Form, bool]
    ) -> PrimExpr:
        """Return the condition that a polynomial is at least 0."""
        low, high = self.bounds(terms, const)
        if low >= 0:
            return TRUE
        if high < 0:
            return FALSE
        if len(terms) > 1 or self.facts or self.relations:
            if self.is_nonnegative(terms, const):
                return TRUE
            if self.is_nonnegative(scale_terms(terms, -1), -const - 1):
                return FALSE
        grain = common_factor(terms.values())
        if grain > 1:
            terms, const = {m: c // grain for m, c in terms.items()}, const // grain
        key = ("ge", dtype, key_of(terms, const))
        found = self.table.get(key)
        if found is None:
            found = self._inequality(terms, const, dtype)
            if found is None:
                a, b, strict = sides
                found = self.cons(LT if strict else LE, self._cast(a, dtype), self._cast(b, dtype))
            self.note(self.table, key, found)
            self.note(self._tests, id(found), (found, True, terms, const))
        return found

    def _inequality(self, terms: Terms, const: int, dtype: DataType) -> PrimExpr | None:
        """Write ``terms + const >= 0``; None if a side does not fit the dtype."""
        left: Terms = {m: -c for m, c in terms.items() if c < 0}
        right: Terms = {m: c for m, c in terms.items() if c > 0}
        strict, less, more = False, 0, 0
        if not right:  # left <= const
            strict, more = True, const + 1
        elif not left:
            less = -const
        elif const < 0:
            strict = const == -1
            less = 0 if strict else -const
        else:
            more = const
        a = Form(left, less, *self.bounds(left, less), dtype)
        b = Form(right, more, *self.bounds(right, more), dtype)
        if not (a.exact and b.exact):
            return None
        x, y = self.write_form(a), self.write_form(b)
        if not left and not strict:
            return self.cons(GE, y, x)
        return self.cons(LT if strict else LE, x, y)

    def _equal(self, terms: Terms, const: int, dtype: DataType, negated: bool) -> PrimExpr | None:
        """Return the condition that a polynomial is 0, or is not."""
        low, high = self.bounds(terms, const)
        no, yes = (TRUE, FALSE) if negated else (FALSE, TRUE)
        if low > 0 or high < 0:
            return no
        if low == 0 == high:
            return yes
        grain = common_factor(terms.values())
        if const % grain:
            return no
        form = Form(terms, const, low, high, dtype)
        if not residue_of(form, self.atoms).holds(0):
            return no
        down = scale_terms(terms, -1)
        if self.is_nonnegative(terms, const - 1) or self.is_nonnegative(down, -const - 1):
            return no
        if self.is_nonnegative(terms, const) and self.is_nonnegative(down, -const):
            return yes
        if terms[min(terms)] < 0:
            terms, const = down, -const
        terms, const = {m: c // grain for m, c in terms.items()}, const // grain
        left: Terms = {m: c for m, c in terms.items() if c > 0}
        right: Terms = {m: -c for m, c in terms.items() if c < 0}
        less, more = (const, 0) if const > 0 and right else (0, -const)
        a = Form(left, less, *self.bounds(left, less), dtype)
        b = Form(right, more, *self.bounds(right, more), dtype)
        if not (a.exact and b.exact):
            return None
        found = self.cons(NE if negated else Eq, self.write_form(a), self.write_form(b))
        if not negated:
            self.note(self._tests, id(found), (found, False, terms, const))
        return found

    def does(self, e: PrimExpr) -> Effects:
        """Return the effects of an expression that was read."""
        found = self._flags.get(id(e))
        return Effects.NOTHING if found is None else Effects(found[1])

    def test_of(self, condition: PrimExpr) -> tuple[bool, Terms, int] | None:
        """Return ``(True, p)`` for the condition ``p >= 0``, ``(False, p)`` for ``p == 0``."""
        found = self._tests.get(id(condition))
        return None if found is None else found[1:]

    def conjunction(self, e: And | Or) -> Result | None:
        """Read a logical operation; a side that the other implies is dropped."""
        if e.dtype.lanes != 1:
            return None
        a, b = self.expr_of(self.get(e.a)), self.expr_of(self.get(e.b))
        both = e.__class__ is And
        unit, zero = (TRUE, FALSE) if both else (FALSE, TRUE)
        if a is unit or a is b:
            return b
        if b is unit:
            return a
        if a is zero or b is zero:
            return zero
        x, y = self.test_of(a), self.test_of(b)
        if x is not None and y is not None and x[0] and y[0]:
            # x implies y if y - x >= 0.
            gap, const = add_terms(y[1], x[1], -1), y[2] - x[2]
            low, high = self.bounds(gap, const)
            if low >= 0:
                return a if both else b
            if high <= 0:
                return b if both else a
            total, const = add_terms(y[1], x[1], 1), y[2] + x[2]
            low, high = self.bounds(total, const)
            if both and high < 0:
                return FALSE
            if not both and low >= -1:
                return TRUE
        return self.cons(e.__class__, a, b)

    def negation(self, e: Not) -> Result | None:
        """Read a negation; a negated comparison is a comparison."""
        inside = self.expr_of(self.get(e.a))
        if inside is TRUE:
            return FALSE
        if inside is FALSE:
            return TRUE
        if isinstance(inside, Not):
            return inside.a
        test = self.test_of(inside)
        if test is not None and test[0]:
            assert isinstance(inside, CmpOp)
            terms, const = scale_terms(test[1], -1), -test[2] - 1
            made = self._inequality(terms, const, inside.a.dtype)
            if made is not None:
                self.note(self._tests, id(made), (made, True, terms, const))
                return made
        if isinstance(inside, (Eq, NE, LT, LE, GT, GE)) and not inside.a.dtype.is_float:
            return self.cons(_OPPOSITE[inside.__class__], inside.a, inside.b)
        return self.cons(Not, inside)


_OPPOSITE: Final[dict[type, type]] = {Eq: NE, NE: Eq, LT: GE, GE: LT, GT: LE, LE: GT}


def _is_scalar(e: PrimExpr) -> bool:
    return _is_index(e.dtype)


def _is_index(dtype: DataType) -> bool:
    return dtype.is_integer and dtype.lanes == 1


_RULES: Final[dict[type, Callable[[Canonical, Any], Result | None]]] = {
    Var: Canonical.var,
    IntImm: Canonical.number,
    Add: Canonical.add,
    Sub: Canonical.add,
    Mul: Canonical.mul,
    FloorDiv: Canonical.floordiv,
    FloorMod: Canonical.floormod,
    Div: Canonical.div,
    Mod: Canonical.div,
    Min: Canonical.extreme,
    Max: Canonical.extreme,
    Cast: Canonical.cast,
    Select: Canonical.choice,
    Call: Canonical.call,
    And: Canonical.conjunction,
    Or: Canonical.conjunction,
    Not: Canonical.negation,
    **dict.fromkeys((Eq, NE, LT, LE, GT, GE), Canonical.compare),
}
