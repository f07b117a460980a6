"""Check arguments of primitives by the kind of each parameter, and resolve random variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final, cast
from weakref import WeakMethod

from loomir.arith.analyzer import Analyzer
from loomir.arith.iterators.index_map import IndexMap
from loomir.ir.substitution import free_definitions, substitute
from loomir.schedule.state import Ref
from loomir.schedule.table import MISSING, Kind, Parameter
from loomir.schedule.variables import BlockRV, LoopRV
from loomir.support.diagnostics import Diagnostic, ScheduleError, with_article
from loomir.support.runtime_types import show_value
from loomir.tir.expr import IntImm, PrimExpr, Var
from loomir.tir.stmt import ForKind

__all__ = ["Arguments", "as_list", "bad_argument", "gone_error"]

_INT64: Final = (-(2**63), 2**63 - 1)
_DEEPEST: Final = 32
_NAMED: Final[dict[Kind, tuple[tuple[type, ...], str]]] = {
    Kind.LOOP: ((LoopRV,), "loop"),
    Kind.BLOCK: ((BlockRV,), "block"),
    Kind.PLACE: ((LoopRV, BlockRV), "block or loop"),
}
_PLAIN: Final[dict[Kind, tuple[type, str, str]]] = {
    Kind.BOOL: (bool, "neither True nor False", "give True or False"),
    Kind.STR: (str, "no string", "give a string"),
    Kind.MAP: (IndexMap, "no index map", "give an IndexMap"),
}
_LISTS: Final = {
    Kind.LOOPS: (Kind.LOOP, "loops"),
    Kind.BLOCKS: (Kind.BLOCK, "blocks"),
    Kind.INTS: (Kind.INT, "integers"),
    Kind.FACTORS: (Kind.INT, "integers"),
    Kind.REALS: (Kind.REAL, "numbers"),
}


class Arguments:
    """The values of random variables, and the arguments that are resolved by them."""

    def __init__(self) -> None:
        self.refs: dict[BlockRV | LoopRV, Ref] = {}
        self.numbers: dict[Var, int] = {}
        self.describer = WeakMethod(self.describe)

    def copy(self, refs: Mapping[int, Ref]) -> Arguments:
        """Return a copy for a copy of the program; ``refs`` maps ids of old references to new."""
        made = Arguments()
        made.refs = {rv: refs[id(ref)] for rv, ref in self.refs.items() if id(ref) in refs}
        made.numbers = dict(self.numbers)
        return made

    def describe(self, rv: object) -> str | None:
        """Write what a random variable stands for in a few words; None if it is gone."""
        ref = self.refs.get(cast("Any", rv))
        if ref is None or ref.stmt is None:
            return None
        if not ref.is_loop:
            return ref.block.name_hint
        loop = ref.loop
        kind = "" if loop.kind is ForKind.SERIAL else f", {loop.kind.value[1:].lower()}"
        return f"{loop.loop_var.name_hint}, {loop.extent} times{kind}"

    def forget(self, rv: Any) -> None:
        """Forget a random variable.

        Errors: SCH0003 for any other value.
        """
        if isinstance(rv, (BlockRV, LoopRV)):
            self.refs.pop(rv, None)
        elif isinstance(rv, Var):
            self.numbers.pop(rv, None)
        else:
            raise bad_argument(
                "remove_rv", f"{show_value(rv)} is no random variable", "give what a primitive gave"
            )

    def ref(self, rv: Any, primitive: str) -> Ref:
        """Return the loop or block that a random variable stands for.

        Errors: SCH0002.
        """
        ref = self.refs.get(rv)
        if ref is None or ref.stmt is None:
            raise gone_error(primitive)
        return ref

    def number(self, value: Any, primitive: str, name: str = "") -> int:
        """Return the number that an argument is, in terms of what was drawn.

        Errors: SCH0002, SCH0003.
        """
        if isinstance(value, bool) or not isinstance(value, (Integral, PrimExpr)):
            said = f"{name} is {show_value(value)}, which" if name else show_value(value)
            raise bad_argument(primitive, f"{said} is not an integer", "use an integer")
        if isinstance(value, Integral):
            if not _INT64[0] <= int(value) <= _INT64[1]:
                why = f"{name or 'an argument'} is {show_value(value)}, which int64 does not hold"
                raise bad_argument(primitive, why, "use a smaller integer")
            return int(value)
        free = [v for v in free_definitions(value) if isinstance(v, Var)]
        if any(v not in self.numbers for v in free):
            raise gone_error(primitive)
        values = {v: IntImm(self.numbers[v], v.dtype) for v in free}
        made = Analyzer().simplify(substitute(value, values))
        if not isinstance(made, IntImm):
            raise bad_argument(primitive, f"{value} is not a number", "compute with what was drawn")
        return made.value

    def plain(self, value: Any, primitive: str, depth: int = 0) -> Any:
        """Replace random variables by their numbers in plain data.

        Errors: SCH0003 for integers that int64 does not hold, and lists too deep.
        """
        if isinstance(value, bool):
            return value
        if isinstance(value, Integral):
            return self.number(value, primitive)
        if depth > _DEEPEST:
            raise bad_argument(
                primitive, f"lists are in lists {_DEEPEST} times", "use plain data, as in JSON"
            )
        if isinstance(value, PrimExpr) and any(
            v in self.numbers for v in free_definitions(value) if isinstance(v, Var)
        ):
            return self.number(value, primitive)
        if isinstance(value, (list, tuple)):
            return [self.plain(v, primitive, depth + 1) for v in cast("Sequence[Any]", value)]
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            return {k: self.plain(v, primitive, depth + 1) for k, v in pairs}
        return value

    def read(self, param: Parameter, value: Any, primitive: str) -> Any:
        """Return the value that a primitive receives for what the user passed.

        Errors: SCH0002, SCH0003.
        """
        kind, name = param.kind, param.name
        if value is None and param.default is None:
            return None
        if kind in _NAMED:
            classes, what = _NAMED[kind]
            if not isinstance(value, classes):
                help_ = f"give what names {with_article(what)}, as get_sblock and get_loops do"
                if isinstance(value, (list, tuple)) and kind is Kind.LOOP:
                    help_ = f"give them one by one: sch.{primitive}(*loops)"
                elif isinstance(value, LoopRV):
                    help_ = f"give the block first: sch.{primitive}(block, loop)"
                elif isinstance(value, BlockRV):
                    help_ = "give one of its loops: i, j = sch.get_loops(block)"
                raise bad_argument(
                    primitive,
                    f"{name} is {_show(cast('object', value))}, not {with_article(what)}",
                    help_,
                )
            return self.ref(value, primitive)
        if kind in _LISTS:
            item, what = _LISTS[kind]
            if not isinstance(value, (list, tuple)):
                raise bad_argument(
                    primitive,
                    f"{name} is {show_value(value)}, not a list",
                    f"write factors=[None, {value}]"
                    if kind is Kind.FACTORS and isinstance(value, int)
                    else f"give a list of {what}",
                )
            one = Parameter(name, item, None if kind is Kind.FACTORS else MISSING)
            made = [self.read(one, v, primitive) for v in cast("Sequence[Any]", value)]
            return made if item in _NAMED else tuple(made)
        if kind is Kind.INT:
            return self.number(value, primitive, name)
        if kind is Kind.REAL:
            if isinstance(value, bool) or not isinstance(value, Real):
                raise bad_argument(
                    primitive, f"{name} has {show_value(value)}, which is no number", "give numbers"
                )
            return float(value)
        if kind in _PLAIN:
            wanted, what, told = _PLAIN[kind]
            if not isinstance(value, wanted):
                raise bad_argument(primitive, f"{name} is {show_value(value)}, {what}", told)
            return value
        return self.plain(value, primitive) if kind is Kind.VALUE else value


def _show(value: object) -> str:
    if isinstance(value, (BlockRV, LoopRV)):
        return "a block" if isinstance(value, BlockRV) else "a loop"
    return show_value(value)


def as_list(values: Any) -> Any:
    """Return the items of an iterable as a list; anything else as it is."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        return cast("object", values)
    return list(cast("Iterable[Any]", values))


def gone_error(primitive: str) -> ScheduleError:
    """Return the error for a random variable whose loop or block is gone."""
    return ScheduleError(
        Diagnostic(
            "SCH0002",
            f"{primitive}: the block or loop of this variable is gone, or is another schedule's",
            help="get the block or loop again: get_sblock, get_loops",
        )
    )


def bad_argument(primitive: str, why: str, help: str) -> ScheduleError:
    """Say that an argument is not what a primitive takes."""
    return ScheduleError(Diagnostic("SCH0003", f"{primitive}: {why}", help=help))
