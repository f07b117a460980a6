"""The compiler's driver: check a program, lower it, generate code, and wrap that for Python."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from loomir import __version__
from loomir.autoschedule.driver import schedule_function, schedule_module
from loomir.autoschedule.ir.decision import (
    Choice,
    DecisionSource,
    current_source,
    decisions_from,
)
from loomir.autoschedule.prepack_constants import LEAST, prepare_constants
from loomir.check.relax.verify import Verdict, judge
from loomir.codegen.llvm.jit.engine import QUICKEST, machine_of
from loomir.codegen.llvm.jit.parallel_compile import expect_work
from loomir.codegen.llvm.module import Options, generate
from loomir.codegen.llvm.native_module import NativeModule, load_library_early
from loomir.deploy.callables import callables
from loomir.deploy.library import LibrarySource, export_library
from loomir.deploy.saved_executables import from_bytes, save, to_bytes
from loomir.deploy.tables import KernelSignature, Tables
from loomir.ir.advise_program import advise_program
from loomir.ir.garbage import collect_seldom
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.passes import OnStage
from loomir.ir.stage_files import StageFiles
from loomir.ir.trust import is_untrusted
from loomir.ir.visit import by_class, pre_order, rebuild, remember_classes
from loomir.profiling.profiler import LazyProfiler, Profiler
from loomir.relax import expr as relax
from loomir.runtime.compile_options import CompileOptions
from loomir.runtime.executable import Executable
from loomir.runtime.packed.externs import find_extern
from loomir.runtime.packed.nan_check import no_graph
from loomir.runtime.parameter import Parameter
from loomir.runtime.report.profile import Roof
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.support.compile_warning import caution
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError, Diagnostic, with_article
from loomir.support.dtype import numpy_of
from loomir.support.fork_safe import import_module
from loomir.support.printing import to_text
from loomir.target import Target
from loomir.tir.builtins.calls import EXTERN, OUTSIDE, name_of, unknown_extern
from loomir.tir.expr import Call
from loomir.tir.function import PrimFunc
from loomir.tir.link_calls import link_calls
from loomir.tir.signature import Signature, signature_of
from loomir.transform.pipelines import (
    CHECK_NAN,
    WINOGRAD,
    LowerOptions,
    lower,
    lower_relax,
    optimize_relax,
)
from loomir.transform.relax.constants.bind_constants import bind_constants, list_strided_parameters
from loomir.transform.relax.constants.pack_constants import PackConstantsOptions
from loomir.transform.relax.kernels.winograd_conv2d import WinogradConv2DOptions
from loomir.transform.tir.instrument.instrument_bound_checkers import BOUNDS_CHECKED
from loomir.transform.tir.instrument.split_bounds_checks import split_bounds_checks

if TYPE_CHECKING:
    from loomir.tuning.choices import ChoiceSource
    from loomir.tuning.record_source import RecordSource

__all__ = ["OnCompiled", "Program", "ScheduleSource", "as_module", "choose_packing", "compile_anew"]

Program: TypeAlias = IRModule | PrimFunc | relax.Function
"""The programs that ``compile`` takes: a module or a single function."""
OnCompiled: TypeAlias = "Callable[[Tables, bytes], object]"
"""A callback that gets what a process needs to call a program: its tables and object file."""
_UNREACHABLE: Final = frozenset({"RLX0112", "RLX0113"})


def as_module(program: Program) -> IRModule:
    """Return the program as a module; a single function becomes a module of one.

    Errors: TIR0005 for anything else.
    """
    if isinstance(program, relax.Function):
        graph = program
        if "global_symbol" not in program.attrs:
            attrs = {**program.attrs, "global_symbol": program.name}
            graph = relax.Function(
                program.params,
                program.body,
                program.ret_struct_info,
                program.is_pure,
                attrs,
                span=program.span,
            )
        return IRModule({GlobalVar(graph.name): graph}, span=program.span)
    if isinstance(program, PrimFunc):
        named = program
        if "global_symbol" not in program.attrs:
            attrs = {**program.attrs, "global_symbol": program.name}
            named = PrimFunc(
                program.params,
                program.body,
                program.ret_type,
                program.buffer_map,
                attrs,
                span=program.span,
            )
        functions: dict[GlobalVar, BaseFunc] = {GlobalVar(named.name): named}
        return IRModule(functions, span=program.span)
    if isinstance(program, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        return program
    raise CompileError(
        Diagnostic(
            "TIR0005",
            f"{with_article(type(program).__name__)} is not a program",
            help=advise_program(program),
        )
    )


def compile_anew(
    program: Program,
    target: str | Target,
    flags: CompileOptions,
    dump: str | os.PathLike[str] | None,
    again: Callable[..., Executable],
    keep: OnCompiled | None = None,
    decided: ScheduleSource | None = None,
) -> Executable:
    """Compile without the cache of programs; the options are those of ``loomir.compile``.

    ``again`` is that function, used to measure the machine. ``keep`` gets what a process needs to
    call the program. ``decided`` is the source of schedules other than the default ones.
    """
    started = time.perf_counter()
    source = current_source() if decided is None else decided.open()
    with remember_classes(), collect_seldom(), decisions_from(source):
        made = _build(program, target, flags, dump, keep=keep)
    described: Mapping[str, str] = {} if decided is None else decided.describe()
    if flags.eager:
        made.native.prepare()
    took = time.perf_counter() - started

    def profiler() -> Profiler:
        with decisions_from(source):
            clocked = _build(program, target, flags, None, timed=True)
        clocked.native.prepare()  # now, so that the first call measures only the program
        return Profiler(callables(clocked.tables, clocked.native), clocked.native, clocked.tables)

    def text() -> str:
        return _script(made.module)

    def roof() -> Roof:
        # Imported on demand: its kernels have to be parsed.
        return import_module("loomir.profiling.roof").find_roof(again)

    runner = LazyProfiler(profiler, roof)
    return Executable(
        callables(made.tables, made.native),
        script=made.module.script,
        llvm_ir=made.native.llvm_ir,
        assembly=made.native.assembly,
        export=lambda path: export_library(path, made.source),
        save=lambda path: save(path, made.tables, made.native, text, __version__),
        reduce=lambda: (from_bytes, (to_bytes(made.tables, made.native, text, __version__),)),
        profile=runner.run,
        compile_time=took if flags.eager else None,
        schedules=described,
    )


class ScheduleSource:
    """The source of schedules other than the default: records, or choices by hand."""

    def __init__(
        self, database: object, choices: Mapping[str, Mapping[str, Choice]] | None
    ) -> None:
        self._database, self._choices = database, choices
        self._table: ChoiceSource | None = None
        self._records: RecordSource | None = None

    def open(self) -> DecisionSource | None:
        """Return the source of decisions. Errors: TUN0001, TUN0002, TUN0004, RUN0012."""
        if self._choices is not None:
            by_hand: Any = import_module("loomir.tuning.choices")
            by_hand.check_choices(self._choices)
            self._table = by_hand.ChoiceSource(self._choices)
            return self._table
        if self._database is None or isinstance(self._database, DecisionSource):
            return self._database or current_source()
        records: Any = import_module("loomir.tuning.record_source")  # with SQLite
        self._records = records.open_records(self._database)
        return self._records

    def describe(self) -> Mapping[str, str]:
        """Return each kernel's schedule; warn of records that do not fit. Errors: TUN0006."""
        if self._table is not None and (mistakes := self._table.list_mistakes()):
            raise CompileError.of(mistakes)
        if self._records is None:
            return {}
        caution(self._records.list_warnings())
        return self._records.describe()


