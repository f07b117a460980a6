"""Pooling over windows of images."""

from __future__ import annotations

from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.compare_with_numpy import check_both
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused


def as_list(value: Any, count: Any):
    return [value] * count if isinstance(value, int) else list(value)


def steps_of(n: Any, k: Any, s: Any, d: Any, before: Any, after: Any, ceil_mode: Any):
    """Count window by window: one fits, or starts inside."""
    count = 0
    while True:
        start, end = count * s, count * s + (k - 1) * d + 1
        fits = end <= n + before + after
        # One step beyond what fits, where it has something inside.
        more = ceil_mode and (count - 1) * s + (k - 1) * d + 1 < n + before + after
        if not fits and not (more and start < n + before):
            return count
        count += 1


def pooled(
    x: Any,
    kind: Any,
    kernel: Any,
    stride: Any = None,
    padding: int = 0,
    dilation: int = 1,
    ceil_mode: bool = False,
    include: bool = False,
):
    """Pool with direct loops, channels first."""
    nd = x.ndim - 2
    kernel, dilation = as_list(kernel, nd), as_list(dilation, nd)
    stride = kernel if stride is None else as_list(stride, nd)
    pads = as_list(padding, nd)
    pads = pads * 2 if len(pads) == nd else pads
    wide = x.astype("float64") if x.dtype.kind in "fV" else x
    sizes = x.shape[2:]
    windows = [(sizes[a], kernel[a], stride[a], dilation[a], pads[a], pads[nd + a]) for a in range(nd)]  # fmt: skip
    out = [steps_of(*w, ceil_mode) for w in windows]
    made = np.zeros((*x.shape[:2], *out), wide.dtype)
    for at in product(*map(range, out)):
        inside, counts = [], 1
        for o, (n, k, s, d, before, after) in zip(at, windows, strict=True):
            taken = [o * s + t * d - before for t in range(k)]
            inside.append([t for t in taken if 0 <= t < n])
            counts *= sum(t < n + after for t in taken) if include else len(inside[-1])
        part = wide[(slice(None), slice(None), *np.ix_(*inside))]
        axes = tuple(range(2, part.ndim))
        if kind == "max":
            made[(slice(None), slice(None), *at)] = part.max(axes)
        else:
            made[(slice(None), slice(None), *at)] = part.sum(axes) / counts
    return made.astype(x.dtype)


