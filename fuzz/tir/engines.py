"""Engines that run a program, and the comparison of two of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import loomir
import loomir.script
from fuzz.choices import SeedChoices
from fuzz.native import set_threads, with_quick_codegen
from fuzz.scheduling import scheduled
from fuzz.tir.kinds import kinds_of
from fuzz.tir.metamorphic import renamed, with_dead_code
from fuzz.tir.program import INPUTS, ArraySpec, Program, bits_of, same_scalar
from loomir.interp import Interpreter
from loomir.ir.module import IRModule
from loomir.support.diagnostics import RunError
from loomir.support.dtype import DataType
from loomir.tir import PrimFunc, PrimType
from loomir.transform.pipelines import LowerOptions, lower

__all__ = [
    "ENGINES",
    "Engine",
    "Outcome",
    "Runner",
    "difference",
    "disagreement",
    "inputs_of",
    "reference",
    "run_on",
]


@dataclass
class Outcome:
    """What a run gave: the kind of error, or the result; and the arrays as they are then."""

    error: str
    result: Any
    arrays: list[Any]
    text: str = ""


Runner = Callable[[str, list[Any]], Any]
"""Runs a function on arguments, which it changes; raises RunError as compiled code does."""

Engine = Callable[[IRModule], dict[str, Runner]]
"""Prepares a module once; returns the ways to run it, by what is particular about each."""


def _interpreted(module: IRModule, **options: Any) -> Runner:
    interpreter = Interpreter(module, **options)
    return lambda entry, args: interpreter.call(entry, args, {})


def _watched(module: IRModule) -> dict[str, Runner]:
    return {"": _interpreted(module, track=True)}


def _lowered(checked: bool) -> Engine:
    def prepare(module: IRModule) -> dict[str, Runner]:
        lowered = lower(module, LowerOptions(checked=checked))
        return {"": _interpreted(lowered, flat=True)}

    return prepare


def _each_pass(checked: bool) -> Engine:
    """Run what each pass of the pipeline made of the program; all facts are checked on the way."""

    def prepare(module: IRModule) -> dict[str, Runner]:
        stages: dict[str, Runner] = {}
        seen = [module]

        def keep(name: str, made: IRModule) -> None:
            if made is not seen[-1]:
                flat = any("FlattenBuffer" in done for done in (*stages, name))
                stages[f"{len(stages) + 1} {name}"] = _interpreted(made, flat=flat)
                seen.append(made)

        lower(module, LowerOptions(checked=checked), on_stage=keep, verify=True)
        return stages

    return prepare


def _reparsed(module: IRModule) -> dict[str, Runner]:
    if "BufferRealize" in kinds_of(module):  # which has no text
        return {}
    text = module.script()
    again = loomir.script.from_source(text)
    assert isinstance(again, IRModule)
    if again.script() != text:
        raise AssertionError("the text of what was read back is another text")
    return {"": _interpreted(again)}


def _native(**options: Any) -> Engine:
    def prepare(module: IRModule) -> dict[str, Runner]:
        exe = loomir.compile(module, cache=False, **options)

        def with_threads(count: int) -> Runner:
            def run(entry: str, args: list[Any]) -> Any:
                set_threads(count)
                return exe[entry](*args)

            return run

        if "For kParallel" not in kinds_of(module):
            return {"": lambda entry, args: exe[entry](*args)}
        return {"1 thread": with_threads(1), "2 threads": with_threads(2)}

    return prepare


def _quick(**options: Any) -> Engine:
    return with_quick_codegen(_native(opt_level=0, **options))


def _changed(change: Callable[[IRModule], IRModule]) -> Engine:
    """Run another program that means the same."""
    quick = _quick()

    def prepare(module: IRModule) -> dict[str, Runner]:
        other = change(module)
        return {"interpreted": _interpreted(other), **quick(other)}

    return prepare


ENGINES: dict[str, Engine] = {
    "native": _native(),
    "native-O0": _native(opt_level=0),
    "native-O1": _native(opt_level=1),
    "native-O3": _native(opt_level=3),
    "native-checked": _native(check_bounds=True),
    "native-watched": _native(checked=True),
    "native-alias": _native(allow_alias=True),
    "quick": _quick(),
    "quick-checked": _quick(check_bounds=True),
    "quick-watched": _quick(checked=True),
    "quick-alias": _quick(allow_alias=True),
    "lowered": _lowered(checked=False),
    "lowered-checked": _lowered(checked=True),
    "each-pass": _each_pass(checked=False),
    "each-pass-checked": _each_pass(checked=True),
    "reparsed": _reparsed,
    "renamed": _changed(renamed),
    "dead-code": _changed(with_dead_code),
    "scheduled": _changed(scheduled("native")),
    "scheduled-haswell": _changed(scheduled("haswell")),
    "watched": _watched,
}
"""``native`` is what ``loomir.compile`` gives; ``quick`` leaves LLVM's passes and its slow
instruction selection out."""


Inputs = dict[str, list[Callable[[], Any]]]
"""How to make arguments of each kind anew."""


def inputs_of(program: Program, seed: int) -> Inputs:
    """Draw arguments of each kind."""
    return {how: program.drawn(SeedChoices(f"{how} {seed}"), how) for how in INPUTS}


def run_on(runner: Runner, program: Program, inputs: list[Callable[[], Any]]) -> Outcome:
    """Run on fresh arguments; errors of the run are outcomes, others are raised."""
    args = [fresh() for fresh in inputs]
    arrays = [a for a, s in zip(args, program.arguments, strict=True) if isinstance(s, ArraySpec)]
    try:
        with np.errstate(all="ignore"):
            result = runner(program.entry, args)
    except RunError as error:
        return Outcome(error.diagnostic.code, None, arrays, error.diagnostic.message)
    return Outcome("", result, arrays)


def reference(program: Program, module: IRModule, inputs: Inputs) -> dict[str, Outcome]:
    """Run a module by the definition of the language, on arguments of each kind."""
    runner = _interpreted(module)
    return {how: run_on(runner, program, fresh) for how, fresh in inputs.items()}


def difference(
    engine: Engine,
    program: Program,
    module: IRModule,
    inputs: Inputs,
    wanted: dict[str, Outcome],
) -> str:
    """Run a module in every way of an engine; says where it first gives something else."""
    for way, runner in engine(module).items():
        for how, outcome in wanted.items():
            said = disagreement(program, outcome, run_on(runner, program, inputs[how]))
            if said:
                return f"{how} arguments{', ' if way else ''}{way}: {said}"
    return ""


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
    """Return the place of a float among all of its dtype."""
    code = {16: "h", 32: "i", 64: "q"}[dtype.bits]
    (n,) = struct.unpack(f"<{code}", x.tobytes())
    return n if n >= 0 else -(1 << (dtype.bits - 1)) - n
