"""Passes, the facts on which they rely, and pipelines of passes.

A pass maps a function to a function, or a module to a module, and returns its argument if there is
nothing to do. A *fact* is a checkable property of a module (``no_blocks``). A pass declares the
facts that it requires, establishes and breaks; a pipeline is checked against these declarations
when it is built. On request, the facts themselves are checked after each pass, for those parts that
the pass changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from typing import (
    Any,
    Concatenate,
    Final,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    get_type_hints,
    overload,
)

from typing_extensions import ParamSpec

from loomir.ir.module import BaseFunc, IRModule
from loomir.ir.node import Node
from loomir.ir.visit import by_class
from loomir.support.announcing import announce
from loomir.support.argument_errors import CODE, explain_arguments
from loomir.support.caller_span import user_span
from loomir.support.diagnostics import CompileError, Diagnostic, InternalError
from loomir.support.fork_safe import lazy_property
from loomir.support.runtime_types import show_value

__all__ = [
    "FACTS",
    "PASSES",
    "OnStage",
    "Pass",
    "PassRun",
    "Pipeline",
    "Subject",
    "apply",
    "fact",
    "function_fact",
    "is_verifying",
    "pass_of",
    "register",
    "report",
    "verify_facts",
    "verifying",
]

Checker: TypeAlias = Callable[[IRModule], Iterable[Diagnostic]]
OnStage: TypeAlias = Callable[[str, IRModule], None]

FACTS: dict[str, Checker] = {}
"""The checker of each fact: it lists contradictions, and nothing if the fact holds."""

_C = TypeVar("_C", bound=Checker)
_Unit = TypeVar("_Unit", bound=Node)
_Options = ParamSpec("_Options")


def fact(name: str) -> Callable[[_C], _C]:
    """Register the checker of a fact."""

    def keep(checker: _C) -> _C:
        if name in FACTS:
            raise InternalError(f"fact {name} has two checkers")
        FACTS[name] = checker
        return checker

    return keep


class Subject:
    """A function whose facts are checked, in its module."""

    def __init__(self, func: Any, mod: IRModule) -> None:
        self.func = func
        self.mod = mod

    @lazy_property
    def parts(self) -> dict[type[Node], list[Any]]:
        """All nodes of the body by class: one walk for all facts."""
        return by_class(self.func.body)


FunctionChecker: TypeAlias = Callable[[Subject], Iterable[Diagnostic]]
_S = TypeVar("_S", bound=FunctionChecker)

_OF_FUNCTIONS: dict[str, tuple[type[BaseFunc], FunctionChecker]] = {}
"""The facts of single functions, with the class of these functions."""


def function_fact(name: str, unit: type[BaseFunc]) -> Callable[[_S], _S]:
    """Register the checker of a fact that a module has if each function of a class has it.

    It may depend on the interfaces of other functions: names, parameters and results.
    """

    def keep(checker: _S) -> _S:
        @fact(name)
        def check(mod: IRModule) -> Iterator[Diagnostic]:
            for func in mod.functions.values():
                if isinstance(func, unit):
                    yield from checker(Subject(func, mod))

        _OF_FUNCTIONS[name] = unit, checker
        return checker

    return keep


class Pass(NamedTuple):
    """A registered pass; ``unit`` is what it maps, a class of functions or ``IRModule``."""

    name: str
    function: Callable[..., Any]
    unit: type[BaseFunc] | type[IRModule]
    options: type | None
    requires: frozenset[str]
    establishes: frozenset[str]
    breaks: frozenset[str]


PASSES: dict[str, Pass] = {}
"""Every pass by its name, such as ``tir.UnrollLoop``."""

_BY_FUNCTION: dict[object, Pass] = {}


class RegisteredPass(Protocol[_Unit, _Options]):
    """A registered pass as a callable: it maps its unit, or every unit of a module."""

    @overload
    def __call__(
        self, unit: _Unit, /, *args: _Options.args, **kwargs: _Options.kwargs
    ) -> _Unit: ...
    @overload
    def __call__(
        self, mod: IRModule, /, *args: _Options.args, **kwargs: _Options.kwargs
    ) -> IRModule: ...


def register(
    name: str,
    *,
    requires: Iterable[str] = (),
    establishes: Iterable[str] = (),
    breaks: Iterable[str] = (),
) -> Callable[[Callable[Concatenate[_Unit, _Options], _Unit]], RegisteredPass[_Unit, _Options]]:
    """Register a function as a pass, and return it with explained failures.

    Its unit and the class of its options are read from its annotations. The returned callable also
    maps modules, by each of their functions of that class.
    """

    def keep(
        function: Callable[Concatenate[_Unit, _Options], _Unit],
    ) -> RegisteredPass[_Unit, _Options]:
        hints = get_type_hints(function)
        hints.pop("return", None)
        unit, *options = hints.values()
        given = explain_arguments(function)
        made = Pass(
            name,
            given,
            unit,
            options[0] if options else None,
            frozenset(requires),
            frozenset(establishes),
            frozenset(breaks),
        )
        if name in PASSES:
            raise InternalError(f"pass {name} is registered twice")
        public = given if unit is IRModule else _map_modules_too(made)
        PASSES[name] = made
        _BY_FUNCTION.update(dict.fromkeys((function, given, public), made))
        return cast("RegisteredPass[_Unit, _Options]", public)

    return keep


def _map_modules_too(step: Pass) -> Callable[..., Any]:
    function = step.function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], IRModule):
            return _map_functions(step, args[0], lambda func: function(func, *args[1:], **kwargs))
        return function(*args, **kwargs)

    return call


def pass_of(function: Callable[..., Any]) -> Pass:
    """Find the pass that a function was registered as. Errors: TIR0006 for none."""
    found = _BY_FUNCTION.get(function)
    if found is None:
        name = getattr(function, "__name__", None) or show_value(function)
        raise CompileError(
            Diagnostic(
                CODE,
                f"{name} is not a pass",
                user_span(),
                help='register it: @loomir.ir.passes.register("mine.Name") above its def',
            )
        )
    return found


@explain_arguments
def apply(step: Pass, mod: IRModule, options: object = None) -> IRModule:
    """Apply a pass to a module, or to each function if these are its unit.

    Errors: those of all functions together.
    """
    given = () if options is None else (options,)
    if step.unit is IRModule:
        return step.function(mod, *given)
    return _map_functions(step, mod, lambda func: step.function(func, *given))


def _map_functions(step: Pass, mod: IRModule, transform: Callable[[Any], BaseFunc]) -> IRModule:
    functions: dict[Any, BaseFunc] = {}
    mistakes: list[Diagnostic] = []
    changed = False
    for var, func in mod.functions.items():
        made = func
        if isinstance(func, step.unit):
            try:
                made = transform(func)
            except CompileError as error:
                mistakes += error.diagnostics
        functions[var] = made
        changed = changed or made is not func
    if mistakes:
        raise CompileError.of(mistakes)
    return mod.with_functions(functions) if changed else mod


class PassRun(NamedTuple):
    """The record of one run of a pass."""

    name: str
    seconds: float
    changed: bool


class Pipeline:
    """Passes in their order, checked when built: each finds the facts that it requires.

    ``assumes`` are the facts that hold for the input, ``ensures`` those that must hold at the end.
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[Callable[..., Any]],
        *,
        assumes: Iterable[str] = (),
        ensures: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.steps: tuple[Pass, ...] = tuple(pass_of(step) for step in steps)
        self.assumes = frozenset(assumes)
        self.facts: tuple[frozenset[str], ...] = tuple(self._facts_after_each())
        missing = frozenset(ensures) - (self.facts[-1] if self.facts else self.assumes)
        if missing:
            raise CompileError(
                Diagnostic(
                    CODE,
                    f"the pipeline {name!r} does not ensure {', '.join(sorted(missing))}",
                    user_span(),
                    help=f"end it with {_write_makers(sorted(missing))}",
                )
            )

    def _facts_after_each(self) -> Iterable[frozenset[str]]:
        known = self.assumes
        for step in self.steps:
            missing = step.requires - known
            if missing:
                raise _missing_facts(self.name, step, sorted(missing))
            known = known - step.breaks | step.establishes
            unknown = known - FACTS.keys()
            if unknown:
                raise InternalError(f"nothing checks {', '.join(sorted(unknown))}")
            yield known

    def run(
        self,
        mod: IRModule,
        options: Mapping[str, object] | None = None,
        *,
        on_stage: OnStage | None = None,
        times: list[PassRun] | None = None,
        verify: bool | None = None,
    ) -> IRModule:
        """Run all passes.

        ``options`` has the options of passes by name. ``on_stage`` is called with the module after
        each pass, and ``times`` gets a row for each. ``verify`` checks all facts after each pass;
        None means as set by ``verifying``.
        Errors: those of the passes; InternalError if a pass broke a fact.
        """
        checked = _verify[0] if verify is None else verify
        if checked:
            verify_facts(mod, self.assumes, f"the input of {self.name}")
        proved = self.assumes
        for step, facts in zip(self.steps, self.facts):
            announce(step.name)
            start = time.perf_counter()
            made = apply(step, mod, (options or {}).get(step.name))
            if times is not None:
                times.append(PassRun(step.name, time.perf_counter() - start, made is not mod))
            if on_stage is not None:
                on_stage(step.name, made)
            if checked:
                verify_facts(made, facts, step.name, since=(mod, proved))
                proved = facts | proved if made is mod else facts
            mod = made
        return mod


