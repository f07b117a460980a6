"""Normal form of whole programs."""

from __future__ import annotations

from typing import Any

import pytest

from loomir.ir.equality import structural_equal
from loomir.ir.passes import FACTS
from loomir.relax import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    ShapeStructInfo,
    StringImm,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.normal.normalize import normal_form_violations, normalize
from loomir.relax.struct_info import OBJECT
from loomir.support.diagnostics import CompileError
from loomir.transform.relax.bindings.normalize import normalize as normalize_pass
from tests.clause import clauses
from tests.growth import assert_grows
from tests.relax.programs import (
    bindings_of,
    block,
    dim,
    flow,
    func,
    let,
    lv,
    module,
    neg,
    op,
    seq,
    tensor,
    values_of,
    var,
)


def codes(program: Any) -> list[str]:
    """List what is not normal, but that functions here leave out what they return."""
    found = [d.code for d in normal_form_violations(program)]
    return [code for code in found if code != "RLX0316"]


def normal(program: Any):
    """Normalise, and hold the result to the criteria and to be a fixed point."""
    made = normalize(program)
    assert normal_form_violations(made) == ()
    assert normalize(made) is made
    return made


@clauses("RX-NF-01", "RX-NF-03", "RX-NF-04")
def test_a_body_becomes_a_sequence():
    x = var("x", 2)
    given = func([x], neg(neg(x)))
    assert codes(given) == ["RLX0313"]
    made = normal(given)
    assert isinstance(made.body, SeqExpr)
    assert len(bindings_of(made)) == 2
    assert made.attrs == given.attrs


def test_what_is_in_normal_form_comes_back_itself():
    x, y = var("x", 2), var("y", 2)
    given = func([x], seq([block(let(y, neg(x)))], y), tensor(2))
    assert normal_form_violations(given) == ()
    assert normalize(given) is given
    mod = module(main=given)
    assert normalize(mod) is mod
    assert normalize_pass(mod) is mod
    assert list(FACTS["relax_normal_form"](mod)) == []


@clauses("RX-NF-02", "RX-NF-02b")
@pytest.mark.parametrize(
    "nested",
    [
        lambda x: neg(neg(x)),
        lambda x: TupleGetItem(Tuple((neg(x), x)), 0),
        lambda x: Tuple((x, (Tuple((neg(x),))))),
        lambda x: Call(Function((), seq([], x)), ()),
        lambda x: Tuple((ExternFunc("f"),)),
        lambda x: Tuple((If(Var("c", TensorStructInfo((), "bool")), x, x), x)),
    ],
)
def test_nested_expressions_are_bound(nested: Any):
    x = var("x", 2)
    given = func([x], seq([block(let(Var("y"), nested(x)))], x))
    assert "RLX0311" in codes(given)
    normal(given)


@clauses("RX-NF-02a")
def test_all_leaves_may_be_nested():
    x = var("x", 2)
    d = lv("d", 2)
    leaves = (
        x,
        d,
        GlobalVar("main"),
        Constant(1.0),
        ShapeExpr((2,)),
        PrimValue(1),
        StringImm("s"),
        DataTypeImm("int8"),
        Tuple((x,)),
    )
    given = func([x], seq([flow(let(d, x), let(DataflowVar("t"), Tuple(leaves)))], x))
    assert "RLX0311" not in codes(given)


@clauses("RX-NF-03", "RX-NF-08")
def test_a_sequence_that_is_a_value_is_flattened():
    x, y, z = var("x", 2), var("y", 2), var("z", 2)
    given = func([x], seq([block(let(z, seq([flow(let(y, neg(x)))], neg(y))))], z))
    assert codes(given) == ["RLX0312", "RLX0313"]
    made = normal(given)
    assert [type(b) for b in made.body.blocks] == [DataflowBlock, BindingBlock]
    assert [b.var for b in bindings_of(made)] == [y, z]


@clauses("RX-NF-04")
def test_results_that_are_no_leaves_are_bound():
    x = var("x", 2)
    given = func([x], seq([], neg(x)))
    assert codes(given) == ["RLX0313"]
    assert isinstance(normal(given).body.body, Var)


@clauses("RX-NF-05", "RX-NF-05a", "RX-NF-05b", "RX-NF-05c")
def test_blocks_are_consolidated():
    x = var("x", 2)
    a, b, c, d = (var(n, 2) for n in "abcd")
    given = func(
        [x],
        seq(
            [
                block(),
                flow(let(a, neg(x))),
                flow(),
                flow(let(b, neg(a))),
                block(let(c, neg(b))),
                block(let(d, neg(c))),
            ],
            d,
        ),
    )
    assert codes(given) == ["RLX0314"] * 4
    made = normal(given)
    assert [(type(b), len(b.bindings)) for b in made.body.blocks] == [
        (DataflowBlock, 2),
        (BindingBlock, 2),
    ]
    empty = normal(func([x], seq([block(), flow()], x)))
    assert empty.body.blocks == ()


@clauses("RX-NF-09")
def test_an_ordinary_block_in_a_dataflow_block_is_malformed():
    x, y, z = var("x", 2), var("y", 2), var("z", 2)
    given = func([x], seq([flow(let(z, seq([block(let(y, neg(x)))], y)))], z))
    with pytest.raises(CompileError) as caught:
        normalize(given)
    assert caught.value.diagnostic.code == "RLX0301"


