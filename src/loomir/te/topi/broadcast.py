"""Element-wise operators of two operands, whose shapes broadcast.

Both operands have one dtype, which is also that of the result, or ``bool`` for comparisons. One of
them may be a number or a scalar expression, which takes the dtype of the other. Integers wrap, and
an integer division by zero raises (RUN0201), where NumPy warns and returns 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Final, TypeAlias

from loomir.te.scalar import if_then_else, select
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import (
    Size,
    bad,
    broadcast_shapes,
    dims,
    has_equal_sizes,
    make,
    need,
    read,
    refuse_shapes,
    size,
    widen,
)
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    Eq,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    PrimExpr,
    Sub,
    Var,
    const,
)
from loomir.tir.expr import cast as converted

__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "copysign",
    "divide",
    "equal",
    "floor_divide",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "left_shift",
    "less",
    "less_equal",
    "log_add_exp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "not_equal",
    "power",
    "remainder",
    "right_shift",
    "subtract",
    "trunc_divide",
]

Operand: TypeAlias = Tensor | PrimExpr | int | float | bool
Scalar: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]
Operator: TypeAlias = Callable[[Operand, Operand], Tensor]


def _operator(name: str, kind: str, scalar: Scalar, summary: str) -> Operator:
    """Make an operator of a function of two scalars."""

    def operator(a: Operand, b: Operand) -> Tensor:
        tensors = [t for t in (a, b) if isinstance(t, Tensor)]
        if not tensors:
            bad(name, "neither operand is a tensor", "give a tensor and a number, or two tensors")
        need(name, kind, *tensors)
        shape = broadcast_shapes(name, *map(dims, tensors))
        dtype = tensors[0].dtype

        def element(x: Operand, at: Sequence[PrimExpr]) -> PrimExpr:
            if isinstance(x, Tensor):
                return read(x, at)
            return converted(x, dtype) if isinstance(x, PrimExpr) else const(x, dtype)

        return make(name, shape, lambda *i: scalar(element(a, i), element(b, i)))

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = (
        f"{summary}\n\nShapes: what both broadcast to. Errors: TE0101, TE0103, TE0104."
    )
    return operator


def _wide(scalar: Scalar) -> Scalar:
    return lambda a, b: converted(scalar(widen(a), widen(b)), a.dtype)


def _builtin(name: str) -> Scalar:
    return lambda a, b: call_builtin(name, a, b)


# -- arithmetic ------------------------------------------------------------------------------
add = _operator("add", "number", Add, "Add.")
subtract = _operator("subtract", "number", Sub, "Subtract.")
multiply = _operator("multiply", "number", Mul, "Multiply.")
divide = _operator("divide", "float", Div, "Divide floats.")
trunc_divide = _operator("trunc_divide", "integer", Div, "Divide integers, rounding towards zero.")
maximum = _operator("maximum", "number", Max, "Take the greater element; NaN if either is NaN.")
minimum = _operator("minimum", "number", Min, "Take the lesser element; NaN if either is NaN.")


def _signs_differ(rest: PrimExpr, b: PrimExpr) -> PrimExpr:
    zero = const(0, b.dtype)
    return Or(And(LT(rest, zero), GT(b, zero)), And(GT(rest, zero), LT(b, zero)))


def _float_remainder(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return what is left of ``a``, with the sign of ``b`` also where it is zero."""
    zero = const(0, a.dtype)
    rest = call_builtin("fmod", a, b)
    signed = select(rest.equal(zero), call_builtin("copysign", zero, b), rest)
    return select(_signs_differ(rest, b), rest + b, signed)


def _float_floor_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Divide what the remainder leaves over, so that quotient and remainder belong together."""
    zero, quotient = const(0, a.dtype), a / b
    rest = call_builtin("fmod", a, b)
    even = (a - rest) / b
    even = select(_signs_differ(rest, b), even - 1.0, even)
    down = call_builtin("floor", even)
    nearest = select(even - down > const(0.5, a.dtype), down + 1.0, down)
    whole = select(even.equal(zero), call_builtin("copysign", zero, quotient), nearest)
    return select(b.equal(zero), quotient, whole)


def _choose_by_kind(floats: Scalar, integers: Scalar) -> Scalar:
    wide = _wide(floats)
    return lambda a, b: wide(a, b) if a.dtype.is_float else integers(a, b)


floor_divide = _operator(
    "floor_divide",
    "number",
    _choose_by_kind(_float_floor_divide, FloorDiv),
    "Divide, rounding towards minus infinity.",
)
remainder = _operator(
    "remainder",
    "number",
    _choose_by_kind(_float_remainder, FloorMod),
    "Return the remainder of floor_divide, with the sign of the divisor.",
)
fmod = _operator(
    "fmod",
    "number",
    _choose_by_kind(_builtin("fmod"), Mod),
    "Return the remainder of a division towards zero, with the sign of the dividend.",
)


_AT_ONCE: Final = 4
"""Bits of an exponent after which it is asked for more: few are large."""


def _integer_power(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Multiply the squares of squares that the bits of the exponent name."""
    dtype = a.dtype
    zero, one = const(0, dtype), const(1, dtype)
    signed = dtype.is_int
    # The quotient decides what a negative power is: 1, -1, 0, or a division by zero.
    base = if_then_else(LT(b, zero), Div(one, a), a) if signed else a
    first = Var("base", dtype)
    exponent = Var("exponent", dtype)
    steps: list[tuple[Var, PrimExpr]] = [(first, base)]
    steps.append((exponent, select(LT(b, zero), zero - b, b) if signed else b))
    square, made = first, one
    bound: list[list[tuple[Var, PrimExpr]]] = []
    for bit in range(dtype.bits):
        if bit:
            steps.append((Var(f"square{bit}", dtype), square * square))
            square = steps[-1][0]
        shifted = call_builtin("shift_right", exponent, const(bit, dtype))
        odd = NE(call_builtin("bitwise_and", shifted, one), zero)
        steps.append((Var(f"power{bit}", dtype), select(odd, made * square, made)))
        made = steps[-1][0]
        if (bit + 1) % _AT_ONCE == 0:
            bound.append(steps)
            steps = []
    body: PrimExpr = made
    for done in reversed(range(len(bound))):
        if done + 1 < len(bound):
            left = call_builtin("shift_right", exponent, const((done + 1) * _AT_ONCE, dtype))
            body = if_then_else(left.equal(zero), bound[done][-1][0], body)
        for var, value in reversed(bound[done]):
            body = Let(var, value, body)
    return body