def _missing_facts(pipeline: str, step: Pass, missing: Sequence[str]) -> CompileError:
    """Make the error for a step that comes too early, with the passes that belong before it."""
    facts = ", ".join(missing)
    return CompileError(
        Diagnostic(
            CODE,
            f"the pipeline {pipeline!r}: {step.name} requires {facts}, "
            "which no step before it establishes",
            user_span(),
            help=f"put {_write_makers(missing)} before it, or say that what goes in has it: "
            f"assumes={[*missing]!r}",
        )
    )


def _write_makers(facts: Sequence[str]) -> str:
    """List the passes that establish facts, or some of them where there are many."""
    makers = [
        " or ".join([p.name for p in PASSES.values() if fact in p.establishes][:3])
        for fact in facts
    ]
    return " and ".join(dict.fromkeys(m for m in makers if m)) or "a pass that establishes it"


_verify = [bool(os.environ.get("LOOMIR_VERIFY"))]


def verify_facts(
    mod: IRModule,
    facts: Iterable[str],
    after: str,
    *,
    since: tuple[IRModule, Set[str]] | None = None,
) -> None:
    """Check that facts hold.

    ``since``: a module and its facts, which are not checked again for shared functions.
    Errors: InternalError that names the pass and what contradicts the fact.
    """
    before, proved = (None, frozenset[str]()) if since is None else since
    wanted = sorted(set(facts) - proved if mod is before else facts)
    if not wanted:
        return
    known = set[int]()
    if before is not None and _has_kept_interfaces(before, mod):
        known.update(map(id, before.functions.values()))
    for name in wanted:  # first scopes, on which other facts rely
        if name not in _OF_FUNCTIONS:
            _refuse(name, FACTS[name](mod), after)
    for func in mod.functions.values():
        subject = Subject(func, mod)
        for name in wanted:
            unit, checker = _OF_FUNCTIONS.get(name, _NO_FUNCTIONS)
            if isinstance(func, unit) and not (id(func) in known and name in proved):
                _refuse(name, checker(subject), after)


