"""A process for each peer, which is stopped during the turns of others."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["Process", "cpu_name"]

LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TVM_NUM_THREADS",
    "HL_NUM_THREADS",
    "LOOMIR_NUM_THREADS",
)


class Process:
    """Runs the worker of a peer on some CPUs.

    ``began`` is when the process was made, by ``time.monotonic``, which processes share.
    """

    def __init__(
        self,
        peer: str,
        threads: int,
        cpus: list[int],
        verbose: bool = False,
        module: str = "benchmarks.peers.worker",
    ) -> None:
        self.peer = peer
        environment = {**os.environ, **{name: str(threads) for name in LIMITS}}
        usable = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus)  # what a child inherits
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        os.sched_setaffinity(0, usable)

    def ask(self, *command: object) -> dict[str, Any]:
        """Wake the process, let it do something, and stop it again."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return {"error": f"its process ended with status {self._process.wait()}"}
        self._signal(signal.SIGSTOP)
        return json.loads(line)

    def end(self) -> None:
        """Let the process finish."""
        self._signal(signal.SIGCONT)
        self._process.kill()
        self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)


def cpu_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
