"""What quantises and dequantises around floats becomes products, and moves, of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import op, relax
from loomir.ir.module import IRModule
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call, Constant
from tests.transform.relax.modules import applied, module

RNG = np.random.default_rng(5)
PARTS = 'R.multiply(R.astype(R.subtract(R.astype({x}, "int32"), {z}), "float32"), {s})'
"""What importers write for ``(x - z) * s``."""
PASS = "FakeQuantizationToInteger"


def small(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def calls(mod: IRModule) -> list[str]:
    """Name the operators of ``main``."""
    found = [part for part in pre_order(mod["main"]) if isinstance(part, Call)]
    return [getattr(call.op, "name", "").removeprefix("relax.") for call in found]


def near(made: Any, exact: Any) -> None:
    """Check that sums were exact: only conversions, scales and one product are rounded."""
    assert np.abs(made - exact).max() <= 4 * 2.0**-24 * np.abs(exact).max()


@pytest.mark.parametrize("kind", ["operator", "parts", "columns"])
def test_products_are_sums_of_integers(kind: str):
    a, b, sa = small("uint8", 12, 400), small("int8", 400, 33), np.asarray(0.037, "float32")
    shape = "(33,)" if kind == "columns" else "()"
    sb = np.asarray(RNG.uniform(0.001, 0.1, 33 if kind == "columns" else ()), "float32")
    left = PARTS.format(x="a", z='R.const(131, "int32")', s="sa")
    right = PARTS.format(x="b", z='R.const(-7, "int32")', s="sb")
    if kind == "operator":
        left = 'R.dequantize(a, R.const(0.037, "float32"), R.const(131, "uint8"))'
    mod = module(f"""
    @R.function
    def main(
        a: R.Tensor((12, 400), "uint8"), b: R.Tensor((400, 33), "int8"),
        sa: R.Tensor((), "float32"), sb: R.Tensor({shape}, "float32"),
    ):
        with R.dataflow():
            x = {left}
            w = {right}
            y = R.matmul(x, w)
            R.output(y)
        return y
    """)
    made = applied(PASS, mod)
    assert "matmul" not in calls(made)
    assert "cls.integer_matmul" in made.script()
    exact = (a.astype("int64") - 131) @ (b.astype("int64") + 7) * (float(sa) * sb.astype(float))
    near(loomir.interpret(made, "main", a, b, sa, sb), exact)
    near(loomir.compile(mod)["main"](a, b, sa, sb), exact)


@pytest.mark.parametrize("groups", [1, 3])
def test_convolutions_with_a_scale_for_each_channel(groups: int):
    x, w = small("int8", 2, 6, 8, 7), small("int8", 9, 6 // groups, 3, 3)
    scale = RNG.uniform(0.001, 0.1, (9, 1, 1, 1)).astype("float32")
    mod = module(f"""
    @R.function
    def main(
        x: R.Tensor((2, 6, 8, 7), "int8"), w: R.Tensor((9, {6 // groups}, 3, 3), "int8"),
        s: R.Tensor((9, 1, 1, 1), "float32"), b: R.Tensor((1, 9, 1, 1), "float32"),
    ):
        with R.dataflow():
            f = R.multiply(
                R.astype(R.subtract(R.astype(x, "int32"), R.const(3, "int32")), "float32"),
                R.const(0.25, "float32"),
            )
            k = R.multiply(R.astype(w, "float32"), s)
            c = R.nn.conv2d(f, k, padding=1, groups={groups})
            y = R.nn.relu(R.add(c, b))
            R.output(y)
        return y
    """)
    made = applied(PASS, mod)
    assert "nn.conv2d" not in calls(made)
    bias = RNG.standard_normal((1, 9, 1, 1)).astype("float32")
    wide = np.pad(x.astype("int64") - 3, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    parts = [
        np.einsum("nchwyx,ocyx->nohw", windows[:, g : g + 6 // groups], w[o : o + 9 // groups])
        for g, o in zip(range(0, 6, 6 // groups), range(0, 9, 9 // groups))
    ]
    exact = np.concatenate(parts, 1) * (0.25 * scale.astype(float).reshape(1, 9, 1, 1)) + bias
    for result in (
        loomir.interpret(made, "main", x, w, scale, bias),
        loomir.compile(mod)["main"](x, w, scale, bias),
    ):
        assert np.abs(result - np.maximum(exact, 0)).max() <= 6 * 2.0**-24 * np.abs(exact).max()


def test_a_linear_layer():
    x, w = small("int8", 5, 40), small("int8", 6, 40)
    mod = module("""
    @R.function
    def main(
        x: R.Tensor((5, 40), "int8"), w: R.Tensor((6, 40), "int8"), b: R.Tensor((6,), "float32"),
        s: R.Tensor((6, 1), "float32"),
    ):
        with R.dataflow():
            f = R.multiply(R.astype(x, "float32"), R.const(0.5, "float32"))
            k = R.multiply(R.astype(w, "float32"), s)
            y = R.linear(f, k, b)
            R.output(y)
        return y
    """)
    made = applied(PASS, mod)
    assert "linear" not in calls(made)
    bias, scale = np.arange(6, dtype="float32"), np.arange(1, 7, dtype="float32").reshape(6, 1)
    exact = (x.astype("int64") @ w.astype("int64").T) * (0.5 * scale.T) + bias
    assert np.array_equal(loomir.interpret(made, "main", x, w, bias, scale), exact)  # no rounding


def test_sums_that_could_exceed_int32_stay_floats():
    def graph(steps: int) -> IRModule:
        return module(f"""
        @R.function
        def main(a: R.Tensor((1, {steps}), "uint8"), b: R.Tensor(({steps}, 1), "uint8")):
            with R.dataflow():
                x = R.multiply(R.astype(a, "float32"), R.const(0.5, "float32"))
                w = R.multiply(R.astype(b, "float32"), R.const(0.5, "float32"))
                y = R.matmul(x, w)
                R.output(y)
            return y
        """)

    most = (2**31 - 1) // 255**2
    whole = applied(PASS, graph(most))
    assert "matmul" not in calls(whole)
    full = np.full((1, most), 255, "uint8")
    assert loomir.interpret(whole, "main", full, full.T) == np.float32(most * 255**2) / 4
    assert "matmul" in calls(applied(PASS, graph(most + 1)))


def test_scales_along_the_sum_stay_floats():
    mod = module("""
    @R.function
    def main(a: R.Tensor((4, 8), "int8"), b: R.Tensor((8, 4), "int8"), s: R.Tensor((8, 1), "float32")):
        with R.dataflow():
            x = R.multiply(R.astype(a, "float32"), R.const(0.5, "float32"))
            w = R.multiply(R.astype(b, "float32"), s)
            y = R.matmul(x, w)
            R.output(y)
        return y
    """)
    assert applied(PASS, mod) is mod


MOVES = [
    "R.reshape(x, (4, 24))",
    "R.permute_dims(x, axes=[0, 3, 1, 2])",
    "R.strided_slice(x, axes=[2], begin=[1], end=[4], strides=[2])",
    "R.concat((x, x), axis=1)",
    "R.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2), padding=(1, 1))",
    "R.squeeze(R.expand_dims(x, axis=1), axis=1)",
]


@pytest.mark.parametrize("move", MOVES)
def test_what_moves_is_bytes(move: str):
    """All bits stay, and what quantises again as before is left out."""
    mod = module(f"""
    @R.function
    def main(q: R.Tensor((2, 3, 4, 4), "uint8")):
        with R.dataflow():
            x = R.multiply(
                R.astype(R.subtract(R.astype(q, "int32"), R.const(77, "int32")), "float32"),
                R.const(0.1, "float32"),
            )
            m = {move}
            d = R.divide(m, R.const(0.1, "float32"))
            y = R.astype(
                R.clip(R.add(R.round(d), R.const(77.0, "float32")), 0, 255), "uint8"
            )
            R.output(y)
        return y
    """)
    made = applied(PASS, mod)
    assert not {"divide", "round", "clip"} & set(calls(made))
    given = small("uint8", 2, 3, 4, 4)
    wanted = loomir.interpret(mod, "main", given)
    assert np.array_equal(loomir.interpret(made, "main", given), wanted)
    assert np.array_equal(loomir.compile(mod)["main"](given), wanted)


@pytest.mark.parametrize("change", ["0.11", "78.0", "int8"])
def test_another_scale_or_zero_point_rounds_again(change: str):
    scale, zero, dtype = "0.1", "77.0", "uint8"
    scale = change if change == "0.11" else scale
    zero = change if change == "78.0" else zero
    dtype = change if change == "int8" else dtype
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    mod = module(f"""
    @R.function
    def main(q: R.Tensor((2, 30), "uint8")):
        with R.dataflow():
            x = R.dequantize(q, R.const(0.1, "float32"), R.const(77, "uint8"))
            d = R.divide(R.reshape(x, (3, 20)), R.const({scale}, "float32"))
            y = R.astype(
                R.clip(R.add(R.round(d), R.const({zero}, "float32")), {low}, {high}), "{dtype}"
            )
            R.output(y)
        return y
    """)
    made = applied(PASS, mod)
    assert "round" in calls(made)
    given = small("uint8", 2, 30)
    wanted = loomir.interpret(mod, "main", given)
    assert np.array_equal(loomir.interpret(made, "main", given), wanted)


def test_channels_of_a_transposed_kernel():
    """The scale of each channel moves with its axis."""
    x, w, scale = small("int8", 5, 40), small("int8", 6, 40), np.arange(1, 7, dtype="float32")
    given = relax.Var("x", relax.TensorStructInfo((5, 40), "int8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [given]):
        with builder.dataflow():
            half = relax.const(np.float32(0.5))
            f = builder.emit(op.multiply(builder.emit(op.astype(given, "float32")), half))
            zero = relax.const(np.arange(6, dtype="int8"))
            k = builder.emit(op.dequantize(relax.const(w), relax.const(scale), zero, 0))
            product = op.matmul(f, builder.emit(op.permute_dims(k)))
            out = builder.emit_output(product)
        builder.emit_func_output(out)
    made = applied(PASS, builder.get())
    assert "matmul" not in calls(made)
    exact = (x.astype("int64") @ (w.astype("int64").T - np.arange(6))) * (0.5 * scale)
    assert np.array_equal(loomir.interpret(made, "main", x), exact)
    assert np.array_equal(loomir.compile(builder.get())["main"](x), exact)


@pytest.mark.parametrize("shape", [(1, 40), (3, 40), (2, 3, 40)])
@pytest.mark.parametrize("layer", [False, True])
def test_weights_of_bytes_stay_bytes_in_products_of_floats(shape: tuple[int, ...], layer: bool):
    # Multiples of powers of two: every product and sum is exact, in whatever order.
    w, scale = small("int8", 40, 6), 0.5 ** np.arange(2, 8, dtype="float32")
    x = (RNG.integers(-8, 8, shape) / 4).astype("float32")
    given = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [given]):
        with builder.dataflow():
            zero = relax.const(np.arange(6, dtype="int8"))
            codes = relax.const(np.ascontiguousarray(w.T) if layer else w)
            k = builder.emit(op.dequantize(codes, relax.const(scale), zero, 0 if layer else 1))
            made = op.linear(given, k) if layer else op.matmul(given, k)
            out = builder.emit_output(made)
        builder.emit_func_output(out)
    made = applied(PASS, builder.get(), x)
    assert not {"matmul", "linear"} & set(calls(made))
    kept = [part for part in pre_order(made["main"]) if isinstance(part, Constant)]
    assert sorted(str(c.data.dtype) for c in kept) == ["float32", "int8", "int8"]
    exact = x.astype("float64") @ ((w.astype("int64") - np.arange(6)) * scale.astype("float64"))
    np.testing.assert_array_equal(loomir.compile(builder.get())["main"](x), exact)
