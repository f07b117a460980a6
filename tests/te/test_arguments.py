"""Functions of tensor expressions check their arguments against their signatures."""

from __future__ import annotations

import inspect
import random
from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.support.diagnostics import CompileError
from loomir.te import topi
from loomir.te.arguments import check_arguments
from loomir.tir import Var, const, decl_buffer
from tests.tir.refusal import refused

X = te.placeholder((4, 6), name="X")
Y = te.placeholder((2, 3, 8, 8), name="Y")
N = te.placeholder((te.var("n"),), "int32", name="N")
USUAL: list[Any] = [X, Y, N, 0, 1, -1, 2, [0], [1, 2], (2, 2), "float32", 1.5, True, None, "NCHW"]
DEEP: list[Any] = []
for _ in range(10_000):
    DEEP = [DEEP]
ODD: list[Any] = [
    float("nan"),
    10**5000,
    DEEP,
    "",
    "bogus",
    b"x",
    [],
    [None],
    {},
    lambda *a: a,
    object(),
    np.int64(3),
    np.zeros(3),
    const(3, "int32"),
    Var("h", "handle"),
    int,
    [X, 3],
    [[1]],
    "float99",
    slice(1, 2),
]
FUNCTIONS = {
    f"{package.__name__}.{name}": function
    for package in (te, topi)
    for name, function in vars(package).items()
    if inspect.isfunction(function) and name[0] != "_"
}


def arguments(function: Any, chance: random.Random) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments of any kinds, as many as a signature asks for."""
    given: list[Any] = []
    named: dict[str, Any] = {}

    def value() -> Any:
        return chance.choice(USUAL if chance.random() < 0.7 else ODD)

    for param in inspect.signature(function).parameters.values():
        if param.kind is param.VAR_POSITIONAL:
            given += [value() for _ in range(chance.randrange(3))]
        elif param.default is param.empty and param.kind is not param.KEYWORD_ONLY:
            given.append(value())
        elif param.default is param.empty or chance.random() < 0.3:
            named[param.name] = value()
    return given, named


def test_there_are_functions():
    assert len(FUNCTIONS) > 180
    assert all(hasattr(function, "__wrapped__") for function in FUNCTIONS.values())


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_odd_arguments_are_refused(name: str):
    chance = random.Random(name)
    for _ in range(12):
        given, named = arguments(FUNCTIONS[name], chance)
        try:
            FUNCTIONS[name](*given, **named)
        except CompileError as error:
            assert all(d.code and d.message for d in error.diagnostics)


def test_the_argument_is_named():
    with refused("TE0104", "add: b is [1], not a tensor or a number"):
        topi.add(X, [1])  # type: ignore[arg-type]
    with refused("TE0104", "concatenate: tensors is a list, not a list of tensors"):
        topi.concatenate([X, 3])  # type: ignore[list-item]
    with refused("TE0104", "sort: nan is 'x', not 'last' or 'greatest'"):
        topi.sort(X, nan="x")  # type: ignore[arg-type]
    with refused("TE0104", "compute: fcompute is 4, not a function"):
        te.compute((3,), 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="missing a required argument"):
        topi.add(X)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="it takes no 'axis'"):
        topi.add(X, X, axis=1)  # type: ignore[call-arg]


def test_mistakes_of_the_user_stay_the_users():
    def formula(i: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        te.compute((3,), formula)


def test_numbers_of_numpy_are_numbers():
    assert topi.sum(X, axis=np.int64(1)).shape[0] is not None
    assert topi.add(X, np.float32(1.5)).dtype == "float32"
    assert str(topi.reshape(X, np.array([6, 4])).shape[0]) == "6"


def test_nobody_goes_through_a_tensor_or_a_buffer():
    for value in (N, X, decl_buffer((Var("n", "int32"),), "int32")):
        with pytest.raises(TypeError, match=r"not iterable|no elements to go through"):
            list(value)  # type: ignore[call-overload]


def test_a_function_of_several_names():
    def several(first: int, *rest: int, last: str = "") -> int:
        return first

    (_, made), *others = check_arguments({"several": several, "no": 3}, ["several", "no"])
    assert not others
    assert made(1, 2, 3, last="x") == 1
    for given, named in (((None,), {}), ((1, 2, "3"), {}), ((1,), {"last": 3})):
        with pytest.raises(CompileError, match=r"several: (first|rest|last) is"):
            made(*given, **named)


def test_conditions_of_which_there_are_none():
    assert str(te.all_of()) == "T.bool(True)"
    assert str(te.any_of()) == "T.bool(False)"


def test_a_reduction_of_one_value_takes_one():
    k = te.reduce_axis((0, 4), "k")
    with refused("TE0004", "'sum' reduces one value, not a list"):
        te.sum([X[k, 0], X[k, 1]], axis=k)
