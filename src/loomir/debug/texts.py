"""Compare two programs: structurally, then as text."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from loomir.ir.equality import Difference, first_difference
from loomir.ir.module import IRModule
from loomir.ir.node import Node

__all__ = ["Comparison", "compare_texts"]

_SHOWN = 200


class Comparison(NamedTuple):
    """The comparison of two programs: the first difference up to names, and a unified diff."""

    difference: Difference | None
    diff: tuple[str, ...]
    lone: tuple[str, ...] = ()
    """Functions that only one of them has, by name."""

    def say_result(self) -> str:
        """Return a few lines that say whether they are equal, and where they first differ."""
        found = self.difference
        if found is None:
            return "equal" if not self.diff else "equal up to names"
        if self.lone:
            return f"differ: only one has {', '.join(self.lone)}"
        left, right = _short(found.left), _short(found.right)
        return f"differ first at {found.path}\n  left:  {left}\n  right: {right}"


def compare_texts(
    left: IRModule, right: IRModule, names: tuple[str, str] = ("left", "right")
) -> Comparison:
    """Compare two programs."""
    before, after = left.script().splitlines(), right.script().splitlines()
    diff = difflib.unified_diff(before, after, names[0], names[1], lineterm="")
    ours, theirs = ({v.name_hint for v in mod.functions} for mod in (left, right))
    lone = tuple(sorted(ours ^ theirs))
    return Comparison(first_difference(left, right), tuple(diff), lone)


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    kind = f"{type(value).__name__} " if isinstance(value, Node) else ""
    return kind + (text if len(text) <= _SHOWN else text[:_SHOWN] + " ...")
