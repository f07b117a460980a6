# ruff: noqa: N806  (buffers are called as in the programs)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import relax as R
from loomir import tir
from loomir.ir.equality import structural_equal
from loomir.relax.normal.derive import Deriver, func_struct_info
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import OBJECT, UNIT
from loomir.script import tir as T
from loomir.script.builder.relax.values import const
from loomir.support.diagnostics import CompileError
from tests.clause import clauses

n, m, k = (tir.Var(name, "int64") for name in "nmk")
F32 = "float32"


def tensor(*dims: Any, dtype: Any = F32, vdevice: Any = None):
    return R.TensorStructInfo(dims, dtype, vdevice)


def some(dtype: str = "void", ndim: int = -1):
    return R.TensorStructInfo(None, dtype, None, ndim)


def var(name: Any, info: Any = None):
    return R.Var(name, info)


def op(name: Any):
    found = find_op(f"relax.{name}")
    assert found is not None
    return found


@T.prim_func
def add(a: T.handle, b: T.handle, c: T.handle):
    rows = T.int64()
    A = T.match_buffer(a, (rows, 4))
    B = T.match_buffer(b, (rows, 4))
    C = T.match_buffer(c, (rows, 4))
    for i, j in T.grid(rows, 4):
        with T.sblock():
            C[i, j] = A[i, j] + B[i, j]


@T.prim_func
def fill(a: T.handle, count: T.int64, c: T.handle):
    A = T.match_buffer(a, (4,))
    C = T.match_buffer(c, (count,))
    for i in range(count):
        with T.sblock():
            C[i] = A[i % 4]


@T.prim_func
def accumulate(a: T.handle, b: T.handle):
    rows = T.int64()
    A = T.match_buffer(a, (rows, 4))
    B = T.match_buffer(b, (rows, 4))
    for i, j in T.grid(rows, 4):
        with T.sblock():
            B[i, j] = A[i, j] + B[i, j]


@T.prim_func
def touch(a: T.handle):
    A = T.match_buffer(a, (4,))
    for i in range(4):
        with T.sblock():
            A[i] = T.float32(0)


@T.prim_func
def hands_on(a: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,))
    C = T.match_buffer(c, (4,))
    T.evaluate(T.call_extern("int32", "work", A.data, C.data))


ROUTINE = R.Function((var("x", tensor(4)),), R.SeqExpr((), var("x", tensor(4))), tensor(4))
FUNCTIONS = {
    "add": add,
    "fill": fill,
    "accumulate": accumulate,
    "touch": touch,
    "hands_on": hands_on,
    "routine": ROUTINE,
}


class Trial:
    def __init__(self):
        self.warnings = []
        self.deriver = Deriver(
            lambda gv: func_struct_info(FUNCTIONS[gv.name_hint]),
            self.warnings.append,
            definition=lambda gv: FUNCTIONS.get(gv.name_hint),
        )

    def derive(self, call: Any, params: Any):
        self.deriver.scope.enter(params)
        return self.deriver.derive(call)


def infer(call: Any, *params: Any, warnings: Any = ()):
    trial = Trial()
    found = trial.derive(call, params)
    assert [w.code for w in trial.warnings] == list(warnings)
    return found


def refused(code: Any, call: Any, *params: Any):
    with pytest.raises(CompileError) as raised:
        Trial().derive(call, params)
    assert [d.code for d in raised.value.diagnostics] == [code]
    assert raised.value.diagnostic.help
    return raised.value.diagnostic


same = structural_equal
ADD, FILL, ACCUMULATE, TOUCH = (R.GlobalVar(g) for g in ("add", "fill", "accumulate", "touch"))
CALL_TIR = op("call_tir")
INPLACE = op("call_tir_inplace")


# -- what users write ------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["out_sinfo", "out_ty", "sinfo_args", "ty_args", "type_args"])
def test_results_are_described_by_any_of_their_names(name: str):  # R42
    x = var("x", tensor(4, 4))
    call = CALL_TIR.call(ADD, (x, x), **{name: tensor(4, 4)})
    assert call.op is CALL_TIR.op
    assert call.args[0] is ADD
    assert call.args[1].fields == (x, x)
    assert len(call.args) == 2
    assert same(call.sinfo_args[0], tensor(4, 4))
    assert call.attrs == {}


