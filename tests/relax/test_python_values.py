"""Values of graphs in Python: operators, items, shapes and dtypes, constants and named sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.support.diagnostics import CompileError


def tensor(name: str, *shape: Any, dtype: str = "float64") -> relax.Var:
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def run(build: Callable[..., Any], *arrays: Any, shape: tuple[Any, ...] | None = None) -> Any:
    """Build a graph of parameters like the arrays, and run it by the interpreter."""
    bb = relax.BlockBuilder()
    params = [
        tensor(f"x{i}", *(shape or a.shape), dtype=str(a.dtype)) for i, a in enumerate(arrays)
    ]
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(build(*params)))
    return loomir.interpret(bb.get(), "main", *arrays)


A = np.arange(12, dtype="float64").reshape(4, 3) - 3
W = np.arange(15, dtype="float64").reshape(3, 5)
OPERATORS: list[Callable[[Any], Any]] = [
    lambda x: x * 2.0 + 1,
    lambda x: 2 - x / 4,
    lambda x: 1.5 / (x + 10) ** 2,
    lambda x: -x + abs(x),
    lambda x: x // 2 % 3,
    lambda x: x + np.ones(3),
    lambda x: np.float32(0.5) * x,
    lambda x: np.ones((4, 1)) - x,
    lambda x: x @ W,
    lambda x: A.T @ x,
]


@pytest.mark.parametrize("build", OPERATORS)
def test_operators_are_those_of_arrays(build: Callable[[Any], Any]):
    np.testing.assert_allclose(run(build, A), build(A), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float32"])
def test_numbers_take_the_dtype_beside_them(dtype: str):
    x = np.arange(1, 5).astype(dtype)
    found = run(lambda v: (v * 2 + v) - 3, x)
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == [0, 3, 6, 9]
    assert run(lambda v: v > 2, x).tolist() == [False, False, True, True]
    if np.dtype(dtype).kind != "f":
        assert run(lambda v: (v & 1) | (v << 1) ^ ~v, x).dtype == np.dtype(dtype)


def test_bfloat16_keeps_its_dtype():
    found = run(lambda v: v * 0.5, np.ones(3, ml_dtypes.bfloat16))
    assert found.dtype == ml_dtypes.bfloat16


ITEMS: list[Any] = [
    0,
    -1,
    np.int64(2),
    (1, 2),
    (slice(1, 3),),
    (slice(None), 1),
    (slice(None, None, -1),),
    (slice(3, 0, -2), slice(0, 2)),
    (..., 0),
    (..., None),
    (None, 1, ..., None),
    (slice(-3, None), -1),
    (slice(5, 9),),
]


@pytest.mark.parametrize("index", ITEMS, ids=str)
@pytest.mark.parametrize("shape", [None, ("n", "m")])
def test_items_are_those_of_arrays(index: Any, shape: tuple[str, str] | None):
    found = run(lambda x: x[index], A, shape=shape)
    assert np.array_equal(found, A[index])


def test_shapes_and_dtypes_are_known():
    x = tensor("x", 4, "n", dtype="float16")
    n = x.shape[1]
    assert x.shape == (4, n)
    assert x.dtype == "float16"
    assert (x * 2)[0].shape == (n,)
    assert (x @ tensor("w", "n", 5, dtype="float16")).shape == (4, 5)
    assert op.split(x, 2, 0)[1].shape == (2, n)
    assert [part.shape for part in op.split(x, 2, 0)] == [(2, n), (2, n)]


def test_a_name_is_one_size_and_arrays_are_constants():
    bb = relax.BlockBuilder()
    x, y = tensor("x", 2, "n"), tensor("y", "n", 3)
    with bb.function("main", [x, y]):
        ones = bb.emit(np.ones(3))
        bb.emit_func_output(bb.emit(x @ y + ones))
    exe = loomir.compile(bb.get())
    assert exe["main"](np.ones((2, 4)), np.ones((4, 3))).tolist() == [[5.0] * 3] * 2
    with pytest.raises(loomir.RunError):
        exe["main"](np.ones((2, 4)), np.ones((5, 3)))


def test_constants():
    assert relax.const(1).struct_info.dtype == "int32"
    assert relax.const(1.0).struct_info.dtype == "float32"
    assert relax.const([True]).struct_info.dtype == "bool"
    assert relax.const(np.ones((2, 3))).shape == (2, 3)
    assert relax.const(1, "bfloat16").dtype == "bfloat16"


X = tensor("x", 4, "n")
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: relax.const(300, "int8"), "RLX0005"),
    (lambda: relax.const(["a"]), "RLX0005"),
    (lambda: relax.const([[1], [1, 2]]), "RLX0005"),
    (lambda: tensor("i", 4, dtype="int8") * 0.5, "RLX0005"),
    (lambda: tensor("i", 4, dtype="uint8") + 256, "RLX0005"),
    (lambda: X["a"], "RLX0006"),
    (lambda: X[1.5], "RLX0006"),
    (lambda: X[0, 0, 0], "RLX0006"),
    (lambda: X[..., ...], "RLX0006"),
    (lambda: X[True], "RLX0006"),
    (lambda: list(X), "RLX0006"),
    (lambda: op.split(X, 2, 0)[2], "RLX0006"),
    (lambda: relax.Var("o", relax.ObjectStructInfo()).shape, "RLX0006"),
    (lambda: relax.Var("o", relax.ObjectStructInfo()).dtype, "RLX0006"),
    (lambda: relax.Var("o", relax.ObjectStructInfo())[0], "RLX0006"),
    (lambda: relax.TensorStructInfo((4, "n + 1"), "int8"), "RLX0002"),
]


@pytest.mark.parametrize(("make", "code"), WRONG)
def test_what_means_nothing_is_refused(make: Callable[[], object], code: str):
    with pytest.raises(CompileError) as caught:
        make()
    found = caught.value.diagnostic
    assert found.code == code
    assert found.help
    assert code == "RLX0002" or found.span is not None


def test_other_objects_are_no_operands():
    with pytest.raises(TypeError):
        X * "a"  # pyright: ignore[reportUnusedExpression]
