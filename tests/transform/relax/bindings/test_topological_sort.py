"""Bindings of a dataflow block come in the order that was asked for."""

from __future__ import annotations

from typing import Any

import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from loomir.ir.visit import by_class
from loomir.relax import DataflowBlock, Function
from loomir.transform.relax import TopologicalSortOptions
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

TEXT = """
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            a1 = R.exp(x)
            b1 = R.exp(y)
            a2 = R.negative(a1)
            b2 = R.negative(b1)
            a3 = R.add(a2, a1)
            ab = R.add(a3, b2)
            R.output(ab)
        return ab
"""


def order(mod: IRModule) -> str:
    func = mod["main"]
    assert isinstance(func, Function)
    (block,) = by_class(func)[DataflowBlock]
    return " ".join(b.var.name_hint for b in block.bindings)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("depth-first", "from-inputs"), "a1 a2 a3 b1 b2 ab"),
        (("breadth-first", "from-inputs"), "a1 b1 a2 b2 a3 ab"),
        (("depth-first", "from-outputs"), "b1 b2 a1 a2 a3 ab"),
        (("breadth-first", "from-outputs"), "a1 b1 a2 b2 a3 ab"),
    ],
)
def test_the_order_is_that_asked_for(options: tuple[Any, Any], wanted: str):
    mod, chosen = module(TEXT), TopologicalSortOptions(*options)
    made = applied("TopologicalSort", mod, random(3), random(3), options=chosen)
    assert sorted(order(made).split()) == sorted(order(mod).split())
    assert order(made) == wanted
    assert apply(PASSES["relax.TopologicalSort"], made, chosen) is made


def test_nothing_passes_what_is_written_in_place():
    text = """
    @T.prim_func(private=True)
    def inc(a: T.Buffer((T.int64(3),), "float32")):
        for i in range(3):
            a[i] = a[i] + T.float32(1)
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Any:
        n = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.match_cast(R.negative(a), R.Tensor((n,), "float32"))
            s = R.zeros(R.shape([n]), "float32")
            c = R.call_tir_inplace(cls.inc, (a,), inplace_indices=[0], out_sinfo=R.Tensor((3,), "float32"))
            d = R.add(c, x)
            out = (b, d, s)
            R.output(out)
        return out
"""
    mod = module(text)
    for way in ("depth-first", "breadth-first"):
        for end in ("from-inputs", "from-outputs"):
            chosen = TopologicalSortOptions(way, end)
            made = applied("TopologicalSort", mod, random(3), options=chosen)
            assert order(made).split().index("c") == order(mod).split().index("c")


def test_many_bindings_are_sorted_at_once():
    lines = [f"            v{k + 1} = R.add(v{k}, v{k})" for k in range(2000)]
    body = "\n".join(["            v0 = R.exp(x)", *lines])
    text = f"""
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Any:
        with R.dataflow():
{body}
            R.output(v2000)
        return v2000
"""
    mod = module(text)
    assert apply(PASSES["relax.TopologicalSort"], mod) is mod


@pytest.mark.parametrize("given", [{"order": "deep"}, {"direction": "from-input"}])
def test_other_words_are_refused(given: dict[str, Any]):
    with pytest.raises(loomir.CompileError, match="for TopologicalSort") as caught:
        TopologicalSortOptions(**given)
    assert [d.code for d in caught.value.diagnostics] == ["RLX0331"]
