"""Pages: what is on them, that nothing of a program becomes HTML, and that large ones are cut."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

import loomir
from loomir import relax
from loomir.display import render
from loomir.runtime.report.profile import KernelCall, Profile, Roof, Work
from loomir.script import from_source
from loomir.tir import PrimFunc

KERNEL = """
@T.prim_func
def mm(a: T.Buffer((128, "n"), "float32"), b: T.Buffer(("n", 64), "float32"),
       c: T.Buffer((128, 64), "float32"), s: T.float32):
    for i, j, k in T.grid(128, 64, a.shape[1]):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                c[vi, vj] = T.float32(0)
            c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj] * s
"""
NET = """
@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.add(b, x)
            R.output(c)
        return c
"""


def kernel(text: str = KERNEL) -> PrimFunc:
    made = from_source(text)
    assert isinstance(made, PrimFunc)
    return made


def text_of(page: str) -> str:
    """Return the text of a page, a space for each tag."""
    bare = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(bare).split())


def scheduled() -> loomir.Schedule:
    schedule = loomir.Schedule(kernel())
    i, _, _ = schedule.get_loops("C")
    outer, _ = schedule.split(i, [None, 4])
    schedule.parallel(outer)
    return schedule


def profile() -> Profile:
    calls = (
        KernelCall("slow", 0, 900_000, {}, Work(1000, 450_000_000, True)),
        KernelCall("fast", 900_000, 950_000, {}, None),
    )
    return Profile("main", calls, 0, 1_000_000, Roof(1e10, 1e12))


def test_a_kernel_shows_its_parameters_and_its_text():
    shown = text_of(render(kernel()))
    assert "a float32 (128, n)" in shown
    assert "c float32 (128, 64) written" in shown
    assert "s float32 scalar" in shown
    assert "vi, vj, vk = T.axis.remap(" in shown
    assert "b float32 (n, 64) written" not in shown


def test_a_schedule_shows_its_nest_and_its_trace():
    shown = text_of(render(scheduled()))
    assert "i_0 32 parallel i_1 4 j 64 k n C vi = i_0 * 4 + i_1 vj = j vk = k reduced" in shown
    assert "init c[vi, vj] = T.float32(0.0)" in shown
    assert "sch.parallel" in shown


def test_a_profile_shows_a_bar_for_each_kernel():
    page = render(profile())
    shown = text_of(page)
    assert "slow 1 900.0 µs 90.0% 50.0%" in shown
    assert "fast 1 50.0 µs 5.0%" in shown
    assert "outside of kernels 50.0 µs 5.0%" in shown
    assert re.findall(r'style="width:([\d.]+)%', page) == ["90.0", "50.0", "5.0", "5.0"]


def test_an_executable_shows_its_functions():
    shown = text_of(render(loomir.compile(kernel())))
    assert "mm loops a: float32 buffer, b: float32 buffer, c: float32 buffer (written)" in shown


def test_a_graph_shows_its_picture():
    module: Any = from_source(NET)
    for value in (module, module["main"]):
        page = render(value)
        boxes = re.findall(r'font-weight="600">([^<]*)</text>', page)
        assert boxes == ["x", "w", "matmul", "nn.relu", "add", "result"]
        assert page.count("<path ") == 6
        assert "(2, 8) float32" in page


def test_the_rules_of_a_notebook_are_outweighed():
    # JupyterLab: .jp-RenderedHTMLCommon :not(pre) > code { background-color: … }
    page = render(kernel())
    for element in ("code", "pre"):
        (rule,) = re.findall(rf"\n\.loomir\.loomir {element}\{{([^}}]*)\}}", page)
        assert "background:none" in rule


def test_values_show_themselves_by_their_pages():
    for value in (kernel(), from_source(NET), scheduled(), scheduled().trace, profile()):
        shown: Any = value
        assert shown._repr_html_() == render(value)


def test_random_variables_say_what_they_name():
    schedule = loomir.Schedule(kernel())
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    outer, inner = schedule.split(i, [None, 4])
    schedule.vectorize(inner)
    assert repr([block, outer, inner, k]) == (
        "[<block C>, <loop i_0, 32 times>, <loop i_1, 4 times, vectorized>, <loop k, n times>]"
    )
    assert repr(i) == "<loop that is gone>"
    del schedule
    assert repr(j) == "<loop that is gone>"  # a name keeps no schedule alive
    assert repr(loomir.schedule.LoopRV()) == "<loop of a trace>"


HOSTILE = "<img src=x onerror=alert(1)>&\"'"


def hostile_values() -> list[object]:
    text = KERNEL.replace('"C"', repr(HOSTILE)).replace(
        "    for i,", f"    T.func_attr({{'global_symbol': {HOSTILE!r}}})\n    for i,"
    )
    func = kernel(text)
    calls = (KernelCall(HOSTILE, 0, 9, {}, None),)
    net = NET.replace(
        "        with", f"        R.func_attr({{'global_symbol': {HOSTILE!r}}})\n        with"
    )
    graph: Any = from_source(net)
    x = relax.Var(HOSTILE, relax.TensorStructInfo((2,), "float32"))
    y = relax.Var(HOSTILE, relax.TensorStructInfo((2,), "float32"))
    own = relax.Function((x, y), relax.SeqExpr((), relax.Tuple((x, y))))
    return [
        func,
        loomir.Schedule(func),
        loomir.ir.IRModule({loomir.ir.GlobalVar(HOSTILE): func}),
        Profile(HOSTILE, calls, 0, 10, Roof(1.0, 1.0)),
        graph["main"],
        own,
    ]


@pytest.mark.parametrize("index", range(6))
def test_nothing_of_a_program_becomes_html(index: int):
    page = render(hostile_values()[index])
    assert "<img" not in page
    assert "<script" not in page
    assert "&lt;img src=x" in page


def test_a_large_program_is_cut_and_says_so():
    lines = "\n".join(f"    A[{n}] = T.float32({n})" for n in range(3000))
    text = f'@T.prim_func\ndef f(A: T.Buffer((3000,), "float32")):\n{lines}\n'
    func = kernel(text)
    page = render(func)
    assert len(page) < 150_000
    assert "more lines: print(program.script()) writes them all" in page
    nest = render(loomir.Schedule(func))
    assert nest.count("loomir-row") < 250
    assert "and more: print(schedule.mod.script()) writes them all" in nest


def test_a_large_graph_is_cut_and_says_so():
    body = "\n".join(f"    v{n + 1} = R.nn.relu(v{n})" for n in range(1000))
    text = f'@R.function\ndef f(v0: R.Tensor((4,), "float32")):\n{body}\n    return v1000\n'
    page = render(from_source(text))
    assert page.count("<rect ") == 150
    assert "and 851 more bindings" in page


def test_a_program_that_cannot_be_shown_falls_back_to_its_text():
    n = loomir.tir.Var("n", "int64")
    buffer = loomir.tir.decl_buffer((n * 2,), "float32", "A")
    handle = loomir.tir.Var("a", "handle")
    body = loomir.tir.Evaluate(loomir.tir.convert(0))
    func = PrimFunc((handle,), body, buffer_map={handle: buffer})  # nothing binds n
    shown: Any = func
    assert shown._repr_html_() is None
