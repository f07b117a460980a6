"""Queries of passes on a graph: uses of values, their operators, and their known properties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from loomir.ir.node import Node
from loomir.ir.op import Op
from loomir.ir.visit import pre_order
from loomir.relax.expr import (
    Call,
    Constant,
    DataflowBlock,
    Function,
    PrimValue,
    Var,
    VarBinding,
)
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.definition import find_op
from loomir.relax.operator.reference import NPArray
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import ShapeStructInfo, TensorStructInfo
from loomir.support.diagnostics import InternalError
from loomir.tir.expr import IntImm

__all__ = [
    "constant_in",
    "count_uses",
    "dataflow_blocks",
    "extent_of",
    "integers_of",
    "make_call",
    "operator_of",
    "operators_in",
    "tensor_info",
    "values_in",
]


def operator_of(value: object) -> str:
    """Return the name of a called operator without ``relax.``; empty for other expressions."""
    if isinstance(value, Call) and isinstance(value.op, Op):
        return value.op.name.removeprefix("relax.")
    return ""


def make_call(name: str, *args: Any, **keywords: Any) -> Call:
    """Make a call of an operator from the arguments that users would write."""
    found = find_op(f"relax.{name}")
    if found is None:
        raise InternalError(f"there is no operator {name}")
    return found.call(*args, **keywords)


def operators_in(root: Node) -> set[str]:
    """Return the names of called operators; often that shows that a pass has no work."""
    calls = (part for part in pre_order(root) if isinstance(part, Call))
    return {operator_of(call) for call in calls}


def count_uses(func: Function) -> Counter[Node]:
    """Count how often each variable and each constant is used, in closures and branches too."""
    return Counter(part for part in pre_order(func) if isinstance(part, (Var, Constant)))


def dataflow_blocks(func: Function) -> list[DataflowBlock]:
    """List all dataflow blocks of a function, also in branches and closures."""
    return [part for part in pre_order(func) if isinstance(part, DataflowBlock)]


def values_in(block: DataflowBlock) -> dict[RelaxExpr, RelaxExpr]:
    """Return the value to which each variable of a block is bound."""
    return {b.var: b.value for b in block.bindings if isinstance(b, VarBinding)}


def constant_in(values: Mapping[RelaxExpr, RelaxExpr], leaf: RelaxExpr) -> NPArray | None:
    """Return the contents of a constant, which may be bound to a variable of ``values``."""
    value = values.get(leaf, leaf)
    return value.data.read_once() if isinstance(value, Constant) else None


def tensor_info(leaf: object) -> TensorStructInfo | None:
    """Return the information of a leaf that is a tensor of known rank and dtype, else None."""
    info = leaf.struct_info if isinstance(leaf, (Var, Constant)) else None
    if not isinstance(info, TensorStructInfo) or info.ndim < 0 or info.dtype.is_void:
        return None
    return info


def extent_of(info: TensorStructInfo, axis: int) -> int | None:
    """Return the extent of an axis, None if it is not a number."""
    dim = None if info.dims is None else info.dims[axis]
    return dim.value if isinstance(dim, IntImm) else None


def integers_of(call: Call) -> list[PrimValue] | None:
    """List the integers passed to a kernel after its tensors; None if they are not listed."""
    if len(call.args) < 3:
        return []
    sizes = call.args[2]
    info = sizes.struct_info_annotation if isinstance(sizes, Var) else None
    if isinstance(sizes, ShapeExpr):
        return [PrimValue(value) for value in sizes.values]
    if isinstance(info, ShapeStructInfo) and info.values is not None:
        return [PrimValue(value) for value in info.values]
    return None
