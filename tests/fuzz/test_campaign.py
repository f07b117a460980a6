"""Campaigns: that they find what is wrong, keep it, and make it small."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.campaign import LoopCampaign
from fuzz.processes import Worker
from fuzz.tir.engines import Outcome, Runner, difference, disagreement, inputs_of, reference, run_on
from fuzz.tir.generate import program_of_seed
from fuzz.tir.kinds import kinds_of
from fuzz.tir.program import ArraySpec, Program
from fuzz.tir.reduce import isolated, reduced
from fuzz.tir.worker import ROTATION
from loomir.interp import Interpreter
from loomir.ir.module import IRModule
from loomir.ir.visit import pre_order, rewrite
from loomir.runtime.errors import RunZeroDivisionError
from loomir.support.diagnostics import Diagnostic
from loomir.support.dtype import DataType, numpy_of
from loomir.tir import FloorDiv, Max, Min, PrimExpr, PrimFunc, Stmt, Sub

Node = Any


def swapped(module: IRModule, old: type, new: type) -> IRModule:
    """Return a module in which one operator is taken for another."""
    rule = {old: lambda node: new(node.a, node.b)}
    made = {var: rewrite(func, rule) for var, func in module.functions.items()}
    return IRModule(made)


@pytest.mark.parametrize(("old", "new"), [(Max, Min), (FloorDiv, Sub)])
def test_a_planted_mistake_is_found(old: type, new: type) -> None:
    tried = caught = 0
    for seed in range(60):
        program = program_of_seed(seed)
        if old.__name__ not in kinds_of(program.module) or program.may_fail:
            continue
        tried += 1
        inputs = inputs_of(program, seed)
        wanted = reference(program, program.module, inputs)
        wrong = swapped(program.module, old, new)
        caught += bool(difference(_interpreted, program, wrong, inputs, wanted))
    assert tried >= 20
    # Not all: an operator may stand where its result does not matter.
    assert caught >= tried // 3


def _interpreted(module: IRModule) -> dict[str, Runner]:
    return {"": lambda entry, args: Interpreter(module).call(entry, args, {})}


def example(dtype: str = "float32", tolerance: int = 0) -> Program:
    spec = ArraySpec("A", DataType(dtype), (3,), tolerance=tolerance)
    program = program_of_seed(1)
    return replace(program, arguments=[spec])


def outcome(*values: float, dtype: str = "float32", error: str = "") -> Outcome:
    return Outcome(error, None, [np.array(values, numpy_of(DataType(dtype)))])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_what_counts_as_the_same(dtype: str) -> None:
    program = example(dtype)
    func = program.module["main"]
    assert isinstance(func, PrimFunc)
    nan = float("nan")
    a = outcome(1.0, nan, -0.0, dtype=dtype)
    assert not disagreement(program, a, outcome(1.0, -nan, -0.0, dtype=dtype))
    assert "A[2]" in disagreement(program, a, outcome(1.0, nan, 0.0, dtype=dtype))
    assert "A[1]" in disagreement(program, a, outcome(1.0, 2.0, -0.0, dtype=dtype))
    near = float(np.nextafter(np.float32(1), np.float32(2))) if dtype == "float32" else 1.0 + 2**-7
    b = outcome(near, nan, -0.0, dtype=dtype)
    assert "A[0]" in disagreement(program, a, b)
    if dtype in ("float32", "bfloat16"):
        assert not disagreement(example(dtype, tolerance=4), a, b)
        far = outcome(1.5, nan, -0.0, dtype=dtype)
        assert "A[0]" in disagreement(example(dtype, tolerance=4), a, far)


def test_kinds_of_errors_are_compared() -> None:
    program = example()
    fine, bad = outcome(1, 2, 3), outcome(1, 2, 3, error="RUN0201")
    assert "error RUN0201 instead of none" in disagreement(program, fine, bad)
    assert "error none instead of RUN0201" in disagreement(program, bad, fine)
    assert not disagreement(program, bad, outcome(7, 7, 7, error="RUN0201"))


def test_errors_of_a_run_are_outcomes() -> None:
    def fails(entry: str, args: list[Any]) -> Any:
        raise RunZeroDivisionError(Diagnostic("RUN0201", "by zero"))

    program = program_of_seed(5)
    assert run_on(fails, program, inputs_of(program, 5)["equal"]).error == "RUN0201"


def test_a_campaign_in_processes_of_its_own(tmp_path: Path) -> None:
    seen: list[int] = []
    campaign = LoopCampaign(range(10, 22), [ROTATION], save=tmp_path)
    report = campaign.run(jobs=2, watch=lambda so_far: seen.append(so_far.count))
    assert report.failures == []
    assert report.count == report.kinds["PrimFunc"] == len(report.seconds) == 12
    assert report.resume == 22
    assert seen[-1] == 12
    assert "ms per program" in report.times()
    assert list(tmp_path.iterdir()) == []


ENDLESS = """
import fuzz.tir.worker
def answer(seed, engines):
    while True: pass
fuzz.tir.worker.answer = answer
fuzz.tir.worker.main()
"""


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import os; os.abort()", "status -6"),
        ("raise SystemExit('the reason')", "the reason"),
        ("import time; time.sleep(60)", "no answer in 0.5 seconds"),
        (ENDLESS, "in answer"),
    ],
    ids=["dies", "exits", "does not answer", "does not end"],
)
def test_a_process_that_dies_or_hangs_is_a_failure(code: str, what: str) -> None:
    slow = "sleep" in code or "while" in code
    worker = Worker(["native"], 0.5 if slow else 30.0, ("-c", code))
    worker.patience = 20.0 if "while" in code else 1.0
    try:
        for _ in range(2):
            assert what in worker.ask(1)["found"]["process"]
    finally:
        worker.close()


def test_two_processes_make_the_same_object() -> None:
    workers = LoopCampaign(range(0), ["digest"]).others()
    try:
        for seed in range(30, 34):
            first, second = (worker.ask(seed)["digest"] for worker in workers)
            assert first == second
            assert len(first) == 64
    finally:
        for worker in workers:
            worker.close()


def test_failures_are_kept_as_text(tmp_path: Path) -> None:
    path = LoopCampaign(range(0), []).keep(
        {"seed": 8, "found": {"native": "A[0] is 1 instead of 2"}}, tmp_path
    )
    text = path.read_text()
    assert text.startswith("# seed 8 of tirgen ")
    assert "# native: A[0] is 1 instead of 2" in text
    assert "# python -m fuzz.tir.reduce 8 --engine native" in text
    assert "@T.prim_func" in text


def test_a_failing_program_is_made_small() -> None:
    seed = next(s for s in range(50) if "Max" in kinds_of(program_of_seed(s).module))
    program = program_of_seed(seed)

    def fails(module: IRModule) -> bool:
        stores = [n for f in module.functions.values() for n in pre_order(f) if isinstance(n, Stmt)]
        return any(isinstance(n, Max) for s in stores for n in pre_order(s))

    small = reduced(program.module, fails)
    assert fails(small)
    size = sum(isinstance(n, (Stmt, PrimExpr)) for n in pre_order(small["main"]))
    whole = sum(isinstance(n, (Stmt, PrimExpr)) for n in pre_order(program.module["main"]))
    assert size < whole / 3
    func = small["main"]
    assert isinstance(func, PrimFunc)
    assert sum(isinstance(n, Max) for n in pre_order(func.body)) <= 1


def test_dying_counts_as_failing() -> None:
    assert isolated(lambda: True)
    assert not isolated(lambda: False)
    assert isolated(lambda: os.kill(os.getpid(), signal.SIGKILL) is None)
