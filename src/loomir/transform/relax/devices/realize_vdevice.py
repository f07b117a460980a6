"""Propagate devices: infer the device of every tensor from the annotated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from loomir.ir.module import GlobalVar, IRModule, VDevice
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.relax.expr import (
    Binding,
    Call,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.info.devices import find_only_device, tensors_in, update_struct_info, with_devices
from loomir.relax.info.relations import is_same_device
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.derive import func_struct_info, struct_info_of
from loomir.relax.normal.rewriter import Rewriter, all_bindings
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span
from loomir.tir.function import PrimFunc

__all__ = ["realize_vdevice"]

_MOVE: Final = "relax.to_vdevice"
_HINT: Final = "relax.hint_on_device"


@register("relax.RealizeVDevice", requires={"relax_normal_form"})
def realize_vdevice(mod: IRModule) -> IRModule:
    """Find the device of every tensor from annotations, moves and hints.

    Inputs of a call are on the same device as its result; devices are propagated backward and
    forward. A hint becomes a move if its tensor is on another device, and is removed otherwise. A
    constant is on the device that uses it. A module that lists no devices is returned unchanged.
    Errors: RLX0320 for a tensor that is wanted on two devices, RLX0321 for one without a device.
    Source: relax.md, Propagating Virtual Device Information; decisions R36, R37.
    """
    if not any(mod.global_info.values()):
        return mod
    found = _propagate(_WithoutHints(mod).rewrite_module(), hints=False)
    while _find_open_hint(found) is not None:
        found = _propagate(found, hints=True)
    made = _WithoutHints(found).rewrite_module()
    _demand_devices(made)
    return made


def _propagate(mod: IRModule, *, hints: bool) -> IRModule:
    """Propagate devices backward and forward until nothing changes.

    ``hints``: a hinted tensor without a known device is taken to be on the device of the hint.
    """
    while True:
        back = _Backward(mod, hints)
        for func in mod.functions.values():
            if isinstance(func, Function):
                back.function(func)
        made = _Forward(_set_returns(mod, back.returns), back).rewrite_module()
        if made is mod:
            return mod
        mod = made


def _set_returns(mod: IRModule, returns: Mapping[str, StructInfo]) -> IRModule:
    """Set the devices of functions' results to those that callers need."""
    for name, ret in returns.items():
        func = mod[name]
        if isinstance(func, Function) and func.ret_struct_info is not None:
            made = Function(func.params, func.body, ret, func.is_pure, func.attrs, span=func.span)
            mod = mod.with_function(name, made)
    return mod


def _is_op(value: RelaxExpr, name: str) -> bool:
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == name


def _graphs(mod: IRModule) -> list[Function]:
    return [f for f in mod.functions.values() if isinstance(f, Function)]


def _find_open_hint(mod: IRModule) -> Call | None:
    """Find a hint on a tensor of which no device is known."""
    for func in _graphs(mod):
        for binding in all_bindings(func):
            value = binding.value
            if isinstance(value, Call) and _is_op(value, _HINT):
                data = value.args[0]
                info = data.struct_info if isinstance(data, Var) else None
                if isinstance(info, TensorStructInfo) and info.vdevice is None:
                    return value
    return None


