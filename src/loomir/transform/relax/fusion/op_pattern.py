"""Classify how a kernel reads the elements of its arguments, which decides what it fuses with.

The pattern follows from the indices in its blocks, so it works for kernels of any origin.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from loomir.ir.module import GlobalVar
from loomir.ir.visit import by_class, pre_order
from loomir.loops.nests import is_serial
from loomir.tir.analysis.effects import Effects, effects_of_node
from loomir.tir.buffer import Buffer, BufferLoad, IterVar
from loomir.tir.expr import (
    Add,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    PrimExpr,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
)
from loomir.transform.relax.fusion.kernel_binding import output_of
from loomir.transform.relax.fusion.loop_nests import (
    Elements,
    elements_of,
    leaf_blocks,
    parts_of,
    size_analyzer,
)

__all__ = ["OpPattern", "op_pattern"]

_DIVISIONS: Final = (Div, Mod, FloorDiv, FloorMod)


class OpPattern(IntEnum):
    """Kinds of kernels, from special to general; the values are those of ``op_pattern``."""

    ELEMENT_WISE = 0
    """Each element of the output depends on elements at the same index."""
    BROADCAST = 1
    """The same, with arguments that may lack axes or have axes of extent 1."""
    INJECTIVE = 2
    """Each element of the output depends on single elements at any index."""
    REDUCTION = 3
    OUTPUT_FUSABLE = 4
    """Costly, such as a matrix product; element-wise operations on its output can be fused."""
    OPAQUE = 8


def op_pattern(func: PrimFunc) -> OpPattern:
    """Return the kind of a kernel; OPAQUE unless it is certainly of another kind."""
    output = output_of(func)
    if output is None or not _is_understood(func, output):
        return OpPattern.OPAQUE
    allocated, parts = parts_of(func)
    analyzer = size_analyzer(iter((*func.buffer_map.values(), *allocated)))
    writing = [part for part in parts if _stores_to(part, output)]
    elements = elements_of(writing[-1], analyzer) if len(writing) == 1 else None
    if elements is not None:
        return _classify_elements(elements) if len(parts) == 1 else OpPattern.OUTPUT_FUSABLE
    return _classify_reduction(writing, parts, output)


def _is_understood(func: PrimFunc, output: Buffer) -> bool:
    """Tell whether a function does nothing but compute its output from its arguments."""
    allocated, _ = parts_of(func)
    found = by_class(func.body)
    known = {For, SeqStmt, BlockRealize, Block, IfThenElse, BufferStore}
    if any(issubclass(cls, Stmt) and cls not in known for cls in found):
        return False
    if not all(map(is_serial, found.get(For, ()))):
        return False
    own = {id(b) for b in allocated}
    inner = [b for block in found.get(Block, ()) for b in block.alloc_buffers]
    if any(id(b) not in own for b in inner):
        return False
    if any(block.match_buffers or block.annotations for block in found.get(Block, ())):
        return False
    own.add(id(output))
    if any(id(store.buffer) not in own for store in found.get(BufferStore, ())):
        return False
    return _is_harmless(found) and _starts_output(func, output)


def _is_harmless(found: dict[type, list[Call]] | dict[type, list[object]]) -> bool:
    """Tell whether expressions have no effects; dividing by a loop's extent cannot fail in it."""
    bound = {it.var for it in found.get(IterVar, ()) if isinstance(it, IterVar)}
    bound |= {loop.loop_var for loop in found.get(For, ()) if isinstance(loop, For)}
    for cls, nodes in found.items():
        if not issubclass(cls, PrimExpr):
            continue
        for node in nodes:
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                return False
            does = effects_of_node(node)
            if does & Effects.ACTS:
                return False
            if does & Effects.FAILS and not (
                isinstance(node, _DIVISIONS) and _is_extent(node.b, bound)
            ):
                return False
    return True


def _is_extent(expr: PrimExpr, bound: set[Var]) -> bool:
    return not any(isinstance(p, BufferLoad) or p in bound for p in pre_order(expr))


def _starts_output(func: PrimFunc, output: Buffer) -> bool:
    """Tell whether only reductions read the output, after initialising it."""
    for block in leaf_blocks(func.body):
        loads: list[BufferLoad] = by_class(block.body).get(BufferLoad, [])
        reads = any(load.buffer is output for load in loads)
        writes = block.init is not None and _stores_to(block.init, output)
        if reads and not writes:
            return False
    return True


def _stores_to(stmt: Stmt, buffer: Buffer) -> bool:
    stores: list[BufferStore] = by_class(stmt).get(BufferStore, [])
    return any(store.buffer is buffer for store in stores)


def _classify_elements(elements: Elements) -> OpPattern:
    """Classify by comparing the indices of loads with those of the store."""
    order = {it: axis for axis, it in enumerate(elements.iters) if it is not None}
    wanted = [it for it in elements.iters if it is not None]
    kind = OpPattern.ELEMENT_WISE
    for load in by_class(elements.value).get(BufferLoad, ()):
        names = [i for i in load.indices if not (isinstance(i, IntImm) and i.value == 0)]
        axes = [order.get(i, -1) if isinstance(i, Var) else -1 for i in names]
        if -1 in axes or axes != sorted(set(axes)):
            return OpPattern.INJECTIVE
        same = len(load.indices) == len(elements.iters) and names == wanted
        if not same:
            kind = OpPattern.BROADCAST
    return kind


def _classify_reduction(writing: list[Stmt], parts: tuple[Stmt, ...], output: Buffer) -> OpPattern:
    """Distinguish a plain reduction from a sum of products of two arguments."""
    blocks = [b for part in writing for b in leaf_blocks(part)]
    reducing = [b for b in blocks if b.is_reduction]
    if len(reducing) != 1 or len(writing) != len(parts) or reducing[0].init is None:
        return OpPattern.OUTPUT_FUSABLE if reducing else OpPattern.OPAQUE
    body = reducing[0].body
    if isinstance(body, BufferStore) and isinstance(body.value, Add):
        for side in (body.value.a, body.value.b):
            factors = _strip_casts(side)
            if isinstance(factors, Mul):
                loads = [_strip_casts(factors.a), _strip_casts(factors.b)]
                if all(isinstance(f, BufferLoad) and f.buffer is not output for f in loads):
                    return OpPattern.OUTPUT_FUSABLE
    return OpPattern.REDUCTION


def _strip_casts(expr: PrimExpr) -> PrimExpr:
    while isinstance(expr, Cast):
        expr = expr.value
    return expr
