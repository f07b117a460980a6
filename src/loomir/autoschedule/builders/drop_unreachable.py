"""Remove loops and branches that would access what is outside of an array, and so never run.

Programs access nothing outside of arrays. Where loops are unrolled and axes have known sizes,
constant indices appear in branches whose conditions, which still depend on other axes, never hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loomir.check.tir.out_of_range import find_loops_out_of_range
from loomir.ir.node import Node
from loomir.ir.visit import by_class, children, rebuild, rewrite
from loomir.loops.ranges import domains
from loomir.tir.analysis.constant_index import outside
from loomir.tir.analysis.effects import is_discardable
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import And, Call, IntImm, Or, PrimExpr, Select, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, BufferStore, For, IfThenElse, SeqStmt, Stmt, While

__all__ = ["drop_loops_out_of_range", "drop_unreachable", "is_outside"]

_NOTHING: Final = SeqStmt(())
_EVALUATED: Final[Mapping[type, Callable[[Any], Sequence[Node]]]] = {
    For: lambda s: (s.min, s.extent),
    While: lambda s: (s.condition,),
    IfThenElse: lambda s: (s.condition,),
    And: lambda e: (e.a,),
    Or: lambda e: (e.a,),
    Select: lambda e: (e.condition,),
    Call: lambda e: e.args[:1] if e.op is IF_THEN_ELSE else e.args,
}
"""The parts that are evaluated whenever a node is, where those are not all."""


def is_outside(access: BufferLoad | BufferStore) -> bool:
    """Whether a constant index of an access is outside of its axis."""
    return outside(access.buffer, access.indices, None, "") is not None


def drop_unreachable(stmt: Stmt) -> Stmt:
    """Remove parts that access what is outside of an array whenever they run."""
    return rewrite(stmt, {Call: _choice, For: _loop, While: _loop, IfThenElse: _branch})


def drop_loops_out_of_range(program: PrimFunc, scheduled: PrimFunc) -> PrimFunc:
    """Remove the loops of a scheduled program that run for no sizes at which it is in range.

    Where ``y[i]`` is written for ``i`` below ``n``, and ``y`` has 12 elements, ``n`` is at most 12;
    so the loop over tiles of 16 elements never runs.
    """
    if not _has_sizes_within_fixed_axes(program):
        return scheduled
    dead = find_loops_out_of_range(scheduled)
    if not dead:
        return scheduled
    body = rewrite(
        scheduled.body, {For: lambda s: _NOTHING if s.loop_var in dead or s.body is _NOTHING else s}
    )
    return rebuild(scheduled, {"body": body})


def _has_sizes_within_fixed_axes(program: PrimFunc) -> bool:
    """Whether an index that depends on unknown sizes is one of an axis of known length."""
    nodes = by_class(program.body)
    loops: list[For] = nodes.get(For, [])
    known = {loop.loop_var for loop in loops if isinstance(loop.extent, IntImm)}
    if len(known) == len(loops):
        return False
    for block in nodes.get(Block, ()):
        known |= {v for v, r in domains(block).items() if isinstance(r.extent, IntImm)}
    return any(
        isinstance(extent, IntImm) and not known.issuperset(by_class(index).get(Var, ()))
        for kind in (BufferLoad, BufferStore)
        for access in nodes.get(kind, ())
        for index, extent in zip(access.indices, access.buffer.shape, strict=False)
    )


def _leaves_arrays(part: PrimExpr | Stmt) -> bool:
    """Tell whether an access is outside of its array whenever a part runs.

    What may not run is passed over, so that no node is visited for more than one part.
    """
    stack: list[Node] = [part]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (BufferLoad, BufferStore)) and is_outside(node):
            return True
        stack.extend(_EVALUATED.get(node.__class__, children)(node))
    return False


def _choice(e: Call) -> PrimExpr:
    if e.op is not IF_THEN_ELSE or not is_discardable(e.args[0]):
        return e
    _, yes, no = e.args
    if _leaves_arrays(yes):
        return no
    return yes if _leaves_arrays(no) else e


def _loop(s: For | While) -> Stmt:
    return _NOTHING if _leaves_arrays(s.body) else s


def _branch(s: IfThenElse) -> Stmt:
    yes, no = s.then_case, s.else_case
    if _leaves_arrays(yes):
        yes = _NOTHING
    if no is not None and _leaves_arrays(no):
        no = None
    if yes is s.then_case and no is s.else_case:
        return s
    return IfThenElse(s.condition, yes, no, span=s.span)
