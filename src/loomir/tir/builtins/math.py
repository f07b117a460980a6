"""Builtins that are math functions of floats."""

from __future__ import annotations

from typing import Final

from loomir.support.dtype import BOOL, DataType
from loomir.tir.builtins.row import AcceptedDTypes, Args, read_first_dtype, row

__all__ = ["FAMILY"]

FAMILY: Final = "functions of floats"

# Name: what it gives, and what it gives at the edges; NaN gives NaN unless said otherwise.
_UNARY: Final = {
    "exp": ("e to the power x", "infinity beyond the range; 0 for minus infinity"),
    "exp2": ("2 to the power x", "infinity beyond the range; 0 for minus infinity"),
    "exp10": ("10 to the power x", "infinity beyond the range; 0 for minus infinity"),
    "log": ("natural logarithm", "minus infinity at 0 and -0; NaN below 0"),
    "log2": ("logarithm to base 2", "minus infinity at 0 and -0; NaN below 0"),
    "log10": ("logarithm to base 10", "minus infinity at 0 and -0; NaN below 0"),
    "log1p": (
        "natural logarithm of 1 + x, exact near 0",
        "minus infinity at -1; NaN below -1; -0 at -0",
    ),
    "sqrt": ("square root, correctly rounded", "NaN below 0; -0 at -0"),
    "rsqrt": ("reciprocal of the square root", "infinity at 0, minus infinity at -0; NaN below 0"),
    "tanh": ("hyperbolic tangent", "1 and -1 at the infinities"),
    "sigmoid": ("1 / (1 + exp(-x))", "1 and 0 at the infinities"),
    "erf": ("error function", "1 and -1 at the infinities"),
    "sin": ("sine", "NaN at the infinities; -0 at -0"),
    "cos": ("cosine", "NaN at the infinities"),
    "tan": ("tangent", "NaN at the infinities; -0 at -0"),
    "sinh": ("hyperbolic sine", "an infinity of the sign of x beyond the range"),
    "cosh": ("hyperbolic cosine", "infinity beyond the range"),
    "asin": ("inverse sine", "NaN outside of -1 to 1"),
    "acos": ("inverse cosine", "NaN outside of -1 to 1"),
    "atan": ("inverse tangent", "half of pi, with the sign of x, at the infinities"),
    "asinh": ("inverse hyperbolic sine", "infinities stay"),
    "acosh": ("inverse hyperbolic cosine", "NaN below 1"),
    "atanh": (
        "inverse hyperbolic tangent",
        "infinity at 1, minus infinity at -1; NaN outside of -1 to 1",
    ),
    "floor": ("round towards minus infinity", "zeros keep their sign; infinities stay"),
    "ceil": ("round towards plus infinity", "-0 from -1 to 0, both exclusive; infinities stay"),
    "trunc": ("round towards zero", "results of 0 keep the sign of x; infinities stay"),
    "round": ("round to nearest, halves to even", "results of 0 keep the sign of x"),
    "nearbyint": ("round to nearest, halves to even", "results of 0 keep the sign of x"),
}
for _name, (_summary, _corners) in _UNARY.items():
    row(
        _name,
        "x",
        AcceptedDTypes.FLOAT,
        read_first_dtype,
        _summary,
        family=FAMILY,
        corners=_corners,
    )

row(
    "pow",
    "x y",
    AcceptedDTypes.FLOAT,
    read_first_dtype,
    "x to the power y",
    family=FAMILY,
    corners="1 if y is 0 or x is 1, even for NaN; NaN if x is negative and y is no integer",
)
row(
    "atan2",
    "y x",
    AcceptedDTypes.FLOAT,
    read_first_dtype,
    "angle of the point (y, x)",
    family=FAMILY,
    corners="the signs of zeros count, as in IEEE 754",
)
row(
    "fmod",
    "x y",
    AcceptedDTypes.FLOAT,
    read_first_dtype,
    "remainder of x / y truncated, with the sign of x",
    family=FAMILY,
    corners="NaN if y is 0 or x is infinite; x if y is infinite",
)
row(
    "hypot",
    "x y",
    AcceptedDTypes.FLOAT,
    read_first_dtype,
    "square root of x*x + y*y, without overflow",
    family=FAMILY,
    corners="infinity if either is infinite, even if the other is NaN",
)
row(
    "copysign",
    "x y",
    AcceptedDTypes.FLOAT,
    read_first_dtype,
    "magnitude of x with the sign of y",
    family=FAMILY,
    corners="zeros and NaN have signs, too",
)
row(
    "nextafter",
    "x y",
    AcceptedDTypes.FLOAT,
    read_first_dtype,
    "the next representable value from x towards y",
    family=FAMILY,
    corners="y if they are equal",
)
row(
    "fma",
    "a b c",
    AcceptedDTypes.FLOAT,
    read_first_dtype,
    "a * b + c, rounded once",
    family=FAMILY,
    corners="NaN for 0 times an infinity; 16-bit floats are rounded to float32 first",
)
row(
    "ldexp",
    "x e",
    AcceptedDTypes.FLOAT_INT32,
    read_first_dtype,
    "x times 2 to the power e",
    family=FAMILY,
    corners="rounded once; infinity beyond the range",
)


def _truth(args: Args) -> DataType:
    return BOOL.with_lanes(args[0].dtype.lanes)


for _name, _summary in {
    "isnan": "whether x is NaN",
    "isinf": "whether x is plus or minus infinity",
    "isfinite": "whether x is neither infinite nor NaN",
}.items():
    row(_name, "x", AcceptedDTypes.FLOAT, _truth, _summary, family=FAMILY)
