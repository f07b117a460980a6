"""Make one kernel of each group of kernels."""

from __future__ import annotations

from typing import NamedTuple

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import rewrite
from loomir.relax.expr import Call, Function, SeqExpr, Tuple, Var, VarBinding
from loomir.relax.node import RelaxExpr
from loomir.relax.op_def import find_op
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import ShapeStructInfo, TensorStructInfo
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import HANDLE
from loomir.tir.buffer import Buffer, decl_buffer
from loomir.tir.expr import IntImm, PrimExpr
from loomir.tir.expr import Var as PrimVar
from loomir.tir.fresh import fresh_copy
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, Block, BlockRealize, SeqStmt, Stmt, seq
from loomir.tir.types import VOID_TYPE
from loomir.transform.relax.inline_elements import inline_elements
from loomir.transform.relax.loop_nests import parts_of

__all__ = ["fuse_tir"]


class _Merged(NamedTuple):
    """A kernel in the making: its statements in order, and the buffers between them."""

    stmts: tuple[Stmt, ...]
    between: tuple[Buffer, ...]
    output: Buffer


@register("relax.FuseTIR", requires={"relax_normal_form"})
def fuse_tir(mod: IRModule) -> IRModule:
    """Replace functions with the attribute ``Primitive`` by kernels, calls of them by ``call_tir``.

    What computes single elements is computed where they are used, unless that would repeat much
    work; all else is kept in memory that the kernel allocates. Results have the same bits, but for
    those of a NaN.
    """
    kernels = {
        var.name_hint: _kernel(func, mod)
        for var, func in mod.functions.items()
        if isinstance(func, Function) and func.attrs.get("Primitive")
    }
    if not kernels:
        return mod
    groups = {name: mod[name] for name in kernels}

    def call(binding: VarBinding) -> VarBinding:
        value = binding.value
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
            return binding
        group = groups.get(value.op.name_hint)
        if not isinstance(group, Function):
            return binding
        return _called(binding, value, value.op, group)

    functions: dict[GlobalVar, BaseFunc] = {}
    for var, func in mod.functions.items():
        if var.name_hint in kernels:
            functions[var] = kernels[var.name_hint]
        else:
            functions[var] = (
                rewrite(func, {VarBinding: call}) if isinstance(func, Function) else func
            )
    return mod.with_functions(functions)


def _called(binding: VarBinding, call: Call, var: GlobalVar, group: Function) -> VarBinding:
    """Write a call of a group as a call of its kernel."""
    tensors: list[RelaxExpr] = []
    sizes: list[PrimExpr] = []
    for param, arg in zip(group.params, call.args):
        if isinstance(param.struct_info, TensorStructInfo):
            tensors.append(arg)
        elif isinstance(arg, ShapeExpr):
            sizes += arg.values
        else:
            raise InternalError(f"a group of kernels is given {arg}")
    call_tir = find_op("relax.call_tir")
    assert call_tir is not None
    args: tuple[RelaxExpr, ...] = (var, Tuple(tuple(tensors)))
    if sizes:
        args = (*args, ShapeExpr(tuple(sizes)))
    made = Call(call_tir.op, args, (binding.var.struct_info,), span=call.span)
    return VarBinding(binding.var, made, span=binding.span)


def _kernel(group: Function, mod: IRModule) -> PrimFunc:
    """Put the kernels of a group one after another, and join what can be joined."""
    buffers: dict[Var, Buffer] = {}
    numbers: list[PrimVar] = []
    for param in group.params:
        info = param.struct_info
        if isinstance(info, TensorStructInfo):
            buffers[param] = _buffer(param, info)
        elif isinstance(info, ShapeStructInfo) and info.values is not None:
            numbers += [value for value in info.values if isinstance(value, PrimVar)]
        else:
            raise InternalError(f"a group of kernels takes {info}")
    inputs = list(buffers.values())
    merged = _merged(group, mod, buffers)
    stmts, between = inline_elements(
        merged.stmts, (*inputs, *merged.between, merged.output), merged.between, merged.output
    )
    root = Block((), (), (), "root", seq(stmts), alloc_buffers=between)
    outer = {_handle(b): b for b in inputs}
    out = _handle(merged.output)
    params = (*outer, *numbers, out)
    body = BlockRealize((), TRUE, root)
    return PrimFunc(params, body, VOID_TYPE, {**outer, out: merged.output}, {}, span=group.span)


def _handle(buffer: Buffer) -> PrimVar:
    return PrimVar(f"{buffer.name}_handle", HANDLE)


def _buffer(var: Var, info: TensorStructInfo) -> Buffer:
    name = var.name_hint if var.name_hint.isidentifier() else "x"
    dims = [d.value if isinstance(d, IntImm) else d for d in info.dims or ()]
    return decl_buffer(dims, info.dtype, name)


def _merged(group: Function, mod: IRModule, buffers: dict[Var, Buffer]) -> _Merged:
    body = group.body
    assert isinstance(body, SeqExpr)
    between: list[Buffer] = []
    stmts: list[Stmt] = []
    for block in body.blocks:
        for binding in block.bindings:
            assert isinstance(binding, VarBinding)
            assert isinstance(binding.value, Call)
            info = binding.var.struct_info
            assert isinstance(info, TensorStructInfo)
            made = buffers[binding.var] = _buffer(binding.var, info)
            between.append(made)
            allocated, parts = _copied(binding.value, mod, buffers, made)
            between += allocated
            stmts += parts
    assert isinstance(body.body, Var)
    output = buffers[body.body]
    between.remove(output)
    return _Merged(tuple(stmts), tuple(between), output)


def _copied(
    call: Call, mod: IRModule, buffers: dict[Var, Buffer], output: Buffer
) -> tuple[tuple[Buffer, ...], tuple[Stmt, ...]]:
    """Give what a kernel allocates and its statements, on the buffers of a call."""
    kernel, given = call.args[0], call.args[1]
    assert isinstance(kernel, GlobalVar)
    assert isinstance(given, Tuple)
    func = mod[kernel]
    assert isinstance(func, PrimFunc)
    taken = [buffers[arg] for arg in given.fields if isinstance(arg, Var)]
    taken.append(output)
    table: dict[Node, Node] = {}
    numbers = [param for param in func.params if param not in func.buffer_map]
    sizes = call.args[2] if len(call.args) > 2 else None
    if isinstance(sizes, ShapeExpr):
        table.update(zip(numbers, sizes.values, strict=True))
    for inner, outer in zip(func.buffer_map.values(), taken, strict=True):
        for extent, actual in zip(inner.shape, outer.shape, strict=True):
            if isinstance(extent, PrimVar):
                table.setdefault(extent, actual)
    for inner, outer in zip(func.buffer_map.values(), taken, strict=True):
        table[inner] = outer
        table[inner.data] = outer.data
    allocated, parts = parts_of(func)
    own: list[Buffer] = []
    for buffer in allocated:
        shape = [substitute(extent, table) for extent in buffer.shape]
        made = decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope)
        table[buffer], table[buffer.data] = made, made.data
        own.append(made)
    body = fresh_copy(seq(parts), table)
    return tuple(own), body.seq if isinstance(body, SeqStmt) else (body,)
