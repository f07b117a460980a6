"""What is inferred for tensors that an operator combines: shape, dtype, device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomir.arith.analyzer import Analyzer
from loomir.ir import structural_equal
from loomir.ir.module import VDevice
from loomir.op import add, ewise_fma, where
from loomir.relax.expr import Constant, PrimValue, Var
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import op_def
from loomir.relax.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
)
from loomir.support.dtype import DataType
from loomir.tir.expr import Var as ShapeVar
from loomir.tir.expr import const
from tests.op.running import Symbolic, assert_describes, concrete, info_of
from tests.tir.refusal import refused

INT64 = DataType("int64")
N, M = ShapeVar("n", INT64), ShapeVar("m", INT64)


def infer(operator: Any, *args: Any) -> Any:
    """Infer a call of variables that are so described, and of other arguments as they are."""
    made = [Var("x", a) if isinstance(a, StructInfo) else a for a in args]
    call = operator(*made)
    infos = [info_of(a) for a in call.args]
    context = OpContext(call, infos, Analyzer(), lookup=info_of, warn=lambda d: None)
    return op_def(call.op).infer(context)


def tensor(*dims: Any, dtype: str = "float32") -> TensorStructInfo:
    return TensorStructInfo(dims, DataType(dtype))


def shape_of(info: TensorStructInfo) -> list[str] | None:
    return (
        None
        if info.dims is None
        else [str(d).removeprefix("T.int64").strip("()") for d in info.dims]
    )


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ((2, 3), (2, 3), ["2", "3"]),
        ((2, 1), (3,), ["2", "3"]),
        ((), (3,), ["3"]),
        ((), (), []),
        ((0, 3), (1, 3), ["0", "3"]),
        ((1,), (1,), ["1"]),
        ((N,), (N,), ["n"]),
        ((N,), (1,), ["n"]),
        ((1, 4), (N, 1), ["n", "4"]),
        ((N + 1,), (1 + N,), ["n + 1"]),
        # Whether these fit depends on the values.
        ((N,), (M,), None),
        ((N,), (3,), None),
        ((N,), (N + 1,), None),
    ],
)
def test_extents_broadcast(a: tuple[Any, ...], b: tuple[Any, ...], wanted: list[str] | None):
    made = infer(add, tensor(*a), tensor(*b))
    assert made.ndim == max(len(a), len(b))
    found = shape_of(made)
    if wanted == ["n + 1"]:
        assert found is not None
        assert Analyzer().can_prove_equal(made.dims[0], N + 1)
    else:
        assert found == wanted


SHAPES = st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=3).map(tuple)


@given(st.lists(SHAPES, min_size=3, max_size=3), st.booleans())
def test_known_extents_broadcast_as_in_numpy(shapes: list[tuple[int, ...]], symbolic: bool):
    symbols = Symbolic(shared=True)
    described = symbols if symbolic else concrete
    infos = [described(shape, "float32") for shape in shapes]
    try:
        wanted = np.broadcast_shapes(*shapes)
    except ValueError:
        if not symbolic:
            with refused("OPS0008"):
                infer(ewise_fma, *infos)
        return
    made = infer(ewise_fma, *infos)
    assert_describes(made, np.zeros(wanted, "float32"), symbols.values)
    assert symbolic or made.dims is not None


def test_three_tensors_broadcast():
    made = infer(ewise_fma, tensor(2, 1), tensor(N), tensor(N))
    assert shape_of(made) == ["2", "n"]
    assert infer(ewise_fma, tensor(N), tensor(M), tensor(N)).dims is None


NEVER: list[Any] = [((2, 3), (2,)), ((2,), (3,)), ((0,), (2,)), ((N, 2), (N, 3)), ((N, 4), (M, 2))]


@pytest.mark.parametrize(("a", "b"), NEVER)
def test_extents_that_never_fit_are_refused(a: tuple[Any, ...], b: tuple[Any, ...]):
    with refused("OPS0008", "R.add", "do not broadcast"):
        infer(add, tensor(*a), tensor(*b))


def test_what_is_unknown_stays_so():
    rank = TensorStructInfo(None, DataType("float32"), ndim=2)
    assert (infer(add, rank, tensor(3)).ndim, infer(add, rank, tensor(3)).dims) == (2, None)
    assert infer(add, rank, tensor(2, 3, 4)).ndim == 3
    assert infer(add, TensorStructInfo(None, DataType("float32")), tensor(3)).ndim == -1
    assert infer(add, OBJECT, tensor(3)).dtype.is_void
    assert infer(add, TensorStructInfo((2,)), tensor(2)).dtype.is_void
    # Those that are known are compared all the same.
    with refused("OPS0008"):
        infer(ewise_fma, rank, tensor(2, 3), tensor(2, 4))


def test_a_shape_that_a_variable_holds_is_kept():
    variable = Var("s", ShapeStructInfo(ndim=2))
    x = TensorStructInfo(variable, DataType("float32"))
    assert infer(add, x, x).shape is variable
    assert infer(add, x, tensor()).shape is variable
    assert infer(add, x, 1.0).shape is variable
    other = TensorStructInfo(Var("t", ShapeStructInfo(ndim=2)), DataType("float32"))
    assert infer(add, x, other).shape is None
    assert infer(add, x, other).ndim == 2


# -- dtypes --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["int8", "float16", "float64", "uint64"])
def test_plain_numbers_take_the_dtype_beside_them(dtype: str):
    call = add(Var("x", tensor(2, dtype=dtype)), 1)
    assert call.args[1].value.dtype == dtype
    assert infer(add, tensor(2, dtype=dtype), 1).dtype == dtype
    assert infer(add, 1, tensor(2, dtype=dtype)).dtype == dtype


def test_no_digits_of_numbers_are_lost():
    assert add(Var("x", tensor(2, dtype="float64")), 0.1).args[1].value.value == 0.1
    with refused("OPS0006", "R.const"):
        infer(add, tensor(2, dtype="float64"), PrimValue(const(0.1, "float32")))
    assert infer(add, tensor(2, dtype="float64"), PrimValue(const(0.5, "float64"))).ndim == 1
    assert infer(add, tensor(2, dtype="float16"), PrimValue(const(0.1, "float32"))).ndim == 1
    with refused("OPS0006"):
        infer(add, tensor(2, dtype="int8"), 200)
    with refused("OPS0006"):
        infer(add, tensor(2, dtype="int8"), 0.5)
    with refused("OPS0006"):
        infer(add, tensor(2, dtype="uint8"), -1)


def test_scalars_have_a_dtype_of_their_own():
    with refused("OPS0006", "a scalar of int64"):
        infer(add, tensor(2), PrimStructInfo(INT64))
    assert infer(add, tensor(2), PrimStructInfo(DataType("float32"))).dtype == "float32"
    assert infer(where, tensor(2, dtype="bool"), tensor(2), 2).dtype == "float32"


def test_constants_are_tensors():
    made = infer(add, tensor(2, 3), Constant(np.ones(3, "float32")))
    assert shape_of(made) == ["2", "3"]
    with refused("OPS0006", "R.astype"):
        infer(add, tensor(2, 3), Constant(np.ones(3)))


# -- devices -------------------------------------------------------------------------------------
def test_the_device_is_kept():
    first, second = VDevice("llvm", 0), VDevice("llvm", 1)

    def on(device: VDevice | None) -> TensorStructInfo:
        return TensorStructInfo((2,), DataType("float32"), device)

    for a, b in ((first, None), (None, first), (first, VDevice("llvm", 0))):
        assert structural_equal(infer(add, on(a), on(b)).vdevice, first)
    assert infer(add, on(None), 1).vdevice is None
    with refused("OPS0009", "argument 2", "R.to_vdevice"):
        infer(add, on(first), on(second))
