"""The Python functions that a program may call on plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from loomir.script.builder.arguments import add_describer
from loomir.script.builder.mistakes import mistake
from loomir.script.builder.tir.loops import range_of, serial
from loomir.script.parser.evaluate.operators import (
    MAX_ITEMS,
    holds_expr,
    is_expr,
    is_static,
    kind,
    refuse_too_large,
)
from loomir.tir.buffer import Buffer

__all__ = ["PLAIN_FUNCTIONS", "PlainFunction"]

_HOLDERS: Final = frozenset(("enumerate", "len", "list", "reversed", "tuple", "zip"))
"""Functions that only rearrange: what they are given may hold anything."""

_OF_BUFFERS: Final = {
    "len": "use {0}.shape[0]",
    "enumerate": "loop over indices: for i in range({0}.shape[0]), and read {0}[i]",
    "zip": "loop over indices: for i in range({0}.shape[0]), and read {0}[i]",
    "sum": "add the elements in a loop: for i in range({0}.shape[0]): y[0] += {0}[i]",
    "max": "compare the elements in a loop: y[0] = T.max(y[0], {0}[i])",
    "min": "compare the elements in a loop: y[0] = T.min(y[0], {0}[i])",
    "list": "read the elements one by one, as in {0}[i]",
    "abs": "take the elements one by one: y[i] = T.abs({0}[i])",
    "float": 'read an element, as in T.cast({0}[0], "float32")',
    "int": 'read an element, as in T.cast({0}[0], "int32")',
}
"""What to write in place of a function of Python's on a buffer."""
_INSTEAD: Final = {
    "min": "use T.min",
    "max": "use T.max",
    "abs": "use T.abs",
    "int": 'use T.cast(x, "int32")',
    "float": 'use T.cast(x, "float32")',
    "bool": "compare with zero, as in x != 0",
}


@dataclass(frozen=True, eq=False)
class PlainFunction:
    """A function of Python's on plain values."""

    name: str
    function: Callable[..., Any]

    def call(self, *args: object, **keywords: object) -> object:
        """Call it.

        Errors: SCR0005 where an argument is known only at run time, or the call fails.
        """
        if self.name == "range":
            return _range(args, keywords)
        for value in (*args, *keywords.values()):
            if not is_static(value):
                raise mistake(
                    "SCR0005",
                    f"{self.name} takes plain values, not {kind(value)}",
                    help=self._remedy(value),
                )
            if self.name not in _HOLDERS and holds_expr(value):
                raise mistake(
                    "SCR0005",
                    f"{self.name} takes plain values, and this holds an expression",
                    help=_INSTEAD.get(self.name, "write the operators out"),
                )
            if isinstance(value, range) and len(value) > MAX_ITEMS:
                raise mistake(
                    "SCR0020", "the value is too long", help=f"stay below {MAX_ITEMS} items"
                )
        try:
            return refuse_too_large(self.function(*args, **keywords))
        except (TypeError, ValueError, ArithmeticError) as error:
            message = f"{self.name} fails: {error}"
            raise mistake("SCR0005", message, help="correct the arguments") from error

    def _remedy(self, value: object) -> str:
        if isinstance(value, Buffer) and self.name in _OF_BUFFERS:
            return _OF_BUFFERS[self.name].format(value.name)
        if is_expr(value):
            return _INSTEAD.get(self.name, "use a value known while the program is read")
        return "use numbers, strings, tuples and lists"


def _range(args: Sequence[object], keywords: Mapping[str, object]) -> object:
    if keywords:
        return _loop_of(args, keywords)
    if args and len(args) <= 3 and all(type(a) is int for a in args):
        numbers: Any = args
        if len(args) < 3 or args[2] != 0:
            try:
                return range(*numbers)
            except OverflowError:
                pass
    given: Any = args
    return range_of(*given)


def _loop_of(args: Sequence[object], keywords: Mapping[str, object]) -> object:
    """Make the loop of a ``range`` that is given what T.serial takes, such as annotations."""
    known = ("annotations", "dtype", "step", "unroll")
    other = next((name for name in keywords if name not in known), None)
    if other is not None or not 1 <= len(args) <= 3 or (len(args) == 3 and "step" in keywords):
        raise mistake(
            "SCR0005",
            f"range takes no keyword {other!r}" if other else "range has too many arguments",
            help=f"its keywords in a program are {', '.join(known)}",
        )
    given: Any = args[:2]
    named: Any = {**keywords, "step": args[2]} if len(args) == 3 else keywords
    return serial(*given, **named)


def _zip(*given: Sequence[object]) -> tuple[tuple[object, ...], ...]:
    return tuple(zip(*given, strict=False))


def _enumerate(given: Sequence[object], start: int = 0) -> tuple[tuple[int, object], ...]:
    return tuple(enumerate(given, start))


def _reverse(given: Sequence[object]) -> tuple[object, ...]:
    return tuple(reversed(given))


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "range": range,
    "len": len,
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "tuple": tuple,
    "list": list,
    "round": round,
    "sum": sum,
    "sorted": sorted,
    "divmod": divmod,
    "any": any,
    "all": all,
    "zip": _zip,
    "enumerate": _enumerate,
    "reversed": _reverse,
}
PLAIN_FUNCTIONS: Final = {name: PlainFunction(name, f) for name, f in _FUNCTIONS.items()}


def _describe(value: object) -> str | None:
    return f"the Python function {value.name}" if isinstance(value, PlainFunction) else None


add_describer(_describe)
