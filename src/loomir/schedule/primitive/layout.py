"""Primitives that change a buffer itself: storage scope, layout, dtype."""

from __future__ import annotations

from math import prod
from typing import Any

from loomir.arith.fold import imm
from loomir.arith.iterators.index_map import IndexMap, is_bijective
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order, rebuild, rewrite
from loomir.loops.nests import nest_over
from loomir.loops.ranges import analyzer_for, ranges_in
from loomir.schedule.moving import refresh_regions
from loomir.schedule.nests import ranges_with_sizes
from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.staging import (
    cannot_store_in,
    find_accessed_buffer,
    find_foreign,
    is_too_large,
    pair_blocks,
)
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Int, Sblock, Value, primitive
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
    IterVar,
    IterVarType,
    MatchBufferRegion,
    Range,
    decl_buffer,
)
from loomir.tir.expr import IntImm, PrimExpr, Var, cast, const
from loomir.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Stmt,
    seq,
)

__all__ = ["cannot_change", "set_scope", "storage_align", "transform_layout", "unsafe_set_dtype"]


def _refusal(ref: Ref, buffer: Buffer, why: str, advice: str, code: str = "SCH0010") -> Refusal:
    return Refusal(code, "buffer {!r} {}", (buffer.name, why), advice, ref.stmt)


def _owner(ref: Ref, buffer: Buffer) -> Ref | None:
    """Find the block that allocates a buffer."""
    for around in (ref, *ref.list_around()):
        if not around.is_loop and any(b is buffer for b in around.block.alloc_buffers):
            return around
    return None


def cannot_change(ref: Ref, buffer: Buffer) -> Refusal | None:
    """Say why a buffer has to stay as it is."""
    owner = _owner(ref, buffer)
    if owner is None:
        return _refusal(
            ref,
            buffer,
            "is none that the function allocates: others know how it lies in memory",
            "choose an intermediate buffer, such as one that cache_read or cache_write makes",
        )
    for node in pre_order(owner.block):
        why = ""
        if node is buffer.data:
            why = "is used by its pointer"
        elif isinstance(node, MatchBufferRegion) and node.source.buffer.data is buffer.data:
            why = "has a view of another name"
        elif (
            isinstance(node, (BufferLoad, BufferStore))
            and node.buffer.data is buffer.data
            and node.buffer is not buffer
        ):
            why = "shares its memory with another one"
        if why:
            return _refusal(ref, buffer, why, "choose a buffer that is only loaded and stored")
    if buffer.axis_separators:
        return _refusal(
            ref, buffer, "has separated axes", "choose a buffer without axis separators"
        )
    return None


def _like(buffer: Buffer, **changed: Any) -> Buffer:
    """Make a buffer in memory of its own, like another one but for what is given."""
    fields: dict[str, Any] = {
        "shape": buffer.shape,
        "dtype": buffer.dtype,
        "name": buffer.name,
        "strides": buffer.strides,
        "scope": buffer.scope,
        "data_alignment": buffer.data_alignment,
        "offset_factor": buffer.offset_factor,
        "span": buffer.span,
        **changed,
    }
    return decl_buffer(**fields)


def _replace(ref: Ref, buffer: Buffer, new: Buffer) -> None:
    """Put a buffer of the same shape and dtype in the place of one."""
    owner = _owner(ref, buffer)
    assert owner is not None
    made = substitute(owner.realize, {buffer: new, buffer.data: new.data})
    allocated = tuple(new if b is buffer else b for b in made.block.alloc_buffers)
    made = rebuild(made, {"block": rebuild(made.block, {"alloc_buffers": allocated})})
    owner.home.replace(owner, made, pair_blocks(owner.realize, made))


@primitive
def set_scope(context: Context, block: Sblock, buffer_index: Value, storage_scope: str) -> None:
    """Change the storage scope of a buffer that a block writes.

    B = T.alloc_buffer((8,))
    -->
    B = T.alloc_buffer((8,), scope="local")

    Errors: SCH0003, SCH0008 for memory that CPUs lack, SCH0010 for a buffer that the function does
    not allocate.
    """
    buffer = find_accessed_buffer(block, buffer_index, "write")
    if why := cannot_store_in(block, storage_scope) or cannot_change(block, buffer):
        refuse(why)
    if buffer.scope != storage_scope:
        _replace(block, buffer, _like(buffer, scope=storage_scope))


