"""Remove results of private functions that no caller uses."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.passes import register
from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    BindingBlock,
    Call,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.info.relations import Match, is_subtype
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.derive import struct_info_of
from loomir.relax.normal.functions import Functions
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.struct_info import TupleStructInfo
from loomir.transform.relax.functions.private_functions import find_only_called

__all__ = ["remove_unused_outputs"]


@register("relax.RemoveUnusedOutputs", requires={"relax_normal_form"})
def remove_unused_outputs(mod: IRModule) -> IRModule:
    """Return from private functions only the tuple fields that callers use.

    A function with one remaining field returns the field itself, not a tuple. A field stays if the
    annotation of the result says more of it than is derived, since that is checked on return. The
    computation of a removed field is left to DeadCodeElimination.
    """
    wide = {
        name: func
        for name, func in find_only_called(mod).items()
        if isinstance(func.ret_struct_info, TupleStructInfo)
    }
    if not wide:
        return mod
    used = _find_used(mod, set(wide))
    known = Functions(mod)
    kept: dict[str, list[int]] = {}
    for name, func in wide.items():
        ret, given = func.ret_struct_info, _result(func, known)
        if not isinstance(ret, TupleStructInfo) or not isinstance(given, TupleStructInfo):
            continue
        fields = set(range(len(ret.fields))) if None in used[name] else used[name]
        pairs = zip(given.fields, ret.fields, strict=True)
        places = [
            k for k, (a, b) in enumerate(pairs) if k in fields or is_subtype(a, b) is not Match.YES
        ]
        if len(places) < len(ret.fields):
            kept[name] = places
    if not kept:
        return mod
    changed = {
        var: _keep_outputs(func, kept[var.name_hint])
        if isinstance(func, Function) and var.name_hint in kept
        else func
        for var, func in mod.functions.items()
    }
    return _Callers(mod.with_functions(changed), kept).rewrite_module()


def _find_used(mod: IRModule, names: set[str]) -> dict[str, set[int | None]]:
    """Return the fields of functions' results that are used; None stands for the whole result."""
    found: dict[str, set[int | None]] = {name: set() for name in names}
    for func in mod.functions.values():
        results: dict[Var, str] = {}
        uses: list[RelaxExpr] = []
        for part in pre_order(func) if isinstance(func, Function) else ():
            if isinstance(part, SeqExpr):
                uses.append(part.body)
            elif isinstance(part, (VarBinding, MatchCast)):
                value = part.value
                name = _callee(value)
                if name in names and isinstance(part, VarBinding):
                    results[part.var] = name
                uses.append(value.cond if isinstance(value, If) else value)
        for use in uses:
            if isinstance(use, Function):
                continue  # its sequences are listed separately
            of = use.tuple_value if isinstance(use, TupleGetItem) else None
            if isinstance(of, Var) and of in results and isinstance(use, TupleGetItem):
                found[results[of]].add(use.index)
                continue
            for var in pre_order(use):
                if isinstance(var, Var) and var in results:
                    found[results[var]].add(None)
    return found


def _callee(value: RelaxExpr) -> str:
    called = isinstance(value, Call) and isinstance(value.op, GlobalVar)
    return value.op.name_hint if called else ""  # type: ignore[union-attr]


def _result(func: Function, known: Functions) -> StructInfo | None:
    body = func.body.body if isinstance(func.body, SeqExpr) else func.body
    return struct_info_of(body, known.info_of)


def _keep_outputs(func: Function, places: list[int]) -> Function:
    """Rewrite a function to return only some fields."""
    body, ret = func.body, func.ret_struct_info
    assert isinstance(body, SeqExpr)
    assert isinstance(ret, TupleStructInfo)
    blocks = list(body.blocks)
    result = body.body
    fields: list[RelaxExpr]
    if isinstance(result, Tuple):
        fields = [result.fields[k] for k in places]
    else:
        taken = [
            VarBinding(Var(f"field_{k}", ret.fields[k]), TupleGetItem(result, k)) for k in places
        ]
        fields = [binding.var for binding in taken]
        if blocks and type(blocks[-1]) is BindingBlock:
            before = blocks.pop()
            blocks.append(BindingBlock((*before.bindings, *taken), span=before.span))
        elif taken:
            blocks.append(BindingBlock(tuple(taken)))
    infos = tuple([ret.fields[k] for k in places])
    one = len(places) == 1
    made = SeqExpr(tuple(blocks), fields[0] if one else Tuple(tuple(fields)), span=body.span)
    info = infos[0] if one else TupleStructInfo(infos)
    return Function(func.params, made, info, func.is_pure, func.attrs, span=func.span)


class _Callers(Rewriter):
    def __init__(self, mod: IRModule, kept: dict[str, list[int]]) -> None:
        super().__init__(mod)
        self.kept = kept

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Derive the result of a changed function again."""
        if _callee(call) not in self.kept:
            return call
        return Call(call.op, call.args, call.sinfo_args, call.attrs, span=call.span)

    def rewrite_tuple_get_item(self, value: TupleGetItem) -> RelaxExpr:
        """Adjust the index to the remaining fields."""
        places = self.kept.get(_callee(self.lookup(value.tuple_value)))
        if places is None:
            return value
        if len(places) == 1:
            return value.tuple_value
        return TupleGetItem(value.tuple_value, places.index(value.index), span=value.span)