class _Backward:
    """Propagates devices from results to operands, through the bindings in reverse."""

    def __init__(self, mod: IRModule, hints: bool) -> None:
        self.mod = mod
        self.hints = hints
        self.infos: dict[Var, StructInfo] = {}
        """New structural information of variables, if it is more than before."""
        self.returns: dict[str, StructInfo] = {}
        """New structural information of functions' results, if it is more than before."""
        self.functions = {var.name_hint: func for var, func in mod.functions.items()}

    def info(self, var: Var) -> StructInfo:
        return self.infos.get(var) or var.struct_info

    def describe(self, expr: RelaxExpr) -> StructInfo:
        """Return the present structural information of a leaf."""
        if isinstance(expr, Var):
            return self.info(expr)
        if isinstance(expr, Tuple):
            return TupleStructInfo(tuple([self.describe(field) for field in expr.fields]))
        return struct_info_of(expr, self._signature)

    def _signature(self, var: GlobalVar) -> StructInfo:
        func = self.functions[var.name_hint]
        assert isinstance(func, (Function, PrimFunc))
        info = func_struct_info(func)
        ret = self.returns.get(var.name_hint)
        return info if ret is None else FuncStructInfo(info.params, ret, info.purity)

    def push(self, expr: RelaxExpr, source: StructInfo, span: Span | None) -> None:
        """Set the devices of a leaf to those in another description of its value."""
        if isinstance(expr, Var):
            old = self.info(expr)
            new = with_devices(old, source, span)
            if new is not old:
                self.infos[expr] = new
        elif isinstance(expr, Tuple) and isinstance(source, TupleStructInfo):
            for field, part in zip(expr.fields, source.fields):
                self.push(field, part, span)

    def place(self, expr: RelaxExpr, device: VDevice, span: Span | None) -> None:
        """Put the tensors of a leaf on a device."""
        if isinstance(expr, Var):
            old = self.info(expr)
            if isinstance(old, (TensorStructInfo, TupleStructInfo)):
                self.push(expr, update_struct_info(old, device, span), span)
        elif isinstance(expr, Tuple):
            for field in expr.fields:
                self.place(field, device, span)

    # -- the walk --------------------------------------------------------------------------------
    def function(self, func: Function) -> None:
        stack: list[Binding | tuple[RelaxExpr, StructInfo | None]] = []
        ret = func.ret_struct_info
        name = next((n for n, f in self.functions.items() if f is func), "")
        stack.append((func.body, self.returns.get(name, ret)))
        while stack:
            item = stack.pop()
            if isinstance(item, tuple):
                expr, wanted = item
                if not isinstance(expr, SeqExpr):
                    continue
                if wanted is not None:
                    self.push(expr.body, wanted, func.span)
                for block in expr.blocks:
                    stack.extend(block.bindings)
            else:
                stack += self._constrain_binding(item)

    def _constrain_binding(self, binding: Binding) -> Sequence[tuple[RelaxExpr, StructInfo | None]]:
        assert isinstance(binding, (VarBinding, MatchCast))
        value, span = binding.value, binding.span
        if isinstance(binding, MatchCast):
            if binding.var is not None:
                self.push(binding.var, binding.struct_info, span)
            self.push(value, binding.struct_info, span)
        if binding.var is None:
            return ()
        known = self.info(binding.var)
        if isinstance(value, If):
            return ((value.true_branch, known), (value.false_branch, known))
        if isinstance(value, Function):
            ret = known.ret if isinstance(known, FuncStructInfo) else value.ret_struct_info
            return ((value.body, ret),)
        if isinstance(value, TupleGetItem):
            self._field(value, known, span)
        elif isinstance(value, Call):
            self._call(value, known, span or value.span)
        else:
            self.push(value, known, span)
        return ()

    def _field(self, value: TupleGetItem, known: StructInfo, span: Span | None) -> None:
        whole = self.describe(value.tuple_value)
        if isinstance(whole, TupleStructInfo):
            fields = list(whole.fields)
            fields[value.index] = with_devices(fields[value.index], known, span)
            self.push(value.tuple_value, TupleStructInfo(tuple(fields)), span)

    def _call(self, call: Call, known: StructInfo, span: Span | None) -> None:
        if _is_op(call, _MOVE):
            return
        if _is_op(call, _HINT):
            data = call.args[0]
            if self.hints and find_only_device(self.describe(data)) is None:
                self.place(data, call.attrs["dst_vdevice"], span)
            return
        device = find_only_device(known)
        if isinstance(call.op, Op):
            if device is not None:
                for arg in call.args:
                    self.place(arg, device, span)
            return
        callee = self.describe(call.op)
        if not isinstance(callee, FuncStructInfo) or callee.params is None:
            if device is not None:
                for arg in call.args:
                    self.place(arg, device, span)
            return
        for arg, param in zip(call.args, callee.params):
            if find_only_device(param) is not None:
                self.push(arg, param, span)
            elif device is not None:
                self.place(arg, device, span)
        if device is not None:
            made = update_struct_info(callee, device, span)
            if made is not callee and isinstance(made, FuncStructInfo):
                if isinstance(call.op, GlobalVar):
                    self.returns[call.op.name_hint] = made.ret
                elif isinstance(call.op, Var):
                    self.infos[call.op] = made


