"""Traces: the primitives that were applied to a schedule, as data to show, store and replay."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from loomir.arith.iterators.index_map import IndexMap
from loomir.ir.node import Node
from loomir.ir.serialize import from_json, to_json
from loomir.ir.substitution import free_definitions, substitute
from loomir.schedule.table import PRIMITIVES, Kind, Primitive
from loomir.schedule.variables import BlockRV, LoopRV
from loomir.support.diagnostics import Diagnostic, ScheduleError, nearest, with_article, with_count
from loomir.support.displaying import HtmlDisplay
from loomir.support.dtype import DataType
from loomir.support.highlight import show_text
from loomir.tir.expr import IntImm, PrimExpr, StringImm, Var

__all__ = ["Instruction", "Schedulable", "Trace"]

_INT32 = DataType("int32")

DecisionProvider = Callable[["Instruction", Sequence[Any], Any], Any]


class Schedulable(Protocol):
    """What instructions can be applied to: a schedule."""

    def perform(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Do a primitive."""
        ...


class Instruction(NamedTuple):
    """One applied primitive: its arguments by name, and its results."""

    primitive: Primitive
    arguments: Mapping[str, Any]
    outputs: Any
    decision: Any = None

    @property
    def kind(self) -> str:
        """The name of the primitive."""
        return self.primitive.name


def _leaves(value: Any) -> list[Any]:
    """List the random variables in a value."""
    found: list[Any] = []
    stack = [value]
    while stack:
        at = stack.pop()
        if isinstance(at, (BlockRV, LoopRV, Var)):
            found.append(at)
        elif isinstance(at, PrimExpr):
            found.extend(reversed(free_definitions(at)))
        elif isinstance(at, (list, tuple)):
            stack.extend(reversed(cast("Sequence[Any]", at)))
        elif isinstance(at, Mapping):
            stack.extend(reversed(list(cast("Mapping[Any, Any]", at).values())))
    return found


