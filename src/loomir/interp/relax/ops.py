"""Semantics of operators: most by their NumPy reference, those that call or allocate by rules here.

The result of a reference is checked against the shape and dtype that the operator infers for the
very values of the call; a difference is a bug in the operator's definition.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, cast

import numpy as np

from loomir.interp.relax.machine import Machine, name_packed
from loomir.interp.relax.match import Matcher, ValueLabel, concrete, is_cpu, read_truth
from loomir.interp.relax.memory import new_storage, view_bytes, view_storage
from loomir.interp.relax.values import (
    Array,
    Environment,
    PartialApplication,
    PrimFunction,
    ProgramFunction,
    Value,
    allocate,
    compact,
    describe,
    dtype_number,
    is_tensor,
    is_tuple,
    kind_number,
    require_size,
)
from loomir.ir.module import VDevice
from loomir.ir.visit import Step, trampoline
from loomir.relax import faults
from loomir.relax.expr import (
    Call,
    Var,
)
from loomir.relax.node import StructInfo
from loomir.relax.operator.definition import OpDef, find_op
from loomir.relax.operator.params import REQUIRED
from loomir.relax.operator.values import infer_of_values
from loomir.relax.struct_info import (
    FuncStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.runtime.shape import Shape
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import dtype_of_numpy
from loomir.support.span import Span
from loomir.tir.expr import IntImm
from loomir.tir.signature import signature_of

__all__ = ["operate"]


class Site(NamedTuple):
    """A call of an operator, with the values of its arguments."""

    machine: Machine
    node: Call
    args: tuple[Value, ...]
    frame: Environment

    @property
    def span(self) -> Span | None:
        """The source location of the call."""
        return self.node.span

    @property
    def shown(self) -> str:
        """The operator as users write it."""
        return "R." + getattr(self.node.op, "name", "").removeprefix("relax.")


Rule: TypeAlias = Callable[[Site], Value]
Steps: TypeAlias = Callable[[Site], Step[Value]]


def operate(machine: Machine, node: Call, args: Sequence[Value], frame: Environment) -> Step[Value]:
    """Call an operator with values."""
    site = Site(machine, node, tuple(args), frame)
    name = str(getattr(node.op, "name", ""))
    steps = _STEPS.get(name)
    if steps is not None:
        return (yield steps(site))
    rule = _RULES.get(name)
    return _run_reference(site, name) if rule is None else rule(site)


# -- by reference ----------------------------------------------------------------------------------
def _run_reference(s: Site, name: str) -> Value:
    """Compute the operator's reference. Errors: those of its rule for these values."""
    definition = find_op(name)
    if definition is None or definition.reference is None:
        raise InternalError(f"operator {name} has no meaning that can be run")
    info = _infer(s, definition)
    _require_sizes(info, s)
    options = {p.name: p.default for p in definition.options if p.default is not REQUIRED}
    try:
        made = definition.reference(*s.args, **{**options, **s.node.attrs})
    except faults.REFUSALS as error:
        raise faults.refused_by_reference(name, error, s.span) from None
    except MemoryError:
        what = f"a result of {s.shown}"
        raise faults.no_memory(s.span, what).error((_bytes_of(info),)) from None
    return _check(made, info, s)


def _bytes_of(info: StructInfo) -> int:
    """Count the bytes of a result of known extents."""
    if isinstance(info, TupleStructInfo):
        return sum(_bytes_of(field) for field in info.fields)
    if not isinstance(info, TensorStructInfo):
        return 0
    extents = [d.value for d in info.dims or () if isinstance(d, IntImm)]
    return math.prod(extents) * info.dtype.itemsize


def _infer(s: Site, definition: OpDef) -> StructInfo:
    """Apply the operator's inference rule to the values.

    Errors: those of the rule, as errors of the run.
    """
    return infer_of_values(
        definition,
        s.args,
        s.node.attrs,
        args=s.node.args,
        claims=tuple(concrete(info, s.frame) for info in s.node.sinfo_args),
        span=s.span,
        describe=describe,
    )


