"""Share the range of a parallel region between threads, with work stealing, as generated IR.

The range is cut into a contiguous share for each thread, and each share into up to sixteen pieces.
A thread takes the pieces of its own share in order, then pieces that are left of the shares after
it. So each thread works on memory of its own, and yet a thread that starts late, or is delayed by
other programs, delays the others by at most one piece; a worker that never comes is not missed.

- A share's ``claim`` holds the generation of the region and the number of pieces taken. A claim of
  an older generation counts as untouched; one of a newer generation says that this region is over.
- A worker may look at a region that ends meanwhile. Its task is not overwritten before the region
  after the next one, since two tasks alternate; a worker that finds the epoch unchanged after
  reading has read one whole task. It touches nothing else before it has taken a piece, which keeps
  the region from ending.
- A fault goes to the slot of the thread that met it, which keeps the lowest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Block, Function, Module
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR, array, function, vector
from loomir.codegen.llvm.assembler.values import Value, const, zero
from loomir.codegen.llvm.support.ir.faults import CONTEXT, FLOOR
from loomir.codegen.llvm.support.ir.names import MAX_THREADS

__all__ = [
    "CLAIM",
    "COUNT_SHIFT",
    "GENERATIONS",
    "HOME",
    "MAX_THREADS",
    "RECORD",
    "SEEN",
    "TASK",
    "THREAD",
    "Shares",
]

TASK: Final = function(I32, [PTR, PTR, I64, I64])
RECORD: Final = vector(I64, 4)  # { i32 site, i32 depth, i64 v0, i64 v1, i64 v2 }

COUNT_SHIFT: Final = 48
GENERATIONS: Final = (1 << COUNT_SHIFT) - 1
"""The low bits of the epoch are the generation of a region, the high bits its number of shares."""

# The slot of a thread, two cache lines. The first: the claim of its share, the CPU that it should
# use, the code of its fault, its thread, the epoch that it saw first. The second: generation,
# offset and record of its fault.
_SLOT: Final = (I64, I32, I32, I64, I64, array(I8, 32), I64, I64, RECORD)
CLAIM, HOME, THREAD, SEEN = 0, 1, 3, 4
_CODE, _FAULT, _OFFSET, _RECORD = 2, 6, 7, 8

_FN, _CLOSURE, _CTX, _BEGIN, _EACH, _REST, _GRAIN, _PIECES = range(8)
_FIELDS: Final = (PTR, PTR, PTR, I64, I64, I64, I64, I64)
_LOG_PIECES: Final = 4
"""The logarithm of the pieces of a share: a thread that is late leaves up to fifteen to others."""
_TAKEN_BITS: Final = 16
"""The low bits of a claim, which count the pieces that are taken; above them is the generation."""


class _Task(NamedTuple):
    """A task, loaded: each share has ``each`` indices, the first ``rest`` shares one more."""

    fn: Value
    closure: Value
    ctx: Value
    begin: Value
    each: Value
    rest: Value
    grain: Value
    pieces: Value  # low half: of the shares after the first ``rest``; high half: of those


class Shares:
    """The variables of the running region, and the code that uses them."""

    def __init__(self, module: Module, epoch: Value, pending: Value, faulted: Value) -> None:
        self.module = module
        self.slot = module.struct("slot", _SLOT)
        self.task = module.struct("task", _FIELDS)
        self.tasks = module.define_global("tasks", zero(array(self.task, 2)), align=64)
        self.slots = module.define_global("slots", zero(array(self.slot, MAX_THREADS)), align=128)
        self.epoch, self.pending, self.faulted = epoch, pending, faulted

    def slot_of(self, b: Builder, index: Value) -> Value:
        """Return the address of the slot of a thread."""
        return b.gep(self.slot, self.slots, b.zext(index, I64), inbounds=True)

    def field(self, b: Builder, index: Value, field: int) -> Value:
        """Return the address of a field of a thread's slot."""
        return b.field(self.slot, self.slot_of(b, index), field)

    def _task_of(self, b: Builder, generation: Value) -> Value:
        return b.gep(self.task, self.tasks, b.and_(generation, const(I64, 1)), inbounds=True)

    def write(self, b: Builder, generation: Value, given: Sequence[Value], count: Value) -> None:
        """Write the task of a region, which no worker reads yet."""
        fn, closure, ctx, begin, end = given
        one = const(I64, 1)
        total, n = b.sub(end, begin), b.zext(count, I64)
        each = b.udiv(total, n)
        rest = b.sub(total, b.mul(each, n))
        longest = b.select(b.icmp("eq", rest, const(I64, 0)), each, b.add(each, one))
        grain = b.add(b.lshr(b.sub(longest, one), const(I64, _LOG_PIECES)), one)
        whole = b.udiv(each, grain)
        long = b.add(whole, one)
        even = b.icmp("eq", b.mul(whole, grain), each)
        short = b.select(even, whole, long)
        pieces = b.add(b.mul(rest, long), b.mul(b.sub(n, rest), short))
        both = b.or_(b.shl(long, const(I64, 32)), short)
        place = self._task_of(b, generation)
        b.fence("release")  # after the previous epoch: see `work`
        for i, value in enumerate((fn, closure, ctx, begin, each, rest, grain, both)):
            b.store_atomic(value, b.field(self.task, place, i), "monotonic")
        b.store_atomic(b.trunc(pieces, I32), self.pending, "monotonic")

    def work(self) -> Function:
        """Define what a thread does in a region: run pieces until none is left.

        It takes the thread's number and the epoch, and returns 1 if this thread completed the last
        pieces.
        """
        f = self.module.define("work", I32, [("index", I32), ("epoch", I64)], linkage="internal")
        b = Builder(f)
        index, epoch = f.params
        generation = b.and_(epoch, const(I64, GENERATIONS))
        count = b.trunc(b.lshr(epoch, const(I64, COUNT_SHIFT)), I32)
        task = self._read(b, generation)
        share, stale, claim, over = (b.append(n) for n in ("share", "stale", "claim", "over"))
        settle, following = b.append("settle"), b.append("following")
        b.fence("acquire")
        now = b.load_atomic(I64, self.epoch, "monotonic")
        ran, record = b.alloca(I32), b.alloca(RECORD, align=32)
        b.condbr(b.icmp("eq", now, epoch), share, stale)
        origin = b.block
        b.position_at_end(stale)
        b.ret(const(I32, 0))

        b.position_at_end(share)
        victim = b.phi(I32, "victim")
        victim.add(index, origin)
        left = b.phi(I32, "left")
        left.add(count, origin)
        b.store(const(I32, 0), ran)
        b.br(claim)

        b.position_at_end(claim)
        taken = self._take(b, victim, generation, task, settle, stale)
        fault, fine = b.append("fault"), b.append("fine")
        code, offset = self._run(b, victim, taken, task, record)
        b.condbr(b.icmp("eq", code, const(I32, 0)), fine, fault)
        b.position_at_end(fault)
        self._keep_fault(b, index, generation, code, offset, record)
        b.br(fine)
        b.position_at_end(fine)
        b.store(b.add(b.load(I32, ran), const(I32, 1)), ran)
        b.br(claim)

        b.position_at_end(settle)
        settled, some, mine = b.append("settled"), b.append("some"), b.load(I32, ran)
        b.condbr(b.icmp("eq", mine, const(I32, 0)), following, some)
        b.position_at_end(some)
        before = b.atomicrmw("sub", self.pending, mine)
        b.condbr(b.icmp("eq", before, mine), settled, following)
        b.position_at_end(settled)
        b.ret(const(I32, 1))

        b.position_at_end(following)
        after = b.add(victim, const(I32, 1))
        victim.add(b.select(b.icmp("eq", after, count), const(I32, 0), after), following)
        remaining = b.sub(left, const(I32, 1))
        left.add(remaining, following)
        b.condbr(b.icmp("eq", remaining, const(I32, 0)), over, share)
        b.position_at_end(over)
        b.ret(const(I32, 0))
        return f

    def _read(self, b: Builder, generation: Value) -> _Task:
        place = self._task_of(b, generation)
        fields = (b.field(self.task, place, i) for i in range(len(_FIELDS)))
        read = [
            b.load_atomic(kind, field, "monotonic")
            for kind, field in zip(_FIELDS, fields, strict=True)
        ]
        return _Task(*read)

    def _take(
        self,
        b: Builder,
        victim: Value,
        generation: Value,
        task: _Task,
        empty: Block,
        over: Block,
    ) -> Value:
        """Take a piece of a share and return its number, or go to ``empty`` or ``over``."""
        place = self.field(b, victim, CLAIM)
        wide = b.zext(victim, I64)
        half = b.select(b.icmp("ult", wide, task.rest), const(I64, 32), const(I64, 0))
        pieces = b.and_(b.lshr(task.pieces, half), const(I64, 0xFFFF))
        look, known, attempt, got = (b.append(n) for n in ("look", "known", "attempt", "got"))
        b.br(look)
        b.position_at_end(look)
        word = b.load_atomic(I64, place, "monotonic")
        tag = b.lshr(word, const(I64, _TAKEN_BITS))
        b.condbr(b.icmp("ugt", tag, generation), over, known)
        b.position_at_end(known)
        fresh = b.shl(generation, const(I64, _TAKEN_BITS))
        current = b.select(b.icmp("eq", tag, generation), word, fresh)
        taken = b.sub(current, fresh)
        b.condbr(b.icmp("ult", taken, pieces), attempt, empty)
        b.position_at_end(attempt)
        _, mine = b.cmpxchg(place, word, b.add(current, const(I64, 1)), "acq_rel", "monotonic")
        b.condbr(mine, got, look)
        b.position_at_end(got)
        return taken

    def _run(
        self, b: Builder, victim: Value, piece: Value, task: _Task, record: Value
    ) -> tuple[Value, Value]:
        """Run a piece; return its status, and its offset from the start of the range."""
        i = b.zext(victim, I64)
        longer = b.icmp("ult", i, task.rest)
        extra = b.select(longer, i, task.rest)
        length = b.add(task.each, b.zext(longer, I64))
        first = b.mul(piece, task.grain)
        left = b.sub(length, first)
        size = b.select(b.icmp("ult", left, task.grain), left, task.grain)
        offset = b.add(b.add(b.mul(i, task.each), extra), first)
        start = b.add(task.begin, offset)
        b.store(b.load(RECORD, task.ctx), record)
        # The caller may be another thread, with another stack.
        b.store(const(I64, -1), b.field(CONTEXT, record, FLOOR))
        args = [record, task.closure, start, b.add(start, size)]
        return b.call_pointer(task.fn, TASK, args), offset

    def _keep_fault(
        self,
        b: Builder,
        index: Value,
        generation: Value,
        code: Value,
        offset: Value,
        record: Value,
    ) -> None:
        """Record a fault, unless the thread has a lower one; the builder goes on in a new block."""
        keep, kept = b.append("keep"), b.append("kept")
        fault = self.field(b, index, _FAULT)
        where = self.field(b, index, _OFFSET)
        old = b.icmp("ne", b.load(I64, fault), generation)
        lower = b.icmp("ult", offset, b.load(I64, where))
        b.condbr(b.or_(old, lower), keep, kept)
        b.position_at_end(keep)
        b.store(generation, fault)
        b.store(offset, where)
        b.store(code, self.field(b, index, _CODE))
        b.store(b.load(RECORD, record), self.field(b, index, _RECORD))
        b.store_atomic(generation, self.faulted, "monotonic")
        b.br(kept)
        b.position_at_end(kept)

    def lowest_fault(self, b: Builder, generation: Value, count: Value, ctx: Value) -> Value:
        """Copy the record of the lowest fault, which must exist, to ``ctx``; return its code."""
        best, at = b.alloca(I32), b.alloca(I64)
        none = const(I32, MAX_THREADS)
        b.store(none, best)
        b.store(const(I64, 0), at)
        head, look, better, following, done = (
            b.append(n) for n in ("head", "look", "better", "following", "done")
        )
        origin = b.block
        b.br(head)
        b.position_at_end(head)
        i = b.phi(I32)
        i.add(const(I32, 0), origin)
        b.condbr(b.icmp("ult", i, count), look, done)
        b.position_at_end(look)
        has = b.icmp("eq", b.load(I64, self.field(b, i, _FAULT)), generation)
        offset = b.load(I64, self.field(b, i, _OFFSET))
        first = b.icmp("eq", b.load(I32, best), none)
        lower = b.or_(first, b.icmp("ult", offset, b.load(I64, at)))
        b.condbr(b.and_(has, lower), better, following)
        b.position_at_end(better)
        b.store(i, best)
        b.store(offset, at)
        b.br(following)
        b.position_at_end(following)
        i.add(b.add(i, const(I32, 1)), following)
        b.br(head)
        b.position_at_end(done)
        found = b.load(I32, best)
        b.store(b.load(RECORD, self.field(b, found, _RECORD)), ctx)
        return b.load(I32, self.field(b, found, _CODE))
