"""Models become modules: what they compute, what stays symbolic, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import loomir
from loomir.frontend.onnx import backend, registry
from loomir.frontend.onnx.mistakes import NeedsConstants
from loomir.relax.expr import Function
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import CompileError
from tests.frontend.onnx.models import model, onnx, reference


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


CNN = """
main (float[N, 3, 8, 8] x) => (float[N, 10] z) {
  c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
  r = Relu(c)
  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
  s = Shape(p)
  zero = Constant <value_int = 0> ()
  n = Gather(s, zero)
  axis = Constant <value_ints = [0]> ()
  n1 = Unsqueeze(n, axis)
  rest = Constant <value_ints = [-1]> ()
  shape = Concat <axis = 0> (n1, rest)
  f = Reshape(p, shape)
  y = Gemm <transB = 1> (f, w2, b2)
  z = Softmax(y)
}
"""
WEIGHTS = {
    "w1": floats(4, 3, 3, 3),
    "b1": floats(4, seed=1),
    "w2": floats(10, 64, seed=2),
    "b2": floats(10, seed=3),
}


def test_convolutional_network_agrees_with_the_reference_for_any_batch():
    made = model(CNN, WEIGHTS)
    run = loomir.compile(loomir.onnx.load(made))
    for batch in (1, 3):
        x = floats(batch, 3, 8, 8, seed=batch)
        np.testing.assert_allclose(run(x), reference(made, x)[0], rtol=1e-4, atol=1e-6)


def test_perceptron_agrees_with_the_reference():
    made = model(
        """
        main (float[B, 20] x) => (float[B, 5] y) {
          h = Gemm(x, w1, b1)
          a = Relu(h)
          y = Gemm(a, w2, b2)
        }
        """,
        {"w1": floats(20, 16), "b1": floats(16), "w2": floats(16, 5), "b2": floats(5)},
    )
    x = floats(7, 20, seed=9)
    run = loomir.compile(loomir.onnx.load(made))
    np.testing.assert_allclose(run(x), reference(made, x)[0], rtol=1e-4, atol=1e-5)


def test_shape_arithmetic_leaves_extents_and_no_operators():
    text = loomir.onnx.load(model(CNN, WEIGHTS)).script()
    assert "R.reshape(lv4, R.shape([N, 64]))" in text
    assert "shape_to_tensor" not in text


def test_names_of_extents_can_be_given_numbers():
    text = loomir.onnx.load(model(CNN, WEIGHTS), dims={"N": 2}).script()
    assert "R.Tensor((2, 10)" in text
    text = loomir.onnx.load(model(CNN, WEIGHTS), shapes={"x": (5, 3, 8, 8)}).script()
    assert "R.Tensor((5, 10)" in text


def test_path_bytes_and_model_give_the_same(tmp_path: Path):
    made = model(CNN, WEIGHTS)
    file = tmp_path / "cnn.onnx"
    onnx.save(made, file)
    texts = {loomir.onnx.load(given).script() for given in (file, file.read_bytes(), made)}
    assert len(texts) == 1


def test_several_outputs_are_a_tuple_and_unused_inputs_are_parameters():
    made = model(
        "main (float[N] x, float[N] u) => (float[N] a, float[N] b) { a = Neg(x) b = Abs(x) }"
    )
    module = loomir.onnx.load(made, name="forward")
    func = module["forward"]
    assert isinstance(func, Function)
    assert [p.name_hint for p in func.params] == ["x", "u"]
    a, b = loomir.compile(module)(floats(4), floats(4))
    np.testing.assert_array_equal(a, -floats(4))
    np.testing.assert_array_equal(b, np.abs(floats(4)))


def test_shape_that_is_an_input_is_read_when_the_program_runs():
    made = model("main (float[N, 6] x, int64[2] s) => (float[A, B] y) { y = Reshape(x, s) }")
    run = loomir.compile(loomir.onnx.load(made))
    x = floats(4, 6)
    for shape in ([3, 8], [0, -1], [-1, 3]):
        want = reference(made, x, np.array(shape))[0]
        np.testing.assert_array_equal(run(x, np.array(shape)), want)


def test_constants_bind_inputs():
    made = model(
        "main (float[4, 5] x, int64[1] axes) => (float[M, K] y) { y = ReduceSum(x, axes) }"
    )
    with pytest.raises(NeedsConstants, match="ONX0011") as found:
        loomir.onnx.load(made)
    assert found.value.names == ("axes",)
    run = loomir.compile(loomir.onnx.load(made, constants={"axes": np.array([1])}))
    x = floats(4, 5)
    np.testing.assert_allclose(run(x), x.sum(1, keepdims=True), rtol=1e-5)


def test_functions_of_a_model_are_expanded_with_their_attributes():
    made = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 19, "own" : 1]>
    main (float[N] x) => (float[N] y) { y = own.f <slope = 0.5> (x) }
    <domain: "own", opset_import: ["" : 19]>
    f <slope> (x) => (y) { z = LeakyRelu <alpha: float = @slope> (x) y = Neg(z) }
    """)
    x = floats(8)
    want = -np.where(x < 0, 0.5 * x, x)
    np.testing.assert_allclose(loomir.compile(loomir.onnx.load(made))(x), want, rtol=1e-6)


