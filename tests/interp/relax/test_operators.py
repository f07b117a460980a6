"""Operators that call, allocate or have effects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.interp.relax.values import PartialApplication
from loomir.ir.module import GlobalVar, IRModule
from loomir.relax import (
    Call,
    ExternFunc,
    Function,
    PrimValue,
    ShapeExpr,
    StringImm,
    StructInfo,
    Tuple,
)
from loomir.relax.struct_info import OBJECT
from loomir.support.diagnostics import RunError
from tests.clause import clauses
from tests.interp.relax.build import (
    bind,
    call_tir,
    const,
    func,
    module,
    op,
    prim,
    prim_func,
    run,
    seq,
    shape,
    size,
    tensor,
    tuple_of,
    var,
)
from tests.interp.relax.conftest import Register
from tests.relax.kernels import ADD, BOTH, DOUBLE, FILL, SPLIT

ONE = np.ones(4, "float32")
V4 = tensor(4)


def ones() -> Any:
    return np.ones(4, "float32")


def program(main: Function, *texts: str) -> IRModule:
    funcs = [prim_func(text) for text in texts]
    return module(**{f.name: f for f in funcs}, main=main)


def refusal(mod: Any, *args: Any) -> tuple[str, str]:
    with pytest.raises(RunError) as caught:
        run(mod, "main", *args)
    return caught.value.diagnostic.code, caught.value.diagnostic.message


X = var("x", V4)


# -- call_tir ------------------------------------------------------------------------------------
@clauses("RX-OPS-01", "RX-OPS-01c", "RX-OPS-01d", "RX-OPS-01e", "RX-OPS-01f", "RX-OPS-01i")
def test_call_tir_gives_a_fresh_tensor():
    mod = program(func([X], call_tir("add", (X, X), V4), V4), ADD)
    x = ones()
    made = run(mod, "main", x)
    assert list(made) == [2, 2, 2, 2]
    assert list(x) == [1, 1, 1, 1]
    assert not np.may_share_memory(made, x)
    assert not np.may_share_memory(made, run(mod, "main", x))


@clauses("RX-OPS-01a")
@pytest.mark.parametrize("form", ["tuple", "variable", "lone tensor"])
def test_call_tir_takes_its_arguments_as_a_tuple(form: str):
    """Decision R33."""
    t = var("t", tuple_of(V4))
    args = {"tuple": Tuple((X,)), "variable": t, "lone tensor": X}[form]
    call = op("call_tir", GlobalVar("pair"), args, sinfo=(V4, tensor(4, 2)))
    square, pair = run(
        program(func([X], seq(call, bind(t, Tuple((X,))))), BOTH), "main", ones() * 3
    )
    assert list(square) == [9, 9, 9, 9]
    assert pair.tolist() == [[3, 6]] * 4


@clauses("RX-OPS-01c", "RX-OPS-01d")
def test_call_tir_allocates_by_shape_variables():
    n = size("n")
    x = var("x", tensor(n))
    mod = program(func([x], call_tir("pair", (x,), tensor(n), tensor(n, 2))), BOTH)
    for extent in (0, 1, 5):
        square, pair = run(mod, "main", np.ones(extent, "float32"))
        assert (square.shape, pair.shape) == ((extent,), (extent, 2))


@clauses("RX-OPS-01b", "RX-OPS-01f")
def test_call_tir_appends_the_packed_integers():
    n = size("n")
    x = var("x", tensor(n))
    call = call_tir("fill", (), V4, ints=ShapeExpr((n, n + 1)))
    assert list(run(program(func([x], call), FILL), "main", np.ones(3, "float32"))) == [
        3,
        7,
        11,
        15,
    ]
    s = var("s", shape(5, 6))
    call = call_tir("fill", (), V4, ints=s)
    made = run(program(func([s], call), FILL), "main", loomir.Shape([5, 6]))
    assert list(made) == [5, 11, 17, 23]


@clauses("RX-OPS-01d")
def test_call_tir_without_outputs_gives_the_empty_tuple():
    empty = "@T.prim_func\ndef nothing(x: T.Buffer((4,), 'float32')):\n    T.evaluate(0)\n"
    assert run(program(func([X], call_tir("nothing", (X,))), empty), "main", ONE) == ()


@clauses("RX-OPS-01g")
def test_call_tir_refuses_a_function_that_writes_to_an_argument():
    """Decision R34."""
    mod = program(func([X], call_tir("double", (X,))), DOUBLE)
    x = ones()
    assert refusal(mod, x) == (
        "RUN0415",
        "double writes to argument x, and the call gives it that only to read",
    )
    assert list(x) == [1, 1, 1, 1]
    assert refusal(program(func([X], call_tir("split", (X,), V4)), SPLIT), x)[0] == "RUN0415"


@clauses("RX-OPS-01h")
@pytest.mark.parametrize("info", [tensor(5), tensor(2, 2), tensor(4, dtype="int32")], ids=str)
def test_call_tir_refuses_a_function_of_other_outputs(info: StructInfo):
    mod = program(func([X], call_tir("add", (X, X), info)), ADD)
    assert refusal(mod, ONE)[0] in ("RUN0003", "RUN0004", "RUN0005")


@clauses("RX-OPS-01")
def test_call_tir_calls_only_loop_level_functions():
    inner = func([X], X, V4, "inner")
    main = func([X], call_tir("inner", (X,), V4))
    code, message = refusal(module(inner=inner, main=main), ONE)
    assert code == "RUN0401"
    assert message.startswith("R.call_tir: argument 1 must be a loop-level function")


def test_outputs_hold_nothing_in_particular():
    """What no function writes is no zero."""
    empty = "@T.prim_func\ndef nothing(x: T.Buffer((4,), '{}')):\n    T.evaluate(0)\n"
    for dtype in ("float32", "int32"):
        call = call_tir("nothing", (), tensor(4, dtype=dtype))
        made = run(program(func([], call), empty.format(dtype)), "main")
        assert all(v != v or v == -0x32323233 for v in made.tolist())


# -- call_tir_inplace ----------------------------------------------------------------------------
def inplace(callee: str, args: Any, indices: tuple[int, ...], *infos: StructInfo) -> Call:
    return op(
        "call_tir_inplace",
        GlobalVar(callee),
        Tuple(tuple(args)),
        sinfo=infos,
        inplace_indices=indices,
    )


@clauses("RX-OPS-02", "RX-SEM-19")
def test_call_tir_inplace_writes_to_its_argument():
    x = ones()
    made = run(program(func([X], inplace("double", (X,), (0,), V4), V4), DOUBLE), "main", x)
    assert made is x
    assert list(x) == [2, 2, 2, 2]


@clauses("RX-OPS-02")
def test_call_tir_inplace_allocates_for_minus_one():
    mod = program(func([X], inplace("split", (X,), (0, -1), V4, V4)), SPLIT)
    x = ones()
    first, second = run(mod, "main", x)
    assert first is x
    assert list(x) == [0, 0, 0, 0]
    assert list(second) == [1, 1, 1, 1]


@clauses("RX-OPS-02", "RX-SEM-06")
def test_call_tir_inplace_copies_a_constant():
    """Decision R35: on successive calls the constant is what it was."""
    c, y = var("c", V4), var("y", V4)
    body = seq(
        Tuple((c, y)), bind(c, const([1, 2, 3, 4])), bind(y, inplace("double", (c,), (0,), V4))
    )
    mod = program(func([], body), DOUBLE)
    for _ in range(3):
        constant, doubled = run(mod, "main")
        assert list(constant) == [1, 2, 3, 4]
        assert list(doubled) == [2, 4, 6, 8]


@clauses("RX-SEM-23")
def test_a_direct_call_cannot_write_to_a_constant():
    """Decision R35."""
    mod = program(func([], Call(GlobalVar("double"), (const([1, 2, 3, 4]),))), DOUBLE)
    assert refusal(mod) == (
        "RUN0413",
        "double writes to argument x, which is a constant of the program",
    )


@clauses("RX-OPS-02")
def test_call_tir_inplace_refuses_what_is_also_read_elsewhere():
    accumulate = (
        "@T.prim_func\n"
        "def accumulate(x: T.Buffer((4,), 'float32'), y: T.Buffer((4,), 'float32')):\n"
        "    for i in range(4):\n"
        "        x[i] = x[i] + y[3 - i]\n"
    )
    y = var("y", V4)
    call = inplace("accumulate", (X, y), (0,), V4)
    mod = program(func([X, y], call), accumulate)
    assert list(run(mod, "main", ones(), ones())) == [2, 2, 2, 2]
    x = ones()
    assert refusal(mod, x, x)[0] == "RUN0008"
    assert refusal(mod, x, x[:])[0] == "RUN0008"
    assert list(x) == [1, 1, 1, 1]


def test_what_the_caller_cannot_write_is_not_written():
    x = ones()
    x.flags.writeable = False
    mod = program(func([X], inplace("double", (X,), (0,), V4), V4), DOUBLE)
    assert refusal(mod, x)[0] == "RUN0108"


# -- packed functions ----------------------------------------------------------------------------
def dps(name: str, args: Any, info: StructInfo) -> Call:
    return op("call_dps_packed", ExternFunc(name), args, sinfo=(info,))


@clauses("RX-OPS-03", "RX-OPS-03a", "RX-OPS-03b", "RX-OPS-03c", "RX-OPS-03e")
def test_call_dps_packed_gives_outputs_to_write(register: Register):
    def squares(x: Any, y: Any, z: Any) -> str:
        y[:] = x * x
        z[...] = x.sum()
        return "what is returned does not count"

    register("test.squares", squares)
    info = tuple_of(V4, tensor(dtype="float32"))
    square, total = run(func([X], dps("test.squares", Tuple((X,)), info)), ONE * 3)
    assert list(square) == [9, 9, 9, 9]
    assert total == 12
    register("test.zero", lambda y: y.fill(0))
    made = run(func([], dps("test.zero", Tuple(()), V4)))
    assert list(made) == [0, 0, 0, 0]


@clauses("RX-OPS-03")
def test_call_dps_packed_may_name_a_function_of_the_module():
    made = run(program(func([X], dps("add", Tuple((X, X)), V4)), ADD), "main", ONE)
    assert list(made) == [2, 2, 2, 2]


@clauses("RX-OPS-03d")
def test_call_dps_packed_keeps_the_shape_of_outputs(register: Register):
    def reshape(y: Any) -> None:
        y.shape = (2, 2)

    register("test.reshape", reshape)
    with pytest.raises(ValueError, match="RUN0403"):
        run(func([], dps("test.reshape", Tuple(()), V4)))


@clauses("RX-OPS-04", "RX-OPS-04a")
def test_call_pure_packed_is_a_call(register: Register):
    register("test.add", lambda x, y: x + y)
    call = op("call_pure_packed", ExternFunc("test.add"), X, X, sinfo=(V4,))
    assert list(run(func([X], call), ONE)) == [2, 2, 2, 2]
    wrong = op("call_pure_packed", ExternFunc("test.add"), X, X, sinfo=(tensor(5),))
    with pytest.raises(ValueError, match=r"the result of .test\.add., axis 0"):
        run(func([X], wrong), ONE)


@clauses("RX-OPS-05")
def test_call_inplace_packed_writes_to_its_arguments(register: Register):
    def increment(x: Any) -> Any:
        x += 1
        return x

    register("test.increment", increment)
    call = op(
        "call_inplace_packed",
        ExternFunc("test.increment"),
        X,
        sinfo=(V4,),
        inplace_indices=(0,),
    )
    x = ones()
    assert run(func([X], call), x) is x
    assert list(x) == [2, 2, 2, 2]
    on_constant = op(
        "call_inplace_packed",
        ExternFunc("test.increment"),
        const([1, 2, 3, 4]),
        sinfo=(V4,),
        inplace_indices=(0,),
    )
    for _ in range(2):
        assert list(run(func([], on_constant))) == [2, 3, 4, 5]


def test_arrays_of_other_strides_are_copied_when_they_come_back(register: Register):
    register("test.turn", lambda x: x[::-1])
    call = op("call_pure_packed", ExternFunc("test.turn"), X, sinfo=(V4,))
    x = np.arange(4, dtype="float32")
    made = run(func([X], call), x)
    assert list(made) == [3, 2, 1, 0]
    assert made.flags.c_contiguous


# -- closures ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["invoke_closure", "invoke_pure_closure"])
def test_a_closure_is_invoked_with_a_tuple(name: str):
    y, f = var("y", V4), var("f", OBJECT)
    call = op(name, f, Tuple((X,)), sinfo=(V4,))
    program = func([X], seq(call, bind(f, Function((y,), op("add", y, y), V4))))
    assert list(run(program, ONE)) == [2, 2, 2, 2]


def test_make_closure_gives_the_last_arguments():
    a, b = var("a", OBJECT), var("b", OBJECT)
    inner = func([a, b], Tuple((a, b)), name="inner")
    made = op("make_closure", GlobalVar("inner"), Tuple((PrimValue(2),)))
    f, x = var("f", OBJECT), var("x", OBJECT)
    main = func([x], seq(op("invoke_closure", f, Tuple((x,)), sinfo=(OBJECT,)), bind(f, made)))
    assert run(module(inner=inner, main=main), "main", 1) == (1, 2)
    partial = run(module(inner=inner, main=func([], made)), "main")
    assert isinstance(partial, PartialApplication)
    assert partial("one") == ("one", 2)


# -- values --------------------------------------------------------------------------------------
@clauses("RX-OPS-06")
def test_shape_of_gives_a_shape():
    x = var("x", OBJECT)
    made = run(func([x], op("shape_of", x)), np.zeros((2, 3)))
    assert isinstance(made, loomir.Shape)
    assert made == (2, 3)
    with pytest.raises(TypeError, match="must be a tensor, not a shape"):
        run(func([x], op("shape_of", x)), loomir.Shape([1]))


def test_shapes_and_tensors_become_one_another():
    x = var("x", OBJECT)
    made = run(func([x], op("shape_to_tensor", x)), loomir.Shape([2, 3]))
    assert made.dtype == np.int64
    assert list(made) == [2, 3]
    assert run(func([x], op("tensor_to_shape", x)), np.array([2, 3])) == loomir.Shape([2, 3])
    with pytest.raises(ValueError, match="the extent of axis 1 is -3"):
        run(func([x], op("tensor_to_shape", x)), np.array([2, -3]))


# -- effects -------------------------------------------------------------------------------------
def test_print_writes_a_line(capsys: pytest.CaptureFixture[str]):
    x = var("x", OBJECT)
    assert run(func([x], op("print", x, StringImm("b"))), 1) == ()
    assert run(func([x], op("print", x, format="x is {}")), np.float32(0.5)) == ()
    assert capsys.readouterr().out == "1 b\nx is 0.5\n"


def test_assert_op_goes_on_where_its_condition_holds():
    c, n = var("c", OBJECT), var("n", prim())
    f = func([c, n], op("assert_op", c, n, format="n is {}"))
    assert run(f, True, 3) == ()
    assert run(f, np.array(True), 3) == ()
    with pytest.raises(AssertionError) as caught:
        run(f, False, 3)
    assert isinstance(caught.value, RunError)
    assert caught.value.diagnostic.code == "RUN0202"
    assert caught.value.diagnostic.message == "n is 3"
    with pytest.raises(TypeError, match="RUN0408"):
        run(f, np.array([True]), 3)


@clauses("RX-OPS-08", "RX-OPS-09")
@pytest.mark.parametrize("name", ["to_vdevice", "hint_on_device"])
def test_tensors_are_copied_to_a_device(name: str):
    x = var("x", OBJECT)
    given = ones(), (ones(),)
    made = run(func([x], op(name, x)), given)
    assert (made[0] == given[0]).all()
    assert not np.may_share_memory(made[0], given[0])
    assert not np.may_share_memory(made[1][0], given[1][0])
