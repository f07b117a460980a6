"""Loss functions.

16-bit floats are computed in float32, and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from loomir.te import reduction as te
from loomir.te.scalar import if_then_else
from loomir.te.tensor import Tensor
from loomir.te.topi.index import check_place
from loomir.te.topi.loops import saturate
from loomir.te.topi.reduction import reduce_over
from loomir.te.topi.shape import (
    bad,
    compute_dtype,
    dims,
    has_equal_sizes,
    make,
    need,
    refuse_shapes,
    widen,
)
from loomir.tir.expr import Eq, PrimExpr, const
from loomir.tir.expr import cast as converted

__all__ = ["cross_entropy", "nll_loss"]

Reduction: TypeAlias = Literal["none", "sum", "mean"]


def cross_entropy(predictions: Tensor, labels: Tensor) -> Tensor:
    """Compute the cross entropy of probabilities and labels, averaged over the first axis.

    A vector is one item. Shapes: two equal ones to (). Errors: TE0101, TE0103.
    """
    need("cross_entropy", "float", predictions, labels)
    shape = dims(predictions)
    if len(shape) != labels.ndim or not all(map(has_equal_sizes, shape, dims(labels))):
        refuse_shapes("cross_entropy", shape, dims(labels))
    axes = tuple(range(len(shape)))

    def product(at: Sequence[PrimExpr], _: Sequence[PrimExpr]) -> PrimExpr:
        return widen(predictions(*at)) * widen(labels(*at))

    total: Tensor = reduce_over("cross_entropy_sum", predictions, axes, False, product, te.sum)

    def element() -> PrimExpr:
        made = total() * const(-1, total.dtype)
        if len(shape) > 1:
            made = made / converted(predictions.shape[0], total.dtype)
        return converted(made, predictions.dtype)

    result: Tensor = make("cross_entropy", [], element)
    return result


def nll_loss(
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Tensor:
    """Compute the negative log-likelihood of targets, times their weights.

    ``reduction``: each of them, their sum, or their mean, in which they count as their weights do.
    Targets of ``ignore_index`` weigh nothing; others that are no class raise (RUN0203).
    Shapes: (N, C, ...), (N, ...) and (C,), or without N and the rest, to (N, ...) or ().
    Errors: TE0101, TE0103, TE0104.
    """
    need("nll_loss", "float", predictions, *([] if weights is None else [weights]))
    need("nll_loss", "integer", targets)
    if reduction not in ("none", "sum", "mean"):
        bad("nll_loss", f"reduction is {reduction!r}", "give none, sum or mean")
    axis = min(1, predictions.ndim - 1)
    kept = [d for a, d in enumerate(dims(predictions)) if a != axis]
    fits = predictions.ndim == targets.ndim + 1 and all(map(has_equal_sizes, kept, dims(targets)))
    if not fits:
        refuse_shapes("nll_loss", dims(predictions), dims(targets))
    if weights is not None and (
        weights.ndim != 1 or not has_equal_sizes(dims(weights)[0], dims(predictions)[axis])
    ):
        refuse_shapes("nll_loss", dims(predictions), dims(weights))
    wide = compute_dtype(predictions.dtype)
    zero, one = const(0, wide), const(1, wide)

    def weight(i: Sequence[PrimExpr]) -> PrimExpr:
        target = saturate(targets(*i))
        factor = one
        if weights is not None:
            factor = converted(weights(check_place(target, predictions, axis)), wide)
        return if_then_else(Eq(target, const(ignore_index, "int64")), zero, factor)

    def loss(i: Sequence[PrimExpr]) -> PrimExpr:
        target = saturate(targets(*i))
        place = check_place(target, predictions, axis)
        value = converted(predictions(*i[:axis], place, *i[axis:]), wide) * const(-1, wide)
        if weights is not None:
            value = value * converted(weights(place), wide)
        return if_then_else(Eq(target, const(ignore_index, "int64")), zero, value)

    if reduction == "none":
        each: Tensor = make(
            "nll_loss", dims(targets), lambda *i: converted(loss(i), predictions.dtype)
        )
        return each
    axes = tuple(range(targets.ndim))
    total: Tensor = reduce_over("nll_sum", targets, axes, False, lambda at, _: loss(at), te.sum)
    if reduction == "mean":
        whole: Tensor = reduce_over(
            "nll_weights", targets, axes, False, lambda at, _: weight(at), te.sum
        )
        mean: Tensor = make("nll_loss", [], lambda: converted(total() / whole(), predictions.dtype))
        return mean
    result: Tensor = make("nll_loss", [], lambda: converted(total(), predictions.dtype))
    return result
