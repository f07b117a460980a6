"""Reductions: sums and other combinations over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.support.diagnostics import CompileError
from tests.te.running import run_both
from tests.tir.refusal import refused

NUMPY = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}
INITIAL = {"sum": 0, "prod": 1}


def values(dtype: str, shape: tuple[int, ...] = (3, 5)) -> np.ndarray:
    return np.random.default_rng(1).integers(1, 4, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float16", "float32"])
@pytest.mark.parametrize("name", NUMPY)
def test_reductions_of_numbers(name: str, dtype: str):
    a = te.placeholder((3, 5), dtype, "A")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((3,), lambda i: getattr(te, name)(a[i, k], axis=k), name="B")
    x = values(dtype)
    with np.errstate(over="ignore"):
        expected = NUMPY[name](x.astype(dtype), axis=1)
    run_both([a, b], [x], [expected.astype(dtype)])


@pytest.mark.parametrize("name", ["all", "any"])
def test_reductions_of_truths(name: str):
    a = te.placeholder((4, 2), "bool", "A")
    k = te.reduce_axis((0, 2))
    b = te.compute((4,), lambda i: getattr(te, name)(a[i, k], axis=k), name="B")
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "bool")
    run_both([a, b], [x], [getattr(np, name)(x, axis=1)])


@pytest.mark.parametrize("name", ["min", "max", "sum"])
def test_nan_is_not_lost(name: str):
    a = te.placeholder((3, 3), name="A")
    k = te.reduce_axis((0, 3))
    b = te.compute((3,), lambda i: getattr(te, name)(a[i, k], axis=k), name="B")
    x = np.array([[1, np.nan, 2], [np.inf, 1, 2], [-np.inf, -1, -2]], "float32")
    run_both([a, b], [x], [NUMPY[name](x, axis=1)])


def test_over_several_axes_to_rank_0():
    a = te.placeholder((3, 5), "int32", "A")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((1, 4), "j")
    b = te.compute((), lambda: te.sum(a[i, j], axis=[i, j]), name="B")
    x = values("int32")
    run_both([a, b], [x], [x[:, 1:4].sum().astype("int32")])


@pytest.mark.parametrize("name", NUMPY)
def test_over_nothing_gives_the_identity(name: str):
    a = te.placeholder((3, 0), "int32", "A")
    k = te.reduce_axis((0, 0))
    b = te.compute((3,), lambda i: getattr(te, name)(a[i, k], axis=k), name="B")
    limits = np.iinfo("int32")
    identity = {"sum": 0, "prod": 1, "min": limits.max, "max": limits.min}[name]
    x = np.zeros((3, 0), "int32")
    run_both([a, b], [x], [np.full(3, identity, "int32")])


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 0, 4), (2, 3, 0), (0, 3, 4), (1, 1, 1)])
def test_symbolic_extents_may_be_empty(shape: tuple[int, int, int]):
    n, m, p = te.size_var("n"), te.size_var("m"), te.size_var("p", "int64")
    a = te.placeholder((n, m, p), name="A")
    i, j = te.reduce_axis((0, m), "i"), te.reduce_axis((0, p), "j")
    b = te.compute((n,), lambda r: te.sum(a[r, i, j], axis=[i, j], init=2.0), name="B")
    x = np.random.default_rng(0).random(shape).astype("float32")
    run_both([a, b], [x], [x.sum(axis=(1, 2)) + np.float32(2)])


def test_where_guards_what_is_read():
    a = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 6))
    b = te.compute(
        (4,), lambda i: te.sum(a[k - i], axis=k, where=te.all_of(k >= i, k - i < 4)), name="B"
    )
    x = np.arange(4, dtype="float32") + 1
    expected = [sum(x[k - i] for k in range(6) if 0 <= k - i < 4) for i in range(4)]
    run_both([a, b], [x], [np.array(expected, "float32")])


def test_init_may_be_an_expression():
    a = te.placeholder((2, 3), name="A")
    bias = te.placeholder((2,), name="bias")
    k = te.reduce_axis((0, 3))
    b = te.compute((2,), lambda i: te.max(a[i, k], axis=k, init=bias[i]), name="B")
    x, y = values("float32", (2, 3)), np.array([-1, 9], "float32")
    run_both([a, bias, b], [x, y], [np.maximum(x.max(axis=1), y)])


def argmax() -> Callable[..., Any]:
    def combine(x: Any, y: Any) -> Any:
        keep = te.any_of(x[1] > y[1], te.all_of(x[1].equal(y[1]), x[0] <= y[0]))
        return te.select(keep, x[0], y[0]), te.select(keep, x[1], y[1])

    return te.comm_reducer(
        combine, lambda i, v: (te.max_value(i), te.const(float("-inf"), v)), "argmax"
    )


def test_a_combiner_of_two_values():
    a = te.placeholder((3, 5), name="A")
    k = te.reduce_axis((0, 5))
    reducer = argmax()
    at, most = te.compute((3,), lambda i: reducer((k, a[i, k]), axis=k), name="B")
    x = values("float32")
    func = run_both([a, at, most], [x], [x.argmax(axis=1).astype("int32"), x.max(axis=1)])
    assert "T.init()" in func.script()


def test_axes_give_their_variable_and_range():
    k = te.reduce_axis((2, 7), "k")
    assert k.var is k
    assert str(k.dom) == "T.Range(2, 5)"


def test_mistakes_in_reductions():
    a = te.placeholder((4, 4), name="A")
    k, r = te.reduce_axis((0, 4), "k"), te.reduce_axis((0, 4), "r")
    with refused("TE0003", "integers"):
        te.reduce_axis((0.0, 4.0))
    with refused("TE0003", "no axis"):
        te.sum(a[0, 0], axis=[])
    with refused("TE0003", "cannot reduce over a Var"):
        te.compute((4,), lambda i: te.sum(a[i, 0], axis=i))
    with refused("TE0003", "twice"):
        te.sum(a[k, k], axis=[k, k])
    with refused("TE0003", "'k', over which it does not reduce"):
        te.compute((4,), lambda i: a[i, k])
    with refused("TE0003", "'r', over which it does not reduce"):
        te.compute((4,), lambda i: te.sum(a[k, r], axis=k))
    with refused("TE0004", "condition", "float32"):
        te.sum(a[0, k], axis=k, where=a[0, k])
    with refused("TE0004", "initial value"):
        te.sum(a[0, k], axis=k, init=te.const(0, "int32"))
    with refused("TE0004", "combines float32 to bool"):
        te.comm_reducer(lambda x, y: x > y, lambda t: te.const(0, t))(a[0, k], axis=k)
    with refused("TE0004", "2 values for 1 source"):
        te.comm_reducer(lambda x, y: (x, y), lambda t: te.const(0, t))(a[0, k], axis=k)
    with refused("TE0005", "inside of another expression"):
        te.compute((4,), lambda i: te.sum(a[i, k], axis=k) / 4.0)
    with refused("TE0005", "not those of one reduction"):
        te.compute((4,), lambda i: (te.sum(a[i, k], axis=k), te.max(a[i, k], axis=k)))
    reducer = argmax()
    with refused("TE0005", "not those of one reduction"):
        te.compute((4,), lambda i: reducer((k, a[i, k]), axis=k)[1])


@pytest.mark.parametrize("name", ["max", "min"])
def test_two_values_are_no_reduction(name: str):
    x = te.placeholder((4,), "float32")
    with pytest.raises(CompileError) as caught:
        te.compute((4,), lambda i: getattr(te, name)(x[i], 0.0))
    assert caught.value.diagnostic.code == "TE0003"
    assert caught.value.diagnostic.help == (
        f"write T.{name}(a, b) for two values: te.{name} reduces over axes"
    )
