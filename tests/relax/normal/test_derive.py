from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomir import relax as R
from loomir import tir
from loomir.ir.equality import structural_equal
from loomir.relax.info.relations import check_compatibility
from loomir.relax.normal.derive import Deriver, func_struct_info, struct_info_of
from loomir.relax.operator.definition import find_op
from loomir.relax.struct_info import OBJECT, UNIT
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from tests.clause import clauses

n, m, k = (tir.Var(name, "int64") for name in "nmk")
F32 = "float32"


def tensor(*dims: Any, dtype: Any = F32, vdevice: Any = None):
    return R.TensorStructInfo(dims, dtype, vdevice)


def some(dtype: str = "void", ndim: int = -1):
    return R.TensorStructInfo(None, dtype, None, ndim)


def var(name: Any, info: Any = None):
    return R.Var(name, info)


def func(*params: Any, ret: Any = OBJECT, purity: bool = True):
    return R.FuncStructInfo(params, ret, purity)


def body(*bindings: Any, result: Any, dataflow: bool = False):
    block = (R.DataflowBlock if dataflow else R.BindingBlock)(bindings)
    return R.SeqExpr((block,), result)


def bind(name: Any, value: Any):
    return R.VarBinding(name, value)


class Trial:
    """A deriver that keeps its warnings."""

    def __init__(self, functions: Any = None):
        self.warnings = []
        table = functions or {}
        self.deriver = Deriver(lambda gv: table[gv], self.warnings.append)

    @property
    def codes(self):
        assert all(w.severity == "warning" for w in self.warnings)
        return [w.code for w in self.warnings]

    def derive(self, expr: Any, *params: Any):
        self.deriver.scope.enter(params)
        return self.deriver.derive(expr)

    def check(self, expr: Any, *params: Any):
        self.deriver.scope.enter(params)
        return self.deriver.check(expr)


def check(expr: Any, *params: Any, warnings: Any = ()):
    trial = Trial()
    found = trial.check(expr, *params)
    assert trial.codes == list(warnings)
    return found


def refused(code: Any, expr: Any, *params: Any):
    with pytest.raises(CompileError) as raised:
        Trial().check(expr, *params)
    assert [d.code for d in raised.value.diagnostics] == [code]
    assert raised.value.diagnostic.help
    return raised.value.diagnostic


def same(a: Any, b: Any):
    return structural_equal(a, b)


# -- leaves ----------------------------------------------------------------------------------------
@clauses("RX-DER-02", "RX-SIS-01")
def test_a_variable_is_what_it_is_annotated_as():
    info = tensor(n)
    assert struct_info_of(var("x", info)) is info
    gv = R.GlobalVar("f")
    assert struct_info_of(gv, {gv: func()}.__getitem__).params == ()


@clauses("RX-DER-03")
def test_a_constant_has_the_rank_dtype_and_shape_of_its_value():
    found = struct_info_of(R.Constant(np.zeros((2, 3), "int8")))
    assert same(found, tensor(2, 3, dtype="int8"))
    assert found.vdevice is None
    assert struct_info_of(R.Constant(np.float32(1))).dims == ()


@clauses("RX-DER-04")
def test_a_scalar_has_its_dtype_and_value():  # R14
    found = struct_info_of(R.PrimValue(n + 1))
    assert same(found, R.PrimStructInfo("int64", n + 1))
    assert struct_info_of(R.PrimValue(1.0)).dtype == "float32"


@clauses("RX-DER-05", "RX-DER-06")
def test_strings_and_dtypes_are_objects():
    for leaf in (R.StringImm("a"), R.DataTypeImm("int8")):
        assert isinstance(struct_info_of(leaf), R.ObjectStructInfo)


@clauses("RX-DER-07", "RX-DER-08")
def test_tuples_and_shapes_are_known_part_by_part():
    x = var("x", tensor(n))
    found = struct_info_of(R.Tuple((x, R.Tuple((R.ShapeExpr((n, 2)),)))))
    expected = R.TupleStructInfo((tensor(n), R.TupleStructInfo((R.ShapeStructInfo((n, 2)),))))
    assert same(found, expected)
    assert found.fields[1].fields[0].ndim == 2