@clauses("RX-OPS-01b")
def test_results_and_integers_may_be_given_by_place():
    x = var("x", tensor(4))
    infos = [tensor(2), tensor(3)]
    for call in (
        CALL_TIR.call(FILL, (x,), infos, (n,)),
        CALL_TIR.call(FILL, (x,), infos, tir_vars=R.ShapeExpr((n,))),
        CALL_TIR.call(FILL, x, infos, packed_ints=(n,)),
    ):
        assert isinstance(call.args[1], R.Tuple)
        assert same(call.args[2], R.ShapeExpr((n,)))
        assert call.sinfo_args == tuple(infos)


@pytest.mark.parametrize(
    ("args", "keywords", "code"),
    [
        ((ADD, ()), {}, "OPS0001"),
        ((ADD, (), OBJECT), {"out_ty": OBJECT}, "OPS0001"),
        ((ADD, ()), {"out_sinfo": 3}, "OPS0003"),
        ((ADD, ()), {"out_sinfo": [3]}, "OPS0003"),
        ((ADD, (), OBJECT), {"device": 3}, "OPS0001"),
        ((ADD, (), OBJECT, (), ()), {}, "OPS0001"),
    ],
)
def test_a_call_that_is_written_wrongly_is_refused(args: Any, keywords: Any, code: str):
    with pytest.raises(CompileError) as raised:
        CALL_TIR.call(*args, **keywords)
    assert raised.value.diagnostic.code == code


def test_a_packed_function_takes_any_number_of_arguments():
    x = var("x", tensor(4))
    call = op("call_pure_packed").call("f", x, 3, "text", sinfo_args=tensor(4))
    assert call.args[0].global_symbol == "f"
    assert call.args[1] is x
    assert isinstance(call.args[2], R.PrimValue)
    assert isinstance(call.args[3], R.StringImm)
    printed = op("print").call(x, x, format="{} {}")
    assert printed.args == (x, x)
    assert printed.attrs == {"format": "{} {}"}
    assert op("print").call().args == ()


# -- kernels ---------------------------------------------------------------------------------------
@clauses("RX-OPS-01d", "RX-OPS-01f", "RX-OPS-01g", "RX-OPS-01i", "RX-PUR-02")
def test_a_kernel_gives_what_is_described():
    x = var("x", tensor(n, 4))
    assert CALL_TIR.is_pure
    assert same(infer(CALL_TIR.call(ADD, (x, x), tensor(n, 4)), x), tensor(n, 4))
    y = var("y", tensor(4))
    assert same(infer(CALL_TIR.call(FILL, (y,), tensor(n), (n,)), x, y), tensor(n))
    pair = R.TupleStructInfo((tensor(n, 4), tensor(n, 4)))
    unknown = R.GlobalVar("add")
    call = CALL_TIR.call(unknown, (x,), list(pair.fields))
    assert same(infer(call, x), pair)
    assert same(infer(CALL_TIR.call(unknown, (x,), pair), x), pair)


@clauses("RX-OPS-01a")
def test_the_arguments_may_be_a_variable_that_holds_a_tuple():  # R33
    pair = var("p", R.TupleStructInfo((tensor(n, 4), tensor(n, 4))))
    call = CALL_TIR.call(ADD, pair, tensor(n, 4))
    assert call.args[1] is pair
    assert same(infer(call, pair), tensor(n, 4))
    made = CALL_TIR.normalize(call)
    fields = made.args[1].fields
    assert [(f.tuple_value, f.index) for f in fields] == [(pair, 0), (pair, 1)]
    assert same(infer(made, pair), tensor(n, 4))
    assert CALL_TIR.normalize(made) is made


@clauses("RX-OPS-01a")
@pytest.mark.parametrize("name", ["call_tir", "call_dps_packed"])
@pytest.mark.parametrize("given", ["variable", "constant"])
def test_a_tensor_by_itself_is_the_only_argument(name: str, given: str):  # R33
    x = var("x", tensor(4))
    single = x if given == "variable" else const(np.zeros(4, "float32"))
    args = (FILL, single, R.ShapeExpr((4,))) if name == "call_tir" else (R.ExternFunc("f"), single)
    call = R.Call(op(name).op, args, (tensor(4),))
    made = op(name).normalize(call)
    assert isinstance(made.args[1], R.Tuple)
    assert made.args[1].fields == (single,)
    assert same(infer(made, x), tensor(4))
    assert op(name).normalize(made) is made


