"""Programs that were compiled with ``copy_arguments`` take arrays of any strides."""

# ruff: noqa: F821 - names of programs

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import relax as R
from loomir.script import tir as T


@R.function
def add(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m",), "float32")):
    return R.add(x, w)


@R.function
def first(pair: R.Tuple(R.Tensor(("n", "m"), "float32"), R.Tensor(("n",), "float32"))):
    return R.add(pair[0], R.expand_dims(pair[1], [1]))


@T.prim_func
def twice(x: T.Buffer(("n", "m"), "float32"), y: T.Buffer(("n", "m"), "float32")):
    for i, j in T.grid(n, m):
        y[i, j] = x[i, j] * T.float32(2)


@T.prim_func
def strided(x: T.Buffer((4,), "float32", strides=("s",)), y: T.Buffer((1,), "int64")):
    y[0] = s


def test_graphs_take_views():
    run = loomir.compile(add, copy_arguments=True)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    for _ in range(4):  # also by the quick way of later calls
        np.testing.assert_array_equal(run(x.T, x[:, 1]), x.T + x[:, 1])
        np.testing.assert_array_equal(run(x=x[:, ::2], w=x[0, ::2]), x[:, ::2] + x[0, ::2])
        np.testing.assert_array_equal(run(x, x[0]), x + x[0])


def test_views_in_tuples_are_copied_too():
    run = loomir.compile(first, copy_arguments=True)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(run((x.T, x[0])), x.T + x[0][:, None])


def test_tensors_of_pytorch_are_copied_too():
    torch = pytest.importorskip("torch")
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    found: Any = loomir.compile(add, copy_arguments=True)(x.T, x[:, 1])
    assert torch.equal(found, x.T + x[:, 1])
    out = torch.zeros(4, 3).T
    loomir.compile(twice, copy_arguments=True)(x, out)
    assert torch.equal(out, x * 2)


def test_kernels_copy_back_what_they_write():
    run = loomir.compile(twice, copy_arguments=True)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    out = np.zeros((4, 3), "float32").T
    run(x, out)
    np.testing.assert_array_equal(out, x * 2)
    wide = np.zeros((3, 8), "float32")
    run(y=wide[:, ::2], x=x)
    np.testing.assert_array_equal(wide[:, ::2], x * 2)
    assert not wide[:, 1::2].any()
    np.testing.assert_array_equal(run(x.T), x.T * 2)
    frozen = np.zeros((4, 3), "float32")
    frozen.setflags(write=False)
    with pytest.raises(loomir.RunError, match="y is read-only"):
        run(x, frozen.T)


@T.prim_func
def add_one(a: T.Buffer((3, 4), "float32"), y: T.Buffer((3, 4), "float32")):
    for i, j in T.grid(3, 4):
        y[i, j] = a[i, j] + T.float32(1)


def test_written_arrays_are_copied_back_where_constants_are_bound():
    a = np.arange(12, dtype="float32").reshape(3, 4)
    run = loomir.compile(add_one, constants={"a": a}, copy_arguments=True)
    out = np.zeros((4, 3), "float32").T
    for _ in range(3):  # also by the quick way of later calls
        out[:] = 0
        run(out)
        np.testing.assert_array_equal(out, a + 1)
    out[:] = 0
    run(y=out)
    np.testing.assert_array_equal(out, a + 1)
    frozen = np.zeros((4, 3), "float32")
    frozen.setflags(write=False)
    with pytest.raises(loomir.RunError, match="y"):
        run(frozen.T)


def test_buffers_that_declare_strides_are_given_as_they_are():
    run = loomir.compile(strided, copy_arguments=True)
    assert run(np.zeros(8, "float32")[::2]).tolist() == [2]


def test_the_option_goes_with_the_executable(tmp_path: Any):
    x = np.arange(12, dtype="float32").reshape(3, 4)
    exe = loomir.compile(add, copy_arguments=True)
    exe.save(tmp_path / "add.loom")
    for again in (pickle.loads(pickle.dumps(exe)), loomir.load(tmp_path / "add.loom")):
        np.testing.assert_array_equal(again(x.T, x[:, 1]), x.T + x[:, 1])


def test_refusals_name_the_option_and_the_librarys_own_copy():
    x = np.zeros((4, 4), "float32")
    with pytest.raises(loomir.RunError) as caught:
        loomir.compile(add)(x.T, x[0])
    (only,) = caught.value.diagnostics
    wanted = "pass numpy.ascontiguousarray(x), or compile with copy_arguments=True"
    assert (only.code, only.help) == ("RUN0006", wanted)
    torch = pytest.importorskip("torch")
    with pytest.raises(loomir.RunError) as caught:
        loomir.compile(add)(torch.from_numpy(x).T, torch.zeros(4))
    (only,) = caught.value.diagnostics
    assert only.help == "pass x.contiguous(), or compile with copy_arguments=True"
