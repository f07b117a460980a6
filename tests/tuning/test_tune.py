"""Tuning records what is faster and right, and compiling uses it."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.ir.decision import Decision
from loomir.script import from_source
from loomir.script import tir as T
from loomir.support.diagnostics import CompileError
from loomir.target import Target
from loomir.te import topi
from loomir.tir.function import PrimFunc
from loomir.tuning import Database, list_choices
from loomir.tuning.measure import measure
from loomir.tuning.record import Record, key_of_program, key_of_target
from loomir.tuning.task import list_tasks


def product(n: int = 24, m: int = 40, k: int = 17) -> PrimFunc:
    """Make a product of matrices."""
    x, w = te.placeholder((n, k), name="x"), te.placeholder((k, m), name="w")
    return te.create_prim_func([x, w, topi.matmul(x, w)], name="product")


def another_choice(func: PrimFunc) -> tuple[str, Any]:
    """Return a key and a candidate that lead to other loops."""
    listed = list_choices(func)[func.name]
    return "0/tile", listed["0/tile"].candidates[1]


def record_of(func: PrimFunc, **choices: Any) -> Record:
    """Make a confirmed record for this machine."""
    machine = Target("native")
    return Record(
        key_of_program(func),
        key_of_target(machine),
        "product",
        "0.1.0",
        choices,
        "best",
        1e-6,
        2e-6,
    )


def test_a_search_leaves_records_and_a_program_that_is_right(tmp_path: Path):
    seen: list[str] = []
    path = tmp_path / "tuning.db"
    result = loomir.tune(
        product(), trials=4, timeout=300, database=path, on_trial=lambda t: seen.append(t.status)
    )
    (task,) = result.tasks
    assert (task.name, task.trials, task.failed, task.wrong) == ("product", 4, 0, 0)
    assert seen == ["ok"] * 4
    assert task.default_seconds
    assert "product: 4 trials" in str(result)
    trials = Database(path).trials()
    assert len([trial for trial in trials if trial.status == "ok"]) == 3  # besides the default
    exe = loomir.compile(product(), database=path)
    x, w = (
        np.random.default_rng(0).standard_normal(s).astype("float32") for s in ((24, 17), (17, 40))
    )
    np.testing.assert_allclose(exe(x, w), x @ w, rtol=1e-4, atol=1e-4)


def test_a_compile_takes_the_record_and_says_so():
    database = Database()
    other = list_choices(product())["product"]["0/tile"].candidates[1]
    database.add(record_of(product(), **{"0/tile": other}))
    exe = loomir.compile(product(), database=database)
    told = f"a record: 0/tile = {other} (2.00 times the speed of the default)"
    assert exe.schedules == {"product": told}
    plain = loomir.compile(product())
    assert exe.llvm_ir() != plain.llvm_ir()
    assert dict(plain.schedules) == {}
    unknown = loomir.compile(product(25), database=database)
    assert unknown.schedules == {"product": "the default schedule: there is no record for it"}


def test_names_do_not_matter_and_constants_do():
    x, w = te.placeholder((24, 17), name="left"), te.placeholder((17, 40), name="right")
    other = te.create_prim_func([x, w, topi.matmul(x, w)], name="other")
    assert key_of_program(other) == key_of_program(product())
    data = other.buffer_map[other.params[1]].data
    assert key_of_program(other, {data}) != key_of_program(other)


def test_a_record_that_does_not_fit_is_told_and_the_rest_is_default():
    database = Database()
    database.add(record_of(product(), **{"0/tile": (99, 99), "gone": 3}))
    with pytest.warns(loomir.CompileWarning, match="TUN0005"):
        exe = loomir.compile(product(), database=database)
    assert exe.llvm_ir() == loomir.compile(product()).llvm_ir()


@pytest.mark.parametrize("database", [3, b"x", {}])
def test_a_database_of_another_kind_is_refused(database: Any):
    with pytest.raises(CompileError, match="RUN0012"):
        loomir.compile(product(), database=database)


@pytest.mark.parametrize(
    "options", [{"trials": 0}, {"trials": "2"}, {"timeout": -1}, {"timeout": None}, {"workers": 0}]
)
def test_options_are_checked(options: dict[str, Any]):
    with pytest.raises(CompileError, match="RUN0012"):
        loomir.tune(product(), **options)


def test_a_candidate_of_other_results_is_wrong(monkeypatch: pytest.MonkeyPatch):
    (task,) = list_tasks(product(26), Target("native"), {}, {})
    outcome = measure(task.request)
    assert outcome.status == "ok"
    other = outcome.space["0/tile"].candidates[1]
    monkeypatch.setattr("loomir.tuning.measure._is_near", lambda *_: False)
    assert measure(task.request.with_choices({"0/tile": other})).status == "wrong"


def test_equal_loops_are_measured_once():
    (task,) = list_tasks(product(), Target("native"), {}, {})
    first = measure(task.request)
    again = measure(task.request.with_choices({"0/tile": first.space["0/tile"].chosen}))
    assert again.is_repeated
    assert again.seconds == first.seconds


def test_symbolic_sizes_are_given_by_name():
    @T.prim_func
    def scale(px: T.handle, py: T.handle):
        n = T.int64()
        x = T.match_buffer(px, (n,), "float32")
        y = T.match_buffer(py, (n,), "float32")
        for i in range(n):
            y[i] = x[i] * T.float32(2)

    (task,) = list_tasks(scale, Target("native"), {"n": 5000}, {})
    outcome = measure(task.request)
    assert outcome.status == "ok"
    assert "0/tasks" in outcome.space


def test_indices_that_are_made_up_are_valid():
    @T.prim_func
    def gather(
        x: T.Buffer((50, 8), "float32"),
        i: T.Buffer((30,), "int32"),
        y: T.Buffer((30, 8), "float32"),
    ):
        for k, j in T.grid(30, 8):
            y[k, j] = x[i[k], j]

    (task,) = list_tasks(gather, Target("native"), {}, {})
    assert measure(task.request).status == "ok"


def test_what_cannot_be_called_is_told():
    @T.prim_func
    def opaque(context: T.handle, x: T.Buffer((64,), "float32")):
        for i in range(64):
            x[i] = x[i] + T.float32(1)

    result = loomir.tune(opaque, trials=3, timeout=300)
    assert "no value can be made up for the handle context" in str(result)
    assert result.speedup == 1.0


def test_kernels_of_a_graph_are_tasks_with_their_constants():
    layers = from_source(_LAYERS)
    weights = {"w": np.ones((64, 128), "float32")}
    plain = list_tasks(layers, Target("native"), {}, {})
    bound = list_tasks(layers, Target("native"), {}, {"constants": weights})
    assert [len(t.request.constants) for t in (*plain, *bound)] == [0, 1]
    assert measure(bound[0].request).status == "ok"


def test_any_executor_measures():
    with ProcessPoolExecutor(2) as pool:
        result = loomir.tune(product(), trials=4, timeout=300, executor=pool)
    (task,) = result.tasks
    assert (task.trials, task.failed) == (4, 0)


_LAYERS = """
from loomir.script import ir as I, relax as R

