"""Scaled dot-product attention, as one operator."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType


@register("aten.scaled_dot_product_attention.default", note="dropout")
def _attention(node: Node) -> RelaxExpr:
    return _attend(node, node["attn_mask"], node["scale"])


@register("aten._scaled_dot_product_flash_attention_for_cpu.default", note="dropout")
def _flash_attention(node: Node) -> list[Any]:
    if not node.wants(1):
        return [node.emit(_attend(node, node["attn_mask"], node["scale"])), None]
    _refuse_dropout(node)
    q, k, v = [node.tensor(i) for i in range(3)]
    scores = _scores(node, q, k)
    greatest = node.emit(op.max(scores, [-1], True))
    grown = node.emit(op.exp(node.emit(op.subtract(scores, greatest))))
    total = node.emit(op.sum(grown, [-1], True))
    weights = node.cast(node.emit(op.divide(grown, total)), node.dtype)
    logarithm = node.emit(op.add(node.emit(op.log(total)), greatest))
    shape = tuple(node.dims_of(logarithm)[:-1])
    return [node.emit(op.matmul(weights, v)), node.emit(op.reshape(logarithm, shape))]


def _scores(node: Node, q: RelaxExpr, k: RelaxExpr) -> RelaxExpr:
    """Return how well keys fit queries, in 32 bits at least; minus infinity where unseen."""
    dtype = node.dtype_of(q)
    wide = "float32" if DataType(dtype).bits == 16 else dtype
    rows, features = node.dims_of(q)[-2:]
    keys = node.dims_of(k)[-2]
    made = node.emit(op.matmul(q, node.emit(op.permute_dims(k, [0, 1, 3, 2])), wide))
    scale = node["scale"]
    if scale is None:
        if not isinstance(features, int):
            raise node.refuse("the number of features of its query is unknown")
        scale = features**-0.5
    made = node.emit(op.multiply(made, node.constant(float(scale), wide)))
    if node["attn_mask"] is not None:
        made = node.emit(op.add(made, node.tensor("attn_mask", wide)))
    if node["is_causal"]:
        ones = node.emit(op.full((rows, keys), node.constant(True, "bool")))
        seen = node.cast(node.emit(op.tril(node.cast(ones, "uint8"))), "bool")
        made = node.emit(op.where(seen, made, node.constant(float("-inf"), wide)))
    return made


@register("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", note="dropout")
def _flash_attention_backward(node: Node) -> list[Any]:
    _refuse_dropout(node)
    grad, q, k, v, out, logarithm = [node.tensor(i) for i in range(6)]
    scores = _scores(node, q, k)
    wide = node.dtype_of(scores)
    grad, q, k, v, out = [node.cast(x, wide) for x in (grad, q, k, v, out)]
    sums = node.cast(node.emit(op.expand_dims(logarithm, [-1])), wide)
    weights = node.emit(op.exp(node.emit(op.subtract(scores, sums))))
    of_value = node.emit(op.matmul(_transpose(node, weights), grad))
    of_weights = node.emit(op.matmul(grad, _transpose(node, v)))
    shares = node.emit(op.sum(node.emit(op.multiply(grad, out)), [-1], True))
    moved = node.emit(op.multiply(weights, node.emit(op.subtract(of_weights, shares))))
    scale = node["scale"]
    scale = node.dims_of(q)[-1] ** -0.5 if scale is None else float(scale)
    moved = node.emit(op.multiply(moved, node.constant(scale, wide)))
    of_query = node.emit(op.matmul(moved, k))
    of_key = node.emit(op.matmul(_transpose(node, moved), q))
    return [of_query, of_key, of_value]


def _transpose(node: Node, x: RelaxExpr) -> RelaxExpr:
    return node.emit(op.permute_dims(x, [0, 1, 3, 2]))


def _refuse_dropout(node: Node) -> None:
    if node["dropout_p"]:
        raise node.refuse("it applies dropout, as in training",
                               help="pass dropout_p=0.0")  # fmt: skip


def _four_axes(node: Node, x: RelaxExpr) -> tuple[RelaxExpr, list[Any]]:
    """Return a tensor of (batch, head, position, feature), and its axes in front."""
    *front, heads, rows, features = node.dims_of(x) if len(node.dims_of(x)) > 2 else [
        1, *node.dims_of(x)
    ]  # fmt: skip
    batch: Any = 1
    for d in front:
        batch = node.simplify(batch * d)
    shape = (batch, heads, rows, features)
    return (x if len(front) == 1 else node.emit(op.reshape(x, shape))), front


def _attend(node: Node, mask: RelaxExpr | None, scale: float | None) -> RelaxExpr:
    _refuse_dropout(node)
    given = [node.tensor(i) for i in range(3)]
    moved: list[RelaxExpr] = []
    for x in given:
        whole, _ = _four_axes(node, x)
        moved.append(node.emit(op.permute_dims(whole, [0, 2, 1, 3])))
    bias: Any = None
    if mask is not None:
        bias = _bias(node, mask, node.dims_of(moved[0])[0], len(node.dims_of(given[0])))
    causal = "TopLeft" if node["is_causal"] else None
    made = node.emit(
        op.nn.attention(*moved, bias, None if scale is None else float(scale), causal_mask=causal)
    )
    made = node.emit(op.permute_dims(made, [0, 2, 1, 3]))
    if mask is not None and node.dtype_of(mask) == "bool":
        made = _clear_unseen(node, made, mask)
    return op.reshape(made, tuple(node.shape)) if len(node.shape) != 4 else made


def _bias(node: Node, mask: RelaxExpr, batch: Any, rank: int) -> RelaxExpr:
    """Return what is added to scores: a mask of truths becomes zeros and minus infinities."""
    dtype = node.dtype
    if node.dtype_of(mask) == "bool":
        low = node.constant(float("-inf"))
        mask = node.emit(op.where(mask, node.constant(0), low))
    mask = node.cast(mask, dtype)
    dims = node.dims_of(mask)
    if len(dims) < 4:
        return node.emit(op.reshape(mask, (*[1] * (4 - len(dims)), *dims)))
    if rank == 4:
        return mask
    return node.emit(op.reshape(mask, (batch, *dims[-3:])))


def _clear_unseen(node: Node, made: RelaxExpr, mask: RelaxExpr) -> RelaxExpr:
    """Put zeros where a query sees no key at all, as PyTorch does."""
    seen = node.emit(op.max(node.emit(op.astype(mask, "uint8")), [-1], True))
    seen = node.emit(op.astype(seen, "bool"))
    dims = node.dims_of(seen)
    if len(dims) < 4:
        seen = node.emit(op.reshape(seen, (*[1] * (4 - len(dims)), *dims)))
    assert DataType(node.dtype).is_float
    return node.emit(op.where(seen, made, node.constant(0)))


# -- layers that PyTorch fuses for inference -----------------------------------------------------
@register("aten._transformer_encoder_layer_fwd.default", note="masks")
def _encoder_layer(node: Node) -> RelaxExpr:
    if node["mask"] is not None:
        raise node.refuse(
            "src_mask and src_key_padding_mask are not supported",
            help="call it under torch.enable_grad()",
        )
    x = node.tensor("src")
    first = bool(node["norm_first"])
    attended = _self_attention(node, _normalise(node, x, "1") if first else x)
    x = node.emit(op.add(x, attended))
    if not first:
        x = _normalise(node, x, "1")
    y = _normalise(node, x, "2") if first else x
    y = node.emit(op.linear(y, node.tensor("ffn_weight_1"), node.tensor("ffn_bias_1")))
    y = node.emit((op.nn.gelu if node["use_gelu"] else op.nn.relu)(y))
    y = node.emit(op.linear(y, node.tensor("ffn_weight_2"), node.tensor("ffn_bias_2")))
    x = node.emit(op.add(x, y))
    return x if first else _normalise(node, x, "2")


def _normalise(node: Node, x: RelaxExpr, number: str) -> RelaxExpr:
    gamma, beta = node.tensor(f"norm_weight_{number}"), node.tensor(f"norm_bias_{number}")
    axis = len(node.dims_of(x)) - 1
    return node.emit(op.nn.layer_norm(x, gamma, beta, [axis], float(node["eps"])))


def _self_attention(node: Node, x: RelaxExpr) -> RelaxExpr:
    *front, rows, width = node.dims_of(x)
    heads = int(node["num_heads"])
    parts = node.emit(op.linear(x, node.tensor("qkv_weight"), node.tensor("qkv_bias")))
    given: list[RelaxExpr] = []
    for part in range(3):
        one = op.strided_slice(parts, [len(front) + 1], [part * width], [(part + 1) * width])
        given.append(
            node.emit(op.reshape(node.emit(one), (*(front or [1]), rows, heads, width // heads)))
        )
    made = node.emit(op.nn.attention(*given))
    made = node.emit(op.reshape(made, (*front, rows, width)))
    return node.emit(op.linear(made, node.tensor("proj_weight"), node.tensor("proj_bias")))
