"""Functions are named as they are called from outside."""

from __future__ import annotations

import pytest

import loomir
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.passes import PASSES, apply
from loomir.relax import Function
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @T.prim_func(private=True)
    def halve(a: T.Buffer((T.int64(3),), "float32"), b: T.Buffer((T.int64(3),), "float32")):
        for i in range(3):
            b[i] = a[i] / T.float32(2)
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = cls.other(x)
        z = R.call_tir(cls.halve, (y,), R.Tensor((3,), "float32"))
        return z
    @R.function(private=True)
    def other(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.exp(x)
        return y
"""


def named(mod: IRModule, symbol: str) -> IRModule:
    """Return ``main`` another ``global_symbol``."""
    functions = dict(mod.functions)
    for var, func in mod.functions.items():
        if isinstance(func, Function) and "global_symbol" in func.attrs:
            functions[var] = Function(
                func.params, func.body, func.ret_struct_info, attrs={"global_symbol": symbol}
            )
    return mod.with_functions(functions)


@pytest.mark.parametrize("symbol", ["run", "other", "halve"])
def test_public_functions_get_their_names(symbol: str):
    before = module(TEXT)
    made = apply(PASSES["relax.NormalizeGlobalVar"], named(before, symbol))
    assert not loomir.verify(made)
    wanted = {"halve", "main", "other"} - {"main"} | {symbol}
    if symbol != "run":
        wanted.add(f"{symbol}_1")
    assert set(made) == wanted
    x = random(3)
    assert (loomir.interpret(made, symbol, x) == loomir.interpret(before, "main", x)).all()
    assert apply(PASSES["relax.NormalizeGlobalVar"], made) is made


def test_what_has_its_name_stays():
    mod = module(TEXT)
    assert applied("NormalizeGlobalVar", mod) is mod


def test_two_functions_of_one_name_are_refused():
    mod = module(TEXT)
    twice = mod.with_functions({**mod.functions, GlobalVar("again"): mod["main"]})
    with pytest.raises(loomir.CompileError, match="two functions have the global_symbol 'main'"):
        apply(PASSES["relax.NormalizeGlobalVar"], twice)
