"""Primitives for padding: store it separately, or pad the iteration domain of a product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.arith.fold import add, imm
from loomir.ir.node import Node
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import pre_order, rebuild
from loomir.loops.conditions import conjunction, conjuncts
from loomir.loops.nests import innermost_body, nest_over
from loomir.schedule.blocks import cannot_start, complete_mistake, update_of
from loomir.schedule.moving import refresh_regions
from loomir.schedule.nests import cannot_chain, cannot_reshape
from loomir.schedule.refusal import Refusal, refuse, replace_part
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Ints, Loop, Sblock, primitive
from loomir.support.dtype import DataType
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.buffer import Buffer, BufferLoad, IterVar, IterVarType, Range, decl_buffer
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Mul,
    PrimExpr,
    Select,
    Var,
)
from loomir.tir.stmt import TRUE, Block, BlockRealize, BufferStore, ForKind, Stmt, seq

__all__ = ["cannot_decompose_padding", "cannot_pad_einsum", "decompose_padding", "pad_einsum"]

_MIRRORED: Final = {GE: LE, GT: LT, LE: GE, LT: GT}


def _kind(ref: Ref, why: str, advice: str) -> Refusal:
    return Refusal("SCH0007", "block {!r}: {}", (ref.block.name_hint, why), advice, ref.stmt)


# -- decompose_padding -----------------------------------------------------------------------------
class _Padding(NamedTuple):
    """``inside`` where ``condition`` holds, and elsewhere the number ``filling``."""

    condition: PrimExpr
    inside: PrimExpr
    filling: PrimExpr


def _match_padding(block: Block) -> _Padding | None:
    """Read what a block stores as a value that is filled up by a number."""
    if not isinstance(block.body, BufferStore):
        return None
    value = block.body.value
    if isinstance(value, Select):
        found = _Padding(value.condition, value.true_value, value.false_value)
    elif isinstance(value, Call) and value.op is IF_THEN_ELSE:
        found = _Padding(*value.args)
    else:
        return None
    if not isinstance(found.filling, (IntImm, FloatImm)):
        return None
    if any(isinstance(n, (BufferLoad, Call)) for n in pre_order(found.condition)):
        return None
    return found


def cannot_decompose_padding(ref: Ref, loop: Ref) -> Refusal | None:
    """Say why what fills a block's buffer up cannot be stored before a loop."""
    block = ref.block
    if why := complete_mistake(block):
        return _kind(ref, why, "choose a block that stores each element once")
    if _match_padding(block) is None:
        return _kind(
            ref,
            "it does not store a value under a condition, and else a number",
            "choose a block that stores T.if_then_else(condition, value, number)",
        )
    loops = ref.loops()
    place = next((n for n, r in enumerate(loops) if r is loop), None)
    if place is None or loops[-1].loop.body is not ref.stmt:
        return Refusal(
            "SCH0004",
            "loop {!r} encloses more than block {!r}",
            (loop.loop.loop_var.name_hint, block.name_hint),
            "choose a loop that contains only the block",
            loop.stmt,
        )
    return cannot_chain(loops[place:])


def _bounds(condition: PrimExpr) -> tuple[Var, int | None, int | None] | None:
    """Read a condition as a bound of one variable: the first value, and the one after the last."""
    kind = type(condition)
    if not isinstance(condition, (GE, GT, LE, LT)):
        return None
    a, b = condition.a, condition.b
    if isinstance(a, IntImm) and isinstance(b, Var):
        a, b, kind = b, a, _MIRRORED[type(condition)]
    if not isinstance(a, Var) or not isinstance(b, IntImm):
        return None
    if kind is GE or kind is GT:
        return a, b.value + (kind is GT), None
    return a, None, b.value + (kind is LE)


def _narrow(
    chain: Sequence[Ref], conditions: Sequence[PrimExpr]
) -> tuple[dict[Var, tuple[int, int]], list[PrimExpr]]:
    """Turn conditions into first and last values of loops, as far as these are bounds of them."""
    free = {
        r.loop.loop_var: (0, r.loop.extent.value)
        for r in chain
        if cannot_reshape(r) is None
        and isinstance(r.loop.extent, IntImm)
        and isinstance(r.loop.min, IntImm)
        and r.loop.min.value == 0
    }
    rest: list[PrimExpr] = []
    for condition in conditions:
        found = _bounds(condition)
        if found is None or found[0] not in free:
            rest.append(condition)
            continue
        var, first, after = found
        low, high = free[var]
        low = low if first is None else max(low, first)
        free[var] = (low, high if after is None else min(high, after))
    return free, rest


