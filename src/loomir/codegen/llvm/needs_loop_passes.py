"""Decide whether LLVM's loop passes can still improve a lowered function.

If the default schedule or the author has vectorised every loop worth it, the loop passes, which
take most of LLVM's time, find nothing to do and are skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from loomir.ir.equality import structural_equal
from loomir.ir.hashing import structural_hash
from loomir.ir.visit import by_class, children
from loomir.loops.accesses import loads_and_stores
from loomir.target import Target
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.math import FAMILY
from loomir.tir.builtins.table import BUILTINS, IF_THEN_ELSE
from loomir.tir.expr import (
    Add,
    Call,
    Div,
    FloatImm,
    FloorDiv,
    IntImm,
    Let,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Allocate, BufferStore, For, IfThenElse, LetStmt, Stmt, While

__all__ = ["is_shaped"]

_SHORT: Final = 8
"""Iterations up to which a constant loop is short: LLVM unrolls it in any case."""
_STEP: Final = 16
"""The widest step of a strip-mined loop whose remainder counts as short."""
_WRITTEN_OUT: Final = 64
"""Stores in all iterations of a loop up to which LLVM unrolls it completely."""
_FUNCTIONS: Final = frozenset(row.op for row in BUILTINS.values() if row.family == FAMILY)
_STILL: Final = 5
"""From so many loop-invariant loads in an innermost loop on, LLVM's passes run to hoist them.

