"""List the builtins that a generator may call, by asking their constructors.

A new row of ``tir.BUILTINS`` is generated from then on, or listed in ``BY_HAND`` with the reason.
"""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from loomir.interp.builtins import TOLERANCE
from loomir.ir.op import Effect
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import BOOL, DataType
from loomir.tir import BUILTINS, Var, call_builtin

__all__ = ["BY_HAND", "EVERY", "FLOATS", "INTS", "Producer", "exact_producers", "inexact_names"]

INTS: Final = [DataType(f"{s}int{b}") for s in ("", "u") for b in (8, 16, 32, 64)]
FLOATS: Final = [DataType(t) for t in ("float16", "bfloat16", "float32", "float64")]
EVERY: Final = [*INTS, *FLOATS, BOOL]
INT32: Final = DataType("int32")

BY_HAND: Final = {
    "copysign": "the sign of a NaN is open, so its second operand is never one",
    "reinterpret": "which NaN an operation gives is open, so it never reads a float",
    "if_then_else": "its condition is drawn elsewhere",
    "likely": "it goes with every dtype",
}
"""Exact builtins that the generator calls in a way of its own."""


class Producer(NamedTuple):
    """A call that gives some dtype: the builtin, and the dtypes of its arguments."""

    name: str
    args: tuple[DataType, ...]


@functools.lru_cache(maxsize=1)
def exact_producers() -> dict[DataType, list[Producer]]:
    """List the calls that give each dtype, of functions that every engine rounds alike."""
    found: dict[DataType, list[Producer]] = {dtype: [] for dtype in EVERY}
    for name, row in BUILTINS.items():
        if row.arity is None or row.op.effect is not Effect.PURE:
            continue
        if name in BY_HAND or name in TOLERANCE:
            continue
        for dtype in EVERY:
            for args in _ways(dtype, row.arity):
                result = _result(name, args)
                if result is None or result not in found:
                    continue
                # Those that do not go lane by lane are not for every place.
                wide = tuple(a.with_lanes(2) for a in args)
                if _result(name, wide) is result.with_lanes(2):
                    found[result].append(Producer(name, args))
    return found


def _ways(dtype: DataType, arity: int) -> list[tuple[DataType, ...]]:
    """List dtypes of arguments worth trying: all alike, or the last one an int32."""
    ways = [(dtype,) * arity]
    if arity > 1 and dtype is not INT32:
        ways.append((*(dtype,) * (arity - 1), INT32))
    return ways


def _result(name: str, args: tuple[DataType, ...]) -> DataType | None:
    try:
        return call_builtin(name, *(Var("x", dtype) for dtype in args)).dtype
    except CompileError:
        return None


@functools.lru_cache(maxsize=1)
def inexact_names() -> tuple[str, ...]:
    """List the functions of floats that engines may round differently."""
    return tuple(sorted(name for name in TOLERANCE if name in BUILTINS))
