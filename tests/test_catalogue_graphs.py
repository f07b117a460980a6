"""The catalogue of bad input and faults, for graphs: a typed error or a right result, never worse.

The number in a test's name is the row of the catalogue. Each case runs in the interpreter and as
native code; what could end the process runs in a process of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from tests.clause import clauses
from tests.test_catalogue import in_process

HEAD = "from loomir.script import ir as I, relax as R, tir as T\n\n"
ADD = """
@R.function
def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    z = R.add(x, y)
    return z
"""
ENGINES: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "native": lambda module: loomir.compile(module, cache=False)["f"],
    "interpreter": lambda module: lambda *args: loomir.interpret(module, *args),
}
ONES = np.ones(4, "float32")


@pytest.fixture(params=ENGINES)
def run(request: pytest.FixtureRequest) -> Any:
    return lambda text, *args: ENGINES[request.param](from_source(HEAD + text))(*args)


# -- arguments -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "bad",
    [
        np.ones(4),
        np.ones((4, 1), "float32"),
        np.ones(5, "float32"),
        None,
        "text",
        3.5,
        (ONES,),
        loomir.Shape((4,)),
        object(),
    ],
    ids=["dtype", "rank", "extent", "none", "text", "number", "tuple", "shape", "object"],
)
def test_01_wrong_arguments(run: Any, bad: Any):
    with pytest.raises((TypeError, ValueError)) as caught:
        run(ADD, ONES, bad)
    assert isinstance(caught.value, loomir.LoomirError)
    assert "y" in str(caught.value)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_01_wrong_number_of_arguments(run: Any, count: int):
    with pytest.raises(TypeError) as caught:
        run(ADD, *[ONES] * count)
    assert isinstance(caught.value, loomir.LoomirError)


@pytest.mark.parametrize("bad", ["text", len, np.dtype("float32"), None, (ONES,), ("text", ONES)])
@pytest.mark.parametrize("call", ["R.sum(x)", "R.add(x, x)", "R.concat(x)", "R.reshape(x, x)"])
def test_01_objects_that_an_operator_does_not_take(run: Any, bad: Any, call: str):
    text = f"@R.function\ndef f(x: R.Object):\n    z = {call}\n    return z\n"
    if call == "R.concat(x)" and isinstance(bad, tuple) and bad[0] is ONES:
        np.testing.assert_array_equal(run(text, bad), ONES)
        return
    with pytest.raises((TypeError, ValueError)) as caught:
        run(text, bad)
    assert isinstance(caught.value, loomir.LoomirError)


def test_02_arrays_that_are_not_contiguous(run: Any):
    strided = np.arange(8, dtype="float32")[::2]
    try:
        found = run(ADD, strided, ONES)
    except ValueError as error:
        assert isinstance(error, loomir.LoomirError)
    else:
        np.testing.assert_array_equal(found, strided + ONES)


def test_03_arrays_of_swapped_bytes(run: Any):
    with pytest.raises((TypeError, ValueError)) as caught:
        run(ADD, ONES.astype(">f4"), ONES)
    assert isinstance(caught.value, loomir.LoomirError)


def test_06_one_array_for_two_parameters(run: Any):
    np.testing.assert_array_equal(run(ADD, ONES, ONES), ONES + ONES)


def test_07_misaligned_pointers(run: Any):
    raw = np.zeros(17, "uint8")[1:].view("float32")
    raw[:] = 2
    np.testing.assert_array_equal(run(ADD, raw, ONES), raw + ONES)


# -- arithmetic ----------------------------------------------------------------------------------
INTEGERS = """
@R.function
def f(x: R.Tensor((2,), "int32"), y: R.Tensor((2,), "int32")):
    z = R.{name}(x, y)
    return z
"""


@pytest.mark.parametrize("name", ["floor_divide", "mod", "floor_mod"])
def test_08_division_by_zero(run: Any, name: str):
    with pytest.raises(ZeroDivisionError):
        run(INTEGERS.format(name=name), np.array([1, 2], "int32"), np.array([1, 0], "int32"))


def test_09_the_least_integer_by_minus_one(run: Any):
    low = np.array([-(2**31), 7], "int32")
    minus = np.array([-1, -1], "int32")
    found = run(INTEGERS.format(name="floor_divide"), low, minus)
    np.testing.assert_array_equal(found, np.array([-(2**31), -7], "int32"))
    found = run(INTEGERS.format(name="floor_mod"), low, minus)
    np.testing.assert_array_equal(found, np.array([0, 0], "int32"))


@pytest.mark.parametrize("index", [4, 1000, -5, 2**40])
def test_12_indices_out_of_range(run: Any, index: int):
    text = """
