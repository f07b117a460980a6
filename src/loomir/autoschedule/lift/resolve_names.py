"""Remove the names of values from a nest: inline the values, or store them in memory of their own.

Names (``LetStmt``, ``Let``, locals that are assigned) do not change what a nest computes, so nests
are lifted without them. A value is inlined if nothing that it reads is written before its uses, and
if it is cheap or used once. Otherwise later uses load the element to which the value is stored, or
else the value is stored to new memory in place of its binding, and becomes a stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from loomir.autoschedule.builders.evaluate import number
from loomir.autoschedule.lift.loop_distribution import flatten, is_memory_of_one_buffer
from loomir.ir.node import Node
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, pre_order, rewrite
from loomir.loops.accesses import loads_and_stores
from loomir.tir.analysis.effects import Effects, effects, effects_of_node
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    PrimExpr,
    Var,
    const,
)
from loomir.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)

__all__ = ["ResolvedStatement", "resolve_names", "resolve_outer_names"]

_STOPS: Final = Effects.ACTS | Effects.FAILS
_CHEAP: Final = 24
"""Nodes of a value that may be computed at each of its uses."""
_LARGE: Final = 512
"""Nodes that a statement may grow to."""
_NAMES: Final = 64
"""Most names of a nest, so that time is linear in the size of a program."""
_NODES: Final = 8192
"""Most nodes of a nest with names."""
_COSTLY: Final = (Div, FloorDiv, FloorMod, Mod)


_N = TypeVar("_N", bound=Node)


class ResolvedStatement(NamedTuple):
    """A statement without names of values, and the memory that some of them became.

    Each element of ``buffers`` has one value in an iteration, as a name has.
    """

    stmt: Stmt
    buffers: tuple[Buffer, ...]


def resolve_names(stmt: Stmt) -> ResolvedStatement | None:
    """Resolve the names in a nest; None if there are none, or one has to stay.

    What iterations allocate for themselves is taken out where it is a scalar: such memory is among
    ``buffers``, under a new name from each assignment outside of inner loops on.
    """
    found = by_class(stmt)
    count = sum(len(found.get(cls, ())) for cls in (Let, LetStmt, Allocate))
    if not count or count > _NAMES or sum(map(len, found.values())) > _NODES:
        return None
    names = _Names()
    rules = {Let: _inline_let, LetStmt: names.resolve, Allocate: names.resolve_local}
    made = rewrite(stmt, rules)
    if made is stmt or LetStmt in by_class(made):
        return None
    return ResolvedStatement(made, tuple(names.buffers))


def resolve_outer_names(stmt: Stmt) -> ResolvedStatement | None:
    """Resolve names around the parts of a function; None if there are none, or one must stay."""
    outer: list[LetStmt | DeclBuffer] = []
    before: list[list[Stmt]] = []
    parts = [stmt]
    while parts:
        *done, last = parts
        if isinstance(last, LetStmt):
            outer.append(last)
            parts = [last.body]
        elif isinstance(last, Allocate) and is_memory_of_one_buffer(last):
            assert isinstance(last.body, DeclBuffer)
            outer.append(last.body)
            parts = [last.body.body]
        elif isinstance(last, SeqStmt):
            parts = [*done, *flatten(last)]
            continue
        else:
            break
        before.append(done)
    if not outer or len(outer) > _NAMES:
        return None
    names = _Names()
    for done, node in zip(reversed(before), reversed(outer), strict=True):
        if isinstance(node, DeclBuffer):
            names.buffers.append(node.buffer)
        else:
            bound = names.bind(node.var, node.value, parts)
            if bound is None:
                return None
            parts = bound
        parts = [*done, *parts]
    return ResolvedStatement(seq(parts), tuple(names.buffers))


def _inline_let(let: Let) -> PrimExpr:
    """Inline the value of a ``Let`` if it is used once or cheap."""
    if effects(let.value) & _STOPS or let.var.dtype.is_handle:
        return let
    uses = _count(let.body, let.var)
    if uses and not (uses == 1 or _is_cheap(let.value)):
        return let
    if uses and _size(let.body) + uses * _size(let.value) > _LARGE:
        return let
    return substitute(let.body, {let.var: let.value})


def _count(node: Node, var: Var) -> int:
    return sum(1 for part in islice(pre_order(node), _NODES) if part is var)


def _size(node: Node) -> int:
    return sum(map(len, by_class(node).values()))


def _is_cheap(value: PrimExpr) -> bool:
    """Whether a value may be computed at each of several uses."""
    found = by_class(value)
    if Let in found or found.keys() & set(_COSTLY):
        return False
    if any(call.op is not IF_THEN_ELSE for call in found.get(Call, ())):
        return False
    return sum(map(len, found.values())) <= _CHEAP


def _is_index(value: PrimExpr) -> bool:
    """Whether a value depends on nothing but loops and sizes."""
    found = by_class(value)
    return value.dtype.is_integer and not found.keys() & {BufferLoad, Call, Let}


def _find_written(stmt: Stmt) -> set[int] | None:
    """Find the memory that a statement writes; None if it may write any memory."""
    found = by_class(stmt)
    if any(effects_of_node(call) & Effects.ACTS for call in found.get(Call, ())):
        return None
    return {id(store.buffer.data) for store in found.get(BufferStore, ())}


def _changes(stmt: Stmt, memory: set[int]) -> bool:
    written = _find_written(stmt)
    return written is None or bool(written & memory)


def _read_by(value: PrimExpr) -> set[int]:
    return {id(load.buffer.data) for load in by_class(value).get(BufferLoad, ())}


def _is_stable(value: PrimExpr, parts: Sequence[Stmt], uses: Sequence[int]) -> bool:
    """Whether nothing between a value and its uses writes what it reads."""
    memory = _read_by(value)
    if not memory:
        return True
    last = max(place for place, count in enumerate(uses) if count)
    if any(_changes(part, memory) for part in parts[:last]):
        return False
    # A store evaluates before it writes.
    return isinstance(parts[last], BufferStore) or not _changes(parts[last], memory)


class _Names:
    """Resolves names from the innermost on."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def resolve(self, node: LetStmt) -> Stmt:
        """Resolve a name for the statements in its scope."""
        made = self.bind(node.var, node.value, flatten(node.body))
        return node if made is None else seq(made or [Evaluate(const(0, "int32"))])

    def bind(self, var: Var, value: PrimExpr, parts: list[Stmt]) -> list[Stmt] | None:
        """Put a value in place of its name in the parts that follow; None if the name must stay."""
        if var.dtype.is_handle or var.dtype.lanes != 1 or effects(value) & _STOPS:
            return None
        uses = [_count(part, var) for part in parts]
        total = sum(uses)
        if not total:
            return parts
        stable = _is_stable(value, parts, uses)
        users = [part for part, count in zip(parts, uses, strict=True) if count]
        repeats = any(by_class(part).keys() & {For, While} for part in users)
        once = total == 1 and not repeats
        if stable and (once or _is_index(value) or _is_cheap(value)):
            largest = max(_size(part) for part in users)
            if largest + total * _size(value) <= _LARGE or _is_leaf(value):
                return [substitute(part, {var: value}) for part in parts]
        if stable and len(users) == 1 and isinstance(users[0], BufferStore):
            named = name_in_value(users[0], var, value)
            if named is not None:
                return [named if part is users[0] else part for part in parts]
        stored = _read_where_stored(var, value, parts, uses)
        return stored if stored is not None else self._store(var, value, parts)

    def _store(self, var: Var, value: PrimExpr, parts: Sequence[Stmt]) -> list[Stmt]:
        """Store a value to memory of its own."""
        own = decl_buffer((1,), var.dtype, var.name_hint)
        self.buffers.append(own)
        first = BufferStore(own, value, (_ZERO,))
        table = {var: BufferLoad(own, (_ZERO,))}
        return [first, *(substitute(part, table) for part in parts)]

    def resolve_local(self, node: Allocate) -> Stmt:
        """Resolve a local scalar: each assignment of it gives its name another meaning."""
        inner = node.body
        if not is_memory_of_one_buffer(node) or not isinstance(inner, DeclBuffer):
            return node
        if any(number(extent) != 1 for extent in inner.buffer.shape):
            return node
        parts = _Versions(inner.buffer).split(flatten(inner.body))
        if parts is None:
            return node
        made, versions = parts
        for buffer in reversed(versions):
            bound = self._as_name(buffer, made)
            if bound is None:
                self.buffers.append(buffer)
            else:
                made = bound
        return seq(made)

    def _as_name(self, buffer: Buffer, parts: list[Stmt]) -> list[Stmt] | None:
        """Replace a local that is assigned once by its value; None if it is assigned again."""
        stores = [
            place
            for place, part in enumerate(parts)
            if any(s.buffer.data is buffer.data for s in by_class(part).get(BufferStore, ()))
        ]
        place = stores[0]
        first = parts[place]
        if len(stores) > 1 or not isinstance(first, BufferStore):
            return None
        var = Var(buffer.name, buffer.dtype)

        def load(node: BufferLoad) -> PrimExpr:
            return var if node.buffer is buffer else node

        rest = [rewrite(part, {BufferLoad: load}) for part in parts[place + 1 :]]
        bound = self.bind(var, first.value, rest)
        return None if bound is None else [*parts[:place], *bound]


