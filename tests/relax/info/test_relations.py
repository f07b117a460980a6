from __future__ import annotations

import itertools
from typing import Any

import pytest

from loomir import relax as R
from loomir import tir
from loomir.ir.equality import structural_equal
from loomir.relax.info.relations import (
    Match,
    check_compatibility,
    erase_to_well_defined,
    get_shape_var_mapping,
    is_subtype,
    join,
    substitute_shape_vars,
    unify_struct_info,
)
from loomir.relax.struct_info import DEFAULT_DERIVE, EMPTY_DERIVE, OBJECT
from loomir.support.diagnostics import CompileError
from tests.clause import clauses

NO, MAYBE, YES = Match.NO, Match.MAYBE, Match.YES
n, m, k = (tir.Var(name, "int64") for name in "nmk")
V0, V1 = R.VDevice("llvm", 0), R.VDevice("llvm", 1)
F32, F16 = "float32", "float16"


def tensor(*dims: Any, dtype: Any = F32, vdevice: Any = None):
    return R.TensorStructInfo(dims, dtype, vdevice)


def tensor_like(dtype: str = "void", ndim: int = -1, vdevice: Any = None):
    return R.TensorStructInfo(None, dtype, vdevice, ndim)


def shape(*dims: Any):
    return R.ShapeStructInfo(dims)


def prim(dtype: str = "int64", value: Any = None):
    return R.PrimStructInfo(dtype, value)


def tuple_of(*fields: Any):
    return R.TupleStructInfo(fields)


def func(*params: Any, ret: Any = OBJECT, purity: bool = True):
    return R.FuncStructInfo(params, ret, purity)


def packed(derive: Any):
    return R.FuncStructInfo(None, OBJECT, derive_func=derive)


# -- equality of extents ---------------------------------------------------------------------------
@clauses("RX-SUB-02", "RX-PROV-01", "RX-PROV-02")
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (n, n, YES),
        (n * m, m * n, YES),
        (n * (m + 1), n * m + n, YES),
        ((n + 3) // 4 * 4, 4 * ((3 + n) // 4), YES),
        (n, m, MAYBE),
        (n, 4, MAYBE),
        (n * 2, 6, MAYBE),
        (n, n + 1, NO),
        (n * 2, 7, NO),
        (n * 2, m * 2 + 1, NO),
        (n + 1, 0, MAYBE),  # a scalar may be negative; an extent on its own is not
        ((n + 3) // 4 * 4 + 1, n, NO),
        (3, 4, NO),
    ],
)
def test_extents_are_certain_possible_or_certainly_not_equal(a: Any, b: Any, expected: Any):
    for given, wanted in ((a, b), (b, a)):
        assert check_compatibility(tensor(given), tensor(wanted)) is expected
        assert is_subtype(shape(given), shape(wanted)) is expected


# -- subtypes --------------------------------------------------------------------------------------
ALL = [
    OBJECT,
    tensor(n, 4),
    tensor(n, 4, vdevice=V0),
    tensor_like(F32, 2),
    tensor_like(),
    shape(n, 2),
    R.ShapeStructInfo(ndim=2),
    R.ShapeStructInfo(),
    prim("int64", n),
    prim("bool"),
    tuple_of(tensor(n), shape(n)),
    func(tensor(n), ret=tensor(n)),
    packed(DEFAULT_DERIVE),
    packed(EMPTY_DERIVE),
]


@clauses("RX-SUB-03", "RX-SUB-05", "RX-SIS-02", "RX-CC-05")
@pytest.mark.parametrize("info", ALL, ids=str)
def test_every_information_is_a_subtype_of_itself_and_of_object(info: Any):
    copy = substitute_shape_vars(info, {n: m})
    for other in (info, substitute_shape_vars(copy, {m: n}), OBJECT):
        assert is_subtype(info, other) is YES
        assert check_compatibility(info, other) is YES
    if info is not OBJECT:
        assert is_subtype(OBJECT, info) is NO
        assert check_compatibility(OBJECT, info) is NO


