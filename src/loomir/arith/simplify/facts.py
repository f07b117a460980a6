"""Facts about the atoms of canonical forms; build, bound and print these forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.arith.bounds.interval import Interval, wrap
from loomir.arith.bounds.modular import ANY, ModularSet
from loomir.arith.fold import imm
from loomir.arith.simplify.form import (
    Atom,
    AtomKind,
    Form,
    Key,
    Monomial,
    Terms,
    common_factor,
    key_of,
    residue_of,
)
from loomir.arith.simplify.prover import CASES, Inequality, is_nonnegative
from loomir.support.dtype import DataType
from loomir.tir.expr import Add, Cast, IntImm, Mul, PrimExpr, Sub

__all__ = ["Facts"]

_SEARCH: Final = 12
"""The most steps of the prover for each simplified comparison."""


class _Residues:
    """A table of the residue classes of atoms, with undo."""

    def __init__(self, atoms: list[Atom]) -> None:
        self._atoms = atoms

    def get(self, number: int) -> ModularSet:
        return self._atoms[number].modular

    def __setitem__(self, number: int, known: ModularSet) -> None:
        self._atoms[number].modular = known


class Facts:
    """The known facts about atoms of polynomials; makes forms, and writes them as expressions.

    Facts may be added at any time; ``enter`` and ``leave`` enclose those of a scope.
    """

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.relations: dict[int, list[Inequality]] = {}
        self.facts: list[Inequality] = []
        self._ranges: dict[int, tuple[int, int]] = {}
        self.table: dict[Key, Any] = {}
        """Atoms and written expressions by their operands."""
        self.serial = 0
        """The version of the facts: readings made with another version are repeated."""
        self._serials = 0
        self._undo: list[tuple[Any, Any, Any]] = []
        self._scopes: list[tuple[int, int, int]] = []

    # -- scopes ------------------------------------------------------------------------------------
    def enter(self) -> None:
        """Start a scope of facts."""
        self._scopes.append((self.serial, len(self._undo), len(self.facts)))
        self.renew()

    def renew(self) -> None:
        """Drop cached readings of expressions, since more is known."""
        self._serials += 1
        self.serial = self._serials

    def leave(self) -> None:
        """End the latest scope, and forget its facts."""
        self.serial, mark, facts = self._scopes.pop()
        del self.facts[facts:]
        while len(self._undo) > mark:
            table, key, old = self._undo.pop()
            if old is None:
                table.pop(key, None)
            else:
                table[key] = old

    def note(self, table: Any, key: Any, value: Any) -> None:
        """Set an entry that is undone at the end of the scope."""
        if self._scopes:
            self._undo.append((table, key, table.get(key)))
        table[key] = value

    # -- facts about atoms -------------------------------------------------------------------------
    def range_of(self, number: int) -> tuple[int, int]:
        """Return the bounds of an atom."""
        return self._ranges[number]

    def tighten(self, number: int, low: int | None, high: int | None) -> None:
        """Tighten the bounds of an atom."""
        old_low, old_high = self._ranges[number]
        low = old_low if low is None else max(low, old_low)
        high = old_high if high is None else min(high, old_high)
        # An empty range means that this place is never reached, where no facts are needed.
        if low <= high and (low, high) != (old_low, old_high):
            self.note(self._ranges, number, (low, high))

    def learn_residue(self, number: int, known: ModularSet) -> None:
        """Record the residue class of an atom."""
        self.note(_Residues(self.atoms), number, known)

    def relate(self, number: int, known: Inequality) -> None:
        """Record an inequality about an atom."""
        old = self.relations.get(number)
        self.note(self.relations, number, [*(old or ()), known])

    def bounds(self, terms: Terms, const: int) -> tuple[int, int]:
        """Bound a polynomial by the bounds of its atoms."""
        low = high = const
        ranges = self._ranges
        for mono, factor in terms.items():
            a, b = ranges[mono[0]]
            for number in mono[1:]:
                c, d = ranges[number]
                corners = (a * c, a * d, b * c, b * d)
                a, b = min(corners), max(corners)
            if factor > 0:
                low += a * factor
                high += b * factor
            else:
                low += b * factor
                high += a * factor
        return low, high

    def lower(self, terms: Terms, const: int) -> int:
        """Return a lower bound of a polynomial by the bounds of its atoms."""
        return self.bounds(terms, const)[0]

    def is_nonnegative(self, terms: Terms, const: int, fuel: int = _SEARCH) -> bool:
        """Tell whether a polynomial is certainly at least 0."""
        return is_nonnegative(self, terms, const, fuel, 0 if fuel == _SEARCH else CASES)

    # -- atoms and forms ---------------------------------------------------------------------------
    def atom(
        self,
        key: Key,
        make: Callable[[], PrimExpr],
        low: int,
        high: int,
        kind: int = AtomKind.OPAQUE,
        parts: tuple[Form, ...] = (),
        modular: ModularSet = ANY,
    ) -> Atom:
        """Find or make an atom; its bounds hold in the current scope."""
        found = self.table.get(key)
        if found is None:
            found = Atom(len(self.atoms), make(), kind, parts, modular)
            self.atoms.append(found)
            self.note(self.table, key, found)
            self._ranges[found.number] = (low, high)
        else:
            self.tighten(found.number, low, high)
        return found

    def find(self, key: Key) -> Atom:
        """Return an existing atom."""
        return self.table[key]

    def form_of_atom(self, atom: Atom, dtype: DataType) -> Form:
        """Return an atom as a form; its value must fit the dtype modulo its width."""
        low, high = self._ranges[atom.number]
        return Form({atom.mono: 1}, 0, low, high, dtype)

    def form(
        self, terms: Terms, const: int, dtype: DataType, within: Interval | None = None
    ) -> Form:
        """Make a form of a polynomial; ``within`` are bounds known from elsewhere."""
        if not terms:
            return self.constant(const, dtype)
        low, high = self.bounds(terms, const)
        if within is not None and within.low <= high and low <= within.high:
            low, high = max(low, within.low), min(high, within.high)
        made = Form(terms, const, low, high, dtype)
        return made if made.exact else self._reduce(made)

    def _reduce(self, form: Form) -> Form:
        """Reduce factors that may wrap to the range around 0, modulo the width."""
        period = 1 << form.dtype.bits
        half = period >> 1
        if all(-half <= c < half for c in form.terms.values()) and -half <= form.const < half:
            return form
        terms = {m: (c + half) % period - half for m, c in form.terms.items()}
        terms = {m: c for m, c in terms.items() if c}
        if not terms:
            return self.constant(form.const, form.dtype)
        const = (form.const + half) % period - half
        return Form(terms, const, *self.bounds(terms, const), form.dtype)

    def constant(self, value: int, dtype: DataType) -> Form:
        """Make the form of a constant, wrapped to its dtype."""
        value = imm(value, dtype).value
        return Form({}, value, value, value, dtype)

    def exact(self, form: Form) -> Form:
        """Return an exact form: an atom, if the polynomial may wrap."""
        if form.exact:
            return form
        key = ("wrap", form.dtype, *key_of(form.terms, form.const))
        low, high = wrap(form.interval, form.dtype)
        modular = residue_of(form, self.atoms)
        coeff = common_factor((modular.coeff, 1 << form.dtype.bits))
        known = ModularSet(coeff, modular.base % coeff)
        atom = self.atom(key, lambda: self.write_form(form), low, high, modular=known)
        return self.form_of_atom(atom, form.dtype)

    def value_bounds(self, form: Form) -> Interval:
        """Bound the value of the expression that a form was read from."""
        return wrap(form.interval, form.dtype)

    # -- writing -----------------------------------------------------------------------------------
    def cons(self, kind: Any, *parts: Any) -> Any:
        """Find or make a node (hash consing); its parts must be such nodes, too."""
        key = (kind, *[p if p.__class__ in (int, DataType) else id(p) for p in parts])
        found = self.table.get(key)
        if found is None:
            found = kind(*parts)
            self.note(self.table, key, found)
        return found

    def imm(self, value: int, dtype: DataType) -> PrimExpr:
        """Find or make a constant, wrapped."""
        key = (IntImm, value, dtype)
        found = self.table.get(key)
        if found is None:
            found = imm(value, dtype)
            self.note(self.table, key, found)
            wanted = (IntImm, found.value, dtype)
            if wanted != key:
                found = self.table.setdefault(wanted, found)
                self.note(self.table, key, found)
        return found

    def write_form(self, form: Form) -> PrimExpr:
        """Return the expression of a form."""
        if form.expr is None:
            form.expr = self.write(form.terms, form.const, form.dtype)
        return form.expr

    def write(self, terms: Terms, const: int, dtype: DataType) -> PrimExpr:
        """Return the expression of a polynomial: positive terms first, then negative ones."""
        made: PrimExpr | None = None
        minus: list[tuple[Monomial, int]] = []
        low = dtype.min_value
        for mono in sorted(terms) if len(terms) > 1 else terms:
            factor = terms[mono]
            if factor < 0:
                minus.append((mono, -factor))
                continue
            part = self._product(mono, factor, dtype)
            made = part if made is None else self.cons(Add, made, part)
        rest = const
        if made is None and minus and (const or low == 0 or minus[0][1] == 1):
            made, rest = self.imm(const, dtype), 0
        for mono, factor in minus:
            if made is None:
                made = self._product(mono, -factor, dtype)
                continue
            made = self.cons(Sub, made, self._product(mono, factor, dtype))
        if made is None:
            return self.imm(const, dtype)
        if rest == 0:
            return made
        if rest < 0 and rest != low:
            return self.cons(Sub, made, self.imm(-rest, dtype))
        return self.cons(Add, made, self.imm(rest, dtype))

    def _product(self, mono: Monomial, factor: int, dtype: DataType) -> PrimExpr:
        made: PrimExpr | None = None
        for number in mono:
            part = self.atoms[number].expr
            if part.dtype is not dtype:
                part = self.cons(Cast, part, dtype)
            made = part if made is None else self.cons(Mul, made, part)
        assert made is not None
        return made if factor == 1 else self.cons(Mul, made, self.imm(factor, dtype))