_ZERO: Final = const(0, "int32")


def _is_leaf(value: PrimExpr) -> bool:
    return not by_class(value).keys() - {type(value), Var, IntImm}


def name_in_value(store: BufferStore, var: Var, value: PrimExpr) -> BufferStore | None:
    """Bind a value by ``Let`` within the value that a statement stores."""
    if any(_count(index, var) for index in store.indices):
        return None
    named = Let(var, value, store.value)
    return BufferStore(store.buffer, named, store.indices, span=store.span)


def _read_where_stored(
    var: Var, value: PrimExpr, parts: Sequence[Stmt], uses: Sequence[int]
) -> list[Stmt] | None:
    """Let later uses of a value load the element to which it is stored first."""
    places = [place for place, count in enumerate(uses) if count]
    first = parts[places[0]]
    if not isinstance(first, BufferStore) or first.value is not var or uses[places[0]] != 1:
        return None
    if first.buffer.dtype is not var.dtype or any(map(effects, first.indices)):
        return None
    memory = _read_by(value)
    if any(_changes(part, memory) for part in parts[: places[0]]):
        return None
    between = parts[places[0] + 1 : places[-1] + 1]
    own = {id(first.buffer.data)}
    if any(_changes(part, own) for part in between):
        return None
    table = {var: BufferLoad(first.buffer, first.indices)}
    stored = BufferStore(first.buffer, value, first.indices, span=first.span)
    made = [substitute(part, table) for part in parts]
    made[places[0]] = stored
    return made


