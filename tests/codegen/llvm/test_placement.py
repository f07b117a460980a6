"""On which CPUs the pool's threads run: off the caller's, off each other's, and nowhere else."""

import os

import pytest

from loomir.codegen.llvm.support.pool import is_portable
from tests.codegen.llvm.support.test_pool import child

pytestmark = pytest.mark.skipif(is_portable(), reason="POSIX does not pin threads")
CPUS = sorted(os.sched_getaffinity(0))

PRELUDE = """
library = load(compile_ir(tasks().render()), pool_symbols())
cpus = sorted(os.sched_getaffinity(0))
before = set(os.listdir("/proc/self/task"))

def run(threads, n=100):
    set_threads(threads)
    code, counts, _ = region(library, "mark", n)
    assert code == 0
    assert (counts == 1).all()

def masks():
    made = sorted(set(os.listdir("/proc/self/task")) - before, key=int)
    return [os.sched_getaffinity(int(thread)) for thread in made]

def stand(cpu):
    os.sched_setaffinity(os.getpid(), [cpu])
"""


def check(code: str) -> None:
    assert child(PRELUDE + code) == (0, "")


def test_workers_keep_off_the_callers_cpu_when_it_moves():
    if len(CPUS) == 1:
        pytest.skip("there is one CPU only: every thread uses it")
    check("""
run(2)
for threads in range(2, min(len(cpus), 4) + 1):
    for cpu in [*cpus, *reversed(cpus)]:
        stand(cpu)
        run(threads)
        now = masks()
        assert len(now) == threads - 1
        for mask in now:
            assert mask
            assert mask <= set(cpus) - {cpu}
        if threads == len(cpus):  # nobody shares, and nobody is left without
            assert sorted(map(list, now)) == [[c] for c in cpus if c != cpu]
""")


def test_workers_may_use_what_is_nobodys():
    if len(CPUS) < 3:
        pytest.skip("each of two CPUs is somebody's")
    check("""
stand(cpus[0])
set_threads(2)
region(library, "mark", 100)
os.sched_setaffinity(os.getpid(), cpus)  # too late: what a worker may use is decided once
assert masks() == [set(cpus[:1])]
pid = os.fork()
if pid == 0:
    before = set(os.listdir("/proc/self/task"))
    region(library, "mark", 100)
    (mask,) = masks()
    os._exit(0 if len(mask) == len(cpus) - 1 else 1)
assert os.waitpid(pid, 0)[1] == 0
""")


def test_more_threads_than_cpus_go_where_the_system_likes():
    check("""
run(2)
run(len(cpus) + 2)
assert masks() == [set(cpus)] * (len(cpus) + 1)
for cpu in cpus:
    stand(cpu)
    run(len(cpus) + 2)
    assert masks() == [set(cpus)] * (len(cpus) + 1)
""")


def test_what_others_say_of_a_worker_stays():
    if len(CPUS) == 1:
        pytest.skip("there is one CPU only: every thread uses it")
    check("""
stand(cpus[0])
set_threads(2)
os.sched_setaffinity(os.getpid(), cpus)
run(2)
(worker,) = set(os.listdir("/proc/self/task")) - before
os.sched_setaffinity(int(worker), cpus[:2])
given = masks()
for cpu in [*cpus, *cpus]:
    stand(cpu)
    run(2)
    assert masks() == given == [set(cpus[:2])]
""")
