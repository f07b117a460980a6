"""Transform weights lazily: fetch each before its first use, and return each result once done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, pre_order, rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    ExternFunc,
    Function,
    MatchCast,
    PrimValue,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.free_vars import free_relax_vars, free_shape_vars
from loomir.relax.node import RelaxExpr
from loomir.relax.struct_info import ObjectStructInfo, TupleStructInfo
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.expr import const
from loomir.transform.relax.bindings.to_non_dataflow import to_non_dataflow
from loomir.transform.relax.constants.model_params import count_of_inputs

__all__ = ["LazyTransformParamsOptions", "lazy_transform_params"]

_ENDING: Final = "transform_params"


@dataclass(frozen=True, slots=True)
class LazyTransformParamsOptions:
    """Names of packed functions: one returns a weight by its number, one takes a numbered result.

    With None, weights stay parameters, or results are returned. The extra variables become
    parameters, and are passed before the number in each call.
    """

    fget_item: str | None = "get_item"
    fset_item: str | None = "set_item"
    extra_get_item_params: tuple[Var, ...] = ()
    extra_set_item_params: tuple[Var, ...] = ()


@register("relax.LazyTransformParams", requires={"relax_normal_form"})
def lazy_transform_params(
    mod: IRModule, options: LazyTransformParamsOptions = LazyTransformParamsOptions()
) -> IRModule:
    """Let functions named ``..transform_params`` get weights and set results by packed functions.

    Weights are the parameters after the first ``num_input`` (a function attribute; without it,
    all), or the fields of the only one if that is a tuple. A weight is fetched before its first
    use, or at the beginning if it has symbolic extents. A result is passed on as soon as it is
    computed, so that few are in memory at a time. A function stays unchanged if the module itself
    uses it, if its tuple is used as a whole, or if extents of weights do not follow from earlier
    ones. Errors: RLX0331 for a ``num_input`` that is not a number of parameters.
    """
    used = {v for func in mod.functions.values() for v in by_class(func).get(GlobalVar, ())}
    functions: dict[GlobalVar, BaseFunc] = {}
    for var, func in mod.functions.items():
        functions[var] = func
        if isinstance(func, Function) and var.name_hint.endswith(_ENDING) and var not in used:
            functions[var] = _LazyBuilder(func, options).make() or func
    changed = any(functions[var] is not func for var, func in mod.functions.items())
    return mod.with_functions(functions) if changed else mod


class _LazyBuilder:
    """Builds the new form of one function."""

    def __init__(self, func: Function, options: LazyTransformParamsOptions) -> None:
        self.func = to_non_dataflow(func)
        self.options = options
        fresh = {v: Var(v.name_hint, v.struct_info) for v in _extra(options)}
        self.before_get = tuple([fresh[v] for v in options.extra_get_item_params])
        self.before_set = tuple([fresh[v] for v in options.extra_set_item_params])
        self.extra = tuple(fresh.values())
        self.bindings: list[Binding] = []
        self.numbers: dict[Var, int] = {}
        """The weights that are not fetched yet, with their numbers."""
        self.wanted: dict[Var, list[int]] = {}
        """The results that are not passed on yet, with their numbers."""

    def make(self) -> Function | None:
        """Return the new function, or None if the old one has to stay."""
        func, options = self.func, self.options
        count = count_of_inputs(func) or 0
        body = func.body
        if not isinstance(body, SeqExpr):
            return None
        params = func.params
        if options.fget_item is not None and len(params) > count:
            body, weights = _separate(body, params[count:])
            if not weights:
                return None
            self.numbers = {w: number for number, w in enumerate(weights)}
            params = params[:count]
        result, ret = body.body, func.ret_struct_info
        fields: tuple[RelaxExpr, ...] = ()
        if options.fset_item is not None:
            body, fields = _fields(body)
            for number, field in enumerate(fields):
                if isinstance(field, Var):
                    self.wanted.setdefault(field, []).append(number)
            result, ret = Tuple(()), TupleStructInfo(())
        if not self.numbers and not fields:
            return None
        self._emit(body, params, fields, result)
        attrs = dict(func.attrs)
        if "num_input" in attrs or self.extra:
            attrs["num_input"] = count + len(self.extra)
        made = Function(
            (*params[:count], *self.extra, *params[count:]),
            SeqExpr((BindingBlock(tuple(self.bindings)),), result, span=body.span),
            ret,
            False,
            attrs,
            span=func.span,
        )
        return None if free_relax_vars(made) or free_shape_vars(made) else made

    def _emit(
        self,
        body: SeqExpr,
        params: Sequence[Var],
        fields: Sequence[RelaxExpr],
        result: RelaxExpr,
    ) -> None:
        self._get(w for w in self.numbers if ShapeVar in by_class(w.struct_info))
        for param in params:
            self._set(param)
        for block in body.blocks:
            for binding in block.bindings:
                self._get(p for p in pre_order(binding) if isinstance(p, Var))
                self.bindings.append(binding)
                var = binding.var if isinstance(binding, (VarBinding, MatchCast)) else None
                if var is not None:
                    self._set(var)
        self._get(p for p in (*fields, *pre_order(result)) if isinstance(p, Var))
        for number, field in enumerate(fields):
            if not isinstance(field, Var):
                self._call(self.options.fset_item, self.before_set, number, field)

    def _get(self, weights: Iterable[Var]) -> None:
        """Fetch those of the weights that are not fetched yet."""
        for weight in list(weights):
            number = self.numbers.pop(weight, None)
            if number is None:
                continue
            got = self._call(self.options.fget_item, self.before_get, number, hint="got")
            self.bindings.append(MatchCast(weight, got, weight.struct_info, span=weight.span))
            self._set(weight)

    def _set(self, var: Var) -> None:
        """Pass a result on."""
        for number in self.wanted.pop(var, ()):
            self._call(self.options.fset_item, self.before_set, number, var)

    def _call(
        self,
        name: str | None,
        extra: Sequence[RelaxExpr],
        number: int,
        *more: RelaxExpr,
        hint: str = "_",
    ) -> Var:
        assert name is not None
        var = Var(hint, ObjectStructInfo())
        call = Call(ExternFunc(name), (*extra, PrimValue(const(number, "int64")), *more))
        self.bindings.append(VarBinding(var, call))
        return var


def _extra(options: LazyTransformParamsOptions) -> dict[Var, None]:
    return dict.fromkeys((*options.extra_get_item_params, *options.extra_set_item_params))


def _separate(body: SeqExpr, weights: tuple[Var, ...]) -> tuple[SeqExpr, tuple[Var, ...]]:
    """Make a variable for each field of the only weight; none if the tuple is used as a whole."""
    whole, *others = weights
    info = whole.struct_info
    if others or not isinstance(info, TupleStructInfo):
        return body, weights
    named = {
        binding.value.index: binding.var.name_hint
        for block in body.blocks
        for binding in reversed(block.bindings)
        if isinstance(binding, VarBinding)
        and isinstance(binding.value, TupleGetItem)
        and binding.value.tuple_value is whole
    }
    single = tuple(
        [Var(named.get(k, f"{whole.name_hint}_{k}"), f) for k, f in enumerate(info.fields)]
    )

    def field(value: TupleGetItem) -> RelaxExpr:
        return single[value.index] if value.tuple_value is whole else value

    body = rewrite(body, {TupleGetItem: field})
    if whole in free_relax_vars(body):
        return body, ()
    known: set[Node] = set(single)
    same: dict[Node, Node] = {}
    blocks: list[BindingBlock] = []
    for block in body.blocks:
        left: list[Binding] = []
        for binding in block.bindings:
            if isinstance(binding, VarBinding) and binding.value in known:
                same[binding.var] = binding.value
            else:
                left.append(binding)
        blocks.append(type(block)(tuple(left), span=block.span))
    return substitute(SeqExpr(tuple(blocks), body.body, span=body.span), same), single


def _fields(body: SeqExpr) -> tuple[SeqExpr, tuple[RelaxExpr, ...]]:
    """List the results; a tuple that is only built to be returned is dropped."""
    last = body.blocks[-1].bindings[-1] if body.blocks and body.blocks[-1].bindings else None
    result = body.body
    if isinstance(result, Tuple):
        return body, result.fields
    if isinstance(last, VarBinding) and last.var is result and isinstance(last.value, Tuple):
        block = body.blocks[-1]
        rest = type(block)(block.bindings[:-1], span=block.span)
        return SeqExpr((*body.blocks[:-1], rest), result, span=body.span), last.value.fields
    return body, (result,)
