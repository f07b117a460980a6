"""Operators on memory: storage, tensors in it, other views of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.objects_ir import place
from loomir.codegen.llvm.relax.frame import Held, Slot
from loomir.codegen.llvm.relax.kernels import COLD, allocate_at, never_negative, tensor_of
from loomir.codegen.llvm.relax.leaves import facts
from loomir.codegen.llvm.relax.site import Site
from loomir.codegen.llvm.relax.unit import GraphUnit, word_of
from loomir.codegen.llvm.relax.ways import Laid, numbers_of
from loomir.codegen.llvm.text import Callee
from loomir.codegen.llvm.types import I32, I64, PTR, VOID
from loomir.codegen.llvm.values import NULL, Value, const
from loomir.ir.visit import Step
from loomir.relax import faults
from loomir.relax.expr import PrimValue, Tuple, Var
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from loomir.runtime import layout as dl
from loomir.runtime import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm

__all__ = ["MEMORY", "laid_in_storage", "place_tensor"]

_BYTES: Final = DataType("uint8")


def _alloc_storage(s: Site) -> Step[Slot]:
    """Get memory of as many bytes as a shape of one extent says."""
    extents: tuple[Value, int] = yield _extents(s, 0)
    where, count = extents
    if count != 1:
        raise InternalError("storage has one size")
    return s.own(allocate_at(s.frame, where, 1, _BYTES, "storage", s.span))


def _extents(s: Site, index: int) -> Step[tuple[Value, int]]:
    """Give where the extents of a shape lie, and how many there are; none is negative."""
    e, frame, b = s.arg(index), s.frame, s.frame.b
    known = facts(e)
    if not isinstance(known, ShapeStructInfo) or known.ndim < 0:
        raise InternalError(f"{s.shown} takes a shape of unknown length")
    if isinstance(e, ShapeExpr) and all(isinstance(v, IntImm) for v in e.values):
        numbers = tuple(v.value for v in e.values if isinstance(v, IntImm))
        if min(numbers, default=0) >= 0:
            return frame.graph.numbers(numbers), len(numbers)
    values: list[Value] = []
    if isinstance(e, ShapeExpr):
        for part in e.values:
            extent: Value = yield frame.value(part)
            values.append(extent)
    else:
        shape: Value = yield s.of_kind(index, at.SHAPE)
        values = [frame.word(shape, at.ITEMS + 8 * i) for i in range(known.ndim)]
    exprs = e.values if isinstance(e, ShapeExpr) else ()
    for axis, extent in enumerate(values):
        if exprs and never_negative(frame, exprs[axis]):
            continue
        fault = faults.negative_extent(s.span, s.shown, f"of axis {axis}")
        frame.require(b.icmp("sge", extent, const(I64, 0)), fault, extent)
    where = frame.scratch(len(values))
    for i, extent in enumerate(values):
        b.store(extent, b.gep(I64, where, const(I64, i)))
    return where, len(values)


def _offset(s: Site, index: int) -> Step[Value]:
    """Give a number of bytes."""
    e = s.arg(index)
    if isinstance(e, PrimValue):
        return (yield s.frame.value(e.value))
    value: Value = yield s.of_kind(index, at.PRIM)
    known = facts(e)
    if not isinstance(known, PrimStructInfo) or known.dtype.bits != 64:
        raise InternalError(f"{s.shown} takes an offset of int64")
    return s.frame.word(value, at.PRIM_VALUE)


def _alloc_tensor(s: Site) -> Step[Slot]:
    """Give a tensor that lies in storage."""
    storage: Value = yield s.of_kind(0, at.TENSOR)
    offset: Value = yield _offset(s, 1)
    extents: tuple[Value, int] = yield _extents(s, 2)
    dtype = s.option(3, "dtype")
    if not isinstance(dtype, DataType):
        raise InternalError(f"{s.shown} needs a dtype")
    return s.own(_inside(s, storage, offset, extents, dtype))


def place_tensor(s: Site) -> Step[Held]:
    """Give a tensor that lies in storage, itself in the memory of the function."""
    frame, b = s.frame, s.frame.b
    dtype = s.option(3, "dtype")
    if not isinstance(dtype, DataType):
        raise InternalError(f"{s.shown} needs a dtype")
    held = s.arg(0)
    if isinstance(held, Var):
        frame.pinned.add(held)
    made, is_there = frame.take_tensor(_rank_of(s, 2), laid_in_storage(s))
    if is_there:
        return made
    storage: Value = yield s.of_kind(0, at.TENSOR)
    offset: Value = yield _offset(s, 1)
    extents: tuple[Value, int] = yield _extents(s, 2)
    given = _given_for(storage, offset, extents, dtype)
    memory = frame.address_of(made)
    done = b.call(frame.graph.object_function("loomir_tensor_place"), [memory, *given])
    _require_placed(s, b.icmp("ne", done, const(I32, 0)), given, dtype)
    return made


def _rank_of(s: Site, index: int) -> int:
    known = facts(s.arg(index))
    if not isinstance(known, ShapeStructInfo) or known.ndim < 0:
        raise InternalError(f"{s.shown} takes a shape of unknown length")
    return known.ndim


def laid_in_storage(s: Site) -> Laid | None:
    """Give what is known of a tensor made in storage, where all of it is numbers."""
    storage, offset, shape, dtype = s.arg(0), s.arg(1), s.arg(2), s.option(3, "dtype")
    if not isinstance(storage, Var) or not isinstance(shape, ShapeExpr):
        return None
    if not isinstance(offset, PrimValue) or not isinstance(offset.value, IntImm):
        return None
    extents = numbers_of(shape.values)
    if extents is None or offset.value.value < 0 or not isinstance(dtype, DataType):
        return None
    return Laid(dtype, extents, storage, offset.value.value)


def _given_for(
    storage: Value, offset: Value, extents: tuple[Value, int], dtype: DataType
) -> list[Value]:
    word, size = const(I64, word_of(dtype, extents[1])), const(I64, dtype.itemsize)
    return [storage, offset, word, extents[0], size]


def _inside(
    s: Site, storage: Value, offset: Value, extents: tuple[Value, int], dtype: DataType
) -> Value:
    """Make a tensor of part of another's memory, which it keeps."""
    frame, b = s.frame, s.frame.b
    given = _given_for(storage, offset, extents, dtype)
    made = b.call(frame.graph.object_function("loomir_tensor_inside"), given)
    _require_placed(s, b.icmp("ne", made, NULL), given, dtype)
    return frame.keep(made)


