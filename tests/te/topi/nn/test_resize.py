"""Resizing of images."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.compare_with_numpy import check_both
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused

HALF = Fraction(1, 2)
COORDINATES = {
    "half_pixel": lambda i, n, m: (i + HALF) * Fraction(n, m) - HALF,
    "pytorch_half_pixel": lambda i, n, m: (i + HALF) * Fraction(n, m) - HALF if m > 1 else 0,
    "align_corners": lambda i, n, m: i * Fraction(n - 1, m - 1) if m > 1 else 0,
    "asymmetric": lambda i, n, m: i * Fraction(n, m),
    "tf_half_pixel_for_nn": lambda i, n, m: (i + HALF) * Fraction(n, m),
}
ROUNDINGS = {
    "round_prefer_floor": lambda p: ceil(p - HALF),
    "round_prefer_ceil": lambda p: floor(p + HALF),
    "floor": floor,
    "ceil": ceil,
}


def keys(distance: float, a: float) -> float:
    d = abs(distance)
    if d < 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def weights(method: Any, place: Any, n: Any, alpha: Any, exclude: Any):
    """Weigh the elements of an axis of ``n`` for a place on it."""
    base = floor(place)
    t = float(place - base)
    if t == 0:
        return {min(max(base, 0), n - 1): 1.0}
    near = [(k, 1 - t if k == 0 else t) for k in (0, 1)]
    if method == "cubic":
        near = [(k, keys(k - t, alpha)) for k in (-1, 0, 1, 2)]
        if exclude:
            near = [(k, w if 0 <= base + k < n else 0.0) for k, w in near]
            total = sum(w for _, w in near)
            near = [(k, w / total) for k, w in near]
    made = {}
    for k, w in near:
        at = min(max(base + k, 0), n - 1)
        made[at] = made.get(at, 0.0) + w
    return made


def along(x: Any, axis: Any, m: Any, method: Any, coordinates: str = "half_pixel", rounding: str = "round_prefer_floor", alpha: float = -0.75, exclude: bool = False):  # fmt: skip
    n = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = m
    made = np.zeros(shape, x.dtype)
    for i in range(m):
        place = Fraction(COORDINATES[coordinates](i, n, m))
        out = [slice(None)] * x.ndim
        out[axis] = i
        if method == "nearest":
            at = min(max(ROUNDINGS[rounding](place), 0), n - 1)
            made[tuple(out)] = x.take(at, axis)
            continue
        for at, w in weights(method, place, n, alpha, exclude).items():
            made[tuple(out)] += x.take(at, axis) * w
    return made


def resized(x: Any, size: Any, method: Any, axes: Any = (2, 3), **given: Any):
    wide = x if method == "nearest" else x.astype("float64")
    for axis, m in zip(axes, (size, size) if isinstance(size, int) else size, strict=True):
        wide = along(wide, axis, m, method, **given)
    if method != "nearest" and x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        wide = np.clip(np.round(wide), limits.min, limits.max)
    return wide.astype(x.dtype)


def image(shape: Any, dtype: str = "float32"):
    return np.random.default_rng(3).integers(0, 9, shape).astype(dtype)


SIZES = [(3, 4), (9, 7), (5, 6), (1, 1), (10, 3), (1, 12), 0]


@pytest.mark.parametrize("coordinates", list(COORDINATES))
def test_coordinates(coordinates: str):
    x = image((1, 2, 5, 6))
    cases = []
    for size in SIZES:
        for method in ("linear", "cubic"):
            expected = resized(x, size, method, coordinates=coordinates)
            cases.append((lambda a, s=size, m=method: topi.resize2d(a, s, m, coordinates), expected))  # fmt: skip
        for rounding in ROUNDINGS:
            given = {"coordinates": coordinates, "rounding": rounding}
            expected = resized(x, size, "nearest", **given)
            cases.append((lambda a, s=size, g=given: topi.resize2d(a, s, "nearest", **g), expected))  # fmt: skip
    check([x], cases, slack=2e-5)


def test_kernels_of_cubic():
    x = image((1, 1, 4, 5))
    given = [{"alpha": -0.5}, {"exclude": True}, {"alpha": -0.6, "exclude": True}]
    cases = []
    for g in given:
        ours = {f"cubic_{k}": v for k, v in g.items()}
        expected = resized(x, (7, 3), "cubic", **g)
        cases.append((lambda a, o=ours: topi.resize2d(a, (7, 3), "cubic", **o), expected))
    check_both([x], cases, slack=2e-5)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float64", "int8", "uint8", "int32"], ids=str)  # fmt: skip
def test_dtypes(dtype: Any):
    x = (image((1, 1, 4, 3)) * 15).astype(dtype)
    # Twice the size makes weights that are exact, so that halves are met, and rounded to even.
    cases = [
        (lambda a, m=m: topi.resize2d(a, (8, 6), m), resized(x, (8, 6), m))
        for m in ("nearest", "linear", "cubic")
    ]
    check_both([x], cases)


def test_large_integers():
    x = np.array([[[[2**31 - 1, 2**31 - 3]]]], "int32")
    check_both([x], [(lambda a: topi.resize2d(a, (1, 4), "linear"), resized(x, (1, 4), "linear"))])


def test_special_values():
    x = image((1, 1, 3, 4))
    x[0, 0, 0, 0], x[0, 0, 2, 3], x[0, 0, 1, 2] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        cases = [
            (lambda a, m=m, s=s: topi.resize2d(a, s, m, "align_corners"), resized(x, s, m, coordinates="align_corners"))
            for m in ("nearest", "linear")
            for s in ((5, 7), (3, 4))
        ]  # fmt: skip
    check_both([x], cases)


@pytest.mark.parametrize("shape", [(0, 1, 2, 2), (1, 1, 1, 1), (1, 2, 1, 3)])
def test_shapes(shape: Any):
    x = image(shape)
    methods = ("nearest", "linear", "cubic")
    check_both([x], [(lambda a, m=m: topi.resize2d(a, 2, m), resized(x, 2, m)) for m in methods], slack=2e-5)  # fmt: skip


def test_channels_last():
    x = image((2, 4, 5, 3))
    methods = ("nearest", "linear", "cubic")
    cases = [
        (lambda a, m=m: topi.resize2d(a, (6, 3), m, layout="NHWC"), resized(x, (6, 3), m, (1, 2)))
        for m in methods
    ]
    check([x], cases, slack=2e-5)


@pytest.mark.parametrize("shape", [(1, 1, 4, 5), (1, 1, 2, 6)])
def test_symbolic_shapes(shape: Any):
    x, like = image(shape), image((3, 7))
    cases = [
        (
            lambda a, b, m=m, c=c: topi.resize2d(a, b.shape, m, c),
            resized(x, (3, 7), m, coordinates=c),
        )
        for m in ("nearest", "linear", "cubic")
        for c in COORDINATES
    ]
    check_both([x, like], cases, symbolic=True, slack=2e-5)


def test_mistakes():
    x = te.placeholder((1, 2, 4, 4), name="x")
    with refused("TE0104", "'bilinear'", "test_resize.py"):
        topi.resize2d(x, 3, "bilinear")
    with refused("TE0104", "'corners'"):
        topi.resize2d(x, 3, coordinates="corners")
    with refused("TE0104", "'up'"):
        topi.resize2d(x, 3, rounding="up")
    with refused("TE0104", "output size is (1, 2, 3)"):
        topi.resize2d(x, (1, 2, 3))
    with refused("TE0104", "give 4 axes", "test_resize.py"):
        topi.resize2d(te.placeholder((2, 4, 4)), 3)
    with refused("TE0104", "axis 2 is empty"):
        topi.resize2d(te.placeholder((2, 4, 0, 1)), 3)
    with refused("TE0103", "resize2d takes numbers, not bool"):
        topi.resize2d(te.placeholder((2, 4, 1, 1), "bool"), 3)