@clauses("RX-DER-13")
def test_a_packed_function_is_known_by_its_calls_only():
    found = struct_info_of(R.ExternFunc("f"))
    assert found.params is None
    assert found.derive_func == "default_derive"
    assert isinstance(found.ret, R.ObjectStructInfo)
    assert not found.purity


def test_operators_and_compound_expressions_are_no_leaves():
    op = find_op("relax.negative").op
    refused("RLX0217", op)
    x = var("x", tensor(n))
    for expr in (op, R.Call(op, (x,)), R.GlobalVar("f")):
        with pytest.raises(CompileError) as raised:
            struct_info_of(expr)
        assert raised.value.diagnostic.code == "RLX0217"


# -- branches --------------------------------------------------------------------------------------
CONDITION = var("c", tensor(dtype="bool"))


@clauses("RX-DER-09")
def test_a_branch_is_what_both_sides_are():
    a, b = var("a", tensor(n, 4)), var("b", tensor(m, 4))
    assert same(check(R.If(CONDITION, a, b), CONDITION, a, b), some(F32, 2))
    assert same(check(R.If(CONDITION, a, a), CONDITION, a), tensor(n, 4))


@pytest.mark.parametrize(
    "info",
    [tensor(dtype="bool"), R.PrimStructInfo("bool"), some("bool"), some(), some(ndim=0), OBJECT],
    ids=str,
)
def test_a_condition_is_a_bool_or_may_be_one(info: Any):  # R23
    c, x = var("c", info), var("x", tensor(2))
    assert same(check(R.If(c, x, x), c, x), tensor(2))


@clauses("RX-SURV-08")
@pytest.mark.parametrize(
    "info",
    [
        tensor(dtype="int64"),
        tensor(1, dtype="bool"),
        tensor(2, dtype="bool"),
        some("bool", 1),
        some("float32"),
        R.PrimStructInfo("int64"),
        R.ShapeStructInfo(()),
        R.TupleStructInfo(()),
    ],
    ids=str,
)
def test_a_condition_that_is_no_bool_is_refused(info: Any):  # R23
    c, x = var("c", info), var("x", tensor(2))
    refused("RLX0205", R.If(c, x, x), c, x)


# -- sequences -------------------------------------------------------------------------------------
NEGATIVE = find_op("relax.negative").op


@clauses("RX-DER-10", "RX-DER-11d", "RX-DER-14")
def test_bindings_are_derived_in_order():
    x, y, z = var("x", tensor(n)), var("y"), var("z")
    expr = body(bind(y, R.Call(NEGATIVE, (x,))), bind(z, R.Call(NEGATIVE, (y,))), result=z)
    assert same(check(expr, x), tensor(n))


@clauses("RX-DER-10a")
def test_dataflow_variables_end_with_their_block():
    x, y = var("x", tensor(n)), R.DataflowVar("y")
    z = var("z")
    inner = R.DataflowBlock((bind(y, x), bind(z, y)))
    trial = Trial()
    trial.deriver.scope.enter((x,))
    during = []
    original = trial.deriver.scope.forget
    trial.deriver.scope.forget = lambda v: (during.append(v), original(v))
    trial.deriver.check(R.SeqExpr((inner,), z))
    assert during == [y]


@clauses("RX-DER-10b", "RX-DIM-03", "RX-INV-03")
def test_what_a_sequence_gives_says_nothing_of_what_ended_with_it():
    x, y = var("x", some(F32, 1)), var("y")
    s = var("s", R.ShapeStructInfo(ndim=1))
    expr = body(R.MatchCast(y, x, tensor(k)), result=y)
    assert same(check(expr, x), some(F32, 1))
    inner = R.TensorStructInfo(s, F32)
    assert same(check(body(R.MatchCast(y, x, inner), result=y), x, s), inner)
    t = var("t")
    expr = body(bind(t, s), R.MatchCast(y, x, inner), result=y)
    assert same(check(expr, x, s), inner)
    ended = var("e", R.ShapeStructInfo(ndim=1))
    expr = body(bind(ended, s), R.MatchCast(y, x, R.TensorStructInfo(ended, F32)), result=y)
    assert same(check(expr, x, s), some(F32, 1))