@primitive
def decompose_padding(context: Context, block: Sblock, loop: Loop) -> Ref:
    """Store the padding of a buffer first, in a block of its own before a loop.

    for i in range(10): P[i] = A[i - 1] if 1 <= i and i < 9 else 0
    -->                                        # at loop i
    for i in range(10): P[i] = 0
    for i in range(8): P[i + 1] = A[i]

    The name of the new block ends in ``_pad_const``, and it comes first; the other loops only run
    over the elements inside of the padding.

    Errors: SCH0004 for a loop that is not around this block only, SCH0007 for a block that fills
    nothing up.
    """
    if why := cannot_decompose_padding(block, loop):
        refuse(why)
    old, realize = block.block, block.realize
    padding = _match_padding(old)
    assert padding is not None
    store = old.body
    assert isinstance(store, BufferStore)
    loops = block.loops()
    chain = loops[next(n for n, r in enumerate(loops) if r is loop) :]
    filling = refresh_regions(
        rebuild(
            old,
            {
                "name_hint": f"{old.name_hint}_pad_const",
                "body": rebuild(store, {"value": padding.filling}),
                "annotations": {},
            },
        )
    )
    first: Stmt = rebuild(realize, {"block": filling})
    for around in reversed(chain):
        serial = around.loop.kind if around.loop.kind is ForKind.VECTORIZED else ForKind.SERIAL
        first = rebuild(around.loop, {"body": first, "kind": serial, "annotations": {}})
    first = fresh_copy(first, {})
    inner = refresh_regions(rebuild(old, {"body": rebuild(store, {"value": padding.inside})}))
    given = dict(zip((it.var for it in old.iter_vars), realize.values, strict=True))
    ranges, rest = _narrow(chain, [substitute(c, given) for c in conjuncts(padding.condition)])
    remaining = conjunction([*conjuncts(realize.predicate), *rest])
    second: Stmt = BlockRealize(realize.values, remaining, inner)
    for around in reversed(chain):
        loop_var, extent = around.loop.loop_var, around.loop.extent
        low, high = ranges.get(loop_var, (0, None))
        if low:
            second = substitute(second, {loop_var: add(loop_var, imm(low, loop_var.dtype))})
        if high is not None:
            extent = imm(max(0, high - low), extent.dtype)
        second = rebuild(around.loop, {"body": second, "extent": extent})
    made = seq((first, second))
    loop.home.replace(loop, made, {old: inner})
    found = innermost_body(first)
    assert isinstance(found, BlockRealize)
    return loop.home.ref(found)


# -- pad_einsum ------------------------------------------------------------------------------------
class _Einsum(NamedTuple):
    """A sum of products of loads: the loads, and what is stored."""

    loads: tuple[BufferLoad, ...]
    store: BufferStore


def _einsum_of(ref: Ref) -> _Einsum | str:
    """Read a block as a sum of products, or say why it is none."""
    update = update_of(ref.block)
    if update is None or update.operator is not Add:
        return "it is no sum"
    start = update.init.value
    if not isinstance(start, (IntImm, FloatImm)) or start.value != 0:
        return "its sum does not start at 0"
    if isinstance(start, FloatImm) and math.copysign(1.0, start.value) < 0:
        return "its sum starts at -0.0"
    own = {it.var for it in ref.block.iter_vars}
    loads: list[BufferLoad] = []
    stack: list[PrimExpr] = [update.value]
    while stack:
        part = stack.pop()
        if isinstance(part, Mul):
            stack += (part.b, part.a)
        elif isinstance(part, Cast):
            stack.append(part.value)
        elif isinstance(part, BufferLoad):
            loads.append(part)
        else:
            return "what it sums is not a product of elements"
    for indices in (update.store.indices, *(load.indices for load in loads)):
        if any(i not in own for i in indices) or len(set(map(id, indices))) < len(indices):
            return "an index is not one of its iterators, each once"
    for n, load in enumerate(loads):
        for other in loads[:n]:
            same = all(a is b for a, b in zip(load.indices, other.indices))
            if other.buffer.data is load.buffer.data and not same:
                return f"it takes {load.buffer.name!r} at two places"
    return _Einsum(tuple(loads), update.store)


