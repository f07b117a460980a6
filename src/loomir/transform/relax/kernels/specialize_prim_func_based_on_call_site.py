"""Specialise kernels with symbolic sizes to the sizes at their calls."""

from __future__ import annotations

from collections.abc import Iterable

from loomir.arith.fold import imm
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.relax.expr import Call, Tuple
from loomir.relax.node import RelaxExpr, StructInfo
from loomir.relax.normal.rewriter import Rewriter
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.tir.analysis.copy_statement import fresh_copy, fresh_var
from loomir.tir.buffer import Buffer
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc
from loomir.transform.relax.graph_reading import operator_of

__all__ = ["specialize_prim_func_based_on_call_site"]


@register(
    "relax.SpecializePrimFuncBasedOnCallSite",
    requires={"relax_normal_form"},
    breaks={"functions_used"},
)
def specialize_prim_func_based_on_call_site(mod: IRModule) -> IRModule:
    """Specialise kernels for the constant extents of each ``call_tir``.

    Calls with the same extents share a copy. The original kernel stays for calls with unknown
    extents and for callers from outside; ``DeadCodeElimination`` removes it if it is private and
    unused. (TVM's pass of this name also assigns texture memory, which CPUs do not have.)
    """
    return _Specialize(mod).rewrite_module()


class _Specialize(Rewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.made: dict[tuple[str, tuple[tuple[str, int], ...]], GlobalVar] = {}
        """The copies, by the kernel's name and the sizes."""

    def rewrite_call(self, call: Call) -> RelaxExpr:
        """Call the copy for the sizes that are known here."""
        if operator_of(call) != "call_tir":
            return call
        var, args, *ints = call.args
        kernel = self.mod[var] if isinstance(var, GlobalVar) else None
        if not isinstance(kernel, PrimFunc) or not isinstance(args, Tuple):
            return call
        assert isinstance(var, GlobalVar)
        inputs = [self.builder.struct_info_of(field) for field in args.fields]
        sizes = _sizes(kernel, inputs, call.sinfo_args)
        if not sizes:
            return call
        order = {v: k for k, v in enumerate(_open_extents(kernel))}
        key = tuple((f"{order[v]}", number) for v, number in sizes.items())
        name = var.name_hint
        if (name, key) not in self.made:
            copy = _specialize(kernel, sizes)
            self.made[name, key] = self.builder.add_func(copy, f"{name}_sized")
        new = self.made[name, key]
        return Call(call.op, (new, args, *ints), call.sinfo_args, call.attrs, span=call.span)


def _open_extents(kernel: PrimFunc) -> dict[Var, None]:
    """List the variables that are extents of parameters."""
    shapes = [buffer.shape for buffer in kernel.buffer_map.values()]
    return {e: None for shape in shapes for e in shape if isinstance(e, Var)}


def _sizes(
    kernel: PrimFunc, inputs: list[StructInfo], outputs: Iterable[StructInfo]
) -> dict[Var, int]:
    """Return the known values of extents; none if the call contradicts itself."""
    arrays = [kernel.buffer_map[p] for p in kernel.params if p in kernel.buffer_map]
    given = [i for i in (*inputs, *_flat(outputs)) if isinstance(i, TensorStructInfo)]
    if len(arrays) != len(given):
        return {}
    found: dict[Var, int] = {}
    for buffer, info in zip(arrays, given):
        if not isinstance(info.shape, ShapeExpr):
            continue
        for extent, known in zip(buffer.shape, info.shape.values):
            if not isinstance(extent, Var) or not isinstance(known, IntImm):
                continue
            if found.setdefault(extent, known.value) != known.value:
                return {}
    scalars = {p for p in kernel.params if p not in kernel.buffer_map}
    return {v: found[v] for v in _open_extents(kernel) if v in found and v not in scalars}


def _flat(infos: Iterable[StructInfo]) -> list[StructInfo]:
    found: list[StructInfo] = []
    for info in infos:
        found += getattr(info, "fields", (info,))
    return found


def _specialize(kernel: PrimFunc, sizes: dict[Var, int]) -> PrimFunc:
    """Copy a kernel with numbers for sizes, and with fresh variables."""
    table: dict[Var, Node] = {v: imm(number, v.dtype) for v, number in sizes.items()}
    table.update({p: fresh_var(p) for p in kernel.params})
    for v in _open_extents(kernel):
        table.setdefault(v, fresh_var(v))
    every: dict[Node, Node] = {**table}
    arrays: dict[Var, Buffer] = {}
    for param, buffer in kernel.buffer_map.items():
        every[buffer.data] = fresh_var(buffer.data)
        made = substitute(buffer, every)
        every[buffer] = made
        new = every[param]
        assert isinstance(new, Var)
        arrays[new] = made
    attrs = {k: v for k, v in kernel.attrs.items() if k != "global_symbol"}
    params = tuple([p for p in (every[p] for p in kernel.params) if isinstance(p, Var)])
    body = fresh_copy(kernel.body, every)
    return PrimFunc(params, body, kernel.ret_type, arrays, attrs, span=kernel.span)
