"""Compare operators with NumPy in native code, and in the interpreter too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import loomir
from loomir import te
from tests.te.topi.running import Array, Case, check, placeholders, same


def check_both(
    arrays: Sequence[Array],
    cases: Sequence[Case],
    *,
    symbolic: bool = False,
    slack: float | None = None,
) -> None:
    """Compare native code and the interpreter with NumPy, on small arrays."""
    check(arrays, cases, symbolic=symbolic, slack=slack, arranged=not symbolic)
    inputs = placeholders(arrays, symbolic)
    for operator, wanted in cases:
        made = operator(*inputs)
        outputs = list(made) if isinstance(made, (tuple, list)) else [made]
        expected = list(wanted) if isinstance(made, (tuple, list)) else [wanted]
        func = te.create_prim_func([*inputs, *outputs])
        results = [np.full(np.shape(e), 77).astype(np.asarray(e).dtype) for e in expected]
        loomir.interpret(func, *[a.copy() for a in arrays], *results)
        for out, actual, e in zip(outputs, results, expected, strict=True):
            same(actual, e, f"{out.name} interpreted", slack)
