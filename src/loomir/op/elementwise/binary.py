"""Element-wise operators of two operands, whose shapes broadcast by NumPy's rule.

Both tensors have one dtype. One operand may be a number, or a scalar of that dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loomir.op.rules.fitting import fit_lowering
from loomir.relax.node import StructInfo
from loomir.relax.operator.broadcast import broadcast
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Infer, Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import tensor
from loomir.relax.operator.reference import NPArray, elementwise, is_float, xp
from loomir.relax.operator.reference import greater as greater_of
from loomir.relax.operator.reference import lesser as lesser_of
from loomir.relax.operator.rules import common_device, common_dtype, need, operand, tensor_info
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import BOOL
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.te.topi.broadcast import Operand
from loomir.tir.builtins.accuracy import ulp_tolerance

__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "divide",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "log_add_exp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
]


# -- inference -------------------------------------------------------------------------------
def _infer(kind: str, truths: bool) -> Infer:
    def infer(c: OpContext) -> StructInfo:
        dtype = common_dtype(c, (0, 1))
        infos = [info for i in (0, 1) if isinstance(info := operand(c, i), TensorStructInfo)]
        for i in (0, 1):
            info = operand(c, i)
            if isinstance(info, TensorStructInfo):
                need(c, kind, info.dtype, i)
        device = common_device(c, (0, 1))
        return tensor_info(broadcast(c, infos), BOOL if truths else dtype, device)

    return infer


# -- samples ---------------------------------------------------------------------------------
_WRONG = {
    "float": "int32",
    "integer": "float32",
    "number": "bool",
    "bits": "float32",
    "bool": "int32",
}
_DTYPES = {
    "float": ("float32", "float16"),
    "integer": ("int32", "uint8"),
    "number": ("float32", "int8"),
    "bits": ("int32", "bool"),
    "bool": ("bool", "bool"),
    "any": ("float32", "bool"),
}


def _samples(kind: str, low: float, high: float, ulps: float) -> list[Sample]:
    first, second = _DTYPES[kind]

    def pair(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> Sample:
        low_b = max(low, 1) if low > 0 else low
        return Sample(
            (TensorSample(a, dtype, low, high), TensorSample(b, dtype, low_b, high)), ulps=ulps
        )

    made = [
        pair((2, 3), (2, 3), first),
        pair((2, 1, 3), (4, 1), second),
        pair((), (3,), first),
        pair((), (), second),
        pair((0, 3), (1, 3), first),
    ]
    if kind not in ("bool", "bits"):
        tensors = TensorSample((2, 3), first, low, high)
        made += [Sample((tensors, 2), ulps=ulps), Sample((2, tensors), ulps=ulps)]
    return made


def _define(
    name: str,
    doc: str,
    lower: Callable[[Operand, Operand], Tensor],
    compute: Callable[[Any, Any], Any],
    kind: str,
    *,
    truths: bool = False,
    bounds: tuple[float, float] = (-5.0, 5.0),
    ulps: float = 0,
    others: Sequence[Sample] = (),
) -> Callable[..., Any]:
    """Define an operator that computes each element of two."""
    tensors = TensorSample((2, 3), _DTYPES[kind][0]), TensorSample((2,), _DTYPES[kind][0])
    mistakes = [
        Mistake(tensors, {}, "OPS0008"),
        Mistake((TensorSample((2,), "int8"), TensorSample((2,), "uint8")), {}, "OPS0006"),
        Mistake((TensorSample((2,)), None), {}, "OPS0003"),
        Mistake((TensorSample((2,)), (TensorSample((2,)),)), {}, "OPS0003"),
        Mistake((1, 2), {}, "OPS0004"),
    ]
    if kind in _WRONG:
        wrong = TensorSample((2,), _WRONG[kind])
        mistakes.append(Mistake((wrong, wrong), {}, "OPS0007"))
    return define_op(
        name,
        tensor("x1"),
        tensor("x2"),
        infer=_infer(kind, truths),
        doc=doc,
        family="binary",
        lower=fit_lowering(lower),
        reference=elementwise(compute),
        samples=(*_samples(kind, *bounds, ulps), *others),
        mistakes=mistakes,
        elementwise=True,
    )


# -- arithmetic ------------------------------------------------------------------------------
def _refuse_zero_divisors(compute: Callable[[Any, Any], Any]) -> Callable[[NPArray, NPArray], Any]:
    """Refuse to divide integers by zero, as the language does."""

    def compute_checked(a: NPArray, b: NPArray) -> Any:
        if not is_float(b.dtype) and a.size and not np.all(b):
            raise ZeroDivisionError("integer division or modulo by zero")
        return compute(a, b)

    return compute_checked


def _divide(a: NPArray, b: NPArray) -> Any:
    if is_float(a.dtype):
        return np.divide(a, b)
    # What is left, which has the sign of the dividend, leaves a quotient cut towards zero.
    return np.floor_divide(a - np.fmod(a, b), b)


def _lower_divide(a: Operand, b: Operand) -> Tensor:
    given = a if isinstance(a, Tensor) else b
    whole = isinstance(given, Tensor) and given.dtype.is_integer
    return topi.trunc_divide(a, b) if whole else topi.divide(a, b)


def _precise(compute: Callable[[Any, Any], Any]) -> Callable[[NPArray, NPArray], Any]:
    """Compute float32 in float64, so that the result is the nearest."""

    def compute_precisely(a: NPArray, b: NPArray) -> NPArray:
        return np.asarray(compute(a.astype("float64"), b.astype("float64"))).astype(a.dtype)

    return compute_precisely


add = _define("add", "Add; integers wrap.", topi.add, np.add, "number")
subtract = _define("subtract", "Subtract; integers wrap.", topi.subtract, np.subtract, "number")
multiply = _define("multiply", "Multiply; integers wrap.", topi.multiply, np.multiply, "number")
divide = _define(
    "divide",
    "Divide; the quotients of integers are rounded towards zero."
    "\n\nAn integer division by zero raises ``ZeroDivisionError``.",
    _lower_divide,
    _refuse_zero_divisors(_divide),
    "number",
    bounds=(1, 5),
)
floor_divide = _define(
    "floor_divide",
    "Divide, rounding towards minus infinity."
    "\n\nAn integer division by zero raises ``ZeroDivisionError``.",
    topi.floor_divide,
    _refuse_zero_divisors(np.floor_divide),
    "number",
    bounds=(1, 5),
)
mod = _define(
    "mod",
    "Return the remainder of a division towards zero, with the sign of the dividend."
    "\n\nAn integer division by zero raises ``ZeroDivisionError``.",
    topi.fmod,
    _refuse_zero_divisors(np.fmod),
    "number",
    bounds=(1, 5),
)
floor_mod = _define(
    "floor_mod",
    "Return the remainder of ``floor_divide``, with the sign of the divisor."
    "\n\nAn integer division by zero raises ``ZeroDivisionError``.",
    topi.remainder,
    _refuse_zero_divisors(np.remainder),
    "number",
    bounds=(1, 5),
)


def _integer_power(a: NPArray, b: NPArray) -> NPArray:
    negative = b < 0
    if (negative & (a == 0)).any():
        raise ZeroDivisionError("0 cannot be raised to a negative power")
    a, b = np.broadcast_arrays(a, b)
    inverse = xp.where(xp.abs(a) == 1, a, 0).astype(a.dtype)
    square: Any = xp.where(b < 0, inverse, a)
    exponent: Any = xp.where(b < 0, -b, b)
    made: Any = xp.ones_like(square)
    for bit in range(8 * a.dtype.itemsize):
        made = xp.where((exponent >> bit) & 1, made * square, made)
        square = square * square
    return made


def _power(a: NPArray, b: NPArray) -> NPArray:
    return _precise(np.power)(a, b) if is_float(a.dtype) else _integer_power(a, b)


power = _define(
    "power",
    "Raise to powers; integers wrap."
    "\n\nA negative power of an integer is rounded towards zero; one of 0 raises"
    " ``ZeroDivisionError``.",
    topi.power,
    _power,
    "number",
    bounds=(1, 3),
    ulps=ulp_tolerance("pow"),
)
atan2 = _define(
    "atan2",
    "Return the angles of points (x, y); ``x1`` has their y, ``x2`` their x.",
    topi.atan2,
    _precise(np.arctan2),
    "float",
    ulps=ulp_tolerance("atan2"),
)
log_add_exp = _define(
    "log_add_exp",
    "Compute log(exp(x1) + exp(x2)) without overflow.",
    topi.log_add_exp,
    _precise(np.logaddexp),
    "float",
    ulps=3,
)
maximum = _define(
    "maximum", "Take the greater element; NaN if either is NaN.", topi.maximum, greater_of, "number"
)
minimum = _define(
    "minimum", "Take the lesser element; NaN if either is NaN.", topi.minimum, lesser_of, "number"
)


# -- comparisons and truths ------------------------------------------------------------------
def _comparison(name: str, doc: str) -> Callable[..., Any]:
    return _define(name, doc, getattr(topi, name), getattr(np, name), "any", truths=True)


equal = _comparison("equal", "Test whether elements are equal; NaN equals nothing.")
not_equal = _comparison("not_equal", "Test whether elements differ; NaN differs from everything.")
less = _comparison("less", "Test whether the first is less.")
less_equal = _comparison("less_equal", "Test whether the first is less or equal.")
greater = _comparison("greater", "Test whether the first is greater.")
greater_equal = _comparison("greater_equal", "Test whether the first is greater or equal.")
logical_and = _define(
    "logical_and", "Compute the logical and.", topi.logical_and, np.logical_and, "bool"
)
logical_or = _define(
    "logical_or", "Compute the logical or.", topi.logical_or, np.logical_or, "bool"
)
logical_xor = _define(
    "logical_xor", "Compute the logical exclusive or.", topi.logical_xor, np.logical_xor, "bool"
)


# -- bits ------------------------------------------------------------------------------------
def _make_shift(right: bool) -> Callable[[NPArray, NPArray], Any]:
    """Shift; by less than 0, or by the width or more, nothing of a number is left."""

    def compute(a: NPArray, b: NPArray) -> Any:
        within = (b >= 0) & (b < 8 * a.dtype.itemsize)
        safe = np.where(within, b, 0).astype(b.dtype)
        made = np.right_shift(a, safe) if right else np.left_shift(a, safe)
        gone = np.where(a < 0, -1, 0).astype(a.dtype) if right else np.zeros_like(a)
        return np.where(within, made, gone).astype(a.dtype)

    return compute


_BEYOND = "\n\nA shift by less than 0, or by the width or more, shifts all bits out."
bitwise_and = _define(
    "bitwise_and", "Compute the bitwise and.", topi.bitwise_and, np.bitwise_and, "bits"
)
bitwise_or = _define(
    "bitwise_or", "Compute the bitwise or.", topi.bitwise_or, np.bitwise_or, "bits"
)
bitwise_xor = _define(
    "bitwise_xor", "Compute the bitwise exclusive or.", topi.bitwise_xor, np.bitwise_xor, "bits"
)
left_shift = _define(
    "left_shift", "Shift bits up." + _BEYOND, topi.left_shift, _make_shift(right=False), "integer"
)
right_shift = _define(
    "right_shift",
    "Shift bits down, keeping the sign." + _BEYOND,
    topi.right_shift,
    _make_shift(right=True),
    "integer",
)
