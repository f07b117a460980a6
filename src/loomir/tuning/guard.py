"""Measure candidates in a child process: one that hangs is killed, one that dies is replaced."""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from typing import IO, Final

from loomir.support.diagnostics import InternalError
from loomir.tuning.request import Outcome, Request

__all__ = ["Child", "measure_guarded"]

_LIFETIME: Final = 500
"""Candidates after which a process is replaced, since LLVM leaks some memory for each."""
_START: Final = 60.0
"""Seconds for a process to start, in addition to the limit of a request."""
_PROGRAM: Final = "import loomir; from loomir.tuning.child import serve; serve(loomir.__version__)"


class Child:
    """A process that measures; it is started on first use."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        self._lines: queue.Queue[str] = queue.Queue()
        self._said: IO[bytes] | None = None
        self._asked = 0

    def ask(self, request: Request) -> Outcome:
        """Measure a candidate; if the process crashes or hangs, the candidate failed."""
        if self._asked >= _LIFETIME or self._owner != os.getpid():
            self.close()
        process = self._process or self._start()
        wait = request.limit + (_START if self._asked == 0 else 0.0)
        self._asked += 1
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request.to_plain()) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=wait)
        except BrokenPipeError:
            line = ""
        except queue.Empty:
            self.close()
            return Outcome("failed", why=f"no answer in {request.limit:g} seconds")
        except BaseException:  # Ctrl-C: a later answer would be taken for another request's
            self.close()
            raise
        if not line:
            return Outcome("failed", why=self._obituary(process))
        return Outcome.from_plain(json.loads(line))

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        self._asked = 0
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._said is not None:
            self._said.close()
            self._said = None

    def _start(self) -> subprocess.Popen[str]:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._owner, self._lines = os.getpid(), queue.Queue()
        path = os.pathsep.join([entry for entry in sys.path if entry])
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": path},
        )
        self._process = process
        reader = threading.Thread(target=_read, args=(process.stdout, self._lines), daemon=True)
        reader.start()
        return process

    def _obituary(self, process: subprocess.Popen[str]) -> str:
        status = process.wait()
        text = ""
        if self._said is not None:
            self._said.seek(0)
            text = self._said.read().decode(errors="replace").strip()[-300:]
        self.close()
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"its process ended with {how}" + (f": {text}" if text else "")


def _read(pipe: IO[str] | None, lines: queue.Queue[str]) -> None:
    """Move lines to a queue, which supports timeouts; an empty line is the end."""
    if pipe is None:
        raise InternalError("the process has no standard output")
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:  # it was closed meanwhile
        pass
    lines.put("")


_children: Final[dict[int, Child]] = {}


def measure_guarded(request: Request) -> Outcome:
    """Measure in a child process of the calling thread; the task for an executor."""
    child = _children.get(threading.get_ident())
    if child is None:
        child = _children[threading.get_ident()] = Child()
    return child.ask(request)


@atexit.register
def _close_children() -> None:
    for child in _children.values():
        child.close()
