"""The packed function that stops a program at the first NaN or infinity in a kernel's result."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from loomir.runtime.packed.packed_call import mark_own
from loomir.runtime.packed.registry import register_func
from loomir.runtime.shape import Shape
from loomir.support.diagnostics import Diagnostic, RunError
from loomir.support.dtype import dtype_of_numpy

__all__ = ["CHECK_NAN", "check_nan", "no_graph"]

CHECK_NAN: Final = "loomir.check_nan"


def check_nan(value: Any, name: str, kernel: str, *inputs: Any) -> Any:
    """Return ``value``, computed from ``inputs``, unless it has new NaNs or infinities.

    A NaN is reported if no input has one; an infinity, if no input has a NaN or infinity.
    Errors: RUN0481.
    """
    for where, array in _arrays(value, name):
        if np.isfinite(array).all():
            continue
        given = [a for i in inputs for _, a in _arrays(i, "")]
        wrong = np.isnan(array)
        if not wrong.any() or any(np.isnan(a).any() for a in given):
            wrong = np.isinf(array)
            if not wrong.any() or any(not np.isfinite(a).all() for a in given):
                continue
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise mark_own(_error(where, array, index, kernel, int(wrong.sum())))
    return value


def no_graph() -> Diagnostic:
    """Warn that a program has no graph, whose calls could be checked."""
    return Diagnostic(
        "RUN0482",
        "nothing is checked for NaN: the program has only loops, and no graph that calls them",
        help="call the functions of loops from an R.function with R.call_tir",
        severity="warning",
    )


def _error(where: str, array: Any, index: tuple[int, ...], kernel: str, count: int) -> RunError:
    at = f"{where}[{', '.join(map(str, index))}]" if index else where
    more = "" if count == 1 else f", and {count - 1:,} more elements"
    return RunError(
        Diagnostic(
            "RUN0481",
            f"{at} is {array[index]}{more}: {kernel} computed it from inputs that have none",
            help=f"check the inputs of {kernel} there, and keep them in its domain",
        )
    )


def _arrays(value: Any, name: str) -> list[tuple[str, Any]]:
    """List the float tensors in a value."""
    found: list[tuple[str, Any]] = []
    stack: list[tuple[str, Any]] = [(name, value)]
    while stack:
        where, part = stack.pop()
        if isinstance(part, tuple) and not isinstance(part, Shape):
            fields = cast("tuple[Any, ...]", part)
            stack += [(f"{where}[{i}]", field) for i, field in enumerate(fields)][::-1]
        elif isinstance(part, (np.ndarray, np.generic)):
            array: Any = np.asarray(cast("Any", part))
            dtype = dtype_of_numpy(array.dtype)
            if dtype is not None and dtype.is_float:
                found.append((where, array))
    return found


register_func(CHECK_NAN, check_nan)
