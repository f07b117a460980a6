"""Primitives that split, fuse, partition and merge loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from loomir.arith.analyzer import Analyzer
from loomir.arith.fold import add, imm, mul, product, to_int
from loomir.ir.node import Node
from loomir.ir.visit import children, pre_order, rebuild, rewrite
from loomir.loops.blocks import guard_stmt
from loomir.loops.dependence import find_carrying_loops
from loomir.loops.ranges import loop_range
from loomir.schedule.blocks import cannot_start
from loomir.schedule.nests import cannot_chain, cannot_reshape, ranges_with_sizes, rebind_loops
from loomir.schedule.refusal import Refusal, refuse, replace_part
from loomir.schedule.state import Ref
from loomir.schedule.table import Context, Factors, Loop, Loops, Place, primitive
from loomir.support.dtype import DataType
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.buffer import Range
from loomir.tir.expr import LT, FloorDiv, FloorMod, IntImm, Max, PrimExpr, Var, cast
from loomir.tir.stmt import Block, BlockRealize, For, ForKind, SeqStmt, Stmt, seq

__all__ = [
    "add_unit_loop",
    "cannot_fuse",
    "cannot_merge",
    "cannot_split",
    "fuse",
    "loop_partition",
    "merge",
    "split",
]


def _ceil_div(a: PrimExpr, by: int) -> PrimExpr:
    if isinstance(a, IntImm):
        return imm(-(-a.value // by), a.dtype)
    return Analyzer().simplify(FloorDiv(a + imm(by - 1, a.dtype), imm(by, a.dtype)))


def _cannot_use(factors: Sequence[int | None]) -> Refusal | None:
    if not factors:
        return Refusal("SCH0003", "there are no factors", (), "give one factor for each loop")
    if sum(f is None for f in factors) > 1:
        return Refusal(
            "SCH0003",
            "more than one factor is None",
            (),
            "at most one factor may be None: it follows from the others",
        )
    for factor in factors:
        if factor is not None and factor < 1:
            return Refusal("SCH0003", "a factor is {}", (factor,), "use factors of 1 or more")
    return None


def cannot_split(ref: Ref, factors: Sequence[int | None]) -> Refusal | None:
    """Say why a loop cannot be split by factors."""
    if why := _cannot_use(factors) or cannot_reshape(ref):
        return why
    loop = ref.loop
    given = math.prod(f for f in factors if f is not None)
    if given > loop.loop_var.dtype.max_value:
        return Refusal(
            "SCH0005",
            "the product of the factors, {}, does not fit {}",
            (given, loop.loop_var.dtype),
            "use smaller factors",
            loop,
        )
    if None in factors:
        return None
    if isinstance(loop.extent, IntImm):
        enough = loop.extent.value <= given
    else:
        enough = Analyzer().can_prove(loop.extent <= given)
    if enough:
        return None
    return Refusal(
        "SCH0005",
        "loop {!r} runs {} times, factors give {}",
        (loop.loop_var.name_hint, loop.extent, given),
        "leave one factor out as None, or use factors whose product is at least the extent",
        loop,
    )


@primitive
def split(
    context: Context, loop: Loop, factors: Factors, preserve_unit_iters: bool = True
) -> list[Ref]:
    """Split a loop into a nest, outermost first; one factor may be None, to be inferred.

    for i in range(12): f(i)
    -->                                        # factors=[3, 4]
    for i_0 in range(3):
        for i_1 in range(4): f(i_0 * 4 + i_1)

    If the product of the factors exceeds the extent, blocks get a predicate. Without
    ``preserve_unit_iters``, indices do not mention loops of one iteration.

    Errors: SCH0003 for factors that are none, SCH0004 for a loop that is marked, SCH0005 for
    factors that give less, SCH0006 where a reduction would not start at its start.
    """
    if why := cannot_split(loop, factors):
        refuse(why)
    old = loop.loop
    dtype = old.loop_var.dtype
    rest = math.prod(f for f in factors if f is not None)
    extents = [_ceil_div(old.extent, rest) if f is None else imm(f, dtype) for f in factors]
    name = old.loop_var.name_hint
    loops = [Var(f"{name}_{number}", dtype) for number in range(len(factors))]
    index: PrimExpr = imm(0, dtype)
    for var, extent in zip(loops, extents):
        is_one = isinstance(extent, IntImm) and extent.value == 1
        index = mul(index, extent)
        if preserve_unit_iters or not is_one:
            index = add(index, var)
    ranges = {var: Range(imm(0, dtype), e) for var, e in zip(loops, extents)}
    body = rebind_loops(loop, old.body, {old.loop_var: add(old.min, index)}, ranges)
    if not _covers(extents, old.extent):
        body = guard_stmt(body, LT(index, old.extent))
    nodes = _nest(loops, extents, body)
    if why := cannot_start(loop, nodes[0], "split before loops are fused, or by other factors"):
        refuse(why)
    loop.home.replace(loop, nodes[0])
    return [loop.home.ref(node) for node in nodes]


def _covers(extents: Sequence[PrimExpr], extent: PrimExpr) -> bool:
    """Tell whether a nest runs as often as the loop that it comes from, and not more often."""
    return Analyzer().can_prove_equal(product(extents), extent)


def _nest(loops: Sequence[Var], extents: Sequence[PrimExpr], body: Stmt) -> list[For]:
    """Make serial loops around a body, and return them outermost first."""
    made: list[For] = []
    for var, extent in zip(reversed(loops), reversed(extents)):
        body = For(var, imm(0, var.dtype), extent, ForKind.SERIAL, body)
        made.append(body)
    made.reverse()
    return made


def cannot_fuse(loops: Sequence[Ref]) -> Refusal | None:
    """Say why loops cannot become one."""
    if not loops:
        return Refusal("SCH0003", "there are no loops", (), "give one loop at least")
    for ref in loops:
        if why := cannot_reshape(ref):
            return why
    if why := cannot_chain(loops):
        return why
    if why := _cannot_depend(loops):
        return why
    dtype = _widest(loops)
    known = math.prod(r.loop.extent.value for r in loops if isinstance(r.loop.extent, IntImm))
    if known > dtype.max_value:
        return Refusal(
            "SCH0005",
            "the loops run {} times, which does not fit {}",
            (known, dtype),
            "fuse fewer loops",
            loops[0].stmt,
        )
    return None


def _cannot_depend(loops: Sequence[Ref]) -> Refusal | None:
    """Say which loop's bounds change with another one."""
    names: set[Node] = set()
    for ref in loops:
        for part in (*pre_order(ref.loop.min), *pre_order(ref.loop.extent)):
            if part in names:
                return Refusal(
                    "SCH0005",
                    "the bounds of loop {!r} change with loop {!r}",
                    (ref.loop.loop_var.name_hint, getattr(part, "name_hint", part)),
                    "choose loops whose bounds do not depend on one another",
                    ref.stmt,
                )
        names.add(ref.loop.loop_var)
    return None


