"""The nodes that programs are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import relax as rx
from loomir.ir.equality import structural_equal
from loomir.ir.module import GlobalVar, IRModule, VDevice
from loomir.ir.op import Op
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import VOID, DataType
from loomir.tir.expr import Add, And, Div, IntImm, Max, Min, Mul, Not, Or, Select, Sub
from loomir.tir.function import PrimFunc
from tests.conformance.graphs import (
    both,
    graph,
    zeros,
)
from tests.conformance.relax.infos import SHAPE, m, n, prim, tensor
from tests.relax.kernels import ADD
from tests.relax.programs import op

X = rx.Var("x", tensor(4))
ONE = IntImm(1, DataType("int64"))


def invalid(code: str, make: Any, *args: Any) -> None:
    with pytest.raises(CompileError) as caught:
        make(*args)
    assert caught.value.diagnostic.code == code


def fields(node: Any, **wanted: Any) -> None:
    """Check that a node has these fields."""
    for name, value in wanted.items():
        found = getattr(node, name)
        assert found is value or found == value, name


def test_RX_GRAM_01_extents():
    """Extents are variables, integers and operations on them."""
    choice = Select(Or(And(n < m, Not(n < ONE)), n < ONE), n, m)
    extents = (n, ONE, Add(n, ONE), Sub(n, m), Mul(n, m), Div(n, ONE), Min(n, m), Max(n, m), choice)
    assert all(a is b for a, b in zip(rx.ShapeExpr(extents).values, extents, strict=True))
    text = graph(
        "x: R.Tensor((n,))", "n = T.int64()", "return R.shape([T.Select(n > 2, n, 2), n - 1])"
    )
    assert both(text, zeros(3)) == (3, 2)


def test_RX_GRAM_02_kernels():
    """Kernels stand beside functions, with their own parameters, buffers and attributes."""
    kernel = from_source(ADD)
    assert isinstance(kernel, PrimFunc)
    assert len(kernel.params) == len(kernel.buffer_map) == 3
    assert IRModule({GlobalVar("add"): kernel})["add"] is kernel


def test_RX_GRAM_03_targets():
    """The target of a device is nothing, a tag or a configuration."""
    targets = [VDevice().target, VDevice("llvm").target, VDevice({"kind": "llvm"}).target]
    assert targets == ["", "llvm", {"kind": "llvm"}]


def test_RX_GRAM_04_devices():
    """A device has a target, a number and a kind of memory."""
    fields(VDevice("llvm", 1, "shared"), target="llvm", dev_id=1, mem_scope="shared")


@pytest.mark.parametrize("name", ["int8", "uint64", "float16", "bfloat16"])
def test_RX_GRAM_05_dtypes(name: str):
    """A dtype is integers or floats of some bits, bfloat16 too, as decided."""
    assert tensor(2, dtype=name).dtype is DataType(name)


def test_RX_GRAM_06_tensors():
    """What is known of a tensor: shape, dtype, device, rank."""
    device = VDevice("llvm")
    fields(
        rx.TensorStructInfo((n, 2), "int8", device), ndim=2, dtype=DataType("int8"), vdevice=device
    )
    fields(rx.TensorStructInfo(SHAPE), shape=SHAPE, ndim=2)
    fields(rx.TensorStructInfo(), shape=None, dtype=VOID, vdevice=None, ndim=-1)


def test_RX_GRAM_07_shapes():
    """What is known of a shape: extents, rank."""
    fields(rx.ShapeStructInfo((n,)), values=(n,), ndim=1)
    fields(rx.ShapeStructInfo(), values=None, ndim=-1)


def test_RX_GRAM_08_scalars():
    """What is known of a scalar: dtype, value."""
    fields(prim("int64", n), dtype=DataType("int64"), value=n)
    fields(rx.PrimStructInfo("bool"), value=None)


def test_RX_GRAM_09_objects():
    """Of an object nothing is known."""
    assert structural_equal(rx.ObjectStructInfo(), rx.ObjectStructInfo())


def test_RX_GRAM_10_tuples():
    """Of a tuple its fields are known."""
    assert [
        type(f).__name__ for f in rx.TupleStructInfo((tensor(2), rx.ObjectStructInfo())).fields
    ] == [
        "TensorStructInfo",
        "ObjectStructInfo",
    ]


def test_RX_GRAM_11_functions():
    """Of a function are known parameters, result and purity, or how results are derived."""
    a, b = tensor(2), tensor(3)
    fields(rx.FuncStructInfo((a,), b, False), params=(a,), ret=b, purity=False, derive_func=None)
    fields(rx.FuncStructInfo(None, b, derive_func=len), params=None, derive_func=len)


def test_RX_GRAM_12_constants():
    """A constant holds an array, which is its own."""
    data = np.ones(2, "int8")
    made = rx.Constant(data)
    data[:] = 5
    assert made.data.data.tolist() == [1, 1]


def test_RX_GRAM_13_variables():
    """A variable has a name and may be known; that of a dataflow block is one too."""
    fields(rx.Var("x"), name_hint="x", struct_info_annotation=None)
    assert isinstance(rx.DataflowVar("x", tensor(2)), rx.Var)


def test_RX_GRAM_14_global_variables():
    """A global variable has a name."""
    fields(GlobalVar("f"), name_hint="f")


def test_RX_GRAM_15_tuples_sequences_and_values():
    """Tuples have fields, sequences blocks and a body, scalars, strings and dtypes a value."""
    fields(rx.Tuple((X, X)), fields=(X, X))
    fields(rx.SeqExpr((), X), blocks=(), body=X)
    fields(rx.PrimValue(n), value=n)
    fields(rx.StringImm("a"), value="a")
    fields(rx.DataTypeImm("int8"), value=DataType("int8"))


def test_RX_GRAM_16_functions():
    """A function has parameters, a body, what it returns, purity and attributes."""
    info = tensor(4)
    made = rx.Function((X,), X, info, False, {"k": 1})
    fields(made, params=(X,), body=X, ret_struct_info=info, is_pure=False, attrs={"k": 1})
    fields(rx.Function((X,), X), ret_struct_info=None, is_pure=True, attrs={})


def test_RX_GRAM_17_branches():
    """A branch has a condition and two cases."""
    c, a, b = rx.Var("c"), rx.SeqExpr((), X), rx.SeqExpr((), X)
    fields(rx.If(c, a, b), cond=c, true_branch=a, false_branch=b)


def test_RX_GRAM_18_packed_functions():
    """A packed function has a symbol."""
    fields(rx.ExternFunc("f"), global_symbol="f")


def test_RX_GRAM_19_calls():
    """A call has what is called, arguments, structural information and attributes."""
    callee, info = rx.ExternFunc("f"), tensor(2)
    fields(
        rx.Call(callee, (X,), (info,), {"k": 1}),
        op=callee,
        args=(X,),
        sinfo_args=(info,),
        attrs={"k": 1},
    )


def test_RX_GRAM_20_shapes():
    """A shape has extents."""
    fields(rx.ShapeExpr((n, m)), values=(n, m))
    invalid("RLX0002", rx.ShapeExpr, (1.5,))


def test_RX_GRAM_21_fields():
    """A field is that of a tuple at an index."""
    fields(rx.TupleGetItem(X, 1), tuple_value=X, index=1)
    invalid("RLX0004", rx.TupleGetItem, X, -1)


def test_RX_GRAM_22_operators():
    """An operator has a name."""
    assert isinstance(op("add"), Op)
    fields(op("add"), name="relax.add")


def test_RX_GRAM_23_blocks():
    """Ordinary and dataflow blocks hold bindings."""
    bound = rx.VarBinding(rx.Var("y"), X)
    fields(rx.BindingBlock((bound,)), bindings=(bound,))
    assert isinstance(rx.DataflowBlock((bound,)), rx.BindingBlock)


def test_RX_GRAM_24_bindings():
    """A binding has a variable and a value."""
    y = rx.Var("y")
    fields(rx.VarBinding(y, X), var=y, value=X)


def test_RX_GRAM_25_checks():
    """A check has a variable or none, a value and structural information, in this order."""
    y, info = rx.Var("y"), tensor(n)
    fields(rx.MatchCast(y, X, info), var=y, value=X, struct_info=info)
    fields(rx.MatchCast(var=None, struct_info=info, value=X), var=None, value=X, struct_info=info)


def test_RX_GRAM_26_modules():
    """A module has functions of both kinds by name, and lists of devices."""
    device, func = VDevice("llvm"), rx.Function((X,), X)
    mod = IRModule(
        {GlobalVar("f"): func, GlobalVar("add"): from_source(ADD)}, {}, {"vdevice": (device,)}
    )
    assert mod["f"] is func
    assert mod.global_info == {"vdevice": (device,)}


@pytest.mark.parametrize("name", ["int8x4", "uint16x2", "float32x8"])
def test_RX_GRAM_27_one_lane(name: str):
    """Integers and floats have one lane."""
    invalid("RLX0120", rx.TensorStructInfo, None, name)
    invalid("RLX0119", rx.PrimStructInfo, name)


def test_RX_GRAM_28_no_handles():
    """There are no handles but the unknown dtype."""
    invalid("RLX0120", rx.TensorStructInfo, None, "handle")
    assert VOID.is_void


def test_RX_GRAM_29_bools():
    """Bool is the unsigned integer of one bit."""
    assert DataType("uint1") is DataType("bool")


def test_RX_GRAM_30_void():
    """The dtype void says that a dtype is not known."""
    assert rx.TensorStructInfo().dtype is VOID
    assert "void" not in str(rx.TensorStructInfo())
