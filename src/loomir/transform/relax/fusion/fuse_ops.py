"""Group calls of kernels that can be fused into one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.arith.analyzer import Analyzer
from loomir.ir.equality import structural_equal
from loomir.ir.hashing import structural_hash
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import by_class, pre_order, rewrite
from loomir.relax.expr import (
    Binding,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    MatchCast,
    PrimValue,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from loomir.relax.free_vars import shape_vars_bound_by
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.rewriter import copy_with_fresh_vars
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from loomir.tir.expr import IntImm
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.function import PrimFunc
from loomir.transform.relax.fusion.attention_groups import KernelInputs, find_attention
from loomir.transform.relax.fusion.fusion_groups import GraphNode, find_groups
from loomir.transform.relax.fusion.kernel_binding import bind_kernel, is_known, scalar_argument
from loomir.transform.relax.fusion.kernel_groups import groups_of
from loomir.transform.relax.fusion.op_pattern import OpPattern

__all__ = ["fuse_ops"]

_CALL_TIR: Final = "relax.call_tir"
_NAMES: Final = 6
"""The most kernels whose names form the name of a group."""


@register("relax.FuseOps", requires={"relax_normal_form"}, breaks={"no_kernel_groups"})
def fuse_ops(mod: IRModule) -> IRModule:
    """Group calls of kernels in dataflow blocks that can become one kernel into functions.

    Such a function is private and has the attribute ``Primitive``. Only kernels annotated by
    ``AnnotateTIROpPattern`` are grouped; equal groups share a function.
    """
    return _KernelGrouping(mod).run()


class _KernelGrouping:
    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.kernels = {
            v.name_hint: f
            for v, f in mod.functions.items()
            if isinstance(f, PrimFunc) and "op_pattern" in f.attrs
        }
        self.names = set(mod)
        self.analyzer = Analyzer()
        self.added: dict[GlobalVar, Function] = {}
        self.by_hash: dict[int, list[GlobalVar]] = {}
        self.by_key: dict[object, GlobalVar] = {}

    def run(self) -> IRModule:
        changed: dict[GlobalVar, BaseFunc] = {}
        groups = groups_of(self.mod)  # groups written by users
        for var, func in self.mod.functions.items():
            is_graph = isinstance(func, Function) and var.name_hint not in groups
            changed[var] = rewrite(func, {DataflowBlock: self._block}) if is_graph else func
        if not self.added:
            return self.mod
        return self.mod.with_functions({**changed, **self.added})

    def _block(self, block: DataflowBlock) -> DataflowBlock:
        nodes = self._graph(block)
        attention = find_attention(nodes, self._reads(block))
        if attention:
            taken = {i for group in attention for i in group}
            rest = [[i] for i in range(len(nodes)) if i not in taken]
            block = self._with_groups(block, [*attention, *rest])
            nodes = self._graph(block)
        groups = find_groups(nodes)
        return block if len(groups) == len(block.bindings) else self._with_groups(block, groups)

    def _with_groups(self, block: DataflowBlock, groups: Sequence[Sequence[int]]) -> DataflowBlock:
        """Call the functions of groups in place of their last members."""
        at_last = {group[-1]: group for group in groups}
        made: list[Binding] = []
        for i, binding in enumerate(block.bindings):
            group = at_last.get(i)
            if group is None:
                continue
            if len(group) > 1:
                members = [b for k in group if isinstance(b := block.bindings[k], VarBinding)]
                made.append(self._outline(members))
            else:
                made.append(binding)
        return DataflowBlock(tuple(made), span=block.span)

    def _reads(self, block: DataflowBlock) -> list[KernelInputs]:
        """Return what each kernel of a block computes, and which kernels compute its arguments."""
        number: dict[RelaxExpr | None, int] = {}
        made: list[KernelInputs] = []
        for i, binding in enumerate(block.bindings):
            assert isinstance(binding, (VarBinding, MatchCast))
            call = binding.value
            read = KernelInputs()
            if isinstance(call, Call) and isinstance(call.op, Op) and call.op.name == _CALL_TIR:
                kernel, given = call.args[:2]
                func = self.kernels.get(kernel.name_hint) if isinstance(kernel, GlobalVar) else None
                if func is not None and isinstance(given, Tuple):
                    read.name = str(func.attrs.get("op", ""))
                    read.made_by = [number.get(arg, -1) for arg in given.fields]
            made.append(read)
            number[binding.var] = i
        return made

    # -- the graph -------------------------------------------------------------------------------
    def _graph(self, block: DataflowBlock) -> list[GraphNode]:
        nodes: list[GraphNode] = []
        number: dict[Var, int] = {}
        for i, binding in enumerate(block.bindings):
            assert isinstance(binding, (VarBinding, MatchCast))
            node = GraphNode(self._kind(binding))
            node.is_kept = not isinstance(binding.var, DataflowVar)
            nodes.append(node)
            used = {p for p in pre_order(binding.value) if isinstance(p, Var) and p in number}
            for var in used:
                edge = node.kind
                if edge is OpPattern.BROADCAST and self._is_same_tensor(var, binding.var):
                    edge = OpPattern.ELEMENT_WISE
                nodes[number[var]].users.append((i, edge))
            if binding.var is not None:
                number[binding.var] = i
        return nodes

    def _kind(self, binding: VarBinding | MatchCast) -> OpPattern:
        call = binding.value
        if not isinstance(binding, VarBinding) or not isinstance(call, Call):
            return OpPattern.OPAQUE
        if not isinstance(call.op, Op) or call.op.name != _CALL_TIR:
            return OpPattern.OPAQUE
        kernel = call.args[0]
        func = self.kernels.get(kernel.name_hint) if isinstance(kernel, GlobalVar) else None
        if func is None or not is_known(binding.var.struct_info_annotation):
            return OpPattern.OPAQUE
        if bind_kernel(func, call, _stand_in, self.analyzer) is None:
            return OpPattern.OPAQUE
        kind = func.attrs["op_pattern"]
        return OpPattern(kind) if kind in set(OpPattern) else OpPattern.OPAQUE

    def _is_same_tensor(self, var: Var, other: Var | None) -> bool:
        """Tell whether two variables are known to have equal extents."""
        first = var.struct_info_annotation
        second = None if other is None else other.struct_info_annotation
        if not isinstance(first, TensorStructInfo) or not isinstance(second, TensorStructInfo):
            return False
        a, b = first.dims, second.dims
        if a is None or b is None or len(a) != len(b):
            return False
        return all(x is y or self.analyzer.can_prove_equal(x, y) for x, y in zip(a, b))

    # -- functions -------------------------------------------------------------------------------
    def _outline(self, members: Sequence[VarBinding]) -> VarBinding:
        """Outline bindings to a function, a new or an equal one; its result is the last value."""
        key, given = _key(members)
        found = self.by_key.get(key) if key is not None else None
        if found is None:
            made = self._bind_call(members)
            if key is not None and isinstance(made.value, Call):
                assert isinstance(made.value.op, GlobalVar)
                self.by_key[key] = made.value.op
            return made
        last = members[-1]
        return VarBinding(last.var, Call(found, given, span=last.value.span), span=last.span)

    def _bind_call(self, members: Sequence[VarBinding]) -> VarBinding:
        own = {member.var for member in members}
        args: dict[RelaxExpr, Var] = {}
        renamed: dict[RelaxExpr, Var] = {}
        bindings: list[Binding] = []
        names: list[str] = []
        for member in members:
            call = member.value
            assert isinstance(call, Call)
            assert isinstance(call.args[0], GlobalVar)
            given = call.args[1]
            assert isinstance(given, Tuple)
            for arg in given.fields:
                if not isinstance(arg, PrimValue) and arg not in own and arg not in args:
                    args[arg] = renamed[arg] = Var(_name(arg), _info(arg))
            fields = tuple([renamed.get(arg, arg) for arg in given.fields])
            inner = (call.args[0], Tuple(fields), *call.args[2:])
            kind = Var if member is members[-1] else DataflowVar
            var = kind(member.var.name_hint, member.var.struct_info_annotation)
            renamed[member.var] = var
            value = Call(call.op, inner, call.sinfo_args, call.attrs, span=call.span)
            bindings.append(VarBinding(var, value, span=member.span))
            names.append(call.args[0].name_hint)
        last = members[-1]
        params = list(args.values())
        sizes = _unbound(params, bindings)
        if sizes:
            params.append(Var("sizes", ShapeStructInfo(sizes)))
        block = DataflowBlock(tuple(bindings))
        body = SeqExpr((block,), renamed[last.var])
        ret = last.var.struct_info_annotation
        func = Function(tuple(params), body, ret, True, {"Primitive": True})
        gv = self._add_function(func, "_".join(["fused", *names[:_NAMES]]))
        given = (*args, ShapeExpr(sizes)) if sizes else tuple(args)
        return VarBinding(last.var, Call(gv, given, span=last.value.span), span=last.span)

    def _add_function(self, func: Function, wanted: str) -> GlobalVar:
        key = structural_hash(func)
        same = self.by_hash.setdefault(key, [])
        for var in same:
            if structural_equal(self.added[var], func):
                return var
        name, number = wanted, 0
        while name in self.names:
            number += 1
            name = f"{wanted}_{number}"
        self.names.add(name)
        made = GlobalVar(name)
        self.added[made] = copy_with_fresh_vars(func)  # each function needs its own variables
        same.append(made)
        return made


def _key(members: Sequence[VarBinding]) -> tuple[object | None, tuple[RelaxExpr, ...]]:
    """Return a key that is equal only for equal groups, and the arguments of the group.

    The key is None for a group with extents that are not numbers, which has to be compared.
    """
    places: dict[RelaxExpr, int] = {m.var: i for i, m in enumerate(members)}
    args: dict[RelaxExpr, int] = {}
    parts: list[object] = []
    for member in members:
        call = member.value
        assert isinstance(call, Call)
        kernel, given, *sizes = call.args
        assert isinstance(given, Tuple)
        if sizes or call.attrs or any(scalar_argument(f) is not None for f in given.fields):
            return None, ()
        wires: list[object] = []
        for arg in given.fields:
            if arg in places:
                wires.append(places[arg])
                continue
            if arg not in args:
                args[arg] = -1 - len(args)
                parts.append(_numbers(_info(arg)))
            wires.append(args[arg])
        (result,) = call.sinfo_args
        infos = _numbers(result), _numbers(member.var.struct_info)
        parts += (call.op, kernel, tuple(wires), *infos)
    return (None if None in parts else tuple(parts)), tuple(args)


def _numbers(info: StructInfo) -> object | None:
    """Return the dtype and the extents of a tensor if they are numbers, else None."""
    if not isinstance(info, TensorStructInfo) or info.dims is None or info.vdevice is not None:
        return None
    extents = [d.value for d in info.dims if isinstance(d, IntImm)]
    return (info.dtype, *extents) if len(extents) == len(info.dims) else None


def _stand_in(var: Var) -> ShapeVar:
    """Make a variable for a scalar of which only the dtype matters."""
    info = var.struct_info
    assert isinstance(info, PrimStructInfo)
    return ShapeVar(var.name_hint, info.dtype)


def _info(expr: RelaxExpr) -> StructInfo:
    assert isinstance(expr, (Var, Constant))
    return expr.struct_info


def _name(expr: RelaxExpr) -> str:
    return expr.name_hint if isinstance(expr, Var) else "const"


def _unbound(params: Sequence[Var], bindings: Sequence[Binding]) -> tuple[ShapeVar, ...]:
    """List the shape variables that a function uses but its parameters do not bind."""
    infos = [p.struct_info for p in params]
    bound = {var for info in infos for var in shape_vars_bound_by(info)}
    used: dict[ShapeVar, None] = {}
    roots = [*infos, *bindings]
    for binding in bindings:
        assert isinstance(binding, VarBinding)
        roots.append(binding.var.struct_info)
    for root in roots:
        for var in by_class(root).get(ShapeVar, ()):
            used.setdefault(var)
    return tuple([var for var in used if var not in bound])
