"""Primitives that split reductions: init from update, or into partial results (``rfactor``)."""

from __future__ import annotations

from typing import Final

from loomir.arith.fold import imm
from loomir.ir.node import Node
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import rebuild
from loomir.loops.conditions import conjunction, conjuncts
from loomir.loops.nests import innermost_body
from loomir.loops.ranges import analyzer_for
from loomir.schedule.blocks import (
    Update,
    cannot_start,
    explain_repetition,
    explain_sharing,
    reduction_mistake,
    update_of,
)
from loomir.schedule.moving import refresh_regions
from loomir.schedule.nests import ranges_with_sizes
from loomir.schedule.refusal import Refusal, refuse, replace_part
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Int, Loop, Sblock, primitive
from loomir.support.dtype import DataType
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.buffer import Buffer, BufferLoad, IterVar, IterVarType, Range, decl_buffer
from loomir.tir.expr import GT, Add, And, FloatImm, IntImm, Max, Min, Mul, Or, PrimExpr, Var
from loomir.tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt, seq

__all__ = ["cannot_decompose", "cannot_rfactor", "decompose_reduction", "rfactor"]

_INF: Final = float("inf")


def _refusal(code: str, ref: Ref, why: str, advice: str) -> Refusal:
    return Refusal(code, "block {!r}: {}", (ref.block.name_hint, why), advice, ref.stmt)


def _names(expr: PrimExpr) -> set[Node]:
    return set(free_definitions(expr))


def _names_bound_by(ref: Ref, kind: IterVarType) -> set[Node]:
    """Return what the bindings of iterators of a kind mention."""
    found: set[Node] = set()
    for it, value in zip(ref.block.iter_vars, ref.realize.values):
        if it.iter_type is kind:
            found |= _names(value)
    return found


def _chain(ref: Ref, loop: Ref) -> list[Ref] | None:
    """Return the loops from one to a block, None if something else stands between."""
    loops = ref.loops()
    place = next((n for n, r in enumerate(loops) if r is loop), None)
    if place is None:
        return None
    chain = loops[place:]
    below: list[Stmt | None] = [*(r.stmt for r in chain[1:]), ref.stmt]
    return chain if all(r.loop.body is s for r, s in zip(chain, below)) else None


# -- decompose_reduction ---------------------------------------------------------------------------
def cannot_decompose(ref: Ref, loop: Ref) -> Refusal | None:
    """Say why the init of a block cannot run before a loop."""
    block = ref.block
    if block.init is None or not block.is_reduction:
        return _refusal(
            "SCH0007",
            ref,
            "it does not reduce from an init",
            "choose a block that reduces and has an init",
        )
    if any(
        it.iter_type not in (IterVarType.DATA_PAR, IterVarType.COMM_REDUCE)
        for it in block.iter_vars
    ):
        return _refusal(
            "SCH0007", ref, "an iterator is neither spatial nor reducing", "choose another block"
        )
    chain = _chain(ref, loop)
    if chain is None:
        return _refusal(
            "SCH0004",
            ref,
            "the loop contains more than it",
            "choose a loop that contains only this block",
        )
    reducing = _names_bound_by(ref, IterVarType.COMM_REDUCE)
    for around in ref.loops():
        if around is loop:
            break
        if around.loop.loop_var in reducing:
            return Refusal(
                "SCH0006",
                "loop {!r}, outside of loop {!r}, reduces: its iterations would initialise again",
                (around.loop.loop_var.name_hint, loop.loop.loop_var.name_hint),
                "choose the outermost loop that reduces, or one outside of it",
                around.stmt,
            )
    if why := explain_sharing(block) or explain_repetition(ref.realize, chain, loop):
        return _refusal("SCH0007", ref, why, "choose a block that runs once for each element")
    inside: set[Node] = {r.loop.loop_var for r in chain}
    own: set[Node] = {it.var for it in block.iter_vars}
    for name in free_definitions(block.init):
        if name in inside and name not in own:
            return _refusal(
                "SCH0007",
                ref,
                "its init uses a variable of an outer loop",
                "choose another block",
            )
    return None