# -- bindings --------------------------------------------------------------------------------------
@clauses("RX-DER-11", "RX-DER-16")
def test_a_parameter_without_annotation_is_an_object():
    x = var("x")
    found = check(R.Function((x,), R.SeqExpr((), x)))
    assert isinstance(found.params[0], R.ObjectStructInfo)
    assert isinstance(found.ret, R.ObjectStructInfo)


@clauses("RX-DER-11b", "RX-CC-03")
def test_an_annotation_is_respected_where_it_holds():
    x, y = var("x", tensor(n, 4)), var("y", some(F32, 2))
    assert check(body(bind(y, x), result=y), x) is y.struct_info


def test_an_annotation_that_cannot_hold_is_refused():  # R19
    x, y = var("x", tensor(3)), var("y", tensor(4))
    found = refused("RLX0201", body(bind(y, x), result=y), x)
    assert "on axis 0, 3 is not 4" in found.notes


@clauses("RX-DER-11c", "RX-CC-03", "RX-SUB-01")
def test_an_annotation_that_says_more_is_a_warning():  # R19
    x, y = var("x", some(F32)), var("y", tensor(4))
    assert check(body(bind(y, x), result=y), x, warnings=["RLX0202"]) is y.struct_info
    trial = Trial()
    assert trial.deriver.check_binding(y, x.struct_info, x).name == "MAYBE"
    assert trial.codes == ["RLX0202"]


@clauses("RX-DER-11e", "RX-DER-11h", "RX-DIM-01", "RX-DIM-04")
def test_a_cast_gives_what_it_says_and_binds_its_variables():
    x, y, z = var("x", some()), var("y"), var("z")
    expr = body(R.MatchCast(y, x, tensor(k, 2)), R.MatchCast(z, y, tensor(k, 2)), result=z)
    trial = Trial()
    trial.deriver.scope.enter((x,))
    trial.deriver.scope.bind_shape_vars(tensor(k))
    assert same(trial.deriver.check(expr), tensor(k, 2))


def test_a_cast_tells_what_its_variables_are():
    x, y = var("x", tensor(n, m)), var("y")
    trial = Trial()
    trial.check(body(R.MatchCast(y, x, tensor(k, m)), result=y), x)
    assert trial.deriver.analyzer.can_prove_equal(k * 2 + m, n * 2 + m)
    assert not trial.deriver.analyzer.can_prove_equal(k, m)


@clauses("RX-DER-11f")
@pytest.mark.parametrize(
    ("given", "wanted", "warns"),
    [
        (tensor(2, n), tensor(m, 3), False),  # they overlap
        (OBJECT, tensor(2), False),
        (tensor(2), OBJECT, False),
        (some(), tensor(2), False),
        (tensor(3), tensor(4), True),
        (tensor(n), tensor(n + 1), True),
        (tensor(3), R.ShapeStructInfo(ndim=1), True),
        (tensor(3), tensor(3, dtype="int8"), True),
    ],
    ids=str,
)
def test_a_cast_that_always_fails_is_a_warning(given: Any, wanted: Any, warns: bool):  # R11
    x, y = var("x", given), var("y")
    scoped = var("s", R.ShapeStructInfo((n, m)))
    expr = body(R.MatchCast(y, x, wanted), result=y)
    check(expr, x, scoped, warnings=["RLX0203"] if warns else [])


@clauses("RX-DER-11g")
def test_an_annotation_beside_a_cast_must_follow_from_it():
    x = var("x", some())
    y = var("y", some(F32, 2))
    assert check(body(R.MatchCast(y, x, tensor(2, 3)), result=y), x) is y.struct_info
    for cast in (some(), tensor(3)):
        refused("RLX0204", body(R.MatchCast(y, x, cast), result=y), x)


