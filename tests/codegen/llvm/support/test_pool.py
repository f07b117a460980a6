"""The thread pool under use: shares, faults, nesting, callers at once, fork, exit."""

import ctypes
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Module
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR
from loomir.codegen.llvm.assembler.values import const
from loomir.codegen.llvm.jit.engine import Library, compile_ir, load
from loomir.codegen.llvm.support.ir.pool import MAX_THREADS, pool_module
from loomir.codegen.llvm.support.pool import measure_fork_join, pool_symbols
from loomir.target.cpus import usable_cpus

TASK = [("ctx", PTR), ("closure", PTR), ("begin", I64), ("end", I64)]


def tasks() -> Module:
    """Tasks over a closure ``{ ptr counts, i64 bad }``.

    ``mark`` adds 1 to the count of each of its indices, and faults at the first index that is
    ``bad`` or more and a multiple of 7, with the index in the record. ``refuse`` faults at once.
    ``await_others`` does nothing at index 0 until the indices after its own, up to ``bad``, are marked;
    elsewhere it marks. ``nest`` runs ``mark`` over ten indices for each of its own, through the pool again.
    """
    module = Module()
    region = module.declare("loomir_parallel_for", I32, [PTR, PTR, PTR, I64, I64])
    closure_type = module.struct("closure", [PTR, I64])
    record_type = module.struct("record", [I32, I32, I64, I64, I64])

    mark = module.define("mark", I32, TASK)
    b = Builder(mark)
    ctx, closure, begin, end = mark.params
    counts = b.load(PTR, b.field(closure_type, closure, 0))
    bad = b.load(I64, b.field(closure_type, closure, 1))
    head, body, fault, step, done = (b.append(n) for n in ("head", "body", "fault", "step", "done"))
    b.br(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add(begin, mark.entry)
    b.condbr(b.icmp("slt", i, end), body, done)
    b.position_at_end(body)
    seventh = b.icmp("eq", b.urem(i, const(I64, 7)), const(I64, 0))
    b.condbr(b.and_(seventh, b.icmp("sge", i, bad)), fault, step)
    b.position_at_end(fault)
    b.store(const(I32, 41), b.field(record_type, ctx, 0))
    b.store(i, b.field(record_type, ctx, 2))
    b.store(b.sext(b.load(I32, b.field(record_type, ctx, 1)), I64), b.field(record_type, ctx, 3))
    b.ret(const(I32, 1))
    b.position_at_end(step)
    cell = b.gep(I8, counts, i)
    b.store(b.add(b.load(I8, cell), const(I8, 1)), cell)
    i.add(b.add(i, const(I64, 1)), step)
    b.br(head)
    b.position_at_end(done)
    b.ret(const(I32, 0))

    refuse = module.define("refuse", I32, TASK)
    b = Builder(refuse)
    b.store(refuse.params[2], b.field(record_type, refuse.params[0], 2))
    b.ret(const(I32, 1))

    await_others = module.define("await_others", I32, TASK)
    b = Builder(await_others)
    ctx, closure, begin, end = await_others.params
    counts = b.load(PTR, b.field(closure_type, closure, 0))
    number = b.load(I64, b.field(closure_type, closure, 1))
    closure_of_mark = b.alloca(closure_type)
    b.store(counts, b.field(closure_type, closure_of_mark, 0))
    b.store(const(I64, 1 << 60), b.field(closure_type, closure_of_mark, 1))
    head, look, late, work = (b.append(n) for n in ("head", "look", "late", "work"))
    entry = await_others.entry
    b.condbr(b.icmp("eq", begin, const(I64, 0)), head, work)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add(end, entry)
    tries = b.phi(I64)
    tries.add(const(I64, 0), entry)
    b.condbr(b.icmp("slt", i, number), look, work)
    b.position_at_end(look)
    seen = b.load_atomic(I8, b.gep(I8, counts, i), "acquire")
    i.add(b.add(i, b.zext(seen, I64)), look)
    following = b.add(tries, const(I64, 1))
    tries.add(following, look)
    b.condbr(b.icmp("slt", following, const(I64, 1 << 34)), head, late)
    b.position_at_end(late)
    b.ret(const(I32, 9))
    b.position_at_end(work)
    b.ret(b.call(mark, [ctx, closure_of_mark, begin, end]))

    nest = module.define("nest", I32, TASK)
    b = Builder(nest)
    ctx, closure, begin, end = nest.params
    head, body, ok, bad_block, done = (b.append(n) for n in ("head", "body", "ok", "bad", "done"))
    b.br(head)
    b.position_at_end(head)
    i = b.phi(I64)
    i.add(begin, nest.entry)
    b.condbr(b.icmp("slt", i, end), body, done)
    b.position_at_end(body)
    first = b.mul(i, const(I64, 10))
    last = b.add(first, const(I64, 10))
    code = b.call(region, [mark, closure, ctx, first, last])
    b.condbr(b.icmp("eq", code, const(I32, 0)), ok, bad_block)
    b.position_at_end(bad_block)
    b.ret(code)
    b.position_at_end(ok)
    i.add(b.add(i, const(I64, 1)), ok)
    b.br(head)
    b.position_at_end(done)
    b.ret(const(I32, 0))
    return module


@pytest.fixture(scope="module")
def library() -> Library:
    return load(compile_ir(tasks().render()), pool_symbols())


class Closure(ctypes.Structure):
    _fields_ = [("counts", ctypes.c_void_p), ("bad", ctypes.c_int64)]


class Record(ctypes.Structure):
    _fields_ = [
        ("site", ctypes.c_int32),
        ("depth", ctypes.c_int32),
        *((f"v{i}", ctypes.c_int64) for i in range(3)),
    ]


def region(
    library: Any, task: Any, n: Any, *, begin: int = 0, bad: Any = 1 << 60, size: Any = None
):
    """Run the task over ``[begin, n)``; return code, counts and record."""
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(pool_symbols()["loomir_parallel_for"])
    counts = np.zeros(max(1, size or n), np.uint8)
    closure = Closure(counts.ctypes.data, bad)
    record = Record(-5, 3, 0, 0, 77)
    refs = ctypes.addressof(closure), ctypes.addressof(record)
    code = run(library.address(task), *refs, begin, n)
    return code, counts, record


def set_threads(n: int) -> int:
    symbols = pool_symbols()
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(symbols["loomir_set_threads"])(n)


def get_threads() -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int32)(pool_symbols()["loomir_get_threads"])()


