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
"""Seconds after which an idle process ends."""
_CODE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from loomir.codegen.llvm.jit.worker import serve; serve()"
)


class Job(NamedTuple):
    """A text to compile, and how."""

    text: str
    machine: engine.TargetMachine
    level: int
    passes: engine.Passes

    def run(self) -> bytes:
        """Compile in this process."""
        return engine.compile_ir(self.text, self.machine, self.level, passes=self.passes)


# -- the client ------------------------------------------------------------------------------------
class Worker:
    """A process that compiles; unusable in a forked child, and after an error."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._owner = os.getpid()

    @staticmethod
    def start() -> Worker | None:
        """Start a process; None if that is not possible."""
        # In a program that embeds Python, this would start that program again.
        if not os.path.basename(sys.executable or "").startswith(("python", "pypy")):
            return None
        if sys.platform == "win32" or getattr(sys, "frozen", False):
            return None
        try:
            # It must import the same modules as this process, and none from the current folder.
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
        """Whether this process started it, rather than a parent from which this one was forked."""
        return self._owner == os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process.poll() is None

    def compile(self, job: Job) -> bytes | None:
        """Compile a job; None if the process fails or has ended."""
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
        """End the process, even in the middle of a job."""
        if self in _running:
            _running.remove(self)
        if self.is_own:
            self._process.kill()
            self._process.wait()
        else:
            self._process.returncode = 0  # the process that started it will wait for it
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
    # A forked child that kept the pipes open would keep the worker alive.
    os.register_at_fork(after_in_child=_end_all)


# -- the server ------------------------------------------------------------------------------------
def serve() -> None:
    """Compile jobs from the input until it is closed, or no job comes for a while."""
    # Ctrl-C is meant for the client; when it ends, the input of this process is closed.
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