@clauses("RX-SUB-06", "RX-SUB-07", "RX-SUB-08", "RX-SUB-10")
@pytest.mark.parametrize(
    ("special", "general"),
    [
        (tensor(n, 4), tensor_like(F32)),
        (tensor(n, 4, vdevice=V0), tensor_like(F32, vdevice=V0)),
        (tensor_like(F32, 2), tensor_like(F32)),
        (tensor(n, 4), R.TensorStructInfo((n, 4))),
        (tensor(n, 4), tensor_like(F32, 2)),
        (tensor(n, 4, vdevice=V0), tensor(n, 4)),
        (tensor_like(F32, 2, V0), tensor_like(ndim=2)),
    ],
    ids=str,
)
def test_a_tensor_of_which_more_is_known_is_a_subtype(special: Any, general: Any):
    assert is_subtype(special, general) is YES
    assert is_subtype(general, special) is NO
    assert check_compatibility(general, special) is MAYBE


@clauses("RX-SUB-09", "RX-SUB-13", "RX-SUB-17")
@pytest.mark.parametrize("of", [tensor, shape, lambda v: prim("int64", v)], ids=["T", "S", "P"])
def test_equal_extents_and_values_make_subtypes(of: Any):
    for value, fits in ((n * 2, YES), (m, MAYBE), (n * 2 + 1, NO)):
        assert is_subtype(of(n + n), of(value)) is fits
        assert is_subtype(of(value), of(n + n)) is fits


@clauses("RX-SUB-11", "RX-SUB-12", "RX-SUB-15", "RX-SUB-16")
def test_shapes_and_scalars_of_which_more_is_known_are_subtypes():
    for special, general in (
        (shape(n, 2), R.ShapeStructInfo()),
        (shape(n, 2), R.ShapeStructInfo(ndim=2)),
        (R.ShapeStructInfo(ndim=2), R.ShapeStructInfo()),
        (prim("int64", n), prim("int64")),
    ):
        assert is_subtype(special, general) is YES
        assert is_subtype(general, special) is NO
    assert is_subtype(shape(n), R.ShapeStructInfo(ndim=2)) is NO
    for other in ("int32", "uint64", "bool"):
        assert is_subtype(prim("int64"), prim(other)) is NO


@clauses("RX-SUB-14")
def test_tuples_are_compared_field_by_field():
    a = tuple_of(tensor(n), tensor(4))
    assert is_subtype(a, tuple_of(tensor(n), tensor_like())) is YES
    assert is_subtype(a, tuple_of(tensor(m), tensor(4))) is MAYBE
    assert is_subtype(a, tuple_of(tensor(m), tensor(5))) is NO
    assert is_subtype(a, tuple_of(tensor(n))) is NO
    assert is_subtype(tuple_of(), tuple_of()) is YES


@clauses("RX-SUB-18", "RX-SUB-19")
def test_packed_functions_are_the_same_or_not_known():  # R30
    own = packed(len)
    for f in (own, packed(DEFAULT_DERIVE), packed(EMPTY_DERIVE)):
        assert is_subtype(f, packed(EMPTY_DERIVE)) is YES
        assert is_subtype(f, func()) is NO
    assert is_subtype(own, packed(len)) is YES
    assert is_subtype(own, packed(DEFAULT_DERIVE)) is NO
    assert is_subtype(packed(EMPTY_DERIVE), own) is NO


@clauses("RX-SUB-20")
def test_a_pure_function_may_stand_for_an_impure_one():
    pure, impure = func(tensor(2), ret=tensor(2)), func(tensor(2), ret=tensor(2), purity=False)
    assert is_subtype(pure, impure) is YES
    assert is_subtype(impure, pure) is NO


@clauses("RX-SUB-21")
def test_functions_take_more_and_give_less():
    f = func(tensor_like(F32), ret=tensor(2))
    g = func(tensor(4), ret=tensor_like(F32))
    assert is_subtype(f, g) is YES
    assert is_subtype(g, f) is NO
    assert is_subtype(f, func(tensor(4), tensor(4), ret=tensor(2))) is NO
    for a, b in ((func(tensor(4)), func(tensor(n))), (func(ret=tensor(m)), func(ret=tensor(n)))):
        assert is_subtype(a, b, bound=frozenset({n, m})) is MAYBE


def test_a_functions_own_shape_variables_stand_for_any_extent():
    swap = func(tensor(n, m), ret=tensor(m, n))
    again = func(tensor(m, k), ret=tensor(k, m))
    assert is_subtype(swap, again) is YES
    assert is_subtype(swap, func(tensor(2, 3), ret=tensor(3, 2))) is YES
    assert is_subtype(swap, func(tensor(2, 3), ret=tensor(2, 3))) is NO
    assert is_subtype(func(tensor(2, 3), ret=tensor(3, 2)), swap) is MAYBE
    assert is_subtype(swap, again, bound=frozenset({n, m, k})) is MAYBE


