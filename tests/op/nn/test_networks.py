# ruff: noqa: N805  (programs of TVMScript)
"""Small networks as graphs: read, interpreted, lowered to kernels, and run as machine code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op
from loomir.relax.expr import Var
from loomir.relax.struct_info import TensorStructInfo
from loomir.script import from_source
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T
from loomir.transform.pipelines import lower_relax


@I.ir_module
class Classifier:
    @R.function
    def main(
        x: R.Tensor(("n", 3, 8, 8), "float32"),
        w1: R.Tensor((4, 3, 3, 3), "float32"),
        gamma: R.Tensor((4,), "float32"),
        beta: R.Tensor((4,), "float32"),
        mean: R.Tensor((4,), "float32"),
        var: R.Tensor((4,), "float32"),
        w2: R.Tensor((5, 64), "float32"),
        b2: R.Tensor((5,), "float32"),
    ) -> R.Tensor(("n", 5), "float32"):
        n = T.int64()
        with R.dataflow():
            conv = R.nn.conv2d(x, w1, padding=1)
            norm = R.nn.batch_norm(conv, gamma, beta, mean, var, axis=1, training=False)
            positive = R.nn.relu(norm[0])
            pooled = R.nn.max_pool2d(positive, (2, 2), (2, 2))
            flat = R.nn.batch_flatten(pooled)
            scores = R.linear(flat, w2, b2)
            made: R.Tensor((n, 5), "float32") = R.nn.softmax(scores)
            R.output(made)
        return made


@I.ir_module
class Transformer:
    @R.function
    def main(
        x: R.Tensor((1, "s", 8), "float32"),
        g: R.Tensor((8,), "float32"),
        wq: R.Tensor((8, 8), "float32"),
        wk: R.Tensor((4, 8), "float32"),
        wv: R.Tensor((4, 8), "float32"),
        wo: R.Tensor((8, 8), "float32"),
        w1: R.Tensor((16, 8), "float32"),
        w2: R.Tensor((8, 16), "float32"),
    ) -> R.Tensor((1, "s", 8), "float32"):
        s = T.int64()
        with R.dataflow():
            normal = R.nn.rms_norm(x, g, axes=[-1], epsilon=1e-6)
            q = R.reshape(R.linear(normal, wq), (1, s, 4, 2))
            k = R.reshape(R.linear(normal, wk), (1, s, 2, 2))
            v = R.reshape(R.linear(normal, wv), (1, s, 2, 2))
            mixed = R.nn.attention(q, k, v, causal_mask="BottomRight")
            attended = R.linear(R.reshape(mixed, (1, s, 8)), wo)
            first = R.add(x, attended)
            wide = R.nn.gelu(R.linear(R.nn.layer_norm(first, g, g, axes=-1), w1))
            made = R.add(first, R.linear(wide, w2))
            R.output(made)
        return made


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, s).astype("float32") for s in shapes]


def ways(module: Any) -> list[Any]:
    lowered = lower_relax(module)
    assert loomir.verify(lowered) == ()
    compiled = loomir.compile(module, opt_level=1, cache=False)
    return [
        lambda *a: loomir.interpret(module, "main", *a),
        lambda *a: loomir.interpret(lowered, "main", *a),
        compiled["main"],
    ]


def classified(
    x: Any, w1: Any, gamma: Any, beta: Any, mean: Any, var: Any, w2: Any, b2: Any
) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    conv = np.einsum("nchwij,ocij->nohw", windows, w1)
    per = (1, -1, 1, 1)
    norm = (conv - mean.reshape(per)) / np.sqrt(var + 1e-5).reshape(per)
    positive = np.maximum(norm * gamma.reshape(per) + beta.reshape(per), 0)
    pooled = positive.reshape(-1, 4, 4, 2, 4, 2).max((3, 5))
    scores = pooled.reshape(len(x), 64) @ w2.T + b2
    power = np.exp(scores - scores.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)


def transformed(x: Any, g: Any, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any) -> Any:
    s = x.shape[1]
    normal = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * g
    q, k, v = ((normal[0] @ w.T).reshape(s, -1, 2) for w in (wq, wk, wv))
    heads = []
    for head in range(4):
        scores = q[:, head] @ k[:, head // 2].T / np.sqrt(2)
        power = np.tril(np.exp(scores))
        heads.append(power / power.sum(1, keepdims=True) @ v[:, head // 2])
    first = x + np.stack(heads, 1).reshape(1, s, 8) @ wo.T
    middle = (first - first.mean(-1, keepdims=True)) / np.sqrt(first.var(-1, keepdims=True) + 1e-5)
    wide = (middle * g + g) @ w1.T
    erf = np.vectorize(math.erf)
    return first + (wide * 0.5 * (1 + erf(wide / np.sqrt(2)))) @ w2.T


def test_images_are_classified():
    run_all = ways(Classifier)
    for count in (1, 3):
        shapes = [(count, 3, 8, 8), (4, 3, 3, 3), (4,), (4,), (4,), (4,), (5, 64), (5,)]
        given = arrays(*shapes)
        given[5] = np.abs(given[5])
        wanted = classified(*given)
        for run in run_all:
            np.testing.assert_allclose(run(*given), wanted, rtol=2e-5, atol=1e-6)


def test_words_attend_to_those_before():
    run_all = ways(Transformer)
    for length in (1, 4, 7):
        shapes = [(1, length, 8), (8,), (8, 8), (4, 8), (4, 8), (8, 8), (16, 8), (8, 16)]
        given = arrays(*shapes)
        wanted = transformed(*given)
        for run in run_all:
            np.testing.assert_allclose(run(*given), wanted, rtol=2e-5, atol=2e-6)


@I.ir_module
class Short:
    @R.function
    def main(
        x: R.Tensor((1, 4, 8, 8), "float32"),
        w: R.Tensor((4, 2, 3, 3), "float32"),
        m: R.Tensor((1, 1, 4, 1), "float32"),
    ):
        a = R.nn.conv2d(x, w, padding=1, groups=2)
        b = R.nn.max_pool2d(a, 2, 2)
        c = R.nn.adaptive_avg_pool2d(b, 1)
        d = R.nn.attention(x, x, x, m)
        return (c, d)


@I.ir_module
class Whole:
    @R.function
    def main(
        x: R.Tensor((1, 4, 8, 8), "float32"),
        w: R.Tensor((4, 2, 3, 3), "float32"),
        m: R.Tensor((1, 1, 4, 1), "float32"),
    ):
        a = R.nn.conv2d(
            x,
            w,
            strides=[1, 1],
            padding=[1, 1, 1, 1],
            dilation=[1, 1],
            groups=2,
            data_layout="NCHW",
            kernel_layout="OIHW",
            out_layout="NCHW",
            out_dtype="void",
        )
        b = R.nn.max_pool2d(
            a,
            pool_size=[2, 2],
            strides=[2, 2],
            dilation=[1, 1],
            padding=[0, 0, 0, 0],
            ceil_mode=False,
            layout="NCHW",
            out_layout="NCHW",
        )
        c = R.nn.adaptive_avg_pool2d(b, output_size=[1, 1], layout="NCHW", out_layout="NCHW")
        d = R.nn.attention_bias(x, x, x, m, scale=None, causal_mask=None)
        return (c, d)


def test_what_is_left_out_is_what_it_stands_for():
    loomir.ir.assert_structural_equal(Short, Whole)


@pytest.mark.parametrize("module", [Classifier, Transformer, Short])
def test_networks_read_back_as_printed(module: Any):
    loomir.ir.assert_structural_equal(module, from_source(module.script()))


def test_means_of_lines_and_volumes_count_what_is_padded():
    def made(name: str, *shape: int) -> Any:
        text = f"""
