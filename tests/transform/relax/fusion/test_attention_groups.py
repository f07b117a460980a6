"""Attention is one kernel, however it is written, and nothing else is taken for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.support.dtype import DataType, numpy_of
from loomir.tir import PrimFunc
from loomir.tir import Var as ShapeVar
from loomir.transform.pipelines import lower_relax
from tests.transform.relax.test_lowering import described, flat, program

N = ShapeVar("n", "int64")


def _kernels(mod: Any) -> int:
    return sum(isinstance(func, PrimFunc) for func in lower_relax(mod).functions.values())


class _Form:
    """A way to write attention, drawn at random, with what NumPy makes of it in float64."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.dtype = str(rng.choice(["float32", "float32", "float64", "float16", "bfloat16"]))
        self.symbolic = bool(rng.integers(2))
        self.batch, self.heads, self.depth = 2, int(rng.integers(1, 4)), 8
        self.queries = int(rng.choice([1, 5, 16, 20]))
        self.keys = int(rng.choice([1, 7, 130]))
        self.layout = str(rng.choice(["BHSD", "BSHD", "flat"]))
        self.scales = str(rng.choice(["before", "after", "divide", "both"]))
        self.mask = str(rng.choice(["none", "add", "where", "full", "safe", "nan"]))
        self.moves_out = bool(rng.integers(2))

    def shapes(self, symbolic: bool) -> list[tuple[Any, ...]]:
        keys: Any = N if symbolic else self.keys
        rows = [(self.batch, self.heads, n, self.depth) for n in (self.queries, keys, keys)]
        if self.layout == "BSHD":
            rows = [(b, n, h, d) for b, h, n, d in rows]
        mask = (self.batch, 1, self.queries if self.mask == "full" else 1, keys)
        return [*rows, mask]

    def arguments(self) -> list[Any]:
        numpy = numpy_of(DataType(self.dtype))
        *rows, mask = self.shapes(False)
        made = [self.rng.standard_normal(shape).astype(numpy) for shape in rows]
        seen = self.rng.integers(0, 2, mask).astype(bool)
        if self.mask not in ("safe", "nan"):
            seen[..., 0] = True
        elif self.batch > 1:
            seen[0] = False  # rows that see nothing
        return [*made, seen]

    def build(self, b: Any, q: Any, k: Any, v: Any, seen: Any) -> Any:
        emit, dtype = b.emit, self.dtype

        def number(value: float) -> Any:
            return relax.const(value, dtype)

        if self.layout == "BSHD":
            q, k, v = [emit(op.permute_dims(x, [0, 2, 1, 3])) for x in (q, k, v)]
        keys: Any = N if self.symbolic else self.keys
        if self.scales in ("before", "both"):
            q = emit(op.multiply(q, number(0.5)))
        k = emit(op.permute_dims(k, [0, 1, 3, 2]))
        if self.scales == "both":
            k = emit(op.multiply(k, number(0.5)))
        front = self.batch * self.heads
        if self.layout == "flat":
            q = emit(op.reshape(q, (front, self.queries, self.depth)))
            k = emit(op.reshape(k, (front, self.depth, keys)))
            v = emit(op.reshape(v, (front, keys, self.depth)))
        y = emit(op.matmul(q, k))
        whole = (self.batch, self.heads, self.queries, keys)
        if self.layout == "flat":
            y = emit(op.reshape(y, whole))
        if self.scales in ("after", "divide"):
            y = emit(
                op.multiply(y, number(0.5)) if self.scales == "after" else op.divide(y, number(2))
            )
        low = number(float("-inf"))
        if self.mask in ("add", "full", "safe"):
            y = emit(op.add(y, emit(op.where(seen, number(0), low))))
        elif self.mask in ("where", "nan"):
            y = emit(op.where(seen, y, low))
        p = emit(op.nn.softmax(y, -1))
        if self.mask == "safe":
            some = emit(op.astype(emit(op.logical_not(emit(op.equal(y, low)))), "uint8"))
            some = emit(op.astype(emit(op.max(some, [3], True)), "bool"))
            p = emit(op.where(emit(op.logical_not(some)), number(0), p))
        elif self.mask == "nan":
            p = emit(op.where(emit(op.isnan(p)), number(0), p))
        if self.layout == "flat":
            p = emit(op.reshape(p, (front, self.queries, keys)))
        y = emit(op.matmul(p, v))
        if self.layout == "flat":
            y = emit(op.reshape(y, (self.batch, self.heads, self.queries, self.depth)))
        if self.moves_out:
            y = emit(op.permute_dims(y, [0, 2, 1, 3]))
        return op.reshape(y, (self.batch, -1, self.depth)) if self.moves_out else y

    def wanted(self, q: Any, k: Any, v: Any, seen: Any) -> tuple[Any, Any]:
        """Return the result in float64, and a bound of what rounding may move it by."""
        q, k, v = [x.astype("float64") for x in (q, k, v)]
        if self.layout == "BSHD":
            q, k, v = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
        factor = 0.25 if self.scales == "both" else 0.5
        scores = q @ k.swapaxes(2, 3) * factor
        sizes = np.abs(q) @ np.abs(k).swapaxes(2, 3) * factor
        if self.mask != "none":
            scores = np.where(seen, scores, -np.inf)
        most = scores.max(-1, keepdims=True)
        with np.errstate(invalid="ignore"):
            weights = np.exp(scores - most)
            p = weights / weights.sum(-1, keepdims=True)
        p = np.where(np.isnan(p), 0, p)
        epsilon = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11}.get(
            self.dtype, 2.0**-8
        )
        # Scores are off by their products' roundings, and weights by as much, relatively.
        moved = epsilon * (
            4 * (self.depth + 8) * (sizes.max(-1, keepdims=True) + 1) + self.keys + 8
        )
        bound = (2 * moved + (self.keys + 4) * epsilon) * (p @ np.abs(v)) + 4 * epsilon * 1e-3
        made = p @ v
        if self.moves_out:
            made, bound = [
                x.transpose(0, 2, 1, 3).reshape(self.batch, -1, self.depth) for x in (made, bound)
            ]
        return made, bound


