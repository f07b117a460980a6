"""Loomir: a tensor compiler that installs as pure Python and compiles through LLVM.

``loomir.compile`` compiles a program to native code, ``loomir.interpret`` runs it by the definition
of the language, and ``loomir.verify`` lists its mistakes. Programs are written in
``loomir.script``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loomir.support.compiling import set_compiler, to_executable
from loomir.support.displaying import render_html, set_renderer
from loomir.support.fork_safe import import_module
from loomir.support.loading import set_loader
from loomir.support.printing import set_printer, to_text
from loomir.support.uncaught.hooks import hook_uncaught

if TYPE_CHECKING:
    from loomir import ir, op, relax, runtime, schedule, script, tc, te, tir, tuning
    from loomir.build import compile  # the name that users expect
    from loomir.check.relax.verify import verify, warnings_of
    from loomir.debug.bisection import bisect
    from loomir.debug.values import compare_stages
    from loomir.deploy.saved_executables import load
    from loomir.frontend import onnx, torch
    from loomir.interp import interpret
    from loomir.runtime.executable import Executable
    from loomir.runtime.packed.externs import load_library, register_extern
    from loomir.runtime.packed.registry import get_func, register_func
    from loomir.runtime.shape import Shape
    from loomir.schedule.schedule import Schedule
    from loomir.specialize import JitFunction
    from loomir.support.compile_warning import CompileWarning
    from loomir.support.diagnostics import (
        CompileError,
        Diagnostic,
        InternalError,
        LoomirError,
        RunError,
        ScheduleError,
    )
    from loomir.target import Target
    from loomir.tuning.tune import tune
    from loomir.validate import validate_schedule

    # Functions under `jit` are parsed by Loomir, not by type checkers: see
    # loomir/checkers/__init__.py.
    MYPY = False
    if MYPY:
        from typing import no_type_check as jit
    else:
        # There is only a stub.
        from loomir.checkers.jit.typing_extensions import (  # pyright: ignore[reportMissingModuleSource]
            no_type_check as jit,
        )

__version__ = "0.1.0"

__all__ = [
    "CompileError",
    "CompileWarning",
    "Diagnostic",
    "Executable",
    "InternalError",
    "JitFunction",
    "LoomirError",
    "RunError",
    "Schedule",
    "ScheduleError",
    "Shape",
    "Target",
    "bisect",
    "compare_stages",
    "compile",
    "get_func",
    "interpret",
    "ir",
    "jit",
    "load",
    "load_library",
    "onnx",
    "op",
    "register_extern",
    "register_func",
    "relax",
    "runtime",
    "schedule",
    "script",
    "tc",
    "te",
    "tir",
    "torch",
    "tune",
    "tuning",
    "validate_schedule",
    "verify",
    "warnings_of",
]

# Imported on first use, so that ``import loomir`` is fast.
_HOMES: Final = {
    "CompileError": "loomir.support.diagnostics",
    "CompileWarning": "loomir.support.compile_warning",
    "Diagnostic": "loomir.support.diagnostics",
    "Executable": "loomir.runtime.executable",
    "InternalError": "loomir.support.diagnostics",
    "JitFunction": "loomir.specialize",
    "LoomirError": "loomir.support.diagnostics",
    "RunError": "loomir.support.diagnostics",
    "Schedule": "loomir.schedule.schedule",
    "ScheduleError": "loomir.support.diagnostics",
    "Shape": "loomir.runtime.shape",
    "Target": "loomir.target",
    "bisect": "loomir.debug.bisection",
    "compare_stages": "loomir.debug.values",
    "compile": "loomir.build",
    "get_func": "loomir.runtime.packed.registry",
    "interpret": "loomir.interp",
    "jit": "loomir.specialize",
    "load": "loomir.deploy.saved_executables",
    "load_library": "loomir.runtime.packed.externs",
    "register_extern": "loomir.runtime.packed.externs",
    "register_func": "loomir.runtime.packed.registry",
    "tune": "loomir.tuning.tune",
    "validate_schedule": "loomir.validate",
    "verify": "loomir.check.relax.verify",
    "warnings_of": "loomir.check.relax.verify",
}
_ALIASES: Final = {"onnx": "loomir.frontend.onnx", "torch": "loomir.frontend.torch"}
_INSTEAD: Final = {
    # What others call things.
    **dict.fromkeys(("array", "nd", "tensor"), "numpy.array(...): programs take NumPy's arrays"),
    **dict.fromkeys(("cpu", "cuda", "device", "gpu"), "nothing: programs run on this CPU"),
    **dict.fromkeys(("run", "execute", "build_module"), "loomir.compile(program)(x, y)"),
    "build": "loomir.compile(program)",
    "lower": "loomir.compile(program).script()",
    "optimize": "loomir.compile(program), which optimizes",
    "set_num_threads": "LOOMIR_NUM_THREADS=4 before the command that starts Python",
    "transform": "from loomir import transform",
    "parse": "loomir.script.from_source(text)",
    "prim_func": "@T.prim_func, after: from loomir.script import tir as T",
    "function": "@R.function, after: from loomir.script import relax as R",
    "ir_module": "@I.ir_module, after: from loomir.script import ir as I",
}
_PACKAGES: Final = (
    "ir",
    "op",
    "relax",
    "runtime",
    "schedule",
    "script",
    "tc",
    "te",
    "tir",
    "tuning",
)


def _print(node: object, *, constants: str) -> str:
    """Import the printer, which replaces this function, and print the first node with it."""
    import_module("loomir.script.printer")
    return to_text(node, constants=constants)


def _compile(program: object, **options: Any) -> Any:
    """Import the compiler, which replaces this function, and compile the first program with it."""
    import_module("loomir.build")
    return to_executable(program, **options)


def _render(value: object) -> str:
    """Import the renderer, which replaces this function, and render the first value with it."""
    import_module("loomir.display")
    return render_html(value)


set_printer(_print)
set_renderer(_render)
set_compiler(_compile)
set_loader(lambda: import_module("loomir.op"))
hook_uncaught()


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _ALIASES:
        value = import_module(_ALIASES[name])
    elif name in _PACKAGES:
        value = import_module(f"loomir.{name}")
    else:
        refuse = import_module("loomir.support.argument_errors").refuse_missing
        return refuse("loomir", __all__, _INSTEAD)(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
