"""What scales and shifts the channels of a convolution goes into its kernel."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import loomir
from loomir.relax.operator.reference import NPArray
from loomir.transform.relax.constants.bind_params import BindParamsOptions, bind_params
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

EPSILON: Final = float(np.finfo("float32").eps)
LAYOUTS: Final[list[tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...], int]]] = [
    # operator, options, image, kernel, axis of channels
    ("conv2d", {"padding": 1}, (2, 2, 5, 6), (4, 2, 3, 3), 1),
    ("conv2d", {"groups": 4, "strides": 2}, (1, 4, 6, 5), (4, 1, 3, 2), 1),
    ("conv2d", {"kernel_layout": "HWIO", "data_layout": "NHWC"}, (1, 4, 3, 5), (2, 2, 5, 4), 3),
    ("conv2d", {"out_layout": "NHWC"}, (1, 3, 4, 4), (4, 3, 2, 2), 3),
    ("conv1d", {"kernel_layout": "OIW2o"}, (1, 3, 6), (2, 3, 2, 2), 1),
    ("conv3d", {}, (1, 2, 3, 3, 3), (4, 2, 2, 2, 2), 1),
    ("conv2d_transpose", {"strides": 2}, (1, 3, 3, 4), (3, 4, 2, 2), 1),
    ("conv2d_transpose", {"groups": 2}, (1, 6, 3, 3), (6, 2, 2, 3), 1),
    ("conv1d_transpose", {"strides": 3}, (2, 2, 4), (2, 4, 3), 1),
]
STEPS: Final = ("batch_norm", "add", "subtract", "subtracted", "multiply", "divide")


class Case(NamedTuple):
    """A convolution, what follows it, and both in float64."""

    text: str
    params: dict[str, NPArray]
    image: NPArray
    value: NPArray
    size: NPArray
    """The sum of absolute products and addends."""


def draw(seed: int) -> Case:
    """Make a random chain behind a random convolution."""
    rng = np.random.default_rng(seed)
    name, options, image_shape, kernel_shape, axis = LAYOUTS[int(rng.integers(len(LAYOUTS)))]
    image = rng.standard_normal(image_shape).astype("float32")
    kernel = rng.standard_normal(kernel_shape).astype("float32")
    given = "".join(f", {key}={value!r}" for key, value in options.items())
    lines = [f"R.nn.{name}(x, w{given})"]
    value, size = convolve(lines[0], image, kernel), convolve(lines[0], abs(image), abs(kernel))
    params: dict[str, Any] = {"w": kernel}
    for number in range(int(rng.integers(1, 5))):
        step = STEPS[int(rng.integers(len(STEPS)))]
        dims = [4 if k == axis else 1 for k in range(value.ndim)]
        if step == "batch_norm":
            names = [f"p{number}{letter}" for letter in "gbmv"]
            drawn = [rng.standard_normal(4).astype("float32") for _ in names]
            drawn[3] = abs(drawn[3]) + np.float32(0.1)
            params.update(zip(names, drawn, strict=True))
            args = ", ".join(names)
            lines.append(f"R.nn.batch_norm(y, {args}, axis={axis}, epsilon=1e-3, training=False)")
            g, b, m, v = (d.astype("float64").reshape(dims) for d in drawn)
            by, plus = g / np.sqrt(v + 1e-3), b
            value, size = (value - m) * by + plus, (size + abs(m)) * abs(by) + abs(plus)
            continue
        if rng.integers(4) == 0:
            dims = [1] * int(rng.integers(value.ndim))
        c = (rng.standard_normal(dims) + rng.choice([-2, 2])).astype("float32")
        params[f"p{number}"] = c
        wide: Any = c.astype("float64")
        if step in ("multiply", "divide"):
            factor = wide if step == "multiply" else 1 / wide
            value, size = value * factor, size * abs(factor)
        else:
            value = {"add": value + wide, "subtract": value - wide}.get(step, wide - value)
            size = size + abs(wide)
        swapped = step == "subtracted" or (step in ("add", "multiply") and rng.integers(2) == 0)
        pair = f"p{number}, y" if swapped else f"y, p{number}"
        lines.append(f"R.{step.replace('subtracted', 'subtract')}({pair})")
    return Case(write(lines, params, image), params, image, value, size)


def convolve(call: str, image: NPArray, kernel: NPArray) -> NPArray:
    """Interpret a convolution in float64."""
    params = {"w": kernel.astype("float64")}
    mod = module(write([call], params, image.astype("float64")))
    return loomir.interpret(mod, "main", image.astype("float64"), params["w"])


def write(lines: list[str], params: dict[str, Any], image: NPArray) -> str:
    """Write a graph that applies the lines, each to the result of the last, ``y``."""
    types = {"x": image, **params}
    listed = ", ".join(
        f'{name}: R.Tensor({array.shape}, "{array.dtype}")' for name, array in types.items()
    )
    body: list[str] = []
    for line in lines:
        body.append(f"y = {line}")
        if "batch_norm" in line:
            body.append("y = y[0]")
    indent = "\n            "
    return f"""
    @R.function
    def main({listed}):
        with R.dataflow():
            {indent.join(body)}
            R.output(y)
        return y
    """


def bound(text: str, params: dict[str, Any]) -> loomir.relax.IRModule:
    return bind_params(module(text), BindParamsOptions("main", params))


@pytest.mark.parametrize("seed", range(60))
def test_random_chains(seed: int):
    case = draw(seed)
    mod = bound(case.text, case.params)
    made = applied("FoldAffineToConv", mod)
    script = made.script()
    lone_addition = made is mod
    if lone_addition:
        assert case.text.count("y = ") == 2
    else:
        assert not any(word in script for word in ("batch_norm", "subtract", "multiply", "divide"))
        assert script.count("R.add(") <= 1
    taps = case.params["w"].size // 4
    bound_of_error = (taps + 16) * EPSILON * case.size
    for found in (
        loomir.interpret(made, "main", case.image),
        loomir.compile(mod, cache=False)["main"](case.image) if seed < 8 else None,
    ):
        assert found is None or (abs(found - case.value) <= bound_of_error).all()


TEXT: Final = """
    @R.function
    def main(x: R.Tensor((1, 2, 5, 5), "float32"), w: R.Tensor((3, 2, 3, 3), "float32"), s: R.Tensor((1, 3, 1, 1), "float32"), t: R.Tensor((1, 3, 3, 3), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w)
            z = R.multiply(y, s)
            R.output(z)
        return z
"""
WEIGHTS: Final[dict[str, Any]] = {
    "w": random(3, 2, 3, 3),
    "s": random(1, 3, 1, 1),
    "t": random(1, 3, 3, 3),
}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("R.multiply(y, s)", "R.multiply(s, y)"),
        ("R.multiply(y, s)", 'R.multiply(y, R.const(2.0, "float32"))'),
        ("R.multiply(y, s)", "R.divide(R.subtract(y, s), s)"),
    ],
)
def test_folds(old: str, new: str):
    made = applied("FoldAffineToConv", bound(TEXT.replace(old, new), WEIGHTS), random(1, 2, 5, 5))
    assert "multiply" not in made.script()
    assert "divide" not in made.script()


@pytest.mark.parametrize(
    ("old", "new", "params"),
    [
        ("", "", {k: v for k, v in WEIGHTS.items() if k != "w"}),
        ("", "", {k: v for k, v in WEIGHTS.items() if k != "s"}),
        ("", "", {**WEIGHTS, "s": np.array([1, np.inf, 1], "float32").reshape(1, 3, 1, 1)}),
        ("", "", {**WEIGHTS, "s": np.full((1, 3, 1, 1), 3e38, "float32")}),  # overflows
        ("R.multiply(y, s)", "R.multiply(y, t)", WEIGHTS),
        ("R.multiply(y, s)", "R.divide(s, y)", WEIGHTS),
        ("R.multiply(y, s)", "R.add(y, s)", WEIGHTS),  # one addition is the best already
        ("R.multiply(y, s)", "R.multiply(y, R.expand_dims(s, 0))", WEIGHTS),
        ("R.output(z)", "R.output(y, z)", WEIGHTS),
        ("R.multiply(y, s)", "R.add(R.multiply(y, s), y)", WEIGHTS),
        ("R.multiply(y, s)", "R.add(R.multiply(y, s), R.nn.conv2d(x, w))", WEIGHTS),
    ],
)
def test_others_stay(old: str, new: str, params: dict[str, Any]):
    mod = bound(TEXT.replace(old, new), params)
    assert applied("FoldAffineToConv", mod) is mod


@pytest.mark.parametrize(
    ("options", "folded"),
    [
        ({}, True),
        ({"optimize_graph": False}, False),
        ({"schedule": False}, False),
        ({"opt_level": 0}, False),
    ],
)
def test_compiling_folds_unless_asked_not_to(options: dict[str, Any], folded: bool):
    text = """
    @R.function
    def main(x: R.Tensor((1, 1, 1, 1), "float32"), w: R.Tensor((1, 1, 1, 1), "float32"), s: R.Tensor((1, 1, 1, 1), "float32")):
        with R.dataflow():
            z = R.multiply(R.nn.conv2d(x, w), s)
            R.output(z)
        return z
    """
    x, w, s = (
        np.float32(v).reshape(1, 1, 1, 1)
        for v in (1.899999976158142, 2.200000047683716, 1.7000000476837158)
    )
    wanted = x * (w * s) if folded else (x * w) * s
    assert (x * w) * s != x * (w * s)
    exe = loomir.compile(bound(text, {"w": w, "s": s}), cache=False, **options)
    assert np.array_equal(exe["main"](x), wanted)
