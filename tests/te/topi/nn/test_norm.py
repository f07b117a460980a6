"""Normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.running import BFLOAT16, check
from tests.tir.refusal import refused


def values(*shape: int, seed: int = 0):
    return np.random.default_rng(seed).standard_normal(shape)


def softmax(x: Any, axis: Any):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def normal(x: Any, axis: Any, eps: float = 1e-5):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float32", "float64"], ids=str)
def test_softmax(dtype: Any):
    x = (values(2, 3, 4) * 5).astype(dtype)
    w = x.astype("float64")
    cases = [(lambda a, k=k: topi.softmax(a, k), softmax(w, k).astype(dtype)) for k in (0, 1, -1)]
    logs = [np.log(softmax(w, k)).astype(dtype) for k in (0, 1, -1)]
    cases += [(lambda a, k=k: topi.log_softmax(a, k), logs[k]) for k in (0, 1, -1)]
    check([x], cases)
    check([x], cases[:1], symbolic=True)


def test_softmax_of_special_values():
    x = np.array([[1e4, 1e4 - 1], [-np.inf, 0], [np.nan, 0], [-np.inf, -np.inf]], "float32")
    with np.errstate(all="ignore"):
        check([x], [(topi.softmax, softmax(x, 1))])
        wanted = x - x.max(1, keepdims=True)
        wanted -= np.log(np.exp(wanted).sum(1, keepdims=True))
        check([x], [(topi.log_softmax, wanted)])
    empty = np.zeros((2, 0), "float32")
    check([empty, empty[:0]], [(lambda a, _: topi.softmax(a), empty)])
    check([np.full((3, 1), 7, "float32")], [(topi.softmax, np.ones((3, 1), "float32"))])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_norms_of_axes(dtype: str):
    x, g, b = (v.astype(dtype) for v in (values(2, 3, 4), values(4, seed=1), values(4, seed=2)))
    w = x.astype("float64")
    layer = (normal(w, -1) * g + b).astype(dtype)
    rms = (w / np.sqrt((w * w).mean(-1, keepdims=True) + 1e-5) * g).astype(dtype)
    cases = [(topi.layer_norm, layer), (lambda a, c, _: topi.rms_norm(a, c), rms)]
    plain = [(lambda a, *_: topi.layer_norm(a, axis=(1, 2)), normal(w, (1, 2)).astype(dtype))]
    slack = 1e-5 if dtype == "float32" else None
    check([x, g, b], cases + plain, slack=slack)
    check([x, g, b], cases, symbolic=True, slack=slack)


def test_norms_of_channels():
    x = values(2, 6, 3, 2).astype("float32")
    g, b, m = (values(6, seed=s).astype("float32") for s in (1, 2, 3))
    v = np.abs(values(6, seed=4)).astype("float32")
    per = (1, 6, 1, 1)
    scale, shift = g.reshape(per), b.reshape(per)
    batch = (x - m.reshape(per)) / np.sqrt(v.reshape(per) + np.float32(1e-5)) * scale + shift
    check([x, g, b, m, v], [(topi.batch_norm, batch)], slack=1e-5)
    check([x, g, b, m, v], [(topi.batch_norm, batch)], symbolic=True, slack=1e-5)
    instance = normal(x, (2, 3)) * scale + shift
    cases = [(topi.instance_norm, instance)]
    for groups in (1, 2, 6):
        parts = normal(x.reshape(2, groups, -1), 2).reshape(x.shape) * scale + shift
        cases.append((lambda a, c, d, n=groups: topi.group_norm(a, n, c, d), parts))
    check([x, g, b], cases, slack=1e-5)
    groups = normal(x.reshape(2, 2, 3, 3, 2), (2, 4)).reshape(x.shape) * scale + shift
    over = [
        (lambda a, c, d: topi.group_norm(a, 2, c, d, axis=3), groups),
        (lambda a, c, d: topi.instance_norm(a, c, d, axis=-1), normal(x, 3) * scale + shift),
    ]
    check([x, g, b], over, slack=1e-5)
    check([x, g, b], over, symbolic=True, slack=1e-5)


def test_norm_of_batches_in_training():
    x = values(3, 4, 2).astype("float32")
    g, b, m = (values(4, seed=s).astype("float32") for s in (1, 2, 3))
    per = (1, 4, 1)
    whole = normal(x, (0, 2)) * g.reshape(per) + b.reshape(per)
    moved = [0.75 * m + 0.25 * x.mean((0, 2)), 0.75 * m + 0.25 * x.var((0, 2))]
    for number, wanted in enumerate([whole, *moved]):

        def made(a: Any, c: Any, d: Any, n: Any, k: Any = number):
            return topi.batch_norm_training(a, c, d, n, n, momentum=0.25)[k]

        check([x, g, b, m], [(made, wanted)], slack=1e-5)


def test_mistakes():
    x, g = te.placeholder((2, 6, 4), name="x"), te.placeholder((5,), name="g")
    with refused("TE0103", "softmax takes floats"):
        topi.softmax(topi.cast(x, "int32"))
    with refused("TE0101", "layer_norm: shapes (4,) and (5,)"):
        topi.layer_norm(x, g)
    with refused("TE0102"):
        topi.rms_norm(x, axis=3)
    with refused("TE0104", "6 channels do not make 4 groups"):
        topi.group_norm(x, 4)
    with refused("TE0104", "give items and channels"):
        topi.instance_norm(g)
    with refused("TE0101", "batch_norm"):
        topi.batch_norm(x, g, g, g, g)
