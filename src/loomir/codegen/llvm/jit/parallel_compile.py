"""Compile several texts at a time: some in this process, some in another one.

Which process compiles which text makes no difference to what comes out. Where no other process can
be started, or where it ends, this one does all.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.jit.worker import Job, Worker
from loomir.target.cpus import usable_cpus

__all__ = ["compile_all", "expect_work"]

_LEAST: Final = 1 << 18
"""Bytes of text from which a second process helps: about 0.2 s of work."""
_PATIENCE: Final = 20.0
"""Seconds to wait for the second process when nothing is left to do here."""
_waiting: Final[list[Worker]] = []
_lock: Final = threading.Lock()


def expect_work() -> None:
    """Start a process, so that it is ready when there is something to compile."""
    with _lock:
        _waiting[:] = [worker for worker in _waiting if worker.is_own and worker.is_running]
        if not _waiting and usable_cpus() > 1:
            made = Worker.start()
            if made is not None:
                _waiting.append(made)


def compile_all(jobs: Sequence[Job]) -> list[bytes]:
    """Return the object files of jobs. Errors: those of ``engine.compile_ir``."""
    if len(jobs) < 2 or sum(len(job.text) for job in jobs) < _LEAST:
        return [job.run() for job in jobs]
    expect_work()
    with _lock:
        worker = _waiting.pop() if _waiting else None
    if worker is None:
        return [job.run() for job in jobs]
    return _JobQueue(jobs, worker).results()


class _JobQueue:
    """Jobs that two processes share, the largest first."""

    def __init__(self, jobs: Sequence[Job], worker: Worker) -> None:
        self._jobs = jobs
        self._worker = worker
        self._made: list[bytes | None] = [None] * len(jobs)
        order = sorted(range(len(jobs)), key=lambda number: -len(jobs[number].text))
        self._left = deque(order)

    def results(self) -> list[bytes]:
        other = threading.Thread(target=self._ask, daemon=True)
        other.start()
        try:
            while self._left:
                self._run_next()
            other.join(_PATIENCE)
        finally:
            self._worker.end()
        other.join()
        # If the other process ended early, some are still to be done.
        return [made or job.run() for made, job in zip(self._made, self._jobs, strict=True)]

    def _run_next(self) -> None:
        try:
            number = self._left.popleft()
        except IndexError:
            return
        self._made[number] = self._jobs[number].run()

    def _ask(self) -> None:
        while True:
            try:
                number = self._left.popleft()
            except IndexError:
                return
            made = self._worker.compile(self._jobs[number])
            if made is None:
                # This process compiles the rest, and the job that failed.
                return
            self._made[number] = made