# -- compatibility ---------------------------------------------------------------------------------
@clauses("RX-CC-01", "RX-CC-02", "RX-CC-06", "RX-SIS-03")
@pytest.mark.parametrize(("a", "b"), list(itertools.permutations(ALL, 2)), ids=str)
def test_values_of_different_kinds_do_not_fit(a: Any, b: Any):
    if type(a) is not type(b) and b is not OBJECT:
        assert check_compatibility(a, b) is NO
        assert is_subtype(a, b) is NO
    assert check_compatibility(a, b).value >= is_subtype(a, b).value


@clauses("RX-CC-07", "RX-CC-07a")
def test_the_worst_field_of_a_tuple_decides():
    fits, open_, wrong = (tensor(2), tensor(2)), (tensor_like(), tensor(2)), (tensor(3), tensor(2))
    for count in (1, 2, 3):
        for chosen in itertools.product((fits, open_, wrong), repeat=count):
            expected = YES
            for pair in chosen:
                expected &= {fits: YES, open_: MAYBE, wrong: NO}[pair]
            given = tuple_of(*(a for a, _ in chosen))
            assert check_compatibility(given, tuple_of(*(b for _, b in chosen))) is expected
    assert check_compatibility(tuple_of(OBJECT), tuple_of()) is NO


@clauses("RX-CC-08", "RX-CC-08a", "RX-CC-08b", "RX-CC-08c", "RX-CC-08d")
def test_compatible_shapes():  # R29
    unranked, ranked = R.ShapeStructInfo(), R.ShapeStructInfo(ndim=2)
    for given in (unranked, ranked, shape(n, 2)):
        assert check_compatibility(given, unranked) is YES
    assert check_compatibility(unranked, ranked) is MAYBE
    assert check_compatibility(unranked, shape(n, 2)) is MAYBE
    assert check_compatibility(shape(n, 2), ranked) is YES
    assert check_compatibility(ranked, shape(n, 2)) is MAYBE
    assert check_compatibility(R.ShapeStructInfo(ndim=3), ranked) is NO
    assert check_compatibility(shape(n, 2), shape(m, 2)) is MAYBE
    assert check_compatibility(shape(m, 2), shape(n, 3)) is NO


@clauses("RX-CC-09", "RX-CC-09a", "RX-CC-09b", "RX-CC-09c")
def test_compatible_scalars():
    assert check_compatibility(prim("int64"), prim("int32")) is NO
    assert check_compatibility(prim("int64", n), prim("int64")) is YES
    assert check_compatibility(prim("int64"), prim("int64", n)) is MAYBE
    for value, fits in ((n, YES), (m, MAYBE), (n + 1, NO)):
        assert check_compatibility(prim("int64", n), prim("int64", value)) is fits
    x = tir.Var("x", "float32")
    assert check_compatibility(prim(F32, x), prim(F32, x)) is YES
    assert check_compatibility(prim(F32, x), prim(F32, x + x)) is MAYBE


@clauses("RX-CC-10", "RX-CC-10a", "RX-CC-10c", "RX-CC-10d", "RX-CC-10f", "RX-CC-10g")
def test_compatible_tensors():
    unknown = tensor_like()
    for given, wanted, expected in (
        (tensor(2), tensor(2, dtype=F16), NO),
        (unknown, tensor_like(F32), MAYBE),
        (tensor(2), unknown, YES),
        (tensor_like(F32, 2), tensor_like(F32, 3), NO),
        (tensor_like(F32), tensor_like(F32, 3), MAYBE),
        (tensor_like(F32, 1), tensor(2), MAYBE),
        (tensor_like(F16, 1), tensor(2), NO),
        (R.TensorStructInfo((2,)), tensor(2), MAYBE),
        (R.TensorStructInfo((3,)), tensor(2), NO),
        (tensor(n, 4), tensor(m, 4), MAYBE),
        (tensor(n, 4), tensor(m, 5), NO),
        (tensor(), tensor(), YES),
    ):
        assert check_compatibility(given, wanted) is expected


@clauses("RX-CC-10b", "RX-CC-10g")
def test_only_devices_that_are_both_known_can_differ():  # R28
    for a, b, expected in (
        (V0, V1, NO),
        (V0, R.VDevice("llvm", 0), YES),
        (None, V0, MAYBE),
        (V0, None, YES),
        (None, None, YES),
        (V0, R.VDevice("llvm", 0, "shared"), NO),
    ):
        assert check_compatibility(tensor(2, vdevice=a), tensor(2, vdevice=b)) is expected
        for given in (tensor_like(F32, 1, a), tensor_like(F32, vdevice=a)):
            assert check_compatibility(given, tensor_like(F32, vdevice=b)) is expected


