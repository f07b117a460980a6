"""Scaled dot product attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.compare_with_numpy import check_both
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused


def attended(q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None, causal: Any = None):
    """Attend query by query in float64."""
    dtype = q.dtype
    q, k, v = (t.astype("float64") for t in (q, k, v))
    (b, h, s, d), t, e = q.shape, k.shape[2], v.shape[3]
    shares = h // k.shape[1] if k.shape[1] else 1
    scale = max(d, 1) ** -0.5 if scale is None else scale
    made = np.zeros((b, h, s, e))
    if mask is not None:
        mask = np.broadcast_to(mask, (b, h, s, t))
    for n, head, i in np.ndindex(b, h, s):
        scores = np.array([(q[n, head, i] * k[n, head // shares, j]).sum() * scale for j in range(t)])  # fmt: skip
        if mask is not None and mask.dtype == bool:
            scores = np.where(mask[n, head, i], scores, -np.inf)
        elif mask is not None:
            scores = scores + mask[n, head, i].astype("float64")
        if causal is not None:
            last = i if causal == "top_left" else i + t - s
            scores[np.arange(t) > last] = -np.inf
        if (scores == -np.inf).all():
            continue
        weights = np.exp(scores - scores.max())
        made[n, head, i] = (weights[:, None] * v[n, head // shares]).sum(0) / weights.sum()
    return made.astype(dtype)


def tensors(
    b: int = 2,
    h: int = 2,
    g: int = 2,
    s: int = 3,
    t: int = 4,
    d: int = 5,
    e: int = 6,
    dtype: str = "float32",
):
    rng = np.random.default_rng(5)
    shapes = [(b, h, s, d), (b, g, t, d), (b, g, t, e)]
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


PARAMETERS = [
    {},
    {"scale": 0.3},
    {"causal": "top_left"},
    {"causal": "bottom_right"},
    {"causal": "bottom_right", "scale": 2.0},
]


@pytest.mark.parametrize(
    "sizes", [{}, {"s": 5, "t": 3}, {"h": 4}, {"h": 6, "g": 1}, {"b": 1, "s": 1, "t": 1, "d": 1}]
)
def test_parameters(sizes: Any):
    given = tensors(**sizes)
    cases = [(lambda *t, p=p: topi.attention(*t, **p), attended(*given, **p)) for p in PARAMETERS]
    check(given, cases, slack=1e-5)


def test_windows():
    given = tensors(b=1, s=4, t=5)
    cases = []
    for causal, shift in (("top_left", 0), ("bottom_right", 1)):
        for window in (1, 3, 9):
            i, j = np.indices((4, 5))
            mask = (j <= i + shift) & (j > i + shift - window)
            operator = lambda *t, c=causal, w=window: topi.attention(*t, causal=c, window=w)  # noqa: E731
            cases.append((operator, attended(*given, mask)))
    check(given, cases, slack=1e-5)
    first, end = np.array([0, 2, 5, 3], "int32"), np.array([5, 3, 9, 3], "int32")
    mask = (np.arange(5) >= first[:, None]) & (np.arange(5) < end[:, None])
    within = [
        (lambda q, k, v, f, e: topi.attention(q, k, v, within=(f, e)), attended(*given, mask))
    ]
    check([*given, first, end], within, slack=1e-5)


def test_heads_that_share_unknown_numbers_of_keys():
    given = tensors(b=1, h=6, g=2, s=3, t=4)
    check(given, [(topi.attention, attended(*given))], symbolic=True, slack=1e-5)
    # Four heads of keys do not divide six.
    wanted = np.zeros((1, 6, 3, 6), "float32")
    with pytest.raises(ValueError, match="RUN0212"):
        check(tensors(b=1, h=6, g=4, t=9), [(topi.attention, wanted)], symbolic=True)


def test_sequences():
    q, k, v = (t[:1].swapaxes(1, 2) for t in tensors(s=6, t=7, e=5))
    starts = [np.array(s, "int32") for s in ([1, 3, 3, 5], [0, 2, 6, 7])]
    cases = []
    for causal, window in ((None, None), ("top_left", None), ("bottom_right", 2)):
        wanted = np.zeros((1, 6, 2, 5), "float32")
        for a, b, c, d in zip(starts[0], starts[0][1:], starts[1], starts[1][1:]):
            i, j = np.indices((b - a, d - c))
            last = i + (d - c - b + a if causal == "bottom_right" else 0)
            mask = np.ones(i.shape, bool) if causal is None else j <= last
            mask &= j > last - (window or 99)
            parts = [t.swapaxes(1, 2) for t in (q[:, a:b], k[:, c:d], v[:, c:d])]
            wanted[:, a:b] = attended(*parts, mask).swapaxes(1, 2)
        operator = lambda *t, c=causal, w=window: topi.attention_var_len(*t, causal=c, window=w)  # noqa: E731
        cases.append((operator, wanted))
    check([q, k, v, *starts], cases, slack=1e-5)


def test_masks():
    given = tensors(h=4)
    rng = np.random.default_rng(7)
    shapes = [(2, 4, 3, 4), (3, 4), (2, 1, 1, 4), (4,), ()]
    for masks in (
        [rng.standard_normal(s).astype("float32") for s in shapes],
        [np.asarray(rng.random(s) < 0.6) for s in shapes],
    ):
        cases = []
        for number, mask in enumerate(masks):
            for causal in (None, "top_left"):
                expected = attended(*given, mask, causal=causal)
                operator = lambda *t, n=number, c=causal: topi.attention(*t[:3], t[3 + n], causal=c)  # noqa: E731
                cases.append((operator, expected))
        check([*given, *masks], cases, slack=1e-5)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float64"], ids=str)
def test_dtypes(dtype: Any):
    given = tensors(1, 2, 1, 2, 3, 2, 2, dtype=dtype)
    bias = np.array([0, 1, -np.inf], dtype)
    cases = [(lambda *t: topi.attention(*t[:3]), attended(*given))]
    cases.append((topi.attention, attended(*given, bias)))
    check_both([*given, bias], cases)


def test_queries_that_see_nothing():
    given = tensors(1, 1, 1, 3, 2, 2, 2)
    hidden = np.array([[True, True], [False, False], [False, True]])
    least = np.where(hidden, 0, -np.inf).astype("float32")
    check_both(
        [*given, hidden, least],
        [
            (lambda *t: topi.attention(*t[:4]), attended(*given, hidden)),
            (lambda *t: topi.attention(*t[:3], t[4]), attended(*given, least)),
            (lambda *t: topi.attention(*t[:3], causal="bottom_right"), attended(*given, causal="bottom_right")),
        ],
        slack=1e-5,
    )  # fmt: skip


def test_special_values():
    q, k, v = tensors(1, 1, 1, 3, 3, 2, 2)
    q[0, 0, 0, 0] = np.nan
    k[0, 0, 1] = 1e30
    q[0, 0, 2], v[0, 0, 2, 1] = 1e30, np.inf
    with np.errstate(all="ignore"):
        check_both([q, k, v], [(lambda *t: topi.attention(*t, scale=1.0), exactly(q, k, v))])


def exactly(q: Any, k: Any, v: Any):
    """Attend in float32, whose products overflow to infinities."""
    scores = (q[..., :, None, :] * k[..., None, :, :]).sum(-1, dtype="float32")
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights[..., None] * v[..., None, :, :]).sum(-2) / weights.sum(-1)[..., None]


@pytest.mark.parametrize("sizes", [{"b": 0}, {"t": 0}, {"s": 0}, {"e": 0}, {"d": 0}])
def test_empty(sizes: Any):
    given = tensors(**sizes)
    check_both(given, [(topi.attention, attended(*given))], slack=1e-5)


def test_positions_before_heads():
    given = tensors(h=4)
    swapped = [np.ascontiguousarray(t.swapaxes(1, 2)) for t in given]
    mask = np.random.default_rng(0).random((4, 1, 4)) < 0.7
    expected = attended(*given, mask, causal="top_left").swapaxes(1, 2)
    check(
        [*swapped, mask],
        [(lambda *t: topi.attention(*t, causal="top_left", layout="BSHD"), expected)],
        slack=1e-5,
    )


@pytest.mark.parametrize("sizes", [{"s": 7, "t": 4}, {"b": 8, "s": 3, "t": 9}])
def test_symbolic_shapes(sizes: Any):
    given = tensors(**{"h": 1, "g": 1, **sizes})
    cases = [(lambda *t, p=p: topi.attention(*t, **p), attended(*given, **p)) for p in PARAMETERS]
    check(given, cases, symbolic=True, slack=1e-5)


def test_symbolic_shapes_interpreted():
    given = tensors(1, 1, 1, 2, 3, 4, 5)
    cases = [(lambda *t: topi.attention(*t, causal="bottom_right"), attended(*given, causal="bottom_right"))]  # fmt: skip
    check_both(given, cases, symbolic=True, slack=1e-5)


def test_mistakes():
    q, k = te.placeholder((1, 4, 3, 8)), te.placeholder((1, 2, 5, 8))
    with refused("TE0101", "attention", "test_attention.py"):
        topi.attention(q, k, te.placeholder((1, 2, 6, 8)))
    with refused("TE0101", "(1, 3, 5, 8)"):
        topi.attention(q, te.placeholder((1, 3, 5, 8)), te.placeholder((1, 3, 5, 8)))
    with refused("TE0101", "(7, 5)", "test_attention.py"):
        topi.attention(q, k, k, te.placeholder((7, 5)))
    with refused("TE0101", "(1, 1, 1, 3, 5)"):
        topi.attention(q, k, k, te.placeholder((1, 1, 1, 3, 5)))
    with refused("TE0103", "float32 and int32"):
        topi.attention(q, k, k, te.placeholder((3, 5), "int32"))
    with refused("TE0103", "attention takes floats"):
        topi.attention(*[te.placeholder((1, 1, 1, 1), "int32")] * 3)
    with refused("TE0104", "'left'"):
        topi.attention(q, k, k, causal="left")
    with refused("TE0104", "4 axes"):
        topi.attention(te.placeholder((3, 8)), k, k)
    with refused("TE0104", "'BSH' is not a layout"):
        topi.attention(q, k, k, layout="BSH")
