"""Threads, processes and memory under strain: short here, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork, rlimits and /proc")

PROGRAMS = """
import os, resource, sys, threading
import numpy as np
import loomir
from loomir.script import ir as I, relax as R, tir as T

@T.prim_func
def halve(x: T.handle, y: T.handle):
    n = T.int64()
    A = T.match_buffer(x, (n,), "float32")
    B = T.match_buffer(y, (n,), "float32")
    for i in T.parallel(n):
        B[i] = A[i] * T.float32(0.5)

@I.ir_module
class Graph:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        return R.add(R.nn.relu(x), x)

@T.prim_func
def large(y: T.Buffer((4,), "float32"), n: T.int64):
    scratch = T.alloc_buffer((n,), "float32")
    for i in range(n):
        scratch[i] = T.float32(1)
    for i in range(4):
        y[i] = scratch[i * (n // 4)]
"""


def run(folder: Path, code: str) -> str:
    path = folder / "case.py"
    path.write_text(PROGRAMS + textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def test_many_callers_at_once(tmp_path: Path):
    out = run(
        tmp_path,
        """
        function, graph = loomir.compile(halve), loomir.compile(Graph)
        wrong = []

        def call(number):
            x = np.full((8, 40), number, "float32")
            for _ in range(100):
                y = np.zeros(320, "float32")
                function(x.reshape(-1), y)
                z = graph["main"](x)
                if not (y == number / 2).all() or not (z == number + max(number, 0)).all():
                    wrong.append(number)

        threads = [threading.Thread(target=call, args=(n - 8,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(wrong)
        """,
    )
    assert out.split() == ["[]"]


def test_children_forked_after_the_pool_has_started(tmp_path: Path):
    out = run(
        tmp_path,
        """
        function = loomir.compile(halve)
        x = np.arange(1 << 16, dtype="float32")

        def right():
            y = np.zeros_like(x)
            function(x, y)
            return bool((y == x / 2).all())

        assert right()
        pids = []
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if right() and right() else 1)
            pids.append(pid)
            assert right()
        print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
        """,
    )
    assert out.split() == str([0] * 20).split()


@pytest.fixture
def limited() -> None:
    """Skip where the system does not refuse memory beyond a limit: QEMU's emulation does not."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "bytearray(2 << 30)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    if not done.returncode:
        pytest.skip("this system does not enforce RLIMIT_AS")


@pytest.mark.usefixtures("limited")
def test_memory_that_is_refused(tmp_path: Path):
    out = run(
        tmp_path,
        """
        function, graph = loomir.compile(large), loomir.compile(Graph)
        y = np.zeros(4, "float32")
        function(y, 64)
        small = graph["main"](np.ones((4, 4), "float32"))
        x = np.ones((1 << 12, 1 << 14), "float32")
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = used + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for call in (lambda: function(y, 1 << 30), lambda: graph["main"](x)):
            try:
                call()
            except MemoryError as error:
                print(error.diagnostic.code)
        function(y, 64)
        print(y.tolist())
        """,
    )
    codes = out.splitlines()
    assert len(codes) == 3, out
    assert all(code.startswith("RUN") for code in codes[:2])
    assert codes[2] == "[1.0, 1.0, 1.0, 1.0]"


@pytest.mark.usefixtures("limited")
def test_memory_that_is_refused_to_the_compiler(tmp_path: Path):
    """LLVM itself would end the process."""
    out = run(
        tmp_path,
        """
        x = np.ones((4, 4), "float32")
        loomir.compile(Graph, cache=False)["main"](x)
        before = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), before[1]))
        try:
            loomir.compile(Graph, cache=False, opt_level=3)["main"](x)
        except MemoryError as error:
            print(error.diagnostic.code)
        resource.setrlimit(resource.RLIMIT_AS, before)
        print(loomir.compile(Graph, cache=False, opt_level=3)["main"](x).sum())
        """,
    )
    assert out.split() == ["RUN0207", "32.0"]