def _require_sizes(info: StructInfo, s: Site) -> None:
    """Refuse results that are too large for memory, in advance. Errors: RUN0409, RUN0411."""
    fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
    for field in fields:
        dims = field.dims if isinstance(field, TensorStructInfo) else None
        if isinstance(field, TensorStructInfo) and dims is not None:
            frame = Environment("")
            if all(s.machine.sizes.knows(d, frame.sizes) for d in dims):
                shape = [int(s.machine.sizes.value(d, frame.sizes, s.span)) for d in dims]
                require_size(shape, field.dtype, s.shown, s.span)


def _check(made: Any, info: StructInfo, s: Site) -> Value:
    """Convert the result of a reference: fresh tensors that fit what the operator infers."""
    if isinstance(info, TupleStructInfo):
        value: Value = tuple(_fresh(m, s) for m in made)
    elif isinstance(info, TensorStructInfo):
        value = _fresh(made, s)
    elif isinstance(info, ShapeStructInfo):
        value = Shape(made)
    else:
        value = made
    matcher = Matcher(s.machine.sizes, Environment(""), lenient=True)
    value = matcher.match(value, info, ValueLabel(f"the result of {s.shown}", s.span))
    if matcher.errors:
        raise InternalError(f"the reference of {s.shown}: {matcher.errors[0].diagnostic.message}")
    return value


def _fresh(made: Any, s: Site) -> Array:
    """Return a tensor with its own memory, since results of operators are new."""
    array: Array = np.asarray(made)
    if array.base is not None or any(array is a for a in _tensors(s.args)):
        return np.array(array, order="C")
    return compact(array)


def _tensors(values: Sequence[Value]) -> list[Array]:
    found: list[Array] = []
    stack = list(values)
    while stack:
        value = stack.pop()
        if is_tuple(value):
            stack += value
        elif is_tensor(value):
            found.append(value)
    return found


# -- calls of loop-level functions -----------------------------------------------------------------
def _outputs(s: Site) -> tuple[list[TensorStructInfo], bool]:
    """Return the structural information of the results, and whether they form a tuple."""
    infos = s.node.sinfo_args
    if len(infos) == 1 and isinstance(infos[0], TupleStructInfo):
        return cast("list[TensorStructInfo]", list(infos[0].fields)), True
    return cast("list[TensorStructInfo]", list(infos)), len(infos) != 1


def _allocate(info: TensorStructInfo, s: Site) -> Array:
    """Allocate a result."""
    if isinstance(info.shape, Var):
        shape: Sequence[int] = cast("Shape", s.frame.values[info.shape])
    else:
        value = s.machine.sizes.value
        shape = [int(value(d, s.frame.sizes, s.span)) for d in info.dims or ()]
    return allocate(shape, info.dtype, f"a result of {s.shown}", s.span)


def _as_tuple(value: Value) -> tuple[Value, ...]:
    """Return arguments as a tuple; a single tensor becomes a tuple of one."""
    return value if is_tuple(value) else (value,)


def _prim(s: Site) -> PrimFunction:
    function = s.args[0]
    if not isinstance(function, PrimFunction):
        _refuse_other_kind(s, 0, "a loop-level function of the module")
    return function


def _refuse_other_kind(s: Site, index: int, wanted: str) -> NoReturn:
    fault = faults.wrong_kind(s.span, f"{s.shown}: argument {index + 1}", wanted)
    raise fault.error((kind_number(s.args[index]),))


def _read_packed_ints(s: Site) -> list[int]:
    if len(s.args) < 3:
        return []
    if not isinstance(s.args[2], Shape):
        _refuse_other_kind(s, 2, "a shape")
    return list(s.args[2])


def _call_tir(s: Site) -> Value:
    """Call a loop-level function, which writes fresh outputs that come last."""
    infos, as_tuple = _outputs(s)
    made = [_allocate(info, s) for info in infos]
    _call_writing(s, list(_as_tuple(s.args[1])), made, {})
    return tuple(made) if as_tuple else made[0]


