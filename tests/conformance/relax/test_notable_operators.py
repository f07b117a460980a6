"""Operators that the specification names: calls of kernels and packed functions, shapes, devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.relax import Call, ExternFunc, Function, TensorStructInfo, Var
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import ShapeStructInfo
from loomir.transform.relax.devices.realize_vdevice import realize_vdevice
from tests.conformance.graphs import (
    COUNT,
    F32,
    ONES,
    both,
    f32,
    graph,
    known,
    module,
    packed,
    read,
    refused,
    ways,
)
from tests.relax.kernels import ADD, BOTH, DOUBLE, FILL, SPLIT

X = f"x: {F32}"
TWO = 'R.Tensor((n,), "float32"), R.Tensor((n, 2), "float32")'

TENSOR = TensorStructInfo((4,), "float32")
SIZES = Var("s", ShapeStructInfo((4,)))


def calling(kernel: str, *lines: str, signature: str = X, pure: bool = True) -> str:
    return module(kernel, graph(signature, *lines, pure=pure))


# -- call_tir ------------------------------------------------------------------------------------
def test_RX_OPS_01_call_tir_calls_a_kernel():
    """What R.call_tir calls is a global variable that denotes a kernel."""
    found = both(calling(ADD, f"return R.call_tir(cls.add, (x, x), {F32})"), COUNT)
    assert found.tolist() == [0, 2, 4, 6]
    other = graph(f"{X}, y: {F32}", "return x", ret=F32, name="other")
    main = graph(X, f"return R.call_tir(cls.other, (x,), {F32})  # <--", pure=True)
    refused("RLX0230", module(other, main))


@pytest.mark.parametrize("args", ["(x,)", "t", "x"])
def test_RX_OPS_01a_arguments_are_a_tuple(args: str):
    """Arguments are what evaluates to a tuple of tensors."""
    text = calling(
        BOTH,
        "n = T.int64()",
        "t = (x,)",
        f"return R.call_tir(cls.pair, {args}, [{TWO}])",
        signature='x: R.Tensor(("n",), "float32")',
    )
    square, pairs = both(text, f32(3, 4))
    assert square.tolist() == [9, 16]
    assert pairs.tolist() == [[3, 6], [4, 8]]
    text = calling(
        BOTH, f"y = R.call_tir(cls.pair, o, [{TWO}])  # <--", signature="o: R.Shape(ndim=1)"
    )
    with pytest.raises(loomir.CompileError):
        read(text)


def test_RX_OPS_01b_packed_integers_are_a_shape():
    """The extents of an optional shape are passed as integers."""
    text = calling(
        FILL,
        f"return R.call_tir(cls.fill, (), {F32}, tir_vars=[n, n + 1])",
        signature='x: R.Tensor((n,), "int8")',
    )
    assert both(text, np.zeros(3, "int8")).tolist() == [3, 7, 11, 15]
    for call in (
        f"R.Call('relax.call_tir', [cls.fill, (), s], ty_args={F32})",
        f"R.call_tir(cls.fill, (), {F32}, packed_ints=s)",
    ):
        text = calling(FILL, f"return {call}", signature="s: R.Shape([5, 6])")
        assert both(text, loomir.Shape([5, 6])).tolist() == [5, 11, 17, 23]


@pytest.mark.parametrize(
    "info", ["R.Object", 'R.Tensor("float32", ndim=1)', "R.Tensor((4,))", "R.Shape([4])"]
)
def test_RX_OPS_01c_results_are_described_in_full(info: str):
    """A result is described as a tensor of known extents and dtype."""
    refused("RLX0232", calling(ADD, f"y = R.call_tir(cls.add, (x, x), {info})  # <--", "return y"))


def test_RX_OPS_01d_one_result_is_a_tensor_others_are_a_tuple():
    """One description gives a tensor, none or several give a tuple."""
    assert both(calling(ADD, f"return R.call_tir(cls.add, (x, x), {F32})"), ONES).shape == (4,)
    text = calling(
        BOTH,
        f"y = R.call_tir(cls.pair, (x,), [{TWO}])",
        "return y",
        signature='x: R.Tensor((n,), "float32")',
    )
    assert len(both(text, f32(1))) == 2
    nothing = "@T.prim_func\ndef nothing(x: T.Buffer((4,), 'float32')):\n    T.evaluate(0)\n"
    assert both(calling(nothing, "return R.call_tir(cls.nothing, (x,), [])"), ONES) == ()


def test_RX_OPS_01e_results_are_allocated():
    """The results are new tensors of the extents that are described."""
    for run in ways(calling(ADD, f"return R.call_tir(cls.add, (x, x), {F32})")):
        x = ONES.copy()
        first, second = run(x), run(x)
        assert not np.shares_memory(first, x)
        assert not np.shares_memory(first, second)


def test_RX_OPS_01f_arguments_then_integers_then_results():
    """The kernel gets the arguments, the integers and the results in this order."""
    kernel = """
        @T.prim_func
        def order(x: T.Buffer((4,), "float32"), k: T.int64, y: T.Buffer((4,), "float32")):
            for i in range(4):
                y[i] = x[i] * T.Cast("float32", k)
    """
    text = calling(kernel, f"return R.call_tir(cls.order, (x,), {F32}, tir_vars=[10])")
    assert both(text, COUNT).tolist() == [0, 10, 20, 30]


def test_RX_OPS_01g_only_results_are_written():
    """A kernel that writes to what it is only given to read is refused; the call is pure."""
    assert read(
        calling(
            ADD,
            "with R.dataflow():",
            f"    y = R.call_tir(cls.add, (x, x), {F32})",
            "    R.output(y)",
            "return y",
        )
    )["main"].is_pure
    refused("RLX0235", calling(SPLIT, f"y = R.call_tir(cls.split, (x,), {F32})  # <--", "return y"))
    refused("RLX0235", calling(DOUBLE, "y = R.call_tir(cls.double, (x,), [])  # <--", "return y"))


@pytest.mark.parametrize(
    "info", ['R.Tensor((5,), "float32")', 'R.Tensor((2, 2), "float32")', 'R.Tensor((4,), "int32")']
)
def test_RX_OPS_01h_results_must_be_as_described(info: str):
    """A result that is another than is described is an error."""
    refused("RLX0234", calling(ADD, f"y = R.call_tir(cls.add, (x, x), {info})  # <--", "return y"))


def test_RX_OPS_01i_the_results_are_returned():
    """What the call returns is what the kernel wrote, by itself or as a tuple."""
    single = calling(ADD, f"return R.call_tir(cls.add, (x, x), {F32})")
    assert known(read(single)["main"]) == 'R.Tensor((4,), dtype="float32")'
    text = calling(
        BOTH,
        f"return R.call_tir(cls.pair, (x,), [{TWO}])",
        signature='x: R.Tensor((n,), "float32")',
    )
    assert both(text, f32(2))[1].tolist() == [[2, 4]]


def test_RX_OPS_02_results_over_arguments():
    """Index -1 makes a new result, another index writes over the argument of that number."""
    call = f"return R.call_tir_inplace(cls.split, (x,), [0, -1], [{F32}, {F32}])"
    for run in ways(calling(SPLIT, call, pure=False)):
        x = COUNT.copy()
        over, new = run(x)
        assert np.shares_memory(over, x)
        assert x.tolist() == [0, 0, 0, 0]
        assert new.tolist() == [0, 1, 2, 3]


# -- packed functions ----------------------------------------------------------------------------
def dps(args: str, info: str) -> str:
    return graph(X, f"return R.call_dps_packed('test.f', {args}, {info})", pure=True)


def test_RX_OPS_03_call_dps_packed_calls_a_packed_function():
    """What R.call_dps_packed calls is a packed function."""
    with packed(f=lambda x, y: np.copyto(y, x * 3)):
        assert both(dps("(x,)", F32), COUNT).tolist() == [0, 3, 6, 9]
    text = graph("x: R.Shape([4])", f"y = R.call_dps_packed(x, (), {F32})  # <--", "return y")
    with pytest.raises(loomir.CompileError):
        read(text)


def test_RX_OPS_03a_arguments_are_a_tuple():
    """The arguments are a tuple, and each is passed."""
    with packed(f=lambda a, b, y: np.copyto(y, a - b)):
        text = graph(f"a: {F32}, b: {F32}", f"return R.call_dps_packed('test.f', (a, b), {F32})")
        assert both(text, COUNT, ONES).tolist() == [-1, 0, 1, 2]
    read(text)
    call = Call(find_op("relax.call_dps_packed").op, (ExternFunc("f"), SIZES), (TENSOR,))
    refused("RLX0231", Function((call.args[1],), call))


@pytest.mark.parametrize(
    "info", ["R.Object", 'R.Tensor("float32", ndim=1)', "R.Tuple(R.Shape([2]))"]
)
def test_RX_OPS_03b_results_are_tensors_of_known_extents(info: str):
    """The result is described as a tensor of known extents, or a tuple of them."""
    with packed(f=lambda a, b: (a.fill(1), b.fill(2))):
        text = graph("", f'return R.call_dps_packed("test.f", (), R.Tuple({F32}, {F32}))')
        assert [a[0] for a in both(text)] == [1, 2]
    refused(
        "RLX0232", graph(X, f"y = R.call_dps_packed('test.f', (x,), {info})  # <--", "return y")
    )


def test_RX_OPS_03c_results_are_passed_last():
    """New tensors of the described extents are passed after the arguments."""
    seen: list[tuple[int, ...]] = []
    with packed(f=lambda x, y: (seen.append(y.shape), y.fill(0))):
        both(dps("(x,)", 'R.Tensor((2, 3), "float32")'), ONES)
    assert seen == [(2, 3), (2, 3)]


def test_RX_OPS_03d_results_keep_their_shape():
    """A function that makes another shape of its result is refused."""

    def reshape(y: Any) -> None:
        y.shape = (2, 2)

    with packed(f=reshape):
        text = graph("", f"return R.call_dps_packed('test.f', (), {F32})")
        oracle, native = ways(text)
        with pytest.raises(loomir.RunError) as caught:
            oracle()
        assert caught.value.diagnostic.code == "RUN0403"
        assert native().shape == (4,)  # what Python calls a view of it does not matter


def test_RX_OPS_03e_results_are_returned_and_the_call_is_pure():
    """What the function wrote is returned, what it returns is dropped, and the call is pure."""
    with packed(f=lambda y: (y.fill(5), "dropped")):
        lines = (
            "with R.dataflow():",
            f"    y = R.call_dps_packed('test.f', (), {F32})",
            "    R.output(y)",
        )
        assert both(graph("", *lines, "return y", pure=True)).tolist() == [5, 5, 5, 5]
        text = graph("", f"return R.call_dps_packed('test.f', (), R.Tuple({F32}))")
        assert both(text)[0].tolist() == [5, 5, 5, 5]


def test_RX_OPS_04_call_pure_packed_is_described():
    """R.call_pure_packed calls a packed function and says what it gives."""
    with packed(f=lambda a, b: a + b):
        assert (
            both(graph(X, f'return R.call_pure_packed("test.f", x, x, sinfo_args={F32})'), COUNT)[3]
            == 6
        )
    with pytest.raises(loomir.CompileError) as caught:
        read(graph(X, 'y = R.call_pure_packed("test.f", x)', "return y"))
    assert caught.value.diagnostic.code == "RLX0239"


def test_RX_OPS_04a_call_pure_packed_is_a_pure_call():
    """It does what a call does, and may stand where calls must be pure."""
    call = 'R.call_{}packed("test.f", x, sinfo_args={})'
    with packed(f=lambda x: x * 2):
        made = [
            both(graph(X, f"return {call.format(word, F32)}"), COUNT).tolist()
            for word in ("", "pure_")
        ]
    assert made[0] == made[1] == [0, 2, 4, 6]
    flow = ("with R.dataflow():", "    y = {}  # <--", "    R.output(y)", "return y")
    read(graph(X, *[s.format(call.format("pure_", F32)) for s in flow], pure=True))
    refused("RLX0213", graph(X, *[s.format(call.format("", F32)) for s in flow]))


def test_RX_OPS_05_call_inplace_packed_writes_over_arguments():
    """It is a pure call that says which arguments it writes."""

    def grow(x: Any) -> Any:
        x += 1
        return x

    with packed(f=grow):
        call = f'R.call_inplace_packed("test.f", x, inplace_indices=[0], sinfo_args={F32})'
        for run in ways(graph(X, f"return {call}", pure=True)):
            x = COUNT.copy()
            assert np.shares_memory(run(x), x)
            assert x.tolist() == [1, 2, 3, 4]


# -- values --------------------------------------------------------------------------------------
def test_RX_OPS_06_shape_of_gives_the_shape():
    """R.shape_of gives the shape of a tensor."""
    assert both(graph("x: R.Tensor", "return R.shape_of(x)"), np.zeros((2, 3))) == loomir.Shape(
        [2, 3]
    )
    assert known(graph("x: R.Tensor((n, 4))", "return R.shape_of(x)")) == "R.Shape([n, 4])"


def test_RX_OPS_07_null_value_gives_null():
    """R.null_value gives the null object, of which nothing is known."""
    text = graph("", "return R.null_value()")
    assert both(text) is None
    assert known(text) == "R.Any()"


DEVICES = 'I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})'


@pytest.mark.parametrize(("given", "calls"), [("llvm:0", 0), ("llvm:1", 1), (None, 0)])
def test_RX_OPS_08_hints_become_moves_or_nothing(given: str | None, calls: int):
    """A hint moves a tensor that is elsewhere, and is dropped where it is there or is put there."""
    info = 'R.Tensor((4,), "float32"' + (f', "{given}")' if given else ")")
    text = module(DEVICES, graph(f"x: {info}", 'return R.hint_on_device(x, "llvm:0")', pure=True))
    moved = str(realize_vdevice(read(text)))
    assert (moved.count("R.to_vdevice"), moved.count("R.hint_on_device")) == (calls, 0)
    assert both(text, COUNT).tolist() == [0, 1, 2, 3]


def test_RX_OPS_09_moves_copy_tensors_in_tuples_too():
    """A move copies a tensor, and the tensors of a tuple at any depth."""
    text = graph(
        f"t: R.Tuple({F32}, R.Tuple({F32}))", "return R.to_vdevice(t, 'llvm:0')", pure=True
    )
    for run in ways(module(DEVICES, text)):
        given = (COUNT.copy(), (ONES.copy(),))
        a, (b,) = run(given)
        assert (a.tolist(), b.tolist()) == ([0, 1, 2, 3], [1, 1, 1, 1])
        assert not np.shares_memory(a, given[0])
        assert not np.shares_memory(b, given[1][0])