def _require_placed(s: Site, holds: Value, given: list[Value], dtype: DataType) -> None:
    """Go on where a tensor was placed, else say why it was not."""
    frame, b = s.frame, s.frame.b
    fine, bad = b.append("made"), b.append("none")
    b.condbr(holds, fine, bad, meta=frame.unit.faults.rare())
    b.at(bad)
    table = frame.unit.faults
    site = table.add(faults.size_too_large(s.span, s.shown, dtype))
    table.add(faults.outside_storage(s.span, s.shown))
    table.add(faults.askew(s.span, s.shown, dtype, dtype.itemsize))
    table.add(faults.no_memory(s.span, "a tensor"))
    b.call(_unplaced(frame.graph), [frame.context, *given, const(I32, site)])
    b.br(frame.cleanup.fail)
    b.at(fine)


def _unplaced(graph: GraphUnit) -> Callee:
    """Define what says why a tensor was not placed; its reasons are sites in a row."""
    found = graph.module.find("loomir.unplaced")
    if found is not None:
        return found
    params = [
        ("context", PTR),
        ("storage", PTR),
        ("offset", I64),
        ("word", I64),
        ("shape", PTR),
        ("size", I64),
        ("site", I32),
    ]
    made = graph.module.define("loomir.unplaced", VOID, params, linkage="internal", attributes=COLD)
    b = Builder(made)
    context, storage, offset, word, shape, item, site = made.params
    size = b.call(graph.object_function("loomir_tensor_bytes"), [word, shape, item])
    room = b.load(I64, place(b, storage, at.TENSOR_CAPACITY))
    fits = b.and_(b.icmp("ule", offset, room), b.icmp("ule", size, b.sub(room, offset)))
    whole = b.icmp("eq", b.urem(offset, item), const(I64, 0))
    reason = b.select(whole, const(I32, 3), const(I32, 2))
    reason = b.select(fits, reason, const(I32, 1))
    reason = b.select(b.icmp("slt", size, const(I64, 0)), const(I32, 0), reason)
    values = [
        b.select(b.icmp("eq", reason, const(I32, 1)), size, offset),
        offset,
        room,
    ]
    graph.unit.faults.record_at(b, context, b.add(site, reason), tuple(values))
    b.ret()
    return made


def _view(s: Site) -> Step[Slot]:
    """Look at a tensor's memory as another shape, dtype, or from another byte on."""
    value: Value = yield s.of_kind(0, at.TENSOR)
    known = facts(s.arg(0))
    if not isinstance(known, TensorStructInfo):
        known = TensorStructInfo()
    dtype: Any = s.option(2, "dtype")
    if dtype is None:
        dtype = known.dtype
    if not isinstance(dtype, DataType) or dtype.is_void:
        raise InternalError(f"{s.shown} needs a tensor of known dtype")
    known_offset = s.option(3, "relative_byte_offset")
    if isinstance(known_offset, int):
        offset = const(I64, known_offset)
    elif _given(s, 3):
        offset: Value = yield _offset(s, 3)
    else:
        offset = const(I64, 0)
    if _given(s, 1):
        extents: tuple[Value, int] = yield _extents(s, 1)
    else:
        if known.ndim < 0:
            raise InternalError(f"{s.shown} needs a tensor of known rank")
        tensor = tensor_of(s.frame, value)
        extents = s.frame.word(tensor, dl.DLTENSOR_SHAPE, PTR), known.ndim
    return s.own(_inside(s, value, offset, extents, dtype))


def _given(s: Site, index: int) -> bool:
    """Whether an argument is there; the empty tuple stands for one that is not."""
    if not s.has(index):
        return False
    e = s.arg(index)
    return not (isinstance(e, Tuple) and not e.fields)


def _as_it_is(s: Site) -> Step[Slot]:
    """Give the tensor: none here begins elsewhere than at its data."""
    value: Value = yield s.of_kind(0, at.TENSOR)
    return s.own(value)


def _nothing(s: Site) -> Step[Slot]:
    """Do nothing: what is unused is freed without being told."""
    return s.unit()
    yield


MEMORY: Final[Mapping[str, Callable[[Site], Step[Slot]]]] = {
    "relax.memory.alloc_storage": _alloc_storage,
    "relax.memory.alloc_tensor": _alloc_tensor,
    "relax.memory.view": _view,
    "relax.memory.ensure_zero_offset": _as_it_is,
    "relax.memory.kill_storage": _nothing,
    "relax.memory.kill_tensor": _nothing,
    "relax.vm.alloc_storage": _alloc_storage,
    "relax.vm.alloc_tensor": _alloc_tensor,
    "relax.vm.kill_object": _nothing,
}
