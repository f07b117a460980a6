"""Explain a failed call by the first argument that does not fit its declared type.

A function, method or node that gets an argument of an undeclared type fails somewhere inside; this
module turns that into a diagnostic. Successful calls cost nothing extra.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from loomir.support.caller_span import user_span
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError, nearest
from loomir.support.runtime_types import DeclaredType, read_declared, show_value

__all__ = [
    "BY_MISFITS",
    "CODE",
    "explain",
    "explain_arguments",
    "explain_exported",
    "explain_methods",
    "explain_node",
    "explain_parts",
    "misfit",
    "refuse_endless",
    "refuse_missing",
    "refuse_options",
    "refuse_signature",
    "refuse_unknown_options",
    "with_remedy",
    "write_signature",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)

CODE: Final = "TIR0006"
"""The error code for arguments that do not fit their declared types."""
BY_MISFITS: Final = (
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
)
"""What undeclared arguments lead to. Others, as of a handler of signals, stay what they are."""


class _Parameters(NamedTuple):
    """The parameters of a signature: positional, ``*args``, keywords, ``**kwargs``."""

    positional: list[tuple[str, DeclaredType]]
    rest: tuple[str, DeclaredType] | None
    named: dict[str, DeclaredType]
    others: DeclaredType | None


class _Misfit(NamedTuple):
    """A value that does not fit its declared type."""

    where: str
    name: str
    value: Any
    kind: DeclaredType

    def refuse(self, code: str, instead: str | None = None) -> typing.NoReturn:
        wanted = self.kind.wanted
        if type(self.value) is int and self.kind.accepts(1):
            wanted = "an integer of 64 bits"
        raise CompileError(
            Diagnostic(
                code,
                f"{self.where}: {self.name} is {show_value(self.value)}, not {wanted}",
                user_span(),
                help=instead or f"give {wanted}",
            )
        ) from None


# -- calls ---------------------------------------------------------------------------------------
def explain_arguments(function: _F, code: str = CODE) -> _F:
    """Wrap a function, so that failures caused by arguments of wrong types are explained.

    Errors with diagnostics, and errors of functions passed by users, are not changed.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except LoomirError:
            raise
        except BY_MISFITS as error:
            if isinstance(error, TypeError):
                refuse_signature(function, args, kwargs, code)
            explain(function, args, kwargs, code)
            raise

    return cast("_F", call)


def refuse_unknown_options(function: _F) -> _F:
    """Wrap a function, so that an unknown keyword is refused by name (RUN0012)."""
    known = tuple(inspect.signature(function).parameters)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse_options(kwargs, known, f"loomir.{function.__name__}")
        return function(*args, **kwargs)

    return cast("_F", call)


