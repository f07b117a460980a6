"""Locks that a child finds free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loomir.support.fork_safe import ForkSafeLock, lazy_property


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_finds_the_lock_free_that_another_thread_had_locked():
    lock, locked, done = ForkSafeLock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            locked.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    child = os.fork()
    if child == 0:
        with lock:
            os._exit(7)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_thread_that_forks_under_the_lock_leaves_it_free():
    lock = ForkSafeLock()
    with lock:
        child = os.fork()
    if child == 0:
        with lock:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    with lock:
        pass


_FORK_DURING_IMPORT = """
import faulthandler, os, sys, threading
from loomir.support.fork_safe import import_module, register_at_fork

faulthandler.dump_traceback_later(30, exit=True)
shared = threading.RLock()
register_at_fork(before=shared.acquire, after=shared.release)
thread = threading.Thread(target=import_module, args=("slow_module",))
thread.start()
while "slow_module" not in sys.modules:
    pass
child = os.fork()
if child == 0:
    os._exit(7 if import_module("slow_module").VALUE == 3 else 1)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
_SLOW_MODULE = """
import logging, sys, time
time.sleep(0.2)
logging.getLogger("slow")
with sys.modules["__main__"].shared:
    VALUE = 3
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_waits_for_what_another_thread_imports(tmp_path: Path):
    (tmp_path / "slow_module.py").write_text(_SLOW_MODULE)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        # Python 3.12 and later warn of any fork of a process with several threads.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORK_DURING_IMPORT],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_computes_a_property_that_another_thread_was_computing():
    entered, leave = threading.Event(), threading.Event()

    class Slow:
        is_child = False

        @lazy_property
        def answer(self) -> int:
            """Answer."""
            if not self.is_child:
                entered.set()
                leave.wait()
            return 42

    one = Slow()
    thread = threading.Thread(target=lambda: one.answer)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that waits
        one.is_child = True
        os._exit(0 if one.answer == 42 else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    leave.set()
    thread.join()
    assert status == 0
    assert one.answer == 42
    assert vars(one)["answer"] == 42
    assert isinstance(Slow.answer, lazy_property)
    assert Slow.answer.__doc__ == "Answer."
