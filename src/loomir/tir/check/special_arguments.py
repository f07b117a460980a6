"""Whether what only an argument may be stands where a call takes it."""

from __future__ import annotations

from collections import defaultdict

from loomir.ir.module import GlobalVar
from loomir.ir.op import Effect, Op
from loomir.support.diagnostics import Diagnostic
from loomir.tir.builtins.device import DEVICE
from loomir.tir.builtins.table import BUILTINS, STACK_MAKE_ARRAY
from loomir.tir.expr import Call

__all__ = ["may_misplace", "misplaced"]


def _fits(arg: Call, user: Call) -> bool:
    if isinstance(user.op, GlobalVar):
        return arg.op is STACK_MAKE_ARRAY
    if user.op in DEVICE:
        return True
    return user.op.name.removeprefix("tir.") in BUILTINS[_name(arg)].inside


def _name(call: Call) -> str:
    return str(getattr(call.op, "name", "")).removeprefix("tir.")


def _is_special(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.effect is Effect.SPECIAL_CALL_ARG


def may_misplace(call: Call) -> bool:
    """Tell whether ``misplaced`` has anything to look at in a call."""
    return _is_special(call) or any(arg.__class__ is Call for arg in call.args)


def misplaced(call: Call, placed: defaultdict[int, int]) -> Diagnostic | None:
    """Say what is wrong with a call of ``SPECIAL_CALL_ARG`` that no call around it takes.

    To be asked of every call of a function, users before arguments; ``placed`` counts in between
    how often each may still come.
    """
    wrong: Diagnostic | None = None
    if _is_special(call) and not placed.get(id(call)):
        name = _name(call)
        known = ", ".join(f"T.{n}" for n in sorted(BUILTINS[name].inside) if Op.get(f"tir.{n}"))
        wrong = Diagnostic(
            "TIR0430",
            f"what T.{name} gives is used outside of the calls that take it",
            call.span,
            help=f"make it an argument of {known or 'a call that takes it'}",
        )
    elif placed.get(id(call)):
        placed[id(call)] -= 1
    for arg in call.args:
        if isinstance(arg, Call) and _is_special(arg) and _fits(arg, call):
            placed[id(arg)] += 1
    return wrong
