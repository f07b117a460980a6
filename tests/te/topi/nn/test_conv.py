"""Convolutions and their transposes."""

from __future__ import annotations

from itertools import product
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


def pads_of(padding: Any, nd: Any):
    made = as_list(padding, nd)
    return made * 2 if len(made) == nd else made


def summing(dtype: Any):
    dtype = np.dtype(dtype)
    return np.dtype("float64") if dtype.kind in "fV" else dtype


def convolved(
    x: Any,
    w: Any,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    dtype: Any = None,
):
    """Convolve with direct loops, channels first."""
    nd, wanted = x.ndim - 2, dtype or x.dtype
    stride, dilation, pads = as_list(stride, nd), as_list(dilation, nd), pads_of(padding, nd)
    inner = summing(wanted)
    x, w = x.astype(inner), w.astype(inner)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:nd], pads[nd:], strict=True)])
    out = [
        (x.shape[2 + a] - dilation[a] * (w.shape[2 + a] - 1) - 1) // stride[a] + 1
        for a in range(nd)
    ]
    made = np.zeros((x.shape[0], w.shape[0], *out), inner)
    per_out, per_in = w.shape[0] // groups, w.shape[1]
    for o, at in product(range(w.shape[0]), product(*map(range, out))):
        first = o // per_out * per_in
        index = [[p * s + t * d for t in range(k)] for p, s, d, k in zip(at, stride, dilation, w.shape[2:], strict=True)]  # fmt: skip
        part = x[np.ix_(range(x.shape[0]), range(first, first + per_in), *index)]
        made[(slice(None), o, *at)] = (part * w[o]).sum(tuple(range(1, part.ndim)), dtype=inner)
    return made.astype(wanted)


def transposed(
    x: Any,
    w: Any,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    dtype: Any = None,
):
    """Scatter elements with direct loops, channels first, the kernel's input channels first."""
    nd, wanted = x.ndim - 2, dtype or x.dtype
    stride, dilation, pads = as_list(stride, nd), as_list(dilation, nd), pads_of(padding, nd)
    extra = as_list(output_padding, nd)
    inner = summing(wanted)
    x, w = x.astype(inner), w.astype(inner)
    full = [
        (x.shape[2 + a] - 1) * stride[a] + dilation[a] * (w.shape[2 + a] - 1) + 1 + extra[a]
        for a in range(nd)
    ]
    per_out, per_in = w.shape[1], w.shape[0] // groups
    made = np.zeros((x.shape[0], per_out * groups, *full), inner)
    for c, o in product(range(w.shape[0]), range(per_out)):
        target = c // per_in * per_out + o
        for at, k in product(np.ndindex(*x.shape[2:]), np.ndindex(*w.shape[2:])):
            place = [p * s + t * d for p, s, t, d in zip(at, stride, k, dilation, strict=True)]
            made[(slice(None), target, *place)] += x[(slice(None), c, *at)] * w[(c, o, *k)]
    cut = [slice(pads[a], full[a] - pads[nd + a]) for a in range(nd)]
    return made[(slice(None), slice(None), *cut)].astype(wanted)


def numbers(shape: Any, seed: int = 0, dtype: str = "float32"):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


PARAMETERS = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"stride": 2, "padding": 1, "dilation": 2},
    {"dilation": 2},
    {"groups": 2},
    {"groups": 2, "stride": 2, "padding": 2},
]


@pytest.mark.parametrize("nd", [1, 2, 3])
def test_parameters(nd: int):
    spatial, kernel = (7, 6, 5)[:nd], (3, 2, 2)[:nd]
    x = numbers((2, 4, *spatial))
    w = numbers((6, 4, *kernel), 1)
    half = numbers((6, 2, *kernel), 1)
    back = numbers((4, 3, *kernel), 2)
    cases = []
    for given in PARAMETERS if nd < 3 else PARAMETERS[3:]:
        k = half if "groups" in given else w
        at = 2 if "groups" in given else 1
        cases.append((lambda *t, g=given, i=at: topi.conv(t[0], t[i], **g), convolved(x, k, **given)))  # fmt: skip
        cases.append((lambda *t, g=given: topi.conv_transpose(t[0], t[3], **g), transposed(x, back, **given)))  # fmt: skip
    extra = {"stride": 3, "output_padding": 2, "padding": 1}
    cases.append((lambda *t: topi.conv_transpose(t[0], t[3], **extra), transposed(x, back, **extra)))  # fmt: skip
    check([x, w, half, back], cases)


def test_parameters_per_axis():
    x, w, back = numbers((1, 2, 5, 6)), numbers((3, 2, 2, 3), 1), numbers((2, 1, 2, 3), 2)
    some = [
        {"stride": (1, 2), "padding": (0, 1, 2, 0)},
        {"padding": (1, 2), "dilation": (2, 1)},
    ]
    cases = [(lambda a, k, _, g=g: topi.conv(a, k, **g), convolved(x, w, **g)) for g in some]
    cases += [(lambda a, _, k, g=g: topi.conv_transpose(a, k, **g), transposed(x, back, **g)) for g in some]  # fmt: skip
    check_both([x, w, back], cases)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float64", "int8", "uint8", "int64"], ids=str)  # fmt: skip
def test_dtypes(dtype: Any):
    x, w = np.abs(numbers((1, 2, 5))).astype(dtype), np.abs(numbers((2, 2, 3), 1)).astype(dtype)
    cases = [
        (lambda a, k: topi.conv(a, k, padding=1), convolved(x, w, padding=1)),
        (lambda a, k: topi.conv_transpose(a, k, 2), transposed(x, w, 2)),
    ]
    check_both([x, w], cases)


