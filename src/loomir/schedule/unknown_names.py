"""Say what to write instead of a primitive, or a parameter of one, that schedules do not have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from loomir.support.diagnostics import Diagnostic, ScheduleError, nearest
from loomir.support.runtime_types import show_value

__all__ = ["NamedPrimitives", "explain_misfits"]

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
    "build": "loomir.compile(sch.mod)",
    "compile": "loomir.compile(sch.mod)",
}
_PARAMETERS: Final = {
    ("split", "factor"): "factors=[None, {}]",
    ("split", "nparts"): "factors=[{}, None]",
}


class ScheduleAttributeError(ScheduleError, AttributeError):
    """A schedule has no primitive of that name."""


class NamedPrimitives:
    """What a schedule lacks is refused with what to write instead."""

    if not TYPE_CHECKING:  # checkers know the names that there are

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