@primitive
def decompose_reduction(context: Context, block: Sblock, loop: Loop) -> Ref:
    """Split off the init of a reduction as a block of its own, before a loop.

    for i in range(4):
        for k in range(8):
            B[i] = (0 if k == 0 else B[i]) + A[i, k]
    -->                                        # at loop k
    for i in range(4):
        B[i] = 0
        for k in range(8): B[i] = B[i] + A[i, k]

    The blocks are named after the old one, with ``_init`` and ``_update``; references to the old
    block stay valid for the latter.

    Errors: SCH0004, SCH0006 for a loop inside of one that reduces, SCH0007 for a block without
    init.
    """
    if why := cannot_decompose(block, loop):
        refuse(why)
    old = block.block
    chain = _chain(block, loop)
    assert chain is not None
    spatial = _names_bound_by(block, IterVarType.DATA_PAR)
    first, kept, runs = _init_loops(block, chain, spatial)
    iters = [it for it in old.iter_vars if it.iter_type is IterVarType.DATA_PAR]
    values = tuple(
        substitute(v, first)
        for it, v in zip(old.iter_vars, block.realize.values)
        if it.iter_type is IterVarType.DATA_PAR
    )
    assert old.init is not None
    starts = {
        it.var: it.dom.min
        for it in old.iter_vars
        if it.iter_type is IterVarType.COMM_REDUCE and it.dom is not None
    }
    init_block = refresh_regions(
        Block(tuple(iters), (), (), old.name_hint + "_init", substitute(old.init, starts))
    )
    predicate = conjunction(
        [*runs, *(substitute(p, first) for p in conjuncts(block.realize.predicate))]
    )
    nest: Stmt = BlockRealize(values, predicate, init_block)
    for ref in reversed(kept):
        kind = ref.loop.kind if ref.loop.kind is not ForKind.PARALLEL else ForKind.SERIAL
        nest = For(ref.loop.loop_var, ref.loop.min, substitute(ref.loop.extent, first), kind, nest)
    nest = fresh_copy(nest, {})
    update = refresh_regions(rebuild(old, {"init": None, "name_hint": old.name_hint + "_update"}))
    new_loop = replace_part(loop.loop, block.realize, rebuild(block.realize, {"block": update}))
    assert new_loop is not None
    made = seq((nest, new_loop))
    loop.home.replace(loop, made, {old: update})
    found = innermost_body(nest)
    assert isinstance(found, BlockRealize)
    return loop.home.ref(found)


def _init_loops(
    ref: Ref, chain: list[Ref], spatial: set[Node]
) -> tuple[dict[Var, PrimExpr], list[Ref], list[PrimExpr]]:
    """Return the first iterations of loops that init does not run over, the others, and conditions.

    Init runs where each loop that only reduces is at its start, if it starts at all.
    """
    first: dict[Var, PrimExpr] = {}
    kept: list[Ref] = []
    runs: list[PrimExpr] = []
    analyzer = analyzer_for(ranges_with_sizes(ref))
    for around in chain:
        loop = around.loop
        if loop.loop_var in spatial:
            kept.append(around)
            continue
        first[loop.loop_var] = substitute(loop.min, first)
        condition = GT(substitute(loop.extent, first), imm(0, loop.loop_var.dtype))
        if not analyzer.can_prove(condition):
            runs.append(condition)
    return first, kept, runs


# -- rfactor ---------------------------------------------------------------------------------------
def identity_of(operator: type[PrimExpr], dtype: DataType) -> float | int | None:
    """Return the value that an operator leaves others as they are with."""
    if operator is Add:
        return 0
    if operator is Mul:
        return 1
    if operator is And:
        return 1
    if operator is Or:
        return 0
    if operator is Min:
        return _INF if dtype.is_float else dtype.max_value
    if operator is Max:
        return -_INF if dtype.is_float else dtype.min_value
    return None


def _is_identity(update: Update) -> bool:
    value = update.init.value
    wanted = identity_of(update.operator, update.store.buffer.dtype)
    return isinstance(value, (IntImm, FloatImm)) and value.value == wanted