class _Forward(Rewriter):
    """Propagates devices from operands to results by deriving everything again."""

    def __init__(self, mod: IRModule, back: _Backward) -> None:
        super().__init__(mod)
        self.back = back

    def rewrite_parameter(self, param: Var) -> Var:
        """Annotate a parameter with its new structural information."""
        return self._annotate(param, self.back.info(param))

    def rewrite_return(self, body: SeqExpr, ret: StructInfo | None) -> StructInfo | None:
        """Record the device of the result for callers."""
        if ret is None:
            return None
        found = struct_info_of(body.body, self.builder.struct_info_of)
        return with_devices(ret, found)

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Bind a value to a variable that is annotated with its device."""
        normalizer = self.builder.normalizer
        wanted = normalizer.info(self.back.info(binding.var))
        derived = self.builder.struct_info_of(value)
        if _is_op(value, _HINT):
            assert isinstance(value, Call)
            derived = update_struct_info(_anywhere(derived), value.attrs["dst_vdevice"])
        span = binding.span or getattr(value, "span", None)
        info = with_devices(wanted, derived, span)
        if isinstance(value, Call) and value.sinfo_args and not _is_op(value, _HINT):
            value = _claim_device(value, info)
            derived = self.builder.struct_info_of(value)
        device = find_only_device(info)
        if device is not None and _is_elsewhere(derived):
            # The value has no device of its own, so it is moved to the wanted one.
            value = _move(self.builder.emit(value), device)
        var = self._annotate(binding.var, info)
        same = var is binding.var and value is binding.value
        normalizer.add(binding if same else VarBinding(var, value, span=binding.span))

    def rewrite_match_cast(self, binding: MatchCast, value: RelaxExpr) -> None:
        """Rewrite a check of a value on its device."""
        normalizer = self.builder.normalizer
        info = normalizer.info(binding.struct_info)
        if binding.var is not None:
            info = with_devices(info, self.back.info(binding.var), binding.span)
        info = with_devices(info, self.builder.struct_info_of(value), binding.span)
        var = binding.var
        if var is not None:
            wanted = with_devices(normalizer.info(self.back.info(var)), info, binding.span)
            var = self._annotate(var, wanted)
        if var is not binding.var or info is not binding.struct_info:
            binding = MatchCast(var, value, info, span=binding.span)
        normalizer.cast(binding, value)

    def _annotate(self, var: Var, info: StructInfo) -> Var:
        if info is var.struct_info_annotation:
            return var
        made = type(var)(var.name_hint, info, span=var.span)
        self.replace(var, made)
        return made


class _WithoutHints(Rewriter):
    """Replaces hints by moves for tensors on other devices, and removes the other hints.

    A hint on a tensor without a known device stays.
    """

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Return a move, or the tensor itself."""
        if not _is_op(call, _HINT):
            return call
        device: VDevice = call.attrs["dst_vdevice"]
        data = call.args[0]
        known = find_only_device(self.builder.struct_info_of(data))
        if known is None and isinstance(data, Var):
            return call
        if known is not None and is_same_device(known, device):
            return data
        return _move(call.args[0], device, call.span)

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Drop the binding of a hint that needs no move."""
        if _is_op(binding.value, _HINT) and isinstance(value, Var):
            # An output of a block must not be replaced by a variable that is local to the block.
            ends = isinstance(value, DataflowVar) and not isinstance(binding.var, DataflowVar)
            if not ends:
                self.replace(binding.var, value)
                return
        self.emit_binding(binding, value)


def _anywhere(info: StructInfo) -> StructInfo:
    """Return the information without the device of a tensor."""
    if isinstance(info, TensorStructInfo) and info.vdevice is not None:
        return TensorStructInfo(info.shape, info.dtype, None, info.ndim, span=info.span)
    return info


def _is_elsewhere(derived: StructInfo) -> bool:
    """Tell whether a value is computed from tensors, but on no known device."""
    tensors = list(tensors_in(derived))
    return bool(tensors) and all(t.vdevice is None for t in tensors)


def _claim_device(call: Call, info: StructInfo) -> Call:
    """Set the device in the structural information of results that a call carries."""
    given = call.sinfo_args
    single = len(given) == 1
    sources = (info,) if single else info.fields if isinstance(info, TupleStructInfo) else ()
    if len(sources) != len(given):
        return call
    made = tuple([with_devices(a, b, call.span) for a, b in zip(given, sources)])
    if all(a is b for a, b in zip(made, given)):
        return call
    return Call(call.op, call.args, made, call.attrs, span=call.span)


def _move(value: RelaxExpr, device: VDevice, span: Span | None = None) -> Call:
    found = find_op(_MOVE)
    assert found is not None
    made = found.call(value, device)
    return Call(made.op, made.args, made.sinfo_args, made.attrs, span=span)


def _demand_devices(mod: IRModule) -> None:
    """Check that every tensor operand of an operator or a kernel has a device."""
    functions = {var.name_hint: func for var, func in mod.functions.items()}
    found: list[Diagnostic] = []
    for func in _graphs(mod):
        for binding in all_bindings(func):
            call = binding.value
            if not isinstance(call, Call) or _is_op(call, _MOVE):
                continue
            callee = call.op
            kernel = isinstance(callee, GlobalVar) and isinstance(
                functions.get(callee.name_hint), PrimFunc
            )
            if isinstance(callee, Op) or kernel:
                found += _without_device(call, binding)
    if found:
        raise CompileError.of(found)


def _without_device(call: Call, binding: VarBinding | MatchCast) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    pending: list[RelaxExpr] = list(reversed(call.args))
    while pending:
        arg = pending.pop()
        if isinstance(arg, Tuple):
            pending.extend(reversed(arg.fields))
        elif isinstance(arg, Var) and any(t.vdevice is None for t in tensors_in(arg.struct_info)):
            found.append(
                Diagnostic(
                    "RLX0321",
                    f"no annotation or move determines the device of {arg.name_hint!r}",
                    call.span or binding.span,
                    help="annotate it with a vdevice, or move it with R.to_vdevice",
                )
            )
    return found
