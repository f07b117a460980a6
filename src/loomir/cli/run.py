"""``loomir run``: compile and run a program, and compare it with NumPy and the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, NamedTuple, cast

import numpy as np
import typer

import loomir
from loomir.autoschedule.driver import schedule_function
from loomir.cli.checked_run import check_indices
from loomir.cli.compare import (
    Argument,
    Outcome,
    call_reference,
    compare,
    default_sizes,
    inputs_for,
    outcome,
    uses_math,
)
from loomir.cli.files.file_options import ask_for_inputs, constants
from loomir.cli.files.sizes import require_whole
from loomir.cli.files.source import (
    Program,
    is_model,
    load_file,
    pick,
    programs_of,
    split_target,
    warnings_of,
)
from loomir.cli.graphs import (
    GraphOutcome,
    call_graph_reference,
    compare_graphs,
    compare_values,
    graph_inputs,
    graph_sizes,
    graphs_of,
    run_graph,
)
from loomir.cli.inputs import make_inputs
from loomir.cli.models import ModelRun, run_model
from loomir.cli.names import check_names, functions_of, public_functions
from loomir.cli.report import Report, fail
from loomir.cli.settings import OptimizeGraph, Sizes, read_settings
from loomir.cli.work.other_backends import refuse_other
from loomir.cli.work.progress import Progress
from loomir.cli.work.steps import steps
from loomir.cli.work.timing import time_call
from loomir.driver import as_module
from loomir.ir.module import IRModule
from loomir.relax.expr import Function
from loomir.runtime.executable import Executable, show_seconds
from loomir.runtime.packed.nan_check import no_graph
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tir.signature import Signature, signature_of
from loomir.transform.pipelines import CHECK_NAN

__all__ = ["run"]

_SHARE: Final = 0.02
"""The share of the compile time from which a stage is shown."""

# About ten seconds of the interpreter.
_MOST_STEPS = 5_000_000


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py[:NAME]", help="What to run; a model, FILE.onnx or .pt2, too."
        ),
    ],
    size: Sizes = None,
    inputs: Annotated[
        list[str] | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option(
            "--input", metavar="x=FILE.npy", help="An input of a model: a file, or random."
        ),
    ] = None,
    dim: Annotated[
        list[str] | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option("--dim", metavar="N=8", help="An extent of a model's inputs; else 1."),
    ] = None,
    others: Annotated[
        list[str] | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option(
            "--compare",
            metavar="NAME",
            help="Run a model by another backend of ONNX too, such as onnxruntime, and compare.",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option(
            min=0.0,
            help="The error that --compare tolerates, as a fraction of the largest element.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the random inputs.")] = 0,
    timed: Annotated[
        bool, typer.Option("--time", help="Measure speed, also of the file's baseline.")
    ] = False,
    interpret: Annotated[
        bool, typer.Option("--interpret", help="Run the interpreter instead of native code.")
    ] = False,
    check_bounds: Annotated[
        bool, typer.Option("--check-bounds", help="Raise an error for an index out of bounds.")
    ] = False,
    checked: Annotated[
        bool,
        typer.Option(
            "--checked",
            help="Also raise for reads of uninitialised memory, and for races of parallel loops.",
        ),
    ] = False,
    nan: Annotated[
        bool,
        typer.Option(
            "--nan", help="Stop a graph at the first NaN or infinity that a kernel makes."
        ),
    ] = False,
    show: Annotated[
        str | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option(metavar="script|llvm|asm", help="Print the program in that form."),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time of a call goes, by kernel.")
    ] = False,
    dump: Annotated[
        Path | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option(metavar="DIR", help="Write the program after each pass to files."),
    ] = None,
    optimize_graph: OptimizeGraph = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compile a program, run it on random inputs, and check the results.

    Results are compared with the interpreter and, if the file defines NAME_reference or reference,
    with NumPy. A file may also define SIZES (sizes of symbolic shapes), INTERPRET (smaller
    constants for the interpreter), inputs(rng, **sizes), and for --time baseline(*arguments) and
    flops(). For a file in Tensor Comprehensions, FILE.tc, these are in FILE.py next to it. A model,
    FILE.onnx or FILE.pt2, is run on --input and --dim, and its outputs are described; --compare
    checks them.
    """
    report = Report(json)
    try:
        path, name = split_target(target)
        if is_model(path):
            extents = {**read_settings(size), **read_settings(dim, "--dim")}
            dims = {k: require_whole(k, v) for k, v in extents.items()}
            _check_show(show)
            how = ModelRun(
                timed,
                profile,
                interpret,
                check_bounds,
                checked,
                nan,
                show,
                dump,
                optimize_graph,
                tuple(others or ()),
                tolerance,
            )
            with Progress(report) as progress:
                progress.step(path.name)
                right = run_model(report, path, inputs or [], dims, seed, how)
            report.fact("ok", right)
            report.finish()
            if not right:
                raise typer.Exit(1)
            return
        if others:
            raise refuse_other(others[0], "it takes models of ONNX, and this is a source file")
        settings = read_settings(size)
        _check_show(show)
        module = load_file(path, settings)
        for warning in warnings_of(module):
            report.line(f"{warning}\n", "yellow")
        programs = pick(programs_of(module), name, path)
        check_names(settings, module, programs)
        right = True
        with Progress(report) as progress:
            for key, program in programs.items():
                progress.step(key)
                if nan and graphs_of(program):
                    program = CHECK_NAN.run(as_module(program))  # noqa: PLW2901
                elif nan:
                    report.line(f"{no_graph()}\n", "yellow")
                checks = _Checks(check_bounds, checked, optimize_graph)
                job = _Job(report, path, module, key, program, settings, seed, checks, timed=timed)
                if dump is not None:
                    job.dump_to(dump if len(programs) == 1 else dump / key)
                if show is not None:
                    job.show(show)
                right &= job.judge(interpret)
                if timed:
                    job.time()
                if profile:
                    job.profile()
    except LoomirError as error:
        fail(error, json)
    report.fact("ok", right)
    report.finish()
    if not right:
        raise typer.Exit(1)


