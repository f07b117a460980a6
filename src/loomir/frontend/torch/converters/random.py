"""Random operators, in the cases that draw no random numbers."""

from __future__ import annotations

from typing import Any

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr


@register("aten.native_dropout.default", note="training, unless torch.compile draws")
def _native_dropout(node: Node) -> list[Any]:
    _refuse_chance(node)
    mask = op.full(tuple(node.shape), node.constant(True, "bool"))
    return [node.tensor(0), node.emit(mask) if node.wants(1) else None]


@register("aten.dropout.default", note="training")
def _dropout(node: Node) -> RelaxExpr:
    _refuse_chance(node)
    return node.tensor(0)


def _refuse_chance(node: Node) -> None:
    if node["train"] and node["p"] != 0.0:
        raise node.refuse(
            "it applies dropout, as in training",
            help="export the model for inference, model.eval(), or use loomir.torch.compile",
        )


@register("aten.rand.default", "aten.randn.default", "aten.randint.default", "aten.randint.low",
          "aten.randperm.default", "aten.rand_like.default", "aten.randn_like.default",
          "aten.randint_like.default", "aten.randint_like.low_dtype", "aten.bernoulli.p",
          "aten.normal.float_float", "aten.normal_functional.default", "aten.exponential.default",
          "aten.uniform.default", note="exported programs; `torch.compile` draws")  # fmt: skip
def _random(node: Node) -> RelaxExpr:
    raise node.refuse(
        "it draws random numbers, of which an exported program has no source",
        help="make them an input of the model, or use loomir.torch.compile, in which PyTorch draws",
    )
