"""The process that schedules programs and runs them; engines say of which family, how, for what.

    contractions interpreted sapphirerapids haswell

``interpreted`` runs scheduled loops for any machine, ``native`` compiled code for this one.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import loomir
from fuzz.cases import Case, flat_results, fresh, is_graph, outcome
from fuzz.choices import SeedChoices
from fuzz.exactly import differs, has_floats, kernels_differ
from fuzz.families import FAMILIES
from fuzz.native import quick_codegen, set_threads
from fuzz.reach import Recorder
from fuzz.serving import answer_of, complaints, serve
from fuzz.small import small
from loomir.autoschedule.schedule import schedule_function, schedule_module
from loomir.interp import interpret
from loomir.ir.module import IRModule
from loomir.target import Target
from loomir.target.host import features_here, host
from loomir.target.table import CPUS, EXTENSIONS
from loomir.tir.function import PrimFunc
from loomir.transform.relax.legalize_ops import legalize_ops

__all__ = ["REACH", "WAYS", "answer", "main", "runs_here"]

REACH: Final = "LOOMIR_FUZZ_REACH"
"""The variable of the environment that asks which lines are reached."""
_RECORDER: Final = Recorder()
_KERNELS: Final = 0.15
"""The share of graphs of which each kernel is also looked at by itself."""
_ROUNDED: Final = 0.3
"""The share of programs of floats that also run as they round, held to the reference."""
_SMALL: Final = 0.7
"""The share of programs that are scheduled as if caches and panels were small."""
_LEVELS: Final = ((2.0, 0), (6.0, 2), (1.0, 1), (1.0, 3))
_GRAPH_LEVELS: Final = ((7.0, 0), (2.0, 2), (0.5, 1), (0.5, 3))
"""How often code is optimised how much; 0 leaves LLVM's passes out."""


def runs_here(name: str) -> bool:
    """Whether code for a target runs on this machine."""
    if name == "native":
        return True
    row, here, flags = CPUS[name], host(), features_here()
    same = row.triple.split("-")[0] == here.triple.split("-")[0]
    wide = row.vector_bits <= here.vector_bits and (not row.fma or here.fma)
    return same and wide and all(flags.get(EXTENSIONS[e]) for e in row.extensions)


def _sizes(case: Case, name: str) -> AbstractContextManager[Target]:
    """Draw sizes of caches for a target, or take those that it has."""
    choices = SeedChoices(f"sizes {case.seed} {name}")
    return small(choices, name) if choices.chance(_SMALL) else nullcontext(Target(name))


def _recorded() -> AbstractContextManager[None]:
    """Record what runs of the rules of schedules, where somebody asked for it."""
    return _RECORDER if REACH in os.environ else nullcontext()


def _loops(case: Case) -> IRModule:
    return legalize_ops(case.module) if is_graph(case) else case.module


def _said(case: Case, run: Callable[..., Any]) -> str:
    """Run a case on fresh arguments, and judge what comes of it."""
    arguments = [fresh(argument) for argument in case.arguments]
    result = run(*arguments)
    return outcome(case, flat_results(result) if is_graph(case) else arguments)


def _interpreted(case: Case, name: str) -> str:
    """Hold scheduled loops to the reference, and without rounding to the loops as written."""
    with _sizes(case, name) as target, _recorded():
        made = schedule_module(_loops(case), target)
    exact = has_floats(case)
    if not exact or is_graph(case) or SeedChoices(f"rounded {case.seed} {name}").chance(_ROUNDED):
        said = _said(case, lambda *arguments: interpret(made, case.entry, *arguments))
        if said or not exact:
            return said
    if is_graph(case):
        if not SeedChoices(f"kernels {case.seed} {name}").chance(_KERNELS):
            return ""
        with _sizes(case, name) as target:
            return kernels_differ(case, target)
    return differs(case, made)


def _native(case: Case, name: str) -> str:
    graph = is_graph(case)
    levels = _GRAPH_LEVELS if graph else _LEVELS
    level = SeedChoices(f"level {case.seed} {name}").weighted(levels)
    if level or graph:
        with nullcontext() if level else quick_codegen(any_level=True):
            with _sizes(case, name) as target, _recorded():
                exe = loomir.compile(case.module, target, opt_level=level or 1, cache=False)
            how = f"opt_level {level}" if level else "without optimising"
            return _by_threads(case, exe, how)
    with _sizes(case, name) as target, _recorded():
        made = schedule_module(case.module, target)
    with quick_codegen():
        exe = loomir.compile(made, name, schedule=False, opt_level=0, cache=False)
        return _by_threads(case, exe, "without optimising")


def _by_threads(case: Case, exe: Any, how: str) -> str:
    for threads in (1, 2):
        set_threads(threads)
        said = _said(case, exe[case.entry])
        if said:
            return f"{how}, {threads} threads: {said}"
    return ""


WAYS: Final[Mapping[str, Callable[[Case, str], str]]] = {
    "interpreted": _interpreted,
    "native": _native,
}
"""How programs are run; each way takes a case and a target, and says what is wrong."""


def _rules(case: Case, name: str) -> set[str]:
    """List the rules that take parts of a program."""
    found: set[str] = set()
    with _sizes(case, name) as target:
        for func in _loops(case).functions.values():
            if isinstance(func, PrimFunc):
                found |= {plan.kind for plan in schedule_function(func, target).plans}
    return found


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Draw the case of a seed, and run it for each target."""
    family, way, *names = engines
    started = time.process_time()
    case = FAMILIES[family](seed)
    spent = {"draw": time.process_time() - started}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = complaints(names, lambda name: WAYS[way](case, name), spent)
        kinds = set[str]() if found else _rules(case, names[0])
    reply = answer_of(seed, names, found, kinds, spent)
    return {**reply, "reach": _RECORDER.new()} if REACH in os.environ else reply


def main() -> None:
    """Answer requests until there are no more."""
    serve(answer)


if __name__ == "__main__":
    main()
