"""Replace the weights of a model by one parameter, a tuple."""

from __future__ import annotations

from dataclasses import dataclass

from loomir.ir.passes import register
from loomir.relax.expr import BindingBlock, Function, SeqExpr, TupleGetItem, Var, VarBinding
from loomir.relax.struct_info import TupleStructInfo
from loomir.transform.relax.constants.model_params import count_of_inputs

__all__ = ["BundleModelParamsOptions", "bundle_model_params"]


@dataclass(frozen=True, slots=True)
class BundleModelParamsOptions:
    """The name of the tuple parameter."""

    param_tuple_name: str = "model_params"


@register("relax.BundleModelParams", requires={"relax_normal_form"})
def bundle_model_params(
    func: Function, options: BundleModelParamsOptions = BundleModelParamsOptions()
) -> Function:
    """Bundle the parameters after the first ``num_input``, a function attribute, into one tuple.

    Functions without the attribute stay unchanged, and those whose only weight is a tuple. Calls
    inside the module are not changed: the pass is meant for functions that are called from outside.
    Errors: RLX0331 for a ``num_input`` that is not a number of parameters.
    """
    count = count_of_inputs(func)
    weights = () if count is None else func.params[count:]
    if not weights or (len(weights) == 1 and isinstance(weights[0].struct_info, TupleStructInfo)):
        return func
    info = TupleStructInfo(tuple([w.struct_info for w in weights]))
    bundle = Var(options.param_tuple_name, info)
    taken = [VarBinding(w, TupleGetItem(bundle, k), span=w.span) for k, w in enumerate(weights)]
    body = func.body
    assert isinstance(body, SeqExpr)
    blocks = list(body.blocks)
    if blocks and type(blocks[0]) is BindingBlock:
        blocks[0] = BindingBlock((*taken, *blocks[0].bindings), span=blocks[0].span)
    else:
        blocks.insert(0, BindingBlock(tuple(taken)))
    made = SeqExpr(tuple(blocks), body.body, span=body.span)
    params = (*func.params[:count], bundle)
    return Function(params, made, func.ret_struct_info, func.is_pure, func.attrs, span=func.span)
