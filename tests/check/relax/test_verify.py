"""The check of programs of both IRs."""

from __future__ import annotations

from typing import Any

import pytest

import loomir
from loomir import te
from loomir.relax import (
    Call,
    ExternFunc,
    Function,
    GlobalVar,
    ObjectStructInfo,
    PrimValue,
    ShapeExpr,
    TensorStructInfo,
    Var,
)
from loomir.relax.normal.normalize import normalize
from loomir.support.diagnostics import CompileError
from loomir.tir import Evaluate, PrimFunc
from loomir.tir import Var as ShapeVar
from loomir.tir.types import VOID_TYPE
from tests.clause import clauses
from tests.relax.programs import block, flow, func, let, lv, module, neg, op, seq, tensor, var

X = var("x", 2)


def codes(program: Any) -> list[str]:
    found = loomir.verify(program)
    assert all(d.severity == "error" and d.help for d in found)
    return [d.code for d in found]


def kernel() -> PrimFunc:
    a = te.placeholder((2,), name="A")
    return te.create_prim_func([a, te.compute((2,), lambda i: -a[i], name="B")], name="kernel")


def wrong_kernel() -> PrimFunc:
    return PrimFunc((), Evaluate(ShapeVar("q", "int32")), VOID_TYPE)


def right(name: str = "main"):
    x, y = var("x", 2), var("y", 2)
    return func([x], seq([block(let(y, neg(x)))], y), tensor(2), attrs={"global_symbol": name})


def test_programs_that_are_right_have_no_mistakes():
    assert codes(right()) == []
    assert codes(kernel()) == []
    assert codes(module(main=right(), kernel=kernel())) == []
    assert loomir.warnings_of(module(main=right())) == ()
    assert loomir.warnings_of(kernel()) == ()


def test_mistakes_of_both_kinds_of_functions_are_listed():
    x, y = var("x", 2), var("y", 3)
    wrong = func([x], seq([block(let(y, neg(x)))], y))
    assert codes(module(main=wrong, kernel=wrong_kernel())) == ["TIR0401", "RLX0201"]


def test_rules_of_well_formedness_come_first():
    x, y = var("x", 2), var("y", 3)
    wrong = func([x], seq([block(let(y, neg(x)))], var("z", 2)))
    assert codes(wrong) == ["RLX0102"]


def test_every_binding_is_derived_though_one_is_refused():
    x = var("x", 2)
    a, b, c, d = Var("a"), var("b", 3), Var("c"), Var("d")
    f = Var("f")
    y, z = var("y", 2), var("z", 5)
    inner = Function((y,), seq([block(let(z, neg(y)))], z), tensor(4))
    body = seq(
        [
            flow(),
            block(
                let(a, neg(ShapeExpr((2,)))),
                let(b, neg(x)),
                let(c, neg(a)),
                let(f, inner),
                let(d, Call(f, (x,))),
            ),
        ],
        d,
    )
    assert codes(func([x], body)) == ["OPS0004", "RLX0201", "RLX0201", "RLX0214"]


def test_results_are_checked_against_their_annotations():
    x = var("x", 2)
    assert codes(func([x], seq([], x), tensor(3))) == ["RLX0214"]


@clauses("RX-WF-10")
def test_purity_is_checked():
    x = var("x", 2)
    call = Call(ExternFunc("f"), (x,), (tensor(2),))
    assert codes(func([x], seq([block(let(Var("y"), call))], x))) == ["RLX0212"]
    y = lv("y", 2)
    assert codes(func([x], seq([flow(let(y, call))], x), is_pure=False)) == ["RLX0213"]
    assert codes(func([x], seq([block(let(Var("y"), call))], x), is_pure=False)) == []


def test_a_function_outside_of_a_module_may_call_itself():
    x, y = var("x", 2), var("y", 2)
    call = Call(GlobalVar("main"), (x,))
    assert codes(func([x], seq([block(let(y, call))], y), tensor(2))) == []
    call = Call(GlobalVar("other"), (x,))
    assert codes(func([x], seq([block(let(y, call))], y))) == ["RLX0102"]


def test_warnings_tell_what_is_checked_when_it_runs():
    x, y = Var("x", TensorStructInfo(None, "float32", ndim=1)), var("y", 2)
    given = module(
        main=func([x], seq([block(let(y, neg(x)))], y), attrs={"global_symbol": "start"})
    )
    assert codes(given) == []
    assert [d.code for d in loomir.warnings_of(given)] == ["RLX0113", "RLX0202"]


def test_programs_that_are_not_in_normal_form_are_checked():
    x = var("x", 2)
    assert codes(func([x], neg(neg(x)), tensor(2))) == []
    assert codes(func([x], neg(neg(x)), tensor(3))) == ["RLX0214"]


def test_checking_leaves_the_program_as_it_is():
    given = right()
    loomir.verify(given)
    assert codes(given) == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: Call(op("add"), (X,)), "OPS0001"),
        (lambda: Call(op("add"), (X, X, X)), "OPS0001"),
        (lambda: Call(op("reshape"), (X,)), "OPS0001"),
        (lambda: Call(op("eye"), (PrimValue(2), PrimValue(2)), (), {"dtype": X}), "OPS0001"),
        (lambda: Call(op("negative"), (X,), (), {"axis": 1}), "OPS0001"),
        (lambda: Call(op("flip"), (X,)), "OPS0001"),
        (lambda: Call(op("flip"), (X,), (), {"axis": "a"}), "OPS0002"),
        (lambda: Call(op("astype"), (X,), (), {"dtype": 3}), "OPS0002"),
    ],
)
def test_calls_made_by_hand_have_what_their_operator_takes(call: Any, code: str):
    made = func([X], seq([block(let(Var("y", ObjectStructInfo()), call()))], X))
    assert code in {d.code for d in loomir.verify(made)}
    with pytest.raises(CompileError):
        normalize(made)