power = _operator(
    "power",
    "number",
    lambda a, b: _wide(_builtin("pow"))(a, b) if a.dtype.is_float else _integer_power(a, b),
    "Raise to powers; negative powers of integers are rounded towards zero, those of 0 raise.",
)


def _log_add_exp(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    # Infinities of one sign have no difference; NaN is in the greater one already.
    most, distance = Max(a, b), call_builtin("abs", a - b) * -1.0
    ordinary = most + call_builtin("log1p", call_builtin("exp", distance))
    return select(a.equal(b), a + const(log(2), a.dtype), ordinary)


log_add_exp = _operator(
    "log_add_exp", "float", _wide(_log_add_exp), "Compute log(exp(a) + exp(b)) without overflow."
)
atan2 = _operator("atan2", "float", _wide(_builtin("atan2")), "Return the angles of points (y, x).")
hypot = _operator(
    "hypot", "float", _wide(_builtin("hypot")), "Return the lengths of vectors, without overflow."
)
copysign = _operator(
    "copysign", "float", _builtin("copysign"), "Return magnitudes with the signs of others."
)
nextafter = _operator(
    "nextafter", "float", _builtin("nextafter"), "Return the next value towards another."
)

# -- comparisons and truths ------------------------------------------------------------------
equal = _operator("equal", "any", Eq, "Test whether elements are equal; NaN equals nothing.")
not_equal = _operator("not_equal", "any", NE, "Test whether elements differ.")
less = _operator("less", "any", LT, "Test whether the first is less.")
less_equal = _operator("less_equal", "any", LE, "Test whether the first is less or equal.")
greater = _operator("greater", "any", GT, "Test whether the first is greater.")
greater_equal = _operator("greater_equal", "any", GE, "Test whether the first is greater or equal.")
logical_and = _operator("logical_and", "bool", And, "Compute the logical and.")
logical_or = _operator("logical_or", "bool", Or, "Compute the logical or.")
logical_xor = _operator("logical_xor", "bool", NE, "Compute the logical exclusive or.")


# -- bits ------------------------------------------------------------------------------------
def _bits(name: str, truths: Scalar) -> Scalar:
    return lambda a, b: truths(a, b) if a.dtype.is_bool else call_builtin(name, a, b)


def _shift(name: str, right: bool) -> Scalar:
    """Make a shift that leaves nothing of a number shifted by its width or more."""

    def scalar(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        dtype, zero = a.dtype, const(0, a.dtype)
        within = LT(b, const(dtype.bits, dtype))
        if dtype.is_int:
            within = And(within, GE(b, zero))
        gone = select(LT(a, zero), const(-1, dtype), zero) if right and dtype.is_int else zero
        return select(within, call_builtin(name, a, b), gone)

    return scalar


bitwise_and = _operator(
    "bitwise_and", "bits", _bits("bitwise_and", And), "Compute the bitwise and."
)
bitwise_or = _operator("bitwise_or", "bits", _bits("bitwise_or", Or), "Compute the bitwise or.")
bitwise_xor = _operator(
    "bitwise_xor", "bits", _bits("bitwise_xor", NE), "Compute the bitwise exclusive or."
)
left_shift = _operator("left_shift", "integer", _shift("shift_left", right=False), "Shift bits up.")
right_shift = _operator(
    "right_shift",
    "integer",
    _shift("shift_right", right=True),
    "Shift bits down, keeping the sign.",
)


def broadcast_to(x: Tensor, shape: Sequence[Size]) -> Tensor:
    """Repeat axes of extent 1, and add axes in front, to a shape.

    Shapes: ``shape``. Errors: TE0101.
    """
    wanted = [size(s) for s in shape]
    own = wanted[len(wanted) - x.ndim :] if x.ndim <= len(wanted) else []
    fits = [
        (not isinstance(d, PrimExpr) and d == 1) or has_equal_sizes(d, w)
        for d, w in zip(dims(x), own)
    ]
    if len(fits) < x.ndim or not all(fits):
        refuse_shapes("broadcast_to", dims(x), wanted)
    return make("broadcast_to", wanted, lambda *i: read(x, i))
