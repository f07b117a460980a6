"""Kernels write over operands that are dead, and over nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.equality import assert_structural_equal
from loomir.ir.module import IRModule
from loomir.ir.visit import pre_order
from loomir.relax import Call, Function
from tests.clause import clauses
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import flat, random

KERNELS = """
    @T.prim_func(private=True)
    def twice(a: T.handle, out: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(out, (n, 4), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
    @T.prim_func(private=True)
    def plus(a: T.handle, b: T.handle, out: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4), "float32")
        C = T.match_buffer(out, (n, 4), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("plus"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vi, vj]
    @T.prim_func(private=True)
    def back(a: T.handle, out: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(out, (n, 4), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("back"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, T.int64(3) - vj]
    @T.prim_func(private=True)
    def rows(a: T.Buffer((T.int64(1), T.int64(4)), "float32"), out: T.handle):
        n = T.int64()
        B = T.match_buffer(out, (n, 4), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("rows"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = a[T.int64(0), vj]
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Any:
        n = T.int64()
"""
OUT = 'R.Tensor((n, 4), "float32")'


def graph(*lines: str, result: str = "z") -> IRModule:
    """Read kernels and a dataflow block; ``K(k, a)`` stands for a call of a kernel."""
    body = ["with R.dataflow():", *("    " + line for line in lines), f"    R.output({result})"]
    body.append(f"return {result}")
    text = KERNELS + "".join(f"        {line}\n" for line in body)
    for name in ("twice", "plus", "back", "rows"):
        text = text.replace(f"{name}!(", f"R.call_tir(cls.{name}, (").replace(")!", f"), {OUT})")
    return module(text)


def called(mod: IRModule) -> list[str]:
    func = mod["main"]
    assert isinstance(func, Function)
    found = [p for p in pre_order(func) if isinstance(p, Call) and "call_tir" in str(p.op)]
    return [f"{c.args[0].name_hint}{list(c.attrs.values())}" for c in found]  # type: ignore[union-attr]


@clauses("RX-OPS-02")
def test_an_operand_that_is_dead_is_written_over():
    mod = graph("a = twice!(x,)!", "b = twice!(x,)!", "z = plus!(a, b)!")
    made = applied("DataflowUseInplaceCalls", mod, random(3, 4))
    assert called(made) == ["twice[]", "twice[]", "plus_inplace[(0,)]"]
    wanted = module(
        KERNELS.split("    @R.function")[0]
        + """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Any:
        n = T.int64()
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), R.Tensor((n, 4), "float32"))
            b = R.call_tir(cls.twice, (x,), R.Tensor((n, 4), "float32"))
            z = R.call_tir_inplace(cls.plus_inplace, (a, b), inplace_indices=[0], out_sinfo=R.Tensor((n, 4), "float32"))
            R.output(z)
        return z
    @T.prim_func(private=True)
    def plus_inplace(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("plus"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] + B[vi, vj]
"""
    )
    assert_structural_equal(made, wanted)


def test_a_chain_has_one_tensor():
    mod = graph("a = twice!(x,)!", "b = twice!(a,)!", "c = plus!(x, b)!", "z = twice!(c,)!")
    made = applied("DataflowUseInplaceCalls", mod, random(3, 4))
    assert called(made)[1:] == ["twice_inplace[(0,)]", "plus_inplace[(1,)]", "twice_inplace[(0,)]"]
    np.testing.assert_array_equal(
        loomir.compile(mod, opt_level=0)["main"](random(3, 4)),
        loomir.interpret(mod, "main", random(3, 4)),
    )


STAYS = {
    "a parameter": ("z = twice!(x,)!",),
    "a constant": ('a = R.const([[1.0, 2, 3, 4]], "float32")', "z = rows!(a,)!"),
    "used later": ("a = twice!(x,)!", "b = twice!(a,)!", "z = plus!(b, a)!"),
    "used later under another name": (
        "a = twice!(x,)!",
        "c = a",
        "b = back!(a,)!",
        "d = back!(c,)!",
        "z = (b, d)",
    ),
    "in a tuple that lives on": ("a = twice!(x,)!", "t = (a, x)", "b = twice!(a,)!", "z = (t, b)"),
    "given twice": ("a = twice!(x,)!", "z = plus!(a, a)!"),
    "given in a tuple's field": ("a = twice!(x,)!", "t = (a, x)", "c = t[0]", "z = plus!(a, c)!"),
    "read at other places": ("a = twice!(x,)!", "z = back!(a,)!"),
    "what may be kept": (
        "a = twice!(x,)!",
        'c = R.call_pure_packed("tests.kept", a, sinfo_args=R.Tensor((n, 4), "float32"))',
        "b = twice!(a,)!",
        "z = (b, c)",
    ),
    "returned": ("a = twice!(x,)!", "b = twice!(a,)!", "z = (a, b)"),
}


@pytest.mark.parametrize("why", STAYS)
def test_others_stay(why: str):
    loomir.register_func("tests.kept", lambda a: a, override=True)
    mod = graph(*STAYS[why])
    made = applied("DataflowUseInplaceCalls", mod, random(3, 4))
    if why == "used later":  # the last one may write over what the second made
        assert called(made) == ["twice[]", "twice[]", "plus_inplace[(0,)]"]
    else:
        assert made is mod


def test_other_extents_stay():
    mod = graph(
        'a = R.call_tir(cls.twice, (x,), R.Tensor((n, 4), "float32"))',
        'b = R.match_cast(a, R.Tensor((1, 4), "float32"))',
        'z = R.call_tir(cls.rows, (b,), R.Tensor((n, 4), "float32"))',
    )
    assert applied("DataflowUseInplaceCalls", mod, random(1, 4)) is mod


def test_blocks_of_effects_stay():
    text = (
        KERNELS
        + """
        a = R.call_tir(cls.twice, (x,), R.Tensor((n, 4), "float32"))
        z = R.call_tir(cls.twice, (a,), R.Tensor((n, 4), "float32"))
        return z
"""
    )
    mod = module(text)
    assert applied("DataflowUseInplaceCalls", mod, random(2, 4)) is mod


def test_branches_and_closures_have_tensors_of_their_own():
    lines = """
        @R.function
        def inner(y: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
            with R.dataflow():
                a = R.call_tir(cls.twice, (y,), R.Tensor((n, 4), "float32"))
                z = R.call_tir(cls.twice, (a,), R.Tensor((n, 4), "float32"))
                R.output(z)
            return z
        with R.dataflow():
            c = R.call_tir(cls.twice, (x,), R.Tensor((n, 4), "float32"))
            R.output(c)
        if n > 2:
            with R.dataflow():
                p = R.call_tir(cls.plus, (c, c), R.Tensor((n, 4), "float32"))
                q = R.call_tir(cls.plus, (p, c), R.Tensor((n, 4), "float32"))
                R.output(q)
            r = q
        else:
            r = inner(c)
        return (c, r)
"""
    mod = module(KERNELS + lines.replace("if n > 2", "if R.prim_value(n > 2)"))
    for rows in (1, 3):
        made = applied("DataflowUseInplaceCalls", mod, random(rows, 4))
    names = called(made)
    assert names.count("twice_inplace[(0,)]") == 1
    assert names.count("plus_inplace[(0,)]") == 1
    exe = loomir.compile(mod, opt_level=0)
    for rows in (1, 3):
        x = random(rows, 4)
        found: list[Any] = flat(exe["main"](x))
        for a, b in zip(found, flat(loomir.interpret(mod, "main", x)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("yes", "no", "taken"),
    [("a", "x", "z"), ("(a, x)", "(x, a)", "z[0]"), ("a", "R.const([[1.0, 1, 1, 1]])", "z")],
    ids=["an argument", "a field", "a constant"],
)
def test_what_a_branch_may_give_stays(yes: str, no: str, taken: str):
    lines = f"""
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), R.Tensor((n, 4), "float32"))
            R.output(a)
        if R.prim_value(n > 1):
            z = {yes}
        else:
            z = {no}
        t = {taken}
        u = R.match_cast(t, R.Tensor((n, 4), "float32"))
        with R.dataflow():
            r = R.call_tir(cls.twice, (u,), R.Tensor((n, 4), "float32"))
            R.output(r)
        return r
"""
    mod = module(KERNELS + lines)
    assert applied("DataflowUseInplaceCalls", mod, random(1, 4)) is mod
    x = random(1, 4)
    found = loomir.compile(mod, opt_level=0)["main"](x)
    np.testing.assert_array_equal(found, loomir.interpret(mod, "main", random(1, 4)))
    np.testing.assert_array_equal(x, random(1, 4))


def test_the_plan_of_memory_takes_half():
    lines = ["z0 = twice!(x,)!", *(f"z{k + 1} = plus!(x, z{k})!" for k in range(4))]
    mod = graph(*lines, "z = back!(z4,)!")
    planned = applied(
        "StaticPlanBlockMemory", applied("DataflowUseInplaceCalls", mod), random(2, 4)
    )
    assert "alloc_storage(R.shape([(n + 3) // 4 * 64])" in planned.script()
    assert planned.script().count("memory.alloc_tensor") == 1
