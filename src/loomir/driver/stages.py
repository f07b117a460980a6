"""The stages of compiling, in their order: ``STAGES``, at the end of this file.

To add a stage, write its function and add its row. ``compile`` runs the rows that a compilation
needs, measures them and writes what they show to ``dump=``; ``bisect`` runs them one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from loomir.autoschedule.prepack_constants import LEAST, prepare_constants
from loomir.check.relax.verify import Verdict, judge
from loomir.codegen.llvm.jit.engine import QUICKEST, machine_of
from loomir.codegen.llvm.jit.parallel_compile import expect_work
from loomir.codegen.llvm.module import Options, generate
from loomir.codegen.llvm.native_module import NativeModule, load_library_early
from loomir.deploy.callables import callables
from loomir.deploy.library import LibrarySource
from loomir.deploy.tables import KernelSignature, Tables
from loomir.driver.compilation import Compilation
from loomir.driver.program import as_module
from loomir.ir.module import IRModule
from loomir.ir.visit import by_class, pre_order, rebuild
from loomir.relax import expr as relax
from loomir.runtime.compile_options import CompileOptions
from loomir.runtime.packed.externs import find_extern
from loomir.runtime.packed.nan_check import no_graph
from loomir.runtime.parameter import Parameter
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.support.compile_warning import caution
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.fork_safe import import_module
from loomir.target import Target
from loomir.tir.builtins.calls import EXTERN, OUTSIDE, name_of, unknown_extern
from loomir.tir.expr import Call
from loomir.tir.function import PrimFunc
from loomir.tir.link_calls import link_calls
from loomir.tir.signature import Signature, signature_of
from loomir.transform.pipelines import (
    CHECK_NAN,
    SCHEDULE,
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
from loomir.transform.tir.schedule import ScheduleOptions

__all__ = ["STAGES", "CompileStage", "choose_packing", "run_stages"]


def _always(_: Compilation) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class CompileStage:
    """A stage of compiling: its name, what it does in one line, and the function that does it."""

    name: str
    does: str
    run: Callable[[Compilation], None]
    applies: Callable[[Compilation], bool] = _always
    """Tells whether a compilation needs the stage, by its options and what was made so far."""


def run_stages(made: Compilation, stages: Sequence[CompileStage] | None = None) -> Compilation:
    """Run the stages that a compilation needs, by default of all, and note how long each took."""
    for stage in STAGES if stages is None else stages:
        if stage.applies(made):
            started = time.perf_counter()
            stage.run(made)
            made.times[stage.name] = time.perf_counter() - started
    return made


# -- the program -------------------------------------------------------------------------------
def _make_module(made: Compilation) -> None:
    made.module = link_calls(_drop_marks(as_module(made.program)))
    made.show("input", made.module)


def _drop_marks(module: IRModule) -> IRModule:
    """Remove the internal attribute of functions that have their checks."""
    made = {
        var: rebuild(func, {"attrs": {k: v for k, v in func.attrs.items() if k != BOUNDS_CHECKED}})
        for var, func in module.functions.items()
        if isinstance(func, (PrimFunc, relax.Function)) and BOUNDS_CHECKED in func.attrs
    }
    return module.with_functions({**module.functions, **made}) if made else module


def _verify(made: Compilation) -> None:
    made.verdict = judge(made.module)
    mistakes = _list_mistakes(made.verdict)
    if mistakes:
        raise CompileError.of(mistakes)


_UNREACHABLE: Final = frozenset({"RLX0112", "RLX0113"})


def _list_mistakes(verdict: Verdict) -> tuple[Diagnostic, ...]:
    """List the mistakes that prevent an executable, which also needs a public function (R38)."""
    unreachable = [d for d in verdict.warnings if d.code in _UNREACHABLE]
    return (*verdict.mistakes, *[replace(d, severity="error") for d in unreachable])


def _bind(made: Compilation) -> None:
    made.strided = {}
    if made.options.constants:
        given = made.module  # which still says how parameters are strided
        made.module = bind_constants(given, made.options.constants)
        made.strided = list_strided_parameters(given)
    made.machine = Target(made.target)
    has_graph = any(isinstance(f, relax.Function) for f in made.module.functions.values())
    made.graph = made.module if has_graph else None


def _compare_schedules(made: Compilation) -> None:
    # Imported on demand, since it imports the interpreters.
    report = import_module("loomir.validate").validate_schedule(made.module, made.machine)
    mistakes = report.mistakes()
    if mistakes:
        raise CompileError.of(mistakes)
    caution(report.cautions())


def _warn(made: Compilation) -> None:
    has_nothing_to_check = made.options.check_nan and made.graph is None
    found = [*made.verdict.warnings, *([no_graph()] if has_nothing_to_check else [])]
    caution(found)
    if found:
        made.keep = None  # each process has to issue the warnings


# -- the graph ---------------------------------------------------------------------------------
_LONG: Final = 40
"""Bindings of graphs from which two processes share the compiling of code."""


def _is_long(module: IRModule) -> bool:
    found = [by_class(f) for f in module.functions.values() if isinstance(f, relax.Function)]
    return sum(len(parts.get(relax.VarBinding, ())) for parts in found) >= _LONG


def _start_llvm(made: Compilation) -> None:
    expect_work()
    if made.machine.cores > 1:
        load_library_early()


def _optimize_graph(made: Compilation) -> None:
    winograd = WinogradConv2DOptions(target=made.machine, constant=True)
    unasked = winograd if made.options.winograd is None else None
    made.graph = optimize_relax(_graph_of(made), unasked, on_stage=made.on_stage)


def _transform_convolutions(made: Compilation) -> None:
    given = {"relax.WinogradConv2D": WinogradConv2DOptions(target=made.machine)}
    made.graph = WINOGRAD.run(_graph_of(made), given, on_stage=made.on_stage)


def _check_nan(made: Compilation) -> None:
    made.graph = CHECK_NAN.run(_graph_of(made), on_stage=made.on_stage)


def _lower_graph(made: Compilation) -> None:
    packs = made.has_default_schedule and not made.check_bounds
    packing = choose_packing(made.machine, cache=made.options.cache) if packs else None
    made.graph = link_calls(lower_relax(_graph_of(made), packing, on_stage=made.on_stage))


def _graph_of(made: Compilation) -> IRModule:
    assert made.graph is not None
    return made.graph


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
        made = run_stages(Compilation(module, "native", flags))
        return callables(made.tables, made.native).__getitem__

    return PackConstantsOptions(
        lambda func, constants: prepare_constants(func, constants, machine, least=least), build
    )


# -- the kernels -------------------------------------------------------------------------------
def _find_kernels(made: Compilation) -> None:
    made.loops = made.module
    if made.graph is not None:
        functions = made.graph.functions.items()
        made.loops = made.graph.with_functions(
            {v: f for v, f in functions if isinstance(f, PrimFunc)}
        )
        made.show("kernels", made.loops)
    made.scheduled = made.loops  # until they are
    made.signatures = _read_signatures(made.loops)
    if made.machine.triple == Target("native").triple:
        _check_externs(made.loops)


def _schedule(made: Compilation) -> None:
    given = {"tir.Schedule": ScheduleOptions(made.machine, made.check_bounds)}
    made.scheduled = SCHEDULE.run(made.loops, given, on_stage=made.on_stage)


def _lower_loops(made: Compilation) -> None:
    options = made.options
    checked = options.checked or made.check_bounds
    made.lowered = lower(
        made.scheduled,
        LowerOptions(checked, options.checked, options.allow_alias),
        on_stage=made.on_stage,
    )
    made.signatures |= _read_signatures(made.lowered, made.signatures)  # of functions it added


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


def _read_signatures(module: IRModule, known: Container[str] = ()) -> dict[str, Signature]:
    """Return the signatures of the functions that are not known yet."""
    return {
        var.name_hint: signature_of(func, module)
        for var, func in module.functions.items()
        if isinstance(func, PrimFunc) and var.name_hint not in known
    }


# -- the code ----------------------------------------------------------------------------------
def _generate(made: Compilation) -> None:
    # The library is made later, if at all, and does not keep the other stages until then.
    lowered, machine, graph, signatures = made.lowered, made.machine, made.graph, made.signatures
    flags = made.options
    options = Options(flags.allow_alias, watched=flags.checked, timed=made.timed)
    made.generated = generate(lowered, machine, options, signatures=signatures, program=graph)
    made.library = LibrarySource(
        lambda: generate(
            lowered, machine, replace(options, for_c=True), signatures=signatures, program=graph
        ),
        signatures,
        _list_called_functions(made.loops),
        machine_of(machine),
        flags.opt_level,
        flags.checked,
    )
    kernels = {name: _kernel(signatures[name]) for name in made.generated.entries}
    made.tables = Tables(
        made.generated, kernels, made.loops, flags.allow_alias, flags.copy_arguments, made.strided
    )


def _assemble(made: Compilation) -> None:
    folder = SETTINGS.cache_dir if made.options.cache else None
    made.native = NativeModule(
        made.generated,
        made.machine,
        level=made.options.opt_level,
        cache=None if folder is None else ObjectCache(folder),
        on_loaded=None if made.keep is None else partial(made.keep, made.tables),
    )
    if made.files is not None:
        made.files.write_text("code.ll", made.native.llvm_ir())
        made.files.write_text("code.s", made.native.assembly())
    if made.options.eager:
        made.native.prepare()


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


def _kernel(signature: Signature) -> KernelSignature:
    parameters = [
        Parameter(p.name, p.dtype, p.buffer is not None, p.written, p.span)
        for p in signature.parameters
    ]
    return KernelSignature(tuple(parameters), signature.returns)


# -- in their order ----------------------------------------------------------------------------
STAGES: Final[tuple[CompileStage, ...]] = (
    CompileStage(
        "make a module", "make a module of a function, and link calls by name", _make_module
    ),
    CompileStage("verify", "find all mistakes of the program", _verify),
    CompileStage("bind", "bind constants, and find the machine", _bind),
    CompileStage(
        "compare schedules",
        "interpret kernels as written and as scheduled (`verify_schedule=True`)",
        _compare_schedules,
        lambda made: made.options.verify_schedule and made.has_default_schedule and not made.timed,
    ),
    CompileStage("warn", "issue the warnings of verification", _warn, lambda made: not made.timed),
    CompileStage(
        "start LLVM",
        "start LLVM and its process beside the passes, for a long graph",
        _start_llvm,
        lambda made: (
            made.graph is not None
            and made.options.schedule
            and made.options.opt_level > 0
            and _is_long(made.graph)
        ),
    ),
    CompileStage(
        "optimise the graph",
        "rewrite the graph to a faster one, whose results may differ by rounding",
        _optimize_graph,
        lambda made: (
            made.graph is not None and made.has_default_schedule and made.options.optimize_graph
        ),
    ),
    CompileStage(
        "transform convolutions",
        "compute convolutions by Winograd's transforms (`winograd=True`)",
        _transform_convolutions,
        lambda made: made.graph is not None and bool(made.options.winograd),
    ),
    CompileStage(
        "check for NaN",
        "check what each call in the graph returns (`check_nan=True`)",
        _check_nan,
        lambda made: made.graph is not None and made.options.check_nan,
    ),
    CompileStage(
        "lower the graph",
        "make kernels of operators, fuse them, prepack constants, plan memory",
        _lower_graph,
        lambda made: made.graph is not None,
    ),
    CompileStage(
        "find kernels",
        "take the kernels out of the graph, and find the C functions that they call",
        _find_kernels,
    ),
    CompileStage(
        "schedule",
        "arrange the loops of kernels for the machine",
        _schedule,
        lambda made: made.has_default_schedule,
    ),
    CompileStage(
        "lower the loops", "lower what LLVM does not know, one construct in each pass", _lower_loops
    ),
    CompileStage("generate", "write LLVM IR, and the tables for its calls", _generate),
    CompileStage(
        "assemble and load",
        "have LLVM make machine code: now (`eager=True`), or at the first call",
        _assemble,
    ),
)
