"""Emit ``fmod``: the exact remainder of truncating division."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.values import Value, const
from loomir.codegen.llvm.math.parts import absolute, copysign, fma
from loomir.codegen.llvm.math.rare_arguments import rarely

__all__ = ["fmod"]

_STEP: Final = {32: 2.0**20, 64: 2.0**50}
"""Quotients below this are computed with an error of less than 1."""


def fmod(b: Builder, x: Value, y: Value) -> Value:
    """Emit the remainder with the sign of x."""
    t = x.type
    size, divisor = absolute(b, x), absolute(b, y)
    rest = _reduce(b, size, divisor)
    top = const(t, float("inf"))
    # With an infinite divisor the result is x; `_reduce` covers other divisors larger than x.
    rest = b.select(b.fcmp("oeq", divisor, top), size, rest)
    undefined = b.or_(b.fcmp("oeq", divisor, const(t, 0.0)), b.fcmp("oeq", size, top))
    rest = b.select(b.or_(undefined, b.fcmp("uno", x, y)), const(t, float("nan")), rest)
    return rarely(b, "fmod", [x, y], copysign(b, rest, x), _far, _slow)


def _reduce(b: Builder, x: Value, y: Value) -> Value:
    """Emit the remainder of positive numbers whose quotient is small.

    The quotient is off by at most one, and the remainder is exact: it is x, or a multiple of y's
    last place that is smaller than y.
    """
    quotient = b.intrinsic("llvm.trunc", [b.fdiv(x, y)])
    rest = fma(b, b.fneg(quotient), y, x)
    rest = b.select(b.fcmp("olt", rest, const(x.type, 0.0)), b.fadd(rest, y), rest)
    return b.select(b.fcmp("oge", rest, y), b.fsub(rest, y), rest)


def _far(b: Builder, args: Sequence[Value]) -> Value:
    """Tell whether both are finite and not zero, and the quotient is large."""
    t = args[0].type
    size, divisor = (absolute(b, a) for a in args)
    large = b.fcmp("oge", b.fdiv(size, divisor), const(t, _STEP[t.bits]))
    finite = b.fcmp("olt", size, const(t, float("inf")))
    return b.and_(b.and_(large, finite), b.fcmp("ogt", divisor, const(t, 0.0)))


def _slow(b: Builder, args: Sequence[Value]) -> Value:
    """Reduce by the largest scaled divisor up to x, then by each smaller one."""
    x, y = args
    t = x.type
    step = const(t, _STEP[t.bits])
    size, divisor = absolute(b, x), absolute(b, y)
    before, up, down, done = b.block, b.append("up"), b.append("down"), b.append("done")
    b.br(up)
    b.position_at_end(up)
    scaled = b.phi(t)
    scaled.add(divisor, before)
    larger = b.fmul(scaled, step)  # exact, or infinite
    scaled.add(larger, up)
    b.condbr(b.fcmp("ole", larger, size), up, down)
    b.position_at_end(down)
    rest, by = b.phi(t), b.phi(t)
    rest.add(size, up)
    by.add(scaled, up)
    left = _reduce(b, rest, by)
    rest.add(left, down)
    by.add(b.fmul(by, const(t, 1.0 / _STEP[t.bits])), down)  # exact, since it was multiplied before
    b.condbr(b.fcmp("ogt", by, divisor), down, done)
    b.position_at_end(done)
    return copysign(b, left, x)