@clauses("RX-OPS-01c")
@pytest.mark.parametrize("info", [OBJECT, some(F32, 1), some(), R.TensorStructInfo((2,)), UNIT])
def test_results_must_be_known_well_enough_to_be_allocated(info: Any):
    x = var("x", tensor(n, 4))
    shaped = var("s", R.ShapeStructInfo(ndim=1))
    for infos in ([info, tensor(2)], [R.TensorStructInfo(shaped, F32)]):
        refused("RLX0232", CALL_TIR.call(ADD, (x, x), infos), x, shaped)


@clauses("RX-OPS-01")
def test_only_kernels_of_the_module_are_called_as_such():
    x = var("x", tensor(4))
    f = var("f", R.FuncStructInfo((tensor(4),), tensor(4)))
    for callee in (x, f, R.GlobalVar("routine"), R.ExternFunc("g")):
        refused("RLX0230", CALL_TIR.call(callee, (x,), tensor(4)), x, f)


@clauses("RX-OPS-01a", "RX-OPS-03a")
def test_arguments_are_a_tuple():
    shape = var("s", R.ShapeStructInfo((2,)))
    for name in ("call_tir", "call_dps_packed"):
        call = R.Call(op(name).op, (ADD if name == "call_tir" else R.ExternFunc("f"), shape))
        refused("RLX0231", R.Call(call.op, call.args, (tensor(2),)), shape)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_kernel_has_a_parameter_for_each_thing_it_is_given(count: int):
    x = var("x", tensor(n, 4))
    refused("RLX0233", CALL_TIR.call(ADD, (x,) * count, tensor(n, 4)), x)
    refused("RLX0233", CALL_TIR.call(ADD, (x, x), [tensor(n, 4)] * 2), x)
    refused("RLX0233", CALL_TIR.call(ADD, (x, x), tensor(n, 4), (n,)), x)


@pytest.mark.parametrize(
    "info",
    [
        tensor(n, 4, dtype="float16"),
        tensor(n, 5),
        tensor(n + 1, 4),
        tensor(n),
        some(F32, 3),
        R.ShapeStructInfo((2,)),
    ],
    ids=str,
)
def test_arguments_and_results_must_be_what_a_kernel_takes(info: Any):
    x, y = var("x", tensor(n, 4)), var("y", info)
    found = refused("RLX0234", CALL_TIR.call(ADD, (x, y), tensor(n, 4)), x, y)
    assert "argument 2 of 'add'" in found.message
    if isinstance(info, R.TensorStructInfo) and info.shape is not None:
        found = refused("RLX0234", CALL_TIR.call(ADD, (x, x), info), x, y)
        assert "result 1 of 'add'" in found.message


def test_what_is_not_known_of_an_argument_is_checked_by_the_kernel():
    x, u, o = var("x", tensor(n, 4)), var("u", some(F32, 2)), var("o", OBJECT)
    y = var("y", tensor(m, 4))
    for given, warnings in ((u, ["RLX0237"]), (y, ["RLX0237"]), (o, []), (x, [])):
        call = CALL_TIR.call(ADD, (x, given), tensor(n, 4))
        infer(call, x, y, u, o, warnings=warnings)


def test_integers_are_passed_to_integers():
    y = var("y", tensor(4))
    infer(CALL_TIR.call(FILL, (y,), tensor(6), (6,)), y)
    refused("RLX0234", CALL_TIR.call(FILL, (y,), tensor(6), (7,)), y)
    x = var("x", tensor(n, 4))
    refused("RLX0234", CALL_TIR.call(ADD, (x,), tensor(n, 4), (n,)), x)


@clauses("RX-OPS-01g")
def test_a_kernel_writes_its_outputs_only():  # R34
    x, y = var("x", tensor(4)), var("y", tensor(n, 4))
    for out in ([], tensor(n, 4)):
        args = (x,) if out == [] else (y,)
        callee = TOUCH if out == [] else ACCUMULATE
        call = CALL_TIR.call(callee, args, out)
        if out == []:
            assert "'A'" in refused("RLX0235", call, x, y).message
        else:
            infer(call, x, y)
    found = refused("RLX0235", CALL_TIR.call(ACCUMULATE, (y, y), []), y)
    assert "'B'" in found.message
    # What a function of another language does with a pointer is its author's word.
    infer(CALL_TIR.call(R.GlobalVar("hands_on"), (x,), tensor(4)), x)


