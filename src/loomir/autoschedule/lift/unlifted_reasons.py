"""Explain why a statement cannot be lifted, and which form could be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from loomir.autoschedule.lift.loop_kinds import as_serial
from loomir.ir.visit import by_class, pre_order
from loomir.loops.dependence import find_carrying_loops
from loomir.tir.analysis.effects import Effects, effects_of_node
from loomir.tir.buffer import BufferLoad
from loomir.tir.expr import Call, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr, Var
from loomir.tir.stmt import (
    AssertStmt,
    AttrStmt,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
)

__all__ = ["UnliftedStatement", "explain_unlifted"]


class UnliftedStatement(NamedTuple):
    """A statement that runs as written: which, why, and what would be scheduled."""

    what: str
    why: str
    form: str


def explain_unlifted(stmt: Stmt) -> UnliftedStatement:
    """Explain why a statement runs as written."""
    plain = as_serial(stmt)
    loops = _outer_loops(plain)
    what = _describe(plain, loops)
    if For not in by_class(plain):
        return UnliftedStatement(
            what, "no loop is around it", "nothing is to be done for a single statement"
        )
    found = (
        _opaque(plain)
        or find_failing(plain)
        or _find_dependent_bounds(plain)
        or _find_scattered(plain)
        or _dependence(plain, loops)
        or _conditional(plain)
        or _find_shared(loops)
        or ("it has none of the forms that rules read", _STORE)
    )
    return UnliftedStatement(what, *found)


_STORE = (
    "one store for each element, `o[i, j] = …`, or a sum that starts right before the loops that "
    "add to it"
)


def _outer_loops(stmt: Stmt) -> list[For]:
    loops: list[For] = []
    while True:
        if isinstance(stmt, For):
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, BlockRealize):
            stmt = stmt.block.body
        else:
            return loops


def _describe(stmt: Stmt, loops: Sequence[For]) -> str:
    stores: list[BufferStore] = by_class(stmt).get(BufferStore, [])
    names = list(dict.fromkeys(store.buffer.name for store in stores))
    over = ", ".join(loop.loop_var.name_hint for loop in loops)
    where = f"loops over {over}" if loops else "a statement"
    made = f", writing {_list(names)}" if names else ""
    return f"{where}{made}{_place(stmt)}"


def _place(stmt: Stmt) -> str:
    spans = [part.span for part in pre_order(stmt) if isinstance(part, (For, BufferStore))]
    lines = [span.line for span in spans if span is not None]
    return f", line {lines[0]}" if lines else ""


def _list(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _opaque(stmt: Stmt) -> tuple[str, str] | None:
    found = by_class(stmt)
    if While in found:
        return (
            "only its condition knows how often a `while` loop runs",
            "a loop over a range, with a condition on the values in it",
        )
    calls: list[Call] = found.get(Call, [])
    for call in calls:
        if effects_of_node(call) & Effects.ACTS:
            name = getattr(call.op, "name", getattr(call.op, "name_hint", "a function"))
            return (
                f"it calls {name}, which may do anything",
                "the same with operators and builtins, or the call in a nest of its own",
            )
    for kind, word in ((AssertStmt, "an assertion"), (AttrStmt, "a note for the compiler")):
        if kind in found:
            return f"{word} is in it", f"the loops without {word}, which may stand before them"
    return None


def find_failing(stmt: Stmt) -> tuple[str, str] | None:
    found = by_class(stmt)
    divisions = [e for cls in (Div, Mod, FloorDiv, FloorMod) for e in found.get(cls, ())]
    for division in divisions:
        if effects_of_node(division) & Effects.FAILS:
            return (
                f"dividing by {division.b} fails where that is 0, at the first such iteration",
                "a division by a number that is not 0, or of floats",
            )
    calls: list[Call] = found.get(Call, [])
    if any(effects_of_node(call) & Effects.FAILS for call in calls):
        return (
            "it checks an index, and fails at the first that is outside",
            "a nest with one store, `o[i, j] = table[index[i], j]`",
        )
    return None


def _find_dependent_bounds(stmt: Stmt) -> tuple[str, str] | None:
    loops: list[For] = by_class(stmt).get(For, [])
    names = {loop.loop_var for loop in loops}
    for loop in loops:
        for edge in (loop.min, loop.extent):
            used = [v for v in by_class(edge).get(Var, ()) if v in names]
            inner = loop.loop_var.name_hint
            if used:
                outer = used[0].name_hint
                form = f"{inner} over the whole range, and `if` around the term"
                return f"how far {inner} runs depends on {outer}", form
            if BufferLoad in by_class(edge):
                return (
                    f"how far {inner} runs is looked up in memory",
                    f"{inner} over a range that is known before the loops",
                )
    return None


def _dependence(stmt: Stmt, loops: Sequence[For]) -> tuple[str, str] | None:
    carrying = find_carrying_loops(loops, {}) if loops else []
    reducing = {loop.loop_var for loop in loops} - find_used_in_places(stmt)
    for loop, why in carrying:
        if loop.loop_var not in reducing:
            name = loop.loop_var.name_hint
            return (
                f"iterations of {name} depend on those before: {why}",
                f"loops whose iterations are independent inside of {name}, as nests of their own",
            )
    return None


def find_used_in_places(stmt: Stmt) -> set[Var]:
    stores: list[BufferStore] = by_class(stmt).get(BufferStore, [])
    return {v for s in stores for i in s.indices for v in by_class(i).get(Var, ())}


def _find_scattered(stmt: Stmt) -> tuple[str, str] | None:
    found = by_class(stmt)
    names = {loop.loop_var for loop in found.get(For, ())}
    stores: list[BufferStore] = found.get(BufferStore, [])
    for store in stores:
        for index in store.indices:
            if isinstance(index, (Var, IntImm)):
                continue
            inner = by_class(index)
            if BufferLoad in inner:
                return (
                    f"where {store.buffer.name} is written is looked up in memory",
                    "a nest over the places of the result, which looks up what it reads",
                )
            if len(names.intersection(inner.get(Var, ()))) > 1 or not _is_shifted(index):
                return (
                    f"{store.buffer.name}[{index}] is not a loop variable by itself",
                    f"a result with an axis for each loop, written at {store.buffer.name}[i, j]",
                )
    return None


def _is_shifted(index: PrimExpr) -> bool:
    a, b = getattr(index, "a", None), getattr(index, "b", None)
    return isinstance(a, Var) and isinstance(b, IntImm)


def _conditional(stmt: Stmt) -> tuple[str, str] | None:
    if IfThenElse not in by_class(stmt):
        return None
    return (
        "a condition decides whether an element is written",
        "a choice between values, `o[i] = T.if_then_else(condition, new, o[i])`",
    )


def _find_shared(loops: Sequence[For]) -> tuple[str, str] | None:
    if not loops or not isinstance(loops[-1].body, SeqStmt):
        return None
    name = loops[-1].loop_var.name_hint
    return (
        f"the statements in {name} share memory that keeps values for the next iteration",
        "a loop for each statement, or locals that each iteration fills before it reads them",
    )
