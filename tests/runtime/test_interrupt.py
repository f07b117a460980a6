# ruff: noqa: N806  (programs of TVMScript, whose names are its own)
"""Ctrl-C ends a call of compiled code, wherever it is, and leaves everything usable."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import loomir
from loomir.codegen.llvm.support.ir.faults import FULL
from loomir.codegen.llvm.tir.frame import LongLoop
from loomir.codegen.llvm.tir.polling import long_loops
from loomir.ir.visit import of_classes
from loomir.script import tir as T
from loomir.tir import For, Var, While

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere code does not look")

PROGRAMS = """
import os, signal, sys, threading, time
import numpy as np
import loomir
from loomir.script import ir as I, relax as R, tir as T

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have us ignore it

@T.prim_func
def waits(x: T.Buffer((4,), "int64")):
    while x[0] < T.int64(1):
        x[1] = x[1] + T.int64(1)

@T.prim_func
def counts(x: T.Buffer((4,), "int64"), n: T.int64):
    for i in range(n):
        x[1] = x[1] * T.int64(3) + (x[2] ^ i)

@T.prim_func
def constant(x: T.Buffer((4,), "int64")):
    for i in range(1 << 40):
        x[1] = x[1] * T.int64(3) + (x[2] ^ i)

@T.prim_func
def nested(x: T.Buffer((4,), "int64"), n: T.int64, m: T.int64):
    for i in range(n):
        for j in range(m):
            x[1] = x[1] * T.int64(3) + (x[2] ^ i)

@T.prim_func
def threads(x: T.handle, n: T.int64):
    k = T.int64()
    A = T.match_buffer(x, (k,), "int64")
    for i in T.parallel(k):
        for j in range(n):
            A[i] = A[i] * T.int64(3) + (A[i] ^ j)

@T.prim_func
def last_thread(x: T.handle, n: T.int64):
    k = T.int64()
    A = T.match_buffer(x, (k,), "int64")
    for i in T.parallel(k):
        if i == k - 1:
            for j in range(n):
                A[i] = A[i] * T.int64(3) + (A[i] ^ j)

@T.prim_func
def regions(x: T.handle, n: T.int64):
    k = T.int64()
    A = T.match_buffer(x, (k,), "int64")
    for j in range(n):
        for i in T.parallel(k):
            A[i] = A[i] * T.int64(3)

@I.ir_module
class Fibonacci:
    @T.prim_func
    def main(n: T.int64) -> T.int64:
        if n < T.int64(2):
            return n
        return Fibonacci.main(n - T.int64(1)) + Fibonacci.main(n - T.int64(2))

@I.ir_module
class Graph:
    @T.prim_func(private=True)
    def k(a: T.Buffer((4,), "int64"), b: T.Buffer((4,), "int64")):
        for i in range(1 << 40):
            b[0] = b[0] * T.int64(3) + (a[2] ^ i)

    @R.function
    def main(x: R.Tensor((4,), "int64")):
        y = R.call_tir(Graph.k, (x,), out_sinfo=R.Tensor((4,), "int64"))
        return R.add(y, y)

@I.ir_module
class Doubling:
    @R.function
    def main(
        n: R.Prim("int64"), x: R.Tensor((), "bool"), y: R.Tensor((), "bool")
    ) -> R.Tensor((), "bool"):
        if x:
            a = Doubling.main(n, y, y)
            b = Doubling.main(n, a, x)
            c = Doubling.main(n, b, y)
        else:
            c = x
        return c

@T.prim_func
def asks(x: T.Buffer((4,), "int64")):
    for i in range(4):
        x[i] = T.call_packed("test_interrupt.inner", i, dtype="int64")

four, many = np.zeros(4, "int64"), np.zeros(64, "int64")
LONG = 1 << 40
"""

HARNESS = """
def interrupted(call, after=0.3):
    def send():
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        call()
    except KeyboardInterrupt:
        ended = True
    else:
        ended = False
    sender.join()
    return ended
