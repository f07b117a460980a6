"""Emit loops: ``loop_var`` runs over ``[min, min + extent)``, both of which are evaluated once."""

from __future__ import annotations

from typing import Final

from loomir.arith.bounds.interval import Interval
from loomir.codegen.llvm.assembler.text import Block, Metadata
from loomir.codegen.llvm.assembler.types import I64, VOID
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.tir.constants import constant_of, range_of
from loomir.codegen.llvm.tir.frame import FunctionFrame, LongLoop, Loop, PrefetchLoop
from loomir.codegen.llvm.tir.parallel import run_parallel
from loomir.codegen.llvm.tir.polling import count, strip_length, weight_of
from loomir.ir.visit import Step
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import BOOL, DataType
from loomir.tir.expr import IntImm
from loomir.tir.faults import fault
from loomir.tir.stmt import PREFETCH_DISTANCE, STEPS_AT_ONCE, For, ForKind, While

__all__ = ["loop", "while_loop"]

_INT64: Final = DataType("int64")
_MAX64: Final = (1 << 63) - 1
_MOST_AT_ONCE: Final = 64
"""The largest unroll factor that an annotation may ask for."""
_MOST_AHEAD: Final = 1 << 32
"""The largest prefetch distance: beyond, addresses might wrap."""


def loop(frame: FunctionFrame, s: For) -> Step[None]:
    """Emit a loop."""
    low: Value = yield frame.value(s.min)
    extent: Value = yield frame.value(s.extent)
    start, stop, base = _bounds(frame, s, low, extent)
    frame.ranges[s.loop_var] = _range(frame, s)
    if s.kind is ForKind.PARALLEL:
        yield run_parallel(frame, s, start, stop, base, _iterate)
    elif s.kind is ForKind.SERIAL:
        yield _iterate(frame, s, start, stop, base)
    else:
        raise InternalError(f"a loop of kind {s.kind.value} in lowered code")


def _bounds(
    frame: FunctionFrame, s: For, low: Value, extent: Value
) -> tuple[Value, Value, Value | None]:
    """Return the counter's first value and its end, and what to add to it for the variable.

    The counter has 64 bits. It is the variable itself if that has fewer; else it starts at 0, so
    that its end cannot overflow.
    """
    b, dtype = frame.b, s.loop_var.dtype
    low64 = cast(b, low, dtype, _INT64)
    count = cast(b, extent, dtype, _INT64)
    _check_end(frame, s, low64, count)
    b = frame.b
    first = constant_of(s.min)
    if dtype.bits < 64:
        stop = count if first == 0 else b.add(low64, count)
        return low64, stop, None
    return const(I64, 0), count, None if first == 0 else low64


def _check_end(frame: FunctionFrame, s: For, low: Value, count: Value) -> None:
    """Stop with a fault if the trip count or the variable's last value does not fit its dtype."""
    dtype = s.loop_var.dtype
    least, extent = constant_of(s.min), constant_of(s.extent)
    if extent is not None and extent <= 0:
        return
    if extent is not None and extent <= _MAX64 and least is not None:
        end = least + extent
        if end - 1 <= dtype.max_value:
            return
    if least == 0 and not (dtype.is_uint and dtype.bits == 64):
        return
    b = frame.b
    fits = b.icmp("sle", count, const(I64, 0))
    if dtype.bits < 64:
        fits = b.icmp("sle", b.add(low, count), const(I64, dtype.max_value + 1))
    else:
        signed = dtype.is_int
        last = b.sub(const(I64, dtype.max_value), b.sub(count, const(I64, 1)))
        below = b.icmp("sle" if signed else "ule", low, last)
        # An unsigned count beyond 2**63 looks negative.
        fits = b.or_(fits, below) if signed else b.and_(below, b.icmp("sge", count, const(I64, 0)))
        if not signed:
            fits = b.or_(b.icmp("eq", count, const(I64, 0)), fits)
    too_long = fault(
        "loop", s.span, unsigned=dtype.is_uint, variable=s.loop_var.name_hint, dtype=dtype
    )
    frame.require(fits, too_long, low, count)


def _range(frame: FunctionFrame, s: For) -> Interval:
    dtype = s.loop_var.dtype
    low, extent = range_of(s.min, frame.ranges), range_of(s.extent, frame.ranges)
    least = dtype.min_value if low is None else low.low
    if low is None or extent is None:
        return Interval(least, dtype.max_value)
    return Interval(least, max(least, min(dtype.max_value, low.high + extent.high - 1)))


