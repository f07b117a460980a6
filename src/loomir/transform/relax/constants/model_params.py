"""Split the parameters of a model into inputs (the first ``num_input``) and weights."""

from __future__ import annotations

from typing import Any

from loomir.relax.expr import Function
from loomir.tir.rules import refuse

__all__ = ["count_of_inputs"]


def count_of_inputs(func: Function) -> int | None:
    """Return the attribute ``num_input``, None if a function has none.

    Errors: RLX0331 if it is not a valid number of parameters.
    """
    given: Any = func.attrs.get("num_input")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= len(func.params):
        refuse(
            "RLX0331",
            f"num_input is {given!r}, and the function has {len(func.params)} parameters",
            help="set it to the number of parameters that are not weights",
            span=func.span,
        )
    return given
