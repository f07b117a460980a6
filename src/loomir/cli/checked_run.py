"""Run a program once with bounds checks, before it runs without them on random inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import loomir
from loomir.cli.files.source import Program
from loomir.driver import as_module
from loomir.ir.equality import structural_equal
from loomir.ir.visit import by_class
from loomir.relax.expr import Function
from loomir.tir.builtins.table import CHECKED_INDEX
from loomir.tir.expr import Call
from loomir.tir.function import PrimFunc
from loomir.transform.pipelines import LowerOptions, lower

__all__ = ["check_indices", "compile_checked"]


def check_indices(program: Program, name: str, arguments: Callable[[], Sequence[Any]]) -> None:
    """Run a function with bounds checks on copied arguments, unless all indices are proved.

    A command draws inputs at random: a program that uses them as indices could overwrite any
    memory. Errors: RUN0203, and other errors of the call.
    """
    call = compile_checked(program, name)
    if call is not None:
        call(*arguments())


def compile_checked(program: Program, name: str) -> Callable[..., object] | None:
    """Return a function with bounds checks; None if all indices are proved to be in range."""
    if not _may_leave(program):
        return None
    return loomir.compile(cast("Any", program), check_bounds=True, opt_level=1)[name]


def _may_leave(program: Program) -> bool:
    module = as_module(cast("Any", program))
    if any(isinstance(f, Function) for f in module.functions.values()):
        return True  # operators check by themselves
    functions = {v: f for v, f in module.functions.items() if isinstance(f, PrimFunc)}
    calls = (call for f in functions.values() for call in by_class(f.body).get(Call, ()))
    if any(call.op is CHECKED_INDEX for call in calls):
        return True
    loops = module.with_functions(functions)
    checked = lower(loops, LowerOptions(checked=True), verify=False)
    return not structural_equal(lower(loops, verify=False), checked)
