"""Count the work of a group of stages: operations, and the bytes that must at least be moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from loomir.autoschedule.ir.stage import Combine, Stage
from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.visit import by_class, children
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    Add,
    Call,
    CmpOp,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
)

__all__ = ["StageWork", "count_work"]

_OPERATIONS: Final = (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, CmpOp)
_NO_WORK: Final = frozenset({"likely", "reinterpret", "if_then_else", "assume"})


class StageWork(NamedTuple):
    """``flops``: operations on what is loaded, floats or integers, a math function as one.

    ``bytes``: each buffer once, as far as it can be touched; not those that only the group uses.
    """

    flops: int
    bytes: int


def _number(size: PrimExpr) -> int | None:
    return size.value if isinstance(size, IntImm) else None


def count_work(
    stages: Sequence[Stage],
    inner: frozenset[Buffer] = frozenset(),
    size: Callable[[PrimExpr], int | None] = _number,
) -> StageWork | None:
    """Count what one run of the stages does; ``size`` gives extents, None if it cannot."""
    flops = 0
    touched: dict[int, tuple[Buffer, int]] = {}
    kept = {id(buffer.data) for buffer in inner}

    def touch(buffer: Buffer, times: int) -> None:
        _, before = touched.get(id(buffer.data), (buffer, 0))
        touched[id(buffer.data)] = (buffer, before + times)

    for stage in stages:
        elements = _product([axis.extent for axis in stage.axes], size)
        terms = _product([axis.extent for axis in stage.reduced], size)
        if elements is None or terms is None:
            return None
        operations, loads = _count(stage.value)
        flops += elements * terms * (operations + (stage.combine is not Combine.NONE))
        touch(stage.buffer, elements)
        for buffer in loads:
            touch(buffer, elements * terms)
    moved = 0
    for key, (buffer, times) in touched.items():
        whole = _product(buffer.shape, size)
        if whole is None:
            return None
        if key not in kept:
            bits = buffer.dtype.bits * buffer.dtype.lanes
            moved += min(times, whole) * max(bits // 8, 1)
    return StageWork(flops, moved)


def _product(extents: Sequence[PrimExpr], size: Callable[[PrimExpr], int | None]) -> int | None:
    numbers = [size(extent) for extent in extents]
    if any(n is None for n in numbers):
        return None
    return math.prod(max(n or 0, 0) for n in numbers)


def _count(value: PrimExpr) -> tuple[int, list[Buffer]]:
    """Count operations on what is loaded, each shared one once, and list what is loaded."""
    loads: list[Buffer] = []
    total = 0
    loaded: dict[int, bool] = {}  # whether a value depends on memory
    stack: list[tuple[Node, bool]] = [(value, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in loaded:
            continue
        if isinstance(node, BufferLoad):  # what its indices compute is no work on elements
            loads += [load.buffer for load in by_class(node)[BufferLoad]]
            loaded[id(node)] = True
            continue
        parts = children(node)
        if not ready:
            stack.append((node, True))
            stack.extend((part, False) for part in parts)
            continue
        on_data = any(loaded.get(id(part), False) for part in parts)
        loaded[id(node)] = on_data
        if on_data:
            total += _operations(node)
    return total, loads


def _operations(node: Node) -> int:
    if isinstance(node, _OPERATIONS):
        return 1
    if isinstance(node, Call) and not isinstance(node.op, GlobalVar):
        name = node.op.name.rpartition(".")[2]
        return 0 if name in _NO_WORK else 2 if name == "fma" else 1
    return 0
