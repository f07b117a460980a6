"""Match factors of integer products: bytes, widened to int32, minus a zero point."""

from __future__ import annotations

from typing import Any, NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.relax.expr import Constant
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import numpy_of
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.transform.relax.graph_reading import tensor_info
from loomir.transform.relax.quantization.graph_values import (
    BYTES,
    INT32,
    GraphValues,
    as_constant,
    dtype_of,
    is_uniform,
)

__all__ = ["IntegerFactor", "keeps_shape", "narrow_zero_point", "read_factor", "widen_factor"]


class IntegerFactor(NamedTuple):
    """``int32(codes) - int32(zero)``; ``codes`` are of int8 or uint8."""

    codes: RelaxExpr
    zero: RelaxExpr | None
    """The zero point, which broadcasts to the codes, in their dtype or int32; None for 0."""


def read_factor(values: GraphValues, leaf: RelaxExpr) -> IntegerFactor | None:
    """Read an int32 tensor as a factor; None if it has another form."""
    codes = _read_widened(values, leaf)
    if codes is not None:
        return IntegerFactor(codes, None)
    call = values.call(leaf, "subtract")
    codes = None if call is None else _read_widened(values, call.args[0])
    if call is None or codes is None or not keeps_shape(leaf, codes):
        return None
    zero = call.args[1]
    if dtype_of(zero) is not INT32:
        return None
    return IntegerFactor(codes, _read_zero_point(values, zero, codes))


def _read_zero_point(values: GraphValues, zero: RelaxExpr, codes: RelaxExpr) -> RelaxExpr | None:
    """Return a zero point in its narrowest dtype; None for 0."""
    known = values.constant(zero)
    if known is not None:
        return narrow_zero_point(known, codes)
    call = values.call(zero, "astype")
    if call is not None and dtype_of(call.args[0]) is dtype_of(codes):
        return call.args[0]
    return zero


def narrow_zero_point(known: Any, codes: RelaxExpr) -> Constant | None:
    """Return a constant zero point in its narrowest dtype; None for 0."""
    dtype = dtype_of(codes)
    if not known.any() or dtype is None:
        return None if not known.any() else as_constant(known)
    if is_uniform(known):
        known = known.reshape(-1)[:1].reshape(())
    fits = dtype.min_value <= known.min() and known.max() <= dtype.max_value
    return as_constant(known.astype(numpy_of(dtype)) if fits else known)


def _read_widened(values: GraphValues, leaf: RelaxExpr) -> RelaxExpr | None:
    """Return the bytes that are converted to int32, else None."""
    call = values.call(leaf, "astype")
    if call is None or dtype_of(leaf) is not INT32:
        return None
    return call.args[0] if dtype_of(call.args[0]) in BYTES else None


def keeps_shape(made: RelaxExpr, codes: RelaxExpr) -> bool:
    """Tell whether only the zero point was broadcast."""
    one, other = tensor_info(made), tensor_info(codes)
    if one is None or other is None or one.dims is None or other.dims is None:
        return False
    analyzer = Analyzer()
    return one.ndim == other.ndim and all(map(analyzer.can_prove_equal, one.dims, other.dims))


def widen_factor(codes: Tensor, zero: Tensor | None) -> Tensor:
    """Compute a factor in int32."""
    wide = topi.cast(codes, "int32")
    return wide if zero is None else topi.subtract(wide, topi.cast(zero, "int32"))
