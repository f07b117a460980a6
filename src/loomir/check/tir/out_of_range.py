"""Find accesses that are certainly out of bounds, each proved by a witness point of the loops.

The witness has a value for each loop around the access: an end of its range, or a value at which a
condition around the access changes. The access is refused if, at that point, every loop runs, every
condition holds, and the index is out of bounds. ``check_bounds`` covers everything else.

Unknown sizes stand for all of their values: if a loop over such a size runs at all, the size counts
as large enough for the witness.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from loomir.check.tir.affine import Affine, Atom, Sum, show
from loomir.check.tir.conditions import Guard, conjuncts, read_less_equal
from loomir.ir.node import Node
from loomir.ir.visit import children
from loomir.support.diagnostics import Diagnostic
from loomir.support.span import Span
from loomir.tir.analysis.constant_index import constant_span
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion, IterVarType
from loomir.tir.builtins.table import (
    ADDRESS_OF,
    ASSUME,
    BREAK_LOOP,
    CONTINUE_LOOP,
    IF_THEN_ELSE,
    RET,
)
from loomir.tir.expr import (
    NE,
    And,
    Broadcast,
    Call,
    Eq,
    FloatImm,
    IntImm,
    Let,
    Or,
    PrimExpr,
    Ramp,
    Select,
    StringImm,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

__all__ = ["check_ranges"]

_MOST_POINTS: Final = 64
"""Corners of the loops around an access that are tried; a bound on time, not tuned."""
_ZERO: Final = Sum({}, 0)
_ONE: Final = Sum({}, 1)


class _Condition(NamedTuple):
    """An integer comparison, ``small + slack <= large``; ``gap`` is what is left between them."""

    small: PrimExpr
    large: PrimExpr
    slack: int
    gap: Sum


class _Loop(NamedTuple):
    """A loop whose variable is not known to have one value only."""

    atom: Atom
    first: Sum
    extent: Sum

    @property
    def last(self) -> Sum:
        """The greatest value of the variable, where the loop runs."""
        return self.first.plus(self.extent).plus(_ONE, -1)


class _EnclosingScope(NamedTuple):
    """The surroundings of a statement, as a list linked from the inside out."""

    outer: _EnclosingScope | None
    what: _Loop | Guard


class _Element(NamedTuple):
    """An element at an index; for a vector, the first or the last lane."""

    base: PrimExpr
    offset: int


def check_ranges(func: PrimFunc) -> list[Diagnostic]:
    """List the accesses that are proven to be out of range (TIR0421), one mistake for each.

    The function's names must have been checked: each is bound once.
    """
    jumping = _loops_with_jumps(func.body)
    return [] if jumping is None else _Walk(func, jumping).run()


def _loops_with_jumps(body: Stmt) -> frozenset[int] | None:
    """List by ``id`` the loops whose iterations a jump may end; None if a return may end all."""
    found: set[int] = set()
    stack: list[tuple[Stmt, int, bool]] = [(body, 0, False)]
    while stack:
        statement, loop, inside = stack.pop()
        if statement.__class__ is BufferStore:
            continue
        if isinstance(statement, Evaluate) and isinstance(statement.value, Call):
            if statement.value.op is RET and inside:
                return None
            if statement.value.op in (BREAK_LOOP, CONTINUE_LOOP):
                found.add(loop)
        inside = inside or isinstance(statement, (For, While, IfThenElse))
        loop = id(statement) if isinstance(statement, (For, While)) else loop
        stack.extend((part, loop, inside) for part in children(statement) if isinstance(part, Stmt))
    return frozenset(found)


class _Walk:
    """One walk over a function, in program order."""

    def __init__(self, func: PrimFunc, jumping: frozenset[int]) -> None:
        self.jumping = jumping
        self.affine = Affine()
        self.found: list[Diagnostic] = []
        # By the identity of the surroundings, which each proof keeps.
        self.proofs: dict[int, _Proof] = {}
        self.stack: list[tuple[Node, _EnclosingScope | None]] = [(func.body, None)]
        for buffer in func.buffer_map.values():
            for extent in buffer.shape:
                if isinstance(extent, Var):  # sizes of arrays are not below 0
                    (atom,) = self.affine.read(extent).terms
                    atom.low = 0

    def run(self) -> list[Diagnostic]:
        """Walk the function, and return its mistakes."""
        stack = self.stack
        while stack:
            node, around = stack.pop()
            enter = _ENTER.get(node.__class__)
            if enter is not None:
                enter(self, node, around)
            elif isinstance(node, (Stmt, PrimExpr)):
                self.push(around, *children(node))
        return self.found

    def push(self, around: _EnclosingScope | None, *parts: Any) -> None:
        """Add parts that are visited next, in their order."""
        for part in reversed(parts):
            if part.__class__ not in _LEAVES and isinstance(part, Node):
                self.stack.append((part, around))

    # -- statements ------------------------------------------------------------------------------
    def loop(self, node: For, around: _EnclosingScope | None) -> None:
        """Enter a loop, unless a jump may end its iterations."""
        self.push(around, node.min, node.extent)
        if id(node) not in self.jumping:
            self.enter_loop(node.loop_var, node.min, node.extent, node.body, around)

    def enter_loop(
        self,
        var: Var,
        start: PrimExpr,
        extent: PrimExpr,
        body: Stmt,
        around: _EnclosingScope | None,
    ) -> None:
        """Enter the body of a loop that may run."""
        affine = self.affine
        first, length = affine.read(start), affine.read(extent)
        _, most = length.range()
        if most is not None and most <= 0:
            return
        if length.is_constant and length.constant == 1:
            affine.values[id(var)] = first
        else:
            low, (_, most) = first.range()[0], first.plus(length).range()
            atom = Atom(var.name_hint, low, None if most is None else most - 1)
            affine.values[id(var)] = Sum({atom: 1}, 0)
            around = _EnclosingScope(around, _Loop(atom, first, length))
        self.push(around, body)

    def attribute(self, node: AttrStmt, around: _EnclosingScope | None) -> None:
        """Enter the body of an attribute; threads run like loops."""
        subject = getattr(node.node, "var", node.node)
        if node.is_binding and isinstance(subject, Var):
            self.enter_loop(subject, IntImm(0, subject.dtype), node.value, node.body, around)
        else:
            self.push(around, node.value, node.body)

    def repeat(self, node: While, around: _EnclosingScope | None) -> None:
        """Check only the condition, because it is unknown whether the body runs."""
        self.push(around, node.condition)

    def branch(self, node: IfThenElse, around: _EnclosingScope | None) -> None:
        """Enter both cases."""
        self.push(around, node.condition)
        if node.else_case is not None:
            self.push(_EnclosingScope(around, Guard(node.condition, True)), node.else_case)
        self.push(_EnclosingScope(around, Guard(node.condition, False)), node.then_case)

    def assertion(self, node: AssertStmt, around: _EnclosingScope | None) -> None:
        """Enter the body, which runs if the condition holds."""
        self.push(_EnclosingScope(around, Guard(node.condition, False)), node.body)
        self.push(around, node.condition)

    def name(self, node: LetStmt | Let, around: _EnclosingScope | None) -> None:
        """Bind a name to its value."""
        self.affine.values[id(node.var)] = self.affine.read(node.value)
        self.push(around, node.value, node.body)

    def block(self, node: BlockRealize, around: _EnclosingScope | None) -> None:
        """Enter a block: its iterators have values, and its predicate holds."""
        block = node.block
        for it, value in zip(block.iter_vars, node.values, strict=True):
            self.affine.values[id(it.var)] = self.affine.read(value)
        inner = _EnclosingScope(around, Guard(node.predicate, False))
        self.push(inner, block.body)
        if block.init is not None:
            starts = inner
            for it in block.iter_vars:
                reduces = it.iter_type is IterVarType.COMM_REDUCE
                if reduces and it.dom is not None and it.dom.min.dtype is it.var.dtype:
                    starts = _EnclosingScope(starts, Guard(Eq(it.var, it.dom.min), False))
            self.push(starts, block.init)
        self.push(around, node.predicate, *node.values)

    def sequence(self, node: SeqStmt, around: _EnclosingScope | None) -> None:
        """Enter statements in their order."""
        self.push(around, *node.seq)

    # -- expressions -----------------------------------------------------------------------------
    def choice(self, node: Select, around: _EnclosingScope | None) -> None:
        """Enter both values; people guard reads by either form of a choice."""
        self.push_choice(around, node.condition, node.true_value, node.false_value)

    def call(self, node: Call, around: _EnclosingScope | None) -> None:
        """Enter arguments; an address may be that of the element after the last.

        Assumptions of a program are not evaluated.
        """
        if node.op is IF_THEN_ELSE:
            self.push_choice(around, *node.args)
        elif node.op is ADDRESS_OF:
            for part in node.args:
                self.push(around, *(part.indices if isinstance(part, BufferLoad) else (part,)))
        elif node.op is not ASSUME:
            self.push(around, *node.args)

    def push_choice(
        self, around: _EnclosingScope | None, condition: PrimExpr, yes: PrimExpr, no: PrimExpr
    ) -> None:
        """Enter a condition, and both values of the choice."""
        self.push(_EnclosingScope(around, Guard(condition, True)), no)
        self.push(_EnclosingScope(around, Guard(condition, False)), yes)
        self.push(around, condition)

    def junction(self, node: And | Or, around: _EnclosingScope | None) -> None:
        """Enter two conditions, the second one under the case in which it is evaluated."""
        self.push(_EnclosingScope(around, Guard(node.a, isinstance(node, Or))), node.b)
        self.push(around, node.a)

    # -- accesses --------------------------------------------------------------------------------
    def store(self, node: BufferStore, around: _EnclosingScope | None) -> None:
        """Check the indices of a store."""
        self.access(node.buffer, node.indices, node.span, around)
        self.push(around, *node.indices, node.value)

    def load(self, node: BufferLoad, around: _EnclosingScope | None) -> None:
        """Check the indices of a load."""
        self.access(node.buffer, node.indices, node.span, around)
        self.push(around, *node.indices)

    def access(
        self,
        buffer: Buffer,
        indices: tuple[PrimExpr, ...],
        span: Span | None,
        around: _EnclosingScope | None,
    ) -> None:
        """Report the first index that is outside of its axis at some point."""
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=False)):
            for element in _elements(index):
                fault = self.leaves(element, extent, around)
                if fault is not None:
                    # The span of a variable is its binding, not its use.
                    used = span if isinstance(index, Var) else getattr(index, "span", None)
                    self.found.append(fault.diagnostic(buffer, axis, used or span))
                    return

    def leaves(
        self, element: _Element, extent: PrimExpr, around: _EnclosingScope | None
    ) -> _Fault | None:
        """Find a point at which an element is outside of its axis."""
        value = self.affine.read(element.base)
        if element.offset:
            value = Sum(value.terms, value.constant + element.offset)
        if value.is_constant and around is None:
            return None  # a constant index is a mistake of its own
        length = self.affine.read(extent)
        low, high = value.range()
        if low is not None and low >= 0:
            if length.terms:
                _, high = value.plus(length, -1).range()
            elif high is not None:
                high -= length.constant
            if high is not None and high < 0:
                return None
        proof = self.proofs.get(id(around))
        if proof is None:
            proof = self.proofs[id(around)] = _Proof(self.affine, around)
        return proof.fault(element, value, length)


def _elements(index: PrimExpr) -> Iterator[_Element]:
    if constant_span(index) is not None:
        return
    if isinstance(index, Broadcast):
        index = index.value
    if not isinstance(index, Ramp):
        if index.dtype.lanes == 1 and index.dtype.is_integer:
            yield _Element(index, 0)
    elif index.base.dtype.lanes == 1 and isinstance(index.stride, IntImm):
        yield _Element(index.base, 0)
        yield _Element(index.base, (index.lanes - 1) * index.stride.value)


def _nothing(walk: _Walk, node: Node, around: _EnclosingScope | None) -> None:
    """Leave out regions: they access nothing."""


_LEAVES: Final = frozenset({IntImm, FloatImm, StringImm, Var})
"""Expressions that have no parts and access nothing."""
_ENTER: Final[Mapping[type, Any]] = {
    For: _Walk.loop,
    AttrStmt: _Walk.attribute,
    While: _Walk.repeat,
    IfThenElse: _Walk.branch,
    AssertStmt: _Walk.assertion,
    LetStmt: _Walk.name,
    Let: _Walk.name,
    BlockRealize: _Walk.block,
    SeqStmt: _Walk.sequence,
    BufferStore: _Walk.store,
    BufferLoad: _Walk.load,
    BufferRegion: _nothing,
    Block: _nothing,
    Select: _Walk.choice,
    Call: _Walk.call,
    And: _Walk.junction,
    Or: _Walk.junction,
}


@dataclass
class _Fault:
    """A point at which an element is outside of its axis."""

    value: Sum
    length: Sum
    span: tuple[Sum, Sum]
    point: list[tuple[str, Sum]]

    def diagnostic(self, buffer: Buffer, axis: int, where: Span | None) -> Diagnostic:
        """Describe the mistake, with the ranges of the index and of the axis."""
        end = self.length.plus(_ONE, -1)
        low, high = self.span
        at = " and ".join(f"{name} is {show(value)}" for name, value in self.point)
        range_ = f"is {show(low)}" if low == high else f"goes from {show(low)} to {show(high)}"
        empty = self.length.is_constant and self.length.constant <= 0
        return Diagnostic(
            "TIR0421",
            f"index {show(self.value)} is outside of axis {axis} of {buffer.called}",
            where,
            f"the index {range_}, the axis "
            + ("has no elements" if empty else f"from 0 to {show(end)}"),
            notes=(f"this is reached where {at}",) if at else (),
            help="let the loops end where the axis does, or guard the access with `if`",
        )


@dataclass
class _Proof:
    """The search for a point of the loops around an access."""

    affine: Affine
    around: _EnclosingScope | None
    loops: list[_Loop] = field(default_factory=list[_Loop])
    guards: list[Guard] = field(default_factory=list[Guard])
    least: dict[Atom, int] = field(default_factory=dict[Atom, int])
    reached: dict[frozenset[Atom], tuple[frozenset[Atom], list[dict[Atom, Sum]]]] = field(
        default_factory=dict[Any, Any]
    )

    def __post_init__(self) -> None:
        link = self.around
        while link is not None:
            if isinstance(link.what, _Loop):
                self.loops.append(link.what)
            else:
                self.guards.append(link.what)
            link = link.outer
        self.loops.reverse()
        for loop in self.loops:
            self._assume_running(loop.extent)

    def _assume_running(self, extent: Sum) -> None:
        """Note how large a size is where a loop over it runs."""
        if len(extent.terms) == 1 and not extent.loops:
            ((atom, times),) = extent.terms.items()
            if times > 0:
                least = -(-(1 - extent.constant) // times)
                self.least[atom] = max(least, self.least.get(atom, least))

    def fault(self, element: _Element, value: Sum, length: Sum) -> _Fault | None:
        """Return the first point that proves the access wrong, None if there is none."""
        if self._is_empty(length):
            return None
        used, points = self._points(value.loops | length.loops)
        for point in points:
            at = self._index(element, value, point)
            size = length.with_atoms(point)
            if self._is_least(at.plus(size, -1), 0) or self._is_least(at.times(-1), 1):
                used_names = [
                    (str(loop.atom.name), point[loop.atom])
                    for loop in self.loops
                    if loop.atom in used
                ]
                return _Fault(at, size, self._span(at, element, value, points), used_names)
        return None

    def _is_empty(self, length: Sum) -> bool:
        """Tell whether an axis has no elements and a loop may never run, as it must then."""
        known = length.is_constant and length.constant <= 0
        return known and any(not loop.extent.is_constant for loop in self.loops)

    def _points(self, used: frozenset[Atom]) -> tuple[frozenset[Atom], list[dict[Atom, Sum]]]:
        """List the points that are reached, and the loops in which they differ.

        Those are ``used``, and what conditions and other loops depend on. Accesses in the same
        surroundings share them.
        """
        found = self.reached.get(used)
        if found is None:
            found = self.reached[used] = self._find_points(used)
        return found

    def _find_points(self, used: frozenset[Atom]) -> tuple[frozenset[Atom], list[dict[Atom, Sum]]]:
        conditions = self._conditions()
        if conditions is None:
            return used, []
        for condition in conditions:
            used |= condition.gap.loops
        for loop in reversed(self.loops):
            if loop.atom in used:
                used |= loop.first.loops | loop.extent.loops
        choices = [self._values(loop, loop.atom in used, conditions) for loop in self.loops]
        points: list[dict[Atom, Sum]] = []
        for chosen in itertools.islice(itertools.product(*choices), _MOST_POINTS):
            point = self._point(chosen)
            if point is not None and self._is_reached(conditions, point):
                points.append(point)
        return used, points

    def _conditions(self) -> list[_Condition] | None:
        """Read the conditions around the access; None if one cannot be read."""
        found: list[_Condition] = []
        read = self.affine.read

        def add(small: PrimExpr, large: PrimExpr, slack: int) -> None:
            gap = read(large).plus(read(small), -1).plus(Sum({}, -slack))
            found.append(_Condition(small, large, slack, gap))

        for guard in self.guards:
            for condition, negated in conjuncts(guard):
                if isinstance(condition, IntImm):
                    if bool(condition.value) is negated:
                        return None
                    continue
                sides = read_less_equal(condition, negated)
                equal = isinstance(condition, NE) if negated else isinstance(condition, Eq)
                if sides is not None:
                    add(*sides)
                elif equal and isinstance(condition, (Eq, NE)) and condition.a.dtype.is_integer:
                    add(condition.a, condition.b, 0)
                    add(condition.b, condition.a, 0)
                else:
                    return None
        return found

    def _values(self, loop: _Loop, is_used: bool, conditions: list[_Condition]) -> list[Sum]:
        """List the values of a loop to try in a proof."""
        if not is_used:
            return [loop.first]
        values = [loop.last, loop.first]
        for gap in (condition.gap for condition in conditions):
            times = gap.terms.get(loop.atom)
            if times is None:
                continue
            rest = Sum({a: t for a, t in gap.terms.items() if a is not loop.atom}, gap.constant)
            if abs(times) == 1:
                turn = rest.times(-times)
            elif rest.is_constant:
                # The last value for which the condition holds, from either side.
                c = rest.constant
                turn = Sum({}, c // -times if times < 0 else -(c // times))
            else:
                continue
            if turn not in values:
                values.append(turn)
        return values

    def _point(self, chosen: tuple[Sum, ...]) -> dict[Atom, Sum] | None:
        """Return the values of loops, from the outermost; None if a loop does not run there."""
        point: dict[Atom, Sum] = {}
        for loop, choice in zip(self.loops, chosen, strict=True):
            value = choice.with_atoms(point)
            extent = loop.extent.with_atoms(point)
            if loop.extent.loops and not self._is_least(extent, 1):
                return None
            if not loop.extent.loops and not extent.terms and extent.constant < 1:
                return None
            if choice is not loop.first and choice != loop.last:
                low = value.plus(loop.first.with_atoms(point), -1)
                high = loop.last.with_atoms(point).plus(value, -1)
                if not (self._is_least(low, 0) and self._is_least(high, 0)):
                    return None
            if any(atom.loops for atom in value.terms):
                return None
            point[loop.atom] = value
        return point

    def _is_reached(self, conditions: list[_Condition], point: dict[Atom, Sum]) -> bool:
        for small, large, slack, gap in conditions:
            left = gap.with_atoms(point)
            if left.loops:
                read = self.affine.variant(point).read
                left = read(large).plus(read(small), -1).plus(Sum({}, -slack))
            if not self._is_least(left, 0):
                return False
        return True

    def _index(self, element: _Element, value: Sum, point: dict[Atom, Sum]) -> Sum:
        """Return the index at a point; it is read again if its form depends on the loops."""
        at = value.with_atoms(point)
        if at.loops:
            return self.affine.variant(point).read(element.base).plus(Sum({}, element.offset))
        return at

    def _is_least(self, value: Sum, least: int) -> bool:
        """Tell whether a value is proven to be ``least`` or more."""
        low = value.constant
        for atom, times in value.terms.items():
            known = self.least.get(atom)
            bounds = [b for b in (known, atom.low) if b is not None]
            end = (max(bounds) if bounds else None) if times > 0 else atom.high
            if end is None:
                return False
            low += times * end
        return low >= least

    def _span(
        self, at: Sum, element: _Element, value: Sum, points: list[dict[Atom, Sum]]
    ) -> tuple[Sum, Sum]:
        """Return the least and the greatest index at the ends of the loops."""
        low = high = at
        for point in points:
            here = self._index(element, value, point)
            if self._is_least(low.plus(here, -1), 1):
                low = here
            if self._is_least(here.plus(high, -1), 1):
                high = here
        return low, high
