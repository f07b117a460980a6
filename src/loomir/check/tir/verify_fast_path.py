"""A fast path of ``verify`` for the expressions that most programs consist of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from loomir.ir.op import Effect, Op
from loomir.ir.visit import plan_of
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.calls import OUTSIDE
from loomir.tir.builtins.llvm_intrinsics import LLVM
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP, RET
from loomir.tir.expr import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CmpOp,
    FloatImm,
    IntImm,
    LogicalOp,
    Ramp,
    Select,
    Var,
)
from loomir.tir.stmt import BufferStore

__all__ = ["is_plain"]

_MOST: Final = 1_000
"""How many parts are checked here: an expression that shares parts may have any number."""


class _Parts(dict[type, "Callable[[Any], tuple[Any, ...]] | None"]):
    """Reads the parts of operators; None for other classes."""

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
        known = issubclass(kind, (BinaryOp, CmpOp, LogicalOp, Cast, Select))
        made = plan_of(kind).get if known and not kind.lowered_by else None
        self[kind] = made
        return made


class _OrdinaryOperators(dict[Any, bool]):
    """Whether calls of an operator may occur anywhere, with any arguments."""

    def __missing__(self, op: Any) -> bool:
        made = isinstance(op, Op) and op.effect is not Effect.SPECIAL_CALL_ARG
        made = made and not (op in {RET, BREAK_LOOP, CONTINUE_LOOP} or op in OUTSIDE or op in LLVM)
        self[op] = made
        return made


_PARTS: Final = _Parts()
_ORDINARY: Final = _OrdinaryOperators()


def is_plain(todo: list[Any], live: set[Any]) -> bool:
    """Tell whether expressions and stores are of what ``live`` holds, within constant bounds.

    False decides nothing: rare expressions are left to ``verify``. The parts are added to ``todo``.
    """
    for node in islice(todo, _MOST):
        kind = node.__class__
        if kind is IntImm or kind is FloatImm:
            pass
        elif kind is BufferLoad or kind is BufferStore:
            buffer = node.buffer
            indices = node.indices
            shape = buffer.shape
            if buffer not in live or len(indices) != len(shape):
                return False
            for index, extent in zip(indices, shape):
                kind = index.__class__
                if kind is IntImm:
                    if extent.__class__ is not IntImm or not 0 <= index.value < extent.value:
                        return False
                elif kind is not Var:
                    if kind is Ramp or kind is Broadcast:
                        return False
                    todo.append(index)
                elif index not in live:
                    return False
            if node.__class__ is BufferStore:
                todo.append(node.value)
        elif kind is Var:
            if node not in live:
                return False
        elif kind is Call:
            if not _ORDINARY[node.op]:
                return False
            todo += node.args
        else:
            parts = _PARTS[kind]
            if parts is None:
                return False
            todo += parts(node)
    return len(todo) <= _MOST
