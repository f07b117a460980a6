"""Constant folding: evaluate at compile time what depends only on constants."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from loomir.ir.op import Op
from loomir.ir.passes import register
from loomir.ir.substitution import substitute
from loomir.ir.visit import pre_order, rewrite
from loomir.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
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
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.definition import op_def
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.runtime.shape import Shape
from loomir.support.array import Array
from loomir.support.dtype import numpy_of
from loomir.tir.expr import FloatImm, IntImm

__all__ = ["find_written", "fold_constant"]

_MOST: Final = 1 << 20
"""The most elements of a folded result, unless its arguments are as large."""


@register("relax.FoldConstant", requires={"relax_normal_form"}, breaks={"functions_used"})
def fold_constant(func: Function) -> Function:
    """Replace calls of pure operators on constants by their results.

    A call that fails stays, to fail at run time. So does a call whose result would be much larger
    than its arguments, such as a tensor of zeros, and one whose result may be written: a call
    returns a new tensor each time, but a constant must not change.
    """
    written = find_written(func)
    return rewrite(func, {SeqExpr: lambda seq: _sequence(seq, written)})


def find_written(func: Function) -> set[Var]:
    """Return the variables whose tensors may be written under another name."""
    found: set[Var] = set()
    for part in pre_order(func):
        if isinstance(part, Call):
            if not _is_only_reading(part):
                found.update(_variables(part.args))
        elif isinstance(part, (VarBinding, MatchCast)):
            found.update(_variables((part.value,)))
        elif isinstance(part, SeqExpr):
            found.update(_variables((part.body,)))
    return found


def _is_only_reading(call: Call) -> bool:
    if not isinstance(call.op, Op):
        return False
    return call.op.name == "relax.call_tir" or op_def(call.op).reference is not None


def _variables(parts: Iterable[RelaxExpr]) -> Iterator[Var]:
    """List the variables among expressions, also in tuples."""
    stack = list(parts)
    while stack:
        part = stack.pop()
        if isinstance(part, Tuple):
            stack.extend(part.fields)
        elif isinstance(part, TupleGetItem):
            stack.append(part.tuple_value)
        elif isinstance(part, Var):
            yield part


def _sequence(seq: SeqExpr, written: set[Var]) -> SeqExpr:
    known: dict[Var, RelaxExpr] = {}
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        made: list[Binding] = []
        for binding in block.bindings:
            folded = _fold(binding, known, written)
            made.append(binding if folded is None else folded)
        changed = any(a is not b for a, b in zip(made, block.bindings))
        blocks.append(type(block)(tuple(made), span=block.span) if changed else block)
    if not known:
        return seq
    return substitute(SeqExpr(tuple(blocks), seq.body, span=seq.span), known)


def _fold(binding: Binding, known: dict[Var, RelaxExpr], written: set[Var]) -> Binding | None:
    """Return a binding with the constant result of its call; None if it cannot be folded."""
    if not isinstance(binding, VarBinding):
        return None
    call = binding.value
    if isinstance(call, Constant):
        known[binding.var] = call
        return None
    if not isinstance(call, Call) or not isinstance(call.op, Op) or binding.var in written:
        return None
    definition = op_def(call.op)
    info = binding.var.struct_info_annotation
    if definition.reference is None or not definition.is_pure or not call.args:
        return None
    if not isinstance(info, TensorStructInfo) or not all(_is_static(a, known) for a in call.args):
        return None
    given = [_value(arg, known) for arg in call.args]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = definition.reference(*given, **call.attrs)
    except Exception:  # noqa: BLE001 - whatever goes wrong happens again when the program runs
        return None
    if not _fits(result, info, given):
        return None
    made = Constant(Array(result), span=call.span)
    known[binding.var] = made
    return VarBinding(binding.var, made, span=binding.span)


def _is_static(arg: RelaxExpr, known: dict[Var, RelaxExpr]) -> bool:
    if isinstance(arg, Tuple):
        return all(_is_static(field, known) for field in arg.fields)
    if isinstance(arg, Var):
        return arg in known
    if isinstance(arg, ShapeExpr):
        return all(isinstance(d, IntImm) for d in arg.values)
    if isinstance(arg, PrimValue):
        return isinstance(arg.value, (IntImm, FloatImm))
    return isinstance(arg, (Constant, StringImm, DataTypeImm))


def _value(arg: Any, known: dict[Var, RelaxExpr]) -> Any:
    if isinstance(arg, Tuple):
        return tuple(_value(field, known) for field in arg.fields)
    if isinstance(arg, Var):
        return _value(known[arg], known)
    if isinstance(arg, Constant):
        return arg.data.read_once()
    if isinstance(arg, ShapeExpr):
        return Shape(d.value for d in arg.values if isinstance(d, IntImm))
    if isinstance(arg, PrimValue):
        return numpy_of(arg.value.dtype).type(getattr(arg.value, "value"))  # noqa: B009
    return arg.value


def _fits(result: Any, info: TensorStructInfo, given: list[Any]) -> bool:
    if not hasattr(result, "ndim") or not hasattr(result, "dtype"):
        return False
    if result.ndim != info.ndim or result.dtype != numpy_of(info.dtype):
        return False
    largest = max((g.size for g in given if isinstance(g, np.ndarray)), default=0)
    return result.size <= max(_MOST, largest)
