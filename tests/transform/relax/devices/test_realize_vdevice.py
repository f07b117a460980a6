"""Devices of tensors, from those that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.relax import (
    BlockBuilder,
    Call,
    Constant,
    DataflowVar,
    FuncStructInfo,
    Function,
    GlobalVar,
    If,
    MatchCast,
    ObjectStructInfo,
    ShapeExpr,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    TupleStructInfo,
    Var,
    VDevice,
)
from loomir.relax.info.devices import update_struct_info
from loomir.relax.normal.normalize import normal_form_violations, normalize
from loomir.relax.operator.definition import find_op
from loomir.support.diagnostics import CompileError
from loomir.transform.relax.devices.realize_vdevice import realize_vdevice
from tests.clause import clauses
from tests.growth import assert_grows
from tests.relax.programs import all_bindings, block, callable_of, flow, func, let, neg, seq

A, B = VDevice("llvm", 0), VDevice("llvm", 1)


def on(device: Any = None, *shape: Any) -> TensorStructInfo:
    return TensorStructInfo(ShapeExpr(shape or (2,)), "float32", device)


def var(name: Any, device: Any = None, *shape: Any) -> Var:
    return Var(name, on(device, *shape))


def call(name: Any, *args: Any) -> Call:
    found = find_op(f"relax.{name}")
    assert found is not None
    return found.call(*args)


def module(devices: Any = (A, B), **functions: Any) -> IRModule:
    made = {GlobalVar(name): f for name, f in functions.items()}
    return IRModule(made, {}, {"vdevice": tuple(devices)} if devices else {})


def realized(mod: Any) -> Function:
    """Run the pass, hold the result to be right and a fixed point, and give ``main``."""
    made = realize_vdevice(mod)
    assert normal_form_violations(made) == ()
    assert loomir.verify(made) == ()
    assert [d.code for d in loomir.warnings_of(made)] == []
    assert normalize(made) is made
    assert realize_vdevice(made) is made
    main = made["main"]
    assert isinstance(main, Function)
    return main


def main_of(mod: Any):
    return realized(mod)


def devices_of(made: Function) -> list:
    """Return the device number of each parameter and variable, in order."""
    found = [*made.params, *(b.var for b in all_bindings(made) if b.var is not None)]
    return [device_of(v.struct_info) for v in found]


def device_of(info: Any):
    if isinstance(info, TensorStructInfo):
        return None if info.vdevice is None else info.vdevice.dev_id
    if isinstance(info, TupleStructInfo):
        return tuple(map(device_of, info.fields))
    return "-"


def chain(x: Any, *names: Any):
    """Negate one after another, without annotations."""
    at, made = x, []
    for name in names:
        v = Var(name)
        made.append(let(v, neg(at)))
        at = v
    return block(*made), at


@clauses("RX-VD-01")
def test_a_module_without_devices_stays_as_it_is():
    x = var("x")
    mod = normalize(module((), main=func([x], neg(x))))
    assert realize_vdevice(mod) is mod


@clauses("RX-VD-03", "RX-VD-04", "RX-VD-05", "RX-VD-05a")
def test_the_device_of_the_result_goes_backward_to_all_that_it_is_made_of():
    x = var("x")
    part, out = chain(x, "a", "b", "c")
    made = main_of(normalize(module(main=func([x], seq([part], out), on(B)))))
    assert devices_of(made) == [1, 1, 1, 1]


@clauses("RX-VD-07")
def test_the_device_of_a_parameter_goes_forward():
    x = var("x", B)
    part, out = chain(x, "a", "b")
    made = main_of(normalize(module(main=func([x], seq([part], out), on()))))
    assert devices_of(made) == [1, 1, 1]
    assert device_of(made.ret_struct_info) == 1


@clauses("RX-VD-04")
def test_what_stands_beside_a_tensor_is_on_its_device():
    x, y = var("x", B), var("y")
    made = main_of(normalize(module(main=func([x, y], call("add", x, neg(y))))))
    assert devices_of(made) == [1, 1, 1, 1]


@clauses("RX-VD-04")
def test_moves_separate_devices():
    x = var("x", A)
    out = neg(call("to_vdevice", neg(x), B))
    made = main_of(normalize(module(main=func([x], out, on(B)))))
    assert devices_of(made) == [0, 0, 1, 1]


@clauses("RX-VD-05a")
def test_aliases_and_tuples_are_passed_through():
    x, y = var("x"), var("y")
    t, a, b = Var("t"), Var("a"), Var("b")
    body = seq(
        [
            block(
                let(t, Tuple((x, y))), let(a, TupleGetItem(t, 0)), let(b, call("to_vdevice", a, B))
            )
        ],
        Tuple((b, neg(a))),
    )
    ret = TupleStructInfo((on(B), on(A)))
    mod = normalize(module(main=func([x, y], body, ret)))
    made = main_of(mod)
    assert devices_of(made)[:4] == [0, None, (0, None), 0]


@clauses("RX-VD-05b")
def test_checks_tell_devices_both_ways():
    x, y = Var("x", TensorStructInfo(None, "float32", ndim=1)), Var("y", on())
    cast = MatchCast(y, x, on())
    made = main_of(normalize(module(main=func([x], seq([block(cast)], y), on(B)))))
    assert devices_of(made) == [1, 1]
    assert device_of(all_bindings(made)[0].struct_info) == 1
    x, z = Var("x", ObjectStructInfo()), Var("z")
    cast = MatchCast(z, x, on(A))
    made = main_of(normalize(module(main=func([x], seq([block(cast)], neg(z))))))
    assert devices_of(made) == ["-", 0, 0]


@clauses("RX-VD-06")
def test_branches_are_entered():
    c, x = Var("c", TensorStructInfo(ShapeExpr(()), "bool", A)), var("x")
    branch = If(c, neg(x), x)
    made = main_of(normalize(module(main=func([c, x], branch, on(B)))))
    assert devices_of(made)[:2] == [0, 1]
    assert set(devices_of(made)[2:]) == {1}


@clauses("RX-VD-02c", "RX-VD-03")
def test_functions_of_the_module_are_told_what_their_callers_know():
    x, y = var("x"), var("y")
    mod = module(
        main=func([x], Call(GlobalVar("other"), (x,)), on(B)),
        other=func([y], neg(y), on(), attrs={}),
    )
    made = realize_vdevice(normalize(mod))
    assert devices_of(made["main"]) == [1, 1]
    assert devices_of(made["other"]) == [1, 1]
    assert device_of(made["other"].ret_struct_info) == 1
    assert loomir.verify(made) == ()


def test_arguments_are_where_the_parameters_of_a_function_are():
    x, y = var("x"), var("y", B)
    mod = module(
        main=func([x], Call(GlobalVar("other"), (neg(x),))),
        other=func([y], call("to_vdevice", y, A), on(A), attrs={}),
    )
    made = realize_vdevice(normalize(mod))
    assert devices_of(made["main"]) == [1, 1, 0]


def test_closures_are_entered():
    x, y, f = var("x"), var("y"), Var("f", callable_of([on()], on()))
    inner = Function((y,), seq([], neg(y)), on())
    body = seq([block(let(f, inner))], Call(f, (x,)))
    made = realize_vdevice(normalize(module(main=func([x], body, on(B)))))
    names = {v.name_hint: v for v in made["main"].params}
    assert device_of(names["x"].struct_info) == 1
    (closure,) = [b for b in all_bindings(made["main"]) if isinstance(b.value, Function)]
    assert device_of(closure.value.params[0].struct_info) == 1
    assert device_of(closure.value.ret_struct_info) == 1
    assert isinstance(closure.var.struct_info, FuncStructInfo)
    assert device_of(closure.var.struct_info.ret) == 1
    assert loomir.verify(made) == ()


def test_kernels_are_told_by_the_description_of_their_results():
    from loomir.te import topi

    bb = BlockBuilder(IRModule({}, {}, {"vdevice": (A, B)}))
    x = var("x")
    with bb.function("main", x):
        bb.emit_func_output(call("to_vdevice", bb.emit_te(topi.negative, x), B))
    mod = bb.get()
    with pytest.raises(CompileError) as caught:
        realize_vdevice(mod)
    assert caught.value.diagnostic.code == "RLX0321"
    bb = BlockBuilder(IRModule({}, {}, {"vdevice": (A, B)}))
    x = var("x")
    with bb.function("main", x):
        bb.emit_func_output(neg(bb.emit_te(topi.negative, bb.emit(call("to_vdevice", x, B)))))
    made = main_of(bb.get())
    assert devices_of(made)[1:] == [1, 1, 1]


def test_what_is_made_of_no_tensor_is_moved():
    x = var("x", B)
    out = call("add", x, Constant(np.float32(1)))
    assert devices_of(main_of(normalize(module(main=func([x], out))))) == [1, 1]
    y = Var("y")
    made = main_of(
        normalize(
            module(main=func([x], seq([block(let(y, Constant(np.float32([1, 2]))))], y), on(B)))
        )
    )
    assert [b.value.op.name for b in all_bindings(made) if isinstance(b.value, Call)] == [
        "relax.to_vdevice"
    ]


# -- hints ----------------------------------------------------------------------------------------
def hint(x: Any, device: Any = B):
    found = find_op("relax.hint_on_device")
    assert found is not None
    return found.call(x, device)


def ops_of(made: Any) -> list[str]:
    return [b.value.op.name[6:] for b in all_bindings(made) if isinstance(b.value, Call)]


def test_a_hint_on_a_tensor_that_is_nowhere_puts_it_there():
    x = var("x")
    made = main_of(normalize(module(main=func([x], neg(hint(x))))))
    assert ops_of(made) == ["negative"]
    assert devices_of(made) == [1, 1]


def test_a_hint_on_a_tensor_that_is_there_vanishes():
    x = var("x", B)
    made = main_of(normalize(module(main=func([x], neg(hint(x))))))
    assert ops_of(made) == ["negative"]


def test_a_hint_on_a_tensor_that_is_elsewhere_is_a_move():
    x = var("x", A)
    made = main_of(normalize(module(main=func([x], neg(hint(x)), on()))))
    assert ops_of(made) == ["to_vdevice", "negative"]
    assert devices_of(made) == [0, 1, 1]


def test_what_is_known_otherwise_is_stronger_than_a_hint():
    x = var("x")
    a = Var("a")
    body = seq([block(let(a, neg(x)))], Tuple((call("to_vdevice", neg(hint(a)), A), neg(a))))
    made = main_of(normalize(module(main=func([x], body, TupleStructInfo((on(A), on(A)))))))
    assert ops_of(made) == ["negative", "to_vdevice", "negative", "to_vdevice", "negative"]
    assert devices_of(made)[:3] == [0, 0, 1]


def test_hinted_outputs_of_dataflow_blocks_stay():
    x, a, b = var("x"), DataflowVar("a"), Var("b")
    body = seq([flow(let(a, neg(x)), let(b, hint(a)))], b)
    made = main_of(normalize(module(main=func([x], body))))
    assert devices_of(made) == [1, 1, 1]


# -- mistakes -------------------------------------------------------------------------------------
@clauses("RX-VD-02", "RX-VD-02a", "RX-VD-02b", "RX-VD-02d")
def test_filling_in_a_device():
    both = TupleStructInfo((on(), on(B), ObjectStructInfo()))
    assert device_of(update_struct_info(both, B)) == (1, 1, "-")
    opaque = FuncStructInfo(None, ObjectStructInfo(), derive_func="default_derive")
    assert update_struct_info(opaque, A) is opaque
    made = update_struct_info(callable_of([on()], on()), A)
    assert (device_of(made.params[0]), device_of(made.ret)) == (None, 0)
    with pytest.raises(CompileError) as caught:
        update_struct_info(both, A)
    assert caught.value.diagnostic.code == "RLX0320"


@clauses("RX-VD-02")
def test_a_tensor_on_two_devices_is_refused():
    x, a, b = var("x"), Var("a"), Var("b")
    body = seq([block(let(a, neg(x)), let(b, neg(x)))], Tuple((a, b)))
    mod = normalize(module(main=func([x], body, TupleStructInfo((on(A), on(B))))))
    with pytest.raises(CompileError) as caught:
        realize_vdevice(mod)
    assert caught.value.diagnostic.code == "RLX0320"


@clauses("RX-VD-08")
def test_a_tensor_on_no_device_is_refused():
    x, y = var("x"), var("y", A)
    mod = normalize(module(main=func([x, y], Tuple((neg(x), neg(y))))))
    with pytest.raises(CompileError) as caught:
        realize_vdevice(mod)
    (found,) = caught.value.diagnostics
    assert found.code == "RLX0321"
    assert "'x'" in found.message


def test_long_programs_take_linear_time():
    def realize(count: Any):
        x = var("x")
        part, out = chain(x, *[f"v{k}" for k in range(count)])
        mod = normalize(module(main=func([x], seq([part], out), on(B))))
        return lambda: realize_vdevice(mod)

    assert_grows(9, realize, 1_000, 4_000)
