"""Pin the pool's threads to CPUs of their own, as generated IR.

By default, a system may wake a worker on the CPU of its caller, where it waits until the caller has
done its share: Linux does so on virtual machines, whose halted CPUs do not count as idle. So if
there is a CPU for each thread, workers avoid the CPU of the caller and those of each other: each
has a CPU of its own, its home, and may also use those that belong to nobody. The caller is not
pinned.

Placement changes only if the caller has moved, or if there are more workers. If a worker is not on
the CPUs that it was given, somebody else has pinned it, and it is left as it is from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Function, Module
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, VOID, array, vector
from loomir.codegen.llvm.assembler.values import Value, const, zero

__all__ = ["ANYWHERE", "NOWHERE", "Placement", "Worker", "count_cpus", "read_own_cpus"]

NOWHERE: Final = -1
"""The CPU of workers that are not placed yet, and of the caller before it is known."""
ANYWHERE: Final = -2
"""The caller's CPU if workers must not be placed."""

_WORDS: Final = 128
_BYTES: Final = 8 * _WORDS
_BITS: Final = 64 * _WORDS


class Worker(NamedTuple):
    """A worker as placement sees it: its thread, and the address of its home, a CPU."""

    thread: Value
    home: Value


Find = Callable[[Builder, Value], Worker]


def read_own_cpus(b: Builder, mask: Value) -> Value:
    """Write the CPUs that the calling thread may use; return 0, or another number on failure."""
    ask = b.module.declare("sched_getaffinity", I32, [I32, I64, PTR])
    return b.call(ask, [const(I32, 0), const(I64, _BYTES), mask])


def count_cpus(b: Builder, mask: Value) -> Value:
    """Return how many CPUs there are in a mask, as an ``i32``."""
    words = vector(I64, _WORDS)
    bits = b.intrinsic("llvm.ctpop", [b.load(words, mask, align=8)])
    return b.trunc(
        b.intrinsic("llvm.vector.reduce.add", [bits], result=I64, overloads=[words]), I32
    )


class Placement:
    """The variables of placement, and the code that uses them."""

    def __init__(self, module: Module) -> None:
        self.module = module
        mask = array(I64, _WORDS)
        # The CPUs that workers may use; those last assigned to worker 1; the caller's CPU at that
        # time.
        self.usable = module.define_global("usable", zero(mask), align=64)
        self.given = module.define_global("given", zero(mask), align=64)
        self.caller = module.define_global("caller", const(I32, NOWHERE), align=64)

    def begin(self, b: Builder) -> None:
        """Let workers use the CPUs of the calling thread; called before there are workers."""
        read_own_cpus(b, self.usable)
        self._copy(b, self.given, self.usable)

    def follow(self, b: Builder, place: Function) -> None:
        """Place workers again if the caller's CPU has changed; go on in a new block."""
        cpu = b.call(self.module.declare("sched_getcpu", I32, []), [])
        before = b.load(I32, self.caller)
        moved, on = b.append("moved"), b.append("placed")
        new = b.and_(b.icmp("ne", cpu, before), b.icmp("ne", before, const(I32, ANYWHERE)))
        b.condbr(b.and_(new, b.icmp("ult", cpu, const(I32, _BITS))), moved, on)
        b.position_at_end(moved)
        b.call(place, [cpu])
        b.br(on)
        b.position_at_end(on)

    def define(self, workers: Value, worker: Find) -> Function:
        """Define ``void place(i32 cpu)``, which places workers around a caller on that CPU.

        ``workers`` is the address of the number of workers, which are numbered from 1.
        """
        f = self.module.define("place", VOID, [("cpu", I32)], linkage="internal")
        b = Builder(f)
        cpu = f.params[0]

        now, free = b.alloca(I64, _WORDS, align=64), b.alloca(I64, _WORDS, align=64)
        count = b.load_atomic(I32, workers, "monotonic")
        foreign, ours, crowded, roomy = (
            b.append(n) for n in ("foreign", "ours", "crowded", "roomy")
        )
        of_thread = [worker(b, const(I32, 1)).thread, const(I64, _BYTES), now]
        kinds = [I64, I64, PTR]
        failed = b.call(self.module.declare("pthread_getaffinity_np", I32, kinds), of_thread)
        compare = self.module.declare("memcmp", I32, [PTR, PTR, I64])
        differs = b.call(compare, [now, self.given, const(I64, _BYTES)])
        b.condbr(b.icmp("eq", b.or_(failed, differs), const(I32, 0)), ours, foreign)
        b.position_at_end(foreign)
        b.store(const(I32, ANYWHERE), self.caller)
        b.ret()

        b.position_at_end(ours)
        self._copy(b, free, self.usable)
        room = count_cpus(b, self.usable)
        b.condbr(b.icmp("sgt", room, count), roomy, crowded)
        b.position_at_end(crowded)
        b.store(const(I32, ANYWHERE), self.caller)
        with _WorkerLoop(b, count) as i:
            self._give(b, worker(b, i).thread, free)
        self._copy(b, self.given, free)
        b.ret()

        b.position_at_end(roomy)
        b.store(cpu, self.caller)
        _keep_homes(b, free, worker, count, cpu)
        _find_homes(b, free, worker, count, cpu)
        # CPUs that are still free belong to no worker, so all workers may use them.
        with _WorkerLoop(b, count) as i:
            made = worker(b, i)
            at = b.load(I32, made.home)
            word, bit = _bit(b, free, at)
            b.store(b.or_(b.load(I64, word), bit), word)
            self._give(b, made.thread, free)
            first, on = b.append("first"), b.append("on")
            b.condbr(b.icmp("eq", i, const(I32, 1)), first, on)
            b.position_at_end(first)
            self._copy(b, self.given, free)
            b.br(on)
            b.position_at_end(on)
            _clear(b, free, at)
        b.ret()
        return f

    def _give(self, b: Builder, thread: Value, mask: Value) -> None:
        give = self.module.declare("pthread_setaffinity_np", I32, [I64, I64, PTR])
        b.call(give, [thread, const(I64, _BYTES), mask])

    def _copy(self, b: Builder, to: Value, source: Value) -> None:
        copy = self.module.declare("memcpy", PTR, [PTR, PTR, I64])
        b.call(copy, [to, source, const(I64, _BYTES)])