@pytest.fixture(autouse=True)
def uncapped():
    set_threads(0)
    yield
    set_threads(0)


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8])
def test_every_index_runs_once(library: Library, threads: int):
    set_threads(threads)
    for n in [1, 2, 3, 4, 5, 7, 8, 9, 100, 1001]:
        code, counts, record = region(library, "mark", n)
        assert code == 0
        assert (counts == 1).all()
        assert (record.site, record.depth, record.v2) == (-5, 3, 77)


def test_ranges_need_not_begin_at_zero(library: Library):
    set_threads(3)
    _, counts, _ = region(library, "mark", 40, begin=13)
    assert (counts == (np.arange(40) >= 13)).all()


@pytest.mark.parametrize(("begin", "end"), [(0, 0), (5, 5), (5, 3), (2**63 - 1, -(2**63))])
def test_empty_ranges_run_nothing(library: Library, begin: Any, end: Any):
    code, counts, _ = region(library, "mark", end, begin=begin, size=8)
    assert code == 0
    assert not counts.any()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_ranges_wider_than_the_signed_integers_are_split(library: Library, threads: int):
    set_threads(threads)
    low, high = -(2**63), 2**63 - 1
    for begin, end in [(low, high), (low + 5, high - 3), (low, 7), (-1, high)]:
        code, _, record = region(library, "refuse", end, begin=begin, size=8)
        assert (code, record.v0) == (1, begin)


