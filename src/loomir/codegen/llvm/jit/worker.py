"""A process that compiles IR for another one: LLVM works for one thread at a time in each.

``serve`` is what it runs: it reads jobs from its standard input and writes object files to its
standard output. It ends when one of them is closed, or when nobody has asked for anything for some
time. ``Worker`` is the side of the one who asks.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
from typing import Any, Final, NamedTuple

from loomir.codegen.llvm.jit import engine

__all__ = ["Job", "Worker", "serve"]

_HEAD: Final = struct.Struct("<QQ")
_ANSWER: Final = struct.Struct("<?Q")
_IDLE: Final = 60.0
"""Seconds after which a process that nobody asks ends."""
_CODE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from loomir.codegen.llvm.jit.worker import serve; serve()"
)


class Job(NamedTuple):
    """What is to be compiled, and how."""

    text: str
    machine: engine.TargetMachine
    level: int
    passes: engine.Passes

    def run(self) -> bytes:
        """Compile it here."""
        return engine.compile_ir(self.text, self.machine, self.level, passes=self.passes)


# -- who asks --------------------------------------------------------------------------------------
class Worker:
    """A process that compiles; of no use in a forked child, or after an error."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._owner = os.getpid()

    @staticmethod
    def start() -> Worker | None:
        """Start a process; None where that cannot be done."""
        # A program that has Python in it would start once more.
        if not os.path.basename(sys.executable or "").startswith(("python", "pypy")):
            return None
        if sys.platform == "win32" or getattr(sys, "frozen", False):
            return None
        try:
            # It imports what this process imports, and nothing of the current folder.
            paths = json.dumps([os.path.abspath(path) for path in sys.path])
            process = subprocess.Popen(
                [sys.executable, "-c", _CODE, paths],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        except (OSError, ValueError):
            return None
        made = Worker(process)
        _running.append(made)
        return made

    @property
    def is_own(self) -> bool:
        """Whether this process, and none that it was forked from, has started it."""
        return self._owner == os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def compile(self, job: Job) -> bytes | None:
        """Have a job done; None where the process cannot, or is not there any more."""
        said = {
            "cpu": job.machine.cpu,
            "features": job.machine.features,
            "triple": job.machine.triple,
            "level": job.level,
            "passes": job.passes.value,
        }
        parts = json.dumps(said).encode(), job.text.encode("utf-8", "surrogatepass")
        jobs, results = self._process.stdin, self._process.stdout
        assert jobs is not None
        assert results is not None
        try:
            _write(jobs, _HEAD.pack(*map(len, parts)) + b"".join(parts))
            head = _read(results, _ANSWER.size)
            if head is None:
                return None
            is_made, size = _ANSWER.unpack(head)
            data = _read(results, size)
        except (OSError, ValueError):
            return None
        return data if is_made else None

    def end(self) -> None:
        """End the process, whatever it does."""
        if self in _running:
            _running.remove(self)
        if self.is_own:
            self._process.kill()
            self._process.wait()
        else:
            self._process.returncode = 0  # the process that started it waits for it
        for file in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if file is not None:
                    file.close()


_running: Final[list[Worker]] = []


def _end_all() -> None:
    for worker in tuple(_running):
        worker.end()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    # A child that keeps the pipes open keeps the process from ending.
    os.register_at_fork(after_in_child=_end_all)


# -- who is asked ----------------------------------------------------------------------------------
def serve() -> None:
    """Compile what is asked for, until there is nobody who asks."""
    # Ctrl-C is for the one who asks, whose end closes the input of this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(0, "rb", 0) as jobs, os.fdopen(1, "wb", 0) as results:
        while select.select([jobs], [], [], _IDLE)[0]:
            head = _read(jobs, _HEAD.size)
            parts = [_read(jobs, size) for size in _HEAD.unpack(head)] if head else [None]
            if None in parts:
                return
            said, text = [part or b"" for part in parts]
            is_made, data = _answer(json.loads(said), text.decode("utf-8", "surrogatepass"))
            _write(results, _ANSWER.pack(is_made, len(data)) + data)


def _write(file: Any, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _read(file: Any, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        piece = file.read(size - len(found))
        if not piece:
            return None
        found += piece
    return bytes(found)


def _answer(said: dict[str, Any], text: str) -> tuple[bool, bytes]:
    try:
        machine = engine.TargetMachine.of(said["cpu"], said["features"], said["triple"])
        return True, Job(text, machine, said["level"], engine.Passes(said["passes"])).run()
    except Exception as error:  # noqa: BLE001 - who asks does it too, and says what is wrong
        return False, str(error).encode("utf-8", "replace")