def cannot_rfactor(ref: Ref, loop: Ref, factor_axis: int) -> Refusal | None:
    """Say why a reduction cannot be split along a loop."""
    if why := reduction_mistake(ref.block):
        return _refusal("SCH0007", ref, why, "choose a reduction by +, *, min, max, and, or")
    update = update_of(ref.block)
    assert update is not None
    if not _is_identity(update):
        return _refusal(
            "SCH0007",
            ref,
            f"its init is not the identity of {update.operator.__name__}",
            "start it at the identity, and combine with other values in a block afterwards",
        )
    loops = ref.loops()
    chain = _chain(ref, loops[0]) if loops else None
    if chain is None or not any(r is loop for r in chain):
        return _refusal("SCH0004", ref, "its loops contain more than it", "move other blocks out")
    if why := explain_repetition(ref.realize, chain, chain[0], limited=True):
        return _refusal("SCH0007", ref, why, "choose a block that runs once for each element")
    rank = len(update.store.buffer.shape)
    if not -rank - 1 <= factor_axis <= rank:
        return Refusal(
            "SCH0003",
            "axis {} is outside of [{}, {}]",
            (factor_axis, -rank - 1, rank),
            "pass the position of the new axis",
            ref.stmt,
        )
    reducing, spatial = (
        _names_bound_by(ref, IterVarType.COMM_REDUCE),
        _names_bound_by(ref, IterVarType.DATA_PAR),
    )
    name = loop.loop.loop_var.name_hint
    if loop.loop.loop_var not in reducing:
        return Refusal(
            "SCH0006",
            "loop {!r} does not reduce",
            (name,),
            "choose a loop of a reducing iterator",
            loop.stmt,
        )
    for around in chain:
        var = around.loop.loop_var
        if var in reducing and var in spatial:
            return Refusal(
                "SCH0006",
                "loop {!r} belongs to a reducing and to a spatial iterator",
                (var.name_hint,),
                "split it into one loop for each of them",
                around.stmt,
            )
        bounds = _names(around.loop.min) | _names(around.loop.extent)
        zero = isinstance(around.loop.min, IntImm) and around.loop.min.value == 0
        if not zero or bounds & {r.loop.loop_var for r in chain}:
            return Refusal(
                "SCH0005",
                "the bounds of loop {!r} change with other loops, or it does not start at 0",
                (var.name_hint,),
                "choose a nest of loops from 0 with independent extents",
                around.stmt,
            )
    own: set[Node] = {it.var for it in ref.block.iter_vars}
    inside: set[Node] = {r.loop.loop_var for r in chain}
    if any(n in inside and n not in own for n in free_definitions(ref.block)):
        return _refusal(
            "SCH0007", ref, "it uses a variable of an outer loop", "choose another block"
        )
    return _cannot_fill(ref, loop, chain, reducing)


def _cannot_fill(ref: Ref, loop: Ref, chain: list[Ref], reducing: set[Node]) -> Refusal | None:
    """Say why a part of the reduction may not run at all, so that nothing starts it."""
    others = {
        r.loop.loop_var: r.loop.min for r in chain if r is not loop and r.loop.loop_var in reducing
    }
    analyzer = analyzer_for(
        {**ranges_with_sizes(ref), loop.loop.loop_var: Range(loop.loop.min, loop.loop.extent)}
    )
    conditions = [
        substitute(p, others) for p in conjuncts(ref.realize.predicate) if _names(p) & reducing
    ]
    conditions += [
        GT(r.loop.extent, imm(0, r.loop.loop_var.dtype))
        for r in chain
        if r.loop.loop_var in reducing
    ]
    if all(analyzer.can_prove(c) for c in conditions):
        return None
    return Refusal(
        "SCH0005",
        "some iterations of loop {!r} may have nothing to reduce",
        (loop.loop.loop_var.name_hint,),
        "split the reduction by a factor of its extent",
        loop.stmt,
    )


@primitive
def rfactor(context: Context, loop: Loop, factor_axis: Int = 0) -> Ref:
    """Factor a reduction: each iteration of a loop computes a partial result, reduced later.

    for i in range(4):
        for k0 in range(2):
            for k1 in range(8): B[i] += A[i, k0 * 8 + k1]
    -->                                        # at loop k0
    for i in range(4):
        for k0 in range(2):
            for k1 in range(8): B_rf[k0, i] += A[i, k0 * 8 + k1]
    for i in range(4):
        for k0 in range(2): B[i] += B_rf[k0, i]

    The name of the new block ends in ``_rf``. Float results may differ in the last bits, since sums
    are computed in another order.

    Errors: SCH0003, SCH0004, SCH0005 where an iteration may have nothing to reduce, SCH0006 for a
    loop that does not only reduce, SCH0007 for a block that is no reduction from its identity.
    """
    blocks = loop.blocks()
    if len(blocks) != 1:
        refuse(
            Refusal(
                "SCH0004",
                "loop {!r} has {} blocks in it",
                (loop.loop.loop_var.name_hint, len(blocks)),
                "choose a loop around one block",
                loop.stmt,
            )
        )
    ref = blocks[0]
    if why := cannot_rfactor(ref, loop, factor_axis):
        refuse(why)
    update = update_of(ref.block)
    assert update is not None
    target = update.store.buffer
    axis = factor_axis if factor_axis >= 0 else factor_axis + len(target.shape) + 1
    shape = list(target.shape)
    shape.insert(axis, loop.loop.extent)
    partial = decl_buffer(shape, target.dtype, f"{target.name}_rf", scope=target.scope)
    chain = _chain(ref, ref.loops()[0])
    assert chain is not None
    first = _partial_nest(ref, loop, chain, update, partial, axis)
    second, kept = _final_nest(ref, loop, chain, update, partial, axis)
    _commit(ref, chain[0], first, second, kept, partial)
    found = innermost_body(first)
    assert isinstance(found, BlockRealize)
    return ref.home.ref(found)