# -- in place --------------------------------------------------------------------------------------
@clauses("RX-OPS-02")
def test_a_result_may_be_written_over_an_argument():
    x, y = var("x", tensor(n, 4)), var("y", tensor(n, 4))
    call = INPLACE.call(ACCUMULATE, (x, y), [1], tensor(n, 4))
    assert call.attrs == {"inplace_indices": (1,)}
    assert INPLACE.is_pure
    assert same(infer(call, x, y), tensor(n, 4))
    infer(INPLACE.call(ADD, (x, y), [-1], tensor(n, 4)), x, y)
    refused("RLX0235", INPLACE.call(ACCUMULATE, (x, y), [0], tensor(n, 4)), x, y)


@clauses("RX-OPS-02")
@pytest.mark.parametrize(
    ("indices", "out"),
    [
        ([2], tensor(n, 4)),
        ([-2], tensor(n, 4)),
        ([], tensor(n, 4)),
        ([1, 1], [tensor(n, 4)] * 2),
        ([1], tensor(n, 5)),
        ([1], tensor(n, 4, dtype="int32")),
        ([0, 1], tensor(n, 4)),
    ],
    ids=str,
)
def test_an_index_names_an_argument_of_the_same_shape_and_dtype(indices: Any, out: Any):
    x, y = var("x", tensor(n, 4)), var("y", tensor(n, 4))
    refused("RLX0236", INPLACE.call(ACCUMULATE, (x, y), indices, out), x, y)


def test_what_is_written_is_passed_once():
    x = var("x", tensor(n, 4))
    refused("RLX0236", INPLACE.call(ACCUMULATE, (x, x), [1], tensor(n, 4)), x)


def test_a_kernel_with_a_gradient_is_called_as_any():
    grad = op("call_tir_with_grad")
    x = var("x", tensor(n, 4))
    call = grad.call(ADD, (x, x), tensor(n, 4), "add_grad")
    assert call.attrs == {"te_grad_name": "add_grad", "te_grad_kwargs": None}
    assert same(infer(call, x), tensor(n, 4))
    plain = grad.legalize(None, call)
    assert plain.op is CALL_TIR.op
    assert plain.args == call.args
    assert same(infer(plain, x), tensor(n, 4))


# -- packed functions ------------------------------------------------------------------------------
@clauses("RX-OPS-03e", "RX-OPS-04a", "RX-PUR-01")
def test_packed_functions_give_what_is_described():
    x = var("x", tensor(n))
    dps, pure = op("call_dps_packed"), op("call_pure_packed")
    assert dps.is_pure
    assert pure.is_pure
    assert same(infer(dps.call("f", (x,), tensor(n)), x), tensor(n))
    pair = [tensor(n), tensor(2)]
    assert same(infer(dps.call("f", (x,), pair), x), R.TupleStructInfo(tuple(pair)))
    for info in (OBJECT, tensor(n), some()):
        assert infer(pure.call("f", x, sinfo_args=info), x) is info
    assert same(infer(pure.call("f", sinfo_args=pair), x), R.TupleStructInfo(tuple(pair)))
    f = var("f", R.FuncStructInfo(None, OBJECT, derive_func="empty_derive"))
    assert infer(pure.call(f, sinfo_args=OBJECT), f) is OBJECT


@clauses("RX-OPS-03", "RX-OPS-03b", "RX-OPS-04")
def test_packed_functions_are_packed_and_described():
    x = var("x", tensor(n))
    closure = var("c", R.FuncStructInfo((), OBJECT))
    pure = op("call_pure_packed")
    refused("RLX0239", pure.call("f", sinfo_args=[]))
    refused("RLX0232", op("call_dps_packed").call("f", (x,), OBJECT), x)
    for callee in (x, closure, ADD):
        refused("RLX0238", pure.call(callee, sinfo_args=OBJECT), x, closure)
        refused("RLX0238", op("call_dps_packed").call(callee, (x,), tensor(n)), x, closure)


@clauses("RX-OPS-05")
def test_a_packed_function_may_write_its_arguments():
    x = var("x", tensor(n))
    inplace = op("call_inplace_packed")
    call = inplace.call("f", x, inplace_indices=[0], sinfo_args=tensor(n))
    assert call.attrs == {"inplace_indices": (0,)}
    assert same(infer(call, x), tensor(n))
    for index in (1, -2):
        refused("RLX0236", inplace.call("f", x, inplace_indices=[index], sinfo_args=OBJECT), x)


