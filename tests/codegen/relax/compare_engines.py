"""Graphs run both ways: interpreted and compiled, which must agree in values and in mistakes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import loomir
from loomir.ir.module import IRModule
from loomir.relax import Function
from loomir.support.diagnostics import RunError

__all__ = ["agree", "compiled", "fails", "same"]


def impure(program: Any) -> Any:
    """Declare that functions may have effects, so that they may call packed functions."""
    if isinstance(program, Function):
        f = program
        return Function(f.params, f.body, f.ret_struct_info, False, f.attrs, span=f.span)
    if isinstance(program, IRModule):
        return program.with_functions({v: impure(f) for v, f in program.functions.items()})
    return program


def compiled(program: Any, name: str = "main") -> Callable[..., Any]:
    """Compile a program and give a function of it."""
    function: Callable[..., Any] = loomir.compile(impure(program))[name]
    return function


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, and of one kind."""
    if isinstance(a, np.ndarray):
        return type(b) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b, True)
    if isinstance(a, tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.generic):
        return type(a) is type(b) and (a == b or (a != a and b != b))
    if callable(a):
        return callable(b)
    return bool(a == b) and type(a) is type(b)


def agree(program: Any, *args: Any) -> Any:
    """Run both ways with arguments of their own, and give the result that both have."""
    first, second = _copied(args), _copied(args)
    wanted = (
        loomir.interpret(impure(program), "main", *first)
        if _is_module(program)
        else (loomir.interpret(impure(program), *first))
    )
    given = compiled(program)(*second)
    assert same(wanted, given), f"interpreted {wanted!r}, compiled {given!r}"
    assert same(first, second), "arguments were changed in other ways"
    return given


def fails(program: Any, *args: Any) -> str:
    """Run both ways, see that both fail alike, and give the code."""
    wanted = _failure(lambda: _interpreted(program, _copied(args)))
    function = compiled(program)
    given = _failure(lambda: function(*_copied(args)))
    assert given.diagnostics[0].code in [d.code for d in wanted.diagnostics], (wanted, given)
    assert type(given) is type(wanted)
    # Which part of an expression overflows is told by one, the whole by the other.
    if given.diagnostics[0].code >= "RUN04" and given.diagnostics[0].code != "RUN0410":
        assert given.diagnostics[0].message in [d.message for d in wanted.diagnostics]
    return given.diagnostics[0].code


def _interpreted(program: Any, args: Sequence[Any]) -> Any:
    if _is_module(program):
        return loomir.interpret(impure(program), "main", *args)
    return loomir.interpret(impure(program), *args)


def _is_module(program: Any) -> bool:
    return isinstance(program, IRModule)


def _failure(run: Callable[[], Any]) -> RunError:
    try:
        result = run()
    except RunError as error:
        return error
    raise AssertionError(f"no error, but {result!r}")


def _copied(args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(copy.deepcopy(a) if isinstance(a, (np.ndarray, tuple)) else a for a in args)