def _insert(indices: tuple[PrimExpr, ...], axis: int, index: PrimExpr) -> tuple[PrimExpr, ...]:
    return (*indices[:axis], index, *indices[axis:])


def _iter(var: Var, dom: Range, kind: IterVarType) -> IterVar:
    return IterVar(dom, var, kind)


def _partial_nest(
    ref: Ref, loop: Ref, chain: list[Ref], update: Update, partial: Buffer, axis: int
) -> Stmt:
    """Make the nest that reduces into an element for each iteration of the loop."""
    old = ref.block
    reducing = _names_bound_by(ref, IterVarType.COMM_REDUCE)
    iters: list[IterVar] = []
    values: list[PrimExpr] = []
    inside: dict[Var, PrimExpr] = {}
    for it, value in zip(old.iter_vars, ref.realize.values):
        if it.iter_type is IterVarType.DATA_PAR:
            iters.append(it)
            values.append(value)
    for around in chain:
        var = around.loop.loop_var
        if var in reducing:
            own = Var(f"v_{var.name_hint}", var.dtype)
            kind = IterVarType.DATA_PAR if around is loop else IterVarType.COMM_REDUCE
            iters.append(_iter(own, Range(around.loop.min, around.loop.extent), kind))
            values.append(var)
            inside[var] = own
    given = {
        it.var: substitute(value, inside)
        for it, value in zip(old.iter_vars, ref.realize.values)
        if it.iter_type is IterVarType.COMM_REDUCE
    }
    at = _insert(update.store.indices, axis, inside[loop.loop.loop_var])
    partial_value = BufferLoad(partial, at)
    value = _combine(update, partial_value, substitute(update.value, given))
    block = Block(
        tuple(iters),
        (),
        (),
        f"{old.name_hint}_rf",
        BufferStore(partial, value, at),
        BufferStore(partial, update.init.value, at),
        annotations=old.annotations,
    )
    nest: Stmt = BlockRealize(tuple(values), ref.realize.predicate, refresh_regions(block))
    for around in reversed(chain):
        nest = rebuild(around.loop, {"body": nest, "kind": ForKind.SERIAL})
    return fresh_copy(nest, {})


def _combine(update: Update, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    make: type[Add] = update.operator  # type: ignore[assignment]
    return make(a, b)


def _final_nest(
    ref: Ref, loop: Ref, chain: list[Ref], update: Update, partial: Buffer, axis: int
) -> tuple[Stmt, Block]:
    """Make the nest that reduces the elements of all iterations."""
    old = ref.block
    reducing = _names_bound_by(ref, IterVarType.COMM_REDUCE)
    var = loop.loop.loop_var
    own = Var(f"v_{var.name_hint}", var.dtype)
    iters: list[IterVar] = []
    values: list[PrimExpr] = []
    for it, value in zip(old.iter_vars, ref.realize.values):
        if it.iter_type is IterVarType.DATA_PAR:
            iters.append(it)
            values.append(value)
    dom = Range(loop.loop.min, loop.loop.extent)
    iters.append(_iter(own, dom, IterVarType.COMM_REDUCE))
    values.append(var)
    store = update.store
    part = BufferLoad(partial, _insert(store.indices, axis, own))
    body = rebuild(
        store, {"value": _combine(update, BufferLoad(store.buffer, store.indices), part)}
    )
    block = refresh_regions(
        Block(tuple(iters), (), (), old.name_hint, body, old.init, annotations=old.annotations)
    )
    predicate = conjunction(
        [p for p in conjuncts(ref.realize.predicate) if not _names(p) & reducing]
    )
    nest: Stmt = BlockRealize(tuple(values), predicate, block)
    order = [r for r in chain if r.loop.loop_var not in reducing] + [loop]
    for around in reversed(order):
        nest = rebuild(around.loop, {"body": nest, "kind": ForKind.SERIAL})
    return nest, block


def _commit(ref: Ref, top: Ref, first: Stmt, second: Stmt, kept: Block, partial: Buffer) -> None:
    scope, old = ref.scope, ref.block
    assert top.stmt is not None
    placed = replace_part(scope.realize, top.stmt, seq((first, second)))
    assert isinstance(placed, BlockRealize)
    owner = placed.block
    made = rebuild(
        placed,
        {"block": rebuild(owner, {"alloc_buffers": (*owner.alloc_buffers, partial)})},
    )
    if why := cannot_start(scope, made, "rfactor before other loops of the reduction are moved"):
        refuse(why)
    scope.home.replace(scope, made, {old: kept, scope.block: made.block})