@clauses("RX-CC-10e", "RX-INV-01")
def test_shapes_of_variables():
    s = R.Var("s", R.ShapeStructInfo(ndim=2))
    t = R.Var("t", shape(n, 4))
    u = R.Var("u", shape(n, 4))
    by = {v: R.TensorStructInfo(v, F32) for v in (s, t, u)}
    assert check_compatibility(by[s], R.TensorStructInfo(s, F32)) is YES
    assert check_compatibility(by[s], by[t]) is MAYBE
    assert check_compatibility(by[t], by[u]) is YES
    assert check_compatibility(by[t], tensor(n, 4)) is YES
    assert check_compatibility(by[t], tensor(m, 4)) is MAYBE
    assert check_compatibility(tensor(n, 5), by[t]) is NO
    assert check_compatibility(tensor(n), by[s]) is NO


@clauses("RX-INV-02", "RX-INV-04")
def test_the_rank_of_a_tensor_is_that_of_its_shape():
    s = R.Var("s", R.ShapeStructInfo(ndim=2))
    assert R.TensorStructInfo(s).ndim == R.TensorStructInfo((n, 4)).ndim == 2
    for shape in (s, (n, 4)):
        for ndim in (-1, 1, 3):
            with pytest.raises(CompileError) as raised:
                R.TensorStructInfo(shape, F32, ndim=ndim)
            assert raised.value.diagnostic.code == "RLX0114"


@clauses("RX-CC-11", "RX-CC-11a", "RX-CC-11b", "RX-CC-11c", "RX-CC-11d", "RX-CC-11e")
def test_compatible_functions():
    swap = func(tensor(n, m), ret=tensor(m, n))
    for given, wanted, expected in (
        (swap, packed(DEFAULT_DERIVE), NO),
        (packed(DEFAULT_DERIVE), packed(DEFAULT_DERIVE), YES),
        (packed(len), packed(DEFAULT_DERIVE), MAYBE),
        (packed(len), packed(EMPTY_DERIVE), YES),
        (swap, func(tensor(2, 3), tensor(2), ret=tensor(3, 2)), NO),
        (func(purity=False), func(), NO),
        (func(), func(purity=False), YES),
        (swap, func(tensor(2, 3), ret=tensor(3, 2)), YES),
        (swap, func(tensor(k, 3), ret=tensor(3, k)), YES),
        (swap, func(tensor(2, 3), ret=tensor(2, 3)), NO),
        (func(tensor(2)), func(tensor_like(F32)), MAYBE),
        (func(tensor_like(F32)), func(tensor(2)), YES),
        (func(ret=tensor_like()), func(ret=tensor(2)), MAYBE),
        (func(ret=tensor(2)), func(ret=OBJECT), YES),
    ):
        assert check_compatibility(given, wanted) is expected


# -- upper bounds ----------------------------------------------------------------------------------
def same(a: Any, b: Any):
    return structural_equal(a, b)


@clauses("RX-LUB-01", "RX-LUB-02", "RX-LUB-03")
def test_the_bound_of_anything_and_an_object_is_an_object():  # R1
    for a, b in itertools.product(ALL, repeat=2):
        if type(a) is not type(b) or OBJECT in (a, b):
            assert same(join(a, b), OBJECT)
    assert join(OBJECT, tensor(2)) is not tensor(2)
    assert unify_struct_info is join


@clauses("RX-LUB-04", "RX-LUB-04a", "RX-LUB-04b")
def test_bounds_of_scalars():
    assert same(join(prim("int64"), prim("int32")), OBJECT)
    assert same(join(prim("int64", n), prim("int64")), prim("int64"))
    assert same(join(prim("int64", n + 1), prim("int64", 1 + n)), prim("int64", n + 1))
    for other in (m, n + 1):
        assert same(join(prim("int64", n), prim("int64", other)), prim("int64"))


