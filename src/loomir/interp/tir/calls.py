"""Programs ready to run: the functions of a module, translated at their first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from loomir.check.tir.internal_nodes import refuse_foreign
from loomir.interp.exact_memory import contents
from loomir.interp.machine import CallRequest, CompiledFunction, Environment, run
from loomir.interp.memory import Tracker
from loomir.interp.numbers import ROUNDED
from loomir.interp.rational import EXACT, round_to_dtype
from loomir.interp.scope import Scope
from loomir.interp.tir.arguments import Binder
from loomir.interp.tir.stmt import compile_body
from loomir.interp.values import Value
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.runtime.errors import RunTypeError
from loomir.runtime.packed.packed_call import CalleeError
from loomir.support.argument_errors import explain_methods
from loomir.support.diagnostics import Diagnostic, InternalError, RunError
from loomir.support.span import Span
from loomir.tir.analysis.cross_thread import serialize_cross_thread_reductions
from loomir.tir.function import PrimFunc
from loomir.tir.link_calls import link_calls
from loomir.tir.types import PrimType, Type

__all__ = ["ExactRun", "Interpreter"]


class ExactRun(NamedTuple):
    """The results of a call without rounding: integers, fractions, infinities and NaN."""

    result: Value
    contents: tuple[Any, ...]
    """An array of objects for each array argument, None for scalars."""


class _Entry(NamedTuple):
    binder: Binder
    compiled: CompiledFunction
    returns: Type


@explain_methods
class Interpreter:
    """Runs the functions of a module by the definition of the language, slowly.

    Every access is checked against the bounds of its buffer. ``track`` also finds reads of
    uninitialised memory (RUN0209) and races between parallel iterations (RUN0210). ``flat`` is for
    lowered programs, whose indices are offsets in memory: negative ones are valid if a stride of
    the caller's array is negative.
    With ``exact``, floats are fractions: arithmetic, comparisons, choices and conversions do not
    round, so that the order of sums does not matter. Arrays get rounded values; ``run_exact`` also
    returns the exact ones. A call with more than ``steps`` instructions raises OutOfStepsError.
    """

    def __init__(
        self,
        program: IRModule | PrimFunc,
        *,
        allow_alias: bool = False,
        track: bool = False,
        flat: bool = False,
        exact: bool = False,
        steps: int | None = None,
    ) -> None:
        self._program = _link(program)
        self._allow_alias = allow_alias
        self._flat = flat
        self._numbers = EXACT if exact else ROUNDED
        self._steps = steps
        self._trackers: list[Tracker] | None = [] if track else None
        self._entries: dict[str, _Entry] = {}

    def call(self, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Value:
        """Call a function like compiled code: arrays are changed in place.

        Errors: RunError, as compiled code raises it.
        """
        value, entry, _ = self._run(name, args, kwargs)
        if self._numbers.exact and isinstance(entry.returns, PrimType):
            dtype = entry.returns.dtype
            return round_to_dtype(value, dtype) if dtype.is_float else value
        return value

    def run_exact(
        self, name: str, args: Sequence[object], kwargs: Mapping[str, object] | None = None
    ) -> ExactRun:
        """Call a function like ``call``; return exact results and contents of arrays.

        Errors: RunError, as compiled code raises it; InternalError without ``exact``.
        """
        if not self._numbers.exact:
            raise InternalError("numbers are known only to an interpreter made with exact=True")
        value, entry, env = self._run(name, args, {} if kwargs is None else kwargs)
        views = entry.binder.views(env)
        return ExactRun(value, tuple(None if v is None else contents(v) for v in views))

    def _run(
        self, name: str, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[Value, _Entry, Environment]:
        entry = self._entry(name, None)
        env = entry.binder.from_python(args, kwargs, entry.compiled.slots, self._allow_alias)
        if self._trackers is not None:
            self._trackers.clear()
        try:
            with np.errstate(all="ignore"):
                return run(self, entry.compiled, env, self._steps), entry, env
        except CalleeError as carrier:
            error = carrier.error
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def enter(self, request: CallRequest) -> tuple[CompiledFunction, Environment]:
        """Check and bind the arguments of a call within the module."""
        entry = self._entry(request.name, request.span)
        try:
            env = entry.binder.from_call(request.args, entry.compiled.slots, self._allow_alias)
        except RunError as error:
            raise type(error)(*(d.at(request.span) for d in error.diagnostics)) from None
        return entry.compiled, env

    def _entry(self, name: str, span: Span | None) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            func = self._find(name)
            if not isinstance(func, PrimFunc):
                raise RunTypeError(
                    Diagnostic(
                        "RUN0095",
                        f"{name} is not a PrimFunc, and only those can be called here",
                        span=span,
                        help="call a PrimFunc of the module",
                    )
                )
            refuse_foreign(func)
            if self._trackers is not None:
                func = serialize_cross_thread_reductions(func)
            scope = Scope(self._trackers, self._flat, numbers=self._numbers)
            program = self._program
            binder = Binder(func, scope, program if isinstance(program, IRModule) else None)
            entry = self._entries[name] = _Entry(binder, compile_body(func, scope), func.ret_type)
        return entry

    def _find(self, name: str) -> BaseFunc:
        program = self._program
        if isinstance(program, PrimFunc):
            return program if name == program.name else IRModule({})[name]
        return program[name]


def _link(program: IRModule | PrimFunc) -> IRModule | PrimFunc:
    """Resolve calls by name to functions of the module."""
    if isinstance(program, IRModule):
        return link_calls(program)
    var = GlobalVar(program.name)
    func = link_calls(IRModule({var: program}))[program.name]
    return func if isinstance(func, PrimFunc) else program
