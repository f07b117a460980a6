"""Random programs mean the same after every pass, and every fact holds."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.choices import SeedChoices
from fuzz.program import ArraySpec, Program, bits_of, same_scalar
from fuzz.tirgen import program_of_seed
from loomir.interp import interpret
from loomir.ir.module import IRModule
from loomir.support.diagnostics import RunError
from loomir.tir import PrimFunc
from loomir.transform import LowerOptions, lower


def run(mod: IRModule, program: Program, seed: int) -> tuple[Any, str, list[Any]]:
    """Run a module: what it gives, the code of the error it ends with, and the arrays."""
    args = program.make_arguments(SeedChoices(f"arguments {seed}"))
    try:
        return interpret(mod, program.entry, *args), "", args
    except RunError as error:
        return None, error.diagnostic.code, args


def has_negative_strides(program: Program) -> bool:
    """Tell whether flat positions may be negative, which the interpreter refuses."""
    return any(isinstance(a, ArraySpec) and min(a.steps, default=0) < 0 for a in program.arguments)


def agree(program: Program, wanted: tuple[Any, str, list[Any]], found: Any) -> bool:
    if wanted[1] or found[1]:
        return wanted[1] == found[1]
    func = program.module[program.entry]
    assert isinstance(func, PrimFunc)
    dtype = getattr(func.ret_type, "dtype", None)
    if dtype is not None and not same_scalar(wanted[0], found[0], dtype):
        return False
    return all(
        bits_of(a, spec.dtype) == bits_of(b, spec.dtype)
        for spec, a, b in zip(program.arguments, wanted[2], found[2], strict=True)
        if isinstance(spec, ArraySpec) and spec.tolerance == 0
    )


@pytest.mark.parametrize("first", range(0, 60, 10))
@pytest.mark.parametrize("checked", [False, True])
def test_every_pass_keeps_the_meaning(first: int, checked: bool):
    for seed in range(first, first + 10):
        program = program_of_seed(seed)
        if has_negative_strides(program):
            continue
        wanted = run(program.module, program, seed)
        stages: list[tuple[str, IRModule]] = []
        lower(
            program.module,
            LowerOptions(checked=checked),
            on_stage=lambda name, mod, to=stages: to.append((name, mod)),
            verify=True,
        )
        before: IRModule | None = program.module
        for name, mod in stages:
            if mod is not before:
                assert agree(program, wanted, run(mod, program, seed)), (seed, name)
            before = mod
