"""The thread pool as generated IR; ``pool`` compiles and loads it.

How a region runs. The caller takes ``busy``, writes down the task, sets ``pending`` to the number
of helpers and moves ``epoch``. A worker whose number is below the count of that epoch runs its
share, and lowers ``pending``; the caller runs share 0, then waits for ``pending`` to reach zero.

- ``epoch`` holds the generation below and the number of shares above, in one word: a worker that
  looks late must not combine the generation of one region with the count of another. Workers
  outside of the count never look at the task, which may change under them.
- Nested calls, and calls while another thread has the pool, find ``busy`` taken and run serially.
- Who waits spins for a while, then sleeps in a futex. Each pair "I change the word, then look
  whether you sleep" and "I say that I sleep, then look at the word" is sequentially consistent.
- Each share faults in a record of its own. The caller takes that of the lowest share that faulted:
  the same one that a serial run meets first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.builder import Builder
from loomir.codegen.llvm.placement_ir import (
    NOWHERE,
    Placement,
    Worker,
    count_cpus,
    read_own_cpus,
)
from loomir.codegen.llvm.scratch_ir import define_scratch
from loomir.codegen.llvm.text import Block, Callee, Function, Module
from loomir.codegen.llvm.types import I8, I32, I64, PTR, VOID, Type, array, function, vector
from loomir.codegen.llvm.values import NULL, Value, const, zero
from loomir.support.diagnostics import InternalError

__all__ = ["MAX_THREADS", "TASK", "pool_module"]

MAX_THREADS: Final = 256
TASK: Final = function(I32, [PTR, PTR, I64, I64])
RECORD: Final = vector(I64, 4)  # { i32 site, i32 depth, i64 v0, i64 v1, i64 v2 }

# What a worker has for itself, on a line of its own: the code of its last share, the CPU that it is
# meant to use, the epoch that it has seen, its thread, padding, the record of its share.
_SLOT: Final = (I32, I32, I64, I64, I64, RECORD)
_CODE, _HOME, _SEEN, _THREAD, _RECORD = 0, 1, 2, 3, 5
_LINE: Final = 64
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_FUTEX_SYSCALL: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_ALL_SHARES: Final = 0xFFFFFFFF  # the count that tells workers to end
_SPINS: Final = 4000  # some 50 microseconds of `pause`
_SPINS_CROWDED: Final = 30  # with more threads than cores, waiting keeps others from working
_SET_MASK: Final = 2
# Signals that a fault of the thread itself raises stay open in workers: SIGILL, SIGTRAP, SIGABRT,
# SIGBUS, SIGFPE, SIGSEGV. All others go to the threads of the program.
_BLOCKED: Final = ~sum(1 << (signal - 1) for signal in (4, 5, 6, 7, 8, 11))


class _State(NamedTuple):
    """The variables of the pool; those that different threads write are on lines of their own."""

    epoch: Value
    sleepers: Value
    pending: Value
    faulted: Value
    waiting: Value
    busy: Value
    fn: Value
    closure: Value
    ctx: Value
    begin: Value
    end: Value
    threads: Value
    cores: Value
    created: Value
    slots: Value


class _Pool:
    def __init__(self, module: Module, arch: str) -> None:
        self.module = module
        self.arch = arch
        self.slot = module.struct("slot", _SLOT)
        self.state = self._declare()
        self.placement = Placement(module)

    def _declare(self) -> _State:
        def line(name: str, *types: Type) -> list[Value]:
            t = self.module.struct(f"{name}.line", [*types, array(I8, _LINE)])
            made = self.module.define_global(name, zero(t), align=_LINE)
            # Constant expressions: the address of each field, for use in any function.
            return [
                Value(PTR, f"getelementptr ({t.text}, ptr {made.text}, i32 0, i32 {i})")
                for i in range(len(types))
            ]

        (epoch,) = line("epoch", I64)
        (sleepers,) = line("sleepers", I32)
        pending, faulted, waiting = line("join", I32, I32, I32)
        (busy,) = line("busy", I32)
        fn, closure, ctx, begin, end = line("task", PTR, PTR, PTR, I64, I64)
        threads, cores, created = line("settings", I32, I32, I32)
        return _State(
            epoch=epoch,
            sleepers=sleepers,
            pending=pending,
            faulted=faulted,
            waiting=waiting,
            busy=busy,
            fn=fn,
            closure=closure,
            ctx=ctx,
            begin=begin,
            end=end,
            threads=threads,
            cores=cores,
            created=created,
            slots=self.module.define_global(
                "slots", zero(array(self.slot, MAX_THREADS)), align=_LINE
            ),
        )

    # -- pieces --------------------------------------------------------------------------------
    def pause(self, b: Builder) -> None:
        """Tell the core that this is a waiting loop."""
        if self.arch == "x86_64":
            b.intrinsic("llvm.x86.sse2.pause", [], result=VOID, overloads=())
        elif self.arch == "aarch64":
            b.intrinsic("llvm.aarch64.hint", [const(I32, 1)], result=VOID, overloads=())

    def futex(self, b: Builder, word: Value, operation: int, value: Value) -> None:
        """Wait while the word holds ``value``, or wake that many who wait."""
        syscall = self.module.declare("syscall", I64, [I64], varargs=True)
        number = const(I64, _FUTEX_SYSCALL[self.arch])
        wide = b.sext(value, I64)
        zero64 = const(I64, 0)
        b.call(syscall, [number, word, const(I64, operation), wide, NULL, NULL, zero64])

    def wake_all(self, b: Builder, word: Value) -> None:
        """Wake everybody who waits for the word."""
        self.futex(b, word, _FUTEX_WAKE_PRIVATE, const(I32, 0x7FFFFFFF))

    def spins(self, b: Builder) -> Value:
        """Give how often to look before sleeping."""
        threads = b.load_atomic(I32, self.state.threads, "monotonic")
        cores = b.load_atomic(I32, self.state.cores, "monotonic")
        crowded = b.icmp("sgt", threads, cores)
        return b.select(crowded, const(I32, _SPINS_CROWDED), const(I32, _SPINS))

    def slot_of(self, b: Builder, index: Value) -> Value:
        """Give the address of a worker's slot."""
        return b.gep(self.slot, self.state.slots, b.zext(index, I64), inbounds=True)

    def share(self, b: Builder, index: Value, count: Value) -> tuple[Value, Value]:
        """Give begin and end of one of ``count`` contiguous shares of the task."""
        begin = b.load(I64, self.state.begin)
        total = b.sub(b.load(I64, self.state.end), begin)
        i, n = b.zext(index, I64), b.zext(count, I64)
        each, rest = b.udiv(total, n), b.urem(total, n)

        def start(k: Value) -> Value:
            extra = b.select(b.icmp("ult", k, rest), k, rest)
            return b.add(begin, b.add(b.mul(k, each), extra))

        return start(i), start(b.add(i, const(I64, 1)))

    def run_share(self, b: Builder, index: Value, count: Value) -> Value:
        """Run a share in the slot's record; give what the task returned."""
        begin, end = self.share(b, index, count)
        slot = self.slot_of(b, index)
        record = b.field(self.slot, slot, _RECORD)
        b.store(b.load(RECORD, b.load(PTR, self.state.ctx)), record)
        fn = b.load(PTR, self.state.fn)
        code = b.call_pointer(fn, TASK, [record, b.load(PTR, self.state.closure), begin, end])
        b.store(code, b.field(self.slot, slot, _CODE))
        return code

    def spin_until(self, b: Builder, ready: Block, tired: Block, look: Callable[[], Value]) -> None:
        """Look until it is so, then go to ``ready``; after too many times, to ``tired``."""
        limit = self.spins(b)
        origin = b.block
        loop, again = b.append("spin"), b.append("again")
        b.br(loop)
        b.at(loop)
        i = b.phi(I32)
        i.add(const(I32, 0), origin)
        b.condbr(look(), ready, again)
        b.at(again)
        self.pause(b)
        following = b.add(i, const(I32, 1))
        i.add(following, again)
        b.condbr(b.icmp("slt", following, limit), loop, tired)

    # -- functions -----------------------------------------------------------------------------
    def worker(self) -> Function:
        """Define what a thread does: wait for regions and run shares until told to end."""
        f = self.module.define("worker", PTR, [("arg", PTR)], linkage="internal")
        b = Builder(f)
        s = self.state
        index = b.trunc(b.ptrtoint(f.params[0], I64), I32)
        seen = b.alloca(I64)
        b.store(b.load(I64, b.field(self.slot, self.slot_of(b, index), _SEEN)), seen)
        wait, tired, doze, sleep, awake = (
            b.append(n) for n in ("wait", "tired", "doze", "sleep", "awake")
        )
        look, run, faulted, finish, last, end = (
            b.append(n) for n in ("look", "run", "faulted", "finish", "last", "end")
        )
        b.br(wait)
        b.at(wait)
        self.spin_until(b, look, tired, lambda: _moved(b, s.epoch, seen, "acquire"))
        b.at(tired)
        b.atomicrmw("add", s.sleepers, const(I32, 1))
        b.br(doze)
        b.at(doze)
        b.condbr(_moved(b, s.epoch, seen, "seq_cst"), awake, sleep)
        b.at(sleep)
        # The generation is the lower half, which comes first in memory.
        self.futex(b, s.epoch, _FUTEX_WAIT_PRIVATE, b.trunc(b.load(I64, seen), I32))
        b.br(doze)
        b.at(awake)
        b.atomicrmw("sub", s.sleepers, const(I32, 1))
        b.br(look)
        b.at(look)
        epoch = b.load_atomic(I64, s.epoch, "acquire")
        b.store(epoch, seen)
        count = b.trunc(b.lshr(epoch, const(I64, 32)), I32)
        mine = b.append("mine")
        b.condbr(b.icmp("eq", count, const(I32, _ALL_SHARES)), end, mine)
        b.at(mine)
        b.condbr(b.icmp("ult", index, count), run, wait)
        b.at(run)
        code = self.run_share(b, index, count)
        b.condbr(b.icmp("ne", code, const(I32, 0)), faulted, finish)
        b.at(faulted)
        b.store_atomic(const(I32, 1), s.faulted, "monotonic")
        b.br(finish)
        b.at(finish)
        before = b.atomicrmw("sub", s.pending, const(I32, 1))
        waited = b.icmp("ne", b.load_atomic(I32, s.waiting, "seq_cst"), const(I32, 0))
        b.condbr(b.and_(b.icmp("eq", before, const(I32, 1)), waited), last, wait)
        b.at(last)
        self.wake_all(b, s.pending)
        b.br(wait)
        b.at(end)
        b.ret(NULL)
        return f

    def create(self, worker: Callee) -> Function:
        """Define how threads are made: one for each share but the first, if possible.

        It gives the number of shares that can be run. Its caller holds ``busy``.
        """
        f = self.module.define("create", I32, [("shares", I32)], linkage="internal")
        b = Builder(f)
        s = self.state
        shares = f.params[0]
        mask, old = b.alloca(I64, 16, align=16), b.alloca(I64, 16, align=16)
        b.store(const(vector(I64, 16), -1), mask, align=16)
        b.store(const(I64, _BLOCKED), mask)
        sigmask = self.module.declare("pthread_sigmask", I32, [I32, PTR, PTR])
        b.call(sigmask, [const(I32, _SET_MASK), mask, old])
        begin, head, make, made, done = (
            b.append(n) for n in ("begin", "head", "make", "made", "done")
        )
        b.store(const(I32, NOWHERE), self.placement.caller)
        none = b.icmp("eq", b.load_atomic(I32, s.created, "monotonic"), const(I32, 0))
        b.condbr(none, begin, head)
        b.at(begin)
        self.placement.begin(b)
        b.br(head)
        b.at(head)
        created = b.load_atomic(I32, s.created, "monotonic")
        index = b.add(created, const(I32, 1))
        b.condbr(b.icmp("slt", index, shares), make, done)
        b.at(make)
        slot = self.slot_of(b, index)
        b.store(b.load_atomic(I64, s.epoch, "monotonic"), b.field(self.slot, slot, _SEEN))
        b.store(const(I32, NOWHERE), b.field(self.slot, slot, _HOME))
        create = self.module.declare("pthread_create", I32, [PTR, PTR, PTR, PTR])
        argument = b.inttoptr(b.zext(index, I64), PTR)
        failed = b.call(create, [b.field(self.slot, slot, _THREAD), NULL, worker, argument])
        b.condbr(b.icmp("eq", failed, const(I32, 0)), made, done)
        b.at(made)
        b.store_atomic(index, s.created, "monotonic")
        b.br(head)
        b.at(done)
        b.call(sigmask, [const(I32, _SET_MASK), old, NULL])
        can = b.add(b.load_atomic(I32, s.created, "monotonic"), const(I32, 1))
        b.ret(b.select(b.icmp("slt", can, shares), can, shares))
        return f

    def get_threads(self) -> Function:
        """Define ``i32 loomir_get_threads()``: the cap, else what the environment asks for.

        Where that is nothing, it is the cores that this process may use.
        """
        f = self.module.define("loomir_get_threads", I32, [])
        b = Builder(f)
        s = self.state
        known = b.load_atomic(I32, s.threads, "monotonic")
        ready, ask = b.append("ready"), b.append("ask")
        b.condbr(b.icmp("ne", known, const(I32, 0)), ready, ask)
        b.at(ready)
        b.ret(known)
        b.at(ask)
        cores = self._cores(b)
        b.store_atomic(cores, s.cores, "monotonic")
        asked = self._asked(b)
        wanted = b.select(b.icmp("sgt", asked, const(I32, 0)), asked, cores)
        # Another thread may have set a cap meanwhile: that one stays.
        before, swapped = b.cmpxchg(s.threads, const(I32, 0), wanted)
        b.ret(b.select(swapped, wanted, before))
        return f

    def _asked(self, b: Builder) -> Value:
        """Read the number in front of the first variable that is set; 0 or less for none."""
        getenv = self.module.declare("getenv", PTR, [PTR])
        strtol = self.module.declare("strtol", I64, [PTR, PTR, I32])
        text = self.module.string("")
        for name in ("OMP_NUM_THREADS", "LOOMIR_NUM_THREADS"):
            found = b.call(getenv, [self.module.string(name)])
            text = b.select(b.icmp("eq", found, NULL), text, found)
        number = b.call(strtol, [text, NULL, const(I32, 10)])
        most = const(I64, MAX_THREADS)
        some = b.icmp("sgt", number, const(I64, 0))
        return b.trunc(b.select(some, _at_most(b, number, most), const(I64, 0)), I32)

    def _cores(self, b: Builder) -> Value:
        mask = b.alloca(I64, 128, align=16)
        b.store(zero(vector(I64, 128)), mask, align=16)
        failed = read_own_cpus(b, mask)
        low = count_cpus(b, mask)
        usable = b.and_(b.icmp("eq", failed, const(I32, 0)), b.icmp("sgt", low, const(I32, 0)))
        return _at_most(b, b.select(usable, low, const(I32, 1)), const(I32, MAX_THREADS))

    def set_threads(self, get: Callee) -> None:
        """Define ``i32 loomir_set_threads(i32 n)``: set the cap; 0 or less takes it away.

        Gives what ``loomir_get_threads`` gave before.
        """
        f = self.module.define("loomir_set_threads", I32, [("n", I32)])
        b = Builder(f)
        before = b.call(get, [])
        wanted = _at_most(b, f.params[0], const(I32, MAX_THREADS))
        none = b.icmp("slt", wanted, const(I32, 1))
        b.store_atomic(b.select(none, const(I32, 0), wanted), self.state.threads, "monotonic")
        b.ret(before)

    def parallel_for(self, get: Callee, create: Callee) -> Function:
        """Define the entry: ``i32 (ptr fn, ptr closure, ptr ctx, i64 begin, i64 end)``."""
        params = [("fn", PTR), ("closure", PTR), ("ctx", PTR), ("begin", I64), ("end", I64)]
        f = self.module.define("loomir_parallel_for", I32, params)
        b = Builder(f)
        s = self.state
        fn, closure, ctx, begin, end = f.params
        nothing, some, several, serial = (
            b.append(n) for n in ("nothing", "some", "several", "serial")
        )
        taken, grow, sized, fork, alone = (
            b.append(n) for n in ("taken", "grow", "sized", "fork", "alone")
        )
        b.condbr(b.icmp("sge", begin, end), nothing, some)
        b.at(nothing)
        b.ret(const(I32, 0))
        b.at(some)
        threads = b.call(get, [])
        total = b.sub(end, begin)
        wide = b.zext(threads, I64)
        fewer = b.icmp("ult", total, wide)
        shares = b.select(fewer, b.trunc(total, I32), threads)
        b.condbr(b.icmp("sgt", shares, const(I32, 1)), several, serial)
        b.at(several)
        # Looked at before it is taken: a nested call must not pull the line away from others.
        free = b.icmp("eq", b.load_atomic(I32, s.busy, "monotonic"), const(I32, 0))
        claim = b.append("claim")
        b.condbr(free, claim, serial)
        b.at(claim)
        _, mine = b.cmpxchg(s.busy, const(I32, 0), const(I32, 1), "acquire", "monotonic")
        b.condbr(mine, taken, serial)
        b.at(taken)
        created = b.load_atomic(I32, s.created, "monotonic")
        b.condbr(b.icmp("slt", b.add(created, const(I32, 1)), shares), grow, sized)
        b.at(grow)
        possible = b.call(create, [shares])
        b.br(sized)
        b.at(sized)
        count = b.phi(I32)
        count.add(shares, taken)
        count.add(possible, grow)
        b.condbr(b.icmp("sgt", count, const(I32, 1)), fork, alone)
        b.at(alone)
        b.store_atomic(const(I32, 0), s.busy, "release")
        b.br(serial)
        b.at(serial)
        b.ret(b.call_pointer(fn, TASK, [ctx, closure, begin, end]))
        b.at(fork)
        self.placement.follow(b, self.place())
        self.write_task(b, f.params, count)
        self.move_epoch(b, count)
        own = self.run_share(b, const(I32, 0), count)
        self.join(b)
        self.collect(b, own, ctx, count)
        return f

    def write_task(self, b: Builder, given: Sequence[Value], count: Value) -> None:
        """Write down what the shares of a region are, before any worker looks."""
        s = self.state
        places = (s.fn, s.closure, s.ctx, s.begin, s.end)
        for value, place in zip(given, places, strict=True):
            b.store(value, place)
        b.store_atomic(const(I32, 0), s.faulted, "monotonic")
        b.store_atomic(b.sub(count, const(I32, 1)), s.pending, "monotonic")

    def move_epoch(self, b: Builder, count: Value) -> None:
        """Begin a region of ``count`` shares and wake who sleeps; the builder moves on."""
        s = self.state
        generation = b.trunc(b.load_atomic(I64, s.epoch, "monotonic"), I32)
        low = b.zext(b.add(generation, const(I32, 1)), I64)
        high = b.shl(b.zext(count, I64), const(I64, 32))
        b.store_atomic(b.or_(high, low), s.epoch, "seq_cst")
        asleep = b.icmp("ne", b.load_atomic(I32, s.sleepers, "seq_cst"), const(I32, 0))
        wake, on = b.append("wake"), b.append("on")
        b.condbr(asleep, wake, on)
        b.at(wake)
        self.wake_all(b, s.epoch)
        b.br(on)
        b.at(on)

    def join(self, b: Builder) -> None:
        """Wait until no share is pending; the builder moves on."""
        s = self.state
        tired, doze, sleep, awake, joined = (
            b.append(n) for n in ("tired", "doze", "sleep", "awake", "joined")
        )
        none = const(I32, 0)
        look = lambda: b.icmp("eq", b.load_atomic(I32, s.pending, "acquire"), none)  # noqa: E731
        self.spin_until(b, joined, tired, look)
        b.at(tired)
        b.store_atomic(const(I32, 1), s.waiting, "seq_cst")
        b.br(doze)
        b.at(doze)
        left = b.load_atomic(I32, s.pending, "seq_cst")
        b.condbr(b.icmp("eq", left, const(I32, 0)), awake, sleep)
        b.at(sleep)
        self.futex(b, s.pending, _FUTEX_WAIT_PRIVATE, left)
        b.br(doze)
        b.at(awake)
        b.store_atomic(const(I32, 0), s.waiting, "monotonic")
        b.br(joined)
        b.at(joined)

    def collect(self, b: Builder, own: Value, ctx: Value, count: Value) -> None:
        """Leave the pool; copy the fault of the lowest share that has one, and return."""
        s = self.state
        clean, search, look, found, following = (
            b.append(n) for n in ("clean", "search", "look", "found", "following")
        )
        others = b.load_atomic(I32, s.faulted, "monotonic")
        b.condbr(b.icmp("eq", b.or_(own, others), const(I32, 0)), clean, search)
        b.at(clean)
        b.store_atomic(const(I32, 0), s.busy, "release")
        b.ret(const(I32, 0))
        b.at(search)
        b.br(look)
        b.at(look)
        i = b.phi(I32)
        i.add(const(I32, 0), search)
        slot = self.slot_of(b, i)
        code = b.load(I32, b.field(self.slot, slot, _CODE))
        b.condbr(b.icmp("ne", code, const(I32, 0)), found, following)
        b.at(following)
        i.add(b.add(i, const(I32, 1)), following)
        b.br(look)
        b.at(found)
        b.store(b.load(RECORD, b.field(self.slot, slot, _RECORD)), ctx)
        b.store_atomic(const(I32, 0), s.busy, "release")
        b.ret(code)

    def place(self) -> Function:
        """Define how workers are kept off the caller's CPU."""

        def worker(b: Builder, index: Value) -> Worker:
            slot = self.slot_of(b, index)
            thread = b.load(I64, b.field(self.slot, slot, _THREAD))
            return Worker(thread, b.field(self.slot, slot, _HOME))

        return self.placement.define(self.state.created, worker)

    def after_fork(self) -> None:
        """Define ``void loomir_pool_after_fork()``: forget workers that the child lacks."""
        b = Builder(self.module.define("loomir_pool_after_fork", VOID, []))
        s = self.state
        for word in (s.created, s.sleepers, s.pending, s.faulted, s.waiting, s.busy):
            b.store_atomic(const(I32, 0), word, "seq_cst")
        b.ret()

    def workers(self) -> None:
        """Define ``i32 loomir_pool_workers()``: the threads that there are now."""
        b = Builder(self.module.define("loomir_pool_workers", I32, []))
        b.ret(b.load_atomic(I32, self.state.created, "seq_cst"))

    def stop(self) -> None:
        """Define ``i32 loomir_pool_stop()``: end the workers for good; later calls run serially.

        Gives 0, or 1 where a region is running: then nothing is done.
        """
        f = self.module.define("loomir_pool_stop", I32, [])
        b = Builder(f)
        s = self.state
        mine, not_mine, head, one, done = (
            b.append(n) for n in ("mine", "not_mine", "head", "one", "done")
        )
        _, taken = b.cmpxchg(s.busy, const(I32, 0), const(I32, 1))
        b.condbr(taken, mine, not_mine)
        b.at(not_mine)
        b.ret(const(I32, 1))
        b.at(mine)
        self.move_epoch(b, const(I32, _ALL_SHARES))
        b.br(head)
        origin = b.block
        b.at(head)
        i = b.phi(I32)
        i.add(const(I32, 1), origin)
        created = b.load_atomic(I32, s.created, "monotonic")
        b.condbr(b.icmp("sle", i, created), one, done)
        b.at(one)
        thread = b.load(I64, b.field(self.slot, self.slot_of(b, i), _THREAD))
        b.call(self.module.declare("pthread_join", I32, [I64, PTR]), [thread, NULL])
        i.add(b.add(i, const(I32, 1)), one)
        b.br(head)
        b.at(done)
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
        b.at(head)
        i = b.phi(I64)
        i.add(const(I64, 0), f.entry)
        b.condbr(b.icmp("slt", i, n), body, done)
        b.at(body)
        width = b.zext(b.call(get, []), I64)
        start = self._now(b)
        b.call(region, [empty, NULL, record, const(I64, 0), width])
        b.store(b.sub(self._now(b), start), b.gep(I64, out, i))
        i.add(b.add(i, const(I64, 1)), body)
        b.br(head)
        b.at(done)
        b.ret()

    def _now(self, b: Builder) -> Value:
        time = b.alloca(I64, 2)
        clock = self.module.declare("clock_gettime", I32, [I32, PTR])
        b.call(clock, [const(I32, 1), time])
        seconds = b.mul(b.load(I64, time), const(I64, 1_000_000_000))
        return b.add(seconds, b.load(I64, b.gep(I64, time, const(I64, 1))))


def _moved(b: Builder, epoch: Value, seen: Value, ordering: str) -> Value:
    return b.icmp("ne", b.load_atomic(I64, epoch, ordering), b.load(I64, seen))


def _at_most(b: Builder, x: Value, limit: Value) -> Value:
    return b.select(b.icmp("slt", x, limit), x, limit)


def pool_module(triple: str) -> Module:
    """Build the module of the pool for a Linux machine.

    Errors: InternalError for a machine whose system calls are not known here.
    """
    arch = triple.split("-")[0]
    if arch not in _FUTEX_SYSCALL or "linux" not in triple:
        raise InternalError(f"no thread pool is written for {triple}")
    module = Module("loomir.pool", attributes={"nounwind": None})
    pool = _Pool(module, arch)
    get = pool.get_threads()
    pool.set_threads(get)
    region = pool.parallel_for(get, pool.create(pool.worker()))
    pool.after_fork()
    pool.workers()
    pool.stop()
    pool.measure(get, region)
    define_scratch(module)
    return module
