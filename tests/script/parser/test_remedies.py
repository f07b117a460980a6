"""Remedies are written out in the user's own text: the one line that is right there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loomir.script import from_source
from loomir.script import relax as R
from loomir.script import tir as T
from loomir.support.diagnostics import CompileError, Diagnostic

KERNEL = """
from loomir.script import tir as T

@T.prim_func
def f(x: T.Buffer((8,), "float32"), m: T.Buffer((8, 8), "float32"), y: T.Buffer((8,), "float32")):
"""
GRAPH = """
from loomir.script import relax as R

@R.function
def f(x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")):
"""


def problems(head: str, body: str) -> tuple[Diagnostic, ...]:
    text = head + "".join(f"    {line}\n" for line in body.splitlines())
    with pytest.raises(CompileError) as caught:
        from_source(text)
    return caught.value.diagnostics


KERNELS = [
    ("y = [x[i] * 2.0 for i in range(8)]", "or a loop: for i in range(8): y[i] = x[i] * 2.0"),
    ("if (v := x[0]) > 0.0:\n    y[0] = v", "assign in a statement before: v = x[0]"),
    ("if x[0] is 0.0:\n    y[0] = x[0]", "compare with ==: x[0] == 0.0"),
    ("if x[0] in (1.0, 2.0):\n    y[0] = x[0]", "x[0] == 1.0 or x[0] == 2.0"),
    ("g = lambda v: v * 2.0\ny[0] = g(x[0])", "where it is used: v * 2.0"),
    ("y[0] = x[0] if x[0] > 0.0 else 0.0", "use T.if_then_else(x[0] > 0.0, x[0], 0.0)"),
    ("y[0] = max(x[0], 0.0)", "use T.max(x[0], 0.0)"),
    ("y[0] = max(x[0], x[1], 0.0)", "use T.max(x[0], T.max(x[1], 0.0))"),
    ("y[0] = float(m[0, 1])", 'use T.cast(m[0, 1], "float32")'),
    ("y[0] = x[0].item()", "leave .item() out: x[0] is a number"),
    ("y[0] = m[1]", "give 2 indices, as in m[1, i]"),
    ("for i in range(8):\n    y[i] = m[i][0]", "give 2 indices, as in m[i, 0]"),
    ("y[0] = T.float64(1) * T.float64(2)", 'T.cast(T.float64(1) * T.float64(2), "float32")'),
    ("y = x * 2.0 + 1.0", "for i in range(x.shape[0]): y[i] = x[i] * 2.0 + 1.0"),
    ("y[0] = m @ m", "multiply and add in loops: y[i, j] += m[i, k] * m[k, j]"),
    ("with open('a') as h:\n    y[0] = x[0]", "a program reads no files"),
    ("d = {}\nd['a'] = x[0]", "give the value a name, a = ..."),
    ("v = []\nv.append(x[0])", "write v[i] = x[0]"),
    (
        'z = T.alloc_buffer((8,), "float32")\nreturn z',
        'make it a parameter, which calls may leave out: z: T.Buffer((8,), "float32")',
    ),
    ("y[0] = x[0]\nreturn y", "leave out the return: y is a parameter"),
]


@pytest.mark.parametrize(("body", "remedy"), KERNELS)
def test_remedies_in_kernels_are_written_out(body: str, remedy: str):
    assert remedy in problems(KERNEL, body)[0].help


GRAPHS = [
    ("return x[0]", 'write R.take(x, R.const(0, "int64"), axis=0)'),
    ("return x[:, 1:3]", "write R.strided_slice(x, axes=[1], begin=[1], end=[3])"),
    ("return x.reshape(3, 2)", "write R.reshape(x, (3, 2))"),
    ("return x.mean(axis=0)", "write R.mean(x, axis=0)"),
    ("return x.sum(dim=1)", "write R.sum(x, axis=1)"),
    ("return R.sum(x, dim=1)", "write R.sum(x, axis=1)"),
    ("return R.sum(x, keepdim=True)", "write R.sum(x, keepdims=True)"),
    ("return x if x > 0 else -x", "write R.where(x > 0, x, -x)"),
    ("y = [R.exp(x) for i in range(3)]\nreturn x", "as in [R.exp(x)]"),
]


@pytest.mark.parametrize(("body", "remedy"), GRAPHS)
def test_remedies_in_graphs_are_written_out(body: str, remedy: str):
    assert remedy in problems(GRAPH, body)[0].help


def test_functions_of_other_libraries_are_named_as_ours():
    with pytest.raises(CompileError) as caught:

        @T.prim_func
        def f(x: T.Buffer((8,), "float32")):
            x[0] = np.maximum(x[1], 0.0) + math.sqrt(x[2])

    assert caught.value.diagnostics[0].help == "write T.max(x[1], 0.0)"

    with pytest.raises(CompileError) as caught:

        @R.function
        def g(x: R.Tensor((8,), "float32")):
            return np.exp(x)

    assert caught.value.diagnostics[0].help == "write R.exp(x)"


def test_a_name_that_a_refused_assignment_binds_is_told_once():
    found = problems(KERNEL, "if (v := x[0]) > 0.0:\n    y[0] = v")
    assert [d.code for d in found] == ["SCR0002"]


def test_a_kernel_called_in_a_graph_is_written_with_its_result():
    text = """
from loomir.script import ir as I, relax as R, tir as T

@I.ir_module
class M:
    @T.prim_func
    def double(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = x[i] * 2.0

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        return cls.double(x)
"""
    with pytest.raises(CompileError) as caught:
        from_source(text)
    wanted = 'write R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((8,), "float32"))'
    assert caught.value.diagnostics[0].help == wanted


def test_deep_expressions_are_not_written_out():
    found = problems(KERNEL, "y[0] = max(" + "-" * 300 + "x[0], 0.0)")
    assert found[0].help == "use T.max(..., 0.0)"
