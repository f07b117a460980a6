"""Mistakes of a first day in kernels: what the message tells to write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.script import from_source
from loomir.script import tir as T

ARRAYS = 'x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")'


def told(call: Any) -> tuple[str, str]:
    with pytest.raises(loomir.LoomirError) as caught:
        call()
    (only,) = caught.value.diagnostics
    return only.code, only.help


def read(body: str, arguments: str = ARRAYS) -> Any:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return from_source(f"@T.prim_func\ndef f({arguments}):\n{lines}\n")


ADD = "add the elements in a loop: for i in range(x.shape[0]): y[0] += x[i]"
OVER = "loop over indices: for i in range(x.shape[0]), and read x[i]"


@pytest.mark.parametrize(
    ("body", "code", "wanted"),
    [
        ("print(x[0])", "SCR0003", "write values to a buffer, and print that in Python"),
        ("for i in range(len(x)):\n    y[i] = x[i]", "SCR0005", "use x.shape[0]"),
        ("for i in range(x.size):\n    y[i] = x[i]", "SCR0006", "write x.shape[0]"),
        ("for i, v in enumerate(x):\n    y[i] = v", "SCR0005", OVER),
        ("for a, b in zip(x, y):\n    pass", "SCR0005", OVER),
        ("for v in x:\n    y[0] = v", "SCR0012", OVER),
        ("y[0] = sum(x)", "SCR0005", ADD),
        ("y[0] = x.sum()", "SCR0006", ADD),
        ("y[0] = max(x)", "SCR0005", "compare the elements in a loop: y[0] = T.max(y[0], x[i])"),
        ("y[0] = x.T[0]", "SCR0006", "swap the indices: x[j, i]"),
        (
            "y[0] = x.astype('int32')[0]",
            "SCR0006",
            'convert the elements one by one: T.cast(x[i], "float32")',
        ),
        (
            "y[0] = T.sum(x)",
            "SCR0004",
            "add the elements in a loop: for i in range(n): y[0] += x[i]",
        ),
        (
            "z = T.zeros((8,), 'float32')",
            "SCR0004",
            "write T.alloc_buffer(shape, dtype), and assign 0 in a loop",
        ),
        ("y[0] = T.float(0)", "SCR0004", "write T.float32, or another number of bits"),
        ("y[0] = T.relu(x[0])", "SCR0004", "write T.max(x, T.float32(0))"),
        (
            "y[0] = T.cast(x[0], float64)",
            "SCR0003",
            'write "float64" as a dtype, or T.float64 for a number',
        ),
    ],
)
def test_kernels(body: str, code: str, wanted: str):
    assert told(lambda: read(body)) == (code, wanted)


def test_shape_and_dtype_in_the_other_order():
    wanted = 'the shape comes before the dtype, as in (8,), "float32"'
    assert told(lambda: read("pass", 'x: T.Buffer("float32", (8,))')) == ("SCR0005", wanted)


def test_printing_in_graphs():
    text = '@R.function\ndef f(x: R.Tensor((8,), "float32")):\n    print(x)\n    return x\n'
    assert told(lambda: from_source(text)) == ("SCR0003", "write R.print(x)")


def test_whole_tensors_have_no_operators():
    a = te.placeholder((8, 8), name="A")
    for name, call in {
        "add": lambda: a + a,
        "subtract": lambda: a - a,
        "multiply": lambda: a * a,
        "divide": lambda: a / a,
        "matmul": lambda: a @ a,
    }.items():
        wanted = f"write topi.{name}(...), or a formula of elements such as A[i, j]"
        assert told(call) == ("TIR0115", wanted)


def test_reductions_want_axes():
    a = te.placeholder((8,), name="A")
    wanted = "name one: k = te.reduce_axis((0, n)), then te.sum(A[i, k], axis=k)"
    assert told(lambda: te.compute((8,), lambda i: te.sum(a[i]))) == ("TE0004", wanted)


@T.prim_func
def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = x[i] * T.float32(2)


def test_calls():
    run: Any = loomir.compile(double)
    x = np.ones(4, "float32")
    wanted = "the function writes it: pass an array made by numpy.zeros(y.shape, 'float32')"
    assert told(lambda: run(x, np.ones(4))) == ("RUN0003", wanted)
    assert told(lambda: run(np.ones(4), x)) == ("RUN0003", "pass x.astype('float32')")
    with pytest.raises(
        AttributeError, match=r"no attribute 'double'\n.*call exe\['double'\]\(\.\.\.\)"
    ):
        run.double(x, x)
    assert not hasattr(run, "triple")


@pytest.mark.parametrize(
    ("target", "note"),
    [
        ("cuda", "code is generated for CPUs only"),
        ("llvm -mcpu=native", "a target is the name of a CPU, without options"),
    ],
)
def test_targets_of_other_compilers(target: str, note: str):
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(double, target)
    assert caught.value.diagnostics[0].notes[-1] == note


@T.prim_func
def blocked(x: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            x[vi] = x[vi] + T.float32(1)


def test_factors_of_a_split():
    sch = loomir.Schedule(blocked)
    (loop,) = sch.get_loops(sch.get_sblock("B"))
    split: Any = sch.split
    assert told(lambda: split(loop, 8)) == ("SCH0003", "write factors=[None, 8]")
