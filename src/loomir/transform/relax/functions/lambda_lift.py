"""Lambda lifting: move nested functions to the module."""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order, rewrite
from loomir.relax.expr import (
    BindingBlock,
    Call,
    Function,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.free_vars import (
    free_relax_vars,
    free_shape_vars,
    shape_vars_bound_by,
    shape_vars_in,
)
from loomir.relax.info.relations import forget_variables
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter, copy_with_fresh_vars
from loomir.relax.normal.signature import func_struct_info
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import FuncStructInfo, ShapeStructInfo
from loomir.support.diagnostics import InternalError
from loomir.tir.expr import Var as ShapeVar

__all__ = ["lambda_lift"]

_OWN: Final = ("global_symbol",)
"""Attributes of module functions that a local function must not copy."""


@register("relax.LambdaLift", requires={"relax_normal_form"})
def lambda_lift(mod: IRModule) -> IRModule:
    """Move local functions to the module, as private functions named ``lifted_NAME``.

    A function that captures nothing is called directly. For another one, the captured values become
    its last parameters, followed by a shape of the sizes that no other parameter binds; a closure
    is built by ``make_closure`` in its place, and called by ``invoke_pure_closure``, or by
    ``invoke_closure`` if it has effects. A recursive function passes on its captured values.
    """
    return _Lifter(mod).rewrite_module()


class _Captures(NamedTuple):
    """The variables that a local function captures."""

    values: tuple[Var, ...]
    sizes: tuple[ShapeVar, ...]

    @property
    def args(self) -> tuple[RelaxExpr, ...]:
        """The arguments of the lifted function after its own ones."""
        return (*self.values, ShapeExpr(self.sizes)) if self.sizes else self.values


class _Lifter(Rewriter):
    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Lift a function; leave other bindings unchanged."""
        if not isinstance(value, Function):
            self.emit_binding(binding, value)
            return
        captured = self._find_captured(binding.var, value)
        lifted = _close(value, captured)
        name = self.builder.get_unique_name(f"lifted_{binding.var.name_hint}")
        gv = self.builder.declare(name, func_struct_info(lifted))
        self.builder.update_func(
            gv, copy_with_fresh_vars(_recursive(lifted, binding, gv, captured))
        )
        if captured.args:
            self.emit_binding(binding, _call("make_closure", gv, Tuple(captured.args)))
        else:
            self.replace(binding.var, gv)

    def _find_captured(self, name: Var, func: Function) -> _Captures:
        values = tuple([var for var in free_relax_vars(func) if var is not name])
        outer = frozenset(self._normalizer.known.shape_vars)
        used = dict.fromkeys(v for v in free_shape_vars(func, outer) if v in outer)
        told: set[ShapeVar] = set()
        for var in values:
            used.update(dict.fromkeys(v for v in shape_vars_in(var.struct_info) if v in outer))
            told.update(shape_vars_bound_by(var.struct_info))
        return _Captures(values, tuple([v for v in used if v not in told]))

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Invoke a closure that ``make_closure`` has built."""
        if not isinstance(call.op, Var):
            return call
        made = self.lookup(call.op)
        known = call.op.struct_info
        if not isinstance(made, Call) or getattr(made.op, "name", "") != "relax.make_closure":
            return call
        pure = isinstance(known, FuncStructInfo) and known.purity
        name = "invoke_pure_closure" if pure else "invoke_closure"
        result = self.builder.struct_info_of(call)
        op = _call(name, call.op, Tuple(call.args), result)
        return Call(op.op, op.args, op.sinfo_args, op.attrs, span=call.span)


def _close(func: Function, captured: _Captures) -> Function:
    """Turn the captured variables of a function into parameters."""
    table: dict[Node, Node] = {}
    params = list(func.params)
    for var in captured.values:
        # A parameter's annotation must not mention other parameters.
        info = forget_variables(var.struct_info, lambda _: True)
        made = Var(var.name_hint, substitute(info, table) if table else info, span=var.span)
        table[var] = made
        params.append(made)
    if captured.sizes:
        params.append(Var("sizes", ShapeStructInfo(captured.sizes)))
    attrs = {key: value for key, value in func.attrs.items() if key not in _OWN}
    body, ret = func.body, func.ret_struct_info
    if table:
        body = substitute(body, table)
        ret = None if ret is None else substitute(ret, table)
    return Function(tuple(params), body, ret, func.is_pure, attrs, span=func.span)


def _recursive(func: Function, binding: VarBinding, gv: GlobalVar, captured: _Captures) -> Function:
    """Let a recursive function refer to the lifted one, with its captured values."""
    name = binding.var
    if name not in free_relax_vars(func):
        return func
    body = func.body
    if not isinstance(body, SeqExpr):
        raise InternalError("a function is not in normal form")
    if not captured.args:
        made = substitute(body, {name: gv})
        return Function(
            func.params, made, func.ret_struct_info, func.is_pure, func.attrs, span=func.span
        )
    last: list[RelaxExpr] = list(func.params[len(func.params) - len(captured.args) :])

    def call(value: Call) -> Call:
        if value.op is not name:
            return value
        return Call(gv, (*value.args, *last), (), value.attrs, span=value.span)

    body = rewrite(body, {Call: call})
    if any(part is name for part in pre_order(body)):
        own = Var(name.name_hint, name.struct_info_annotation, span=name.span)
        made = VarBinding(own, _call("make_closure", gv, Tuple(tuple(last))))
        body = substitute(body, {name: own})
        blocks = list(body.blocks)
        if blocks and type(blocks[0]) is BindingBlock:
            blocks[0] = BindingBlock((made, *blocks[0].bindings), span=blocks[0].span)
        else:
            blocks.insert(0, BindingBlock((made,)))
        body = SeqExpr(tuple(blocks), body.body, span=body.span)
    return Function(
        func.params, body, func.ret_struct_info, func.is_pure, func.attrs, span=func.span
    )


def _call(name: str, *args: object) -> Call:
    found = find_op(f"relax.{name}")
    if found is None:
        raise InternalError(f"there is no operator {name}")
    return found.call(*args)
