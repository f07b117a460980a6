"""Inline private functions: replace their calls by their bodies."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.relax.expr import (
    Call,
    DataflowVar,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.info.relations import Match, get_shape_var_mapping, is_subtype
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.rewriter import Rewriter, copy_with_fresh_vars
from loomir.transform.relax.functions.private_functions import find_only_called, list_called_names

__all__ = ["inline_private_functions"]


@register("relax.InlinePrivateFunctions", requires={"relax_normal_form"}, breaks={"functions_used"})
def inline_private_functions(mod: IRModule) -> IRModule:
    """Inline private functions that are only called, and remove them.

    Recursive functions stay; so do groups of kernels, and functions with control flow that are
    called in dataflow blocks. Checks of annotations that may fail remain as ``MatchCast``.
    """
    ready = _inlinable(mod)
    if not ready:
        return mod
    for name in _callees_first(mod, ready):
        inliner = _Inliner(mod, ready)
        made = inliner.rewrite_function(ready[name])
        ready[name] = made
        mod = mod.with_function(name, made)
    mod = _Inliner(mod, ready).rewrite_module()
    used = {
        name
        for var, func in mod.functions.items()
        if isinstance(func, Function) and var.name_hint not in ready
        for name in list_called_names(func)
    }
    stack = [name for name in used if name in ready]
    while stack:  # callees of recursive functions may be recursive, too
        for name in list_called_names(ready[stack.pop()]) & ready.keys() - used:
            used.add(name)
            stack.append(name)
    gone = ready.keys() - used
    return mod.with_functions({v: f for v, f in mod.functions.items() if v.name_hint not in gone})


def _inlinable(mod: IRModule) -> dict[str, Function]:
    found = {n: f for n, f in find_only_called(mod).items() if not f.attrs.get("Primitive")}
    found = {n: f for n, f in found.items() if not f.attrs.get("relax.force_pure")}
    calls = {n: list_called_names(f) & found.keys() for n, f in found.items()}
    while True:  # a function whose callees are all non-recursive is not recursive
        ends = {n for n, names in calls.items() if not names}
        if not ends:
            break
        calls = {n: names - ends for n, names in calls.items() if n not in ends}
    return {n: f for n, f in found.items() if n not in calls}


def _callees_first(mod: IRModule, ready: dict[str, Function]) -> list[str]:
    calls = {n: list_called_names(f) & ready.keys() for n, f in ready.items()}
    order: list[str] = []
    while calls:
        ends = [n for n, names in calls.items() if not names]
        order += ends
        gone = set(ends)
        calls = {n: names - gone for n, names in calls.items() if n not in gone}
    return order


class _Inliner(Rewriter):
    def __init__(self, mod: IRModule, ready: dict[str, Function]) -> None:
        super().__init__(mod)
        self.ready = ready

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Emit the body of the called function, and return its result."""
        func = self.ready.get(call.op.name_hint) if isinstance(call.op, GlobalVar) else None
        if func is None or (self.builder.in_dataflow and not _is_graph(func)):
            return call
        func = copy_with_fresh_vars(func)
        shapes: dict[Node, Node] = {}
        infos = [self.builder.struct_info_of(arg) for arg in call.args]
        for param, info in zip(func.params, infos):
            shapes.update(
                (var, value)
                for var, value in get_shape_var_mapping(param.struct_info, info).items()
                if var not in shapes
            )
        func = substitute(func, shapes)
        table: dict[Node, Node] = {}
        for param, arg, info in zip(func.params, call.args, infos):
            table[param] = self._check_argument(param, arg, info)
        kind = DataflowVar if self.builder.in_dataflow else Var
        body = func.body
        assert isinstance(body, SeqExpr)
        for block in body.blocks:
            for binding in block.bindings:
                var = binding.var if isinstance(binding, (VarBinding, MatchCast)) else None
                if var is not None and type(var) is not kind:
                    table[var] = kind(var.name_hint, substitute(var.struct_info, table))
        body = substitute(body, table)
        for block in body.blocks:
            for binding in block.bindings:
                self.builder.emit_normalized(binding)
        return body.body

    def _check_argument(self, param: Var, arg: RelaxExpr, info: StructInfo) -> RelaxExpr:
        """Return the argument; add a check if it may not fit, and bind a tuple to a variable."""
        if is_subtype(info, param.struct_info) is not Match.YES:
            return self.builder.match_cast(arg, param.struct_info, param.name_hint)
        return self.builder.emit(arg, param.name_hint) if isinstance(arg, Tuple) else arg


def _is_graph(func: Function) -> bool:
    """Tell whether a function's bindings can be in a dataflow block."""
    body = func.body
    if not isinstance(body, SeqExpr):
        return False
    bindings = [binding for block in body.blocks for binding in block.bindings]
    values = [b.value for b in bindings if isinstance(b, (VarBinding, MatchCast))]
    return func.is_pure and not any(isinstance(value, (If, Function)) for value in values)
