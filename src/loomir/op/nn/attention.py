"""Scaled dot-product attention.

Tensors have the axes (batch, position, head, feature). 16-bit floats are computed in float32, and
rounded once.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from loomir.ir.op import Op
from loomir.op.rules.arguments import (
    as_floats,
    format_dim,
    integers,
    must_equal,
    need_rank,
    number_of,
)
from loomir.relax.expr import Call
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import Param, integer, number, tensor, text
from loomir.relax.operator.reference import NPArray, xp
from loomir.relax.operator.rules import common_device, common_dtype, need
from loomir.relax.shape import as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import InternalError
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import dims, has_equal_sizes
from loomir.tir.expr import FloorMod, PrimExpr

__all__ = ["attention", "attention_bias", "attention_var_len"]

T = TensorSample
_MASKS = {"TopLeft": "top_left", "BottomRight": "bottom_right"}
_OPTIONS: tuple[Param, ...] = (
    number("scale", None),
    text("causal_mask", None, tuple(_MASKS)),
    integer("window_size", None),
)


# -- inference -----------------------------------------------------------------------------------
def _infer_mixed(c: OpContext) -> TensorStructInfo:
    """Describe what a query, keys and values make."""
    infos = [need_rank(c, index, 4) for index in range(3)]
    dtype = common_dtype(c, (0, 1, 2))
    need(c, "float", dtype)
    window = c["window_size"]
    if window is not None and (window < 1 or c["causal_mask"] is None):
        c.refuse(
            "OPS0065",
            f"window_size is {window}, and causal_mask {c['causal_mask']}",
            help="give a window of 1 or more, and a mask that says where it ends, such as"
            ' causal_mask="BottomRight"',
        )
    query, key, value = (info.dims for info in infos)
    if key is not None and value is not None:
        must_equal(c, key[0], value[0], "the batches of keys and values", arg=2)
        must_equal(c, key[1], value[1], "the positions of keys and values", arg=2)
        must_equal(c, key[2], value[2], "the heads of keys and values", arg=2)
    if query is not None and key is not None:
        must_equal(c, query[0], key[0], "the batches of queries and keys", arg=1)
        must_equal(c, query[3], key[3], "the features of queries and keys", arg=1)
        _shares(c, query[2], key[2])
    device = common_device(c, (0, 1, 2))
    if query is None or value is None:
        return TensorStructInfo(None, dtype, device, 4)
    shaped = c.make([*query[:3], value[3]], dtype)
    return TensorStructInfo(shaped.shape, dtype, device)


def _shares(c: OpContext, heads: PrimExpr, groups: PrimExpr) -> None:
    """Check that heads of queries can share those of keys. Errors: OPS0066."""
    if number_of(groups) is None or number_of(heads) is None or number_of(heads) == 0:
        return
    if number_of(groups) == 0 or number_of(c.analyzer.simplify(FloorMod(heads, groups))):
        c.refuse(
            "OPS0066",
            f"{format_dim(heads)} heads of queries do not share {format_dim(groups)} heads of keys",
            help="give as many heads of keys, or a number that divides those of queries",
            arg=1,
        )


def _infer(c: OpContext) -> StructInfo:
    made = _infer_mixed(c)
    if not c.has(3):
        return made
    bias = need_rank(c, 3, 4)
    common_dtype(c, (0, 3))
    key = c.tensor(1).dims
    query = c.tensor(0).dims
    if bias.dims is not None and query is not None and key is not None:
        wanted = (query[0], query[2], query[1], key[1])
        for axis, (given, whole) in enumerate(zip(bias.dims, wanted, strict=True)):
            if c.equal(given, whole) is False and c.equal(given, 1) is False:
                c.refuse(
                    "OPS0008",
                    f"axis {axis} of the bias has extent {format_dim(given)},"
                    f" not {format_dim(whole)} or 1",
                    help="give a bias of axes (batch, head, position of queries, position of keys)",
                    arg=3,
                )
    return made


# -- lowering ------------------------------------------------------------------------------------
def _fit(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values of certainly fitting extents."""
    batch, _, _, features = dims(query)
    _, positions, groups, _ = dims(key)
    keys = topi.assume_shape(key, [batch, positions, groups, features])
    return keys, topi.assume_shape(value, [batch, positions, groups, dims(value)[3]])


