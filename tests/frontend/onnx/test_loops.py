"""Loops whose number of steps is known when they run: Loop, Scan and recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import loomir
from loomir.ir.visit import pre_order
from loomir.relax.expr import Call

MOST = 10_000


def parsed(text: str, **weights: np.ndarray[Any, Any]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{text}')
    for name, value in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    return model


def agree(model: onnx.ModelProto, *feeds: dict[str, Any]) -> None:
    """Compare a program for all feeds with onnx's reference."""
    run = loomir.compile(loomir.onnx.load(model))
    judge: Any = ReferenceEvaluator(model)
    for given in feeds:
        want = judge.run(None, given)
        made = run(*given.values())
        parts: list[Any] = [*made] if isinstance(made, (tuple, list)) else [made]
        for got, expected in zip(parts, want, strict=True):
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def calls(module: Any) -> int:
    return sum(isinstance(n, Call) for f in module.functions.values() for n in pre_order(f))


ROWS = """
rows (int64 n, bool go, float[2] x) => (float[2] last, float[m, 2] rows) {
  last, rows = Loop (n, go, x) <body = body (int64 i, bool c, float[2] v)
      => (bool c2, float[2] v2, float[2] row) {
    c2 = Identity (c)
    step = Cast <to = 1> (i)
    v2 = Add (v, step)
    row = Mul (v2, x)
  }>
}
"""


def test_loop_of_unknown_steps_gathers_rows_and_uses_what_is_around_it():
    x = np.array([1, -2], "float32")
    feeds = [{"n": np.array(n), "go": np.array(True), "x": x} for n in (1, 2, 7, 40)]
    agree(parsed(ROWS), *feeds)


def test_loop_that_makes_no_step_gathers_no_rows():
    run = loomir.compile(loomir.onnx.load(parsed(ROWS)))
    x = np.array([1, -2], "float32")
    for n, go in ((0, True), (5, False)):
        last, rows = run(np.array(n), np.array(go), x)
        assert rows.shape == (0, 2)
        np.testing.assert_array_equal(last, x)


WHILE = """
doubled (float[n] x, float most) => (float[n] y, int64 steps) {
  zero = Constant <value = int64 {0}> ()
  total = ReduceSum <keepdims = 0> (x)
  go = Less (total, most)
  y, steps = Loop ("", go, x, zero) <body = body (int64 i, bool c, float[n] v, int64 k)
      => (bool c2, float[n] v2, int64 k2) {
    v2 = Add (v, v)
    total2 = ReduceSum <keepdims = 0> (v2)
    c2 = Less (total2, most)
    one = Constant <value = int64 {1}> ()
    k2 = Add (k, one)
  }>
}
"""


def test_loop_that_ends_by_a_condition():
    x = np.array([1, 2, 3], "float32")
    feeds = [{"x": x, "most": np.array(most, "float32")} for most in (0, 7, 1e6, 1e30)]
    agree(parsed(WHILE), *feeds)


def test_state_that_grows_with_each_step():
    agree(
        parsed("""
grown (int64 n, float[k] x) => (float[m] y) {
  yes = Constant <value = bool {1}> ()
  y = Loop (n, yes, x) <body = body (int64 i, bool c, float[j] v) => (bool c2, float[l] v2) {
    c2 = Identity (c)
    step = Cast <to = 1> (i)
    axes = Constant <value = int64[1] {0}> ()
    more = Unsqueeze (step, axes)
    v2 = Concat <axis = 0> (v, more)
  }>
}
"""),
        *[{"n": np.array(n), "x": np.zeros(2, "float32")} for n in (0, 1, 5, 12)],
    )


def test_branch_within_a_loop():
    agree(
        parsed("""
collatz (int64 n, int64 x) => (int64 y) {
  yes = Constant <value = bool {1}> ()
  y = Loop (n, yes, x) <body = body (int64 i, bool c, int64 v) => (bool c2, int64 w) {
    one = Constant <value = int64 {1}> ()
    two = Constant <value = int64 {2}> ()
    three = Constant <value = int64 {3}> ()
    c2 = Greater (v, one)
    odd = Mod (v, two)
    is_odd = Cast <to = 9> (odd)
    w = If (is_odd) <
      then_branch = up () => (int64 u) { t = Mul (v, three) u = Add (t, one) },
      else_branch = down () => (int64 d) { d = Div (v, two) }
    >
  }>
}
"""),
        *[{"n": np.array(100), "x": np.array(x)} for x in (27, 6, 1)],
    )


SCAN = """
scanned (float[2] start, float[n, 2] x, float[2, n] z) => (float[2] last, float[2, m] every) {
  last, every = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1],
      scan_input_directions = [0, 1], scan_output_axes = [1], scan_output_directions = [1],
      body = body (float[2] s, float[2] a, float[2] b) => (float[2] s2, float[2] row) {
    part = Mul (a, b)
    s2 = Add (s, part)
    row = Sub (s2, a)
  }> (start, x, z)
}
"""


