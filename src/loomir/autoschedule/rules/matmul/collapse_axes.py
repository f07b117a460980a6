"""Collapse axes that are nested and contiguous wherever they occur, such as the pixels of an image.

Each collapse declares a view of a buffer: another shape for the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from loomir.arith.fold import mul, product
from loomir.autoschedule.builders.loops import declare_views, with_shape
from loomir.autoschedule.ir.stage import Axis, Stage
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class, rewrite
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import Var
from loomir.tir.stmt import Stmt

__all__ = ["Views", "collapse_axes", "collapse_last", "find_inner_views"]


class Views:
    """Reshaped views of buffers, over the same memory."""

    def __init__(self) -> None:
        self.made: dict[tuple[Buffer, int, int], Buffer] = {}
        self.of: dict[Buffer, Buffer] = {}

    def collapse(self, buffer: Buffer, at: int, count: int = 2) -> Buffer:
        """View ``count`` axes from ``at`` on as one."""
        key = (buffer, at, count)
        if key not in self.made:
            size = product(buffer.shape[at : at + count])
            shape = (*buffer.shape[:at], size, *buffer.shape[at + count :])
            view = with_shape(buffer, shape)
            self.made[key] = view
            self.of[view] = buffer
        return self.made[key]

    def original(self, buffer: Buffer) -> Buffer:
        """Return the buffer that a view reshapes."""
        while buffer in self.of:
            buffer = self.of[buffer]
        return buffer

    def declare(self, stmt: Stmt) -> Stmt:
        """Declare the views around a statement that uses them."""
        return declare_views(self.made.values(), stmt)

    def flatten(self, load: BufferLoad, axes: Sequence[Axis], var: Var) -> BufferLoad | None:
        """Collapse the nested axes of a load to one variable; None if they are not nested."""
        many = [axis for axis in axes if axis.size != 1]
        for at in range(len(load.indices) - len(many) + 1):
            if _is_nested_at(load, many, at):
                view = self.collapse(load.buffer, at, len(many))
                indices = (*load.indices[:at], var, *load.indices[at + len(many) :])
                return BufferLoad(view, indices)
        return None


def _is_nested_at(load: BufferLoad, axes: Sequence[Axis], at: int) -> bool:
    """Whether the indices from ``at`` on are just the axes, which cover those dimensions whole."""
    buffer = load.buffer
    if buffer.strides or buffer.axis_separators or not axes:
        return False
    names = {axis.var for axis in axes}
    for i, index in enumerate(load.indices):
        if at <= i < at + len(axes):
            axis = axes[i - at]
            if index is not axis.var:
                return False
            if i > at and not structural_equal(buffer.shape[i], axis.extent):
                same = getattr(buffer.shape[i], "value", None) == axis.size
                if axis.size is None or not same:
                    return False
        elif any(part in names for part in by_class(index).get(Var, ())):
            return False
    return True


def collapse_axes(stages: Sequence[Stage], views: Views) -> tuple[Stage, ...]:
    """Collapse pairs of axes of the first stage, and of its epilogue, as long as any can be."""
    found = tuple(stages)
    while True:
        pair = next((p for p in _pairs(found[0]) if _can_collapse(found, *p)), None)
        if pair is None:
            return found
        found = _collapse_pair(found, *pair, views)


def collapse_last(
    stages: Sequence[Stage], axes: Sequence[Axis], views: Views
) -> tuple[tuple[Stage, ...], Axis, int]:
    """Collapse as many of the last axes as possible; return the stages, the axis and the count."""
    found, last, count = tuple(stages), axes[-1], 1
    while count < len(axes) and _can_collapse(found, axes[-count - 1], last):
        known = {axis.var for axis in found[0].axes}
        found = _collapse_pair(found, axes[-count - 1], last, views)
        last = next(axis for axis in found[0].axes if axis.var not in known)
        count += 1
    return found, last, count


def _pairs(stage: Stage) -> list[tuple[Axis, Axis]]:
    many = {axis.var: axis for axis in stage.axes if axis.size != 1}
    order = [many[i] for i in stage.indices if isinstance(i, Var) and i in many]
    return list(pairwise(order))


def _accesses(stage: Stage) -> list[BufferLoad]:
    values = [stage.value, *([] if stage.init is None else [stage.init])]
    loads = [load for value in values for load in by_class(value).get(BufferLoad, ())]
    return [*loads, BufferLoad(stage.buffer, stage.indices)]


def _find_nested(load: BufferLoad, a: Axis, b: Axis) -> int | None:
    """Find the dimension at which the axes are nested in an access, -1 where they do not occur."""
    names = {a.var, b.var}
    if not any(part in names for i in load.indices for part in by_class(i).get(Var, ())):
        return -1
    for at in range(len(load.indices) - 1):
        if _is_nested_at(load, (a, b), at):
            return at
    return None


def _can_collapse(stages: Sequence[Stage], a: Axis, b: Axis) -> bool:
    names = {a.var, b.var}
    for stage in stages:
        for load in _accesses(stage):
            if _find_nested(load, a, b) is None:
                return False
        values = [stage.value, *([] if stage.init is None else [stage.init])]
        for value in values:
            inside = sum(
                part in names
                for load in by_class(value).get(BufferLoad, ())
                for index in load.indices
                for part in by_class(index).get(Var, ())
            )
            if inside != sum(part in names for part in by_class(value).get(Var, ())):
                return False  # the value of an axis is used
    return True


def _collapse_pair(stages: Sequence[Stage], a: Axis, b: Axis, views: Views) -> tuple[Stage, ...]:
    both = Axis(Var(f"{a.var.name_hint}_{b.var.name_hint}", a.var.dtype), mul(a.extent, b.extent))

    def read_view(load: BufferLoad) -> BufferLoad:
        at = _find_nested(load, a, b)
        if at is None or at < 0:
            return load
        view = views.collapse(load.buffer, at)
        return BufferLoad(view, (*load.indices[:at], both.var, *load.indices[at + 2 :]))

    made: list[Stage] = []
    for stage in stages:
        target = read_view(BufferLoad(stage.buffer, stage.indices))
        axes = tuple(both if x.var is a.var else x for x in stage.axes if x.var is not b.var)
        rules = {BufferLoad: read_view}
        made.append(
            Stage(
                stage.name,
                axes,
                stage.reduced,
                target.buffer,
                target.indices,
                rewrite(stage.value, rules),
                stage.combine,
                None if stage.init is None else rewrite(stage.init, rules),
                stage.free_order,
                stage.in_place,
                stage.block,
            )
        )
    return tuple(made)


def find_inner_views(
    inner: Set[Buffer], stages: Sequence[Stage], views: Views
) -> frozenset[Buffer]:
    """Find the buffers, as the stages name them now, that nothing reads afterwards."""
    return frozenset(s.buffer for s in stages if views.original(s.buffer) in inner)
