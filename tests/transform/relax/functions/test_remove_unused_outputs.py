"""Private functions return what their callers take."""

from __future__ import annotations

import pytest

from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Any:
        n = T.int64()
        t = cls.three(x)
        a: R.Tensor((n,), "float32") = t[0]
        c: R.Tensor((n,), "float32") = t[2]
        u = cls.two(x)
        b: R.Tensor((n,), "float32") = u[1]
        return (a, b, c)
    @R.function(private=True)
    def three(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")):
        n = T.int64()
        e: R.Tensor((n,), "float32") = R.exp(x)
        s: R.Tensor((n,), "float32") = R.sin(x)
        return (e, s, x)
    @R.function(private=True)
    def two(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")):
        n = T.int64()
        e: R.Tensor((n,), "float32") = R.exp(x)
        t = (x, e)
        return t
"""

EXPECTED = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Any:
        n = T.int64()
        t = cls.three(x)
        a: R.Tensor((n,), "float32") = t[0]
        c: R.Tensor((n,), "float32") = t[1]
        u = cls.two(x)
        b: R.Tensor((n,), "float32") = u
        return (a, b, c)
    @R.function(private=True)
    def three(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")):
        n = T.int64()
        e: R.Tensor((n,), "float32") = R.exp(x)
        s: R.Tensor((n,), "float32") = R.sin(x)
        return (e, x)
    @R.function(private=True)
    def two(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        e: R.Tensor((n,), "float32") = R.exp(x)
        t = (x, e)
        field: R.Tensor((n,), "float32") = t[1]
        return field
"""


def test_fields_that_nobody_takes_go():
    made = applied("RemoveUnusedOutputs", module(TEXT), random(3))
    assert_structural_equal(made, module(EXPECTED))


@pytest.mark.parametrize(
    "change",
    [
        ("return (a, b, c)", "return (t, u)"),
        (
            "u = cls.two(x)",
            "w = (t, x)\n        v = w[0]\n        u = cls.two(x)\n        q = u[0]",
        ),
        ("(private=True)", ""),
        ("u = cls.two(x)", "f = (cls.three, cls.two)\n        u = cls.two(x)"),
    ],
)
def test_others_stay(change: tuple[str, str]):
    mod = module(TEXT.replace(*change))
    assert applied("RemoveUnusedOutputs", mod, random(3)) is mod


def test_what_is_checked_at_the_end_stays():
    text = """
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Any:
        t = cls.both(x)
        a = t[0]
        return a
    @R.function(private=True)
    def both(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tuple(R.Tensor(ndim=1, dtype="float32"), R.Tensor((3,), "float32")):
        return (x, x)
"""
    mod = module(text)
    assert applied("RemoveUnusedOutputs", mod, random(3)) is mod


def test_a_function_of_which_nothing_is_taken_returns_nothing():
    text = TEXT.replace("(a, b, c)", "(a, c)").replace(
        'b: R.Tensor((n,), "float32") = u[1]', "b = x"
    )
    made = applied("RemoveUnusedOutputs", module(text), random(3))
    assert str(made["two"].ret_struct_info) == "R.Tuple()"  # type: ignore[attr-defined]
