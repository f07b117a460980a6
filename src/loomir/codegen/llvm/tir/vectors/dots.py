"""Emit dot products of short groups of lanes, by one instruction if the CPU has it.

Plain vectors give the same bits on other CPUs. The instructions for bytes wrap. That of x86-64 for
pairs of bfloat16 adds the second pair before the first, rounds after each, and treats subnormal
numbers as zero; that of AArch64 rounds in another way, and is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.types import BFLOAT, FLOAT, I32
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.fused_multiply_add import multiply_add
from loomir.codegen.llvm.tir.frame import FunctionFrame
from loomir.ir.visit import Step
from loomir.tir.expr import Call

__all__ = ["DOTS", "dot_bytes", "flush_subnormals", "widen_half"]

_LEAST_NORMAL: Final = 2.0**-126


def _dp4a(frame: FunctionFrame, e: Call) -> Step[Value]:
    xs: Value = yield frame.value(e.args[0])
    ys: Value = yield frame.value(e.args[1])
    acc: Value = yield frame.value(e.args[2])
    b, lanes = frame.b, e.dtype.lanes
    signs = e.args[0].dtype.is_int, e.args[1].dtype.is_int
    t = I32.with_lanes(lanes)
    if signs[0] != signs[1] and _has(b, lanes, "avx512_vnni", "avx_vnni"):
        if signs[0]:
            xs, ys = ys, xs
        name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        return b.intrinsic(name, [acc, xs, ys], overloads=())
    if lanes in (2, 4) and ("asimddp" if signs[0] == signs[1] else "i8mm") in b.module.features:
        if signs == (True, False):
            xs, ys = ys, xs
        kind = "usdot" if signs[0] != signs[1] else "sdot" if signs[0] else "udot"
        name = f"llvm.aarch64.neon.{kind}.v{lanes}i32.v{4 * lanes}i8"
        return b.intrinsic(name, [acc, xs, ys], overloads=())
    return dot_bytes(b, (b.bitcast(xs, t), b.bitcast(ys, t)), signs, acc)


def dot_bytes(
    b: Builder, words: tuple[Value, Value], signs: tuple[bool, bool], acc: Value
) -> Value:
    """Add the products of the four bytes of each word, without dot-product instructions."""
    total = acc
    for byte in range(4):
        parts = [_byte(b, word, byte, signed) for word, signed in zip(words, signs)]
        total = b.add(total, b.mul(*parts))
    return total


def _byte(b: Builder, word: Value, byte: int, signed: bool) -> Value:
    """Return one byte of each word, widened."""
    high = b.shl(word, const(word.type, 24 - 8 * byte)) if byte < 3 else word
    return (b.ashr if signed else b.lshr)(high, const(word.type, 24))


def _has(b: Builder, lanes: int, wide: str, narrow: str | None = None) -> bool:
    """Tell whether one of two CPU features has instructions for vectors of so many words."""
    features = b.module.features
    if wide in features:
        return lanes in (4, 8, 16)
    return narrow is not None and narrow in features and lanes in (4, 8)


def _dp2a(frame: FunctionFrame, e: Call) -> Step[Value]:
    xs: Value = yield frame.value(e.args[0])
    ys: Value = yield frame.value(e.args[1])
    acc: Value = yield frame.value(e.args[2])
    b, lanes = frame.b, e.dtype.lanes
    if _has(b, lanes, "avx512_bf16"):
        t = BFLOAT.with_lanes(2 * lanes)
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        return b.intrinsic(name, [acc, b.bitcast(xs, t), b.bitcast(ys, t)], overloads=())
    t = I32.with_lanes(lanes)
    words = b.bitcast(xs, t), b.bitcast(ys, t)
    total = flush_subnormals(b, acc)
    for second in (True, False):
        x, y = (flush_subnormals(b, widen_half(b, word, second)) for word in words)
        total = flush_subnormals(b, multiply_add(b, x, y, total))
    return total


def widen_half(b: Builder, word: Value, second: bool) -> Value:
    """Return one bfloat16 of each word, widened."""
    t = word.type
    bits = b.and_(word, const(t, -65536)) if second else b.shl(word, const(t, 16))
    return b.bitcast(bits, FLOAT.with_lanes(t.lanes))


def flush_subnormals(b: Builder, x: Value) -> Value:
    """Replace subnormal numbers by zeros of the same sign."""
    t = I32.with_lanes(x.type.lanes)
    zero = b.bitcast(b.and_(b.bitcast(x, t), const(t, -(1 << 31))), x.type)
    size = b.intrinsic("llvm.fabs", [x])
    return b.select(b.fcmp("olt", size, const(x.type, _LEAST_NORMAL)), zero, x)


DOTS: Final[dict[str, Callable[[FunctionFrame, Call], Step[Value]]]] = {
    "dp2a": _dp2a,
    "dp4a": _dp4a,
}
"""By name of the builtin."""
