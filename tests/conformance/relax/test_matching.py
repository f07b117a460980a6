"""Check values against what is said of them: checks, and the entry and exit of functions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import loomir
from loomir.support.dtype import DataType
from tests.clause import clauses
from tests.conformance.graphs import (
    ONES,
    both,
    fails,
    graph,
    module,
    read,
    ways,
    zeros,
)

NULL: Any = None


def cast(info: str, *after: str) -> str:
    """Write a check of a value of which nothing is known."""
    return graph("x: R.Object", f"y = R.match_cast(x, {info})  # <--", *(after or ("return y",)))


def fits(info: str, value: Any) -> None:
    both(cast(info), value)


def differs(code: str, info: str, value: Any) -> None:
    fails(code, cast(info), value)


# -- MatchCast -----------------------------------------------------------------------------------
@clauses("RX-SURV-14")
@pytest.mark.parametrize(
    ("info", "value"),
    [("R.Tensor", (1,)), ("R.Shape", zeros(2)), ("R.Tuple()", 1.0), ('R.Prim("int64")', "x")],
)
def test_RX_MC_01_a_check_that_fails_is_an_error(info: str, value: Any):
    """A check that fails raises an error at its place."""
    differs("RUN0401", info, value)


@pytest.mark.parametrize("value", [zeros(2), (1, 2), NULL, "x", len, loomir.Shape([1]), object()])
def test_RX_MC_02_everything_is_an_object(value: Any):
    """An object is not checked."""
    for run in ways(cast("R.Object")):
        assert type(run(value)) is type(value)
    if not isinstance(value, np.ndarray):
        assert loomir.compile(read(cast("R.Object")))["main"](value) == value


@clauses("RX-VALS-13")
@pytest.mark.parametrize(
    "value",
    [
        (zeros(2),),
        loomir.Shape([2]),
        np.float32(1),
        1.5,
        "x",
        DataType("int8"),
        NULL,
        len,
        object(),
    ],
)
def test_RX_MC_03_a_tensor_is_no_other_value(value: Any):
    """A tensor must be a tensor."""
    fits("R.Tensor", zeros(2))
    differs("RUN0401", "R.Tensor", value)


@pytest.mark.parametrize(
    ("ndim", "good"), [(2, True), (-1, True), (1, False), (3, False), (0, False)]
)
def test_RX_MC_03a_the_rank_is_checked(ndim: int, good: bool):
    """The rank is that which is given, unless it is unknown."""
    info = f"R.Tensor(ndim={ndim})"
    fits(info, zeros(2, 3)) if good else differs("RUN0403", info, zeros(2, 3))


def test_RX_MC_03b_the_dtype_is_checked():
    """The dtype is that which is given, unless it is unknown."""
    fits('R.Tensor("int8")', zeros(2, dtype="int8"))
    fits("R.Tensor", np.zeros(2, ml_dtypes.bfloat16))
    differs("RUN0402", 'R.Tensor("int8")', zeros(2, dtype="uint8"))


def test_RX_MC_03c_the_device_is_checked():
    """A tensor must be on the device that is named."""

    def on(target: str) -> str:
        listed = f'I.module_global_infos({{"vdevice": [I.vdevice("{target}")]}})'
        return module(listed, cast(f'R.Tensor("float32", vdevice="{target}:0")'))

    assert both(on("llvm"), ONES).tolist() == [1, 1, 1, 1]
    fails("RUN0414", on("cuda"), ONES)


@pytest.mark.parametrize("dims", [(2, 3), (2, 4), (2,)])
def test_RX_MC_03d_the_shape_may_be_that_of_a_variable(dims: tuple[int, ...]):
    """The shape is compared with the value of the variable that holds it."""
    text = graph(
        "s: R.Shape(ndim=2), x: R.Object",
        'y = R.match_cast(x, R.Tensor(s, "float32"))  # <--',
        "return y",
    )
    sizes = loomir.Shape([2, 3])
    if dims == (2, 3):
        assert both(text, sizes, zeros(*dims)).shape == dims
    else:
        fails("RUN0404" if len(dims) == 2 else "RUN0403", text, sizes, zeros(*dims))


@pytest.mark.parametrize("dims", [(), (2,), (2, 3, 1)])
def test_RX_MC_03e_there_is_an_extent_for_each_axis(dims: tuple[int, ...]):
    """A shape of extents has as many as the value has axes."""
    differs("RUN0403", "R.Tensor((2, 3))", zeros(*dims))


@clauses("RX-SURV-16", "RX-DIM-04")
def test_RX_MC_03f_a_lone_variable_is_bound():
    """An extent that is an unbound variable takes the value; at the next place it is compared."""
    text = cast("R.Tensor((n, m, n))", "return R.shape([n, m])")
    assert both(text, zeros(2, 3, 2)) == loomir.Shape([2, 3])
    fails("RUN0404", text, zeros(2, 3, 4))


@pytest.mark.parametrize("rows", [5, 4])
def test_RX_MC_03g_other_extents_are_evaluated(rows: int):
    """Any other extent is evaluated and compared."""
    text = cast("R.Tensor((n, n * 2 + 1))")
    assert both(text, zeros(2, 5)).shape == (2, 5)
    if rows != 5:
        fails("RUN0404", text, zeros(2, rows))


@pytest.mark.parametrize(
    ("info", "value", "code"),
    [
        ('R.Prim("int64")', np.int64(3), None),
        ('R.Prim("int64")', 3, None),
        ('R.Prim("bool")', True, None),
        ('R.Prim("float32")', 0.5, None),
        ("R.Prim(value=3)", 3, None),
        ("R.Prim(value=3)", 4, "RUN0405"),
        ('R.Prim("int64")', np.int32(3), "RUN0402"),
        ('R.Prim("int64")', True, "RUN0402"),
        ('R.Prim("int8")', 128, "RUN0009"),
        ('R.Prim("bool")', 1, "RUN0402"),
        ('R.Prim("int64")', np.zeros((), "int64"), "RUN0401"),
    ],
)
def test_RX_MC_04_a_scalar_has_its_dtype_and_value(info: str, value: Any, code: str | None):
    """A scalar must have the dtype, and the value where one is given."""
    fits(info, value) if code is None else differs(code, info, value)


@pytest.mark.parametrize(
    ("info", "code"), [("R.Shape", None), ("R.Shape(ndim=2)", None), ("R.Shape(ndim=1)", "RUN0403")]
)
def test_RX_MC_05_the_rank_of_a_shape_is_checked(info: str, code: str | None):
    """A shape must be a shape, of the rank that is given."""
    value = loomir.Shape([1, 2])
    fits(info, value) if code is None else differs(code, info, value)
    differs("RUN0401", info, (1, 2))


def test_RX_MC_05a_a_lone_variable_of_a_shape_is_bound():
    """An extent that is an unbound variable takes the value."""
    assert (
        both(cast("R.Shape([n, m])", "return R.prim_value(n * 10 + m)"), loomir.Shape([3, 4])) == 34
    )


@pytest.mark.parametrize("second", [4, 5])
def test_RX_MC_05b_other_extents_of_a_shape_are_evaluated(second: int):
    """Any other extent is evaluated and compared."""
    text, value = cast("R.Shape([n, n + 1])"), loomir.Shape([3, second])
    assert both(text, value) == value if second == 4 else fails("RUN0404", text, value)


@clauses("RX-SURV-14")
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ((zeros(2), (zeros(2), 1)), None),
        ((zeros(2),), "RUN0406"),
        ((zeros(2), (zeros(3), 1)), "RUN0404"),
        ((zeros(2), (zeros(2), "1")), "RUN0401"),
        (zeros(2), "RUN0401"),
    ],
)
def test_RX_MC_06_tuples_are_checked_field_by_field(value: Any, code: str | None):
    """A tuple has as many fields, and each is checked, at any depth."""
    info = 'R.Tuple(R.Tensor((n,)), R.Tuple(R.Tensor((n,)), R.Prim("int64")))'
    fits(info, value) if code is None else differs(code, info, value)


INNER = ("@R.function", "def inner(a: R.Tensor((2,))) -> R.Tensor((2,)):", "    return a")


def test_RX_MC_07_closures_and_packed_functions_differ():
    """Known parameters ask for a closure, a way to derive for a packed function."""
    opaque = 'R.Callable(derive_func="default_derive")'
    fits(opaque, len)
    differs("RUN0401", "R.Callable((R.Object,), R.Object)", len)
    body = ("t = (inner, inner)", "u: R.Object = t[0]")
    text = graph("", *INNER, *body, f"f = R.match_cast(u, {opaque})  # <--", "return ()")
    fails("RUN0401", text)


@clauses("RX-SURV-15", "RX-VALS-05")
@pytest.mark.parametrize(
    ("wanted", "good"),
    [
        ("(R.Tensor((2,)),), R.Tensor((2,))", True),
        ("(R.Tensor((2,)),), R.Tensor(ndim=1)", True),
        ("(R.Tensor((2,)),), R.Object, False", True),
        ("(R.Tensor((3,)),), R.Tensor((2,))", False),
        ("(R.Tensor((2,)),), R.Tensor((3,))", False),
        ("(), R.Tensor((2,))", False),
    ],
)
def test_RX_MC_07a_closures_know_their_signature(wanted: str, good: bool):
    """A closure tells what it takes and gives, and whether it is pure."""
    body = ("u: R.Object = inner", f"f = R.match_cast(u, R.Callable({wanted}))  # <--", "return ()")
    text = graph("", *INNER, *body)
    assert both(text) == () if good else fails("RUN0407", text)
    impure = ("@R.function(pure=False)", *INNER[1:], body[0])
    check = "f = R.match_cast(u, R.Callable((R.Tensor((2,)),), R.Tensor((2,))))  # <--"
    fails("RUN0407", graph("", *impure, check, "return ()"))


# -- entry and exit ------------------------------------------------------------------------------
PRODUCT = graph(
    'x: R.Tensor(("M * N",)), y: R.Tensor(("M", "N")), z: R.Tensor(ndim=2)',
    "return z",
    ret='R.Tensor(("N * N", "M * M"))',
)


@clauses("RX-DIM-02")
def test_RX_ENTRY_01_variables_are_bound_first():
    """All variables that are extents by themselves are bound before anything is compared."""
    assert both(PRODUCT, zeros(6), zeros(2, 3), zeros(9, 4)).shape == (9, 4)
    found = fails("RUN0404", PRODUCT, zeros(7), zeros(2, 3), zeros(9, 4))
    assert found.message == "argument x, axis 0: the extent must be 6 (M * N), not 7"


def test_RX_ENTRY_02_places_that_bind():
    """A variable is bound by a shape, a scalar and a tensor."""
    text = graph(
        'x: R.Tensor(("a + b + c",)), s: R.Shape(["a"]), p: R.Prim(value="b"), t: R.Tensor(("c",))',
        "a = T.int64()",
        "b = T.int64()",
        "c = T.int64()",
        "return R.shape([a, b, c])",
    )
    assert both(text, zeros(6), loomir.Shape([1]), 2, zeros(3)) == loomir.Shape([1, 2, 3])


def test_RX_ENTRY_03_places_are_found_at_any_depth():
    """The fields of tuples are searched for places that bind."""
    text = graph(
        'x: R.Tensor(("a * 2",)), t: R.Tuple(R.Tuple(R.Shape(["a"])), R.Object)',
        "a = T.int64()",
        "return R.prim_value(a)",
    )
    value = ((loomir.Shape([3]),), "x")
    assert both(text, zeros(6), value) == 3
    fails("RUN0404", text, zeros(5), value)


def test_RX_ENTRY_04_the_rest_is_checked_from_left_to_right():
    """What is left is checked from left to right: the first mistake is told first."""
    text = graph('x: R.Tensor(("n",)), y: R.Tensor(("n",)), z: R.Prim("int64")', "return ()")
    assert both(text, zeros(2), zeros(2), 1) == ()
    assert "argument y" in fails("RUN0404", text, zeros(2), zeros(3), "no number").message


@clauses("RX-SURV-22")
def test_RX_ENTRY_05_the_result_is_checked():
    """What is returned is checked against the annotation before the call returns."""
    found = fails("RUN0404", PRODUCT, zeros(6), zeros(2, 3), zeros(4, 9))
    assert found.message == "the result of main, axis 0: the extent must be 9 (N * N), not 4"


@pytest.mark.parametrize(("m", "n"), [(2, 3), (1, 5), (0, 4)])
def test_RX_ENTRY_06_the_example_of_the_text(m: int, n: int):
    """M and N come from the second argument, and the first is compared with their product."""
    assert both(PRODUCT, zeros(m * n), zeros(m, n), zeros(n * n, m * m)).shape == (n * n, m * m)
    fails("RUN0404", PRODUCT, zeros(m * n + 1), zeros(m, n), zeros(n * n, m * m))


def test_calls_within_a_program_are_checked_too():
    inner = graph('y: R.Tensor(("n",)), z: R.Tensor(("n",))', "return y", name="inner")
    lines = ("c = R.match_cast(a, R.Tensor(ndim=1))", "d = R.match_cast(b, R.Tensor(ndim=1))")
    mod = module(inner, graph("a: R.Object, b: R.Object", *lines, "return cls.inner(c, d)"))
    assert both(mod, zeros(2), zeros(2)).shape == (2,)
    assert "argument z" in fails("RUN0404", mod, zeros(2), zeros(3)).message
