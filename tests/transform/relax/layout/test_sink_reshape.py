"""What is computed of a reshaped tensor is computed before, and reshapes meet and vanish."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from loomir.support.dtype import DataType, numpy_of
from loomir.tir import Var as ShapeVar
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import calls, described, flat, program, random

N = ShapeVar("n", "int64")
Build = Callable[..., Any]


def _made(build: Build, infos: Sequence[Any], *args: Any) -> list[str]:
    mod = applied("SinkReshape", program(build, infos), *args)
    return calls(apply(PASSES["relax.DeadCodeElimination"], mod))


def test_a_product_of_flattened_rows_keeps_their_axes():
    def build(b: Any, x: Any, w: Any, bias: Any, rest: Any) -> Any:
        y = b.emit(op.exp(x))
        y = b.emit(op.matmul(b.emit(op.reshape(y, (2 * N, 4))), w))
        y = b.emit(op.reshape(b.emit(op.add(y, bias)), (2, N, 3)))
        return op.add(y, rest)

    infos = [described(s) for s in ((2, N, 4), (4, 3), (3,), (2, N, 3))]
    made = _made(build, infos, random(2, 5, 4), random(4, 3), random(3), random(2, 5, 3))
    assert made == ["exp", "matmul", "add", "add"]


def test_batches_that_were_flattened_are_multiplied_as_they_were():
    def build(b: Any, q: Any, k: Any) -> Any:
        k = b.emit(op.permute_dims(b.emit(op.permute_dims(k, [0, 2, 1, 3])), [0, 1, 3, 2]))
        k = b.emit(op.multiply(k, relax.const(0.5, "float32")))
        k = b.emit(op.broadcast_to(k, (2, 3, 4, N)))
        y = b.emit(op.matmul(b.emit(op.reshape(q, (6, 5, 4))), b.emit(op.reshape(k, (6, 4, N)))))
        return op.exp(b.emit(op.reshape(y, (2, 3, 5, N))))

    infos = [described(s) for s in ((2, 3, 5, 4), (2, N, 3, 4))]
    made = _made(build, infos, random(2, 3, 5, 4), random(2, 7, 3, 4))
    assert made == ["multiply", "permute_dims", "matmul", "exp"]


def test_a_transposition_of_single_axes_is_a_reshape():
    def build(b: Any, x: Any) -> Any:
        y = b.emit(op.permute_dims(b.emit(op.reshape(x, (1, 1, 3, 4))), [0, 2, 1, 3]))
        return op.exp(b.emit(op.reshape(b.emit(op.permute_dims(y, [2, 0, 1, 3])), (12,))))

    assert _made(build, [described((12,))], random(12)) == ["exp"]


@pytest.mark.parametrize(
    "change",
    [
        ("R.reshape(x, R.shape([6, 4]))", "R.reshape(x, R.shape([4, 6]))"),  # another last axis
        ("R.add(p, b)", "R.add(p, R.reshape(c, R.shape([6, 3])))"),  # a tensor of that shape
    ],
)
def test_what_needs_the_shape_keeps_it(change: tuple[str, str]):
    text = """
    @R.function
    def main(x: R.Tensor((2, 3, 4), "float32"), b: R.Tensor((3,), "float32"), c: R.Tensor((18,), "float32")):
        with R.dataflow():
            y = R.reshape(x, R.shape([6, 4]))
            w = R.ones(R.shape([4, 3]), dtype="float32")
            p = R.matmul(y, w)
            q = R.add(p, b)
            R.output(q)
        return q
    """
    assert change[0] in text
    text = text.replace(*change).replace("[4, 3]", "[6, 3]" if "4, 6" in change[1] else "[4, 3]")
    mod = module(text)
    args = random(2, 3, 4), random(3), random(18)
    made = applied("SinkReshape", mod, *args)
    assert calls(made).count("reshape") >= 1
    _same_bits(mod, made, *args)


def test_what_leaves_is_a_tensor_of_its_own():
    text = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.reshape(x, R.shape([2, 3]))
            z = R.permute_dims(x, axes=(0, 1))
            u = R.broadcast_to(x, R.shape([2, 3]))
            R.output(y, z, u)
        return (y, z, u)
    """
    x = random(2, 3)
    made = applied("SinkReshape", module(text), x)
    results: Any = loomir.interpret(made, "main", x)
    for result in results:
        result[0] = 7
    assert x[0, 0] != 7


