"""Convolutions normalise by their kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.equality import assert_structural_equal
from loomir.transform.relax.constants.bind_params import BindParamsOptions, bind_params
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def main(x: R.Tensor(("n", 2, 5, 5), "float32"), w: R.Tensor((3, 2, 3, 3), "float32"), gamma: R.Tensor((3,), "float32"), beta: R.Tensor((3,), "float32"), mean: R.Tensor((3,), "float32"), var: R.Tensor((3,), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.nn.conv2d(x, w, padding=1)
            z = R.nn.batch_norm(y, gamma, beta, mean, var, axis=1, epsilon=1e-3, training=False)
            u = z[0]
            v = R.nn.relu(u)
            R.output(v)
        return v
"""
AFTER = """
    @R.function
    def main(x: R.Tensor(("n", 2, 5, 5), "float32"), w: R.Tensor((3, 2, 3, 3), "float32"), shift: R.Tensor((1, 3, 1, 1), "float32")):
        n = T.int64()
        with R.dataflow():
            y = R.nn.conv2d(x, w, padding=1)
            u = R.add(y, shift)
            v = R.nn.relu(u)
            R.output(v)
        return v
"""
WEIGHTS: dict[str, Any] = {
    "w": random(3, 2, 3, 3),
    "gamma": random(3),
    "beta": random(1, 3)[0],
    "mean": np.float32([0.5, -1, 2]),
    "var": np.float32([0.25, 1, 4]),
}


def bound(text: str, params: dict[str, Any] = WEIGHTS) -> loomir.relax.IRModule:
    return bind_params(module(text), BindParamsOptions("main", params))


def test_a_normalisation_becomes_a_shift():
    made = applied("FoldBatchnormToConv2D", bound(BEFORE), random(2, 2, 5, 5))
    scale = WEIGHTS["gamma"] / np.sqrt(WEIGHTS["var"].astype("float64") + 1e-3)
    kernel = (WEIGHTS["w"] * scale.reshape(3, 1, 1, 1)).astype("float32")
    shift = (WEIGHTS["beta"] - WEIGHTS["mean"] * scale).astype("float32").reshape(1, 3, 1, 1)
    assert_structural_equal(made, bound(AFTER, {"w": kernel, "shift": shift}))


@pytest.mark.parametrize(
    "changes",
    [
        [("axis=1", "axis=3"), ("padding=1", 'padding=1, out_layout="NHWC"')],
        [("axis=1", "axis=1, center=False")],
        [("axis=1", "axis=1, scale=False")],
        [("            v = R.nn.relu(u)", "            s = z[2]\n            v = (u, z[1], s, z[0])")],
    ],
)  # fmt: skip
def test_layouts_and_options(changes: Any):
    text = BEFORE
    for change in changes:
        assert change[0] in text
        text = text.replace(*change)
    made = applied("FoldBatchnormToConv2D", bound(text), random(2, 2, 5, 5)).script()
    assert "batch_norm" not in made
    assert made.count("conv2d") == 1


def test_groups_and_one_axis_and_blocks():
    text = """
    @R.function
    def main(x: R.Tensor((1, 4, 6), "float32"), w: R.Tensor((2, 2, 3, 2), "float32"), s: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.nn.conv1d(x, w, groups=2, kernel_layout="OIW2o")
            z = R.nn.batch_norm(y, s, s, s, s, axis=1, training=False)
            u = z[0]
            R.output(u)
        return u
    """
    mod = bound(text, {"w": random(2, 2, 3, 2), "s": np.float32([1, 2, 3, 4])})
    made = applied("FoldBatchnormToConv2D", mod, random(1, 4, 6))
    assert "batch_norm" not in made.script()


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in WEIGHTS.items() if k != name}


@pytest.mark.parametrize(
    ("change", "params"),
    [
        (("training=False", "training=True"), WEIGHTS),
        (("", ""), without("gamma")),
        (("", ""), without("w")),
        (("axis=1", "axis=-3"), {**WEIGHTS, "var": np.float32([-1, 1, 1])}),  # not a number
        (("R.nn.relu(u)", "R.add(u, y)"), WEIGHTS),  # used twice
        (("u = z[0]\n            v = R.nn.relu(u)", "v = z"), WEIGHTS),
        (("            z =", "            R.output(y)\n        with R.dataflow():\n            z ="), WEIGHTS),
        (("(n, 2, 5, 5)", "(n, 2, 5, 5)"), {**WEIGHTS, "shared": 1}),
    ],
)  # fmt: skip
def test_others_stay(change: Any, params: Any):
    text = BEFORE.replace(*change)
    params = dict(params)
    if params.pop("shared", None):
        text = text.replace("R.nn.relu(u)", "R.add(u, R.nn.conv2d(x, w, padding=1))")
    mod = bound(text, params)
    assert applied("FoldBatchnormToConv2D", mod) is mod


def test_another_axis_stays():
    text = BEFORE.replace("axis=1", "axis=2").replace("5, 5)", "3, 3)")
    mod = bound(text)
    assert applied("FoldBatchnormToConv2D", mod) is mod
