"""TVMScript: programs as text, in Python syntax.

``from loomir.script import ir as I, tir as T, relax as R`` imports the decorators and the names
that programs use; ``from_source`` reads a program from a string. Importing this package makes
``str(node)`` print programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loomir.script import ir, tir
from loomir.script.builder.attribute_values import set_index_reader
from loomir.script.builder.frame import IRBuilder
from loomir.script.parser.entry import from_source, parse
from loomir.script.parser.evaluate.namespaces import set_relax
from loomir.script.parser.whole_file import parse_file
from loomir.support.fork_safe import import_module
from loomir.support.printing import set_printer

if TYPE_CHECKING:
    from loomir.script import printer, relax

tirx = tir
"""The other name of ``tir``."""

__all__ = [
    "IRBuilder",
    "from_source",
    "ir",
    "parse",
    "parse_file",
    "printer",
    "relax",
    "tir",
    "tirx",
]


# The printer and Relax are loaded when they are first needed: many programs have only kernels.
def __getattr__(name: str) -> Any:
    if name in ("printer", "relax"):
        return import_module(f"loomir.script.{name}")
    raise AttributeError(f"module 'loomir.script' has no attribute {name!r}")


def _print(node: object, *, constants: str) -> str:
    return __getattr__("printer").script(node, constants=constants)


set_printer(_print)
set_relax(lambda: import_module("loomir.script.parser.relax.names"))
set_index_reader(lambda: import_module("loomir.relax.operator.index_text").index_text)