@pytest.mark.parametrize("seed", range(16))
def test_forms_of_attention_are_one_kernel_and_agree_with_float64(seed: int):
    form = _Form(seed)
    dtypes = [form.dtype] * 3 + ["bool"]
    infos = [described(s, d) for s, d in zip(form.shapes(form.symbolic), dtypes, strict=True)]
    args = form.arguments()
    mod = program(form.build, infos)
    fused = lower_relax(mod)
    kernels = [f for f in fused.functions.values() if isinstance(f, PrimFunc)]
    masked = form.mask in ("add", "full", "safe")
    # The greatest of no element is an error, for which a kernel of its own looks.
    checked = form.symbolic and form.mask == "safe"
    assert checked or len(kernels) <= 1 + masked, list(fused)  # a mask is made before it is added
    made = np.asarray(loomir.compile(mod)["main"](*args)).astype("float64")
    wanted, bound = form.wanted(*args)
    assert np.all(np.abs(made - wanted) <= bound), np.max(np.abs(made - wanted) - bound)


def test_a_row_that_sees_nothing_stays_no_number_where_nothing_replaces_it():
    def build(b: Any, q: Any, k: Any, m: Any) -> Any:
        y = b.emit(op.matmul(q, b.emit(op.permute_dims(k, [0, 2, 1]))))
        return op.matmul(b.emit(op.nn.softmax(b.emit(op.add(y, m)), -1)), k)

    q, k = np.ones((1, 4, 8), "float32"), np.ones((1, 6, 8), "float32")
    m = np.zeros((4, 6), "float32")
    m[1] = -np.inf
    mod = program(build, [described(x.shape) for x in (q, k, m)])
    assert _kernels(mod) == 1
    made = np.asarray(loomir.compile(mod)["main"](q, k, m))
    assert np.isnan(made[0, 1]).all()
    assert not np.isnan(made[0, [0, 2, 3]]).any()


def _chain(b: Any, q: Any, k: Any, *, also: str = "", axis: int = -1) -> Any:
    scores = b.emit(op.matmul(q, b.emit(op.permute_dims(k, [0, 2, 1]))))
    weights = b.emit(op.nn.softmax(scores, axis))
    made = b.emit(op.matmul(weights, k))
    other = {"scores": scores, "weights": weights}.get(also)
    return made if other is None else relax.Tuple((made, other))


@pytest.mark.parametrize("also", ["scores", "weights"])
def test_what_is_returned_is_made(also: str):
    def build(b: Any, q: Any, k: Any) -> Any:
        return _chain(b, q, k, also=also)

    _same(build, kernels=3)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_softmax_along_another_axis_keeps_its_meaning(axis: int):
    _same(lambda b, q, k: _chain(b, q, k, axis=axis))


def test_a_mask_that_something_else_uses_is_made_once():
    def build(b: Any, q: Any, k: Any) -> Any:
        scores = b.emit(op.matmul(q, b.emit(op.permute_dims(k, [0, 2, 1]))))
        mask = b.emit(op.exp(scores))
        weights = b.emit(op.nn.softmax(b.emit(op.add(scores, mask)), -1))
        return relax.Tuple((b.emit(op.matmul(weights, k)), b.emit(op.sum(mask))))

    _same(build)


def _same(build: Callable[..., Any], kernels: int | None = None) -> None:
    rng = np.random.default_rng(3)
    q, k = [rng.standard_normal(s).astype("float32") for s in ((2, 17, 8), (2, 17, 8))]
    mod = program(build, [described(q.shape), described(k.shape)])
    assert kernels is None or _kernels(mod) == kernels
    wanted = flat(loomir.interpret(mod, "main", q, k))
    found = flat(loomir.compile(mod)["main"](q, k))
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=1e-5)
