"""Check that calls that are only valid as arguments occur where another call takes them."""

from __future__ import annotations

from collections import defaultdict

from loomir.ir.module import GlobalVar
from loomir.ir.op import Effect, Op
from loomir.support.diagnostics import Diagnostic
from loomir.tir.builtins.device import DEVICE
from loomir.tir.builtins.table import BUILTINS, STACK_MAKE_ARRAY, STACK_MAKE_SHAPE
from loomir.tir.expr import Call, PrimExpr

__all__ = ["find_ill_described", "find_misplaced", "may_misplace"]


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
    """Tell whether ``find_misplaced`` has anything to check in a call."""
    return _is_special(call) or any(arg.__class__ is Call for arg in call.args)


def find_misplaced(call: Call, placed: defaultdict[int, int]) -> Diagnostic | None:
    """Say what is wrong with a call of ``SPECIAL_CALL_ARG`` that no call around it takes.

    Call this for every call of a function, users before arguments; ``placed`` counts in between
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


def find_ill_described(call: Call) -> Diagnostic | None:
    """Say what is wrong with the description of an array, ``T.tvm_stack_make_array``."""
    data, shape, strides, _, _, offset = call.args
    for name, part in (("shape", shape), ("strides", strides)):
        if not isinstance(part, Call) or part.op is not STACK_MAKE_SHAPE:
            given = f"{part.dtype}, not made by T.tvm_stack_make_shape"
            inside = "…) with the extents" if name == "shape" else "), if the array is row-major"
            remedy = f"write T.tvm_stack_make_shape({inside}"
            return _diagnostic(call, name, given, remedy, part)
        for extent in part.args:
            if not _is_size(extent):
                return _diagnostic(call, name, f"of {extent.dtype}", "give integers", extent)
    if not data.dtype.is_handle:
        return _diagnostic(call, "data", str(data.dtype), "pass a buffer's pointer: A.data", data)
    if not _is_size(offset):
        remedy = "give a number of elements"
        return _diagnostic(call, "elem_offset", str(offset.dtype), remedy, offset)
    return None


def _is_size(e: PrimExpr) -> bool:
    return e.dtype.is_integer and e.dtype.is_scalar


def _diagnostic(call: Call, name: str, given: str, remedy: str, part: PrimExpr) -> Diagnostic:
    message = f"argument {name!r} of T.tvm_stack_make_array is {given}"
    span = getattr(part, "span", None) or call.span
    return Diagnostic("TIR0114", message, span, help=remedy)