@pytest.mark.parametrize("threads", [1, 2, 4, 7])
def test_the_fault_is_the_one_that_a_serial_run_meets_first(library: Library, threads: int):
    set_threads(threads)
    for bad in (0, 1, 400, 650, 993):
        code, counts, record = region(library, "mark", 1000, bad=bad)
        first = -(-bad // 7) * 7
        assert code == 1
        assert (record.site, record.v0, record.v1, record.v2) == (41, first, 3, 77)
        assert (counts[:first] == 1).all()


@pytest.mark.parametrize("threads", [2, 3])
def test_who_is_delayed_keeps_a_piece_only(library: Library, threads: int):
    set_threads(threads)
    for n in (2, 5, 64, 1000):
        code, counts, _ = region(library, "await_others", n, bad=n)
        assert code == 0
        assert (counts == 1).all()


def test_regions_of_all_sizes_follow_each_other(library: Library):
    for i in range(3000):
        set_threads(i * 7 % 6 + 1)
        n = i * 31 % 97 + 1
        bad = n - 20 if i % 3 == 0 else 1 << 60
        code, counts, record = region(library, "mark", n, bad=bad)
        first = max(0, -(-bad // 7) * 7)
        assert code == (first < n)
        if code:  # without a fault, v0 is the budget, which who waits long may fill
            assert record.v0 == first
        assert (counts[:first] == 1).all()


def test_no_fault_is_left_over_for_the_next_region(library: Library):
    set_threads(4)
    for _ in range(200):
        assert region(library, "mark", 64, bad=50)[0] == 1
        assert region(library, "mark", 64)[0] == 0


def test_nested_regions_run(library: Library):
    for threads in (2, 4):
        set_threads(threads)
        for _ in range(50):
            code, counts, _ = region(library, "nest", 100, size=1000)
            assert code == 0
            assert (counts == 1).all()
        code, _, record = region(library, "nest", 100, bad=703, size=1000)
        assert (code, record.v0) == (1, 707)


def test_callers_at_once_are_each_right(library: Library):
    set_threads(3)
    wrong: list[object] = []

    def work(seed: int) -> None:
        for i in range(300):
            n = (seed * 37 + i * 11) % 200 + 1
            code, counts, _ = region(library, "mark", n)
            if code or not (counts == 1).all():
                wrong.append((seed, n))
            if i % 10 == 0:
                code, _, record = region(library, "mark", 100, bad=60)
                if (code, record.v0) != (1, 63):
                    wrong.append((seed, "fault", record.v0))

    callers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert wrong == []


def test_regions_that_wake_sleepers(library: Library):
    # The pauses are longer than the spinning, so that both ends come to sleep in the futex.
    set_threads(3)
    pause = threading.Event()
    for _ in range(60):
        _, counts, _ = region(library, "mark", 50)
        assert (counts == 1).all()
        pause.wait(0.002)


def test_threads_without_work_sleep(library: Library):
    code = """
        import time
        library = load(compile_ir(tasks().render()), pool_symbols())
        set_threads(4)
        region(library, "mark", 100)
        for _ in range(20):  # on a busy machine it may take a while until all have gone to sleep
            before = time.process_time()
            time.sleep(0.25)
            if time.process_time() - before < 0.01:
                break
        else:
            raise AssertionError("threads without work run")
    """
    assert child(code) == (0, "")


def test_the_cap_is_kept_and_taken_away(monkeypatch: pytest.MonkeyPatch):
    for name in ("LOOMIR_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    set_threads(0)
    cores = usable_cpus()
    assert get_threads() == min(cores, MAX_THREADS)
    assert set_threads(3) == min(cores, MAX_THREADS)
    assert get_threads() == 3
    set_threads(10**6)
    assert get_threads() == MAX_THREADS
    set_threads(-1)
    assert get_threads() == min(cores, MAX_THREADS)


def test_threads_are_made_only_as_needed(library: Library):
    code = """
        library = load(compile_ir(tasks().render()), pool_symbols())
        before = len(os.listdir("/proc/self/task"))
        assert worker_count() == 0
        set_threads(6)
        region(library, "mark", 1)
        assert worker_count() == 0
        region(library, "mark", 3)
        assert worker_count() == 2
        region(library, "mark", 100)
        assert worker_count() == 5
        set_threads(2)
        region(library, "mark", 100)
        assert worker_count() == 5
        threads = sorted(map(int, os.listdir("/proc/self/task")))
        assert len(threads) == before + 5
        def blocked():
            with open(f"/proc/self/task/{threads[-1]}/status") as f:
                return int(f.read().split("SigBlk:")[1].split()[0], 16)
        interrupt, segv = 1 << 1, 1 << 10
        while blocked() & segv:  # faulthandler still speaks, once the thread has come to run
            threading.Event().wait(0.001)
        assert blocked() & interrupt  # goes to a thread of the program
    """
    assert child(code) == (0, "")


PRELUDE = """
import os
from tests.codegen.llvm.support.test_pool import *
from loomir.codegen.llvm.support.pool import worker_count
"""


def child(code: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + textwrap.dedent(code)],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_forked_child_has_a_pool_of_its_own():
    code = """
        library = load(compile_ir(tasks().render()), pool_symbols())
        set_threads(4)
        assert (region(library, "mark", 100)[1] == 1).all()
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                ok = worker_count() == 0
                for _ in range(20):
                    ok = ok and (region(library, "mark", 100)[1] == 1).all()
                ok = ok and worker_count() == 3
                grandchild = os.fork()
                if grandchild == 0:
                    os._exit(0 if (region(library, "mark", 100)[1] == 1).all() else 1)
                ok = ok and os.waitpid(grandchild, 0)[1] == 0
                os._exit(0 if ok else 1)
            assert (region(library, "mark", 100)[1] == 1).all()
            assert os.waitpid(pid, 0)[1] == 0
    """
    assert child(code) == (0, "")


def test_fork_while_another_thread_is_in_a_region():
    code = """
        library = load(compile_ir(tasks().render()), pool_symbols())
        set_threads(3)
        stop = threading.Event()
        def work():
            while not stop.is_set():
                assert (region(library, "mark", 100_000)[1] == 1).all()
        other = threading.Thread(target=work)
        other.start()
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if (region(library, "mark", 100)[1] == 1).all() else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        other.join()
    """
    assert child(code) == (0, "")


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "os._exit(0)", "raise SystemExit"])
def test_the_process_ends_cleanly(ending: str):
    code = f"""
        library = load(compile_ir(tasks().render()), pool_symbols())
        set_threads(5)
        for _ in range(10):
            region(library, "mark", 100)
        {ending}
    """
    assert child(code) == (0, "")


def test_daemon_threads_may_still_be_in_a_region_at_the_end():
    code = """
        library = load(compile_ir(tasks().render()), pool_symbols())
        set_threads(3)
        def work():
            while True:
                region(library, "mark", 1_000_000)
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        threading.Event().wait(0.2)
    """
    assert child(code) == (0, "")


def test_regions_after_the_end_of_the_pool_run_serially():
    code = """
        import atexit
        def late():
            assert (region(library, "mark", 100)[1] == 1).all()
            assert worker_count() == 0
        atexit.register(late)  # runs after the pool's own, which is registered below
        library = load(compile_ir(tasks().render()), pool_symbols())
        set_threads(3)
        region(library, "mark", 100)
    """
    assert child(code) == (0, "")


def test_fork_join_is_measured_and_not_absurd():
    measured = measure_fork_join(2000)
    assert measured.threads == get_threads()
    assert 0 < measured.median <= measured.p99
    assert measured.median < 1_000_000


def test_the_pool_compiles_for_arm():
    assert "hint" in pool_module("aarch64-unknown-linux-gnu").render()


@pytest.mark.parametrize(
    ("variables", "threads"),
    [
        ({"LOOMIR_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "2,1"}, 2),
        ({"LOOMIR_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
        ({"LOOMIR_NUM_THREADS": "99999999999999999999"}, 256),
        ({"LOOMIR_NUM_THREADS": "0"}, None),
        ({"LOOMIR_NUM_THREADS": "-1"}, None),
        ({"LOOMIR_NUM_THREADS": "many"}, None),
        ({"LOOMIR_NUM_THREADS": ""}, None),
    ],
)
def test_the_environment_says_how_many_threads(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], threads: int | None
):
    for name in ("LOOMIR_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    set_threads(0)
    usable = get_threads()
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert get_threads() == usable  # asked once
    set_threads(0)
    assert get_threads() == (usable if threads is None else threads)
