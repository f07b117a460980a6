"""Special functions, such as the gamma function, and functions of signs, bits and divisors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from loomir import op
from loomir.frontend.torch import formulas
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import Converter, register
from loomir.relax.node import RelaxExpr
from loomir.support.dtype import DataType
from loomir.te import Tensor, all_of, compute, select
from loomir.te.operation import extern
from loomir.te.topi.loops import nest, with_buffers
from loomir.te.topi.shape import compute_dtype
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import NE, Max, Min, PrimExpr, cast, const
from loomir.tir.stmt import BufferStore, Stmt, While, seq

_Formula = Callable[[PrimExpr], PrimExpr]


# -- one operand ---------------------------------------------------------------------------------
def _apply(node: Node, x: RelaxExpr, formula: _Formula) -> RelaxExpr:
    """Compute a formula of elements in 64 bits, and round the results."""

    def kernel(data: Tensor) -> Tensor:
        def element(*i: PrimExpr) -> PrimExpr:
            return cast(formula(cast(data(*i), "float64")), data.dtype)

        return compute(data.shape, element, name="special")

    return node.compute(kernel, x)


def _import_formula(formula: _Formula) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        return _apply(node, node.tensor(0, node.dtype), formula)

    return convert


_FORMULAS: Final = {
    "digamma": formulas.digamma,
    "erfc": formulas.erfc,
    "erfinv": formulas.erfinv,
    "i0": formulas.i0,
    "lgamma": formulas.lgamma,
    "special_erfcx": formulas.erfcx,
    "special_i0e": formulas.i0e,
    "special_i1": formulas.i1,
    "special_i1e": formulas.i1e,
    "special_log_ndtr": formulas.log_ndtr,
    "special_ndtri": formulas.ndtri,
}
for _name, _formula in _FORMULAS.items():
    register(f"aten.{_name}.default")(_import_formula(_formula))

_MOST: Final = 60
"""The highest derivative, whose factorials have room in floats of 64 bits."""


@register("aten.polygamma.default", note=f"orders above {_MOST}")
def _polygamma(node: Node) -> RelaxExpr:
    order = node["n"]
    if not isinstance(order, int) or order > _MOST:
        raise node.refuse(f"its order is {order}, and only orders up to {_MOST} are supported")
    formula = formulas.polygamma(order) if order else formulas.digamma
    return _apply(node, node.tensor("self", node.dtype), formula)


@register("aten.signbit.default")
def _signbit(node: Node) -> RelaxExpr:
    x = node.tensor(0)
    dtype = DataType(node.dtype_of(x))
    if dtype.is_bool or dtype.is_uint:
        return op.full(tuple(node.shape), node.constant(False, "bool"))

    def kernel(data: Tensor) -> Tensor:
        def element(*i: PrimExpr) -> PrimExpr:
            value = data(*i)
            if not data.dtype.is_float:
                return value < const(0, data.dtype)
            wide = compute_dtype(data.dtype)
            return call_builtin("copysign", const(1.0, wide), cast(value, wide)) < 0.0

        return compute(data.shape, element, name="signbit")

    return node.compute(kernel, x)


@register("aten.frexp.Tensor")
def _frexp(node: Node) -> list[Any]:
    """Split floats into a part from 0.5 to 1, and an exponent of 2."""
    x = node.tensor(0)

    def exponent(data: Tensor) -> Tensor:
        def element(*i: PrimExpr) -> PrimExpr:
            # In 64 bits, numbers of fewer bits that are subnormal are not.
            value = cast(data(*i), "float64")
            ordinary = all_of(call_builtin("isfinite", value), NE(value, const(0.0, "float64")))
            tiny = call_builtin("abs", value) < 2.0**-1000
            scaled = select(tiny, value * 2.0**100, value)
            bits = call_builtin("reinterpret", scaled, dtype=DataType("int64"))
            field = call_builtin("shift_right", bits, const(52, "int64"))
            field = call_builtin("bitwise_and", field, const(2047, "int64"))
            made = cast(field, "int32") - select(tiny, const(1122, "int32"), const(1022, "int32"))
            return select(ordinary, made, const(0, "int32"))

        return compute(data.shape, element, name="exponent")

    def mantissa(data: Tensor, power: Tensor) -> Tensor:
        def element(*i: PrimExpr) -> PrimExpr:
            value, half = cast(data(*i), "float64"), power(*i) // 2
            first = call_builtin("ldexp", value, half * -1)
            return cast(call_builtin("ldexp", first, half - power(*i)), data.dtype)

        return compute(data.shape, element, name="mantissa")

    power = node.compute(exponent, x)
    return [node.compute(mantissa, x, power), power]


# -- two operands --------------------------------------------------------------------------------
def _broadcast(node: Node, dtype: str) -> list[RelaxExpr]:
    shape = tuple(node.shape)
    return [node.emit(op.broadcast_to(node.tensor(i, dtype), shape)) for i in (0, 1)]


def _import_pair(name: str) -> Converter:
    """Import a function of two floats, which is a builtin."""

    def convert(node: Node) -> RelaxExpr:
        def kernel(a: Tensor, b: Tensor) -> Tensor:
            # The next number depends on the dtype; 16 bits have no builtin of their own otherwise.
            inner = a.dtype if name == "nextafter" else compute_dtype(a.dtype)

            def element(*i: PrimExpr) -> PrimExpr:
                made = call_builtin(name, cast(a(*i), inner), cast(b(*i), inner))
                return cast(made, a.dtype)

            return compute(a.shape, element, name=name)

        return node.compute(kernel, *_broadcast(node, node.dtype))

    return convert


register("aten.hypot.default")(_import_pair("hypot"))
register("aten.copysign.Tensor", "aten.copysign.Scalar")(_import_pair("copysign"))
register("aten.nextafter.default")(_import_pair("nextafter"))


@register("aten.ldexp.Tensor")
def _ldexp(node: Node) -> RelaxExpr:
    """Multiply by a power of 2."""
    x, exponent = _broadcast(node, node.dtype)
    own, other = [DataType(node.dtype_of(node.tensor(i))) for i in (0, 1)]
    if other.is_float or not own.is_float:
        return op.multiply(x, node.emit(op.power(node.constant(2), exponent)))
    given = node.emit(op.broadcast_to(node.tensor(1, "int64"), tuple(node.shape)))

    def kernel(x: Tensor, exponent: Tensor) -> Tensor:
        wide = compute_dtype(x.dtype)

        def element(*i: PrimExpr) -> PrimExpr:
            power = Min(Max(exponent(*i), const(-5000, "int64")), const(5000, "int64"))
            return cast(call_builtin("ldexp", cast(x(*i), wide), cast(power, "int32")), x.dtype)

        return compute(x.shape, element, name="ldexp")

    return node.compute(kernel, x, given)


# -- divisors ------------------------------------------------------------------------------------
def _divisor(a: Tensor, b: Tensor) -> Tensor:
    """Return the greatest common divisor of each pair, by Euclid's algorithm."""

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        zero = (const(0, "int64"),)

        def find(i: Sequence[PrimExpr]) -> Stmt:
            names = ("first", "second", "rest")
            cells = [decl_buffer((1,), a.dtype, name=n, scope="local") for n in names]
            first, second, rest = (BufferLoad(c, zero) for c in cells)
            step = [
                BufferStore(cells[2], first % second, zero),
                BufferStore(cells[0], second, zero),
                BufferStore(cells[1], rest, zero),
            ]
            made: list[Stmt] = [
                BufferStore(cell, _size(BufferLoad(source, tuple(i))), zero)
                for cell, source in zip(cells, ins, strict=False)
            ]
            made.append(While(NE(second, const(0, a.dtype)), seq(step)))
            made.append(BufferStore(outs[0], _size(first), tuple(i)))
            return with_buffers(cells, made)

        return nest(a.shape, find)

    made: Tensor = extern([a.shape], [a, b], body, name="gcd", dtype=a.dtype)
    return made


def _size(value: Any) -> PrimExpr:
    return value if value.dtype.is_uint else call_builtin("abs", value)


def _import_divisor(node: Node) -> tuple[RelaxExpr, list[RelaxExpr]]:
    wide = "uint64" if node.dtype == "uint64" else "int64"
    given = _broadcast(node, wide)
    return node.compute(_divisor, *given), given


@register("aten.gcd.default")
def _gcd(node: Node) -> RelaxExpr:
    return node.cast(_import_divisor(node)[0], node.dtype)


@register("aten.lcm.default")
def _lcm(node: Node) -> RelaxExpr:
    divisor, (a, b) = _import_divisor(node)
    wide = node.dtype_of(divisor)
    zero, one = node.constant(0, wide), node.constant(1, wide)
    by = node.emit(op.maximum(divisor, one))
    # The product has the dtype of the operands, where it may wrap.
    part = node.cast(node.emit(op.floor_divide(a, by)), node.dtype)
    made = node.emit(op.multiply(part, node.cast(b, node.dtype)))
    if not DataType(node.dtype).is_uint:
        made = node.emit(op.abs(made))
    none = node.emit(op.equal(divisor, zero))
    return op.where(none, node.constant(0), made)