@clauses("RX-DER-11a")
def test_a_function_that_calls_itself_needs_an_annotation():  # R17
    def loop(f: Any, x: Any, ret: Any = None):
        inner = R.SeqExpr((), R.Call(f, (x,)))
        return R.Function((x,), inner, ret)

    f, x = var("f"), var("x", tensor(n))
    refused("RLX0216", body(bind(f, loop(f, x)), result=f))
    assert same(
        check(body(bind(f, loop(f, x, tensor(n))), result=f)), func(tensor(n), ret=tensor(n))
    )
    g = var("g", func(tensor(n), ret=tensor(n)))
    found = check(body(bind(g, loop(g, x, tensor(n))), result=g))
    assert same(found, g.struct_info)
    h = var("h", func(tensor(n), ret=tensor(n, dtype="int8")))
    refused("RLX0201", body(bind(h, R.Function((x,), R.SeqExpr((), x))), result=h))


def test_a_call_of_itself_has_extents_of_its_own():
    f, x = var("f"), var("x", tensor(n, m))
    y, z = var("y"), var("z")
    twice = body(bind(y, R.Call(f, (x,))), bind(z, R.Call(f, (y,))), result=y)
    g = R.Function((x,), twice, tensor(m, n))
    assert same(check(body(bind(f, g), result=f)), func(tensor(n, m), ret=tensor(m, n)))


# -- fields ----------------------------------------------------------------------------------------
@clauses("RX-DER-12", "RX-DER-12a", "RX-DER-12b")
def test_a_field_of_a_tuple():
    x = var("x", R.TupleStructInfo((tensor(n), tensor(m))))
    assert check(R.TupleGetItem(x, 1), x) is x.struct_info.fields[1]
    refused("RLX0207", R.TupleGetItem(x, 2), x)
    for info in (tensor(2), OBJECT):
        y = var("y", info)
        refused("RLX0206", R.TupleGetItem(y, 0), y)


# -- calls -----------------------------------------------------------------------------------------
def pure(expr: Any, *params: Any, is_pure: bool = True, attrs: Any = None):
    """A function, with what it calls in a block."""
    y = var("y")
    return R.Function(params, body(bind(y, expr), result=y), None, is_pure, attrs or {})


@clauses("RX-DER-15")
def test_only_functions_are_called():
    for info in (tensor(2), OBJECT):
        x = var("x", info)
        refused("RLX0208", R.Call(x, ()), x)


@clauses("RX-DER-15d")
@pytest.mark.parametrize("count", [0, 2])
def test_a_call_gives_as_many_arguments_as_there_are_parameters(count: int):
    f, x = var("f", func(tensor(n))), var("x", tensor(2))
    refused("RLX0209", R.Call(f, (x,) * count), f, x)


@clauses("RX-DER-15e", "RX-DER-15g")
def test_a_call_puts_the_extents_of_its_arguments_in_its_result():
    f = var("f", func(tensor(n, m), R.PrimStructInfo("int64", k), ret=tensor(n * m + k)))
    x = var("x", tensor(2, 3))
    found = check(R.Call(f, (x, R.PrimValue(4))), f, x)
    assert same(found, tensor(10))
    u = var("u", some(F32, 2))
    p = var("p", R.PrimStructInfo("int64"))
    assert same(check(R.Call(f, (u, p)), f, u, p), some(F32, 1))


@clauses("RX-DER-15f", "RX-SUB-01")
def test_arguments_must_be_what_the_parameters_ask_for():  # R10
    f = var("f", func(tensor(3)))
    fits, open_, wrong = var("x", tensor(3)), var("x", some(F32, 1)), var("x", tensor(4))
    check(R.Call(f, (fits,)), f, fits)
    check(R.Call(f, (open_,)), f, open_, warnings=["RLX0211"])
    for x in (wrong, var("x", OBJECT), var("x", tensor(3, dtype="int8"))):
        refused("RLX0210", R.Call(f, (x,)), f, x)
    g = var("g", func(some()))
    check(R.Call(g, (fits,)), g, fits)


