"""Recognise a convolution in a matrix product: an operand is an image shifted by kernel taps.

The columns of the product are pixels, contiguous in the result. To load any vector of pixels, the
image is copied with its padding; in the copy, elements at a distance of the stride are contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from loomir.arith.fold import add, fold_expr, imm64, int64, mul
from loomir.autoschedule.builders.loops import INDEX
from loomir.autoschedule.builders.operand_access import (
    conversions,
    load_under_casts,
    size_of,
    stride_along,
)
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form, read_padding_guards
from loomir.autoschedule.rules.convolution.valid_taps import TapBounds, find_tap_bounds
from loomir.autoschedule.rules.matmul.collapse_axes import Views, collapse_last
from loomir.autoschedule.rules.matmul.recognise import Contraction
from loomir.ir.comparison import structural_equal
from loomir.ir.substitution import substitute
from loomir.loops.conditions import conjunction
from loomir.support.dtype import DataType
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    Call,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    PrimExpr,
    Var,
    cast,
    const,
)

__all__ = ["Border", "Image", "read_border", "read_image"]

_SUMS: Final = (DataType("float32"), DataType("float64"))


@dataclass(frozen=True, slots=True, eq=False)
class Border:
    """An image that pads another: ``value`` where ``low <= x < high`` along a row.

    Beyond, and where an axis of ``inside`` is not within its bounds, it is ``other``.
    """

    axes: tuple[Axis, ...]
    value: PrimExpr
    other: PrimExpr
    inside: tuple[tuple[Var, PrimExpr, PrimExpr], ...]
    low: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """Where the pixels of a product are: at ``base`` in a copy, plus ``shift`` for each pixel.

    Rows of the copy hold elements at a distance of ``stride`` in contiguous runs of ``run``
    elements. ``product`` has as its only column axis ``pixels``, the collapsed ``places``, and as
    its only reduced axis the collapsed ``steps``.
    """

    product: Contraction
    border: Border
    places: tuple[Axis, ...]
    steps: tuple[Axis, ...]
    base: PrimExpr
    shift: PrimExpr
    stride: int
    run: int
    lines: tuple[PrimExpr, ...]
    """The extents of the copy, but for the innermost."""
    tap_bounds: tuple[TapBounds, ...] = ()
    """The axes along which some taps read nothing but padding, for some pixels."""
    slides: bool = True
    """Whether there are taps or a border; a product of plain matrices otherwise."""

    @property
    def pitch(self) -> int:
        """Return the elements of a row of the copy."""
        return self.stride * self.run


def read_border(stage: Stage) -> Border | None:
    """Match a stage that pads; None for others."""
    if stage.combine is not Combine.NONE or stage.reduced or stage.in_place:
        return None
    axes = tuple(stage.axes)
    whole = len(axes) == len(stage.indices) and all(
        index is axis.var and _is_same(axis.extent, size)
        for axis, index, size in zip(axes, stage.indices, stage.buffer.shape)
    )
    value = stage.value
    if not whole or not isinstance(value, Call) or value.op is not IF_THEN_ELSE:
        return None
    conditions, within, other = [value.args[0]], value.args[1], value.args[2]
    while (  # padding around padding, of the same value
        isinstance(within, Call)
        and within.op is IF_THEN_ELSE
        and structural_equal(within.args[2], other)
    ):
        conditions.append(within.args[0])
        within = within.args[1]
    zero = const(0, value.dtype)
    test = Call(value.dtype, IF_THEN_ELSE, (conjunction(conditions), zero, zero))
    padding = read_padding_guards(test, axes, ())
    if padding is None or not isinstance(axes[-1].extent, IntImm):
        return None
    bounds = [padding.inside.get(axes[-1].var, (imm64(0), axes[-1].extent))]
    low, high = (fold_expr(end) for end in bounds[0])
    if not isinstance(low, IntImm) or not isinstance(high, IntImm):
        return None
    inside = tuple(
        (axis.var, *padding.inside[axis.var]) for axis in axes[:-1] if axis.var in padding.inside
    )
    return Border(axes, within, other, inside, low.value, high.value)


def _is_same(a: PrimExpr, b: PrimExpr) -> bool:
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value


def _describe_unpadded(buffer: Buffer) -> Border | None:
    """Describe a buffer as an image without padding."""
    axes = tuple(Axis(Var(f"i{k}", INDEX), int64(n)) for k, n in enumerate(buffer.shape))
    size = axes[-1].size
    if size is None or buffer.dtype.lanes != 1:
        return None
    value = BufferLoad(buffer, tuple(axis.var for axis in axes))
    return Border(axes, value, const(0, buffer.dtype), (), 0, size)


def read_image(found: Contraction, views: Views, pad: Stage | None) -> Image | None:
    """Match the convolution in a product whose right operand is an image, or padded by ``pad``."""
    load, weights = load_under_casts(found.right), load_under_casts(found.left)
    many = [axis for axis in found.columns if axis.size != 1]
    sizes = [axis.size for axis in (*found.rows, *many[-1:], *found.reduced)]
    if not many or load is None or weights is None or None in sizes or found.dtype not in _SUMS:
        return None
    if found.stage.init is None or load.buffer.strides or load.dtype.lanes != 1:
        return None
    if pad is not None and load.buffer is not pad.buffer:
        return None
    border = _describe_unpadded(load.buffer) if pad is None else read_border(pad)
    if border is None:
        return None
    blank = replace(found.stage, value=imm64(0))
    (stage, *epilogue), pixels, count = collapse_last((blank, *found.epilogue), many, views)
    places = tuple(many[-count:])
    if any(axis.size is None for axis in places):
        return None
    reduced = _sort_by_weight(found)
    if found.ordered and reduced != tuple(axis for axis in found.reduced if axis.size != 1):
        return None
    step = Var("k", INDEX)
    flat = views.flatten(weights, reduced, step)
    padded_or_nested = pad is not None or count < len(many)
    moved = _find_addresses(load, places, reduced, padded_or_nested=padded_or_nested)
    if flat is None or moved is None:
        return None
    stride, base, shift, run, slides = moved
    left: PrimExpr = flat
    for dtype in conversions(found.left):
        left = cast(left, dtype)
    names = {axis.var for axis in places}
    batch = (*found.batch, *(axis for axis in found.columns if axis.var not in names))
    product = replace(
        found,
        stage=stage,
        epilogue=tuple(epilogue),
        batch=batch,
        columns=(pixels,),
        reduced=(Axis(step, imm64(size_of(reduced) or 0)),),
        left=left,
    )
    value, other = border.value, border.other
    for dtype in conversions(found.right):
        value, other = cast(value, dtype), cast(other, dtype)
    border = replace(border, value=value, other=other)
    lines = tuple(int64(n) for n in load.buffer.shape[:-1])
    numbers = {axis.var: i for i, axis in enumerate(border.axes)}
    bounds = {numbers[var]: (low, high) for var, low, high in border.inside}
    bounds[len(border.axes) - 1] = imm64(border.low), imm64(border.high)
    zero = isinstance(border.other, FloatImm) and border.other.value == 0
    seen = (
        find_tap_bounds(load.indices, bounds, places, reduced) if pad is not None and zero else ()
    )
    return Image(product, border, places, reduced, base, shift, stride, run, lines, seen, slides)


def _sort_by_weight(found: Contraction) -> tuple[Axis, ...]:
    """Sort the reduced axes by their order in the weights."""
    many = [axis for axis in found.reduced if axis.size != 1]
    far = {axis.var: stride_along(found.left, [axis]) or 0 for axis in many}
    return tuple(sorted(many, key=lambda axis: -far[axis.var]))


def _find_addresses(
    load: BufferLoad, places: Sequence[Axis], steps: Sequence[Axis], *, padded_or_nested: bool
) -> tuple[int, PrimExpr, PrimExpr, int, bool] | None:
    """Find the stride of pixels, and their addresses in a copy of the image.

    Also whether they are shifted by the taps of a kernel or ``padded_or_nested``, which says that
    the image is padded or has outer axes. None if they have no such addresses.
    """
    axes = (*places, *steps)
    forms = [affine_form(index, axes) for index in load.indices]
    last = places[-1].var
    own, other = {axis.var for axis in places}, {axis.var for axis in steps}
    width = load.buffer.shape[-1]
    if not steps or forms[-1] is None or not isinstance(width, IntImm):
        return None
    stride = forms[-1].terms.get(last, 0)
    if stride < 1 or any(var in own and var is not last for var in forms[-1].terms):
        return None
    slides = padded_or_nested or len(places) > 1 or stride > 1
    base: PrimExpr = imm64(0)
    shift: PrimExpr = imm64(0)
    zeros: dict[Var, PrimExpr] = dict.fromkeys(own, imm64(0))
    for k, form in enumerate(forms[:-1]):
        if form is None or form.terms.get(last):
            return None
        slides = slides or bool(form.terms.keys() & own and form.terms.keys() & other)
        size = int64(load.buffer.shape[k])
        base = add(mul(base, size), substitute(load.indices[k], zeros))
        moves: PrimExpr = imm64(0)
        for var, times in form.terms.items():
            if var in own:
                moves = add(moves, mul(var, imm64(times)))
        shift = add(mul(shift, size), moves)
    slides = slides or bool(forms[-1].terms.keys() & other)
    run = -(-width.value // stride)
    along = substitute(load.indices[-1], zeros)
    pitch = imm64(stride * run)
    base, shift = mul(base, pitch), add(mul(shift, pitch), last)
    if stride == 1:
        return stride, add(base, along), shift, run, slides
    phase = mul(FloorMod(along, imm64(stride)), imm64(run))
    return stride, add(base, add(phase, FloorDiv(along, imm64(stride)))), shift, run, slides
