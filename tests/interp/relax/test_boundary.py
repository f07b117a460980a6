"""Values as Python passes and gets them."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from loomir.ir.module import GlobalVar
from loomir.relax import Function, PrimValue, Tuple
from loomir.relax.struct_info import OBJECT
from loomir.runtime import ffi, torch_tensor
from loomir.support.diagnostics import RunError
from tests.clause import clauses
from tests.interp.relax.build import (
    bind,
    const,
    func,
    module,
    op,
    packed,
    run,
    seq,
    tensor,
    tuple_of,
    var,
)
from tests.interp.relax.conftest import Register
from tests.runtime import fake_torch

X = var("x", tensor(4))


def refusal(program: Any, *args: Any, **kwargs: Any) -> tuple[str, str]:
    with pytest.raises(RunError) as caught:
        run(program, *args, **kwargs)
    return caught.value.diagnostic.code, caught.value.diagnostic.message


class Exporter:
    """An array of another library."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@clauses("RX-SEM-05")
def test_memory_of_any_library_is_shared(register: Register):
    def increment(x: Any) -> Any:
        x += 1
        return x

    register("test.increment", increment)
    array = np.zeros(4, "float32")
    given = Exporter(array)
    made = run(func([X], packed("test.increment", X, sinfo=(tensor(4),)), tensor(4)), given)
    assert list(array) == [1, 1, 1, 1]
    assert made is given


def test_arguments_may_be_named():
    x, y = var("x", OBJECT), var("y", OBJECT)
    f = func([x, y], Tuple((x, y)))
    assert run(f, 1, y=2) == (1, 2)
    assert refusal(f, 1) == ("RUN0101", "main takes 2 arguments, 1 was given; missing: y")
    assert refusal(f, 1, 2, 3)[0] == "RUN0101"
    assert refusal(f, 1, 2, y=3) == ("RUN0102", "main got 'y' both by position and by name")
    assert refusal(f, 1, z=3)[0] == "RUN0102"


def test_a_lone_string_is_an_argument_of_a_lone_function():
    x = var("x", OBJECT)
    assert run(func([x], x), "main") == "main"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (np.zeros(4, ">f4"), "RUN0105"),
        (np.zeros(4, "complex64"), "RUN0105"),
        (np.zeros((4, 2), "float32")[:, 0], "RUN0006"),
        (np.ma.masked_array(np.zeros(4, "float32")), "RUN0106"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_arrays_that_no_program_can_use_are_refused(value: Any, code: str):
    assert refusal(func([X], X), value)[0] == code
    assert refusal(func([var("t", tuple_of(tensor(4)))], X), (value,))[0] == code


def test_bfloat16_goes_in_and_out():
    x = var("x", tensor(2, dtype="bfloat16"))
    made = run(func([x], x), np.ones(2, ml_dtypes.bfloat16))
    assert made.dtype == ml_dtypes.bfloat16


def test_closures_are_called_by_python_and_by_packed_functions(register: Register):
    register("test.apply", lambda f, x: f(x))
    y, f = var("y", tensor(4)), var("f", OBJECT)
    inner = Function((y,), Tuple((y, PrimValue(1))))
    program = func([X], seq(packed("test.apply", f, X), bind(f, inner)))
    x = np.zeros(4, "float32")
    made = run(program, x)
    assert made[0] is x
    register("test.wrong", lambda f: f(np.zeros(3, "float32")))
    with pytest.raises(ValueError, match="argument y, axis 0"):
        run(func([], seq(packed("test.wrong", f), bind(f, inner))))


def test_a_module_without_a_name_runs_its_only_public_graph():
    x = var("x", OBJECT)
    mod = module(helper=Function((x,), x), main=func([x], x))
    assert run(mod, 3) == 3
    two = module(a=func([x], x, name="a"), b=func([x], x, name="b"))
    assert refusal(two, 3)[0] == "RUN0096"


def test_functions_of_a_module_are_one_value_each():
    same = Tuple((GlobalVar("main"), GlobalVar("main")))
    a, b = run(module(main=func([], same)), "main")
    assert a is b


# -- PyTorch -------------------------------------------------------------------------------------
@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    ffi.native_symbols()  # tvm-ffi would ask a torch that is there for more than the stand-in has
    monkeypatch.setattr(torch_tensor, "_found", [])
    monkeypatch.setitem(sys.modules, "torch", fake_torch.module())
    return fake_torch


def test_a_tensor_of_torch_goes_out_as_itself(torch: Any):
    given = torch.tensor([1, 2, 3, 4])
    t = var("t", tuple_of(tensor(4)))
    a, (b,) = run(func([X, t], Tuple((X, t))), given, (given,))
    assert a is given
    assert b is given


def test_results_are_tensors_of_torch_where_one_came_in(torch: Any):
    negated = func([X], op("negative", X))
    made = run(negated, torch.tensor([1, 2, 3, 4]))
    assert isinstance(made, torch.Tensor)
    assert made.tolist() == [-1, -2, -3, -4]
    assert isinstance(run(negated, np.ones(4, "float32")), np.ndarray)
    constant = run(func([X], Tuple((const([1, 2]), PrimValue(3)))), torch.tensor([1, 2, 3, 4]))
    assert isinstance(constant[0], torch.Tensor)
    assert isinstance(constant[1], np.int64)


def test_memory_of_torch_is_shared(torch: Any, register: Register):
    def increment(x: Any) -> Any:
        x += 1
        return x

    register("test.increment", increment)
    given = torch.tensor([0, 0, 0, 0])
    assert run(func([X], packed("test.increment", X)), given) is given
    assert given.tolist() == [1, 1, 1, 1]


def test_tensors_of_torch_that_hide_their_numbers_are_refused(torch: Any):
    assert refusal(func([X], X), torch.negated([1, 2, 3, 4]))[0] == "RUN0106"
