"""Engines that run a graph, transformations that preserve its meaning, and invariants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, get_args

import numpy as np

import loomir
import loomir.script
from fuzz.choices import Choices, SeedChoices
from fuzz.native import set_threads, with_quick_codegen
from fuzz.relax.equivalent_graphs import inlined, renamed, with_dead_code
from fuzz.relax.ill_formed import accepted_defect, accepted_mistake
from fuzz.relax.program import EXACT, RelaxProgram, values_differ, wrongly_described
from loomir.driver import choose_packing
from loomir.ir.equality import structural_equal
from loomir.ir.module import IRModule
from loomir.ir.passes import PASSES, apply
from loomir.ir.serialize import from_json, to_json
from loomir.relax import Function, TensorStructInfo
from loomir.relax.normal.normalize import normal_form_violations, normalize
from loomir.support.diagnostics import RunError
from loomir.target import Target
from loomir.tir import Var as ShapeVar
from loomir.transform.pipelines import lower_relax
from loomir.transform.relax.bindings.dead_code_elimination import dead_code_elimination
from loomir.transform.relax.bindings.topological_sort import (
    Direction,
    Order,
    TopologicalSortOptions,
)

__all__ = ["CHECKS", "ENGINES", "Outcome", "disagreement", "outcome_of", "reference", "trouble"]


@dataclass
class Outcome:
    """What a run gave: the code of its error, or its result, and what it left of its arguments."""

    error: str
    result: Any
    text: str = ""
    arguments: tuple[Any, ...] = ()


Runner = Callable[..., Any]
"""Calls ``main``."""


def outcome_of(runner: Runner, program: RelaxProgram) -> Outcome:
    """Run on fresh arguments; errors of the run are outcomes, others are raised."""
    try:
        with np.errstate(all="ignore"):
            arguments = program.fresh()
            return Outcome("", runner("main", arguments), arguments=tuple(arguments))
    except RunError as error:
        return Outcome(error.diagnostic.code, None, str(error))


def reference(program: RelaxProgram) -> Outcome:
    """Run by the definition of the language."""
    return outcome_of(_interpreted(program.module), program)


def _interpreted(module: IRModule) -> Runner:
    return lambda entry, args: loomir.interpret(module, entry, *args)


def disagreement(program: RelaxProgram, wanted: Outcome, got: Outcome) -> str:
    """Say how two outcomes differ; empty where they agree."""
    if wanted.error or got.error:
        if wanted.error == got.error:
            return ""
        return (
            f"error {got.error or 'none'} instead of {wanted.error or 'none'}: "
            f"{got.text or wanted.text}"
        )
    said = values_differ(wanted.result, got.result, program.tolerances, program.closure_args)
    return said or _wrongly_written(program, wanted, got)


def _wrongly_written(program: RelaxProgram, wanted: Outcome, got: Outcome) -> str:
    """Say which argument was written to that has to stay as it is."""
    triples = zip(program.arguments, wanted.arguments, got.arguments, strict=True)
    for index, (given, stays, left) in enumerate(triples):
        if not values_differ(given, stays, EXACT) and values_differ(given, left, EXACT):
            return f"argument {index} was written to: {values_differ(given, left, EXACT)}"
    return ""


Engine = Callable[[IRModule], dict[str, Runner]]


def _native(threads: tuple[int, ...] = (2,), **options: Any) -> Engine:
    def prepare(module: IRModule) -> dict[str, Runner]:
        exe = loomir.compile(module, cache=False, **options)

        def with_threads(count: int) -> Runner:
            def run(entry: str, args: list[Any]) -> Any:
                set_threads(count)
                return exe[entry](*args)

            return run

        return {f"{count} threads": with_threads(count) for count in threads}

    return prepare


def _each_pass(module: IRModule) -> dict[str, Runner]:
    """Run what each pass made of the program; all facts are checked on the way."""
    stages: dict[str, Runner] = {}
    seen = [module]

    def keep(name: str, made: IRModule) -> None:
        if made is not seen[-1]:
            stages[f"{len(stages) + 1} {name}"] = _interpreted(made)
            seen.append(made)

    packing = choose_packing(Target("native"), cache=False, least=0)
    last = lower_relax(module, packing, on_stage=keep, verify=True)
    if any(name.endswith("PackConstants") for name in stages):
        packed = loomir.compile(last, cache=False)
        stages["packed"] = lambda entry, args: packed[entry](*args)
    return stages


_SINGLE_PASSES: Final = (
    "LambdaLift",
    "RemoveUnusedOutputs",
    "RemoveUnusedParameters",
    "ExpandTupleArguments",
    "InlinePrivateFunctions",
    "RemoveRedundantReshape",
    "NormalizeGlobalVar",
    "ToNonDataflow",
)
"""Passes that compiling does not run, and that keep the meaning by themselves."""
_AT_LAST: Final = (
    "LambdaLift",
    "LegalizeOps",
    "DataflowUseInplaceCalls",
    "CallTIRRewrite",
    "LowerAllocTensor",
    "KillAfterLastUse",
)
"""Passes that need one another, in their order."""


def _other_passes(module: IRModule) -> dict[str, Runner]:
    """Run what passes make of the program that compiling it leaves out; one result is compiled."""
    given = normalize(module)
    made = {name: apply(PASSES[f"relax.{name}"], given) for name in _SINGLE_PASSES}
    sort = PASSES["relax.TopologicalSort"]
    for order, direction in product(get_args(Order), get_args(Direction)):
        options = TopologicalSortOptions(order, direction)
        made[f"TopologicalSort {order} {direction}"] = apply(sort, given, options)
    last = given
    for name in _AT_LAST:
        last = made[f"{name} at last"] = apply(PASSES[f"relax.{name}"], last)
    for name, other in made.items():
        found = [d for d in loomir.verify(other) if d.severity == "error"]
        if found and other is not module:
            raise AssertionError(f"{name}: {found[0].code} {found[0].message}")
    changed = {name: _interpreted(other) for name, other in made.items() if other is not given}
    if last is not given:
        quick = with_quick_codegen(_native((1,), opt_level=0))
        changed.update(quick(last))
    return changed


def _reparsed(module: IRModule) -> dict[str, Runner]:
    text = module.script(constants="inline")
    again = loomir.script.from_source(text)
    assert isinstance(again, IRModule)
    if not structural_equal(again, module):
        raise AssertionError("what was read back is another program")
    if again.script(constants="inline") != text:
        raise AssertionError("the text of what was read back is another text")
    return {"": _interpreted(again)}


def _changed(change: Callable[[IRModule], IRModule]) -> Engine:
    quick = with_quick_codegen(_native((1,), opt_level=0))

    def prepare(module: IRModule) -> dict[str, Runner]:
        other = change(module)
        if other is module:
            return {}
        return {"interpreted": _interpreted(other), **quick(other)}

    return prepare


ENGINES: dict[str, Engine] = {
    "quick": with_quick_codegen(_native((1,), opt_level=0)),
    "native": _native((1, 2)),
    "native-O0": _native(opt_level=0),
    "native-O3": _native(opt_level=3),
    "each-pass": _each_pass,
    "other-passes": _other_passes,
    "reparsed": _reparsed,
    "renamed": _changed(renamed),
    "dead-code": _changed(with_dead_code),
    "inlined": _changed(inlined),
}
"""``native`` is what ``loomir.compile`` gives; ``quick`` leaves LLVM's passes out."""


