"""Emit the memory sanitizer: find reads of uninitialised bytes, and races between iterations.

- A *memory* has a descriptor of several words: its address, its size in bytes, the log2 of the
  bytes that share a pair of stamps, the stamps, the marks of bytes, and space for a report.
- A running *loop* has one too: the enclosing loop, the outermost loop (which counts all iterations
  of all loops), the stamp of its first iteration, that of the current one, and its variable.

Stamps increase. A stamp from ``first`` up to but not including ``current`` of a loop was set in
another iteration of that loop; the ranges of nested loops do not overlap. Of the reads of an
element, the sanitizer keeps one in such a range: any later write that races with another read also
races with that one.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Block, Callee, Module
from loomir.codegen.llvm.assembler.types import I1, I8, I32, I64, PTR, VOID, integer
from loomir.codegen.llvm.assembler.values import FALSE, NOTHING, NULL, Value, const
from loomir.codegen.llvm.math.floats import cast
from loomir.codegen.llvm.tir.access import LaneIndices, addresses_of, lane_indices, load_at
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.ir.visit import Step
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Call, StringImm
from loomir.tir.faults import fault

__all__ = ["WATCHING"]

_INT64: Final = DataType("int64")
# The words of a memory's descriptor.
_LOW, _SIZE, _SHIFT, _STAMPS, _WRITTEN, _REPORT = range(6)
# The words of a loop's descriptor. In that of the outermost loop, _VALUE counts the iterations.
_PARENT, _ROOT, _FIRST, _CURRENT, _VALUE = range(5)
# The result of checking an access.
_FINE, _UNWRITTEN, _READS, _WRITES, _OVERWRITES, _OUTSIDE = range(6)
_ROWS: Final = {
    _UNWRITTEN: "uninitialized",
    _READS: "race_read",
    _WRITES: "race_write",
    _OVERWRITES: "race_overwrite",
    _OUTSIDE: "memory",
}


def _word(b: Builder, at: Value, number: int) -> Value:
    return b.gep(I64, at, const(I64, number))


# -- what runs at an access ----------------------------------------------------------------------
def _define_zone(module: Module) -> Callee:
    """Define ``ptr zone(loop, stamp)``: the loop in whose other iteration the stamp was set."""
    params = [("loop", PTR), ("stamp", I64)]
    made = module.define("loomir.zone", PTR, params, linkage="internal")
    b = Builder(made)
    start = b.block
    head, look, inside, up, none = (b.append(n) for n in ("head", "look", "inside", "up", "none"))
    b.br(head)
    b.position_at_end(head)
    loop = b.phi(PTR, "loop")
    loop.add(made.params[0], start)
    b.condbr(b.icmp("eq", loop, NULL), none, look)
    b.position_at_end(look)
    stamp = made.params[1]
    b.condbr(b.icmp("sge", stamp, b.load(I64, _word(b, loop, _FIRST))), inside, up)
    b.position_at_end(inside)
    other = b.icmp("slt", stamp, b.load(I64, _word(b, loop, _CURRENT)))
    b.ret(b.select(other, loop, NULL))
    b.position_at_end(up)
    loop.add(b.load(PTR, _word(b, loop, _PARENT)), up)
    b.br(head)
    b.position_at_end(none)
    b.ret(NULL)
    return made


def _access(module: Module, size: int, writes: bool) -> Callee:
    """Find or define ``i32 access(memory, loop, address)`` for an element of ``size`` bytes."""
    name = f"loomir.{'write' if writes else 'read'}.{size}"
    found = module.find(name)
    if found is not None:
        return found
    zone = module.find("loomir.zone") or _define_zone(module)
    params = [("memory", PTR), ("loop", PTR), ("address", PTR)]
    made = module.define(name, I32, params, linkage="internal")
    b = Builder(made)
    memory, loop, address = made.params
    known, inside, track, done = (b.append(n) for n in ("known", "inside", "track", "done"))
    fine, outside = b.append("fine"), b.append("outside")
    b.condbr(b.icmp("eq", memory, NULL), fine, known)
    b.position_at_end(known)
    offset = b.sub(b.ptrtoint(address, I64), b.load(I64, _word(b, memory, _LOW)))
    whole = b.load(I64, _word(b, memory, _SIZE))
    fits = b.icmp("ule", offset, b.sub(whole, const(I64, size)))
    b.condbr(b.and_(fits, b.icmp("sge", whole, const(I64, size))), inside, outside)
    b.position_at_end(inside)
    marks = b.load(PTR, _word(b, memory, _WRITTEN))
    bits = integer(8 * size)
    if not writes:
        _require_written(b, marks, offset, size)
    stamps = b.load(PTR, _word(b, memory, _STAMPS))
    idle = b.or_(b.icmp("eq", stamps, NULL), b.icmp("eq", loop, NULL))
    b.condbr(idle, done, track)
    b.position_at_end(track)
    _track(b, zone, (memory, loop, stamps, offset), size, writes, done)
    b.position_at_end(done)
    if writes:
        mark = b.append("mark")
        b.condbr(b.icmp("eq", marks, NULL), fine, mark)
        b.position_at_end(mark)
        b.store(const(bits, -1), b.gep(I8, marks, offset), align=1)
    b.br(fine)
    for block, result in ((fine, _FINE), (outside, _OUTSIDE)):
        b.position_at_end(block)
        b.ret(const(I32, result))
    return made


def _require_written(b: Builder, marks: Value, offset: Value, size: int) -> None:
    look, bad, go_on = b.append("look"), b.append("unwritten"), b.append("written")
    b.condbr(b.icmp("eq", marks, NULL), go_on, look)
    b.position_at_end(look)
    bits = integer(8 * size)
    found = b.load(bits, b.gep(I8, marks, offset), align=1)
    b.condbr(b.icmp("eq", found, const(bits, -1)), go_on, bad)
    b.position_at_end(bad)
    b.ret(const(I32, _UNWRITTEN))
    b.position_at_end(go_on)


def _track(
    b: Builder,
    zone: Callee,
    at: tuple[Value, Value, Value, Value],
    size: int,
    writes: bool,
    done: Block,
) -> None:
    """Compare and set the stamps of the bytes of an element, then go to ``done``."""
    memory, loop, stamps, offset = at
    root = b.load(PTR, _word(b, loop, _ROOT))
    now = b.load(I64, _word(b, root, _VALUE))
    shift = b.load(I64, _word(b, memory, _SHIFT))
    first = b.lshr(offset, shift)
    last = b.lshr(b.add(offset, const(I64, size - 1)), shift)
    start, each, clash = b.block, b.append("each"), b.append("clash")
    own, next_one = b.append("own"), b.append("next")
    b.br(each)
    b.position_at_end(each)
    number = b.phi(I64, "number")
    number.add(first, start)
    slot = b.gep(I64, stamps, b.shl(number, const(I64, 1)))
    writer = b.call(zone, [loop, b.load(I64, slot)])
    b.condbr(b.icmp("eq", writer, NULL), own, clash)
    _report(b, memory, writer, clash, _WRITES if writes else _READS)
    b.position_at_end(own)
    read_at = b.gep(I64, slot, const(I64, 1))
    read = b.load(I64, read_at)
    reader = b.call(zone, [loop, read])
    if writes:
        mark, overwrites = b.append("mark"), b.append("overwrites")
        b.condbr(b.icmp("eq", reader, NULL), mark, overwrites)
        _report(b, memory, reader, overwrites, _OVERWRITES)
        b.position_at_end(mark)
        b.store(now, slot)
    else:
        b.store(b.select(b.icmp("eq", reader, NULL), now, read), read_at)
    b.br(next_one)
    b.position_at_end(next_one)
    number.add(b.add(number, const(I64, 1)), next_one)
    b.condbr(b.icmp("ult", number, last), each, done)


def _report(b: Builder, memory: Value, loop: Value, block: Block, result: int) -> None:
    b.position_at_end(block)
    b.store(b.load(I64, _word(b, loop, _VALUE)), _word(b, memory, _REPORT))
    b.ret(const(I32, result))


# -- builtins ------------------------------------------------------------------------------------
def _start(frame: FunctionFrame, e: Call) -> Step[Value]:
    words: Value = yield frame.value(e.args[0])
    b = frame.b
    for number, value in ((_PARENT, NULL), (_ROOT, words)):
        b.store(value, _word(b, words, number))
    for number in (_FIRST, _CURRENT, _VALUE):
        b.store(const(I64, 0), _word(b, words, number))
    return words


def _loop(frame: FunctionFrame, e: Call) -> Step[Value]:
    words: Value = yield frame.value(e.args[0])
    parent: Value = yield frame.value(e.args[1])
    b = frame.b
    root = b.load(PTR, _word(b, parent, _ROOT))
    first = b.add(b.load(I64, _word(b, root, _VALUE)), const(I64, 1))
    for number, value in ((_PARENT, parent), (_ROOT, root), (_FIRST, first), (_CURRENT, first)):
        b.store(value, _word(b, words, number))
    return words


def _iteration(frame: FunctionFrame, e: Call) -> Step[Value]:
    words: Value = yield frame.value(e.args[0])
    value: Value = yield frame.value(e.args[1])
    b = frame.b
    count = _word(b, b.load(PTR, _word(b, words, _ROOT)), _VALUE)
    now = b.add(b.load(I64, count), const(I64, 1))
    b.store(now, count)
    b.store(now, _word(b, words, _CURRENT))
    b.store(value, _word(b, words, _VALUE))
    return NOTHING


def _memory(frame: FunctionFrame, e: Call) -> Step[Value]:
    values: list[Value] = []
    for arg in e.args:
        value: Value = yield frame.value(arg)
        values.append(value)
    words, data, low, size, shift, stamps, written = values
    b = frame.b
    address = b.add(b.ptrtoint(data, I64), low)
    rows = (
        (_LOW, address),
        (_SIZE, size),
        (_SHIFT, shift),
        (_STAMPS, stamps),
        (_WRITTEN, written),
    )
    for number, value in rows:
        b.store(value, _word(b, words, number))
    _clear(b, stamps, b.shl(b.lshr(size, shift), const(I64, 4)), 0)
    _clear(b, written, size, 0)
    poisoned = b.select(b.icmp("eq", written, NULL), const(I64, 0), size)
    _clear(b, data, poisoned, _POISON)
    return words


_POISON: Final = 0xCD - 256


def _clear(b: Builder, at: Value, size: Value, byte: int) -> None:
    """Fill memory with a byte; does nothing for NULL."""
    count = b.select(b.icmp("eq", at, NULL), const(I64, 0), size)
    memset = b.module.declare("llvm.memset.p0.i64", VOID, [PTR, I8, I64, I1])
    b.call(memset, [at, const(I8, byte), count, FALSE])


def _escape(frame: FunctionFrame, e: Call) -> Step[Value]:
    words: Value = yield frame.value(e.args[0])
    b = frame.b
    known, after = b.append("known"), b.append("after")
    b.condbr(b.icmp("eq", words, NULL), after, known)
    b.position_at_end(known)
    marks = b.load(PTR, _word(b, words, _WRITTEN))
    _clear(b, marks, b.load(I64, _word(b, words, _SIZE)), -1)
    b.br(after)
    b.position_at_end(after)
    return words


def _read(frame: FunctionFrame, e: Call) -> Step[Value]:
    place = e.args[0]
    if not isinstance(place, BufferLoad):
        raise InternalError("lowered code watches something else than a load")
    at: LaneIndices = yield lane_indices(frame, place)
    yield _check(frame, e, place, at, writes=False)
    return load_at(frame, place, at)


def _write(frame: FunctionFrame, e: Call) -> Step[Value]:
    place = e.args[0]
    if not isinstance(place, BufferLoad):
        raise InternalError("lowered code watches something else than a load")
    at: LaneIndices = yield lane_indices(frame, place)
    yield _check(frame, e, place, at, writes=True)
    return NOTHING


def _check(
    frame: FunctionFrame, e: Call, place: BufferLoad, at: LaneIndices, *, writes: bool
) -> Step[None]:
    memory: Value = yield frame.value(e.args[1])
    loop: Value = yield frame.value(e.args[2])
    name = e.args[3].value if isinstance(e.args[3], StringImm) else "a buffer"
    indices: list[Value] = []
    for arg in e.args[4:]:
        value: Value = yield frame.value(arg)
        indices.append(cast(frame.b, value, arg.dtype, _INT64.with_lanes(arg.dtype.lanes)))
    size = place.buffer.dtype.itemsize // place.buffer.dtype.lanes
    access = _access(frame.unit.module, size, writes)
    for lane, address in addresses_of(frame, place, at):
        b = frame.b
        status = b.call(access, [memory, loop, address])
        fine, bad = b.append("fine"), b.append("bad")
        b.condbr(b.icmp("eq", status, const(I32, _FINE)), fine, bad, meta=frame.unit.faults.rare())
        b.position_at_end(bad)
        own = [v if v.type.lanes == 1 else b.extractelement(v, lane) for v in indices]
        _stop(frame, e, name, status, memory, own, writes)
        frame.b.position_at_end(fine)


def _stop(
    frame: FunctionFrame,
    e: Call,
    name: str,
    status: Value,
    memory: Value,
    indices: list[Value],
    writes: bool,
) -> None:
    b = frame.b
    kinds = (_WRITES, _OVERWRITES, _OUTSIDE) if writes else (_UNWRITTEN, _READS, _OUTSIDE)
    blocks = [b.append("broken") for _ in kinds]
    b.switch(status, blocks[-1], list(zip(kinds[:-1], blocks[:-1], strict=True)))
    for kind, block in zip(kinds, blocks, strict=True):
        b.position_at_end(block)
        races = kind in (_READS, _WRITES, _OVERWRITES)
        values = indices[: frame.unit.faults.values - races]
        found = fault(_ROWS[kind], e.span, axes=len(values), first=int(races), buffer=name)
        if races:
            values = [b.load(I64, _word(b, memory, _REPORT)), *values]
        frame.stop(found, *values)


WATCHING: Final = {
    "watch_start": _start,
    "watch_loop": _loop,
    "watch_iteration": _iteration,
    "watch_memory": _memory,
    "watch_escape": _escape,
    "watch_read": _read,
    "watch_write": _write,
}
