"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Literal, TypeAlias

from loomir.te.reduction import max, reduce_axis, sum
from loomir.te.scalar import all_of, if_then_else, select
from loomir.te.tensor import Tensor
from loomir.te.topi.assume import assume_shape
from loomir.te.topi.layout import places
from loomir.te.topi.loops import greater_size, wide
from loomir.te.topi.shape import (
    Size,
    bad,
    broadcast_shapes,
    dims,
    has_equal_sizes,
    make,
    need,
    read,
    refuse_shapes,
    widen,
    write_shape,
)
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import ExprLike, Max, Min, PrimExpr, cast, const, convert

__all__ = ["attention", "attention_var_len"]

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
    window: int | None = None,
    within: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Compute attention, a mean of values weighted by keys: ``softmax(q k^T * scale + mask) v``.

    ``mask``: of bool, where it holds the key counts; of the queries' dtype, it is added. ``scale``:
    1 / sqrt(D) where it is left out. ``causal``: query i sees keys up to i (``"top_left"``), or the
    last query sees all keys and each one before it one less (``"bottom_right"``); with ``window``,
    no more than the last so many of them. ``within``: the first key that a query sees, and the one
    after the last, as integers for each query. Where there are
    more heads of queries than of keys, neighbours share keys. A query that sees no key, or all of
    whose scores are minus infinity, gives 0. Floats of 16 bits are computed in float32, and rounded
    once.
    Shapes: (B, H, S, D), (B, G, T, D), (B, G, T, E) to (B, H, S, E), where G divides H, in the
    order of ``layout``; the mask broadcasts to (B, H, S, T).
    Errors: TE0101, TE0103, TE0104; RUN0212 where G turns out not to divide H.
    """
    need("attention", "float", query, key, value)
    for tensor in (query, key, value):
        if tensor.ndim != 4:
            bad(
                "attention",
                f"a tensor has shape {write_shape(dims(tensor))}",
                "give tensors of 4 axes",
            )
    if causal is not None and causal not in _CAUSAL:
        bad("attention", f"causal is {causal!r}", f"give one of {', '.join(_CAUSAL)}, or None")
    if window is not None and (window < 1 or causal is None):
        bad(
            "attention", f"the window is {window}, causal is {causal}", "give 1 or more, and causal"
        )
    parts = _Parts(query, key, value, layout)
    scores = _scores(parts, mask, scale, causal, window, within)
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
            all(has_equal_sizes(a, b) for a, b in zip(k[:3], v[:3], strict=True))
            and has_equal_sizes(q[0], k[0])
            and has_equal_sizes(q[3], k[3])
            and self._shares() != 0
        )
        if not fits:
            refuse_shapes("attention", *(dims(t) for t in self.tensors))
        if self._shares() is None:
            # Checked where it runs; the heads stay what they are.
            whole = dims(query)
            divisor = greater_size(self.groups, 1)
            whole[self.at[1]] = self.heads // divisor * self.groups
            self.tensors = (assume_shape(query, whole), key, value)

    def _shares(self) -> int | None:
        """Count the heads of queries that share a head of keys: 0 for none, None if unknown."""
        heads, groups = self.heads, self.groups
        if has_equal_sizes(heads, groups):
            return 1
        if not isinstance(heads, int) or not isinstance(groups, int):
            return None
        return heads // groups if groups and heads % groups == 0 else 0

    def load(self, number: int, indices: list[PrimExpr]) -> PrimExpr:
        """Read from the query, the key or the value, in the dtype to compute in."""
        shares = self._shares()
        if number and shares is None:
            indices[1] = wide(indices[1]) * wide(self.groups) // wide(self.heads)
        elif number and shares != 1:
            indices[1] = indices[1] // (shares or 1)
        placed = sorted(zip(self.at, indices, strict=True), key=lambda p: p[0])
        return widen(self.tensors[number](*(i for _, i in placed)))


def _scores(
    parts: _Parts,
    mask: Tensor | None,
    scale: float | None,
    causal: Causal | None,
    window: int | None,
    within: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """Tell how well each key fits each query, minus infinity where it does not count."""
    shape = [parts.batch, parts.heads, parts.queries, parts.keys]
    d = reduce_axis((0, convert(parts.features)), "d")

    def product(b: PrimExpr, h: PrimExpr, s: PrimExpr, t: PrimExpr) -> PrimExpr:
        made: PrimExpr = sum(parts.load(0, [b, h, s, d]) * parts.load(1, [b, h, t, d]), d)
        return made

    products: Tensor = make("attention_products", shape, product)
    for bound in within or ():
        if bound.ndim != 1 or not has_equal_sizes(dims(bound)[0], parts.queries):
            refuse_shapes("attention", dims(bound), [parts.queries])
    if mask is not None:
        _check_mask(parts, mask, shape)

    def score(*i: PrimExpr) -> PrimExpr:
        made = products(*i) * _scale(parts.features, scale, products)
        least = const(float("-inf"), made.dtype)
        if mask is not None and mask.dtype.is_bool:
            made = select(read(mask, i), made, least)
        elif mask is not None:
            made = made + widen(read(mask, i))
        s, t = wide(i[2]), wide(i[3])
        seen: list[ExprLike] = []
        if within is not None:
            first, end = (bound(i[2]) for bound in within)
            seen += [t >= wide(first), t < wide(end)]
        if causal == "bottom_right":
            s = s + (wide(parts.keys) - wide(parts.queries))
        if causal is not None:
            seen.append(t <= s)
        if window is not None:
            seen.append(t > s - window)
        return select(all_of(*seen), made, least) if seen else made

    scores: Tensor = make("attention_scores", shape, score)
    return scores


def _check_mask(parts: _Parts, mask: Tensor, shape: list[Size]) -> None:
    if not mask.dtype.is_bool:
        need("attention", "float", parts.tensors[0], mask)
    given = dims(mask)
    broadcast = broadcast_shapes("attention", given, shape) if len(given) <= 4 else []
    if not broadcast or any(
        not has_equal_sizes(a, b) for a, b in zip(broadcast, shape, strict=True)
    ):
        refuse_shapes("attention", given, shape)


def _scale(features: Size, scale: float | None, products: Tensor) -> PrimExpr:
    if scale is not None:
        return const(scale, products.dtype)
    if isinstance(features, int):
        return const((features or 1) ** -0.5, products.dtype)
    return const(1.0, products.dtype) / call_builtin(
        "sqrt", cast(wide(greater_size(features, 1)), products.dtype)
    )


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

    def mix(b: PrimExpr, h: PrimExpr, s: PrimExpr, e: PrimExpr) -> PrimExpr:
        made: PrimExpr = sum(weights(b, h, s, w) * parts.load(2, [b, h, w, e]), w)
        return made

    sums: Tensor = make("attention_sums", [*shape, parts.depth], mix)
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


def attention_var_len(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    scale: float | None = None,
    causal: Causal | None = None,
    window: int | None = None,
) -> Tensor:
    """Compute attention within packed sequences, none of which sees another.

    ``query_starts`` and ``key_starts`` have the place where each sequence starts, and after them
    where the last one ends. ``causal`` and ``window`` hold within each sequence; the others are as
    in ``attention``. A query outside of all sequences gives 0.
    Shapes: (1, S, H, D), (1, T, G, D), (1, T, G, E) to (1, S, H, E), where G divides H; starts have
    one element more than there are sequences. Errors: TE0101, TE0103, TE0104.
    """
    need("attention_var_len", "integer", query_starts, key_starts)
    starts, key_shape = dims(query_starts), dims(key_starts)
    if len(starts) != 1 or len(key_shape) != 1 or not has_equal_sizes(starts[0], key_shape[0]):
        refuse_shapes("attention_var_len", starts, key_shape)
    if window is not None and (window < 1 or causal is None):
        bad(
            "attention", f"the window is {window}, causal is {causal}", "give 1 or more, and causal"
        )
    queries, sequences = dims(query)[1], starts[0] - 1
    b = reduce_axis((0, convert(sequences)), "b")

    # How many sequences end before a query: the number of its own.
    def count_before(s: PrimExpr) -> PrimExpr:
        made: PrimExpr = sum(cast(wide(query_starts(b + 1)) <= wide(s), "int64"), b)
        return made

    own: Tensor = make("attention_sequence", [queries], count_before)

    def bounds(s: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        mine = own(s)
        ends = [wide(t(mine + k)) for t in (query_starts, key_starts) for k in (0, 1)]
        start, stop, first, end = ends
        last, least = end, first
        if causal is not None:
            place = wide(s) - start + first
            if causal == "bottom_right":
                place = place + ((end - first) - (stop - start))
            last = Min(end, place + 1)
            if window is not None:
                least = Max(first, place - (window - 1))
        inside = wide(s) >= start
        return select(inside, least, wide(0)), select(inside, last, wide(0))

    def limit(number: int) -> Tensor:
        def element(s: PrimExpr) -> PrimExpr:
            known = own(s) < wide(sequences)
            return if_then_else(known, bounds(s)[number], wide(0))

        made: Tensor = make(("attention_first", "attention_end")[number], [queries], element)
        return made

    return attention(query, key, value, scale=scale, layout="BSHD", within=(limit(0), limit(1)))
