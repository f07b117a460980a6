"""The scalar functions that expressions may call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.builtins.table import BUILTINS, AcceptedDTypes, call_builtin
from loomir.tir.expr import GT, LT, NE, Max, Min, Or, PrimExpr, Select

__all__ = ["FUNCTIONS", "Function"]

_FLOAT32: Final = DataType("float32")


class Function(NamedTuple):
    """A function: how many numbers it takes, and what it makes of them.

    ``floats`` tells that integers become floats first, ``fixed`` that arguments become that dtype,
    ``chooses`` that it gives one of its arguments, which keeps the dtype that they share.
    """

    arity: int
    make: Callable[[tuple[PrimExpr, ...], Span], PrimExpr]
    floats: bool
    summary: str
    fixed: DataType | None = None
    chooses: bool = False


def _builtin(name: str) -> Callable[[tuple[PrimExpr, ...], Span], PrimExpr]:
    return lambda args, span: call_builtin(name, *args, span=span)


def _min(args: tuple[PrimExpr, ...], span: Span) -> PrimExpr:
    return Min(*args, span=span)


def _max(args: tuple[PrimExpr, ...], span: Span) -> PrimExpr:
    return Max(*args, span=span)


# As in C, a number wins against NaN.
def _fmin(args: tuple[PrimExpr, ...], span: Span) -> PrimExpr:
    a, b = args
    return Select(Or(LT(b, a), NE(a, a)), b, a, span=span)


def _fmax(args: tuple[PrimExpr, ...], span: Span) -> PrimExpr:
    a, b = args
    return Select(Or(GT(b, a), NE(a, a)), b, a, span=span)


FUNCTIONS: Final[dict[str, Function]] = {
    # C rounds halves away from zero, which no builtin does.
    name: Function(row.arity, _builtin(name), True, row.summary)
    for name, row in BUILTINS.items()
    if row.accepts is AcceptedDTypes.FLOAT and row.arity is not None and name != "round"
}
"""Every function by its name; those of C's that end in ``f`` compute in float32."""
FUNCTIONS.update(
    {
        "min": Function(2, _min, False, "the smaller; NaN where one is NaN", chooses=True),
        "max": Function(2, _max, False, "the larger; NaN where one is NaN", chooses=True),
        "fmin": Function(2, _fmin, True, "the smaller; the other where one is NaN"),
        "fmax": Function(2, _fmax, True, "the larger; the other where one is NaN"),
        "abs": Function(1, _builtin("abs"), False, BUILTINS["abs"].summary),
        "fabs": Function(1, _builtin("abs"), True, "magnitude"),
    }
)
FUNCTIONS.update(
    {
        f"{name}f": function._replace(
            fixed=_FLOAT32, floats=True, summary=f"{name} in float32: {function.summary}"
        )
        for name, function in FUNCTIONS.items()
        if function.floats
    }
)
