"""``I``: modules, as ``from loomir.script import ir as I``."""

from __future__ import annotations

from typing import TypeVar

from loomir.ir.module import IRModule
from loomir.script.builder.expressions import global_var as GlobalVar
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.function import module_attrs, module_global_infos, vdevice
from loomir.script.parser.entry import ir_module

_V = TypeVar("_V")


def meta_var(value: _V) -> _V:
    """Return the value; in a program, name a value at parse time."""
    return value


__all__ = [
    "GlobalVar",
    "IRBuilder",
    "IRModule",
    "ir_module",
    "meta_var",
    "module_attrs",
    "module_global_infos",
    "vdevice",
]
