"""Recognise functions with the attribute ``Primitive`` that can become one kernel.

``FuseOps`` creates them; users may also write functions with this attribute, in any form.
"""

from __future__ import annotations

from typing import NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call, Constant, Function, SeqExpr, Var, VarBinding
from loomir.relax.info.relations import (
    Match,
    get_shape_var_mapping,
    is_subtype,
    substitute_shape_vars,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.tir.expr import Var as PrimVar
from loomir.tir.function import PrimFunc
from loomir.transform.relax.functions.private_functions import find_only_called
from loomir.transform.relax.fusion.kernel_binding import (
    BoundKernelCall,
    bind_kernel,
    is_known,
    scalar_argument,
)

__all__ = ["Group", "Member", "groups_of"]


class Member(NamedTuple):
    """A call of a kernel in a group, and the variable that its result is bound to."""

    var: Var
    kernel: PrimFunc
    bound: BoundKernelCall


class Group(NamedTuple):
    """A function that can be one kernel."""

    func: Function
    params: dict[Var, PrimVar | None]
    """Its tensors and scalars in order; each scalar with the variable of loops for it."""
    sizes: tuple[PrimVar, ...]
    """The extents that are passed in addition."""
    members: tuple[Member, ...]
    result: Var


def groups_of(mod: IRModule) -> dict[str, Group]:
    """Return the functions of a module that can be one kernel, by name.

    Each is private and marked ``Primitive``, computes one tensor by ``call_tir`` of kernels with
    one output, takes fully known tensors, scalars and shapes, and is only called, with arguments
    that certainly fit.
    """
    graphs = [func for func in mod.functions.values() if isinstance(func, Function)]
    if not any(func.attrs.get("Primitive") for func in graphs):
        return {}
    kernels = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
    found: dict[str, Group] = {}
    analyzer = Analyzer()
    for name, func in find_only_called(mod).items():
        group = _group(func, kernels, analyzer) if func.attrs.get("Primitive") else None
        if group is not None:
            found[name] = group
    for func in graphs:
        _leave_out(func, found)
    return found


def _leave_out(func: Function, found: dict[str, Group]) -> None:
    """Drop groups that a function calls in a way that a ``call_tir`` cannot."""
    bound: set[Call] = set()
    calls: list[Call] = []
    for part in pre_order(func):
        if isinstance(part, Call) and isinstance(part.op, GlobalVar):
            calls.append(part)
        elif (
            isinstance(part, VarBinding)
            and isinstance(part.value, Call)
            and is_known(part.var.struct_info_annotation)
        ):
            bound.add(part.value)
    for call in calls:
        assert isinstance(call.op, GlobalVar)
        group = found.get(call.op.name_hint)
        if group is not None and (call not in bound or not _is_given(call, group)):
            del found[call.op.name_hint]


def _is_given(call: Call, group: Group) -> bool:
    """Tell whether the arguments of a call certainly fit a group."""
    params = [p.struct_info for p in group.func.params]
    if len(params) != len(call.args) or call.sinfo_args:
        return False
    given = [_info(arg) for arg in call.args]
    known = [info for info in given if info is not None]
    if len(known) != len(given):
        return False
    whole = TupleStructInfo(tuple(known))
    mapping = get_shape_var_mapping(TupleStructInfo(tuple(params)), whole)
    wanted = substitute_shape_vars(TupleStructInfo(tuple(params)), mapping)
    return is_subtype(whole, wanted) is Match.YES


def _info(arg: RelaxExpr) -> StructInfo | None:
    if isinstance(arg, ShapeExpr):
        return ShapeStructInfo(arg.values)
    scalar = scalar_argument(arg)
    if scalar is not None:
        return scalar
    info = arg.struct_info if isinstance(arg, (Var, Constant)) else None
    return info if isinstance(info, TensorStructInfo) else None


def _group(func: Function, kernels: dict[str, PrimFunc], analyzer: Analyzer) -> Group | None:
    body = func.body
    if not isinstance(body, SeqExpr) or not isinstance(body.body, Var):
        return None
    params: dict[Var, PrimVar | None] = {}
    sizes: dict[PrimVar, None] = {}
    for param in func.params:
        info = param.struct_info_annotation
        if isinstance(info, PrimStructInfo):
            own = info.value if isinstance(info.value, PrimVar) else None
            if own is None and info.value is not None:
                return None
            params[param] = own or PrimVar(param.name_hint, info.dtype)
        elif isinstance(info, ShapeStructInfo) and info.values is not None:
            names = [value for value in info.values if isinstance(value, PrimVar)]
            if len(names) != len(info.values):
                return None
            sizes.update(dict.fromkeys(names))
        elif is_known(info):
            params[param] = None
        else:
            return None
    numbers = [*(p for p in params.values() if p is not None), *sizes]
    if len(set(numbers)) != len(numbers):
        return None
    made: dict[Var, Member] = {}
    for block in body.blocks:
        for binding in block.bindings:
            member = _member(binding, kernels, params, analyzer)
            if member is None or not _are_own(member, {*params, *made}):
                return None
            made[member.var] = member
    if body.body not in made:
        return None
    claimed = func.ret_struct_info
    if claimed is not None and is_subtype(body.body.struct_info, claimed) is not Match.YES:
        return None
    return Group(func, params, tuple(sizes), tuple(made.values()), body.body)


def _member(
    binding: object,
    kernels: dict[str, PrimFunc],
    params: dict[Var, PrimVar | None],
    analyzer: Analyzer,
) -> Member | None:
    if not isinstance(binding, VarBinding) or not isinstance(binding.value, Call):
        return None
    call = binding.value
    if not isinstance(call.op, Op) or call.op.name != "relax.call_tir":
        return None
    name = call.args[0]
    kernel = kernels.get(name.name_hint) if isinstance(name, GlobalVar) else None
    if kernel is None or not is_known(binding.var.struct_info_annotation):
        return None

    bound = bind_kernel(kernel, call, params.get, analyzer)
    return None if bound is None else Member(binding.var, kernel, bound)


def _are_own(member: Member, known: set[Var]) -> bool:
    """Tell whether a call uses only variables of its group."""
    return all(isinstance(arg, Var) and arg in known for _, arg in member.bound.tensors)
