"""Element-wise operators of one, two or three operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import Converter, register
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import topi
from loomir.te.topi.shape import compute_dtype
from loomir.tir.expr import PrimExpr

_Operator = Callable[..., Any]


# -- one operand ---------------------------------------------------------------------------------
def _unary(operator: _Operator) -> Converter:
    """Import a function of elements that are of the dtype of the result."""

    def convert(node: Node) -> RelaxExpr:
        return operator(node.tensor(0, node.dtype))

    return convert


def _kernel(operator: _Operator) -> Converter:
    """Import what is not an operator of graphs, as a kernel."""

    def convert(node: Node) -> RelaxExpr:
        return node.compute(operator, node.tensor(0, node.dtype))

    return convert


def _make_rounding(operator: _Operator) -> Converter:
    """Import a rounding, of which integers are whole already."""

    def convert(node: Node) -> RelaxExpr:
        x = node.tensor(0)
        return operator(x) if _is_float(node.dtype_of(x)) else x

    return convert


def _is_float(dtype: str) -> bool:
    return DataType(dtype).is_float


_UNARY: Final = {
    "acos": op.acos,
    "acosh": op.acosh,
    "asin": op.asin,
    "asinh": op.asinh,
    "atan": op.atan,
    "atanh": op.atanh,
    "cos": op.cos,
    "cosh": op.cosh,
    "erf": op.erf,
    "exp": op.exp,
    "log": op.log,
    "neg": op.negative,
    "rsqrt": op.rsqrt,
    "sigmoid": op.sigmoid,
    "sin": op.sin,
    "sinh": op.sinh,
    "sqrt": op.sqrt,
    "square": op.square,
    "tan": op.tan,
    "tanh": op.tanh,
}
for _name, _operator in _UNARY.items():
    register(f"aten.{_name}.default")(_unary(_operator))
_KERNELS: Final = {
    "exp2": topi.exp2,
    "expm1": topi.expm1,
    "log10": topi.log10,
    "log1p": topi.log1p,
    "log2": topi.log2,
    "reciprocal": topi.reciprocal,
}
for _name, _operator in _KERNELS.items():
    register(f"aten.{_name}.default")(_kernel(_operator))
for _name, _operator in {"ceil": op.ceil, "floor": op.floor, "trunc": op.trunc}.items():
    register(f"aten.{_name}.default")(_make_rounding(_operator))
register("aten.round.default")(_make_rounding(op.round))


@register("aten.round.decimals")
def _round_decimals(node: Node) -> RelaxExpr:
    x, decimals = node.tensor(0), int(node["decimals"])
    if not _is_float(node.dtype) or decimals == 0:
        return op.round(x) if _is_float(node.dtype) else x
    wide = str(compute_dtype(DataType(node.dtype)))
    x, ten = node.cast(x, wide), node.constant(10.0 ** abs(decimals), wide)
    there, back = (op.multiply, op.divide) if decimals > 0 else (op.divide, op.multiply)
    whole = node.emit(op.round(node.emit(there(x, ten))))
    return node.cast(node.emit(back(whole, ten)), node.dtype)


@register("aten.abs.default")
def _abs(node: Node) -> RelaxExpr:
    x = node.tensor(0)
    return x if DataType(node.dtype_of(x)).is_uint else op.abs(x)


@register("aten.sign.default", "aten.sgn.default")
def _sign(node: Node) -> RelaxExpr:
    x = node.tensor(0)
    dtype = node.dtype_of(x)
    if dtype == "bool":
        return x
    if not _is_float(dtype):
        return op.sign(x)
    return op.where(node.emit(op.isnan(x)), node.constant(0), node.emit(op.sign(x)))


@register("aten.bitwise_not.default")
def _bitwise_not(node: Node) -> RelaxExpr:
    x = node.tensor(0)
    return op.logical_not(x) if node.dtype == "bool" else op.bitwise_not(x)


@register("aten.logical_not.default")
def _logical_not(node: Node) -> RelaxExpr:
    return op.logical_not(_truth(node, 0))


def _truth(node: Node, place: int) -> RelaxExpr:
    return node.tensor(place, "bool")


def _test(operator: _Operator, otherwise: bool) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        x = node.tensor(0)
        if _is_float(node.dtype_of(x)):
            return operator(x)
        return op.full(tuple(node.dims_of(x)), node.constant(otherwise, "bool"))

    return convert


register("aten.isinf.default")(_test(op.isinf, False))
register("aten.isnan.default")(_test(op.isnan, False))
register("aten.isfinite.default")(_test(op.isfinite, True))


# -- two operands --------------------------------------------------------------------------------
def _pair(node: Node, dtype: str, first: int = 0, second: int = 1) -> tuple[RelaxExpr, RelaxExpr]:
    return node.tensor(first, dtype), node.tensor(second, dtype)


def _binary(operator: _Operator, truth: _Operator | None = None) -> Converter:
    """Import what combines elements of the dtype of the result."""

    def convert(node: Node) -> RelaxExpr:
        own = truth if truth is not None and node.dtype == "bool" else operator
        return own(*_pair(node, node.dtype))

    return convert


def _import_scaled(operator: _Operator, truth: _Operator) -> Converter:
    """Import a sum or a difference, whose second operand is multiplied by ``alpha``."""

    def convert(node: Node) -> RelaxExpr:
        a, b = _pair(node, node.dtype)
        alpha = node["alpha"]
        if isinstance(alpha, PrimExpr) or alpha != 1:
            by = node.as_tensor(alpha)
            if node.dtype == "bool":
                b = node.emit(op.logical_and(b, by))
            else:
                b = node.emit(op.multiply(b, by))
        return (truth if node.dtype == "bool" else operator)(a, b)

    return convert


register("aten.add.Tensor", "aten.add.Scalar")(_import_scaled(op.add, op.logical_or))
register("aten.sub.Tensor", "aten.sub.Scalar")(_import_scaled(op.subtract, op.logical_xor))


@register("aten.rsub.Tensor", "aten.rsub.Scalar")
def _rsub(node: Node) -> RelaxExpr:
    a, b = _pair(node, node.dtype)
    if node["alpha"] != 1:
        a = node.emit(op.multiply(a, node.as_tensor(node["alpha"])))
    return op.subtract(b, a)


register("aten.mul.Tensor", "aten.mul.Scalar")(_binary(op.multiply, op.logical_and))
register("aten.maximum.default")(_binary(op.maximum, op.logical_or))
register("aten.minimum.default")(_binary(op.minimum, op.logical_and))
register("aten.atan2.default")(_binary(op.atan2))


def _import_extreme(operator: _Operator, truth: _Operator) -> Converter:
    """Import a maximum or a minimum that is a NaN only where both operands are."""

    def convert(node: Node) -> RelaxExpr:
        a, b = _pair(node, node.dtype)
        if not _is_float(node.dtype):
            return (truth if node.dtype == "bool" else operator)(a, b)
        made = node.emit(operator(a, b))
        made = node.emit(op.where(node.emit(op.isnan(b)), a, made))
        return op.where(node.emit(op.isnan(a)), b, made)

    return convert


register("aten.fmax.default")(_import_extreme(op.maximum, op.logical_or))
register("aten.fmin.default")(_import_extreme(op.minimum, op.logical_and))


register("aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar")(
    _binary(op.bitwise_and, op.logical_and)
)
register("aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar")(_binary(op.bitwise_or, op.logical_or))
register("aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar")(
    _binary(op.bitwise_xor, op.logical_xor)
)
register(
    "aten.bitwise_left_shift.Tensor",
    "aten.bitwise_left_shift.Tensor_Scalar",
    "aten.bitwise_left_shift.Scalar_Tensor",
    "aten.__lshift__.Scalar",
    "aten.__lshift__.Tensor",
)(_binary(op.left_shift))
register(
    "aten.bitwise_right_shift.Tensor",
    "aten.bitwise_right_shift.Tensor_Scalar",
    "aten.bitwise_right_shift.Scalar_Tensor",
    "aten.__rshift__.Scalar",
    "aten.__rshift__.Tensor",
)(_binary(op.right_shift))


def _import_divide(node: Node) -> RelaxExpr:
    return op.divide(*_pair(node, node.dtype))


register("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")(_import_divide)


@register("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _import_rounding_divide(node: Node) -> RelaxExpr:
    mode = node["rounding_mode"]
    if mode is None:
        return _import_divide(node)
    a, b = _pair(node, node.dtype)
    if mode == "floor":
        return _floor_divide(node, a, b)
    if not _is_float(node.dtype):
        return op.divide(a, b)
    return op.trunc(node.emit(op.divide(a, b)))


def _floor_divide(node: Node, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    if not _is_float(node.dtype):
        return op.floor_divide(a, b)
    whole = node.emit(op.floor_divide(a, b))
    return op.where(node.emit(op.equal(b, node.constant(0))), node.emit(op.divide(a, b)), whole)


@register("aten.floor_divide.default")
def _floor_divided(node: Node) -> RelaxExpr:
    return _floor_divide(node, *_pair(node, node.dtype))


register("aten.fmod.Tensor", "aten.fmod.Scalar")(_binary(op.mod))
register("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")(
    _binary(op.floor_mod)
)


@register("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def _power(node: Node) -> RelaxExpr:
    return op.power(*_pair(node, node.dtype))


@register("aten.pow.Tensor_Scalar")
def _power_of_number(node: Node) -> RelaxExpr:
    exponent = node[1]
    x = node.tensor(0, node.dtype)
    if exponent == 2:
        return op.square(x)
    if exponent == 1:
        return x
    if exponent == 3:
        return op.multiply(node.emit(op.square(x)), x)
    if exponent == 0.5:
        return op.sqrt(x)
    if exponent == -0.5:
        return op.rsqrt(x)
    if exponent == -1 and _is_float(node.dtype):
        return op.divide(node.constant(1), x)
    return op.power(x, node.tensor(1, node.dtype))


# -- comparisons ---------------------------------------------------------------------------------
def _comparison(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        dtype = node.promote(0, 1)
        if dtype == "bool":
            dtype = "uint8"
        return operator(*_pair(node, dtype))

    return convert


for _name, _operator in {
    "eq": op.equal,
    "ne": op.not_equal,
    "lt": op.less,
    "le": op.less_equal,
    "gt": op.greater,
    "ge": op.greater_equal,
}.items():
    register(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_comparison(_operator))


def _logical(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        return operator(_truth(node, 0), _truth(node, 1))

    return convert


for _name, _operator in {
    "and": op.logical_and,
    "or": op.logical_or,
    "xor": op.logical_xor,
}.items():
    register(f"aten.logical_{_name}.default")(_logical(_operator))


# -- three operands ------------------------------------------------------------------------------
@register("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def _where(node: Node) -> RelaxExpr:
    return op.where(node.tensor(0, "bool"), node.tensor(1, node.dtype), node.tensor(2, node.dtype))


def _clamp_between(node: Node, low: str | None, high: str | None) -> RelaxExpr:
    """Bring elements between bounds that are arguments; of truths, these are 0 and 1."""
    dtype = node.dtype
    inner = "uint8" if dtype == "bool" else dtype
    x = node.cast(node.tensor(0, dtype), inner)
    if low is not None and node[low] is not None:
        x = node.emit(op.maximum(x, node.cast(node.tensor(low, dtype), inner)))
    if high is not None and node[high] is not None:
        x = node.emit(op.minimum(x, node.cast(node.tensor(high, dtype), inner)))
    return node.cast(x, dtype)


@register("aten.clamp.default", "aten.clamp.Tensor")
def _clamp(node: Node) -> RelaxExpr:
    return _clamp_between(node, "min", "max")


@register("aten.clamp_min.default", "aten.clamp_min.Tensor")
def _clamp_min(node: Node) -> RelaxExpr:
    return _clamp_between(node, "min", None)


@register("aten.clamp_max.default", "aten.clamp_max.Tensor")
def _clamp_max(node: Node) -> RelaxExpr:
    return _clamp_between(node, None, "max")


# -- dtypes and copies ---------------------------------------------------------------------------
@register("aten._to_copy.default", "aten.to.dtype", "prims.convert_element_type.default")
def _import_conversion(node: Node) -> RelaxExpr:
    return _convert(node, node.tensor(0), node.dtype)


def _convert(node: Node, x: RelaxExpr, dtype: str) -> RelaxExpr:
    own = node.dtype_of(x)
    if own == dtype:
        return x
    wide = ("bool", "int32", "int64", "uint64")
    if DataType(own).is_float and not DataType(dtype).is_float and dtype not in wide:
        # Through 64 bits, of which the lower ones are kept, as PyTorch does.
        x = node.emit(op.astype(x, "int64"))
    return op.astype(x, dtype)


@register(
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "aten.conj.default",
    "aten.positive.default",
)
def _identity(node: Node) -> RelaxExpr:
    return node.tensor(0)


@register("aten.copy.default")
def _copy(node: Node) -> RelaxExpr:
    x = _convert(node, node.tensor(1), node.dtype)
    return op.broadcast_to(x, tuple(node.shape))


@register("aten.deg2rad.default")
def _radians(node: Node) -> RelaxExpr:
    return op.multiply(node.tensor(0, node.dtype), node.constant(math.pi / 180))
