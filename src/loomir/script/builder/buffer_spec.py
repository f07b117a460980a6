"""``T.Buffer(shape, dtype)``: what an annotation says of a buffer before the buffer exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from loomir.script.builder.arguments import (
    add_describer,
    as_dtype,
    as_expr,
    as_int,
    as_items,
    as_text,
    describe,
)
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, BufferType, decl_buffer
from loomir.tir.expr import ExprLike, IntImm, PrimExpr, Var

__all__ = ["BufferSpec", "Extent", "ShapeLike", "declare_buffer"]

Extent: TypeAlias = ExprLike | str
ShapeLike: TypeAlias = Sequence[Extent] | Extent

_TYPES: Final = {
    "": BufferType.DEFAULT,
    "default": BufferType.DEFAULT,
    "auto": BufferType.AUTO_BROADCAST,
    "auto_broadcast": BufferType.AUTO_BROADCAST,
    "kDefault": BufferType.DEFAULT,
    "kAutoBroadcast": BufferType.AUTO_BROADCAST,
}
DEFAULT_ALIGNMENT: Final = 64


class BufferSpec:
    """The shape and dtype of a parameter, as ``A: T.Buffer((8, 8), "float32")``.

    Python evaluates annotations when it defines a function, so nothing is checked here: the parser
    reads the same text and reports what is wrong with it. A string as an extent names a variable.
    The dtype is float32 where none is given.
    """

    def __init__(
        self,
        shape: ShapeLike | None = None,
        dtype: DTypeLike | None = None,
        data: Var | None = None,
        strides: ShapeLike | None = None,
        elem_offset: Extent | None = None,
        scope: str | None = None,
        align: int | None = None,
        offset_factor: int | None = None,
        buffer_type: str | None = None,
        axis_separators: Sequence[int] | None = None,
        type: str | None = None,  # another name of buffer_type
        byte_offset: ExprLike | None = None,
        layout: object = None,
    ) -> None:
        self.shape, self.dtype, self.data = shape, dtype, data
        self.strides, self.elem_offset, self.scope = strides, elem_offset, scope
        self.align, self.offset_factor = align, offset_factor
        self.buffer_type = type if buffer_type is None else buffer_type
        self.axis_separators = axis_separators
        self.byte_offset, self.layout = byte_offset, layout

    def __class_getitem__(cls, item: Any) -> BufferSpec:
        """Let Python define a function annotated so; the parser reports it."""
        return cls((), "float32")

    def make(self, name: str, names: dict[str, Var], span: Span | None) -> Buffer:
        """Make the buffer; ``names`` holds the variables that strings in shapes declare."""
        return declare_buffer(self, name, names, span)


def declare_buffer(spec: BufferSpec, name: str, names: dict[str, Var], span: Span | None) -> Buffer:
    """Make the buffer that a specification describes.

    Errors: SCR0005, SCR0025, TIR0001, TIR0301.
    """
    if spec.data is not None and not isinstance(spec.data, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_argument(
            spec.data,
            f"data= must be a pointer variable, not {describe(spec.data)}",
            help="pass A.data, or what T.allocate gave",
        )
    if spec.shape is None:
        raise mistake(
            "SCR0005", "the shape of the buffer is missing", help="give it first, as in (8, 8)"
        )
    strides = () if spec.strides is None else _extents(spec.strides, "strides", names)
    if spec.layout not in (None, "default"):
        raise wrong_argument(
            spec.layout,
            f"a buffer has no layout, and {describe(spec.layout)} is given",
            help="write strides=, or transform the layout by a schedule",
        )
    dtype = as_dtype("float32" if spec.dtype is None else spec.dtype)
    offset = None if spec.elem_offset is None else _extent(spec.elem_offset, "elem_offset", names)
    if spec.byte_offset is not None:
        offset = _elements(spec.byte_offset, dtype, offset)
    kind = "default" if spec.buffer_type is None else as_text(spec.buffer_type, "buffer_type")
    if kind not in _TYPES:
        raise wrong_argument(
            spec.buffer_type,
            f"there is no buffer type {kind!r}",
            help='use "default" or "auto_broadcast"',
        )
    align = -1 if spec.align is None else as_int(spec.align, "align")
    factor = 1 if spec.offset_factor is None else as_int(spec.offset_factor, "offset_factor")
    separators = as_items(spec.axis_separators or [], "axis_separators")
    return decl_buffer(
        _extents(spec.shape, "the shape", names),
        dtype,
        name,
        data=spec.data,
        strides=strides,
        elem_offset=offset,
        scope="global" if spec.scope is None else as_text(spec.scope, "scope"),
        data_alignment=DEFAULT_ALIGNMENT if align <= 0 else align,
        offset_factor=factor or 1,
        buffer_type=_TYPES[kind],
        axis_separators=[as_int(s, "an axis separator") for s in separators],
        span=span,
    )


def _elements(given: object, dtype: DataType, offset: PrimExpr | None) -> PrimExpr:
    """Return an offset in bytes as one in elements.

    Errors: SCR0005 for one that is not a multiple of the element, or beside an offset in elements.
    """
    if offset is not None:
        raise wrong_argument(
            given, "the buffer has two offsets", help="give elem_offset or byte_offset"
        )
    made = as_expr(given, "byte_offset")
    size = dtype.itemsize
    if isinstance(made, IntImm):
        if made.value % size:
            raise wrong_argument(
                given,
                f"byte_offset is {made.value}, no multiple of the {size} bytes of {dtype}",
                help="give a multiple, or another dtype",
            )
        return IntImm(made.value // size, made.dtype)
    return made // size


def _extents(shape: object, what: str, names: dict[str, Var]) -> list[PrimExpr]:
    return [_extent(item, what, names) for item in as_items(shape, what)]


def _extent(item: object, what: str, names: dict[str, Var]) -> PrimExpr:
    if isinstance(item, str):
        if not item.isidentifier():
            raise wrong_argument(
                item,
                f"{what} holds the string {item!r}, which is no name",
                help='name a variable, as in ("n", 4)',
            )
        return names.setdefault(item, Var(item, DataType("int64")))
    return as_expr(item, what)


add_describer(lambda value: "a declared buffer" if isinstance(value, BufferSpec) else None)
