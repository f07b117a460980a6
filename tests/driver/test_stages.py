"""Compiling is one tuple of stages, by which it runs, is dumped, is measured and is bisected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.debug import bisection
from loomir.driver import stages
from loomir.driver.compilation import Compilation
from loomir.driver.stages import STAGES, CompileStage, run_stages
from loomir.ir.module import IRModule
from loomir.ir.stage_files import StageFiles
from loomir.ir.trust import mark_untrusted
from loomir.ir.visit import rewrite
from loomir.runtime.compile_options import CompileOptions
from loomir.script import relax as R
from loomir.script import tir as T
from loomir.support.diagnostics import CompileError
from loomir.tir import Add, Sub

NAMES = [stage.name for stage in STAGES]
OF_GRAPHS = [
    "start LLVM",
    "optimise the graph",
    "transform convolutions",
    "check for NaN",
    "lower the graph",
]
ASKED_FOR = ["compare schedules", "start LLVM", "transform convolutions", "check for NaN"]


@T.prim_func
def twice(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for i in range(64):
        y[i] = x[i] + x[i]


@R.function
def product(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32")):
    with R.dataflow():
        y = R.add(R.matmul(x, w), x)
        R.output(y)
    return y


def stages_of(program: Any, **options: Any) -> list[str]:
    return list(loomir.compile(program, cache=False, **options).stage_times)


def without(*names: str) -> list[str]:
    return [name for name in NAMES if name not in names]


def test_every_stage_has_a_name_of_its_own_and_says_what_it_does_in_a_line():
    assert len(set(NAMES)) == len(NAMES)
    assert all(stage.does and "\n" not in stage.does and len(stage.does) < 90 for stage in STAGES)


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, ["compare schedules"]),
        ({"verify_schedule": True}, []),
        ({"schedule": False}, ["compare schedules", "schedule"]),
        ({"opt_level": 0, "verify_schedule": True}, ["compare schedules", "schedule"]),
        ({"checked": True}, ["compare schedules", "schedule"]),
        ({"allow_alias": True}, ["compare schedules", "schedule"]),
        ({"check_bounds": True}, ["compare schedules"]),
    ],
)
def test_options_select_stages_of_loops(options: dict[str, Any], left_out: list[str]):
    assert stages_of(twice, **options) == without(*OF_GRAPHS, *left_out)


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, ASKED_FOR),
        ({"check_nan": True, "winograd": True}, ASKED_FOR[:2]),
        ({"optimize_graph": False}, [*ASKED_FOR, "optimise the graph"]),
        ({"schedule": False}, [*ASKED_FOR, "optimise the graph", "schedule"]),
    ],
)
def test_options_select_stages_of_graphs(options: dict[str, Any], left_out: list[str]):
    assert stages_of(product, **options) == without(*left_out)


def test_the_times_of_stages_are_parts_of_the_compile_time():
    exe = loomir.compile(twice, cache=False, eager=True)
    assert exe.compile_time is not None
    assert all(seconds > 0 for seconds in exe.stage_times.values())
    assert sum(exe.stage_times.values()) <= exe.compile_time
    longest = max(exe.stage_times, key=lambda name: exe.stage_times[name])
    assert longest == "assemble and load"


def test_a_program_that_was_loaded_went_through_no_stage(tmp_path: Path):
    loomir.compile(twice).save(tmp_path / "twice")
    assert loomir.load(tmp_path / "twice").stage_times == {}


def test_stages_can_be_run_one_by_one():
    made = Compilation(twice, "haswell", CompileOptions())
    for stage in STAGES[: NAMES.index("generate")]:
        run_stages(made, [stage])
    assert made.loops["twice"] is made.module["twice"]
    assert "T.vectorized" in made.scheduled.script()
    assert "T.vectorized" not in made.lowered.script()


def test_mistakes_end_the_stage_that_finds_them():
    made = Compilation(twice, "no such machine", CompileOptions())
    with pytest.raises(CompileError, match="TGT0001"):
        run_stages(made)
    assert list(made.times) == ["make a module", "verify"]


# -- a row is all that a stage needs -------------------------------------------------------------
def subtract(mod: IRModule) -> IRModule:
    made = {v: rewrite(f, {Add: lambda e: Sub(e.a, e.b)}) for v, f in mod.functions.items()}
    return mod.with_functions(made)


def add_row(monkeypatch: pytest.MonkeyPatch, change: Callable[[IRModule], IRModule]) -> None:
    """Add a stage that changes kernels before they are scheduled."""

    def run(made: Compilation) -> None:
        made.loops = made.scheduled = change(made.loops)
        made.show("changed", made.loops)

    place = NAMES.index("schedule")
    rows = (*STAGES[:place], CompileStage("change", "change kernels", run), *STAGES[place:])
    monkeypatch.setattr(stages, "STAGES", rows)
    monkeypatch.setattr(bisection, "STAGES", rows)


@pytest.mark.parametrize("program", [twice, product])
def test_a_new_row_is_run_measured_dumped_and_bisected(
    program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    x = np.ones((64,) if program is twice else (4, 8), "float32")
    arguments = [x, np.zeros(64, "float32") if program is twice else np.eye(8, dtype="float32")]
    assert loomir.bisect(program, arguments) is None
    add_row(monkeypatch, subtract)
    exe = loomir.compile(program, cache=False, dump=tmp_path)
    assert "change" in exe.stage_times
    (file,) = tmp_path.glob("*-changed.py")
    assert " - " in file.read_text()
    found = loomir.bisect(program, arguments)
    assert found is not None
    assert found.stage == "changed"


def test_what_is_dumped_is_what_stages_show(tmp_path: Path):
    shown: list[str] = []
    run_stages(
        Compilation(product, "haswell", CompileOptions(), on_stage=lambda n, _: shown.append(n))
    )
    run_stages(Compilation(product, "haswell", CompileOptions(), files=StageFiles(tmp_path)))
    names = [path.name[3:] for path in sorted(tmp_path.iterdir())]
    assert names == [*(f"{name}.py" for name in shown), "code.ll", "code.s"]


def test_programs_of_others_are_bisected_with_their_checks():
    found = loomir.bisect(mark_untrusted(twice), [np.ones(64, "float32"), np.zeros(64, "float32")])
    assert found is None
