"""Tell which reads are in range even where a condition leaves them out.

Lanes of a vector evaluate both operands of ``x[i] > 0 and y[i] > 0``, and both values of a choice.
LLVM's vectoriser needs masked loads for that, which AVX2 does not have for bytes and halves.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.ir.equality import are_equal, structural_equal
from loomir.ir.visit import by_class, pre_order
from loomir.support.dtype import DataType
from loomir.tir.analysis.effects import Effects, effects_of_node
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    LetStmt,
    SeqStmt,
    Stmt,
)

__all__ = ["SafeReads"]

_VOLATILE: Final = "volatile_scope"
_Shape = tuple[PrimExpr, ...]


class _Memory(NamedTuple):
    """The elements of an array, which views may read as others."""

    shape: _Shape
    dtype: DataType


class _Access(NamedTuple):
    """An element that all iterations access."""

    shape: _Shape
    place: PrimExpr


class SafeReads:
    """The memory of a function's arrays, and what is known of indices."""

    def __init__(self, func: PrimFunc, bounds: Bounds) -> None:
        self._bounds = bounds
        nodes = by_class(func.body)
        volatile = {id(s.node) for s in nodes.get(AttrStmt, ()) if s.attr_key == _VOLATILE}
        self._memory: dict[int, _Memory] = {
            id(buffer.data): _Memory(buffer.shape, buffer.dtype)
            for buffer in func.buffer_map.values()
            if not buffer.strides and _is_zero(buffer.elem_offset)
        }
        for allocation in nodes.get(Allocate, ()):
            if allocation.condition is not TRUE:
                continue
            memory = _Memory(allocation.extents, allocation.dtype)
            self._memory[id(allocation.buffer_var)] = memory
        for data in volatile:
            self._memory.pop(data, None)
        self._certain: list[_Access] = []
        self._safe: set[int] = set()

    def enter(self, body: Stmt) -> None:
        """Note what each iteration of a loop certainly stores."""
        self._certain = []
        self._safe = set()
        stack = [body]
        while stack:
            part = stack.pop()
            if isinstance(part, SeqStmt):
                stack += part.seq
            elif isinstance(part, (LetStmt, Allocate, DeclBuffer)):
                stack.append(part.body)
            elif isinstance(part, BufferStore):
                shape = self._shape_of(part.buffer)
                if shape is not None and len(part.indices) == 1:
                    self._certain.append(_Access(shape, part.indices[0]))

    def are_safe(self, e: PrimExpr) -> bool:
        """Whether an expression does nothing but read elements that exist.

        Conditions inside of it are not asked about again.
        """
        if id(e) in self._safe:
            return True
        nodes = list(pre_order(e))
        for node in nodes:
            if isinstance(node, BufferLoad):
                if not self._exists(node):
                    return False
            elif isinstance(node, PrimExpr) and effects_of_node(node) is not Effects.NOTHING:
                return False
        self._safe.update(map(id, nodes))
        return True

    def _shape_of(self, buffer: Buffer) -> _Shape | None:
        """Return the shape of a buffer's memory, if it has elements of the same type."""
        memory = self._memory.get(id(buffer.data))
        if memory is None or memory.dtype is not buffer.dtype or buffer.dtype.lanes != 1:
            return None
        return memory.shape

    def _exists(self, load: BufferLoad) -> bool:
        shape = self._shape_of(load.buffer)
        if shape is None or len(load.indices) != 1:
            return False
        (index,) = load.indices
        size = 1
        for extent in shape:
            if not isinstance(extent, IntImm):
                break
            size *= extent.value
        else:
            low, high = self._bounds.of(index)
            if low >= 0 and high < size:
                return True
        return any(
            are_equal(shape, access.shape) and structural_equal(index, access.place)
            for access in self._certain
        )


def _is_zero(offset: PrimExpr | None) -> bool:
    return offset is None or (isinstance(offset, IntImm) and offset.value == 0)