def test_a_variable_that_occurs_twice_asks_for_equal_extents():  # R9
    f = var("f", func(tensor(n, n)))
    x, y, z = var("x", tensor(2, 2)), var("y", tensor(2, 3)), var("z", tensor(2, m))
    check(R.Call(f, (x,)), f, x)
    refused("RLX0210", R.Call(f, (y,)), f, y)
    check(R.Call(f, (z,)), f, z, warnings=["RLX0211"])


def test_a_captured_variable_is_no_parameter():
    x = var("x", tensor(n))
    f = var("f", func(tensor(n)))
    y, z = var("y", tensor(m)), var("z", tensor(n + 1))
    check(R.Call(f, (x,)), x, f)
    check(R.Call(f, (y,)), x, f, y, warnings=["RLX0211"])
    refused("RLX0210", R.Call(f, (z,)), x, f, z)
    check(R.Call(f, (y,)), f, y)


# -- purity ----------------------------------------------------------------------------------------
LOG = R.ExternFunc("log")


@clauses("RX-PUR-01", "RX-PUR-05", "RX-DER-15a", "RX-DER-14a", "RX-PUR-02")
def test_a_pure_function_makes_pure_calls():
    found = refused("RLX0212", pure(R.Call(LOG, ())))
    assert "R.call_pure_packed('log', …)" in found.help
    assert not check(pure(R.Call(LOG, ()), is_pure=False)).purity
    x = var("x", tensor(2))
    assert check(pure(R.Call(NEGATIVE, (x,)), x)).purity


@clauses("RX-PUR-04", "RX-DER-15c", "RX-PUR-03")
def test_a_dataflow_block_makes_pure_calls():
    y = var("y")
    refused("RLX0213", body(bind(y, R.Call(LOG, ())), result=y, dataflow=True))
    for purity in (True, False):
        f = var("f", func(purity=purity))
        expr = body(bind(y, R.Call(f, ())), result=y, dataflow=True)
        if purity:
            check(expr, f)
        else:
            refused("RLX0213", expr, f)
            refused("RLX0212", pure(R.Call(f, ()), f))


@clauses("RX-PUR-06")
def test_force_pure_vouches_for_the_calls_of_a_function():
    assert check(pure(R.Call(LOG, ()), attrs={"relax.force_pure": True})).purity
    refused("RLX0212", pure(R.Call(LOG, ()), attrs={"relax.force_pure": False}))


def test_a_function_within_a_pure_one_may_be_impure():
    inner = pure(R.Call(LOG, ()), is_pure=False)
    f = var("f")
    for dataflow in (False, True):
        check(R.Function((), body(bind(f, inner), result=f, dataflow=dataflow)))
    refused(
        "RLX0212", R.Function((), body(bind(f, inner), bind(var("y"), R.Call(f, ())), result=f))
    )


@clauses("RX-PURE-01", "RX-PURE-02", "RX-PURE-03")
@pytest.mark.parametrize("name", ["print", "assert_op", "invoke_closure"])
def test_what_writes_aborts_or_may_do_anything_is_impure(name: str):
    definition = find_op(f"relax.{name}")
    closure = var("c", func())
    args = {"print": (CONDITION,), "assert_op": (CONDITION,), "invoke_closure": (closure, ())}
    call = definition.call(*args[name])
    refused("RLX0212", pure(call, CONDITION, closure))
    y = var("y")
    refused("RLX0213", body(bind(y, call), result=y, dataflow=True), CONDITION, closure)
    check(pure(call, CONDITION, closure, is_pure=False))


@clauses("RX-PURE-04", "RX-PURE-05")
def test_what_can_only_fail_is_pure():
    x, y, z = var("x", some()), var("y"), var("z")
    g = var("g", func(tensor(2), ret=tensor(2)))
    cast = R.MatchCast(y, x, tensor(2))
    expr = body(cast, bind(z, R.Call(g, (y,))), result=z, dataflow=True)
    assert check(R.Function((x, g), expr)).purity
    packed = find_op("relax.call_pure_packed").call("may.fail", x, sinfo_args=tensor(2))
    assert check(pure(packed, x)).purity


