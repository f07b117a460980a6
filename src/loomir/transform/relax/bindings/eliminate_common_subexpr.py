"""Eliminate common subexpressions: compute equal pure calls once."""

from __future__ import annotations

from loomir.ir.module import GlobalVar
from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import children, plan_of, pre_order, rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Var,
    VarBinding,
)
from loomir.relax.operator.definition import op_def
from loomir.support.array import Array
from loomir.tir.expr import Var as PrimVar

__all__ = ["eliminate_common_subexpr", "find_escaping"]


@register("relax.EliminateCommonSubexpr", requires={"relax_normal_form"})
def eliminate_common_subexpr(func: Function) -> Function:
    """Replace a pure call in a dataflow block by an equal one before it.

    Two results may become one tensor only if the program cannot observe it: the second must not
    leave the block, and only operators that neither keep nor write it may use it.
    """
    return rewrite(func, {SeqExpr: _sequence})


def _sequence(seq: SeqExpr) -> SeqExpr:
    same: dict[Var, Var] = {}
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        if isinstance(block, DataflowBlock):
            kept = _block(block, same)
            if len(kept) < len(block.bindings):
                block = DataflowBlock(tuple(kept), span=block.span)  # noqa: PLW2901
        blocks.append(block)
    return substitute(SeqExpr(tuple(blocks), seq.body, span=seq.span), same) if same else seq


def _block(block: DataflowBlock, same: dict[Var, Var]) -> list[Binding]:
    escaping = find_escaping(block)
    known: dict[tuple[object, ...], Var] = {}
    kept: list[Binding] = []
    for binding in block.bindings:
        if isinstance(binding, VarBinding) and _is_shareable(binding.value):
            key = _key(binding.value, same)
            first = known.setdefault(key, binding.var)
            if (
                first is not binding.var
                and isinstance(binding.var, DataflowVar)
                and isinstance(first, DataflowVar)
                and not {id(binding.var), id(first)} & escaping
            ):
                same[binding.var] = first
                continue
        kept.append(binding)
    return kept


def find_escaping(block: DataflowBlock) -> set[int]:
    """List the variables that may be kept or written: those with uses other than by operators."""
    found: set[int] = set()
    for binding in block.bindings:
        value = getattr(binding, "value", None)
        if isinstance(value, Call) and isinstance(value.op, Op) and _is_only_looking(value.op):
            continue
        if value is not None:
            found |= {id(p) for p in pre_order(value) if isinstance(p, Var)}
    return found


def _is_only_looking(op: Op) -> bool:
    definition = op_def(op)
    return definition.is_pure and (definition.reference is not None or op.name == "relax.call_tir")


def _is_shareable(value: object) -> bool:
    return isinstance(value, Call) and isinstance(value.op, Op) and _is_only_looking(value.op)


def _key(value: Node, same: dict[Var, Var]) -> tuple[object, ...]:
    """Return a key of an expression that is equal for equal ones, with variables replaced."""
    found: list[object] = []
    for part in pre_order(value):
        if isinstance(part, Var):
            found.append(same.get(part, part))
        elif isinstance(part, PrimVar):
            found.append(part)
        elif isinstance(part, GlobalVar):
            found.append(part.name_hint)
        else:
            attrs = tuple(_freeze(v) for v in plan_of(type(part)).get_attrs(part))
            found.append((type(part), len(children(part)), attrs))
    return tuple(found)


def _freeze(value: object) -> object:
    if isinstance(value, dict):
        return tuple(sorted((str(k), repr(v)) for k, v in value.items()))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value if isinstance(value, (int, str, bool, type(None), Array)) else repr(value)
