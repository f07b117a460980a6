"""Move small allocations into the innermost statement that contains all of their accesses."""

from __future__ import annotations

from typing import Any, Final

from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.visit import (
    Step,
    children,
    fold,
    nodes_outside,
    of_classes,
    pre_order,
    rebuild,
    trampoline,
)
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP
from loomir.tir.expr import Call, IntImm, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    TRUE,
    Allocate,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

__all__ = ["plan_and_update_buffer_allocation_location"]

_MOST: Final = 64
"""The most allocations, and elements of each, to keep the pass fast and copies small."""


@register("tir.PlanAndUpdateBufferAllocationLocation", requires={"flat_buffers", "no_blocks"})
def plan_and_update_buffer_allocation_location(func: PrimFunc) -> PrimFunc:
    """Move small allocations into the innermost statement that contains all their accesses.

    An allocation moves into a loop only if each iteration provably stores elements before it loads
    them. Iterations then share no memory, and can run in parallel or as lanes.
    """
    plans: dict[int, _Plan] = {}
    for part in nodes_outside(func.body, PrimExpr):
        if isinstance(part, Allocate) and _is_small(part) and len(plans) < _MOST:
            assert isinstance(part.body, DeclBuffer)
            plans[id(part)] = _Plan(part)
    if not plans:
        return func
    _read(func.body, {id(p.allocate.buffer_var): p for p in plans.values()})
    targets: dict[int, list[_Plan]] = {}
    moved: set[int] = set()
    for plan in plans.values():
        target = plan.target()
        if target is not None:
            targets.setdefault(id(target), []).append(plan)
            moved.add(id(plan.allocate))
    if not moved:
        return func
    body = trampoline(_move(func.body, moved, targets))
    return PrimFunc(func.params, body, func.ret_type, func.buffer_map, func.attrs, span=func.span)


def _is_small(s: Allocate) -> bool:
    """Tell whether this is an allocation of constant, small size for one buffer."""
    size = 1
    for extent in s.extents:
        if not isinstance(extent, IntImm):
            return False
        size *= extent.value
    if size > _MOST or s.condition is not TRUE or not isinstance(s.body, DeclBuffer):
        return False
    return s.body.buffer.data is s.buffer_var


class _Plan:
    """An allocation and the statements that access it."""

    def __init__(self, allocate: Allocate) -> None:
        assert isinstance(allocate.body, DeclBuffer)
        self.allocate = allocate
        self.declare = allocate.body
        self.buffer = allocate.body.buffer
        self.escapes = False
        self.touched: set[int] = set()
        """The nodes that contain an access."""

    def target(self) -> Stmt | None:
        """Return the statement around which the allocation moves, None if it stays."""
        if self.escapes or not self.touched:
            return None
        at: Stmt = self.declare.body
        best = at
        while True:
            inner = self._find_only_part(at)
            if inner is None:
                break
            if isinstance(at, (For, While)) and not _stores_first(inner, self):
                break
            at = inner
            # Moving it to a single store would gain nothing.
            if isinstance(at, (SeqStmt, For, IfThenElse, LetStmt)):
                best = at
        return None if best is self.declare.body else best

    def _find_only_part(self, s: Stmt) -> Stmt | None:
        """Return the one part of a statement that contains all accesses, or None."""
        parts = [part for part in children(s) if id(part) in self.touched]
        if len(parts) == 1 and isinstance(parts[0], Stmt):
            return parts[0]
        return None


