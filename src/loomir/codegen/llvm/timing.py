"""Kernels that note when they ran: each call leaves a record of numbers in one buffer.

The buffer is of int64: how many words are taken, how many there are, then records. A record is the
number of the kernel, the nanoseconds at which it began and ended, and the sizes it was called with.
What does not fit is counted, not written.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Callee, Function
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, struct
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.generated_module import TimedKernel
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.tir.frame import LinkedFunction, Unit
from loomir.runtime.packed.externs import address_in_process
from loomir.support.dtype import DataType

__all__ = ["define_timed", "make_timing_symbols", "new_buffer", "read_records"]

_BUFFER: Final = "loomir_profile"
_CLOCK: Final = "clock_gettime"
_HEAD: Final = 2
_WORDS: Final = 1 << 20
_INT64: Final = DataType("int64")
_WHICH: Final[int] = getattr(time, "CLOCK_MONOTONIC", 1)

Buffer = npt.NDArray[np.int64]


class Record(NamedTuple):
    """One call of a kernel: its number, nanoseconds, and sizes."""

    kernel: int
    start: int
    end: int
    sizes: tuple[int, ...]


def define_timed(
    unit: Unit, number: int, linked: LinkedFunction, body: Function
) -> tuple[Callee, TimedKernel]:
    """Define a function that calls a kernel's body and records the time."""
    made = unit.module.define(
        f"{linked.symbol}.timed",
        I32,
        [(f"p{i}", value.type) for i, value in enumerate(body.params)],
        linkage="internal",
        attributes={"noinline": None},
    )
    b = Builder(made)
    names, sizes = _sizes(b, linked, made)
    clock = unit.module.declare(_CLOCK, I32, [I32, PTR])
    start = _now(b, clock)
    status = b.call(body, list(made.params))
    end = _now(b, clock)
    words = [const(I64, number), start, end, *sizes]
    buffer = unit.module.declare_global(_BUFFER, I64)
    taken = b.atomicrmw("add", buffer, const(I64, len(words)))
    room = b.load(I64, b.gep(I64, buffer, const(I64, 1)))
    fits = b.icmp("sle", b.add(taken, const(I64, len(words))), room)
    write, on = b.append("write"), b.append("on")
    b.condbr(fits, write, on)
    b.position_at_end(write)
    for i, word in enumerate(words):
        b.store(word, b.gep(I64, buffer, b.add(taken, const(I64, _HEAD + i))))
    b.br(on)
    b.position_at_end(on)
    b.ret(status)
    return made, TimedKernel(linked.name, names)


def _sizes(
    b: Builder, linked: LinkedFunction, made: Function
) -> tuple[tuple[str, ...], list[Value]]:
    """Return the integer arguments of a body: shape variables, then scalars."""
    signature = linked.signature
    arrays = sum(p.buffer is not None for p in signature.parameters)
    listed = [(v.var.name_hint, v.var.dtype) for v in signature.bindings]
    listed += [(p.name, p.dtype) for p in signature.parameters if p.buffer is None]
    names: list[str] = []
    values: list[Value] = []
    for (name, dtype), value in zip(listed, made.params[1 + arrays : -1], strict=True):
        if dtype.is_integer and dtype.lanes == 1 and dtype.bits <= 64:
            names.append(name)
            values.append(cast(b, value, dtype, _INT64))
    return tuple(names), values


def _now(b: Builder, clock: Callee) -> Value:
    t = struct([I64, I64])
    at = b.alloca(t, hint="now")
    b.call(clock, [const(I32, _WHICH), at])
    seconds, rest = (b.load(I64, b.field(t, at, i)) for i in (0, 1))
    return b.add(b.mul(seconds, const(I64, 1_000_000_000)), rest)


# -- at run time -----------------------------------------------------------------------------------
def new_buffer() -> Buffer:
    """Make a buffer for records."""
    made = np.zeros(_HEAD + _WORDS, np.int64)
    made[1] = _WORDS
    return made


def make_timing_symbols(buffer: Buffer) -> dict[str, int]:
    """Return the addresses of the symbols that timed code refers to."""
    return {_BUFFER: buffer.ctypes.data, _CLOCK: address_in_process(_CLOCK)}


def read_records(buffer: Buffer, kernels: tuple[TimedKernel, ...]) -> tuple[list[Record], int]:
    """Take all records out of a buffer; also return how many words were dropped."""
    taken = int(buffer[0])
    words: list[int] = buffer[_HEAD : _HEAD + min(taken, _WORDS)].tolist()
    buffer[:] = 0
    buffer[1] = _WORDS
    records: list[Record] = []
    at = 0
    while at < len(words):
        count = 3 + len(kernels[words[at]].sizes)
        if at + count > len(words):
            break
        kernel, start, end, *sizes = words[at : at + count]
        records.append(Record(kernel, start, end, tuple(sizes)))
        at += count
    return records, max(0, taken - _WORDS)
