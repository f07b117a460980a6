"""Check that the init of a reduction runs first (decision T1).

A block's ``init`` runs in the instance where every reduction iterator is at the start of its
domain. This is what the author means only if, for each point of the other iterators, that instance
runs first. This is proved, or else the program is refused:

Call the loops on which values of reduction iterators depend *reducing*. Take any executed instance,
and move all reducing loops to their first iteration. If that is an executed instance of the same
point, it runs no later, and it is the one with init. So the check requires:

1. Reducing loops run in order (loops over the threads of a block do, loops over blocks do not),
   each iterator grows with each reducing loop, and is at the start of its domain if these are at
   theirs.
2. The values of other iterators do not depend on reducing loops.
3. Neither do bounds of loops around the block, unless the loop certainly runs in the first
   iteration.
4. Conditions of the block (``if``, ``T.where``, ``while``, ``continue``) do not depend on reducing
   loops, or hold in their first iteration, or are comparisons that can only become false as they
   advance (``k0 * 4 + k1 < n``).

A loop whose variable is used through ``//`` and ``%`` by constants (a fused loop) is treated as the
nest that it stands for. Arithmetic on iterators is assumed not to wrap if extents are unknown, as
for indices in general.

Authors who vouch for an order that is not proved annotate the block with ``VOUCHED``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from loomir.arith.linear_form import split_sum
from loomir.check.tir.affine import Affine, Atom, Sum, show
from loomir.check.tir.conditions import Guard, conjuncts, read_less_equal
from loomir.ir.visit import children, pre_order
from loomir.support.diagnostics import Diagnostic
from loomir.tir.analysis.cross_thread import is_thread_of_block
from loomir.tir.buffer import IterVarType
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP
from loomir.tir.expr import (
    Call,
    Cast,
    Eq,
    FloorDiv,
    FloorMod,
    IntImm,
    PrimExpr,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)

__all__ = ["VOUCHED", "check_init_order"]

VOUCHED: Final = "loomir.init_order_vouched"
"""The block annotation that switches the check off."""


class _EnclosingScope(NamedTuple):
    """The surroundings of a statement, as a list linked from the inside out."""

    outer: _EnclosingScope | None
    what: For | While | LetStmt | AttrStmt | BlockRealize | Guard


def check_init_order(func: PrimFunc) -> list[Diagnostic]:
    """Refuse the blocks of a function whose init is not proven to run first (TIR0413)."""
    found: list[Diagnostic] = []
    jumps: dict[int, set[str]] | None = None
    stack: list[tuple[Stmt, _EnclosingScope | None]] = [(func.body, None)]
    while stack:
        statement, around = stack.pop()
        if isinstance(statement, BlockRealize) and _needs_proof(statement.block):
            if jumps is None:
                jumps = _jumps(func.body)
            reason = _Proof(statement, around, jumps).refusal()
            if reason is not None:
                found.append(_diagnostic(statement, reason))
        stack.extend(reversed(list(_inside(statement, around))))
    return found


def _needs_proof(block: Block) -> bool:
    return block.init is not None and block.is_reduction and not block.annotations.get(VOUCHED)


def _inside(
    statement: Stmt, around: _EnclosingScope | None
) -> Iterator[tuple[Stmt, _EnclosingScope | None]]:
    if isinstance(statement, IfThenElse):
        yield statement.then_case, _EnclosingScope(around, Guard(statement.condition, False))
        if statement.else_case is not None:
            yield statement.else_case, _EnclosingScope(around, Guard(statement.condition, True))
    elif isinstance(statement, BlockRealize):
        inner = _EnclosingScope(around, statement)
        if statement.block.init is not None:
            yield statement.block.init, _guard_init(statement.block, inner)
        yield statement.block.body, inner
    elif isinstance(statement, (For, While, LetStmt, AttrStmt)):
        yield statement.body, _EnclosingScope(around, statement)
    else:
        for part in children(statement):
            if isinstance(part, Stmt):
                yield part, around


def _guard_init(block: Block, around: _EnclosingScope) -> _EnclosingScope:
    for it in block.iter_vars:
        reduces = it.iter_type is IterVarType.COMM_REDUCE
        if reduces and it.dom is not None and it.dom.min.dtype is it.var.dtype:
            around = _EnclosingScope(around, Guard(Eq(it.var, it.dom.min), False))
    return around


def _jumps(body: Stmt) -> dict[int, set[str]]:
    """Map each loop to the jumps, ``break`` or ``continue``, that lead out of its iterations."""
    found: dict[int, set[str]] = {}
    stack: list[tuple[Stmt, int]] = [(body, 0)]
    while stack:
        statement, loop = stack.pop()
        if isinstance(statement, Evaluate):
            for part in pre_order(statement.value):
                if isinstance(part, Call) and part.op in (BREAK_LOOP, CONTINUE_LOOP):
                    word = "break" if part.op is BREAK_LOOP else "continue"
                    found.setdefault(loop, set()).add(word)
        if isinstance(statement, (For, While)):
            loop = id(statement)
        stack.extend((part, loop) for part in children(statement) if isinstance(part, Stmt))
    return found


def _diagnostic(realize: BlockRealize, reason: str) -> Diagnostic:
    block = realize.block
    return Diagnostic(
        "TIR0413",
        f"the init of block {block.name_hint!r} may not run before the block's other instances",
        block.span or realize.span,
        reason,
        notes=(
            "init runs where all reducing iterators are at the start of their domains",
            "for each point of the other iterators, that instance must come first",
        ),
        help="let the reducing loops start at the domain's start and advance, or initialise in a "
        f'block before; T.sblock_attr({{"{VOUCHED}": True}}) vouches for the order',
    )


def _runs_in_order(loop: For) -> bool:
    if loop.kind is ForKind.THREAD_BINDING:
        return is_thread_of_block(loop)
    return loop.kind is not ForKind.PARALLEL


class _Loop(NamedTuple):
    """A loop, or one of the loops that a fused loop was made from."""

    atom: Atom
    start: Sum
    bounds: tuple[Sum, ...]
    extent: PrimExpr
    ordered: bool


class _Proof:
    """The attempt at a proof for one block."""

    def __init__(
        self, realize: BlockRealize, around: _EnclosingScope | None, jumps: dict[int, set[str]]
    ) -> None:
        self.realize = realize
        self.jumps = jumps
        self.affine = Affine()
        self.loops: list[_Loop] = []
        # The loops of the program with the atoms that stand for them.
        self.real: list[tuple[For | AttrStmt, frozenset[Atom]]] = []
        # Conditions with the loops around them.
        self.guards: list[tuple[Guard, frozenset[Atom]]] = []
        self.whiles: list[tuple[While, frozenset[Atom]]] = []
        chain: list[_EnclosingScope] = []
        while around is not None:
            chain.append(around)
            around = around.outer
        chain.reverse()
        self._cuts = _cuts(chain, realize)
        for link in chain:
            self._enter(link.what)
        self.guards.append((Guard(realize.predicate, False), self.affine.around))

    # -- what is around the block ----------------------------------------------------------------
    def _enter(self, what: For | While | LetStmt | AttrStmt | BlockRealize | Guard) -> None:
        affine = self.affine
        if isinstance(what, For):
            self._enter_loop(what, what.loop_var, what.min, what.extent)
        elif isinstance(what, AttrStmt):
            subject = getattr(what.node, "var", what.node)
            if what.is_binding and isinstance(subject, Var):
                self._enter_loop(what, subject, IntImm(0, subject.dtype), what.value)
        elif isinstance(what, While):
            self.whiles.append((what, affine.around))
        elif isinstance(what, LetStmt):
            affine.values[id(what.var)] = affine.read(what.value)
        elif isinstance(what, BlockRealize):
            self.guards.append((Guard(what.predicate, False), affine.around))
            for it, value in zip(what.block.iter_vars, what.values, strict=True):
                affine.values[id(it.var)] = affine.read(value)
        else:
            self.guards.append((what, affine.around))

    def _enter_loop(
        self, loop: For | AttrStmt, var: Var, start: PrimExpr, extent: PrimExpr
    ) -> None:
        affine = self.affine
        first, length = affine.read(start), affine.read(extent)
        if length.is_constant and length.constant == 1:
            affine.values[id(var)] = first
            self.real.append((loop, frozenset()))
            return
        weights = [1]
        if first.is_constant and first.constant == 0:
            weights += self._cuts.get(id(var), [])
        ordered = not isinstance(loop, AttrStmt) and _runs_in_order(loop)
        total = Sum({}, 0)
        for at in range(len(weights) - 1, -1, -1):
            outermost = at == len(weights) - 1
            low, high = first.range()[0], None
            if not outermost:
                high = weights[at + 1] // weights[at] - 1
            elif low is not None and length.range()[1] is not None and first.is_constant:
                high = low + max(0, -(-(length.range()[1] or 0) // weights[at]) - 1)
            atom = Atom(var.name_hint, low, high)
            self.loops.append(
                _Loop(atom, first, (first, length) if outermost else (), extent, ordered)
            )
            total = total.plus(Sum({atom: weights[at]}, 0))
        affine.values[id(var)] = total
        self.real.append((loop, total.loops))
        affine.around |= total.loops

    # -- the proof -------------------------------------------------------------------------------
    def refusal(self) -> str | None:
        """Return the reason why the proof fails, or None if it holds."""
        block = self.realize.block
        values = [self.affine.read(value) for value in self.realize.values]
        reducing: frozenset[Atom] = frozenset()
        for it, value in zip(block.iter_vars, values, strict=True):
            if it.iter_type is IterVarType.COMM_REDUCE:
                reducing |= value.loops
        first = {loop.atom: loop.start for loop in self.loops if loop.atom in reducing}
        return (
            self._refuse_values(values, first)
            or self._refuse_loops(first)
            or self._refuse_guards(first)
            or self._refuse_jumps(first)
        )

    def _refuse_values(self, values: list[Sum], first: dict[Atom, Sum]) -> str | None:
        for it, value in zip(self.realize.block.iter_vars, values, strict=True):
            name = it.var.name_hint
            if it.iter_type is not IterVarType.COMM_REDUCE:
                shared = value.loops & first.keys()
                if shared:
                    return f"{name!r} and a reducing iterator both change with loop {_name(shared)}"
                continue
            if any(atom not in first and atom.loops for atom in value.terms):
                return f"how {name!r} changes with loop {_name(value.loops)} is not understood"
            if any(value.terms[atom] < 0 for atom in value.terms if atom in first):
                return f"{name!r} falls while loop {_name(value.loops)} advances"
            begin = None if it.dom is None else self.affine.read(it.dom.min)
            if begin is None or not _is_same(value.with_atoms(first), begin):
                start = "known" if begin is None else show(begin)
                at = show(value.with_atoms(first))
                return f"{name!r} is {at} in the first instance, and its domain starts at {start}"
        return None

    def _refuse_loops(self, first: dict[Atom, Sum]) -> str | None:
        for loop in self.loops:
            if loop.atom in first and not loop.ordered:
                return f"loop {loop.atom.name!r} reduces, and its iterations run in any order"
            for bound in loop.bounds:
                shared = bound.loops & first.keys()
                if shared and (bound is loop.bounds[0] or not self._runs(loop, first)):
                    return (
                        f"the bounds of loop {loop.atom.name!r} change with reducing loop "
                        f"{_name(shared)}"
                    )
        for _, around in self.whiles:
            if around & first.keys():
                return f"a while loop stands inside of reducing loop {_name(around & first.keys())}"
        return None

    def _runs(self, loop: _Loop, first: dict[Atom, Sum]) -> bool:
        """Tell whether a reducing loop runs at all in the first iteration of enclosing loops."""
        if loop.atom not in first:
            return False
        low, _ = self._read_at_first(loop.extent, first).range()
        return low is not None and low >= 1

    def _read_at_first(self, expr: PrimExpr, first: dict[Atom, Sum]) -> Sum:
        """Read an expression with all reducing loops at their first iteration."""
        return self.affine.variant(first).read(expr)

    def _refuse_guards(self, first: dict[Atom, Sum]) -> str | None:
        for guard, around in self.guards:
            for condition, negated in conjuncts(guard):
                self.affine.around, restore = around, self.affine.around
                holds = self._keeps(condition, negated, first)
                self.affine.around = restore
                if not holds:
                    return (
                        "a condition around it, or in T.where, may fail in the first iteration of "
                        f"reducing loop {_name(first)} and hold later"
                    )
        return None

    def _keeps(self, condition: PrimExpr, negated: bool, first: dict[Atom, Sum]) -> bool:
        """Tell whether a condition that holds still holds with reducing loops at their start."""
        sides = read_less_equal(condition, negated)
        if sides is None:
            if not self.affine.read(condition).loops & first.keys():
                return True
            return isinstance(condition, Eq) and not negated and self._is_equal(condition, first)
        small, large, slack = sides
        gap = self.affine.read(large).plus(self.affine.read(small), -1)
        if not gap.loops & first.keys():
            return True
        low, _ = (
            self._read_at_first(large, first)
            .plus(self._read_at_first(small, first), -1)
            .plus(Sum({}, slack), -1)
            .range()
        )
        if low is not None and low >= 0:
            return True
        if any(atom not in first and atom.loops & first.keys() for atom in gap.terms):
            return False
        return all(times <= 0 for atom, times in gap.terms.items() if atom in first)

    def _is_equal(self, condition: Eq, first: dict[Atom, Sum]) -> bool:
        a, b = self._read_at_first(condition.a, first), self._read_at_first(condition.b, first)
        return _is_same(a, b)

    def _refuse_jumps(self, first: dict[Atom, Sum]) -> str | None:
        inside = False
        for loop, atoms in self.real:
            words = self.jumps.get(id(loop), set())
            reduces = not atoms.isdisjoint(first)
            if ("continue" in words and (inside or reduces)) or (
                "break" in words and inside and not reduces
            ):
                return f"a jump may skip it in the first iteration of reducing loop {_name(first)}"
            inside = inside or reduces
        return None


def _is_same(a: Sum, b: Sum) -> bool:
    difference = a.plus(b, -1)
    return difference.is_constant and difference.constant == 0


def _name(atoms: Iterable[Atom]) -> str:
    names = sorted({repr(atom.name) for atom in atoms})
    return names[0] if names else "'?'"


# -- fused loops -----------------------------------------------------------------------------------


def _cuts(chain: list[_EnclosingScope], realize: BlockRealize) -> dict[int, list[int]]:
    """Find by which weights ``//`` and ``%`` divide loop variables, if the weights are nested.

    Lists for each variable the weights above 1, ascending: a variable ``f`` used as ``f // 8``
    and ``f % 8`` stands for a loop of weight 8 around one of weight 1.
    """
    found: dict[int, set[int]] = {}
    exprs: list[PrimExpr] = [*realize.values, realize.predicate]
    for link in chain:
        if isinstance(link.what, BlockRealize):
            exprs += (*link.what.values, link.what.predicate)
        elif isinstance(link.what, LetStmt):
            exprs.append(link.what.value)
        elif isinstance(link.what, Guard):
            exprs.append(link.what.condition)
    for expr in exprs:
        for part in pre_order(expr):
            if isinstance(part, (FloorDiv, FloorMod)):
                _record_cut(part, found)
    nested: dict[int, list[int]] = {}
    for key, weights in found.items():
        ordered = sorted(weights)
        if all(b % a == 0 for a, b in itertools.pairwise(ordered)):
            nested[key] = ordered
    return nested


def _record_cut(part: FloorDiv | FloorMod, found: dict[int, set[int]]) -> None:
    scale = 1
    at: PrimExpr = part
    outermost = True
    while isinstance(at, (FloorDiv, FloorMod, Cast)):
        if isinstance(at, Cast):
            at = at.value
            continue
        if not isinstance(at.b, IntImm) or at.b.value <= 0:
            return
        if outermost or isinstance(at, FloorDiv):
            scale *= at.b.value
        outermost = False
        at = at.a
    for var, factor in split_sum(at, through_casts=True):
        if isinstance(var, Var) and factor > 0 and scale % factor == 0 and scale // factor > 1:
            found.setdefault(id(var), set()).add(scale // factor)
