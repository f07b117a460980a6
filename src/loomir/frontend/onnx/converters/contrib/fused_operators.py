"""Fused products and convolutions, as graph optimisers write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.converters.activation import apply_over_axes_from
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import MICROSOFT, Row, row
from loomir.relax.expr import TupleGetItem
from loomir.relax.node import RelaxExpr

# What the parameters of an activation are called, in the order that nodes list them.
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
_CONVOLUTION: Final = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _activate(node: Node, x: RelaxExpr, given: Mapping[str, float]) -> RelaxExpr:
    """Apply the activation that a node names, with the parameters that it gives."""
    name = str(node.get("activation", "") or "")
    if not name:
        return x
    if name not in _PARAMETERS:
        raise node.refuse(f"activation {name!r} is not supported")
    if name == "Clip":
        low, high = given.get("min"), given.get("max")
        if low is None or high is None:
            raise node.refuse("its activation Clip has no min or no max")
        return node.emit(op.clip(x, low, high))
    return node.one(name, x, **given)


def _fused_matmul(node: Node) -> RelaxExpr:
    a = _transpose(node, 0, bool(node.get("transA", 0)), bool(node.get("transBatchA", 0)))
    b = _transpose(node, 1, bool(node.get("transB", 0)), bool(node.get("transBatchB", 0)))
    made = node.emit(op.matmul(a, b))
    alpha = float(node.get("alpha", 1.0))
    if alpha != 1.0:
        made = node.emit(op.multiply(made, node.constant_like(alpha)))
    names = ("alpha", "beta", "gamma")
    if node.operator == "FusedMatMulActivation":
        return _activate(node, made, _read_numbered(node, {n: f"activation_{n}" for n in names}))
    return made


def _transpose(node: Node, index: int, last: bool, batch: bool) -> RelaxExpr:
    """Return a factor with its last two axes exchanged, and the first moved before the last."""
    x, rank = node[index], node.rank(index)
    if rank < 2:
        return x
    axes = [*range(rank)]
    if batch:
        axes = [*axes[1:-1], 0, rank - 1]
    if last:
        axes[-2:] = axes[-1], axes[-2]
    return x if axes == [*range(rank)] else node.emit(op.permute_dims(x, axes))


def _read_numbered(node: Node, names: Mapping[str, str]) -> dict[str, float]:
    """Return the parameters of the activation that a node gives by attributes of its own."""
    wanted = _PARAMETERS.get(str(node.get("activation", "") or ""), ())
    found = {name: node.get(names.get(name, "")) for name in wanted}
    return {name: float(value) for name, value in found.items() if value is not None}


def _fused_gemm(node: Node) -> RelaxExpr:
    attributes = {n: node.get(n) for n in ("alpha", "beta", "transA", "transB")}
    given: dict[str, Any] = {n: v for n, v in attributes.items() if v is not None}
    made = node.one("Gemm", *_values(node, 3), **given)
    names = {n: f"activation_{n}" for n in ("alpha", "beta", "gamma")}
    return _activate(node, made, _read_numbered(node, names))


def _fused_conv(node: Node) -> RelaxExpr:
    attributes = {n: node.get(n) for n in _CONVOLUTION}
    given: dict[str, Any] = {n: v for n, v in attributes.items() if v is not None}
    made = node.one("Conv", *_values(node, 3), **given)
    if node.has(3):
        made = node.emit(op.add(made, node[3]))
    wanted = _PARAMETERS.get(str(node.get("activation", "") or ""), ())
    listed = [float(v) for v in node.get("activation_params", ())]
    return _activate(node, made, dict(zip(wanted, listed)))


def _values(node: Node, count: int) -> list[Any]:
    return [node.tensor(i) if node.has(i) else None for i in range(min(count, len(node)))]


def _bias_softmax(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    axis = node.axis("axis", 1, rank)
    bias, own = node[1], node.dims(1)
    if not bool(node.get("is_inner_broadcast", 1)) and len(own) < rank:
        # The bias of the outermost axes, and of those that softmax runs over.
        ones = [1] * (rank - len(own))
        bias = node.emit(op.reshape(bias, (*own[: -(rank - axis)], *ones, *own[axis - rank :])))
    return apply_over_axes_from(node, op.nn.softmax, node.emit(op.add(node[0], bias)), axis)


def _bias_add(node: Node) -> RelaxExpr:
    return op.add(node.emit(op.add(node[0], node[1])), node[2])


def _bias_split_gelu(node: Node) -> RelaxExpr:
    total = node.emit(op.add(node[0], node[1]))
    parts = node.emit(op.split(total, 2, -1))
    first, second = (node.emit(TupleGetItem(parts, i)) for i in range(2))
    return op.multiply(first, node.emit(op.nn.gelu(second)))


ROWS: Final[tuple[Row, ...]] = (
    row("BiasAdd", _bias_add, domain=MICROSOFT),
    row("BiasSoftmax", _bias_softmax, domain=MICROSOFT),
    row("BiasSplitGelu", _bias_split_gelu, domain=MICROSOFT),
    row("FusedConv", _fused_conv, domain=MICROSOFT),
    row("FusedGemm", _fused_gemm, domain=MICROSOFT),
    row("FusedMatMul", _fused_matmul, domain=MICROSOFT),
    row("FusedMatMulActivation", _fused_matmul, domain=MICROSOFT),
    row("TransposeMatMul", _fused_matmul, domain=MICROSOFT),
)