@clauses("RX-LUB-05", "RX-LUB-05a", "RX-LUB-05b", "RX-LUB-05c")
def test_bounds_of_shapes():  # R2
    assert same(join(shape(2, 3), shape(2, 4)), R.ShapeStructInfo(ndim=2))
    assert same(join(shape(2, n), shape(2, n)), shape(2, n))
    assert same(join(shape(2, 3), R.ShapeStructInfo(ndim=2)), R.ShapeStructInfo(ndim=2))
    for other in (R.ShapeStructInfo(), shape(2), R.ShapeStructInfo(ndim=3)):
        assert same(join(shape(2, 3), other), R.ShapeStructInfo())
        assert same(join(other, shape(2, 3)), R.ShapeStructInfo())


@clauses("RX-LUB-06", "RX-LUB-06a", "RX-LUB-06b", "RX-LUB-06c")
def test_bounds_of_tensors():  # R3, R4
    assert same(join(tensor(2, 4), tensor(2, 4, dtype="int32")), R.TensorStructInfo((2, 4)))
    assert same(join(tensor(2, vdevice=V0), tensor(2, vdevice=V1)), tensor(2))
    assert same(join(tensor(2, vdevice=V0), tensor(2)), tensor(2))
    assert same(join(tensor(2, vdevice=V0), tensor(3, vdevice=V0)), tensor_like(F32, 1, V0))
    early = join(tensor(2, vdevice=V0), tensor_like(F32, vdevice=V0))
    assert same(early, tensor_like(F32, vdevice=V0))
    assert same(join(tensor(n), tensor(m)), tensor_like(F32, 1))
    assert same(join(tensor(n), tensor(n, 2)), tensor_like(F32))
    assert same(join(tensor(n * 2), tensor(n + n)), tensor(n * 2))


@clauses("RX-LUB-07", "RX-LUB-07a")
def test_bounds_of_tuples():
    a, b = tuple_of(tensor(n), shape(2)), tuple_of(tensor(m), prim())
    assert same(join(a, b), tuple_of(tensor_like(F32, 1), OBJECT))
    assert same(join(a, tuple_of(tensor(n))), OBJECT)


@clauses("RX-LUB-08", "RX-LUB-08a", "RX-LUB-08b", "RX-LUB-08c", "RX-LUB-08d", "RX-LUB-08e")
def test_bounds_of_functions():  # R5, R6
    assert same(join(func(), packed(DEFAULT_DERIVE)), OBJECT)
    assert join(packed(len), packed(len)).derive_func is len
    assert join(packed(len), packed(DEFAULT_DERIVE)).derive_func == EMPTY_DERIVE
    assert same(join(func(tensor(2)), func(tensor(2), tensor(2))), OBJECT)
    pure, impure = func(tensor(2), ret=tensor(2)), func(tensor(2), ret=tensor(3), purity=False)
    bound = func(tensor(2), ret=tensor_like(F32, 1), purity=False)
    assert same(join(pure, impure), bound)
    assert same(join(impure, pure), bound)
    for other in (func(tensor(3)), func(tensor_like(F32)), func(tensor(n))):
        assert same(join(func(tensor(2)), other), OBJECT)
        assert same(join(other, func(tensor(2))), OBJECT)


def test_the_names_of_a_functions_shape_variables_do_not_matter_to_its_bound():
    f = func(tensor(n, m), ret=tensor(n))
    g = func(tensor(m, k), ret=tensor(m))
    assert same(join(f, g), f)
    h = func(tensor(k, k), ret=tensor(k))
    assert same(join(f, h), OBJECT)
    assert same(join(h, f), OBJECT)
    assert same(join(f, g, bound=frozenset({n, m, k})), OBJECT)


# -- scopes ----------------------------------------------------------------------------------------
S1 = R.Var("s", R.ShapeStructInfo(ndim=2))


def erase(info: Any, relax_vars: Any = (), shape_vars: Any = ()):
    return erase_to_well_defined(info, frozenset(relax_vars), frozenset(shape_vars))


@clauses("RX-AUX-03", "RX-AUX-03a", "RX-AUX-03b", "RX-AUX-03c", "RX-AUX-03d")
def test_what_is_out_of_scope_is_forgotten():  # R27
    named = R.TensorStructInfo(S1, F32, V0)
    for info, kept, lost in (
        (OBJECT, OBJECT, OBJECT),
        (prim("int64", n), prim("int64", n), prim("int64")),
        (tensor(n, 4, vdevice=V0), tensor(n, 4, vdevice=V0), tensor_like(F32, 2, V0)),
        (tensor(2, m * 2 + n), tensor(2, m * 2 + n), tensor_like(F32, 2)),
        (shape(n, 4), shape(n, 4), R.ShapeStructInfo(ndim=2)),
        (named, named, tensor_like(F32, 2, V0)),
        (tuple_of(tensor(n), tensor(2)), None, tuple_of(tensor_like(F32, 1), tensor(2))),
        (tensor_like(F32, 2, V0), None, tensor_like(F32, 2, V0)),
    ):
        assert same(erase(info), lost)
        everything = erase(info, [S1], [n, m])
        assert everything is info
        assert kept is None or same(everything, kept)
    assert same(erase(tensor(n, m), shape_vars=[n]), tensor_like(F32, 2))