@R.function
def f(x: R.Tensor((4,), "float32"), i: R.Tensor((1,), "int64")):
    z = R.take(x, i, axis=0)
    return z
"""
    with pytest.raises(IndexError) as caught:
        run(text, ONES, np.array([index]))
    assert isinstance(caught.value, loomir.LoomirError)


@pytest.mark.parametrize("index", [4, 1000, -5])
def test_13_scattered_indices_out_of_range(run: Any, index: int):
    text = """
@R.function
def f(x: R.Tensor((4,), "float32"), i: R.Tensor((1,), "int64"), u: R.Tensor((1,), "float32")):
    z = R.scatter_elements(x, i, u, axis=0)
    return z
"""
    with pytest.raises(IndexError) as caught:
        run(text, ONES, np.array([index]), ONES[:1])
    assert isinstance(caught.value, loomir.LoomirError)


@pytest.mark.parametrize("extents", [(2**62, 4), (2**40, 2**40), (-1, 4)])
def test_16_sizes_that_overflow(run: Any, extents: tuple[int, int]):
    text = """
@R.function
def f(s: R.Shape(["n", "m"])):
    n = T.int64()
    m = T.int64()
    z = R.zeros(R.shape([n, m]), "float32")
    return z
"""
    with pytest.raises((ValueError, OverflowError)) as caught:
        run(text, loomir.Shape(extents))
    assert isinstance(caught.value, loomir.LoomirError)


def test_17_more_memory_than_there_is(run: Any):
    text = """
@R.function
def f(s: R.Shape(["n"])):
    n = T.int64()
    z = R.zeros(R.shape([n]), "float32")
    return z
"""
    with pytest.raises(MemoryError) as caught:
        run(text, loomir.Shape((2**45,)))
    assert isinstance(caught.value, loomir.LoomirError)


def test_18_nan_through_comparisons_and_extremes(run: Any):
    text = """
@R.function
def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
    a = R.maximum(x, y)
    b = R.minimum(y, x)
    c = R.nn.relu(x)
    d = R.greater(x, y)
    return a, b, c, d
"""
    x = np.array([np.nan, 1, np.inf, -np.inf], "float32")
    y = np.array([2, np.nan, -np.inf, np.nan], "float32")
    greatest, least, positive, more = run(text, x, y)
    np.testing.assert_array_equal(greatest, np.maximum(x, y))
    np.testing.assert_array_equal(least, np.minimum(x, y))
    np.testing.assert_array_equal(positive, np.maximum(x, 0))
    np.testing.assert_array_equal(more, x > y)


# -- structure -----------------------------------------------------------------------------------
def branch(condition: str) -> str:
    return f"""
@R.function
def f(c: {condition}, x: R.Tensor((4,), "float32")):
    if c:
        y = R.add(x, x)
    else:
        y = R.multiply(x, x)
    return y
"""


@pytest.mark.parametrize(
    "condition", ['R.Tensor((2,), "bool")', 'R.Tensor((), "int64")', 'R.Prim("int64")']
)
def test_19_conditions_that_are_no_truth_are_refused(condition: str):
    with pytest.raises(loomir.CompileError):
        loomir.compile(from_source(HEAD + branch(condition)))


@pytest.mark.parametrize("value", [np.array([True, False]), np.array(1), np.float32(1), None])
def test_19_conditions_are_checked_when_they_run(run: Any, value: Any):
    with pytest.raises((TypeError, ValueError)) as caught:
        run(branch("R.Any()"), value, ONES)
    assert isinstance(caught.value, loomir.LoomirError)


def test_20_a_result_that_contradicts_its_annotation(run: Any):
    with pytest.raises(loomir.CompileError):
        from_source(HEAD + ADD.replace("-> R.Tensor((4,)", "-> R.Tensor((3,)"))
    loomir.register_func("tests.seven", lambda: np.zeros(7, "float32"), override=True)
    text = """
