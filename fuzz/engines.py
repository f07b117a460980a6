"""Ways to run a program, and whether two of them agree."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import loomir
import loomir.script
from fuzz.choices import SeedChoices
from fuzz.kinds import kinds_of
from fuzz.program import ArraySpec, Program, bits_of, same_scalar
from loomir.interp import Interpreter
from loomir.ir.module import IRModule
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType
from loomir.tir import PrimFunc, PrimType
from loomir.transform.pipelines import LowerOptions, lower

__all__ = ["ENGINES", "Engine", "Outcome", "disagreement", "reference"]


@dataclass
class Outcome:
    """What a run gave: the kind of error, or the result; and the arrays as they are then."""

    error: str
    result: Any
    arrays: list[Any]
    text: str = ""


Engine = Callable[[IRModule, str, list[Any]], Any]
"""Runs a function on arguments, which it changes; raises RunError as compiled code does."""


def _interpret(module: IRModule, entry: str, args: list[Any]) -> Any:
    return Interpreter(module).call(entry, args, {})


def _watched(module: IRModule, entry: str, args: list[Any]) -> Any:
    return Interpreter(module, track=True).call(entry, args, {})


def _lowered(module: IRModule, entry: str, args: list[Any]) -> Any:
    return Interpreter(lower(module, verify=True), flat=True).call(entry, args, {})


def _lowered_checked(module: IRModule, entry: str, args: list[Any]) -> Any:
    lowered = lower(module, LowerOptions(checked=True), verify=True)
    return Interpreter(lowered, flat=True).call(entry, args, {})


def _reparsed(module: IRModule, entry: str, args: list[Any]) -> Any:
    if "BufferRealize" in kinds_of(module):  # which has no text
        return _interpret(module, entry, args)
    again = loomir.script.from_source(module.script())
    return _interpret(again, entry, args)


def _native(**options: Any) -> Engine:
    def run(module: IRModule, entry: str, args: list[Any]) -> Any:
        return loomir.compile(module, cache=False, **options)[entry](*args)

    return run


ENGINES: dict[str, Engine] = {
    "native": _native(),
    "native-O0": _native(opt_level=0),
    "native-O3": _native(opt_level=3),
    "native-checked": _native(check_bounds=True),
    "lowered": _lowered,
    "lowered-checked": _lowered_checked,
    "reparsed": _reparsed,
    "watched": _watched,
}


def run_with(engine: Engine, program: Program, module: IRModule, seed: int) -> Outcome:
    """Run a module on the arguments; errors of the run are outcomes, others are raised."""
    args = program.make_arguments(SeedChoices(seed))
    arrays = [a for a, s in zip(args, program.arguments, strict=True) if isinstance(s, ArraySpec)]
    try:
        with np.errstate(all="ignore"):
            result = engine(module, program.entry, args)
    except RunError as error:
        return Outcome(error.diagnostic.code, None, arrays, error.diagnostic.message)
    return Outcome("", result, arrays)


def reference(program: Program, module: IRModule, seed: int) -> Outcome:
    """Run a module by the definition of the language."""
    return run_with(_interpret, program, module, seed)


def disagreement(program: Program, wanted: Outcome, got: Outcome) -> str:
    """Say how two outcomes differ; empty where they agree."""
    if wanted.error != got.error:
        said = got.text or got.result
        return f"error {got.error or 'none'} instead of {wanted.error or 'none'}: {said}"
    if wanted.error:
        return ""  # what was written before an error depends on the order of independent work
    dtype = _returned(program)
    if dtype is not None and not same_scalar(wanted.result, got.result, dtype):
        return f"returned {got.result!r} instead of {wanted.result!r}"
    specs = [s for s in program.arguments if isinstance(s, ArraySpec)]
    for spec, a, b in zip(specs, wanted.arrays, got.arrays, strict=True):
        if bits_of(a, spec.dtype) == bits_of(b, spec.dtype):
            continue
        for place in np.ndindex(a.shape):
            x, y = a[place], b[place]
            if not _close(x, y, spec):
                return f"{spec.name}{list(place)} is {y!r} instead of {x!r}"
    return ""


def _returned(program: Program) -> DataType | None:
    func = program.module[program.entry]
    assert isinstance(func, PrimFunc)
    return func.ret_type.dtype if isinstance(func.ret_type, PrimType) else None


def _close(x: Any, y: Any, spec: ArraySpec) -> bool:
    if not spec.dtype.is_float:
        return bool(x == y)
    if np.isnan(x) or np.isnan(y):
        return bool(np.isnan(x) and np.isnan(y))
    if not spec.tolerance:
        return x.tobytes() == y.tobytes()
    return abs(_order(x, spec.dtype) - _order(y, spec.dtype)) <= spec.tolerance


def _order(x: Any, dtype: DataType) -> int:
    """Give the place of a float among all of its dtype."""
    code = {16: "h", 32: "i", 64: "q"}[dtype.bits]
    (n,) = struct.unpack(f"<{code}", x.tobytes())
    return n if n >= 0 else -(1 << (dtype.bits - 1)) - n