class _BuildResult(NamedTuple):
    module: IRModule
    tables: Tables
    native: NativeModule
    source: LibrarySource


def _build(
    program: Program,
    target: str | Target,
    flags: CompileOptions,
    dump: str | os.PathLike[str] | None,
    *,
    timed: bool = False,
    keep: OnCompiled | None = None,
) -> _BuildResult:
    """Check, lower and generate."""
    stages = None if dump is None else StageFiles(Path(dump))
    on_stage = None if stages is None else stages.write
    module = link_calls(_drop_marks(as_module(program)))
    if stages is not None:
        stages.write("input", module)
    verdict = _check(module)
    module, strided = _bind(module, flags.constants)
    machine = Target(target)
    checked, asked, allow_alias, opt_level, schedule, cache, *_ = flags
    check_bounds = is_untrusted(module) if asked is None else asked
    arranges = schedule and opt_level > 0 and not (checked or allow_alias)
    if flags.verify_schedule and arranges and not timed:
        _verify_schedule(module, machine)
    has_graph = any(isinstance(f, relax.Function) for f in module.functions.values())
    if not timed and _warn(verdict, flags.check_nan and not has_graph):
        keep = None  # each process has to issue the warning
    graph = None
    loops = module
    if has_graph:
        flags = flags._replace(optimize_graph=arranges and flags.optimize_graph)
        asked_for = _apply_options(module, flags, machine, on_stage)
        packing = choose_packing(machine, cache=cache) if arranges and not check_bounds else None
        graph = link_calls(lower_relax(asked_for, packing, on_stage=on_stage))
        loops = graph.with_functions(
            {v: f for v, f in graph.functions.items() if isinstance(f, PrimFunc)}
        )
        if stages is not None:
            stages.write("kernels", loops)
    originals = {
        var.name_hint: func for var, func in loops.functions.items() if isinstance(func, PrimFunc)
    }
    signatures = {name: signature_of(func, loops) for name, func in originals.items()}
    if machine.triple == Target("native").triple:
        _check_externs(loops)
    arranged = loops
    if arranges:
        arranged = (_schedule_checked if check_bounds else schedule_module)(loops, machine)
        if stages is not None:
            stages.write("scheduled", arranged)
    lowered = lower(
        arranged,
        LowerOptions(checked=checked or check_bounds, watched=checked, allow_alias=allow_alias),
        on_stage=on_stage,
    )
    options = Options(allow_alias=allow_alias, watched=checked, timed=timed)
    every = signatures | _derive_added_signatures(lowered, signatures)
    generated = generate(lowered, machine, options, signatures=every, program=graph)
    store = ObjectCache(SETTINGS.cache_dir) if cache and SETTINGS.cache_dir is not None else None
    source = LibrarySource(
        lambda: generate(
            lowered, machine, replace(options, for_c=True), signatures=every, program=graph
        ),
        every,
        _list_called_functions(loops),
        machine_of(machine),
        opt_level,
        checked,
    )
    kernels = {name: _kernel(signatures[name]) for name in generated.entries}
    tables = Tables(generated, kernels, loops, allow_alias, flags.copy_arguments, strided)
    on_loaded = None if keep is None else partial(keep, tables)
    native = NativeModule(generated, machine, level=opt_level, cache=store, on_loaded=on_loaded)
    if stages is not None:
        stages.write_text("code.ll", native.llvm_ir())
        stages.write_text("code.s", native.assembly())
    return _BuildResult(module, tables, native, source)


