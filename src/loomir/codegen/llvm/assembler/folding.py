"""Fold integer instructions on constants as they are emitted, so that LLVM has less to read."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

from loomir.codegen.llvm.assembler.values import FALSE, TRUE, Value, const

__all__ = ["fold_binary", "fold_comparison"]

_BINARY: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}
_RIGHT: Final = {"add": 0, "sub": 0, "or": 0, "xor": 0, "mul": 1, "and": -1}
"""The neutral element: the right operand of which the result is the left one."""

_COMPARISON: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}


def _number(value: Value) -> int | None:
    """Read a scalar integer constant; None for any other value."""
    text = value.text
    if text == "true":
        return -1
    if text == "false":
        return 0
    digits = text[1:] if text[0] == "-" else text
    return int(text) if digits.isdecimal() else None


def fold_binary(op: str, x: Value, y: Value) -> Value | None:
    """Fold an operation on scalar constants, or one with a neutral or absorbing operand."""
    compute = _BINARY.get(op)
    if compute is None:
        return None
    left, right = _number(x), _number(y)
    if left is not None and right is not None:
        return const(x.type, compute(left, right))
    if right is None:
        if left is None or op == "sub":
            return None
        x, right = y, left
    if right == _RIGHT[op]:
        return x
    return const(x.type, 0) if right == 0 and op in ("mul", "and") else None


def fold_comparison(predicate: str, x: Value, y: Value) -> Value | None:
    """Compare scalar constants."""
    left, right = _number(x), _number(y)
    if left is None or right is None:
        return None
    if predicate[0] == "u":
        mask = (1 << x.type.bits) - 1
        left, right = left & mask, right & mask
    holds = _COMPARISON[predicate[-2:]]
    return TRUE if holds(left, right) else FALSE
