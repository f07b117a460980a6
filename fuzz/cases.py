"""Programs as users write them, with arguments and what an independent reference expects.

A generator of one family of programs is a module of this package with a function
``draw(seed: int) -> Case``; equal seeds give equal cases.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loomir.ir.module import IRModule

__all__ = ["Case"]


class Case(NamedTuple):
    """A program, one call of it, and what that call must leave in its arguments.

    Inputs of floats hold small integers, so that every sum is exact in any order and results are
    compared bit for bit; only families that call functions such as ``exp`` set ``ulps``.
    """

    family: str
    seed: int
    module: IRModule
    entry: str
    arguments: tuple[Any, ...]
    """Arrays and scalars by position; outputs hold garbage. A graph has its inputs alone."""
    expected: tuple[Any, ...]
    """For each argument the array after the call, or None where it is a scalar; a graph's results
    instead, flattened, where ``entry`` is a graph. Computed by NumPy or Python, never by Loomir."""
    ulps: int = 0
    """By how many units in the last place a float result may differ."""
