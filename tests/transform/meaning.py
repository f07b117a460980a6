"""Check with the interpreter that a pass keeps what programs mean."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from loomir.check.tir.verify import verify
from loomir.interp import interpret
from loomir.ir.equality import assert_structural_equal
from loomir.ir.module import GlobalVar, IRModule
from loomir.ir.passes import FACTS, apply, pass_of
from loomir.script import from_source
from loomir.support.diagnostics import CompileError, RunError
from loomir.support.dtype import numpy_of
from loomir.tir.expr import IntImm
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of
from loomir.transform import LowerOptions, lower
from loomir.transform.tir.facts import LOWERED

Program: TypeAlias = IRModule | PrimFunc

HEADER = "from loomir.script import ir as I\nfrom loomir.script import tir as T\n"


def parse(text: str) -> IRModule:
    """Read a program; a lone function becomes a module, and it must be well-formed."""
    made = from_source(HEADER + text)
    mod = IRModule({GlobalVar(made.name): made}) if isinstance(made, PrimFunc) else made
    assert isinstance(mod, IRModule)
    assert not verify(mod), "\n".join(str(d) for d in verify(mod))
    return mod


def only(mod: IRModule) -> PrimFunc:
    """Return the only function of a module."""
    (func,) = mod.functions.values()
    assert isinstance(func, PrimFunc)
    return func


def arguments(func: PrimFunc, sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
    """Draw arguments; variables of shapes get what ``sizes`` says, else 5."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for p in signature_of(func).parameters:
        if p.buffer is None:
            made.append(sizes.get(p.name, 3))
            continue
        shape = [
            e.value if isinstance(e, IntImm) else sizes.get(getattr(e, "name_hint", ""), 5)
            for e in p.buffer.shape
        ]
        dtype = numpy_of(p.buffer.dtype)
        values = rng.integers(0 if p.buffer.dtype.is_uint else -50, 50, shape)
        made.append(values.astype(dtype))
    return made


def outcome(program: Program, name: str, args: list[Any]) -> tuple[list[Any], Any]:
    """Run a program on copies of the arguments: what they are afterwards, and what it gave."""
    own = [copy.deepcopy(a) for a in args]
    try:
        result: Any = interpret(program, name, *own)
    except RunError as error:
        # What was written before a failure counts as well, but for the words of the error.
        result = error.diagnostic.code
    return own, result


def assert_same_meaning(
    before: IRModule, after: IRModule, sizes: Mapping[str, int] | None = None, seed: int = 0
) -> None:
    """Check that the functions of two modules do the same with the same arguments."""
    for var, func in before.functions.items():
        assert isinstance(func, PrimFunc)
        args = arguments(func, sizes or {}, seed)
        wanted, result = outcome(before, var.name_hint, args)
        found, value = outcome(after, var.name_hint, args)
        assert result == value or (result != result and value != value), (result, value)
        for a, b in zip(wanted, found, strict=True):
            if isinstance(a, np.ndarray):
                np.testing.assert_array_equal(a, b)


def lowered(mod: IRModule, **options: Any) -> IRModule:
    """Lower with every fact checked after every pass, and hold that the meaning stays."""
    made = lower(mod, LowerOptions(**options), verify=True)
    for name in LOWERED:
        assert not list(FACTS[name](made))
    return made


def check(text: str, sizes: Mapping[str, int] | None = None, **options: Any) -> IRModule:
    """Lower a program and check that it does what it did; return the lowered module."""
    mod = parse(text)
    made = lowered(mod, **options)
    for seed in range(2):
        assert_same_meaning(mod, made, sizes, seed)
    return made


def assert_becomes(
    function: Callable[..., Any],
    before: str,
    expected: str,
    options: object = None,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Check that a pass turns one text into another, keeps its meaning, and is idempotent."""
    mod = parse(before)
    step = pass_of(function)
    made = apply(step, mod, options)
    assert not verify(made), made.script()
    for name in step.establishes:
        assert not list(FACTS[name](made)), name
    wanted = parse(expected)
    try:
        assert_structural_equal(made, wanted)
    except CompileError as error:
        raise AssertionError(f"{error}\n{made.script()}") from None
    assert apply(step, made, options) is made, "a second run changes something"
    for seed in range(2):
        assert_same_meaning(mod, made, sizes, seed)


def assert_stays(function: Callable[..., Any], text: str, options: object = None) -> None:
    """Check that a pass returns the same object if it has nothing to do."""
    mod = parse(text)
    made = apply(pass_of(function), mod, options)
    assert made is mod, made.script()