# -- facts -------------------------------------------------------------------------------------
def _described(program: RelaxProgram, seed: int) -> str:
    """Whether what is derived of each value is true of it."""
    del seed
    for record in program.records:
        said = wrongly_described(record.info, record.value, record.sizes)
        if said:
            return f"{record.name}: {record.info}: {said}"
    return ""


def _well_formed(program: RelaxProgram, seed: int) -> str:
    del seed
    found = loomir.verify(program.module)
    return f"{found[0].code} {found[0].message}" if found else ""


def _normal(program: RelaxProgram, seed: int) -> str:
    """Whether the program is in normal form, and stays as it is."""
    del seed
    broken = normal_form_violations(program.module)
    if broken:
        return f"not in normal form: {broken[0]}"
    once = normalize(program.module)
    if not structural_equal(once, program.module):
        return "normalising changes it"
    return "" if normalize(once) is once else "normalising twice is not normalising once"


def _serialized(program: RelaxProgram, seed: int) -> str:
    del seed
    again = from_json(to_json(program.module))
    return "" if structural_equal(again, program.module) else "what was read back is another"


def _other_sizes(program: RelaxProgram, seed: int) -> str:
    """Whether native code agrees on tensors of other extents, where the program leaves these open.

    What holds of the first ones may fail for others: then both must say so.
    """
    other = _resized(program, SeedChoices(f"sizes {seed}")) if program.exact else None
    if other is None:
        return ""
    wanted = reference(other)
    for way, runner in ENGINES["quick"](other.module).items():
        got = outcome_of(runner, other)
        said = disagreement(other, wanted, got)
        if said and wanted.error:
            # What nothing uses in a dataflow block goes, even where it fails.
            used = dead_code_elimination(normalize(other.module))
            said = disagreement(other, outcome_of(_interpreted(used), other), got)
        if said:
            return f"{way}: {said}: {other.arguments}"
    return ""


def _resized(program: RelaxProgram, choices: Choices) -> RelaxProgram | None:
    """Draw other arguments; None where no size is open."""
    main = program.module["main"]
    assert isinstance(main, Function)
    sizes: dict[Any, int] = {}
    arguments: list[Any] = []
    for param, old in zip(main.params, program.arguments):
        info = param.struct_info
        assert isinstance(info, TensorStructInfo)
        shape = [
            sizes.setdefault(d, choices.integer(0, 4)) if isinstance(d, ShapeVar) else n
            for d, n in zip(info.dims or (), old.shape)
        ]
        count = int(np.prod(shape, dtype=np.int64))
        pool = old.reshape(-1) if old.size else np.zeros(1, old.dtype)
        picked = [choices.integer(0, pool.size - 1) for _ in range(count)]
        arguments.append(pool[np.array(picked, dtype=np.int64)].reshape(shape))
    return replace(program, arguments=arguments) if sizes else None


CHECKS: dict[str, Callable[[RelaxProgram, int], str]] = {
    "described": _described,
    "well-formed": _well_formed,
    "normal": _normal,
    "serialized": _serialized,
    "ill-formed": accepted_defect,
    "mistaken": accepted_mistake,
    "other-sizes": _other_sizes,
}
"""What else can be asked about a program; each says what is wrong."""


def trouble(name: str, program: RelaxProgram, seed: int, wanted: Outcome) -> str:
    """Say how an engine or a check disagrees with the interpreter; empty where it does not."""
    if name in CHECKS:
        return CHECKS[name](program, seed)
    for way, runner in ENGINES[name](program.module).items():
        said = disagreement(program, wanted, outcome_of(runner, program))
        if said:
            return f"{way}: {said}" if way else said
    return ""