"""


def run(code: str, seconds: float = 300) -> str:
    """Run code after the programs, in a process of its own; return what it prints."""
    text = PROGRAMS + HARNESS + textwrap.dedent(code)
    path = f"{run.folder}/case{time.monotonic_ns()}.py"
    with open(path, "w") as file:
        file.write(text)
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.fixture(autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory):
    run.folder = str(tmp_path_factory.mktemp("programs"))


def test_every_kind_of_long_code_stops_and_goes_on_to_work():
    out = run("""
        short = {
            "waits": (np.ones(4, "int64"),), "counts": (four, 5), "nested": (four, 5, 5),
            "threads": (many, 5), "last_thread": (many, 5), "regions": (many, 5),
        }
        long = {
            "waits": [(four,)], "counts": [(four, LONG)], "constant": [(four,)],
            "nested": [(four, LONG, LONG), (four, LONG, 1), (four, 1 << 62, 0)],
            "threads": [(many, LONG)], "last_thread": [(many, LONG)], "regions": [(many, LONG)],
        }
        for schedule in (True, False):
            for name, cases in long.items():
                function = loomir.compile(globals()[name], schedule=schedule)
                for args in cases:
                    four[:] = 0
                    print(name, schedule, interrupted(lambda: function(*args)))
                    if name in short:
                        function(*short[name])
        fibonacci = loomir.compile(Fibonacci)
        print("fibonacci", interrupted(lambda: fibonacci["main"](90)), fibonacci["main"](10))
        graph = loomir.compile(Graph)
        print("graph", interrupted(lambda: graph["main"](four)))
        """)
    lines = out.splitlines()
    assert len(lines) == 20, out
    assert all("True" in line.split()[-2:] or line.endswith("True") for line in lines), out
    assert "fibonacci True 55" in lines


def test_recursion_of_graphs_stops():
    out = run("""
        doubling = loomir.compile(Doubling)
        yes = np.array(True)
        try:
            ended = interrupted(lambda: doubling["main"](3, yes, yes))
        except RecursionError:
            ended = "deep"
        print(ended)
        """)
    assert out.split() in (["True"], ["deep"])


def test_a_handler_that_raises_nothing_stops_nothing():
    out = run("""
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(time.perf_counter()))
        function = loomir.compile(counts, schedule=False)
        start = time.perf_counter()
        function(four, 1 << 20)
        sender = threading.Thread(
            target=lambda: [time.sleep(0.1), os.kill(os.getpid(), signal.SIGINT)]
        )
        sender.start()
        start = time.perf_counter()
        function(four, 1 << 29)
        end = time.perf_counter()
        sender.join()
        print(len(seen), start < seen[0] < end)
        """)
    assert out.split() == ["1", "True"]


def test_the_handler_of_another_signal_may_raise():
    out = run("""
        class Late(Exception):
            pass

        def late(*_):
            raise Late("too late")

        signal.signal(signal.SIGALRM, late)
        function = loomir.compile(waits)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            function(four)
        except Late as error:
            print(error, [frame.name for frame in __import__("traceback").extract_tb(
                error.__traceback__)][-1])
        """)
    assert out.split() == ["too", "late", "late"]


def test_an_interrupt_inside_of_a_callback_passes_through():
    out = run("""
        inner = loomir.compile(waits)

        def run_inner(i):
            inner(four)
            return 1

        loomir.register_func("test_interrupt.inner", run_inner)
        outer = loomir.compile(asks)
        other = np.zeros(4, "int64")
        print(interrupted(lambda: outer(other)))
        four[0] = 1
        outer(other)
        print(other.tolist())
        """)
    assert out.splitlines() == ["True", "[1, 1, 1, 1]"]


def test_calls_of_other_threads_go_on():
    """As in Python itself: signals are the main thread's."""
    out = run("""
        function = loomir.compile(counts, schedule=False)
        ended = []
        other = threading.Thread(target=lambda: ended.append(function(many[:4], 1 << 29)))
        other.start()
        print(interrupted(lambda: function(four, LONG)))
        other.join()
        print(ended)
        """)
    assert out.splitlines() == ["True", "[None]"]


