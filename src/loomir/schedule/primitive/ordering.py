"""Primitives that reorder loops and block iterators."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from loomir.ir.node import Node
from loomir.ir.visit import pre_order, rebuild
from loomir.loops.dependence import find_carrying_loops, find_unsafe_loop
from loomir.loops.nests import innermost_body
from loomir.schedule.blocks import explain_repetition, init_mistake, reduction_mistake
from loomir.schedule.nests import ranges_with_sizes
from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Ints, Loops, Sblock, primitive
from loomir.tir.stmt import Block, BlockRealize, For, Stmt

__all__ = ["cannot_reorder", "chain_of", "reorder", "reorder_block_iter_var"]


def chain_of(loops: Sequence[Ref]) -> list[Ref]:
    """Return the nest from the outermost to the innermost of loops, or stop with the reason."""
    deepest = max(loops, key=lambda r: sum(1 for _ in r.list_around()))
    wanted = {id(r) for r in loops}
    chain: list[Ref] = []
    path: list[Ref] = []
    for ref in (deepest, *deepest.list_around()):
        if not ref.is_loop:
            break
        path.append(ref)
        if id(ref) in wanted:
            chain += path
            path = []
    chain.reverse()
    within = {id(r) for r in chain}
    missing = [r for r in loops if id(r) not in within]
    if missing:
        refuse(
            Refusal(
                "SCH0004",
                "loop {!r} is not in one nest with loop {!r}",
                (missing[0].loop.loop_var.name_hint, deepest.loop.loop_var.name_hint),
                "give loops of one nest of the same block",
                missing[0].stmt,
            )
        )
    for outer, inner in pairwise(chain):
        if outer.loop.body is not inner.stmt:
            refuse(
                Refusal(
                    "SCH0004",
                    "loop {!r} is not the whole body of loop {!r}",
                    (inner.loop.loop_var.name_hint, outer.loop.loop_var.name_hint),
                    "reorder loops of which each is all that the one before has in it",
                    inner.stmt,
                )
            )
    return chain


def cannot_reorder(chain: Sequence[Ref], order: Sequence[Ref]) -> Refusal | None:
    """Say why the loops of a nest cannot stand in another order."""
    for place, ref in enumerate(order):
        inside: set[Node] = {r.loop.loop_var for r in order[place + 1 :]}
        for part in (*pre_order(ref.loop.min), *pre_order(ref.loop.extent)):
            if part in inside:
                return Refusal(
                    "SCH0005",
                    "the bounds of loop {!r} change with loop {!r}, which would be inside of it",
                    (ref.loop.loop_var.name_hint, getattr(part, "name_hint", part)),
                    "keep a loop inside of those that its bounds change with",
                    ref.stmt,
                )
    found = find_carrying_loops([r.loop for r in chain], ranges_with_sizes(chain[0]))
    bound = {id(loop): why for loop, why in found}
    before = [r for r in chain if id(r.stmt) in bound]
    after = [r for r in order if id(r.stmt) in bound]
    if before == after or _regroups(chain):
        return None
    moved = next(r for r, other in zip(after, before) if r is not other)
    return Refusal(
        "SCH0006",
        "the order of dependent iterations would change: {}",
        (bound[id(moved.stmt)],),
        "keep the order of the loops whose iterations depend on one another",
        moved.stmt,
    )


def _regroups(chain: Sequence[Ref]) -> bool:
    """Tell whether all that a nest does is a reduction, which may be summed in any order.

    What runs an instance twice starts its sum anew: there, the order counts.
    """
    below = innermost_body(chain[-1].loop.body)
    if not isinstance(below, BlockRealize) or reduction_mistake(below.block):
        return False
    block = chain[-1].home.ref(below)
    loops = block.loops()
    inside = loops[next(n for n, r in enumerate(loops) if r is chain[0]) :]
    return not explain_repetition(below, inside, chain[0])


@primitive
def reorder(context: Context, *ordered_loops: Loops) -> None:
    """Reorder loops of a nest; other loops in between keep their positions.

    for i in range(3):
        for j in range(4): f(i, j)
    -->
    for j in range(4):
        for i in range(3): f(i, j)

    Errors: SCH0003 for a loop given twice, SCH0004 for loops of no nest, SCH0005 for bounds that
    change with a loop that would be inside, SCH0006 where what depends on one another would change
    its order, or a reduction not start at its start.
    """
    loops: Sequence[Ref] = ordered_loops
    if not loops or len({id(r) for r in loops}) < len(loops):
        refuse(
            Refusal(
                "SCH0003", "there are no loops, or one is given twice", (), "give each loop once"
            )
        )
    chain = chain_of(loops)
    wanted = {id(r) for r in loops}
    rest = iter(loops)
    order = [next(rest) if id(r) in wanted else r for r in chain]
    if why := cannot_reorder(chain, order):
        refuse(why)
    made: Stmt = chain[-1].loop.body
    for ref in reversed(order):
        made = rebuild(ref.loop, {"body": made})
    if why := _mistake_of(chain[0], made):
        refuse(
            Refusal("SCH0006", "{}", (why,), "mark loops after they are in order", chain[0].stmt)
        )
    chain[0].home.replace(chain[0], made)


def _mistake_of(place: Ref, made: Stmt) -> str:
    """Say what does not hold any more in a nest: starts of reductions, loops that run at once."""
    loops: list[For] = []
    at = made
    while isinstance(at, For):
        loops.append(at)
        at = at.body
    unsafe = find_unsafe_loop(loops, ranges_with_sizes(place))
    return init_mistake(place, made) if unsafe is None else unsafe[1]


@primitive
def reorder_block_iter_var(context: Context, block: Sblock, new_order: Ints) -> None:
    """Reorder the iterators of a block; ``new_order`` lists their old positions.

    vi, vj = T.axis.remap("SS", [i, j])
    -->                                        # new_order=[1, 0]
    vj, vi = T.axis.remap("SS", [j, i])

    Errors: SCH0003 where the order is none.
    """
    realize = block.realize
    old = realize.block
    if sorted(new_order) != list(range(len(old.iter_vars))):
        refuse(
            Refusal(
                "SCH0003",
                "{} is not an order of {} iterators",
                (list(new_order), len(old.iter_vars)),
                "name each iterator once, by its index from 0",
                realize,
            )
        )
    made: Block = rebuild(old, {"iter_vars": tuple(old.iter_vars[n] for n in new_order)})
    values = tuple(realize.values[n] for n in new_order)
    block.home.replace(block, rebuild(realize, {"values": values, "block": made}), {old: made})
