"""Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from loomir import op
from loomir.frontend.fourier import transform, transform_from_half, transform_real
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import register
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, all_of, compute, if_then_else, reduce_axis
from loomir.te import sum as te_sum
from loomir.tir.expr import IntImm, PrimExpr, const

_Step = Callable[[RelaxExpr, int], RelaxExpr]


def _axes(node: Node, rank: int) -> list[int]:
    return [node.count_axis(a, rank) for a in node["dim"]]


def _length(node: Node, extent: Any) -> int:
    if not isinstance(extent, int):
        raise node.refuse(
            "the extent of an axis that it transforms is unknown",
            help="export it with a fixed length, or pad the axis to one: torch.fft.rfft(x, n=4096)",
        )
    return extent


def _scale(node: Node, lengths: list[int]) -> float:
    """Return the factor of a normalisation: none, by the root of the size, or by the size."""
    size = max(prod(lengths), 1)
    return [1.0, 1.0 / math.sqrt(size), 1.0 / size][int(node["normalization"])]


def _apply_along(
    node: Node, x: RelaxExpr, axis: int, rank: int, step: _Step, *, pairs: tuple[bool, bool]
) -> RelaxExpr:
    """Apply a transform of the last axis to another axis; ``pairs``: what is complex, of both."""
    before = [*range(axis), *range(axis + 1, rank), axis]
    after = [before.index(i) for i in range(rank)]
    parts = [[rank] if p else [] for p in pairs]
    if axis != rank - 1:
        x = node.emit(op.permute_dims(x, before + parts[0]))
    dims = node.dims_of(x)
    made = step(x, _length(node, dims[rank - 1]))
    return made if axis == rank - 1 else node.emit(op.permute_dims(made, after + parts[1]))


def _transform_axes(
    node: Node, x: RelaxExpr, axes: list[int], rank: int, sign: int, scale: float
) -> RelaxExpr:
    for axis in axes:

        def step(y: RelaxExpr, n: int, by: float = scale) -> RelaxExpr:
            return transform(node, y, n, node.dtype, sign=sign, scale=by)

        x = _apply_along(node, x, axis, rank, step, pairs=(True, True))
        scale = 1.0
    return x


@register("aten._fft_c2c.default", complex=True, note="axes whose extents are not known")
def _complex_to_complex(node: Node) -> RelaxExpr:
    x = node.tensor(0)
    dims = node.dims_of(x)
    axes = _axes(node, len(dims) - 1)
    scale = _scale(node, [_length(node, dims[a]) for a in axes])
    sign = -1 if node["forward"] else 1
    return _transform_axes(node, x, axes, len(dims) - 1, sign, scale)


@register("aten._fft_r2c.default", complex=True, note="axes whose extents are not known")
def _real_to_complex(node: Node) -> RelaxExpr:
    """Transform the last of the axes from real numbers, and the others after it."""
    x = node.tensor(0, node.dtype)
    dims = node.dims_of(x)
    rank = len(dims)
    *others, last = _axes(node, rank)
    scale = _scale(node, [_length(node, dims[a]) for a in (*others, last)])
    onesided = bool(node["onesided"])

    def step(y: RelaxExpr, n: int) -> RelaxExpr:
        return transform_real(node, y, n, node.dtype, onesided=onesided, scale=scale)

    made = _apply_along(node, x, last, rank, step, pairs=(False, True))
    return _transform_axes(node, made, others, rank, -1, 1.0)


@register("aten._fft_c2r.default", complex=True, note="axes whose extents are not known")
def _complex_to_real(node: Node) -> RelaxExpr:
    """Transform the last of the axes to real numbers, after the others."""
    x = node.tensor(0)
    dims = node.dims_of(x)
    rank = len(dims) - 1
    *others, last = _axes(node, rank)
    length = _length(node, node["last_dim_size"])
    scale = _scale(node, [*[_length(node, dims[a]) for a in others], length])
    x = _transform_axes(node, x, others, rank, 1, scale)
    scale = 1.0 if others else scale
    half = length // 2 + 1
    if _length(node, dims[last]) > half:
        x = node.emit(op.strided_slice(x, [last], [0], [half]))

    def step(y: RelaxExpr, _: int) -> RelaxExpr:
        return transform_from_half(node, y, length, node.dtype, scale=scale)

    return _apply_along(node, x, last, rank, step, pairs=(True, False))


@register("aten.unfold_backward.default")
def _unfold_backward(node: Node) -> RelaxExpr:
    """Add up windows along an axis, as the inverse of a short-time transform does."""
    size, step = int(node["size"]), int(node["step"])
    axis = node.axis("dim", len(node.shape))
    kernel = partial(_add_windows, shape=node.shape, axis=axis, size=size, step=step)
    kernel.__name__ = "windows"  # type: ignore[attr-defined]
    return node.compute(kernel, node.tensor(0))


def _add_windows(x: Tensor, shape: list[Any], axis: int, size: int, step: int) -> Tensor:
    count = x.shape[axis]
    back = reduce_axis((0, -(-size // step)), name="back")

    def element(*place: PrimExpr) -> PrimExpr:
        window = place[axis] // step - back
        within = place[axis] - window * step
        reached = all_of(window >= 0, window < count, within < size)
        outer = [*place[:axis], window, *place[axis + 1 :], within]
        for i, extent in enumerate(x.shape[:-1]):
            if i != axis and isinstance(extent, IntImm) and extent.value == 1:
                outer[i] = const(0, outer[i].dtype)  # windows may be the same for all signals
        return te_sum(if_then_else(reached, x(*outer), const(0, x.dtype)), axis=[back])

    return compute(tuple(shape), element, name="windows")
