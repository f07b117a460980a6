"""Binary search in sorted tensors."""

from __future__ import annotations

from collections.abc import Sequence

from loomir.support.dtype import DataType
from loomir.te.operation import extern
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import nest, wide, with_buffers
from loomir.te.topi.shape import bad, dims, make, need
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.expr import LE, LT, NE, Let, Or, PrimExpr, Select, Var, const
from loomir.tir.expr import cast as converted
from loomir.tir.stmt import BufferStore, Stmt, While, seq

__all__ = ["searchsorted"]

_INT64 = DataType("int64")
_MOST = 2**30
"""Sequences of fewer elements have places of 32 bits, of which a vector has more."""


def searchsorted(
    sequence: Tensor, values: Tensor, right: bool = False, dtype: str | DataType = "int64"
) -> Tensor:
    """Count the elements of a sorted sequence that are below each value, or equal with ``right``.

    NaN is above all others, and as a value above the whole sequence.
    Shapes: that of ``values``; the sequence has one axis. Errors: TE0103, TE0104.
    """
    need("searchsorted", "number", values, sequence)
    wanted = DataType(str(dtype))
    if sequence.ndim != 1:
        bad("searchsorted", f"the sequence has {sequence.ndim} axes", "give a sequence of one axis")
    if not wanted.is_integer:
        bad("searchsorted", f"places cannot be {wanted}", 'give an integer dtype, such as "int64"')
    (size,) = dims(sequence)
    if isinstance(size, int):
        return _search_unrolled(sequence, size, values, right, wanted)
    return _search_loop(sequence, values, right, wanted)


def _is_after(element: PrimExpr, value: PrimExpr, right: bool) -> PrimExpr:
    """Whether the place of a value is after an element."""
    before = LE(element, value) if right else LT(element, value)
    return Or(before, NE(value, value)) if value.dtype.is_float else before


def _search_unrolled(x: Tensor, size: int, values: Tensor, right: bool, wanted: DataType) -> Tensor:
    """Halve what is left in steps that are the same for all values, so that they form vectors.

    The place is among ``left + 1`` ones from ``low`` on. Half of them are given up either way,
    which needs no other bound: ``left`` is a number in each step.
    """
    narrow = DataType("int32") if size < _MOST else _INT64

    def element(*i: PrimExpr) -> PrimExpr:
        value = Var("value", values.dtype)
        steps: list[tuple[Var, PrimExpr]] = [(value, values(*i))]
        low: PrimExpr = const(0, narrow)
        left = size
        while left:
            half = (left + 1) // 2
            after = _is_after(x(low + const(half - 1, narrow)), value, right)
            name = Var("low", narrow)
            steps.append((name, Select(after, low + const(half, narrow), low)))
            low, left = name, left // 2
        made = converted(low, wanted)
        for name, step in reversed(steps):
            made = Let(name, step, made)
        return made

    made: Tensor = make("searchsorted", dims(values), element)
    return made


def _search_loop(x: Tensor, values: Tensor, right: bool, wanted: DataType) -> Tensor:
    """Halve what is left until nothing is."""

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        sequence, given = ins
        zero = (const(0, _INT64),)

        def search_one(i: Sequence[PrimExpr]) -> Stmt:
            cells = [decl_buffer((1,), _INT64, name=n, scope="local") for n in ("low", "left")]
            low, left = (BufferLoad(c, zero) for c in cells)
            half = (left + 1) // 2
            after = _is_after(
                BufferLoad(sequence, (low + half - 1,)), BufferLoad(given, tuple(i)), right
            )
            step = seq(
                [
                    BufferStore(cells[0], Select(after, low + half, low), zero),
                    BufferStore(cells[1], left // 2, zero),
                ]
            )
            made: list[Stmt] = [
                BufferStore(cells[0], const(0, _INT64), zero),
                BufferStore(cells[1], wide(sequence.shape[0]), zero),
                While(left > 0, step),
                BufferStore(outs[0], converted(low, wanted), tuple(i)),
            ]
            return with_buffers(cells, made)

        return nest(given.shape, search_one)

    made: Tensor = extern([values.shape], [x, values], body, name="searchsorted", dtype=wanted)
    return made
