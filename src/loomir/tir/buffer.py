"""Buffers: named regions of memory with a shape, and accesses to them.

A buffer is not a value. Distinct buffers do not overlap, unless a block's ``match_buffers`` say so.
Without strides, elements are in row-major order. Indices are sign-extended to 64 bits; an index
outside of the shape is undefined behaviour, unless the program is compiled with checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, TypeAlias, overload

from loomir.ir.node import Node, attr, binds, child, meta, node, reset, uses
from loomir.ir.serialize import serializable
from loomir.support.diagnostics import with_article, with_count
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.expr import ExprLike, IntImm, PrimExpr, Var, convert
from loomir.tir.rules import refuse
from loomir.tir.types import PointerType, PrimType, pointer_type

__all__ = [
    "Buffer",
    "BufferLoad",
    "BufferRegion",
    "BufferType",
    "IterVar",
    "IterVarType",
    "MatchBufferRegion",
    "Range",
    "check_indices",
    "decl_buffer",
    "extent_between",
]


@serializable
class BufferType(Enum):
    """``AUTO_BROADCAST`` lets a stride of 0 stand for a dimension of size 1."""

    DEFAULT = "kDefault"
    AUTO_BROADCAST = "kAutoBroadcast"


@serializable
class IterVarType(Enum):
    """What an iterator of a block ranges over."""

    DATA_PAR = "kDataPar"
    THREAD_INDEX = "kThreadIndex"
    COMM_REDUCE = "kCommReduce"
    ORDERED = "kOrdered"
    OPAQUE = "kOpaque"
    UNROLLED = "kUnrolled"
    VECTORIZED = "kVectorized"
    PARALLELIZED = "kParallelized"
    TENSORIZED = "kTensorized"


@node
class Range(Node):
    """The integers from ``min``, ``extent`` many; without an extent, the single ``min``."""

    min: PrimExpr
    extent: PrimExpr | None = child(default=None)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        first: ExprLike = self.min
        count: ExprLike | None = self.extent
        if isinstance(first, int):
            reset(self, "min", convert(first))
        if isinstance(count, int):
            reset(self, "extent", convert(count))


@node
class IterVar(Node):
    """An iterator: a variable, its domain, and the order in which its iterations may run.

    Errors: TIR0302 where the extent's dtype is not the variable's, or not an integer.
    """

    lends_scope: ClassVar[bool] = True

    dom: Range | None
    var: Var = binds()
    iter_type: IterVarType = attr()
    thread_tag: str = attr(default="")
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.dom is not None and self.dom.extent is not None:
            dtype = self.dom.extent.dtype
            if not dtype.is_integer or dtype.lanes != 1 or dtype is not self.var.dtype:
                refuse(
                    "TIR0302",
                    f"iterator {self.var.name_hint!r} is {self.var.dtype}, its extent {dtype}",
                    help="give both one scalar integer dtype",
                    span=self.span,
                )


@node
class Buffer(Node):
    """A region of memory: where it starts, what it holds, and its shape.

    ``strides`` and ``elem_offset`` count elements; no strides means row-major. ``data_alignment``
    counts bytes and is a hint: unaligned memory is legal. ``elem_offset`` None is 0.
    Errors: TIR0301.
    """

    in_words: ClassVar[str] = "a buffer"
    is_definition: ClassVar[bool] = True

    data: Var = uses()
    dtype: DataType = attr()
    shape: tuple[PrimExpr, ...]
    axis_separators: tuple[IntImm, ...] = child(default=())
    strides: tuple[PrimExpr, ...] = child(default=())
    elem_offset: PrimExpr | None = child(default=None)
    name: str = meta(default="buffer")
    data_alignment: int = attr(default=64)
    offset_factor: int = attr(default=1)
    buffer_type: BufferType = attr(default=BufferType.DEFAULT)
    span: Span | None = meta(default=None, kw_only=True)

    @property
    def called(self) -> str:
        """The name of the buffer in errors."""
        return f"buffer {self.name!r}" if self.name else "the buffer"

    def __post_init__(self) -> None:
        annotation = self.data.type_annotation
        if not isinstance(annotation, PointerType) or not isinstance(
            annotation.element_type, PrimType
        ):
            refuse(
                "TIR0301",
                f"the data of {self.called} is not a typed pointer",
                help="make it with decl_buffer, or annotate the variable with a PointerType",
                span=self.span,
            )
        if self.dtype.is_handle or self.dtype.is_void:
            refuse(
                "TIR0301",
                f"{self.called} cannot hold elements of dtype {self.dtype}",
                help="buffers hold numbers or truth values",
                span=self.span,
            )
        parts = [("shape", e) for e in self.shape] + [("strides", e) for e in self.strides]
        if self.elem_offset is not None:
            parts.append(("elem_offset", self.elem_offset))
        for what, part in parts:
            if not part.dtype.is_integer or part.dtype.lanes != 1:
                refuse(
                    "TIR0301",
                    f"the {what} of {self.called} holds {with_article(part.dtype)}",
                    help="use scalar integers",
                    span=part.span if isinstance(part, IntImm) else self.span,
                )
        for extent in self.shape:
            if isinstance(extent, IntImm) and extent.value < 0:
                refuse(
                    "TIR0301",
                    f"{self.called} has a negative extent, {extent.value}",
                    help="an extent is 0 or more",
                    span=extent.span or self.span,
                )
        if self.strides and len(self.strides) != len(self.shape):
            refuse(
                "TIR0301",
                f"{self.called} has {with_count(len(self.shape), 'axis', 'axes')} but "
                f"{with_count(len(self.strides), 'stride')}",
                help="give one stride per axis, or none for row-major order",
                span=self.span,
            )
        if self.buffer_type is BufferType.AUTO_BROADCAST and self.shape and not self.strides:
            fresh = tuple(Var(f"{self.name}_s{i}", e.dtype) for i, e in enumerate(self.shape))
            reset(self, "strides", fresh)

    @property
    def scope(self) -> str:
        """The kind of memory, such as ``global`` or ``local``."""
        annotation = self.data.type_annotation
        return annotation.storage_scope if isinstance(annotation, PointerType) else "global"

    __iter__: ClassVar[None] = None
    """Not iterable: Python would read the elements at 0, 1, 2 and so on, without an end."""

    if TYPE_CHECKING:
        # For type checkers: programs have `A[i] = value`, which is parsed and never run.
        def __setitem__(self, key: IndexLike | tuple[IndexLike, ...], value: ExprLike) -> None: ...

    @overload
    def __getitem__(  # pyright: ignore[reportOverlappingOverload] - of no index
        self, key: ExprLike | tuple[ExprLike, ...]
    ) -> BufferLoad: ...
    @overload
    def __getitem__(self, key: slice | tuple[IndexLike, ...]) -> BufferRegion: ...
    def __getitem__(self, key: IndexLike | tuple[IndexLike, ...]) -> BufferLoad | BufferRegion:
        items = key if isinstance(key, tuple) else (key,)
        if any(isinstance(item, slice) for item in items):
            return self.region(items)
        return BufferLoad(self, tuple(convert(i) for i in items if not isinstance(i, slice)))

    def region(self, items: Sequence[IndexLike]) -> BufferRegion:
        """Return the region of indices and slices; a slice without an end runs to the axis's."""
        ranges: list[Range] = []
        for axis, item in enumerate(items):
            if isinstance(item, slice):
                start = convert(0 if item.start is None else item.start)
                whole = self.shape[axis] if axis < len(self.shape) else convert(0)
                stop = whole if item.stop is None else convert(item.stop)
                ranges.append(Range(start, extent_between(start, stop)))
            else:
                index = convert(item)
                ranges.append(Range(index, IntImm(1, index.dtype)))
        return BufferRegion(self, tuple(ranges))

    def whole(self) -> BufferRegion:
        """Return the region of all elements."""
        return BufferRegion(self, tuple(Range(IntImm(0, e.dtype), e) for e in self.shape))


