"""Find the valid taps of a padded convolution: those that read more than padding.

A finite weight times a zero of the padding adds nothing to a sum, in whatever order terms are
added, so these products can be skipped: a tenth of them for kernels of 3 x 3 over 14 x 14 pixels.
The caller must make sure that weights are finite, since infinity times zero is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loomir.arith.fold import fold_expr, imm64, mul, sub
from loomir.autoschedule.builders.operand_access import minimum
from loomir.autoschedule.ir.stage import Axis
from loomir.autoschedule.rewrite.affine_guards import affine_form
from loomir.tir.expr import FloorDiv, IntImm, Max, PrimExpr

__all__ = ["TapBounds", "find_tap_bounds"]


@dataclass(frozen=True, slots=True, eq=False)
class TapBounds:
    """Tap ``s`` is valid at pixel ``p`` where ``low <= stride*p + dilation*s < high``.

    That is so along one axis, whatever taps and pixels are along others.
    """

    pixel: Axis
    step: Axis
    stride: int
    dilation: int
    low: int
    high: int

    def is_valid(self, pixel: int, step: int) -> bool:
        """Whether a tap is valid at a pixel."""
        return self.low <= self.stride * pixel + self.dilation * step < self.high

    def span(self, first: PrimExpr, last: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Return the first tap that is valid at one of some pixels, and how many may be."""
        before = sub(imm64(self.low + self.dilation - 1), mul(last, imm64(self.stride)))
        after = sub(imm64(self.high + self.dilation - 1), mul(first, imm64(self.stride)))
        begin = Max(FloorDiv(before, imm64(self.dilation)), imm64(0))
        end = minimum(FloorDiv(after, imm64(self.dilation)), imm64(self.step.size or 0))
        start = fold_expr(begin)
        return start, fold_expr(Max(sub(end, start), imm64(0)))

    @property
    def share(self) -> float:
        """Compute the share of all taps at all pixels that are valid."""
        pixels, steps = self.pixel.size or 0, self.step.size or 0
        seen = 0
        for step in range(steps):
            first, end = (
                -((self.dilation * step - bound) // self.stride) for bound in (self.low, self.high)
            )
            seen += max(0, min(pixels, end) - max(0, first))
        return seen / max(1, pixels * steps)


def find_tap_bounds(
    indices: Sequence[PrimExpr],
    bounds: Mapping[int, tuple[PrimExpr, PrimExpr]],
    pixels: Sequence[Axis],
    steps: Sequence[Axis],
) -> tuple[TapBounds, ...]:
    """List the axes of a padded image along which some taps are invalid; it ends at ``bounds``."""
    own, other = {a.var: a for a in pixels}, {a.var: a for a in steps}
    forms = [affine_form(index, (*pixels, *steps)) for index in indices]
    uses = [set(form.terms) if form is not None else set(own) | set(other) for form in forms]
    made: list[TapBounds] = []
    for number, ends in bounds.items():
        form = forms[number]
        low, high = (fold_expr(end) for end in ends)
        if form is None or not isinstance(low, IntImm) or not isinstance(high, IntImm):
            continue
        rest = fold_expr(form.rest)
        ours = [var for var in form.terms if var in own]
        theirs = [var for var in form.terms if var in other]
        if len(ours) != 1 or len(theirs) != 1 or not isinstance(rest, IntImm):
            continue
        (pixel,), (step,) = ours, theirs
        stride, dilation = form.terms[pixel], form.terms[step]
        elsewhere = [used for i, used in enumerate(uses) if i != number]
        if stride < 1 or dilation < 1 or any(pixel in u or step in u for u in elsewhere):
            continue
        taps = TapBounds(
            own[pixel],
            other[step],
            stride,
            dilation,
            low.value - rest.value,
            high.value - rest.value,
        )
        if taps.share < 1:
            made.append(taps)
    return tuple(made)
