"""List the kinds of nodes in a program, for the coverage report of a campaign."""

from __future__ import annotations

from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.visit import pre_order
from loomir.tir import Call, For, IterVar

__all__ = ["kinds_of"]


def kinds_of(module: IRModule) -> list[str]:
    """List the kinds of nodes, each once; builtins, loops and iterators by what they are."""
    found: set[str] = set()
    for func in module.functions.values():
        for part in pre_order(func):
            if isinstance(part, Call):
                name = "function" if isinstance(part.op, GlobalVar) else part.op.name
                found.add(f"call {name.removeprefix('tir.')}")
            elif isinstance(part, For):
                found.add(f"For {part.kind.value}")
            elif isinstance(part, IterVar):
                found.add(f"IterVar {part.iter_type.value}")
            else:
                found.add(type(part).__name__)
    return sorted(found)
