"""A function split into preparations, which run once, and a body, which runs in each call."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from loomir.tir.function import PrimFunc

__all__ = ["Argument", "Preparation", "PreparedBuffer", "PreparedFunction"]


class PreparedBuffer(NamedTuple):
    """A buffer that a preparation writes: the index of the preparation, and that of the buffer."""

    preparation: int
    buffer: int


Argument: TypeAlias = "int | PreparedBuffer"
"""The value of a parameter: an argument of the original function, or a prepared buffer."""


class Preparation(NamedTuple):
    """A computation done once: ``func`` takes ``arguments`` of the original, writes the rest."""

    func: PrimFunc
    arguments: tuple[int, ...]


class PreparedFunction(NamedTuple):
    """``func`` is called with ``arguments``, in their order, and computes what the original did."""

    func: PrimFunc
    arguments: tuple[Argument, ...]
    preparations: tuple[Preparation, ...]
