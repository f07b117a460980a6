"""The catalogue of bad input, its rows on models of ONNX; see ``tests/test_catalogue.py``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.support.diagnostics import CompileError
from tests.frontend.onnx.models import model, onnx

X = np.arange(4, dtype="float32")


# -- what a model says of its outputs ----------------------------------------------------------------
@pytest.mark.parametrize("declared", ["float[3]", "float[2, 2]", "float[4611686018427387904, 4]"])
def test_20_an_output_of_another_shape_than_declared_is_told(declared: str):
    text = f"main (float[4] x) => ({declared} y) {{ y = Relu(x) }}"
    with pytest.warns(loomir.CompileWarning, match=r"ONX0007.*nodes compute \(4,\)"):
        module = loomir.onnx.load(model(text))
    np.testing.assert_array_equal(loomir.compile(module)(X), X)


def test_20_shapes_that_may_be_right_are_not_told():
    text = "main (float[N] x) => (float[3] y) { y = Relu(x) }"
    loomir.onnx.load(model(text))  # any warning is an error here
    loomir.onnx.load(model(text), shapes={"x": (4,)})  # it was made for another one
    loomir.onnx.load(model("main (float[4] x) => (float[0] y) { y = Relu(x) }"))


def test_20_an_output_of_another_type_than_declared_is_refused():
    with pytest.raises(CompileError, match=r"ONX0002.*declared as int64.*compute float32"):
        loomir.onnx.load(model("main (float[4] x) => (int64[4] y) { y = Relu(x) }"))


# -- depth -------------------------------------------------------------------------------------------
def field(number: int, data: bytes) -> bytes:
    """Write a field of a message that holds another one."""
    length, size = bytearray(), len(data)
    while size >= 128:
        length.append(size % 128 + 128)
        size //= 128
    return bytes([number * 8 + 2, *length, size]) + data


def branches(depth: int) -> bytes:
    """Make a model of conditions within conditions, deeper than the package makes them."""
    info = onnx.helper.make_tensor_value_info
    kind = onnx.TensorProto.FLOAT
    attribute, name = onnx.AttributeProto, "y0"
    node = onnx.helper.make_node("Neg", ["x"], [name]).SerializeToString()
    for k in range(1, depth + 1):
        relu = onnx.helper.make_node("Relu", ["x"], [f"z{k}"])
        other = onnx.helper.make_graph([relu], "else", [], [info(f"z{k}", kind, [4])])
        inner = onnx.GraphProto(name="then", output=[info(name, kind, [4])])
        then = attribute(name="then_branch", type=attribute.GRAPH).SerializeToString()
        then += field(6, inner.SerializeToString() + field(1, node))
        name = f"y{k}"
        made = onnx.helper.make_node("If", ["c"], [name], else_branch=other)
        node = made.SerializeToString() + field(5, then)
    inputs = [info("c", onnx.TensorProto.BOOL, []), info("x", kind, [4])]
    graph = onnx.GraphProto(name="main", input=inputs, output=[info(name, kind, [4])])
    versions = [onnx.helper.make_opsetid("", 19)]
    head = onnx.ModelProto(ir_version=9, opset_import=versions).SerializeToString()
    return head + field(7, graph.SerializeToString() + field(1, node))


def test_23_conditions_within_conditions():
    module = loomir.onnx.load(branches(12))
    run = loomir.compile(module, cache=False)
    np.testing.assert_array_equal(run(np.array(True), X), -X)
    np.testing.assert_array_equal(run(np.array(False), X), X)


@pytest.mark.parametrize("depth", [45, 2000])
def test_23_conditions_that_are_too_deep_are_refused(depth: int):
    with pytest.raises(CompileError, match=r"ONX0002.*MaxDepth|ONX0012.*within one another"):
        loomir.onnx.load(branches(depth))


# -- loops that do not end -----------------------------------------------------------------------------
ENDLESS = """
main (float[4] x) => (float[4] y) {
  one = Constant <value_int = 1> ()
  go = Cast <to = 9> (one)
  y = Loop ("", go, x) <body = body (int64 i, bool c, float[4] v)
      => (bool c2, float[4] v2) { c2 = Identity (c) v2 = Neg (v) }>
}
"""


class _StopError(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no alarms")
@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_25_a_loop_without_end_can_be_stopped(engine: str):
    module = loomir.onnx.load(model(ENDLESS))
    runs: dict[str, Callable[..., Any]] = {
        "native": loomir.compile(module, cache=False),
        "interpreter": lambda x: loomir.interpret(module, "main", x),
    }

    def stop(*_: object) -> None:
        raise _StopError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(_StopError):
            runs[engine](X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# -- files outside of the model's folder -------------------------------------------------------------
@pytest.mark.parametrize("kind", ["parent", "absolute", "deep", "symbolic", "folder", "hard"])
@pytest.mark.parametrize("count", [4, 4096])  # read at once, and when it is needed
def test_30_weights_come_from_the_folder_of_the_model(tmp_path: Path, kind: str, count: int):
    secret, folder = tmp_path / "secret", tmp_path / "model"
    secret.write_bytes(bytes(4 * count))
    (folder / "sub").mkdir(parents=True)
    location = {
        "parent": "../secret",
        "absolute": str(secret),
        "deep": "sub/../../secret",
        "folder": "up/secret",
    }.get(kind, "link")
    if kind == "symbolic":
        (folder / "link").symlink_to(secret)
    elif kind == "folder":
        (folder / "up").symlink_to(tmp_path)
    elif kind == "hard":
        os.link(secret, folder / "link")
    weight = onnx.TensorProto(
        name="w", data_type=1, dims=[count], data_location=onnx.TensorProto.EXTERNAL
    )
    weight.external_data.add(key="location", value=location)
    made = model(f"main (float[{count}] x) => (float[{count}] y) {{ y = Add(x, w) }}")
    made.graph.initializer.append(weight)
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(CompileError, match="ONX0003"):
        loomir.onnx.load(folder / "m.onnx")


# -- malformed nodes -----------------------------------------------------------------------------------
MALFORMED = """
main (float[4] x) => (float[4] y) { y = Relu(x) y = Neg(x) }
main (float[4] x) => (float[4] y, float[4] y) { y = Relu(x) }
main (float[4] x, float[4] x) => (float[4] y) { y = Relu(x) }
main (float[4] x) => (float[4] y) { a = Add(x, b) b = Neg(a) y = Relu(b) }
main (float[4] x) => (float[4] y) { y = Add(x, nowhere) }
main (float[4] x) => (float[4] y) { z = Relu(x) }
main (float[4] x) => (float[4] y) { y = Add(x) }
main (float[4] x) => (float[4] y) { y = Relu(x, x) }
main (float[4] x) => (float[4] y) { y = NoSuchOperator(x) }
main (float[4] x) => (float[4] y) { y = Transpose <perm = [3]> (x) }
main (float[4] x) => (float[4] y) { y = Softmax <axis = 7> (x) }
main (float[4] x) => (float[4] y) { y = Cast <to = 99> (x) }
main (float[4] x, float[3] z) => (float[4] y) { y = Add(x, z) }
main (float[4, 2] x, float[3, 2] z) => (float[4, 2] y) { y = MatMul(x, z) }
main (float[4, 2] x, float[4] z) => (float[4] y) { y = Concat <axis = 0> (x, z) }
main (float[4] x) => (float[3] y, float[3] z) { s = SIZES [3, 3]> () y, z = Split (x, s) }
main (float[4] x) => (float[5] y, float[4] z) { s = SIZES [5, -1]> () y, z = Split (x, s) }
main (float[4] x) => (float[3] y) { s = SIZES [3]> () y = Split (x, s) }
main (float[4] x) => (float[2, 3] y) { s = SIZES [2, 3]> () y = Reshape (x, s) }
main (IMAGE x) => (IMAGE y) { y = MaxPool <kernel_shape = [0, 0]> (x) }
main (IMAGE x) => (IMAGE y) { y = AveragePool <kernel_shape = [2, 2], strides = [0, 1]> (x) }
main (IMAGE x, float[2, 3, 1, 1] w) => (IMAGE y) { y = Conv (x, w) }
main (IMAGE x, float[2, 2, 1, 1] w) => (IMAGE y) { y = Conv <group = 0> (x, w) }
""".replace("IMAGE", "float[1, 2, 4, 4]").replace("SIZES", "Constant <value_ints =")


@pytest.mark.parametrize("text", MALFORMED.strip().splitlines())
def test_43_malformed_nodes_are_refused(text: str):
    with pytest.raises(CompileError) as caught:
        loomir.onnx.load(model(text))
    assert {d.code for d in caught.value.diagnostics} <= {
        "ONX0002",
        "ONX0010",
        "ONX0012",
        "ONX0013",
    }
    assert all(d.help for d in caught.value.diagnostics)


def test_43_parts_of_an_unknown_axis_are_compared_when_it_runs():
    text = (
        "main (float[N] x) => (float[1] y, float[3] z) "
        "{ s = Constant <value_ints = [1, 3]> () y, z = Split <axis = 0> (x, s) }"
    )
    module = loomir.onnx.load(model(text))
    run = loomir.compile(module)
    y, z = run(X)
    assert (y.tolist(), z.tolist()) == ([0.0], [1.0, 2.0, 3.0])
    for engine in (run, lambda x: loomir.interpret(module, "main", x)):
        with pytest.raises(ValueError, match="the extent must be 4, not 3") as caught:
            engine(X[:3])
        assert isinstance(caught.value, loomir.LoomirError)


@pytest.mark.parametrize("dims", ["4611686018427387904, 4", "1099511627776, 1099511627776"])
def test_43_tensors_beyond_all_memory(dims: str):
    text = (
        f"main (float x) => (float[N, M] y) "
        f"{{ s = Constant <value_ints = [{dims}]> () z = Expand (x, s) y = Neg (z) }}"
    )
    with pytest.raises((CompileError, MemoryError)) as caught:
        loomir.compile(loomir.onnx.load(model(text)), cache=False)(np.float32(1))
    assert isinstance(caught.value, loomir.LoomirError)