# -- packed functions ------------------------------------------------------------------------------
@clauses("RX-AUX-01", "RX-AUX-01a", "RX-AUX-01b", "RX-DER-15b")
def test_a_packed_function_returns_what_its_call_claims():
    assert isinstance(check(R.Call(LOG, ())), R.ObjectStructInfo)
    assert check(R.Call(LOG, (), (OBJECT,))) is OBJECT
    a, b = tensor(2), tensor(3)
    assert check(R.Call(LOG, (), (a,))) is a
    assert same(check(R.Call(LOG, (), (a, b))), R.TupleStructInfo((a, b)))


@clauses("RX-AUX-02", "RX-DER-15b")
def test_a_packed_function_may_have_its_own_way_to_derive():
    def opaque(derive: Any):
        return var("f", R.FuncStructInfo(None, tensor(9), derive_func=derive))

    f = opaque("empty_derive")
    assert isinstance(check(R.Call(f, (), (tensor(2),)), f), R.ObjectStructInfo)
    f = opaque(lambda call: tensor(len(call.args)))
    assert same(check(R.Call(f, (CONDITION,)), f, CONDITION), tensor(1))


# -- functions -------------------------------------------------------------------------------------
@clauses("RX-DER-16", "RX-DER-16b", "RX-DER-16d", "RX-DIM-02")
def test_a_function_is_known_by_its_signature():
    x = var("x", tensor(n, m))
    annotated = R.Function((x,), R.SeqExpr((), x), some(F32, 2))
    assert same(check(annotated), func(tensor(n, m), ret=some(F32, 2)))
    derived = R.Function((x,), R.SeqExpr((), x))
    assert same(check(derived), func(tensor(n, m), ret=tensor(n, m)))


@clauses("RX-DER-16c")
def test_a_result_is_checked_against_its_annotation():  # R20
    x = var("x", tensor(2))
    refused("RLX0214", R.Function((x,), R.SeqExpr((), x), tensor(3)))
    u = var("u", some(F32, 1))
    check(R.Function((u,), R.SeqExpr((), u), tensor(3)), warnings=["RLX0215"])
    o = var("o", OBJECT)
    refused("RLX0214", R.Function((o,), R.SeqExpr((), o), tensor(3)))


@clauses("RX-DER-16e")
def test_what_a_function_binds_ends_with_it():
    x = var("x", tensor(n))
    trial = Trial()
    trial.deriver.check(R.Function((x,), R.SeqExpr((), x)))
    assert not trial.deriver.scope.relax_vars
    assert not trial.deriver.scope.shape_vars


@clauses("RX-DER-01", "RX-DER-16a", "RX-PUR-03")
def test_a_function_of_the_module_is_known_before_its_body():
    x = var("x", tensor(n))
    made = R.Function((x,), R.SeqExpr((), x), tensor(n), is_pure=False)
    assert same(func_struct_info(made), func(tensor(n), ret=tensor(n), purity=False))
    bare = R.Function((var("x"),), R.SeqExpr((), x))
    assert same(func_struct_info(bare), func(OBJECT))


@clauses("RX-DER-17", "RX-DER-17a", "RX-DER-17b")
def test_a_prim_func_takes_tensors_and_scalars_and_returns_nothing():  # R15
    rows = tir.Var("rows", "int32")
    a = tir.decl_buffer((rows, rows * 2, n), "float16", name="A")
    handle, count, opaque = tir.Var("a", "handle"), tir.Var("c", "float32"), tir.Var("p", "handle")
    made = tir.PrimFunc(
        (handle, count, opaque), tir.Evaluate(tir.const(0, "int32")), buffer_map={handle: a}
    )
    found = func_struct_info(made)
    first = found.params[0]
    wide = first.dims[0]
    assert isinstance(wide, tir.Var)
    assert wide.dtype == "int64"
    assert first.dtype == "float16"
    assert same(first, tensor(wide, wide * 2, n, dtype="float16"))
    assert same(found.params[1], R.PrimStructInfo("float32"))
    assert isinstance(found.params[2], R.ObjectStructInfo)
    assert same(found.ret, UNIT)
    assert not found.purity


