"""Emit loads from buffers and stores to them.

After lowering, a buffer has one axis; its index counts elements from the start of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from loomir.arith.fold import fold_expr
from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR, VOID, Type
from loomir.codegen.llvm.assembler.values import Value, const, poison
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.tir.constants import constant_of, stride_of
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.codegen.llvm.tir.memory import element_size, load_value, memory_type, store_value
from loomir.codegen.llvm.tir.sums import sum_of
from loomir.ir.equality import structural_equal
from loomir.ir.visit import Step, by_class, fold
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    Add,
    Broadcast,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
    Var,
)
from loomir.tir.stmt import BufferStore

__all__ = [
    "LaneIndices",
    "addresses_of",
    "base_of",
    "fills_lanes",
    "lane_indices",
    "load",
    "load_at",
    "load_widened",
    "store",
]

_INT64: Final = DataType("int64")
_LINE: Final = 64
"""Bytes of a cache line."""
_KEEP: Final = 3
_DATA: Final = 1
"""The last arguments of ``llvm.prefetch``: the greatest locality, and the data cache."""
_NARROW: Final = range(2, 5)
"""Strides at which whole vectors are loaded and shuffled, instead of one load for each lane.

4096 floats from L1 and L2 take 0.61, 0.66 and 0.73 of the time at strides of 2, 3 and 4 (Zen 4).
"""
_NODES: Final = 64
"""Most nodes of an index that is evaluated lane by lane: a bound on code, which was not tuned."""
_BY_LANES: Final = frozenset(
    (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, Cast, BufferLoad, Broadcast, Ramp, IntImm, Var)
)
"""Nodes of an index that is evaluated lane by lane; choices are faster in vectors."""
_DEINTERLEAVED: Final = (16, 32, 64)
"""Numbers of pixels whose three bytes LLVM's interleaved accesses separate for AVX and above."""


def base_of(frame: FunctionFrame, buffer: Buffer) -> Value:
    """Return the address of a buffer's first element."""
    found = frame.views.get(buffer)
    return frame.lookup(buffer.data) if found is None else found


