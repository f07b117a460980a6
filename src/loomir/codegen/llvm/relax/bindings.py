"""Emit sequences of bindings, branches, and references to bound values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loomir.codegen.llvm.assembler.types import I64, PTR
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.relax.calls import call, direct_kernel, run_kernel
from loomir.codegen.llvm.relax.checks import CheckedValue, match, require_kind
from loomir.codegen.llvm.relax.closures import make_closure
from loomir.codegen.llvm.relax.conditions import truth
from loomir.codegen.llvm.relax.frame import GraphFrame, Location, LocationKind, Slot
from loomir.codegen.llvm.relax.kernel_adapters import fresh_layout_of
from loomir.codegen.llvm.relax.leaves import LEAVES, facts, leaf
from loomir.codegen.llvm.relax.memory import layout_in_storage, place_tensor
from loomir.codegen.llvm.relax.site import Site
from loomir.codegen.llvm.support.ir.objects import place
from loomir.ir.op import Op
from loomir.ir.visit import Step
from loomir.relax import faults
from loomir.relax.expr import (
    Binding,
    Call,
    Function,
    If,
    MatchCast,
    SeqExpr,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.struct_info import TupleStructInfo
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError

__all__ = ["PIECE", "take"]

Dying = Mapping[int, tuple[Var, ...]]

_STORAGE: Final = frozenset({"relax.memory.alloc_storage", "relax.vm.alloc_storage"})
_PLACED: Final = frozenset({"relax.memory.alloc_tensor", "relax.vm.alloc_tensor"})
_FRESH: Final = _PLACED | {"relax.call_tir"}
"""Operators whose result may be written: a fresh tensor, or one in storage made for it."""
_INVOKE: Final = frozenset({"relax.invoke_closure", "relax.invoke_pure_closure"})
PIECE: Final = 24
"""Bindings in one LLVM function, since LLVM takes longer for a large function than for its parts.

These functions are not optimised, which would gain nothing: they only call kernels, which are.
"""


def take(frame: GraphFrame, e: RelaxExpr, dying: Dying) -> Step[Slot]:
    """Return the value of an expression as a reference in a slot of its own."""
    if isinstance(e, SeqExpr):
        return (yield _sequence(frame, e, dying))
    if isinstance(e, If):
        return (yield _branch(frame, e, dying))
    rule = _VALUES.get(e.__class__)
    since = len(frame.temporary)
    if rule is not None:
        slot: Slot = yield rule(frame, e)
    else:
        slot = yield _leaf(frame, e)
    frame.drop_temporary(since)
    return slot


def _leaf(frame: GraphFrame, e: RelaxExpr) -> Step[Slot]:
    if e.__class__ not in LEAVES:
        raise InternalError(f"a {type(e).__name__} in a graph: it is not in normal form")
    value: Value = yield leaf(frame, e)
    return frame.take_reference(value)


# -- sequences ---------------------------------------------------------------------------------
def _sequence(frame: GraphFrame, e: SeqExpr, dying: Dying) -> Step[Slot]:
    bound: list[Var] = []
    bindings = [binding for block in e.blocks for binding in block.bindings]
    if len(bindings) <= PIECE:
        yield _bind_all(frame, bindings, dying, bound)
    else:
        for start in range(0, len(bindings), PIECE):
            frame.open_piece()
            yield _bind_all(frame, bindings[start : start + PIECE], dying, bound)
            frame.close_piece()
    result = frame.values.get(e.body) if isinstance(e.body, Var) else None
    if result is not None and result.where is LocationKind.SLOT and e.body in set(bound):
        # The variable's scope ends here; its reference is passed on.
        assert isinstance(e.body, Var)
        del frame.values[e.body]
        slot = result.place
    else:
        slot = yield take(frame, e.body, dying)
    for var in bound:
        frame.unbind(var)
    return slot


def _bind_all(
    frame: GraphFrame, bindings: Sequence[Binding], dying: Dying, bound: list[Var]
) -> Step[None]:
    for binding in bindings:
        yield _bind(frame, binding, dying)
        if isinstance(binding, (VarBinding, MatchCast)) and binding.var is not None:
            bound.append(binding.var)
        for var in dying.get(id(binding), ()):
            if var not in frame.pinned:
                frame.unbind(var)


def _note(frame: GraphFrame, var: Var, value: RelaxExpr) -> None:
    """Record what is known of storage, and of tensors in it."""
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return
    if value.op.name in _STORAGE:
        frame.storage.add(var)
    elif value.op.name in _PLACED:
        laid = layout_in_storage(Site(frame, value))
        if laid is not None and laid.home in frame.storage:
            frame.laid[var] = laid
    elif value.op.name == "relax.call_tir" and len(value.sinfo_args) == 1:
        laid = fresh_layout_of(value.sinfo_args[0])
        if laid is not None:
            frame.laid[var] = laid


def _bind(frame: GraphFrame, binding: Binding, dying: Dying) -> Step[None]:
    if isinstance(binding, VarBinding):
        value = binding.value
        _note(frame, binding.var, value)
        if binding.var in frame.local and isinstance(value, Call):
            since = len(frame.temporary)
            frame.values[binding.var] = yield place_tensor(Site(frame, value))
            frame.fresh.add(binding.var)
            frame.drop_temporary(since)
            return
        if isinstance(value, Call) and binding.var in dying.get(id(binding), ()):
            kernel = direct_kernel(frame, value)
            if kernel is not None:
                # Its result is the empty tuple, which is not used.
                since = len(frame.temporary)
                yield run_kernel(frame, kernel, value)
                frame.drop_temporary(since)
                return
        if isinstance(value, Function):
            since = len(frame.temporary)
            slot: Slot = yield make_closure(frame, value, binding.var)
            frame.drop_temporary(since)
        else:
            slot = yield take(frame, value, dying)
        frame.values[binding.var] = Location(LocationKind.SLOT, slot)
        symbol = frame.extern_of(value)
        if symbol is not None:
            frame.externs[binding.var] = symbol
        if isinstance(value, Call):
            if isinstance(value.op, Op) and value.op.name in _FRESH:
                frame.fresh.add(binding.var)
            yield _check_claim(frame, binding.var, value, slot)
    elif isinstance(binding, MatchCast):
        slot = yield take(frame, binding.value, dying)
        var = binding.var
        what = "the matched value" if var is None else f"the value of {var.name_hint}"
        span = getattr(binding.struct_info, "span", None) or binding.span
        where = CheckedValue(what, span)
        since = len(frame.temporary)
        info = binding.struct_info
        yield match(frame, frame.read(slot), info, where, facts(binding.value))
        frame.drop_temporary(since)
        if binding.var is None:
            frame.release(slot)
        else:
            frame.values[binding.var] = Location(LocationKind.SLOT, slot)
    else:
        raise InternalError(f"a {type(binding).__name__} in a graph")


def _check_claim(frame: GraphFrame, var: Var, value: Call, slot: Slot) -> Step[None]:
    """Check the result of a function value against the variable's structural information."""
    if not isinstance(value.op, Var) and getattr(value.op, "name", "") not in _INVOKE:
        return
    info = var.struct_info_annotation
    if info is not None:
        where = CheckedValue(f"the value of {var.name_hint}", var.span or value.span)
        yield match(frame, frame.read(slot), info, where)


