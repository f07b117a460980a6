"""Keep the memory of large tensors for the next tensor, as generated IR.

A graph allocates its arena anew in each call. The C library maps allocations above 32 MiB from the
system and returns them, so that each call would write to fresh pages: a convolution of 8 images
took three times as long (on a Xeon, Emerald Rapids). The last freed blocks wait in two slots, which
are exchanged atomically.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Block, Callee, Module
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR, VOID, array
from loomir.codegen.llvm.assembler.values import NULL, Value, const, zero
from loomir.runtime import layout as dl
from loomir.runtime.graph import object_layout as at

__all__ = ["TensorMemoryCache", "place"]

_SLOTS: Final = 2
"""Blocks that are kept: a graph that runs again needs its result and one intermediate tensor."""
_LEAST: Final = 1 << 24
"""Bytes from which a block is kept; the C library itself reuses smaller ones."""
_MOST: Final = 1 << 28
"""Bytes of the largest block that is kept; both slots hold at most half a GiB."""


def place(b: Builder, base: Value, offset: int) -> Value:
    """Compute the address of a field."""
    return b.gep(I8, base, const(I64, offset), inbounds=True) if offset else base


class TensorMemoryCache:
    """Blocks of freed tensors; ``take`` returns one of at least so many bytes, or a new one."""

    def __init__(self, module: Module, malloc: Callee, free: Callee) -> None:
        self._module, self._malloc, self._free = module, malloc, free
        self._slots = module.define_global("kept", zero(array(PTR, _SLOTS)), align=64)
        self._put = self._define_put()
        self.take = self._define_take()

    def give(self, b: Builder, block: Value, owner: Value, other: Block, done: Block) -> None:
        """Keep a tensor's block and go to ``done``, or go to ``other``, which frees it.

        The block of a tensor with lent memory is not kept: its capacity is that of the lender.
        """
        keep = b.append("keep")
        room = b.load(I64, place(b, block, at.TENSOR_CAPACITY))
        fits = b.icmp("ule", b.sub(room, const(I64, _LEAST)), const(I64, _MOST - _LEAST))
        flags = b.load(I32, place(b, block, at.FLAGS))
        inside = b.icmp("eq", b.and_(flags, const(I32, at.LENT)), const(I32, 0))
        inside = b.and_(inside, b.icmp("eq", owner, NULL))
        b.condbr(b.and_(fits, inside), keep, other)
        b.position_at_end(keep)
        b.call(self._put, [block])
        b.br(done)

    def _define_put(self) -> Callee:
        """Define the function that stores a block in the first slot; the oldest one is freed."""
        f = self._module.define("keep", VOID, [("block", PTR)], linkage="internal")
        b = Builder(f)
        carried = b.ptrtoint(f.params[0], I64)
        done = b.append("done")
        for number in range(_SLOTS):
            slot = b.gep(PTR, self._slots, const(I64, number))
            carried = b.atomicrmw("xchg", slot, carried, "acq_rel")
            following = b.append("next")
            b.condbr(b.icmp("eq", carried, const(I64, 0)), done, following)
            b.position_at_end(following)
        b.call(self._free, [b.inttoptr(carried, PTR)])
        b.br(done)
        b.position_at_end(done)
        b.ret()
        return f

    def _define_take(self) -> Callee:
        """Define the function that returns a kept block, up to twice as large, or a new one."""
        f = self._module.define("take", PTR, [("size", I64)], linkage="internal")
        b = Builder(f)
        (size,) = f.params
        large, fresh = b.append("large"), b.append("fresh")
        b.condbr(b.icmp("uge", size, const(I64, _LEAST)), large, fresh)
        b.position_at_end(large)
        for number in range(_SLOTS):
            slot = b.gep(PTR, self._slots, const(I64, number))
            some, fits, wrong, following = (
                b.append(name) for name in ("some", "fits", "wrong", "next")
            )
            bits = b.atomicrmw("xchg", slot, const(I64, 0), "acq_rel")
            b.condbr(b.icmp("ne", bits, const(I64, 0)), some, following)
            b.position_at_end(some)
            block = b.inttoptr(bits, PTR)
            capacity = self._size_of(b, block)
            close = b.icmp("ule", b.lshr(capacity, const(I64, 1)), size)
            b.condbr(b.and_(b.icmp("uge", capacity, size), close), fits, wrong)
            b.position_at_end(fits)
            b.ret(block)
            b.position_at_end(wrong)
            b.call(self._free, [block])
            b.br(following)
            b.position_at_end(following)
        b.br(fresh)
        b.position_at_end(fresh)
        b.ret(b.call(self._malloc, [size]))
        return f

    @staticmethod
    def _size_of(b: Builder, block: Value) -> Value:
        """Compute from the tensor in a block how many bytes the block was allocated with."""
        tensor = place(b, block, at.TENSOR_DLTENSOR)
        rank = b.and_(b.load(I64, place(b, tensor, dl.DLTENSOR_NDIM)), const(I64, 0xFFFFFFFF))
        head = b.add(
            const(I64, at.TENSOR_EXTENTS + at.DATA_ALIGNMENT - 1), b.shl(rank, const(I64, 3))
        )
        return b.add(head, b.load(I64, place(b, block, at.TENSOR_CAPACITY)))
