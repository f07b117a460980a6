"""Mistakes of a first day outside of programs' texts: each message has the one line that is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import loomir
from loomir import relax, te
from loomir.script import relax as R
from loomir.script import tir as T


@T.prim_func
def product(
    a: T.Buffer((8, 8), "float32"), b: T.Buffer((8, 8), "float32"), c: T.Buffer((8, 8), "float32")
):
    for i, j, k in T.grid(8, 8, 8):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = 0.0
            c[vi, vj] += a[vi, vk] * b[vk, vj]


@T.prim_func
def add(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    for i in range(8):
        c[i] = a[i] + b[i]


@R.function
def double(x: R.Tensor((8,), "float32")):
    return x + x


def remedy(call: Callable[[], object]) -> str:
    with pytest.raises((loomir.CompileError, loomir.RunError)) as caught:
        call()
    return caught.value.diagnostics[0].help


def schedule() -> tuple[Any, Any, list[Any]]:
    made: Any = loomir.Schedule(product)
    block = made.get_sblock("C")
    return made, block, made.get_loops(block)


def test_schedules_name_what_to_write_instead():
    sch, block, (i, j, k) = schedule()
    tile = (
        "write i0, i1 = sch.split(i, factors=[None, 4]); j0, j1 = sch.split(j, factors=[None, 4]); "
    )
    assert remedy(lambda: sch.tile(block, 4, 4)) == f"{tile}sch.reorder(i0, j0, i1, j1)"
    assert remedy(lambda: sch.vectorise(j)) == "write sch.vectorize(loop)"
    assert remedy(lambda: sch.cache_reed(block, 0, "local")) == "did you mean sch.cache_read?"
    assert remedy(lambda: sch.split(i, factor=4)) == "write factors=[None, 4]"
    assert remedy(lambda: sch.split(i, nparts=2)) == "write factors=[2, None]"
    assert remedy(lambda: sch.split(i, factor_s=[2, 4])) == "did you mean factors?"
    assert remedy(lambda: sch.reorder([k, i])) == "give them one by one: sch.reorder(*loops)"
    assert remedy(lambda: sch.compute_at(i, block)) == (
        "give the block first: sch.compute_at(block, loop)"
    )
    assert remedy(lambda: sch.parallel(block)) == (
        "give one of its loops: i, j = sch.get_loops(block)"
    )
    assert not hasattr(sch, "_repr_nothing_")
    assert sch.copy().mod is sch.mod


def test_a_failure_inside_of_a_primitive_stays_what_it_is():
    sch, _, (i, *_) = schedule()
    with pytest.raises(loomir.ScheduleError, match="split: factors is 4, not a list"):
        sch.split(i, 4)


def test_what_is_no_program_is_brought_over():
    model = torch.nn.Linear(3, 4)
    a = te.placeholder((8,), name="A")
    given: Any
    for given, wanted in (
        (lambda x: x, "@loomir.jit, which compiles it at its first call"),
        (model, "write loomir.torch.compile(model), and call what it returns"),
        (a, "make a program of tensors: te.create_prim_func([inputs..., output])"),
        ([a], "make a program of tensors: te.create_prim_func([inputs..., output])"),
        ("f", "read it: loomir.script.from_source(text)"),
        (3, "give a function decorated with @T.prim_func or @R.function"),
    ):
        assert wanted in remedy(lambda given=given: loomir.compile(given))
    nothing: Any = "f"
    assert "loomir.script.from_source" in remedy(lambda: loomir.verify(nothing))


def test_modules_name_what_others_call_things():
    space: Any = te
    assert remedy(lambda: space.create_schedule(1)) == (
        "write loomir.Schedule(te.create_prim_func([A, B]))"
    )
    assert remedy(lambda: space.computed) == "did you mean te.compute?"
    space = loomir.onnx
    assert "loomir.onnx.load" in remedy(lambda: space.from_onnx("m.onnx"))
    space = loomir.torch
    assert "loomir.torch.from_exported(" in remedy(lambda: space.from_fx(1))
    assert not hasattr(te, "__no_such__")


def test_tensors_of_pytorch_are_told_its_remedies():
    call, graph = loomir.compile(add), loomir.compile(double)
    good, out = torch.ones(8), torch.ones(8)
    wide = torch.ones(8, dtype=torch.float64)
    assert remedy(lambda: call(wide, good, out)) == "pass a.to(torch.float32)"
    assert remedy(lambda: call(good, good, wide)).endswith(
        "torch.zeros(c.shape, dtype=torch.float32)"
    )
    assert "a.contiguous()" in remedy(lambda: call(torch.ones(16)[::2], good, out))
    assert ".to(torch.float32)" in remedy(lambda: graph(wide))
    array = np.ones(8)
    assert remedy(lambda: call(array, good, out)) == "pass a.astype('float32')"


def test_calls_list_the_parameters_that_there_are():
    x = np.ones(8, "float32")
    assert remedy(lambda: loomir.compile(add)(x, x, out=x)) == "its parameters are a, b, c"
    assert remedy(lambda: loomir.compile(double)(y=x)) != ""
    register: Any = loomir.register_func

    def scale(x: object) -> object:
        return x

    assert remedy(lambda: register(scale)) == 'write @loomir.register_func("scale")'


def test_tensor_expressions_say_what_is_missing():
    a: Any = te.placeholder((8, 8), name="A")
    axis: Any = 1
    assert "k = te.reduce_axis" in remedy(
        lambda: te.compute((8,), lambda i: te.sum(a[i, 0], axis=axis))
    )
    k = te.reduce_axis((0, 8), "k")

    def half():
        return te.compute((8,), lambda i: te.sum(a[i, k], axis=k) / 2.0)

    assert "s = te.compute(...), and s[i] here" in remedy(half)


def test_graphs_take_tuples_of_tensors_and_devices_of_their_module():
    with pytest.raises(loomir.CompileError, match=r"write R.concat\(\(x, w\)\)"):

        @R.function
        def pair(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
            return R.concat(x, w)

    with pytest.raises(loomir.CompileError, match=r"write R.stack\(\(x, w\), 1\)"):

        @R.function
        def stacked(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
            return R.stack(x, w, 1)

    @R.function
    def moved(x: R.Tensor((2,), "float32")):
        return R.to_vdevice(x, "llvm")

    wanted = (
        "in a class under @I.ir_module: I.module_global_infos({'vdevice': [I.vdevice('llvm')]})"
    )
    assert wanted in remedy(lambda: loomir.compile(moved))


def test_graphs_name_their_mistakes_in_the_users_words():
    weight = torch.ones(3)
    with pytest.raises(loomir.CompileError, match=r"x2 is a tensor, not a torch.Tensor\n(.*\n)*.*"):

        @R.function
        def summed(x: R.Tensor((2, 3), "float32")):
            return x + weight

    with pytest.raises(loomir.CompileError, match=r"R\.where\(c, a, b\)"):

        @R.function
        def chosen(x: R.Tensor((2, 3), "float32")):
            if x > 0:
                y = x
            else:
                y = -x
            return y

    with pytest.raises(loomir.CompileError, match=r"return a tuple of them: \(a, b\)"):

        @R.function
        def named(x: R.Tensor((2, 3), "float32")):
            return {"a": x}

    with pytest.raises(loomir.CompileError, match=r"is a kernel: write it under @T.prim_func"):

        @R.function
        def kernel(x: T.Buffer((8,), "float32")):
            return x


def test_annotations_of_python_are_named():
    with pytest.raises(loomir.CompileError) as caught:

        @T.prim_func
        def f(a: float, x: np.ndarray):
            x[0] = a

    first, second = caught.value.diagnostics
    assert first.message == "parameter 'a' is annotated with float, a type of Python's"
    assert first.help == "write a: T.float32"
    assert second.message == "parameter 'x' is annotated with numpy.ndarray, a type of Python's"
    assert second.help.startswith('write x: T.Buffer((8,), "float32")')


def test_values_of_the_builder_have_no_truth_and_take_no_tensors():
    x: Any = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    assert remedy(lambda: 1 if x > 0 else 2).startswith("choose for each element with op.where")
    assert remedy(lambda: x + torch.ones(4)) == "give its array: relax.const(tensor.numpy())"
    assert bool(x)
    assert bool(x + 1.0)