# -- closures --------------------------------------------------------------------------------------
def test_a_closure_takes_what_is_left():
    x = var("x", tensor(4))
    made = infer(op("make_closure").call(R.GlobalVar("routine"), (x,)), x)
    assert same(made, R.FuncStructInfo((), tensor(4)))
    invoke, pure = op("invoke_closure"), op("invoke_pure_closure")
    assert not invoke.is_pure
    assert pure.is_pure
    c, o = var("c", made), var("o", OBJECT)
    for rule in (invoke, pure):
        assert infer(rule.call(c, (), tensor(4)), c).dims
        assert infer(rule.call(o, (x, x), tensor(4)), o, x).dims
        assert infer(rule.call(o, ()), o) is OBJECT
        refused("RLX0209", rule.call(c, (x,), OBJECT), c, x)
        refused("RLX0238", rule.call(x, (), OBJECT), x)
    refused("RLX0209", op("make_closure").call(R.GlobalVar("routine"), (x, x)), x)
    refused("RLX0238", op("make_closure").call(x, ()), x)


# -- values ----------------------------------------------------------------------------------------
@clauses("RX-OPS-06", "RX-OPS-07")
def test_shapes_of_tensors_and_null():
    shape_of = op("shape_of")
    for info, expected in (
        (tensor(n, 4), R.ShapeStructInfo((n, 4))),
        (tensor(), R.ShapeStructInfo(())),
        (some(F32, 3), R.ShapeStructInfo(ndim=3)),
        (some(), R.ShapeStructInfo()),
        (OBJECT, R.ShapeStructInfo()),
    ):
        x = var("x", info)
        assert same(infer(shape_of.call(x), x), expected)
    assert infer(op("null_value").call()) is OBJECT


def test_shapes_and_tensors_of_extents():
    for info, expected in (
        (tensor(3, dtype="int64"), R.ShapeStructInfo(ndim=3)),
        (tensor(n, dtype="int32"), R.ShapeStructInfo()),
        (some(), R.ShapeStructInfo()),
    ):
        x = var("x", info)
        assert same(infer(op("tensor_to_shape").call(x), x), expected)
    for info in (tensor(3), tensor(3, 3, dtype="int64"), tensor(dtype="int64")):
        x = var("x", info)
        refused("RLX0240", op("tensor_to_shape").call(x), x)
    for info, expected in (
        (R.ShapeStructInfo((n, 2)), tensor(2, dtype="int64")),
        (R.ShapeStructInfo(), some("int64", 1)),
    ):
        s = var("s", info)
        assert same(infer(op("shape_to_tensor").call(s), s), expected)
    x = var("x", tensor(n, 4))
    assert same(infer(op("size").call(x), x), tensor(dtype="int64"))


def test_printing_and_asserting_give_nothing_and_are_impure():
    x, c = var("x", tensor(n)), var("c", tensor(dtype="bool"))
    assert not op("print").is_pure
    assert not op("assert_op").is_pure
    assert same(infer(op("print").call(x, c, "text"), x, c), UNIT)
    assert same(infer(op("assert_op").call(c, x, format="{}"), x, c), UNIT)
    infer(op("assert_op").call(R.PrimValue(tir.const(1, "bool"))))
    for bad in (x, R.PrimValue(1), R.Constant(np.zeros((1,), "bool"))):
        refused("RLX0205", op("assert_op").call(bad), x)


# -- devices ---------------------------------------------------------------------------------------
@clauses("RX-OPS-09")
def test_moves_between_devices():
    x = var("x", tensor(n))
    pair = var("p", R.TupleStructInfo((tensor(2), R.TupleStructInfo((some(),)))))
    move = op("to_vdevice")
    call = move.call(x, "llvm:1")
    device = call.attrs["dst_vdevice"]
    assert (device.target, device.dev_id, device.mem_scope) == ("llvm", 1, "global")
    assert same(infer(call, x), tensor(n, vdevice=device))
    found = infer(move.call(pair, device), pair)
    assert found.fields[0].vdevice is device
    assert found.fields[1].fields[0].vdevice is device
    s = var("s", R.ShapeStructInfo((2,)))
    refused("OPS0004", move.call(s, device), s)
    assert infer(op("hint_on_device").call(x, 0), x) is x.struct_info
    for bad in ("llvm:x", "a:1:2:3", 1.5, -1):
        with pytest.raises(CompileError) as raised:
            move.call(x, bad)
        assert raised.value.diagnostic.code == "OPS0002"