# -- rows that start at multiples --------------------------------------------------------------
def _align_strides(ref: Ref, buffer: Buffer, axis: int, factor: int, offset: int) -> list[int]:
    """Return the strides where one of them is a multiple plus an offset."""
    if not -len(buffer.shape) <= axis < len(buffer.shape):
        advice = f"it has axes 0 to {len(buffer.shape) - 1}"
        refuse(_refusal(ref, buffer, f"has no axis {axis}", advice, "SCH0003"))
    if factor < 1 or not 0 <= offset < factor:
        why = f"cannot have a stride of {offset} more than a multiple of {factor}"
        advice = "use a factor of 1 or more, and an offset from 0 up to it"
        refuse(_refusal(ref, buffer, why, advice, "SCH0003"))
    if buffer.strides:
        refuse(_refusal(ref, buffer, "has strides already", "align one axis of it, once"))
    strides: list[int] = []
    step = 1
    for place, extent in reversed(list(enumerate(buffer.shape))):
        if place == axis % len(buffer.shape):
            step += (offset - step) % factor
        strides.append(step)
        if not isinstance(extent, IntImm):
            if place:
                why = f"has {extent} elements on axis {place}, which is no constant"
                refuse(
                    _refusal(
                        ref,
                        buffer,
                        why,
                        "choose a buffer of which at most axis 0 has an unknown extent",
                    )
                )
            break
        step *= max(extent.value, 1)
    if step >= 1 << 31 or is_too_large(buffer.shape, step):
        refuse(_refusal(ref, buffer, "would be too large", "use a smaller factor", "SCH0003"))
    return strides[::-1]


@primitive
def storage_align(
    context: Context, block: Sblock, buffer_index: Value, axis: Int, factor: Int, offset: Int
) -> None:
    """Align the stride of an axis of a buffer that a block writes, by padding.

    B = T.alloc_buffer((8, 30))
    -->                                        # axis=0, factor=32, offset=1
    B = T.alloc_buffer((8, 30), strides=(33, 1))

    A step along the axis is then ``offset`` elements more than a multiple of ``factor``.

    Errors: SCH0003, SCH0010 for a buffer that the function does not allocate, or has strides.
    """
    buffer = find_accessed_buffer(block, buffer_index, "write")
    if why := cannot_change(block, buffer):
        refuse(why)
    strides = _align_strides(block, buffer, axis, factor, offset)
    made = [imm(s, e.dtype) for s, e in zip(strides, buffer.shape)]
    _replace(block, buffer, _like(buffer, strides=made))


# -- other elements ----------------------------------------------------------------------------
@primitive
def unsafe_set_dtype(context: Context, block: Sblock, buffer_index: Value, dtype: str) -> None:
    """Change the dtype of a buffer that a block writes; results may change.

    B = T.alloc_buffer((8,), "float32")
    B[v] = A[v] + 1
    -->                                        # dtype="float16"
    B = T.alloc_buffer((8,), "float16")
    B[v] = T.Cast("float16", A[v] + 1)

    This is the only primitive that may change the meaning of the program: values that do not fit
    the new dtype are rounded, or wrap.

    Errors: SCH0003, SCH0010 for a buffer that the function does not allocate, or whose elements are
    no numbers.
    """
    buffer = find_accessed_buffer(block, buffer_index, "write")
    try:
        wanted = DataType(dtype)
    except CompileError as error:
        advice = error.diagnostics[0].help or "use a dtype such as 'float16'"
        refuse(_refusal(block, buffer, f"cannot hold {dtype!r}", advice, "SCH0003"))
    if why := cannot_change(block, buffer):
        refuse(why)
    for each in (wanted, buffer.dtype):
        if each.lanes != 1 or not (each.is_integer or each.is_float or each.is_bfloat):
            why = f"cannot go from {buffer.dtype} to {wanted}"
            refuse(_refusal(block, buffer, why, "use scalar integers and floats"))
    if buffer.dtype is wanted:
        return
    new = _like(buffer, dtype=wanted)

    def load(node: BufferLoad) -> PrimExpr:
        if node.buffer is not buffer:
            return node
        return cast(BufferLoad(new, node.indices), node.dtype)

    def store(node: BufferStore) -> Stmt:
        if node.buffer is not buffer:
            return node
        value = cast(node.value, wanted.with_lanes(node.value.dtype.lanes))
        return BufferStore(new, value, node.indices, span=node.span)

    _rewrite(block, buffer, new, {BufferLoad: load, BufferStore: store})