@clauses("RX-NF-06", "RX-NF-10", "RX-WF-26")
def test_calls_are_made_as_their_operators_want_them():
    x = var("x", 2, 3)
    call = Call(op("reshape"), (x, ShapeExpr((3, -1))))
    given = func([x], seq([block(let(Var("y"), call))], x))
    assert "RLX0315" in codes(given)
    (value,) = values_of(normal(given))
    assert structural_equal(value.args[1], ShapeExpr((3, 2)))


def test_variables_get_annotations():
    n = dim()
    x, y = Var("x"), Var("y")
    p = var("p", n)
    given = func([x, p], seq([block(let(y, neg(p)))], Tuple((x, y))))
    assert codes(given) == ["RLX0003", "RLX0003"]
    made = normal(given)
    assert isinstance(made.params[0].struct_info, type(OBJECT))
    assert structural_equal(bindings_of(made)[0].var.struct_info, tensor(n))
    assert made.body.body.fields == (made.params[0], bindings_of(made)[0].var)


@clauses("RX-SIS-01")
def test_functions_tell_what_they_return():
    n, x, y = dim(), Var("x", OBJECT), Var("y")
    a, f = var("a", n), Var("f")
    inner = Function((a,), seq([], neg(a)))
    given = func([x], seq([block(MatchCast(y, x, tensor(n)), let(f, inner))], neg(y)))
    assert [d.code for d in normal_form_violations(given)].count("RLX0316") == 2
    made = normal(given)
    closure = bindings_of(made)[1].value
    assert structural_equal(closure.ret_struct_info, tensor(n))
    # The variable is bound inside, so callers learn only the rank.
    assert structural_equal(made.ret_struct_info, TensorStructInfo(None, "float32", ndim=1))


def test_annotations_in_terms_of_replaced_variables_follow():
    x, s = var("x", 2), Var("s")
    known = Var("k", ShapeStructInfo((2,)))
    y = Var("y", TensorStructInfo(known, "float32"))
    given = func([x], seq([block(let(s, ShapeExpr((2,))), let(known, s), let(y, neg(x)))], y))
    made = normal(given)
    assert bindings_of(made)[2].var is y


@clauses("RX-SIS-03")
def test_an_annotation_that_may_not_hold_is_checked():
    x = Var("x", TensorStructInfo(None, "float32", ndim=1))
    y = var("y", 2)
    warnings = []
    given = func([x], seq([block(let(y, neg(x)))], y))
    made = normalize(given, warnings)
    assert [type(b) for b in bindings_of(made)] == [VarBinding, MatchCast]
    assert [d.code for d in warnings] == ["RLX0202"]
    assert normal(made) is made


def test_recursive_functions_are_known_in_their_own_bodies():
    x, y, f = var("x", 2), var("y", 2), Var("f")
    inner = Function((y,), seq([], Call(f, (y,))), tensor(2))
    given = func([x], seq([block(let(f, inner), let(Var("z"), Call(f, (x,))))], x))
    made = normal(given)
    first, second = bindings_of(made)
    assert first.value.body.blocks[0].bindings[0].value.op is first.var
    assert structural_equal(second.var.struct_info, tensor(2))


def test_functions_of_the_module_may_call_one_another():
    x, y = var("x", 2), var("y", 2)
    mod = module(
        main=func([x], Call(GlobalVar("other"), (x,)), tensor(2)),
        other=func([y], Call(GlobalVar("main"), (y,)), tensor(2), attrs={}),
    )
    made = normal(mod)
    assert list(made) == ["main", "other"]


def test_the_mistakes_of_all_functions_are_told():
    x = var("x", 2)
    mod = module(
        main=func([x], Call(GlobalVar("none"), (x,))), other=func([x], neg(ShapeExpr((2,))))
    )
    with pytest.raises(CompileError) as caught:
        normalize(mod)
    assert [d.code for d in caught.value.diagnostics] == ["RLX0307", "OPS0004"]


def test_what_is_known_of_values_leaving_a_branch_is_in_scope():
    n = dim()
    c, x = var("c", dtype="bool"), Var("x", TensorStructInfo(None, "float32", ndim=1))
    y = var("y", n)
    cast = MatchCast(y, x, tensor(n))
    given = func([c, x], If(c, seq([block(cast)], y), x))
    made = normal(given)
    info = bindings_of(made)[0].var.struct_info
    assert structural_equal(info, TensorStructInfo(None, "float32", ndim=1))


def test_meaning_is_kept_in_the_order_of_evaluation():
    x = var("x", 2)
    effect = lambda name: Call(ExternFunc(name), (x,), (tensor(2),))  # noqa: E731
    nested = Tuple((effect("a"), Tuple((effect("b"), neg(effect("c")))), effect("d")))
    made = normal(func([x], nested, is_pure=False))
    called = [v.op.global_symbol for v in values_of(made) if isinstance(v.op, ExternFunc)]
    assert called == ["a", "b", "c", "d"]


def test_long_programs_are_normalised_in_linear_time():
    def normalising(count: Any):
        x = var("x", 2)
        at, bindings = x, []
        for k in range(count):
            v = Var(f"v{k}")
            bindings.append(let(v, neg(neg(at))))
            at = v
        given = func([x], seq([block(*bindings)], at))
        return lambda: normalize(given)

    assert_grows(9, normalising, 2_000, 8_000)
