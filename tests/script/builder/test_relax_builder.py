"""Programs of Relax that are built in Python, and decorated functions."""

# To pyright a call of a decorator is a decorator, and never a frame: see docs/editors.md.
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir.ir.equality import assert_structural_equal
from loomir.ir.module import IRModule
from loomir.relax.expr import Constant, Function, If, VarBinding
from loomir.relax.operator.definition import op_names
from loomir.script import IRBuilder, from_source
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T
from loomir.support.diagnostics import CompileError
from tests.clause import clauses

HEAD = "from loomir.script import ir as I, tir as T, relax as R\n"


@clauses("TS-BLD-17", "TS-BLD-18", "TS-BLD-19", "TS-BLD-20", "TS-BLD-21", "TS-BLD-22")
def test_a_function_is_built_as_it_is_written():
    with IRBuilder() as builder, R.function():
        R.func_name("f")
        R.func_attr({"k": 1})
        x = R.arg("x", R.Tensor(("n", 4), "float32"))
        c = R.arg("c", R.Tensor((), "bool"))
        R.func_ret_struct_info(R.Tensor(("n", 4), "float32"))
        with R.dataflow() as block:
            a = R.emit(R.negative(x), name_hint="a")
            b = R.emit(R.add(a, x), name_hint="b")
            R.output(b)
        assert block.output_vars == (b,)
        with R.If(c) as branch:
            with R.Then():
                R.emit(R.exp(b), name_hint="d")
            with R.Else():
                R.emit(b, name_hint="d")
        assert branch.var is not None
        e = R.emit_match_cast(branch.var, R.Tensor(("m", 4), "float32"))
        R.func_ret_value(R.match_cast(e, R.Tensor(("n", 4), "float32")))
    text = """@R.function
def f(x: R.Tensor((n, 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((n, 4), "float32"):
    R.func_attr({"k": 1})
    m = T.int64()
    with R.dataflow():
        a = R.negative(x)
        b = R.add(a, x)
        R.output(b)
    if c:
        d = R.exp(b)
    else:
        d = b
    e = R.match_cast(d, R.Tensor((m, 4), "float32"))
    g = R.match_cast(e, R.Tensor((n, 4), "float32"))
    return g
"""
    assert_structural_equal(builder.get(), from_source(HEAD + text))


@clauses("TS-BLD-23", "TS-BLD-24", "TS-BLD-25")
def test_a_module_is_built_of_kernels_and_graphs():
    with IRBuilder() as builder, I.ir_module():
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})
        with T.prim_func():
            T.func_name("k")
            a = T.arg("A", T.Buffer((4,), "float32"))
            b = T.arg("B", T.Buffer((4,), "float32"))
            with T.serial(4) as i:
                T.buffer_store(b, a[i] + T.float32(1), [i])
        with R.function():
            R.func_name("main")
            x = R.arg("x", R.Tensor((4,), "float32", "llvm:0"))
            y = R.emit(R.call_tir(I.GlobalVar("k"), (x,), out_ty=R.Tensor((4,), "float32")))
            z = R.emit(R.call_pure_packed("my.f", y, sinfo_args=R.Tensor((4,), "float32")))
            R.func_ret_value(R.call_dps_packed("my.g", (z,), R.Tensor((4,), "float32")))
    text = """@I.ir_module
class M:
    I.module_global_infos({"vdevice": [I.vdevice("llvm")]})
    @T.prim_func
    def k(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + T.float32(1)
    @R.function
    def main(x: R.Tensor((4,), "float32", "llvm:0")):
        y = R.call_tir(cls.k, (x,), out_ty=R.Tensor((4,), "float32"))
        z = R.call_pure_packed("my.f", y, sinfo_args=R.Tensor((4,), "float32"))
        return R.call_dps_packed("my.g", (z,), R.Tensor((4,), "float32"))
"""
    made = builder.get()
    assert isinstance(made, IRModule)
    assert_structural_equal(made, from_source(HEAD + text))


@clauses("TS-BLD-26")
def test_every_operator_is_a_name_of_the_module():
    for name in op_names():
        found: object = R
        for part in name.removeprefix("relax.").split("."):
            found = getattr(found, part)
        assert callable(found), name
    with pytest.raises(AttributeError):
        _ = R.no_such_operator


def test_functions_and_classes_are_decorated():
    weight = np.arange(4, dtype="float32")
    offset = 2

    @R.function(private=True)
    def written(x: R.Tensor(("n", 4), "float32")):
        return x * weight + offset

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):  # noqa: N805
            return cls.other(x)  # noqa: F821

        @R.function
        def other(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):  # noqa: N805
            return R.negative(x)

    assert isinstance(written, Function)
    found = [
        b.value.args[1].data.data.tolist()
        for block in written.body.blocks
        for b in block.bindings
        if isinstance(b, VarBinding) and isinstance(b.value.args[1], Constant)
    ]
    assert found == [[0.0, 1.0, 2.0, 3.0], 2.0]
    assert isinstance(Module, IRModule)
    assert list(Module) == ["main", "other"]


def test_names_of_python_in_the_module():
    assert str(R.str("a").value) == "a"
    assert len(R.tuple(R.const(1), R.const(2)).fields) == 2
    assert_structural_equal(R.Any(), R.Object())


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: R.emit(R.const(1)), "SCR0024"),
        (R.output, "SCR0024"),
        (lambda: R.func_name("f"), "SCR0024"),
        (lambda: R.Tensor(4), "SCR0005"),
        (lambda: R.Tuple(4), "SCR0033"),
        (lambda: R.const(object()), "SCR0005"),
    ],
)
def test_what_cannot_be_built_is_refused(make: Any, code: str):
    with IRBuilder(), pytest.raises(CompileError) as caught:
        make()
    assert caught.value.diagnostic.code == code


def test_parameters_come_first():
    with IRBuilder(), R.function():
        x = R.arg("x", R.Object)
        R.emit(x)
        with pytest.raises(CompileError) as caught:
            R.arg("y", R.Object)
        R.func_ret_value(x)
    assert caught.value.diagnostic.code == "SCR0024"


def test_a_case_stands_in_a_branch():
    with IRBuilder(), R.function():
        case = R.Then()
        with pytest.raises(CompileError) as caught:
            case.__enter__()
        R.func_ret_value(())
    assert caught.value.diagnostic.code == "SCR0024"


def test_a_branch_that_is_built_has_the_value_of_both_cases():
    with IRBuilder() as builder, R.function():
        c = R.arg("c", R.Tensor((), "bool"))
        with R.If(c) as branch:
            with R.Then():
                R.emit(c, name_hint="a")
            with R.Else():
                R.emit(R.logical_not(c), name_hint="a")
        R.func_ret_value(branch.var)
    made = builder.get()
    assert isinstance(made, Function)
    (binding,) = made.body.blocks[0].bindings
    assert isinstance(binding.value, If)


def test_an_array_is_no_dtype():
    with pytest.raises(CompileError, match="a dtype is wanted, not an ndarray"):
        R.Tensor((3,), np.ones(4))