def _rewrite(
    ref: Ref, buffer: Buffer, new: Buffer, table: dict[Any, Any], first: Stmt | None = None
) -> None:
    """Rewrite all uses of a buffer, and put a statement before them."""
    owner = _owner(ref, buffer)
    assert owner is not None
    touched = {
        id(n)
        for n in pre_order(owner.block.body)
        if isinstance(n, Block)
        and any(
            isinstance(m, (BufferLoad, BufferStore, BufferRegion)) and m.buffer is buffer
            for m in pre_order(n)
        )
    }
    untouched = {id(n) for n in pre_order(owner.block.body) if isinstance(n, Block)} - touched

    def redeclare(block: Block) -> Block:
        return block if id(block) in untouched else refresh_regions(block)

    body = rewrite(owner.block.body, {**table, Block: redeclare})
    init = None if owner.block.init is None else rewrite(owner.block.init, table)
    blocks = pair_blocks(owner.block.body, body)
    fields: dict[str, Any] = {
        "body": body if first is None else seq((first, body)),
        "init": init,
        "alloc_buffers": tuple(new if b is buffer else b for b in owner.block.alloc_buffers),
    }
    made = rebuild(owner.realize, {"block": rebuild(owner.block, fields)})
    owner.home.replace(owner, made, {**blocks, owner.block: made.block})


# -- another order of elements -----------------------------------------------------------------
def resolve_buffer(block: Ref, given: object) -> Buffer:
    """Return a buffer of a block: ``("read", 0)``, ``("write", 0)``, or its name."""
    if isinstance(given, (list, tuple)):
        pair: list[Any] = list(given)  # pyright: ignore[reportUnknownArgumentType]
        if len(pair) == 2 and pair[0] in ("read", "write"):
            return find_accessed_buffer(block, pair[1], pair[0])
    elif isinstance(given, str):
        for how in ("write", "read"):
            regions = block.block.reads if how == "read" else block.block.writes
            if any(r.buffer.name == given for r in regions):
                return find_accessed_buffer(block, given, how)
        return find_accessed_buffer(block, given, "read")
    refuse(
        Refusal(
            "SCH0003",
            "{!r} is not a buffer of block {!r}",
            (given, block.block.name_hint),
            'give ("read", 0), ("write", 0), or the name of a buffer',
            block.stmt,
        )
    )


def _map_shape(ref: Ref, buffer: Buffer, index_map: IndexMap) -> tuple[PrimExpr, ...]:
    """Return the shape of a new layout, or stop with the reason why there is none."""
    other = find_foreign(index_map.final_indices, index_map.initial_indices)
    if other is not None:
        advice = "use the map's own indices, and constants"
        refuse(_refusal(ref, buffer, f"cannot have a layout by {other}", advice, "SCH0003"))
    analyzer = analyzer_for(ranges_with_sizes(ref))
    advice = "use a map that splits, fuses and reorders axes, each element to one place"
    try:
        ranges = [Range(imm(0, e.dtype), e) for e in buffer.shape]
        found = index_map.detect(buffer.shape, "injective", analyzer=analyzer)
        shape = index_map.map_shape(buffer.shape, analyzer=analyzer)
        lowest = [r.min for r in index_map.map_ranges(ranges, analyzer=analyzer)]
    except CompileError as error:
        why = f"has no such layout: {error.diagnostics[0].message}"
        refuse(_refusal(ref, buffer, why, error.diagnostics[0].help or advice, "SCH0003"))
    if found.errors:
        why = f"may have elements at the same place: {found.errors[0].message}"
        refuse(_refusal(ref, buffer, why, advice, "SCH0003"))
    if not index_map.final_indices:
        refuse(_refusal(ref, buffer, "needs an axis", advice, "SCH0003"))
    if not all(analyzer.can_prove(low >= 0) for low in lowest):
        refuse(_refusal(ref, buffer, "would start before its start", advice, "SCH0003"))
    count = prod(e.value if isinstance(e, IntImm) else 1 for e in shape)
    if is_too_large(buffer.shape, count):
        refuse(_refusal(ref, buffer, "would be too large", advice, "SCH0003"))
    return shape


def _pad_element(ref: Ref, buffer: Buffer, value: Any, own: list[Var]) -> PrimExpr:
    """Return what an element of the padding holds, or stop with the reason why it cannot."""
    advice = "give a number that the dtype has, or a function of the new indices"
    why = f"cannot hold {value}"
    try:
        if isinstance(value, IndexMap):
            if len(value.initial_indices) == len(own) and len(value.final_indices) == 1:
                (element,) = value.map_indices(own)
                if find_foreign([element], own) is None:
                    return cast(element, buffer.dtype)
        elif isinstance(value, (int, float)):
            return const(value, buffer.dtype)
        elif isinstance(value, PrimExpr) and find_foreign([value], []) is None:
            return cast(value, buffer.dtype)
    except CompileError as error:
        why = f"cannot hold {value}: {error.diagnostics[0].message}"
    refuse(_refusal(ref, buffer, why, advice, "SCH0003"))


