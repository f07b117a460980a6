"""The state of one graph function under construction: its variables, and references that it owns.

- Each reference that a function owns is in a *slot* of its frame, so that one loop can release all
  of them after a fault. A slot is cleared when its reference is given away.
- Arguments and captured values belong to the caller. Shape variables are 64-bit integers.
- Slots, and *scratch* words for arguments of calls and extents, are on the stack if there are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Function
from loomir.codegen.llvm.assembler.types import I32, I64, PTR, VOID, Type, array
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.relax.kernel_adapters import TensorLayout, layout_of
from loomir.codegen.llvm.relax.scalars.bits import bits_of, value_of
from loomir.codegen.llvm.relax.scalars.extents import EXTENTS
from loomir.codegen.llvm.relax.unit import GraphUnit
from loomir.codegen.llvm.support.ir.objects import place
from loomir.codegen.llvm.tir.frame import Cleanup, FunctionFrame
from loomir.ir.visit import Step
from loomir.relax.expr import Constant, ExternFunc, Var
from loomir.relax.faults import no_memory
from loomir.runtime.graph import object_layout as at
from loomir.support.diagnostics import InternalError
from loomir.support.span import Span
from loomir.tir.expr import PrimExpr
from loomir.tir.expr import Var as ShapeVar

__all__ = ["GraphFrame", "Location", "LocationKind", "Slot"]

Slot = int

_REGIONS: Final = ("slots", "sizes", "tensors", "scratch")
_ON_STACK: Final = 64
"""The most words of slots and scratch that a function has on the stack."""
_SPARE: Final = 8
"""Tensors of a long function that are kept in case an equal one is needed again."""
FINE: Final = const(I32, 0)
FAULTED: Final = const(I32, 1)


class LocationKind(Enum):
    """Where a variable's value is: in a slot of the function, or at a place fixed for the call."""

    SLOT = 0
    ARGUMENT = 1
    CAPTURED = 2
    ITSELF = 3
    LOCAL = 4
    """A tensor in the memory of the function."""


class Location(NamedTuple):
    """Where the value of a variable is, and its index there."""

    where: LocationKind
    place: int


class _Outer(NamedTuple):
    """The LLVM function that continues when a piece is done."""

    builder: Builder
    cleanup: Cleanup
    values: tuple[Value, ...]
    piece: Function


