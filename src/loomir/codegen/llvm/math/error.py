"""Emit the error function: 1 minus the exponential of a polynomial."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import DOUBLE, FLOAT
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.exponential import emit_one_minus_exp
from loomir.codegen.llvm.math.parts import absolute, chains, fma, with_sign

__all__ = ["ERF", "erf"]

_h = float.fromhex

# From here on, the result rounds to 1.
_TOP: Final = {FLOAT: 3.95, DOUBLE: 5.93}
# -log(1 - erf(x)) / x - 1 in powers of x, for x below ``_TOP``.
ERF: Final = {
    FLOAT: (
        _h("0x1.06eba8p-3"),
        _h("0x1.45f2fcp-1"),
        _h("0x1.a4f9e8p-4"),
        _h("-0x1.39c9cap-6"),
        _h("-0x1.4e843cp-13"),
        _h("0x1.b3d53ap-10"),
        _h("-0x1.494a16p-11"),
        _h("0x1.e4bbdep-14"),
        _h("-0x1.2bcdd8p-17"),
    ),
    DOUBLE: (
        _h("0x1.06eba8214db68p-3"),
        _h("0x1.45f306dc9c8d9p-1"),
        _h("0x1.a4f4e2a1a9b31p-4"),
        _h("-0x1.396685908cb47p-6"),
        _h("-0x1.b6b6a1cdd9831p-13"),
        _h("0x1.bca691e2ad468p-10"),
        _h("-0x1.35663bfaa0befp-11"),
        _h("0x1.b29b02843a007p-16"),
        _h("0x1.0e32f00213d37p-14"),
        _h("-0x1.f0326721ea59fp-16"),
        _h("0x1.a96bc370ac60dp-19"),
        _h("0x1.a481358c5b477p-19"),
        _h("-0x1.116e8948b96b2p-19"),
        _h("0x1.325ebceb47d77p-21"),
        _h("-0x1.92cdb4696c53bp-27"),
        _h("-0x1.1a4b5e022a750p-24"),
        _h("0x1.290f8aa7c734cp-25"),
        _h("-0x1.7225519a85d06p-27"),
        _h("0x1.4467dc2e96e5cp-29"),
        _h("-0x1.9d7762b56b6a6p-32"),
        _h("0x1.7a5c7383a7696p-35"),
        _h("-0x1.d973af934ff25p-39"),
        _h("0x1.6b9ab60e2a641p-43"),
        _h("-0x1.02d1d41ef63afp-48"),
    ),
}


def erf(b: Builder, x: Value) -> Value:
    """Emit the error function as ``1 - exp(-(x + more))``."""
    size, top = absolute(b, x), const(x.type, _TOP[x.type.element])
    coefficients = ERF[x.type.element]
    bounded = b.select(b.fcmp("ogt", size, top), top, size)
    linear = b.fmul(bounded, const(x.type, coefficients[0]))
    square = b.fmul(bounded, bounded)
    powers = [bounded, square] if x.type.bits == 32 else [bounded, square, b.fmul(square, square)]
    more = fma(b, square, chains(b, powers, coefficients[1:]), linear)
    return with_sign(b, emit_one_minus_exp(b, bounded, more), x)