# -- size ------------------------------------------------------------------------------------------
def test_five_thousand_bindings_and_branches_are_no_trouble():
    x = var("x", tensor(n, 4))
    last, bindings = x, []
    for i in range(5000):
        new = var(f"v{i}")
        bindings.append(bind(new, R.Call(NEGATIVE, (last,))))
        last = new
    assert same(check(body(*bindings, result=last), x), tensor(n, 4))
    nested = x
    for _ in range(3000):
        nested = R.If(CONDITION, R.SeqExpr((), nested), x)
    assert same(check(nested, x, CONDITION), tensor(n, 4))


# -- laws ------------------------------------------------------------------------------------------
INFOS = st.sampled_from(
    [
        OBJECT,
        tensor(),
        tensor(2),
        tensor(3),
        tensor(2, dtype="bool"),
        tensor(dtype="bool"),
        some(),
        some(F32),
        some("bool", 0),
        some(F32, 1),
        some(ndim=2),
        R.ShapeStructInfo((2,)),
        R.ShapeStructInfo(),
        R.PrimStructInfo("bool"),
        R.PrimStructInfo("int64", tir.const(2, "int64")),
        R.TupleStructInfo(()),
        R.TupleStructInfo((tensor(2), some())),
    ]
)


def outcome(expr: Any, *params: Any):
    """Return the codes that an expression is met with."""
    trial = Trial()
    try:
        trial.check(expr, *params)
    except CompileError as error:
        return [d.code for d in error.diagnostics]
    return trial.codes


@given(INFOS, INFOS)
def test_arguments_results_and_annotations_are_judged_alike(
    given_: Any, wanted: Any
):  # R10, R19, R20
    fits = check_compatibility(given_, wanted).value
    x, y = var("x", given_), var("y", wanted)
    f = var("f", func(wanted))
    assert outcome(R.Call(f, (x,)), f, x) == [["RLX0210"], ["RLX0211"], []][fits]
    made = R.Function((x,), R.SeqExpr((), x), wanted)
    assert outcome(made) == [["RLX0214"], ["RLX0215"], []][fits]
    assert outcome(body(bind(y, x), result=y), x) == [["RLX0201"], ["RLX0202"], []][fits]


@given(INFOS)
def test_conditions_are_what_can_be_a_bool(info: Any):  # R23
    c = var("c", info)
    fits = [check_compatibility(info, b) for b in (tensor(dtype="bool"), R.PrimStructInfo("bool"))]
    possible = isinstance(info, R.ObjectStructInfo) or any(f.value for f in fits)
    assert outcome(R.If(c, CONDITION, CONDITION), c, CONDITION) == ([] if possible else ["RLX0205"])


@given(INFOS, INFOS)
def test_a_cast_warns_only_where_it_cannot_hold(given_: Any, wanted: Any):  # R11
    x, y = var("x", given_), var("y")
    overlap = check_compatibility(given_, wanted).value or check_compatibility(wanted, given_).value
    expr = body(R.MatchCast(y, x, wanted), result=y)
    assert outcome(expr, x) == ([] if overlap else ["RLX0203"])


# -- places ----------------------------------------------------------------------------------------
def test_a_mistake_is_placed_where_a_variable_is_used():
    text = """\
@R.function
def main(x: R.Tensor((3,), "float32"), y: R.Tensor((4,), "float32")):
    z = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((4,), "float32"))
    w = R.add(x, y)
    return w
"""
    module = "@I.ir_module\nclass M:\n" + "".join(
        f"    {line}\n" for line in (COPY + text).splitlines()
    )
    with pytest.raises(CompileError) as raised:
        from_source(module)
    first, *_ = raised.value.diagnostics
    assert first.code == "RLX0234"
    assert first.span.line == module[: module.index("R.call_tir")].count("\n") + 1
    ((bound, label),) = first.secondary
    assert label == "'x' is bound here"
    assert bound.line == module[: module.index("def main")].count("\n") + 1


COPY = """\
@T.prim_func
def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock():
            B[i] = A[i]
"""
