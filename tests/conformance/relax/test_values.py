"""The values that programs compute with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.support.dtype import DataType
from tests.conformance.graphs import (
    COUNT,
    F32,
    ONES,
    both,
    fails,
    graph,
    module,
    packed,
    ways,
    zeros,
)
from tests.relax.kernels import ADD

X = f"x: {F32}"
HERE = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})'


def test_RX_VALS_01_scalar_tensors_have_rank_0():
    """A scalar that is a tensor has rank 0 and the shape ()."""
    found = both(
        graph('x: R.Tensor((), "float32")', "return (R.exp(x), R.shape_of(x))"),
        zeros(),
    )
    assert (found[0].shape, found[0], found[1]) == ((), 1, ())


def test_RX_VALS_02_tensors_lie_on_devices():
    """Tensors of a program may lie on different devices."""
    lines = ('y = R.to_vdevice(x, "llvm:1")', "z = R.add(y, y)", "return (x, z)")
    text = module(HERE, graph('x: R.Tensor((4,), "float32", "llvm:0")', *lines))
    assert [v[3] for v in both(text, COUNT)] == [3, 6]


def test_RX_VALS_03_tuples_nest():
    """A tuple is immutable, holds any values, tuples too; the empty one is a value."""
    found = both(graph(X, "t = (x, ((), R.str('a')))", "return (t, t[1])"), ONES)
    assert found[1] == found[0][1] == ((), "a")
    assert both(graph("", "return ()")) == ()


def test_RX_VALS_04_closures_hold_what_they_capture():
    """A closure maps variables to values, and holds itself where it calls itself."""
    lines = (
        *("@R.function", 'def f(k: R.Prim(value="n")) -> R.Object:', "    n = T.int64()"),
        *("    if R.prim_value(n > 0):", "        r = f(R.prim_value(n - 1))", "    else:"),
        *("        r = (x, k)", "    return r", "return f"),
    )
    for run in ways(graph("x: R.Object", *lines)):
        closure = run("kept")
        assert closure(3) == ("kept", 0)


@pytest.mark.parametrize(("purity", "code"), [("False", None), ("True", "RUN0407")])
def test_RX_VALS_05_closures_know_what_they_are(purity: str, code: str | None):
    """A closure tells its signature when the program runs, and whether it is pure."""
    lines = (
        "@R.function(pure=False)",
        "def f(a: R.Shape) -> R.Shape:",
        "    return a",
        "u: R.Object = f",
    )
    check = f"g = R.match_cast(u, R.Callable((R.Shape,), R.Shape, {purity}))  # <--"
    text = graph("", *lines, check, "return ()")
    assert both(text) == () if code is None else fails(code, text)


def test_RX_VALS_06_shapes_are_tuples_of_integers():
    """A shape is an immutable tuple of integers."""
    found = both(graph("x: R.Tensor((n, m))", "return R.shape([m, n * 2])"), zeros(2, 3))
    assert isinstance(found, loomir.Shape)
    assert isinstance(found, tuple)
    assert found == (3, 4)


@pytest.mark.parametrize("value", [7, "text", None, (1, 2), loomir.Shape([3])])
def test_RX_VALS_07_packed_functions_return_anything(value: Any):
    """A packed function may have effects, and return any value."""
    seen: list[int] = []
    with packed(any=lambda: (seen.append(1), value)[1]):
        assert both(graph("", 'return R.call_packed("test.any", sinfo_args=R.Object)')) == value
    assert seen == [1, 1]


def test_RX_VALS_08_kernels_are_values():
    """A kernel is a value, which a variable may hold and a call may call."""
    lines = ("f = cls.add", "u = R.Call(f, [x, x, z])", "return z")
    text = module(ADD, graph(f"{X}, z: {F32}", *lines))
    assert both(text, COUNT, ONES).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    "dtype", ["int8", "int64", "uint8", "bool", "float16", "float32", "float64"]
)
def test_RX_VALS_09_scalars(dtype: str):
    """A scalar is an immutable number of its dtype."""
    found = both(graph(f'x: R.Prim("{dtype}")', "return (x, x)"), np.dtype(dtype).type(1))
    assert [v.dtype for v in found] == [dtype, dtype]
    assert not found[0].flags.writeable


def test_RX_VALS_10_any_object():
    """Any object goes through a program as it is."""
    thing = object()
    with packed(same=lambda x: x):
        call = 'R.call_packed("test.same", (x, x), sinfo_args=R.Object)'
        for run in ways(graph("x: R.Object", f"return ({call}, x)")):
            (first, second), third = run(thing)
            assert first is second is third is thing


def test_RX_VALS_11_strings_and_dtypes():
    """A string and a dtype are objects that programs pass on."""
    assert both(graph("x: R.Object", "return (x, R.dtype('float16'))"), "ü\n") == (
        "ü\n",
        DataType("float16"),
    )


def test_RX_VALS_12_null():
    """Null is a value, which R.null_value gives."""
    assert both(graph("x: R.Object", "return (x, R.null_value())"), None) == (None, None)


KINDS = {
    "R.Tensor": ONES,
    "R.Shape": loomir.Shape([1]),
    "R.Tuple(R.Object)": (1,),
    'R.Prim("int64")': 1,
    'R.Callable(derive_func="default_derive")': len,
}


@pytest.mark.parametrize("info", KINDS)
def test_RX_VALS_13_kinds_differ(info: str):
    """The kind of every value is known when the program runs."""
    text = graph("x: R.Object", f"y = R.match_cast(x, {info})  # <--", "return ()")
    for other, value in {**KINDS, "string": "a", "null": None, "dtype": DataType("int8")}.items():
        if other == info:
            assert both(text, value) == ()
        else:
            fails("RUN0401", text, value)


def test_RX_VALS_14_how_values_come_out():
    """In Python values are arrays, tuples, shapes, numbers, strings and callables."""
    lines = ("@R.function", "def f(a: R.Object):", "    return a")
    found = both(
        graph(X, *lines, "return (x, (), R.shape([1]), R.prim_value(2), R.str('a'), f)"), ONES
    )
    kinds = (np.ndarray, tuple, loomir.Shape, np.int64, str)
    assert all(isinstance(v, kind) for v, kind in zip(found, kinds, strict=False))
    assert found[5]("arg") == "arg"
