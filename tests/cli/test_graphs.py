"""Graphs on the command line: inputs made up, results compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.cli.files.source import load_file
from loomir.cli.graphs import (
    GraphOutcome,
    compare_graphs,
    compare_values,
    graph_inputs,
    graph_names,
    graph_sizes,
    graphs_of,
    run_graph,
)
from loomir.relax import (
    Function,
    PrimValue,
    ShapeStructInfo,
    TensorStructInfo,
    Tuple,
    Var,
)
from loomir.relax.struct_info import OBJECT
from loomir.runtime.shape import Shape
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from tests.cli.test_commands import invoke
from tests.interp.relax.build import func, module, prim, shape, size, tensor, tuple_of, var

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "relax").glob("*.py"))
N, M = size("n"), size("m")
PARAMS = [
    var("x", tensor(N, N * 2)),
    var("pair", tuple_of(tensor(M, dtype="int8"), tuple_of(tensor(dtype="bool")))),
    var("s", shape(N, 3)),
    var("k", prim("int64", N)),
    var("p", prim("float32")),
]
FILE = """\
import numpy as np

from loomir.op.elementwise.unary import negative
from loomir.relax import Function, PrimStructInfo, TensorStructInfo, Tuple, Var
from loomir.support.dtype import DataType
from loomir.tir.expr import Var as Size

extent = Size("n", DataType("int64"))
x = Var("x", TensorStructInfo((extent,), "float32"))
times = Var("k", PrimStructInfo("int64"))
turn = Function((x, times), Tuple((negative(x), times)), attrs={"global_symbol": "turn"})


def reference(x, k):
    return SIGN * x, k


SIGN = -1
"""


def test_inputs_follow_the_annotations():
    f = func(PARAMS, Tuple(()))
    sizes = graph_sizes(f, {"m": 5})
    assert sizes == {"n": 64, "m": 5}
    x, pair, s, k, p = graph_inputs(f, {"n": 3, "m": 5}, {}, 0)
    assert isinstance(x, np.ndarray)
    assert (x.shape, x.dtype) == ((3, 6), np.float32)
    assert isinstance(pair, tuple)
    assert (pair[0].shape, pair[0].dtype) == ((5,), np.int8)
    assert (pair[1][0].shape, pair[1][0].dtype) == ((), np.bool_)
    assert s == Shape([3, 3])
    assert isinstance(s, Shape)
    assert (k, type(k)) == (3, np.int64)
    assert type(p) is np.float32


def test_inputs_may_be_given():
    f = func(PARAMS, Tuple(()))
    made = graph_inputs(f, {"n": 3, "m": 5}, {"s": "anything"}, 0)
    assert made[2] == "anything"
    again = graph_inputs(f, {"n": 3, "m": 5}, {}, 0)
    assert np.array_equal(made[0], again[0])  # type: ignore[arg-type]
    other = graph_inputs(f, {"n": 3, "m": 5}, {}, 1)
    assert not np.array_equal(made[0], other[0])  # type: ignore[arg-type]


def test_a_tensor_takes_the_shape_that_another_argument_holds():
    s = var("s", shape(2, 3))
    x = Var("x", TensorStructInfo(s, DataType("float32")))
    _, array = graph_inputs(func([s, x], x), {}, {}, 0)
    assert array.shape == (2, 3)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "info",
    [OBJECT, TensorStructInfo(ndim=2), tensor(3, dtype="void"), ShapeStructInfo(ndim=2)],
    ids=str,
)
def test_what_is_left_open_is_not_made_up(info: Any):
    x = var("x", info)
    with pytest.raises(CompileError) as caught:
        graph_inputs(func([x], x), {}, {}, 0)
    assert caught.value.diagnostic.code == "CLI0008"


def test_names_and_graphs_of_a_program():
    f = func(PARAMS, Tuple(()), name="f")
    assert graph_names(f) == {"n", "m", "k", "p"}
    assert graphs_of(f) == {"f": f}
    assert graphs_of(module(f=f, g=Function((), Tuple(())))) == {"f": f}


@pytest.mark.parametrize(
    ("got", "wanted", "found"),
    [
        ((1.0, (2,)), (1.0, (2,)), None),
        (np.ones(3), np.ones(3) + 1e-15, None),
        (np.ones(3), np.array([1, 1, 2.0]), "r[2] is 1.0, expected 2.0"),
        (np.ones(3), np.ones(2), "r has shape (3,), expected (2,)"),
        ((np.ones(1), np.int64(3)), (np.ones(1), 4), "r[1][] is 3, expected 4"),
        ((1,), (1, 2), "r is (1,), expected (1, 2)"),
        (Shape([1]), Shape([2]), "r is Shape([1]), expected Shape([2])"),
        ("a", "b", "r is a, expected b"),
        (np.array([np.nan]), np.array([np.nan]), None),
    ],
    ids=str,
)
def test_values_are_compared(got: Any, wanted: Any, found: str | None):
    assert compare_values(got, wanted, "r") == found


def test_what_a_call_wrote_is_compared_too():
    same = GraphOutcome({"x": np.ones(2)}, None)
    other = GraphOutcome({"x": np.array([1.0, 3.0])}, None)
    assert compare_graphs(same, same) is None
    assert compare_graphs(same, other) == "x[1] is 1.0, expected 3.0"


def test_a_call_gets_copies():
    def write(x: Any, pair: Any) -> None:
        x += 1
        pair[0][:] = 7

    given = np.zeros(2), (np.zeros(2),)
    f = func([var("x", OBJECT), var("pair", OBJECT)], PrimValue(0))
    outcome = run_graph(f, write, given)
    assert list(outcome.arguments["x"]) == [1, 1]
    assert list(outcome.arguments["pair"][0]) == [7, 7]
    assert not given[0].any()
    assert not given[1][0].any()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_of_graphs_agrees_with_its_judges(path: Path):
    status, output = invoke("run", str(path))
    assert status == 0, output
    assert "agrees with NumPy" in output
    assert "agrees with the interpreter" in output
    status, output = invoke("check", str(path))
    assert status == 0, output
    assert "no mistakes" in output


@pytest.mark.parametrize(
    ("example", "size"), [("encoder", "n"), ("mlp", "batch"), ("cnn", "batch")]
)
@pytest.mark.parametrize("extent", [1, 3])
def test_examples_take_any_size(example: str, size: str, extent: int):
    path = next(p for p in EXAMPLES if p.stem == example)
    status, output = invoke("run", str(path), "--size", f"{size}={extent}")
    assert status == 0, output


def test_the_caches_of_the_caller_are_written():
    program = load_file(next(p for p in EXAMPLES if p.stem == "kv_cache"))
    keys, values = np.zeros((16, 8), "float32"), np.zeros((16, 8), "float32")
    row = np.ones(8, "float32")
    loomir.interpret(program.Decoder, row, row * 2, row * 3, keys, values, 4)
    assert (keys[4] == 2).all()
    assert (values[4] == 3).all()
    assert keys.sum() == 16
    with pytest.raises(IndexError):
        loomir.interpret(program.Decoder, row, row, row, keys, values, 16)


def test_run_interprets_graphs(tmp_path: Path):
    path = tmp_path / "turn.py"
    path.write_text(FILE)
    status, output = invoke("run", str(path), "--interpret", "--size", "n=5", "--size", "k=3")
    assert status == 0, output
    assert output == "turn: agrees with NumPy\n"
    status, output = invoke("run", str(path), "--interpret", "--size", "SIGN=1")
    assert status == 1
    assert "turn: DIFFERS from NumPy: the result[0][0] is" in output
