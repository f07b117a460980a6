"""What no executable is made of."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir import relax, te
from loomir.ir import GlobalVar, IRModule
from loomir.support.array import Array
from loomir.te import topi
from tests.clause import clauses


def _graph(symbol: str | None, result: relax.Var | None = None) -> relax.Function:
    attrs = {} if symbol is None else {"global_symbol": symbol}
    param = _tensor("t")
    return relax.Function((param,), relax.SeqExpr((), result or param), attrs=attrs)


def _tensor(name: str) -> relax.Var:
    return relax.Var(name, relax.TensorStructInfo((2,), "float32"))


@clauses("RX-WF-15", "RX-WF-16")
@pytest.mark.parametrize(("symbol", "code"), [(None, "RLX0112"), ("start", "RLX0113")])
def test_a_graph_without_a_way_in_is_checked_with_a_warning_and_not_built(
    symbol: str | None, code: str
) -> None:
    program = IRModule({GlobalVar("main"): _graph(symbol)})
    assert loomir.verify(program) == ()
    assert [d.code for d in loomir.warnings_of(program)] == [code]
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(program)
    assert [(d.code, d.severity) for d in caught.value.diagnostics] == [(code, "error")]


def test_all_mistakes_are_reported_together() -> None:
    program = IRModule({GlobalVar("main"): _graph("start"), GlobalVar("other"): _graph("begin")})
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(program)
    assert [d.code for d in caught.value.diagnostics] == ["RLX0113", "RLX0113"]


def test_a_function_by_itself_is_built_under_its_own_name() -> None:
    loomir.compile(_graph(None))


@clauses("RX-WF-02")
@pytest.mark.parametrize("by_itself", [True, False])
def test_a_variable_that_is_bound_nowhere_is_a_mistake_of_the_program(by_itself: bool) -> None:
    func = _graph("main", _tensor("x"))
    with pytest.raises(loomir.CompileError) as caught:
        loomir.compile(func if by_itself else IRModule({GlobalVar("main"): func}))
    assert [d.code for d in caught.value.diagnostics] == ["RLX0102"]


def test_loops_of_a_kernel_are_optimised_once() -> None:
    x = relax.Var("x", relax.TensorStructInfo((30, 40), "float32"))
    y = relax.Var("y", relax.TensorStructInfo((30, 40), "float32"))
    block = relax.BindingBlock([relax.VarBinding(y, relax.op.nn.relu(x))])
    graph = relax.Function((x,), relax.SeqExpr((block,), y), attrs={"global_symbol": "function"})
    # On a CPU with vectors of 512 bits 12 elements are a loop; on others they are two statements.
    made = loomir.compile(graph, "znver5", cache=False)
    lines = made.llvm_ir().splitlines()
    assert "noinline" in next(
        line for line in lines if line.startswith("define") and "relu.body" in line
    )


def test_work_of_threads_is_optimised_once() -> None:
    x = te.placeholder((1 << 20,), "float32", name="x")
    exe = loomir.compile(te.create_prim_func([x, topi.exp(x)]), cache=False)
    lines = exe.llvm_ir().splitlines()
    work = [line for line in lines if line.startswith("define") and ".par1(" in line]
    assert len(work) == 1
    assert "noinline" in work[0]


def test_other_weights_need_no_other_code() -> None:
    def model(value: float) -> relax.Function:
        x = relax.Var("x", relax.TensorStructInfo((3, 20000), "float32"))
        y = relax.Var("y", relax.TensorStructInfo((3, 20000), "float32"))
        weights = relax.Constant(Array(np.full((20000,), value, "float32")))
        block = relax.BindingBlock([relax.VarBinding(y, relax.op.multiply(x, weights))])
        body = relax.SeqExpr((block,), y)
        return relax.Function((x,), body, attrs={"global_symbol": "function"})

    ones = np.ones((3, 20000), "float32")
    programs = [loomir.compile(model(value), opt_level=0, cache=False) for value in (2.0, 3.0)]
    assert programs[0].llvm_ir() == programs[1].llvm_ir()
    for program, value in zip(programs, (2.0, 3.0), strict=True):
        assert (program["function"](ones) == value).all()