def test_all_that_cannot_be_imported_is_told_at_once():
    made = model("""
    main (float[N] x) => (float[N] a, float[N] b, float[N] c) {
      u = own.First(x)
      a = own.Second(u)
      b = own.First(x)
      k = Squeeze (x)
      c = Identity(k)
    }
    """)
    with pytest.raises(CompileError) as found:
        loomir.onnx.load(made)
    codes = [d.code for d in found.value.diagnostics]
    assert codes == ["ONX0010", "ONX0010", "ONX0012"]
    text = str(found.value)
    assert "own.First of 'u'" in text
    assert "own.First of 'b'" in text
    assert "own.Second of 'a'" in text
    assert "register_converter('First', convert, domain='own')" in text


def test_converter_can_be_registered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_registered", [])  # models of later tests are kept again
    monkeypatch.setattr(registry, "_rows", {k: list(v) for k, v in registry._rows.items()})
    loomir.onnx.register_converter("Twice", lambda n: loomir.op.add(n[0], n[0]), domain="own")
    made = model("main (float[N] x) => (float[N] y) { y = own.Twice(x) }")
    x = floats(3)
    np.testing.assert_array_equal(loomir.compile(loomir.onnx.load(made))(x), x + x)


@pytest.mark.parametrize("location", ["../outside", "/etc/hostname", "", "missing", "w\0"])
def test_external_data_stays_in_the_folder(tmp_path: Path, location: str):
    (tmp_path / "outside").write_bytes(b"\0" * 16)
    folder = tmp_path / "model"
    folder.mkdir()
    weight = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=1)
    weight.external_data.add(key="location", value=location)
    made = model("main (float[4] x) => (float[4] y) { y = Add(x, w) }")
    made.graph.initializer.append(weight)
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(CompileError, match="ONX0003"):
        loomir.onnx.load(folder / "m.onnx")


def test_external_data_is_read(tmp_path: Path):
    made = model("main (float[4] x) => (float[4] y) { y = Add(x, w) }", {"w": floats(4)})
    onnx.save(
        made, tmp_path / "m.onnx", save_as_external_data=True, location="data", size_threshold=0
    )
    run = loomir.compile(loomir.onnx.load(tmp_path / "m.onnx"))
    np.testing.assert_array_equal(run(floats(4)), floats(4) * 2)


def test_tensor_that_says_more_than_it_holds_takes_no_memory():
    made = model("main (float[4] x) => (float[4] y) { y = Add(x, w) }")
    made.graph.initializer.append(onnx.TensorProto(name="w", data_type=1, dims=[1 << 40]))
    with pytest.raises(CompileError, match="ONX0002"):
        loomir.onnx.load(made)


@pytest.mark.parametrize("name", ["first_input", "last_output"])
def test_names_that_are_no_text_are_refused(name: str):
    text = (
        "main (float[2] first_input) => (float[2] last_output) { last_output = Relu (first_input) }"
    )
    data = model(text).SerializeToString()
    broken = data.replace(name.encode(), b"\xff" + name.encode()[1:])
    with pytest.raises(CompileError, match="is not valid UTF-8"):
        loomir.onnx.load(broken)


