"""Compile a program, or load the result that another process put into the cache."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache as cached
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from loomir.autoschedule.ir.decision import current_source
from loomir.ir.module import IRModule, Origin
from loomir.runtime.compile_options import CompileOptions, check_options
from loomir.runtime.executable import Executable
from loomir.runtime.storage.digests import key_of, source_stamp
from loomir.support.argument_errors import explain_arguments, refuse_unknown_options
from loomir.support.caller_span import read_call, user_span
from loomir.support.compiling import set_compiler
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.fork_safe import import_module
from loomir.target import Target

if TYPE_CHECKING:
    from loomir.driver import OnCompiled, Program

__all__ = ["compile"]


@explain_arguments
@refuse_unknown_options
def compile(  # noqa: A001 - the name that users expect
    program: Program,
    target: str | Target = "native",
    *,
    checked: bool = False,
    check_bounds: bool | None = None,
    allow_alias: bool = False,
    opt_level: int = 2,
    schedule: bool = True,
    cache: bool = True,
    dump: str | os.PathLike[str] | None = None,
    check_nan: bool = False,
    constants: Mapping[str, Any] | None = None,
    winograd: bool | None = None,
    verify_schedule: bool = False,
    eager: bool = False,
    copy_arguments: bool = False,
    optimize_graph: bool = True,
    database: Any = None,
    choices: Mapping[str, Mapping[str, Any]] | None = None,
) -> Executable:
    """Compile a function or a module to native code.

    - ``check_bounds`` makes an index out of bounds raise, at little cost (``docs/performance.md``);
      None checks programs that were parsed with ``trusted=False``.
    - ``checked`` also finds reads of uninitialised memory, and races between the iterations of
      parallel loops.
    - ``allow_alias`` lets array arguments overlap.
    - ``cache``: whether object code is stored on disk.
    - ``schedule``: whether loops are scheduled for the machine. They run as written if it is false,
      under ``checked``, with ``allow_alias``, at ``opt_level`` 0, and in functions with a parallel,
      vectorised, unrolled or annotated loop.
    - ``check_nan`` stops a graph at the first NaN or infinity that a kernel computes; for loops
      without a graph it does nothing, and warns (RUN0482).
    - ``constants`` are arguments by name that are the same in all calls, such as weights. They are
      packed now; a graph ``main``, or a single function, is then called without them.
    - ``optimize_graph``: whether graphs are rewritten to faster ones whose results may differ by
      rounding, for example with batch normalisation folded into weights; not if loops run as
      written.
    - ``winograd`` computes convolutions of graphs by Winograd's transforms if that is faster
      (``relax.WinogradConv2D``); None does so, under ``optimize_graph``, only for constant kernels
      of float32. Rounding errors, infinities and NaNs then also reach neighbouring results.
    - ``verify_schedule`` compares each schedule with the unscheduled function, by the interpreter
      without rounding, on small arguments: SCH0011 if the results differ, and a warning (SCH0012)
      if that could not be checked.
    - ``eager`` generates the machine code at once instead of at the first call;
      ``exe.compile_time`` says how long that took.
    - ``copy_arguments`` lets calls copy arrays of other strides than the program takes, such as
      ``x.T``, and copy back written ones; otherwise they are refused (RUN0006).
    - ``database`` is a file of ``loomir.tune``, or a ``loomir.tuning.Database``: kernels with a
      record are scheduled by it, and ``exe.schedules`` says which schedule each kernel has.
    - ``choices`` changes decisions of the default schedule, for kernels by name, each by keys that
      ``loomir.tuning.list_choices`` lists.
    - ``dump`` is a directory for the program after each pass, the LLVM IR and the assembly.

    Errors: RUN0012 for an invalid option, TGT0001; every mistake that ``loomir.verify`` finds, in
    one ``CompileError``; RLX0112 and RLX0113 if a graph cannot be called by its name in the module;
    RLX0330 for ``constants`` that do not fit; TUN0001, TUN0002 and TUN0004 for a database that
    cannot be read; TUN0006 for ``choices`` that do not fit. Code that is probably not intended
    causes a ``CompileWarning``.
    """
    flags = CompileOptions(
        checked,
        check_bounds,
        allow_alias,
        opt_level,
        schedule,
        cache,
        check_nan,
        {} if constants is None else constants,
        winograd,
        verify_schedule,
        eager,
        copy_arguments,
        optimize_graph,
    )
    check_options(flags._asdict())
    origin = program.origin if isinstance(program, IRModule) else None
    key = None
    by_default = database is None and choices is None and current_source() is None
    if origin is not None and dump is None and by_default:
        key = _key(origin, target, flags)

    def anew(keep: OnCompiled | None = None) -> Executable:
        driver: Any = import_module("loomir.driver")
        # The signature refers to it by name, which is resolved if an argument has a wrong type.
        globals()["Program"] = driver.Program
        decided = None if by_default else driver.ScheduleSource(database, choices)
        return driver.compile_anew(program, target, flags, dump, compile, keep, decided)

    if origin is None or key is None:
        return anew()
    started = time.perf_counter()
    found = _find(key, cached(anew))
    if found is None:
        return anew(_make_keep(key, origin))
    if eager:
        found.prepare()
        found.executable.compile_time = time.perf_counter() - started
    return found.executable


def _key(origin: Origin, target: str | Target, flags: CompileOptions) -> str | None:
    """Return the key of a program in the cache; None if it must not be cached."""
    if not flags.cache or flags.constants or flags.verify_schedule or flags.copy_arguments:
        return None
    stamp = source_stamp()
    if stamp is None or not SETTINGS.keeps_programs:
        return None
    options = flags._replace(cache=True, constants={}, eager=False)
    # Imports LLVM, which the target asks about the machine.
    llvm: Any = import_module("llvmlite.binding")
    return key_of(
        "program",
        origin.key,
        stamp,
        str(llvm.llvm_version_info),
        repr(Target(target).identity()),
        repr(options),
    )


def _find(key: str, again: Callable[[], Executable]) -> Any:
    return import_module("loomir.deploy.cached_programs").find_cached(key, again)


def _make_keep(key: str, origin: Origin) -> OnCompiled:
    def keep(tables: Any, code: bytes) -> None:
        # Otherwise it was compiled from newer files than those of the key.
        if origin.is_current():
            import_module("loomir.deploy.cached_programs").cache_program(key, tables, code)

    return keep


set_compiler(compile)


class _Module(ModuleType):
    """This module, which a user may call in place of ``loomir.compile``."""

    def __call__(self, *args: object, **options: object) -> NoReturn:
        """Refuse the call, and say what to write. Errors: SCR0004."""
        span = user_span()
        called = read_call(span)
        written = "program" if called is None else called.arguments
        message = "loomir.build is a module, and cannot be called"
        raise CompileError(
            Diagnostic("SCR0004", message, span, help=f"write loomir.compile({written})")
        )


sys.modules[__name__].__class__ = _Module
