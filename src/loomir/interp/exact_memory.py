"""Memory of runs without rounding: bytes, and the exact numbers of which they are the rounding.

The memory keeps, for each float that was rounded when it was stored, the exact number. A load by
another dtype sees the bytes; an integer loaded so remembers the numbers whose bits it is, until
something is computed from it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from loomir.interp.machine import Environment, NumbersTooLargeError
from loomir.interp.memory import Memory, View, finder
from loomir.interp.rational import ExactNumber, exact_of, round_to_dtype
from loomir.interp.values import Value, decoder, encoder, format_of, pack, unpack
from loomir.support.dtype import DataType
from loomir.support.span import Span

__all__ = ["Part", "contents", "forget", "load", "read_at", "reinterpret", "store", "write_at"]

_MOST_BYTES: Final = 8
"""The largest element."""
_MOST_BITS: Final = 1 << 16
"""The longest numerator or denominator that is stored; the range of float64 takes 2100."""


class Part(NamedTuple):
    """An exact number that its dtype cannot represent, and the offset of its rounded bytes."""

    at: int
    dtype: DataType
    number: ExactNumber


class _Bits(int):
    """An integer whose bytes are those of rounded exact numbers."""

    parts: tuple[Part, ...]


def _bits(value: int, parts: Sequence[Part]) -> int:
    if not parts:
        return value
    made = _Bits(value)
    made.parts = tuple(parts)
    return made


# -- elements ------------------------------------------------------------------------------------
def read_at(memory: Memory, at: int, cell: Any, dtype: DataType) -> Value:
    """Return the exact number of an element; ``at`` is the byte offset of its cell."""
    kept: dict[int, Part] | None = memory.numbers
    if kept:
        size = dtype.itemsize
        if dtype.is_float:
            part = kept.get(at)
            if part is not None and part.dtype is dtype:
                return part.number
        elif not dtype.is_bool:
            found = [
                Part(n - at, kept[n].dtype, kept[n].number)
                for n in range(at, at + size)
                if n in kept and n + kept[n].dtype.itemsize <= at + size
            ]
            if found:
                return _bits(cell, found)
    decode = decoder(dtype)
    value = cell if decode is None else decode(cell)
    return exact_of(value) if dtype.is_float else value


def write_at(memory: Memory, at: int, value: Any, dtype: DataType) -> Any:
    """Record the exact number of an element, and return the contents of its cell."""
    if dtype.is_float:
        _require_few_digits(value)
        near = round_to_dtype(value, dtype)
        if memory.numbers:
            forget(memory, at, dtype.itemsize)
        if near != value and value == value:
            _keep(memory, (Part(at, dtype, value),))
    else:
        near = value
        if memory.numbers:
            forget(memory, at, dtype.itemsize)
        if isinstance(value, _Bits):
            _keep(memory, (Part(at + p.at, p.dtype, p.number) for p in value.parts))
    encode = encoder(dtype)
    return near if encode is None else encode(near)


def _require_few_digits(number: ExactNumber) -> None:
    """Stop a run whose numbers grow at each step, since it would become slower and slower.

    Errors: NumbersTooLargeError.
    """
    if not isinstance(number, float):
        whole = max(abs(number.numerator), number.denominator)
        if whole.bit_length() > _MOST_BITS:
            raise NumbersTooLargeError


def _keep(memory: Memory, parts: Iterable[Part]) -> None:
    if memory.numbers is None:
        memory.numbers = {}
    for part in parts:
        memory.numbers[part.at] = part


def forget(memory: Memory, at: int, size: int) -> None:
    """Forget the exact numbers of bytes that are overwritten."""
    kept = memory.numbers
    if not kept:
        return
    for n in range(at - _MOST_BYTES + 1, at + size):
        part = kept.get(n)
        if part is not None and n + part.dtype.itemsize > at:
            del kept[n]


# -- accesses ------------------------------------------------------------------------------------
def load(
    view_in: Callable[[Environment], View],
    span: Span | None,
    dtype: DataType,
    rank: int,
    *,
    lanes: bool,
) -> Callable[..., Value]:
    """Return the function that reads an element, or ``lanes`` elements, of a buffer."""
    element, width, item = dtype.element, dtype.lanes, dtype.element.itemsize
    number, find = _number_of(element), finder(rank)

    def load_from(view: View, indices: Sequence[int]) -> Value:
        at = view.cell(indices, span)
        memory, cells = view.memory, view.cells
        if width == 1 and not memory.numbers:
            return number(cells[at])
        values = [
            read_at(memory, n * item + view.shift, cells[n], element) for n in range(at, at + width)
        ]
        return tuple(values) if width > 1 else values[0]

    def read(env: Environment, *indices: int) -> Value:
        view = view_in(env)
        if view.direct and not view.memory.numbers:
            at = find(view, *indices)
            if at >= 0:
                return number(view.cells[at])
        return load_from(view, indices)

    def read_lanes(env: Environment, *indices: Any) -> Value:
        view, outer = view_in(env), indices[:-1]
        memory, cells = view.memory, view.cells
        places = view.places(indices) if view.direct else None
        if places is not None:
            if not memory.numbers:
                return tuple(map(number, view.gather(places)))
            shift = view.shift
            return tuple([read_at(memory, n * item + shift, cells[n], element) for n in places])
        made: list[Any] = []
        for last in indices[-1]:
            view.locate((*outer, last), span)
        for last in indices[-1]:
            value = load_from(view, (*outer, last))
            made += value if width > 1 else (value,)
        return tuple(made)

    return read_lanes if lanes else read


def _number_of(dtype: DataType) -> Callable[[Any], Value]:
    """Return the function from a cell to its number, if no exact number is recorded."""
    decode = decoder(dtype)
    if not dtype.is_float:
        return _identity if decode is None else decode
    if decode is None:
        return exact_of
    return _numbers(str(dtype))


@functools.cache
def _numbers(name: str) -> Callable[[Any], Value]:
    decode = decoder(DataType(name))
    assert decode is not None
    return [exact_of(decode(bits)) for bits in range(1 << 16)].__getitem__


def _identity(cell: Any) -> Any:
    return cell


def store(
    view_in: Callable[[Environment], View],
    span: Span | None,
    dtype: DataType,
    rank: int,
    after: int,
    *,
    lanes: bool,
) -> Callable[..., int]:
    """Return the function that writes an element, or ``lanes`` elements, of a buffer."""
    find = finder(rank)
    element, width, item = dtype.element, dtype.lanes, dtype.element.itemsize
    encode = encoder(element)
    most = 1 << format_of(element).precision if element.is_float else -1

    def put(view: View, at: int, value: Any) -> None:
        memory = view.memory
        if type(value) is int and not memory.numbers:
            if most < 0:
                view.cells[at] = value if encode is None else encode(value)
                return
            if -most <= value <= most:
                near = float(value)  # the same number
                view.cells[at] = near if encode is None else encode(near)
                return
        view.cells[at] = write_at(memory, at * item + view.shift, value, element)

    def store_to(view: View, value: Value, indices: Sequence[int]) -> None:
        at = view.cell(indices, span)
        if width == 1:
            put(view, at, value)
            return
        for n, part in enumerate(value, at):
            put(view, n, part)

    def write(env: Environment, value: Value, *indices: int) -> int:
        view = view_in(env)
        if view.direct:
            at = find(view, *indices)
            if at >= 0:
                put(view, at, value)
                return after
        store_to(view, value, indices)
        return after

    def write_lanes(env: Environment, value: Value, *indices: Any) -> int:
        view, outer = view_in(env), indices[:-1]
        places = view.places(indices) if view.direct else None
        if places is not None:
            for at, part in zip(places, value, strict=True):
                put(view, at, part)
            return after
        for last in indices[-1]:
            view.locate((*outer, last), span)
        for lane, last in enumerate(indices[-1]):
            part = value[lane * width : (lane + 1) * width] if width > 1 else value[lane]
            store_to(view, part, (*outer, last))
        return after

    return write_lanes if lanes else write


# -- other dtypes ----------------------------------------------------------------------------------
def reinterpret(value: Value, source: DataType, target: DataType) -> Value:
    """Reinterpret bits as another dtype; exact numbers are kept if elements coincide."""
    lanes = value if source.is_vector else (value,)
    element = source.element
    item = element.itemsize
    parts: dict[int, Part] = {}
    near: list[Any] = []
    for n, lane in enumerate(lanes):
        kept: Any = lane
        if element.is_float:
            kept = round_to_dtype(lane, element)
            if kept != lane and lane == lane:
                parts[n * item] = Part(n * item, element, lane)
        elif isinstance(lane, _Bits):
            parts |= {n * item + p.at: Part(n * item + p.at, *p[1:]) for p in lane.parts}
        near.append(kept)
    made = unpack(pack(tuple(near) if source.is_vector else near[0], source), target)
    if target.is_bool or not (parts or target.is_float):
        return made
    memory = Memory(None)
    memory.numbers = parts
    element, item = target.element, target.itemsize // target.lanes
    every = made if target.is_vector else (made,)
    found = [_reinterpret(memory, n * item, part, element) for n, part in enumerate(every)]
    return tuple(found) if target.is_vector else found[0]


def _reinterpret(memory: Memory, at: int, value: Any, dtype: DataType) -> Value:
    encode = encoder(dtype)
    return read_at(memory, at, value if encode is None else encode(value), dtype)


def contents(view: View) -> Any:
    """Copy the contents of a buffer to an array of objects, with floats as exact numbers."""
    dtype, width = view.dtype.element, view.dtype.lanes
    shape = (*view.shape, width) if width > 1 else view.shape
    made: Any = np.empty(shape, object)
    if width == 1 and not view.memory.numbers:
        number, flat = _number_of(dtype), made.reshape(-1)
        places: Any = np.full(shape, view.start)
        for axis, steps in zip(view.axes, np.indices(shape, sparse=True), strict=True):
            places += steps * axis.stride
        for n, at in enumerate(places.ravel().tolist()):
            flat[n] = number(view.cells[at])
        return made
    for place in itertools.product(*map(range, view.shape)):
        at = view.start + width * sum(i * a.stride for i, a in zip(place, view.axes, strict=True))
        cells = range(at, at + width)
        item = dtype.itemsize
        values = [read_at(view.memory, n * item + view.shift, view.cells[n], dtype) for n in cells]
        if width > 1:
            made[place] = values
        else:
            made[place] = values[0]
    return made