@clauses("RX-AUX-03e", "RX-AUX-03f", "RX-DIM-06")
def test_a_functions_own_shape_variables_are_in_its_scope():  # R27
    f = func(tensor(n), ret=tensor(n, 2), purity=False)
    assert erase(f) is f
    g = func(tensor(n), ret=tensor(m), purity=False)
    assert same(erase(g), func(tensor(n), ret=tensor_like(F32, 1), purity=False))
    assert erase(g, shape_vars=[m]) is g
    both = tuple_of(f, tensor(n))
    assert same(erase(both), tuple_of(f, tensor_like(F32, 1)))
    assert erase(packed(DEFAULT_DERIVE)).derive_func == DEFAULT_DERIVE


# -- shape variables -------------------------------------------------------------------------------
@clauses("RX-AUX-04", "RX-AUX-04a", "RX-AUX-04b", "RX-AUX-04c", "RX-AUX-04d", "RX-AUX-04e")
def test_shape_variables_are_mapped_to_what_stands_in_their_place():  # R7, R8, R9
    two, three = tir.const(2, "int64"), tir.const(3, "int64")
    for a, b, expected in (
        (tensor(n), shape(2), {}),
        (tensor(n, m), tensor(2, k), {n: two, m: k}),
        (tensor(n, m), tensor(2), {}),
        (tensor(n), tensor_like(F32, 1), {}),
        (tensor(n * 2, 4), tensor(2, 3), {}),
        (shape(n, m), shape(2, 3), {n: two, m: three}),
        (shape(n), R.ShapeStructInfo(ndim=1), {}),
        (prim("int64", n), prim("int64", k + 1), {n: k + 1}),
        (prim("int64", n), prim("int64"), {}),
        (tuple_of(tensor(n), shape(m)), tuple_of(tensor(2), shape(3)), {n: two, m: three}),
        (tuple_of(tensor(n)), tuple_of(tensor(2), tensor(2)), {}),
        (func(tensor(n), ret=tensor(m)), func(tensor(2), ret=tensor(3)), {n: two}),
        (func(tensor(n)), func(), {}),
        (tensor(n, n), tensor(2, 3), {n: two}),
        (tensor(n), R.TensorStructInfo(R.Var("t", shape(k)), F32), {n: k}),
    ):
        found = get_shape_var_mapping(a, b)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert same(found[name], value)
    assert get_shape_var_mapping(tensor(n, m), tensor(2, 3), {n}).keys() == {m}


def test_a_second_place_of_a_variable_decides_whether_arguments_fit():  # R9
    given = func(tensor(n, n))
    for dims, expected in (((k, k), YES), ((2, 3), NO), ((k, m), MAYBE)):
        assert check_compatibility(given, func(tensor(*dims))) is expected


def test_substitution_leaves_what_it_does_not_change():
    info = tuple_of(tensor(n), shape(m, 2), prim("int64", n + m), func(tensor(n), ret=tensor(m)))
    assert substitute_shape_vars(info, {k: n}) is info
    assert substitute_shape_vars(info, {}) is info
    made = substitute_shape_vars(info, {n: k * 2})
    expected = tuple_of(
        tensor(k * 2), shape(m, 2), prim("int64", k * 2 + m), func(tensor(k * 2), ret=tensor(m))
    )
    assert same(made, expected)
    assert made.fields[1] is info.fields[1]


def test_deep_structure_is_no_trouble():
    deep = tensor(n)
    other = tensor(m)
    for _ in range(5000):
        deep, other = tuple_of(deep), tuple_of(other)
    assert check_compatibility(deep, other) is MAYBE
    assert is_subtype(deep, deep) is YES
    assert erase(deep).fields[0] is not deep.fields[0]
    assert join(deep, other) is not deep
    twice = tensor(n), tensor(m)
    for _ in range(60):
        twice = tuple_of(twice[0], twice[0]), tuple_of(twice[1], twice[1])
    assert check_compatibility(*twice) is MAYBE