def test_mutated_files_end_in_an_error_or_a_module():
    data = model(CNN, WEIGHTS).SerializeToString()
    rng = np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            broken[place] = rng.integers(256)
        try:
            loomir.onnx.load(bytes(broken[: rng.integers(len(data) // 2, len(data) + 1)]))
        except CompileError as error:
            assert all(d.code.startswith(("ONX", "RLX", "OPS")) for d in error.diagnostics)


def test_the_core_does_not_import_onnx():
    code = "import loomir, loomir.op, sys; print('onnx' in sys.modules, 'loomir.frontend' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_axis_of_unknown_extent_is_cut_into_equal_parts():
    made = model(
        "main (float[N, 2] x) => (float[A, 2] a, float[B, 2] b) { a, b = Split <num_outputs = 2> (x) }"
    )
    run = loomir.compile(loomir.onnx.load(made))
    for extent in (4, 5):
        x = floats(extent, 2)
        for got, want in zip(run(x), reference(made, x)):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,jk", [(2, 3, 4), (4, 5)]),
        ("...i,...i->...", [(2, 3), (3,)]),
        ("b...i,bi->b...", [(2, 5, 3), (2, 3)]),
        ("...a,...a->...a", [(1, 4), (3, 4)]),
    ],
)
def test_dots_in_equations_stand_for_axes(equation: str, shapes: list[tuple[int, ...]]):
    arrays = [
        np.random.default_rng(i).standard_normal(s).astype("float32") for i, s in enumerate(shapes)
    ]
    inputs = ", ".join(f"float[{','.join(map(str, s))}] x{i}" for i, s in enumerate(shapes))
    expected = np.einsum(equation, *arrays)
    made = ",".join(map(str, expected.shape))
    names = ", ".join(f"x{i}" for i in range(len(shapes)))
    text = (
        f'main ({inputs}) => (float[{made}] y) {{ y = Einsum <equation = "{equation}"> ({names}) }}'
    )
    run = loomir.compile(loomir.onnx.load(model(text)))
    np.testing.assert_allclose(run(*arrays), expected, rtol=1e-5, atol=1e-5)


def test_squeeze_of_unknown_extents_needs_axes():
    text = "main (float[N, 1, 3] x) => (float[N, 3] y) { y = Squeeze (x) }"
    with pytest.raises(CompileError, match="but some extents are unknown"):
        loomir.onnx.load(model(text))


def test_backend_compiles_for_shapes_where_extents_must_be_known():
    made = model("main (float[N, M, 3] x) => (float[A, B] y) { y = Squeeze (x) }")
    prepared = backend.prepare(made)
    for shape in ((1, 4, 3), (5, 1, 3), (1, 4, 3)):
        (got,) = prepared.run([floats(*shape)])
        np.testing.assert_array_equal(got, floats(*shape).squeeze())
    with pytest.raises(CompileError, match=r"own\.Missing"):
        backend.prepare(model("main (float[N] x) => (float[N] y) { y = own.Missing (x) }")).run(
            [floats(3)]
        )


PADDED = """
main (float[1, 2, H, W] x) => (float[1, 2, A, B] y) {
  own = Constant <value_ints = [1, 2, 3, 0]> ()
  four = Constant <value_ints = [4]> ()
  none = ConstantOfShape <value = int64[1] {0}> (four)
  all = Concat <axis = 0> (own, none)
  rows = Constant <value_ints = [-1, 2]> ()
  pairs = Reshape (all, rows)
  first = Constant <value_ints = [0]> ()
  last = Constant <value_ints = [-1]> ()
  end = Constant <value_ints = [-9223372036854775807]> ()
  back = Slice (pairs, last, end, first, last)
  crossed = Transpose <perm = [1, 0]> (back)
  flat = Reshape (crossed, last)
  pads = Cast <to = 7> (flat)
  y = Pad <mode = "reflect"> (x, pads)
}
"""


def test_pads_as_the_older_exporter_of_pytorch_writes_them():
    made = model(PADDED)
    x = floats(1, 2, 6, 5)
    np.testing.assert_array_equal(loomir.compile(loomir.onnx.load(made))(x), reference(made, x)[0])


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ("b = ReduceMax <keepdims = 0> (two) t = Unsqueeze (b, zero)", [3]),
        ("k = Constant <value_ints = [2]> () t = Tile (two, k)", [2, 3, 2, 3]),
        ("t = ReduceSum (two)", [5]),
        ("a = Neg (two) b = Abs (a) t = ReduceMin <keepdims = 1> (b)", [2]),
        ("t = ScatterND (s, place, three)", [2, 3]),
        ("a = Transpose (two) t = Identity (a)", [2, 3]),
        ("a = Expand (six, one) t = Identity (a)", [6]),
    ],
)
def test_more_of_shape_arithmetic(nodes: str, shape: list[int]):
    text = f"""
    main (float[6] x) => (float[{", ".join("abcd"[: len(shape)])}] y) {{
      two = Constant <value_ints = [2, 3]> () zero = Constant <value_ints = [0]> ()
      s = Constant <value_ints = [2, 1]> () three = Constant <value_ints = [3]> ()
      place = Constant <value = int64[1, 1] {{1}}> () six = Constant <value_ints = [6]> ()
      one = Constant <value_ints = [1]> ()
      {nodes}
      z = ConstantOfShape <value = float[1] {{1.0}}> (t)
      y = Identity (z)
    }}"""
    func = loomir.onnx.load(model(text))["main"]
    assert isinstance(func, Function)
    info = func.ret_struct_info
    assert isinstance(info, TensorStructInfo)
    assert [d.value for d in cast("Any", info.dims)] == shape


def test_slopes_of_old_prelu_are_one_for_each_channel():
    text = "main (float[2, 3, 3] x, float[3] s) => (float[2, 3, 3] y) { y = PRelu (x, s) }"
    x = np.random.default_rng(0).standard_normal((2, 3, 3)).astype("float32")
    slopes = np.array([0.1, 0.2, 0.3], "float32")
    old = loomir.compile(loomir.onnx.load(model(text, version=6)))(x, slopes)
    new = loomir.compile(loomir.onnx.load(model(text, version=16)))(x, slopes)
    np.testing.assert_allclose(old, np.where(x < 0, x * slopes[:, None], x))
    np.testing.assert_allclose(new, np.where(x < 0, x * slopes, x))


def test_more_axes_than_arrays_have_are_refused():
    text = "main (int64[1099511627776] s) => (float[M] y) { y = ConstantOfShape (s) }"
    with pytest.raises(CompileError, match="arrays have at most 64"):
        loomir.onnx.load(model(text))
