"""Compiling in two processes: the same objects as in one, whatever happens to the other one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from loomir.codegen.llvm.jit import parallel_compile
from loomir.codegen.llvm.jit.engine import Passes, TargetMachine
from loomir.codegen.llvm.jit.parallel_compile import compile_all, expect_work
from loomir.codegen.llvm.jit.worker import Job, Worker
from loomir.support.diagnostics import InternalError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no other process there")
WAITING: Any = vars(parallel_compile)["_waiting"]
PROGRAM = """
import os, signal, sys
from loomir.codegen.llvm.jit import parallel_compile
signal.signal(signal.SIGINT, signal.default_int_handler)  # as on a terminal
parallel_compile.usable_cpus = lambda: 2
parallel_compile.expect_work()
print(parallel_compile._waiting[0]._process.pid, flush=True)
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


def jobs(count: int = 4) -> list[Job]:
    text = "define i32 @f{0}(i32 %x) {{\n  %y = mul i32 %x, {0}\n  ret i32 %y\n}}\n"
    host = TargetMachine.host()
    return [Job(text.format(number), host, 2, Passes.FEW) for number in range(count)]


@pytest.fixture(autouse=True)
def _share_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parallel_compile, "_LEAST", 0)
    monkeypatch.setattr(parallel_compile, "usable_cpus", lambda: 2)
    yield
    while WAITING:
        WAITING.pop().end()


def test_another_process_makes_the_same_objects():
    worker = Worker.start()
    assert worker is not None
    try:
        for job in jobs():
            assert worker.compile(job) == job.run()
    finally:
        worker.end()
    assert worker.compile(jobs()[0]) is None


def test_two_processes_share_the_work_and_one_is_left(monkeypatch: pytest.MonkeyPatch):
    asked: list[Job] = []
    compile_there = Worker.compile

    def noting(self: Worker, job: Job) -> bytes | None:
        asked.append(job)
        return compile_there(self, job)

    monkeypatch.setattr(Worker, "compile", noting)
    given = jobs(40)
    expect_work()
    (worker,) = WAITING
    assert compile_all(given) == [job.run() for job in given]
    assert asked
    assert not WAITING
    assert vars(worker)["_process"].returncode is not None


def test_one_that_is_killed_leaves_its_work_to_this_process(monkeypatch: pytest.MonkeyPatch):
    given = jobs()
    wanted = [job.run() for job in given]
    expect_work()
    os.kill(vars(WAITING[0])["_process"].pid, signal.SIGKILL)
    assert compile_all(given) == wanted
    compile_there = Worker.compile

    def killing(self: Worker, job: Job) -> bytes | None:
        os.kill(vars(self)["_process"].pid, signal.SIGKILL)
        return compile_there(self, job)

    monkeypatch.setattr(Worker, "compile", killing)
    assert compile_all(given) == wanted


def test_one_that_stops_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parallel_compile, "_PATIENCE", 0.1)
    expect_work()
    os.kill(vars(WAITING[0])["_process"].pid, signal.SIGSTOP)
    given = jobs()
    assert compile_all(given) == [job.run() for job in given]


def test_where_no_process_starts_this_one_does_all(monkeypatch: pytest.MonkeyPatch):
    given = jobs()
    wanted = [job.run() for job in given]

    def refuse(*args: Any, **options: Any) -> Any:
        raise PermissionError("no processes here")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert compile_all(given) == wanted
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/usr/bin/editor")
    assert Worker.start() is None
    monkeypatch.setattr(parallel_compile, "usable_cpus", lambda: 1)
    expect_work()
    assert not WAITING


def test_mistakes_are_told_by_this_process():
    bad = jobs(1)[0]._replace(text="define i32 @f( {")
    for given in ([*jobs(), bad], [bad, *jobs()], [bad, bad]):
        with pytest.raises(InternalError, match="LLVM refuses the IR"):
            compile_all(given)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_starts_its_own():
    given = jobs()
    wanted = [job.run() for job in given]
    expect_work()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os._exit(0 if compile_all(given) == wanted else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert compile_all(given) == wanted


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_no_process_outlives_the_one_that_started_it(name: str):
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM, name],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            os.kill(int(made.stdout), 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail("the process is still there")
