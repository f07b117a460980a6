"""A program of ``benchmarks.as_written``: loops, arguments, and the result by NumPy."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from numpy.random import Generator

from loomir.script import from_source
from loomir.tir.function import PrimFunc

__all__ = ["Arrays", "Program", "floats", "read"]

Arrays: TypeAlias = "list[Any]"


class Program(NamedTuple):
    """A kernel of plain loops; its last parameter is the result."""

    arrays: str
    body: str
    inputs: Callable[[Generator], Arrays]
    """Draws all arguments but the last one."""
    reference: Callable[..., Any]
    """Computes the result with NumPy (or PyTorch, where the text says so), from the inputs."""
    direct: bool = True
    """Whether the reference is what a user would call, so that its time says something."""
    tolerance: float = 1e-4


_HEAD: Final = "from loomir.script import tir as T\n@T.prim_func\ndef kernel({arrays}):\n"


def read(program: Program) -> PrimFunc:
    """Read the kernel of a program."""
    body = textwrap.indent(program.body.strip("\n"), "    ")
    func = from_source(_HEAD.format(arrays=program.arrays) + body + "\n")
    assert isinstance(func, PrimFunc)
    return func


def floats(*shape: int) -> Callable[[Generator], Arrays]:
    """Draw one array of float32."""
    return lambda rng: [rng.standard_normal(shape, "float32")]
