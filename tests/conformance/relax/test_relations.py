"""Subtypes, bounds, compatibility and the procedures around them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from loomir.relax import Call, ExternFunc, ShapeExpr, TensorStructInfo, Var
from loomir.relax.info.relations import (
    check_compatibility,
    erase_to_well_defined,
    get_shape_var_mapping,
    is_subtype,
    join,
)
from loomir.relax.info.types import (
    DynTensorType,
    FuncType,
    ObjectType,
    PackedFuncType,
    PrimType,
    ShapeType,
    TupleType,
    erase_struct_info,
)
from loomir.relax.normal.derive import struct_info_of
from loomir.relax.struct_info import DEFAULT_DERIVE, EMPTY_DERIVE, OBJECT
from loomir.support.diagnostics import CompileError
from loomir.tir.expr import const
from tests.conformance.graphs import graph, known, mistakes, read, refused, warnings
from tests.conformance.relax.infos import (
    F32,
    MAYBE,
    NO,
    SHAPE,
    V0,
    V1,
    YES,
    below,
    equal,
    fits,
    func,
    k,
    m,
    n,
    opaque,
    prim,
    rank,
    shape,
    some,
    tensor,
    tuple_of,
)

ALL = [
    OBJECT,
    tensor(n, 4),
    tensor(n, 4, vdevice=V0),
    some(F32, 2),
    some(),
    shape(n, 2),
    rank(2),
    rank(),
    prim("int64", n),
    prim("bool"),
    tuple_of(tensor(n), shape(n)),
    func(tensor(n), ret=tensor(n)),
    opaque(DEFAULT_DERIVE),
    opaque(EMPTY_DERIVE),
]


# -- subtypes ------------------------------------------------------------------------------------
def test_RX_SUB_01_less_is_accepted_where_more_is_known():
    """A value of which more is known is accepted; the reverse needs a check."""
    read(graph('x: R.Tensor((4,), "float32")', "y: R.Tensor = x", "return y"))
    text = graph("x: R.Object", "y: R.Tensor = x  # <--", "return y")
    refused("RLX0201", text)
    read(graph("x: R.Object", "y = R.match_cast(x, R.Tensor)", "return y"))


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [(n * 2, n + n, YES), (n, m, MAYBE), (n, 4, MAYBE), (n, n + 1, NO), (n * 2, 7, NO), (3, 4, NO)],
)
def test_RX_SUB_02_extents_are_compared_three_ways(a: Any, b: Any, wanted: Any):
    """Extents are certainly equal, possibly, or certainly not."""
    assert is_subtype(shape(a), shape(b)) is wanted
    assert is_subtype(shape(b), shape(a)) is wanted


@pytest.mark.parametrize("info", ALL, ids=str)
def test_RX_SUB_03_reflexive(info: Any):
    """Every information is a subtype of itself."""
    assert is_subtype(info, info) is YES


def test_RX_SUB_04_transitive():
    """What is below what is below a third is below the third."""
    for a, b, c in itertools.product(ALL, repeat=3):
        if is_subtype(a, b) is YES and is_subtype(b, c) is YES:
            assert is_subtype(a, c) is YES, (a, b, c)


@pytest.mark.parametrize("info", ALL[1:], ids=str)
def test_RX_SUB_05_everything_is_an_object(info: Any):
    """Every information is a subtype of object."""
    below(info, OBJECT)


@pytest.mark.parametrize("device", [None, V0])
def test_RX_SUB_06_a_rank_may_be_unknown(device: Any):
    """A tensor is below one of the same dtype and device of unknown rank."""
    below(tensor(n, 4, vdevice=device), some(F32, vdevice=device))
    below(some(F32, 2, device), some(F32, vdevice=device))


def test_RX_SUB_07_a_dtype_may_be_unknown():
    """A tensor is below one of the same shape of unknown dtype."""
    below(tensor(n, 4), TensorStructInfo((n, 4)))
    below(some(F32, 2, V0), some("void", 2, V0))


def test_RX_SUB_08_a_shape_may_be_unknown():
    """A tensor is below one of the same rank of unknown extents."""
    below(tensor(n, 4), some(F32, 2))


@pytest.mark.parametrize(("other", "wanted"), [(n * 2, YES), (m, MAYBE), (n * 2 + 1, NO)])
def test_RX_SUB_09_equal_shapes(other: Any, wanted: Any):
    """A tensor is below one of the same shape, possibly of one that may be the same."""
    assert is_subtype(tensor(n + n), tensor(other)) is wanted


def test_RX_SUB_10_a_device_may_be_unknown():
    """A tensor on a device is below the same on none in particular."""
    below(tensor(n, vdevice=V0), tensor(n))


def test_RX_SUB_11_shapes_of_unknown_rank():
    """A shape is below a shape of unknown rank."""
    below(shape(n, 2), rank())
    below(rank(2), rank())


def test_RX_SUB_12_shapes_of_unknown_extents():
    """A shape is below one of the same rank of unknown extents."""
    below(shape(n, 2), rank(2))
    assert is_subtype(shape(n), rank(2)) is NO


@pytest.mark.parametrize(("other", "wanted"), [(2 * n, YES), (m, MAYBE), (n * 2 + 1, NO)])
def test_RX_SUB_13_shapes_of_equal_extents(other: Any, wanted: Any):
    """Shapes of extents that are equal, or may be, are subtypes, or may be."""
    assert is_subtype(shape(3, n + n), shape(3, other)) is wanted


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ((tensor(n), some()), YES),
        ((tensor(m), tensor(4)), MAYBE),
        ((tensor(m), tensor(5)), NO),
        ((tensor(n),), NO),
    ],
)
def test_RX_SUB_14_tuples_field_by_field(fields: Any, wanted: Any):
    """Tuples are compared by length and field by field."""
    assert is_subtype(tuple_of(tensor(n), tensor(4)), tuple_of(*fields)) is wanted


@pytest.mark.parametrize("other", ["int32", "uint64", "bool", "float64"])
def test_RX_SUB_15_dtypes_of_scalars_are_equal(other: str):
    """There are no subtypes among dtypes."""
    assert is_subtype(prim("int64"), prim("int64")) is YES
    assert is_subtype(prim("int64"), prim(other)) is NO


def test_RX_SUB_16_scalars_of_unknown_value():
    """A scalar of a known value is below one of the same dtype without."""
    below(prim("int64", n), prim("int64"))


@pytest.mark.parametrize(("other", "wanted"), [(n * 2, YES), (m, MAYBE), (n * 2 + 1, NO)])
def test_RX_SUB_17_scalars_of_equal_values(other: Any, wanted: Any):
    """Scalars whose values are equal, or may be, are subtypes, or may be."""
    assert is_subtype(prim("int64", n + n), prim("int64", other)) is wanted


@pytest.mark.parametrize("derive", [len, DEFAULT_DERIVE, EMPTY_DERIVE])
def test_RX_SUB_18_any_packed_function_is_the_least_known(derive: Any):
    """A packed function is below one of which nothing can be derived."""
    assert is_subtype(opaque(derive), opaque(EMPTY_DERIVE)) is YES


def test_RX_SUB_19_packed_functions_are_else_identical():
    """Other packed functions are subtypes only where they derive in the same way."""
    assert is_subtype(opaque(len), opaque(len)) is YES
    assert is_subtype(opaque(len), opaque(DEFAULT_DERIVE)) is NO
    assert is_subtype(opaque(EMPTY_DERIVE), opaque(len)) is NO


def test_RX_SUB_20_pure_functions_stand_for_impure_ones():
    """A pure function is below an impure one."""
    below(func(tensor(2), ret=tensor(2)), func(tensor(2), ret=tensor(2), purity=False))


def test_RX_SUB_21_functions_take_more_and_give_less():
    """Parameters are compared the other way round, results this way."""
    below(func(some(F32), ret=tensor(2)), func(tensor(4), ret=some(F32)))
    assert is_subtype(func(tensor(2)), func(tensor(2), tensor(2))) is NO
    bound = frozenset({n, m})
    assert is_subtype(func(ret=tensor(m)), func(ret=tensor(n)), bound=bound) is MAYBE
    assert is_subtype(func(tensor(4)), func(tensor(n)), bound=bound) is MAYBE


# -- bounds --------------------------------------------------------------------------------------
def test_RX_LUB_01_a_bound_is_above_both():
    """Any two have a bound, which is above both, in either order."""
    for a, b in itertools.product(ALL, repeat=2):
        for bound in (join(a, b), join(b, a)):
            assert is_subtype(a, bound) is YES, (a, b)
            assert is_subtype(b, bound) is YES, (a, b)


@pytest.mark.parametrize("info", ALL, ids=str)
def test_RX_LUB_02_with_an_object(info: Any):
    """The bound of anything and an object is an object, as decided."""
    assert join(info, OBJECT) is OBJECT
    assert join(OBJECT, info) is OBJECT


def test_RX_LUB_03_of_different_kinds():
    """The bound of different kinds is an object."""
    for a, b in itertools.permutations(ALL, 2):
        if type(a) is not type(b):
            equal(join(a, b), OBJECT)


def test_RX_LUB_04_scalars_of_different_dtypes():
    """The bound of scalars of different dtypes is an object."""
    equal(join(prim("int64"), prim("int32")), OBJECT)


def test_RX_LUB_04a_scalars_without_a_value():
    """Where one value is unknown, so is that of the bound."""
    equal(join(prim("int64", n), prim("int64")), prim("int64"))
    equal(join(prim("int64"), prim("int64", n)), prim("int64"))


def test_RX_LUB_04b_scalars_with_values():
    """Values that are provably equal stay."""
    equal(join(prim("int64", n + 1), prim("int64", 1 + n)), prim("int64", n + 1))
    for other in (m, n + 1):
        equal(join(prim("int64", n), prim("int64", other)), prim("int64"))


def test_RX_LUB_05_shapes_of_unknown_rank():
    """With a shape of unknown rank the rank is unknown."""
    for other in (shape(2, 3), rank(2), rank()):
        equal(join(rank(), other), rank())
        equal(join(other, rank()), rank())


def test_RX_LUB_05a_shapes_of_different_ranks():
    """Shapes of different ranks have a bound of unknown rank."""
    equal(join(shape(2, 3), shape(2)), rank())
    equal(join(shape(2, 3), rank(3)), rank())


def test_RX_LUB_05b_shapes_of_unknown_extents():
    """Where the extents of one are unknown, so are those of the bound, as decided."""
    equal(join(rank(2), shape(2, 3)), rank(2))
    equal(join(shape(2, 3), rank(2)), rank(2))


def test_RX_LUB_05c_shapes_of_known_extents():
    """Extents stay where all are provably equal."""
    equal(join(shape(2, n + n), shape(2, 2 * n)), shape(2, n + n))
    equal(join(shape(2, n), shape(2, m)), rank(2))


def test_RX_LUB_06_tensors_part_by_part():
    """Rank, dtype and device each stay if they are equal."""
    equal(join(some(F32, 2, V0), some("int8", 2, V0)), some("void", 2, V0))
    equal(join(some(F32, 2, V0), some(F32, 3, V1)), some(F32, -1))
    equal(join(some(F32, 2, V0), some(F32, 2)), some(F32, 2))


def test_RX_LUB_06a_tensors_without_a_shape():
    """Without a shape, or of another rank, there is no shape; the device stays, as decided."""
    equal(join(tensor(2, vdevice=V0), some(F32, 1, V0)), some(F32, 1, V0))
    equal(join(tensor(2, vdevice=V0), tensor(2, 2, vdevice=V0)), some(F32, -1, V0))
    equal(join(tensor(2), some(F32)), some(F32))


def test_RX_LUB_06b_tensors_of_equal_shapes():
    """Provably equal shapes stay, and the other parts are unified, as decided."""
    equal(join(tensor(n * 2), tensor(n + n)), tensor(n * 2))
    equal(join(tensor(2, 4), tensor(2, 4, dtype="int32")), TensorStructInfo((2, 4)))


def test_RX_LUB_06c_tensors_of_other_shapes():
    """Other shapes leave rank, dtype and device."""
    equal(join(tensor(n, vdevice=V0), tensor(m, vdevice=V0)), some(F32, 1, V0))


def test_RX_LUB_07_tuples_of_different_lengths():
    """The bound of tuples of different lengths is an object."""
    equal(join(tuple_of(tensor(2)), tuple_of(tensor(2), tensor(2))), OBJECT)


def test_RX_LUB_07a_tuples_of_one_length():
    """Tuples of one length are unified field by field."""
    bound = join(tuple_of(tensor(n), shape(2)), tuple_of(tensor(m), prim()))
    equal(bound, tuple_of(some(F32, 1), OBJECT))


def test_RX_LUB_08_closures_and_packed_functions():
    """The bound of a closure and a packed function is an object."""
    equal(join(func(), opaque(DEFAULT_DERIVE)), OBJECT)
    equal(join(opaque(DEFAULT_DERIVE), func()), OBJECT)


def test_RX_LUB_08a_packed_functions():
    """The same packed function stays; two leave one of which nothing is derived."""
    assert join(opaque(len), opaque(len)).derive_func is len
    assert join(opaque(len), opaque(DEFAULT_DERIVE)).derive_func == EMPTY_DERIVE


def test_RX_LUB_08b_closures_of_different_arity():
    """The bound of functions of different arity is an object."""
    equal(join(func(tensor(2)), func(tensor(2), tensor(2))), OBJECT)


@pytest.mark.parametrize(("a", "b"), [*itertools.product([True, False], repeat=2)])
def test_RX_LUB_08c_purity(a: bool, b: bool):
    """The bound is pure where both are."""
    assert join(func(tensor(2), purity=a), func(tensor(2), purity=b)).purity is (a and b)


@pytest.mark.parametrize("other", [tensor(3), some(F32), tensor(n), shape(2)], ids=str)
def test_RX_LUB_08d_parameters_are_equal(other: Any):
    """Parameters that differ leave an object."""
    equal(join(func(tensor(2)), func(other)), OBJECT)
    equal(join(func(other), func(tensor(2))), OBJECT)


def test_RX_LUB_08e_results_are_unified():
    """The result of the bound is the bound of the results."""
    bound = join(func(tensor(2), ret=tensor(2)), func(tensor(2), ret=tensor(3)))
    equal(bound, func(tensor(2), ret=some(F32, 1)))


# -- compatibility -------------------------------------------------------------------------------
@pytest.mark.parametrize(("other", "wanted"), [(4, YES), (n, MAYBE), (5, NO)])
def test_RX_CC_01_three_results(other: Any, wanted: Any):
    """Compatible, possibly compatible, incompatible."""
    fits(tensor(4), tensor(other), wanted)


def test_RX_CC_02_incompatible_is_certain():
    """What may hold is not refused: only a certain difference is."""
    for a, b in itertools.product(ALL, repeat=2):
        if is_subtype(a, b) is not NO:
            assert check_compatibility(a, b) is not NO
    fits(tensor(n), tensor(m), MAYBE)
    fits(tensor(n), tensor(n + 1), NO)


def test_RX_CC_03_errors_and_warnings():
    """What does not fit is an error, what may not fit a warning."""
    refused("RLX0201", graph("x: R.Tensor((3,))", "y: R.Tensor((4,)) = x  # <--", "return y"))
    maybe = graph("x: R.Tensor(ndim=1)", "return x", ret="R.Tensor((4,))")
    assert mistakes(maybe) == []
    assert warnings(maybe) == ["RLX0215"]


def test_RX_CC_04_types_of_what_may_fit():
    """Of what may fit the traditional types are of one kind."""
    for a, b in itertools.product(ALL, repeat=2):
        if check_compatibility(a, b) is not NO and b is not OBJECT:
            assert type(erase_struct_info(a)) is type(erase_struct_info(b))


@pytest.mark.parametrize("info", ALL, ids=str)
def test_RX_CC_05_objects_take_all(info: Any):
    """Everything is compatible with an object."""
    fits(info, OBJECT, YES)


def test_RX_CC_06_kinds_differ():
    """Different kinds are incompatible."""
    for a, b in itertools.permutations(ALL, 2):
        if type(a) is not type(b) and b is not OBJECT:
            fits(a, b, NO)


def test_RX_CC_07_tuples_of_different_lengths():
    """Tuples of different lengths are incompatible."""
    fits(tuple_of(tensor(2)), tuple_of(), NO)
    fits(tuple_of(), tuple_of(), YES)


PAIRS = {YES: (tensor(2), tensor(2)), MAYBE: (some(), tensor(2)), NO: (tensor(3), tensor(2))}


@pytest.mark.parametrize(("a", "b"), [*itertools.product(PAIRS, repeat=2)])
def test_RX_CC_07a_the_worst_field_decides(a: Any, b: Any):
    """A tuple is as compatible as its worst field."""
    given, wanted = zip(PAIRS[a], PAIRS[b], strict=True)
    fits(tuple_of(*given), tuple_of(*wanted), a & b)


@pytest.mark.parametrize("given", [rank(), rank(2), shape(n, 2)], ids=str)
def test_RX_CC_08_any_rank(given: Any):
    """A shape of unknown rank takes all shapes."""
    fits(given, rank(), YES)


def test_RX_CC_08a_ranks_differ():
    """Known ranks that differ are incompatible; an unknown one may fit, as decided."""
    fits(rank(3), rank(2), NO)
    fits(shape(2), rank(2), NO)
    fits(rank(), rank(2), MAYBE)


def test_RX_CC_08b_any_extents():
    """A shape of a rank takes all of the rank."""
    fits(shape(n, 2), rank(2), YES)
    fits(rank(2), rank(2), YES)


def test_RX_CC_08c_unknown_extents():
    """Unknown extents may be those that are wanted."""
    fits(rank(2), shape(n, 2), MAYBE)


@pytest.mark.parametrize(
    ("given", "wanted"), [(shape(n, 2), YES), (shape(m, 2), MAYBE), (shape(m, 3), NO)]
)
def test_RX_CC_08d_extents(given: Any, wanted: Any):
    """Extents are all equal, or one is certainly another, or it is open."""
    fits(given, shape(n, 2), wanted)


def test_RX_CC_09_dtypes_of_scalars_differ():
    """Scalars of different dtypes are incompatible."""
    fits(prim("int64"), prim("int32"), NO)


def test_RX_CC_09a_any_value():
    """A scalar without value takes all of its dtype."""
    fits(prim("int64", n), prim("int64"), YES)


def test_RX_CC_09b_unknown_values():
    """An unknown value may be the one that is wanted."""
    fits(prim("int64"), prim("int64", n), MAYBE)


@pytest.mark.parametrize(("value", "wanted"), [(n, YES), (m, MAYBE), (n + 1, NO)])
def test_RX_CC_09c_values(value: Any, wanted: Any):
    """Values are compared as extents are."""
    fits(prim("int64", n), prim("int64", value), wanted)


def test_RX_CC_10_dtypes_differ():
    """Tensors of different known dtypes are incompatible."""
    fits(tensor(2), tensor(2, dtype="float16"), NO)
    fits(some("float16", 1), tensor(2), NO)


def test_RX_CC_10a_ranks_differ():
    """Tensors of different known ranks are incompatible."""
    fits(some(F32, 2), some(F32, 3), NO)
    fits(some(F32), some(F32, 3), MAYBE)


@pytest.mark.parametrize(
    ("a", "b", "wanted"), [(V0, V1, NO), (V0, V0, YES), (None, V0, MAYBE), (V0, None, YES)]
)
def test_RX_CC_10b_devices_differ(a: Any, b: Any, wanted: Any):
    """Devices that are both known and differ are incompatible, as decided."""
    fits(tensor(2, vdevice=a), tensor(2, vdevice=b), wanted)


def test_RX_CC_10c_any_shape():
    """A tensor of unknown shape takes all of its dtype."""
    fits(tensor(2), some(F32), YES)
    fits(tensor(2), some(), YES)


def test_RX_CC_10d_unknown_shapes():
    """An unknown shape may be the one that is wanted."""
    fits(some(F32, 1), tensor(2), MAYBE)


def test_RX_CC_10e_shapes_of_variables():
    """Shapes that are variables are compared by what is known of these."""
    t, u = (Var(name, shape(n, 4)) for name in "tu")
    tensors = {v: TensorStructInfo(v, F32) for v in (SHAPE, t, u)}
    fits(tensors[SHAPE], TensorStructInfo(SHAPE, F32), YES)
    fits(tensors[SHAPE], tensors[t], MAYBE)
    fits(tensors[t], tensors[u], YES)
    fits(tensors[t], tensor(m, 4), MAYBE)
    fits(tensor(n, 5), tensors[t], NO)


@pytest.mark.parametrize(
    ("given", "wanted"), [(tensor(n, 4), YES), (tensor(m, 4), MAYBE), (tensor(m, 5), NO)]
)
def test_RX_CC_10f_extents(given: Any, wanted: Any):
    """Extents of tensors are equal, open, or certainly others."""
    fits(given, tensor(n, 4), wanted)


def test_RX_CC_10g_unknown_parts():
    """An unknown dtype or device may be the one that is wanted."""
    fits(TensorStructInfo((2,)), tensor(2), MAYBE)
    fits(tensor(2), tensor(2, vdevice=V0), MAYBE)
    fits(TensorStructInfo((3,)), tensor(2), NO)


def test_RX_CC_11_closures_and_packed_functions():
    """A closure is no packed function, nor the other way round."""
    fits(func(), opaque(DEFAULT_DERIVE), NO)
    fits(opaque(DEFAULT_DERIVE), func(), NO)


def test_RX_CC_11a_packed_functions():
    """Packed functions that derive alike fit, others may."""
    fits(opaque(DEFAULT_DERIVE), opaque(DEFAULT_DERIVE), YES)
    fits(opaque(len), opaque(DEFAULT_DERIVE), MAYBE)


def test_RX_CC_11b_arity():
    """Functions of different arity are incompatible."""
    fits(func(tensor(2)), func(tensor(2), tensor(2)), NO)


def test_RX_CC_11c_purity():
    """An impure function does not fit where a pure one is wanted."""
    fits(func(purity=False), func(), NO)
    fits(func(), func(purity=False), YES)


def test_RX_CC_11d_shape_variables_are_mapped():
    """The shape variables of parameters stand for what the other has there."""
    swap = func(tensor(n, m), ret=tensor(m, n))
    fits(swap, func(tensor(2, 3), ret=tensor(3, 2)), YES)
    fits(swap, func(tensor(k, 3), ret=tensor(3, k)), YES)
    fits(swap, func(tensor(2, 3), ret=tensor(2, 3)), NO)


def test_RX_CC_11e_parameters_and_results():
    """Parameters are compared the other way round, results this way; the worst decides."""
    fits(func(some(F32)), func(tensor(2)), YES)
    fits(func(tensor(2)), func(some(F32)), MAYBE)
    fits(func(ret=some()), func(ret=tensor(2)), MAYBE)
    fits(func(tensor(2), ret=tensor(2)), func(some(F32), ret=tensor(3)), NO)


# -- auxiliary procedures ------------------------------------------------------------------------
def derived(*claims: str) -> str:
    """Return what is known of the result of a packed function."""
    listed = f", sinfo_args=[{', '.join(claims)}]"
    return known(graph("", f'return R.call_packed("f"{listed})'))


def test_RX_AUX_01_nothing_is_claimed():
    """A packed function of which nothing is claimed gives an object."""
    assert derived() == "R.Any()"


def test_RX_AUX_01a_one_claim():
    """One claim is what the packed function gives."""
    assert derived("R.Shape([2])") == "R.Shape([2])"


def test_RX_AUX_01b_several_claims():
    """Several claims are those of the fields of a tuple."""
    assert derived("R.Shape([2])", "R.Object") == "R.Tuple(R.Shape([2]), R.Any())"


def test_RX_AUX_02_nothing_is_derived():
    """The weakest way to derive gives an object, whatever is claimed."""
    text = graph(
        'f: R.Callable(derive_func="empty_derive")', "y = f(sinfo_args=R.Shape([2]))", "return y"
    )
    assert known(text) == "R.Any()"


def erased(info: Any, relax_vars: Any = (), shape_vars: Any = ()) -> Any:
    return erase_to_well_defined(info, frozenset(relax_vars), frozenset(shape_vars))


def test_RX_AUX_03_objects_and_scalars():
    """Objects stay; a scalar loses a value that is out of scope, as decided."""
    assert erased(OBJECT) is OBJECT
    equal(erased(prim("int64", n)), prim("int64"))
    equal(erased(prim("int64", const(3, "int64"))), prim("int64", const(3, "int64")))


def test_RX_AUX_03a_tensors_out_of_scope():
    """A shape in terms of what is out of scope is dropped; the device stays, as decided."""
    equal(erased(tensor(n, 4, vdevice=V0)), some(F32, 2, V0))
    equal(erased(TensorStructInfo(SHAPE, F32)), some(F32, 2))


def test_RX_AUX_03b_tensors_in_scope():
    """A tensor whose variables are in scope stays."""
    for info in (tensor(n, 4), TensorStructInfo(SHAPE, F32), tensor(2), some()):
        assert erased(info, [SHAPE], [n]) is info


def test_RX_AUX_03c_shapes():
    """Extents in terms of what is out of scope are dropped."""
    equal(erased(shape(n, 4)), rank(2))
    equal(erased(shape(n, 4), shape_vars=[n]), shape(n, 4))


def test_RX_AUX_03d_tuples():
    """A tuple is erased field by field."""
    equal(erased(tuple_of(tensor(n), tensor(2))), tuple_of(some(F32, 1), tensor(2)))


def test_RX_AUX_03e_functions():
    """The shape variables of parameters are in scope in a function; purity stays, as decided."""
    own = func(tensor(n), ret=tensor(n, 2), purity=False)
    assert erased(own) is own
    equal(
        erased(func(tensor(n), ret=tensor(m), purity=False)),
        func(tensor(n), ret=some(F32, 1), purity=False),
    )


def test_RX_AUX_03f_packed_functions():
    """A packed function keeps its way to derive."""
    assert erased(opaque(len)).derive_func is len


def test_RX_AUX_04_mapping_different_kinds():
    """Nothing is mapped between different kinds."""
    assert get_shape_var_mapping(tensor(n), shape(2)) == {}


def test_RX_AUX_04a_mapping_scalars():
    """The value of a scalar is mapped, as decided."""
    assert get_shape_var_mapping(prim("int64", n), prim("int64", k)) == {n: k}
    assert get_shape_var_mapping(prim("int64", n), prim("int64")) == {}


def test_RX_AUX_04b_mapping_tuples():
    """Tuples of one length map what their fields map."""
    pair = tuple_of(tensor(n), shape(m))
    assert get_shape_var_mapping(pair, tuple_of(tensor(k), shape(k))) == {n: k, m: k}
    assert get_shape_var_mapping(pair, tuple_of(tensor(k))) == {}


def test_RX_AUX_04c_mapping_functions():
    """Functions of one arity map what their parameters map, results nothing."""
    f = func(tensor(n), ret=tensor(m))
    assert get_shape_var_mapping(f, func(tensor(k), ret=tensor(k))) == {n: k}
    assert get_shape_var_mapping(f, func()) == {}


def test_RX_AUX_04d_mapping_shapes():
    """An unbound variable of a shape is mapped to the extent of the other, as decided."""
    assert get_shape_var_mapping(shape(n), shape(k)) == {n: k}
    assert get_shape_var_mapping(shape(n), shape(k), {n}) == {}


def test_RX_AUX_04e_mapping_tensors():
    """An unbound extent of a tensor is mapped to that of the other, of the same rank."""
    assert get_shape_var_mapping(tensor(n, m), tensor(k, n), {m}) == {n: k}
    assert get_shape_var_mapping(tensor(n), tensor(k, k)) == {}
    assert get_shape_var_mapping(tensor(n), some(F32, 1)) == {}


# -- invariants, proofs, types -------------------------------------------------------------------
def test_RX_INV_01_a_variable_holds_a_shape_of_the_rank():
    """A shape that is a variable holds a shape, of the rank of the tensor."""
    assert TensorStructInfo(SHAPE).ndim == 2
    for make in (
        lambda: TensorStructInfo(SHAPE, ndim=1),
        lambda: TensorStructInfo(Var("x", tensor(2))),
    ):
        with pytest.raises(CompileError) as caught:
            make()
        assert caught.value.diagnostic.code == "RLX0114"


@pytest.mark.parametrize("ndim", [0, 1, 3])
def test_RX_INV_02_there_are_as_many_extents_as_axes(ndim: int):
    """The extents are as many as the rank."""
    refused(
        "RLX0114",
        f"@R.function\ndef main(\n    x: R.Tensor((2, 3), ndim={ndim}),  # <--\n):\n    return x\n",
    )


def test_RX_INV_03_shape_variables_are_in_scope():
    """The shape variables of an annotation are in scope where it stands."""
    text = graph("x: R.Tensor", "y: R.Tensor((n,)) = x  # <--", "return y")
    refused("SCR0003", text)


def test_RX_INV_04_a_known_shape_has_a_known_rank():
    """The rank is not unknown where the shape is known."""
    for wanted in (ShapeExpr((2, 3)), SHAPE):
        with pytest.raises(CompileError):
            TensorStructInfo(wanted, F32, ndim=-1)


@pytest.mark.parametrize("extent", [n, n * m + 1, (n + 3) // 4])
def test_RX_PROV_01_the_same_structure_is_equal(extent: Any):
    """Extents of the same structure are equal."""
    other = extent + 0
    assert is_subtype(tensor(extent), tensor(other)) is YES


@pytest.mark.parametrize(
    ("a", "b"), [(n * m, m * n), (n * (m + 1), n * m + n), ((n + 3) // 4 * 4, 4 * ((3 + n) // 4))]
)
def test_RX_PROV_02_more_may_be_proved(a: Any, b: Any):
    """Loomir proves what follows from the laws of arithmetic."""
    assert is_subtype(tensor(a), tensor(b)) is YES


@pytest.mark.parametrize(
    ("info", "wanted"),
    [
        (tensor(n, 2), DynTensorType(2, F32)),
        (shape(n, 2), ShapeType(2)),
        (prim("int8"), PrimType("int8")),
        (tuple_of(tensor(2), rank()), TupleType((DynTensorType(1, F32), ShapeType(-1)))),
        (opaque(len), PackedFuncType()),
        (func(rank(1), ret=prim()), FuncType((ShapeType(1),), PrimType("int64"))),
        (OBJECT, ObjectType()),
    ],
    ids=str,
)
def test_RX_TYP_01_traditional_types(info: Any, wanted: Any):
    """Each kind of information is erased to a type without expressions."""
    equal(erase_struct_info(info), wanted)


# -- the survey of structural information --------------------------------------------------------
def test_RX_SIS_01_everything_has_information():
    """Every variable and every value has structural information."""
    made = read(graph("x: R.Tensor((n,))", "y = (R.exp(x), R.shape([n]))", "return y"))
    for binding in made.body.blocks[0].bindings:
        assert binding.var.struct_info is not None
    assert struct_info_of(ExternFunc("f")) is not None
    with pytest.raises(CompileError):
        struct_info_of(Call(ExternFunc("f"), ()))


@pytest.mark.parametrize("info", ALL, ids=str)
def test_RX_SIS_02_object_is_above_all(info: Any):
    """Object is a supertype of all."""
    assert is_subtype(info, OBJECT) is YES


def test_RX_SIS_03_too_little_is_known():
    """Where less is known than is wanted, a check is asked for."""
    text = graph("x: R.Object", "return R.exp(x)  # <--")
    inner = ("@R.function", "def inner(a: R.Tensor) -> R.Tensor:", "    return a")
    found = refused("RLX0210", graph("x: R.Object", *inner, "y = inner(x)  # <--", "return y"))
    assert "R.match_cast" in found.help
    assert mistakes(text) == []
