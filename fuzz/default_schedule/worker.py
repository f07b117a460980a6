"""The process that schedules programs and runs them; engines name the family, the mode, targets.

    contractions interpreted sapphirerapids haswell

``interpreted`` runs scheduled loops for any machine, ``native`` compiled code for this one: each
program for one of the targets, in turn. ``unrun`` only schedules, and looks for ill-formed loops.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple

import loomir
from fuzz.choices import SeedChoices
from fuzz.default_schedule import RECORDER
from fuzz.default_schedule.constants import constants_of, packs_small, schedule_with
from fuzz.default_schedule.exact_comparison import as_written, differs, has_floats, kernels_differ
from fuzz.default_schedule.explained import explain_schedule
from fuzz.default_schedule.random_decisions import DrawnSource, new_candidates
from fuzz.default_schedule.recording_target import RecordingTarget, answers_alike
from fuzz.default_schedule.small_machines import small
from fuzz.families.cases import Case, flat_results, fresh, is_graph, outcome
from fuzz.families.table import FAMILIES
from fuzz.native import quick_codegen, set_threads
from fuzz.reach import REACH
from fuzz.serving import answer_of, complaints, serve
from loomir.autoschedule.ir.decision import decisions_from
from loomir.interp import Interpreter, interpret
from loomir.interp.machine import NumbersTooLargeError, OutOfStepsError
from loomir.ir.hashing import structural_digest
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.support.dtype import VOID
from loomir.target import Target
from loomir.target.host import features_here, host
from loomir.target.table import CPUS, EXTENSIONS
from loomir.tir.expr import IntImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.types import dtype_of_type
from loomir.transform.relax.kernels.legalize_ops import legalize_ops

__all__ = ["TOO_LARGE", "TOO_LONG", "WAYS", "answer", "main", "runs_here"]

TOO_LONG: Final = "too long"
"""What a program is counted as that is left out: it takes too many instructions."""
TOO_LARGE: Final = "numbers too large"
"""What one is counted as that is not compared without rounding: its numbers grow at each step."""
_KERNELS: Final = 0.15
"""The share of graphs of which each kernel is also looked at by itself."""
_CONSTANT: Final = 0.35
"""The share of functions that are scheduled as if some arrays never changed."""
_DIRECTED_CONSTANT: Final = 0.6
"""The share of arrays that never change of programs drawn for rules which pack constants."""
_ROUNDED: Final = 0.3
"""The share of programs of floats that also run with rounding, beside the reference."""
_SMALL: Final = 0.7
"""The share of programs that are scheduled as if caches and panels were small."""
_STEPS: Final = 60_000
"""Instructions that are interpreted of most programs: few take more, and those most of the time."""
_DIRECTED_STEPS: Final = 400_000
"""The same of programs that were drawn to fill tiles."""
_LONG: Final = 0.02
"""The share of programs that are interpreted however long they take."""
_DECIDED: Final = float(os.environ.get("LOOMIR_FUZZ_DECIDED", "0.3"))
"""The share of programs of which candidates are drawn, in place of the default schedule."""
_EXPLAINED: Final = 0.05
"""The share of programs of which schedules are explained too, step by step."""
_BOUND: Final = 0.4
"""The share of functions that are compiled with those arrays bound that never change."""
_LEVELS: Final = ((6.0, 0), (3.0, 2), (0.5, 1), (0.5, 3))
_IDIOM_LEVELS: Final = ((2.0, 0), (6.0, 2), (1.0, 1), (1.0, 3))
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
    """Draw sizes of caches and panels for a program, or take those that a target has.

    They are the same for all targets, so that many of these get the same loops.
    """
    choices = SeedChoices(f"sizes {case.seed}")
    return small(choices, name) if choices.chance(_SMALL) else nullcontext(Target(name))


class _ScheduledModule(NamedTuple):
    """Loops of a program for a target, and for those that answer the same."""

    facts: Mapping[str, Any]
    module: IRModule
    digest: bytes


class _Schedules:
    """What the rules make of a program, for each target."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.loops = legalize_ops(case.module) if is_graph(case) else case.module
        self.kinds: set[str] = set()
        """The rules that took parts of it."""
        self._made: list[_ScheduledModule] = []

    def _constants(self, func: PrimFunc) -> frozenset[Var]:
        choices = SeedChoices(f"constants {self.case.seed} {func.name}")
        if self.case.family == "directed":
            return constants_of(func, choices, _DIRECTED_CONSTANT)
        return constants_of(func, choices) if choices.chance(_CONSTANT) else frozenset()

    def of(self, name: str) -> _ScheduledModule:
        """Schedule the program, unless another target had all that the rules ask for."""
        explains = SeedChoices(f"explained {self.case.seed}").chance(_EXPLAINED)
        with _sizes(self.case, name) as target:
            for made in self._made:
                if answers_alike(made.facts, target):
                    return made
            asked = RecordingTarget(target)
            functions: dict[GlobalVar, BaseFunc] = dict(self.loops.functions)
            for var, func in functions.items():
                if isinstance(func, PrimFunc):
                    constants = self._constants(func)
                    scheduled = schedule_with(func, constants, asked)
                    functions[var] = scheduled.func
                    self.kinds |= {plan.kind for plan in scheduled.plans}
                    if explains:
                        explain_schedule(func, constants, target)
        module = self.loops.with_functions(functions)
        self._made.append(_ScheduledModule(asked.facts, module, structural_digest(module)))
        return self._made[-1]