def _call_tir_inplace(s: Site) -> Value:
    """Call a loop-level function that writes some of its inputs, and fresh outputs for -1."""
    infos, as_tuple = _outputs(s)
    args = list(_as_tuple(s.args[1]))
    made: list[Array] = []
    results: list[Value] = []
    inplace: dict[int, None] = {}
    for number, (info, index) in enumerate(zip(infos, _inplace_indices(s), strict=True)):
        if index < 0:
            made.append(_allocate(info, s))
            results.append(made[-1])
            continue
        _writable(args, index, s)
        where = f"{s.shown}: output {number}, which is input {index}"
        results.append(s.machine.match_claim(args[index], info, ValueLabel(where, s.span), s.frame))
        inplace[index] = None
    _call_writing(s, args, made, inplace)
    return tuple(results) if as_tuple else results[0]


def _inplace_indices(s: Site) -> tuple[int, ...]:
    given = s.node.attrs["inplace_indices"]
    return (given,) if isinstance(given, int) else tuple(given)


def _writable(args: list[Value], index: int, s: Site) -> None:
    """Replace a constant that is to be written by a copy (decision R35)."""
    if s.machine.is_constant(args[index]):
        args[index] = np.array(args[index])


def _call_writing(s: Site, args: list[Value], made: list[Array], inplace: dict[int, None]) -> None:
    """Call with the outputs last; only these and the in-place arguments may be written."""
    function, ints = _prim(s), _read_packed_ints(s)
    first = len(args) + len(ints)
    count = len(signature_of(function.func).parameters)
    wanted = max(0, count - len(args) - len(made))
    if len(s.args) > 2 and len(ints) != wanted:
        where = f"{s.shown}: argument 3"
        raise faults.wrong_rank(s.span, where, wanted, shape=True).error((len(ints),))
    outputs = frozenset({*inplace, *range(first, max(count, first + len(made)))})
    s.machine.call_prim(function, [*args, *ints, *made], s.span, outputs)


# -- calls of packed functions ---------------------------------------------------------------------
def _call_dps_packed(s: Site) -> Step[Value]:
    """Call a packed function, which writes fresh outputs that come last."""
    infos, as_tuple = _outputs(s)
    made = [_allocate(info, s) for info in infos]
    shapes = [array.shape for array in made]
    function, args = s.args[0], [*_as_tuple(s.args[1]), *made]
    yield s.machine.apply(function, args, s.span)
    name = name_packed(s.node, function)
    for array, shape, info in zip(made, shapes, infos, strict=True):
        if array.shape != shape:  # a function may have reshaped its NumPy argument
            place = ValueLabel(faults.result_of(name), s.span)
            s.machine.match_claim(array, info, place, s.frame, claim=name)
    return tuple(made) if as_tuple else made[0]


def _call_pure_packed(s: Site) -> Step[Value]:
    """Call a packed function that has no effects."""
    value = yield s.machine.apply(s.args[0], s.args[1:], s.span)
    return s.machine.check_claim(value, s.node, s.args[0], s.frame)


def _call_inplace_packed(s: Site) -> Step[Value]:
    """Call a packed function that writes some of its arguments and nothing else."""
    args = list(s.args[1:])
    for index in _inplace_indices(s):
        if index >= 0:
            _writable(args, index, s)
    value = yield s.machine.apply(s.args[0], args, s.span)
    return s.machine.check_claim(value, s.node, s.args[0], s.frame)


def _call_named(s: Site) -> Step[Value]:
    """Call a packed function with the fields of a tuple."""
    value = yield s.machine.apply(s.args[0], _as_tuple(s.args[1]), s.span)
    return s.machine.check_claim(value, s.node, s.args[0], s.frame)


