"""The thread pool as generated IR; ``pool`` compiles and loads it.

How a region runs: the caller takes ``busy``, writes the task and the number of its pieces, and
advances ``epoch``. Workers whose number is below the count of that epoch run pieces, and so does
the caller (``ir.work_sharing``), which then waits until no piece is pending. It does not wait for
any worker: one that comes late finds nothing to do.

- ``epoch`` holds the generation in its low bits and the number of shares in its high bits, in one
  word: a late worker must not combine the generation of one region with the count of another.
- Nested calls, and calls while another thread has the pool, find ``busy`` taken and run serially.
- Waiting threads spin for a while, then sleep in a queue (``ir.system``). In each pair "I change
  the word, then check whether you sleep" and "I announce that I sleep, then check the word", both
  steps are sequentially consistent. The caller wakes a few workers, which wake others; a futex
  wakes only those whose number, modulo 32, is below the count.
- The caller takes the fault of the lowest piece that has one, which a serial run meets first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Block, Callee, Function, Module
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR, VOID, Type, array
from loomir.codegen.llvm.assembler.values import NULL, Value, const, zero
from loomir.codegen.llvm.support.ir.cores import count_cores, emit_min, read_thread_setting
from loomir.codegen.llvm.support.ir.faults import BUDGET, CONTEXT
from loomir.codegen.llvm.support.ir.names import POLL
from loomir.codegen.llvm.support.ir.placement import (
    NOWHERE,
    Placement,
    Worker,
)
from loomir.codegen.llvm.support.ir.scratch import define_scratch
from loomir.codegen.llvm.support.ir.system.choose import system_for
from loomir.codegen.llvm.support.ir.system.interface import System
from loomir.codegen.llvm.support.ir.work_sharing import (
    COUNT_SHIFT,
    GENERATIONS,
    HOME,
    MAX_THREADS,
    RECORD,
    SEEN,
    TASK,
    THREAD,
    Shares,
)
from loomir.target.triples import architecture_of, system_name

__all__ = ["MAX_THREADS", "TASK", "pool_module"]

_LINE: Final = 64  # bytes of a cache line
_ALL_SHARES: Final = 0xFFFF  # the count that tells workers to end
_ALL: Final = 0x7FFFFFFF  # as many threads as there are
_EVERYBODY: Final = -1  # the bit set of all threads
# Spinning saves the 7 to 20 microseconds of waking a thread, which pays between the calls of a
# program that does little else.
_SPIN_NANOSECONDS: Final = 100_000
_SPINS: Final = 64  # between two readings of the clock
_SPINS_CROWDED: Final = (
    30  # in all: with more threads than cores, spinning keeps others from working
)
_LOOK_NANOSECONDS: Final = 20_000_000  # how long the caller of a region sleeps at a time
_WAKES: Final = 4  # each costs the waker 1 to 3 microseconds


class _State(NamedTuple):
    """The variables of the pool; those that different threads write are on separate cache lines."""

    epoch: Value
    sleepers: Value
    pending: Value
    faulted: Value
    waiting: Value
    busy: Value
    threads: Value
    cores: Value
    created: Value
    quota: Value


class _Pool:
    def __init__(self, module: Module, arch: str, system: System) -> None:
        self.module = module
        self.arch = arch
        self.system = system
        self.state = s = self._declare()
        self.shares = Shares(module, s.epoch, s.pending, s.faulted)
        self.placement = system.placement()
        self.idle = system.wait_queue("idle", s.epoch)
        """The workers that sleep until a region begins."""
        self.joining = system.wait_queue("joining", s.pending)
        """The caller that sleeps until its region ends."""

    def _declare(self) -> _State:
        def line(name: str, *types: Type) -> list[Value]:
            t = self.module.struct(f"{name}.line", [*types, array(I8, _LINE)])
            made = self.module.define_global(name, zero(t), align=_LINE)
            # The address of each field as a constant expression, for use in any function.
            return [
                Value(PTR, f"getelementptr ({t.text}, ptr {made.text}, i32 0, i32 {i})")
                for i in range(len(types))
            ]

        (epoch,) = line("epoch", I64)
        (sleepers,) = line("sleepers", I32)
        faulted, pending, waiting = line("join", I64, I32, I32)
        (busy,) = line("busy", I32)
        threads, cores, created, quota = line("settings", I32, I32, I32, I32)
        return _State(
            epoch=epoch,
            sleepers=sleepers,
            pending=pending,
            faulted=faulted,
            waiting=waiting,
            busy=busy,
            threads=threads,
            cores=cores,
            created=created,
            quota=quota,
        )

    # -- pieces --------------------------------------------------------------------------------
    def pause(self, b: Builder) -> None:
        """Emit the CPU's hint for spin loops."""
        if self.arch == "x86_64":
            b.intrinsic("llvm.x86.sse2.pause", [], result=VOID, overloads=())
        elif self.arch == "aarch64":
            b.intrinsic("llvm.aarch64.hint", [const(I32, 1)], result=VOID, overloads=())

    def wake_some(self, b: Builder, count: Value) -> None:
        """Wake a few of the sleeping workers that have a share."""
        many = b.icmp("uge", count, const(I32, 32))
        below = b.shl(const(I32, 1), b.and_(count, const(I32, 31)))
        bits = b.select(many, const(I32, _EVERYBODY), b.sub(below, const(I32, 1)))
        self.idle.wake(b, const(I32, _WAKES), bits)

    def spin_until(self, b: Builder, ready: Block, tired: Block, look: Callable[[], Value]) -> None:
        """Spin until the condition holds, then go to ``ready``; after too long, go to ``tired``."""
        s = self.state
        threads = b.load_atomic(I32, s.threads, "monotonic")
        crowded = b.icmp("sgt", threads, b.load_atomic(I32, s.cores, "monotonic"))
        limit = b.select(crowded, const(I32, _SPINS_CROWDED), const(I32, _SPINS))
        until = b.alloca(I64)
        b.store(const(I64, 0), until)
        origin = b.block
        loop, again, ask, first, late = (
            b.append(n) for n in ("spin", "again", "ask", "first", "late")
        )
        clock = b.append("clock")
        b.br(loop)
        b.position_at_end(loop)
        i = b.phi(I32)
        i.add(const(I32, 0), origin)
        b.condbr(look(), ready, again)
        b.position_at_end(again)
        self.pause(b)
        following = b.add(i, const(I32, 1))
        i.add(following, again)
        b.condbr(b.icmp("slt", following, limit), loop, ask)
        b.position_at_end(ask)
        b.condbr(crowded, tired, clock)
        b.position_at_end(clock)
        now = self.system.now(b)
        b.condbr(b.icmp("eq", b.load(I64, until), const(I64, 0)), first, late)
        b.position_at_end(first)
        b.store(b.add(now, const(I64, _SPIN_NANOSECONDS)), until)
        i.add(const(I32, 0), first)
        b.br(loop)
        b.position_at_end(late)
        i.add(const(I32, 0), late)
        b.condbr(b.icmp("slt", now, b.load(I64, until)), loop, tired)

    # -- functions -----------------------------------------------------------------------------
    def worker(self, work: Callee) -> Function:
        """Define the function of a thread: wait for regions and run pieces until told to end."""
        f = self.module.define("worker", PTR, [("arg", PTR)], linkage="internal")
        b = Builder(f)
        s = self.state
        index = b.trunc(b.ptrtoint(f.params[0], I64), I32)
        bit = b.shl(const(I32, 1), b.and_(index, const(I32, 31)))
        seen = b.alloca(I64)
        b.store(b.load(I64, self.shares.field(b, index, SEEN)), seen)
        wait, tired, doze, sleep, awake, more = (
            b.append(n) for n in ("wait", "tired", "doze", "sleep", "awake", "more")
        )
        look, run, settled, last, end = (
            b.append(n) for n in ("look", "run", "settled", "last", "end")
        )
        b.br(wait)
        b.position_at_end(wait)
        self.spin_until(b, look, tired, lambda: _advance(b, s.epoch, seen, "acquire"))
        b.position_at_end(tired)
        b.atomicrmw("add", s.sleepers, const(I32, 1))
        b.br(doze)
        b.position_at_end(doze)
        b.condbr(_advance(b, s.epoch, seen, "seq_cst"), awake, sleep)
        b.position_at_end(sleep)
        # The low half of the generation, which comes first in memory.
        low = b.trunc(b.load(I64, seen), I32)
        self.idle.wait(b, low, bit)
        b.br(doze)
        b.position_at_end(awake)
        sleepers = b.atomicrmw("sub", s.sleepers, const(I32, 1))
        b.condbr(b.icmp("sgt", sleepers, const(I32, 1)), more, look)
        b.position_at_end(more)
        self.wake_some(b, _count_of(b, b.load_atomic(I64, s.epoch, "monotonic")))
        b.br(look)
        b.position_at_end(look)
        epoch = b.load_atomic(I64, s.epoch, "acquire")
        b.store(epoch, seen)
        count = _count_of(b, epoch)
        mine = b.append("mine")
        b.condbr(b.icmp("eq", count, const(I32, _ALL_SHARES)), end, mine)
        b.position_at_end(mine)
        b.condbr(b.icmp("ult", index, count), run, wait)
        b.position_at_end(run)
        done = b.call(work, [index, epoch])
        b.condbr(b.icmp("ne", done, const(I32, 0)), settled, wait)
        b.position_at_end(settled)
        waited = b.icmp("ne", b.load_atomic(I32, s.waiting, "seq_cst"), const(I32, 0))
        b.condbr(waited, last, wait)
        b.position_at_end(last)
        self.joining.wake(b, const(I32, _ALL), const(I32, _EVERYBODY))
        b.br(wait)
        b.position_at_end(end)
        b.ret(NULL)
        return f

    def create(self, worker: Callee) -> Function:
        """Define the function that creates threads, if possible one for each share but the first.

        It returns the number of shares that can be run. Its caller holds ``busy``.
        """
        f = self.module.define("create", I32, [("shares", I32)], linkage="internal")
        b = Builder(f)
        s = self.state
        shares = f.params[0]
        # Workers get no signals, which go to the threads of the program.
        unblock = self.system.block_signals(b)
        begin, head, make, made, done = (
            b.append(n) for n in ("begin", "head", "make", "made", "done")
        )
        if self.placement is not None:
            b.store(const(I32, NOWHERE), self.placement.caller)
        none = b.icmp("eq", b.load_atomic(I32, s.created, "monotonic"), const(I32, 0))
        b.condbr(none, begin, head)
        b.position_at_end(begin)
        self.idle.prepare(b)
        self.joining.prepare(b)
        if self.placement is not None:
            self.placement.begin(b)
        b.br(head)
        b.position_at_end(head)
        created = b.load_atomic(I32, s.created, "monotonic")
        index = b.add(created, const(I32, 1))
        b.condbr(b.icmp("slt", index, shares), make, done)
        b.position_at_end(make)
        b.store(b.load_atomic(I64, s.epoch, "monotonic"), self.shares.field(b, index, SEEN))
        b.store(const(I32, NOWHERE), self.shares.field(b, index, HOME))
        argument = b.inttoptr(b.zext(index, I64), PTR)
        thread = self.shares.field(b, index, THREAD)
        failed = self.system.create_thread(b, thread, worker, argument)
        b.condbr(b.icmp("eq", failed, const(I32, 0)), made, done)
        b.position_at_end(made)
        b.store_atomic(index, s.created, "monotonic")
        b.br(head)
        b.position_at_end(done)
        unblock()
        can = b.add(b.load_atomic(I32, s.created, "monotonic"), const(I32, 1))
        b.ret(b.select(b.icmp("slt", can, shares), can, shares))
        return f

    def get_threads(self) -> Function:
        """Define ``i32 loomir_get_threads()``: the cap, or what the environment asks for.

        Without either, it is the number of cores that this process may use.
        """
        f = self.module.define("loomir_get_threads", I32, [])
        b = Builder(f)
        s = self.state
        known = b.load_atomic(I32, s.threads, "monotonic")
        ready, ask = b.append("ready"), b.append("ask")
        b.condbr(b.icmp("ne", known, const(I32, 0)), ready, ask)
        b.position_at_end(ready)
        b.ret(known)
        b.position_at_end(ask)
        cores = count_cores(b, self.system, s.quota, MAX_THREADS)
        b.store_atomic(cores, s.cores, "monotonic")
        asked = read_thread_setting(b, MAX_THREADS)
        wanted = b.select(b.icmp("sgt", asked, const(I32, 0)), asked, cores)
        # Another thread may have set a cap meanwhile, which stays.
        before, swapped = b.cmpxchg(s.threads, const(I32, 0), wanted)
        b.ret(b.select(swapped, wanted, before))
        return f

    def set_quota(self) -> None:
        """Define ``void loomir_pool_set_quota(i32 cpus)``, to be called first; -1 for none."""
        f = self.module.define("loomir_pool_set_quota", VOID, [("cpus", I32)])
        b = Builder(f)
        b.store_atomic(f.params[0], self.state.quota, "monotonic")
        b.ret()

    def set_threads(self, get: Callee) -> None:
        """Define ``i32 loomir_set_threads(i32 n)``: set the cap; 0 or less removes it.

        It returns the previous result of ``loomir_get_threads``.
        """
        f = self.module.define("loomir_set_threads", I32, [("n", I32)])
        b = Builder(f)
        before = b.call(get, [])
        wanted = emit_min(b, f.params[0], const(I32, MAX_THREADS))
        none = b.icmp("slt", wanted, const(I32, 1))
        b.store_atomic(b.select(none, const(I32, 0), wanted), self.state.threads, "monotonic")
        b.ret(before)

    def parallel_for(self, get: Callee, create: Callee, work: Callee) -> Function:
        """Define the entry: ``i32 (ptr fn, ptr closure, ptr ctx, i64 begin, i64 end)``."""
        params = [("fn", PTR), ("closure", PTR), ("ctx", PTR), ("begin", I64), ("end", I64)]
        f = self.module.define("loomir_parallel_for", I32, params)
        b = Builder(f)
        s = self.state
        fn, closure, ctx, begin, end = f.params
        nothing, some, several, serial = (
            b.append(n) for n in ("nothing", "some", "several", "serial")
        )
        taken, grow, sized, fork, single = (
            b.append(n) for n in ("taken", "grow", "sized", "fork", "single")
        )
        b.condbr(b.icmp("sge", begin, end), nothing, some)
        b.position_at_end(nothing)
        b.ret(const(I32, 0))
        b.position_at_end(some)
        threads = b.call(get, [])
        total = b.sub(end, begin)
        wide = b.zext(threads, I64)
        fewer = b.icmp("ult", total, wide)
        shares = b.select(fewer, b.trunc(total, I32), threads)
        b.condbr(b.icmp("sgt", shares, const(I32, 1)), several, serial)
        b.position_at_end(several)
        # Read before it is exchanged: a nested call must not take the cache line away from others.
        free = b.icmp("eq", b.load_atomic(I32, s.busy, "monotonic"), const(I32, 0))
        claim = b.append("claim")
        b.condbr(free, claim, serial)
        b.position_at_end(claim)
        _, mine = b.cmpxchg(s.busy, const(I32, 0), const(I32, 1), "acquire", "monotonic")
        b.condbr(mine, taken, serial)
        b.position_at_end(taken)
        created = b.load_atomic(I32, s.created, "monotonic")
        b.condbr(b.icmp("slt", b.add(created, const(I32, 1)), shares), grow, sized)
        b.position_at_end(grow)
        possible = b.call(create, [shares])
        b.br(sized)
        b.position_at_end(sized)
        count = b.phi(I32)
        count.add(shares, taken)
        count.add(possible, grow)
        b.condbr(b.icmp("sgt", count, const(I32, 1)), fork, single)
        b.position_at_end(single)
        b.store_atomic(const(I32, 0), s.busy, "release")
        b.br(serial)
        b.position_at_end(serial)
        b.ret(b.call_pointer(fn, TASK, [ctx, closure, begin, end]))
        b.position_at_end(fork)
        self.run(b, f.params, count, work)
        return f

    def run(self, b: Builder, given: Sequence[Value], count: Value, work: Callee) -> None:
        """Run a region of several shares, leave the pool, and return."""
        if self.placement is not None:
            self.placement.follow(b, self.place(self.placement))
        epoch = self.compute_next_epoch(b, count)
        self.shares.write(b, b.and_(epoch, const(I64, GENERATIONS)), given, count)
        awake = b.append("awake")
        self.move_epoch(b, epoch, awake)
        self.wake_some(b, count)
        b.br(awake)
        b.position_at_end(awake)
        b.call(work, [const(I32, 0), epoch])
        self.join(b, given[2])
        self.collect(b, epoch, given[2], count)

    def compute_next_epoch(self, b: Builder, count: Value) -> Value:
        """Return the epoch of the next region, of ``count`` shares."""
        before = b.load_atomic(I64, self.state.epoch, "monotonic")
        generation = b.and_(b.add(before, const(I64, 1)), const(I64, GENERATIONS))
        return b.or_(b.shl(b.zext(count, I64), const(I64, COUNT_SHIFT)), generation)

    def move_epoch(self, b: Builder, epoch: Value, awake: Block) -> None:
        """Begin a region; go to ``awake`` if no worker sleeps, else go on."""
        s = self.state
        b.store_atomic(epoch, s.epoch, "seq_cst")
        asleep = b.icmp("ne", b.load_atomic(I32, s.sleepers, "seq_cst"), const(I32, 0))
        wake = b.append("wake")
        b.condbr(asleep, wake, awake)
        b.position_at_end(wake)

    def join(self, b: Builder, ctx: Value) -> None:
        """Wait until no share is pending; the builder goes on in a new block."""
        s = self.state
        tired, doze, sleep, awake, ready = (
            b.append(n) for n in ("tired", "doze", "sleep", "awake", "ready")
        )
        none = const(I32, 0)
        look = lambda: b.icmp("eq", b.load_atomic(I32, s.pending, "acquire"), none)  # noqa: E731
        self.spin_until(b, ready, tired, look)
        b.position_at_end(tired)
        b.store_atomic(const(I32, 1), s.waiting, "seq_cst")
        b.br(doze)
        b.position_at_end(doze)
        left = b.load_atomic(I32, s.pending, "seq_cst")
        b.condbr(b.icmp("eq", left, const(I32, 0)), awake, sleep)
        b.position_at_end(sleep)
        self.joining.wait(b, left, const(I32, _EVERYBODY), _LOOK_NANOSECONDS)
        # Workers do not poll, and this thread may be the one that handles signals.
        poll = self.module.declare(POLL, I32, [PTR])
        asked, stop = b.call(poll, [ctx]), b.append("stop")
        b.condbr(b.icmp("eq", asked, none), doze, stop)
        b.position_at_end(stop)
        # The caller stops even if no share notices the interrupt.
        b.store(const(I64, -1), b.field(CONTEXT, ctx, BUDGET))
        b.br(doze)
        b.position_at_end(awake)
        b.store_atomic(const(I32, 0), s.waiting, "monotonic")
        b.br(ready)
        b.position_at_end(ready)

    def collect(self, b: Builder, epoch: Value, ctx: Value, count: Value) -> None:
        """Leave the pool, copy the lowest fault if there is one, and return."""
        s = self.state
        clean, search = b.append("clean"), b.append("search")
        generation = b.and_(epoch, const(I64, GENERATIONS))
        faulted = b.load_atomic(I64, s.faulted, "monotonic")
        b.condbr(b.icmp("eq", faulted, generation), search, clean)
        b.position_at_end(clean)
        b.store_atomic(const(I32, 0), s.busy, "release")
        b.ret(const(I32, 0))
        b.position_at_end(search)
        code = self.shares.lowest_fault(b, generation, count, ctx)
        b.store_atomic(const(I32, 0), s.busy, "release")
        b.ret(code)

    def place(self, placement: Placement) -> Function:
        """Define the function that keeps workers off the caller's CPU."""

        def worker(b: Builder, index: Value) -> Worker:
            thread = b.load(I64, self.shares.field(b, index, THREAD))
            return Worker(thread, self.shares.field(b, index, HOME))

        return placement.define(self.state.created, worker)

    def define_after_fork(self) -> None:
        """Define ``void loomir_pool_after_fork()``: forget the workers, which the child lacks."""
        b = Builder(self.module.define("loomir_pool_after_fork", VOID, []))
        s = self.state
        for word in (s.created, s.sleepers, s.pending, s.waiting, s.busy):
            b.store_atomic(const(I32, 0), word, "seq_cst")
        # Their locks may be taken, by threads that the child lacks.
        self.idle.prepare(b)
        self.joining.prepare(b)
        b.ret()

    def workers(self) -> None:
        """Define ``i32 loomir_pool_workers()``: the number of threads at present."""
        b = Builder(self.module.define("loomir_pool_workers", I32, []))
        b.ret(b.load_atomic(I32, self.state.created, "seq_cst"))

    def stop(self) -> None:
        """Define ``i32 loomir_pool_stop()``: end the workers for good; later calls run serially.

        It returns 0, or does nothing and returns 1 while a region is running.
        """
        f = self.module.define("loomir_pool_stop", I32, [])
        b = Builder(f)
        s = self.state
        mine, not_mine, joining, head, one, done = (
            b.append(n) for n in ("mine", "not_mine", "joining", "head", "one", "done")
        )
        _, taken = b.cmpxchg(s.busy, const(I32, 0), const(I32, 1))
        b.condbr(taken, mine, not_mine)
        b.position_at_end(not_mine)
        b.ret(const(I32, 1))
        b.position_at_end(mine)
        self.move_epoch(b, self.compute_next_epoch(b, const(I32, _ALL_SHARES)), joining)
        self.idle.wake(b, const(I32, _ALL), const(I32, _EVERYBODY))
        b.br(joining)
        b.position_at_end(joining)
        b.br(head)
        origin = b.block
        b.position_at_end(head)
        i = b.phi(I32)
        i.add(const(I32, 1), origin)
        created = b.load_atomic(I32, s.created, "monotonic")
        b.condbr(b.icmp("sle", i, created), one, done)
        b.position_at_end(one)
        thread = b.load(I64, self.shares.field(b, i, THREAD))
        self.system.join_thread(b, thread)
        i.add(b.add(i, const(I32, 1)), one)
        b.br(head)
        b.position_at_end(done)
        b.store_atomic(const(I32, 0), s.created, "seq_cst")
        b.ret(const(I32, 0))

    def measure(self, get: Callee, region: Callee) -> None:
        """Define ``void loomir_pool_measure(i64 n, ptr ns)``: time ``n`` empty regions."""
        empty = self.module.define(
            "empty",
            I32,
            [("ctx", PTR), ("closure", PTR), ("begin", I64), ("end", I64)],
            linkage="internal",
        )
        Builder(empty).ret(const(I32, 0))
        f = self.module.define("loomir_pool_measure", VOID, [("n", I64), ("ns", PTR)])
        b = Builder(f)
        n, out = f.params
        record = b.alloca(RECORD)
        b.store(zero(RECORD), record)
        head, body, done = b.append("head"), b.append("body"), b.append("done")
        b.br(head)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add(const(I64, 0), f.entry)
        b.condbr(b.icmp("slt", i, n), body, done)
        b.position_at_end(body)
        width = b.zext(b.call(get, []), I64)
        start = self.system.now(b)
        b.call(region, [empty, NULL, record, const(I64, 0), width])
        b.store(b.sub(self.system.now(b), start), b.gep(I64, out, i))
        i.add(b.add(i, const(I64, 1)), body)
        b.br(head)
        b.position_at_end(done)
        b.ret()


def _advance(b: Builder, epoch: Value, seen: Value, ordering: str) -> Value:
    return b.icmp("ne", b.load_atomic(I64, epoch, ordering), b.load(I64, seen))


def _count_of(b: Builder, epoch: Value) -> Value:
    return b.trunc(b.lshr(epoch, const(I64, COUNT_SHIFT)), I32)


def pool_module(triple: str, *, portable: bool = False) -> Module:
    """Build the module of the pool for a machine; ``portable``: without system calls of Linux.

    Errors: InternalError for a system or machine that is unknown.
    """
    module = Module("loomir.pool", attributes={"nounwind": None})
    system = system_for(module, triple, portable=portable)
    pool = _Pool(module, architecture_of(triple), system)
    get = pool.get_threads()
    pool.set_threads(get)
    pool.set_quota()
    work = pool.shares.work()
    region = pool.parallel_for(get, pool.create(pool.worker(work)), work)
    pool.define_after_fork()
    pool.workers()
    pool.stop()
    pool.measure(get, region)
    define_scratch(module, system_name(triple))
    return module