def _keep_homes(b: Builder, free: Value, worker: Find, count: Value, cpu: Value) -> None:
    """Remove the caller's CPU, and the homes of workers that keep theirs, from the free CPUs."""
    _clear(b, free, cpu)
    with _WorkerLoop(b, count) as i:
        home = worker(b, i).home
        stays, leaves, on = b.append("stays"), b.append("leaves"), b.append("on")
        at = b.load(I32, home)
        b.condbr(b.or_(b.icmp("slt", at, const(I32, 0)), b.icmp("eq", at, cpu)), leaves, stays)
        b.position_at_end(leaves)
        b.store(const(I32, NOWHERE), home)
        b.br(on)
        b.position_at_end(stays)
        _clear(b, free, at)
        b.br(on)
        b.position_at_end(on)


def _find_homes(b: Builder, free: Value, worker: Find, count: Value, cpu: Value) -> None:
    """Assign the next free CPUs after the caller's to workers without a home."""
    last = b.alloca(I32)
    b.store(cpu, last)
    with _WorkerLoop(b, count) as i:
        home = worker(b, i).home
        lacks, on = b.append("lacks"), b.append("on")
        b.condbr(b.icmp("slt", b.load(I32, home), const(I32, 0)), lacks, on)
        b.position_at_end(lacks)
        found = _find_next_cpu(b, free, b.load(I32, last))
        b.store(found, last)
        b.store(found, home)
        _clear(b, free, found)
        b.br(on)
        b.position_at_end(on)


class _WorkerLoop:
    """A loop over the workers: ``with _WorkerLoop(b, count) as index``."""

    def __init__(self, b: Builder, count: Value) -> None:
        self.b, self.count = b, count
        self.head, self.body, self.done = (b.append(n) for n in ("each", "one", "all"))

    def __enter__(self) -> Value:
        b = self.b
        origin = b.block
        b.br(self.head)
        b.position_at_end(self.head)
        self.index = b.phi(I32, "worker")
        self.index.add(const(I32, 1), origin)
        b.condbr(b.icmp("sle", self.index, self.count), self.body, self.done)
        b.position_at_end(self.body)
        return self.index

    def __exit__(self, *_: object) -> None:
        b = self.b
        self.index.add(b.add(self.index, const(I32, 1)), b.block)
        b.br(self.head)
        b.position_at_end(self.done)


def _bit(b: Builder, mask: Value, cpu: Value) -> tuple[Value, Value]:
    """Return the address of the word that holds the bit of a CPU, and the bit."""
    wide = b.zext(cpu, I64)
    word = b.gep(I64, mask, b.lshr(wide, const(I64, 6)))
    return word, b.shl(const(I64, 1), b.and_(wide, const(I64, 63)))


def _clear(b: Builder, mask: Value, cpu: Value) -> None:
    word, bit = _bit(b, mask, cpu)
    b.store(b.and_(b.load(I64, word), b.not_(bit)), word)


def _find_next_cpu(b: Builder, mask: Value, cpu: Value) -> Value:
    """Find the next CPU of a non-empty mask, cyclically; the builder goes on in a new block."""
    head, found = b.append("next"), b.append("found")
    origin = b.block
    b.br(head)
    b.position_at_end(head)
    before = b.phi(I32, "cpu")
    before.add(cpu, origin)
    at = b.and_(b.add(before, const(I32, 1)), const(I32, _BITS - 1))
    before.add(at, head)
    word, bit = _bit(b, mask, at)
    b.condbr(b.icmp("ne", b.and_(b.load(I64, word), bit), const(I64, 0)), found, head)
    b.position_at_end(found)
    return at
