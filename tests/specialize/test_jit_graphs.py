"""Graphs under ``@loomir.jit`` are compiled for the dtypes, ranks and shared extents of a call."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import loomir
from loomir.script import relax as R


@loomir.jit
def layer(x, w, b):
    y = R.matmul(x, w)
    return R.nn.relu(R.add(y, b))


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_dtypes_ranks_and_shared_extents_choose_the_code():
    before = len(layer.signatures)
    for rows, dtype in ((3, "float32"), (7, "float32"), (0, "float32"), (3, "float64")):
        x, w, b = numbers(rows, 4, dtype=dtype), numbers(4, 5, dtype=dtype), numbers(5, dtype=dtype)
        got = layer(x, w, b)
        np.testing.assert_allclose(got, np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-6)
        assert got.dtype == dtype
    added = layer.signatures[before:]
    assert added == (
        (
            'layer(x: R.Tensor((x_0, x_1), dtype="float32"), w: R.Tensor((x_1, w_1), dtype="float32"), '
            'b: R.Tensor((w_1,), dtype="float32"))'
        ),
        (
            'layer(x: R.Tensor((x_0, x_1), dtype="float64"), w: R.Tensor((x_1, w_1), dtype="float64"), '
            'b: R.Tensor((w_1,), dtype="float64"))'
        ),
    )


def test_an_extent_of_one_broadcasts():
    x, w = numbers(3, 4), numbers(4, 5)
    got = layer(x, w, numbers(1))
    np.testing.assert_allclose(got, np.maximum(x @ w + numbers(1), 0), rtol=1e-5, atol=1e-6)
    assert any('b: R.Tensor((1,), dtype="float32")' in one for one in layer.signatures)


def test_equal_extents_of_one_argument_are_no_pattern():
    @loomir.jit
    def total(x):
        return R.sum(x)

    assert total(np.ones((4, 4))) == 16
    assert total(np.ones((4, 3))) == 12
    assert len(total.signatures) == 1


def test_numbers_take_the_dtype_of_the_arrays():
    @loomir.jit
    def scaled(x, by):
        return R.multiply(x, by)

    for by in (2, 2.0, np.float32(2)):
        got = scaled(np.ones(3, "float32"), by)
        assert got.dtype == "float32"
        assert got.tolist() == [2, 2, 2]
    assert scaled(np.ones(3, "int32"), 2).dtype == "int32"
    assert len(scaled.signatures) == 2


def test_annotations_may_fix_a_part():
    @loomir.jit
    def summed(x: R.Tensor, w: R.Tensor(("n", 4)), v: R.Tensor(dtype="float32")):
        return R.add(x, w), R.exp(v)

    first, second = summed(np.ones((3, 4)), np.ones((3, 4)), np.zeros(2, "float32"))
    assert first.tolist() == [[2] * 4] * 3
    assert second.tolist() == [1, 1]
    with pytest.raises(loomir.RunError, match="must hold float32"):
        summed(np.ones((3, 4)), np.ones((3, 4)), np.zeros(2))


def test_closed_graphs_are_read_where_they_are_written():
    with pytest.raises(loomir.CompileError, match="OPS0032"):

        @loomir.jit
        def wrong(x: R.Tensor((2, 3), "float32")):
            return R.matmul(x, x)


def test_mistakes_say_for_which_types_the_graph_was_read():
    with pytest.raises(loomir.CompileError, match=r"read for x: float32\[x_0, x_1\]"):
        layer(numbers(3, 4), numbers(4, 5, dtype="float64"), numbers(5))
    with pytest.raises(loomir.RunError, match="missing: b"):
        layer(numbers(3, 4), numbers(4, 5))


def test_graphs_are_pickled_and_take_tensors():
    x, w, b = numbers(3, 4), numbers(4, 5), numbers(5)
    again = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(again(x, w, b), layer(x, w, b))
    got = layer(*map(torch.from_numpy, (x, w, b)))
    assert isinstance(got, torch.Tensor)
    np.testing.assert_array_equal(got.numpy(), layer(x, w, b))