@I.ir_module
class Layers:
    @R.function
    def main(x: R.Tensor((8, 64), "float32"), w: R.Tensor((64, 128), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            R.output(y)
        return y
"""


def _die(_: object) -> Any:
    os._exit(1)


def test_an_executor_that_dies_loses_trials_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("loomir.tuning.tune.measure_guarded", _die)
    with ProcessPoolExecutor(1) as pool:
        result = loomir.tune(product(), trials=2, timeout=60, executor=pool)
    assert "the executor failed" in str(result)


class _Flaky(Executor):
    """Measures in this process; two of three workers die."""

    def __init__(self) -> None:
        self.asked = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked += 1
        made: Future[Any] = Future()
        if self.asked % 3:
            made.set_exception(OSError("killed"))
        else:
            made.set_result(measure(*args))
        return made


def test_a_worker_that_dies_is_no_failure_of_the_candidate():
    executor = _Flaky()
    result = loomir.tune(product(), trials=3, timeout=300, executor=executor)
    (task,) = result.tasks
    assert (task.trials, task.failed) == (3, 0)
    assert executor.asked >= 9


# -- choices by hand -------------------------------------------------------------------------------
def test_choices_are_listed_and_made():
    listed = list_choices(product())["product"]
    assert isinstance(listed["0/tile"], Decision)
    other = listed["0/tile"].candidates[1]
    exe = loomir.compile(product(), choices={"product": {"0/tile": other}})
    x, w = np.ones((24, 17), "float32"), np.ones((17, 40), "float32")
    assert (exe(x, w) == 17).all()
    same = loomir.compile(product(), choices={"product": {"0/tile": listed["0/tile"].chosen}})
    assert same.llvm_ir() == loomir.compile(product()).llvm_ir() != exe.llvm_ir()


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"produkt": {}}, "did you mean 'product'?"),
        ({"product": {"0/tiles": (2, 2)}}, "did you mean '0/tile'?"),
        ({"product": {"0/tile": (77, 1)}}, "choose one of"),
        ({"product": {"0/tile": "wide"}}, "choose one of"),
        ({"product": {"0/tile": True}}, "choose one of"),
    ],
)
def test_choices_that_fit_nothing_are_refused(choices: Any, told: str):
    with pytest.raises(CompileError, match="TUN0006") as raised:
        loomir.compile(product(), choices=choices)
    assert told in str(raised.value)


@pytest.mark.parametrize("choices", [3, [], {"product": 3}, {3: {}}, {"product": {3: 4}}])
def test_choices_of_another_form_are_refused(choices: Any):
    with pytest.raises(CompileError, match="RUN0012"):
        loomir.compile(product(), choices=choices)
