"""Memory: bytes with bounds, and how a buffer looks at them.

A fresh allocation is filled with a pattern (NaN for floats, 0xCD bytes otherwise), so that a read
of what was never written shows. With ``track`` set, such a read raises, and so does a race between
the iterations of a parallel loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from loomir.interp.values import Pointer, Value, cell_format, decoder, encoder, pack
from loomir.runtime.errors import RunValueError
from loomir.runtime.fault import Fault, FaultKind
from loomir.support.diagnostics import Diagnostic, RunError
from loomir.support.dtype import DataType
from loomir.support.span import Span

__all__ = ["Axis", "Memory", "Tracker", "View", "allocate", "region_of", "row_major", "view_at"]

Cells: TypeAlias = Any
"""A one-dimensional ``memoryview`` of elements."""


_numbers = itertools.count()


class Memory:
    """A stretch of bytes; ``written`` has a flag per byte while they are watched."""

    __slots__ = ("data", "number", "owner", "written")

    def __init__(self, data: Any, owner: object = None, written: bytearray | None = None) -> None:
        self.data = data
        self.number = next(_numbers)  # not `id`, which a later allocation may have again
        self.owner = owner
        self.written = written


class Axis(NamedTuple):
    """An axis of a view: valid are ``low <= i < high``; a step moves by ``stride`` elements."""

    low: int
    high: int
    stride: int
    extent: int


class Tracker:
    """What the iterations of one parallel loop have read and written so far."""

    __slots__ = ("iteration", "readers", "span", "writers")

    def __init__(self, span: Span | None) -> None:
        self.iteration = 0
        self.span = span
        self.readers: dict[tuple[int, int], int] = {}
        self.writers: dict[tuple[int, int], int] = {}

    def saw(self, place: tuple[int, int], name: str, writes: bool) -> None:
        """Record an access; raises where another iteration's does not go with it."""
        mine = self.iteration
        other = self.writers.get(place, mine)
        if writes and other == mine:
            other = self.readers.get(place, mine)
        if other != mine:
            raise RunValueError(
                Diagnostic(
                    "RUN0092",
                    f"iterations {other} and {mine} of a parallel loop use one element of {name}, "
                    "and one of them writes it",
                    span=self.span,
                    help="let each iteration write elements of its own",
                )
            )
        if writes:
            self.writers[place] = mine
        else:
            self.readers[place] = mine


