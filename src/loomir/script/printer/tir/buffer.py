"""Print buffers: their declarations, and the names of their memory."""

from __future__ import annotations

from loomir.ir.visit import Step, pre_order
from loomir.script.printer.doc import ExprDoc, ListDoc, LiteralDoc, TupleDoc
from loomir.script.printer.docsifier import Docsifier, leaf_handler
from loomir.script.printer.values import T, declaration, dtype_doc, text
from loomir.tir.buffer import Buffer, BufferType
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.types import PointerType, PrimType

__all__ = [
    "bind_buffer",
    "buffer_arguments",
    "buffer_doc",
    "declare_free",
    "declare_pointer",
    "is_default",
    "is_static",
    "list_allocation_arguments",
    "numbers_of",
    "owns_its_data",
    "standalone_buffer",
]


def buffer_doc(d: Docsifier, buffer: Buffer) -> ExprDoc:
    """Return the name of a buffer."""
    known = d.find_known(buffer)
    return bind_buffer(d, buffer, d.declare(buffer, buffer.name)) if known is None else known


def bind_buffer(d: Docsifier, buffer: Buffer, name: ExprDoc) -> ExprDoc:
    """Make ``name`` a buffer's name, and ``name.data`` its pointer's where that has none."""
    d.bind(buffer, name)
    if d.find_known(buffer.data) is None:
        d.bind(buffer.data, name.attr("data"))
    return name


def owns_its_data(d: Docsifier, buffer: Buffer) -> bool:
    """Tell whether declaring the buffer makes its pointer: not named yet, and of the usual type."""
    annotation = buffer.data.type_annotation
    return (
        d.find_known(buffer.data) is None
        and isinstance(annotation, PointerType)
        and isinstance(annotation.element_type, PrimType)
        and annotation.element_type.dtype is buffer.dtype
    )


def declare_free(d: Docsifier, buffer: Buffer) -> None:
    """Emit declarations of the variables in a buffer's shape, strides and offset without a name."""
    for part in numbers_of(buffer):
        for node in pre_order(part):
            if isinstance(node, Var) and d.find_known(node) is None:
                name = d.declare(node, node.name_hint)
                d.emit_declaration(name, declaration(node.type_annotation))


def declare_pointer(d: Docsifier, buffer: Buffer) -> None:
    """Emit a declaration of a buffer's pointer where declaring the buffer would not make it."""
    if d.find_known(buffer.data) is None and not owns_its_data(d, buffer):
        name = d.declare(buffer.data, buffer.data.name_hint)
        d.emit_declaration(name, declaration(buffer.data.type_annotation))


def is_static(buffer: Buffer) -> bool:
    """Tell whether a buffer mentions no variables."""
    return all(isinstance(part, IntImm) for part in numbers_of(buffer))


def is_default(buffer: Buffer) -> bool:
    """Tell whether shape and dtype say all about a buffer."""
    return not (
        buffer.strides
        or buffer.elem_offset is not None
        or buffer.scope != "global"
        or buffer.data_alignment != 64
        or buffer.offset_factor != 1
        or buffer.buffer_type is BufferType.AUTO_BROADCAST
        or buffer.axis_separators
    )


def numbers_of(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """List the expressions in a buffer's fields."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return (*buffer.shape, *buffer.strides, *offset)


def _tuple(d: Docsifier, parts: tuple[PrimExpr, ...]) -> Step[TupleDoc]:
    docs: list[ExprDoc] = []
    for part in parts:
        docs.append((yield d.expr(part)))
    return TupleDoc(tuple(docs))


def buffer_arguments(
    d: Docsifier, buffer: Buffer
) -> Step[tuple[tuple[ExprDoc, ...], dict[str, ExprDoc]]]:
    """Ask for what declares a buffer: shape and dtype, and as keywords what is not the default.

    ``data=`` is among them where the pointer has a name already.
    """
    args = ((yield _tuple(d, buffer.shape)), dtype_doc(buffer.dtype))
    keywords: dict[str, ExprDoc] = {}
    data = d.find_known(buffer.data)
    if data is not None:
        keywords["data"] = data
    elif is_default(buffer):
        return args, keywords
    if buffer.strides:
        keywords["strides"] = yield _tuple(d, buffer.strides)
    if buffer.elem_offset is not None:
        keywords["elem_offset"] = yield d.expr(buffer.elem_offset)
    if data is None and buffer.scope != "global":
        keywords["scope"] = text(buffer.scope)
    if buffer.data_alignment != 64:
        keywords["align"] = LiteralDoc(buffer.data_alignment)
    if buffer.offset_factor != 1:
        keywords["offset_factor"] = LiteralDoc(buffer.offset_factor)
    if buffer.buffer_type is BufferType.AUTO_BROADCAST:
        keywords["buffer_type"] = text("auto")
    if buffer.axis_separators:
        separators = yield _tuple(d, buffer.axis_separators)
        keywords["axis_separators"] = ListDoc(separators.items)
    return args, keywords


@leaf_handler("tir", Buffer)
def _buffer(d: Docsifier, node: Buffer) -> ExprDoc:
    return buffer_doc(d, node)


def standalone_buffer(d: Docsifier, node: Buffer) -> Step[ExprDoc]:
    """Ask for a buffer written out, as annotations have it."""
    args, keywords = yield buffer_arguments(d, node)
    return T.attr("Buffer").call(*args, **keywords)


def list_allocation_arguments(
    d: Docsifier, buffer: Buffer
) -> Step[tuple[tuple[ExprDoc, ...], dict[str, ExprDoc]]]:
    """Ask for what declares a buffer with its own memory; emits the declarations that it needs."""
    declare_free(d, buffer)
    declare_pointer(d, buffer)
    return (yield buffer_arguments(d, buffer))
