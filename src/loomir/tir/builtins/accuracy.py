"""Error bounds of compiled math functions: one table that code, tests and docs share.

The unit is the unit in the last place of the true result. 0.5 means correctly rounded, except for
rare ties; exact functions have no row. 16-bit floats are computed as float32 and rounded once more,
which adds half a unit of theirs.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

__all__ = ["ACCURACY", "REFERENCE", "SHORT_POWERS", "Accuracy", "ulp_tolerance"]


class Accuracy(NamedTuple):
    """Bounds of the error of one function, in units in the last place."""

    float32: float
    float64: float


ACCURACY: Final[dict[str, Accuracy]] = {
    "exp": Accuracy(1.0, 1.1),
    "exp2": Accuracy(1.0, 1.0),
    "exp10": Accuracy(1.1, 1.2),
    "log": Accuracy(1.0, 1.0),
    "log2": Accuracy(1.1, 1.1),
    "log10": Accuracy(1.1, 1.1),
    "log1p": Accuracy(1.1, 1.1),
    "sqrt": Accuracy(0.5, 0.5),
    "rsqrt": Accuracy(1.5, 1.5),
    "tanh": Accuracy(1.6, 1.6),
    "sigmoid": Accuracy(1.3, 1.3),
    "erf": Accuracy(1.25, 1.2),
    "sin": Accuracy(1.6, 1.0),
    "cos": Accuracy(1.6, 1.0),
    "tan": Accuracy(2.0, 2.5),
    "sinh": Accuracy(1.8, 1.8),
    "cosh": Accuracy(1.5, 1.5),
    "asin": Accuracy(1.0, 1.0),
    "acos": Accuracy(1.0, 1.0),
    "atan": Accuracy(1.6, 2.0),
    "asinh": Accuracy(1.2, 1.2),
    "acosh": Accuracy(1.2, 1.2),
    "atanh": Accuracy(1.2, 1.2),
    "pow": Accuracy(1.0, 1.1),
    "atan2": Accuracy(1.6, 2.0),
    "hypot": Accuracy(0.51, 1.3),
}
"""The bounds by the names of functions in TIR."""

SHORT_POWERS: Final = frozenset({0.5, 1.0, 2.0, 3.0, 4.0, -1.0})
"""Constant exponents for which a power is computed by a few products, a root or a quotient.

Short forms of others, such as -2 and -0.5, round twice, which is more than a power may be off.
"""

REFERENCE: Final = Accuracy(0.51, 2.0)
"""The error of the interpreter, which calls the C library in float64."""


def ulp_tolerance(name: str) -> int:
    """Return the units in the last place by which compiled code and the interpreter may differ."""
    row = ACCURACY.get(name)
    if row is None:
        return 0
    return math.ceil(max(row.float32 + REFERENCE.float32, row.float64 + REFERENCE.float64))