_NO_FUNCTIONS: Final[tuple[tuple[type[BaseFunc], ...], FunctionChecker]] = ((), lambda subject: ())


def _refuse(name: str, found: Iterable[Diagnostic], after: str) -> None:
    shown = "\n".join(str(one) for one in islice(found, 3))
    if shown:
        raise InternalError(f"{name} does not hold after {after}:\n{shown}")


_INTERFACE: Final = ("params", "buffer_map", "ret_type", "ret_struct_info")


def _has_kept_interfaces(before: IRModule, mod: IRModule) -> bool:
    """Tell whether all functions of a module still exist with the same interfaces."""
    made = {var.name_hint: func for var, func in mod.functions.items()}
    for var, func in before.functions.items():
        new = made.get(var.name_hint)
        if new is func:
            continue
        if any(getattr(new, name, None) is not getattr(func, name, None) for name in _INTERFACE):
            return False
    return True


@contextmanager
def verifying(on: bool = True) -> Any:
    """Check facts after every pass within a ``with`` statement, and steps of scheduling.

    It costs time and is meant for tests; ``LOOMIR_VERIFY=1`` in the environment does the same for a
    whole process.
    """
    before = _verify[0]
    _verify[0] = on
    try:
        yield
    finally:
        _verify[0] = before


def is_verifying() -> bool:
    """Tell whether ``verifying`` has asked for checks after every step."""
    return _verify[0]


def report(times: Sequence[PassRun]) -> str:
    """Write the time of each pass as a table."""
    rows = [
        f"{ran.seconds * 1e3:9.2f} ms  {ran.name}{'' if ran.changed else '  (unchanged)'}"
        for ran in times
    ]
    rows.append(f"{sum(ran.seconds for ran in times) * 1e3:9.2f} ms  total")
    return "\n".join(rows)