def test_a_forked_child_can_be_interrupted():
    out = run("""
        function = loomir.compile(threads)
        function(many, 5)

        def child():
            pid = os.fork()
            if pid == 0:
                os._exit(7 if interrupted(lambda: function(many, LONG)) else 8)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        print(child())
        found = []
        thread = threading.Thread(target=lambda: found.append(child()))
        thread.start()
        thread.join()
        print(found)
        print(interrupted(lambda: function(many, LONG)))
        """)
    assert out.splitlines() == ["7", "[7]", "True"]


def test_a_saved_executable_can_be_interrupted(tmp_path: Path):
    out = run(f"""
        path = {str(tmp_path / "counts.loom")!r}
        loomir.compile(counts).save(path)
        function = loomir.load(path)
        print(interrupted(lambda: function(four, LONG)))
        """)
    assert out.split() == ["True"]


def test_code_for_c_asks_nobody(tmp_path: Path):
    @T.prim_func
    def long(x: T.Buffer((4,), "int64"), n: T.int64):
        for i in range(n):
            x[1] = x[1] * T.int64(3) + (x[2] ^ i)

    loomir.compile(long).export_library(tmp_path / "long.o")
    data = (tmp_path / "long.o").read_bytes()
    assert b"PyErr" not in data
    assert b"PyGILState" not in data


# -- which loops look ----------------------------------------------------------------------------
@T.prim_func
def loops(a: T.handle, b: T.handle, k: T.int64):
    n = T.int64()
    A = T.match_buffer(a, (n,), "int64")
    B = T.match_buffer(b, (64,), "int64")
    for short in range(64):
        B[short] = T.int64(0)
    for tile in range(n):
        for lane in range(T.min(T.int64(64), n - tile * T.int64(64))):
            A[lane] = T.int64(tile)
    for single in range(n):
        A[single] = T.int64(1)
    for row in range(n):
        for column in range(n):
            A[column] = A[column] + row
    for some in range(n):
        for number in range(k):
            A[some] = A[some] * T.int64(3) + number
    for constant in range(1 << 40):
        B[0] = B[0] * T.int64(3) + constant
    while B[1] > T.int64(0):
        B[1] = B[1] - T.int64(1)


def test_long_loops_count_and_short_ones_do_not():
    sizes = {var for var in of_classes(loops, Var) if var.name_hint == "n"}
    planned = long_loops(loops.body, sizes)
    found: dict[str, LongLoop | None] = {}
    for loop in of_classes(loops.body, For, While):
        name = loop.loop_var.name_hint if isinstance(loop, For) else "while"
        found[name] = planned.get(id(loop))
    left = {"short", "lane", "column"}
    assert {name for name, long in found.items() if long is None} == left
    for name in ("tile", "single", "number", "constant"):
        long = found[name]
        assert long is not None
        # A strip takes the whole budget, more or less.
        assert FULL // 2 < long.weight * long.strip <= FULL
        assert not long.terms
    row, ends = found["row"], found["while"]
    assert row is not None
    assert row.strip == 0
    assert [len(term.extents) for term in row.terms] == [1]
    assert ends is not None
    assert ends.each


def test_what_loops_hold_in_registers_stays_there():
    """The call of what asks Python keeps all registers, so that constants are read once."""
    from loomir.codegen.llvm.jit.engine import TargetMachine

    @T.prim_func
    def shifts(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = A[i] * T.float32(3)

    # Other machines have no such calls.
    saves = '"no_caller_saved_registers"' in loomir.compile(shifts).llvm_ir()
    assert saves is TargetMachine.host().is_x86


def test_asking_keeps_the_registers():
    """Vectors that live across the question are those that they were."""
    x = np.arange(48, dtype="float32")

    @T.prim_func
    def sums(a: T.Buffer((48,), "float32"), out: T.Buffer((48,), "float32"), n: T.int64):
        total = T.alloc_buffer((48,), "float32")
        for i in T.vectorized(48):
            total[i] = T.float32(0)
        for k in range(n):
            for i in T.vectorized(48):
                total[i] = T.max(total[i], a[i] * T.float32(2) + T.Cast("float32", k % 2))
        for i in T.vectorized(48):
            out[i] = total[i]

    function = loomir.compile(sums)
    out = np.zeros(48, "float32")
    function(x, out, 1 << 26)
    assert np.array_equal(out, x * 2 + 1)