def cannot_pad_einsum(ref: Ref, padding: Sequence[int]) -> Refusal | None:
    """Say why a block cannot run over a padded domain."""
    block, loops = ref.block, ref.loops()
    if len(padding) != len(block.iter_vars) or any(p < 1 for p in padding):
        return Refusal(
            "SCH0003",
            "block {!r} has {} iterators, padding is {}",
            (block.name_hint, len(block.iter_vars), list(padding)),
            "give a number of 1 or more for each iterator",
            ref.stmt,
        )
    found = _einsum_of(ref)
    if isinstance(found, str):
        return _kind(ref, found, "choose a block that sums products of elements, such as a matmul")
    same = len(loops) == len(padding) and all(
        r.loop.loop_var is v for r, v in zip(loops, ref.realize.values)
    )
    if not same or loops[0].parent is not ref.scope or loops[-1].loop.body is not ref.stmt:
        return Refusal(
            "SCH0004",
            "block {!r} is not bound to its loops one by one",
            (block.name_hint,),
            "pad the block before its loops are split, fused, reordered or moved",
            ref.stmt,
        )
    if why := cannot_chain(loops):
        return why
    for it, around in zip(block.iter_vars, loops):
        if why := cannot_reshape(around):
            return why
        dom, loop = it.dom, around.loop
        numbers = (loop.min, loop.extent, None if dom is None else dom.min, dom and dom.extent)
        values = [n.value if isinstance(n, IntImm) else None for n in numbers]
        if values[0] != 0 or values[2] != 0 or not values[1] or values[1] != values[3]:
            return Refusal(
                "SCH0005",
                "loop {!r} does not run over the domain of {!r} from 0 to a number",
                (loop.loop_var.name_hint, it.var.name_hint),
                "choose a block whose loops cover its whole domain",
                around.stmt,
            )
    if conjuncts(ref.realize.predicate):
        return _kind(ref, "it runs under a condition", "choose a block that always runs")
    return _cannot_be_nothing(ref, found, padding)


def _cannot_be_nothing(ref: Ref, found: _Einsum, padding: Sequence[int]) -> Refusal | None:
    """Say why what is added for padding may be something else than 0."""
    for it, by in zip(ref.block.iter_vars, padding):
        if it.iter_type is not IterVarType.COMM_REDUCE or _round_up(it, by) == _size(it):
            continue
        having = [any(i is it.var for i in load.indices) for load in found.loads]
        exact = all(not load.dtype.is_float for load in found.loads)
        if not (any(having) if exact else all(having)):
            return _kind(
                ref,
                f"a factor without {it.var.name_hint!r} may be infinite, and 0 times it is no 0",
                "leave this iterator as it is, or pad where all factors have it",
            )
    return None


def _size(it: IterVar) -> int:
    assert it.dom is not None
    assert isinstance(it.dom.extent, IntImm)
    return it.dom.extent.value


