"""The base class of passes over functions in normal form, which visit bindings in order.

A pass overrides the hooks of ``Rewriter`` that it needs. A replacement value is normalised and
derived; if the structural information of a variable changes, a new variable replaces it from there
on. Unchanged parts stay the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from loomir.ir.equality import structural_equal
from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.substitution import substitute
from loomir.ir.visit import Step, pre_order, trampoline
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
from loomir.relax.free_vars import free_relax_vars, shape_vars_bound_by, shape_vars_in
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.normal.blocks import is_dataflow
from loomir.relax.normal.normalizer import is_force_pure
from loomir.tir.analysis.copy_statement import fresh_var
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = ["Rewriter", "all_bindings", "copy_with_fresh_vars"]


class Rewriter:
    """Rewrites functions; make one for each run of a pass.

    A hook gets a value whose parts were rewritten, and returns it or another expression; what it
    emits through ``builder`` comes before the binding that is being rewritten. ``replace`` puts an
    expression in a variable's place.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule({}) if mod is None else mod
        self.builder = BlockBuilder(mod)
        self._normalizer = self.builder.normalizer

    # -- hooks -----------------------------------------------------------------------------------
    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Return an expression in place of a call."""
        return call

    def rewrite_tuple(self, value: Tuple) -> RelaxExpr:
        """Return an expression in place of a tuple that is bound."""
        return value

    def rewrite_tuple_get_item(self, value: TupleGetItem) -> RelaxExpr:
        """Return an expression in place of a field."""
        return value

    def rewrite_if(self, value: If) -> RelaxExpr:
        """Return an expression in place of a branch."""
        return value

    def rewrite_closure(self, value: Function) -> RelaxExpr:
        """Return an expression in place of a function that is bound to a variable."""
        return value

    def rewrite_leaf(self, value: RelaxExpr) -> RelaxExpr:
        """Return an expression in place of a bound leaf: a variable, a constant, a shape."""
        return value

    def rewrite_parameter(self, param: Var) -> Var:
        """Return a variable in place of a parameter."""
        return param

    def rewrite_return(self, body: SeqExpr, ret: StructInfo | None) -> StructInfo | None:
        """Return the annotation of what a function returns; ``body`` was rewritten."""
        del body
        return ret

    def rewrite_var_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Emit a binding whose value was rewritten, or else ``replace`` its variable."""
        self.emit_binding(binding, value)

    def rewrite_match_cast(self, binding: MatchCast, value: RelaxExpr) -> None:
        """Emit a check whose value was rewritten, or else ``replace`` its variable."""
        self.emit_match_cast(binding, value)

    # -- what hooks use --------------------------------------------------------------------------
    def lookup(self, expr: RelaxExpr) -> RelaxExpr:
        """Return the value of a variable that was bound before; otherwise the expression itself."""
        found = self.builder.lookup_binding(expr) if isinstance(expr, Var) else None
        return expr if found is None else found

    def replace(self, old: Var | ShapeVar, new: RelaxExpr | PrimExpr) -> None:
        """Replace a variable by a leaf, or an extent in that of a shape variable."""
        self._normalizer.rename(old, new)

    def emit_binding(self, binding: VarBinding, value: RelaxExpr) -> None:
        """Bind a value; its variable is kept if as much is known of the value as before."""
        normalizer = self._normalizer
        var = binding.var
        info = normalizer.info(var.struct_info)
        if value is not binding.value:
            value = normalizer.run(normalizer.value(value))
            derived = normalizer.derive(value)
            if not isinstance(var, DataflowVar):
                derived = normalizer.outside(derived)
            recursive = isinstance(value, Function) and var in free_relax_vars(value)
            if not recursive and not structural_equal(derived, info):
                info = derived
        if info is not var.struct_info_annotation:
            var = type(var)(var.name_hint, info, span=var.span)
            normalizer.rename(binding.var, var)
        same = var is binding.var and value is binding.value
        normalizer.add(binding if same else VarBinding(var, value, span=binding.span))

    def emit_match_cast(self, binding: MatchCast, value: RelaxExpr) -> None:
        """Emit the check of a value, which may have been replaced."""
        normalizer = self._normalizer
        if value is not binding.value:
            value = normalizer.run(normalizer.value(value))
        normalizer.cast(binding, value)

    # -- the walk --------------------------------------------------------------------------------
    def rewrite_module(self) -> IRModule:
        """Rewrite all functions of the module; returns the same module if nothing changed.

        Functions that hooks add are not rewritten.
        """
        for var, func in self.mod.functions.items():
            if isinstance(func, Function):
                made = self.rewrite_function(func)
                if made is not func:
                    self.builder.update_func(var, made)
        made = self.builder.get()
        old, new = self.mod.functions, made.functions
        same = len(old) == len(new) and all(new.get(var) is func for var, func in old.items())
        return self.mod if same else made

    def rewrite_function(self, func: Function) -> Function:
        """Rewrite a function; returns the same one if nothing changed."""
        return trampoline(self._function(func))

    def _function(self, func: Function) -> Step[Function]:
        normalizer = self._normalizer
        params = tuple([self._parameter(p) for p in func.params])
        normalizer.known.enter(params)
        try:
            body = yield self._sequence(func.body, func.is_pure and not is_force_pure(func))
        finally:
            normalizer.known.leave()
        ret = None if func.ret_struct_info is None else normalizer.info(func.ret_struct_info)
        ret = self.rewrite_return(body, ret)
        same = all(a is b for a, b in zip(params, func.params))
        if same and body is func.body and ret is func.ret_struct_info:
            return func
        return Function(params, body, ret, func.is_pure, func.attrs, span=func.span)

    def _parameter(self, param: Var) -> Var:
        made = self.rewrite_parameter(param)
        made = self._normalizer.parameter(made)
        if made is not param:
            self._normalizer.rename(param, made)
        return made

    def _sequence(self, expr: RelaxExpr, pure: bool) -> Step[SeqExpr]:
        normalizer = self._normalizer
        depth = len(normalizer.scopes)
        normalizer.enter(pure)
        try:
            origin = expr if isinstance(expr, SeqExpr) else None
            for block in () if origin is None else origin.blocks:
                normalizer.open(is_dataflow(block), block)
                for binding in block.bindings:
                    yield self._rewrite_binding(binding)
            normalizer.open(False)
            body = yield normalizer.leaf(expr if origin is None else origin.body)
            return normalizer.scope.finish(body, origin)
        finally:
            normalizer.leave_to(depth)

    def _rewrite_binding(self, binding: Binding) -> Step[None]:
        assert isinstance(binding, (VarBinding, MatchCast))
        value = binding.value
        if isinstance(value, If):
            value = yield self._if(value)
        elif isinstance(value, Function):
            assert binding.var is not None
            self._normalizer.known.declare(binding.var)
            value = yield self._function(value)
        else:
            value = yield self._normalizer.value(value)
        hook = _HOOKS.get(value.__class__, "rewrite_leaf")
        value = cast("RelaxExpr", getattr(self, hook)(value))
        if isinstance(binding, MatchCast):
            self.rewrite_match_cast(binding, value)
        else:
            self.rewrite_var_binding(binding, value)

    def _if(self, expr: If) -> Step[If]:
        (cond,) = yield self._normalizer.leaves((expr.cond,))
        pure = self._normalizer.scope.pure
        first = yield self._sequence(expr.true_branch, pure)
        second = yield self._sequence(expr.false_branch, pure)
        if (cond, first, second) == (expr.cond, expr.true_branch, expr.false_branch):
            return expr
        return If(cond, first, second, span=expr.span)


