"""Element-wise operators of complex numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from loomir import op
from loomir.frontend.torch.converters.complex_numbers.parts import (
    Complex,
    compute_elements,
    make_complex,
    take_part,
)
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import Converter, register
from loomir.relax.node import RelaxExpr
from loomir.te import abs as te_abs
from loomir.te import all_of, any_of, cos, exp, isfinite, isinf, isnan, log, select, sin, sqrt
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Max, Min, PrimExpr, const

Formula = Callable[..., Complex | PrimExpr]


# -- formulas ------------------------------------------------------------------------------------
def _add(a: Complex, b: Complex) -> Complex:
    return Complex(a.real + b.real, a.imag + b.imag)


def _subtract(a: Complex, b: Complex) -> Complex:
    return Complex(a.real - b.real, a.imag - b.imag)


def _multiply(a: Complex, b: Complex) -> Complex:
    return Complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def _divide(a: Complex, b: Complex) -> Complex:
    """Bring both parts of the divisor to at most 1 first, so that no square overflows."""
    size = Max(te_abs(b.real), te_abs(b.imag))
    c, d = b.real / size, b.imag / size
    squares = (c * c + d * d) * size
    real, imag = a.real * c + a.imag * d, a.imag * c - a.real * d
    return Complex(real / squares, imag / squares)


def _negate(a: Complex) -> Complex:
    return Complex(-a.real, -a.imag)


def _conjugate(a: Complex) -> Complex:
    return Complex(a.real, -a.imag)


def _measure(a: Complex) -> PrimExpr:
    """Return the absolute value, whose square may overflow."""
    x, y = te_abs(a.real), te_abs(a.imag)
    greater, less = Max(x, y), Min(x, y)
    zero, one = const(0, x.dtype), const(1, x.dtype)
    ratio = less / select(greater == zero, one, greater)
    made = greater * sqrt(one + ratio * ratio)
    infinite = any_of(isinf(x), isinf(y))
    return select(infinite, const(math.inf, x.dtype), made)


def _angle(a: Complex) -> PrimExpr:
    return call_builtin("atan2", a.imag, a.real)


def _exponentiate(a: Complex) -> Complex:
    size = exp(a.real)
    real = a.imag == const(0, size.dtype)
    return Complex(size * cos(a.imag), select(real, a.imag, size * sin(a.imag)))


def _log(a: Complex) -> Complex:
    return Complex(log(_measure(a)), _angle(a))


def _invert(a: Complex) -> Complex:
    return _divide(Complex(const(1, a.real.dtype), const(0, a.real.dtype)), a)


def _square(a: Complex) -> Complex:
    return _multiply(a, a)


def _take_root(a: Complex) -> Complex:
    """Return the square root to the right of the imaginary axis."""
    half, zero = const(0.5, a.real.dtype), const(0, a.real.dtype)
    greater = sqrt(half * (_measure(a) + te_abs(a.real)))
    less = te_abs(a.imag) * half / select(greater == zero, const(1, a.real.dtype), greater)
    right = a.real >= zero
    size = select(right, less, greater)
    return Complex(select(right, greater, less), select(a.imag < zero, -size, size))


def _raise(a: Complex, b: Complex) -> Complex:
    """Raise to a power: e to the logarithm times the exponent; zero stays zero."""
    zero, one = const(0, a.real.dtype), const(1, a.real.dtype)
    made = _exponentiate(_multiply(_log(a), b))
    at_zero = all_of(a.real == zero, a.imag == zero)
    constant = all_of(b.real == zero, b.imag == zero)
    return Complex(
        select(constant, one, select(at_zero, zero, made.real)),
        select(any_of(constant, at_zero), zero, made.imag),
    )


def _sign(a: Complex) -> Complex:
    size = _measure(a)
    zero = size == const(0, size.dtype)
    by = select(zero, const(1, size.dtype), size)
    return Complex(a.real / by, a.imag / by)


def _are_equal(a: Complex, b: Complex) -> PrimExpr:
    return all_of(a.real == b.real, a.imag == b.imag)


def _differ(a: Complex, b: Complex) -> PrimExpr:
    return any_of(a.real != b.real, a.imag != b.imag)


def _is_nan(a: Complex) -> PrimExpr:
    return any_of(isnan(a.real), isnan(a.imag))


def _is_infinite(a: Complex) -> PrimExpr:
    return any_of(isinf(a.real), isinf(a.imag))


def _is_finite(a: Complex) -> PrimExpr:
    return all_of(isfinite(a.real), isfinite(a.imag))


def _point(size: Complex, angle: Complex) -> Complex:
    return Complex(size.real * cos(angle.real), size.real * sin(angle.real))


def _pair(real: Complex, imag: Complex) -> Complex:
    return Complex(real.real, imag.real)


def _apply_formula(formula: Formula, *places: int | str) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        return compute_elements(node, formula, *places)

    return convert


_ONE: Final[dict[str, Formula]] = {
    "abs": _measure,
    "angle": _angle,
    "exp": _exponentiate,
    "isfinite": _is_finite,
    "isinf": _is_infinite,
    "isnan": _is_nan,
    "log": _log,
    "neg": _negate,
    "reciprocal": _invert,
    "sgn": _sign,
    "sqrt": _take_root,
    "square": _square,
    "_conj": _conjugate,
    "_conj_physical": _conjugate,
    "conj": _conjugate,
    "conj_physical": _conjugate,
}
for _name, _formula in _ONE.items():
    register(f"aten.{_name}.default", complex=True)(_apply_formula(_formula, 0))
_TWO: Final[dict[str, Formula]] = {
    "div": _divide,
    "eq": _are_equal,
    "mul": _multiply,
    "ne": _differ,
}
for _name, _formula in _TWO.items():
    register(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar", complex=True)(
        _apply_formula(_formula, 0, 1)
    )
register("aten.polar.default", complex=True)(_apply_formula(_point, 0, 1))
register("aten.pow.Tensor_Tensor", "aten.pow.Scalar", complex=True)(_apply_formula(_raise, 0, 1))


@register("aten.pow.Tensor_Scalar", complex=True)
def _power_of_number(node: Node) -> RelaxExpr:
    formulas: dict[Any, Formula] = {-1: _invert, 0.5: _take_root, 2: _square}
    formula = formulas.get(node[1])
    if formula is not None:
        return compute_elements(node, formula, 0)
    return compute_elements(node, _raise, 0, 1)


def _import_scaled(formula: Formula, first: int, second: int) -> Converter:
    """Import a sum or a difference, whose second operand is multiplied by ``alpha``."""

    def convert(node: Node) -> RelaxExpr:
        if node["alpha"] == 1:
            return compute_elements(node, formula, first, second)

        def scale(a: Complex, b: Complex, alpha: Complex) -> Any:
            return formula(a, _multiply(b, alpha))

        return compute_elements(node, scale, first, second, "alpha")

    return convert


register("aten.add.Tensor", "aten.add.Scalar", complex=True)(_import_scaled(_add, 0, 1))
register("aten.sub.Tensor", "aten.sub.Scalar", complex=True)(_import_scaled(_subtract, 0, 1))
register("aten.rsub.Tensor", "aten.rsub.Scalar", complex=True)(_import_scaled(_subtract, 1, 0))


def _choose(condition: Complex, a: Complex, b: Complex) -> Complex:
    holds = condition.real != const(0, condition.real.dtype)
    return Complex(select(holds, a.real, b.real), select(holds, a.imag, b.imag))


@register("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar",
          complex=True)  # fmt: skip
def _where(node: Node) -> RelaxExpr:
    if node.is_complex(0):
        raise node.refuse("its condition is complex")
    return compute_elements(node, _choose, 0, 1, 2)


# -- parts ---------------------------------------------------------------------------------------
@register("aten.complex.default", complex=True)
def _complex(node: Node) -> RelaxExpr:
    return compute_elements(node, _pair, 0, 1)


@register("aten.real.default", complex=True)
def _real(node: Node) -> RelaxExpr:
    return take_part(node, node.tensor(0), 0)


@register("aten.imag.default", complex=True)
def _imag(node: Node) -> RelaxExpr:
    return take_part(node, node.tensor(0), 1)


@register("aten._neg_view.default")
def _negative_view(node: Node) -> RelaxExpr:
    return op.negative(node.tensor(0))


@register("aten.resolve_neg.default", "aten.resolve_conj.default", "aten.conj_physical.default")
@register(
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "aten.positive.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
    "aten.view_as_complex.default",
    "aten.view_as_complex_copy.default",
    "aten.view_as_real.default",
    "aten.view_as_real_copy.default",
    complex=True,
)
def _identity(node: Node) -> RelaxExpr:
    return node.tensor(0)


@register("aten._to_copy.default", "aten.to.dtype", "prims.convert_element_type.default",
          complex=True)  # fmt: skip
def _import_conversion(node: Node) -> RelaxExpr:
    x = node.tensor(0)
    if node.makes_complex:
        return make_complex(node, x, node.is_complex(0))
    if node.dtype == "bool":
        parts = [node.cast(take_part(node, x, i), "bool") for i in range(2)]
        return op.logical_or(*parts)
    return node.cast(take_part(node, x, 0), node.dtype)


@register("aten.copy.default", complex=True)
def _copy(node: Node) -> RelaxExpr:
    if not node.makes_complex:
        raise node.refuse("it copies complex numbers into real ones")
    x = make_complex(node, node.tensor(1), node.is_complex(1))
    return op.broadcast_to(x, (*node.shape, 2))


@register("aten.angle.default")
def _real_angle(node: Node) -> RelaxExpr:
    """Return pi for negative numbers, 0 for others, NaN for itself."""
    x = node.tensor(0, node.dtype)
    negative = node.emit(op.less(x, node.constant(0)))
    made = node.emit(op.where(negative, node.constant(math.pi), node.constant(0)))
    return op.where(node.emit(op.isnan(x)), x, made)


# -- what makes tensors --------------------------------------------------------------------------
def _fill_value(node: Node, value: Any, is_complex: bool) -> RelaxExpr:
    if not node.makes_complex:
        return op.full(tuple(node.shape), node.as_tensor(value, node.dtype))
    pair = make_complex(node, value, is_complex)
    return op.broadcast_to(pair, (*node.shape, 2))


@register("aten.full.default", "aten.full_like.default", "aten.new_full.default", complex=True)
def _full(node: Node) -> RelaxExpr:
    return _fill_value(node, node["fill_value"], node.is_complex("fill_value"))


@register("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default",
          "aten.empty.memory_format", "aten.empty_like.default", "aten.empty_strided.default",
          "aten.new_empty.default", "aten.new_empty_strided.default",
          "aten.empty_permuted.default", complex=True)  # fmt: skip
def _zeros(node: Node) -> RelaxExpr:
    return _fill_value(node, 0, False)


@register("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default", complex=True)
def _ones(node: Node) -> RelaxExpr:
    return _fill_value(node, 1, False)


@register("aten.fill.Scalar", "aten.fill.Tensor", complex=True)
def _fill(node: Node) -> RelaxExpr:
    return _fill_value(node, node["value"], node.is_complex("value"))


@register("aten.scalar_tensor.default", complex=True)
def _scalar_tensor(node: Node) -> RelaxExpr:
    return make_complex(node, node[0], node.is_complex(0))
