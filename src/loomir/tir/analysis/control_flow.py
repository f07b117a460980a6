"""Find statements that may return from the function or leave a loop."""

from __future__ import annotations

from collections.abc import Iterator

from loomir.ir.visit import children, pre_order
from loomir.tir.builtins.table import BREAK_LOOP, RET
from loomir.tir.expr import Call, IntImm
from loomir.tir.stmt import Evaluate, For, IfThenElse, Stmt, While

__all__ = ["can_leave", "may_return"]


def _statements(body: Stmt, *, into_loops: bool) -> Iterator[Stmt]:
    """List statements that may run, without branches and loops that constants exclude."""
    stack = [body]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, IfThenElse) and isinstance(node.condition, IntImm):
            taken = node.then_case if node.condition.value else node.else_case
            if taken is not None:
                stack.append(taken)
            continue
        if isinstance(node, For):
            empty = isinstance(node.extent, IntImm) and node.extent.value <= 0
            if empty or not into_loops:
                continue
        if isinstance(node, While) and not into_loops:
            continue
        stack.extend(part for part in children(node) if isinstance(part, Stmt))


def _calls(body: Stmt, *, into_loops: bool) -> Iterator[Call]:
    for node in _statements(body, into_loops=into_loops):
        if isinstance(node, Evaluate):
            for part in pre_order(node.value):
                if isinstance(part, Call):
                    yield part


def may_return(body: Stmt) -> bool:
    """Tell whether a return may be reached, as far as constant conditions and extents say."""
    return any(call.op is RET for call in _calls(body, into_loops=True))


def can_leave(body: Stmt) -> bool:
    """Tell whether a loop's body contains a break of that loop, or a return."""
    return may_return(body) or any(call.op is BREAK_LOOP for call in _calls(body, into_loops=False))
