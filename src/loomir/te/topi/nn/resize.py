"""Resize images.

The coordinate in the image that belongs to an output element is a fraction of integers, so that no
rounding of floats decides which elements are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from loomir.support.dtype import DataType
from loomir.te.scalar import all_of, select
from loomir.te.tensor import Tensor
from loomir.te.topi.layout import spatial_axes
from loomir.te.topi.loops import wide
from loomir.te.topi.shape import Size, bad, dims, has_equal_sizes, make, need
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Max, Min, PrimExpr, cast, const

__all__ = ["resize2d", "resize3d"]

Method: TypeAlias = Literal["nearest", "linear", "cubic"]
Coordinates: TypeAlias = Literal[
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"
]
Rounding: TypeAlias = Literal["round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
_METHODS = ("nearest", "linear", "cubic")
_COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
)
Place: TypeAlias = tuple[PrimExpr, PrimExpr]


def resize2d(
    x: Tensor,
    output_size: Size | Sequence[Size],
    method: Method = "linear",
    coordinates: Coordinates = "half_pixel",
    rounding: Rounding = "round_prefer_floor",
    cubic_alpha: float = -0.75,
    cubic_exclude: bool = False,
    layout: str = "NCHW",
) -> Tensor:
    """Resize images, interpolating between the elements around each coordinate.

    On an axis of n that becomes m, element i of the output stands at ``(i + 1/2) * n / m - 1/2``
    (``"half_pixel"``; ``"pytorch_half_pixel"`` too, but at 0 where m is 1), at
    ``i * (n - 1) / (m - 1)`` (``"align_corners"``), at ``i * n / m`` (``"asymmetric"``) or at
    ``(i + 1/2) * n / m`` (``"tf_half_pixel_for_nn"``).
    ``method``: take the element that ``rounding`` gives, interpolate between two, or convolve four
    with Keys' kernel of ``cubic_alpha``; beyond the image its last elements are repeated, or with
    ``cubic_exclude`` weigh nothing. Integers are interpolated as floats, and rounded to the nearest
    one, halves to even; those of 32 bits or more in float64. Floats of 16 bits are computed in
    float32, and rounded once.
    Shapes: the spatial extents become ``output_size``. Errors: TE0103, TE0104.
    """
    how = (method, coordinates, rounding, cubic_alpha, cubic_exclude)
    return _resize("resize2d", 2, x, output_size, layout, *how)


def resize3d(
    x: Tensor,
    output_size: Size | Sequence[Size],
    method: Method = "linear",
    coordinates: Coordinates = "half_pixel",
    rounding: Rounding = "round_prefer_floor",
    cubic_alpha: float = -0.75,
    cubic_exclude: bool = False,
    layout: str = "NCDHW",
) -> Tensor:
    """Resize images of three axes, as ``resize2d`` does those of two.

    Shapes: the spatial extents become ``output_size``. Errors: TE0103, TE0104.
    """
    how = (method, coordinates, rounding, cubic_alpha, cubic_exclude)
    return _resize("resize3d", 3, x, output_size, layout, *how)


def _resize(
    name: str,
    count: int,
    x: Tensor,
    output_size: Size | Sequence[Size],
    layout: str,
    method: Method,
    coordinates: Coordinates,
    rounding: Rounding,
    cubic_alpha: float,
    cubic_exclude: bool,
) -> Tensor:
    need(name, "number", x)
    _, at = spatial_axes(name, x, layout, count)
    out = _sizes(name, x, at, output_size)
    if method not in _METHODS:
        bad(name, f"the method is {method!r}", f"give one of {', '.join(_METHODS)}")
    if coordinates not in _COORDINATES:
        bad(name, f"coordinates is {coordinates!r}", f"give one of {', '.join(_COORDINATES)}")
    if rounding not in _ROUNDINGS:
        bad(name, f"rounding is {rounding!r}", f"give one of {', '.join(_ROUNDINGS)}")
    places = [_Axis(dims(x)[a], size, coordinates) for a, size in zip(at, out, strict=True)]
    if method == "nearest":
        return _nearest(name, x, at, places, rounding)
    inner = _inner(x.dtype)
    made = x
    for axis, place in zip(at, places, strict=True):
        if not has_equal_sizes(place.extent, place.count) or coordinates == "tf_half_pixel_for_nn":
            weigh = _linear if method == "linear" else _cubic(cubic_alpha, cubic_exclude)
            made = _resize_along(made, axis, place, inner, weigh)
    final = made

    def element(*i: PrimExpr) -> PrimExpr:
        value = final(*i)
        if x.dtype.is_integer and final is not x:
            value = call_builtin("round", value)
        return cast(value, x.dtype)

    return make(name, dims(final), element)


def _sizes(
    name: str, x: Tensor, at: Sequence[int], output_size: Size | Sequence[Size]
) -> list[Size]:
    is_single = not isinstance(output_size, Sequence)
    made: list[Size] = [output_size] * len(at) if is_single else list(output_size)
    if len(made) != len(at) or any(isinstance(s, int) and s < 0 for s in made):
        wanted = "two sizes, or one for both" if len(at) == 2 else "three sizes, or one for all"
        bad(name, f"the output size is {output_size}", f"give {wanted}")
    for axis, size in zip(at, made, strict=True):
        extent = dims(x)[axis]
        empty = isinstance(extent, int) and extent == 0
        if empty and not (isinstance(size, int) and size == 0):
            bad(name, f"axis {axis} is empty", "give images of one element or more")
    return made


def _inner(dtype: DataType) -> DataType:
    """Return the dtype to interpolate in: one that holds integers exactly, where there is one."""
    wide_enough = dtype.bits <= 16 if dtype.is_integer else dtype.bits <= 32
    return DataType("float32" if wide_enough else "float64")


class _Axis:
    """An axis of an image, and where the elements of the output stand on it."""

    def __init__(self, extent: Size, count: Size, coordinates: Coordinates) -> None:
        self.extent, self.count, self.coordinates = extent, count, coordinates

    def place(self, i: PrimExpr) -> Place:
        """Return the place of element ``i``, as numerator and denominator."""
        n, m, index = wide(self.extent), wide(self.count), wide(i)
        if self.coordinates == "asymmetric":
            return index * n, m
        if self.coordinates == "align_corners":
            return index * (n - 1), Max(m - 1, wide(1))
        middle = (index * 2 + 1) * n
        if self.coordinates == "tf_half_pixel_for_nn":
            return middle, m * 2
        top = middle - m
        if self.coordinates == "pytorch_half_pixel":
            top = select(m > 1, top, wide(0))
        return top, m * 2

    def clamp(self, i: PrimExpr) -> PrimExpr:
        """Return the element of the image that is next to a place."""
        return Max(Min(i, wide(self.extent) - 1), wide(0))


def _round_half_even(p: PrimExpr, q: PrimExpr) -> PrimExpr:
    up, twice = p * 2 + q, q * 2
    nearest = up // twice
    tie = all_of((up % twice).equal(wide(0)), (nearest % 2).equal(wide(1)))
    return select(tie, nearest - 1, nearest)


_ROUNDINGS: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "round": _round_half_even,
    "round_prefer_floor": lambda p, q: (p * -2 + q) // (q * 2) * -1,
    "round_prefer_ceil": lambda p, q: (p * 2 + q) // (q * 2),
    "floor": lambda p, q: p // q,
    "ceil": lambda p, q: p * -1 // q * -1,
}


def _nearest(
    name: str, x: Tensor, at: Sequence[int], axes: Sequence[_Axis], rounding: Rounding
) -> Tensor:
    shape = dims(x)
    for a, axis in zip(at, axes, strict=True):
        shape[a] = axis.count

    def element(*i: PrimExpr) -> PrimExpr:
        place = list(i)
        for a, axis in zip(at, axes, strict=True):
            place[a] = axis.clamp(_ROUNDINGS[rounding](*axis.place(i[a])))
        return x(*place)

    return make(name, shape, element)


# Weights of elements by their distances from the one before the place, whose fraction is ``t``.
WeightFormula: TypeAlias = Callable[
    [PrimExpr, Callable[[int], PrimExpr]], list[tuple[int, PrimExpr]]
]


def _linear(t: PrimExpr, _inside: Callable[[int], PrimExpr]) -> list[tuple[int, PrimExpr]]:
    return [(0, 1.0 - t), (1, t)]


def _cubic(alpha: float, exclude: bool) -> WeightFormula:
    def near(t: PrimExpr) -> PrimExpr:
        return (t * (alpha + 2) - (alpha + 3)) * t * t + 1.0

    def far(t: PrimExpr) -> PrimExpr:
        """Weigh what is 1 + t away."""
        return t * (1.0 - t) * (1.0 - t) * alpha

    def weigh(t: PrimExpr, inside: Callable[[int], PrimExpr]) -> list[tuple[int, PrimExpr]]:
        rest = 1.0 - t
        made = [(-1, far(t)), (0, near(t)), (1, near(rest)), (2, far(rest))]
        if not exclude:
            return made
        zero = const(0, t.dtype)
        kept = [(k, select(inside(k), w, zero)) for k, w in made]
        total = kept[0][1] + kept[1][1] + kept[2][1] + kept[3][1]
        return [(k, w / total) for k, w in kept]

    return weigh


def _resize_along(x: Tensor, at: int, axis: _Axis, inner: DataType, weigh: WeightFormula) -> Tensor:
    """Interpolate along one axis."""
    shape = dims(x)
    shape[at] = axis.count
    extent = wide(axis.extent)

    def element(*i: PrimExpr) -> PrimExpr:
        top, bottom = axis.place(i[at])
        base = top // bottom
        t = cast(top % bottom, inner) / cast(bottom, inner)

        def value(k: int) -> PrimExpr:
            here = axis.clamp(base + k if k else base)
            return cast(x(*i[:at], here, *i[at + 1 :]), inner)

        def inside(k: int) -> PrimExpr:
            return all_of(base + k >= 0, base + k < extent)

        parts = [value(k) * w for k, w in weigh(t, inside)]
        made = parts[0]
        for part in parts[1:]:
            made = made + part
        # An element that is met exactly stays as it is, whatever stands beside it.
        return select(t.equal(const(0, inner)), value(0), made)

    return make("resize", shape, element)
