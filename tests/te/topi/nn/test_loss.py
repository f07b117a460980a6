"""Losses."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.te import topi
from tests.te.topi.running import check
from tests.tir.refusal import refused


def test_cross_entropy():
    for dtype in ("float16", "float32"):
        x, y = (np.random.default_rng(s).random((3, 4)).astype(dtype) for s in (1, 2))
        wide = x.astype("float64") * y
        check([x, y], [(topi.cross_entropy, (-wide.sum() / 3).astype(dtype))], slack=1e-3)
        check([x[0], y[0]], [(topi.cross_entropy, (-wide[0].sum()).astype(dtype))], slack=1e-3)


def test_nll_loss():
    p = np.random.default_rng(1).random((2, 3, 2)).astype("float32")
    w = np.array([0.5, 2, 1], "float32")
    t = np.array([[0, 2], [-7, 1]])
    each = -np.array([[p[0, 0, 0] * w[0], p[0, 2, 1] * w[2]], [0, p[1, 1, 1] * w[1]]], "float32")
    total = each.sum(dtype="float64").astype("float32")
    cases = [
        (lambda a, b, c: topi.nll_loss(a, b, c, "none", -7), each),
        (lambda a, b, c: topi.nll_loss(a, b, c, "sum", -7), total),
        (lambda a, b, c: topi.nll_loss(a, b, c, "mean", -7), np.float32(total / 3.5)),
    ]
    check([p, t, w], cases, symbolic=True)


def test_targets_that_are_no_class_raise():
    p, t = te.placeholder((2, 3), name="p"), te.placeholder((2,), "int8", name="t")
    run = loomir.compile(te.create_prim_func([p, t, topi.nll_loss(p, t)]))
    for wrong in (3, -1):
        with pytest.raises(IndexError, match="RUN0203"):
            run(np.ones((2, 3), "float32"), np.array([0, wrong], "int8"), np.zeros((), "float32"))


def test_mistakes():
    p, t = te.placeholder((2, 3), name="p"), te.placeholder((2,), "int32", name="t")
    with refused("TE0103", "nll_loss"):
        topi.nll_loss(p, topi.cast(t, "float32"))
    with refused("TE0101", "nll_loss"):
        topi.nll_loss(p, te.placeholder((3,), "int32"))
    with refused("TE0101", "nll_loss"):
        topi.nll_loss(p, t, te.placeholder((2,)))
    with refused("TE0104", "reduction"):
        topi.nll_loss(p, t, reduction="max")
    with refused("TE0101", "cross_entropy"):
        topi.cross_entropy(p, te.placeholder((3, 2)))
