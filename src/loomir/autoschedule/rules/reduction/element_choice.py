"""Write the statements that select between the element kept so far and the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loomir.arith.fold import imm64
from loomir.autoschedule.builders.evaluate import value_at
from loomir.autoschedule.builders.loops import scratch, vectorize
from loomir.autoschedule.rules.reduction.recognise_selection import Selection
from loomir.ir.substitution import substitute
from loomir.tir.analysis.copy_statement import fresh_var
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Let, PrimExpr, Select, Var
from loomir.tir.stmt import BufferStore, Stmt, seq

__all__ = [
    "SelectedElement",
    "begin_elements",
    "choose_elements",
    "local_buffers",
    "read_terms_at",
    "unit_axes",
]

_Place = Mapping[Var, PrimExpr]


class SelectedElement:
    """The element selected so far: an index in each buffer."""

    def __init__(
        self, found: Selection, parts: Sequence[tuple[Buffer, Sequence[PrimExpr]]]
    ) -> None:
        self.found = found
        self.parts = parts

    def values(self) -> list[PrimExpr]:
        """Read its parts."""
        return [BufferLoad(buffer, tuple(where)) for buffer, where in self.parts]

    def put(self, k: int, value: PrimExpr) -> Stmt:
        """Store a part."""
        buffer, where = self.parts[k]
        return BufferStore(buffer, value, tuple(where))


def _vectorize_lanes(size: int, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    return vectorize("lane", size, body) if size > 1 else body(imm64(0))


def choose_elements(
    found: Selection,
    size: int,
    mask: Buffer,
    kept: Callable[[PrimExpr], SelectedElement],
    coming: Callable[[PrimExpr], Sequence[PrimExpr]],
) -> Stmt:
    """Select between the kept and the next element, in ``size`` neighbouring lanes."""
    if size > found.lanes:  # each register of the widest buffer for itself
        firsts = [imm64(k) for k in range(0, size, found.lanes)]
        return seq(_move_choice(found, first, mask, kept, coming) for first in firsts)

    def decide(x: PrimExpr) -> Stmt:
        # Names are read for all lanes, whatever the condition needs.
        names = {var: fresh_var(var) for var in (*found.old, *found.new)}
        made = substitute(found.keep, names)
        for name, value in zip(names.values(), (*kept(x).values(), *coming(x))):
            made = Let(name, value, made)
        return BufferStore(mask, made, (x,))

    def take(k: int) -> Callable[[PrimExpr], Stmt]:
        def take_part(x: PrimExpr) -> Stmt:
            value = Select(BufferLoad(mask, (x,)), kept(x).values()[k], coming(x)[k])
            return kept(x).put(k, value)

        return take_part

    return seq(
        [
            _vectorize_lanes(size, decide),
            *(_vectorize_lanes(size, take(k)) for k in range(len(found.stages))),
        ]
    )


def _move_choice(
    found: Selection,
    first: PrimExpr,
    mask: Buffer,
    kept: Callable[[PrimExpr], SelectedElement],
    coming: Callable[[PrimExpr], Sequence[PrimExpr]],
) -> Stmt:
    return choose_elements(
        found, found.lanes, mask, lambda x: kept(first + x), lambda x: coming(first + x)
    )


def begin_elements(
    found: Selection, size: int, kept: Callable[[PrimExpr], SelectedElement]
) -> Stmt:
    """Store the initial values in ``size`` neighbouring lanes."""

    def start(k: int) -> Callable[[PrimExpr], Stmt]:
        init = found.stages[k].init
        assert init is not None
        return lambda x: kept(x).put(k, init)

    step = min(size, found.lanes)
    return seq(
        _vectorize_lanes(step, lambda x, k=k, first=first: start(k)(imm64(first) + x))
        for k in range(len(found.stages))
        for first in range(0, size, step)
    )


def read_terms_at(found: Selection, place: _Place) -> list[PrimExpr]:
    """Read the next element at a place."""
    return [value_at(stage.value, place) for stage in found.stages]


def local_buffers(found: Selection, size: int, name: str) -> list[Buffer]:
    """Make a local buffer of ``size`` lanes for each part of an element."""
    return [scratch(name, (size,), stage.buffer.dtype, "local") for stage in found.stages]


def unit_axes(found: Selection) -> dict[Var, PrimExpr]:
    """Return the values of axes of one element."""
    axes = (*found.first.axes, *found.first.reduced)
    return {axis.var: imm64(0) for axis in axes if axis.size == 1}