def _round_up(it: IterVar, by: int) -> int:
    return -(-_size(it) // by) * by


class _PaddedBuffer(NamedTuple):
    """A buffer over a padded domain, and the nest between it and the buffer that it stands for."""

    buffer: Buffer
    nest: Stmt


def _copy_between(
    ref: Ref, own: Buffer, indices: Sequence[PrimExpr], sizes: dict[Var, int], *, crop: bool
) -> _PaddedBuffer:
    """Make a padded buffer, and the nest that fills it, or takes the result out of it."""
    old = {it.var: _size(it) for it in ref.block.iter_vars}
    axes = [i for i in indices if isinstance(i, Var)]
    made = decl_buffer(
        [imm(sizes[v], v.dtype) for v in axes], own.dtype, f"{own.name}_pad", scope=own.scope
    )
    at = [Var(f"v{n}", v.dtype) for n, v in enumerate(axes)]
    loops = [Var(f"i{n}", v.dtype) for n, v in enumerate(axes)]
    runs = old if crop else sizes
    iters = [
        IterVar(Range(imm(0, v.dtype), imm(runs[axis], v.dtype)), v, IterVarType.DATA_PAR)
        for v, axis in zip(at, axes)
    ]
    if crop:
        store = BufferStore(own, BufferLoad(made, tuple(at)), tuple(at))
    else:
        tests = [LT(v, imm(old[x], v.dtype)) for v, x in zip(at, axes) if sizes[x] > old[x]]
        value: PrimExpr = BufferLoad(own, tuple(at))
        zero = _zero(own.dtype)
        store = BufferStore(
            made, Call(own.dtype, IF_THEN_ELSE, (conjunction(tests), value, zero)), tuple(at)
        )
    name = f"{own.name}_crop" if crop else f"{own.name}_pad"
    block = refresh_regions(Block(tuple(iters), (), (), name, store))
    extents = [imm(runs[axis], var.dtype) for var, axis in zip(loops, axes)]
    nest = nest_over(loops, extents, BlockRealize(tuple(loops), TRUE, block))
    return _PaddedBuffer(made, nest)


def _zero(dtype: DataType) -> PrimExpr:
    return FloatImm(0.0, dtype) if dtype.is_float else IntImm(0, dtype)


@primitive
def pad_einsum(context: Context, block: Sblock, padding: Ints) -> None:
    """Round up the iteration domain of a sum of products, and pad its operands with zeros.

    for i, k in grid(5, 7): C[i] += A[i, k] * B[k]
    -->                                        # by [4, 4]
    for i, k in grid(8, 8): A_pad[i, k] = A[i, k] if i < 5 and k < 7 else 0
    for k in range(8): B_pad[k] = B[k] if k < 7 else 0
    for i, k in grid(8, 8): C_pad[i] += A_pad[i, k] * B_pad[k]
    for i in range(5): C[i] = C_pad[i]

    ``padding`` has a number for each iterator, to whose next multiple its extent is rounded up.

    Errors: SCH0003, SCH0004 where loops were changed before, SCH0005 for extents that are no
    numbers, SCH0007 for a block that is no sum of products, or where 0 may be lost.
    """
    if why := cannot_pad_einsum(block, padding):
        refuse(why)
    found = _einsum_of(block)
    assert not isinstance(found, str)
    old = block.block
    sizes = {it.var: _round_up(it, by) for it, by in zip(old.iter_vars, padding)}
    grown: set[Node] = {it.var for it in old.iter_vars if sizes[it.var] > _size(it)}
    if not grown:
        return
    before: list[Stmt] = []
    after: list[Stmt] = []
    made: list[Buffer] = []
    replaced: dict[Node, Node] = {}
    for load in found.loads:
        if grown & set(free_definitions(load)) and load.buffer not in replaced:
            stage = _copy_between(block, load.buffer, load.indices, sizes, crop=False)
            before.append(stage.nest)
            made.append(stage.buffer)
            replaced[load.buffer] = stage.buffer
    if any(i in grown for i in found.store.indices):
        stage = _copy_between(block, found.store.buffer, found.store.indices, sizes, crop=True)
        after.append(stage.nest)
        made.append(stage.buffer)
        replaced[found.store.buffer] = stage.buffer
    assert old.init is not None
    iters = tuple(
        rebuild(it, {"dom": Range(imm(0, it.var.dtype), imm(sizes[it.var], it.var.dtype))})
        for it in old.iter_vars
    )
    body, init = substitute(old.body, replaced), substitute(old.init, replaced)
    new = refresh_regions(rebuild(old, {"iter_vars": iters, "body": body, "init": init}))
    nest: Stmt = rebuild(block.realize, {"block": new})
    for around, it in zip(reversed(block.loops()), reversed(iters)):
        extent = imm(sizes[it.var], around.loop.extent.dtype)
        nest = rebuild(around.loop, {"body": nest, "extent": extent})
    scope, top = block.scope, block.loops()[0].stmt
    assert top is not None
    placed = replace_part(scope.realize, top, seq((*before, nest, *after)))
    assert isinstance(placed, BlockRealize)
    owner = rebuild(placed.block, {"alloc_buffers": (*placed.block.alloc_buffers, *made)})
    whole = rebuild(placed, {"block": owner})
    if why := cannot_start(scope, whole, "pad the block first"):
        refuse(why)
    scope.home.replace(scope, whole, {old: new, scope.block: owner})