def _widest(loops: Sequence[Ref]) -> DataType:
    return max((r.loop.loop_var.dtype for r in loops), key=lambda d: d.bits)


@primitive
def fuse(context: Context, *loops: Loops, preserve_unit_iters: bool = True) -> Ref:
    """Fuse perfectly nested loops into one.

    for i in range(3):
        for j in range(4): f(i, j)
    -->
    for i_j_fused in range(12): f(i_j_fused // 4, i_j_fused % 4)

    Errors: SCH0004 for loops with something between them, SCH0005 for bounds that change with
    another of the loops, SCH0006 where a reduction would not start at its start.
    """
    refs: Sequence[Ref] = loops
    if why := cannot_fuse(refs):
        refuse(why)
    dtype = _widest(refs)
    nodes = [r.loop for r in refs]
    fused = Var("_".join(n.loop_var.name_hint for n in nodes) + "_fused", dtype)
    extents = [to_int(n.extent, dtype) for n in nodes]
    values: dict[Var, PrimExpr] = {}
    for place, node in enumerate(nodes):
        inner = product(extents[place + 1 :]) if place + 1 < len(nodes) else imm(1, dtype)
        value: PrimExpr = fused
        if not (isinstance(inner, IntImm) and inner.value == 1):
            value = FloorDiv(value, to_int(inner, dtype))
        if place:
            value = FloorMod(value, extents[place])
        is_one = isinstance(node.extent, IntImm) and node.extent.value == 1
        if is_one and (place or len(nodes) > 1):
            value = imm(0, dtype)
        values[node.loop_var] = add(node.min, cast(value, node.loop_var.dtype))
    extent = to_int(product(_clamp_negatives(refs[0], extents)), dtype)
    ranges = {fused: Range(imm(0, dtype), extent)}
    body = rebind_loops(refs[0], nodes[-1].body, values, ranges)
    made = For(fused, imm(0, dtype), extent, ForKind.SERIAL, body)
    advice = "fuse spatial loops with spatial ones, and reducing ones with reducing ones"
    if why := cannot_start(refs[0], made, advice):
        refuse(why)
    refs[0].home.replace(refs[0], made)
    return refs[0].home.ref(made)