class View:
    """A buffer at run time: typed cells, where it starts in them, and its axes."""

    __slots__ = (
        "axes",
        "bounds",
        "cells",
        "direct",
        "dtype",
        "memory",
        "name",
        "shift",
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
        whole = (len(memory.data) - self.shift) // item * item
        data = memory.data[self.shift : self.shift + max(whole, 0)]
        self.cells: Cells = data.cast(cell_format(dtype))
        # Whether a valid index needs no other check than against its axis.
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
    def pointer(self) -> Pointer:
        """The address of the first element."""
        item = self.dtype.itemsize // self.dtype.lanes
        return Pointer(self.memory, self.start * item + self.shift)

    # -- elements ------------------------------------------------------------------------------
    def locate(self, indices: Sequence[int], span: Span | None) -> int:
        """Give the cell at ``indices``; raises outside of the buffer."""
        at = 0
        for axis, index in zip(self.axes, indices, strict=True):
            if not axis.low <= index < axis.high:
                raise self.outside(indices, span)
            at += index * axis.stride
        return self.start + at * self.dtype.lanes

    def outside(self, indices: Sequence[int], span: Span | None) -> RunError:
        """Make the error for indices outside of the buffer."""
        for number, (axis, index) in enumerate(zip(self.axes, indices, strict=True)):
            if not axis.low <= index < axis.high:
                return index_fault(self.name, number, span).error((index, axis.extent, 0))
        return index_fault(self.name, 0, span).error((indices[0] if indices else 0, 0, 0))

    def read(self, indices: Sequence[int], span: Span | None) -> Value:
        """Give the element at ``indices``."""
        at = self.locate(indices, span)
        lanes = self.dtype.lanes
        if not 0 <= at <= len(self.cells) - lanes:
            raise self.outside(indices, span)
        if self.trackers is not None:
            self._track(at, span, writes=False)
        decode = decoder(self.dtype)
        cells = self.cells[at : at + lanes].tolist()
        values = cells if decode is None else [decode(c) for c in cells]
        return tuple(values) if self.dtype.is_vector else values[0]

    def write(self, indices: Sequence[int], value: Value, span: Span | None) -> None:
        """Set the element at ``indices``."""
        at = self.locate(indices, span)
        lanes = self.dtype.lanes
        if not 0 <= at <= len(self.cells) - lanes:
            raise self.outside(indices, span)
        if self.trackers is not None:
            self._track(at, span, writes=True)
        encode = encoder(self.dtype)
        for lane, part in enumerate(value if self.dtype.is_vector else (value,)):
            self.cells[at + lane] = part if encode is None else encode(part)

    def _track(self, at: int, span: Span | None, writes: bool) -> None:
        size = self.dtype.itemsize
        item = size // self.dtype.lanes
        first = at * item + self.shift
        written = self.memory.written
        if written is not None:
            if writes:
                written[first : first + size] = b"\1" * size
            elif not all(written[first : first + size]):
                raise RunValueError(
                    Diagnostic(
                        "RUN0091",
                        f"an element of {self.name} is read before anything was written to it",
                        span=span,
                        help="write it first: a fresh allocation holds nothing in particular",
                    )
                )
        for tracker in self.trackers or ():
            for byte in range(first, first + size, item):
                tracker.saw((self.memory.number, byte), self.name, writes)


def index_fault(name: str, axis: int, span: Span | None) -> Fault:
    """Describe an index outside of a buffer; values: the index, the extent."""
    return Fault(
        FaultKind.OUT_OF_BOUNDS,
        ("index ", 0, f" is outside of axis {axis} of {name}, whose extent is ", 1),
        span=span,
        label="this element does not exist",
        help="keep the index at least 0 and below the extent",
    )


def size_fault(name: str, span: Span | None) -> Fault:
    """Describe an extent that is negative, or a size that 64 bits cannot count."""
    return Fault(
        FaultKind.BAD_SIZE,
        (f"{name} cannot be allocated: an extent is negative, or its size overflows",),
        span=span,
        help="extents are 0 or more, and all bytes together less than 2**63",
    )


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Give the strides of a compact array whose last axis runs fastest."""
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
    """Make fresh memory for ``shape`` elements, filled so that reading it shows.

    Errors: RUN0206 for an impossible size, RUN0207 where there is not that much memory.
    """
    if any(extent < 0 for extent in shape) or math.prod(shape) * dtype.itemsize >= 1 << 63:
        raise size_fault(name, span).error()
    element = dtype.element
    pattern = pack(math.nan, element) if element.is_float else _POISON * element.itemsize
    try:
        data = bytearray(pattern * (math.prod(shape) * dtype.lanes))
        written = bytearray(len(data)) if track else None
    except (MemoryError, OverflowError):
        message = (
            f"there is no memory for the {math.prod(shape) * dtype.itemsize} bytes of {name}",
        )
        raise Fault(FaultKind.ALLOCATION, message, span=span).error() from None
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
    """Look at memory as a buffer; no strides means row-major, ``offset`` counts elements.

    With ``flat``, the indices of a buffer of one axis are held to the memory only. A text is the
    pointer to its bytes, with a NUL after them.
    """
    if isinstance(pointer, str):
        pointer = Pointer(Memory(memoryview(bytearray(pointer.encode() + b"\0"))), 0)
    if not isinstance(pointer, Pointer):
        raise RunValueError(
            Diagnostic(
                "RUN0093",
                f"buffer {name} lies at an address of unknown extent",
                help="the interpreter follows only pointers to arrays and to its own allocations",
            )
        )
    steps = strides or row_major(shape)
    axes = tuple(Axis(0, extent, step, extent) for extent, step in zip(shape, steps, strict=True))
    if flat and len(axes) == 1:
        axes = (Axis(-_FAR, _FAR, steps[0], shape[0]),)
    where = pointer.offset + offset * dtype.itemsize
    return View(pointer.memory, where, dtype, axes, name, trackers)


def region_of(
    source: View, mins: Sequence[int], extents: Sequence[int], rank: int, name: str
) -> View:
    """Look at a box of another view, by its last ``rank`` axes.

    An index is valid where it is valid in the box and in the source.
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
    return View(source.memory, where, source.dtype, tuple(kept), name, source.trackers)
