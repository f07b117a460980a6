"""Normalisations fused with residual sums or embeddings."""

from __future__ import annotations

from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import MICROSOFT, Row, row
from loomir.relax.node import RelaxExpr


def _simplified_layer_normalization(node: Node) -> list[Any]:
    rank = node.rank(0)
    axes = list(range(node.axis("axis", -1, rank), rank))
    if node.wanted > 1:
        raise node.refuse("the outputs mean and inv_std_var are not supported")
    return [op.nn.rms_norm(node[0], node[1], axes, float(node.get("epsilon", 1e-5)))]


def _sum_of_inputs(node: Node, bias: int) -> RelaxExpr:
    total = node.emit(op.add(node[0], node[1]))
    return node.emit(op.add(total, node[bias])) if node.has(bias) else total


def _outputs(node: Node, made: RelaxExpr, total: RelaxExpr) -> list[Any]:
    """Return the normalised tensor, no statistics, and the sum that was normalised."""
    if node.wants(1) or node.wants(2):
        raise node.refuse("the outputs mean and inv_std_var are not supported")
    return [node.emit(made), None, None, total][: node.wanted]


def _skip_layer_normalization(node: Node) -> list[Any]:
    total = _sum_of_inputs(node, 4)
    shift = node[3] if node.has(3) else node.emit(op.zeros_like(node[2]))
    epsilon = float(node.get("epsilon", 1e-12))
    made = op.nn.layer_norm(total, node[2], shift, [-1], epsilon, node.has(3), True)
    return _outputs(node, made, total)


def _skip_simplified_layer_normalization(node: Node) -> list[Any]:
    total = _sum_of_inputs(node, 3)
    made = op.nn.rms_norm(total, node[2], [-1], float(node.get("epsilon", 1e-5)))
    return _outputs(node, made, total)


def _embed_layer_normalization(node: Node) -> list[Any]:
    """Add the embeddings of words, places and segments, and normalise the sum."""
    length = node.dims(0)[1]
    total = node.emit(op.take(node[2], node[0], 0))
    if node.has(8):
        places = node.emit(op.take(node[3], node[8], 0))
    else:
        places = node.emit(op.strided_slice(node[3], [0], [0], [length]))
    total = node.emit(op.add(total, places))
    if node.has(1) and node.has(4):
        total = node.emit(op.add(total, node.emit(op.take(node[4], node[1], 0))))
    epsilon = float(node.get("epsilon", 1e-12))
    made = node.emit(op.nn.layer_norm(total, node[5], node[6], [-1], epsilon))
    counts = None
    if node.wants(1):
        if node.has(7):
            counts = node.emit(op.sum(node.emit(op.astype(node[7], "int32")), [1]))
        else:
            counts = node.emit(op.zeros((node.dims(0)[0],), "int32"))
    return [made, counts, total][: node.wanted]


ROWS: Final[tuple[Row, ...]] = (
    row("SimplifiedLayerNormalization", _simplified_layer_normalization),
    row("EmbedLayerNormalization", _embed_layer_normalization, domain=MICROSOFT),
    row("SkipLayerNormalization", _skip_layer_normalization, domain=MICROSOFT),
    row("SkipSimplifiedLayerNormalization", _skip_simplified_layer_normalization, domain=MICROSOFT),
)
