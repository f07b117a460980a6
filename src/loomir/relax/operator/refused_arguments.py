"""Say what an operator was given: a value that it does not take, tensors in place of a tuple."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir.ir.node import Node
from loomir.relax.expr import Tuple
from loomir.relax.node import Expr
from loomir.support.runtime_types import show_value
from loomir.tir.rules import refuse

__all__ = ["refuse_loose_tensors", "show_given"]


def show_given(value: Any) -> str:
    """Write a value for a message."""
    kind = getattr(value, "kind", None)  # objects of Python's in the parser
    if isinstance(kind, str):
        return kind
    return str(value) if isinstance(value, Node) else show_value(value)


def refuse_loose_tensors(op: str, args: Sequence[Any]) -> None:
    """Refuse ``concat(x, w)``, which is ``concat((x, w))``. Errors: OPS0001."""
    loose: list[Any] = []
    for arg in args:
        if not isinstance(arg, Expr) or isinstance(arg, Tuple):
            break
        loose.append(arg)
    if len(loose) < 2:
        return
    names = [getattr(arg, "name_hint", "...") for arg in loose]
    rest = "".join(f", {show_value(arg)}" for arg in args[len(loose) :])
    refuse(
        "OPS0001",
        f"{op} takes a tuple of tensors, not {len(loose)} tensors one by one",
        help=f"write {op}(({', '.join(names)}){rest})",
    )
