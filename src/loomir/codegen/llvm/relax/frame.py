"""One graph function in the making: its variables, and the references that it holds.

- What a function holds a reference to lies in a *slot* of its memory, so that one loop gives all
  back where a fault ends the function. A slot is cleared when its reference is given away.
- Arguments and captured values are their callers'. Shape variables are 64-bit integers.
- Slots and *scratch* words (arguments of calls, extents) are on the stack where they are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.emit.frame import Frame
from loomir.codegen.llvm.objects_ir import place
from loomir.codegen.llvm.relax.extents import EXTENTS
from loomir.codegen.llvm.relax.unit import GraphUnit
from loomir.codegen.llvm.text import Function
from loomir.codegen.llvm.types import I32, I64, PTR, VOID, Type, array
from loomir.codegen.llvm.values import NULL, Value, const
from loomir.ir.visit import Step
from loomir.relax.expr import ExternFunc, Var
from loomir.relax.faults import no_memory
from loomir.runtime import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span
from loomir.tir.expr import PrimExpr

__all__ = ["GraphFrame", "Held", "Slot"]

Slot = int

_ON_STACK: Final = 64
"""Words of slots and scratch that a function may have on the stack."""
FINE: Final = const(I32, 0)
FAULTED: Final = const(I32, 1)


class Held(NamedTuple):
    """Where a variable's value is: in a slot of this function, or elsewhere for the whole call."""

    value: Value
    slot: Slot | None


