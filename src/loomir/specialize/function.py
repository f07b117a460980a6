"""``@loomir.jit``: compile a function at its first call with arguments of new types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import update_wrapper
from types import FunctionType, MappingProxyType
from typing import Any, Final, NamedTuple, cast, overload

from loomir.build import compile as compile_program
from loomir.codegen.llvm.support.pool import cap_threads
from loomir.driver import Program
from loomir.ir.module import IRModule
from loomir.relax import expr as relax
from loomir.runtime.compile_options import check_options
from loomir.runtime.errors import RunTypeError
from loomir.runtime.executable import Executable
from loomir.script.parser.open_function import (
    ArgumentType,
    OpenFunction,
    OpenParameter,
    open_function,
)
from loomir.specialize.argument_types import share_extents, types_of
from loomir.support.argument_errors import refuse_unknown_options
from loomir.support.diagnostics import CompileError, Diagnostic, nearest, with_article, with_count
from loomir.support.fork_safe import ForkSafeLock
from loomir.support.runtime_types import show_value
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of

__all__ = ["JitFunction", "jit"]

_MOST_THREADS: Final = 256
_MOST_KNOWN: Final = 4096


class _Options(NamedTuple):
    target: str | Target
    compile: Mapping[str, Any]
    threads: int | None


class _CompiledVariant(NamedTuple):
    signature: str
    executable: Executable
    call: Callable[..., object]


class JitFunction:
    """A program that is compiled when it is called: ``f(x, y)``.

    It takes the same arguments as the compiled function: NumPy or PyTorch arrays and numbers, by
    position or by name; outputs at the end may be left out if their shapes are declared. Several
    threads may call it; each set of types is compiled once. It is pickled as its source, with the
    values of the names that it uses.
    """

    def __init__(self, program: OpenFunction | Program, options: _Options) -> None:
        self._program = program
        self._options = options
        self._parameters: tuple[OpenParameter, ...] = ()
        self._open: OpenFunction | None = None
        if isinstance(program, OpenFunction):
            self.__name__ = program.name
            self._parameters, self._open = program.parameters, program
        else:
            self.__name__ = getattr(program, "name", "module")
        is_graph = self._open is not None and self._open.is_graph
        self._size = "shape" if is_graph else "ndim"
        """The attribute of an array that, besides its dtype, selects the compiled code."""
        self._lock = ForkSafeLock()
        self._compiled: dict[tuple[tuple[str, ArgumentType], ...], _CompiledVariant] = {}
        self._known: dict[tuple[object, ...], Callable[..., object]] = {}

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function; compile it first if no call had arguments of these types.

        Errors: those of ``T.prim_func`` and ``loomir.compile`` at the first call, and of compiled
        functions; RUN0101 to RUN0105 for arguments that do not fit.
        """
        if not kwargs:
            # The key has classes, dtypes and ranks; for a number, only its class.
            size = self._size
            key = tuple(
                [(a.__class__, getattr(a, "dtype", None), getattr(a, size, None)) for a in args]
            )
            try:
                known = self._known.get(key)
            except TypeError:  # a dtype of some other library that cannot be hashed
                known = None
            if known is None:
                known = self._find(args, kwargs).call
                try:
                    if len(self._known) > _MOST_KNOWN:
                        self._known.clear()
                    self._known[key] = known
                except TypeError:
                    return known(*args)
            return known(*args)
        return self._find(args, kwargs).call(*args, **kwargs)

    def compile(self, /, *args: object, **kwargs: object) -> Executable:
        """Return the executable for arguments of these types, without calling it.

        If no type is open, arguments may be left out.
        """
        return self._find(args, kwargs).executable

    @property
    def executables(self) -> Mapping[str, Executable]:
        """The executables compiled so far, by signature."""
        return MappingProxyType({c.signature: c.executable for c in self._compiled.values()})

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signatures compiled so far."""
        return tuple(self.executables)

    def __repr__(self) -> str:
        count = with_count(len(self._compiled), "signature")
        return f"<{self.__name__}, compiled at its first call; so far {count}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the program and the options. Errors: RUN0468 for values that cannot be pickled."""
        options = self._options
        target = options.target
        name = target.name if isinstance(target, Target) else target
        return _unpickle, (self._program, name, dict(options.compile), options.threads)

    # -- finding the executable ----------------------------------------------------------------
    def _find(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> _CompiledVariant:
        types: dict[str, ArgumentType] = {}
        if self._open is not None and self._open.is_open:
            given = self._bind(args, kwargs)
            types = types_of(self._parameters, given, is_graph=self._open.is_graph)
            if self._open.is_graph:
                types = share_extents(types, given)
        key = tuple(types.items())
        found = self._compiled.get(key)
        if found is None:
            with self._lock:
                found = self._compiled.get(key)
                if found is None:
                    self._compiled[key] = found = self._compile(types)
        return found

    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments by name. Errors: RUN0101, RUN0102."""
        names = [p.name for p in self._parameters]
        if len(args) > len(names):
            takes = with_count(len(names), "argument")
            raise self._refuse("RUN0101", f"takes {takes}, {len(args)} were given", "leave one out")
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names:
                guess = nearest(name, names)
                help_ = f"did you mean {guess!r}?" if guess else f"it has {', '.join(names)}"
                raise self._refuse("RUN0102", f"has no parameter {name!r}", help_)
            if name in given:
                what = f"got {name!r} both by position and by name"
                raise self._refuse("RUN0102", what, "pass it once")
            given[name] = value
        for p in self._parameters:
            if p.is_open and p.name not in given:
                raise self._missing(p, len(given))
        return given

    def _missing(self, parameter: OpenParameter, count: int) -> RunTypeError:
        name = parameter.name
        first = self._parameters[0].name
        help_ = f"pass {name}"
        if parameter.is_written and first != name:
            like = f'{name}: "T.Buffer({first}.shape, {first}.dtype)"'
            help_ = f"pass {name}, or declare what it is, so that it is allocated, as in {like}"
        takes = with_count(len(self._parameters), "argument")
        return self._refuse(
            "RUN0101",
            f"takes {takes}, {count} {'was' if count == 1 else 'were'} given; missing: {name}",
            help_,
            parameter,
        )

    def _refuse(
        self, code: str, what: str, help_: str, parameter: OpenParameter | None = None
    ) -> RunTypeError:
        span = None if parameter is None else parameter.span
        label = "" if parameter is None else "nothing but an argument says what this is"
        message = f"{self.__name__} {what}"
        return RunTypeError(Diagnostic(code, message, span=span, label=label, help=help_))

    def _compile(self, types: Mapping[str, ArgumentType]) -> _CompiledVariant:
        program = self._program
        if isinstance(program, OpenFunction):
            try:
                made = program.read(types)
                executable = self._build(made)
            except CompileError as error:
                raise _with_types(error, types) from None
            program = made
        else:
            executable = self._build(program)
        threads = self._options.threads
        call: Callable[..., object] = executable
        if len(executable.functions) == 1:
            (call,) = executable.functions.values()
        if threads is not None:
            call = _cap_threads(call, threads)
        return _CompiledVariant(_signature(program), executable, call)

    def _build(self, program: Program) -> Executable:
        options = dict(self._options.compile)
        if options["check_bounds"] is None and isinstance(program, PrimFunc):
            options["check_bounds"] = not options["allow_alias"]
        return compile_program(program, self._options.target, **options)


def _cap_threads(function: Callable[..., object], threads: int) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        with cap_threads(threads):
            return function(*args, **kwargs)

    return call


def _with_types(error: CompileError, types: Mapping[str, ArgumentType]) -> CompileError:
    """Add to an error the types for which the function was parsed."""
    if not types:
        return error
    note = f"read for {', '.join(f'{name}: {found}' for name, found in types.items())}"
    return CompileError(*[replace(d, notes=(*d.notes, note)) for d in error.diagnostics])


def _signature(program: Program) -> str:
    if isinstance(program, PrimFunc):
        parts: list[str] = []
        for p in signature_of(program).parameters:
            rank = None if p.buffer is None else len(p.buffer.shape)
            parts.append(f"{p.name}: {ArgumentType(p.dtype, rank)}")
        return f"{program.name}({', '.join(parts)})"
    if isinstance(program, relax.Function):
        parts = [f"{p.name_hint}: {p.struct_info}" for p in program.params]
        return f"{program.name}({', '.join(parts)})"
    return ", ".join(var.name_hint for var in program.functions)


def _unpickle(
    program: OpenFunction | Program, target: str, options: dict[str, Any], threads: int | None
) -> JitFunction:
    return JitFunction(program, _Options(target, options, threads))


@overload
def jit(func: Callable[..., Any] | Program) -> JitFunction: ...
@overload
def jit(
    func: None = None,
    *,
    target: str | Target = "native",
    opt_level: int = 2,
    threads: int | None = None,
    cache: bool = True,
    schedule: bool = True,
    check_bounds: bool | None = None,
    allow_alias: bool = False,
) -> Callable[[Callable[..., Any] | Program], JitFunction]: ...
@refuse_unknown_options
def jit(
    func: Callable[..., Any] | Program | None = None,
    *,
    target: str | Target = "native",
    opt_level: int = 2,
    threads: int | None = None,
    cache: bool = True,
    schedule: bool = True,
    check_bounds: bool | None = None,
    allow_alias: bool = False,
) -> JitFunction | Callable[[Callable[..., Any] | Program], JitFunction]:
    """Compile a function at its first call, once for each set of dtypes and ranks.

    The body is TVMScript, which is parsed and not run: a graph if it mentions ``R``, else a kernel.
    Parameters without an annotation take dtype and rank from the arguments, as does a bare
    ``T.Buffer``; ``T.Buffer(("n", "m"), ...)`` leaves the dtype open, ``T.Buffer(dtype="float32")``
    the shape. Sizes are symbolic: ``x.shape[0]``. ``y: "T.Buffer(x.shape, x.dtype)"`` declares an
    output that a call may leave out. A Python float gets the widest float dtype of the call's
    arrays, or float64 without any; other Python numbers are int64 and bool. For graphs, each set of
    equal extents and extents of 1 is compiled separately, and Python numbers get the dtype of the
    arrays. Programs under ``@T.prim_func``, ``@R.function`` and ``@I.ir_module`` are compiled as
    they are, at their first call.

    An index out of bounds raises, unless ``check_bounds`` is false: sizes are checked before the
    loops run, so that few checks remain in them. (For graphs, the default is false.)

    ``threads`` is the most threads that a call may use. The other options are those of
    ``loomir.compile``.

    Errors: RUN0012 for an invalid option, TGT0001, SCR0011 if Python does not have the source,
    SCR0014 for an object that is not a program; if no type is open, those of ``T.prim_func``.
    """
    given = {
        "opt_level": opt_level,
        "cache": cache,
        "schedule": schedule,
        "check_bounds": check_bounds,
        "allow_alias": allow_alias,
    }
    options = _Options(_check_target(target), given, _check_threads(threads))
    check_options(given)
    if func is None:

        def decorate(func: Callable[..., Any] | Program) -> JitFunction:
            return _decorate(func, options, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]

        return decorate
    return _decorate(func, options, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]


def _decorate(func: object, options: _Options, frame: Any) -> JitFunction:
    if isinstance(func, FunctionType):
        found = open_function(func, frame)
        made = JitFunction(found, options)
        update_wrapper(made, func)
        if not found.is_open:
            found.read({})  # raises errors at the definition of the function
        return made
    if isinstance(func, JitFunction):
        return func
    if not isinstance(func, (PrimFunc, relax.Function, IRModule)):
        raise CompileError(
            Diagnostic(
                "SCR0014",
                f"{with_article(type(func).__name__)} is not a function",
                help="write @loomir.jit above a def, or above its @T.prim_func or @R.function",
            )
        )
    return JitFunction(func, options)


def _check_target(target: object) -> str | Target:
    return target if isinstance(target, Target) else Target(cast("str", target))


def _check_threads(threads: object) -> int | None:
    """Return the number of threads. Errors: RUN0012."""
    if threads is None or (type(threads) is int and 0 < threads <= _MOST_THREADS):
        return threads
    wanted = f"a number from 1 to {_MOST_THREADS}, or None"
    raise CompileError(
        Diagnostic(
            "RUN0012",
            f"threads is {show_value(threads)}, not {wanted}",
            help=f"give {wanted}",
        )
    )
