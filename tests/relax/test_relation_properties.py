"""Laws of relations between structural informations, tried on random ones.

An independent judge of informations without variables says what is true of the values: what was
proved of all values of the variables must be true of those drawn.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from loomir import relax as R
from loomir import tir
from loomir.arith import Analyzer
from loomir.relax.info.proof import EXTENT_LIMIT
from loomir.relax.info.relations import (
    Match,
    check_compatibility,
    erase_to_well_defined,
    get_shape_var_mapping,
    is_subtype,
    join,
    substitute_shape_vars,
)
from loomir.relax.info.types import erase_struct_info
from loomir.relax.struct_info import DEFAULT_DERIVE, EMPTY_DERIVE, OBJECT
from tests.clause import clauses

NO, MAYBE, YES = Match.NO, Match.MAYBE, Match.YES
n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
K, J = tir.Var("k", "int64"), tir.Var("j", "int64")
BOUND = frozenset({n, m})
DEVICES = [None, R.VDevice("llvm", 0), R.VDevice("llvm", 1)]

# -- random structural information -----------------------------------------------------------------
DIMS = st.sampled_from(
    [n, m, n + 1, n * 2, m * n, n * m, n + m, (n + 3) // 4 * 4, n % 2, n - m]
) | st.integers(0, 3)
ROWS = st.lists(DIMS, max_size=2).map(tuple)
DTYPES = st.sampled_from(["float32", "int8", "void"])
TENSORS = st.builds(
    lambda dims, ndim, dtype, device: (
        R.TensorStructInfo(dims, dtype, device)
        if dims is not None
        else R.TensorStructInfo(None, dtype, device, ndim)
    ),
    st.none() | ROWS,
    st.integers(-1, 2),
    DTYPES,
    st.sampled_from(DEVICES),
)
SHAPES = st.builds(R.ShapeStructInfo, ROWS) | st.builds(
    lambda ndim: R.ShapeStructInfo(ndim=ndim), st.integers(-1, 2)
)
SCALARS = st.builds(
    lambda value: R.PrimStructInfo("int64", value), st.sampled_from([None, n, n * 2, n + m])
) | st.just(R.PrimStructInfo("bool"))
PACKED = st.sampled_from([DEFAULT_DERIVE, EMPTY_DERIVE, len]).map(
    lambda derive: R.FuncStructInfo(None, OBJECT, derive_func=derive)
)
VALUES = st.recursive(
    TENSORS | SHAPES | SCALARS | st.just(OBJECT),
    lambda inner: st.lists(inner, max_size=2).map(lambda f: R.TupleStructInfo(tuple(f))),
    max_leaves=3,
)
FUNCTIONS = st.builds(
    lambda params, ret, purity: R.FuncStructInfo(tuple(params), ret, purity),
    st.lists(VALUES, max_size=2),
    VALUES,
    st.booleans(),
)
INFOS = VALUES | FUNCTIONS | PACKED


def analyzer():
    made = Analyzer()
    for var in (n, m):
        made.assume_size(var, EXTENT_LIMIT)
    return made


def wider(draw: Any, info: Any):
    """Forget something of structural information."""
    if draw(st.integers(0, 5)) == 0:
        return OBJECT
    if isinstance(info, R.TensorStructInfo):
        dtype = draw(st.sampled_from([info.dtype, "void"]))
        device = draw(st.sampled_from([info.vdevice, None]))
        shape = draw(st.sampled_from([info.shape, None]))
        ndim = info.ndim if shape is not None else draw(st.sampled_from([info.ndim, -1]))
        return R.TensorStructInfo(shape, dtype, device, ndim)
    if isinstance(info, R.ShapeStructInfo):
        ndim = draw(st.sampled_from([info.ndim, -1]))
        return draw(st.sampled_from([info, R.ShapeStructInfo(ndim=ndim)]))
    if isinstance(info, R.PrimStructInfo):
        return draw(st.sampled_from([info, R.PrimStructInfo(info.dtype)]))
    if isinstance(info, R.TupleStructInfo):
        return R.TupleStructInfo(tuple([wider(draw, f) for f in info.fields]))
    if isinstance(info, R.FuncStructInfo) and info.params is None:
        return draw(
            st.sampled_from([info, R.FuncStructInfo(None, OBJECT, derive_func=EMPTY_DERIVE)])
        )
    if isinstance(info, R.FuncStructInfo):
        purity = info.purity and draw(st.booleans())
        return R.FuncStructInfo(info.params, wider(draw, info.ret), purity)
    return info


@st.composite
def chains(draw: Any):
    """Draw informations, each of which says no more than the one before."""
    first = draw(INFOS)
    second = wider(draw, first)
    return first, second, wider(draw, second)


# -- a judge of concrete information ---------------------------------------------------------------
def dims_of(info: Any):
    rows = info.values if isinstance(info, R.ShapeStructInfo) else info.dims
    return None if rows is None else [d.value for d in rows]


def admits(wanted: Any, given: Any):
    """Tell what is true of ``given`` values, where both say all in numbers: True, False or None."""
    if isinstance(wanted, R.ObjectStructInfo):
        return True
    if type(wanted) is not type(given):
        return False
    if isinstance(wanted, R.TupleStructInfo):
        if len(wanted.fields) != len(given.fields):
            return False
        parts = [admits(w, g) for w, g in zip(wanted.fields, given.fields)]
        return False if False in parts else None if None in parts else True
    facts = []
    if isinstance(wanted, R.PrimStructInfo):
        if wanted.dtype is not given.dtype:
            return False
        facts.append((getattr(wanted.value, "value", None), getattr(given.value, "value", None)))
    else:
        facts.append((dims_of(wanted), dims_of(given)))
        facts.append(
            (wanted.ndim if wanted.ndim >= 0 else None, given.ndim if given.ndim >= 0 else None)
        )
    if isinstance(wanted, R.TensorStructInfo):
        facts.append(
            (
                None if wanted.dtype == "void" else wanted.dtype,
                None if given.dtype == "void" else given.dtype,
            )
        )
        facts.append((wanted.vdevice, given.vdevice))
    facts = [(w, g) for w, g in facts if w is not None]
    if any(g is not None and w != g for w, g in facts):
        return False
    return None if any(g is None for _, g in facts) else True


def concrete(info: Any, values: Any):
    made = substitute_shape_vars(info, {v: tir.const(x, "int64") for v, x in values.items()})

    def number(e: Any):
        return tir.const(Analyzer().const_int_bound(e).min_value, "int64")

    if isinstance(made, R.TensorStructInfo) and made.shape is not None:
        return R.TensorStructInfo([number(d) for d in made.dims], made.dtype, made.vdevice)
    if isinstance(made, R.ShapeStructInfo) and made.values is not None:
        return R.ShapeStructInfo([number(d) for d in made.values])
    if isinstance(made, R.PrimStructInfo) and made.value is not None:
        return R.PrimStructInfo("int64", number(made.value))
    if isinstance(made, R.TupleStructInfo):
        return R.TupleStructInfo(tuple([concrete(f, {}) for f in made.fields]))
    return made


ASSIGNED = st.fixed_dictionaries({n: st.integers(0, 6), m: st.integers(0, 6)})


# -- laws ------------------------------------------------------------------------------------------
@clauses("RX-SUB-03")
@given(INFOS)
def test_every_information_is_a_subtype_of_itself(info: Any):
    copy = substitute_shape_vars(substitute_shape_vars(info, {n: K, m: J}), {K: n, J: m})
    for other in (info, copy):
        assert is_subtype(info, other, analyzer()) is YES
        assert check_compatibility(other, info, analyzer()) is YES


@clauses("RX-SUB-04")
@given(chains())
def test_subtypes_of_subtypes_are_subtypes(chain: Any):
    first, second, third = chain
    for a, b in ((first, second), (second, third), (first, third)):
        assert is_subtype(a, b, analyzer()) is YES
        assert check_compatibility(a, b, analyzer()) is YES


@clauses("RX-SUB-04")
@settings(max_examples=300)
@given(TENSORS, TENSORS, TENSORS)
def test_what_is_proved_of_two_pairs_is_proved_of_the_ends(a: Any, b: Any, c: Any):
    if is_subtype(a, b, analyzer()) is YES and is_subtype(b, c, analyzer()) is YES:
        assert is_subtype(a, c, analyzer()) is YES


@clauses("RX-SUB-02", "RX-CC-02")
@settings(max_examples=400)
@given(VALUES, VALUES, ASSIGNED)
def test_what_is_proved_is_true_of_every_value(a: Any, b: Any, values: Any):
    proved = is_subtype(a, b, analyzer())
    fits = check_compatibility(a, b, analyzer())
    true = admits(concrete(b, values), concrete(a, values))
    if YES in (proved, fits):
        assert true is True
    if fits is NO:
        assert true is False


@clauses("RX-CC-01")
@given(VALUES | PACKED, VALUES | PACKED)
def test_a_subtype_is_compatible(a: Any, b: Any):
    assert check_compatibility(a, b, analyzer()).value >= is_subtype(a, b, analyzer()).value


def plain(info: Any):
    """Forget all expressions."""
    if isinstance(info, R.TensorStructInfo):
        return R.TensorStructInfo(None, info.dtype, None, info.ndim)
    if isinstance(info, R.ShapeStructInfo):
        return R.ShapeStructInfo(ndim=info.ndim)
    if isinstance(info, R.PrimStructInfo):
        return R.PrimStructInfo(info.dtype)
    if isinstance(info, R.TupleStructInfo):
        return R.TupleStructInfo(tuple([plain(f) for f in info.fields]))
    return info


@clauses("RX-CC-04")
@settings(max_examples=300)
@given(VALUES, VALUES)
def test_what_is_compatible_has_compatible_types(a: Any, b: Any):
    fits = check_compatibility(a, b, analyzer())
    assert erase_struct_info(plain(a)) == erase_struct_info(a)
    types = is_subtype(plain(a), plain(b))
    if fits is YES:
        assert types is YES
    if fits is MAYBE:
        assert check_compatibility(plain(a), plain(b)) is not NO


@clauses("RX-LUB-01")
@settings(max_examples=300)
@given(INFOS, INFOS)
def test_a_join_is_above_both(a: Any, b: Any):
    for bound in (frozenset(), BOUND):
        both, back = join(a, b, analyzer(), bound=bound), join(b, a, analyzer(), bound=bound)
        for below, above in ((a, both), (b, both), (both, back), (back, both)):
            assert is_subtype(below, above, analyzer(), bound=bound) is YES


@clauses("RX-LUB-01")
@given(chains())
def test_a_join_of_values_is_the_least(chain: Any):
    first, second, _ = chain
    if not isinstance(first, R.FuncStructInfo):
        both = join(first, second, analyzer())
        assert is_subtype(both, second, analyzer()) is YES


@clauses("RX-AUX-03")
@given(INFOS, st.sets(st.sampled_from([n, m])))
def test_what_is_erased_is_above_and_in_scope(info: Any, shape_vars: Any):
    made = erase_to_well_defined(info, frozenset(), frozenset(shape_vars))
    assert erase_to_well_defined(made, frozenset(), frozenset(shape_vars)) is made
    if not isinstance(info, R.FuncStructInfo):
        assert is_subtype(info, made, analyzer()) is YES
    if shape_vars == BOUND:
        assert made is info


@given(VALUES, ASSIGNED)
def test_a_mapping_makes_what_it_was_read_from(info: Any, values: Any):
    found = get_shape_var_mapping(info, concrete(info, values))
    for name, value in found.items():
        assert value.value == values[name]


@given(chains(), ASSIGNED)
def test_a_decision_stays_where_more_is_known(chain: Any, values: Any):
    a, b, _ = chain
    if not isinstance(a, R.FuncStructInfo):
        assert is_subtype(concrete(a, values), concrete(b, values)) is YES