def _bind(
    module: IRModule, constants: Mapping[str, Any]
) -> tuple[IRModule, Mapping[str, tuple[str, ...]]]:
    """Bind constants; also return the parameters whose arrays calls have to copy, by function."""
    if not constants:
        return module, {}
    return bind_constants(module, constants), list_strided_parameters(module)


_LONG: Final = 40
"""Bindings of graphs from which two processes share the compiling of code."""


def _is_long(module: IRModule) -> bool:
    found = [by_class(f) for f in module.functions.values() if isinstance(f, relax.Function)]
    return sum(len(parts.get(relax.VarBinding, ())) for parts in found) >= _LONG


def _warn(verdict: Verdict, nothing_to_check: bool) -> bool:
    """Issue warnings; tell whether there were any."""
    found = [*verdict.warnings, *([no_graph()] if nothing_to_check else [])]
    caution(found)
    return bool(found)


def _drop_marks(module: IRModule) -> IRModule:
    """Remove the internal attribute of functions that have their checks."""
    made = {
        var: rebuild(func, {"attrs": {k: v for k, v in func.attrs.items() if k != BOUNDS_CHECKED}})
        for var, func in module.functions.items()
        if isinstance(func, (PrimFunc, relax.Function)) and BOUNDS_CHECKED in func.attrs
    }
    return module.with_functions({**module.functions, **made}) if made else module


def _schedule_checked(loops: IRModule, machine: Target) -> IRModule:
    """Schedule the functions whose bounds checks can be made before their loops."""
    made: dict[GlobalVar, BaseFunc] = {}
    for var, func in loops.functions.items():
        split = split_bounds_checks(func) if isinstance(func, PrimFunc) else None
        made[var] = (
            func if split is None else split.join(schedule_function(split.fast, machine).func)
        )
    return loops.with_functions(made)