def _make_padding(
    ref: Ref, buffer: Buffer, new: Buffer, index_map: IndexMap, value: Any
) -> Stmt | None:
    """Make a block that fills what no element of the old layout is; None if there is nothing."""
    analyzer = analyzer_for(ranges_with_sizes(ref))
    if is_bijective(index_map, buffer.shape, analyzer=analyzer):
        return None
    if value is None:
        why = "would have elements in the new layout that only fill it up"
        refuse(_refusal(ref, buffer, why, "say what these hold, with pad_value", "SCH0003"))
    try:
        inverse, outside = index_map.non_surjective_inverse(buffer.shape, analyzer=analyzer)
    except CompileError as error:
        why = f"has padding that is not known: {error.diagnostics[0].message}"
        refuse(_refusal(ref, buffer, why, "pad whole blocks at the end of an axis", "SCH0003"))
    loops = [Var(f"ax{n}", e.dtype) for n, e in enumerate(new.shape)]
    own = [Var(f"v{n}", e.dtype) for n, e in enumerate(new.shape)]
    element = _pad_element(ref, buffer, value, own)
    where = substitute(outside, dict(zip(inverse.initial_indices, loops)))
    if isinstance(where, IntImm) and not where.value:
        return None
    store = BufferStore(new, element, tuple(own))
    iters = tuple(
        IterVar(Range(imm(0, e.dtype), e), v, IterVarType.DATA_PAR) for v, e in zip(own, new.shape)
    )
    block = refresh_regions(Block(iters, (), (), f"{buffer.name}_pad", store))
    return nest_over(loops, new.shape, BlockRealize(tuple(loops), where, block))


def _has_vector_accesses(owner: Ref, buffer: Buffer) -> bool:
    """Tell whether several elements of a buffer are loaded or stored at once."""
    return any(
        isinstance(node, (BufferLoad, BufferStore))
        and node.buffer is buffer
        and any(i.dtype.lanes != 1 for i in node.indices)
        for node in pre_order(owner.block)
    )


@primitive
def transform_layout(
    context: Context,
    block: Sblock,
    buffer: Value,
    index_map: IndexMap,
    pad_value: Any = None,
    assume_injective_transform: bool = False,
) -> None:
    """Transform the layout of a buffer by an index map.

    B = T.alloc_buffer((8, 16))
    B[vi, vj] = A[vi, vj]
    -->                                        # lambda i, j: (j // 4, i, j % 4)
    B = T.alloc_buffer((4, 8, 4))
    B[vj // 4, vi, vj % 4] = A[vi, vj]

    The buffer is ``("read", 0)``, ``("write", 0)`` or a name. If the new layout has more
    elements, ``pad_value`` is their value: a number, or a function of the new indices. The map is
    proved to be injective; ``assume_injective_transform`` has no effect.

    Errors: SCH0003 for a map of which that is not known, SCH0010 for a buffer that the function
    does not allocate.
    """
    old = resolve_buffer(block, buffer)
    if why := cannot_change(block, old):
        refuse(why)
    if old.strides:
        refuse(_refusal(block, old, "has strides", "transform the layout before storage_align"))
    owner = _owner(block, old)
    assert owner is not None
    if _has_vector_accesses(owner, old):
        advice = "transform the layout before code is written in vectors"
        refuse(_refusal(block, old, "is read or written in vectors", advice))
    shape = _map_shape(owner, old, index_map)
    new = _like(old, shape=shape)
    padding = _make_padding(owner, old, new, index_map, pad_value)
    known = {**ranges_with_sizes(owner), **ranges_in(owner.block.body)}
    for node in pre_order(owner.block):
        if isinstance(node, IterVar) and node.dom is not None:
            known[node.var] = node.dom
    analyzer = analyzer_for(known)

    def load(node: BufferLoad) -> PrimExpr:
        if node.buffer is not old:
            return node
        return BufferLoad(new, index_map.map_indices(node.indices, analyzer=analyzer))

    def store(node: BufferStore) -> Stmt:
        if node.buffer is not old:
            return node
        at = index_map.map_indices(node.indices, analyzer=analyzer)
        return BufferStore(new, node.value, at, span=node.span)

    _rewrite(block, old, new, {BufferLoad: load, BufferStore: store}, padding)