def _index_of(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    if len(indices) != 1:
        raise InternalError(f"buffer {buffer.name!r} has {len(indices)} axes in lowered code")
    return indices[0]


def _address(
    b: Builder, dtype: DataType, base: Value, index: Value, *, inbounds: bool = True
) -> Value:
    """Return the address of an element, of ``dtype.lanes`` lanes packed.

    ``inbounds``: it is accessed, so it does not wrap around. Otherwise LLVM's vectoriser would ask.
    """
    if dtype.lanes > 1:
        index = b.mul(index, const(I64, dtype.lanes))
    return b.gep(memory_type(dtype.element), base, index, inbounds=inbounds)


class LaneIndices:
    """The elements of an access: every ``stride``-th from ``start`` on, or the index of each lane.

    Where the buffer consists of groups of ``stride`` elements, each lane is at ``place`` in its
    group.
    """

    __slots__ = ("indices", "place", "start", "stride")

    def __init__(
        self,
        start: Value | None,
        stride: int,
        indices: Value | Sequence[Value] | None,
        place: int | None = None,
    ) -> None:
        self.start = start
        self.stride = stride
        self.indices = indices
        self.place = place

    def lane(self, b: Builder, lane: int) -> Value:
        """Return the index of a lane."""
        assert self.indices is not None
        if not isinstance(self.indices, Value):
            return self.indices[lane]
        return b.extractelement(self.indices, lane)


def lane_indices(frame: FunctionFrame, e: BufferLoad | BufferStore) -> Step[LaneIndices]:
    """Evaluate the index of an access."""
    index = _index_of(e.buffer, e.indices)
    if index.dtype.lanes == 1:
        start = sum_of(frame, index)
        if start is None:
            start = yield frame.value(index)
        return LaneIndices(cast(frame.b, start, index.dtype, _INT64), 1, None)
    stride = stride_of(index)
    narrow = stride in _NARROW and isinstance(e, BufferLoad) and _has_bytes(e.buffer.dtype)
    back = stride == -1 and _has_bytes(e.buffer.dtype) and e.buffer.data not in frame.volatile
    if stride is not None and isinstance(index, Ramp) and (stride == 1 or narrow or back):
        start = sum_of(frame, index.base)
        if start is None:
            start = yield frame.value(index.base)
        place = _place_in_group(frame, e.buffer, index.base, stride) if narrow else None
        return LaneIndices(start, stride, None, place)
    if stride and isinstance(index, Ramp):
        # Lanes of a vector of indices would be taken out one by one; these are folded into
        # addresses, which takes 0.45 of the time at a stride of 9 (AVX2, Zen 3).
        first: Value = yield frame.value(index.base)
        first = cast(frame.b, first, index.base.dtype, _INT64)
        steps = [const(I64, lane * stride) for lane in range(index.dtype.lanes)]
        return LaneIndices(None, 0, [frame.b.add(first, step) for step in steps])
    looked_up: list[Value] | None = yield _look_up_lanes(frame, index)
    if looked_up is not None:
        return LaneIndices(None, 0, looked_up)
    value: Value = yield frame.value(index)
    wide = cast(frame.b, value, index.dtype, _INT64.with_lanes(index.dtype.lanes))
    if stride in (0, 1):
        return LaneIndices(frame.b.extractelement(wide, 0), stride, None)
    return LaneIndices(None, 0, wide)


def _look_up_lanes(frame: FunctionFrame, index: PrimExpr) -> Step[list[Value] | None]:
    """Evaluate an index that is made of loaded numbers, lane by lane; None for other indices.

    Numbers that are loaded side by side would be taken out of their vector one by one, to address
    the elements. To load each by itself takes 0.7 to 0.85 of the time (bytes, on a Zen 4).
    """
    found = by_class(index)
    if frame.checks_arithmetic or BufferLoad not in found:
        return None
    if sum(map(len, found.values())) > _NODES or not found.keys() <= _BY_LANES:
        return None
    for load in found[BufferLoad]:
        ramp = load.indices[0]
        if load.dtype.lanes > 1 and (not isinstance(ramp, Ramp) or stride_of(ramp) != 1):
            return None
        if not _has_bytes(load.buffer.dtype) or load.buffer.data in frame.volatile:
            return None
    divisions = [*found.get(FloorDiv, ()), *found.get(FloorMod, ())]
    if not all(constant_of(division.b) for division in divisions):
        return None  # whether a divisor is 0 would be asked for each lane
    made: list[Value] = []
    for lane in range(index.dtype.lanes):
        one = _lane_of(index, lane)
        value: Value = yield frame.value(one)
        made.append(cast(frame.b, value, one.dtype, _INT64))
    return made


def _lane_of(index: PrimExpr, lane: int) -> PrimExpr:
    """Return an index in one of its lanes."""

    def node(e: Any, parts: list[Any]) -> Any:
        if not isinstance(e, PrimExpr) or e.dtype.lanes == 1:
            return e
        if isinstance(e, Broadcast):
            return e.value
        if isinstance(e, Ramp):
            step = IntImm(lane, e.base.dtype)
            return fold_expr(e.base + e.stride * step)
        if isinstance(e, BufferLoad):
            return BufferLoad(e.buffer, (parts[-1],), span=e.span)
        if isinstance(e, Cast):
            return Cast(parts[0], e.dtype.element)
        kind: Any = type(e)
        return kind(*parts)

    return fold(index, node)


def _place_in_group(
    frame: FunctionFrame, buffer: Buffer, index: PrimExpr, stride: int
) -> int | None:
    """Return ``index % stride`` if it is known and groups of ``stride`` elements fill the buffer.

    Then loads of the elements of one group, such as the three colours of a pixel, can share one
    load of the whole group: if one element of a group is in the buffer, all are.
    """
    if not _is_multiple(buffer.shape[0], stride):
        return None
    # An index that wraps around has another remainder, unless the stride is a power of two. Indices
    # made of loop variables do not wrap.
    by_loops = all(var in frame.ranges for var in by_class(index).get(Var, ()))
    if stride & (stride - 1) and not by_loops:
        return None
    place, todo = 0, [index]
    while todo:
        part = todo.pop()
        if isinstance(part, Add):
            todo += part.a, part.b
        elif isinstance(part, IntImm):
            place += part.value
        elif not _is_multiple(part, stride):
            return None
    return place % stride


def _is_multiple(e: PrimExpr, of: int) -> bool:
    """Tell whether an expression is certainly a multiple of a number: one of its factors is."""
    if isinstance(e, Mul):
        return _is_multiple(e.b, of) or _is_multiple(e.a, of)
    return isinstance(e, IntImm) and e.value % of == 0


def _has_bytes(dtype: DataType) -> bool:
    """Tell whether each element of a buffer fills whole bytes."""
    return dtype.lanes == 1 and dtype.bits % 8 == 0


def load(frame: FunctionFrame, e: BufferLoad) -> Step[Value]:
    """Emit a load."""
    place: LaneIndices = yield lane_indices(frame, e)
    return load_at(frame, e, place)


def addresses_of(
    frame: FunctionFrame, e: BufferLoad, place: LaneIndices
) -> Iterator[tuple[int, Value]]:
    """List the addresses of an access, lane by lane of the index; a vector element has several."""
    b, element = frame.b, e.buffer.dtype
    base = base_of(frame, e.buffer)
    for lane in range(e.indices[0].dtype.lanes):
        index = place.start
        if index is None:
            index = place.lane(b, lane)
        elif place.stride and lane:
            index = b.add(index, const(I64, lane * place.stride))
        first = _address(b, element, base, index, inbounds=False)
        for part in range(element.lanes):
            yield lane, b.gep(memory_type(element.element), first, const(I64, part))


def load_at(frame: FunctionFrame, e: BufferLoad, place: LaneIndices) -> Value:
    """Emit a load whose index is evaluated."""
    b, element = frame.b, e.buffer.dtype
    base = base_of(frame, e.buffer)
    volatile = e.buffer.data in frame.volatile
    lanes = e.indices[0].dtype.lanes
    if place.start is not None and place.stride == 1:
        address = _address(b, element, base, place.start)
        _prefetch_later_access(frame, e, address, writes=False)
        return load_value(b, e.dtype, address, align=_align(frame, e.buffer), volatile=volatile)
    if place.start is not None and place.stride == -1:
        address = _address(b, element, base, b.sub(place.start, const(I64, lanes - 1)))
        return _reverse(b, load_value(b, e.dtype, address, align=_align(frame, e.buffer)))
    if place.start is not None and place.stride:
        if volatile:
            steps = [const(I64, i * place.stride) for i in range(lanes)]
            where = [b.add(place.start, step) for step in steps]
            ones = [_load_element(frame, e.buffer, base, index, True) for index in where]
            return _concatenate(b, ones, register_type(e.dtype))
        return _load_strided(frame, e, base, place)
    if place.start is not None:
        one = _load_element(frame, e.buffer, base, place.start, volatile)
        return _concatenate(b, [one] * lanes, register_type(e.dtype))
    parts = [_load_element(frame, e.buffer, base, place.lane(b, i), volatile) for i in range(lanes)]
    return _concatenate(b, parts, register_type(e.dtype))


def _prefetch_later_access(
    frame: FunctionFrame, access: BufferLoad | BufferStore, address: Value, *, writes: bool
) -> None:
    """Prefetch for a later iteration, if the loop asks for it; any address is harmless."""
    index, buffer = access.indices[0], access.buffer
    lanes = index.dtype.lanes
    if frame.ahead is None or lanes == 1 or buffer.data in frame.owned:
        return
    var, distance, fetched = frame.ahead
    same = (place for data, place in fetched if data is buffer.data)
    if any(structural_equal(index, place) for place in same):
        return
    fetched.append((buffer.data, index))
    if all(v is var for v in by_class(index).get(Var, ())):
        return  # the address is the same in every outer iteration
    b, size = frame.b, element_size(buffer.dtype)
    flags = [const(I32, int(writes)), const(I32, _KEEP), const(I32, _DATA)]
    for line in range(0, lanes * size, _LINE):
        there = b.gep(I8, address, const(I64, distance * size + line))
        b.intrinsic("llvm.prefetch", [there, *flags], result=VOID, overloads=[PTR])


def _reverse(b: Builder, value: Value) -> Value:
    return b.shufflevector(value, poison(value.type), list(reversed(range(value.type.lanes))))


def _load_strided(frame: FunctionFrame, e: BufferLoad, base: Value, place: LaneIndices) -> Value:
    """Load everything between the first and the last lane, or whole groups, and pick the lanes."""
    b, lanes, stride, skipped = frame.b, e.dtype.lanes, place.stride, place.place or 0
    assert place.start is not None
    align = _align(frame, e.buffer)
    begin = b.sub(place.start, const(I64, skipped)) if skipped else place.start
    if place.place is not None and _deinterleaves(b, e.buffer.dtype, lanes, stride):
        wide = memory_type(e.buffer.dtype).with_lanes(lanes * stride)
        group = b.load(wide, _address(b, e.buffer.dtype, base, begin), align=align or 1)
        mask = [skipped + lane * stride for lane in range(lanes)]
        return b.shufflevector(group, poison(group.type), mask)
    last = (lanes - 1) * stride if place.place is None else lanes * stride - 1
    made = poison(register_type(e.dtype))
    for k in range(stride):
        first = min(k * lanes, last + 1 - lanes)
        start = b.add(begin, const(I64, first)) if first else begin
        part = load_value(b, e.dtype, _address(b, e.buffer.dtype, base, start), align=align)
        loaded = range(k * lanes, (k + 1) * lanes)
        at = [skipped + lane * stride for lane in range(lanes)]
        mask = [lanes + i - first if i in loaded else lane for lane, i in enumerate(at)]
        made = b.shufflevector(made, part, mask)
    return made


def _deinterleaves(b: Builder, dtype: DataType, lanes: int, stride: int) -> bool:
    """Tell whether LLVM has a sequence for picking every ``stride``-th byte of one wide load.

    Without instructions that permute bytes across a register, it takes two thirds of the time.
    """
    features = b.module.features
    if dtype.bits != 8 or stride != 3 or lanes not in _DEINTERLEAVED:
        return False
    return b.module.triple.startswith("x86_64") and "avx512_vbmi" not in features


def fills_lanes(value: PrimExpr, target: DataType) -> bool:
    """Whether lanes of ``target`` are as wide as the groups from which a load picks an element."""
    if not isinstance(value, BufferLoad) or not isinstance(value.indices[0], Ramp):
        return False
    element = value.buffer.dtype
    if element.is_bool or target.is_bool or not _has_bytes(element):
        return False
    if not element.is_integer or not target.is_integer:
        return False
    ratio = target.bits // element.bits
    return ratio in (2, 4) and stride_of(value.indices[0]) == ratio


def load_widened(frame: FunctionFrame, e: BufferLoad, target: DataType) -> Step[Value]:
    """Load every second or fourth integer, widened to lanes that are as wide as a group.

    A group is loaded as one number, whose bits hold the element, the first one lowest (all targets
    are little-endian); no lanes are shuffled.
    """
    place: LaneIndices = yield lane_indices(frame, e)
    b, element = frame.b, e.buffer.dtype
    if place.place is None or place.start is None or e.buffer.data in frame.volatile:
        return cast(b, load_at(frame, e, place), e.dtype, target)
    start = b.sub(place.start, const(I64, place.place)) if place.place else place.start
    address = _address(b, element, base_of(frame, e.buffer), start)
    group = load_value(b, target, address, align=_align(frame, e.buffer))
    low = place.place * element.bits
    high = target.bits - element.bits - low

    def number(n: int) -> Value:
        return b.splat(const(register_type(target).element, n), target.lanes)

    if element.is_uint:
        moved = b.lshr(group, number(low)) if low else group
        return b.and_(moved, number((1 << element.bits) - 1)) if high else moved
    moved = b.shl(group, number(high)) if high else group
    return b.ashr(moved, number(target.bits - element.bits))


def _align(frame: FunctionFrame, buffer: Buffer) -> int:
    """Return the alignment of an access: 1 for arguments, whose addresses callers choose."""
    return memory_type(buffer.dtype).align if buffer.data in frame.owned else 1


def _load_element(
    frame: FunctionFrame, buffer: Buffer, base: Value, index: Value, volatile: bool
) -> Value:
    address = _address(frame.b, buffer.dtype, base, index)
    return load_value(
        frame.b, buffer.dtype, address, align=_align(frame, buffer), volatile=volatile
    )


def _concatenate(b: Builder, parts: list[Value], to: Type) -> Value:
    """Put scalars or vectors end to end."""
    if parts[0].type.lanes == 1:
        if all(part is parts[0] for part in parts):
            return b.splat(parts[0], len(parts))
        made = poison(to)
        for lane, part in enumerate(parts):
            made = b.insertelement(made, part, lane)
        return made
    made, width = poison(to), parts[0].type.lanes
    for i, part in enumerate(parts):
        for lane in range(width):
            made = b.insertelement(made, b.extractelement(part, lane), i * width + lane)
    return made


def store(frame: FunctionFrame, s: BufferStore) -> Step[None]:
    """Emit a store: the value is evaluated first, lanes are written in order."""
    value: Value = yield frame.value(s.value)
    index = _index_of(s.buffer, s.indices)
    place: LaneIndices = yield lane_indices(frame, s)
    b, element = frame.b, s.buffer.dtype
    base = base_of(frame, s.buffer)
    volatile = s.buffer.data in frame.volatile
    align = _align(frame, s.buffer)
    if place.start is not None and place.stride == 1:
        address = _address(b, element, base, place.start)
        _prefetch_later_access(frame, s, address, writes=True)
        store_value(b, s.value.dtype, value, address, align=align, volatile=volatile)
        return
    if place.start is not None and place.stride == -1:
        first = b.sub(place.start, const(I64, index.dtype.lanes - 1))
        address = _address(b, element, base, first)
        store_value(b, s.value.dtype, _reverse(b, value), address, align=align)
        return
    for i in range(index.dtype.lanes):
        at = place.start if place.start is not None else place.lane(b, i)
        part = _slice(b, value, i, element.lanes)
        address = _address(b, element, base, at)
        store_value(b, element, part, address, align=align, volatile=volatile)


def _slice(b: Builder, value: Value, number: int, width: int) -> Value:
    """Return the slice of a vector that holds one element of a buffer."""
    if width == 1:
        return b.extractelement(value, number)
    mask = range(number * width, (number + 1) * width)
    return b.shufflevector(value, poison(value.type), list(mask))