IndexLike: TypeAlias = ExprLike | slice


def extent_between(start: PrimExpr, stop: PrimExpr) -> PrimExpr:
    """Return ``stop - start``, as a constant where both are, without a subtraction of zero."""
    if isinstance(start, IntImm) and isinstance(stop, IntImm):
        dtype = stop.dtype if stop.dtype.bits >= start.dtype.bits else start.dtype
        return IntImm(stop.value - start.value, dtype)
    if isinstance(start, IntImm) and start.value == 0:
        return stop
    return stop - start


def decl_buffer(
    shape: Sequence[ExprLike],
    dtype: DataType | str = "float32",
    name: str = "buffer",
    *,
    data: Var | None = None,
    strides: Sequence[ExprLike] = (),
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    data_alignment: int = 64,
    offset_factor: int = 1,
    buffer_type: BufferType = BufferType.DEFAULT,
    axis_separators: Sequence[int] = (),
    span: Span | None = None,
) -> Buffer:
    """Make a buffer, with a new data variable of its name if none is passed."""
    element = DataType(dtype) if isinstance(dtype, str) else dtype
    if data is None:
        data = Var(name, type_annotation=pointer_type(element, scope))
    return Buffer(
        data,
        element,
        tuple(convert(e) for e in shape),
        tuple(IntImm(i, DataType("int32")) for i in axis_separators),
        tuple(convert(e) for e in strides),
        None if elem_offset is None else convert(elem_offset),
        name,
        data_alignment,
        offset_factor,
        buffer_type,
        span=span,
    )


