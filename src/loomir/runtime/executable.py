"""Executables, the result of compiling: callable functions, and views of the generated code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from loomir.runtime.errors import (
    RunAttributeError,
    RunKeyError,
    RunTypeError,
    RunValueError,
    refuse_pickle,
)
from loomir.runtime.function import Function
from loomir.runtime.graph.function import GraphFunction
from loomir.runtime.report.profile import Profile
from loomir.support.argument_errors import explain_methods
from loomir.support.diagnostics import Diagnostic, InternalError, nearest
from loomir.support.displaying import HtmlDisplay
from loomir.support.runtime_types import quote_name

__all__ = ["Executable", "show_seconds"]


def show_seconds(seconds: float) -> str:
    """Format a duration."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


_CALLS: Final = frozenset(("call", "entry_func", "execute", "forward", "invoke", "main", "run"))
"""What others call a call."""


@explain_methods
class Executable(HtmlDisplay):
    """Compiled functions by name: ``exe["main"](x, y)``, or ``exe(x, y)`` for ``main``.

    Without a ``main``, ``exe(x, y)`` calls the only function.
    ``script``, ``llvm_ir`` and ``assembly`` are generated on first access.
    ``compile_time`` is the number of seconds that compiling took, including machine code; None if
    machine code is left to the first call (``eager=True`` generates it at once), or was loaded.
    ``stage_times`` says how many of them each stage took, by its name; none if it was loaded.
    ``schedules`` says whether each kernel has the default schedule or that of a record, if the
    program was compiled with a tuning database.
    """

    __slots__ = (
        "__weakref__",
        "_assembly",
        "_default",
        "_export",
        "_functions",
        "_llvm_ir",
        "_profile",
        "_reduce",
        "_save",
        "_script",
        "compile_time",
        "schedules",
        "stage_times",
    )

    def __init__(
        self,
        functions: Mapping[str, Function | GraphFunction],
        *,
        script: Callable[[], str],
        llvm_ir: Callable[[], str],
        assembly: Callable[[], str],
        save: Callable[[str | os.PathLike[str]], None] | None = None,
        reduce: Callable[[], tuple[Callable[[bytes], Executable], tuple[bytes]]] | None = None,
        export: Callable[[str | os.PathLike[str]], None] | None = None,
        profile: Callable[[str, tuple[object, ...]], Profile] | None = None,
        compile_time: float | None = None,
        stage_times: Mapping[str, float] = MappingProxyType({}),
        schedules: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.compile_time = compile_time
        self.stage_times = MappingProxyType(dict(stage_times))
        self.schedules = MappingProxyType(dict(schedules))
        self._functions = MappingProxyType(dict(functions))
        main = self._functions.get("main")
        if main is None and len(self._functions) == 1:
            (main,) = self._functions.values()
        self._default = main
        self._script = script
        self._llvm_ir = llvm_ir
        self._assembly = assembly
        self._save = save
        self._reduce = reduce
        self._export = export
        self._profile = profile

    @property
    def functions(self) -> Mapping[str, Function | GraphFunction]:
        """The functions that can be called from outside, by name."""
        return self._functions

    def __getitem__(self, name: str) -> Function | GraphFunction:
        """Return the function of that name. Errors: RUN0121 if there is none."""
        found = self._functions.get(name) if isinstance(cast("object", name), str) else None
        if found is None:
            guess = nearest(name, self._functions)
            raise RunKeyError(
                Diagnostic(
                    "RUN0121",
                    f"there is no function {quote_name(name)}",
                    notes=(self._list_names(),),
                    help=f"did you mean {guess!r}?" if guess else "use a name that the note lists",
                )
            )
        return found

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Explain how to call a function that is accessed as an attribute."""
            known = object.__getattribute__(self, "_functions")
            message = f"an executable has no attribute {name!r}"
            if name.startswith("_"):
                raise AttributeError(message)
            if name in known:
                help_ = f"call exe[{name!r}](...)"
            elif name in _CALLS:
                help_ = "call it: exe(x, y)" if len(known) == 1 else "call exe['main'](x, y)"
            else:
                names = [n for n in dir(type(self)) if n[0] != "_"]
                near = nearest(name, names)
                help_ = f"did you mean {near}?" if near else f"it has {', '.join(names)}"
            raise RunAttributeError(Diagnostic("RUN0121", message, help=help_))

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Call ``main``, or the only function. Errors: RUN0122 if there is neither."""
        if self._default is None:
            raise self._unclear()
        return self._default(*args, **kwargs)

    def profile(self, /, *args: object, name: str | None = None) -> Profile:
        """Call a function, by default ``main`` or the only one, and report where the time goes.

        The program is compiled again with timers in its kernels; this executable is not changed.
        The first call in a process measures the machine, which takes some seconds.

        Errors: those of the call; RUN0122 if it is not clear which function to call, RUN0121.
        """
        if self._profile is None:
            raise RunTypeError(
                Diagnostic(
                    "RUN0480",
                    "a program that was loaded cannot be profiled",
                    help="compile the program, and profile that",
                )
            )
        if name is None:
            names = list(self._functions)
            name = names[0] if len(names) == 1 else "main"
        return self._profile(self[name].name, args)

    def script(self) -> str:
        """Return the program as TVMScript."""
        return self._script()

    def llvm_ir(self) -> str:
        """Return the code as LLVM IR."""
        return self._llvm_ir()

    def assembly(self) -> str:
        """Return the assembly of the machine code."""
        return self._assembly()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the executable to a file, which ``loomir.load`` reads in any process.

        The file is written atomically. It does not contain Python functions that the program calls:
        the process that loads it has to register them.
        Errors: RUN0467 if the file cannot be written, TIR0003 for attributes that are not plain
        data.
        """
        if self._save is None:
            raise InternalError("this executable was made without a way to save it")
        self._save(path)

    def __reduce__(self) -> tuple[Callable[[bytes], Executable], tuple[bytes]]:
        """Pickle the executable as the bytes that ``save`` writes.

        Errors: RUN0468 if it was created without a way to save it, TIR0003.
        """
        if self._reduce is None:
            raise refuse_pickle("this executable")
        return self._reduce()

    def export_library(self, path: str | os.PathLike[str]) -> None:
        """Write a library for programs in C, and next to it the header, ``path`` with ``.h``.

        The path ends in ``.o`` for an object file, or in ``.so`` for a shared library, which a C
        compiler on this machine links. Either needs the C library and threads, nothing else.

        Errors: RUN0467 if a file cannot be written, RUN0470 for another ending, RUN0471 for a
        program that calls Python, RUN0472 if there is no linker, RUN0473 if it fails, RUN0474
        for an executable that was loaded from a file, RUN0475 for a system other than Linux.
        """
        if self._export is None:
            raise RunValueError(
                Diagnostic(
                    "RUN0474",
                    "an executable that was loaded from a file cannot be exported: the program it "
                    "was compiled from is not in the file",
                    help="compile the program again: loomir.compile(program).export_library(path)",
                )
            )
        self._export(path)

    def _unclear(self) -> RunTypeError:
        names = list(self._functions)
        return RunTypeError(
            Diagnostic(
                "RUN0122",
                "which function is meant? there is no main among several functions"
                if names
                else "there is no function to call",
                notes=(self._list_names(),),
                help=f"name it: exe[{names[0]!r}](...)" if names else "compile a public function",
            )
        )

    def _list_names(self) -> str:
        return f"its functions are: {', '.join(self._functions) or '(none)'}"

    def __repr__(self) -> str:
        names = ", ".join(self._functions) or "no functions"
        if self.compile_time is None:
            return f"<executable of {names}>"
        return f"<executable of {names}, compiled in {show_seconds(self.compile_time)}>"
