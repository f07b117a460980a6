"""Operators at the edges of their domains: places outside, truths, integers, unknown extents."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import loomir
from tests.frontend.onnx.models import model, reference

STARTS = (-7, -6, -5, -1, 0, 4, 6)
ENDS = (-(2**63), -8, -5, -1, 0, 3)


def _sliced(start: int, end: int, step: int) -> list[int]:
    """Slice five elements as the standard says: backwards, a start before the first is the first."""
    first = max(start, -5) if step < 0 else start
    return list(range(5))[first : None if step < 0 and end < -5 else end : step]


@pytest.mark.parametrize("extent", ["5", "n"])
@pytest.mark.parametrize("step", [-2, -1, 1, 2])
def test_slices_begin_at_the_first_element_at_the_earliest(extent: str, step: int):
    x = np.arange(5, dtype="int32")
    text = f"main (int32[{extent}] x, int64[1] s, int64[1] e) => (int32[m] y) {{\n"
    axes = np.zeros(1, "int64"), np.array([step])
    when_run = loomir.compile(
        loomir.onnx.load(model(text + "y = Slice(x, s, e, a, t)\n}", dict(zip("at", axes))))
    )
    for start, end in itertools.product(STARTS, ENDS):
        assert when_run(x, np.array([start]), np.array([end])).tolist() == _sliced(start, end, step)


@pytest.mark.parametrize("extent", ["5", "n"])
def test_slices_of_constants_begin_at_the_first_element_at_the_earliest(extent: str):
    x = np.arange(5, dtype="int32")
    known = {
        "s": np.array([-9]),
        "e": np.array([-9]),
        "a": np.zeros(1, "int64"),
        "t": -np.ones(1, int),
    }
    made = model(
        f"main (int32[{extent}] x) => (int32[m] y) {{\ny = Slice(x, s, e, a, t)\n}}", known
    )
    assert loomir.compile(loomir.onnx.load(made))(x).tolist() == [0]


def test_truths_are_padded_and_scattered():
    x = np.array([[True, False], [False, False]])
    made = model(
        """
main (bool[2, 2] x) => (bool[2, 4] padded, bool[2, 4] edges, bool[2, 2] b, bool[2, 2] c) {
  padded = Pad(x, pads, yes)
  edges = Pad <mode = "edge"> (x, pads)
  b = ScatterND(x, places, news)
  c = ScatterElements <axis = 1> (x, columns, x)
}
""",
        {
            "pads": np.array([0, 1, 0, 1]),
            "yes": np.array(True),
            "places": np.array([[1, 1]]),
            "news": np.array([True]),
            "columns": np.array([[1, 0], [0, 1]]),
        },
    )
    for ours, theirs in zip(loomir.compile(loomir.onnx.load(made))(x), reference(made, x)):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_reductions_of_integers_are_truncated(dtype: str):
    x = np.array([[-3, -2, -2, 0], [7, 5, 9, 2]], dtype)
    operators = ("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
    want = ([-1, 5], [4, 12], [None, 3], [0, 9])
    for operator, results in zip(operators, want):
        text = (
            f"main ({dtype}[2, n] x) => ({dtype}[2] y) {{\ny = {operator} <keepdims = 0> (x, a)\n}}"
        )
        made = loomir.compile(loomir.onnx.load(model(text, {"a": np.array([1])})))(x)
        assert made.dtype == dtype
        assert all(r is None or r == m for r, m in zip(results, made.tolist()))


def test_one_hot_maxima_of_any_number_of_elements():
    x = np.array([[0.5, 2, 2, -1], [3, 1, 0, 3]], "float32")
    made = model("main (float[2, n] x) => (float[2, n] y) {\ny = Hardmax <axis = 1> (x)\n}", {})
    run = loomir.compile(loomir.onnx.load(made))
    np.testing.assert_array_equal(run(x), [[0, 1, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_array_equal(run(x[:, 2:].copy()), [[1, 0], [0, 1]])


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_a_tensor_of_zeros_is_quantised_by_a_scale_that_is_not_zero(value: float):
    text = """
main (float[n, 3] x) => (uint8[n, 3] y, float scale, uint8 zero, float[n, 3] steps) {
  y, scale, zero = DynamicQuantizeLinear (x)
  steps = Div (x, scale)
}
"""
    exe = loomir.compile(loomir.onnx.load(model(text, {})))
    y, scale, zero, steps = map(np.asarray, exe(np.full((2, 3), value, "float32")))
    assert not y.any()
    assert not steps.any()
    assert (scale.item(), zero.item()) == (1.0, 0)
    ramp = np.array([[-1, 0, 4]], "float32")
    y, scale, zero, steps = map(np.asarray, exe(ramp))
    assert (y.tolist(), scale, zero) == ([[0, 51, 255]], np.float32(5 / 255), 51)


@pytest.mark.parametrize("version", [13, 17, 20, 22, 23])
@pytest.mark.parametrize("operator", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_hold_in_later_versions(operator: str, version: int, reduction: str):
    result = "float[3] y" if reduction == "none" else "float y"
    made = model(
        f"main (float[3, 4] x, int64[3] t) => ({result}) "
        f'{{ y = {operator} <reduction = "{reduction}", ignore_index = -100> (x, t) }}',
        version=version,
    )
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    t = np.array([2, -100, 0])
    (wanted,) = reference(made, x, t)
    got = loomir.compile(loomir.onnx.load(made))(x, t)
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-5)