class _Versions:
    """Renames a local scalar: each assignment outside of inner loops gets memory of its own."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def split(self, parts: Sequence[Stmt]) -> tuple[list[Stmt], list[Buffer]] | None:
        """Return the parts and the new buffers; None if one is read before it is filled."""
        made: list[Stmt] = []
        versions: list[Buffer] = []
        for part in parts:
            if not self._is_used(part):
                made.append(part)
                continue
            if not self._is_plain(part):
                return None
            value = self._find_assigned(part)
            if value is None or (not versions and self._loads(value)):
                if not versions:
                    return None
                made.append(self._use_version(versions[-1], part))
                continue
            if versions:
                value = self._use_version(versions[-1], value)
                versions.append(decl_buffer(self.buffer.shape, self.buffer.dtype, self.buffer.name))
            else:
                versions.append(self.buffer)
            own = versions[-1]
            made.append(BufferStore(own, value, (_ZERO,) * len(own.shape)))
            if len(versions) > _NAMES:
                return None
        return (made, versions) if versions else None

    def _is_used(self, part: Stmt) -> bool:
        found = by_class(part)
        if any(access.buffer.data is self.buffer.data for access in loads_and_stores(found)):
            return True
        others = (*found.get(Var, ()), *(b.data for b in found.get(Buffer, ())))
        return any(var is self.buffer.data for var in others)

    def _is_plain(self, part: Stmt) -> bool:
        """Whether a part uses the memory as this buffer only, at its one element."""
        found = by_class(part)
        if any(var is self.buffer.data for var in found.get(Var, ())) or Buffer in found:
            return False
        own = [a for a in loads_and_stores(found) if a.buffer.data is self.buffer.data]
        return all(
            access.buffer is self.buffer
            and all(isinstance(i, IntImm) and i.value == 0 for i in access.indices)
            for access in own
        )

    def _loads(self, value: PrimExpr) -> bool:
        return any(load.buffer is self.buffer for load in by_class(value).get(BufferLoad, ()))

    def _find_assigned(self, part: Stmt) -> PrimExpr | None:
        """Return the values that a part assigns, whatever their conditions."""
        if isinstance(part, BufferStore):
            return part.value if part.buffer is self.buffer else None
        if not isinstance(part, IfThenElse):
            return None
        cases = [part.then_case, *([] if part.else_case is None else [part.else_case])]
        values: list[PrimExpr] = []
        for case in cases:
            if not isinstance(case, BufferStore) or case.buffer is not self.buffer:
                return None
            values.append(case.value)
        if any(effects(value) & _STOPS for value in (part.condition, *values)):
            return None
        if len(values) == 1:
            values.append(BufferLoad(self.buffer, (_ZERO,) * len(self.buffer.shape)))
        return Call(values[0].dtype, IF_THEN_ELSE, (part.condition, *values))

    def _use_version(self, version: Buffer, part: _N) -> _N:
        if version is self.buffer:
            return part

        def load(node: BufferLoad) -> BufferLoad:
            if node.buffer is not self.buffer:
                return node
            return BufferLoad(version, node.indices, span=node.span)

        def store(node: BufferStore) -> BufferStore:
            if node.buffer is not self.buffer:
                return node
            return BufferStore(version, node.value, node.indices, span=node.span)

        return rewrite(part, {BufferLoad: load, BufferStore: store})
