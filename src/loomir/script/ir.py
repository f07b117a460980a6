"""``I``: modules, as ``from loomir.script import ir as I``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from loomir.ir.module import IRModule
from loomir.script.builder.expressions import global_var as GlobalVar
from loomir.script.builder.frame import IRBuilder
from loomir.script.builder.function import module_attrs, module_global_infos, vdevice
from loomir.script.parser.entry import ir_module
from loomir.support.argument_errors import refuse_missing

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

if not TYPE_CHECKING:
    __getattr__ = refuse_missing(
        "I",
        __all__,
        {
            **dict.fromkeys(("module", "Module", "irmodule"), "@I.ir_module"),
            "prim_func": "@T.prim_func",
            "function": "@R.function",
        },
    )
