"""Hoist costly loop-invariant expressions out of loops.

These are divisions of floats, math functions, divisions of integers by non-constants, and choices
(with their conditions and operands); the first three cost ten times as much as an addition or more.
LLVM does not hoist them in all cases, so the pass does. Values keep all their bits.

An expression is hoisted only if it has no effect, reads nothing that the loop may write
(``loop_memory``), and cannot fail, since it is then evaluated even if no iteration would do so.

Integer divisions that may fail, and that not every iteration reaches, are hoisted with 1 in place
of a divisor of 0; where they stood, they are evaluated after all if a divisor is 0. LLVM's loop
vectoriser must never see such a division in a branch: it evaluates it only where the first lane
takes the branch, and uses that quotient for the addresses of all lanes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from loomir.arith.bounds.expression_bounds import Bounds
from loomir.ir.equality import structural_equal
from loomir.ir.node import Node
from loomir.ir.op import Effect, Op
from loomir.ir.passes import register
from loomir.ir.visit import Step, by_class, children, fold, plan_of, rebuild, rewrite, trampoline
from loomir.loops.conditions import conjunction
from loomir.tir.analysis.effects import is_nonzero
from loomir.tir.buffer import BufferLoad
from loomir.tir.builtins.math import FAMILY
from loomir.tir.builtins.table import BUILTINS, IF_THEN_ELSE
from loomir.tir.expr import (
    NE,
    And,
    Call,
    Div,
    Eq,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Or,
    PrimExpr,
    Select,
    Var,
    const,
)
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import (
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from loomir.transform.tir.loops.loop_memory import NEVER, LoopMemory

__all__ = ["HoistOptions", "hoist_expression"]


@dataclass(frozen=True, slots=True)
class HoistOptions:
    """``allow_alias``: array arguments may overlap."""

    allow_alias: bool = False


_CHEAP: Final = frozenset(
    (
        "ceil",
        "copysign",
        "floor",
        "fma",
        "isfinite",
        "isinf",
        "isnan",
        "nearbyint",
        "round",
        "trunc",
    )
)
"""Functions of floats that CPUs compute about as fast as sums."""
_COSTLY: Final = frozenset(
    row.op for name, row in BUILTINS.items() if row.family == FAMILY and name not in _CHEAP
)
_PURE: Final = frozenset(
    row.op for row in BUILTINS.values() if row.op.effect in (Effect.PURE, Effect.EXPR_ANNOTATION)
)
_LOADS: Final = 8
"""How many loads of a buffer are remembered; a condition rarely guards more."""
_DIVISIONS: Final = (Div, FloorDiv, FloorMod, Mod)


@register("tir.HoistExpression", requires={"flat_buffers", "no_blocks", "plain_addresses"})
def hoist_expression(func: PrimFunc, options: HoistOptions = HoistOptions()) -> PrimFunc:
    """Compute costly expressions once, before the outermost loop in which they do not change.

    Equal expressions are computed once before a loop, and bound to a name around the loop.
    """
    parts = by_class(func.body)
    if For not in parts:
        return func
    divisions = [e for kind in _DIVISIONS for e in parts.get(kind, ())]
    costly = {id(e) for e in parts.get(Call, ()) if e.op in _COSTLY}
    costly.update(id(e) for e in divisions if e.dtype.is_float)
    costly.update(map(id, parts.get(Select, ())))
    unclear = [e for e in divisions if e.dtype.is_integer and not is_nonzero(e.b)]
    risky: set[int] = set()
    if unclear:
        bounds = Bounds()
        bounds.learn(func.body)
        # The bounds of a variable hold wherever it is in scope.
        found = [(e, bounds.of(e.b)) for e in unclear]
        costly.update(id(e) for e, divisor in found if divisor.low > 0 or divisor.high < 0)
        risky.update(id(e) for e in unclear if e.dtype.lanes == 1 and id(e) not in costly)
    if not costly and not risky:
        return func
    memory = LoopMemory(func, costly, risky, allow_alias=options.allow_alias)
    if not memory.costly:
        return func
    body = trampoline(_Hoist(memory, costly, risky).visit(func.body, guarded=False))
    return func if body is func.body else rebuild(func, {"body": body})


class _Info(NamedTuple):
    """How far an expression can be hoisted.

    It is invariant in all loops deeper than ``level``, which is ``NEVER`` if it must stay.
    ``within`` is the depth of the outermost ``Let`` around it whose variable it uses, or 0.
    ``risky``: it has divisions by what may be 0.
    """

    level: int
    costly: bool = False
    within: int = 0
    risky: bool = False


_CONSTANT: Final = _Info(0)
_STAYS: Final = _Info(NEVER)


class _Place:
    """An enclosing loop: the expressions known in its body, and those computed before it.

    Both are kept twice: for code that every iteration runs, and for guarded code. ``guarded``: not
    every iteration of the loop around it reaches the loop.
    """

    def __init__(self, guarded: bool = False) -> None:
        self.guarded = guarded
        self.known: tuple[dict[int, _Info], dict[int, _Info]] = ({}, {})
        self.made: tuple[dict[tuple[int, int], Any], dict[tuple[int, int], Any]] = ({}, {})
        self.lets: dict[int, tuple[Var, PrimExpr]] = {}
        # Loads that every iteration runs, by buffer, with the loops that they must stay in.
        self.loads: dict[int, list[tuple[BufferLoad, int]]] = {}


class _Hoist:
    """One walk in program order; depth 0 is outside all loops."""

    def __init__(self, memory: LoopMemory, costly: set[int], risky: set[int]) -> None:
        self._memory = memory
        self._costly = costly
        self._risky = risky
        self._levels: dict[int, int] = {}
        self._lets: dict[int, int] = {}
        self._places = [_Place()]
        self._numbers: dict[tuple[object, ...], int] = {}

    # -- statements --------------------------------------------------------------------------------
    def visit(self, s: Stmt, *, guarded: bool) -> Step[Stmt]:
        """Visit a statement; ``guarded``: not every iteration of the enclosing loop runs it."""
        if isinstance(s, For):
            return (yield self._loop(s, guarded))
        changed = yield self._hoist_own_expressions(s, guarded or isinstance(s, While))
        depth = len(self._places) - 1
        scoped = isinstance(s, (IfThenElse, While))
        if isinstance(s, LetStmt):
            self._levels[id(s.var)] = depth
        elif isinstance(s, DeclBuffer):
            self._levels[id(s.buffer)] = depth
        elif isinstance(s, BufferStore):
            self._memory.store(s)
        for name in s.child_names:
            value = getattr(s, name)
            if isinstance(value, Stmt):
                if scoped:
                    self._memory.open()
                made: object = yield self.visit(value, guarded=guarded or scoped)
                if scoped:
                    self._memory.close()
            elif isinstance(value, tuple) and value and isinstance(value[0], Stmt):
                made = yield self._sequence(cast("tuple[Stmt, ...]", value), guarded)
            else:
                continue
            if made is not value:
                changed[name] = made
        return rebuild(s, changed)

    def _sequence(self, parts: tuple[Stmt, ...], guarded: bool) -> Step[tuple[Stmt, ...]]:
        made: list[Stmt] = []
        for part in parts:
            if isinstance(part, BufferStore) and id(part) not in self._memory.costly:
                self._memory.store(part)
                made.append(part)
            else:
                made.append((yield self.visit(part, guarded=guarded)))
        return parts if all(a is b for a, b in zip(made, parts)) else tuple(made)

    def _loop(self, s: For, guarded: bool) -> Step[Stmt]:
        changed = yield self._hoist_own_expressions(s, guarded)
        if self._memory.is_idle(s):
            return rebuild(s, changed)
        self._memory.enter(s, guarded=guarded)
        place = _Place(guarded)
        self._places.append(place)
        self._levels[id(s.loop_var)] = len(self._places) - 1
        body = yield self.visit(s.body, guarded=False)
        self._places.pop()
        self._memory.leave()
        if body is not s.body:
            changed["body"] = body
        made: Stmt = rebuild(s, changed)
        for var, value in reversed(place.lets.values()):
            made = LetStmt(var, value, made, span=s.span)
        return made

    def _hoist_own_expressions(self, s: Stmt, guarded: bool) -> Step[dict[str, object]]:
        """Rewrite the expressions of a statement itself; return the fields that changed."""
        changed: dict[str, object] = {}
        if len(self._places) == 1 or id(s) not in self._memory.costly:
            return changed
        for name in s.child_names:
            value = getattr(s, name)
            if isinstance(value, PrimExpr):
                made: object = yield self._expression(value, guarded)
            elif isinstance(value, tuple) and value and isinstance(value[0], PrimExpr):
                made = yield self._expressions(cast("tuple[PrimExpr, ...]", value), guarded)
            else:
                continue
            if made is not value:
                changed[name] = made
        return changed

    def _expressions(
        self, parts: tuple[PrimExpr, ...], guarded: bool
    ) -> Step[tuple[PrimExpr, ...]]:
        made: list[PrimExpr] = []
        for part in parts:
            made.append((yield self._expression(part, guarded)))
        return parts if all(a is b for a, b in zip(made, parts)) else tuple(made)

    # -- expressions -------------------------------------------------------------------------------
    def _expression(self, e: PrimExpr, guarded: bool) -> Step[PrimExpr]:
        yield self._study(e, guarded, 0)
        return (yield self._rebuild(e, guarded, len(self._places) - 1))

    def _study(self, e: PrimExpr, guarded: bool, lets: int) -> Step[_Info]:
        """Analyse an expression inside so many ``Let`` nodes."""
        known = self._places[-1].known[guarded]
        found = known.get(id(e))
        if found is None:
            if isinstance(e, Let):
                found = yield self._study_let(e, guarded, lets)
            elif isinstance(e, Var):
                stays = e.dtype.is_handle
                level = NEVER if stays else self._levels.get(id(e), 0)
                found = _Info(level, within=self._lets.get(id(e), 0))
            elif not _is_open(e):
                found = _STAYS
            elif not e.child_names:
                found = _CONSTANT
            else:
                found = yield self._study_parts(e, guarded, lets)
            known[id(e)] = found
        return found

    def _study_let(self, e: Let, guarded: bool, lets: int) -> Step[_Info]:
        value: _Info = yield self._study(e.value, guarded, lets)
        self._levels[id(e.var)] = value.level
        self._lets[id(e.var)] = lets + 1
        body: _Info = yield self._study(e.body, guarded, lets + 1)
        outer = [i for i in (value.within, body.within) if 0 < i <= lets]
        level = NEVER if value.risky or body.risky else max(value.level, body.level)
        return _Info(level, value.costly or body.costly, min(outer, default=0))

    def _study_parts(self, e: PrimExpr, guarded: bool, lets: int) -> Step[_Info]:
        level, costly, within, risky = 0, id(e) in self._costly, 0, False
        failing = _get_failing_part(e)
        for part, lazy in _operands(e):
            if part is failing:
                self._places[-1].known[True][id(part)] = _STAYS
            found: _Info = yield self._study(part, guarded or lazy, lets)
            level = max(level, found.level)
            costly, risky = costly or found.costly, risky or found.risky
            if found.within:
                within = min(within or found.within, found.within)
        if isinstance(e, BufferLoad):
            bound = self._levels.get(id(e.buffer), 0)  # not deeper than the binding of its pointer
            level = max(level, bound, self._level_of_load(e, guarded))
            level = NEVER if risky else level  # an index for another divisor may be outside
        elif isinstance(e, _DIVISIONS) and not e.dtype.is_float:
            if id(e) in self._risky and self._is_conditional(guarded, level):
                costly = risky = True
            elif id(e) not in self._costly and not is_nonzero(e.b):
                level = NEVER
        return _Info(level, costly, within, risky)

    def _is_conditional(self, guarded: bool, level: int) -> bool:
        """Tell whether code may stay unreached in an iteration of a loop deeper than ``level``."""
        return guarded or any(place.guarded for place in self._places[level + 2 :])

    def _level_of_load(self, e: BufferLoad, guarded: bool) -> int:
        """Return the depth that a load must keep; a load that every iteration runs cannot fail."""
        loads = self._places[-1].loads.setdefault(id(e.buffer), [])
        if guarded:
            for load, level in loads:
                if all(map(structural_equal, load.indices, e.indices)):
                    return level
        level = self._memory.level_of(e, guarded=guarded)
        if not guarded and len(loads) < _LOADS:
            loads.append((e, level))
        return level

    def _rebuild(self, e: PrimExpr, guarded: bool, depth: int) -> Step[PrimExpr]:
        """Rebuild an expression for a place in so many loops."""
        place = self._places[-1]
        info = place.known[guarded][id(e)]
        if not info.costly:
            return e
        made = place.made[guarded].get((id(e), depth))
        if made is None:
            if info.level < depth and not info.within and info.risky and e.dtype.lanes == 1:
                made = self._speculate(e, self._places[info.level + 1])
            elif info.level < depth and not info.within and not info.risky:
                made = yield self._parts(e, guarded, info.level)
                made = self._name_hoisted(made, self._places[info.level + 1])
            else:
                made = yield self._parts(e, guarded, depth)
            place.made[guarded][id(e), depth] = made
        return made

    def _parts(self, e: PrimExpr, guarded: bool, depth: int) -> Step[PrimExpr]:
        made: list[PrimExpr] = []
        parts = _operands(e)
        for part, lazy in parts:
            made.append((yield self._rebuild(part, guarded or lazy, depth)))
        if all(a is b for a, (b, _) in zip(made, parts)):
            return e
        left = iter(made)
        changed: dict[str, object] = {}
        for name in e.child_names:
            value = getattr(e, name)
            if isinstance(value, tuple):
                changed[name] = tuple([next(left) for _ in cast("tuple[Any, ...]", value)])
            else:
                changed[name] = next(left)
        return rebuild(e, changed)

    def _speculate(self, e: PrimExpr, place: _Place) -> PrimExpr:
        """Compute an expression before a loop for divisors other than 0, else where it stands."""
        divisors: list[PrimExpr] = []

        def divide(node: Any) -> Node:
            if node.dtype.is_float or is_nonzero(node.b):
                return node
            zero = Eq(node.b, const(0, node.b.dtype))
            return rebuild(node, {"b": Select(zero, const(1, node.b.dtype), node.b)})

        def note(node: Node, _: list[None]) -> None:
            if id(node) in self._risky:
                divisors.append(cast("FloorDiv", node).b)

        fold(e, note)  # the divisions in a divisor come before it
        divisible = conjunction(NE(b, const(0, b.dtype)) for b in divisors)
        hoisted = self._name_hoisted(rewrite(e, dict.fromkeys(_DIVISIONS, divide)), place)
        return Call(e.dtype, IF_THEN_ELSE, (divisible, hoisted, e))

    def _name_hoisted(self, e: PrimExpr, place: _Place) -> Var:
        """Return the variable to which an expression is bound before a loop."""
        number = fold(e, self._number)
        if number not in place.lets:
            place.lets[number] = Var("fixed", e.dtype), e
        return place.lets[number][0]

    def _number(self, node: Node, parts: list[int]) -> int:
        """Return the number of an expression; equal ones have the same (value numbering)."""
        key: tuple[object, ...]
        if isinstance(node, Var):
            key = (Var, id(node))  # the program keeps it alive
        elif isinstance(node, FloatImm):
            key = (FloatImm, struct.pack("<d", node.value), node.dtype)
        else:
            plan = plan_of(node.__class__)
            attributes = (
                *plan.get_attrs(node),
                *(() if plan.get_refs is None else plan.get_refs(node)),
            )
            names = [id(x) if isinstance(x, Node) else x for x in attributes]
            key = (node.__class__, *names, *parts)
        return self._numbers.setdefault(key, len(self._numbers))


def _is_open(e: PrimExpr) -> bool:
    """Tell whether an expression, by its own operation, or its parts may be hoisted.

    Calls with effects may need their arguments as they are written, and so do addresses.
    """
    if e.dtype.is_handle or e.dtype.is_void:
        return False
    return not isinstance(e, Call) or (isinstance(e.op, Op) and e.op in _PURE)


def _get_failing_part(e: PrimExpr) -> PrimExpr | None:
    """Return what a choice evaluates if a divisor is 0, in the form that ``_speculate`` makes."""
    if not (isinstance(e, Call) and e.op is IF_THEN_ELSE and isinstance(e.args[1], Var)):
        return None
    tests = [e.args[0]]
    while isinstance(tests[-1], And):
        tests[-1:] = (tests[-1].b, tests[-1].a)
    nonzero = all(isinstance(t, NE) and isinstance(t.b, IntImm) and t.b.value == 0 for t in tests)
    return e.args[2] if nonzero else None


def _operands(e: PrimExpr) -> list[tuple[PrimExpr, bool]]:
    """List the operands of an expression, each with whether it may stay unevaluated."""
    parts = cast("list[PrimExpr]", children(e))
    lazy = 0
    if isinstance(e, Call) and e.op is IF_THEN_ELSE:
        lazy = 2
    elif isinstance(e, (And, Or)) and e.dtype.lanes == 1:
        lazy = 1
    first = len(parts) - lazy
    return [(part, i >= first) for i, part in enumerate(parts)]
