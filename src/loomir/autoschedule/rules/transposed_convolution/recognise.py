"""Recognise transposed convolutions: sums that scatter each element of an image over a window.

The sum has a condition that selects every ``stride``-th tap of the kernel: those that meet an
element of the image. Which taps these are depends on the index in the result modulo the stride, its
*phase*. For one phase, the sum is an ordinary convolution with a part of the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from loomir.arith.fold import add, fold_expr, imm64, mul
from loomir.arith.linear_form import LinearForm
from loomir.autoschedule.builders.evaluate import storage_order
from loomir.autoschedule.builders.loops import INDEX, with_shape
from loomir.autoschedule.builders.operand_access import conversions, load_under_casts
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form, guard_form
from loomir.autoschedule.rules.matmul.recognise import is_zero
from loomir.ir.substitution import substitute
from loomir.ir.visit import by_class, rewrite
from loomir.loops.conditions import conjuncts
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import Call, Eq, FloatImm, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Var

__all__ = [
    "Factor",
    "Line",
    "Phases",
    "TransposedConvolution",
    "list_trailing",
    "phases_of",
    "read_transposed_convolution",
]


@dataclass(frozen=True, slots=True)
class Line:
    """An axis of the result along which elements are scattered: ``axis + shift - gap * kernel``.

    The element of the image is that over ``stride``, where it divides, and it is within
    ``low <= element < high``.
    """

    axis: Axis
    kernel: Axis
    stride: int
    shift: int
    gap: int
    low: int
    high: int

    @property
    def lead(self) -> int:
        """The distance of the first element of the result from one of phase 0."""
        return self.shift % self.stride

    @property
    def turns(self) -> int:
        """The number of elements that a phase has at most."""
        return -(-((self.axis.size or 0) + self.lead) // self.stride)


class Phases(NamedTuple):
    """Phases along a line with the same number of taps: ``many`` of them from ``first`` on.

    Step ``t`` of ``taps`` takes element ``kernel + step * t`` of the kernel, and element ``turn +
    start - back * t`` of the image; each further phase ``skip`` and ``moves`` more.
    """

    first: int
    many: int
    kernel: int
    taps: int
    step: int
    start: int
    back: int
    skip: int = 1
    moves: int = 0

    def append_phase(self, kernel: int, taps: int, start: int) -> Phases | None:
        """Add one more phase, if phases remain equally spaced."""
        skip, moves = self.skip, self.moves
        if self.many == 1:
            skip, moves = kernel - self.kernel, start - self.start
        elif (kernel, start) != (self.kernel + skip * self.many, self.start + moves * self.many):
            return None
        fits = taps and taps == self.taps
        return self._replace(many=self.many + 1, skip=skip, moves=moves) if fits else None


class Factor(NamedTuple):
    """A factor of the products: a load, and the dtypes to which it is converted."""

    load: BufferLoad
    to: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TransposedConvolution:
    """``image`` times ``kernel``, scattered along ``lines``.

    ``dims`` says which dimension of the image each line is, ``taps`` which of the kernel, -1 where
    it has one element and no dimension. ``axes``
    are those of the result in the order in which it lies, and ``channels`` what else is summed up.
    ``cut`` gives axes of the stage by those that they were cut into.
    """

    stage: Stage
    lines: tuple[Line, ...]
    axes: tuple[Axis, ...]
    channels: tuple[Axis, ...]
    image: Factor
    kernel: Factor
    swapped: bool
    dims: tuple[int, ...]
    taps: tuple[int, ...]
    cut: Mapping[Var, PrimExpr]
    view: Buffer | None
    """The image with dimensions for lines along which it has one element, where it has none."""


def phases_of(line: Line, *, together: bool, moving: bool = False) -> list[Phases]:
    """List the phases of a line; ``together`` merges those with the same number of taps.

    Where phases may be ``moving``, those of as many steps are one.
    """
    stride, gap = line.stride, line.gap
    common = math.gcd(stride, gap)
    step, back, turn = stride // common, gap // common, line.shift // stride
    made: list[Phases] = []
    for phase in range(stride):
        kernel, taps, start = 0, 0, 0
        if phase % common == 0:
            kernel = next(k for k in range(step) if (phase - gap * k) % stride == 0)
            taps = max(0, -(-((line.kernel.size or 0) - kernel) // step))
            start = turn + (phase - gap * kernel) // stride
        if not taps:
            kernel = start = 0
        last = made[-1] if made else None
        alike = last is not None and (last.taps, last.start) == (taps, start)
        next_to = last is not None and (not taps or kernel == last.kernel + last.many)
        if alike and together and next_to and last is not None:
            made[-1] = last._replace(many=last.many + 1)
            continue
        further = last.append_phase(kernel, taps, start) if moving and last is not None else None
        if further is not None:
            made[-1] = further
            continue
        made.append(Phases(phase, 1, kernel, taps, step, start, back))
    return made


def read_transposed_convolution(stage: Stage) -> TransposedConvolution | None:
    """Match a stage that is a transposed convolution; None for others."""
    value = stage.value
    if stage.combine is not Combine.SUM or not stage.free_order or not stage.reduced:
        return None
    if not isinstance(value, Call) or value.op is not IF_THEN_ELSE or not _starts(stage.init):
        return None
    if not _starts(value.args[2]) or not isinstance(value.args[1], Mul):
        return None
    if any(axis.size == 0 for axis in (*stage.axes, *stage.reduced)):
        return None
    stage, cut = _cut(stage)
    value = stage.value
    assert isinstance(value, Call)
    lines = _lines(stage, conjuncts(value.args[0]))
    product = value.args[1]
    if not lines or not isinstance(product, Mul):
        return None
    return _match_factors(stage, lines, product, cut)


def _starts(value: PrimExpr | None) -> bool:
    """Whether the initial value and the value of a masked term add nothing to a sum."""
    negative = isinstance(value, FloatImm) and math.copysign(1, value.value) < 0
    return is_zero(value) and not negative


# -- axes --------------------------------------------------------------------------------------
def _cut(stage: Stage) -> tuple[Stage, dict[Var, PrimExpr]]:
    """Split axes that are divided into groups, and write indices as sums of axes."""
    ones: dict[Var, PrimExpr] = {a.var: imm64(0) for a in stage.reduced if a.size == 1}
    divisions: list[FloorDiv] = by_class(stage.value).get(FloorDiv, [])
    cut: dict[Var, PrimExpr] = {}
    groups: dict[Var, tuple[Var, int]] = {}
    axes: list[Axis] = []
    for axis in stage.axes:
        by = {e.b.value for e in divisions if e.a is axis.var and isinstance(e.b, IntImm)} - {1}
        size = axis.size
        if len(by) != 1 or size is None or size % min(by):
            axes.append(axis)
            continue
        (each,) = by
        group = Axis(Var(f"{axis.var.name_hint}_group", INDEX), imm64(size // each))
        own = Axis(Var(axis.var.name_hint, INDEX), imm64(each))
        cut[axis.var] = add(mul(group.var, own.extent), own.var)
        groups[axis.var] = (group.var, each)
        axes += [group, own]

    def quotient(e: FloorDiv) -> PrimExpr:
        known = groups.get(e.a) if isinstance(e.a, Var) else None
        return known[0] if known and isinstance(e.b, IntImm) and e.b.value == known[1] else e

    many = tuple(axis for axis in stage.reduced if axis.size != 1)
    value = substitute(rewrite(stage.value, {FloorDiv: quotient}), {**ones, **cut})
    known = (*axes, *many)

    def load(e: BufferLoad) -> BufferLoad:
        return BufferLoad(e.buffer, tuple(_sum(i, known) for i in e.indices))

    value = rewrite(value, {BufferLoad: load})
    indices = tuple(substitute(index, cut) for index in stage.indices)
    return replace(stage, axes=tuple(axes), reduced=many, indices=indices, value=value), cut


def _sum(index: PrimExpr, axes: Sequence[Axis]) -> PrimExpr:
    form = affine_form(index, axes)
    if form is None:
        return index
    made = fold_expr(form.rest)
    for var, times in form.terms.items():
        made = add(mul(var, imm64(times)), made)
    return made


def _lines(stage: Stage, tests: Sequence[PrimExpr]) -> list[Line] | None:
    """Read the conditions on taps as lines, each with a stride and bounds on its elements."""
    axes = (*stage.axes, *stage.reduced)
    places = {axis.var: axis for axis in stage.axes}
    steps = {axis.var: axis for axis in stage.reduced}
    found: dict[Var, tuple[LinearForm[Var], int]] = {}
    for part in tests:
        if isinstance(part, Eq):
            of, zero = part.a, part.b
            if not isinstance(of, FloorMod) or not is_zero(zero) or not isinstance(of.b, IntImm):
                return None
            form = affine_form(of.a, axes)
            own = None if form is None else _match_own_axis(form, places)
            if form is None or own is None or own in found or of.b.value < 1:
                return None
            found[own] = (form, of.b.value)
    bounds: dict[Var, tuple[int, int]] = {}
    element = Var("element", INDEX)
    for part in tests:
        if isinstance(part, Eq):
            continue
        bound = _match_bound(part, axes, places, found, element)
        if bound is None:
            return None
        var, form = bound
        times, rest = form.terms.get(element, 0), fold_expr(form.rest)
        if set(form.terms) != {element} or not isinstance(rest, IntImm):
            return None
        low, high = bounds.get(var, (-_FAR, _FAR))
        if times > 0:  # times * element + rest >= 0
            low = max(low, -(rest.value // times))
        else:
            high = min(high, rest.value // -times + 1)
        bounds[var] = low, high
    made: list[Line] = []
    for var, (form, stride) in found.items():
        step = next((v for v in form.terms if v is not var), None)
        rest = fold_expr(form.rest)
        low, high = bounds.get(var, (-_FAR, _FAR))
        axis, kernel = places[var], Axis(Var("k", INDEX), imm64(1))
        if step is not None:
            kernel = steps.get(step, Axis(step, step))
        if kernel.size is None or axis.size is None:
            return None
        if not isinstance(rest, IntImm) or -_FAR in (low, -high) or high <= low:
            return None
        gap = 1 if step is None else -form.terms[step]
        made.append(Line(axis, kernel, stride, rest.value, gap, low, high))
    if len({line.kernel.var for line in made}) != len(made):
        return None
    return sorted(made, key=lambda line: storage_order(stage).index(line.axis))


_FAR: Final = 1 << 60


def _match_own_axis(form: LinearForm[Var], places: Mapping[Var, Axis]) -> Var | None:
    """Match ``axis + shift - gap * step``, and return its axis; None for other forms.

    A kernel of one element has no steps.
    """
    own = [var for var in form.terms if var in places]
    other = [times for var, times in form.terms.items() if var not in places]
    if len(own) != 1 or form.terms[own[0]] != 1 or len(other) > 1 or any(n > 0 for n in other):
        return None
    return own[0]


def _match_bound(
    part: PrimExpr,
    axes: Sequence[Axis],
    places: Mapping[Var, Axis],
    found: dict[Var, tuple[LinearForm[Var], int]],
    element: Var,
) -> tuple[Var, LinearForm[Var]] | None:
    """Match a comparison as a bound of an element; without a division the stride is 1."""
    lines: set[Var] = set()

    def quotient(e: FloorDiv) -> PrimExpr:
        own = _line_of(e, axes, found)
        if own is None:
            return e
        lines.add(own)
        return element

    form = guard_form(rewrite(part, {FloorDiv: quotient}), (*axes, Axis(element, imm64(1))))
    if form is None:
        return None
    if lines:
        return (lines.pop(), form) if len(lines) == 1 else None
    own = [var for var in form.terms if var in places]
    if len(own) != 1:
        return None
    var, times = own[0], form.terms[own[0]]
    if var not in found:
        sign = 1 if times > 0 else -1
        line = LinearForm({v: sign * n for v, n in form.terms.items()}, imm64(0))
        if _match_own_axis(line, places) is None:
            return None
        found[var] = line, 1  # where the image is shifted, ``_read_line`` sees
    line, stride = found[var]
    # The test is ``times * line + rest``, and the line is ``stride * element``.
    left = form.plus(line, -times)
    return None if left.terms else (var, LinearForm({element: times * stride}, left.rest))


def _line_of(
    e: PrimExpr, axes: Sequence[Axis], found: Mapping[Var, tuple[LinearForm[Var], int]]
) -> Var | None:
    """Return the line whose quotient by its stride an expression is."""
    if not isinstance(e, FloorDiv) or not isinstance(e.b, IntImm):
        return None
    form = affine_form(e.a, axes)
    for var, (line, stride) in found.items():
        if form is not None and stride == e.b.value and _is_same(form, line):
            return var
    return None


def _is_same(a: LinearForm[Var], b: LinearForm[Var]) -> bool:
    left = a.plus(b, -1)
    return not left.terms and is_zero(fold_expr(left.rest))


# -- factors -----------------------------------------------------------------------------------
def _match_factors(
    stage: Stage, lines: Sequence[Line], product: Mul, cut: Mapping[Var, PrimExpr]
) -> TransposedConvolution | None:
    """Find out which factor is the image, and which of its dimensions are lines."""
    own = {line.axis.var for line in lines}
    sides = (product.a, product.b)
    taken = {line.kernel.var for line in lines}
    used = [set(by_class(side).get(Var, ())) for side in sides]
    moving, fixed = ([bool(names & some) for some in used] for names in (own, taken))
    if all(moving) or not any((*moving, *fixed)):
        return None
    swapped = moving[1] or (not moving[0] and fixed[0])
    image, kernel = sides[::-1] if swapped else sides
    load, weights = load_under_casts(image), load_under_casts(kernel)
    if load is None or weights is None or load.buffer.strides or weights.buffer.strides:
        return None
    if load.dtype.lanes != 1 or weights.dtype.lanes != 1 or _is_open(weights) or _is_open(load):
        return None
    axes = (*stage.axes, *stage.reduced)
    names = own | {line.kernel.var for line in lines}
    dims: dict[Var, int] = {}
    moved: list[Line] = []
    for place, index in enumerate(load.indices):
        if not names & set(by_class(index).get(Var, ())):
            continue
        line = _read_line(index, lines, axes)
        if line is None or line.axis.var in dims:
            return None
        dims[line.axis.var] = place
        moved.append(line)
    left = [line for line in lines if line.axis.var not in dims]
    if any((line.low, line.high) != (0, 1) for line in left):
        return None
    whole, view = load.buffer, None
    if left:  # the image has one element there, and no dimension for it
        dims.update({line.axis.var: len(whole.shape) + i for i, line in enumerate(left)})
        ones = [imm64(1)] * len(left)
        view = with_shape(whole, (*whole.shape, *ones))
        load = BufferLoad(view, (*load.indices, *(imm64(0) for _ in left)))
        moved += left
    taps: dict[Var, int] = {}
    for place, index in enumerate(weights.indices):
        if names & set(by_class(index).get(Var, ())):
            if not isinstance(index, Var) or index in taps:
                return None
            taps[index] = place
    if any(line.kernel.var not in taps and line.kernel.size != 1 for line in moved):
        return None
    moved.sort(key=lambda line: storage_order(stage).index(line.axis))
    kernels = {line.kernel.var for line in moved}
    return TransposedConvolution(
        stage,
        tuple(moved),
        tuple(storage_order(stage)),
        tuple(axis for axis in stage.reduced if axis.var not in kernels),
        Factor(load, tuple(conversions(image))),
        Factor(weights, tuple(conversions(kernel))),
        swapped,
        tuple(dims[line.axis.var] for line in moved),
        tuple(taps.get(line.kernel.var, -1) for line in moved),
        cut,
        view,
    )


def _is_open(load: BufferLoad) -> bool:
    """Whether some extent but the first is dynamic."""
    return any(not isinstance(n, IntImm) for n in load.buffer.shape[1:])


def _read_line(index: PrimExpr, lines: Sequence[Line], axes: Sequence[Axis]) -> Line | None:
    """Return the line whose element an index is; with a stride of 1 it may be shifted."""
    for line in lines:
        terms = {line.axis.var: 1, line.kernel.var: -line.gap}
        if line.kernel.size == 1:
            del terms[line.kernel.var]
        whole = LinearForm(terms, imm64(line.shift))
        if _line_of(index, axes, {line.axis.var: (whole, line.stride)}) is not None:
            return line
        form = affine_form(index, axes)
        if line.stride == 1 and form is not None:
            left = form.plus(whole, -1)
            rest = fold_expr(left.rest)
            if not left.terms and isinstance(rest, IntImm):
                by = rest.value
                return replace(line, shift=line.shift + by, low=line.low + by, high=line.high + by)
    return None


def list_trailing(found: TransposedConvolution) -> tuple[Axis, ...]:
    """List the axes after the last upsampled one."""
    last = max(found.axes.index(line.axis) for line in found.lines)
    after = found.axes[last + 1 :]
    return after if any(axis.size != 1 for axis in after) else ()
