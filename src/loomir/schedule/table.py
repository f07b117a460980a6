"""The table of primitives, the source of methods, traces, JSON and documentation.

The function of a primitive declares everything. Its name is the name of the method, its parameters
after the first are those of the method, and their annotations are their kinds:

- ``Loop``, ``Sblock``, ``Place``: a loop, a block, either of them; ``*loops: Loops``: several loops
- ``Sblocks``: a list of blocks
- ``Factors``: numbers, one of which may be None
- ``Int``, ``Ints``: integers; random variables, and what is computed from them, arrive as values
- ``Reals``: numbers of any kind
- ``bool``, ``str``, ``IndexMap``: one of these
- ``Value``: plain data that may contain random variables
- anything else: passed on as it is
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from loomir.schedule.state import FunctionState, Ref, State
from loomir.support.diagnostics import InternalError

__all__ = [
    "MISSING",
    "PRIMITIVES",
    "Context",
    "Factors",
    "Int",
    "Ints",
    "Kind",
    "Loop",
    "Loops",
    "Parameter",
    "Place",
    "Primitive",
    "Reals",
    "Sample",
    "Sblock",
    "Sblocks",
    "Value",
    "primitive",
    "query",
]

Loop: TypeAlias = Ref
Sblock: TypeAlias = Ref
Place: TypeAlias = Ref
Loops: TypeAlias = Ref
Sblocks: TypeAlias = list[Ref]
Factors: TypeAlias = tuple[int | None, ...]
Int: TypeAlias = int
Ints: TypeAlias = tuple[int, ...]
Reals: TypeAlias = tuple[float, ...]
Value: TypeAlias = Any


MISSING: Final = inspect.Parameter.empty


class Kind(Enum):
    """The kinds of values that parameters take."""

    LOOP = "Loop"
    BLOCK = "Sblock"
    PLACE = "Place"
    LOOPS = "Loops"
    BLOCKS = "Sblocks"
    FACTORS = "Factors"
    INT = "Int"
    INTS = "Ints"
    REAL = "Real"
    REALS = "Reals"
    BOOL = "bool"
    STR = "str"
    MAP = "IndexMap"
    VALUE = "Value"
    PLAIN = ""


class Parameter(NamedTuple):
    """A parameter of a primitive; ``default`` is ``MISSING`` where there is none."""

    name: str
    kind: Kind
    default: Any

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING


class Sample(NamedTuple):
    """The values that a primitive drew, and the decision that reproduces them."""

    values: Any
    decision: Any


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a primitive: the program, the current function, random numbers."""

    state: State
    function: FunctionState
    rng: random.Random


@dataclass(frozen=True, slots=True)
class Primitive:
    """A row of the table. A ``query`` changes nothing, so that a trace may drop it."""

    name: str
    function: Callable[..., Any]
    params: Mapping[str, Parameter]
    is_query: bool

    @property
    def doc(self) -> str:
        """The documentation: one line, then a picture."""
        return inspect.getdoc(self.function) or ""

    @property
    def is_sampling(self) -> bool:
        """Whether it draws, and its decision can be given."""
        return "decision" in self.params


PRIMITIVES: Final[dict[str, Primitive]] = {}
_F = TypeVar("_F", bound=Callable[..., Any])


def _declare(function: _F, is_query: bool) -> _F:
    name = function.__name__
    params: dict[str, Parameter] = {}
    for given in list(inspect.signature(function).parameters.values())[1:]:
        annotation = str(given.annotation).removesuffix(" | None")
        kind = next((k for k in Kind if k.value == annotation), Kind.PLAIN)
        params[given.name] = Parameter(given.name, kind, given.default)
    if name in PRIMITIVES:
        raise InternalError(f"primitive {name!r} is declared twice")
    PRIMITIVES[name] = Primitive(name, function, params, is_query)
    return function


def primitive(function: _F) -> _F:
    """Declare a primitive that edits the program."""
    return _declare(function, False)


def query(function: _F) -> _F:
    """Declare a primitive that only finds or draws something."""
    return _declare(function, True)
