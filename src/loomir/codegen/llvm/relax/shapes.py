"""Emit operators that convert between tensors and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.relax.checks import CheckedValue, match, require_dtype
from loomir.codegen.llvm.relax.frame import Slot
from loomir.codegen.llvm.relax.kernels import allocate_at, tensor_of
from loomir.codegen.llvm.relax.leaves import facts
from loomir.codegen.llvm.relax.site import Site
from loomir.codegen.llvm.support.ir.objects import count_loop, place
from loomir.ir.visit import Step
from loomir.relax import faults
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import OBJECT, TensorStructInfo
from loomir.runtime import layout as dl
from loomir.runtime.graph import object_layout as at
from loomir.support.dtype import DataType

__all__ = ["SHAPES", "require_extents"]

_INT64: Final = DataType("int64")


def _shape_of(s: Site) -> Step[Slot]:
    value: Value = yield s.require_argument(0, at.TENSOR)
    frame = s.frame
    tensor = tensor_of(frame, value)
    rank = frame.b.zext(frame.word(tensor, dl.DLTENSOR_NDIM, I32), I64)
    return s.take_reference(_shape_from(s, rank, frame.word(tensor, dl.DLTENSOR_SHAPE, PTR)))


def _shape_from(s: Site, rank: Value, extents: Value) -> Value:
    """Make a shape from extents in memory; their number may be known only at run time."""
    b = s.frame.b
    made = _new_shape(s, rank)
    _copy(s, place(b, made, at.ITEMS), extents, b.shl(rank, const(I64, 3)))
    return made


def _new_shape(s: Site, rank: Value) -> Value:
    """Allocate a shape of so many extents, which are still to be written."""
    frame, b = s.frame, s.frame.b
    size = b.add(b.shl(rank, const(I64, 3)), const(I64, at.ITEMS))
    made = b.call(
        frame.graph.object_function("loomir_new"), [size, const(I32, at.SHAPE), const(I32, 0)]
    )
    frame.require(b.icmp("ne", made, NULL), faults.no_memory(s.span, "a shape"), size)
    frame.set_word(rank, made, at.LENGTH)
    return frame.keep(made)


def _copy(s: Site, to: Value, source: Value, size: Value) -> None:
    b = s.frame.b
    b.call(b.module.declare("memcpy", PTR, [PTR, PTR, I64]), [to, source, size])


def _tensor_to_shape(s: Site) -> Step[Slot]:
    value: Value = yield s.value(0)
    frame, b = s.frame, s.frame.b
    where = CheckedValue(f"{s.shown}: argument 1", s.span)
    known: StructInfo = facts(s.arg(0))
    if not isinstance(known, TensorStructInfo):
        known = OBJECT
    yield match(frame, value, TensorStructInfo(ndim=1), where, known)
    tensor = tensor_of(frame, value)
    count = b.load(I64, frame.word(tensor, dl.DLTENSOR_SHAPE, PTR))
    offset = frame.word(tensor, dl.DLTENSOR_BYTE_OFFSET)
    data = b.gep(I8, frame.word(tensor, dl.DLTENSOR_DATA, PTR), offset)
    if isinstance(known, TensorStructInfo) and known.dtype is _INT64:
        require_extents(s, count, data)
        return s.take_reference(_shape_from(s, count, data))
    word = b.lshr(frame.word(tensor, dl.DLTENSOR_NDIM), const(I64, 32))
    fault = faults.wrong_dtype(where.span, where.where, _INT64)
    require_dtype(frame, b.icmp("ule", b.and_(word, const(I64, 0xFF)), const(I64, 1)), fault, word)
    made = _new_shape(s, count)
    extents = place(b, made, at.ITEMS)

    def convert(i: Value) -> None:
        b.store(_integer(s, data, i, word), b.gep(I64, extents, i))

    count_loop(b, count, convert)
    require_extents(s, count, extents)
    return s.take_reference(made)


def _integer(s: Site, data: Value, i: Value, word: Value) -> Value:
    """Return an element of an integer tensor as int64; ``word`` has the dtype as in DLPack."""
    b = s.frame.b
    bits = b.and_(b.lshr(word, const(I64, 8)), const(I64, 0xFF))
    size = b.lshr(bits, const(I64, 3))
    room = s.frame.scratch(1)
    _copy(s, room, b.gep(I8, data, b.mul(i, size)), size)
    unused = b.sub(const(I64, 64), bits)
    high = b.shl(b.load(I64, room), unused)  # the first byte is the lowest
    signed = b.icmp("eq", b.and_(word, const(I64, 0xFF)), const(I64, 0))
    return b.select(signed, b.ashr(high, unused), b.lshr(high, unused))


def require_extents(s: Site, count: Value, extents: Value) -> None:
    """Stop with a fault if an extent in memory is negative."""
    frame, b = s.frame, s.frame.b
    fault = faults.negative_extent(s.span, s.shown, "of axis 0")
    message = (f"{s.shown}: the extent of axis ", 1, " is ", 0, ", and extents are 0 or more")
    shown = replace(fault, message=message)

    def look(i: Value) -> None:
        extent = b.load(I64, b.gep(I64, extents, i))
        frame.require(b.icmp("sge", extent, const(I64, 0)), shown, extent, i)

    count_loop(b, count, look)


def _shape_to_tensor(s: Site) -> Step[Slot]:
    value: Value = yield s.require_argument(0, at.SHAPE)
    frame, b = s.frame, s.frame.b
    # The length precedes the extents: it is the extent of the tensor.
    length_at = place(b, value, at.LENGTH)
    what = f"a result of {s.shown}"
    made = allocate_at(frame, length_at, 1, _INT64, what, s.span)
    data = frame.word(tensor_of(frame, made), dl.DLTENSOR_DATA, PTR)
    size = b.shl(b.load(I64, length_at), const(I64, 3))
    _copy(s, data, place(b, value, at.ITEMS), size)
    return s.take_reference(made)


def _size(s: Site) -> Step[Slot]:
    value: Value = yield s.require_argument(0, at.TENSOR)
    frame, b = s.frame, s.frame.b
    tensor = tensor_of(frame, value)
    rank = b.zext(frame.word(tensor, dl.DLTENSOR_NDIM, I32), I64)
    extents = frame.word(tensor, dl.DLTENSOR_SHAPE, PTR)
    total = b.alloca(I64, hint="total")
    b.store(const(I64, 1), total)

    def multiply(i: Value) -> None:
        extent = b.load(I64, b.gep(I64, extents, i))
        b.store(b.mul(b.load(I64, total), extent), total)

    count_loop(b, rank, multiply)
    made = allocate_at(frame, frame.graph.numbers(()), 0, _INT64, "a result of R.size", s.span)
    data = frame.word(tensor_of(frame, made), dl.DLTENSOR_DATA, PTR)
    b.store(b.load(I64, total), data)
    return s.take_reference(made)


SHAPES: Final[Mapping[str, Callable[[Site], Step[Slot]]]] = {
    "relax.shape_of": _shape_of,
    "relax.tensor_to_shape": _tensor_to_shape,
    "relax.shape_to_tensor": _shape_to_tensor,
    "relax.size": _size,
}
