"""Normalisations: shift and scale elements to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Row, row
from loomir.relax.expr import TupleGetItem
from loomir.relax.node import RelaxExpr


def _batch_normalization(node: Node) -> Any:
    epsilon = float(node.get("epsilon", 1e-5))
    rank = node.rank(0)
    dims = [1] * rank
    if node.get("training_mode", 0):
        return _batch_normalization_in_training(node, epsilon)
    if rank > 1:
        dims[1] = node.dims(1)[0]
    whole = [node.emit(op.reshape(_convert_to_first(node, i), tuple(dims))) for i in range(1, 5)]
    scale, bias, mean, variance = whole
    root = node.emit(op.sqrt(node.emit(op.add(variance, node.constant_like(epsilon)))))
    shifted = node.emit(op.divide(node.emit(op.subtract(node[0], mean)), root))
    return op.add(node.emit(op.multiply(shifted, scale)), bias)


def _convert_to_first(node: Node, index: int) -> RelaxExpr:
    """Return an input in the dtype of the first."""
    if node.dtype(index) == node.dtype(0):
        return node[index]
    return node.emit(op.astype(node[index], node.dtype(0)))


def _batch_normalization_in_training(node: Node, epsilon: float) -> list[Any]:
    keep = float(node.get("momentum", 0.9))
    made = node.emit(
        op.nn.batch_norm(
            node[0],
            *[_convert_to_first(node, i) for i in range(1, 5)],
            axis=1,
            epsilon=epsilon,
            momentum=1.0 - keep,
            training=True,
        )
    )
    parts = [node.emit(TupleGetItem(made, i)) for i in range(3)]
    return parts[: node.wanted]


def _layer_normalization(node: Node) -> list[Any]:
    rank = node.rank(0)
    axis = node.axis("axis", -1, rank)
    axes = list(range(axis, rank))
    epsilon = float(node.get("epsilon", 1e-5))
    if node.wanted > 1:
        return _layer_normalization_with_statistics(node, axes, epsilon)
    bias = node[2] if node.has(2) else node.emit(op.zeros_like(node[1]))
    return [op.nn.layer_norm(node[0], node[1], bias, axes, epsilon, node.has(2), True)]


def _layer_normalization_with_statistics(node: Node, axes: list[int], epsilon: float) -> list[Any]:
    x = node[0]
    kept = node.dtype(0)
    if kept in ("float16", "bfloat16") and node.get("stash_type", 1) == 1:
        x = node.emit(op.astype(x, "float32"))
    mean = node.emit(op.mean(x, axes, True))
    centred = node.emit(op.subtract(x, mean))
    variance = node.emit(op.mean(node.emit(op.square(centred)), axes, True))
    inner = str(node.info_of(x).dtype)
    lifted = node.emit(op.add(variance, _number(epsilon, inner)))
    inverse = node.emit(op.divide(_number(1, inner), node.emit(op.sqrt(lifted))))
    made = node.emit(op.multiply(centred, inverse))
    if inner != kept:
        made = node.emit(op.astype(made, kept))
    made = node.emit(op.multiply(made, node[1]))
    if node.has(2):
        made = node.emit(op.add(made, node[2]))
    return [made, mean, inverse][: node.wanted]


def _number(value: float, dtype: str) -> RelaxExpr:
    return constant(value, dtype)


def _rms_normalization(node: Node) -> RelaxExpr:
    rank = node.rank(0)
    axes = list(range(node.axis("axis", -1, rank), rank))
    return op.nn.rms_norm(node[0], node[1], axes, float(node.get("epsilon", 1e-5)))


def _instance_normalization(node: Node) -> RelaxExpr:
    axes = list(range(2, node.rank(0)))
    return op.nn.instance_norm(node[0], node[1], node[2], 1, axes, float(node.get("epsilon", 1e-5)))


def _group_normalization(node: Node) -> RelaxExpr:
    groups = int(node.get("num_groups", 1))
    scale, bias = node[1], node[2]
    if node.version < 21:  # one number for each group, until then
        channels = node.dims(0)[1]
        scale, bias = [node.emit(op.repeat(v, channels // groups, 0)) for v in (scale, bias)]
    axes = list(range(2, node.rank(0)))
    return op.nn.group_norm(node[0], scale, bias, groups, 1, axes, float(node.get("epsilon", 1e-5)))


def _lp_normalization(node: Node) -> RelaxExpr:
    axis = node.axis("axis", -1, node.rank(0))
    x = node[0]
    if node.get("p", 2) == 1:
        length = node.emit(op.sum(node.emit(op.abs(x)), [axis], True))
    else:
        length = node.emit(op.sqrt(node.emit(op.sum(node.emit(op.square(x)), [axis], True))))
    zero = node.constant_like(0)
    safe = node.emit(op.where(node.emit(op.equal(length, zero)), node.constant_like(1), length))
    return op.divide(x, safe)


def _lrn(node: Node) -> RelaxExpr:
    size = int(node.get("size", 1))
    alpha, beta = float(node.get("alpha", 1e-4)), float(node.get("beta", 0.75))
    bias = float(node.get("bias", 1.0))
    dims = node.dims(0)
    flat = node.emit(op.reshape(node.emit(op.square(node[0])), (dims[0], dims[1], -1)))
    before = (size - 1) // 2
    padded = node.emit(op.nn.pad(flat, [0, 0, before, size - 1 - before, 0, 0]))
    total: RelaxExpr | None = None
    for i in range(size):
        part = node.emit(op.strided_slice(padded, [1], [i], [dims[1] + i]))
        total = part if total is None else node.emit(op.add(total, part))
    assert total is not None
    scaled = node.emit(op.multiply(total, node.constant_like(alpha / size)))
    lifted = node.emit(op.add(scaled, node.constant_like(bias)))
    root = node.emit(op.power(lifted, node.constant_like(beta)))
    return op.divide(node[0], node.emit(op.reshape(root, tuple(dims))))


ROWS: Final[tuple[Row, ...]] = (
    row("BatchNormalization", _batch_normalization),
    row("GroupNormalization", _group_normalization),
    row("InstanceNormalization", _instance_normalization),
    row("LRN", _lrn),
    row("LayerNormalization", _layer_normalization),
    row("LpNormalization", _lp_normalization),
    row("RMSNormalization", _rms_normalization),
)
