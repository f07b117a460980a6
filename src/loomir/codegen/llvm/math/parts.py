"""Building blocks of the math functions: polynomials, exact sums and products, exponents."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT, I32, I64, Type, integer
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.fused_multiply_add import multiply_add
from loomir.support.diagnostics import InternalError

__all__ = [
    "Format",
    "absolute",
    "bits_of",
    "chains",
    "clamp",
    "copysign",
    "emit_by_registers",
    "fma",
    "format_of",
    "horner",
    "integers",
    "may_scale",
    "nearest",
    "power_of_two",
    "quick_sum",
    "root_in_parts",
    "scale",
    "scale_whole",
    "two_product",
    "two_sum",
    "with_sign",
]


class Format(NamedTuple):
    """The layout of float or double."""

    bits: int
    fraction: int  # bits after the leading bit
    bias: int
    magic: float  # adding it rounds to an integer, in the low bits
    suffix: str  # of the names of C library functions
    integer: Type


_FORMATS: Final = {
    FLOAT: Format(32, 23, 127, 1.5 * 2.0**23, "f", I32),
    DOUBLE: Format(64, 52, 1023, 1.5 * 2.0**52, "", I64),
}


def format_of(x: Value) -> Format:
    """Return the layout of the elements of a float or double value."""
    found = _FORMATS.get(x.type.element)
    if found is None:
        raise InternalError(f"math kernels take float and double, not {x.typed}")
    return found


def integers(x: Value) -> Type:
    """Return the integer type of the same width and lanes."""
    return format_of(x).integer.with_lanes(x.type.lanes)


def bits_of(value: float, bits: int) -> int:
    """Return the bits of a float or double constant."""
    form, code = ("<f", "<I") if bits == 32 else ("<d", "<Q")
    return int(struct.unpack(code, struct.pack(form, value))[0])


def fma(b: Builder, x: Value, y: Value | float, z: Value | float) -> Value:
    """Emit ``x * y + z``, rounded once."""
    t = x.type
    second = y if isinstance(y, Value) else const(t, y)
    third = z if isinstance(z, Value) else const(t, z)
    return multiply_add(b, x, second, third)


def horner(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Emit a polynomial; coefficients from the constant one up."""
    result = const(x.type, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = multiply_add(b, result, x, const(x.type, c))
    return result


def chains(b: Builder, powers: Sequence[Value], coefficients: Sequence[float]) -> Value:
    """Emit a long polynomial in ``powers[0]`` as several chains, which run in parallel.

    ``powers`` are x, x**2, x**4 ...: each but the first doubles the number of chains.
    """
    if len(powers) == 1:
        return horner(b, powers[0], coefficients)
    odd = chains(b, powers[1:], coefficients[1::2])
    return multiply_add(b, odd, powers[0], chains(b, powers[1:], coefficients[::2]))


def absolute(b: Builder, x: Value) -> Value:
    """Emit the magnitude."""
    return b.intrinsic("llvm.fabs", [x])


def copysign(b: Builder, x: Value, sign: Value) -> Value:
    """Emit the magnitude of ``x`` with the sign of ``sign``."""
    return with_sign(b, absolute(b, x), sign)


def with_sign(b: Builder, size: Value, sign: Value) -> Value:
    """Emit ``size``, which is 0 or more or NaN, with the sign of ``sign``."""
    # Not by `llvm.copysign`: if the result is rounded to half, x86 with AVX-512 would round the
    # sign's double to half too, and call a function for it that no C library has.
    t = integers(sign)
    top = b.and_(b.bitcast(sign, t), const(t, -(1 << (t.bits - 1))))
    return b.bitcast(b.or_(b.bitcast(size, t), top), sign.type)


def clamp(b: Builder, x: Value, low: float, high: float) -> Value:
    """Clamp ``x`` between two constants; NaN stays NaN."""
    t = x.type
    x = b.select(b.fcmp("olt", x, const(t, low)), const(t, low), x)
    return b.select(b.fcmp("ogt", x, const(t, high)), const(t, high), x)


def nearest(b: Builder, x: Value) -> tuple[Value, Value]:
    """Round a small ``x`` to the nearest integer; return it as a float and as an integer."""
    form = format_of(x)
    t = integers(x)
    moved = b.fadd(x, const(x.type, form.magic))
    whole = b.sub(b.bitcast(moved, t), const(t, bits_of(form.magic, form.bits)))
    return b.fsub(moved, const(x.type, form.magic)), whole


def power_of_two(b: Builder, n: Value, t: Type) -> Value:
    """Emit 2**n for an integer n that is the exponent of a normal number."""
    form = _FORMATS[t.element]
    biased = b.add(n, const(n.type, form.bias))
    return b.bitcast(b.shl(biased, const(n.type, form.fraction)), t)


def may_scale(b: Builder, x: Value) -> bool:
    """Tell whether ``scale_whole`` takes values of this type: AVX-512 has an instruction."""
    size = x.type.bits * x.type.lanes
    return size >= 512 and size.bit_count() == 1 and "avx512f" in b.module.features


def scale_whole(b: Builder, x: Value, n: Value) -> Value:
    """Emit ``x * 2**n``, rounded once, for an integral float n; requires ``may_scale``.

    It is not ``llvm.ldexp``, which takes integers and may call a library.
    """
    kind, mask = ("ps", integer(16)) if x.type.bits == 32 else ("pd", integer(8))
    as_set = const(I32, 4)  # the current rounding mode

    def scale_register(x: Value, n: Value) -> Value:
        args = [x, n, x, const(mask, -1), as_set]
        return b.intrinsic(f"llvm.x86.avx512.mask.scalef.{kind}.512", args, overloads=())

    return emit_by_registers(b, scale_register, [x, n], 512)


def emit_by_registers(
    b: Builder, emit: Callable[..., Value], args: Sequence[Value], bits: int
) -> Value:
    """Emit an instruction on one register for values of 2**k registers, part by part."""
    t = args[0].type
    lanes = bits // t.bits
    made = [
        emit(*(_lanes(b, a, range(first, first + lanes)) for a in args))
        for first in range(0, t.lanes, lanes)
    ]
    while len(made) > 1:
        pairs = zip(made[::2], made[1::2], strict=True)
        made = [b.shufflevector(x, y, range(2 * x.type.lanes)) for x, y in pairs]
    return made[0]


def _lanes(b: Builder, x: Value, chosen: range) -> Value:
    return x if len(chosen) == x.type.lanes else b.shufflevector(x, x, chosen)


def scale(b: Builder, x: Value, n: Value) -> Value:
    """Emit ``x * 2**n`` for ``x`` near 1 and any exponent of a result.

    Of its two steps, the first is exact, and the second rounds once, also to subnormal or infinity.
    """
    form = format_of(x)
    up = const(n.type, 4 * form.bias)
    half = b.sub(b.lshr(b.add(n, up), const(n.type, 1)), const(n.type, 2 * form.bias))
    rest = b.sub(n, half)
    return b.fmul(b.fmul(x, power_of_two(b, half, x.type)), power_of_two(b, rest, x.type))


# -- numbers in two parts ----------------------------------------------------------------------
def two_sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the rounded sum of finite numbers and its rounding error."""
    total = b.fadd(x, y)
    second = b.fsub(total, x)
    first = b.fsub(total, second)
    return total, b.fadd(b.fsub(x, first), b.fsub(y, second))


def quick_sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the rounded sum and its rounding error; ``x`` must be the larger, or zero."""
    total = b.fadd(x, y)
    return total, b.fsub(y, b.fsub(total, x))


def two_product(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the rounded product and its rounding error, unless that underflows."""
    product = b.fmul(x, y)
    return product, fma(b, x, y, b.fneg(product))


def root_in_parts(b: Builder, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """Return the square root of x, or of x + low, and its rounding error; zero for zero.

    The error, the remainder divided by twice the root, need not be exact: the reciprocal of the
    root is approximated to 4 % by halving and negating the exponent.
    """
    form = format_of(x)
    root = b.intrinsic("llvm.sqrt", [x])
    rest = fma(b, b.fneg(root), root, x)
    if low is not None:
        rest = b.fadd(rest, low)
    i = integers(x)
    middle = const(i, int(1.5 * (form.bias - 0.0450466) * 2.0**form.fraction))
    inverse = b.bitcast(b.sub(middle, b.lshr(b.bitcast(x, i), const(i, 1))), x.type)
    return root, b.fmul(b.fmul(rest, const(x.type, 0.5)), inverse)