@node
class BufferRegion(Node):
    """A box in a buffer: one range per axis (TIR0303)."""

    buffer: Buffer = uses()
    region: tuple[Range, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if len(self.region) != len(self.buffer.shape):
            refuse(
                "TIR0303",
                f"{self.buffer.called} has {with_count(len(self.buffer.shape), 'axis', 'axes')}, "
                f"but this region has {len(self.region)}",
                help="give an index or a slice for each axis; to write all elements, write a loop",
                span=self.span,
            )


@node
class MatchBufferRegion(Node):
    """A buffer that is another name for a region of ``source``, fewer axes allowed.

    Leading axes of the region that the buffer lacks must have extent 1.
    Errors: TIR0304.
    """

    lends_scope: ClassVar[bool] = True

    buffer: Buffer = binds()
    source: BufferRegion
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        target, source = self.buffer, self.source.buffer
        if target.dtype is not source.dtype:
            self._refuse(f"holds {target.dtype}, its source {source.dtype}", "use one dtype")
        if target.data_alignment == 0 or source.data_alignment % target.data_alignment:
            self._refuse(
                f"asks for {target.data_alignment}-byte alignment of a source with "
                f"{source.data_alignment}",
                "use an alignment that divides the source's",
            )
        offset, from_source = target.elem_offset, source.elem_offset
        at_start = isinstance(from_source, IntImm) and from_source.value == 0
        if (
            isinstance(offset, IntImm)
            and offset.value == 0
            and from_source is not None
            and not at_start
        ):
            self._refuse("starts at offset 0, its source does not", "leave elem_offset out")
        if target.scope != source.scope:
            self._refuse(
                f"is in {target.scope} memory, its source in {source.scope}", "use one scope"
            )
        if BufferType.AUTO_BROADCAST in (target.buffer_type, source.buffer_type):
            self._refuse("or its source broadcasts", "use buffers of type default")
        if len(target.shape) > len(self.source.region):
            self._refuse(
                f"has {with_count(len(target.shape), 'axis', 'axes')}, the region "
                f"{len(self.source.region)}",
                "drop axes, or match a larger region",
            )

    def _refuse(self, what: str, help: str) -> None:
        name = self.buffer.name
        refuse("TIR0304", f"match_buffer: {name!r} {what}", help=help, span=self.span)


def check_indices(buffer: Buffer, indices: tuple[PrimExpr, ...], span: Span | None) -> DataType:
    """Check the rules that loads and stores share; return the dtype of what is accessed.

    Errors: TIR0107.
    """
    if len(indices) != len(buffer.shape):
        refuse(
            "TIR0107",
            f"{buffer.called} has {with_count(len(buffer.shape), 'axis', 'axes')} but is accessed "
            f"with {with_count(len(indices), 'index', 'indices')}",
            help=f"give {with_count(len(buffer.shape), 'index', 'indices')}",
            span=span,
        )
    for axis, index in enumerate(indices):
        if not index.dtype.is_integer:
            refuse(
                "TIR0107",
                f"index {axis} of {buffer.called} is {index.dtype}",
                help="index with integers; T.cast converts",
                span=span,
            )
        if index.dtype.lanes != 1 and axis != len(indices) - 1:
            refuse(
                "TIR0107",
                f"index {axis} of {buffer.called} is a vector",
                help="only the last index may be a vector",
                span=span,
            )
    lanes = indices[-1].dtype.lanes if indices else 1
    return buffer.dtype.with_lanes(buffer.dtype.lanes * lanes)


@node
class BufferLoad(PrimExpr):
    """The element of ``buffer`` at ``indices``; a vector as last index reads one per lane.

    Errors: TIR0107.
    """

    buffer: Buffer = uses()
    indices: tuple[PrimExpr, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.dtype = check_indices(self.buffer, self.indices, self.span)
