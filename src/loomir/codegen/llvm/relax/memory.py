"""Emit memory operators: allocate storage, place tensors in it, and make views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, VOID
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.relax.frame import Location, Slot
from loomir.codegen.llvm.relax.kernel_adapters import TensorLayout, numbers_of
from loomir.codegen.llvm.relax.kernels import COLD, allocate_at, is_never_negative, tensor_of
from loomir.codegen.llvm.relax.leaves import facts
from loomir.codegen.llvm.relax.shapes import require_extents
from loomir.codegen.llvm.relax.site import Site
from loomir.codegen.llvm.relax.unit import GraphUnit, word_of
from loomir.codegen.llvm.support.ir.objects import place
from loomir.ir.visit import Step
from loomir.relax import faults
from loomir.relax.expr import PrimValue, Tuple, Var
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from loomir.runtime import layout as dl
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.expr import IntImm

__all__ = ["MEMORY", "layout_in_storage", "place_tensor"]

_BYTES: Final = DataType("uint8")


class _Extents(NamedTuple):
    """The address of extents, none of them negative, and their number."""

    where: Value
    rank: int | Value


def _alloc_storage(s: Site) -> Step[Slot]:
    """Allocate as many bytes as a shape of one extent says."""
    extents: _Extents = yield _extents(s, 0)
    where, count = extents
    if not isinstance(count, int):
        fault = faults.wrong_rank(s.span, f"{s.shown}: argument 1", 1, shape=True)
        s.frame.require(s.frame.b.icmp("eq", count, const(I64, 1)), fault, count)
    elif count != 1:
        raise InternalError("storage has one size")
    return s.take_reference(allocate_at(s.frame, where, 1, _BYTES, "storage", s.span))


def _extents(s: Site, index: int) -> Step[_Extents]:
    """Return the extents of a shape."""
    e, frame, b = s.arg(index), s.frame, s.frame.b
    if isinstance(e, ShapeExpr) and all(isinstance(v, IntImm) for v in e.values):
        numbers = tuple(v.value for v in e.values if isinstance(v, IntImm))
        if min(numbers, default=0) >= 0:
            return _Extents(frame.graph.numbers(numbers), len(numbers))
    values: list[Value] = []
    if isinstance(e, ShapeExpr):
        for part in e.values:
            extent: Value = yield frame.value(part)
            values.append(extent)
    else:
        shape: Value = yield s.require_argument(index, at.SHAPE)
        rank = _rank_of(s, index)
        if rank < 0:
            count, where = frame.word(shape, at.LENGTH), place(b, shape, at.ITEMS)
            require_extents(s, count, where)
            return _Extents(where, count)
        values = [frame.word(shape, at.ITEMS + 8 * i) for i in range(rank)]
    exprs = e.values if isinstance(e, ShapeExpr) else ()
    for axis, extent in enumerate(values):
        if exprs and is_never_negative(frame, exprs[axis]):
            continue
        fault = faults.negative_extent(s.span, s.shown, f"of axis {axis}")
        frame.require(b.icmp("sge", extent, const(I64, 0)), fault, extent)
    where = frame.scratch(len(values))
    for i, extent in enumerate(values):
        b.store(extent, b.gep(I64, where, const(I64, i)))
    return _Extents(where, len(values))


def _offset(s: Site, index: int) -> Step[Value]:
    """Return a number of bytes."""
    e = s.arg(index)
    if isinstance(e, PrimValue):
        return (yield s.frame.value(e.value))
    value: Value = yield s.require_argument(index, at.PRIM)
    known = facts(e)
    if not isinstance(known, PrimStructInfo) or known.dtype.bits != 64:
        raise InternalError(f"{s.shown} takes an offset of int64")
    return s.frame.word(value, at.PRIM_VALUE)


def _alloc_tensor(s: Site) -> Step[Slot]:
    """Make a tensor in storage."""
    storage: Value = yield s.require_argument(0, at.TENSOR)
    offset: Value = yield _offset(s, 1)
    extents: _Extents = yield _extents(s, 2)
    dtype = s.option(3, "dtype")
    if not isinstance(dtype, DataType):
        raise InternalError(f"{s.shown} needs a dtype")
    return s.take_reference(_inside(s, storage, offset, extents, _elements_of(dtype)))


def _fresh_tensor(s: Site) -> Step[Slot]:
    """Allocate a tensor whose rank is known only at run time."""
    extents: _Extents = yield _extents(s, 0)
    dtype = s.option(1, "dtype")
    if not isinstance(dtype, DataType):
        raise InternalError(f"{s.shown} needs a dtype")
    return s.take_reference(
        allocate_at(s.frame, extents.where, extents.rank, dtype, "a tensor", s.span)
    )


def place_tensor(s: Site) -> Step[Location]:
    """Make a tensor in storage, with its descriptor in the memory of the function."""
    frame, b = s.frame, s.frame.b
    dtype = s.option(3, "dtype")
    if not isinstance(dtype, DataType):
        raise InternalError(f"{s.shown} needs a dtype")
    backing = s.arg(0)
    if isinstance(backing, Var):
        frame.pinned.add(backing)
    made, is_there = frame.take_tensor(_rank_of(s, 2), layout_in_storage(s))
    if is_there:
        return made
    storage: Value = yield s.require_argument(0, at.TENSOR)
    offset: Value = yield _offset(s, 1)
    extents: _Extents = yield _extents(s, 2)
    elements = _elements_of(dtype)
    given = _list_arguments(s, storage, offset, extents, elements)
    memory = frame.address_of(made)
    done = b.call(frame.graph.object_function("loomir_tensor_place"), [memory, *given])
    _require_placed(s, b.icmp("ne", done, const(I32, 0)), given, elements)
    return made


def _rank_of(s: Site, index: int) -> int:
    """Return the length of a shape; -1 if it is known only at run time."""
    known = facts(s.arg(index))
    return known.ndim if isinstance(known, ShapeStructInfo) else -1


def layout_in_storage(s: Site) -> TensorLayout | None:
    """Return the layout of a tensor in storage, if its offset and extents are constant."""
    storage, offset, shape, dtype = s.arg(0), s.arg(1), s.arg(2), s.option(3, "dtype")
    if not isinstance(storage, Var) or not isinstance(shape, ShapeExpr):
        return None
    if not isinstance(offset, PrimValue) or not isinstance(offset.value, IntImm):
        return None
    extents = numbers_of(shape.values)
    if extents is None or offset.value.value < 0 or not isinstance(dtype, DataType):
        return None
    return TensorLayout(dtype, extents, storage, offset.value.value)


class _Elements(NamedTuple):
    """The elements of a tensor: their dtype, None if that is known only at run time.

    ``word`` is the dtype as in a DLTensor, with a rank of 0.
    """

    dtype: DataType | None
    word: Value
    size: Value


def _elements_of(dtype: DataType) -> _Elements:
    return _Elements(dtype, const(I64, word_of(dtype, 0)), const(I64, dtype.itemsize))


def _elements_like(s: Site, tensor: Value) -> _Elements:
    """Describe the elements of a tensor whose dtype is known only at run time."""
    b = s.frame.b
    word = b.and_(s.frame.word(tensor, dl.DLTENSOR_NDIM), const(I64, -1 << 32))
    bits = b.and_(b.lshr(word, const(I64, 40)), const(I64, 0xFF))
    lanes = b.lshr(word, const(I64, 48))
    return _Elements(None, word, b.lshr(b.add(b.mul(bits, lanes), const(I64, 7)), const(I64, 3)))


def _list_arguments(
    s: Site, storage: Value, offset: Value, extents: _Extents, elements: _Elements
) -> list[Value]:
    count = extents.rank
    if elements.dtype is not None and isinstance(count, int):
        word = const(I64, word_of(elements.dtype, count))
    else:
        rank = const(I64, count) if isinstance(count, int) else count
        word = s.frame.b.or_(elements.word, rank)
    return [storage, offset, word, extents.where, elements.size]


def _inside(
    s: Site, storage: Value, offset: Value, extents: _Extents, elements: _Elements
) -> Value:
    """Make a tensor in the memory of another, which it keeps alive."""
    frame, b = s.frame, s.frame.b
    given = _list_arguments(s, storage, offset, extents, elements)
    made = b.call(frame.graph.object_function("loomir_tensor_inside"), given)
    _require_placed(s, b.icmp("ne", made, NULL), given, elements)
    return frame.keep(made)


def _require_placed(s: Site, holds: Value, given: list[Value], elements: _Elements) -> None:
    """Go on if a tensor was placed, else stop with a fault that says why not."""
    frame, b = s.frame, s.frame.b
    fine, bad = b.append("made"), b.append("none")
    b.condbr(holds, fine, bad, meta=frame.unit.faults.rare())
    b.position_at_end(bad)
    dtype = elements.dtype
    table = frame.unit.faults
    site = table.add(faults.size_too_large(s.span, s.shown, dtype or "its dtype"))
    table.add(faults.outside_storage(s.span, s.shown))
    table.add(faults.misaligned_offset(s.span, s.shown, dtype))
    table.add(faults.no_memory(s.span, "a tensor"))
    b.call(_define_unplaced(frame.graph), [frame.context, *given, const(I32, site)])
    b.br(frame.cleanup.fail)
    b.position_at_end(fine)


def _define_unplaced(graph: GraphUnit) -> Callee:
    """Define the function that reports why a tensor was not placed, by consecutive sites."""
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
    """Make a view of a tensor with another shape, dtype or byte offset."""
    value: Value = yield s.require_argument(0, at.TENSOR)
    known = facts(s.arg(0))
    if not isinstance(known, TensorStructInfo):
        known = TensorStructInfo()
    tensor = tensor_of(s.frame, value)
    dtype: Any = s.option(2, "dtype")
    if dtype is None:
        dtype = known.dtype
    if isinstance(dtype, DataType) and not dtype.is_void:
        elements = _elements_of(dtype)
    else:
        elements = _elements_like(s, tensor)
    known_offset = s.option(3, "relative_byte_offset")
    if isinstance(known_offset, int):
        offset = const(I64, known_offset)
    elif _is_given(s, 3):
        offset: Value = yield _offset(s, 3)
    else:
        offset = const(I64, 0)
    if _is_given(s, 1):
        extents: _Extents = yield _extents(s, 1)
    else:
        rank: int | Value = known.ndim
        if known.ndim < 0:
            rank = s.frame.b.zext(s.frame.word(tensor, dl.DLTENSOR_NDIM, I32), I64)
        extents = _Extents(s.frame.word(tensor, dl.DLTENSOR_SHAPE, PTR), rank)
    return s.take_reference(_inside(s, value, offset, extents, elements))


def _is_given(s: Site, index: int) -> bool:
    """Tell whether an optional argument is present; the empty tuple means that it is not."""
    if not s.has(index):
        return False
    e = s.arg(index)
    return not (isinstance(e, Tuple) and not e.fields)


def _as_it_is(s: Site) -> Step[Slot]:
    """Return the tensor unchanged: tensors of graphs always begin at their data."""
    value: Value = yield s.require_argument(0, at.TENSOR)
    return s.take_reference(value)


def _nothing(s: Site) -> Step[Slot]:
    """Do nothing: memory is freed after its last use anyway."""
    return s.unit()
    yield


MEMORY: Final[Mapping[str, Callable[[Site], Step[Slot]]]] = {
    "relax.memory.alloc_storage": _alloc_storage,
    "relax.memory.alloc_tensor": _alloc_tensor,
    "relax.memory.view": _view,
    "relax.builtin.alloc_tensor": _fresh_tensor,
    "relax.memory.ensure_zero_offset": _as_it_is,
    "relax.memory.kill_storage": _nothing,
    "relax.memory.kill_tensor": _nothing,
    "relax.vm.alloc_storage": _alloc_storage,
    "relax.vm.alloc_tensor": _alloc_tensor,
    "relax.vm.kill_object": _nothing,
}
