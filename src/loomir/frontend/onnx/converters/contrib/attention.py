"""Attention operators of com.microsoft, with masks, key-value caches and rotary embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from loomir import op, te
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import MICROSOFT, Row, row
from loomir.relax.expr import TupleGetItem
from loomir.relax.node import RelaxExpr
from loomir.relax.shape import ShapeExpr
from loomir.te import Tensor

_FILTER: Final = -10000.0
"""What is added to the score of a key that is masked, unless a node says otherwise."""

_PLAIN: Final = {
    "causal": 1,
    "k_quant_type": "NONE",
    "sliding_window_cache": 0,
    "smooth_softmax": 0,
    "softcap": 0.0,
    "v_quant_type": "NONE",
}
"""The variants of GroupQueryAttention that are imported, by their attributes."""


# -- heads ---------------------------------------------------------------------------------------
def _split_heads(node: Node, x: RelaxExpr, heads: int) -> RelaxExpr:
    """Return (B, S, H * D) as (B, S, H, D)."""
    batch, length, features = node.dims_of(x)
    return node.emit(op.reshape(x, (batch, length, heads, node.simplify(features // heads))))


def _join_heads(node: Node, x: RelaxExpr) -> RelaxExpr:
    batch, length, heads, features = node.dims_of(x)
    return op.reshape(x, (batch, length, node.simplify(heads * features)))


def _exchange(node: Node, x: RelaxExpr) -> RelaxExpr:
    """Exchange the axes of heads and of positions."""
    return node.emit(op.permute_dims(x, [0, 2, 1, 3]))


def _part(node: Node, x: RelaxExpr, axis: int, start: Any, end: Any) -> RelaxExpr:
    return node.emit(op.strided_slice(x, [axis], [start], [end]))


def _scale(node: Node) -> float | None:
    scale = float(node.get("scale", 0.0))
    return scale or None


def _causal(node: Node) -> str | None:
    return "BottomRight" if node.get("unidirectional", 0) else None


def _parts(node: Node, x: RelaxExpr, axis: int, sizes: Sequence[Any]) -> list[RelaxExpr]:
    """Split an axis into parts of the given sizes: of queries, keys and values."""
    ends = list(accumulate(sizes))
    return [_part(node, x, axis, s, e) for s, e in zip([0, *ends], ends)]


# -- masks ---------------------------------------------------------------------------------------
def _mask_bias(node: Node, index: int, dtype: str, queries: Any, keys: Any) -> RelaxExpr | None:
    """Return what a mask adds to the scores, of a shape that broadcasts to (B, H, S, T)."""
    if not node.has(index):
        return None
    dims = node.dims(index)
    batch = node.dims(0)[0]
    if len(dims) == 1:
        shown = _show_within_lengths(node, index, batch, keys)
    else:
        shown = node.emit(op.not_equal(node[index], constant(0, node.dtype(index))))
        if len(dims) == 4:
            shown = _part(node, shown, 2, keys - queries, keys)
            shown = _part(node, shown, 3, 0, keys)
        else:
            middle = [1, 1] if len(dims) == 2 else [1, dims[1]]
            shown = node.emit(op.reshape(shown, (dims[0], *middle, dims[-1])))
    least = -65504.0 if dtype == "float16" else -3e38
    low = max(float(node.get("mask_filter_value", _FILTER)), least)
    return node.emit(op.where(shown, constant(0, dtype), constant(low, dtype)))


def _show_within_lengths(node: Node, index: int, batch: Any, keys: Any) -> RelaxExpr:
    """Tell which keys lie before the end of each item, and from its start on where it has one."""
    count = node.dims(index)[0]
    ends = node[index]
    starts = None
    if not _is_same(node, count, batch):
        if not _is_same(node, count, 2 * batch):
            raise node.refuse("its mask_index has neither batch_size nor 2 * batch_size elements")
        starts = _part(node, ends, 0, batch, 2 * batch)
        ends = _part(node, ends, 0, 0, batch)
    places = node.emit(op.arange(0, keys, 1, node.dtype(index)))
    column = (batch, 1, 1, 1)
    shown = node.emit(op.less(places, node.emit(op.reshape(ends, column))))
    if starts is None:
        return shown
    after = node.emit(op.greater_equal(places, node.emit(op.reshape(starts, column))))
    return node.emit(op.logical_and(shown, after))


def _is_same(node: Node, a: Any, b: Any) -> bool:
    difference = node.simplify(a - b)
    return isinstance(difference, int) and difference == 0


def _total(node: Node, *parts: RelaxExpr | None) -> RelaxExpr | None:
    given = [p for p in parts if p is not None]
    total = given[0] if given else None
    for part in given[1:]:
        assert total is not None
        total = node.emit(op.add(total, part))
    return total


def _attend(
    node: Node,
    query: RelaxExpr,
    key: RelaxExpr,
    value: RelaxExpr,
    bias: RelaxExpr | None,
) -> RelaxExpr:
    """Attend in the layout (B, S, H, D), and give (B, S, H * E)."""
    made = op.nn.attention(query, key, value, bias, _scale(node), _causal(node))
    return _join_heads(node, node.emit(made))


# -- operators -----------------------------------------------------------------------------------
def _attention(node: Node) -> list[Any]:
    if node.get("past_present_share_buffer", 0) or node.get("do_rotary", 0):
        raise node.refuse("do_rotary and past_present_share_buffer are not supported")
    heads = int(node.get("num_heads", 0))
    total = node.dims(1)[1]
    sizes = [int(v) for v in node.get("qkv_hidden_sizes", ())] or [total // 3] * 3
    made = node.emit(op.matmul(node[0], node[1]))
    if node.has(2):
        made = node.emit(op.add(made, node[2]))
    parts = _parts(node, made, 2, sizes)
    query, key, value = (_split_heads(node, p, heads) for p in parts)
    present = None
    if node.has(4) or node.wants(1):
        key, value, present = _with_past(node, 4, key, value)
    queries, keys = node.dims_of(query)[1], node.dims_of(key)[1]
    mask = _mask_bias(node, 3, node.dtype(0), queries, keys)
    bias = _total(node, node[5] if node.has(5) else None, mask)
    return [_attend(node, query, key, value, bias), present][: node.wanted]


def _with_past(
    node: Node, past: int, key: RelaxExpr, value: RelaxExpr
) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    """Put keys and values of earlier calls, (2, B, H, P, D), before those of this one."""
    made: list[RelaxExpr] = []
    kept: list[RelaxExpr] = []
    for i, x in enumerate((key, value)):
        grown = _exchange(node, x)
        if node.has(past):
            before = node.emit(op.squeeze(_part(node, node[past], 0, i, i + 1), [0]))
            grown = node.emit(op.concat([before, grown], 2))
        kept.append(grown)
        made.append(_exchange(node, grown))
    return made[0], made[1], node.emit(op.stack(kept, 0))


def _multi_head_attention(node: Node) -> list[Any]:
    if any(node.has(i) for i in (8, 9)) or node.wants(3):
        raise node.refuse(
            "a shared buffer of past keys and values, and the output qk, are not supported"
        )
    heads = int(node.get("num_heads", 0))
    query, key, value = _three(node, heads)
    if node.has(3):
        key_is_new = node.rank(1) == 3 if node.has(1) else True
        widths = [node.dims_of(x)[2] * node.dims_of(x)[3] for x in (query, key, value)]
        shifts = _parts(node, node[3], 0, widths)
        shaped = [
            node.emit(op.reshape(s, (heads, node.dims_of(x)[3])))
            for s, x in zip(shifts, (query, key, value))
        ]
        query = node.emit(op.add(query, shaped[0]))
        if key_is_new:
            key = node.emit(op.add(key, shaped[1]))
            value = node.emit(op.add(value, shaped[2]))
    present: list[Any] = [None, None]
    for i, past in enumerate((6, 7)):
        if node.has(past) or node.wants(1 + i):
            grown = _exchange(node, (key, value)[i])
            if node.has(past):
                grown = node.emit(op.concat([node[past], grown], 2))
            present[i] = grown
            key, value = (key, _exchange(node, grown)) if i else (_exchange(node, grown), value)
    queries, keys = node.dims_of(query)[1], node.dims_of(key)[1]
    mask = _mask_bias(node, 4, node.dtype(0), queries, keys)
    bias = _total(node, node[5] if node.has(5) else None, mask)
    return [_attend(node, query, key, value, bias), *present][: node.wanted]


def _three(node: Node, heads: int) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    """Return queries, keys and values in the layout (B, S, H, D), however they are given."""
    if not node.has(1):
        parts = node.emit(op.split(node[0], 3, 3))
        given = [node.emit(op.squeeze(node.emit(TupleGetItem(parts, i)), [3])) for i in range(3)]
        return given[0], given[1], given[2]
    query = _split_heads(node, node[0], heads)
    if not node.has(2):
        parts = node.emit(op.split(node[1], 2, 3))
        given = [node.emit(op.squeeze(node.emit(TupleGetItem(parts, i)), [3])) for i in range(2)]
        return query, given[0], given[1]
    if node.rank(1) == 4:  # what another attention has kept: (B, H, T, D)
        return query, _exchange(node, node[1]), _exchange(node, node[2])
    return query, _split_heads(node, node[1], heads), _split_heads(node, node[2], heads)


# -- rotation ------------------------------------------------------------------------------------
def _rotate(node: Node, x: RelaxExpr, cosines: RelaxExpr, sines: RelaxExpr) -> RelaxExpr:
    """Rotate pairs of features of (B, S, H, D) by angles (B or 1, S, R / 2)."""
    interleaved = bool(node.get("interleaved", node.get("rotary_interleaved", 0)))
    batch, length, half = node.dims_of(cosines)
    shape = (batch, length, 1, half)
    cosine, sine = (node.emit(op.reshape(v, shape)) for v in (cosines, sines))
    features = node.dims_of(x)[3]
    rotated = x if _is_same(node, features, 2 * half) else _part(node, x, 3, 0, 2 * half)
    if interleaved:
        first, second = (
            node.emit(op.strided_slice(rotated, [3], [i], [2 * half], [2])) for i in range(2)
        )
    else:
        first, second = _part(node, rotated, 3, 0, half), _part(node, rotated, 3, half, 2 * half)
    real = node.emit(
        op.subtract(node.emit(op.multiply(first, cosine)), node.emit(op.multiply(second, sine)))
    )
    imaginary = node.emit(
        op.add(node.emit(op.multiply(first, sine)), node.emit(op.multiply(second, cosine)))
    )
    if interleaved:
        made = node.emit(op.stack([real, imaginary], 4))
        made = node.emit(op.reshape(made, tuple(node.dims_of(rotated))))
    else:
        made = node.emit(op.concat([real, imaginary], 3))
    if rotated is x:
        return made
    return node.emit(op.concat([made, _part(node, x, 3, 2 * half, features)], 3))


def _rotary_embedding(node: Node) -> RelaxExpr:
    if node.get("is_packed_batching", 0) or float(node.get("scale", 1.0)) != 1.0:
        raise node.refuse("is_packed_batching and scale are not supported")
    dims = node.dims(0)
    heads, half = int(node.get("num_heads", 0)), node.dims(2)[1]
    if len(dims) == 4:
        x, length = _exchange(node, node[0]), dims[2]
    else:
        x = _split_heads(node, node[0], heads or node.simplify(dims[2] // (2 * half)))
        length = dims[1]
    places = node[1]
    if node.rank(1) == 1:
        steps = node.emit(op.arange(0, length, 1, node.dtype(1)))
        places = node.emit(op.reshape(node.emit(op.add(steps, places)), (1, length)))
    angles = [node.emit(op.take(node[i], places, 0)) for i in (2, 3)]
    made = _rotate(node, x, angles[0], angles[1])
    return op.permute_dims(made, [0, 2, 1, 3]) if len(dims) == 4 else _join_heads(node, made)


def _group_query_attention(node: Node) -> list[Any]:
    """Attend with the cache of each item, whose lengths are known when the program runs.

    Item b has ``seqlens_k[b] + 1`` keys with those of this call; so many queries less are in the
    cache, or none where the whole sequence is given.
    """
    _refuse_variants(node)
    heads, groups = int(node.get("num_heads", 0)), int(node.get("kv_num_heads", 0))
    query, key, value = _group_heads(node, heads, groups)
    batch, length = node.dims_of(query)[:2]
    ends = node.emit(op.add(node.emit(op.reshape(node[5], (batch,))), constant(1, "int32")))
    past = node.emit(
        op.maximum(node.emit(op.subtract(ends, _length(node, length))), constant(0, "int32"))
    )
    if node.get("do_rotary", 0):
        places = _places(node, past, length)
        angles = [node.emit(op.take(node[i], places, 0)) for i in (7, 8)]
        query, key = (_rotate(node, x, angles[0], angles[1]) for x in (query, key))
    before = node.dims(3)[2] if node.has(3) else 0
    keys = node.simplify(before + length)
    grown: list[RelaxExpr] = []
    for index, x in ((3, key), (4, value)):
        fresh = _exchange(node, x)
        if node.has(index):
            fresh = node.compute(_append, node[index], fresh, past)
        grown.append(fresh)
    window = int(node.get("local_window_size", -1))
    bias: RelaxExpr = node.compute(_visible, past, ShapeExpr((length, keys)), window, node.dtype(0))
    if node.has(10):
        bias = node.emit(op.add(bias, node[10]))
    made = op.nn.attention(
        query, _exchange(node, grown[0]), _exchange(node, grown[1]), bias, _scale(node)
    )
    return [_join_heads(node, node.emit(made)), *grown][: node.wanted]


def _refuse_variants(node: Node) -> None:
    for name, plain in _PLAIN.items():
        given = node.get(name, plain)
        if given not in (plain, ""):
            raise node.refuse(f"its {name} is {given}, and only {plain} is supported")
    if node.wants(3):
        raise node.refuse("the output output_qk is not supported")
    if any(node.has(i) for i in range(11, 17)):
        raise node.refuse("inputs after attention_bias are not supported")


def _group_heads(node: Node, heads: int, groups: int) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    if node.has(1):
        query = _split_heads(node, node[0], heads)
        return query, _split_heads(node, node[1], groups), _split_heads(node, node[2], groups)
    whole = _split_heads(node, node[0], heads + 2 * groups)
    parts = _parts(node, whole, 2, (heads, groups, groups))
    return parts[0], parts[1], parts[2]


def _length(node: Node, length: Any) -> RelaxExpr:
    """Return an extent as a tensor of int32 without axes."""
    if isinstance(length, int):
        return constant(length, "int32")
    extent = node.emit(op.shape_to_tensor(ShapeExpr((length,))))
    return node.emit(op.astype(node.emit(op.squeeze(extent, [0])), "int32"))


def _places(node: Node, past: RelaxExpr, length: Any) -> RelaxExpr:
    """Return where the tokens of this call stand in their sequences, (B, S)."""
    if node.has(9):
        return node[9]
    batch = node.dims_of(past)[0]
    steps = node.emit(op.arange(0, length, 1, "int32"))
    return node.emit(op.add(node.emit(op.reshape(past, (batch, 1))), steps))


def _append(cache: Tensor, fresh: Tensor, past: Tensor) -> Tensor:
    """Put the keys of this call behind those of the cache that count, (B, H, P + S, D)."""
    batch, heads, before, features = cache.shape
    length = fresh.shape[2]

    def element(b: Any, h: Any, t: Any, d: Any) -> Any:
        at = t - past[b].astype(t.dtype)
        is_new = te.all_of(at >= 0, at < length)
        kept = te.if_then_else(t < before, cache[b, h, t, d], 0)
        return te.if_then_else(is_new, fresh[b, h, at, d], kept)

    return te.compute((batch, heads, before + length, features), element, name="cache")


def _visible(past: Tensor, shape: Any, window: int, dtype: str) -> Tensor:
    """Return 0 for the keys that a query may see, and -inf for all others: (B, 1, S, T)."""
    length, keys = shape
    low = te.const(float("-inf"), dtype)

    def element(b: Any, _: Any, s: Any, t: Any) -> Any:
        last = past[b].astype(s.dtype) + s
        seen = t <= last
        if window > 0:
            seen = te.all_of(seen, t > last - window)
        return te.if_then_else(seen, te.const(0, dtype), low)

    return te.compute((past.shape[0], 1, length, keys), element, name="visible")


ROWS: Final[tuple[Row, ...]] = (
    row("Attention", _attention, domain=MICROSOFT, note="rotation; a shared buffer"),
    row(
        "GroupQueryAttention",
        _group_query_attention,
        domain=MICROSOFT,
        note="caches that are quantised, slide or are longer than what they hold; sinks; scores",
    ),
    row(
        "MultiHeadAttention",
        _multi_head_attention,
        domain=MICROSOFT,
        note="a shared buffer; scores",
    ),
    row("RotaryEmbedding", _rotary_embedding, domain=MICROSOFT, note="packed batches; `scale`"),
)
