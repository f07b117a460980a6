"""Emit operators without a kernel of their own: ``call_tir``, packed calls, closures, effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from loomir.codegen.llvm.assembler.types import I64, PTR
from loomir.codegen.llvm.assembler.values import FALSE, NULL, Value, const
from loomir.codegen.llvm.relax.checks import CheckedValue, match, require_kind
from loomir.codegen.llvm.relax.closures import make_partial
from loomir.codegen.llvm.relax.conditions import truth
from loomir.codegen.llvm.relax.devices import is_cpu
from loomir.codegen.llvm.relax.frame import Slot
from loomir.codegen.llvm.relax.functions import call_extern, call_value
from loomir.codegen.llvm.relax.invoke import builtin
from loomir.codegen.llvm.relax.kernel_adapters import (
    TensorLayout,
    adapt_kernel,
    are_proved,
    fresh_layout_of,
)
from loomir.codegen.llvm.relax.kernels import (
    allocate,
    allocate_at,
    call_kernel,
    scalar_for,
    scalar_of,
    tensor_of,
    writable,
)
from loomir.codegen.llvm.relax.leaves import facts, leaf
from loomir.codegen.llvm.relax.memory import MEMORY
from loomir.codegen.llvm.relax.shapes import SHAPES
from loomir.codegen.llvm.relax.site import Site
from loomir.codegen.llvm.support.ir.objects import place
from loomir.codegen.llvm.tir.frame import LinkedFunction
from loomir.ir.module import GlobalVar, VDevice
from loomir.ir.visit import Step
from loomir.relax import faults
from loomir.relax.expr import Tuple, Var
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import OBJECT, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.tir.signature import Parameter

__all__ = ["OPERATORS", "Rule"]

Rule: TypeAlias = Callable[[Site], Step[Slot]]


# -- arguments and results ---------------------------------------------------------------------
def _outputs(s: Site) -> tuple[list[TensorStructInfo], bool]:
    """Return the structural information of the results, and whether they form a tuple."""
    infos: Sequence[StructInfo] = s.call.sinfo_args
    as_tuple = len(infos) != 1
    if len(infos) == 1 and isinstance(infos[0], TupleStructInfo):
        infos, as_tuple = infos[0].fields, True
    found = [i for i in infos if isinstance(i, TensorStructInfo)]
    if len(found) != len(infos):
        raise InternalError(f"{s.shown} claims results that are not tensors")
    return found, as_tuple


def _allocate_result(s: Site, info: TensorStructInfo) -> Step[Value]:
    """Allocate a result."""
    what = f"a result of {s.shown}"
    frame = s.frame
    if isinstance(info.shape, Var) and info.ndim >= 0:
        known = frame.read_var(info.shape)
        return allocate_at(
            frame, place(frame.b, known, at.ITEMS), info.ndim, info.dtype, what, s.span
        )
    dims = info.dims
    if dims is None or info.dtype.is_void:
        raise InternalError(f"{s.shown} claims a tensor of unknown size")
    extents: list[Value] = []
    for dim in dims:
        extent: Value = yield frame.value(dim)
        extents.append(extent)
    return allocate(frame, extents, dims, info.dtype, what, s.span)


def _fields(s: Site, e: RelaxExpr) -> Step[tuple[list[Value], list[RelaxExpr | None]]]:
    """Return the fields of a tuple, and their expressions if the tuple is written literally."""
    frame = s.frame
    values: list[Value] = []
    if isinstance(e, Tuple):
        for field in e.fields:
            value: Value = yield leaf(frame, field)
            values.append(value)
        return values, list(e.fields)
    whole: Value = yield leaf(frame, e)
    known = facts(e)
    if isinstance(known, TensorStructInfo):
        return [whole], [e]
    if not isinstance(known, TupleStructInfo):
        raise InternalError(f"{s.shown} takes a tuple of unknown length")
    for index in range(len(known.fields)):
        values.append(frame.word(whole, at.ITEMS + 8 * index, PTR))
    return values, [None] * len(values)


def _results(s: Site, values: Sequence[Value], as_tuple: bool) -> Slot:
    return s.tuple_of(values) if as_tuple else s.take_reference(values[0])


# -- calls of kernels --------------------------------------------------------------------------
def _integers(s: Site, others: int) -> Step[list[Value]]:
    """Return the integers of the shape that follows the ``others`` tensor arguments."""
    if not s.has(2):
        return []
    e, frame = s.arg(2), s.frame
    if isinstance(e, ShapeExpr):
        numbers: list[Value] = []
        for part in e.values:
            number: Value = yield frame.value(part)
            numbers.append(number)
        return numbers
    given: Value = yield s.require_argument(2, at.SHAPE)
    known = facts(e)
    if isinstance(known, ShapeStructInfo) and known.ndim >= 0:
        return [frame.word(given, at.ITEMS + 8 * i) for i in range(known.ndim)]
    count = max(0, len(_find_kernel(s).signature.parameters) - others)
    length = frame.word(given, at.LENGTH)
    fault = faults.wrong_rank(s.span, f"{s.shown}: argument 3", count, shape=True)
    frame.require(frame.b.icmp("eq", length, const(I64, count)), fault, length)
    return [frame.word(given, at.ITEMS + 8 * i) for i in range(count)]


def _call_tir(s: Site) -> Step[Slot]:
    infos, as_tuple = _outputs(s)
    given, exprs = yield _fields(s, s.arg(1))
    numbers: list[Value] = yield _integers(s, len(given) + len(infos))
    made: list[Value] = []
    for info in infos:
        value: Value = yield _allocate_result(s, info)
        made.append(value)
    fresh = [fresh_layout_of(info) for info in infos]
    _run(s, given, exprs, numbers, list(zip(made, fresh)), frozenset())
    return _results(s, made, as_tuple)


def _call_tir_inplace(s: Site) -> Step[Slot]:
    infos, as_tuple = _outputs(s)
    frame = s.frame
    given, exprs = yield _fields(s, s.arg(1))
    indices = _inplace(s)
    numbers: list[Value] = yield _integers(s, len(given) + sum(i < 0 for i in indices))
    made: list[tuple[Value, TensorLayout | None]] = []
    results: list[Value] = []
    if len(indices) != len(infos):
        raise InternalError(f"{s.shown} has {len(infos)} results, and indices of {len(indices)}")
    for number, (info, index) in enumerate(zip(infos, indices, strict=True)):
        if index < 0:
            fresh: Value = yield _allocate_result(s, info)
            made.append((fresh, fresh_layout_of(info)))
            results.append(fresh)
            continue
        expr = exprs[index]
        where = CheckedValue(f"{s.shown}: output {number}, which is input {index}", s.span)
        require_kind(frame, given[index], [at.TENSOR], where)
        given[index] = _copy_constant(s, given[index])
        writable(frame, given[index], _callee(s), f"input {index}", s.span)
        known = None if expr is None else facts(expr)
        yield match(frame, given[index], info, where, known or TensorStructInfo())
        results.append(given[index])
    _run(s, given, exprs, numbers, made, frozenset(i for i in indices if i >= 0))
    return _results(s, results, as_tuple)


def _callee(s: Site) -> str:
    return str(getattr(s.arg(0), "name_hint", "the function"))


def _inplace(s: Site) -> tuple[int, ...]:
    indices = s.call.attrs["inplace_indices"]
    return (indices,) if isinstance(indices, int) else tuple(indices)


def _copy_constant(s: Site, value: Value) -> Value:
    """Return a value to be written: a copy of a constant, else the value itself."""
    frame, b = s.frame, s.frame.b
    slot = frame.take_slot()
    copy, same, done = b.append("copy"), b.append("same"), b.append("chosen")
    count = b.load_atomic(I64, place(b, value, at.COUNT), "monotonic")
    b.condbr(b.icmp("slt", count, const(I64, 0)), copy, same)
    b.position_at_end(copy)
    frame.put(_copy(s, value), slot)
    b.br(done)
    b.position_at_end(same)
    frame.retain(value)
    frame.put(value, slot)
    b.br(done)
    b.position_at_end(done)
    made = frame.read(slot)
    frame.temporary.append((made, slot))
    return made


def _copy(s: Site, value: Value) -> Value:
    """Copy a tensor; the caller owns the reference."""
    frame, b = s.frame, s.frame.b
    made = b.call(frame.graph.object_function("loomir_tensor_copy"), [value])
    size = frame.word(value, at.TENSOR_CAPACITY)
    frame.require(b.icmp("ne", made, NULL), faults.no_memory(s.span, "a copy"), size)
    return made


def _find_kernel(s: Site) -> LinkedFunction:
    """Return the kernel that is called."""
    e = s.arg(0)
    if not isinstance(e, GlobalVar):
        raise InternalError(f"{s.shown} calls what is not a function of the module")
    linked = s.frame.graph.find_linked(e.name_hint)
    if linked is None:
        raise InternalError(f"{s.shown} calls {e.name_hint!r}, which is no loop-level function")
    return linked


def _run(
    s: Site,
    given: Sequence[Value],
    exprs: Sequence[RelaxExpr | None],
    numbers: Sequence[Value],
    made: Sequence[tuple[Value, TensorLayout | None]],
    written: frozenset[int],
) -> None:
    """Call the kernel: tensors, numbers, then fresh outputs."""
    linked, frame = _find_kernel(s), s.frame
    name, parameters = linked.name, linked.signature.parameters
    if len(parameters) != len(given) + len(numbers) + len(made):
        raise InternalError(
            f"{s.shown} calls {name!r} with {len(given)} + {len(numbers)} + {len(made)} arguments; "
            f"it takes {len(parameters)}"
        )
    first = len(given) + len(numbers)
    args: list[Value] = []
    laid: list[TensorLayout | None] = []
    for p in parameters:
        if p.written and p.position < first and p.position not in written:
            where = faults.argument(p.name)
            frame.require(FALSE, faults.write_to_input(s.span, name, where))
        if p.position < len(given):
            expr = exprs[p.position]
            args.append(_argument(s, p, given[p.position], expr))
            if p.buffer is not None:
                laid.append(frame.find_layout(expr))
        elif p.position < first:
            args.append(scalar_for(frame, p, numbers[p.position - len(given)], s.span))
        else:
            value, known = made[p.position - first]
            args.append(tensor_of(frame, value))
            laid.append(known)
    adapter = adapt_kernel(frame.graph, name, proved=are_proved(linked, laid))
    call_kernel(frame, linked, adapter, args)


def _argument(s: Site, p: Parameter, value: Value, expr: RelaxExpr | None) -> Value:
    known = OBJECT if expr is None else facts(expr)
    if p.buffer is None:
        return scalar_of(s.frame, p, value, known, s.span)
    if not isinstance(known, TensorStructInfo):
        where = CheckedValue(faults.argument(p.name), s.span)
        require_kind(s.frame, value, [at.TENSOR], where)
    return tensor_of(s.frame, value)


# -- calls of packed functions and closures ----------------------------------------------------
def _apply(s: Site, args: Sequence[Value]) -> Step[Slot]:
    """Call the first argument, and check the result against what the call claims."""
    e, frame = s.arg(0), s.frame
    symbol = frame.extern_of(e)
    if symbol is not None:
        return call_extern(frame, symbol, args, s.span)
    value: Value = yield leaf(frame, e)
    return call_value(frame, value, e, args, s.span)


def _check_claim(s: Site, slot: Slot) -> Step[Slot]:
    claims = s.call.sinfo_args
    if claims:
        info = claims[0] if len(claims) == 1 else TupleStructInfo(claims)
        e = s.arg(0)
        symbol = s.frame.extern_of(e)
        name = getattr(e, "name_hint", "the function") if symbol is None else repr(symbol)
        where = CheckedValue(faults.result_of(name), s.span, name)
        yield match(s.frame, s.frame.read(slot), info, where)
    return slot


def _call_dps_packed(s: Site) -> Step[Slot]:
    infos, as_tuple = _outputs(s)
    given, _ = yield _fields(s, s.arg(1))
    made: list[Value] = []
    for info in infos:
        value: Value = yield _allocate_result(s, info)
        made.append(value)
    slot: Slot = yield _apply(s, [*given, *made])
    s.frame.release(slot)
    return _results(s, made, as_tuple)


def _call_pure_packed(s: Site) -> Step[Slot]:
    args: list[Value] = []
    for index in range(1, len(s.call.args)):
        value: Value = yield s.value(index)
        args.append(value)
    slot: Slot = yield _apply(s, args)
    return (yield _check_claim(s, slot))


def _call_inplace_packed(s: Site) -> Step[Slot]:
    args: list[Value] = []
    for index in range(1, len(s.call.args)):
        value: Value = yield s.value(index)
        args.append(value)
    for index in _inplace(s):
        if index >= 0:
            args[index] = _copy_constant(s, args[index])
    slot: Slot = yield _apply(s, args)
    return (yield _check_claim(s, slot))


def _invoke_closure(s: Site) -> Step[Slot]:
    given, _ = yield _fields(s, s.arg(1))
    slot: Slot = yield _apply(s, given)
    return (yield _check_claim(s, slot))


def _make_closure(s: Site) -> Step[Slot]:
    function: Value = yield s.value(0)
    given, _ = yield _fields(s, s.arg(1))
    made = make_partial(s.frame, function, facts_of_function(s), given, s.span)
    return s.take_reference(made)


def facts_of_function(s: Site) -> StructInfo:
    """Return the structural information of the first argument, a function."""
    e = s.arg(0)
    if isinstance(e, GlobalVar):
        found = s.frame.graph.signatures.get(e.name_hint)
        if found is not None:
            return found
    return facts(e)


# -- values ------------------------------------------------------------------------------------
def _null_value(s: Site) -> Step[Slot]:
    return s.take_reference(s.frame.graph.null())
    yield


def _copy_to_device(s: Site) -> Step[Slot]:
    device = s.call.attrs.get("dst_vdevice")
    if isinstance(device, VDevice) and not is_cpu(device):
        s.frame.require(FALSE, faults.no_such_device(s.span, str(device.target)))
    value: Value = yield s.value(0)
    known = facts(s.arg(0))
    return (yield _deep_copy(s, value, known))


def _deep_copy(s: Site, value: Value, known: StructInfo) -> Step[Slot]:
    """Copy tensors, also in tuples; Python copies values of other or unknown kinds."""
    frame = s.frame
    slot = frame.take_slot()
    if isinstance(known, TensorStructInfo):
        frame.put(_copy(s, value), slot)
        return slot
    if isinstance(known, TupleStructInfo):
        fields: list[Value] = []
        for index, info in enumerate(known.fields):
            inner = frame.word(value, at.ITEMS + 8 * index, PTR)
            made: Slot = yield _deep_copy(s, inner, info)
            fields.append(frame.keep(frame.move(made)))
        frame.free_slot(slot)
        return s.tuple_of(fields)
    frame.free_slot(slot)
    return builtin(frame, "copy", [value], s.span)


# -- effects -----------------------------------------------------------------------------------
def _print(s: Site) -> Step[Slot]:
    args: list[Value] = [s.frame.graph.text(str(s.call.attrs.get("format", "")))]
    for index in range(len(s.call.args)):
        value: Value = yield s.value(index)
        args.append(value)
    return builtin(s.frame, "print", args, s.span)


def _assert_op(s: Site) -> Step[Slot]:
    frame, b = s.frame, s.frame.b
    args: list[Value] = [frame.graph.text(str(s.call.attrs.get("format", "")))]
    for index in range(len(s.call.args)):
        value: Value = yield s.value(index)
        args.append(value)
    holds = truth(frame, args[1], facts(s.arg(0)), s.span)
    fine, bad = b.append("fine"), b.append("failed")
    b.condbr(holds, fine, bad, meta=frame.unit.faults.rare())
    b.position_at_end(bad)
    # This always raises.
    frame.release(builtin(frame, "assert", [args[0], *args[2:]], s.span))
    b.br(fine)
    b.position_at_end(fine)
    return s.unit()


def _require_order(s: Site) -> Step[Slot]:
    frame, e = s.frame, s.arg(0)
    if isinstance(e, ShapeExpr):
        low: Value = yield frame.value(e.values[0])
        high: Value = yield frame.value(e.values[1])
    else:
        given: Value = yield s.require_argument(0, at.SHAPE)
        low, high = (frame.word(given, at.ITEMS + 8 * i) for i in range(2))
    message, help_text = str(s.call.attrs["message"]), str(s.call.attrs.get("help", ""))
    fault = faults.wrong_order(s.span, message, help_text)
    frame.require(frame.b.icmp("sle", low, high), fault, low, high)
    return s.unit()


OPERATORS: Final[Mapping[str, Rule]] = {
    "relax.call_tir": _call_tir,
    "relax.call_tir_inplace": _call_tir_inplace,
    "relax.call_dps_packed": _call_dps_packed,
    "relax.call_pure_packed": _call_pure_packed,
    "relax.call_inplace_packed": _call_inplace_packed,
    "relax.invoke_closure": _invoke_closure,
    "relax.invoke_pure_closure": _invoke_closure,
    "relax.make_closure": _make_closure,
    "relax.null_value": _null_value,
    "relax.to_vdevice": _copy_to_device,
    "relax.hint_on_device": _copy_to_device,
    "relax.print": _print,
    "relax.assert_op": _assert_op,
    "relax.builtin.require_order": _require_order,
    **SHAPES,
    **MEMORY,
}