def refuse_options(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse the first option that a function does not take. Errors: RUN0012."""
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    meant = next((own for own, others in _OPTIONS.items() if unknown in others), None)
    guess = meant if meant in known else nearest(unknown, known)
    if unknown in _NO_OPTIONS:
        help_ = _NO_OPTIONS[unknown]
    elif guess is not None:
        shown = show_value(given[unknown]) if meant == guess else ""
        shown = "..." if shown.startswith(("a ", "an ")) else shown
        help_ = f"write {guess}={shown}" if shown else f"did you mean {guess}?"
    else:
        help_ = f"help({where}) lists the options"
    raise CompileError(Diagnostic("RUN0012", f"{unknown} is not an option of {where}", help=help_))


_OPTIONS: Final = {
    "check_bounds": ("boundscheck", "bounds"),
    "constants": ("params", "weights", "parameters"),
    "database": ("log_file", "records", "tuning_records", "work_dir"),
    "dynamic": ("dynamic_shapes",),
    "opt_level": ("level", "opt", "optimize"),
    "target": ("arch", "cpu", "mcpu"),
    "timeout": ("seconds", "time_limit"),
    "trials": ("max_trials", "max_trials_global", "n_trials", "num_trials"),
}
"""What others call options that there are."""
_THREADS: Final = "write LOOMIR_NUM_THREADS=4 before the command, or @loomir.jit(threads=4)"
_SHOWN: Final = (
    "leave it out: print(exe.script()) shows the loops, and loomir explain why they are so"
)
_BY_ITSELF: Final = "leave it out: loops are arranged for the machine by themselves"
_OF_TORCH: Final = 'it is one of PyTorch: torch.compile(model, backend="loomir", ...)'
_AT_CALLS: Final = "leave it out: inputs are given when the result is called"
_NO_OPTIONS: Final = {
    **dict.fromkeys(("backend", "fullgraph", "mode"), _OF_TORCH),
    **dict.fromkeys(("args", "example_inputs", "inputs"), _AT_CALLS),
    **dict.fromkeys(("nthreads", "num_threads", "threads"), _THREADS),
    **dict.fromkeys(("debug", "print_ir", "verbose"), _SHOWN),
    **dict.fromkeys(("parallel", "vectorize", "unroll", "nopython", "nogil"), _BY_ITSELF),
    "device": "leave it out: programs run on this CPU",
    "fastmath": "leave it out: sums that a program declares as reductions are reordered anyway",
}
"""Options elsewhere that have no like here."""


def explain_exported(
    names: Mapping[str, Any], exported: Sequence[str], code: str = CODE
) -> Iterator[tuple[str, Any]]:
    """Yield the exported functions of a package, each wrapped by ``explain_arguments``."""
    for name in exported:
        if inspect.isfunction(names[name]):
            yield name, explain_arguments(cast("Callable[..., Any]", names[name]), code)


def explain_methods(cls: _C) -> _C:
    """Wrap the public methods of a class by ``explain_arguments``, in place.

    A method that returns a context manager checks its arguments at the call, since it would fail
    only later.
    """
    for name, method in tuple(vars(cls).items()):
        if (name == "__init__" or name[0] != "_") and inspect.isfunction(method):
            inner: Any = getattr(method, "__wrapped__", None)
            later = inspect.isgeneratorfunction(inner)
            setattr(
                cls, name, _explain_context(method, inner) if later else explain_arguments(method)
            )
    return cls


def _explain_context(method: _F, declares: Callable[..., Any]) -> _F:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        misfit(declares, args, kwargs)
        return method(*args, **kwargs)

    return cast("_F", call)


def explain(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], code: str = CODE
) -> None:
    """Raise an error about the first argument, or part of a node in it, with a wrong type."""
    misfit(function, args, kwargs, code)
    explain_parts([*args, *kwargs.values()])


Remedy: TypeAlias = "Callable[[Sequence[Any], Mapping[str, Any]], str | None]"
_REMEDIES: Final[dict[Callable[..., Any], Remedy]] = {}


def with_remedy(remedy: Remedy) -> Callable[[_F], _F]:
    """Say what to write in place of calls that do not fit a function; None where that is unclear.

    ``remedy`` is given the arguments of a call that was refused.
    """

    def keep(function: _F) -> _F:
        _REMEDIES[function] = remedy
        return function

    return keep


class SignatureError(CompileError, TypeError):
    """A call has arguments that a function does not take, or lacks some."""


def refuse_signature(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], code: str
) -> None:
    """Refuse a call that does not fit the parameters; return where it does."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        where, written = _name_of(function), write_signature(function)
        unknown = next((name for name in kwargs if name not in signature.parameters), None)
        near = None if unknown is None else nearest(unknown, signature.parameters)
        help_ = f"did you mean {near}?" if near else f"call it as {where}({written})"
        if unknown is None and not near and "too many positional" in str(error):
            named = [n for n, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY]
            help_ += ", with what stands after * by its name" if named else ""
        remedy = _REMEDIES.get(function)
        help_ = (remedy and remedy(args, kwargs)) or help_
        why = f"it takes no {unknown!r}" if unknown is not None else f"{error}"
        raise SignatureError(Diagnostic(code, f"{where}: {why}", user_span(), help=help_)) from None


def write_signature(function: Callable[..., Any]) -> str:
    """Write the parameters of a function with their defaults, as a call of it has them."""
    parts: list[str] = []
    is_named = False
    for param in inspect.signature(function).parameters.values():
        if param.name == "self":
            continue
        if param.kind is param.KEYWORD_ONLY and not is_named:
            parts.append("*")
        is_named = param.kind in (param.KEYWORD_ONLY, param.VAR_POSITIONAL)
        stars = {param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}.get(param.kind, "")
        shown = "" if param.default is param.empty else f"={show_value(param.default)}"
        parts.append(f"{stars}{param.name}{shown}")
    return ", ".join(parts)


def _name_of(function: Callable[..., Any]) -> str:
    where = function.__name__
    return function.__qualname__.split(".")[-2] if where == "__init__" else where


def misfit(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], code: str = CODE
) -> None:
    """Raise an error about the first argument that does not fit a function's declaration."""
    known = _parameters(function)
    where = _name_of(function)
    remedy = _REMEDIES.get(function)
    for place, value in enumerate(args):
        if place < len(known.positional):
            name, kind = known.positional[place]
        elif known.rest is None:
            return  # Python's own error says how many
        else:
            name, kind = known.rest
        if not kind.accepts(value):
            instead = None if remedy is None else remedy(args, kwargs)
            _Misfit(where, name, value, kind).refuse(code, instead)
    for name, value in kwargs.items():
        kind = known.named.get(name, known.others)
        if kind is not None and not kind.accepts(value):
            _Misfit(where, name, value, kind).refuse(code)


