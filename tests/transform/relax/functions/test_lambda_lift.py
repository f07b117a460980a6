"""Local functions become functions of the module."""

from __future__ import annotations

from typing import Any

import numpy as np

import loomir
from loomir.ir.equality import assert_structural_equal
from loomir.ir.visit import pre_order
from loomir.relax import Function
from tests.clause import clauses
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import flat, random

TEXT = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), k: R.Tensor((), "int64")) -> R.Any:
        n = T.int64()
        @R.function
        def plain(y: R.Tensor(("m", 4), "float32")) -> R.Tensor(("m", 4), "float32"):
            m = T.int64()
            z: R.Tensor((m, 4), "float32") = R.add(y, y)
            return z
        @R.function
        def taking(y: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
            z: R.Tensor((n, 4), "float32") = R.add(y, x)
            w = plain(z)
            return w
        @R.function
        def sized(y: R.Tensor((3,), "float32")) -> R.Tensor((n, 3), "float32"):
            z: R.Tensor((n, 3), "float32") = R.broadcast_to(y, R.shape([n, 3]))
            return z
        @R.function
        def power(i: R.Tensor((), "int64")) -> R.Tensor((n, 4), "float32"):
            c: R.Tensor((), "bool") = R.greater(i, R.const(0, "int64"))
            if c:
                j: R.Tensor((), "int64") = R.subtract(i, R.const(1, "int64"))
                p = power(j)
                r: R.Tensor((n, 4), "float32") = R.multiply(p, x)
            else:
                r: R.Tensor((n, 4), "float32") = taking(x)
            return r
        a = taking(x)
        b = sized(R.const([1.0, 2, 3], "float32"))
        d = power(k)
        return (a, b, d)
"""

LIFTED = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), k: R.Tensor((), "int64")) -> R.Any:
        n = T.int64()
        taking = R.make_closure(cls.lifted_taking, (x,))
        sized = R.make_closure(cls.lifted_sized, (R.shape([n]),))
        power = R.make_closure(cls.lifted_power, (x, taking))
        a = R.invoke_pure_closure(taking, (x,), sinfo_args=R.Tensor((n, 4), "float32"))
        b = R.invoke_pure_closure(sized, (R.const([1.0, 2, 3], "float32"),), sinfo_args=R.Tensor((n, 3), "float32"))
        d = R.invoke_pure_closure(power, (k,), sinfo_args=R.Tensor((n, 4), "float32"))
        return (a, b, d)
    @R.function(private=True)
    def lifted_plain(y: R.Tensor(("m", 4), "float32")) -> R.Tensor(("m", 4), "float32"):
        m = T.int64()
        z: R.Tensor((m, 4), "float32") = R.add(y, y)
        return z
    @R.function(private=True)
    def lifted_taking(y: R.Tensor(("n", 4), "float32"), x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        z: R.Tensor((n, 4), "float32") = R.add(y, x)
        w = cls.lifted_plain(z)
        return w
    @R.function(private=True)
    def lifted_sized(y: R.Tensor((3,), "float32"), sizes: R.Shape(["n"])) -> R.Tensor(("n", 3), "float32"):
        n = T.int64()
        z: R.Tensor((n, 3), "float32") = R.broadcast_to(y, R.shape([n, 3]))
        return z
    @R.function(private=True)
    def lifted_power(i: R.Tensor((), "int64"), x: R.Tensor(("n", 4), "float32"), taking: R.Callable((R.Tensor(("n", 4), "float32"),), R.Tensor(("n", 4), "float32"))) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        c: R.Tensor((), "bool") = R.greater(i, R.const(0, "int64"))
        if c:
            j: R.Tensor((), "int64") = R.subtract(i, R.const(1, "int64"))
            p = cls.lifted_power(j, x, taking)
            r: R.Tensor((n, 4), "float32") = R.multiply(p, x)
        else:
            r: R.Tensor((n, 4), "float32") = R.invoke_pure_closure(taking, (x,), sinfo_args=R.Tensor((n, 4), "float32"))
        return r
"""


def assert_lifted(text: str, *args: Any) -> loomir.IRModule:
    """Lift, and hold compiled code of the result to what the program means."""
    mod = module(text)
    made = applied("LambdaLift", mod, *args)
    for func in made.functions.values():
        assert sum(isinstance(part, Function) for part in pre_order(func)) == 1
    wanted = flat(loomir.interpret(mod, "main", *args))
    found = flat(loomir.compile(made, opt_level=0)["main"](*args))
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    return made


@clauses("RX-SURV-19", "RX-VALS-04", "RX-DIM-06")
def test_what_is_captured_is_passed():
    made = assert_lifted(TEXT, random(2, 4), np.array(3))
    assert_structural_equal(made, module(LIFTED))


def test_functions_in_functions_and_as_values():
    made = assert_lifted(
        """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Any:
        n = T.int64()
        @R.function
        def outer(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            @R.function
            def inner(z: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                s: R.Tensor((n,), "float32") = R.add(z, y)
                t: R.Tensor((n,), "float32") = R.multiply(s, x)
                return t
            r = inner(y)
            return r
        @R.function
        def other(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            r: R.Tensor((n,), "float32") = R.negative(y)
            return r
        if c:
            f = outer
        else:
            f = other
        g = (f, x)
        h = g[0]
        out: R.Tensor((n,), "float32") = h(x)
        return out
""",
        random(3),
        np.array(True),
    )
    names = list(made)
    assert names == ["main", "lifted_inner", "lifted_outer", "lifted_other"]


def test_one_that_passes_itself_on():
    assert_lifted(
        """
    @R.function
    def main(x: R.Tensor((2,), "float32"), k: R.Tensor((), "int64")) -> R.Any:
        @R.function
        def again(i: R.Tensor((), "int64")) -> R.Tensor((2,), "float32"):
            @R.function
            def less(j: R.Tensor((), "int64")) -> R.Tensor((2,), "float32"):
                m: R.Tensor((), "int64") = R.subtract(j, R.const(1, "int64"))
                p = again(m)
                r: R.Tensor((2,), "float32") = R.add(p, x)
                return r
            c: R.Tensor((), "bool") = R.greater(i, R.const(0, "int64"))
            if c:
                r: R.Tensor((2,), "float32") = less(i)
            else:
                r: R.Tensor((2,), "float32") = R.negative(x)
            return r
        out = again(k)
        return out
""",
        random(2),
        np.array(3),
    )


@clauses("RX-VALS-05")
def test_a_closure_with_effects_keeps_them():
    made = assert_lifted(
        """
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Any:
        @R.function(pure=False)
        def said(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.assert_op(R.const(True, "bool"))
            r: R.Tensor((2,), "float32") = R.add(y, x)
            return r
        out = said(x)
        return out
""",
        random(2),
    )
    assert "R.invoke_closure(" in made.script()


def test_without_local_functions_nothing_changes():
    mod = module(LIFTED)
    assert applied("LambdaLift", mod) is mod