class _TooLongError(Exception):
    """A program is left out: others are interpreted in its time."""


class _ComparedSchedule:
    """Compares scheduled loops with the reference, and unrounded with the loops as written."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.schedules = _Schedules(case)
        steps = _DIRECTED_STEPS if case.family == "directed" else _STEPS
        self._steps = None if SeedChoices(f"long {case.seed}").chance(_LONG) else steps
        self._exact = has_floats(case) and not is_graph(case)
        self._too_long = False
        self._said: dict[bytes, str] = {}
        """What is wrong with loops: equal ones run once."""

    def __call__(self, name: str) -> str:
        """Say what is wrong for a target."""
        if self._too_long:
            raise _TooLongError
        try:
            if self._exact:
                self._try_exactly()
            made = self.schedules.of(name)
            if made.digest not in self._said:
                self._said[made.digest] = self._wrong(made.module, name)
        except OutOfStepsError:
            self._too_long = True
            raise _TooLongError from None
        return self._said[made.digest]

    def _try_exactly(self) -> None:
        """Run the loops as written: what is too long for one target is so for all.

        Where numbers grow without end, rounded ones are compared with the reference.
        """
        try:
            as_written(self.case, self._steps)
        except NumbersTooLargeError:
            self._exact = False
            self.schedules.kinds.add(TOO_LARGE)

    def _wrong(self, made: IRModule, name: str) -> str:
        case = self.case
        if is_graph(case):
            said = _said(case, lambda *arguments: interpret(made, case.entry, *arguments))
            if said or not SeedChoices(f"kernels {case.seed}").chance(_KERNELS):
                return said
            with _sizes(case, name) as target:
                return kernels_differ(case, target)
        if not self._exact:
            return self._rounded(made)
        said = differs(case, made, self._steps)
        rounded = not said and SeedChoices(f"rounded {case.seed}").chance(_ROUNDED)
        return self._rounded(made) if rounded else said

    def _rounded(self, made: IRModule) -> str:
        interpreter = Interpreter(made, steps=self._steps)
        return _said(self.case, lambda *arguments: interpreter.call(self.case.entry, arguments, {}))


class _Native:
    """Runs compiled code of this machine."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.schedules = _Schedules(case)

    def __call__(self, name: str) -> str:
        """Say what is wrong for a target."""
        case = self.case
        graph = is_graph(case)
        usual = _IDIOM_LEVELS if case.family == "idioms" else _LEVELS
        level = SeedChoices(f"level {case.seed} {name}").weighted(_GRAPH_LEVELS if graph else usual)
        if level or graph:
            with nullcontext() if level else quick_codegen(any_level=True):
                bound = {} if graph else self._bound()
                with _sizes(case, name) as target, packs_small():
                    exe = loomir.compile(
                        case.module,
                        target,
                        opt_level=level or 1,
                        cache=False,
                        constants=dict(bound.values()) or None,
                    )
                how = f"opt_level {level}" if level else "without optimising"
                how += f", with {', '.join(made for made, _ in bound.values())}" if bound else ""

                def run(*arguments: Any) -> Any:
                    return exe[case.entry](*[a for k, a in enumerate(arguments) if k not in bound])

                return self._by_threads(run, how)
        made = self.schedules.of(name).module
        with quick_codegen():
            exe = loomir.compile(made, name, schedule=False, opt_level=0, cache=False)
            return self._by_threads(exe[case.entry], "without optimising")

    def _bound(self) -> dict[int, tuple[str, Any]]:
        """Return arrays that the only function gets as constants, by their places."""
        case = self.case
        func = case.module[case.entry]
        choices = SeedChoices(f"bound {case.seed}")
        if len(case.module.functions) != 1 or not isinstance(func, PrimFunc):
            return {}
        if dtype_of_type(func.ret_type) is not VOID:
            return {}
        if not choices.chance(_BOUND):
            return {}
        constants = constants_of(func, choices)
        return {
            place: (func.buffer_map[param].name, case.arguments[place])
            for place, param in enumerate(func.params)
            if param in func.buffer_map and func.buffer_map[param].data in constants
        }

    def _by_threads(self, run: Callable[..., Any], how: str) -> str:
        for threads in (1, 2):
            set_threads(threads)
            said = _said(self.case, run)
            if said:
                return f"{how}, {threads} threads: {said}"
        return ""


