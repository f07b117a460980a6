"""Mistakes that only the contents or extents of tensors show: the same error both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op
from loomir.relax.expr import Var
from loomir.relax.normal.block_builder import BlockBuilder
from loomir.relax.struct_info import TensorStructInfo
from loomir.tir import expr as tir
from tests.clause import clauses

n, m = tir.Var("n", "int64"), tir.Var("m", "int64")


def floats(*shape: int) -> Any:
    return np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)


def places(*values: Any) -> Any:
    return np.array(values, "int64")


X = floats(3, 4)
OUTSIDE = [
    (lambda x, i: op.take(x, i, 0), [X, places(0, 3)]),
    (lambda x, i: op.take(x, i, -1), [X, places(-5)]),
    (op.take, [X, places(12)]),
    (op.gather_elements, [X, places([0, 1], [3, 0])]),
    (op.gather_nd, [X, places([0, 0], [2, 4])]),
    (lambda x, i: op.gather_nd(x, i, 1), [X, places([0], [1], [-5])]),
    (lambda x, i: op.index_tensor(x, (i, i)), [X, places(0, 3)]),
    (op.scatter_elements, [X, places([3, 0]), floats(1, 2)]),
    (lambda x, i, u: op.scatter_elements(x, i, u, 1, "mean"), [X, places([4]), floats(1, 1)]),
    (lambda x, i, u: op.scatter_nd(x, i, u, "add"), [X, places([-4]), floats(1, 4)]),
    (lambda x, i, v: op.index_put(x, (i,), v), [X, places(7), floats(1)]),
    (lambda x: op.strided_slice(x, 0, (1,), (5,), assume_inbound=True), [X]),
    (op.nn.nll_loss, [X, places(0, 4, 1)]),
    (lambda x, r: op.vision.roi_align(x, r, (1, 1), 1.0), [floats(1, 1, 2, 2), 1 + floats(1, 5)]),
    (lambda x, i: op.nn.nll_loss(x, i, reduction="none"), [X, places(0, -1, -100)]),
]
UNFIT = [
    (lambda x, y: op.reshape(x, (2, m)), [(n,), (m,)], [floats(5), floats(3)]),
    (lambda x: op.split(x, 2), [(n,)], [floats(5)]),
    (lambda x, y: op.concat((x, y)), [(n, m), (n, 2)], [floats(2, 3), floats(1, 2)]),
    (lambda x, y: op.stack((x, y)), [(n,), (m,)], [floats(2), floats(3)]),
    (op.matmul, [(2, n), (m, 2)], [floats(2, 3), floats(4, 2)]),
    (op.linear, [(2, n), (2, m)], [floats(2, 3), floats(2, 4)]),
    (lambda x: op.squeeze(x, 0), [(n, 2)], [floats(3, 2)]),
    (op.nn.conv1d, [(1, n, 5), (2, 2, 3)], [floats(1, 3, 5), floats(2, 2, 3)]),
    (
        lambda x, w: op.nn.conv1d(x, w, groups=2),
        [(1, 2, 3), (n, 1, 1)],
        [floats(1, 2, 3), floats(3, 1, 1)],
    ),
    (lambda x: op.nn.adaptive_avg_pool1d(x, 2), [(1, 1, n)], [floats(1, 1, 0)]),
    (lambda x: op.nn.pad(x, (1, 1), "reflect"), [(n,)], [floats(0)]),
    (lambda x: op.nn.pixel_shuffle(x, 2), [(n, 1, 1)], [floats(6, 1, 1)]),
    (lambda x, g: op.nn.layer_norm(x, g, g, 1), [(2, n), (m,)], [floats(2, 3), floats(2)]),
    (lambda x, g: op.nn.group_norm(x, g, g, 2, 1, []), [(2, n), (n,)], [floats(2, 3), floats(3)]),
    (
        lambda q, k: op.nn.attention(q, k, k),
        [(1, 2, n, 2), (1, 2, m, 2)],
        [floats(1, 2, 3, 2), floats(1, 2, 2, 2)],
    ),
]


def both(make: Any, infos: Any, arrays: Any) -> list[Any]:
    """Make a function of one call, to interpret and to run as machine code."""
    b = BlockBuilder()
    params = [
        Var(f"x{k}", TensorStructInfo(dims, str(array.dtype)))
        for k, (dims, array) in enumerate(zip(infos, arrays, strict=True))
    ]
    with b.function("main", params):
        b.emit_func_output(b.emit(make(*params)))
    module = b.get()
    compiled = loomir.compile(module, opt_level=1, cache=False)
    return [compiled["main"], lambda *a: loomir.interpret(module, "main", *a)]


@clauses("RX-PURE-05")
@pytest.mark.parametrize(("make", "arrays"), OUTSIDE)
def test_places_outside_raise(make: Any, arrays: Any):
    before = [a.copy() for a in arrays]
    for run in both(make, [a.shape for a in arrays], arrays):
        with pytest.raises(IndexError, match="RUN0203"):
            run(*arrays)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize(("make", "infos", "arrays"), UNFIT)
def test_extents_that_turn_out_not_to_fit_raise(make: Any, infos: Any, arrays: Any):
    for run in both(make, infos, arrays):
        with pytest.raises(ValueError, match="RUN0"):
            run(*arrays)
