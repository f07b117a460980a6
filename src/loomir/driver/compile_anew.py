"""Compile a program without the cache of programs, and wrap the result for Python."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from loomir import __version__
from loomir.autoschedule.ir.decision import current_source, decisions_from
from loomir.deploy.callables import callables
from loomir.deploy.library import export_library
from loomir.deploy.saved_executables import from_bytes, save, to_bytes
from loomir.driver.compilation import Compilation, OnCompiled
from loomir.driver.program import Program
from loomir.driver.schedule_source import ScheduleSource
from loomir.driver.stages import run_stages
from loomir.ir.garbage import collect_seldom
from loomir.ir.module import IRModule
from loomir.ir.stage_files import StageFiles
from loomir.ir.visit import by_class, remember_classes
from loomir.profiling.profiler import LazyProfiler, Profiler
from loomir.relax import expr as relax
from loomir.runtime.compile_options import CompileOptions
from loomir.runtime.executable import Executable
from loomir.runtime.report.profile import Roof
from loomir.support.dtype import numpy_of
from loomir.support.fork_safe import import_module
from loomir.support.printing import to_text
from loomir.target import Target

__all__ = ["compile_anew"]


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
        files = None if dump is None else StageFiles(Path(dump))
        made = run_stages(Compilation(program, target, flags, files=files, keep=keep))
    described: Mapping[str, str] = {} if decided is None else decided.describe()
    took = time.perf_counter() - started
    module, tables, native, library = made.module, made.tables, made.native, made.library

    def profiler() -> Profiler:
        # Eagerly, so that the first call measures only the program.
        eager = flags._replace(eager=True)
        with decisions_from(source):
            clocked = run_stages(Compilation(program, target, eager, timed=True))
        return Profiler(callables(clocked.tables, clocked.native), clocked.native, clocked.tables)

    def text() -> str:
        return _script(module)

    def roof() -> Roof:
        # Imported on demand: its kernels have to be parsed.
        return import_module("loomir.profiling.roof").find_roof(again)

    runner = LazyProfiler(profiler, roof)
    return Executable(
        callables(tables, native),
        script=module.script,
        llvm_ir=native.llvm_ir,
        assembly=native.assembly,
        export=lambda path: export_library(path, library),
        save=lambda path: save(path, tables, native, text, __version__),
        reduce=lambda: (from_bytes, (to_bytes(tables, native, text, __version__),)),
        profile=runner.run,
        compile_time=took if flags.eager else None,
        stage_times=made.times,
        schedules=described,
    )


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
