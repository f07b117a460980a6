"""Memory: bytes with bounds, and buffers as views of it.

A fresh allocation is filled with a pattern (NaN for floats, 0xCD bytes otherwise), so that reads of
uninitialised memory show. With ``track``, such a read raises, and so does a race between iterations
of a parallel loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from loomir.interp.values import Pointer, Value, cell_format, decoder, encoder, pack
from loomir.runtime.errors import RunValueError
from loomir.support.diagnostics import Diagnostic, RunError
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.faults import fault

__all__ = [
    "Axis",
    "Memory",
    "Tracker",
    "View",
    "allocate",
    "finder",
    "region_of",
    "row_major",
    "view_at",
]

Cells: TypeAlias = Any
"""A one-dimensional ``memoryview`` of elements."""


_numbers = itertools.count()


class Memory:
    """A range of bytes; ``written`` has a flag per byte while they are watched.

    ``numbers`` is for runs without rounding: the exact numbers of rounded elements, by offset.
    """

    __slots__ = ("data", "number", "numbers", "owner", "written")

    def __init__(self, data: Any, owner: object = None, written: bytearray | None = None) -> None:
        self.data = data
        self.number = next(_numbers)  # not `id`, which a later allocation may have again
        self.numbers: dict[int, Any] | None = None
        self.owner = owner
        self.written = written


class Axis(NamedTuple):
    """An axis of a view; indices ``low <= i < high`` are valid, and ``stride`` counts elements."""

    low: int
    high: int
    stride: int
    extent: int


class Tracker:
    """What the iterations of one parallel loop have read and written so far.

    For reads, the first iteration that read an element is enough: iterations run in order, so if
    the first one is the current one, there is no other.
    """

    __slots__ = ("iteration", "readers", "writers")

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        self.readers: dict[tuple[int, int], int] = {}
        self.writers: dict[tuple[int, int], int] = {}


def _conflict(
    trackers: Sequence[Tracker], place: tuple[int, int], writes: bool
) -> tuple[str, int] | None:
    """Record an access; return the kind of conflict and the other iteration, or None.

    Conflicts with writes are reported before those with reads, and outer loops before inner ones.
    """
    for tracker in trackers:
        mine = tracker.iteration
        if tracker.writers.get(place, mine) != mine:
            return "race_write" if writes else "race_read", mine
    for tracker in trackers:
        mine = tracker.iteration
        if not writes:
            tracker.readers.setdefault(place, mine)
        elif tracker.readers.get(place, mine) != mine:
            return "race_overwrite", mine
        else:
            tracker.writers[place] = mine
    return None


class View:
    """A buffer at run time: typed cells, its start in them, and its axes."""

    __slots__ = (
        "axes",
        "bounds",
        "cells",
        "direct",
        "dtype",
        "memory",
        "name",
        "origin",
        "shift",
        "source",
        "start",
        "trackers",
    )

    def __init__(
        self,
        memory: Memory,
        byte_offset: int,
        dtype: DataType,
        axes: tuple[Axis, ...],
        name: str,
        trackers: list[Tracker] | None = None,
    ) -> None:
        item = dtype.itemsize // dtype.lanes
        self.memory = memory
        self.dtype = dtype
        self.name = name
        self.axes = axes
        self.trackers = trackers
        self.start, self.shift = divmod(byte_offset, item)
        self.origin = self.start  # where its data starts, in lanes; a region may start after it
        self.source: tuple[View, tuple[int, ...]] | None = None
        whole = (len(memory.data) - self.shift) // item * item
        data = memory.data[self.shift : self.shift + max(whole, 0)]
        self.cells: Cells = data.cast(cell_format(dtype))
        # Bounds of indices, if a valid index needs no check but against its axis.
        self.bounds = tuple(n for a in axes for n in a[:3])
        self.direct = trackers is None and dtype.lanes == 1 and self._fits()

    def _fits(self) -> bool:
        if any(a.low >= a.high for a in self.axes):
            return True
        ends = [sorted((a.low * a.stride, (a.high - 1) * a.stride)) for a in self.axes]
        first = self.start + sum(low for low, _ in ends)
        last = self.start + sum(high for _, high in ends)
        return first >= 0 and last < len(self.cells)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(a.extent for a in self.axes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next, per axis."""
        return tuple(a.stride for a in self.axes)

    @property
    def offset(self) -> int:
        """The number of elements between the data and the first element."""
        return (self.start - self.origin) // self.dtype.lanes

    @property
    def pointer(self) -> Pointer:
        """The address of the first element."""
        item = self.dtype.itemsize // self.dtype.lanes
        return Pointer(self.memory, self.start * item + self.shift)

    # -- elements ------------------------------------------------------------------------------
    def locate(self, indices: Sequence[int], span: Span | None) -> int:
        """Return the cell at ``indices``; raise if they are out of bounds."""
        at = 0
        for axis, index in zip(self.axes, indices, strict=True):
            if not axis.low <= index < axis.high:
                raise self.outside(indices, span)
            at += index * axis.stride
        return self.start + at * self.dtype.lanes

    def places(self, indices: Sequence[Any]) -> Sequence[int] | None:
        """Return the cells at indices, the last of which is a vector; None if one is out of bounds.

        This is for views whose valid indices need no other check. Equidistant lanes are a range.
        """
        *outer, lanes = indices
        *axes, last = self.axes
        at = self.start
        for axis, index in zip(axes, outer, strict=True):
            if not axis.low <= index < axis.high:
                return None
            at += index * axis.stride
        stride = last.stride
        if type(lanes) is range and stride:
            if min(lanes[0], lanes[-1]) < last.low or max(lanes[0], lanes[-1]) >= last.high:
                return None
            step = lanes.step * stride
            first = at + lanes.start * stride
            return range(first, first + len(lanes) * step, step)
        if min(lanes) < last.low or max(lanes) >= last.high:
            return None
        return [at + index * stride for index in lanes]

    def gather(self, places: Sequence[int]) -> list[Any]:
        """Return the contents of cells."""
        cells = self.cells
        if type(places) is range and places.step > 0:
            return cells[places.start : places.stop : places.step].tolist()
        return [cells[at] for at in places]

    def cell(self, indices: Sequence[int], span: Span | None) -> int:
        """Return the cell at ``indices``; raise if it is outside the buffer or its memory."""
        at = self.locate(indices, span)
        if not 0 <= at <= len(self.cells) - self.dtype.lanes:
            raise self.outside(indices, span)
        return at

    def address(self, indices: Sequence[int], span: Span | None) -> Pointer:
        """Return the address of the element at ``indices``."""
        at = self.cell(indices, span)
        return Pointer(self.memory, at * (self.dtype.itemsize // self.dtype.lanes) + self.shift)

    def outside(self, indices: Sequence[int], span: Span | None) -> RunError:
        """Create the error for indices outside the buffer, or outside the source of a region."""
        layers: list[tuple[View, Sequence[int]]] = [(self, indices)]
        while (origin := layers[-1][0].source) is not None:
            source, mins = origin
            inner = [*[0] * (len(mins) - len(layers[-1][1])), *layers[-1][1]]
            layers.append((source, [m + i for m, i in zip(mins, inner, strict=True)]))
        rank = len(layers[-1][1])
        for number in range(rank):
            for view, places in layers:
                own = number - rank + len(places)
                if own >= 0 and not 0 <= places[own] < view.axes[own].extent:
                    outside = fault("index", span, axis=own, buffer=view.name)
                    return outside.error((places[own], view.axes[own].extent))
        return fault("memory", span, axes=len(indices), buffer=self.name).error(indices)

    def read(self, indices: Sequence[int], span: Span | None) -> Value:
        """Return the element at ``indices``."""
        at = self.cell(indices, span)
        lanes = self.dtype.lanes
        if self.trackers is not None:
            self._track(at, indices, span, writes=False)
        decode = decoder(self.dtype)
        cells = self.cells[at : at + lanes].tolist()
        values = cells if decode is None else [decode(c) for c in cells]
        return tuple(values) if self.dtype.is_vector else values[0]

    def write(self, indices: Sequence[int], value: Value, span: Span | None) -> None:
        """Set the element at ``indices``."""
        at = self.cell(indices, span)
        if self.trackers is not None:
            self._track(at, indices, span, writes=True)
        encode = encoder(self.dtype)
        for lane, part in enumerate(value if self.dtype.is_vector else (value,)):
            self.cells[at + lane] = part if encode is None else encode(part)

    def _track(self, at: int, indices: Sequence[int], span: Span | None, writes: bool) -> None:
        size = self.dtype.itemsize
        item = size // self.dtype.lanes
        first = at * item + self.shift
        written = self.memory.written
        if written is not None:
            if writes:
                written[first : first + size] = b"\1" * size
            elif not all(written[first : first + size]):
                unset = fault("uninitialized", span, axes=len(indices), buffer=self.name)
                raise unset.error(indices)
        if not self.trackers:
            return
        for byte in range(first, first + size):
            found = _conflict(self.trackers, (self.memory.number, byte), writes)
            if found is not None:
                row, iteration = found
                race = fault(row, span, axes=len(indices), first=1, buffer=self.name)
                raise race.error((iteration, *indices))


# -- cells of views whose valid indices need no other check ----------------------------------------
def finder(rank: int) -> Callable[..., int]:
    """Return the function from a view and indices to a cell; -1 if one is out of bounds."""
    return _FINDERS.get(rank, _find)


def _find(view: View, *indices: int) -> int:
    at, bounds, number = view.start, view.bounds, 0
    for index in indices:
        if not bounds[number] <= index < bounds[number + 1]:
            return -1
        at += index * bounds[number + 2]
        number += 3
    return at


def _find_one(view: View, i: int) -> int:
    low, high, stride = view.bounds
    return view.start + i * stride if low <= i < high else -1


def _find_two(view: View, i: int, j: int) -> int:
    a, b, s, c, d, t = view.bounds
    return view.start + i * s + j * t if a <= i < b and c <= j < d else -1


def _find_three(view: View, i: int, j: int, k: int) -> int:
    a, b, s, c, d, t, e, f, u = view.bounds
    if a <= i < b and c <= j < d and e <= k < f:
        return view.start + i * s + j * t + k * u
    return -1


def _find_four(view: View, i: int, j: int, k: int, m: int) -> int:
    a, b, s, c, d, t, e, f, u, g, h, v = view.bounds
    if a <= i < b and c <= j < d and e <= k < f and g <= m < h:
        return view.start + i * s + j * t + k * u + m * v
    return -1


_FINDERS: Final = {1: _find_one, 2: _find_two, 3: _find_three, 4: _find_four}


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a compact array whose last axis runs fastest."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


_FAR: Final = 1 << 62
_POISON: Final = b"\xcd"


def allocate(
    dtype: DataType, shape: Sequence[int], name: str, span: Span | None, track: bool
) -> Memory:
    """Allocate memory for ``shape`` elements, filled with a pattern that reveals reading it.

    Errors: RUN0206 for an impossible size, RUN0207 if there is not that much memory.
    """
    if any(extent < 0 for extent in shape) or math.prod(shape) * dtype.itemsize >= 1 << 63:
        raise fault("size", span, buffer=name).error()
    element = dtype.element
    pattern = pack(math.nan, element) if element.is_float else _POISON * element.itemsize
    try:
        data = bytearray(pattern * (math.prod(shape) * dtype.lanes))
        written = bytearray(len(data)) if track else None
    except (MemoryError, OverflowError):
        size = math.prod(shape) * dtype.itemsize
        raise fault("allocation", span, buffer=name).error((size,)) from None
    return Memory(memoryview(data), data, written)


def view_at(
    pointer: object,
    dtype: DataType,
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int,
    name: str,
    trackers: list[Tracker] | None,
    flat: bool = False,
) -> View:
    """View memory as a buffer; no strides means row-major, ``offset`` counts elements.

    With ``flat``, indices of a buffer with one axis are only checked against the memory. A text is
    a pointer to its bytes, with a NUL after them.
    """
    if isinstance(pointer, str):
        pointer = Pointer(Memory(memoryview(bytearray(pointer.encode() + b"\0"))), 0)
    if not isinstance(pointer, Pointer):
        raise RunValueError(
            Diagnostic(
                "RUN0093",
                f"buffer {name} is at an address where the size of the memory is unknown",
                help="the interpreter follows only pointers to arrays and to its own allocations",
            )
        )
    steps = strides or row_major(shape)
    axes = tuple(Axis(0, extent, step, extent) for extent, step in zip(shape, steps, strict=True))
    if flat and len(axes) == 1:
        axes = (Axis(-_FAR, _FAR, steps[0], shape[0]),)
    where = pointer.offset + offset * dtype.itemsize
    made = View(pointer.memory, where, dtype, axes, name, trackers)
    made.origin = made.start - offset * dtype.lanes
    return made


def region_of(
    source: View, mins: Sequence[int], extents: Sequence[int], rank: int, name: str
) -> View:
    """View a box of another view, by its last ``rank`` axes.

    An index must be valid both in the box and in the source.
    """
    start = source.start
    axes: list[Axis] = []
    for axis, least, extent in zip(source.axes, mins, extents, strict=True):
        start += least * axis.stride * source.dtype.lanes
        low, high = max(0, axis.low - least), min(extent, axis.high - least)
        axes.append(Axis(low, high, axis.stride, extent))
    kept = axes[len(axes) - rank :]
    if any(a.low > 0 or a.high < 1 for a in axes[: len(axes) - rank]):
        kept = [Axis(0, 0, a.stride, a.extent) for a in kept] or kept
    item = source.dtype.itemsize // source.dtype.lanes
    where = start * item + source.shift
    made = View(source.memory, where, source.dtype, tuple(kept), name, source.trackers)
    made.origin = source.origin
    made.source = source, tuple(mins)
    return made