class _Unrun:
    """Schedules programs, and runs none of them.

    An index outside of an array is no fault where sizes are symbolic: loops for more iterations
    than any valid call has are written all the same, and run zero times.
    """

    def __init__(self, case: Case) -> None:
        self.schedules = _Schedules(case)
        self._said: dict[bytes, str] = {}
        functions = [f for f in case.module.functions.values() if isinstance(f, PrimFunc)]
        extents = [e for f in functions for b in f.buffer_map.values() for e in b.shape]
        self._ignored = set[str]()
        if any(not isinstance(extent, IntImm) for extent in extents):
            self._ignored.add("TIR0421")

    def __call__(self, name: str) -> str:
        """Say which rule of programs a scheduled one breaks."""
        made = self.schedules.of(name)
        if made.digest not in self._said:
            found = [d for d in loomir.verify(made.module) if d.code not in self._ignored]
            self._said[made.digest] = "; ".join(map(str, found))
        return self._said[made.digest]


def _said(case: Case, run: Callable[..., Any]) -> str:
    """Run a case on fresh arguments, and judge what comes of it."""
    arguments = [fresh(argument) for argument in case.arguments]
    result = run(*arguments)
    return outcome(case, flat_results(result) if is_graph(case) else arguments)


WAYS: Final[Mapping[str, type[_ComparedSchedule | _Native | _Unrun]]] = {
    "interpreted": _ComparedSchedule,
    "native": _Native,
    "unrun": _Unrun,
}
"""How programs are run; each way takes a case, then a target, and says what is wrong."""


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Draw the case of a seed, and run it for each target; natively for one of them, in turn."""
    family, way, *names = engines
    if way == "native":
        names = [names[seed % len(names)]]
    started = time.process_time()
    case = FAMILIES[family](seed)
    spent = {"draw": time.process_time() - started}
    done: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = WAYS[way](case)
        decided = SeedChoices(f"decided {seed}").chance(_DECIDED)
        records = REACH in os.environ

        def ask(name: str) -> str:
            source = DrawnSource(seed, draws=decided) if decided or records else None
            try:
                with decisions_from(source):
                    said = run(name)
            except _TooLongError:
                return ""
            done.append(name)
            return said

        found = complaints(names, ask, spent)
    left_out = not found and len(done) < len(names)
    kinds = [TOO_LONG] if left_out else list(run.schedules.kinds)
    reply = answer_of(seed, done, found, kinds, spent)
    if not records:
        return reply
    return {**reply, "reach": RECORDER.new(), "candidates": new_candidates()}


def main() -> None:
    """Answer requests until there are no more."""
    serve(answer)


if __name__ == "__main__":
    main()
