"""Say what to write instead of a primitive, or a parameter of one, that schedules do not have."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from loomir.support.caller_span import read_call, user_span
from loomir.support.diagnostics import Diagnostic, ScheduleError, nearest
from loomir.support.runtime_types import show_value
from loomir.support.span import Span

__all__ = ["NamedPrimitives", "explain_misfits", "refuse_program"]

_TILE: Final = (
    "i0, i1 = sch.split(i, factors=[None, 4]); j0, j1 = sch.split(j, factors=[None, 4]); "
    "sch.reorder(i0, j0, i1, j1)"
)
_INSTEAD: Final = {
    # What Halide, earlier generations of TVM and others call primitives.
    "tile": _TILE,
    "vectorise": "sch.vectorize(loop)",
    "parallelize": "sch.parallel(loop)",
    "parallelise": "sch.parallel(loop)",
    "unroll_loop": "sch.unroll(loop)",
    "interchange": "sch.reorder(j, i)",
    "permute": "sch.reorder(j, i)",
    "fuse_loops": "sch.fuse(i, j)",
    "compute_root": "nothing: blocks are computed at the outside unless compute_at moves them",
    "store_at": "sch.compute_at(block, loop), which moves the buffer too",
    "inline": "sch.compute_inline(block)",
    "pragma": 'sch.annotate(loop, "key", value)',
    "bind_thread": "sch.parallel(loop): code is generated for CPUs",
    "get_loop": "i, j = sch.get_loops(block)",
    "loops": "sch.get_loops(block)",
    "blocks": "sch.get_child_blocks(sch.get_sblock('root'))",
    "script": "sch.mod.script()",
    "print": "sch.show()",
    "lower": "sch.mod, which is the program as it is now",
    "save": 'open("scheduled.py", "w").write(sch.mod.script())',
    "run": "loomir.compile(sch.mod)",
    "stage": "sch.get_sblock(name)",
    "stages": "sch.get_child_blocks(sch.get_sblock('root'))",
    "get_block_names": "sch.get_child_blocks(sch.get_sblock('root'))",
    "build": "loomir.compile(sch.mod)",
    "compile": "loomir.compile(sch.mod)",
}
_PARAMETERS: Final = {
    ("split", "factor"): "factors=[None, {}]",
    ("split", "nparts"): "factors=[{}, None]",
}


class ScheduleTypeError(ScheduleError, TypeError):
    """A schedule is used as what it is not."""


class ScheduleAttributeError(ScheduleError, AttributeError):
    """A schedule has no primitive of that name."""


class NamedPrimitives:
    """What a schedule lacks is refused with what to write instead."""

    if not TYPE_CHECKING:  # checkers know the names that there are

        def __getitem__(self, name: object) -> Any:
            """Refuse items. Errors: SCH0003."""
            message = "a schedule has no items"
            block = json.dumps(name) if isinstance(name, str) else '"C"'
            help_ = f"write sch.get_sblock({block}), and sch.get_loops of that for its loops"
            raise ScheduleTypeError(Diagnostic("SCH0003", message, help=help_))

        def __call__(self, *args: object, **kwargs: object) -> Any:
            """Refuse a call. Errors: SCH0003."""
            message = "a schedule is not compiled"
            help_ = f"compile it, and call that: {_write_call(user_span())}"
            raise ScheduleTypeError(Diagnostic("SCH0003", message, help=help_))

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"a schedule has no attribute {name!r}")
            known = [n for n in dir(type(self)) if n[0] != "_"]
            form = _INSTEAD.get(name)
            near = nearest(name, known)
            if form is not None:
                help_ = f"write {form}"
            else:
                help_ = f"did you mean sch.{near}?" if near else "help(loomir.Schedule) lists them"
            message = f"a schedule has no primitive {name!r}"
            raise ScheduleAttributeError(Diagnostic("SCH0003", message, help=help_))


def _write_call(span: Span | None) -> str:
    called = read_call(span)
    name, given = ("sch", "...") if called is None else (called.name, called.arguments)
    return f"loomir.compile({name}.mod)({given})"


def refuse_program(value: object) -> ScheduleError:
    """Make the error for what is not a program of loops, with how one is made of it."""
    home = type(value).__module__
    if home.startswith("loomir.te."):
        help_ = "make a program of it: loomir.Schedule(te.create_prim_func([A, B]))"
    elif home.startswith("loomir.relax."):
        help_ = (
            "a schedule is for kernels, which loomir.compile makes of graphs and schedules itself; "
            "give a @T.prim_func, which a graph calls by R.call_tir"
        )
    elif isinstance(value, str):
        help_ = "read it: loomir.Schedule(loomir.script.from_source(text))"
    elif isinstance(value, FunctionType):
        help_ = f"write @T.prim_func above def {value.__name__}"
    elif type(value).__name__ == "Executable":
        help_ = "give what it was compiled from, a @T.prim_func or a module"
    else:
        help_ = "give a function decorated with @T.prim_func, or a module"
    message = f"Schedule: {show_value(value)} is not a program of loops"
    return ScheduleError(Diagnostic("SCH0003", message, help=help_))


def explain_misfits(cls: type[Any]) -> None:
    """Wrap the public methods of a class, so that arguments that do not fit are named (SCH0003)."""
    for name, method in tuple(vars(cls).items()):
        if name[0] != "_" and inspect.isfunction(method):
            setattr(cls, name, _explain_failures(method))


def _explain_failures(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except TypeError:
            _refuse_misfit(method, args, kwargs)
            raise

    return call


def _refuse_misfit(
    method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Refuse a call that does not fit a method's parameters; return where it does."""
    signature = inspect.signature(method)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        known = list(signature.parameters)[1:]
        name = method.__name__
        unknown = next((k for k in kwargs if k not in known), None)
        if unknown is None:
            why, help_ = f"{error}", f"call it as sch.{name}({', '.join(known)})"
        else:
            why = f"it takes no {unknown!r}"
            form = _PARAMETERS.get((name, unknown))
            near = nearest(unknown, known)
            if form is not None:
                help_ = f"write {form.format(show_value(kwargs[unknown]))}"
            else:
                help_ = f"did you mean {near}?" if near else f"it takes: {', '.join(known)}"
        diagnostic = Diagnostic("SCH0003", f"{name}: {why}", help=help_)
        raise ScheduleError(diagnostic) from None