class _Names:
    """Names of random variables, in the order in which they come up: ``b0``, ``l1``, ``v2``."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[str, Any]] = {}

    def name_of(self, rv: Any) -> str:
        """Return the name of a random variable."""
        found = self._names.get(id(rv))
        if found is None:
            letter = "b" if isinstance(rv, BlockRV) else "l" if isinstance(rv, LoopRV) else "v"
            found = self._names[id(rv)] = (f"{letter}{len(self._names)}", rv)
        return found[0]

    def name_drawn(self, expr: PrimExpr) -> PrimExpr:
        """Return an expression in which drawn numbers have their names."""
        names = [v for v in free_definitions(expr) if isinstance(v, Var)]
        return substitute(expr, {v: Var(self.name_of(v), v.dtype) for v in names})

    # -- Python --------------------------------------------------------------------------------
    def write_python(self, value: Any) -> str:
        """Write a value as Python."""
        if isinstance(value, (BlockRV, LoopRV, Var)):
            return self.name_of(value)
        if isinstance(value, (IntImm, StringImm)):
            return repr(value.value)
        if isinstance(value, PrimExpr):
            return str(self.name_drawn(value))
        if isinstance(value, (list, tuple)):
            items = cast("Sequence[Any]", value)
            return f"[{', '.join(self.write_python(item) for item in items)}]"
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            return f"{{{', '.join(f'{k!r}: {self.write_python(v)}' for k, v in pairs)}}}"
        if isinstance(value, IndexMap):
            inputs = ", ".join(v.name_hint for v in value.initial_indices)
            outputs = ", ".join(map(str, value.final_indices))
            comma = "," if len(value.final_indices) == 1 else ""
            return f"lambda {inputs}: ({outputs}{comma})"
        return json.dumps(value) if isinstance(value, str) else repr(value)

    # -- JSON ----------------------------------------------------------------------------------
    def to_plain(self, value: Any) -> Any:
        """Return a value as JSON has it; what JSON lacks is a table of one tagged entry."""
        if isinstance(value, (BlockRV, LoopRV, Var)):
            return {"$rv": self.name_of(value)}
        if isinstance(value, IndexMap):
            return {
                "$map": [self._node_to_plain(v) for v in value.initial_indices],
                "$to": [self._node_to_plain(e) for e in value.final_indices],
            }
        if isinstance(value, PrimExpr):
            return {"$expr": json.loads(to_json(self.name_drawn(value)))}
        if isinstance(value, Node):
            return {"$node": json.loads(to_json(value))}
        if isinstance(value, (list, tuple)):
            return [self.to_plain(item) for item in cast("Sequence[Any]", value)]
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            return {"$table": {str(k): self.to_plain(v) for k, v in pairs}}
        return value

    def _node_to_plain(self, value: Node) -> Any:
        return json.loads(to_json(value))


def _value_of(plain: Any, known: Mapping[str, Any]) -> Any:
    """Read a value that ``_Names.plain`` wrote."""
    if isinstance(plain, list):
        return [_value_of(item, known) for item in cast("list[Any]", plain)]
    if not isinstance(plain, dict):
        return plain
    table = cast("dict[str, Any]", plain)
    if "$rv" in table:
        return known[table["$rv"]]
    if "$expr" in table:
        expr = cast("PrimExpr", from_json(json.dumps(table["$expr"])))
        free = [v for v in free_definitions(expr) if isinstance(v, Var)]
        return substitute(expr, {v: known[v.name_hint] for v in free})
    if "$node" in table:
        return from_json(json.dumps(table["$node"]))
    if "$map" in table:
        return _map_of(table)
    return {k: _value_of(v, known) for k, v in table["$table"].items()}


def _map_of(table: Mapping[str, Any]) -> IndexMap:
    """Read an index map: variables are the same where their names are."""
    inputs = [cast("Var", from_json(json.dumps(v))) for v in table["$map"]]
    by_name = {v.name_hint: v for v in inputs}
    outputs: list[PrimExpr] = []
    for stored in table["$to"]:
        expr = cast("PrimExpr", from_json(json.dumps(stored)))
        free = [v for v in free_definitions(expr) if isinstance(v, Var)]
        outputs.append(substitute(expr, {v: by_name[v.name_hint] for v in free}))
    return IndexMap(tuple(inputs), tuple(outputs))


class Trace(HtmlDisplay):
    """A list of instructions; ``str`` writes a Python function that does them to a schedule."""

    def __init__(self, insts: Sequence[Instruction] = ()) -> None:
        self.insts: list[Instruction] = list(insts)

    @property
    def decisions(self) -> dict[int, Any]:
        """The decisions, by the index of their instruction."""
        return {n: i.decision for n, i in enumerate(self.insts) if i.primitive.is_sampling}

    def get_decision(self, inst: Instruction) -> Any:
        """Return what an instruction decided, None if it decides nothing."""
        return inst.decision

    def append(self, inst: Instruction) -> None:
        """Add an instruction at the end."""
        self.insts.append(inst)

    def pop(self) -> Instruction | None:
        """Take the last instruction away, None if there is none."""
        return self.insts.pop() if self.insts else None

    def with_decision(self, inst: Instruction, decision: Any) -> Trace:
        """Return a trace in which one instruction decides otherwise."""
        return Trace([i._replace(decision=decision) if i is inst else i for i in self.insts])

    def simplified(self) -> Trace:
        """Return a trace without the queries and drawings whose results are not used."""
        used: set[int] = set()
        kept: list[Instruction] = []
        for inst in reversed(self.insts):
            if inst.primitive.is_query and used.isdisjoint(map(id, _leaves(inst.outputs))):
                continue
            used.update(id(rv) for rv in _leaves(dict(inst.arguments)))
            kept.append(inst)
        kept.reverse()
        return Trace(kept)

    # -- text ----------------------------------------------------------------------------------
    def as_python(self) -> list[str]:
        """Write each instruction as a line of Python."""
        names = _Names()
        return [_line(inst, names) for inst in self.insts]

    def __str__(self) -> str:
        lines = self.as_python() or ["pass"]
        body = "\n".join(f"    {line}" for line in lines)
        return f"def apply_func(sch: loomir.Schedule) -> None:\n{body}\n"

    def show(self, style: str | None = None) -> None:
        """Display the trace as Python, in colour on a terminal and in a notebook."""
        show_text(str(self), style)

    # -- JSON ----------------------------------------------------------------------------------
    def as_json(self) -> list[Any]:
        """Return the trace as data that ``json.dumps`` takes and ``from_json`` reads."""
        names = _Names()
        rows: list[Any] = []
        for inst in self.insts:
            row: dict[str, Any] = {
                "do": inst.kind,
                "with": {k: names.to_plain(v) for k, v in inst.arguments.items()},
                "gives": names.to_plain(inst.outputs),
            }
            if inst.primitive.is_sampling:
                row["decision"] = names.to_plain(inst.decision)
            rows.append(row)
        return rows

    @staticmethod
    def from_json(rows: Sequence[Any]) -> Trace:
        """Read a trace.

        Errors: SCH0009 where it is none, or names a primitive that there is not.
        """
        if not isinstance(rows, (list, tuple)):
            raise ScheduleError(
                Diagnostic(
                    "SCH0009",
                    f"a trace is a list of instructions, not {with_article(type(rows).__name__)}",
                    help="pass json.loads(text)"
                    if isinstance(rows, (str, bytes))
                    else "pass the result of Trace.as_json",
                )
            )
        known: dict[str, Any] = {}
        insts: list[Instruction] = []
        for number, row in enumerate(rows):
            try:
                name = row["do"]
                found = PRIMITIVES[name]
                arguments = {k: _value_of(v, known) for k, v in row["with"].items()}
                outputs = _outputs_of(row["gives"], known)
                decision = _value_of(row.get("decision"), known)
            except (KeyError, TypeError, AttributeError) as error:
                raise _unreadable(number, row, error) from None
            insts.append(Instruction(found, arguments, outputs, decision))
        return Trace(insts)

    # -- doing it again ------------------------------------------------------------------------
    def apply_to_schedule(
        self, sch: Schedulable, decision_provider: DecisionProvider | None = None
    ) -> None:
        """Apply all instructions to another schedule, with the decisions of this trace.

        ``decision_provider`` is asked for each decision with the instruction, its arguments and
        what was decided, and may give another.

        Errors: those of the primitives, and SCH0009 where one gives another number of results.
        """
        now: dict[int, Any] = {}
        for inst in self.insts:
            arguments = {k: _replace_variables(v, now) for k, v in inst.arguments.items()}
            if inst.primitive.is_sampling:
                decision = inst.decision
                if decision_provider is not None:
                    decision = decision_provider(inst, list(arguments.values()), decision)
                arguments["decision"] = _replace_variables(decision, now)
            made = sch.perform(inst.kind, arguments)
            given, wanted = _leaves(made), _leaves(inst.outputs)
            if len(given) != len(wanted):
                raise _other_number(inst, len(given), len(wanted))
            for old, new in zip(wanted, given, strict=True):
                now[id(old)] = new

    @staticmethod
    def apply_json_to_schedule(rows: Sequence[Any], sch: Schedulable) -> None:
        """Read a trace and apply it to a schedule."""
        Trace.from_json(rows).apply_to_schedule(sch)


def _line(inst: Instruction, names: _Names) -> str:
    shown: list[str] = []
    for name, param in inst.primitive.params.items():
        if name == "decision":
            shown.append(f"decision={names.write_python(inst.decision)}")
        elif name in inst.arguments:
            value = inst.arguments[name]
            if param.kind is Kind.LOOPS:
                shown += [names.write_python(loop) for loop in value]
            elif param.required or (value is not param.default and value != param.default):
                shown.append(f"{name}={names.write_python(value)}")
    call = f"sch.{inst.kind}({', '.join(shown)})"
    outputs: Any = inst.outputs
    if isinstance(outputs, list):
        made = cast("list[Any]", outputs)
        if not made:
            return call
        return f"{', '.join(map(names.name_of, made))}{',' if len(made) == 1 else ''} = {call}"
    return call if outputs is None else f"{names.name_of(outputs)} = {call}"


def _outputs_of(plain: Any, known: dict[str, Any]) -> Any:
    """Make the random variables that an instruction gives."""
    if isinstance(plain, list):
        return [_outputs_of(item, known) for item in cast("list[Any]", plain)]
    if plain is None:
        return None
    name = str(plain["$rv"])
    if not name:
        raise KeyError("the name of what it gives")
    made: Any = BlockRV() if name[0] == "b" else LoopRV() if name[0] == "l" else Var(name, _INT32)
    known[name] = made
    return made


def _unreadable(number: int, row: Any, error: Exception) -> ScheduleError:
    name = row.get("do") if isinstance(row, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(name, str) and name not in PRIMITIVES:
        guess = nearest(name, PRIMITIVES)
        why = f"there is no primitive {name!r}"
        advice = f"did you mean {guess!r}?" if guess else "see the list of primitives"
    else:
        why = f"what it needs is missing: {error}"
        advice = "store what Trace.as_json gives"
    return ScheduleError(
        Diagnostic("SCH0009", f"instruction {number} of the trace is invalid: {why}", help=advice)
    )


def _other_number(inst: Instruction, given: int, wanted: int) -> ScheduleError:
    return ScheduleError(
        Diagnostic(
            "SCH0009",
            f"{inst.kind} returns {with_count(given, 'result')} here, and {wanted} in the trace",
            help="apply the trace to a program like the one that it was made on",
        )
    )


def _replace_variables(value: Any, now: Mapping[int, Any]) -> Any:
    """Put the random variables of this run in the place of those of the trace."""
    if isinstance(value, (BlockRV, LoopRV, Var)):
        return now.get(id(value), value)
    if isinstance(value, PrimExpr):
        free = [v for v in free_definitions(value) if isinstance(v, Var)]
        return substitute(value, {v: now.get(id(v), v) for v in free})
    if isinstance(value, (list, tuple)):
        return [_replace_variables(item, now) for item in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return {k: _replace_variables(v, now) for k, v in cast("Mapping[Any, Any]", value).items()}
    return value
