"""Operators that create tensors, from constants or ranges."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.tir.expr import PrimExpr


def _fill_value(node: Node, value: Any) -> RelaxExpr:
    return op.full(tuple(node.shape), node.as_tensor(value, node.dtype))


@register("aten.full.default")
def _full(node: Node) -> RelaxExpr:
    return _fill_value(node, node["fill_value"])


@register("aten.full_like.default", "aten.new_full.default")
def _full_like(node: Node) -> RelaxExpr:
    return _fill_value(node, node["fill_value"])


@register("aten.fill.Scalar", "aten.fill.Tensor")
def _fill(node: Node) -> RelaxExpr:
    return _fill_value(node, node["value"])


@register("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default",
          "aten.empty.memory_format", "aten.empty_like.default", "aten.empty_strided.default",
          "aten.new_empty.default", "aten.new_empty_strided.default",
          "aten.empty_permuted.default")  # fmt: skip
def _zeros(node: Node) -> RelaxExpr:
    return _fill_value(node, 0)


@register("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def _ones(node: Node) -> RelaxExpr:
    return _fill_value(node, 1)


@register("aten.scalar_tensor.default")
def _scalar_tensor(node: Node) -> RelaxExpr:
    return node.tensor(0, node.dtype)


@register("aten.arange.start_step", "aten.arange.default", "aten.arange.start")
def _arange(node: Node) -> RelaxExpr:
    start = node.arguments.get("start", 0)
    step = node.arguments.get("step", 1)
    return _count_up(node, start, step)


@register("prims.iota.default")
def _iota(node: Node) -> RelaxExpr:
    return _count_up(node, node["start"], node["step"])


def _count_up(node: Node, start: Any, step: Any) -> RelaxExpr:
    """Make ``start + i * step``, in integers where both are, else in floats of 64 bits."""
    (count,) = node.shape
    whole = not any(isinstance(v, float) or _is_float(v) for v in (start, step))
    kind = "int64" if whole else "float64"

    return _emit_arange(node, start, step, count, kind)


def _emit_arange(node: Node, start: Any, step: Any, count: Any, kind: str) -> RelaxExpr:
    bound = PrimValue(count) if isinstance(count, PrimExpr) else count
    made: RelaxExpr = node.emit(op.arange(0, bound, 1, "int64"))
    made = node.cast(made, kind)
    if not isinstance(step, int) or step != 1:
        made = node.emit(op.multiply(made, node.as_tensor(step, kind)))
    if not isinstance(start, int) or start != 0:
        made = node.emit(op.add(made, node.as_tensor(start, kind)))
    return node.cast(made, node.dtype)


def _is_float(value: Any) -> bool:
    return isinstance(value, PrimExpr) and value.dtype.is_float


@register("aten.eye.default", "aten.eye.m")
def _eye(node: Node) -> RelaxExpr:
    rows, columns = node.shape
    if isinstance(rows, PrimExpr) or isinstance(columns, PrimExpr):
        raise node.refuse("the shape of its result is unknown")
    return op.eye(rows, columns, 0, node.dtype)


@register("aten._local_scalar_dense.default", note="floats")
def _item(node: Node) -> Any:
    found = node.result
    if not hasattr(found, "node") or DataType(node.dtype_of(node.tensor(0))).is_float:
        raise node.refuse("it converts a tensor to a Python float")
    return node.graph.bind_size(found, node.tensor(0))
