"""Keep scratch memory of kernels for their next run, as generated IR.

Fresh pages cost more than many kernels compute in them. So memory that a kernel frees waits in one
of a few slots for the next request, the most recently freed block first. A slot is taken and filled
by one atomic exchange, and a block is in at most one slot. A block that finds no free slot is
returned to the system.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Module
from loomir.codegen.llvm.assembler.types import I8, I64, PTR, VOID, array
from loomir.codegen.llvm.assembler.values import NULL, Value, const, zero
from loomir.codegen.llvm.support.ir.names import GIVE_SCRATCH, TAKE_SCRATCH

__all__ = ["GIVE_SCRATCH", "TAKE_SCRATCH", "define_scratch"]


_SLOTS: Final = 8
"""Blocks that are kept for the next call."""
_LINE: Final = 64
"""Bytes of the header before each block; its first word is the size."""

_LARGEST: Final = 1 << 26
"""Bytes of the largest block that is kept; all slots hold at most half a GiB."""


def define_scratch(module: Module, system: str | None) -> None:
    """Define ``ptr loomir_take_scratch(i64 size)``, null if there is none, and its inverse.

    ``size`` is a multiple of 64 and not 0; blocks are aligned to 64 bytes. The allocator is that of
    the system of that name.
    """
    slots = module.define_global("scratch", zero(array(PTR, _SLOTS)), align=_LINE)
    on_windows = system == "windows"
    free = module.declare("_aligned_free" if on_windows else "free", VOID, [PTR])
    alloc = module.declare("_aligned_malloc" if on_windows else "aligned_alloc", PTR, [I64, I64])
    _take(module, slots, _Allocator(alloc, free, takes_size_first=on_windows))
    _give(module, slots, free)


class _Allocator(NamedTuple):
    """The functions of the C library for aligned memory."""

    alloc: Callee
    free: Callee
    takes_size_first: bool


def _take(module: Module, slots: Value, allocator: _Allocator) -> None:
    f = module.define(TAKE_SCRATCH, PTR, [("size", I64)])
    b = Builder(f)
    (size,) = f.params
    head, look, some, found, fits, wrong, back, lost, following, ask, ready, none = (
        b.append(name)
        for name in (
            "head",
            "look",
            "some",
            "found",
            "fits",
            "wrong",
            "back",
            "lost",
            "next",
            "ask",
            "ready",
            "none",
        )
    )
    start = b.block
    b.br(head)
    b.position_at_end(head)
    index = b.phi(I64, "slot")
    index.add(const(I64, 0), start)
    b.condbr(b.icmp("slt", index, const(I64, _SLOTS)), look, ask)
    b.position_at_end(look)
    slot = b.gep(PTR, slots, index)
    seen = b.load_atomic(I64, slot, "monotonic")
    b.condbr(b.icmp("ne", seen, const(I64, 0)), some, following)
    b.position_at_end(some)
    bits = b.atomicrmw("xchg", slot, const(I64, 0), "acq_rel")
    b.condbr(b.icmp("ne", bits, const(I64, 0)), found, following)
    b.position_at_end(found)
    block = b.inttoptr(bits, PTR)
    capacity = b.load(I64, block)
    enough = b.icmp("sge", capacity, size)
    # A block that is far too large stays, for a kernel that needs it.
    close = b.icmp("sle", capacity, b.add(b.mul(size, const(I64, 8)), const(I64, 1 << 20)))
    b.condbr(b.and_(enough, close), fits, wrong)
    b.position_at_end(fits)
    b.ret(b.gep(I8, block, const(I64, _LINE)))
    b.position_at_end(wrong)
    displaced = b.atomicrmw("xchg", slot, bits, "acq_rel")
    b.condbr(b.icmp("ne", displaced, const(I64, 0)), lost, back)
    b.position_at_end(lost)
    b.call(allocator.free, [b.inttoptr(displaced, PTR)])
    b.br(back)
    b.position_at_end(back)
    b.br(following)
    b.position_at_end(following)
    index.add(b.add(index, const(I64, 1)), following)
    b.br(head)
    b.position_at_end(ask)
    amounts = [const(I64, _LINE), b.add(size, const(I64, _LINE))]
    fresh = b.call(allocator.alloc, amounts[::-1] if allocator.takes_size_first else amounts)
    b.condbr(b.icmp("ne", fresh, NULL), ready, none)
    b.position_at_end(ready)
    b.store(size, fresh)
    b.ret(b.gep(I8, fresh, const(I64, _LINE)))
    b.position_at_end(none)
    b.ret(NULL)


def _give(module: Module, slots: Value, free: Callee) -> None:
    f = module.define(GIVE_SCRATCH, VOID, [("memory", PTR)])
    b = Builder(f)
    block = b.gep(I8, f.params[0], const(I64, -_LINE))
    head, put, kept, following, rest = (
        b.append(name) for name in ("head", "put", "kept", "next", "rest")
    )
    small = b.icmp("sle", b.load(I64, block), const(I64, _LARGEST))
    first = b.select(small, const(I64, 0), const(I64, _SLOTS))
    bits = b.ptrtoint(block, I64)
    start = b.block
    b.br(head)
    b.position_at_end(head)
    index = b.phi(I64, "slot")
    index.add(first, start)
    carried = b.phi(I64, "carried")
    carried.add(bits, start)
    b.condbr(b.icmp("slt", index, const(I64, _SLOTS)), put, rest)
    b.position_at_end(put)
    # The newest block goes into the first slot; the one that was there moves to the next.
    before = b.atomicrmw("xchg", b.gep(PTR, slots, index), carried, "acq_rel")
    b.condbr(b.icmp("eq", before, const(I64, 0)), kept, following)
    b.position_at_end(kept)
    b.ret()
    b.position_at_end(following)
    index.add(b.add(index, const(I64, 1)), following)
    carried.add(before, following)
    b.br(head)
    b.position_at_end(rest)
    b.call(free, [b.inttoptr(carried, PTR)])
    b.ret()