def _clamp_negatives(ref: Ref, extents: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return extents of which one may be negative at most: two would make iterations together."""
    analyzer = Analyzer()
    for dim in (dim for b in ref.home.func.buffer_map.values() for dim in b.shape):
        if isinstance(dim, Var):
            analyzer.assume_size(dim)
        elif not isinstance(dim, IntImm):
            analyzer.enter(dim >= 0)
    made: list[PrimExpr] = []
    found = False
    for extent in extents:
        proved = analyzer.can_prove(extent >= 0)
        made.append(extent if proved or not found else Max(extent, imm(0, extent.dtype)))
        found = found or not proved
    return made


@primitive
def add_unit_loop(context: Context, block_or_loop: Place) -> Ref:
    """Wrap a block or loop in a loop of one iteration.

    f()
    -->
    for u in range(1): f()

    Errors: SCH0004 for the block of the whole function.
    """
    ref, inside = block_or_loop, block_or_loop.stmt
    assert inside is not None
    if ref.parent is None:
        refuse(_is_root(inside))
    dtype = DataType("int32")
    made = For(Var("u", dtype), imm(0, dtype), imm(1, dtype), ForKind.SERIAL, inside)
    ref.home.replace(ref, made)
    return ref.home.ref(made)


def _is_root(stmt: Stmt) -> Refusal:
    return Refusal(
        "SCH0004",
        "the block of the whole function has nothing around it",
        (),
        "choose a block or loop inside of it",
        stmt,
    )


# -- loops that follow one another -----------------------------------------------------------------
@primitive
def loop_partition(
    context: Context, loop: Loop, factors: Factors, preserve_unit_iters: bool = True
) -> list[Ref]:
    """Partition a loop into consecutive loops with given numbers of iterations.

    for i in range(12): f(i)
    -->                                        # factors=[2, None]
    for i_0 in range(2): f(i_0)
    for i_1 in range(10): f(i_1 + 2)

    Blocks are copied, with the number of the loop in their names; references to the old ones become
    invalid.

    Errors: SCH0003 for factors that are none, SCH0004 for a loop that is marked, SCH0005 for an
    extent that is not a constant or not the sum of the factors, SCH0006 where a reduction would not
    start at its start.
    """
    if why := _cannot_partition(loop, factors):
        refuse(why)
    old = loop.loop
    dtype = old.loop_var.dtype
    assert isinstance(old.extent, IntImm)
    left = old.extent.value - sum(f for f in factors if f is not None)
    parts: list[Stmt] = []
    start = 0
    for number, factor in enumerate(factors):
        count = left if factor is None else factor
        var = Var(f"{old.loop_var.name_hint}_{number}", dtype)
        value = add(old.min, add(var, imm(start, dtype)))
        ranges = {var: Range(imm(0, dtype), imm(count, dtype))}
        body = rebind_loops(loop, old.body, {old.loop_var: value}, ranges)
        body = _number_blocks(fresh_copy(body, {}), number)
        parts.append(For(var, imm(0, dtype), imm(count, dtype), ForKind.SERIAL, body))
        start += count
    made = seq(parts)
    advice = "partition a spatial loop, or give the init a block first with decompose_reduction"
    if why := cannot_start(loop, made, advice):
        refuse(why)
    loop.home.replace(loop, made)
    return [loop.home.ref(part) for part in parts if isinstance(part, For)]


def _cannot_partition(ref: Ref, factors: Sequence[int | None]) -> Refusal | None:
    if why := _cannot_use(factors) or cannot_reshape(ref):
        return why
    loop = ref.loop
    given = sum(f for f in factors if f is not None)
    if isinstance(loop.extent, IntImm):
        left = loop.extent.value - given
        if (left == 0 and None not in factors) or (left > 0 and None in factors):
            return None
    return Refusal(
        "SCH0005",
        "loop {!r} runs {} times, factors give {}",
        (loop.loop_var.name_hint, loop.extent, given),
        "partition a loop of constant extent by factors whose sum it is; one may be None",
        loop,
    )


def _number_blocks(stmt: Stmt, number: int) -> Stmt:
    """Put a number after the names of the blocks of a copy."""
    return _rename_blocks(stmt, f"_{number}")


def _rename_blocks(stmt: Stmt, suffix: str) -> Stmt:
    def rename(block: Block) -> Block:
        return rebuild(block, {"name_hint": block.name_hint + suffix})

    return rewrite(stmt, {Block: rename})


def cannot_merge(loops: Sequence[Ref]) -> Refusal | None:
    """Say why loops cannot become one loop that runs the bodies of all."""
    if len(loops) < 2:
        return Refusal("SCH0003", "there are fewer than two loops", (), "give two loops or more")
    for ref in loops:
        if why := cannot_reshape(ref):
            return why
    first = loops[0]
    home = first.parent
    for before, ref in pairwise(loops):
        if ref.parent is not home or home is None or not _is_adjacent(before, ref):
            return Refusal(
                "SCH0004",
                "loop {!r} does not follow loop {!r}",
                (ref.loop.loop_var.name_hint, before.loop.loop_var.name_hint),
                "give loops that follow one another directly, in their order",
                ref.stmt,
            )
        same = Analyzer()
        if not (
            same.can_prove_equal(ref.loop.extent, first.loop.extent)
            and same.can_prove_equal(ref.loop.min, first.loop.min)
        ):
            return Refusal(
                "SCH0005",
                "loop {!r} runs {} times, loop {!r} {}",
                (
                    ref.loop.loop_var.name_hint,
                    ref.loop.extent,
                    first.loop.loop_var.name_hint,
                    first.loop.extent,
                ),
                "give loops of the same start and extent",
                ref.stmt,
            )
    return None


def _is_adjacent(a: Ref, b: Ref) -> bool:
    """Tell whether one loop directly follows another in a sequence."""
    assert a.parent is not None
    assert a.parent.stmt is not None
    stack: list[Stmt] = [s for s in children(a.parent.stmt) if isinstance(s, Stmt)]
    while stack:
        node = stack.pop()
        if isinstance(node, SeqStmt):
            for x, y in zip(node.seq, node.seq[1:]):
                if x is a.stmt and y is b.stmt:
                    return True
        if not isinstance(node, (For, BlockRealize)):
            stack.extend(s for s in children(node) if isinstance(s, Stmt))
    return False


@primitive
def merge(context: Context, *loops: Loops) -> Ref:
    """Merge consecutive loops into one that runs all their bodies.

    for i in range(8): f(i)
    for j in range(8): g(j)
    -->
    for i in range(8):
        f(i)
        g(i)

    Errors: SCH0004 for loops that do not follow one another, SCH0005 for extents that differ,
    SCH0006 where an iteration of one needs more than the same iteration of those before.
    """
    refs: Sequence[Ref] = loops
    if why := cannot_merge(refs):
        refuse(why)
    first = refs[0].loop
    bodies: list[Stmt] = [first.body]
    ranges = {first.loop_var: loop_range(first)}
    for ref in refs[1:]:
        value = cast(first.loop_var, ref.loop.loop_var.dtype)
        bodies.append(rebind_loops(refs[0], ref.loop.body, {ref.loop.loop_var: value}, ranges))
    made = rebuild(first, {"body": seq(bodies)})
    for _, why in find_carrying_loops([made], ranges_with_sizes(refs[0])):
        refuse(
            Refusal(
                "SCH0006",
                "in one loop, {}",
                (why,),
                "merge loops whose iterations need only what the same iteration makes",
                refs[1].stmt,
            )
        )
    if why := cannot_start(refs[0], made, "merge loops that are outside of reductions"):
        refuse(why)
    parent = refs[0].parent
    assert parent is not None
    _merge_into(parent, [r.stmt for r in refs if r.stmt is not None], made)
    return refs[0].home.ref(made)


def _merge_into(parent: Ref, old: list[Stmt], made: Stmt) -> None:
    """Put one statement in the place of several that follow one another."""
    before = parent.stmt
    assert before is not None
    gone = {id(s) for s in old[1:]}

    def merge_adjacent(node: SeqStmt) -> Stmt:
        if not any(s is old[0] for s in node.seq):
            return node
        return seq(made if s is old[0] else s for s in node.seq if id(s) not in gone)

    stack: list[Stmt] = [s for s in children(before) if isinstance(s, Stmt)]
    while stack:
        node = stack.pop()
        if isinstance(node, SeqStmt) and any(s is old[0] for s in node.seq):
            new = replace_part(before, node, merge_adjacent(node), enter=False)
            assert new is not None
            parent.home.replace(parent, new)
            return
        if not isinstance(node, (For, BlockRealize)):
            stack.extend(s for s in children(node) if isinstance(s, Stmt))
