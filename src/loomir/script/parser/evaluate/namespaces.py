"""The namespaces ``T``, ``I``, ``R`` and ``cls`` at parse time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from loomir.ir.module import GlobalVar
from loomir.script.builder.arguments import add_describer
from loomir.script.builder.mistakes import mistake
from loomir.script.builder.tir.device_calls import DEVICE_NAMES
from loomir.script.builder.tir.table import AXIS, MODULE_NAMES, NAMES
from loomir.script.parser import doc
from loomir.script.parser.evaluate.var_table import VarTable

__all__ = [
    "BY_IMPORT",
    "FUNCTION",
    "INLINE",
    "IR_MODULE",
    "MACRO",
    "MODULES",
    "PRIM_FUNC",
    "REWRITER",
    "I",
    "Macro",
    "Marker",
    "ModuleFunction",
    "ModuleNames",
    "Namespace",
    "R",
    "T",
    "export",
    "is_exported",
    "mark",
    "namespace_of",
    "operator_of",
    "relax_reader",
    "set_relax",
]


@dataclass(frozen=True, eq=False)
class Marker:
    """A decorator; it means something to the parser and is never called."""

    name: str


PRIM_FUNC: Final = Marker("T.prim_func")
IR_MODULE: Final = Marker("I.ir_module")
MACRO: Final = Marker("T.macro")
INLINE: Final = Marker("T.inline")
FUNCTION: Final = Marker("R.function")
REWRITER: Final = Marker("R.rewriter")


@dataclass(frozen=True, eq=False)
class Namespace:
    """A name whose attributes are those of one table, and nothing else."""

    name: str
    table: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class ModuleFunction:
    """A function of the module that is being read, as ``cls.name``."""

    var: GlobalVar
    node: doc.FunctionDef
    is_relax: bool = False


@dataclass(frozen=True, eq=False)
class Macro:
    """Statements with parameters, put where it is called, under ``@T.macro`` or ``@T.inline``.

    ``names`` gives what the program's names mean in the body; without it they mean what they do
    at the call. ``around`` holds the Python scopes of the definition; None for a macro in a text.
    """

    name: str
    node: doc.FunctionDef
    around: tuple[Mapping[str, object], ...] | None
    names: Callable[[], VarTable] | None

    def __call__(self, *args: object, **keywords: object) -> None:
        """Refuse a call from Python. Errors: SCR0024."""
        raise mistake(
            "SCR0024",
            f"the macro {self.name} is called outside of a program",
            help="call it in a function under @T.prim_func",
        )


@dataclass(frozen=True, eq=False)
class ModuleNames:
    """``cls``: the functions of the module, by name; None for one that could not be read.

    Those are each a ``ModuleFunction``, or a function of Relax that is defined elsewhere.
    """

    name: str
    functions: Mapping[str, object]


def _device_names() -> dict[str, object]:
    """Return the names of instructions of GPUs, those with a dot in namespaces of their own."""
    made: dict[str, object] = {}
    parts: dict[str, dict[str, object]] = {}
    for name, function in DEVICE_NAMES.items():
        head, dot, rest = name.partition(".")
        if dot:
            parts.setdefault(head, {})[rest] = function
        else:
            made[name] = function
    return {**made, **{head: Namespace(f"T.{head}", table) for head, table in parts.items()}}


T: Final = Namespace(
    "T",
    {
        **NAMES,
        **_device_names(),
        "prim_func": PRIM_FUNC,
        "macro": MACRO,
        "inline": INLINE,
        "axis": Namespace("T.axis", AXIS),
    },
)
I: Final = Namespace("I", {**MODULE_NAMES, "ir_module": IR_MODULE})  # noqa: E741


_relax: list[Callable[[], Any]] = []


def set_relax(load: Callable[[], Any]) -> None:
    """Make ``load`` what gives the reader of Relax, which many programs do not need."""
    _relax[:] = [load]


def relax_reader() -> Any:
    """Load what reads Relax: ``parser.relax.names``."""
    return _relax[0]()


class _Relax(Mapping[str, object]):
    """The names of ``R``; what they are is loaded when the first is looked up."""

    def __getitem__(self, name: str) -> object:
        return relax_reader().TABLE[name]

    def __iter__(self) -> Iterator[str]:
        return iter(relax_reader().TABLE)

    def __len__(self) -> int:
        return len(relax_reader().TABLE)


R: Final = Namespace("R", _Relax())

MODULES: Final[dict[str, Namespace]] = {
    "loomir.script.tir": T,
    "loomir.script.ir": I,
    "loomir.script.relax": R,
}
"""Python's modules and what they stand for."""

BY_IMPORT: Final[dict[str, Namespace]] = {"tir": T, "tirx": T, "ir": I, "relax": R}
"""What ``from loomir.script import …`` gives in a text."""

_OPERATORS: Final = frozenset(("Operator", "Part"))
_EXPORTED: Final = {
    id(value) for table in (NAMES, AXIS, MODULE_NAMES, DEVICE_NAMES) for value in table.values()
}
_MARKED: Final[dict[int, Marker]] = {}


def is_exported(value: object) -> bool:
    """Whether a value is one of the functions that programs may call."""
    return id(value) in _EXPORTED


def export(value: object) -> None:
    """Let programs call a function; it must live as long as the process."""
    _EXPORTED.add(id(value))


def mark(decorator: object, marker: Marker) -> None:
    """Say what a decorator means where it was imported by its own name."""
    _MARKED[id(decorator)] = marker


def namespace_of(value: object) -> Any:
    """Return what a captured module or decorator of ours stands for, else None."""
    if isinstance(value, ModuleType):
        return MODULES.get(value.__name__)
    return _MARKED.get(id(value))


def operator_of(value: object) -> object:
    """Return what a captured operator of ``R``, or a part of ``R`` such as ``R.nn``, is; else None.

    It is found by its class, which no class of others is derived from: nothing of it is called.
    """
    return relax_reader().operator_of(value) if type(value).__name__ in _OPERATORS else None


def _describe(value: object) -> str | None:
    if isinstance(value, Marker):
        return f"the decorator {value.name}"
    if isinstance(value, Namespace):
        return f"the namespace {value.name}"
    if isinstance(value, ModuleFunction):
        return f"the function {value.var.name_hint!r}"
    return f"the macro {value.name!r}" if isinstance(value, Macro) else None


add_describer(_describe)
