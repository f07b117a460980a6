"""Locks that a child finds free."""

from __future__ import annotations

import os
import threading

import pytest

from loomir.support.fork_safe import ForkSafeLock


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
