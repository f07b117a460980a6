"""Processes that measure may crash, hang or lose their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from loomir.tuning import guard
from loomir.tuning.guard import Child
from loomir.tuning.request import Request

REQUEST = Request("p", "{}", (), {}, "native", {}, limit=0.5)


@pytest.fixture
def child() -> Iterator[Child]:
    """Lend a process, and end it."""
    made = Child()
    yield made
    made.close()


def serve_by(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let processes run another program."""
    monkeypatch.setattr(guard, "_PROGRAM", program)


def test_a_crash_is_one_failed_trial(child: Child, monkeypatch: pytest.MonkeyPatch):
    serve_by(monkeypatch, "import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 11)")
    for _ in range(2):  # each time in a new process
        outcome = child.ask(REQUEST)
        assert outcome.status == "failed"
        assert outcome.why == "its process ended with signal 11"


def test_what_a_process_said_is_told(child: Child, monkeypatch: pytest.MonkeyPatch):
    serve_by(monkeypatch, "import sys; sys.stdin.readline(); sys.exit('no memory')")
    assert child.ask(REQUEST).why == "its process ended with status 1: no memory"


def test_a_hang_is_ended(child: Child, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guard, "_START", 0.0)
    serve_by(monkeypatch, "import time; time.sleep(1000)")
    outcome = child.ask(REQUEST)
    assert outcome.why == "no answer in 0.5 seconds"
    assert child._process is None


def test_a_process_is_replaced_after_its_lifetime(child: Child, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guard, "_LIFETIME", 2)
    serve_by(
        monkeypatch,
        "import os, sys, json\n"
        "for line in sys.stdin: print(json.dumps({'status': 'ok', 'why': str(os.getpid()), "
        "'space': {}}), flush=True)",
    )
    seen = [child.ask(REQUEST).why for _ in range(4)]
    assert seen[0] == seen[1] != seen[2] == seen[3]


def test_nothing_is_left_where_the_parent_is_killed():
    program = (
        "import sys, threading; from loomir.tuning.guard import Child\n"
        "from tests.tuning.test_guard import REQUEST\n"
        "c = Child(); c.ask(REQUEST); print(c._process.pid, flush=True); threading.Event().wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 30
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
