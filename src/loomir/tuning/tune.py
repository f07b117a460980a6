"""``loomir.tune``: search for faster schedules of all kernels of a program, within a given time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any, Final, NamedTuple, cast

from loomir.autoschedule.ir.decision import Decisions, decisions_from
from loomir.ir.serialize import from_json
from loomir.support.argument_errors import explain_arguments, refuse_unknown_options
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError
from loomir.support.runtime_types import show_value
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tuning.database import Database
from loomir.tuning.guard import measure_guarded
from loomir.tuning.record import Record, key_of_target
from loomir.tuning.request import Outcome, Request
from loomir.tuning.result import TaskResult, Trial, TuningResult
from loomir.tuning.search import Search
from loomir.tuning.task import Task, list_tasks
from loomir.validate import validate_schedule

__all__ = ["tune"]

_ATTEMPTS: Final = 3
"""How many workers may die while measuring a candidate before it is abandoned."""
_CONFIRMED: Final = 3
"""How many of the fastest candidates are measured again at the end."""
_LONGER: Final = 10.0
"""How many times as long that takes as a trial."""
_GAIN: Final = 1.02
"""The least speed-up for which a record is written."""
_BUDGET: Final = 300_000
"""The most interpreter instructions of a call that checks the best schedule exactly."""
_RESERVED: Final = 0.1
"""The fraction of the time that is reserved for the confirmation."""


@explain_arguments
@refuse_unknown_options
def tune(
    program: Any,
    target: str | Target = "native",
    *,
    trials: int | None = None,
    timeout: float = 60.0,
    database: Database | str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    constants: Mapping[str, Any] | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    seed: int = 0,
    on_trial: Callable[[Trial], object] | None = None,
) -> TuningResult:
    """Search for faster schedules of a program, and record them.

    Each different kernel is a task. Its candidates are those of the default schedule's rules. The
    results of a candidate are compared with those of the default schedule before its time counts,
    and the best one is checked exactly by the interpreter. ``trials`` limits the measurements of
    each kernel, ``timeout`` the seconds of the whole search. ``sizes`` are the values of symbolic
    sizes to measure with, by name.

    Records are written to ``database``, a file that is created if needed; trials that it already
    has are not repeated. ``loomir.compile(program, database=...)`` uses the best ones.

    ``executor`` measures ``workers`` candidates at a time, by default in one process on this
    machine. With an executor for several machines, such as that of dask.distributed, each candidate
    is measured on one of them, and every machine has its own records.

    ``on_trial`` is called after each measurement.

    Errors: RUN0012 for an invalid option, TUN0001, TUN0002 and TUN0004 for a database that cannot
    be used, and those of ``loomir.compile``.
    """
    _check(trials=trials, timeout=timeout, workers=workers)
    started = time.perf_counter()
    kept = database if isinstance(database, Database) else Database(database)
    machine = Target(target)
    options = {} if constants is None else {"constants": constants}
    tasks = list_tasks(program, machine, dict(sizes or {}), options)
    with ExitStack() as exits:
        count = workers or int(getattr(executor, "_max_workers", 1))
        if executor is None:
            executor = exits.enter_context(ThreadPoolExecutor(count, "loomir-tune"))
        tuning = [_Tuning(task, kept, machine, trials, seed) for task in tasks]
        end = started + timeout * (1 - _RESERVED)
        runner = _Runner(executor, count, on_trial)
        runner.run(tuning, end)
        results = tuple(each.confirm(runner, started + timeout) for each in tuning)
    return TuningResult(results, kept, time.perf_counter() - started)


def _check(**options: Any) -> None:
    for name, value in options.items():
        if value is None and name != "timeout":
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise CompileError(
                Diagnostic(
                    "RUN0012",
                    f"{name} is {show_value(value)}, not a number above 0",
                    help="give a number above 0, or leave it out",
                )
            )


class _Tuning:
    """The search for one task."""

    def __init__(
        self, task: Task, database: Database, machine: Target, trials: int | None, seed: int
    ) -> None:
        self.task, self.database, self.trials = task, database, trials
        self.search = Search(seed)
        self.machine = machine
        self.made = self.failed = self.wrong = self.running = 0
        self.why = ""
        self.default: float | None = None
        for record in database.trials(task.request.program, key_of_target(machine)):
            outcome = Outcome(record.status, record.seconds, record.default_seconds)
            # The default itself is always measured, since it shows the decisions.
            if record.choices:
                self.search.tell(record.choices, outcome)

    @property
    def is_open(self) -> bool:
        """Whether more candidates may be measured."""
        if self.why or (self.trials is not None and self.made + self.running >= self.trials):
            return False
        return not self.search.is_finished

    @property
    def urgency(self) -> float:
        """Return the total time of the kernel's calls, reduced if the search has found little."""
        spent = self.task.calls * (self.default or 1.0) * self.search.best
        return spent / (1 + self.made + self.running)

    def tell(self, choices: Mapping[str, Any], outcome: Outcome) -> None:
        """Learn from the outcome of a candidate, and write its record."""
        self.made += 1
        self.failed += outcome.status == "failed"
        self.wrong += outcome.status == "wrong"
        self.search.tell(choices, outcome)
        if outcome.default_seconds:
            self.default = min(self.default or outcome.default_seconds, outcome.default_seconds)
        if not choices and outcome.status != "ok":
            self.why = outcome.why
        if choices:
            self._record(choices, outcome, outcome.status)

    def _record(self, choices: Mapping[str, Any], outcome: Outcome, status: str) -> None:
        request = self.task.request
        self.database.add(
            Record(
                request.program,
                outcome.machine or key_of_target(self.machine),
                self.task.name,
                outcome.version,
                choices,
                status,
                outcome.seconds,
                outcome.default_seconds,
            )
        )

    def confirm(self, runner: _Runner, end: float) -> TaskResult:
        """Measure the fastest candidates again, and record the best one if it is really faster."""
        best: tuple[float, Mapping[str, Any], Outcome] | None = None
        for choices in self.search.fastest(_CONFIRMED):
            if not choices or (best is not None and time.perf_counter() > end):
                continue
            request = self.task.request.with_choices(choices)
            outcome = runner.ask(request, longer=_LONGER)
            if outcome.status != "ok" or not outcome.seconds or not outcome.default_seconds:
                continue
            gain = outcome.default_seconds / outcome.seconds
            made = outcome.effective(choices)
            if gain >= _GAIN and (best is None or gain > best[0]) and self._is_right(made):
                best = gain, made, outcome
        if best is not None:
            self._record(best[1], best[2], "best")
        return TaskResult(
            self.task.name,
            self.task.request.program,
            self.task.calls,
            self.made,
            self.failed,
            self.wrong,
            self.default if best is None else best[2].default_seconds,
            self.default if best is None else best[2].seconds,
            {} if best is None else dict(best[1]),
            self.why,
        )

    def _is_right(self, choices: Mapping[str, Any]) -> bool:
        """Tell whether the interpreter finds no difference on small arguments, without rounding."""
        func = cast("PrimFunc", from_json(self.task.request.text))
        try:
            with decisions_from(_FixedDecisions(choices)):
                report = validate_schedule(func, self.machine, seeds=range(2), budget=_BUDGET)
        except LoomirError:
            return False
        return not report.mistakes()


