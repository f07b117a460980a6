"""Decisions on structural information that change what is accepted: example, property, negative."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loomir.ir.equality import structural_equal
from loomir.ir.module import VDevice
from loomir.relax.expr import Function
from loomir.relax.info.relations import (
    Match,
    check_compatibility,
    get_shape_var_mapping,
    is_subtype,
    join,
)
from loomir.relax.struct_info import (
    OBJECT,
    FuncStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.tir.expr import Var

n, m = Var("n", "int64"), Var("m", "int64")


def main(signature: str, *lines: str, pure: bool = True) -> Function:
    text = f"@R.function(pure={pure})\ndef main({signature}:\n"
    made = from_source(text + "".join(f"    {line}\n" for line in lines))
    assert isinstance(made, Function)
    return made


def branches(first: str, second: str) -> str:
    """Return what is known of a value that is one of two, as written."""
    made = main(
        f'c: R.Tensor((), "bool"), x: {first}, y: {second})',
        "if c:",
        "    z = x",
        "else:",
        "    z = y",
        "return z",
    )
    return str(made.ret_struct_info)


def refused(code: str, signature: str, *lines: str) -> None:
    with pytest.raises(CompileError) as raised:
        main(signature, *lines)
    assert [d.code for d in raised.value.diagnostics] == [code]
    assert raised.value.diagnostic.help


def tensor(*dims: Any, dtype: str = "float32", vdevice: Any = None):
    return TensorStructInfo(dims, dtype, vdevice)


EXTENTS = st.lists(st.integers(0, 3), max_size=3).map(tuple)
TENSORS = st.builds(
    lambda dims, dtype: tensor(*dims, dtype=dtype), EXTENTS, st.sampled_from(["int8", "float32"])
)
SHAPES = st.builds(ShapeStructInfo, EXTENTS)
INFOS = st.one_of(TENSORS, SHAPES, st.just(OBJECT))


# -- R1: a bound with an object is an object -------------------------------------------------------
def test_R1_example_a_tensor_or_an_object():
    """A tensor or an object."""
    assert branches('R.Tensor((2,), "float32")', "R.Object") == "R.Any()"


@given(INFOS)
def test_R1_property_nothing_is_known_of_what_may_be_an_object(info: Any):
    """Nothing is known of what may be an object."""
    assert join(info, OBJECT) is OBJECT
    assert join(OBJECT, info) is OBJECT


def test_R1_negative_what_may_be_an_object_is_no_tensor():
    """What may be an object is not a tensor."""
    refused(
        "RLX0214",
        'c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32"), y: R.Object'
        ') -> R.Tensor((2,), "float32")',
        *("if c:", "    z = x", "else:", "    z = y", "return z"),
    )


# -- R2: shapes of one rank keep it ----------------------------------------------------------------
def test_R2_example_two_shapes_of_rank_two():
    """Two shapes of rank two."""
    assert branches("R.Shape([2, 3])", "R.Shape([2, 4])") == "R.Shape(ndim=2)"


@given(SHAPES, SHAPES)
def test_R2_property_extents_stay_where_they_are_equal(a: Any, b: Any):
    """Extents stay if they are equal."""
    both = join(a, b)
    assert (both.values is not None) == structural_equal(a, b)
    assert both.ndim == (a.ndim if a.ndim == b.ndim else -1)


def test_R2_negative_the_second_shape_is_not_taken_for_both():
    """The second shape is not taken for both."""
    assert join(ShapeStructInfo((2, 3)), ShapeStructInfo((2, 4))).values is None


# -- R3: equal shapes do not make dtypes equal -----------------------------------------------------
def test_R3_example_two_dtypes():
    """Two dtypes."""
    found = branches('R.Tensor((2, 4), "float32")', 'R.Tensor((2, 4), "int32")')
    assert found == "R.Tensor((2, 4))"


@given(TENSORS, TENSORS)
def test_R3_property_each_part_is_kept_where_it_is_equal(a: Any, b: Any):
    """Each part is kept where it is equal."""
    both = join(a, b)
    assert both.dtype == (a.dtype if a.dtype is b.dtype else "void")
    assert (both.shape is not None) == structural_equal(a.shape, b.shape)


def test_R3_negative_neither_dtype_is_claimed():
    """Neither dtype is claimed."""
    both = join(tensor(2, 4), tensor(2, 4, dtype="int32"))
    assert is_subtype(both, tensor(2, 4)) is Match.NO
    assert is_subtype(both, tensor(2, 4, dtype="int32")) is Match.NO


# -- R5: bounds of functions -----------------------------------------------------------------------
def function(*params: Any, ret: Any = OBJECT, purity: bool = True):
    return FuncStructInfo(params, ret, purity)


def test_R5_example_a_pure_and_an_impure_function():
    """A pure and an impure function."""
    for a, b in ((True, False), (False, True)):
        both = join(function(tensor(2), purity=a), function(tensor(2), purity=b))
        assert isinstance(both, FuncStructInfo)
        assert not both.purity


@given(st.lists(TENSORS, max_size=2), st.lists(TENSORS, max_size=2), st.booleans(), st.booleans())
def test_R5_property_a_bound_is_above_both(first: Any, second: Any, p: Any, q: Any):
    """A bound is above both."""
    a, b = function(*first, purity=p), function(*second, purity=q)
    for both in (join(a, b), join(b, a)):
        assert is_subtype(a, both) is Match.YES
        assert is_subtype(b, both) is Match.YES


def test_R5_negative_other_parameters_have_no_bound_but_object():
    """Other parameters have no bound but object."""
    assert join(function(tensor(2)), function(tensor(3))) is OBJECT
    assert join(function(tensor(2)), function(tensor(2), tensor(2))) is OBJECT


# -- R7: variables of shapes are mapped to the other side ------------------------------------------
def test_R7_example_a_shape():
    """A shape."""
    made = main(
        "s: R.Shape([2, 3]))",
        "@R.function",
        'def inner(t: R.Shape(["a", "b"])) -> R.Shape(["b", "a"]):',
        "    a = T.int64()",
        "    b = T.int64()",
        "    return R.shape([b, a])",
        "r = inner(s)",
        "return r",
    )
    assert str(made.ret_struct_info) == "R.Shape([3, 2])"


@given(EXTENTS)
def test_R7_property_every_extent_is_found(extents: Any):
    """Every extent is found."""
    names = [Var(f"v{i}", "int64") for i in range(len(extents))]
    found = get_shape_var_mapping(ShapeStructInfo(names), ShapeStructInfo(extents))
    assert [found[v].value for v in names] == list(extents)


def test_R7_negative_a_variable_is_not_mapped_to_itself():
    """A variable is not mapped to itself."""
    found = get_shape_var_mapping(ShapeStructInfo((n,)), ShapeStructInfo((m,)))
    assert found == {n: m}


# -- R10: arguments are subtypes of parameters -----------------------------------------------------
INNER = (
    "@R.function",
    'def inner(t: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):',
    "    return t",
)


def test_R10_example_more_may_be_known_of_an_argument():
    """More may be known of an argument."""
    made = main(
        'x: R.Tensor((3,), "float32"))',
        "@R.function",
        "def inner(t: R.Tensor) -> R.Tensor:",
        "    return t",
        "r = inner(x)",
        "return r",
    )
    assert str(made.ret_struct_info) == "R.Tensor()"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 4), st.integers(0, 4))
def test_R10_property_extents_must_agree(given_: Any, wanted: Any):
    """Extents must agree."""
    lines = (
        "@R.function",
        f'def inner(t: R.Tensor(({wanted},), "float32")) -> R.Object:',
        "    return t",
        "r = inner(x)",
        "return r",
    )
    signature = f'x: R.Tensor(({given_},), "float32"))'
    if given_ == wanted:
        main(signature, *lines)
    else:
        refused("RLX0210", signature, *lines)


def test_R10_negative_an_object_is_no_tensor():
    """An object is not a tensor."""
    refused("RLX0210", "x: R.Object)", *INNER, "r = inner(x)", "return r")


# -- R20: what is returned is as annotated ---------------------------------------------------------
def test_R20_example_three_for_two():
    """Three for two."""
    refused("RLX0214", 'x: R.Tensor((2,), "float32")) -> R.Tensor((3,), "float32")', "return x")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 4), st.integers(0, 4))
def test_R20_property_extents_must_agree(given_: Any, claimed: Any):
    """Extents must agree."""
    signature = f'x: R.Tensor(({given_},), "int8")) -> R.Tensor(({claimed},), "int8")'
    if given_ == claimed:
        main(signature, "return x")
    else:
        refused("RLX0214", signature, "return x")


def test_R20_negative_a_dtype_and_a_kind():
    """A dtype and a kind."""
    refused("RLX0214", 'x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "int8")', "return x")
    refused("RLX0214", "x: R.Shape([2])) -> R.Tensor", "return x")


# -- R23: conditions are bools ---------------------------------------------------------------------
BRANCH = ("if c:", "    z = x", "else:", "    z = x", "return z")


@pytest.mark.parametrize("info", ['R.Tensor((), "bool")', 'R.Prim("bool")'])
def test_R23_example_a_bool_of_rank_zero(info: str):
    """A bool of rank zero."""
    main(f"c: {info}, x: R.Object)", *BRANCH)


@settings(max_examples=25, deadline=None)
@given(EXTENTS, st.sampled_from(["bool", "int64", "float32", "uint8"]))
def test_R23_property_only_a_bool_of_rank_zero(dims: Any, dtype: Any):
    """Only a bool of rank zero."""
    signature = f'c: R.Tensor({dims!r}, "{dtype}"), x: R.Object)'
    if dims == () and dtype == "bool":
        main(signature, *BRANCH)
    else:
        refused("RLX0205", signature, *BRANCH)


@pytest.mark.parametrize(
    "info", ['R.Tensor((1,), "bool")', 'R.Prim("int64")', "R.Shape([])", "R.Tuple()"]
)
def test_R23_negative_what_is_none(info: str):
    """What is none."""
    refused("RLX0205", f"c: {info}, x: R.Object)", *BRANCH)


# -- R28: devices differ only where both are known -------------------------------------------------
DEVICES = st.sampled_from([None, VDevice("llvm", 0), VDevice("llvm", 1), VDevice("cuda", 0)])


def test_R28_example_an_unknown_device_is_checked():
    """An unknown device is checked."""
    known, unknown = tensor(2, vdevice=VDevice("llvm")), tensor(2)
    assert check_compatibility(unknown, known) is Match.MAYBE
    assert check_compatibility(known, unknown) is Match.YES


@given(DEVICES, DEVICES)
def test_R28_property_two_known_devices_decide(a: Any, b: Any):
    """Two known devices decide."""
    found = check_compatibility(tensor(2, vdevice=a), tensor(2, vdevice=b))
    if a is None or b is None:
        assert found is (Match.YES if b is None else Match.MAYBE)
    else:
        assert found is (Match.YES if a is b else Match.NO)


def test_R28_negative_two_devices_do_not_fit():
    """Two devices do not fit."""
    a, b = (tensor(2, vdevice=VDevice("llvm", i)) for i in (0, 1))
    assert check_compatibility(a, b) is Match.NO
    assert check_compatibility(TupleStructInfo((a,)), TupleStructInfo((b,))) is Match.NO
