"""Insert bounds checks for accesses through buffers that alias regions of others."""

from __future__ import annotations

from loomir.ir.passes import register
from loomir.ir.visit import rewrite
from loomir.tir.buffer import BufferLoad
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import BufferStore
from loomir.transform.tir.instrument.instrument_bound_checkers import (
    BOUNDS_CHECKED,
    UNCHECKED,
    BoundOptions,
    wrap_indices,
)
from loomir.transform.tir.views import Layout

__all__ = ["instrument_view_bounds"]


@register("tir.InstrumentViewBounds", requires={"opaque_blocks"})
def instrument_view_bounds(func: PrimFunc, options: BoundOptions = UNCHECKED) -> PrimFunc:
    """Wrap each index of a ``match_buffer`` in a check against the alias's own extents.

    The extents of the source are checked later. This runs before aliases are replaced.
    """
    if not options.enable or func.attrs.get(BOUNDS_CHECKED):
        return func
    matches = Layout(func).matches

    def load(e: BufferLoad) -> BufferLoad:
        if id(e.buffer) not in matches:
            return e
        return BufferLoad(e.buffer, wrap_indices(e.buffer, e.indices, e.span), span=e.span)

    def store(s: BufferStore) -> BufferStore:
        if id(s.buffer) not in matches:
            return s
        indices = wrap_indices(s.buffer, s.indices, s.span)
        return BufferStore(s.buffer, s.value, indices, span=s.span)

    return rewrite(func, {BufferLoad: load, BufferStore: store})
