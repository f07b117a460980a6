"""Remove bindings that nothing uses, and private functions that nothing calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.visit import pre_order, rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataTypeImm,
    Function,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.operator.definition import op_def
from loomir.relax.shape import ShapeExpr
from loomir.tir.expr import Call as PrimCall
from loomir.tir.expr import FloatImm, IntImm, PrimExpr
from loomir.tir.expr import Var as PrimVar
from loomir.tir.function import PrimFunc

__all__ = ["dead_code_elimination"]

_CHECK: Final = "relax.builtin.require_order"
"""A check that precedes kernels; it is needed although nothing uses its result."""


@register(
    "relax.DeadCodeElimination", requires={"relax_normal_form"}, establishes={"functions_used"}
)
def dead_code_elimination(mod: IRModule) -> IRModule:
    """Remove bindings and functions without effects whose values are not used.

    In a dataflow block, every unused binding is removed, even one that could fail; elsewhere, only
    those that cannot fail. Functions that are neither public nor used are removed, too.
    """
    functions: dict[GlobalVar, BaseFunc] = {
        var: rewrite(func, {SeqExpr: _sequence}) if isinstance(func, Function) else func
        for var, func in mod.functions.items()
    }
    kept = _find_reached(functions)
    if len(kept) == len(functions) and all(
        functions[var] is mod.functions[var] for var in functions
    ):
        return mod
    return mod.with_functions({v: f for v, f in functions.items() if v.name_hint in kept})


def _find_reached(functions: dict[GlobalVar, BaseFunc]) -> set[str]:
    """Return the functions reachable from public ones; all functions if none is public."""
    by_name = {var.name_hint: func for var, func in functions.items()}
    found = {name for name, func in by_name.items() if "global_symbol" in func.attrs}
    if not found:
        return set(by_name)
    todo = list(found)
    while todo:
        func = by_name[todo.pop()]
        body = func.body if isinstance(func, (Function, PrimFunc)) else func
        for part in pre_order(body):
            name = _name_called(part)
            if name in by_name and name not in found:
                found.add(name)
                todo.append(name)
    return found


def _name_called(part: Node) -> str | None:
    if isinstance(part, GlobalVar):
        return part.name_hint
    if isinstance(part, PrimCall) and isinstance(part.op, GlobalVar):
        return part.op.name_hint
    return None


def _sequence(seq: SeqExpr) -> SeqExpr:
    live: set[int] = set()
    _use(seq.body, live)
    blocks: list[BindingBlock] = []
    for block in reversed(seq.blocks):
        bindings: list[Binding] = []
        for binding in reversed(block.bindings):
            if _is_needed(binding, live, isinstance(block, DataflowBlock)):
                bindings.append(binding)
                _use(binding, live)
        bindings.reverse()
        if len(bindings) == len(block.bindings):
            blocks.append(block)
        elif bindings:
            blocks.append(type(block)(tuple(bindings), span=block.span))
    blocks = _merge_blocks(reversed(blocks))
    if len(blocks) == len(seq.blocks) and all(a is b for a, b in zip(blocks, seq.blocks)):
        return seq
    return SeqExpr(tuple(blocks), seq.body, span=seq.span)


def _merge_blocks(blocks: Iterable[BindingBlock]) -> list[BindingBlock]:
    """Merge neighbouring blocks of one kind, after a block between them was removed."""
    made: list[BindingBlock] = []
    for block in blocks:
        if made and type(made[-1]) is type(block):
            before = made[-1]
            made[-1] = type(before)((*before.bindings, *block.bindings), span=before.span)
        else:
            made.append(block)
    return made


def _use(node: Node, live: set[int]) -> None:
    for part in pre_order(node):
        if isinstance(part, (Var, PrimVar)):
            live.add(id(part))
    # Annotations use the variables that they mention, such as a shape.
    if isinstance(node, (VarBinding, MatchCast)):
        var = node.var
        if var is not None and var.struct_info_annotation is not None:
            for part in pre_order(var.struct_info_annotation):
                if isinstance(part, (Var, PrimVar)):
                    live.add(id(part))


def _is_needed(binding: Binding, live: set[int], in_dataflow: bool) -> bool:
    if isinstance(binding, MatchCast):
        if not in_dataflow or (binding.var is not None and id(binding.var) in live):
            return True
        return any(isinstance(p, PrimVar) and id(p) in live for p in pre_order(binding.struct_info))
    if not isinstance(binding, VarBinding) or id(binding.var) in live:
        return True
    value = binding.value
    if isinstance(value, Call):
        if not in_dataflow:
            return True
        if not isinstance(value.op, Op):
            return False
        return value.op.name == _CHECK or not op_def(value.op).is_pure
    return not _cannot_fail(value)


def _cannot_fail(value: Node) -> bool:
    if isinstance(value, (Var, GlobalVar, Constant, StringImm, DataTypeImm, Function)):
        return True
    if isinstance(value, TupleGetItem):
        return True
    if isinstance(value, Tuple):
        return all(_cannot_fail(field) for field in value.fields)
    if isinstance(value, ShapeExpr):
        return all(map(_is_plain, value.values))
    return isinstance(value, PrimValue) and _is_plain(value.value)


def _is_plain(e: PrimExpr) -> bool:
    return isinstance(e, (IntImm, FloatImm, PrimVar))
