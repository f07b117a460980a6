"""Sliding windows over images: strides, dilations, pads and auto_pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir.frontend.onnx.node import Node

__all__ = ["choose_padding", "read_per_axis"]


def read_per_axis(node: Node, name: str, axes: int) -> list[int]:
    """Return an attribute that has one number for each axis of an image, 1 if left out."""
    given = node.get(name)
    made = [1] * axes if given is None else [int(v) for v in given]
    if len(made) != axes:
        raise node.refuse(f"{name} has {len(made)} numbers for {axes} axes")
    return made


def choose_padding(
    node: Node,
    extents: Sequence[Any],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Return how much is put around the image: before each axis, then after each."""
    auto = node.get("auto_pad", "NOTSET")
    axes = len(kernel)
    if auto in ("NOTSET", ""):
        given = [int(v) for v in node.get("pads", [0] * (2 * axes))]
        if len(given) != 2 * axes:
            raise node.refuse(f"pads has {len(given)} numbers for {axes} axes")
        return given
    if auto == "VALID":
        return [0] * (2 * axes)
    before: list[int] = []
    after: list[int] = []
    for extent, k, s, d in zip(extents, kernel, strides, dilations):
        if s == 1:
            total = d * (k - 1)
        elif isinstance(extent, int):
            total = max((-(-extent // s) - 1) * s + d * (k - 1) + 1 - extent, 0)
        else:
            raise node.refuse("auto_pad with strides needs known extents")
        less, more = total // 2, total - total // 2
        before.append(more if auto == "SAME_LOWER" else less)
        after.append(less if auto == "SAME_LOWER" else more)
    return before + after
