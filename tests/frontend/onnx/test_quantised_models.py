"""Models in the forms that quantisers write: products of bytes, with the standard's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import loomir
from loomir.transform.pipelines import optimize_relax
from tests.frontend.onnx.models import reference

RNG = np.random.default_rng(9)


def whole(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


class Model:
    """Nodes and constants, of which a model is made."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, operator: str, *inputs: Any, out: str = "", **attributes: Any) -> str:
        names: list[str] = []
        for given in inputs:
            name = given if isinstance(given, str) else f"c{len(self.constants)}"
            if not isinstance(given, str):
                self.constants[name] = np.asarray(given)
            names.append(name)
        made = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [made], **attributes))
        return made

    def finish(self, given: Any, kind: int, shape: tuple[int, ...]) -> Any:
        elements = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8}
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", elements[str(given.dtype)], given.shape)],
            [helper.make_tensor_value_info("y", kind, shape)],
            [numpy_helper.from_array(v, k) for k, v in self.constants.items()],
        )
        opset = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=opset, ir_version=10)

    def pass_through(self, x: str, scale: float, zero: int, dtype: str = "uint8") -> str:
        """Quantise and dequantise."""
        given = np.float32(scale), np.asarray(zero, dtype)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *given), *given)


def check(model: Any, given: Any, products: int, step: float) -> None:
    """Compare with the reference: a float near a tie may become the byte beside it, which is rare."""
    mod = loomir.onnx.load(model)
    text = optimize_relax(mod).script()
    calls = [line for line in text.splitlines() if "R.call_tir(cls.integer_" in line]
    assert len(calls) == products
    assert "R.matmul" not in text
    assert "R.nn.conv2d" not in text
    made = np.asarray(loomir.compile(mod)(given)).astype("float64")
    wanted = reference(model, given)[0].astype("float64")
    assert made.shape == wanted.shape
    steps = np.abs(made - wanted) / step
    assert steps.max() <= 1.001
    assert (steps > 0.5).mean() <= 0.02


@pytest.mark.parametrize("channels", [False, True])
def test_a_network_of_quantised_layers(channels: bool):
    """Convolutions, depthwise too, a maximum, a residual sum, a concatenation and a layer."""
    x, m = RNG.standard_normal((1, 4, 10, 10)).astype("float32"), Model()

    def weight(*shape: int) -> str:
        axis = [shape[0]] if channels else []
        scale = np.asarray(RNG.uniform(0.002, 0.02, axis), "float32")
        return m.add(
            "DequantizeLinear", whole("int8", *shape), scale, np.zeros(axis, "int8"), axis=0
        )

    def layer(v: str, out: int, each: int, size: int, zero: int, group: int = 1) -> str:
        bias = RNG.standard_normal(out).astype("float32")
        pads, kernel = [size // 2] * 4, weight(out, each, size, size)
        made = m.add("Conv", v, kernel, bias, pads=pads, group=group)
        return m.pass_through(m.add("Relu", made), 0.05, zero)

    v = m.pass_through("x", 0.02, 128)
    v = layer(v, 8, 4, 3, 0)
    v = m.add("MaxPool", v, kernel_shape=[2, 2], strides=[2, 2])
    v = m.pass_through(v, 0.05, 0)
    other = layer(v, 8, 1, 3, 7, group=8)
    v = m.pass_through(m.add("Add", v, other), 0.07, 3)
    v = m.pass_through(m.add("Concat", v, v, axis=1), 0.07, 3)
    v = m.pass_through(m.add("Reshape", v, np.array([1, -1])), 0.07, 3)
    made = m.add("Gemm", v, weight(6, 400), RNG.standard_normal(6).astype("float32"), transB=1)
    scale = np.float32(0.5)
    m.add("QuantizeLinear", made, scale, np.asarray(100, "uint8"), out="y")
    check(m.finish(x, TensorProto.UINT8, (1, 6)), x, 3, 1)


def test_products_of_two_activations():
    x, m = RNG.standard_normal((2, 3, 8, 16)).astype("float32"), Model()
    v = m.pass_through("x", 0.03, 120)
    transposed = m.pass_through(m.add("Transpose", v, perm=[0, 1, 3, 2]), 0.03, 120)
    made = m.pass_through(m.add("MatMul", v, transposed), 0.2, 128)
    probable = m.pass_through(m.add("Softmax", made, axis=-1), 1 / 256, 0)
    m.add("MatMul", probable, v, out="y")
    # What the softmax makes of a byte beside another moves it by some steps of its own.
    mod = loomir.onnx.load(m.finish(x, TensorProto.FLOAT, (2, 3, 8, 16)))
    text = optimize_relax(mod).script()
    assert text.count("R.call_tir(cls.integer_matmul") == 2
    wanted = reference(m.finish(x, TensorProto.FLOAT, (2, 3, 8, 16)), x)[0]
    assert np.abs(np.asarray(loomir.compile(mod)(x)) - wanted).max() < 0.1


def test_operators_on_bytes():
    """``QLinearConv``, ``QLinearMatMul``, ``MatMulInteger`` and ``ConvInteger``."""
    x, m = whole("uint8", 1, 4, 9, 9), Model()
    one = np.float32(0.02), np.asarray(131, "uint8")
    scales = RNG.uniform(0.002, 0.02, 8).astype("float32")
    weight = whole("int8", 8, 4, 3, 3), scales, np.zeros(8, "int8")
    out = np.float32(0.1), np.asarray(17, "uint8")
    bias = RNG.integers(-1000, 1000, 8).astype("int32")
    v = m.add("QLinearConv", "x", *one, *weight, *out, bias, pads=[1] * 4)
    v = m.add("Reshape", v, np.array([8, 81]))
    other = whole("int8", 81, 16), np.float32(0.01), np.asarray(-3, "int8")
    v = m.add("QLinearMatMul", v, *out, *other, np.float32(0.4), np.asarray(99, "uint8"))
    m.add("MatMulInteger", v, whole("int8", 16, 5), np.asarray(99, "uint8"), out="y")
    model = m.finish(x, TensorProto.INT32, (8, 5))
    made = np.asarray(loomir.compile(loomir.onnx.load(model))(x))
    assert optimize_relax(loomir.onnx.load(model)).script().count("R.call_tir(cls.integer_") == 3
    wanted = reference(model, x)[0]
    # A byte beside another, where a sum is near a tie, moves each sum by a weight.
    assert (np.abs(made.astype("int64") - wanted) <= 128).all()
    assert (made == wanted).mean() > 0.9
