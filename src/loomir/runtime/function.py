"""Compiled loop-level functions, as callable Python objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from loomir.runtime.arguments import adapt, diagnose
from loomir.runtime.errors import RunTypeError, refuse_pickle
from loomir.runtime.fault import Fault, FaultKind
from loomir.runtime.ffi import NativeFault, direct_classes, function_from_address
from loomir.runtime.interrupts import interrupt_of
from loomir.runtime.layout import SITE_ARGUMENTS
from loomir.runtime.packed.callback import interruption, take
from loomir.runtime.packed.packed_call import with_place
from loomir.runtime.parameter import Parameter
from loomir.runtime.view import view_arguments
from loomir.support.diagnostics import Diagnostic, InternalError, RunError, nearest
from loomir.support.dtype import DataType
from loomir.support.fork_safe import ForkSafeLock

__all__ = ["ArgumentCompleter", "Function"]

ArgumentCompleter: TypeAlias = Callable[
    [Sequence[object], Mapping[str, object]], "tuple[tuple[object, ...], object] | str"
]
"""Completes the arguments of a call: returns all arguments and the result, or why it cannot."""


class Function:
    """A compiled function: takes arrays for buffers and numbers for scalars, in order or by name.

    The last buffers may be left out if the program writes them, does not read their earlier
    contents, and the other arguments determine their shapes; they are then allocated and returned.

    Buffers are read and written in place, whoever made them: NumPy, PyTorch, anything that exports
    DLPack. The GIL is released during the call; several threads may call at once.

    ``entry`` returns the address of the native entry point; it is called once, at the first call.
    ``faults`` are numbered by site. ``explain`` raises the ``RunError`` for arguments that the
    native entry refused; it gets them as NumPy arrays and Python numbers. ``keep_alive`` owns the
    code. ``returns`` is the dtype of the result, None if there is none. ``complete`` adds outputs
    that a call leaves out, which the call then returns, or says why it cannot.

    Errors: RUN01xx for the arguments, RUN02xx for what happens inside, and those of ``explain``.
    """

    __slots__ = (
        "__weakref__",
        "_complete",
        "_direct",
        "_entry",
        "_explain",
        "_faults",
        "_keep_alive",
        "_lock",
        "_names",
        "_native",
        "name",
        "parameters",
        "returns",
    )

    def __init__(
        self,
        name: str,
        parameters: Sequence[Parameter],
        entry: Callable[[], int],
        faults: Sequence[Fault],
        explain: Callable[[tuple[object, ...]], None],
        keep_alive: object = None,
        returns: DataType | None = None,
        complete: ArgumentCompleter | None = None,
    ) -> None:
        self.name = name
        self.parameters: tuple[Parameter, ...] = tuple(parameters)
        self.returns = returns
        self._names = tuple(p.name for p in self.parameters)
        self._entry = entry
        self._faults = tuple(faults)
        self._explain = explain
        self._complete = complete
        self._keep_alive = keep_alive
        self._lock = ForkSafeLock()
        self._native: Callable[..., object] | None = None
        # Until the code is linked, no class is passed directly: see _link.
        self._direct: frozenset[type] = frozenset()

    def __repr__(self) -> str:
        result = "" if self.returns is None else f" -> {self.returns}"
        return f"<compiled {self.name}({', '.join(map(str, self.parameters))}){result}>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled. Errors: RUN0468."""
        raise refuse_pickle(self.name)

    # -- the fast path ---------------------------------------------------------------------------
    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Run the function; see the class."""
        direct = self._direct
        for arg in args:
            if arg.__class__ not in direct:
                return self._call_adapted(args, kwargs)
        native = self._native
        if kwargs or native is None:
            return self._call_adapted(args, kwargs)
        try:
            return native(*args)
        except (NativeFault, BufferError, OverflowError) as error:
            # The last two mean that tvm-ffi could not convert an argument.
            failure = error
        try:
            return self._recover(args, failure)
        finally:
            del failure  # its traceback refers to this frame

    # -- all other paths -------------------------------------------------------------------------
    def _link(self) -> Callable[..., object]:
        with self._lock:
            native = self._native
            if native is None:
                native = function_from_address(self._entry(), self._keep_alive)
                if self.returns is not None and self.returns.is_uint and self.returns.bits == 64:
                    native = _read_unsigned(native)
                self._native = native
                # Last: another thread that sees the classes must also see the function.
                self._direct = self._direct_classes()
        return native

    def _direct_classes(self) -> frozenset[type]:
        classes = direct_classes()
        if any(p.is_buffer and (p.dtype.is_bfloat or p.dtype.is_vector) for p in self.parameters):
            # Every such array has to be converted; trying the fast path first would cost an
            # exception.
            classes -= {np.ndarray}
        return classes

    def _call_adapted(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        if len(args) + len(kwargs) < len(self._names):
            return self._call_completed(args, kwargs)
        given = self._bind(args, kwargs)
        native = self._native or self._link()
        return self._run(native, given, adapt(self.parameters, given))

    def _call_completed(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Call with the outputs that are left out, and return them."""
        if self._complete is None:
            raise self._misfit(args, kwargs)
        completed = self._complete(args, kwargs)
        if isinstance(completed, str):
            raise self._misfit(args, kwargs, completed)
        given, result = completed
        native = self._native or self._link()
        self._run(native, given, adapt(self.parameters, given))
        return result

    def _run(
        self, native: Callable[..., object], given: tuple[object, ...], adapted: tuple[object, ...]
    ) -> object:
        try:
            return native(*adapted)
        except NativeFault as error:
            failure = error
        except (BufferError, RuntimeError):
            # Raised by the argument's library, when it exports memory, or inside the program.
            diagnose(self.parameters, given)
            raise
        try:
            self._raise(failure, given, adapted)
        finally:
            del failure

    def _recover(self, args: tuple[object, ...], failure: Exception) -> object:
        """Go on after the fast path failed.

        If ``adapt`` changes an argument, the fast path could not pass it, so that the code has not
        run yet and may be called again. If it changes none, the failure comes from inside.
        """
        if isinstance(failure, NativeFault) and failure.split()[0] != SITE_ARGUMENTS:
            self._raise(failure, args, args)
        if len(args) < len(self._names):
            return self._call_completed(args, {})
        adapted = adapt(self.parameters, self._bind(args, {}))
        if any(a is not b for a, b in zip(args, adapted, strict=True)):
            native = self._native or self._link()
            return self._run(native, args, adapted)
        if not isinstance(failure, NativeFault):
            raise failure
        return self._raise(failure, args, adapted)

    def _raise(
        self, failure: NativeFault, given: tuple[object, ...], adapted: tuple[object, ...]
    ) -> NoReturn:
        site, values = failure.split()
        if site == SITE_ARGUMENTS:
            diagnose(self.parameters, given)
            self._explain(view_arguments(self.parameters, given, adapted))
            raise InternalError(
                f"{self.name} refused its arguments, but no reason for that was found"
            )
        if not 0 <= site < len(self._faults):
            raise InternalError(f"{self.name} reported fault {site} of {len(self._faults)}")
        fault = self._faults[site]
        # Taken even for other faults, to drop the exceptions of other threads.
        raised = take(failure.root, values[0])
        stopped = interrupt_of(failure.root)
        if stopped is not None:
            try:
                raise stopped
            finally:
                del stopped, raised
        if fault.kind is not FaultKind.CALLEE:
            raise fault.error(values)
        error = interruption() if raised is None else with_place(raised, fault.span)
        try:
            raise error
        finally:
            # Its traceback refers to this frame, which must not refer to it.
            del error, raised

    # -- binding by position and by name ---------------------------------------------------------
    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[object, ...]:
        names = self._names
        if len(args) + len(kwargs) == len(names):
            if not kwargs:
                return args
            rest = names[len(args) :]
            if all(name in kwargs for name in rest):
                return (*args, *[kwargs[name] for name in rest])
        raise self._misfit(args, kwargs)

    def _misfit(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        remedy: str = "give one argument for each parameter",
    ) -> RunError:
        names = self._names
        if len(args) > len(names):
            return self._arity(f"{len(args)} {'was' if len(args) == 1 else 'were'} given")
        for name in kwargs:
            if name not in names:
                guess = nearest(name, names)
                known = f"its parameters are {', '.join(names)}"
                help_ = f"did you mean {guess!r}?" if guess else known
                return self._keyword(f"has no parameter {name!r}", help_)
            if name in names[: len(args)]:
                return self._keyword(f"got {name!r} both by position and by name")
        missing = [name for name in names[len(args) :] if name not in kwargs]
        count = len(args) + len(kwargs)
        return self._arity(
            f"{count} {'was' if count == 1 else 'were'} given; missing: {', '.join(missing)}",
            remedy,
        )

    def _arity(self, what: str, remedy: str = "give one argument for each parameter") -> RunError:
        count = len(self.parameters)
        plural = "argument" if count == 1 else "arguments"
        return RunTypeError(
            Diagnostic(
                "RUN0101",
                f"{self.name} takes {count} {plural}, {what}",
                notes=tuple(str(p) for p in self.parameters),
                help=remedy,
            )
        )

    def _keyword(self, what: str, remedy: str = "") -> RunError:
        return RunTypeError(
            Diagnostic(
                "RUN0102",
                f"{self.name} {what}",
                notes=tuple(str(p) for p in self.parameters),
                help=remedy,
            )
        )


def _read_unsigned(native: Callable[..., object]) -> Callable[..., object]:
    """Read the result as unsigned: the calling convention has only signed integers."""

    def call(*args: object) -> object:
        result = native(*args)
        return result % 2**64 if isinstance(result, int) else result

    return call