Fewer cost nothing beside the other loads of an iteration."""
_NEIGHBOURS: Final = (1, -1)
"""Steps of an index to the next or the previous element."""
_REINTERPRET: Final = BUILTINS["reinterpret"].op
_XOR: Final = BUILTINS["bitwise_xor"].op


def is_shaped(func: PrimFunc, target: Target) -> bool:
    """Tell whether no loop of a lowered function would gain from LLVM's loop passes.

    A loop gains if it computes scalars or copies neighbouring elements, which LLVM can vectorise;
    one that moves single elements does not.
    """
    found: dict[Any, list[Any]] = by_class(func.body)
    if While in found:
        return False
    stores: list[BufferStore] = found.get(BufferStore, [])
    registers = _registers(found)
    register = target.vector_bits // 8
    room = register * target.registers * 3 // 2
    # In code without vectors, short loops are not remainders or borders.
    has_vectors = any(store.value.dtype.lanes > 1 for store in stores)
    thin = has_vectors
    for body in _bodies(func.body, has_vectors):
        thin = thin and body.own <= register and (body.has_loops or _is_plain(body))
        memory = {store.buffer.data for store in body.stores} - registers
        if body.is_small and body.bytes <= room and _accumulates(body, memory):
            return False
        if not body.is_whole or (has_vectors and _is_short(body.loop.extent)):
            continue
        # In code with vectors, short loops are remainders; without, they are the main work.
        if body.gains and not (body.has_loops and body.has_vectors):
            return False
        if not body.has_loops and _interleaves(body):
            return False
        if body.is_small and memory and _repeats(body, memory, registers):
            return False
    # If every iteration does little, counting takes as long as the work: LLVM unrolls such loops.
    return not thin


@dataclass(slots=True)
class _Body:
    """The contents of an iteration of a loop.

    - ``parts`` are its stores and let bindings in program order. If ``is_small``, they include
      those of inner loops, which LLVM unrolls.
    - ``written`` is the number of stores after unrolling, ``bytes`` what they store; ``own`` are
      the bytes stored outside of inner loops.
    - ``gains``: a store would gain from vectorisation.
    - ``is_whole``: all inner loops are short.
    """

    loop: For
    parts: list[BufferStore | LetStmt]
    has_loops: bool = False
    written: float = 0
    bytes: float = 0
    own: int = 0
    has_vectors: bool = False
    gains: bool = False
    is_small: bool = True
    is_whole: bool = True

    @property
    def stores(self) -> list[BufferStore]:
        return [part for part in self.parts if isinstance(part, BufferStore)]


def _bodies(root: Stmt, has_vectors: bool) -> list[_Body]:
    """Describe all loops, inner ones first; with ``has_vectors``, short ones are remainders."""
    made: list[_Body] = []
    around: list[_Body] = []
    long: list[For] = []
    todo: list[Stmt | None] = [root]
    while todo:
        s = todo.pop()
        if s is None:
            body = around.pop()
            if long and long[-1] is body.loop:
                long.pop()
            made.append(body)
            if around:
                _add(around[-1], body)
            continue
        below = [part for part in children(s) if isinstance(part, Stmt)]
        if isinstance(s, For):
            around.append(_Body(s, []))
            if not (has_vectors and _is_short(s.extent)):
                long.append(s)
            todo.append(None)
        elif around and isinstance(s, BufferStore | LetStmt):
            body = around[-1]
            body.parts.append(s)
            if isinstance(s, BufferStore):
                body.written += 1
                body.bytes += s.value.dtype.itemsize
                body.own += s.value.dtype.itemsize
                body.has_vectors = body.has_vectors or s.value.dtype.lanes > 1
                body.gains = body.gains or _would_gain(s, (long or [body.loop])[-1].loop_var)
        elif around and isinstance(s, IfThenElse):
            body = around[-1]
            body.gains = body.gains or _tests_neighbours(s, (long or [body.loop])[-1].loop_var)
        todo += below[::-1]
    return made


def _add(body: _Body, inner: _Body) -> None:
    """Add an inner loop to the description of the loop around it."""
    times = _iterations(inner.loop.extent)
    if inner.written:
        body.written += times * inner.written
        body.bytes += times * inner.bytes
    body.is_whole = body.is_whole and inner.is_whole and _is_short(inner.loop.extent)
    body.has_loops = True
    body.has_vectors = body.has_vectors or inner.has_vectors
    body.gains = body.gains or inner.gains
    length = len(body.parts) + len(inner.parts)
    body.is_small = body.is_small and inner.is_small and max(body.written, length) <= _WRITTEN_OUT
    if body.is_small:
        body.parts += inner.parts


def _registers(found: dict[Any, list[Any]]) -> set[Var]:
    """Find allocations that LLVM promotes to registers: all accesses have constant indices."""
    made: set[Var] = {s.buffer_var for s in found.get(Allocate, ())}
    for access in loads_and_stores(found):
        if access.buffer.data in made and any(Var in by_class(i) for i in access.indices):
            made.discard(access.buffer.data)
    return made


def _is_plain(body: _Body) -> bool:
    """Tell whether an innermost loop has no function calls and no divisions, which are slow."""
    inner: dict[Any, list[Any]] = by_class(body.loop.body)
    return Div not in inner and not any(call.op in _FUNCTIONS for call in inner.get(Call, ()))


def _accumulates(body: _Body, memory: set[Var]) -> bool:
    """Tell whether a loop updates one place in memory that LLVM would keep in a register.

    LLVM does so in an innermost loop, and in one that becomes innermost when short inner loops are
    unrolled.
    """
    if not memory:
        return False
    loaded: set[tuple[Var, int]] = set()
    changes = {body.loop.loop_var}
    for part in body.parts:
        used = by_class(part.value)
        loads: list[BufferLoad] = used.get(BufferLoad, [])
        loaded.update(_place(load) for load in loads if load.buffer.data in memory)
        changes.update(let.var for let in used.get(Let, ()))
        if isinstance(part, LetStmt) and (
            loads or Call in used or not changes.isdisjoint(used.get(Var, ()))
        ):
            changes.add(part.var)
    return any(
        store.buffer.data in memory
        and _place(store) in loaded
        and changes.isdisjoint(by_class(store.indices[0]).get(Var, ()))
        for store in body.stores
    )


def _repeats(body: _Body, memory: set[Var], registers: set[Var]) -> bool:
    """Tell whether an iteration reloads values that are in registers already.

    Instruction selection by itself removes repeated loads with no store between them, and the load
    of a value just stored. LLVM's passes also remove reloads after stores to other places, repeated
    updates of one place, and loads of what the previous iteration has stored or loaded.
    """
    loaded: set[tuple[Var, int]] = set()
    stored: set[tuple[Var, int]] = set()
    still: set[tuple[Var, int]] = set()
    changes = {body.loop.loop_var}
    before: set[tuple[Var, int]] = set()
    since: set[tuple[Var, int]] = set()
    for part in body.parts:
        read = part if isinstance(part, BufferStore) else part.value
        used = by_class(read)
        reads: list[BufferLoad] = used.get(BufferLoad, [])
        changes.update(let.var for let in used.get(Let, ()))
        if isinstance(part, LetStmt):
            changes.add(part.var)
        loads = {_place(load) for load in reads if load.buffer.data not in registers}
        if not before.isdisjoint(loads - stored):
            return True
        loaded |= loads
        since |= loads
        still.update(
            _place(load)
            for load in reads
            if load.buffer.data not in memory | registers
            and changes.isdisjoint(by_class(load.indices[0]).get(Var, ()))
        )
        if isinstance(part, BufferStore) and part.buffer.data in memory:
            place = _place(part)
            if place in loads and place in stored:
                return True
            stored.add(place)
            before |= since
            since.clear()
    if body.has_loops:
        return False
    if len(still) >= _STILL:
        return True
    return any(place[0] in memory and place not in stored for place in loaded)


def _place(access: BufferLoad | BufferStore) -> tuple[Var, int]:
    (index,) = access.indices
    return access.buffer.data, structural_hash(index)


def _iterations(extent: PrimExpr) -> float:
    return extent.value if isinstance(extent, IntImm) else math.inf


def _is_short(extent: PrimExpr) -> bool:
    """Tell whether a loop has so few iterations that their speed does not matter."""
    if isinstance(extent, IntImm):
        return extent.value <= _SHORT
    # The remainder of a strip-mined loop: x - x // step * step.
    if not (isinstance(extent, Sub) and isinstance(extent.b, Mul)):
        return False
    whole, step = extent.b.a, extent.b.b
    if not (isinstance(whole, FloorDiv) and isinstance(step, IntImm) and step.value <= _STEP):
        return False
    return structural_equal(whole.b, step) and structural_equal(whole.a, extent.a)


def _would_gain(store: BufferStore, var: Var) -> bool:
    if store.value.dtype.lanes > 1:
        return False
    beside = _step(store.indices, var) in _NEIGHBOURS
    todo: list[PrimExpr] = [store.value]
    while todo:
        value = todo.pop()
        if isinstance(value, BufferLoad):
            if beside and value.dtype.lanes == 1 and _step(value.indices, var) in _NEIGHBOURS:
                return True
        elif isinstance(value, Select):
            todo += value.true_value, value.false_value
        elif isinstance(value, Call) and value.op is IF_THEN_ELSE:
            todo += value.args[1:]
        elif isinstance(value, Call) and value.op is _REINTERPRET:
            todo += value.args
        elif isinstance(value, Call) and value.op is _XOR and not beside:
            todo += value.args  # copies of bytes may flip the sign bit
        elif not isinstance(value, IntImm | FloatImm | Var):
            return True
    return False


def _tests_neighbours(branch: IfThenElse, var: Var) -> bool:
    """Tell whether each iteration tests the next element: LLVM vectorises that with masks."""
    loads: list[BufferLoad] = by_class(branch.condition).get(BufferLoad, [])
    return any(load.dtype.lanes == 1 and _step(load.indices, var) == 1 for load in loads)


def _interleaves(body: _Body) -> bool:
    """Tell whether the stores of an iteration interleave several arrays element by element.

    LLVM turns that into shuffles of vectors.
    """
    var = body.loop.loop_var
    groups: dict[tuple[Var, int], int] = {}
    for store in body.stores:
        step = _step(store.indices, var)
        moves = isinstance(store.value, BufferLoad) and _step(store.value.indices, var) == 1
        if moves and store.value.dtype.lanes == 1 and step is not None and step > 1:
            key = (store.buffer.data, step)
            groups[key] = groups.get(key, 0) + 1
    return any(count >= step for (_, step), count in groups.items())


def _step(indices: tuple[PrimExpr, ...], var: Var) -> int | None:
    """Return by how much an index grows in each iteration; None if it is not linear."""
    (index,) = indices
    step = 0
    todo = [(index, 1)]
    while todo:
        part, factor = todo.pop()
        if part is var:
            step += factor
        elif isinstance(part, Add):
            todo += (part.a, factor), (part.b, factor)
        elif isinstance(part, Sub):
            todo += (part.a, factor), (part.b, -factor)
        elif isinstance(part, Mul) and isinstance(part.b, IntImm):
            todo.append((part.a, factor * part.b.value))
        elif var in by_class(part).get(Var, ()):
            return None
    return step
