"""Run graphs twice, by the interpreter and as native code, and hold the two to be equal.

A program is TVMScript text, or nodes. In a text that is refused, or that fails when it runs, the
comment ``# <--`` stands on the line that the error must point to.
"""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.check.relax.verify import warnings_of
from loomir.ir.module import BaseFunc, IRModule
from loomir.relax import Binding, Function, SeqExpr
from loomir.runtime.packed.registry import register_func, remove_func
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, Diagnostic, RunError
from tests.codegen.relax.compare_engines import same

Program = str | BaseFunc | IRModule
F32 = 'R.Tensor((4,), "float32")'


# -- texts ---------------------------------------------------------------------------------------
def graph(
    signature: str, *lines: str, pure: bool = False, ret: str = "", name: str = "main"
) -> str:
    """Write a function: its parameters and its statements."""
    head = f"@R.function(pure={pure})\ndef {name}({signature})"
    head += f" -> {ret}:\n" if ret else ":\n"
    return head + "".join(f"    {line}\n" for line in lines)


def module(*parts: str) -> str:
    """Write a module of functions and what else stands in its class."""
    body = "\n".join(textwrap.dedent(part).strip("\n") for part in parts)
    return "@I.ir_module\nclass Module:\n" + textwrap.indent(body, "    ")


def read(program: Program) -> Any:
    """Read a text; nodes stay what they are."""
    return from_source(program) if isinstance(program, str) else program


def bindings(program: Program) -> list[Binding]:
    """List what a function binds, without what stands in branches and closures."""
    made = read(program)
    assert isinstance(made, Function)
    assert isinstance(made.body, SeqExpr)
    return [b for block in made.body.blocks for b in block.bindings]


def known(program: Program) -> str:
    """Return what is known of a function's result, as written."""
    return str(read(program).ret_struct_info)


def marked_line(program: Program) -> int | None:
    """Return the number of the line that carries ``# <--``."""
    if not isinstance(program, str):
        return None
    found = [n for n, line in enumerate(program.splitlines(), start=1) if "# <--" in line]
    return found[0] if found else None


# -- programs that run ---------------------------------------------------------------------------
def ways(program: Program, name: str = "main") -> list[Callable[..., Any]]:
    """Return a function as the interpreter and as native code run it."""
    made, compiled = prepared(program)
    is_function = not isinstance(made, IRModule)

    def interpreted(*args: Any) -> Any:
        return loomir.interpret(made, *(() if is_function else (name,)), *args)

    return [interpreted, compiled[name]]


def prepared(program: Program) -> tuple[Any, loomir.Executable]:
    """Read and compile a program; a text that comes again is compiled once."""
    if isinstance(program, str):
        return _prepared_text(program)
    return program, loomir.compile(program, cache=False)


@lru_cache(maxsize=64)
def _prepared_text(text: str) -> tuple[Any, loomir.Executable]:
    made = from_source(text)
    return made, loomir.compile(made, cache=False)


def both(program: Program, *args: Any, name: str = "main") -> Any:
    """Run a program both ways on copies of the arguments; return what both agree on."""
    ours, theirs = copied(args), copied(args)
    oracle, native = ways(program, name)
    wanted, given = oracle(*ours), native(*theirs)
    assert same(wanted, given), f"native gives {given!r}, the interpreter {wanted!r}"
    assert same(ours, theirs), f"native leaves {theirs!r}, the interpreter {ours!r}"
    return given


def fails(code: str, program: Program, *args: Any, name: str = "main") -> Diagnostic:
    """Check that a program fails at run time: compiled and interpreted, with one message and place."""
    found: list[RunError] = []
    for run in ways(program, name):
        with pytest.raises(RunError) as caught:
            run(*copied(args))
        found.append(caught.value)
    oracle, native = found
    assert type(oracle) is type(native), (oracle, native)
    first, other = oracle.diagnostic, native.diagnostic
    assert first.code == code, str(oracle)
    assert other.code == code, str(native)
    if code != "RUN0410":  # one tells the part of an expression that overflows, the other the whole
        assert other.message == first.message
    line = marked_line(program)
    for one in (first, other):
        if line is not None:
            assert one.span is not None, str(oracle)
            assert one.span.line == line, str(oracle)
    return first


def copied(args: Sequence[Any]) -> tuple[Any, ...]:
    """Copy arguments that a program may write to; one that comes twice is one still."""
    return copy.deepcopy(tuple(args)) if all(map(_plain, args)) else tuple(args)


def _plain(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic, int, float, str, tuple))


# -- programs that are refused -------------------------------------------------------------------
def refused(code: str, program: Program) -> Diagnostic:
    """Check that a program is refused before it runs, and where; return the first mistake."""
    with pytest.raises(CompileError) as caught:
        loomir.compile(read(program), cache=False)
    first = caught.value.diagnostic
    assert first.code == code, str(caught.value)
    assert first.help
    line = marked_line(program)
    if line is not None:
        assert first.span is not None, str(caught.value)
        assert first.span.line == line, str(caught.value)
    return first


def mistakes(program: Program) -> list[str]:
    """Return the codes of what ``loomir.verify`` finds."""
    return [d.code for d in loomir.verify(read(program))]


def warnings(program: Program) -> list[str]:
    """Return the codes of what is left to run time, or is odd."""
    return [d.code for d in warnings_of(read(program))]


# -- functions of Python -------------------------------------------------------------------------
@contextmanager
def packed(**functions: Callable[..., Any]) -> Iterator[None]:
    """Register functions under ``test.NAME`` for a while."""
    for name, function in functions.items():
        register_func(f"test.{name}", function)
    try:
        yield
    finally:
        for name in functions:
            remove_func(f"test.{name}")


class Trace:
    """A packed function ``test.note`` that remembers the numbers it was given."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, number: Any, *values: Any) -> Any:
        self.seen.append(int(number))
        return values[0] if values else int(number)

    def of(self, program: Program, *args: Any) -> list[int]:
        """Run a program both ways; both must call in the same order."""
        orders: list[list[int]] = []
        with packed(note=self):
            for run in ways(program):
                self.seen.clear()
                run(*copied(args))
                orders.append(list(self.seen))
        assert orders[0] == orders[1]
        return orders[0]


# -- values --------------------------------------------------------------------------------------
def f32(*numbers: float) -> Any:
    """Make a vector."""
    return np.array(numbers, np.float32)


def zeros(*dims: int, dtype: str = "float32") -> Any:
    """Make a tensor."""
    return np.zeros(dims, dtype)


YES, NO = np.array(True), np.array(False)
ONES = f32(1, 1, 1, 1)
COUNT = f32(0, 1, 2, 3)