class _Checks(NamedTuple):
    """What compiled code checks at run time, and whether its graphs are optimised."""

    bounds: bool
    all: bool
    optimize_graph: bool = True

    def __bool__(self) -> bool:
        return self.bounds or self.all


class _Job:
    """One program of a file and its checks."""

    def __init__(
        self,
        report: Report,
        path: Path,
        module: ModuleType,
        key: str,
        program: Program,
        settings: Mapping[str, int | float],
        seed: int,
        checks: _Checks,
        *,
        timed: bool = False,
    ) -> None:
        self.report, self.path, self.module = report, path, module
        self.key, self.settings, self.seed = key, settings, seed
        self.checks, self.timed = checks, timed
        self.program = program
        self.facts: dict[str, Any] = {}
        report.fact(key, self.facts)
        self._exe: Executable | None = None

    def dump_to(self, directory: Path) -> None:
        """Compile, and write the program after each pass. Errors: RUN0467."""
        self._exe = self._compile(directory)

    def _compile(self, dump: Path | None = None) -> Executable:
        program, checks = cast("Any", self.program), self.checks
        return loomir.compile(
            program,
            check_bounds=checks.bounds,
            checked=checks.all,
            dump=dump,
            eager=self.timed,
            optimize_graph=checks.optimize_graph,
        )

    @property
    def exe(self) -> Executable:
        """The compiled program."""
        if self._exe is None:
            self._exe = self._compile()
        return self._exe

    def _check_indices(self, name: str, arguments: Callable[[], Sequence[Any]]) -> None:
        if not self.checks:
            check_indices(self.program, name, arguments)

    def show(self, what: str) -> None:
        """Print the program as text."""
        if what == "script":
            text = self.program.script()
        else:
            text = self.exe.llvm_ir() if what == "llvm" else self.exe.assembly()
        self.facts[what] = text
        self.report.line(text.rstrip())

    def judge(self, interpret: bool) -> bool:
        """Run every public function and compare; return whether all agree."""
        right = True
        graphs = graphs_of(self.program)
        for name, func in graphs.items():
            right &= self._judge_graph(name, self._show(name, len(graphs)), func, interpret)
        if graphs:  # loops in the same module are their parts
            return right
        public = public_functions(self.program)
        for name, func in public.items():
            right &= self._judge_one(name, self._show(name, len(public)), func, interpret)
        return right

    def _show(self, name: str, count: int) -> str:
        lone = name in (self.key, "main") or count == 1
        return self.key if lone else f"{self.key}.{name}"

    def _judge_graph(self, name: str, shown: str, func: Function, interpret: bool) -> bool:
        arguments = self._graph_arguments(func)
        try:
            wanted = call_graph_reference(self.module, name, arguments)
        except CompileError as error:
            return self._judge_own_sizes(name, shown, interpret, error)
        if not interpret:
            self._check_indices(name, lambda: self._graph_arguments(func))
        call = partial(loomir.interpret, self.program, name) if interpret else self.exe[name]
        if interpret and isinstance(self.program, Function):
            call = partial(loomir.interpret, self.program)
        got = run_graph(func, call, arguments)
        verdicts: list[tuple[str, str | None]] = []
        if wanted:
            verdicts.append(("NumPy", compare_values(got.returned, wanted[0], "the result")))
        if not interpret:
            verdicts.append(self._graph_against_interpreter(name, func, arguments, got))
        return self._report(shown, verdicts, has_reference=bool(wanted))

    def _judge_own_sizes(self, name: str, shown: str, interpret: bool, error: CompileError) -> bool:
        """Check with the sizes of the file, since its reference refuses those to be timed.

        Errors: the given one, if nothing is timed or no other sizes were requested.
        """
        if not (self.timed and self.settings):
            raise error
        self.report.line(f"{shown}: the reference refuses these sizes; judged with the file's own")
        job = self._smaller({}, {})
        job.report, job.facts = self.report, self.facts
        graphs = graphs_of(job.program)
        if name in graphs:
            return job._judge_graph(name, shown, graphs[name], interpret)
        return job._judge_one(name, shown, public_functions(job.program)[name], interpret)

    def _graph_arguments(self, func: Function) -> list[object]:
        sizes = graph_sizes(func, {**constants(self.module, "SIZES"), **self.settings})
        named = ask_for_inputs(self.module, self.seed, sizes)
        names = {p.name_hint for p in func.params}
        named.update({k: v for k, v in self.settings.items() if k in names})
        return graph_inputs(func, sizes, named, self.seed)

    def _graph_against_interpreter(
        self, name: str, func: Function, arguments: list[object], got: GraphOutcome
    ) -> tuple[str, str | None]:
        """Compare with the interpreter, on smaller constants if the file defines them."""
        smaller = constants(self.module, "INTERPRET")
        program, judge = self.program, "interpreter"
        if smaller:
            job = self._smaller(smaller)
            program, func = job.program, graphs_of(job.program)[name]
            arguments = job._graph_arguments(func)
            job._check_indices(name, lambda: job._graph_arguments(func))
            got = run_graph(func, job.exe[name], arguments)
            judge += " (" + ", ".join(f"{k}={v}" for k, v in smaller.items()) + ")"
        named = () if isinstance(program, Function) else (name,)
        wanted = run_graph(func, partial(loomir.interpret, program, *named), arguments)
        return judge, compare_graphs(got, wanted)

    def _judge_one(self, name: str, shown: str, func: PrimFunc, interpret: bool) -> bool:
        signature = signature_of(func, _module(self.program))
        arguments = self._arguments(self.module, signature)
        try:
            wanted = call_reference(self.module, name, signature, arguments)
        except CompileError as error:
            return self._judge_own_sizes(name, shown, interpret, error)
        before = [_copy(a) for a in arguments]
        if interpret:
            self._check_work(func, signature, arguments)
            returned = loomir.interpret(self.program, name, *arguments)
        else:
            self._check_indices(name, lambda: [_copy(a) for a in arguments])
            returned = self.exe[name](*arguments)
        got = outcome(signature, arguments, returned)
        verdicts: list[tuple[str, str | None]] = []
        if wanted is not None:
            verdicts.append(("NumPy", compare(signature, got, wanted, exact=False)))
        if not interpret:
            verdict = self._against_interpreter(name, func, signature, before, got)
            if verdict is not None:
                verdicts.append(verdict)
            elif wanted is None and not self.timed:
                self._check_work(func, signature, before)  # nothing else can check
            else:
                self.report.line(
                    f"{shown}: too much work for the interpreter; "
                    "INTERPRET in the file names smaller sizes"
                )
        return self._report(shown, verdicts, has_reference=wanted is not None)

    def _report(
        self, shown: str, verdicts: list[tuple[str, str | None]], *, has_reference: bool
    ) -> bool:
        """Print the verdicts; return whether all agree."""
        for judge, difference in verdicts:
            agrees = difference is None
            self.facts[judge.split(" ")[0].lower()] = difference or "agrees"
            article = judge if judge.startswith("NumPy") else f"the {judge}"
            text = f"agrees with {article}" if agrees else f"DIFFERS from {article}: {difference}"
            self.report.line(f"{shown}: {text}", "green" if agrees else "bold red")
        if any(difference is not None for _, difference in verdicts) and not self.checks.all:
            self.report.line(
                "  --checked tells of reads before a write, races and indices out of bounds"
            )
        if not has_reference:
            self.report.line(f"{shown}: the file has no reference to compare with NumPy")
        return all(difference is None for _, difference in verdicts)

    def _arguments(self, module: ModuleType, signature: Signature) -> list[Argument]:
        sizes = default_sizes(signature, {**constants(module, "SIZES"), **self.settings})
        named: dict[str, Argument] = ask_for_inputs(module, self.seed, sizes)
        for p in signature.parameters:
            if p.buffer is None and p.name in self.settings:
                named[p.name] = self.settings[p.name]
        return inputs_for(signature, sizes, named, self.seed)

    def _against_interpreter(
        self, name: str, func: PrimFunc, signature: Signature, before: list[Argument], got: Outcome
    ) -> tuple[str, str | None] | None:
        """Compare with the interpreter, on smaller constants if the file defines them.

        Returns None if it would take too long and the file has no smaller constants.
        """
        smaller = constants(self.module, "INTERPRET")
        judge = "interpreter"
        if steps(func, signature, before) > _MOST_STEPS:
            if not smaller:
                smaller = {b.var.name_hint: 67 for b in signature.bindings}
            if not smaller:
                return None
            job = self._smaller(smaller)
            func = public_functions(job.program)[name]
            signature = signature_of(func, _module(job.program))
            before = job._arguments(job.module, signature)
            arguments = [_copy(a) for a in before]
            job._check_indices(name, lambda: [_copy(a) for a in before])
            got = outcome(signature, arguments, job.exe[name](*arguments))
            judge += " (" + ", ".join(f"{k}={v}" for k, v in smaller.items()) + ")"
            program = job.program
        else:
            program = self.program
        returned = loomir.interpret(program, name, *before)
        wanted = outcome(signature, before, returned)
        math = any(uses_math(f) for f in functions_of(program))
        exact = not any(_is_arranged(f) for f in functions_of(program))
        return judge, compare(signature, got, wanted, exact=exact, math=math)

    def _smaller(
        self, constants: Mapping[str, int | float], base: Mapping[str, int | float] | None = None
    ) -> _Job:
        """Return the job with other constants of the file, in addition to those of ``base``."""
        settings = {**(self.settings if base is None else base), **constants}
        module = load_file(self.path, settings)
        return _Job(
            Report(False),
            self.path,
            module,
            self.key,
            programs_of(module)[self.key],
            settings,
            self.seed,
            self.checks,
        )

    def _check_work(self, func: PrimFunc, signature: Signature, arguments: list[Argument]) -> None:
        work = steps(func, signature, arguments)
        if work > _MOST_STEPS:
            raise CompileError(
                Diagnostic(
                    "CLI0004",
                    f"the interpreter would take about {work:.0e} steps for {self.key!r}",
                    help="give smaller sizes with --size, or define INTERPRET in the file",
                )
            )

    def time(self) -> None:
        """Measure each public function and, if the file defines one, the baseline.

        Before that, print the compile time.
        """
        took = self.exe.compile_time
        if took is not None:
            stages = self.exe.stage_times
            self.facts |= {"compile_seconds": took, "stage_seconds": dict(stages)}
            shown = [f"{k} {show_seconds(s)}" for k, s in stages.items() if s > _SHARE * took]
            where = f" ({', '.join(shown)})" if shown else ""
            self.report.line(f"{self.key}: compiled in {show_seconds(took)}{where}")
        mod = as_module(cast("Any", self.program))
        for name in graphs_of(self.program) or public_functions(self.program):
            sizes = {**constants(self.module, "SIZES"), **self.settings}
            arguments = make_inputs(mod, name, self.settings, self.seed, self.module)
            found = time_call(self.module, self.exe[name], arguments, sizes)
            self.facts["seconds"] = found.seconds
            if found.numpy is not None:
                self.facts["numpy_seconds"] = found.numpy
            self.report.line(f"{name}: {found}")

    def profile(self) -> None:
        """Print where the time of a call of each public function goes; the third call counts."""
        mod = as_module(cast("Any", self.program))
        for name in graphs_of(self.program) or public_functions(self.program):
            arguments = make_inputs(mod, name, self.settings, self.seed, self.module)
            for _ in range(2):  # threads and memory come with the first calls
                self.exe.profile(*arguments, name=name)
            found = self.exe.profile(*arguments, name=name)
            self.facts.setdefault("profile", {})[name] = [k._asdict() for k in found.kernels]
            self.report.line(str(found))


def _copy(argument: Argument) -> Argument:
    if not isinstance(argument, np.ndarray):
        return argument
    copied = np.empty_like(argument, subok=False) if argument.flags.c_contiguous else None
    if copied is not None:
        np.copyto(copied, argument)
        return copied
    return argument  # a strided view, which is only read


def _is_arranged(func: PrimFunc) -> bool:
    """Tell whether compiling changes the loops, so that the order of sums may change."""
    return bool(schedule_function(func, Target("native")).plans)


def _module(program: Program) -> IRModule | None:
    return program if isinstance(program, IRModule) else None


def _check_show(show: str | None) -> None:
    if show is not None and show not in ("script", "llvm", "asm"):
        raise CompileError(
            Diagnostic(
                "CLI0007",
                f"--show {show} is not a form of the program",
                help="use --show script, --show llvm or --show asm",
            )
        )