def _lower(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    *,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Tensor:
    key, value = _fit(query, key, value)
    if bias is not None:
        q, k = dims(query), dims(key)
        shape = [q[0], q[2], q[1], k[1]]
        fits = (d == 1 or has_equal_sizes(d, w) for d, w in zip(dims(bias), shape, strict=True))
        bias = bias if all(fits) else topi.assume_broadcast(bias, shape)
    causal: Any = None if causal_mask is None else _MASKS[causal_mask]
    return topi.attention(query, key, value, bias, scale, causal, "BSHD", window_size)


def _lower_var_len(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    seqstart_q: Tensor,
    max_seqlen_q: Tensor | None = None,
    seqstart_k: Tensor | None = None,
    max_seqlen_k: Tensor | None = None,
    *,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Tensor:
    queries = topi.assume_shape(queries, [1, *dims(queries)[1:]])
    keys, values = _fit(queries, keys, values)
    if seqstart_k is None:
        seqstart_k = seqstart_q
    starts = topi.cast(topi.assume_shape(seqstart_k, dims(seqstart_q)), seqstart_q.dtype)
    causal: Any = None if causal_mask is None else _MASKS[causal_mask]
    return topi.attention_var_len(
        queries, keys, values, seqstart_q, starts, scale, causal, window_size
    )


# -- references ----------------------------------------------------------------------------------
def _attend(q: Any, k: Any, v: Any, bias: Any, scale: float | None, mask: Any, window: Any) -> Any:
    """Attend with one head of one item, in float64: ``(S, D), (T, D), (T, E)`` to ``(S, E)``."""
    factor = max(q.shape[1], 1) ** -0.5 if scale is None else scale
    scores = q @ k.T * factor
    if bias is not None:
        scores = scores + bias
    s, t = xp.arange(q.shape[0])[:, None], xp.arange(k.shape[0])
    if mask is not None:
        last = s if mask == "TopLeft" else s + k.shape[0] - q.shape[0]
        seen = t <= last
        if window is not None:
            seen &= t > last - window
        scores = xp.where(seen, scores, -np.inf)
    most = xp.max(scores, axis=1, keepdims=True, initial=-np.inf)
    weights = xp.exp(scores - xp.where(most == -np.inf, 0.0, most))
    total = weights.sum(axis=1, keepdims=True)
    return xp.where(total == 0, 0.0, weights @ v / xp.where(total == 0, 1.0, total))


def _heads(query: Any, key: Any, value: Any) -> Any:
    """Go through items and heads, with the places of each in queries, and in keys and values."""
    shares = max(query.shape[2] // max(key.shape[2], 1), 1)
    for item, head in product(range(query.shape[0]), range(query.shape[2])):
        yield (item, slice(None), head), (item, slice(None), head // shares)


def _attention(
    query: NPArray,
    key: NPArray,
    value: NPArray,
    bias: NPArray | None = None,
    *,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> NPArray:
    q, k, v = (xp.asarray(t, "float64") for t in (query, key, value))
    made = xp.zeros((*q.shape[:3], v.shape[3]))
    if bias is not None:
        shape = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
        bias = xp.broadcast_to(bias.astype("float64"), shape)
    for mine, shared in _heads(q, k, v):
        own = None if bias is None else bias[mine[0], mine[2]]
        made[mine] = _attend(q[mine], k[shared], v[shared], own, scale, causal_mask, window_size)
    return made.astype(query.dtype)


def _attention_var_len(
    queries: NPArray,
    keys: NPArray,
    values: NPArray,
    seqstart_q: NPArray,
    max_seqlen_q: NPArray | None = None,
    seqstart_k: NPArray | None = None,
    max_seqlen_k: NPArray | None = None,
    *,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> NPArray:
    q, k, v = (xp.asarray(t, "float64") for t in (queries, keys, values))
    made = xp.zeros((*q.shape[:3], v.shape[3]))
    starts = seqstart_q.tolist()
    others = starts if seqstart_k is None else seqstart_k.tolist()
    for i in range(len(starts) - 1):
        mine, theirs = slice(starts[i], starts[i + 1]), slice(others[i], others[i + 1])
        for (item, _, head), (_, _, shared) in _heads(q, k, v):
            parts = q[item, mine, head], k[item, theirs, shared], v[item, theirs, shared]
            made[item, mine, head] = _attend(*parts, None, scale, causal_mask, window_size)
    return made.astype(queries.dtype)


# -- definitions ---------------------------------------------------------------------------------
_DOC = """Compute attention, a mean of values weighted by keys: ``softmax(q k^T * scale{bias}) v``.

``scale``: by default 1 / sqrt(features). ``causal_mask``: query i sees keys up to i
(``"TopLeft"``), or the last query sees all keys and each earlier one sees one less
(``"BottomRight"``); with ``window_size`` only so many of the last ones. If there are more query
heads than key heads, neighbouring heads share keys. For a query that sees no key, the result is 0.
Shapes: (B, S, H, D), (B, T, G, D), (B, T, G, E){shape} to (B, S, H, E), where G divides H."""
_BIASED = {
    "bias": " + bias",
    "shape": ", and a bias that broadcasts to (B, H, S, T),",
}
_NEAR: dict[str, Any] = {"ulps": 8, "absolute": 1e-5}
_HALF: dict[str, Any] = {"ulps": 2, "absolute": 1e-4}
_Q, _K, _V = T((2, 3, 2, 4)), T((2, 5, 2, 4)), T((2, 5, 2, 3))
_SHARED = T((1, 3, 4, 2), "float16"), T((1, 2, 2, 2), "float16"), T((1, 2, 2, 2), "float16")
_BIAS = T((2, 2, 3, 5))
_WRONG = (
    Mistake((_Q, T((2, 5, 2, 3)), _V), {}, "OPS0032"),
    Mistake((_Q, _K, T((2, 4, 2, 3))), {}, "OPS0032"),
    Mistake((_Q, T((2, 5, 3, 4)), T((2, 5, 3, 3))), {}, "OPS0066"),
    Mistake((_Q, _K, T((2, 5, 2))), {}, "OPS0030"),
    Mistake((_Q, _K, T((2, 5, 2, 3), "float64")), {}, "OPS0006"),
    Mistake((_Q, _K, _V), {"causal_mask": "Bottom"}, "OPS0002"),
    Mistake((_Q, _K, _V), {"window_size": 2}, "OPS0065"),
)
_BIAS_SAMPLES = (
    Sample((_Q, _K, _V, _BIAS), **_NEAR),
    Sample((_Q, _K, _V, T((1, 2, 1, 5))), {"causal_mask": "BottomRight"}, **_NEAR),
    Sample((_Q, _K, _V, T((2, 1, 3, 5))), {"scale": 0.5}, **_NEAR),
    Sample((*_SHARED, T((1, 1, 3, 2), "float16")), **_HALF),
)
_BIAS_MISTAKES = (
    Mistake((_Q, _K, _V, T((2, 2, 3, 4))), {}, "OPS0008"),
    Mistake((_Q, _K, _V, T((3, 5))), {}, "OPS0030"),
    Mistake((_Q, _K, _V, T((2, 2, 3, 5), "float64")), {}, "OPS0006"),
    Mistake((_Q, _K, _V, T((2, 2, 3, 5), "bool")), {}, "OPS0006"),
)


def _with_bias(call: Call) -> Call:
    """Return a call with a bias the operator that has one."""
    if len(call.args) < 4:
        return call
    found = Op.get("relax.nn.attention_bias")
    if found is None:
        raise InternalError("there is no operator attention_bias")
    return Call(found, call.args, call.sinfo_args, call.attrs, span=call.span)


attention_bias = define_op(
    "nn.attention_bias",
    tensor("query"),
    tensor("key"),
    tensor("value"),
    tensor("bias"),
    *_OPTIONS,
    infer=_infer,
    doc=_DOC.format(**_BIASED),
    family="attention",
    adapt=as_floats("scale"),
    lower=_lower,
    reference=_attention,
    samples=_BIAS_SAMPLES,
    mistakes=(*_BIAS_MISTAKES, Mistake((_Q, _K, _V), {}, "OPS0001")),
)
attention = define_op(
    "nn.attention",
    tensor("query"),
    tensor("key"),
    tensor("value"),
    tensor("bias", None),
    *_OPTIONS,
    infer=_infer,
    doc=_DOC.format(**_BIASED),
    family="attention",
    adapt=as_floats("scale"),
    lower=_lower,
    reference=_attention,
    normalize=_with_bias,
    samples=(
        Sample((_Q, _K, _V), **_NEAR),
        Sample((_Q, _K, _V), {"causal_mask": "TopLeft"}, **_NEAR),
        Sample((_K, _Q, T((2, 3, 2, 1))), {"causal_mask": "BottomRight", "scale": 2}, **_NEAR),
        Sample((_Q, _K, _V), {"causal_mask": "BottomRight", "window_size": 2}, **_NEAR),
        Sample(_SHARED, **_HALF),
        Sample((T((1, 2, 1, 0)), T((1, 3, 1, 0)), T((1, 3, 1, 2))), **_NEAR),
        Sample((_Q, T((2, 0, 2, 4)), T((2, 0, 2, 3)))),
        _BIAS_SAMPLES[0],
    ),
    mistakes=(*_WRONG, *_BIAS_MISTAKES),
)


# -- sequences of various lengths ----------------------------------------------------------------
def _infer_var_len(c: OpContext) -> StructInfo:
    made = _infer_mixed(c)
    query = c.tensor(0).dims
    if query is not None:
        must_equal(c, query[0], as_dim(1), "the number of batches, and that of one batch,", arg=0)
    starts = [integers(c, index) for index in (3, 5) if c.has(index)]
    for index in (3, 5):
        if c.has(index):
            need_rank(c, index, 1)
            given = c.tensor(index).dims
            if given is not None and number_of(given[0]) == 0:
                c.refuse(
                    "OPS0013",
                    f"argument {index + 1} has no element",
                    help="give the start of each sequence, and after them the end of the last",
                    arg=index,
                )
    for index in (4, 6):
        if c.has(index):
            integers(c, index)
            need_rank(c, index, 0)
    if len(starts) > 1 and starts[0].dims is not None and starts[1].dims is not None:
        must_equal(c, starts[0].dims[0], starts[1].dims[0], "the numbers of starts", arg=5)
    return made


def _rank(value: Any) -> int:
    info = getattr(value, "struct_info_annotation", None)
    return info.ndim if isinstance(info, TensorStructInfo) else -1


def _reorder_starts(given: dict[str, Any]) -> dict[str, Any]:
    """Accept both starts first, as TVM writes them; it reads them in the other order, as we do."""
    made = as_floats("scale")(given)
    first, second = made.get("max_seqlen_q"), made.get("seqstart_k")
    if _rank(first) == 1 and _rank(second) == 0:
        made.update(seqstart_k=first, max_seqlen_q=second)
    return made


_TQ, _TK = T((1, 6, 2, 3)), T((1, 7, 2, 3))
_STARTS = T((4,), "int32", values=[0, 2, 2, 5])
_OTHERS = T((4,), "int32", values=[0, 3, 4, 7])
_MOST = T((), "int32", values=3)
attention_var_len = define_op(
    "nn.attention_var_len",
    tensor("queries"),
    tensor("keys"),
    tensor("values"),
    tensor("seqstart_q"),
    tensor("max_seqlen_q", None),
    tensor("seqstart_k", None),
    tensor("max_seqlen_k", None),
    *_OPTIONS,
    infer=_infer_var_len,
    doc="""Compute attention within each of several packed sequences.

``seqstart_q`` and ``seqstart_k`` have the start of each sequence, in ascending order, followed by
the end of the last one; by default, keys start where queries do. ``max_seqlen_q`` and
``max_seqlen_k`` are the greatest lengths, which are not used. Options are as in ``R.nn.attention``,
within each sequence. For a query outside of all sequences, the result is 0. Shapes: (1, S, H, D),
(1, T, G, D), (1, T, G, E) to (1, S, H, E), where G divides H.""",
    family="attention",
    adapt=_reorder_starts,
    lower=_lower_var_len,
    reference=_attention_var_len,
    samples=(
        Sample((_TQ, _TQ, _TQ, _STARTS, _MOST), **_NEAR),
        Sample((_TQ, _TK, _TK, _STARTS, _MOST, _OTHERS, _MOST), **_NEAR),
        Sample(
            (_TQ, _TK, _TK, _STARTS, _MOST, _OTHERS),
            {"causal_mask": "BottomRight", "window_size": 2},
            **_NEAR,
        ),
        Sample((_TQ, _TQ, _TQ, _STARTS), {"causal_mask": "TopLeft", "scale": 1}, **_NEAR),
        Sample((*(T((1, 6, 2, 3), "float16"),) * 3, T((2,), "int64", values=[1, 4])), **_HALF),
    ),
    mistakes=(
        Mistake((_TQ, _TQ, _TQ, T((4,))), {}, "OPS0007"),
        Mistake((_TQ, _TQ, _TQ, T((2, 2), "int32")), {}, "OPS0030"),
        Mistake((_TQ, _TQ, _TQ, T((0,), "int32")), {}, "OPS0013"),
        Mistake((_Q, _Q, _Q, _STARTS), {}, "OPS0032"),
        Mistake((_TQ, _TQ, _TQ, _STARTS, _MOST, T((3,), "int32")), {}, "OPS0032"),
    ),
)
