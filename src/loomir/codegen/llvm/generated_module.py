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
    "GeneratedModule",
    "Graph",
    "Part",
    "TimedKernel",
]

ENTER: Final = "loomir_enter"
"""The function through which Python calls any function on objects."""
FUNCTION: Final = "loomir_function"
"""The function that returns the public functions of a module by number."""
PACKED_CODE: Final = "loomir_packed"
"""The code of all packed functions; objects that Python creates refer to it as well."""


class TimedKernel(NamedTuple):
    """A timed kernel, and the names of the sizes in its records."""

    name: str
    sizes: tuple[str, ...]


class FunctionInfo(NamedTuple):
    """The signature of a function value, and the captured item that holds each shape variable."""

    info: FuncStructInfo
    captured: tuple[tuple[ShapeVar, int], ...] = ()
    names: tuple[str, ...] = ()
    """The names of its parameters, if they have names."""
    name: str = "function"
    spans: tuple[Span | None, ...] = ()
    """Where its parameters are declared."""


class FunctionCheck(NamedTuple):
    """A place where a function must have a signature, which may depend on shape variables."""

    info: FuncStructInfo
    variables: tuple[ShapeVar, ...]
    where: str
    span: Span | None
    claim: str | None


@dataclass(frozen=True, slots=True)
class Graph:
    """What Python needs of a module's graph functions.

    - ``entries`` are the names of the public functions, by number.
    - ``infos`` describe each function that can be a value; ``numbers`` are the indices of the
      module's functions in them; ``signatures`` is what calls of ``infos`` need.
    - ``sites`` are the sites of the faults that arguments cause.
    - ``checks`` are the places where function values are compared with a signature.
    - ``data`` are the constants that the object does not define, by symbol.
    - ``values`` is the most values of a fault.
    - ``packed`` are the names of functions that Python runs.
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
    """A part of a module that is compiled separately; ``shaped`` as in ``GeneratedModule``."""

    text: str
    shaped: bool


@dataclass(frozen=True, slots=True)
class GeneratedModule:
    """Generated IR, the meaning of its faults, and the symbols of its public functions.

    ``externs`` maps undefined symbols to the names of C functions. ``graph`` is what Python needs
    of graph functions, if there are any. ``timed`` are the functions that record when they ran, by
    the number in their records. If loops are ``shaped``, they are vectorised already, and LLVM's
    loop passes would gain nothing. ``parts`` are the same IR as several modules, if it is large.
    """

    text: str
    faults: tuple[Fault, ...]
    entries: Mapping[str, str]
    needs_pool: bool
    needs_callback: bool
    externs: Mapping[str, str]
    graph: Graph | None = None
    timed: tuple[TimedKernel, ...] = ()
    shaped: bool = False
    parts: tuple[Part, ...] = ()
