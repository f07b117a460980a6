"""Bind parameters of a function to arrays that are known at compile time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.relax.expr import Constant, Function, Var
from loomir.relax.info.describe import format_info
from loomir.relax.info.relations import Match, check_compatibility, get_shape_var_mapping
from loomir.support.array import Array
from loomir.support.diagnostics import nearest
from loomir.tir.rules import refuse

__all__ = ["BindParamsOptions", "bind_params"]


@dataclass(frozen=True, slots=True)
class BindParamsOptions:
    """The name of the function, and tensors by the names of its parameters."""

    func_name: str = "main"
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])


@register("relax.BindParams", requires={"relax_normal_form"})
def bind_params(mod: IRModule, options: BindParamsOptions = BindParamsOptions()) -> IRModule:
    """Replace parameters of a function by constants.

    Shape variables that these parameters bind become numbers.
    Errors: RLX0330 for a name that no parameter has, and for a tensor that does not fit.
    """
    func = mod[options.func_name]
    if not options.params or not isinstance(func, Function):
        return mod
    by_name = {param.name_hint: param for param in func.params}
    table: dict[Node, Node] = {}
    for name, value in options.params.items():
        param = by_name.get(name)
        if param is None:
            guess = nearest(name, by_name)
            refuse(
                "RLX0330",
                f"the function {options.func_name!r} has no parameter {name!r}",
                help=f"did you mean {guess!r}?" if guess else "use one of its names",
                span=func.span,
            )
        constant = Constant(value if isinstance(value, Array) else Array(value))
        _fit(param, constant, table)
        table[param] = constant
    bound = set(options.params)
    shapes = {old: new for old, new in table.items() if not isinstance(old, Var)}
    params: list[Var] = []
    for param in func.params:
        if param.name_hint not in bound:
            info = substitute(param.struct_info, shapes)
            if info is not param.struct_info:
                table[param] = Var(param.name_hint, info, span=param.span)
            params.append(cast("Var", table.get(param, param)))
    body = substitute(func.body, table)
    ret = None if func.ret_struct_info is None else substitute(func.ret_struct_info, shapes)
    made = Function(tuple(params), body, ret, func.is_pure, func.attrs, span=func.span)
    return mod.with_function(options.func_name, made)


def _fit(param: Var, constant: Constant, table: dict[Node, Node]) -> None:
    """Check a tensor against a parameter's annotation, and record the extents that it binds."""
    wanted = substitute(param.struct_info, table)
    table.update(get_shape_var_mapping(wanted, constant.struct_info).items())
    wanted = substitute(wanted, table)
    if check_compatibility(constant.struct_info, wanted) is Match.NO:
        refuse(
            "RLX0330",
            f"the parameter {param.name_hint!r} is {format_info(param.struct_info)}, and cannot be "
            f"{format_info(constant.struct_info)}",
            help="pass a tensor with its dtype and shape",
            span=param.span,
        )
