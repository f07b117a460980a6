"""Find accesses that are certainly out of bounds, each proved by a witness point of the loops.

The witness has a value for each loop around the access: an end of its range, or a value at which a
condition around the access changes. The access is refused if, at that point, every loop runs, every
condition holds, and the index is out of bounds. ``check_bounds`` covers everything else.

Unknown sizes stand for all of their values: if a loop over such a size runs at all, the size counts
as large enough for the witness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from loomir.check.tir.affine import Affine, Atom, Sum
from loomir.check.tir.conditions import Guard
from loomir.check.tir.out_of_range_proof import Element, EnclosingScope, Fault, Loop, Proof
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

__all__ = ["check_ranges", "find_loops_out_of_range"]

_ZERO: Final = Sum({}, 0)
_ONE: Final = Sum({}, 1)


def check_ranges(func: PrimFunc) -> list[Diagnostic]:
    """List the accesses that are proven to be out of range (TIR0421), one mistake for each.

    The function's names must have been checked: each is bound once.
    """
    walk = _walk(func)
    return [] if walk is None else walk.found


def find_loops_out_of_range(func: PrimFunc) -> frozenset[Var]:
    """List the variables of the innermost loops around accesses proven to be out of range.

    The bodies of these loops never run, if the function accesses nothing out of range.
    """
    walk = _walk(func)
    return frozenset() if walk is None else frozenset(walk.unreachable)


def _walk(func: PrimFunc) -> _Walk | None:
    """Walk a function; None if a return may end all of its loops."""
    jumping = _loops_with_jumps(func.body)
    if jumping is None:
        return None
    walk = _Walk(func, jumping)
    walk.run()
    return walk


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
        self.unreachable: set[Var] = set()
        # By the identity of the surroundings, which each proof keeps.
        self.proofs: dict[int, Proof] = {}
        self.stack: list[tuple[Node, EnclosingScope | None]] = [(func.body, None)]
        for buffer in func.buffer_map.values():
            for extent in buffer.shape:
                if isinstance(extent, Var):  # sizes of arrays are not below 0
                    (atom,) = self.affine.read(extent).terms
                    atom.low = 0

    def run(self) -> None:
        """Walk the function, and note its mistakes."""
        stack = self.stack
        while stack:
            node, around = stack.pop()
            enter = _ENTER.get(node.__class__)
            if enter is not None:
                enter(self, node, around)
            elif isinstance(node, (Stmt, PrimExpr)):
                self.push(around, *children(node))

    def push(self, around: EnclosingScope | None, *parts: Any) -> None:
        """Add parts that are visited next, in their order."""
        for part in reversed(parts):
            if part.__class__ not in _LEAVES and isinstance(part, Node):
                self.stack.append((part, around))

    # -- statements ------------------------------------------------------------------------------
    def loop(self, node: For, around: EnclosingScope | None) -> None:
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
        around: EnclosingScope | None,
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
            around = EnclosingScope(around, Loop(atom, first, length, var))
        self.push(around, body)

    def attribute(self, node: AttrStmt, around: EnclosingScope | None) -> None:
        """Enter the body of an attribute; threads run like loops."""
        subject = getattr(node.node, "var", node.node)
        if node.is_binding and isinstance(subject, Var):
            self.enter_loop(subject, IntImm(0, subject.dtype), node.value, node.body, around)
        else:
            self.push(around, node.value, node.body)

    def repeat(self, node: While, around: EnclosingScope | None) -> None:
        """Check only the condition, because it is unknown whether the body runs."""
        self.push(around, node.condition)

    def branch(self, node: IfThenElse, around: EnclosingScope | None) -> None:
        """Enter both cases."""
        self.push(around, node.condition)
        if node.else_case is not None:
            self.push(EnclosingScope(around, Guard(node.condition, True)), node.else_case)
        self.push(EnclosingScope(around, Guard(node.condition, False)), node.then_case)

    def assertion(self, node: AssertStmt, around: EnclosingScope | None) -> None:
        """Enter the body, which runs if the condition holds."""
        self.push(EnclosingScope(around, Guard(node.condition, False)), node.body)
        self.push(around, node.condition)

    def name(self, node: LetStmt | Let, around: EnclosingScope | None) -> None:
        """Bind a name to its value."""
        self.affine.values[id(node.var)] = self.affine.read(node.value)
        self.push(around, node.value, node.body)

    def block(self, node: BlockRealize, around: EnclosingScope | None) -> None:
        """Enter a block: its iterators have values, and its predicate holds."""
        block = node.block
        for it, value in zip(block.iter_vars, node.values, strict=True):
            self.affine.values[id(it.var)] = self.affine.read(value)
        inner = EnclosingScope(around, Guard(node.predicate, False))
        self.push(inner, block.body)
        if block.init is not None:
            starts = inner
            for it in block.iter_vars:
                reduces = it.iter_type is IterVarType.COMM_REDUCE
                if reduces and it.dom is not None and it.dom.min.dtype is it.var.dtype:
                    starts = EnclosingScope(starts, Guard(Eq(it.var, it.dom.min), False))
            self.push(starts, block.init)
        self.push(around, node.predicate, *node.values)

    def sequence(self, node: SeqStmt, around: EnclosingScope | None) -> None:
        """Enter statements in their order."""
        self.push(around, *node.seq)

    # -- expressions -----------------------------------------------------------------------------
    def choice(self, node: Select, around: EnclosingScope | None) -> None:
        """Enter both values; people guard reads by either form of a choice."""
        self.push_choice(around, node.condition, node.true_value, node.false_value)

    def call(self, node: Call, around: EnclosingScope | None) -> None:
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
        self, around: EnclosingScope | None, condition: PrimExpr, yes: PrimExpr, no: PrimExpr
    ) -> None:
        """Enter a condition, and both values of the choice."""
        self.push(EnclosingScope(around, Guard(condition, True)), no)
        self.push(EnclosingScope(around, Guard(condition, False)), yes)
        self.push(around, condition)

    def junction(self, node: And | Or, around: EnclosingScope | None) -> None:
        """Enter two conditions, the second one under the case in which it is evaluated."""
        self.push(EnclosingScope(around, Guard(node.a, isinstance(node, Or))), node.b)
        self.push(around, node.a)

    # -- accesses --------------------------------------------------------------------------------
    def store(self, node: BufferStore, around: EnclosingScope | None) -> None:
        """Check the indices of a store."""
        self.access(node.buffer, node.indices, node.span, around)
        self.push(around, *node.indices, node.value)

    def load(self, node: BufferLoad, around: EnclosingScope | None) -> None:
        """Check the indices of a load."""
        self.access(node.buffer, node.indices, node.span, around)
        self.push(around, *node.indices)

    def access(
        self,
        buffer: Buffer,
        indices: tuple[PrimExpr, ...],
        span: Span | None,
        around: EnclosingScope | None,
    ) -> None:
        """Report the first index that is outside of its axis at some point."""
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=False)):
            for element in _elements(index):
                fault = self.leaves(element, extent, around)
                if fault is not None:
                    # The span of a variable is its binding, not its use.
                    used = span if isinstance(index, Var) else getattr(index, "span", None)
                    self.found.append(fault.diagnostic(buffer, axis, used or span))
                    self.note_unreachable(around)
                    return

    def note_unreachable(self, around: EnclosingScope | None) -> None:
        """Note the innermost loop around an access that is out of range."""
        while around is not None and not isinstance(around.what, Loop):
            around = around.outer
        if around is not None and isinstance(around.what, Loop):
            self.unreachable.add(around.what.variable)

    def leaves(
        self, element: Element, extent: PrimExpr, around: EnclosingScope | None
    ) -> Fault | None:
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
            proof = self.proofs[id(around)] = Proof(self.affine, around)
        return proof.fault(element, value, length)


def _elements(index: PrimExpr) -> Iterator[Element]:
    if constant_span(index) is not None:
        return
    if isinstance(index, Broadcast):
        index = index.value
    if not isinstance(index, Ramp):
        if index.dtype.lanes == 1 and index.dtype.is_integer:
            yield Element(index, 0)
    elif index.base.dtype.lanes == 1 and isinstance(index.stride, IntImm):
        yield Element(index.base, 0)
        yield Element(index.base, (index.lanes - 1) * index.stride.value)


def _nothing(walk: _Walk, node: Node, around: EnclosingScope | None) -> None:
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