def test_scan_of_an_axis_whose_extent_is_not_known():
    run = loomir.compile(loomir.onnx.load(parsed(SCAN)))
    rng = np.random.default_rng(0)
    start = rng.standard_normal(2, "float32")
    for n in (0, 1, 9):
        x, z = rng.standard_normal((n, 2), "float32"), rng.standard_normal((2, n), "float32")
        last, every = run(start, x, z)
        sums = start + np.cumsum(x * z.T[::-1], axis=0)
        np.testing.assert_allclose(last, sums[-1] if n else start, rtol=1e-5)
        np.testing.assert_allclose(every, (sums - x).T[:, ::-1], rtol=1e-4, atol=1e-5)


LAYERS = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(
    kind: str, direction: str, lengths: bool, length: str | int = "n", hidden: int = 5
) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    two, gates = 1 + (direction == "bidirectional"), LAYERS[kind]
    outputs = ["y", "h", "c"][: 2 + (kind == "LSTM")]
    kinds = [f"float[{'a, b, c, d' if o == 'y' else 'a, b, c'}] {o}" for o in outputs]
    taken = ", int32[2] lengths" if lengths else ""
    given = ", lengths" if lengths else ""
    weights = {
        "w": rng.standard_normal((two, gates * hidden, 3), "float32") / 2,
        "r": rng.standard_normal((two, gates * hidden, hidden), "float32") / 2,
        "b": rng.standard_normal((two, 2 * gates * hidden), "float32") / 2,
    }
    return parsed(
        f"layer (float[{length}, 2, 3] x{taken}) => ({', '.join(kinds)}) {{"
        f'{", ".join(outputs)} = {kind} <hidden_size = {hidden}, direction = "{direction}">'
        f" (x, w, r, b{given}) }}",
        **weights,
    )


@pytest.mark.parametrize(
    ("kind", "direction", "lengths"),
    [("RNN", "reverse", True), ("GRU", "forward", False), ("LSTM", "bidirectional", True)],
)
def test_recurrent_layer_of_unknown_length_does_what_it_does_of_a_known_one(
    kind: str, direction: str, lengths: bool
):
    run = loomir.compile(loomir.onnx.load(layer(kind, direction, lengths)))
    rng = np.random.default_rng(2)
    for n in (1, 4):
        fixed = loomir.compile(loomir.onnx.load(layer(kind, direction, lengths, n)))
        given: list[Any] = [rng.standard_normal((n, 2, 3), "float32")]
        if lengths:
            given.append(np.array([n, max(n - 2, 1)], "int32"))
        for got, want in zip(run(*given), fixed(*given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_many_steps_need_no_deep_stack_and_no_more_code():
    long, short = [loomir.onnx.load(layer("LSTM", "forward", False, n)) for n in (MOST, 100)]
    assert calls(long) == calls(short)
    x = np.full((MOST, 2, 3), 0.1, "float32")
    every, last, _ = loomir.compile(long)(x)
    assert every.shape == (MOST, 1, 2, 5)
    np.testing.assert_array_equal(every[-1], last)
    first = loomir.compile(short)(x[:100])[0]
    np.testing.assert_allclose(every[:100], first, rtol=1e-5)


@pytest.mark.parametrize("kind", LAYERS)
def test_weights_of_each_step_are_packed_before_any_call(kind: str):
    steps = 40
    program = loomir.compile(loomir.onnx.load(layer(kind, "forward", False, steps, hidden=64)))
    found = program.profile(np.ones((steps, 2, 3), "float32"))
    every = [k.kernel for k in found.kernels if k.calls == steps and "matmul" in k.kernel]
    assert every
    assert all("packed" in name for name in every)


def test_interpreter_makes_the_same_steps():
    module = loomir.onnx.load(parsed(WHILE))
    given = (np.array([1, 2, 3], "float32"), np.array(100, "float32"))
    for got, want in zip(
        loomir.interpret(module, "main", *given), loomir.compile(module)(*given), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_state_that_changes_its_dtype_is_refused():
    model = parsed(
        ROWS.replace("v2 = Add (v, step)", "v3 = Add (v, step) v2 = Cast <to = 11> (v3)").replace(
            "Mul (v2, x)", "Mul (v3, x)"
        )
    )
    with pytest.raises(loomir.CompileError, match="float32 at first and float64 then"):
        loomir.onnx.load(model)


def test_extents_that_a_branch_uses_can_be_used_behind_it():
    agree(
        parsed("""
sizes (bool go, float[n, 2] x) => (int64[2] y, int64[2] z) {
  size = Shape (x)
  y = If (go) <
    then_branch = yes () => (int64[2] a) { a = Mul (size, size) },
    else_branch = no () => (int64[2] b) { b = Identity (size) }
  >
  z = Neg (size)
}
"""),
        *[{"go": np.array(go), "x": np.zeros((3, 2), "float32")} for go in (True, False)],
    )
