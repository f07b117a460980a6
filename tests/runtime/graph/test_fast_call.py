"""The fast entry into graphs: NumPy's arrays in and out, and all else by the slow path."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.support.objects import count_objects, live_objects
from loomir.runtime.graph import fast_call
from loomir.runtime.graph.function import GraphFunction
from loomir.script import from_source
from loomir.support.diagnostics import RunError

PROGRAM = """
from loomir.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def divide(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.sblock("divide"):
                vi = T.axis.spatial(4, i)
                B[vi] = 12 // A[vi]

    @R.function
    def add(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        z = R.add(x, y)
        return z

    @R.function
    def pair(x: R.Tensor(("n",), "float32")):
        y = R.add(x, x)
        z = R.multiply(x, x)
        return (y, z)

    @R.function
    def twice(x: R.Tensor(("n",), "float32")):
        y = R.add(x, x)
        return (y, y)

    @R.function
    def nested(x: R.Tensor(("n",), "float32")):
        y = R.add(x, x)
        return (y, (x, R.shape([1, 2])))

    @R.function
    def same(x: R.Tensor, y: R.Tensor):
        return y

    @R.function
    def third(x: R.Tensor((4,), "int32")):
        cls = Module
        y = R.call_tir(cls.divide, (x,), out_sinfo=R.Tensor((4,), "int32"))
        return y

    @R.function
    def constant(x: R.Tensor((2,), "float32")):
        return R.const([1.0, 2.0], "float32")

    @R.function
    def narrow(x: R.Tensor((), "bfloat16")):
        y = R.add(x, x)
        return y

    @R.function
    def close(x: R.Tensor((2,), "float32")):
        @R.function
        def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.add(x, y)
            return z

        return inner
"""


@pytest.fixture(scope="module")
def program() -> Any:
    return loomir.compile(from_source(PROGRAM), opt_level=0)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    gc.collect()
    count_objects(True)
    yield
    gc.collect()
    left = live_objects()
    count_objects(False)
    assert left == 0


def opened(program: Any, name: str) -> GraphFunction:
    """Return a function whose fast entry is prepared, whatever was called before."""
    function = program[name]
    assert isinstance(function, GraphFunction)
    function._prepare_fast_entry()
    return function


def quickly(function: GraphFunction, *args: Any) -> Any:
    """Call by the fast entry only; None where it leaves a call to the slow path."""
    return function._fast_entry(*args)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def test_opens_at_the_second_call() -> None:
    function = loomir.compile(from_source(PROGRAM), opt_level=0)["add"]
    x = floats(1, 2)
    assert function(x, x).tolist() == [2, 4]
    assert quickly(function, x, x) is None
    assert function(x, x).tolist() == [2, 4]
    assert quickly(function, x, x).tolist() == [2, 4]


def test_results_own_their_memory(program: Any) -> None:
    add = opened(program, "add")
    given = [floats(1, 2, 3), floats(4, 5, 6)]
    before = [sys.getrefcount(x) for x in given]
    result = quickly(add, *given)
    assert type(result) is np.ndarray
    assert result.dtype is np.dtype("float32")
    assert result.flags.writeable
    assert not result.flags.owndata
    part = result[1:]
    del result
    gc.collect()
    assert part.tolist() == [7, 9]
    assert [sys.getrefcount(x) for x in given] == before
    part[:] = 0


def test_empty_scalar_and_bfloat16(program: Any) -> None:
    assert quickly(opened(program, "add"), floats(), floats()).shape == (0,)
    made = quickly(opened(program, "narrow"), np.array(1.5, ml_dtypes.bfloat16))
    assert made.shape == ()
    assert made.dtype == ml_dtypes.bfloat16
    assert made == 3


def test_tuples(program: Any) -> None:
    y, z = quickly(opened(program, "pair"), floats(1, 3))
    assert (y.tolist(), z.tolist()) == ([2, 6], [1, 9])


def test_other_results_are_finished_by_python(program: Any) -> None:
    x = floats(1, 2, 3)
    one, two = opened(program, "twice")(x)
    assert one is two
    y, (given, shape) = opened(program, "nested")(x)
    assert y.tolist() == [2, 4, 6]
    assert given is x
    assert shape == loomir.Shape((1, 2))
    assert opened(program, "same")(x, one) is one
    assert opened(program, "constant")(floats(0, 0)).tolist() == [1, 2]


def test_read_only_arguments(program: Any) -> None:
    x = floats(1, 2)
    x.flags.writeable = False
    made = quickly(opened(program, "add"), x, x)
    assert made.tolist() == [2, 4]
    assert made.flags.writeable


class Kind(np.ndarray[Any, Any]):
    """A class of one's own."""


@pytest.mark.parametrize(
    "given",
    [
        np.arange(8, dtype=np.float32)[::2],
        np.frombuffer(bytes(17), np.uint8)[1:].view(np.float32),
        np.zeros(4, ">f4"),
        np.zeros(4, np.float32).view(Kind),
        np.zeros(4, np.complex64),
        [0.0] * 4,
        None,
        np.float32(0),
    ],
    ids=["strided", "unaligned", "swapped", "subclass", "complex", "list", "none", "scalar"],
)
def test_leaves_other_arguments_to_the_slow_path(program: Any, given: Any) -> None:
    add = opened(program, "add")
    whole = np.zeros(4, np.float32)
    before = live_objects()
    assert quickly(add, whole, given) is None
    assert quickly(add, given, whole) is None
    assert live_objects() == before


def test_leaves_other_numbers_of_arguments_to_the_slow_path(program: Any) -> None:
    add, x = opened(program, "add"), floats(1)
    assert quickly(add) is quickly(add, x) is quickly(add, x, x, x) is None
    with pytest.raises(RunError, match="RUN0101"):
        add(x)
    assert add(y=x, x=x).tolist() == [2]


def test_errors_are_those_of_the_slow_way(program: Any) -> None:
    add, third = opened(program, "add"), opened(program, "third")
    slow = loomir.compile(from_source(PROGRAM), opt_level=0)
    bad = (floats(1, 2), floats(1, 2, 3))
    zero = np.array([1, 2, 0, 3], np.int32)
    for quick, name, args in ((add, "add", bad), (third, "third", (zero,))):
        texts: list[str] = []
        for function in (quick, slow[name]):
            with pytest.raises(RunError) as caught:
                function(*args)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
    del caught
    assert quickly(add, bad[0], bad[0]).tolist() == [2, 4]


def test_what_may_call_python_stays_slow(program: Any) -> None:
    printing = loomir.compile(
        from_source(
            """
from loomir.script import relax as R

@R.function(pure=False)
def main(x: R.Tensor((2,), "float32")):
    y = R.print(x, format="{}")
    return x
"""
        ),
        opt_level=0,
    )["main"]
    x = floats(1, 2)
    printing._prepare_fast_entry()
    assert quickly(printing, x) is None
    inner = opened(program, "close")(x)
    inner._prepare_fast_entry()
    assert quickly(inner, x) is None
    assert inner(x).tolist() == [2, 4]


def test_several_threads(program: Any) -> None:
    add = opened(program, "add")
    wrong: list[int] = []

    def work(k: int) -> None:
        for i in range(300):
            made = add(np.full(64, k, np.float32), np.full(64, i, np.float32))
            if not (made == k + i).all():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_is_closed_where_layouts_are_not_known(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fast_call._is_known()
    for name, wrong in (("ARRAY_FLAGS", 56), ("ARRAY_SHAPE", 40), ("OBJECT_SIZE", 32)):
        with monkeypatch.context() as patch:
            patch.setattr(fast_call.at, name, wrong)
            assert not fast_call._is_known()
    monkeypatch.setattr(fast_call, "_connected", [lambda: 0])
    function = loomir.compile(from_source(PROGRAM), opt_level=0)["add"]
    for _ in range(3):
        assert function(floats(1), floats(2)).tolist() == [3]
    assert quickly(function, floats(1), floats(2)) is None