def _call_tir_dyn(s: Site) -> Value:
    """Call a loop-level function that may write all its arguments; a shape has its integers."""
    args: list[Value] = []
    for value in _as_tuple(s.args[1]):
        if isinstance(value, Shape):
            args += value
        else:
            args.append(value)
    s.machine.call_prim(_prim(s), args, s.span)
    return ()


# -- closures --------------------------------------------------------------------------------------
def _invoke_closure(s: Site) -> Step[Value]:
    """Call a closure with the fields of a tuple."""
    value = yield s.machine.apply(s.args[0], _as_tuple(s.args[1]), s.span)
    return s.machine.check_claim(value, s.node, s.args[0], s.frame)


def _make_closure(s: Site) -> Value:
    """Return a function whose last arguments are the fields of a tuple."""
    function, bound = s.args[0], _as_tuple(s.args[1])
    if not isinstance(function, ProgramFunction):
        _refuse_other_kind(s, 0, "a function")
    params = function.info.params or ()
    rest = params[: len(params) - len(bound)]
    info = FuncStructInfo(rest, function.info.ret, function.info.purity)
    return PartialApplication(function.name, info, s.machine, function, bound)


# -- values ----------------------------------------------------------------------------------------
def _null_value(s: Site) -> Value:
    """Return null."""
    return None


def _tensor(s: Site, index: int) -> Array:
    if not is_tensor(s.args[index]):
        _refuse_other_kind(s, index, "a tensor")
    return s.args[index]


def _shape_of(s: Site) -> Value:
    """Return the shape of a tensor."""
    return Shape(_tensor(s, 0).shape)


def _dtype_number(tensor: Array) -> int:
    dtype = dtype_of_numpy(tensor.dtype)
    if dtype is None:
        raise InternalError(f"no dtype for {tensor.dtype}")
    return dtype_number(dtype)


def _tensor_to_shape(s: Site) -> Value:
    """Return the shape whose extents are the elements of a tensor.

    Errors: RUN0402, RUN0403, RUN0409.
    """
    tensor, where = _tensor(s, 0), f"{s.shown}: argument 1"
    if tensor.ndim != 1:
        raise faults.wrong_rank(s.span, where, 1).error((tensor.ndim,))
    if tensor.dtype.kind not in "iu":
        raise faults.wrong_dtype(s.span, where, "int64").error((_dtype_number(tensor),))
    extents = Shape(int(e) for e in tensor)
    for axis, extent in enumerate(extents):
        if extent < 0:
            raise faults.negative_extent(s.span, s.shown, f"of axis {axis}").error((extent,))
    return extents


def _shape_to_tensor(s: Site) -> Value:
    """Return the extents of a shape as a tensor of int64."""
    if not isinstance(s.args[0], Shape):
        _refuse_other_kind(s, 0, "a shape")
    return np.array(s.args[0], np.int64)


def _copy_tensors(s: Site) -> Value:
    """Copy a tensor, or those in a tuple, to a device. Errors: RUN0414 for a missing device."""
    device: Any = s.node.attrs.get("dst_vdevice")
    if isinstance(device, VDevice) and not is_cpu(device):
        raise faults.no_such_device(s.span, str(device.target)).error()
    return trampoline(_copy(s.args[0]))


def _copy(value: Value) -> Step[Value]:
    if not is_tuple(value):
        return np.array(value) if is_tensor(value) else value
    fields: list[Value] = []
    for field in value:
        fields.append((yield _copy(field)))
    return tuple(fields)


# -- effects ---------------------------------------------------------------------------------------
def _print(s: Site) -> Value:
    """Print values by Python's rules of formatting."""
    sys.stdout.write(_format(s, s.args) + "\n")
    return ()


def _assert_op(s: Site) -> Value:
    """Raise unless the condition holds. Errors: RUN0202, RUN0408."""
    if not read_truth(s.args[0], s.span):
        text = _format(s, s.args[1:])
        raise faults.failed_assertion(
            s.span, text or "the condition of R.assert_op is false"
        ).error()
    return ()