def _read(body: Stmt, plans: dict[int, _Plan]) -> None:
    """Record for every plan the nodes that contain its accesses."""

    def note(node: Any, parts: list[frozenset[int]]) -> frozenset[int]:
        found: frozenset[int] = frozenset()
        for part in parts:
            found |= part
        if isinstance(node, (BufferLoad, BufferStore)) and id(node.buffer.data) in plans:
            plan = plans[id(node.buffer.data)]
            plan.escapes = plan.escapes or node.buffer is not plan.buffer
            found |= {id(node.buffer.data)}
        elif isinstance(node, Var) and id(node) in plans:
            plans[id(node)].escapes = True
        elif isinstance(node, DeclBuffer) and id(node.buffer.data) in plans:
            plan = plans[id(node.buffer.data)]
            plan.escapes = plan.escapes or node.buffer is not plan.buffer
        for name in found:
            plans[name].touched.add(id(node))
        return found

    below: dict[int, frozenset[int]] = {}

    def inside(part: Node) -> frozenset[int]:
        found = below.get(id(part))
        if found is None:
            # Most expressions access none of them.
            names = of_classes(part, BufferLoad, Var)
            some = any(id(e if isinstance(e, Var) else e.buffer.data) in plans for e in names)
            found = below[id(part)] = fold(part, note) if some else frozenset()
        return found

    # Inner statements come before outer ones.
    for s in reversed(nodes_outside(body, PrimExpr)):
        below[id(s)] = note(s, [inside(part) for part in children(s)])


def _stores_first(body: Stmt, plan: _Plan) -> bool:
    """Tell whether a body stores each element before it loads it; indices must be constant."""
    return trampoline(_find_assigned(body, plan, frozenset())) is not None


def _loads_known(e: PrimExpr, plan: _Plan, known: frozenset[int]) -> bool:
    if id(e) not in plan.touched:
        return True
    for part in pre_order(e):
        if isinstance(part, BufferLoad) and part.buffer is plan.buffer:
            index = part.indices[0]
            if not isinstance(index, IntImm) or index.value not in known:
                return False
    return True


def _find_assigned(s: Any, plan: _Plan, known: frozenset[int]) -> Step[frozenset[int] | None]:
    """Return the elements certainly stored after a statement; None if a load comes too early."""
    if id(s) not in plan.touched:
        return known
    own = [part for part in children(s) if isinstance(part, PrimExpr)]
    if not all(_loads_known(e, plan, known) for e in own):
        return None
    if isinstance(s, BufferStore):
        index = s.indices[0]
        if s.buffer is plan.buffer and isinstance(index, IntImm):
            return known | {index.value}
        return known
    if isinstance(s, SeqStmt):
        for part in s.seq:
            after = yield _find_assigned(part, plan, known)
            if after is None:
                return None
            known = after
        return known
    if isinstance(s, IfThenElse):
        then = yield _find_assigned(s.then_case, plan, known)
        other = known if s.else_case is None else (yield _find_assigned(s.else_case, plan, known))
        return None if then is None or other is None else then & other
    parts = [part for part in children(s) if isinstance(part, Stmt)]
    for part in parts:
        after = yield _find_assigned(part, plan, known)
        if after is None:
            return None
        if not _may_skip(s, part):
            known = after
    return known


def _may_skip(s: Stmt, body: Stmt) -> bool:
    """Tell whether a statement may skip its body, or a part of it."""
    if isinstance(s, For) and isinstance(s.extent, IntImm) and s.extent.value > 0:
        return any(
            isinstance(part, Call) and part.op in (BREAK_LOOP, CONTINUE_LOOP)
            for part in pre_order(body)
        )
    return isinstance(s, (For, While, Allocate))


def _move(s: Any, moved: set[int], targets: dict[int, list[_Plan]]) -> Step[Any]:
    """Move allocations around their targets."""
    made: Any = s
    if id(s) in moved:
        made = yield _move(s.body.body, moved, targets)
    else:
        changed: dict[str, object] = {}
        for name in s.child_names:
            value = getattr(s, name)
            if isinstance(value, Stmt):
                new: object = yield _move(value, moved, targets)
            elif name == "seq":
                items: list[Any] = []
                for item in value:
                    items.append((yield _move(item, moved, targets)))
                new = value if all(a is b for a, b in zip(items, value)) else tuple(items)
            else:
                continue
            if new is not value:
                changed[name] = new
        made = rebuild(s, changed)
    for plan in reversed(targets.get(id(s), [])):
        declared = rebuild(plan.declare, {"body": made})
        made = rebuild(plan.allocate, {"body": declared})
    return made