def test_sums_of_a_wider_dtype():
    x, w = np.full((1, 3, 4), 100, "int8"), np.full((2, 3, 2), -100, "int8")
    check_both(
        [x, w],
        [
            (lambda a, k: topi.conv(a, k, dtype="int32"), convolved(x, w, dtype="int32")),
            (topi.conv, convolved(x, w)),
            (lambda a, k: topi.conv(a, k, dtype="float32"), convolved(x, w, dtype="float32")),
        ],
    )


def test_depthwise():
    x, w, back = numbers((2, 3, 5, 5)), numbers((6, 1, 3, 3), 1), numbers((3, 2, 3, 3), 2)
    check(
        [x, w, back],
        [
            (lambda a, k, _: topi.conv(a, k, padding=1, groups=3), convolved(x, w, padding=1, groups=3)),
            (lambda a, _, k: topi.conv_transpose(a, k, 2, groups=3), transposed(x, back, 2, groups=3)),
        ],
    )  # fmt: skip


def test_layouts():
    x, w, back = numbers((2, 5, 6, 4)), numbers((2, 3, 2, 6), 1), numbers((2, 3, 4, 3), 2)
    first = np.moveaxis(x, -1, 1)
    oihw, iohw = w.transpose(3, 2, 0, 1), back.transpose(2, 3, 0, 1)
    given = {"stride": (2, 1), "padding": 1, "groups": 2}
    expected = np.moveaxis(convolved(first, oihw, **given), 1, -1)
    behind = np.moveaxis(transposed(first, iohw, **given), 1, -1)
    check(
        [x, w, back],
        [
            (lambda a, k, _: topi.conv(a, k, **given, layout="NHWC", kernel_layout="HWIO"), expected),
            (lambda a, _, k: topi.conv_transpose(a, k, **given, layout="NHWC", kernel_layout="HWIO"), behind),
        ],
    )  # fmt: skip


def test_special_values():
    x = numbers((1, 1, 5))
    x[0, 0, 1], x[0, 0, 4] = np.nan, np.inf
    w = np.array([[[1, 2, 3]]], "float32")
    check_both(
        [x, w],
        [
            (lambda a, k: topi.conv(a, k, padding=1), convolved(x, w, padding=1)),
            (topi.conv_transpose, transposed(x, w)),
        ],
    )


@pytest.mark.parametrize(
    ("image", "kernel"),
    [((0, 2, 4), (3, 2, 2)), ((1, 0, 4), (3, 0, 2)), ((1, 2, 4), (0, 2, 2)), ((1, 1, 1), (1, 1, 1))],
)  # fmt: skip
def test_shapes(image: Any, kernel: Any):
    x, w = numbers(image), numbers(kernel, 1)
    back = w.swapaxes(0, 1)
    cases = [(lambda a, k, _: topi.conv(a, k, padding=1), convolved(x, w, padding=1))]
    cases.append((lambda a, _, k: topi.conv_transpose(a, k, 2), transposed(x, back, 2)))
    check_both([x, w, np.ascontiguousarray(back)], cases)


@pytest.mark.parametrize("shape", [(2, 4, 7, 6), (0, 4, 5, 8)])
def test_symbolic_shapes(shape: Any):
    x, w = numbers(shape), numbers((4, 4, 3, 3), 1)
    given = {"stride": 2, "padding": 1}
    cases = [
        (lambda a, k: topi.conv(a, k, **given), convolved(x, w, **given)),
        (lambda a, k: topi.conv_transpose(a, k, **given), transposed(x, w, **given)),
    ]
    check([x, w], cases, symbolic=True)


def test_symbolic_shapes_interpreted():
    x, w = numbers((1, 2, 4)), numbers((2, 2, 3), 1)
    check_both(
        [x, w],
        [
            (lambda a, k: topi.conv(a, k, 2, 1), convolved(x, w, 2, 1)),
            (lambda a, k: topi.conv_transpose(a, k, 2, 1), transposed(x, w, 2, 1)),
        ],
        symbolic=True,
    )


def test_mistakes():
    x, w = te.placeholder((1, 4, 5), name="x"), te.placeholder((6, 2, 3), name="w")
    with refused("TE0101", "4 channels, the kernel is for 2", "test_conv.py"):
        topi.conv(x, w)
    with refused("TE0101", "4 channels, the kernel is for 6"):
        topi.conv_transpose(x, w)
    with refused("TE0104", "6 output channels do not make 4 groups"):
        topi.conv(te.placeholder((1, 8, 5)), w, groups=4)
    with refused("TE0104", "a window of 9", "test_conv.py"):
        topi.conv(x, w, dilation=4, groups=2)
    with refused("TE0104", "3 to 5 axes"):
        topi.conv(x, te.placeholder((6, 2, 3, 3)))
    with refused("TE0104", "0 groups"):
        topi.conv(x, w, groups=0)
    with refused("TE0103", "float32 and float64"):
        topi.conv(x, te.placeholder((6, 4, 3), "float64"))
    with refused("TE0104", "leaves an extent of -3"):
        topi.conv_transpose(x, te.placeholder((4, 2, 3)), padding=5)
    with refused("TE0104", "'OWH' is not a layout"):
        topi.conv(x, w, kernel_layout="OWH")
