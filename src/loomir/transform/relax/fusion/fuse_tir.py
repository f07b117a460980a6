"""Fuse each group of kernels into one kernel."""

from __future__ import annotations

from typing import NamedTuple

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.relax.expr import Call, Function, Tuple, Var, VarBinding
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.definition import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import HANDLE
from loomir.tir.analysis.copy_statement import fresh_copy
from loomir.tir.buffer import Buffer, decl_buffer
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.expr import Var as PrimVar
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, Block, BlockRealize, SeqStmt, Stmt, seq
from loomir.tir.types import VOID_TYPE
from loomir.transform.relax.fusion.inline_elements import inline_elements
from loomir.transform.relax.fusion.kernel_groups import Group, Member, groups_of
from loomir.transform.relax.fusion.loop_nests import parts_of

__all__ = ["fuse_tir"]


class _MergedKernel(NamedTuple):
    """A kernel under construction: its statements in order, and the buffers between them."""

    stmts: tuple[Stmt, ...]
    between: tuple[Buffer, ...]
    output: Buffer


@register(
    "relax.FuseTIR",
    requires={"relax_normal_form"},
    establishes={"no_kernel_groups"},
    breaks={"functions_used"},
)
def fuse_tir(mod: IRModule) -> IRModule:
    """Replace functions with the attribute ``Primitive`` by kernels, calls of them by ``call_tir``.

    A function that is not just a group of kernels with one result tensor stays. Element-wise
    computations are inlined into their users, unless that would repeat much work; other results are
    kept in memory that the kernel allocates. Results are bit-identical, except for the bits of
    NaNs.
    """
    groups = groups_of(mod)
    if not groups:
        return mod

    def call(binding: VarBinding) -> VarBinding:
        value = binding.value
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
            return binding
        group = groups.get(value.op.name_hint)
        return binding if group is None else _call_kernel(binding, value, value.op, group)

    functions: dict[GlobalVar, BaseFunc] = {}
    for var, func in mod.functions.items():
        group = groups.get(var.name_hint)
        if group is not None:
            functions[var] = _kernel(group)
        else:
            functions[var] = (
                rewrite(func, {VarBinding: call}) if isinstance(func, Function) else func
            )
    return mod.with_functions(functions)


def _call_kernel(binding: VarBinding, call: Call, var: GlobalVar, group: Group) -> VarBinding:
    """Replace a call of a group by a call of its kernel."""
    given: list[RelaxExpr] = []
    sizes: list[PrimExpr] = []
    for param, arg in zip(group.func.params, call.args):
        if isinstance(arg, ShapeExpr):
            sizes += arg.values
        elif param in group.params:
            given.append(arg)
        else:
            raise InternalError(f"a group of kernels is given {arg}")
    call_tir = find_op("relax.call_tir")
    assert call_tir is not None
    args: tuple[RelaxExpr, ...] = (var, Tuple(tuple(given)))
    if sizes:
        args = (*args, ShapeExpr(tuple(sizes)))
    made = Call(call_tir.op, args, (binding.var.struct_info,), span=call.span)
    return VarBinding(binding.var, made, span=binding.span)


def _kernel(group: Group) -> PrimFunc:
    """Concatenate the kernels of a group, and inline what can be inlined."""
    buffers: dict[RelaxExpr, Buffer] = {}
    arrays: dict[PrimVar, Buffer] = {}
    params: list[PrimVar] = []
    for param, scalar in group.params.items():
        if scalar is None:
            buffers[param] = _buffer(param)
            arrays[_handle(buffers[param])] = buffers[param]
            params += list(arrays)[-1:]
        else:
            params.append(scalar)
    inputs = list(arrays.values())
    merged = _merge(group, buffers)
    stmts, between = inline_elements(
        merged.stmts, (*inputs, *merged.between, merged.output), merged.between, merged.output
    )
    root = Block((), (), (), "root", seq(stmts), alloc_buffers=between)
    out = _handle(merged.output)
    body = BlockRealize((), TRUE, root)
    every = (*params, *group.sizes, out)
    return PrimFunc(
        every, body, VOID_TYPE, {**arrays, out: merged.output}, {}, span=group.func.span
    )


def _handle(buffer: Buffer) -> PrimVar:
    return PrimVar(f"{buffer.name}_handle", HANDLE)


def _buffer(var: Var) -> Buffer:
    info = var.struct_info
    assert isinstance(info, TensorStructInfo)
    name = var.name_hint if var.name_hint.isidentifier() else "x"
    dims = [d.value if isinstance(d, IntImm) else d for d in info.dims or ()]
    return decl_buffer(dims, info.dtype, name)


def _merge(group: Group, buffers: dict[RelaxExpr, Buffer]) -> _MergedKernel:
    between: list[Buffer] = []
    stmts: list[Stmt] = []
    for member in group.members:
        made = buffers[member.var] = _buffer(member.var)
        between.append(made)
        allocated, parts = _copy_kernel(member, buffers, made)
        between += allocated
        stmts += parts
    output = buffers[group.result]
    between.remove(output)
    return _MergedKernel(tuple(stmts), tuple(between), output)


def _copy_kernel(
    member: Member, buffers: dict[RelaxExpr, Buffer], output: Buffer
) -> tuple[tuple[Buffer, ...], tuple[Stmt, ...]]:
    """Return the allocations and statements of a kernel, with the buffers of a call."""
    bound = member.bound
    table: dict[Node, Node] = {**bound.values}
    pairs = [(inner, buffers[outer]) for inner, outer in bound.tensors]
    for inner, outer in (*pairs, (bound.output, output)):
        table[inner] = outer
        table[inner.data] = outer.data
    allocated, parts = parts_of(member.kernel)
    own: list[Buffer] = []
    for buffer in allocated:
        shape = [substitute(extent, table) for extent in buffer.shape]
        made = decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope)
        table[buffer], table[buffer.data] = made, made.data
        own.append(made)
    body = fresh_copy(seq(parts), table)
    return tuple(own), body.seq if isinstance(body, SeqStmt) else (body,)
