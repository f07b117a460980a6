"""Broadcast tensors whose shapes are known only at run time: a kernel checks and repeats them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loomir.op.rules.arguments import is_one
from loomir.relax.operator.broadcast import broadcast_extents
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import has_equal_sizes

__all__ = ["fit_lowering", "fit_shapes"]


def fit_shapes(tensors: Sequence[Tensor], inner: int = 0) -> list[Tensor]:
    """Repeat axes that turn out to have one element, where another tensor has more.

    The last ``inner`` axes of each tensor take no part; those before are aligned at their ends.
    """
    fronts = [t.shape[: max(t.ndim - inner, 0)] for t in tensors]
    rank = max(map(len, fronts))
    wanted: dict[int, Any] = {}
    for at in range(-rank, 0):
        here = [front[at] for front in fronts if len(front) >= -at]
        wanted[at] = broadcast_extents(here, has_equal_sizes)

    def fit(tensor: Tensor, front: Sequence[Any]) -> Tensor:
        count = len(front)
        shape = [d if is_one(d) else wanted[a - count] for a, d in enumerate(front)]
        return topi.assume_broadcast(tensor, [*shape, *tensor.shape[count:]])

    return [fit(*pair) for pair in zip(tensors, fronts, strict=True)]


def fit_lowering(lower: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a lowering of tensors that broadcast take those that may turn out to."""

    def fit(*operands: Any) -> Tensor:
        made = iter(fit_shapes([x for x in operands if isinstance(x, Tensor)]))
        return lower(*[next(made) if isinstance(x, Tensor) else x for x in operands])

    return fit
