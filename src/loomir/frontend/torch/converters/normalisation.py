"""Normalisations, and their gradients."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.expr import TupleGetItem
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType


def _wide(dtype: str) -> str:
    return "float32" if DataType(dtype).bits == 16 else dtype


def _or_constant(node: Node, name: str, shape: list[Any], value: float, dtype: str) -> RelaxExpr:
    if node[name] is not None:
        return node.tensor(name, dtype)
    return node.emit(op.full(tuple(shape), node.constant(value, dtype)))


def _layer_norm(node: Node) -> tuple[RelaxExpr, list[int]]:
    shape: list[Any] = list(node["normalized_shape"])
    rank = node.rank(0)
    axes = list(range(rank - len(shape), rank))
    dtype = node.dtype
    gamma = _or_constant(node, "weight", shape, 1.0, dtype)
    beta = _or_constant(node, "bias", shape, 0.0, dtype)
    made = op.nn.layer_norm(
        node.tensor(0), gamma, beta, axes, float(node["eps"]),
        center=node["bias"] is not None, scale=node["weight"] is not None,
    )  # fmt: skip
    return made, axes


@register("aten.layer_norm.default")
def _layer_norm_whole(node: Node) -> RelaxExpr:
    return _layer_norm(node)[0]


@register("aten.native_layer_norm.default")
def _native_layer_norm(node: Node) -> list[Any]:
    made, axes = _layer_norm(node)
    outputs: list[Any] = [node.emit(made), None, None]
    if node.wants(1) or node.wants(2):
        outputs[1:] = _statistics(node, node.tensor(0), axes, float(node["eps"]))
    return outputs


def _statistics(node: Node, x: RelaxExpr, axes: list[int], epsilon: float) -> list[RelaxExpr]:
    """Return means and the factors that scale to a variance of 1, axes kept."""
    dtype = _wide(node.dtype_of(x))
    x = node.cast(x, dtype)
    mean = node.emit(op.mean(x, axes, True))
    variance = node.emit(op.mean(node.emit(op.square(node.emit(op.subtract(x, mean)))), axes, True))
    raised = node.emit(op.add(variance, node.constant(epsilon, dtype)))
    return [mean, node.emit(op.rsqrt(raised))]


@register("aten.rms_norm.default", "aten._fused_rms_norm.default")
def _rms_norm(node: Node) -> Any:
    shape: list[Any] = list(node["normalized_shape"])
    rank = node.rank(0)
    axes = list(range(rank - len(shape), rank))
    dtype = node.dtype
    epsilon = node["eps"]
    if epsilon is None:
        epsilon = {"float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(
            dtype, 2.0**-23
        )
    gamma = _or_constant(node, "weight", shape, 1.0, dtype)
    x = node.tensor(0)
    made = op.nn.rms_norm(x, gamma, axes, float(epsilon))
    if node.operator == "aten.rms_norm.default":
        return made
    outputs: list[Any] = [node.emit(made), None]
    if node.wants(1):
        wide = _wide(dtype)
        square = node.emit(op.mean(node.emit(op.square(node.cast(x, wide))), axes, True))
        outputs[1] = node.emit(
            op.rsqrt(node.emit(op.add(square, node.constant(float(epsilon), wide))))
        )
    return outputs


# -- batches -------------------------------------------------------------------------------------
def _channel(node: Node, x: RelaxExpr, rank: int) -> RelaxExpr:
    """Return what has one element per channel with axes to broadcast along."""
    (channels,) = node.dims_of(x)
    return node.emit(op.reshape(x, (1, channels, *[1] * (rank - 2))))


def _inference(node: Node, epsilon: float) -> RelaxExpr:
    dtype = node.dtype
    channels = node.dims(0)[1:2]
    gamma = _or_constant(node, "weight", channels, 1.0, dtype)
    beta = _or_constant(node, "bias", channels, 0.0, dtype)
    mean, variance = node.tensor("running_mean", dtype), node.tensor("running_var", dtype)
    whole = node.emit(
        op.nn.batch_norm(
            node.tensor(0), gamma, beta, mean, variance, 1, epsilon, training=False,
            center=node["bias"] is not None, scale=node["weight"] is not None,
        )
    )  # fmt: skip
    return node.emit(TupleGetItem(whole, 0))


@register("aten._native_batch_norm_legit_no_training.default")
def _batch_norm_inference(node: Node) -> list[Any]:
    return [_inference(node, float(node["eps"])), None, None]


def _normalise_by_batch(
    node: Node, epsilon: float
) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr, RelaxExpr]:
    """Normalise by the batch; gives also means, inverse deviations and variances."""
    x = node.tensor(0)
    rank = node.rank(0)
    axes = [0, *range(2, rank)]
    dtype = _wide(node.dtype)
    wide = node.cast(x, dtype)
    mean = node.emit(op.mean(wide, axes))
    centred = node.emit(op.subtract(wide, _channel(node, mean, rank)))
    variance = node.emit(op.mean(node.emit(op.square(centred)), axes))
    raised = node.emit(op.add(variance, node.constant(epsilon, dtype)))
    inverse = node.emit(op.rsqrt(raised))
    scale = inverse
    if node["weight"] is not None:
        scale = node.emit(op.multiply(inverse, node.tensor("weight", dtype)))
    made = node.emit(op.multiply(centred, _channel(node, scale, rank)))
    if node["bias"] is not None:
        made = node.emit(op.add(made, _channel(node, node.tensor("bias", dtype), rank)))
    return node.cast(made, node.dtype), mean, inverse, variance


def _move(node: Node, name: str, by: RelaxExpr) -> RelaxExpr:
    """Move a running statistic towards that of the batch."""
    own = node.tensor(name)
    momentum = float(node["momentum"])
    dtype = node.dtype_of(own)
    kept = node.emit(op.multiply(own, node.constant(1.0 - momentum, dtype)))
    added = node.emit(op.multiply(node.cast(by, dtype), node.constant(momentum, dtype)))
    return node.emit(op.add(kept, added))


def _correct_bias(node: Node, variance: RelaxExpr) -> RelaxExpr:
    dims = node.dims(0)
    count: Any = dims[0]
    for d in dims[2:]:
        count = count * d
    dtype = node.dtype_of(variance)
    number = node.as_tensor(node.simplify(count), dtype)
    less = node.emit(op.subtract(number, node.constant(1, dtype)))
    return node.emit(op.multiply(variance, node.emit(op.divide(number, less))))


@register("aten._native_batch_norm_legit_functional.default")
def _batch_norm_functional(node: Node) -> list[Any]:
    if not node["training"]:
        made = _inference(node, float(node["eps"]))
        return [made, None, None, node.tensor("running_mean"), node.tensor("running_var")]
    made, mean, inverse, variance = _normalise_by_batch(node, float(node["eps"]))
    outputs: list[Any] = [made, mean, inverse, None, None]
    if node.wants(3):
        outputs[3] = _move(node, "running_mean", mean)
    if node.wants(4):
        outputs[4] = _move(node, "running_var", _correct_bias(node, variance))
    return outputs


@register("aten._native_batch_norm_legit.no_stats")
def _batch_norm_without_statistics(node: Node) -> list[Any]:
    made, mean, inverse, _ = _normalise_by_batch(node, float(node["eps"]))
    return [made, mean, inverse]


@register("aten._native_batch_norm_legit.default", "aten.native_batch_norm.default",
          note="training, in which statistics are written in place")  # fmt: skip
def _batch_norm_legit(node: Node) -> list[Any]:
    if not node["training"]:
        return [_inference(node, float(node["eps"])), None, None]
    if node["running_mean"] is not None:
        raise node.refuse("it updates its running statistics")
    made, mean, inverse, _ = _normalise_by_batch(node, float(node["eps"]))
    return [made, mean, inverse]


@register("aten.batch_norm.default", note="training")
def _batch_norm(node: Node) -> RelaxExpr:
    if node["training"]:
        raise node.refuse("it normalises with batch statistics, as in training",
                               help="export the model for inference: model.eval()")  # fmt: skip
    return _inference(node, float(node["eps"]))


# -- groups --------------------------------------------------------------------------------------
@register("aten.group_norm.default")
def _group_norm(node: Node) -> RelaxExpr:
    return _normalise_groups(node, int(node["num_groups"]), float(node["eps"]))


def _normalise_groups(node: Node, groups: int, epsilon: float) -> RelaxExpr:
    rank = node.rank(0)
    channels = node.dims(0)[1:2]
    gamma = _or_constant(node, "weight", channels, 1.0, node.dtype)
    beta = _or_constant(node, "bias", channels, 0.0, node.dtype)
    return op.nn.group_norm(
        node.tensor(0), gamma, beta, groups, 1, list(range(2, rank)), epsilon,
        center=node["bias"] is not None, scale=node["weight"] is not None,
    )  # fmt: skip


@register("aten.native_group_norm.default")
def _native_group_norm(node: Node) -> list[Any]:
    groups = int(node["group"])
    outputs: list[Any] = [
        node.emit(_normalise_groups(node, groups, float(node["eps"]))),
        None,
        None,
    ]
    if node.wants(1) or node.wants(2):
        batch = node["N"]
        x = node.emit(op.reshape(node.tensor(0), (batch, groups, -1)))
        found = _statistics(node, x, [2], float(node["eps"]))
        outputs[1:] = [node.emit(op.reshape(v, (batch, groups))) for v in found]
    return outputs


# -- weights ---------------------------------------------------------------------------------------
@register("aten._weight_norm_interface_backward.default")
def _weight_norm_backward(node: Node) -> list[Any]:
    """Return the gradients of directions and lengths of weights that are normalised."""
    gradient, v, g = node.tensor("grad_w"), node.tensor("saved_v"), node.tensor("saved_g")
    rank = node.rank("saved_v")
    kept = node.axis("dim", rank)
    norms = node.emit(op.astype(node.tensor("saved_norms"), node.dtype_of(v)))
    inverse = node.emit(op.divide(node.constant(1.0), norms))
    others = [axis for axis in range(rank) if axis != kept]
    along = node.emit(op.sum(node.emit(op.multiply(gradient, v)), others, keepdims=True))
    of_lengths = node.emit(op.multiply(along, inverse))
    shares = node.emit(op.multiply(of_lengths, inverse))
    across = node.emit(op.subtract(gradient, node.emit(op.multiply(v, shares))))
    of_directions = node.emit(op.multiply(node.emit(op.multiply(g, inverse)), across))
    return [of_directions, of_lengths]