class _FixedDecisions:
    """Returns the same decisions for every function."""

    def __init__(self, choices: Mapping[str, Any]) -> None:
        self.choices = choices

    def find_decisions(self, func: Any, constants: Any, target: Any) -> Decisions:
        """Return the decisions."""
        return Decisions(self.choices)


class _RunningTrial(NamedTuple):
    """A candidate that is being measured, for the first time or again."""

    tuning: _Tuning
    choices: Mapping[str, Any]
    attempt: int = 1


class _Runner:
    """Keeps an executor busy with the candidates that are most urgent."""

    def __init__(
        self, executor: Executor, count: int, on_trial: Callable[[Trial], object] | None
    ) -> None:
        self.executor, self.count, self.on_trial = executor, count, on_trial
        self.running: dict[Future[Outcome], _RunningTrial] = {}

    def ask(self, request: Request, *, longer: float) -> Outcome:
        """Measure one candidate while nothing else is measured."""
        seconds = request.seconds * longer
        try:
            return self._submit(request.with_seconds(seconds)).result()
        except Exception as error:  # noqa: BLE001 - an executor raises what it likes
            return Outcome("failed", why=f"the executor failed: {error}")

    def _submit(self, request: Request) -> Future[Outcome]:
        try:
            return self.executor.submit(measure_guarded, request)
        except RuntimeError as error:  # it accepts no more tasks
            failed: Future[Outcome] = Future()
            failed.set_exception(error)
            return failed

    def run(self, tuning: list[_Tuning], end: float) -> None:
        """Measure until nothing is left, or time is up."""
        try:
            while True:
                self._fill(tuning, end)
                if not self.running:
                    return
                done, _ = wait(self.running, return_when=FIRST_COMPLETED)
                for future in done:
                    self._finish(future)
        except BaseException:  # Ctrl-C: finished measurements are in the database
            for future in self.running:
                future.cancel()
            raise

    def _fill(self, tuning: list[_Tuning], end: float) -> None:
        idle: set[int] = set()
        """Tasks with nothing to measure until an outcome is known."""
        while len(self.running) < self.count and time.perf_counter() < end:
            waiting = [
                each
                for each in tuning
                if each.is_open and not self._is_first(each) and id(each) not in idle
            ]
            if not waiting:
                return
            one = max(waiting, key=lambda each: each.urgency)
            choices = one.search.propose()
            if choices is None:
                idle.add(id(one))
                continue
            one.running += 1
            self._launch(_RunningTrial(one, choices))

    def _is_first(self, one: _Tuning) -> bool:
        """Tell whether the default schedule is being measured, which shows the decisions."""
        return not one.search.space and one.running > 0

    def _launch(self, trial: _RunningTrial) -> None:
        request = trial.tuning.task.request.with_choices(trial.choices)
        self.running[self._submit(request)] = trial

    def _finish(self, future: Future[Outcome]) -> None:
        trial = self.running.pop(future)
        one, choices, attempt = trial
        try:
            outcome = future.result()
        except Exception as error:  # noqa: BLE001 - the worker died, not the candidate
            if attempt < _ATTEMPTS:
                self._launch(trial._replace(attempt=attempt + 1))
                return
            outcome = Outcome("failed", why=f"the executor failed: {error}")
        one.running -= 1
        one.tell(choices, outcome)
        if self.on_trial is not None:
            speed = 0.0
            if outcome.seconds and outcome.default_seconds:
                speed = outcome.default_seconds / outcome.seconds
            best = 1 / one.search.best
            self.on_trial(Trial(one.task.name, one.made, outcome.status, speed, best))