class GraphFrame(FunctionFrame):
    """The state of emitting one graph function.

    - ``values`` are the locations of variables; ``temporary`` are slots to release when the current
      binding is done. ``itself`` is the called closure, ``args`` its arguments.
    - ``externs`` are variables that are packed functions of a known name, ``extents`` shape
      variables that are never negative.
    - ``fresh`` are tensors made here, which may be written; ``storage`` is storage made here.
    - ``local`` are tensors whose descriptors are in the memory of the function; ``pinned`` are
      variables that own the data of such tensors.
    - ``laid`` is the known layout of tensors.
    """

    __slots__ = (
        "_body",
        "_first",
        "_free",
        "_free_tensors",
        "_in_pieces",
        "_outer",
        "_placed",
        "_scratch",
        "_scratch_words",
        "_sizes",
        "_sizes_at",
        "_slots",
        "_slots_at",
        "_tensor_words",
        "_tensors",
        "_tensors_at",
        "args",
        "extents",
        "externs",
        "fresh",
        "graph",
        "itself",
        "laid",
        "local",
        "name",
        "pinned",
        "storage",
        "temporary",
        "values",
    )

    checks_arithmetic = True

    def __init__(
        self,
        graph: GraphUnit,
        function: Function,
        name: str,
        *,
        in_pieces: bool = False,
    ) -> None:
        context, itself, args, _, result = function.params
        super().__init__(graph.unit, function, context, result)
        self.graph = graph
        self.name = name
        self.itself = itself
        self.args = args
        self.values: dict[Var, Location] = {}
        self.externs: dict[Var, str] = {}
        self.extents: set[ShapeVar] = set()
        self.fresh: set[Var] = set()
        self.local: frozenset[Var] = frozenset()
        self.pinned: set[Var] = set()
        self.laid: dict[Var, TensorLayout] = {}
        self.storage: set[Var] = set()
        self.temporary: list[tuple[Value | None, Slot]] = []
        self._slots = 0
        self._free: list[Slot] = []
        self._scratch_words = 0
        self._body = self.b.append("body")
        self.b.position_at_end(self._body)
        # Their values are known when the function is complete.
        self._first = tuple(self.b.phi(PTR, name) for name in _REGIONS)
        self._slots_at, self._sizes_at, self._tensors_at, self._scratch = self._first
        self._tensor_words = 0
        self._tensors: dict[int, int] = {}
        self._placed: dict[int, object] = {}
        self._free_tensors: dict[int, list[int]] = {}
        self._in_pieces = in_pieces
        self._sizes: dict[ShapeVar, int] = {}
        self._outer: list[_Outer] = []

    def value(self, expr: PrimExpr) -> Step[Value]:
        """Visit an expression of shape variables."""
        return EXTENTS[expr.__class__](self, expr)

    # -- slots -----------------------------------------------------------------------------------
    def take_slot(self) -> Slot:
        """Return a free slot, which holds NULL."""
        if self._free:
            return self._free.pop()
        self._slots += 1
        return self._slots - 1

    def free_slot(self, slot: Slot) -> None:
        """Mark a slot as free: on all paths to here, it holds NULL again."""
        self._free.append(slot)

    def slot_at(self, slot: Slot) -> Value:
        """Compute the address of a slot."""
        return self.b.gep(PTR, self._slots_at, const(I64, slot), inbounds=True)

    def put(self, value: Value, slot: Slot) -> None:
        """Store an owned reference in a slot."""
        self.b.store(value, self.slot_at(slot))

    def read(self, slot: Slot) -> Value:
        """Return the value in a slot, without taking its reference."""
        return self.b.load(PTR, self.slot_at(slot))

    def move(self, slot: Slot) -> Value:
        """Take the reference out of a slot, which becomes free."""
        value = self.read(slot)
        self.b.store(NULL, self.slot_at(slot))
        self.free_slot(slot)
        return value

    def release(self, slot: Slot) -> None:
        """Release the reference in a slot, which becomes free."""
        self.b.call(self.graph.object_function("loomir_release"), [self.move(slot)])

    def keep(self, value: Value) -> Value:
        """Store a new object in a slot until the current binding is done."""
        slot = self.take_slot()
        self.put(value, slot)
        self.temporary.append((value, slot))
        return value

    def take_reference(self, value: Value) -> Slot:
        """Return an owned reference to a value: the temporary one, if there is one."""
        for place_, (kept, slot) in reversed(list(enumerate(self.temporary))):
            if kept is value:
                del self.temporary[place_]
                return slot
        self.retain(value)
        slot = self.take_slot()
        self.put(value, slot)
        return slot

    def drop_temporary(self, since: int = 0) -> None:
        """Release the temporaries of the current binding."""
        for _, slot in self.temporary[since:]:
            self.release(slot)
        del self.temporary[since:]

    def retain(self, value: Value) -> None:
        """Take a reference to an object."""
        self.b.call(self.graph.object_function("loomir_retain"), [value])

    # -- scratch ---------------------------------------------------------------------------------
    def scratch(self, words: int) -> Value:
        """Return memory of so many words, valid until the next request."""
        self._scratch_words = max(self._scratch_words, words)
        return self._scratch

    def room(self, words: int) -> Value:
        """Reserve memory of so many words on the stack for the whole call."""
        return self.b.alloca(array(I64, max(1, words)), hint="room")

    # -- objects ---------------------------------------------------------------------------------
    def new(self, size: int, kind: int, span: Span | None, what: str) -> Value:
        """Make an object of so many bytes, and keep it until the current binding is done."""
        b = self.b
        made = b.call(
            self.graph.object_function("loomir_new"),
            [const(I64, size), const(I32, kind), const(I32, 0)],
        )
        self.require(b.icmp("ne", made, NULL), no_memory(span, what), const(I64, size))
        return self.keep(made)

    def tuple_of(self, values: Sequence[Value], span: Span | None) -> Value:
        """Make a tuple of values, and keep it until the current binding is done."""
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

    def find_layout(self, e: object) -> TensorLayout | None:
        """Return the layout of a tensor, if it is known at compile time."""
        if isinstance(e, Constant):
            return layout_of(e.struct_info)
        return self.laid.get(e) if isinstance(e, Var) else None

    # -- variables -------------------------------------------------------------------------------
    def read_var(self, var: Var) -> Value:
        """Return the value of a variable."""
        found = self.values.get(var)
        if found is None:
            raise InternalError(f"variable {var.name_hint!r} is not in scope in a graph")
        b = self.b
        if found.where is LocationKind.SLOT:
            return self.read(found.place)
        if found.where is LocationKind.ARGUMENT:
            return b.load(PTR, b.gep(PTR, self.args, const(I64, found.place)))
        if found.where is LocationKind.LOCAL:
            return self.address_of(found)
        if found.where is LocationKind.CAPTURED:
            return self.word(self.itself, at.CAPTURED + 8 * found.place, PTR)
        return self.itself

    def bind_size(self, var: ShapeVar, value: Value, *, extent: bool = False) -> None:
        """Set a shape variable; ``extent``: to an extent of a tensor, which is never negative."""
        self.env[var] = value
        if extent:
            self.extents.add(var)
        if self._in_pieces:
            place_ = self._sizes.setdefault(var, len(self._sizes))
            at_ = self.b.gep(I64, self._sizes_at, const(I64, place_))
            self.b.store(bits_of(self.b, value, var.dtype), at_)

    def lookup(self, var: ShapeVar) -> Value:
        """Return the value of a shape variable; pieces load it from memory."""
        place_ = self._sizes.get(var) if var in self.env else None
        if place_ is None:
            return super().lookup(var)
        bits = self.b.load(I64, self.b.gep(I64, self._sizes_at, const(I64, place_)))
        return value_of(self.b, bits, var.dtype)

    def take_tensor(self, rank: int, what: object = None) -> tuple[Location, bool]:
        """Return memory for a tensor that only kernels see, and whether it is there already.

        ``what`` identifies a tensor: equal for equal ones, None if that is not known.
        """
        words = at.TENSOR_EXTENTS // 8 + rank
        free = self._free_tensors.setdefault(words, [])
        for index, place_ in enumerate(free):
            if what is not None and self._placed.get(place_) == what:
                del free[index]
                return Location(LocationKind.LOCAL, place_), True
        if len(free) > (_SPARE if self._in_pieces else 0):
            # The one that has been free for longest: the latest ones are likely to be needed again.
            place_ = free.pop(0)
            self._placed[place_] = what
            return Location(LocationKind.LOCAL, place_), False
        place_ = self._tensor_words
        self._placed[place_] = what
        self._tensors[place_] = words
        self._tensor_words += words
        return Location(LocationKind.LOCAL, place_), False

    def forget_tensors(self) -> None:
        """Forget which tensors exist already: control may come from elsewhere."""
        self._placed.clear()

    def address_of(self, location: Location) -> Value:
        """Compute the address of a tensor in the memory of the function."""
        return self.b.gep(I64, self._tensors_at, const(I64, location.place), inbounds=True)

    def extern_of(self, e: object) -> str | None:
        """Return the name of the packed function that an expression is known to be."""
        if isinstance(e, ExternFunc):
            return e.global_symbol
        return self.externs.get(e) if isinstance(e, Var) else None

    def unbind(self, var: Var) -> None:
        """Forget a variable after its last use."""
        found = self.values.pop(var, None)
        if found is None:
            return
        if found.where is LocationKind.SLOT:
            self.release(found.place)
        elif found.where is LocationKind.LOCAL:
            self._free_tensors[self._tensors[found.place]].append(found.place)

    # -- pieces ----------------------------------------------------------------------------------
    def open_piece(self) -> None:
        """Go on in a separate LLVM function, which works on the same memory."""
        names = ("context", "self", "args", *_REGIONS)
        made = self.graph.module.define(
            self.graph.fresh(f"{self.name}.piece"),
            I32,
            [(name, PTR) for name in names],
            linkage="internal",
            attributes={"noinline": None, "optnone": None},
        )
        values = self._memory()
        self._outer.append(_Outer(self._b, self.cleanup, values, made))
        self._b = Builder(made)
        self.cleanup = Cleanup(self._b.append("fail"), self._b.append("leave"))
        self._set_memory(made.params)

    def close_piece(self) -> None:
        """End the piece, and go on in the function that calls it."""
        self.close(FAULTED, FINE)
        outer = self._outer.pop()
        self._b, self.cleanup = outer.builder, outer.cleanup
        self._set_memory(outer.values)
        self.propagate(self._b.call(outer.piece, outer.values))

    def _memory(self) -> tuple[Value, ...]:
        return (
            self.context,
            self.itself,
            self.args,
            self._slots_at,
            self._sizes_at,
            self._tensors_at,
            self._scratch,
        )

    def _set_memory(self, values: tuple[Value, ...]) -> None:
        self.context, self.itself, self.args = values[:3]
        self._slots_at, self._sizes_at, self._tensors_at, self._scratch = values[3:]

    # -- the end ---------------------------------------------------------------------------------
    def finish(self) -> None:
        """Write the first and the last blocks."""
        b = self.b
        b.br(self.cleanup.leave)
        b.position_at_end(b.function.entry)
        regions = (self._slots, len(self._sizes), self._tensor_words, self._scratch_words)
        words = sum(regions)
        on_stack = words <= _ON_STACK
        if on_stack:
            memory = b.alloca(array(I64, max(1, words)), align=8, hint="memory")
        else:
            memory = b.call(b.module.declare("malloc", PTR, [I64]), [const(I64, 8 * words)])
            some, none = b.append("some"), b.append("none")
            b.condbr(b.icmp("ne", memory, NULL), some, none)
            b.position_at_end(none)
            fault = no_memory(None, f"the values of {self.name}")
            self.unit.faults.record(
                b, self.context, self.unit.faults.add(fault), (const(I64, 8 * words),)
            )
            b.ret(FAULTED)
            b.position_at_end(some)
        if self._slots:
            clear = b.module.declare("memset", PTR, [PTR, I32, I64])
            b.call(clear, [memory, const(I32, 0), const(I64, 8 * self._slots)])
        offset = 0
        for phi, size in zip(self._first, regions, strict=True):
            phi.add(b.gep(I64, memory, const(I64, offset), inbounds=True), b.block)
            offset += size
        b.br(self._body)
        free = None if on_stack else b.module.declare("free", VOID, [PTR])
        b.position_at_end(self.cleanup.fail)
        slots = const(I64, self._slots)
        b.call(self.graph.object_function("loomir_release_slots"), [self._slots_at, slots])
        if free is not None:
            b.call(free, [self._slots_at])
        b.ret(FAULTED)
        b.position_at_end(self.cleanup.leave)
        if free is not None:
            b.call(free, [self._slots_at])
        b.ret(FINE)