class GraphFrame(Frame):
    """The state of emitting one graph function.

    ``values`` are the values of variables; ``temporary`` are slots to give back when the binding
    in the making is done. ``itself`` is the closure that is called, ``args`` its arguments.
    """

    __slots__ = (
        "_body",
        "_free",
        "_scratch",
        "_scratch_words",
        "_slots",
        "_slots_at",
        "args",
        "externs",
        "graph",
        "itself",
        "name",
        "temporary",
        "values",
    )

    def __init__(self, graph: GraphUnit, function: Function, name: str) -> None:
        context, itself, args, _, result = function.params
        super().__init__(graph.unit, function, context, result)
        self.graph = graph
        self.name = name
        self.itself = itself
        self.args = args
        self.values: dict[Var, Held] = {}
        self.externs: dict[Var, str] = {}
        self.temporary: list[tuple[Value | None, Slot]] = []
        self._slots = 0
        self._free: list[Slot] = []
        self._scratch_words = 0
        self._body = self.b.append("body")
        self.b.at(self._body)
        # What they are is known when the function is whole.
        self._slots_at = self.b.phi(PTR, "slots")
        self._scratch = self.b.phi(PTR, "scratch")

    def value(self, expr: PrimExpr) -> Step[Value]:
        """Visit an expression of shape variables."""
        return EXTENTS[expr.__class__](self, expr)

    # -- slots -----------------------------------------------------------------------------------
    def take_slot(self) -> Slot:
        """Give a slot that is free; it holds NULL."""
        if self._free:
            return self._free.pop()
        self._slots += 1
        return self._slots - 1

    def free_slot(self, slot: Slot) -> None:
        """Say that a slot is free: it holds NULL again, wherever control comes from."""
        self._free.append(slot)

    def slot_at(self, slot: Slot) -> Value:
        """Compute the address of a slot."""
        return self.b.gep(PTR, self._slots_at, const(I64, slot), inbounds=True)

    def put(self, value: Value, slot: Slot) -> None:
        """Keep a reference that is this function's."""
        self.b.store(value, self.slot_at(slot))

    def read(self, slot: Slot) -> Value:
        """Look at what a slot holds."""
        return self.b.load(PTR, self.slot_at(slot))

    def move(self, slot: Slot) -> Value:
        """Take the reference out of a slot, which is free then."""
        value = self.read(slot)
        self.b.store(NULL, self.slot_at(slot))
        self.free_slot(slot)
        return value

    def release(self, slot: Slot) -> None:
        """Give back the reference in a slot, which is free then."""
        self.b.call(self.graph.object_function("loomir_release"), [self.move(slot)])

    def keep(self, value: Value) -> Value:
        """Put a new object into a slot until the binding in the making is done."""
        slot = self.take_slot()
        self.put(value, slot)
        self.temporary.append((value, slot))
        return value

    def own(self, value: Value) -> Slot:
        """Give a reference to a value: the temporary one, where it was made just now."""
        for place_, (kept, slot) in reversed(list(enumerate(self.temporary))):
            if kept is value:
                del self.temporary[place_]
                return slot
        self.retain(value)
        slot = self.take_slot()
        self.put(value, slot)
        return slot

    def drop_temporary(self, since: int = 0) -> None:
        """Give back what the binding in the making needed."""
        for _, slot in self.temporary[since:]:
            self.release(slot)
        del self.temporary[since:]

    def retain(self, value: Value) -> None:
        """Take a reference to an object."""
        self.b.call(self.graph.object_function("loomir_retain"), [value])

    # -- scratch ---------------------------------------------------------------------------------
    def scratch(self, words: int) -> Value:
        """Give memory of so many words, until the next that is asked for."""
        self._scratch_words = max(self._scratch_words, words)
        return self._scratch

    def room(self, words: int) -> Value:
        """Give memory of so many words on the stack, of its own for the whole call."""
        return self.b.alloca(array(I64, max(1, words)), hint="room")

    # -- objects ---------------------------------------------------------------------------------
    def new(self, size: int, kind: int, span: Span | None, what: str) -> Value:
        """Make an object of so many bytes, and keep it for the binding in the making."""
        b = self.b
        made = b.call(
            self.graph.object_function("loomir_new"),
            [const(I64, size), const(I32, kind), const(I32, 0)],
        )
        self.require(b.icmp("ne", made, NULL), no_memory(span, what), const(I64, size))
        return self.keep(made)

    def tuple_of(self, values: Sequence[Value], span: Span | None) -> Value:
        """Make a tuple of values, and keep it for the binding in the making."""
        if not values:
            return self.graph.unit_value()
        made = self.new(at.ITEMS + 8 * len(values), at.TUPLE, span, "a tuple")
        self.set_word(const(I64, len(values)), made, at.LENGTH)
        for i, value in enumerate(values):
            self.retain(value)
            self.set_word(value, made, at.ITEMS + 8 * i)
        return made

    def dtype_place(self, word: Value) -> Value:
        """Find a dtype in ``faults.DTYPES``, for a message."""
        return self.b.call(self.graph.object_function("loomir_dtype_place"), [word])

    def word(self, base: Value, offset: int, t: Type = I64) -> Value:
        """Read a field."""
        return self.b.load(t, place(self.b, base, offset))

    def set_word(self, value: Value, base: Value, offset: int) -> None:
        """Write a field."""
        self.b.store(value, place(self.b, base, offset))

    # -- variables -------------------------------------------------------------------------------
    def held(self, var: Var) -> Value:
        """Give the value of a variable."""
        found = self.values.get(var)
        if found is None:
            raise InternalError(f"variable {var.name_hint!r} is not in scope in a graph")
        return found.value if found.slot is None else self.read(found.slot)

    def extern_of(self, e: object) -> str | None:
        """Give the name of the packed function that an expression is known to be."""
        if isinstance(e, ExternFunc):
            return e.global_symbol
        return self.externs.get(e) if isinstance(e, Var) else None

    def unbind(self, var: Var) -> None:
        """Forget a variable, whose last use was this."""
        found = self.values.pop(var, None)
        if found is not None and found.slot is not None:
            self.release(found.slot)

    # -- the end ---------------------------------------------------------------------------------
    def finish(self) -> None:
        """Write the first and the last blocks."""
        b = self.b
        b.br(self.cleanup.leave)
        b.at(b.function.entry)
        words = self._slots + self._scratch_words
        on_stack = words <= _ON_STACK
        if on_stack:
            memory = b.alloca(array(I64, max(1, words)), align=8, hint="memory")
        else:
            memory = b.call(b.module.declare("malloc", PTR, [I64]), [const(I64, 8 * words)])
            some, none = b.append("some"), b.append("none")
            b.condbr(b.icmp("ne", memory, NULL), some, none)
            b.at(none)
            fault = no_memory(None, f"the values of {self.name}")
            self.unit.faults.record(
                b, self.context, self.unit.faults.add(fault), (const(I64, 8 * words),)
            )
            b.ret(FAULTED)
            b.at(some)
        if self._slots:
            clear = b.module.declare("memset", PTR, [PTR, I32, I64])
            b.call(clear, [memory, const(I32, 0), const(I64, 8 * self._slots)])
        self._slots_at.add(memory, b.block)
        scratch = b.gep(I64, memory, const(I64, self._slots), inbounds=True)
        self._scratch.add(scratch, b.block)
        b.br(self._body)
        free = None if on_stack else b.module.declare("free", VOID, [PTR])
        b.at(self.cleanup.fail)
        slots = const(I64, self._slots)
        b.call(self.graph.object_function("loomir_release_slots"), [self._slots_at, slots])
        if free is not None:
            b.call(free, [self._slots_at])
        b.ret(FAULTED)
        b.at(self.cleanup.leave)
        if free is not None:
            b.call(free, [self._slots_at])
        b.ret(FINE)