@R.function(pure=False)
def f() -> R.Tensor((4,), "float32"):
    z = R.call_packed("tests.seven", sinfo_args=R.Tensor((4,), "float32"))
    return z
"""
    with pytest.raises(ValueError, match="4") as caught:
        run(text)
    assert isinstance(caught.value, loomir.LoomirError)


IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def bump(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + T.float32(1)

    @R.function
    def f() -> R.Tensor((4,), "float32"):
        c = R.const([1.0, 1.0, 1.0, 1.0], "float32")
        z = R.call_tir_inplace(
            cls.bump, (c,), inplace_indices=[0], out_sinfo=R.Tensor((4,), "float32")
        )
        return z
"""


@clauses("RX-SEM-01")
def test_21_a_kernel_that_writes_a_constant_in_place():
    module = from_source(HEAD + IN_PLACE)
    native = loomir.compile(module, cache=False)["f"]
    for _ in range(3):
        np.testing.assert_array_equal(native(), 2 * ONES)
        np.testing.assert_array_equal(loomir.interpret(module, "f"), 2 * ONES)


# -- the process ---------------------------------------------------------------------------------
def deep(count: int) -> str:
    """Write branches within branches."""
    lines = ['@R.function\ndef f(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):']
    lines += [f"{'    ' * (k + 1)}if c:" for k in range(count)]
    lines.append(f"{'    ' * (count + 1)}y = R.negative(x)")
    for k in reversed(range(count)):
        lines += [f"{'    ' * (k + 1)}else:", f"{'    ' * (k + 2)}y = R.add(x, x)"]
    return "\n".join([*lines, "    return y\n"])


def test_23_branches_within_branches():
    func, two = from_source(HEAD + deep(45)), np.ones(2, "float32")
    for call in (loomir.compile(func, cache=False), lambda *a: loomir.interpret(func, *a)):
        np.testing.assert_array_equal(call(np.array(True), two), -two)
        np.testing.assert_array_equal(call(np.array(False), two), two + two)
    with pytest.raises(loomir.CompileError, match="SCR0001"):
        from_source(HEAD + deep(200))


def test_23_graphs_of_many_bindings():
    lines = "".join(f"    x{k + 1} = R.negative(x{k})\n" for k in range(3000))
    text = '@R.function\ndef f(x0: R.Tensor((2,), "float32")):\n' + lines + "    return x3000\n"
    func = from_source(HEAD + text)
    two = np.ones(2, "float32")
    np.testing.assert_array_equal(loomir.interpret(func, two), two)
    assert "x3000" in func.script()


def test_36_threads_in_one_graph():
    f = loomir.compile(from_source(HEAD + ADD), cache=False)["f"]
    wrong: list[int] = []

    def work(number: int) -> None:
        x = np.full(4, number, "float32")
        for _ in range(300):
            if not np.array_equal(f(x, x), x + x):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_35_fork_after_a_call():
    text = f"""
    import os
    mod = from_source({HEAD + ADD!r})
    exe = loomir.compile(mod, cache=False)
    x = np.ones(4, "f4")
    assert exe["f"](x, x)[0] == 2
    child = os.fork()
    if child == 0:
        os._exit(0 if exe["f"](x, x)[0] == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    print("fine")
    """
    assert in_process(text) == "fine"


# -- malformed operators ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "call",
    [
        "R.nn.max_pool2d(x, pool_size=(0, 0))",
        "R.nn.max_pool2d(x, pool_size=(2, 2), strides=(0, 0))",
        "R.nn.conv2d(x, w, groups=0)",
        "R.split(x, 3, axis=1)",
        "R.split(x, 0, axis=1)",
        "R.reshape(x, (7, -1))",
        "R.reshape(x, (2**62, 4))",
        "R.concat((), axis=0)",
        "R.permute_dims(x, [0, 0, 1, 2])",
    ],
)
def test_43_operators_that_make_no_sense(call: str):
    text = f"""
@R.function
def f(x: R.Tensor((1, 4, 4, 4), "float32"), w: R.Tensor((4, 4, 3, 3), "float32")):
    y = {call}
    return y
"""
    with pytest.raises(loomir.CompileError) as caught:
        from_source(HEAD + text)
    assert caught.value.diagnostic.help