# -- branches ----------------------------------------------------------------------------------
def _branch(frame: GraphFrame, e: If, dying: Dying) -> Step[Slot]:
    since = len(frame.temporary)
    cond: Value = yield leaf(frame, e.cond)
    holds = truth(frame, cond, facts(e.cond), e.cond.span or e.span)
    frame.drop_temporary(since)
    b = frame.b
    slot = frame.take_slot()
    yes, no, done = b.append("then"), b.append("else"), b.append("after")
    b.condbr(holds, yes, no)
    for block, branch in ((yes, e.true_branch), (no, e.false_branch)):
        b.position_at_end(block)
        frame.forget_tensors()
        known = dict(frame.env)
        made: Slot = yield take(frame, branch, dying)
        frame.put(frame.move(made), slot)
        # Bindings of a branch end with it.
        frame.env.clear()
        frame.env.update(known)
        b.br(done)
    b.position_at_end(done)
    frame.forget_tensors()
    return slot


# -- fields ------------------------------------------------------------------------------------
def _item(frame: GraphFrame, e: TupleGetItem) -> Step[Slot]:
    value: Value = yield leaf(frame, e.tuple_value)
    known = facts(e.tuple_value)
    b = frame.b
    if not isinstance(known, TupleStructInfo):
        where = CheckedValue("the value that a field is taken of", e.span)
        require_kind(frame, value, [at.TUPLE], where)
    if not isinstance(known, TupleStructInfo) or e.index >= len(known.fields):
        length = frame.word(value, at.LENGTH)
        fits = b.icmp("ult", const(I64, e.index), length)
        frame.require(fits, faults.no_such_field(e.span, e.index), length)
    item = b.load(PTR, place(b, value, at.ITEMS + 8 * e.index))
    frame.retain(item)
    slot = frame.take_slot()
    frame.put(item, slot)
    return slot


_VALUES: Final[Mapping[type, Callable[[GraphFrame, Any], Step[Slot]]]] = {
    Call: call,
    TupleGetItem: _item,
}
