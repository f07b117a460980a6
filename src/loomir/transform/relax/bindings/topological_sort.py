"""Order the bindings of dataflow blocks topologically, from inputs or from outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import pre_order, rewrite
from loomir.relax.expr import Binding, Call, DataflowBlock, Function, MatchCast, Var, VarBinding
from loomir.relax.free_vars import shape_vars_bound_by
from loomir.relax.operator.definition import op_def
from loomir.support.diagnostics import nearest
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.rules import refuse

__all__ = ["Direction", "Order", "TopologicalSortOptions", "topological_sort"]

Order = Literal["depth-first", "breadth-first"]
Direction = Literal["from-inputs", "from-outputs"]

_WRITES: Final = frozenset({"relax.call_tir_inplace", "relax.call_inplace_packed"})


@dataclass(frozen=True, slots=True)
class TopologicalSortOptions:
    """The order of the traversal, and from which end it starts.

    Errors: RLX0331 for any other word.
    """

    order: Order = "depth-first"
    direction: Direction = "from-inputs"

    def __post_init__(self) -> None:
        _require("order", self.order, get_args(Order))
        _require("direction", self.direction, get_args(Direction))


def _require(name: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        guess = nearest(str(given), choices)
        refuse(
            "RLX0331",
            f"{given!r} is not a valid {name} for TopologicalSort",
            help=f"did you mean {guess!r}?" if guess else f"use {' or '.join(map(repr, choices))}",
            span=None,
        )


@register("relax.TopologicalSort", requires={"relax_normal_form"})
def topological_sort(
    func: Function, options: TopologicalSortOptions = TopologicalSortOptions()
) -> Function:
    """Sort the bindings of each dataflow block into another order with the same results.

    From the inputs, ``depth-first`` follows each value to its users before it starts with another,
    and ``breadth-first`` takes all values that are ready in turn; from the outputs, each value
    comes as late as its users allow. Nothing moves across a call that writes its arguments in
    place, nor in a function with ``relax.force_pure``.
    """
    if func.attrs.get("relax.force_pure"):
        return func

    def block(old: DataflowBlock) -> DataflowBlock:
        made: list[Binding] = []
        group: list[Binding] = []
        for binding in old.bindings:
            if _stays(binding):
                made += [*_sort(group, options), binding]
                group = []
            else:
                group.append(binding)
        made += _sort(group, options)
        same = all(a is b for a, b in zip(made, old.bindings))
        return old if same else DataflowBlock(tuple(made), span=old.span)

    return rewrite(func, {DataflowBlock: block})


def _stays(binding: Binding) -> bool:
    call = binding.value if isinstance(binding, VarBinding) else None
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return False
    return call.op.name in _WRITES or not op_def(call.op).is_pure


def _sort(group: Sequence[Binding], options: TopologicalSortOptions) -> list[Binding]:
    """Return bindings in an order in which none depends on a later one."""
    needs, users = _edges(group)
    ahead = options.direction == "from-inputs"
    waits, leads = (needs, users) if ahead else (users, needs)
    left = [len(w) for w in waits]
    numbers = range(len(group)) if ahead else range(len(group) - 1, -1, -1)
    first = [k for k in numbers if not left[k]]
    depth = options.order == "depth-first"
    ready = deque(reversed(first) if depth else first)
    made: list[Binding] = []
    while ready:
        number = ready.pop() if depth else ready.popleft()
        made.append(group[number])
        now: list[int] = []
        for other in leads[number]:
            left[other] -= 1
            if not left[other]:
                now.append(other)
        ready.extend(reversed(now) if depth else now)
    return made if ahead else made[::-1]


def _edges(group: Sequence[Binding]) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each binding those that it needs, and those that need it."""
    binder: dict[Node, int] = {}
    needs: list[list[int]] = []
    users: list[list[int]] = [[] for _ in group]
    for number, binding in enumerate(group):
        found: dict[int, None] = {}
        for part in _list_mentioned(binding):
            other = binder.get(part)
            if other is not None:
                found[other] = None
        needs.append(list(found))
        for other in found:
            users[other].append(number)
        if isinstance(binding, (VarBinding, MatchCast)) and binding.var is not None:
            binder[binding.var] = number
        if isinstance(binding, MatchCast):
            for var in shape_vars_bound_by(binding.struct_info):
                binder.setdefault(var, number)
    return needs, users


def _list_mentioned(binding: Binding) -> list[Node]:
    if not isinstance(binding, (VarBinding, MatchCast)):
        return []
    roots: list[Node] = [binding.value]
    if isinstance(binding, MatchCast):
        roots.append(binding.struct_info)
    if binding.var is not None and binding.var.struct_info_annotation is not None:
        roots.append(binding.var.struct_info_annotation)
    return [p for root in roots for p in pre_order(root) if isinstance(p, (Var, ShapeVar))]
