"""Searches for schedules that are killed, and whose workers are killed, at any moment."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

import loomir
from loomir.script import from_source
from loomir.tir import PrimFunc
from loomir.tuning.database import Database

__all__ = ["killed_searches", "killed_workers", "processes_of"]

_MARK: Final = "LOOMIR_STRESS_MARK"
_KERNEL: Final = """
from loomir.script import tir as T

@T.prim_func
def scaled(x: T.Buffer(({n}, 8), "float32"), y: T.Buffer(({n}, 8), "float32")):
    for i, j in T.grid({n}, 8):
        with T.sblock("scaled"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32(2)
"""
_LONGEST: Final = 4.0
"""Seconds after which a search is killed at the latest."""
_PATIENCE: Final = 30.0
"""Seconds in which processes end whose search has ended."""


def _kernel(rows: int) -> PrimFunc:
    made = from_source(_KERNEL.format(n=rows))
    assert isinstance(made, PrimFunc)
    return made


def _check(kernel: PrimFunc, rows: int, database: Database) -> None:
    """Call what is compiled by the records."""
    x = np.arange(rows * 8, dtype="float32").reshape(rows, 8)
    y = np.zeros_like(x)
    loomir.compile(kernel, database=database, cache=False)(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def processes_of(mark: str) -> list[int]:
    """List the processes that inherited a mark in their environment."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended, or belongs to somebody else
            pass
    return found


@contextmanager
def _marked() -> Generator[str]:
    """Mark the processes that this one starts."""
    mark = os.environ[_MARK] = f"search-{uuid.uuid4()}"
    try:
        yield mark
    finally:
        del os.environ[_MARK]


def _expect_ended(mark: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while processes_of(mark):
        assert time.monotonic() < deadline, "processes of a search stay"
        time.sleep(0.02)


def killed_searches(choices: random.Random, size: int) -> None:
    """Kill searches at any moment: no trial that was told is lost, and no process stays."""
    told = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        for turn in range(10 * size):
            kernel = _kernel(rows := 16 + turn)
            reader, writer = os.pipe()
            with _marked() as mark:
                child = os.fork()
                if child == 0:
                    os.close(reader)
                    _search(kernel, path, writer)
                os.close(writer)
                time.sleep(choices.uniform(0, _LONGEST))
                os.kill(child, signal.SIGKILL)
                with open(reader, "rb") as pipe:
                    lines = pipe.read()
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                assert status in (-signal.SIGKILL, 0), f"a search ended with {status}"
                _expect_ended(mark)
            told += lines.count(b".")
            with Database(path) as database:
                found = [trial for trial in database.trials() if trial.status != "best"]
                # One trial may have been written, and killed before it was told.
                assert told <= len(found) <= told + turn + 1, f"turn {turn}: {told}, {len(found)}"
                told = len(found)
                _check(kernel, rows, database)
    assert told


def _search(kernel: PrimFunc, path: Path, writer: int) -> None:
    """Search in a child process, which says when a trial is over."""

    def tell(trial: Any) -> None:
        if trial.number > 1:  # the first one is the default schedule, which has no record
            os.write(writer, b".")

    try:
        loomir.tune(kernel, timeout=60, database=path, workers=2, on_trial=tell)
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 - a child says it and ends
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)


def killed_workers(choices: random.Random, size: int) -> None:
    """Kill workers at any moment: the search goes on, and its result is right."""
    kills, ended = 0, threading.Event()

    def kill(mark: str) -> None:
        nonlocal kills
        while not ended.wait(choices.uniform(0.05, 0.6)):
            own = [p for p in processes_of(mark) if p != os.getpid()]
            if own:
                os.kill(choices.choice(own), signal.SIGKILL)
                kills += 1

    with _marked() as mark:
        killer = threading.Thread(target=kill, args=(mark,))
        killer.start()
        try:
            for turn in range(5 * size):
                kernel = _kernel(rows := 1024 + turn)
                with Database() as database:
                    result = loomir.tune(kernel, timeout=15, database=database, workers=2)
                    assert result.tasks[0].trials
                    _check(kernel, rows, database)
        finally:
            ended.set()
            killer.join()
    assert kills
    sys.stdout.write(f"{kills} workers were killed\n")
