"""The first NaN or infinity stops a graph, compiled and interpreted alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.runtime.packed.nan_check import check_nan
from loomir.script import from_source
from loomir.support.compile_warning import CompileWarning
from loomir.support.diagnostics import RunError
from loomir.transform.pipelines import CHECK_NAN
from tests.cli.test_commands import invoke

HEADER = "from loomir.script import ir as I, relax as R, tir as T\n"
TEXT = """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def halve(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        for i in range(2):
            B[i] = A[i] / T.float32(2)

    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.call_tir(cls.halve, (x,), R.Tensor((2,), "float32"))
            b = R.log(a)
            p = R.split(b, 2)
            c = R.exp(p[0])
            R.output(c)
        return c
"""
INF = np.float32(np.inf)


def engines() -> list[Any]:
    module = from_source(HEADER + TEXT)
    assert isinstance(module, IRModule)
    checked = CHECK_NAN.run(module)
    exe = loomir.compile(module, check_nan=True)
    return [exe["main"], lambda *args: loomir.interpret(checked, "main", *args)]


@pytest.mark.parametrize("number", [0, 1], ids=["compiled", "interpreted"])
def test_the_first_is_named(number: int):
    call = engines()[number]
    assert call(np.array([2, 4], "float32")) == pytest.approx([1])
    with pytest.raises(RunError) as caught:
        call(np.array([2, -4], "float32"))
    found = caught.value.diagnostic
    assert found.code == "RUN0481"
    assert found.message == "b[1] is nan: R.log computed it from inputs that have none"
    assert found.span is not None
    assert found.span.line == 14
    with pytest.raises(RunError, match=r"b\[0\] is -inf, and 1 more elements: R.log"):
        call(np.zeros(2, "float32"))


@pytest.mark.parametrize("number", [0, 1], ids=["compiled", "interpreted"])
def test_what_was_given_is_passed_on(number: int):
    call = engines()[number]
    assert np.isnan(call(np.array([np.nan, 4], "float32"))).all()
    assert np.isinf(call(np.array([np.inf, 4], "float32"))).all()


def test_results_stay_the_same_without_checks():
    exe = loomir.compile(from_source(HEADER + TEXT))
    assert np.isnan(exe["main"](np.array([-2, 4], "float32"))).all()
    assert "check_nan" not in exe.llvm_ir()


def test_an_infinity_may_become_a_nan_only_once():
    y = np.array([np.nan], "float32")
    with pytest.raises(RunError, match="y\\[0\\] is nan"):
        check_nan(y, "y", "k", np.array([INF]))
    assert check_nan(y, "y", "k", y) is y
    assert check_nan(np.array([INF]), "y", "k", y)[0] == INF


def test_tuples_and_what_is_no_float_are_looked_at():
    value = (np.arange(3), (np.float32(1), np.array([1, np.nan])))
    with pytest.raises(RunError, match=r"p\[1\]\[1\]\[1\] is nan"):
        check_nan(value, "p", "k")
    assert check_nan(loomir.Shape([3]), "s", "k") == loomir.Shape([3])


def test_nan_on_the_command_line(tmp_path: Path):
    path = tmp_path / "file.py"
    path.write_text(HEADER + TEXT)
    status, output = invoke("run", str(path), "--nan")
    assert status == 1
    assert "RUN0481" in output
    assert "R.log computed it" in output


def test_a_program_without_a_graph_is_told_that_nothing_is_checked():
    loops = from_source(
        """
@T.prim_func
def main(x: T.Buffer((4,), "float32")):
    x[0] = T.float32(1)
"""
    )
    with pytest.warns(CompileWarning, match="RUN0482"):
        loomir.compile(loops, check_nan=True)