@R.function
def main(x: R.Tensor({shape}, "float32")):
    y = R.nn.{name}(x, 3, padding=1)
    return y
"""
        return np.asarray(loomir.interpret(from_source(text), np.ones(shape, "float32")))

    for name, shape, corner in (
        ("avg_pool1d", (1, 1, 4), 2 / 3),
        ("avg_pool2d", (1, 1, 4, 4), 1.0),
        ("avg_pool3d", (1, 1, 4, 4, 4), 8 / 27),
    ):
        np.testing.assert_allclose(made(name, *shape).flat[0], corner, rtol=1e-6)


def test_options_are_one_thing_however_they_are_written():
    x = Var("x", TensorStructInfo((1, 4, 2, 2), "float32"))
    starts = Var("starts", TensorStructInfo((2,), "int32"))
    most = Var("most", TensorStructInfo((), "int32"))
    pairs = [
        (op.nn.leakyrelu(x, 2), op.nn.leakyrelu(x, 2.0)),
        (op.nn.attention(x, x, x, scale=1), op.nn.attention(x, x, x, scale=1.0)),
        (op.nn.pad(x, [0] * 8, pad_value="-inf"), op.nn.pad(x, [0] * 8, pad_value=-math.inf)),
        (
            op.nn.attention_var_len(x, x, x, starts, starts, most, most),
            op.nn.attention_var_len(x, x, x, starts, most, starts, most),
        ),
    ]
    for one, other in pairs:
        loomir.ir.assert_structural_equal(one, other)
