"""Weights are got when they are needed, and results given away when they are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import relax
from loomir.ir.equality import assert_structural_equal
from loomir.ir.passes import PASSES, apply
from loomir.transform.relax import LazyTransformParamsOptions
from tests.transform.relax.constants.test_lift_transform_params import TEXT
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

BEFORE = """
    @R.function
    def transform_params(params: R.Tuple(R.Tensor((3, 4), "float32"), R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))) -> R.Any:
        w = params[0]
        b = params[1]
        with R.dataflow():
            wt = R.permute_dims(w)
            we = R.exp(wt)
            c = R.add(b, params[2])
            result = (b, we, c, we, R.prim_value(7))
            R.output(result)
        return result
"""

AFTER = """
    @R.function(pure=False)
    def transform_params() -> R.Tuple:
        w = R.match_cast(R.call_packed("get_item", R.prim_value(0)), R.Tensor((3, 4), "float32"))
        wt = R.permute_dims(w)
        we = R.exp(wt)
        _1 = R.call_packed("set_item", R.prim_value(1), we)
        _2 = R.call_packed("set_item", R.prim_value(3), we)
        b = R.match_cast(R.call_packed("get_item", R.prim_value(1)), R.Tensor((3,), "float32"))
        _3 = R.call_packed("set_item", R.prim_value(0), b)
        params_2 = R.match_cast(R.call_packed("get_item", R.prim_value(2)), R.Tensor((3,), "float32"))
        c = R.add(b, params_2)
        _4 = R.call_packed("set_item", R.prim_value(2), c)
        _5 = R.call_packed("set_item", R.prim_value(4), R.prim_value(7))
        return R.tuple()
"""


def keep(get: str, put: str, weights: list[Any]) -> tuple[list[str], dict[int, Any]]:
    """Register functions that keep weights and results; list what they did, and the results."""
    done: list[str] = []
    results: dict[int, Any] = {}

    def give(number: int) -> Any:
        done.append(f"get {number}")
        return weights[number]

    def take(number: int, value: Any) -> None:
        done.append(f"set {number}")
        results[number] = np.array(value)

    loomir.register_func(get, give, override=True)
    loomir.register_func(put, take, override=True)
    return done, results


def test_weights_come_and_results_go_one_by_one():
    made = applied("LazyTransformParams", module(BEFORE))
    assert_structural_equal(
        apply(PASSES["relax.Normalize"], made), apply(PASSES["relax.Normalize"], module(AFTER))
    )
    weights = [random(3, 4), random(3), random(3)]
    wanted: Any = loomir.interpret(module(BEFORE), "transform_params", tuple(weights))
    exe = loomir.compile(made, opt_level=0)
    for run in (exe["transform_params"], lambda: loomir.interpret(made, "transform_params")):
        done, results = keep("get_item", "set_item", weights)
        run()
        order = "get 0, set 1, set 3, get 1, set 0, get 2, set 2, set 4"
        assert ", ".join(done) == order
        for k, value in enumerate(wanted):
            np.testing.assert_allclose(results[k], value, rtol=1e-5)


@pytest.mark.parametrize(
    ("get", "put"), [("tests.get", None), (None, "tests.set"), ("tests.get", "tests.set")]
)
def test_what_lifting_makes_is_run_by_functions_of_any_name(get: str | None, put: str | None):
    lifted = apply(PASSES["relax.LiftTransformParams"], module(TEXT))
    options = LazyTransformParamsOptions(get, put)
    made = applied("LazyTransformParams", lifted, options=options)
    assert_structural_equal(made["main"], lifted["main"])
    weights = [random(3, 4), random(3)]
    done, results = keep("tests.get", "tests.set", weights)
    name = "main_transform_params"
    found: Any = loomir.interpret(made, name, *([tuple(weights)] if get is None else []))
    if put is not None:
        assert found == ()
        found = [results[0], results[1]]
    assert ("get 0" in done) is (get is not None)
    wanted: Any = loomir.interpret(lifted, name, tuple(weights))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_extra_arguments_stand_before_the_number():
    extra = relax.Var("store", relax.ObjectStructInfo())
    options = LazyTransformParamsOptions("tests.get", "tests.set", (extra,), (extra,))
    made = applied("LazyTransformParams", module(BEFORE), options=options)
    text = made.script()
    assert 'R.call_packed("tests.get", store, R.prim_value(0))' in text
    assert 'R.call_packed("tests.set", store, R.prim_value(1), we' in text
    assert apply(PASSES["relax.LazyTransformParams"], made, options) is made


def test_symbolic_weights_come_first():
    text = BEFORE.replace("3,)", '"n",)').replace("(3, 4)", '("n", 4)')
    made = applied("LazyTransformParams", module(text))
    weights = [random(2, 4), random(2), random(2)]
    done, results = keep("get_item", "set_item", weights)
    loomir.interpret(made, "transform_params")
    assert done[:2] == ["get 0", "get 1"]
    np.testing.assert_allclose(results[2], weights[1] + weights[2])


@pytest.mark.parametrize(
    "change",
    [
        ("R.prim_value(7)", "params"),
        ("(3, 4)", '("n + 1", 4)'),
        ("def transform_params", "def other"),
    ],
)
def test_what_cannot_be_split_stays(change: tuple[str, str]):
    text = BEFORE.replace(*change).replace("(3,)", '("n",)' if "n + 1" in change[1] else "(3,)")
    mod = module(text)
    assert apply(PASSES["relax.LazyTransformParams"], mod) is mod