def _require_order(s: Site) -> Value:
    """Raise if the first number is greater than the second. Errors: RUN0212."""
    low, high = s.args[0]
    if low > high:
        message, help_text = str(s.node.attrs["message"]), str(s.node.attrs.get("help", ""))
        raise faults.wrong_order(s.span, message, help_text).error((low, high))
    return ()


def _format(s: Site, values: Sequence[Value]) -> str:
    form = str(s.node.attrs.get("format", ""))
    shown: list[Any] = [v.item() if isinstance(v, np.generic) else v for v in values]
    return form.format(*shown) if form else " ".join(map(str, shown))


def _alloc_storage(s: Site) -> Value:
    """Allocate bytes."""
    extents = _extents(s, 0)
    if len(extents) != 1:
        where = f"{s.shown}: argument 1"
        raise faults.wrong_rank(s.span, where, 1, shape=True).error((len(extents),))
    return new_storage(extents[0], s.span)


def _extents(s: Site, index: int) -> list[int]:
    if not isinstance(s.args[index], Shape):
        _refuse_other_kind(s, index, "a shape")
    return list(s.args[index])


def _alloc_tensor(s: Site) -> Value:
    """Return a tensor in a storage."""
    shape, dtype = _extents(s, 2), s.node.attrs["dtype"]
    return view_storage(_tensor(s, 0), int(s.args[1]), shape, dtype, s.shown, s.span)


def _fresh_tensor(s: Site) -> Value:
    """Allocate a tensor."""
    return allocate(_extents(s, 0), s.node.attrs["dtype"], "a tensor", s.span)


def _view(s: Site) -> Value:
    """Return a tensor that shares the memory."""
    data = _tensor(s, 0)
    dtype: Any = s.node.attrs["dtype"] or dtype_of_numpy(data.dtype)
    shape = _extents(s, 1) if len(s.args) > 1 else list(data.shape)
    offset = s.node.attrs["relative_byte_offset"]
    return view_bytes(data, offset, shape, dtype, s.shown, s.span)


_RULES: Final[dict[str, Rule]] = {
    "relax.memory.alloc_storage": _alloc_storage,
    "relax.memory.alloc_tensor": _alloc_tensor,
    "relax.memory.kill_storage": lambda _: (),
    "relax.memory.kill_tensor": lambda _: (),
    "relax.vm.alloc_storage": _alloc_storage,
    "relax.vm.alloc_tensor": _alloc_tensor,
    "relax.vm.kill_object": lambda _: (),
    "relax.memory.view": _view,
    "relax.memory.ensure_zero_offset": lambda s: _tensor(s, 0),
    "relax.builtin.alloc_tensor": _fresh_tensor,
    "relax.builtin.stop_lift_params": lambda s: _tensor(s, 0),
    "relax.call_tir": _call_tir,
    "relax.call_tir_with_grad": _call_tir,
    "relax.call_tir_inplace": _call_tir_inplace,
    "relax.vm.call_tir_dyn": _call_tir_dyn,
    "relax.make_closure": _make_closure,
    "relax.null_value": _null_value,
    "relax.shape_of": _shape_of,
    "relax.tensor_to_shape": _tensor_to_shape,
    "relax.shape_to_tensor": _shape_to_tensor,
    "relax.to_vdevice": _copy_tensors,
    "relax.hint_on_device": _copy_tensors,
    "relax.print": _print,
    "relax.assert_op": _assert_op,
    "relax.builtin.require_order": _require_order,
}
_STEPS: Final[dict[str, Steps]] = {
    "relax.call_dps_packed": _call_dps_packed,
    "relax.call_pure_packed": _call_pure_packed,
    "relax.call_inplace_packed": _call_inplace_packed,
    "relax.call_py_func": _call_named,
    "relax.call_builtin_with_ctx": _call_named,
    "relax.invoke_closure": _invoke_closure,
    "relax.invoke_pure_closure": _invoke_closure,
}