@cache
def _parameters(function: Callable[..., Any]) -> _Parameters:
    hints = typing.get_type_hints(function)
    made = _Parameters([], None, {}, None)
    for param in inspect.signature(function).parameters.values():
        kind = read_declared(hints.get(param.name, Any))
        if param.kind is param.VAR_POSITIONAL:
            made = made._replace(rest=(param.name, kind))
        elif param.kind is param.VAR_KEYWORD:
            made = made._replace(others=kind)
        else:
            made.named[param.name] = kind
            if param.kind is not param.KEYWORD_ONLY:
                made.positional.append((param.name, kind))
    return made


# -- nodes ---------------------------------------------------------------------------------------
def explain_node(node: Any) -> None:
    """Raise an error about the field of a node, or of a node below it, with a wrong type."""
    fields = _fields(cast("Any", type(node)))
    for name, (given, _) in fields.items():
        value = getattr(node, name)
        if not given.accepts(value):
            _Misfit(node.node_kind, name, value, given).refuse(CODE)
    explain_parts([getattr(node, name) for name in fields])
    explain_parts([node])


def refuse_endless(node: Any, name: str) -> typing.NoReturn:
    """Raise an error about plain data that contains itself, or is nested too deeply."""
    raise CompileError(
        Diagnostic(
            CODE,
            f"{node.node_kind}: {name} contains itself, or is nested too deeply",
            user_span(),
            help="use plain data, as in JSON",
        )
    ) from None


def explain_parts(values: Sequence[Any]) -> None:
    """Raise an error about values in fields of nodes, at any depth, with wrong types."""
    waiting: list[Any] = list(reversed(values))
    seen: set[int] = set()
    while waiting:
        value: Any = waiting.pop()
        if not isinstance(value, (tuple, list, Mapping)) and not _is_node(value):
            continue
        if id(cast("object", value)) in seen:
            continue
        seen.add(id(cast("object", value)))
        if isinstance(value, (tuple, list)):
            waiting += reversed(cast("Sequence[Any]", value))
        elif isinstance(value, Mapping):
            waiting += [v for pair in cast("Mapping[Any, Any]", value).items() for v in pair]
        else:
            if not value.node_fields:
                _refuse_root(value)
            found = [getattr(value, name) for name in _fields(type(value))]
            for (name, (_, kept)), part in zip(_fields(type(value)).items(), found):
                if not kept.accepts(part):
                    _Misfit(value.node_kind, name, part, kept).refuse(CODE)
            waiting += reversed(found)


def _is_node(value: object) -> bool:
    """Recognise nodes by their attributes, since their class is in a higher layer."""
    return hasattr(value, "node_fields") and not isinstance(value, type)


def _refuse_root(node: Any) -> typing.NoReturn:
    name = type(node).__name__
    raise CompileError(
        Diagnostic(
            CODE,
            f"a bare {name} cannot be part of a program",
            user_span(),
            help=f"create a node of a subclass of {name}",
        )
    ) from None


@cache
def _fields(cls: Any) -> dict[str, tuple[DeclaredType, DeclaredType]]:
    """Return, for each field of a node class, the accepted type and the stored type."""
    hints = typing.get_type_hints(cls)
    made: dict[str, tuple[DeclaredType, DeclaredType]] = {}
    for field in dataclasses.fields(cls) if cls.node_fields else ():
        hint = hints[field.name]
        given = read_declared(hint if field.default is not None else hint | None, plain=True)
        made[field.name] = given, read_declared(hint)
    return made


# -- names of modules ----------------------------------------------------------------------------
class MissingNameError(CompileError, AttributeError):
    """A module of Loomir has no such name."""


def refuse_missing(
    module: str, known: Sequence[str], instead: Mapping[str, str]
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module: it suggests Loomir's name, or similar names."""

    def find(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        form = instead.get(name)
        near = nearest(name, known)
        if form is not None:
            help_ = f"write {form}"
        else:
            help_ = f"did you mean {module}.{near}?" if near else f"help({module}) lists its names"
        raise MissingNameError(Diagnostic("SCR0004", f"there is no {module}.{name}", help=help_))

    return find