def _iterate(
    frame: FunctionFrame, s: For, start: Value, stop: Value, base: Value | None, exits: bool = True
) -> Step[None]:
    """Emit the iterations with a counter in ``[start, stop)``; ``exits``: the body may break."""
    b = frame.b
    # The condition stands at the end, so that whatever a body computes is computed in the first
    # iteration at the latest, and can be moved out of the loop.
    body, latch, after = b.append(s.loop_var.name_hint), b.append("latch"), b.append("after")
    before = b.block
    body.inside(before)
    after.continues(before)
    extent = constant_of(s.extent) if s.kind is ForKind.SERIAL else None
    if extent is None or extent <= 0:
        ahead = b.append("ahead")
        b.condbr(b.icmp("slt", start, stop), ahead, after)
        b.position_at_end(ahead)
    long = frame.unit.long_loops.get(id(s))
    weight: Value | None = None
    strip: _Strip | None = None
    if long is not None:
        run: Value = yield weight_of(frame, long)
        weight = run
        if not long.each:
            strip = _Strip(frame, start, stop, long, run)
            start = strip.start
    before = b.block
    b.br(body)
    b.position_at_end(body)
    counter = b.phi(I64, s.loop_var.name_hint)
    counter.add(start, before)
    _bind(frame, s, counter, base)
    frame.loops.append(Loop(latch, after if exits else None, frame.cleanup))
    outer, frame.ahead = frame.ahead, _read_prefetch_distance(s)
    yield frame.run(s.body)
    frame.ahead = outer
    frame.loops.pop()
    b.br(latch)
    b.position_at_end(latch)
    if weight is not None and strip is None:
        count(frame, weight)
    # It is below `stop`, so it does not overflow.
    following = b.emit_flagged("add", counter, const(I64, 1), "nsw")
    counter.add(following, b.block)
    last = after if strip is None else strip.done
    end = stop if strip is None else strip.end
    b.condbr(b.icmp("slt", following, end), body, last, meta=_note_unrolling(frame, s))
    if strip is not None:
        strip.close(frame, after)
    b.position_at_end(after)


class _Strip:
    """A loop around a strip-mined loop; it counts the work after each strip."""

    def __init__(
        self, frame: FunctionFrame, start: Value, stop: Value, long: LongLoop, weight: Value
    ) -> None:
        b = frame.b
        self._stop, self._last, self._weight = stop, long.last, weight
        most = const(I64, long.strip) if long.strip else strip_length(frame, weight)
        self._head, self.done = b.append("strip"), b.append("stripped")
        before = b.block
        self._head.inside(before)
        b.br(self._head)
        b.position_at_end(self._head)
        self.start = b.phi(I64, "strip")
        self.start.add(start, before)
        left = b.sub(stop, self.start)  # may exceed 2**63: unsigned
        self._length = b.select(b.icmp("ult", left, most), left, most)
        self.end = b.emit_flagged("add", self.start, self._length, "nsw")

    def close(self, frame: FunctionFrame, after: Block) -> None:
        """Go on with the next strip, or to ``after``."""
        b = frame.b
        b.position_at_end(self.done)
        more = b.icmp("slt", self.end, self._stop)
        if not self._last:
            counted = b.append("count")
            b.condbr(more, counted, after)
            b.position_at_end(counted)
        count(frame, b.mul(self._length, self._weight))
        self.start.add(self.end, b.block)
        if self._last:
            b.condbr(more, self._head, after)
        else:
            b.br(self._head)


def _note_unrolling(frame: FunctionFrame, s: For) -> dict[str, Metadata] | None:
    """Return the metadata that makes LLVM unroll a loop by an annotated factor, or not at all.

    A loop unrolled by more than one is not vectorised: gathering bytes from a table lane by lane
    takes twice as long as scalar code.
    """
    steps = s.annotations.get(STEPS_AT_ONCE)
    if isinstance(steps, IntImm):
        steps = steps.value
    if not isinstance(steps, int) or not 0 < steps <= _MOST_AT_ONCE:
        return None
    note = '"llvm.loop.unroll.disable"'
    if steps > 1:
        note = f'"llvm.loop.unroll.count", i32 {steps}'
    notes = [note] if steps == 1 else [note, '"llvm.loop.vectorize.enable", i1 false']
    module = frame.unit.module
    made = ", ".join(module.metadata(f"!{{!{n}}}").text for n in notes)
    return {"llvm.loop": module.metadata(f"!{{{{self}}, {made}}}", distinct=True)}


def _read_prefetch_distance(s: For) -> PrefetchLoop | None:
    distance = s.annotations.get(PREFETCH_DISTANCE)
    if isinstance(distance, IntImm):
        distance = distance.value
    if not isinstance(distance, int) or not 0 < distance <= _MOST_AHEAD:
        return None
    return PrefetchLoop(s.loop_var, distance, [])


def _bind(frame: FunctionFrame, s: For, counter: Value, base: Value | None) -> None:
    b, dtype = frame.b, s.loop_var.dtype
    wide = counter if base is None else b.add(base, counter)
    frame.wide[s.loop_var] = wide
    frame.env[s.loop_var] = wide if dtype.bits == 64 else b.trunc(wide, register_type(dtype))


def while_loop(frame: FunctionFrame, s: While) -> Step[None]:
    """Emit a loop that runs as long as its condition is not zero."""
    b = frame.b
    long = frame.unit.long_loops.get(id(s))
    weight: Value | None = None
    if long is not None:
        weight = yield weight_of(frame, long)
    head, body, after = b.append("while"), b.append("do"), b.append("after")
    head.continues(b.block)
    b.br(head)
    b.position_at_end(head)
    condition: Value = yield frame.value(s.condition)
    body.inside(b.block)
    after.continues(b.block)
    b.condbr(cast(b, condition, s.condition.dtype, BOOL), body, after)
    b.position_at_end(body)
    # Without it, LLVM removes endless loops without effects, and runs into the code that follows.
    b.intrinsic("llvm.sideeffect", [], result=VOID, overloads=())
    if weight is not None:
        count(frame, weight)
    frame.loops.append(Loop(head, after, frame.cleanup))
    yield frame.run(s.body)
    frame.loops.pop()
    b.br(head)
    b.position_at_end(after)