PARAMETERS = [
    {"kernel": 2},
    {"kernel": 3, "stride": 2},
    {"kernel": 3, "stride": 1, "padding": 1},
    {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel": 2, "stride": 3, "ceil_mode": True},
    {"kernel": 2, "stride": 2, "dilation": 2},
    {"kernel": 3, "stride": 2, "padding": 2, "dilation": 2, "ceil_mode": True},
    {"kernel": 1, "stride": 2},
]


def cases(x: Any, given: Any, avg: bool = True):
    made = [(lambda a: topi.max_pool(a, **given), pooled(x, "max", **given))]
    for include in (False, True) if avg else ():
        made.append(
            (
                lambda a, i=include: topi.avg_pool(a, **given, count_include_pad=i),
                pooled(x, "avg", **given, include=include),
            )
        )
    return made


def image(shape: Any, dtype: str = "float32"):
    return np.random.default_rng(1).integers(-9, 9, shape).astype(dtype)


@pytest.mark.parametrize("nd", [1, 2, 3])
def test_parameters(nd: int):
    shape = (2, 1, *(7, 6, 5)[:nd])
    x = image(shape)
    parameters = PARAMETERS if nd < 3 else PARAMETERS[1:7:2]
    check([x], [c for given in parameters for c in cases(x, given)])


@pytest.mark.parametrize(
    "given",
    [
        {"kernel": (3, 2), "stride": (1, 2), "padding": (1, 0)},
        {"kernel": (2, 3), "stride": (2, 1), "padding": (0, 2, 1, 0), "ceil_mode": True},
        {"kernel": (2, 3), "stride": (3, 2), "padding": (1, 1, 0, 1), "dilation": (2, 1)},
    ],
)
def test_parameters_per_axis(given: Any):
    x = image((1, 2, 6, 7))
    check_both([x], cases(x, given))


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float64", "int8", "uint8", "int64"], ids=str)  # fmt: skip
def test_dtypes(dtype: Any):
    x = image((1, 2, 5, 5)) if np.dtype(dtype).kind != "u" else np.abs(image((1, 2, 5, 5)))
    x = x.astype(dtype)
    given = {"kernel": 3, "stride": 2, "padding": 1}
    floats = np.dtype(dtype).kind in "fV"
    more = [(topi.global_max_pool, x.max((2, 3), keepdims=True))]
    if floats:
        mean = x.astype("float64").mean((2, 3), keepdims=True).astype(dtype)
        more.append((topi.global_avg_pool, mean))
    check_both([x], cases(x, given, floats) + more)


def test_special_values():
    x = image((1, 1, 4, 4))
    x[0, 0, 0, 0], x[0, 0, 3, 3], x[0, 0, 0, 3] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        check_both([x], cases(x, {"kernel": 2}) + cases(x, {"kernel": 3, "padding": 1}))
    low = np.full((1, 1, 3), -np.inf, "float32")
    check_both([low], cases(low, {"kernel": 3, "stride": 1, "padding": 1}))


@pytest.mark.parametrize("shape", [(0, 2, 4, 4), (1, 0, 4, 4), (1, 1, 2, 2)])
def test_shapes(shape: Any):
    x = image(shape)
    check_both([x], cases(x, {"kernel": 2}) + cases(x, {"kernel": 2, "stride": 1, "padding": 1}))


def adapted(x: Any, out: Any, kind: Any):
    out = as_list(out, x.ndim - 2)
    made = np.zeros((*x.shape[:2], *out), "float64")
    for at in product(*map(range, out)):
        window = [
            slice(o * n // m, ceil((o + 1) * n / m))
            for o, n, m in zip(at, x.shape[2:], out, strict=True)
        ]
        part = x[(slice(None), slice(None), *window)].astype("float64")
        axes = tuple(range(2, part.ndim))
        made[(slice(None), slice(None), *at)] = part.max(axes) if kind == "max" else part.mean(axes)
    return made.astype(x.dtype)


def adaptive(x: Any, out: Any):
    return [
        (lambda a: topi.adaptive_max_pool(a, out), adapted(x, out, "max")),
        (lambda a: topi.adaptive_avg_pool(a, out), adapted(x, out, "avg")),
    ]


@pytest.mark.parametrize("shape", [(2, 1, 7), (1, 2, 6, 5), (1, 1, 4, 3, 5)])
def test_adaptive(shape: Any):
    x = image(shape)
    sizes = [1, 2, 3, 4, 5, 9, tuple(range(1, len(shape) - 1)), shape[2:], 0]
    check([x], [c for s in sizes for c in adaptive(x, s)])


def test_adaptive_dtypes_and_specials():
    x = image((1, 2, 5), "float16")
    x[0, 0, 2], x[0, 1, 0] = np.nan, np.inf
    check_both([x], adaptive(x, 3) + adaptive(x, 1))


def test_channels_last():
    x = image((2, 5, 6, 3))
    first = np.moveaxis(x, -1, 1)
    given = {"kernel": (2, 3), "stride": 2, "padding": (1, 0)}
    made = []
    for name, operator in (("max", topi.max_pool), ("avg", topi.avg_pool)):
        expected = np.moveaxis(pooled(first, name, **given), 1, -1)
        made.append((lambda a, o=operator: o(a, **given, layout="NHWC"), expected))
    expected = np.moveaxis(adapted(first, (2, 4), "avg"), 1, -1)
    made.append((lambda a: topi.adaptive_avg_pool(a, (2, 4), "NHWC"), expected))
    made.append((lambda a: topi.global_max_pool(a, "NHWC"), x.max((1, 2), keepdims=True)))
    check([x], made)


@pytest.mark.parametrize("shape", [(2, 3, 7, 6), (0, 3, 4, 5)])
def test_symbolic_shapes(shape: Any):
    x = image(shape)
    some = PARAMETERS[2:4] + PARAMETERS[6:7]
    every = [c for given in some for c in cases(x, given)]
    every += adaptive(x, (2, 3)) + adaptive(x, 1)
    check([x], every, symbolic=True)


def test_symbolic_shapes_interpreted():
    x = image((1, 1, 5, 4))
    given = {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True}
    check_both([x], cases(x, given) + adaptive(x, 2), symbolic=True)


def test_mistakes():
    x = te.placeholder((1, 2, 4, 4), name="x")
    with refused("TE0104", "a window of 5 does not fit an axis of 4", "test_pool.py"):
        topi.max_pool(x, 5)
    with refused("TE0104", "the stride is 0", "test_pool.py"):
        topi.max_pool(x, 2, 0)
    with refused("TE0104", "padding is (1, 2, 3)"):
        topi.max_pool(x, 2, padding=(1, 2, 3))
    with refused("TE0104", "'NXYC' is not a layout"):
        topi.max_pool(x, 2, layout="NXYC")
    with refused("TE0104", "1 to 3 more axes"):
        topi.max_pool(te.placeholder((2, 3)), 2)
    with refused("TE0103", "avg_pool takes floats, not int32", "test_pool.py"):
        topi.avg_pool(te.placeholder((1, 1, 4), "int32"), 2)
    with refused("TE0104", "give 2 sizes"):
        topi.adaptive_max_pool(x, (1, 2, 3))
    with refused("TE0104", "axis 2 is empty"):
        topi.global_avg_pool(te.placeholder((1, 1, 0)))