_HOOKS: Final[dict[type, str]] = {
    Call: "rewrite_call",
    Tuple: "rewrite_tuple",
    TupleGetItem: "rewrite_tuple_get_item",
    If: "rewrite_if",
    Function: "rewrite_closure",
}


def all_bindings(root: RelaxExpr) -> Sequence[VarBinding | MatchCast]:
    """List all bindings of a function or a sequence, also those in branches and closures."""
    return [part for part in pre_order(root) if isinstance(part, (VarBinding, MatchCast))]


def copy_with_fresh_vars(func: Function) -> Function:
    """Copy a function with new variables and shape variables in place of those that it binds.

    Shape variables in the annotations of captured variables are captured too, and stay.
    """
    shapes: dict[ShapeVar, ShapeVar] = {}
    names: dict[Var, None] = {}
    captured = {
        name
        for var in free_relax_vars(func)
        if var.struct_info_annotation is not None
        for name in shape_vars_in(var.struct_info_annotation)
    }

    def bind_shapes(info: StructInfo | None) -> None:
        for name in () if info is None else shape_vars_bound_by(info):
            if name not in captured:
                shapes.setdefault(name, fresh_var(name))

    for part in pre_order(func):
        if isinstance(part, Function):
            for param in part.params:
                bind_shapes(param.struct_info_annotation)
                names.setdefault(param)
        elif isinstance(part, MatchCast):
            bind_shapes(part.struct_info)
        if isinstance(part, (VarBinding, MatchCast)) and part.var is not None:
            names.setdefault(part.var)
    table: dict[Any, Node] = dict(shapes)
    for name in names:
        info = name.struct_info_annotation
        made = None if info is None else _substitute(info, table)
        table[name] = type(name)(name.name_hint, made, span=name.span)
    return substitute(func, table)


def _substitute(info: StructInfo, table: dict[Any, Node]) -> StructInfo:
    few = {part: table[part] for part in pre_order(info) if part in table}
    return substitute(info, few) if few else info
