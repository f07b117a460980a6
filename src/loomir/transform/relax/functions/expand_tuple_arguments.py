"""Pass the fields of tuples to private functions one by one."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.passes import register
from loomir.relax.expr import (
    BindingBlock,
    Call,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.struct_info import TupleStructInfo
from loomir.transform.relax.functions.private_functions import find_only_called

__all__ = ["expand_tuple_arguments"]


@register("relax.ExpandTupleArguments", requires={"relax_normal_form"})
def expand_tuple_arguments(mod: IRModule) -> IRModule:
    """Replace each tuple parameter of a private function by one parameter for each field.

    Tuples in tuples are expanded too.
    """
    while True:
        wide = {
            name: func
            for name, func in find_only_called(mod).items()
            if any(isinstance(p.struct_info, TupleStructInfo) for p in func.params)
        }
        if not wide:
            return mod
        changed = dict(mod.functions)
        for var in mod.functions:
            if var.name_hint in wide:
                changed[var] = _expand(wide[var.name_hint])
        mod = _Callers(mod.with_functions(changed), wide).rewrite_module()


def _expand(func: Function) -> Function:
    params: list[Var] = []
    bindings: list[VarBinding] = []
    for param in func.params:
        info = param.struct_info
        if not isinstance(info, TupleStructInfo):
            params.append(param)
            continue
        fields = [Var(f"{param.name_hint}_{k}", f) for k, f in enumerate(info.fields)]
        params += fields
        bindings.append(VarBinding(param, Tuple(tuple(fields))))
    body = func.body
    assert isinstance(body, SeqExpr)
    blocks = list(body.blocks)
    if blocks and type(blocks[0]) is BindingBlock:
        blocks[0] = BindingBlock((*bindings, *blocks[0].bindings), span=blocks[0].span)
    else:
        blocks.insert(0, BindingBlock(tuple(bindings)))
    made = SeqExpr(tuple(blocks), body.body, span=body.span)
    return Function(
        tuple(params), made, func.ret_struct_info, func.is_pure, func.attrs, span=func.span
    )


class _Callers(Rewriter):
    def __init__(self, mod: IRModule, wide: dict[str, Function]) -> None:
        super().__init__(mod)
        self.wide = wide

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Pass the fields in place of a tuple."""
        old = self.wide.get(call.op.name_hint) if isinstance(call.op, GlobalVar) else None
        if old is None:
            return call
        args: list[RelaxExpr] = []
        for param, arg in zip(old.params, call.args):
            info = param.struct_info
            if not isinstance(info, TupleStructInfo):
                args.append(arg)
            elif isinstance(arg, Tuple):
                args += arg.fields
            else:
                args += [TupleGetItem(arg, k) for k in range(len(info.fields))]
        return Call(call.op, tuple(args), call.sinfo_args, call.attrs, span=call.span)