def _verify_schedule(module: IRModule, machine: Target) -> None:
    """Compare schedules with the unscheduled functions. Errors: SCH0011."""
    # Imported on demand, since it imports the interpreters.
    report = import_module("loomir.validate").validate_schedule(module, machine)
    mistakes = report.mistakes()
    if mistakes:
        raise CompileError.of(mistakes)
    caution(report.cautions())


def _apply_options(
    module: IRModule, flags: CompileOptions, machine: Target, on_stage: OnStage | None
) -> IRModule:
    """Apply the passes that options request."""
    if flags.schedule and flags.opt_level > 0 and _is_long(module):
        # Starts work that takes LLVM a while before the passes run.
        expect_work()
        if machine.cores > 1:
            load_library_early()
    if flags.optimize_graph:
        unasked = WinogradConv2DOptions(target=machine, constant=True)
        module = optimize_relax(
            module, unasked if flags.winograd is None else None, on_stage=on_stage
        )
    if flags.winograd:
        given = {"relax.WinogradConv2D": WinogradConv2DOptions(target=machine)}
        module = WINOGRAD.run(module, given, on_stage=on_stage)
    return CHECK_NAN.run(module, on_stage=on_stage) if flags.check_nan else module


def choose_packing(
    machine: Target, *, cache: bool = True, least: int = LEAST
) -> PackConstantsOptions:
    """Return the options for packing constants for a machine, computed on this machine.

    Constants of fewer elements than ``least`` are not packed.
    """

    def build(module: IRModule) -> Callable[[str], Callable[..., object]]:
        # Optimising would take LLVM 20 to 50 ms and save nothing, even for 64 MB: packing is
        # memory-bound.
        flags = CompileOptions(schedule=False, cache=cache, opt_level=QUICKEST)
        made = _build(module, "native", flags, None)
        return callables(made.tables, made.native).__getitem__

    return PackConstantsOptions(
        lambda func, constants: prepare_constants(func, constants, machine, least=least), build
    )


def _check(module: IRModule) -> Verdict:
    """Verify the program. Errors: all mistakes that are found."""
    verdict = judge(module)
    mistakes = _mistakes(verdict)
    if mistakes:
        raise CompileError.of(mistakes)
    return verdict


def _mistakes(verdict: Verdict) -> tuple[Diagnostic, ...]:
    """List the mistakes that prevent an executable, which also needs a public function (R38)."""
    unreachable = [d for d in verdict.warnings if d.code in _UNREACHABLE]
    return (*verdict.mistakes, *[replace(d, severity="error") for d in unreachable])


def _check_externs(module: IRModule) -> None:
    """Find every called C function now, while the location of the call is known."""
    missing = [
        unknown_extern(name_of(part), part.span)
        for func in module.functions.values()
        if isinstance(func, PrimFunc)
        for part in pre_order(func.body)
        if isinstance(part, Call) and part.op in EXTERN and not find_extern(name_of(part))
    ]
    if missing:
        raise CompileError.of(missing)


def _list_called_functions(module: IRModule) -> tuple[str, ...]:
    """List the Python functions that loops call."""
    found = {
        name_of(part): None
        for func in module.functions.values()
        if isinstance(func, PrimFunc)
        for part in pre_order(func.body)
        if isinstance(part, Call) and part.op in OUTSIDE and part.op not in EXTERN
    }
    return tuple(found)


def _derive_added_signatures(
    lowered: IRModule, known: Mapping[str, Signature]
) -> dict[str, Signature]:
    """Return the signatures of the functions that lowering added."""
    return {
        var.name_hint: signature_of(func, lowered)
        for var, func in lowered.functions.items()
        if isinstance(func, PrimFunc) and var.name_hint not in known
    }


def _kernel(signature: Signature) -> KernelSignature:
    parameters = [
        Parameter(p.name, p.dtype, p.buffer is not None, p.written, p.span)
        for p in signature.parameters
    ]
    return KernelSignature(tuple(parameters), signature.returns)


_INLINE: Final = 1 << 20
"""The most bytes of constants that a program's text contains; larger ones are only named."""


def _script(module: IRModule) -> str:
    """Print a program for a file that may be moved to another machine."""
    size = sum(
        math.prod(part.data.shape) * numpy_of(part.data.dtype).itemsize
        for func in module.functions.values()
        if isinstance(func, relax.Function)
        for part in by_class(func).get(relax.Constant, ())
    )
    return to_text(module, constants="inline" if size <= _INLINE else "named")
