"""Scaled dot product attention."""

from __future__ import annotations

from typing import Literal, TypeAlias

from loomir.te.reduction import max, reduce_axis, sum
from loomir.te.scalar import select
from loomir.te.tensor import Tensor
from loomir.te.topi.layout import places
from loomir.te.topi.loops import wide
from loomir.te.topi.shape import (
    Size,
    bad,
    broadcast_shapes,
    dims,
    equal_sizes,
    make,
    need,
    read,
    refuse_shapes,
    shown,
    widened,
)
from loomir.tir.expr import PrimExpr, cast, const, convert
from loomir.tir.op import call_builtin

__all__ = ["attention"]

Causal: TypeAlias = Literal["top_left", "bottom_right"]
_CAUSAL = ("top_left", "bottom_right")


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    causal: Causal | None = None,
    layout: str = "BHSD",
) -> Tensor:
    """Mix values by how well their keys fit each query: ``softmax(q k^T * scale + mask) v``.

    ``mask``: of bool, where it holds the key counts; of the queries' dtype, it is added. ``scale``:
    1 / sqrt(D) where it is left out. ``causal``: query i sees keys up to i (``"top_left"``), or the
    last query sees all keys and each one before it one less (``"bottom_right"``). Where there are
    more heads of queries than of keys, neighbours share keys. A query that sees no key, or all of
    whose scores are minus infinity, gives 0. Floats of 16 bits are computed in float32, and rounded
    once.
    Shapes: (B, H, S, D), (B, G, T, D), (B, G, T, E) to (B, H, S, E), where G divides H, in the
    order of ``layout``; the mask broadcasts to (B, H, S, T).
    Errors: TE0101, TE0103, TE0104.
    """
    need("attention", "float", query, key, value)
    for tensor in (query, key, value):
        if tensor.ndim != 4:
            bad("attention", f"a tensor has shape {shown(dims(tensor))}", "give tensors of 4 axes")
    if causal is not None and causal not in _CAUSAL:
        bad("attention", f"causal is {causal!r}", f"give one of {', '.join(_CAUSAL)}, or None")
    parts = _Parts(query, key, value, layout)
    scores = _scores(parts, mask, scale, causal)
    return _mix(parts, scores)


class _Parts:
    """The tensors of an attention in the order (batch, head, position, feature)."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, layout: str) -> None:
        self.tensors = (query, key, value)
        self.at = places("attention", layout, "BHSD")
        q, k, v = ([dims(t)[a] for a in self.at] for t in self.tensors)
        self.batch, self.heads, self.queries, self.features = q
        self.groups, self.keys, self.depth = k[1], k[2], v[3]
        fits = (
            all(equal_sizes(a, b) for a, b in zip(k[:3], v[:3], strict=True))
            and equal_sizes(q[0], k[0])
            and equal_sizes(q[3], k[3])
            and (self._shares() is not None or equal_sizes(self.heads, self.groups))
        )
        if not fits:
            refuse_shapes("attention", *(dims(t) for t in self.tensors))

    def _shares(self) -> int | None:
        heads, groups = self.heads, self.groups
        if not isinstance(heads, int) or not isinstance(groups, int):
            return None
        if not groups or heads % groups:
            return 1 if heads == groups else None
        return heads // groups

    def load(self, number: int, indices: list[PrimExpr]) -> PrimExpr:
        """Read from the query, the key or the value, in the dtype to compute in."""
        shares = self._shares()
        if number and shares is not None and shares > 1:
            indices[1] = indices[1] // shares
        placed = sorted(zip(self.at, indices, strict=True), key=lambda p: p[0])
        return widened(self.tensors[number](*(i for _, i in placed)))


def _scores(
    parts: _Parts, mask: Tensor | None, scale: float | None, causal: Causal | None
) -> Tensor:
    """Tell how well each key fits each query, minus infinity where it does not count."""
    shape = [parts.batch, parts.heads, parts.queries, parts.keys]
    d = reduce_axis((0, convert(parts.features)), "d")

    def product(b: PrimExpr, h: PrimExpr, s: PrimExpr, t: PrimExpr) -> PrimExpr:
        made: PrimExpr = sum(parts.load(0, [b, h, s, d]) * parts.load(1, [b, h, t, d]), d)
        return made

    products: Tensor = make("attention_products", shape, product)
    if mask is not None:
        _check_mask(parts, mask, shape)

    def score(*i: PrimExpr) -> PrimExpr:
        made = products(*i) * _scale(parts.features, scale, products)
        least = const(float("-inf"), made.dtype)
        if mask is not None and mask.dtype.is_bool:
            made = select(read(mask, i), made, least)
        elif mask is not None:
            made = made + widened(read(mask, i))
        if causal is None:
            return made
        s, t = wide(i[2]), wide(i[3])
        if causal == "bottom_right":
            s = s + (wide(parts.keys) - wide(parts.queries))
        return select(t <= s, made, least)

    scores: Tensor = make("attention_scores", shape, score)
    return scores


def _check_mask(parts: _Parts, mask: Tensor, shape: list[Size]) -> None:
    if not mask.dtype.is_bool:
        need("attention", "float", parts.tensors[0], mask)
    given = dims(mask)
    joined = broadcast_shapes("attention", given, shape) if len(given) <= 4 else []
    if not joined or any(not equal_sizes(a, b) for a, b in zip(joined, shape, strict=True)):
        refuse_shapes("attention", given, shape)


def _scale(features: Size, scale: float | None, products: Tensor) -> PrimExpr:
    if scale is not None:
        return const(scale, products.dtype)
    if isinstance(features, int):
        return const((features or 1) ** -0.5, products.dtype)
    return const(1.0, products.dtype) / call_builtin("sqrt", cast(features, products.dtype))


def _mix(parts: _Parts, scores: Tensor) -> Tensor:
    """Take the mean of values, weighed by the exponentials of scores."""
    shape = [parts.batch, parts.heads, parts.queries]
    t, u, w = (reduce_axis((0, convert(parts.keys)), name) for name in "tuw")
    top: Tensor = make("attention_top", shape, lambda *i: max(scores(*i, t), t))
    least = const(float("-inf"), scores.dtype)

    def weight(*i: PrimExpr) -> PrimExpr:
        # Where no key counts, minus infinity is not taken from itself.
        most = top(*i[:3])
        most = select(most.equal(least), const(0, most.dtype), most)
        return call_builtin("exp", scores(*i) - most)

    weights: Tensor = make("attention_weights", dims(scores), weight)
    total: Tensor = make("attention_total", shape, lambda *i: sum(weights(*i, u), u))

    def mixed(b: PrimExpr, h: PrimExpr, s: PrimExpr, e: PrimExpr) -> PrimExpr:
        made: PrimExpr = sum(weights(b, h, s, w) * parts.load(2, [b, h, w, e]), w)
        return made

    sums: Tensor = make("attention_sums", [*shape, parts.depth], mixed)
    out: list[Size] = [0] * 4
    for axis, extent in zip(parts.at, [*shape, parts.depth], strict=True):
        out[axis] = extent

    def element(*i: PrimExpr) -> PrimExpr:
        at = [i[a] for a in parts.at]
        whole = total(*at[:3])
        zero = const(0, whole.dtype)
        made = select(whole.equal(zero), zero, sums(*at) / whole)
        return cast(made, parts.tensors[0].dtype)

    result: Tensor = make("attention", out, element)
    return result
