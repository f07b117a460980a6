"""Convert functions of a text to tensor expressions, one computed tensor for each statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from loomir import te
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.dtype import DataType
from loomir.tc.blocks import Update
from loomir.tc.ranges import Interval
from loomir.tc.scope import Tensor
from loomir.tc.types import common_dtype, convert, identity
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Add, Max, Min, Mul, PrimExpr, Var

__all__ = ["Step", "to_te"]

_COMBINE: Final[dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    "+": Add,
    "*": Mul,
    "min": Min,
    "max": Max,
}


class Step(NamedTuple):
    """A statement whose ranges are known; ``whole`` where it writes every element."""

    update: Update
    ranges: Mapping[Var, Interval]
    whole: bool


def to_te(
    name: str, taken: Sequence[Tensor], made: Sequence[Tensor], steps: Sequence[Step], free: bool
) -> tuple[tuple[te.Tensor, ...], tuple[te.Tensor, ...]]:
    """Return the inputs and the outputs of a function as tensors of ``loomir.te``.

    ``free`` tells that nothing has to be checked before the loops.
    Errors: TC0203 for what tensor expressions cannot say.
    """
    if not free:
        raise _cannot(name, "sizes are checked before its loops run", "take ranges from inference")
    inputs = tuple(te.placeholder(t.dims, t.buffer.dtype, t.name) for t in taken)
    now: dict[int, te.Tensor] = {
        id(t.buffer.data): tensor for t, tensor in zip(taken, inputs, strict=True)
    }
    given = set(now)
    for step in steps:
        data = id(step.update.buffer.data)
        if data in given:
            raise _cannot(name, "it changes an input in place", "assign to a new tensor")
        if not step.whole:
            raise _cannot(name, "a statement assigns a part of a tensor", "assign all elements")
        now[data] = _compute(step, now)
    return inputs, tuple(now[id(t.buffer.data)] for t in made)


def _compute(step: Step, now: Mapping[int, te.Tensor]) -> te.Tensor:
    update, ranges = step.update, step.ranges
    dtype = update.buffer.dtype
    axes = {
        v: te.reduce_axis((ranges[v].start, ranges[v].stop), v.name_hint) for v in update.reduced
    }
    shape = tuple(ranges[v].stop for v in update.left)

    def element(*indices: Var) -> PrimExpr:
        moved: dict[Var, Any] = {**dict(zip(update.left, indices, strict=True)), **axes}
        value = rewrite(
            substitute(update.value, moved),
            {BufferLoad: lambda load: now[id(load.buffer.data)][load.indices]},
        )
        there = None
        if update.op != "=" and not update.op.endswith("!"):
            there = now[id(update.buffer.data)][tuple(indices)]
        return _combine(update, value, there, tuple(axes.values()), dtype)

    return te.compute(shape, element, update.buffer.name)


def _combine(
    update: Update, value: PrimExpr, there: Any, axes: tuple[Any, ...], dtype: DataType
) -> PrimExpr:
    """Return an element: the value, or its reduction, starting from the old element if asked."""
    if update.op == "=":
        return convert(value, dtype)
    symbol = update.op.rstrip("!=")
    combine = _COMBINE[symbol]
    if axes and value.dtype is dtype:

        def start_of(_: str) -> PrimExpr:
            return identity(update.op, dtype)

        reducer = te.comm_reducer(combine, start_of, symbol)
        return reducer(value, axes, init=there)
    if axes:
        raise _cannot(
            update.name,
            f"{value.dtype} is reduced into {dtype}",
            f"convert the right side to {dtype}",
        )
    start = identity(update.op, dtype) if there is None else there
    common = common_dtype(dtype, value.dtype) or dtype
    same = value.dtype is dtype
    a, b = (start, value) if same else (convert(start, common), convert(value, common))
    return convert(combine(a, b), dtype)


def _cannot(name: str, why: str, help: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "TC0203",
            f"{name!r} is not a tensor expression: {why}",
            notes=("to_tir() takes every function",),
            help=help,
        )
    )
