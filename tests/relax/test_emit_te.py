"""Kernels made of tensor expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import relax, te
from loomir.ir.equality import structural_equal
from loomir.relax import (
    BlockBuilder,
    Call,
    DataTypeImm,
    Function,
    MatchCast,
    ObjectStructInfo,
    PrimStructInfo,
    PrimValue,
    ShapeExpr,
    ShapeStructInfo,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
)
from loomir.support.diagnostics import CompileError
from loomir.te import topi
from loomir.tir import PrimFunc
from tests.relax.programs import bindings_of, dim, neg, tensor, values_of, var


def built(params: Any, body: Any) -> tuple[Function, BlockBuilder]:
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(body(bb))
    mod = bb.get()
    assert loomir.verify(mod) == ()
    made = mod["main"]
    assert isinstance(made, Function)
    return made, bb


def kernel_of(bb: BlockBuilder, name: str) -> PrimFunc:
    found = bb.get()[name]
    assert isinstance(found, PrimFunc)
    return found


def test_a_kernel_is_made_and_called():
    x, y = var("x", 2, 3), var("y", 3)
    made, bb = built([x, y], lambda bb: bb.emit_te(topi.add, x, y))
    (call,) = values_of(made)
    assert isinstance(call, Call)
    assert isinstance(call.args[1], Tuple)
    assert call.args[1].fields == (x, y)
    assert len(call.args) == 2
    assert structural_equal(call.sinfo_args[0], tensor(2, 3))
    func = kernel_of(bb, "add")
    assert "global_symbol" not in func.attrs
    a, b = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32)
    out = np.zeros((2, 3), np.float32)
    loomir.interpret(func, "main", a, b, out)
    assert (out == a + b).all()


def test_equal_kernels_are_one():
    x = var("x", 2)
    made, bb = built(
        [x], lambda bb: bb.emit_te(topi.negative, bb.emit_te(topi.negative, bb.emit(neg(x))))
    )
    assert list(bb.get()) == ["main", "negative"] or list(bb.get()) == ["negative", "main"]
    calls = [v for v in values_of(made) if v.sinfo_args]
    assert calls[0].args[0] is calls[1].args[0]


def test_different_kernels_of_one_name_get_names_of_their_own():
    x, y = var("x", 2), var("y", 3)
    _, bb = built([x, y], lambda bb: (bb.emit_te(topi.negative, x), bb.emit_te(topi.negative, y)))
    assert {"negative", "negative1"} < set(bb.get())


def test_arguments_are_passed_once():
    x = var("x", 2)
    made, _ = built([x], lambda bb: bb.emit_te(topi.add, x, x))
    (call,) = values_of(made)
    assert call.args[1].fields == (x,)


def test_shape_variables_that_are_extents_are_read_from_arrays():
    n = dim()
    x = var("x", n, 2)
    made, bb = built([x], lambda bb: bb.emit_te(topi.negative, x))
    (call,) = values_of(made)
    assert len(call.args) == 2
    assert structural_equal(call.sinfo_args[0], tensor(n, 2))
    func = kernel_of(bb, "negative")
    out = np.zeros((3, 2), np.float32)
    loomir.interpret(func, "main", np.ones((3, 2), np.float32), out)
    assert (out == -1).all()


def test_other_shape_variables_are_passed():
    n = dim()
    x, s = var("x", n * 2), Var("s", ShapeStructInfo((n,)))
    made, bb = built([x, s], lambda bb: bb.emit_te(topi.negative, x))
    (call,) = values_of(made)
    assert structural_equal(call.args[2], ShapeExpr((n,)))
    func = kernel_of(bb, "negative")
    assert len(func.params) == 3
    out = np.zeros(6, np.float32)
    loomir.interpret(func, "main", np.ones(6, np.float32), 3, out)
    assert (out == -1).all()


def test_scalars_and_shapes_of_the_program_are_expressions():
    n = dim()
    x = var("x", n)
    k = Var("k", PrimStructInfo("int64", n))

    def scaled(a: Any, by: Any, sizes: Any, dtype: Any):
        assert dtype == "float32"
        return te.compute(sizes, lambda i: a[i] * te.const(1, "float32") + by.astype(dtype))

    made, bb = built(
        [x, k],
        lambda bb: bb.emit_te(scaled, x, PrimValue(n + 1), ShapeExpr((n,)), DataTypeImm("float32")),
    )
    (call,) = values_of(made)
    assert len(call.args) == 2
    out = np.zeros(4, np.float32)
    loomir.interpret(kernel_of(bb, "scaled"), "main", np.ones(4, np.float32), out)
    assert (out == 6).all()


def test_tuples_are_lists_of_tensors_and_results_tuples():
    x, y = var("x", 2), var("y", 3)
    t = Var("t", TupleStructInfo((tensor(2), tensor(3))))

    def both(given: Any, factor: int = 1):
        first, second = given
        return [topi.multiply(first, te.const(factor, "float32")), topi.negative(second)]

    made, _ = built([t], lambda bb: bb.emit_te(both, t, factor=2))
    *_, last = bindings_of(made)
    assert structural_equal(last.var.struct_info, t.struct_info)
    made, _ = built([x, y], lambda bb: bb.emit_te(both, [x, y]))
    assert len(values_of(made)) == 1


def test_an_input_that_is_the_result_is_copied():
    x = var("x", 2)
    _, bb = built([x], lambda bb: bb.emit_te(lambda a: a, x, primfunc_name_hint="same"))
    out = np.zeros(2, np.float32)
    loomir.interpret(kernel_of(bb, "same"), "main", np.ones(2, np.float32), out)
    assert (out == 1).all()


def test_extents_are_named_first():
    x, n = Var("x", TensorStructInfo(None, "float32", ndim=1)), dim()

    def body(bb: Any):
        return bb.emit_te(topi.negative, bb.match_cast(x, tensor(n)))

    made, _ = built([x], body)
    assert isinstance(bindings_of(made)[0], MatchCast)


@pytest.mark.parametrize(
    ("info", "te_func"),
    [
        (TensorStructInfo(None, "float32", ndim=1), topi.negative),
        (TensorStructInfo(ShapeExpr((2,))), topi.negative),
        (ObjectStructInfo(), topi.negative),
        (tensor(2), lambda a: 1),
        (tensor(2), lambda a: []),
    ],
)
def test_what_no_kernel_can_take_is_refused(info: Any, te_func: Any):
    x = Var("x", info)
    with pytest.raises(CompileError) as caught:
        built([x], lambda bb: bb.emit_te(te_func, x))
    assert caught.value.diagnostic.code == "RLX0309"


def test_known_extents_have_one_dtype_throughout_a_kernel() -> None:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((3, 4), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit_te(topi.exp, x))
    kernels = [f for f in bb.get().functions.values() if isinstance(f, PrimFunc)]
    extents = [e for f in kernels for b in f.buffer_map.values() for e in b.shape]
    assert {str(e.dtype) for e in extents} == {"int32"}