def test_what_is_written_is_not_read_later():
    text = """
    @T.prim_func(private=True)
    def fill(x: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                x[vi, vj] = T.float32(0)

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        cls = Module
        with R.dataflow():
            y = R.exp(x)
            z = R.reshape(y, R.shape([6]))
            w = R.call_tir_inplace(cls.fill, (y,), out_sinfo=R.Tensor((2, 3), "float32"), inplace_indices=[0])
            u = R.negative(z)
            R.output(w, u)
        return (w, u)
    """
    x = random(2, 3)
    mod = module(text)
    made = applied("SinkReshape", mod, x)
    _same_bits(mod, made, x)


# -- random graphs -------------------------------------------------------------------------------
def _same_bits(mod: IRModule, made: IRModule, *args: Any) -> None:
    wanted = flat(loomir.interpret(mod, "main", *args))
    found = flat(loomir.interpret(made, "main", *args))
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def _count(shape: Sequence[Any]) -> int:
    return math.prod(997 if d is N else d for d in shape)


def _random_graph(rng: np.random.Generator) -> tuple[IRModule, list[Any]]:
    """Build a graph of moves, products and elements, often with a way back; and its arguments."""
    symbolic = bool(rng.integers(2))
    dtype = str(rng.choice(["float32", "float64", "float16", "bfloat16"]))
    n: Any = N if symbolic else 2
    shapes: list[list[Any]] = [[2, n, 4], [1, n, 2, 4], [4, 4], [4]]
    infos = [described(s, dtype) for s in shapes]

    def build(b: Any, *params: Any) -> Any:
        pool: list[tuple[Any, list[Any]]] = list(zip(params, shapes))[:2]
        weight, bias = params[2:]
        for _ in range(10):
            x, shape = pool[int(rng.integers(max(0, len(pool) - 4), len(pool)))]
            way = int(rng.integers(7))
            if way == 0:
                shape = [*shape[:-2], shape[-2] * shape[-1]] if len(shape) > 2 else [1, *shape]
                pool.append((b.emit(op.reshape(x, tuple(shape))), shape))
            elif way == 1 and _count(shape) == _count(shapes[0]):
                base = shapes[int(rng.integers(2))]
                pool.append((b.emit(op.reshape(x, tuple(base))), base))
            elif way == 2:
                axes = [int(a) for a in rng.permutation(len(shape))]
                moved = [shape[a] for a in axes]
                pool.append((b.emit(op.permute_dims(x, axes)), moved))
            elif way == 3 and shape[-1] is not N and shape[-1] == 4:
                y = b.emit(op.matmul(x, weight))
                pool.append((b.emit(op.add(y, bias)), shape))
            elif way == 4:
                y = b.emit(op.multiply(x, relax.const(0.5, dtype)))
                pool.append((b.emit(op.add(y, b.emit(op.negative(x)))), shape))
            elif way == 5:
                pool.append((b.emit(op.broadcast_to(x, tuple(shape))), shape))
            elif len(shape) > 2:
                turn = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
                y = b.emit(op.matmul(b.emit(op.nn.relu(x)), b.emit(op.permute_dims(x, turn))))
                pool.append((y, [*shape[:-1], shape[-2]]))
        return relax.Tuple(tuple(x for x, _ in pool[-3:]))

    def array(shape: Sequence[Any]) -> Any:
        values = rng.integers(-4, 5, [2 if d is N else d for d in shape])
        return values.astype(numpy_of(DataType(dtype)))

    return program(build, infos), [array(s) for s in shapes]


@pytest.mark.parametrize("seed", range(16))
def test_random_graphs_keep_all_bits(seed: int):
    mod, args = _random_graph(np.random.default_rng(seed))
    made = apply(PASSES["relax.SinkReshape"], mod)
    assert [d for d in loomir.verify(made) if d.severity == "error"] == []
    _same_bits(mod, made, *args)
