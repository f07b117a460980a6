"""What generating code gives, as data that a process may read without the code generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from loomir.relax.struct_info import FuncStructInfo
    from loomir.runtime.fault import Fault
    from loomir.runtime.graph.function import Signature
    from loomir.support.array import Array
    from loomir.support.span import Span
    from loomir.tir.expr import Var as ShapeVar

__all__ = [
    "ENTER",
    "FUNCTION",
    "PACKED_CODE",
    "FunctionCheck",
    "FunctionInfo",
    "Generated",
    "Graph",
    "Part",
    "Timed",
]

ENTER: Final = "loomir_enter"
"""The function through which Python calls any function on objects."""
FUNCTION: Final = "loomir_function"
"""The function that gives the public functions of a module by their number."""
PACKED_CODE: Final = "loomir_packed"
"""The code of all packed functions; objects that Python makes refer to it as well."""


class Timed(NamedTuple):
    """A kernel that is timed, and the names of the sizes in its records."""

    name: str
    sizes: tuple[str, ...]


class FunctionInfo(NamedTuple):
    """What is known of a function, and which captured item each shape variable in it is."""

    info: FuncStructInfo
    captured: tuple[tuple[ShapeVar, int], ...] = ()
    names: tuple[str, ...] = ()
    """Of its parameters, where they have any."""
    name: str = "function"
    spans: tuple[Span | None, ...] = ()
    """Where its parameters are declared."""


class FunctionCheck(NamedTuple):
    """A place where a function must be of a signature, which some shape variables come into."""

    info: FuncStructInfo
    variables: tuple[ShapeVar, ...]
    where: str
    span: Span | None
    claim: str | None


@dataclass(frozen=True, slots=True)
class Graph:
    """What Python needs of a module's graph functions.

    ``entries`` are the names of the public ones, by number; ``numbers`` the places of functions of
    the module among ``infos``, what is known of each function that can be a value; ``sites`` those
    of the faults that their arguments cause; ``checks`` the places where functions are compared;
    ``data`` the constants that the object leaves open, by symbol; ``values`` how many come with a
    fault; ``packed`` the functions that Python runs; ``signatures`` what calls of ``infos`` need.
    """

    entries: tuple[str, ...]
    numbers: Mapping[str, int]
    sites: Mapping[int, range]
    infos: Sequence[FunctionInfo]
    checks: Sequence[FunctionCheck]
    data: Mapping[str, Array]
    values: int
    signatures: tuple[Signature, ...]
    packed: tuple[str, ...] = ()


class Part(NamedTuple):
    """A part of a module that is compiled by itself; whether its loops are shaped."""

    text: str
    shaped: bool


@dataclass(frozen=True, slots=True)
class Generated:
    """What generating gives: IR, what its faults mean, and the symbols of its public functions.

    ``externs`` maps symbols that the object leaves open to the names of the C functions meant;
    ``graph`` is what Python needs of graph functions, where there are any; ``timed`` are the
    functions that note when they ran, by the number in their records. Where loops are ``shaped``,
    LLVM has nothing to gain by rearranging them. ``parts`` are the same IR as several modules,
    where there is much of it.
    """

    text: str
    faults: tuple[Fault, ...]
    entries: Mapping[str, str]
    needs_pool: bool
    needs_callback: bool
    externs: Mapping[str, str]
    graph: Graph | None = None
    timed: tuple[Timed, ...] = ()
    shaped: bool = False
    parts: tuple[Part, ...] = ()
