"""Operators that only move elements: reshape, transpose, slice, concatenate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from loomir.te.scalar import if_then_else
from loomir.te.tensor import Tensor
from loomir.te.topi.shape import (
    Axes,
    Size,
    as_axes,
    as_axis,
    bad,
    dims,
    has_equal_sizes,
    make,
    need,
    product,
    refuse_shapes,
    size,
    write_shape,
)
from loomir.tir.expr import Max, Min, Mul, PrimExpr, const, convert, match_dtypes
from loomir.tir.expr import cast as converted

__all__ = [
    "concatenate",
    "expand_dims",
    "flatten",
    "flip",
    "layout_transform",
    "moveaxis",
    "repeat",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "swapaxes",
    "tile",
    "transpose",
]

_INT32_MAX = 2**31 - 1


def _is(number: int, extent: Size) -> bool:
    return isinstance(extent, int) and extent == number


# -- the same elements in another shape --------------------------------------------------------
def _factors(sizes: Sequence[Size]) -> list[Size]:
    """List the factors of products."""
    made: list[Size] = []
    stack = list(sizes)
    while stack:
        s = size(stack.pop())
        if isinstance(s, Mul):
            stack += (s.a, s.b)
        else:
            made.append(s)
    return made


def _cancel_shared(a: Sequence[Size], b: Sequence[Size]) -> tuple[Size, Size]:
    """Return two products without the symbolic factors that both have."""
    left: list[Size] = []
    right = _factors(b)
    for s in _factors(a):
        same = (k for k, t in enumerate(right) if not isinstance(t, int) and has_equal_sizes(s, t))
        found = next(same, None)
        if found is None:
            left.append(s)
        else:
            right.pop(found)
    return product(left), product(right)


def _resolve_shape(x: Tensor, shape: Sequence[Size]) -> list[Size]:
    """Return the shape with its -1 replaced by what is left."""
    wanted = [size(s) for s in shape]
    unknown = [k for k, s in enumerate(wanted) if _is(-1, s)]
    if len(unknown) > 1 or any(isinstance(s, int) and s < -1 for s in wanted):
        bad("reshape", f"{write_shape(wanted)} is not a shape", "give sizes, and -1 at most once")
    others = [s for k, s in enumerate(wanted) if k not in unknown]
    own, rest = _cancel_shared(dims(x), others)
    if unknown:
        if isinstance(own, int) and isinstance(rest, int) and (rest == 0 or own % rest):
            _refuse_shape(x, wanted)
        if not isinstance(rest, int) or rest == 0:
            _refuse_shape(x, wanted)
        wanted[unknown[0]] = own if rest == 1 else own // rest
    elif not has_equal_sizes(own, rest) and not has_equal_sizes(product(dims(x)), product(wanted)):
        _refuse_shape(x, wanted)
    return wanted


def _refuse_shape(x: Tensor, wanted: Sequence[Size]) -> None:
    bad(
        "reshape",
        f"a tensor of shape {write_shape(dims(x))} cannot take shape {write_shape(wanted)}",
        "give a shape of as many elements, surely so where sizes are symbolic",
    )


def _flat(indices: Sequence[PrimExpr], shape: Sequence[Size], wide: bool) -> PrimExpr:
    """Return the number of an element, counted in row-major order."""
    made: PrimExpr = const(0, "int64" if wide else "int32")
    for k, (index, extent) in enumerate(zip(indices, shape, strict=True)):
        here = converted(index, "int64") if wide else index
        factor = converted(extent, "int64") if isinstance(extent, PrimExpr) else extent
        made = here if k == 0 else made * factor + here
    return made


def _places(flat: PrimExpr, shape: Sequence[Size]) -> list[PrimExpr]:
    """Return indices of the element with a number, or -1 for its axis where that is the rest."""
    made: list[PrimExpr] = []
    left = flat
    for axis in reversed(range(len(shape))):
        extent = shape[axis]
        if _is(1, extent):
            made.append(const(0, left.dtype))
            continue
        outer = [d for d in shape[:axis] if not (_is(1, d))]
        made.append(left % extent if outer else left)
        left = left // extent if outer else const(0, left.dtype)
    return made[::-1]


def _regroup(name: str, x: Tensor, shape: Sequence[Size]) -> Tensor:
    own, total = dims(x), product(dims(x))
    if _is(0, total):
        empty = next((a for a, extent in enumerate(shape) if _is(0, extent)), None)
        if empty is None:
            return make(name, shape, lambda *_: const(0, x.dtype))
        # No element is taken, but what x is made of, such as a check, stays part of the result.
        return make(
            name, shape, lambda *i: x(*(i[empty] if _is(0, d) else const(0, "int32") for d in own))
        )
    wide = not isinstance(total, int) or total > _INT32_MAX
    groups = [(own, list(shape))] if isinstance(total, int) else _groups(own, list(shape))

    def element(*i: PrimExpr) -> PrimExpr:
        at: list[PrimExpr] = []
        start = 0
        for before, after in groups:
            here = i[start : start + len(after)]
            start += len(after)
            same = len(before) == len(after) == 1
            at += here if same else _places(_flat(here, after, wide), before)
        return x(*at)

    return make(name, shape, element)


_Group: TypeAlias = tuple[list[Size], list[Size]]


def _groups(own: list[Size], shape: list[Size]) -> list[_Group]:
    """Split two shapes into groups of equal products: a symbolic axis is not divided in vain.

    Axes that are the same at the start and at the end are parts, and so are numbers of one product
    at the end; what is left between is one part.
    """
    first: list[_Group] = []
    while own and shape and has_equal_sizes(own[0], shape[0]):
        first.append(([own[0]], [shape[0]]))
        own, shape = own[1:], shape[1:]
    last: list[_Group] = []
    while (found := _tail(own, shape)) is not None:
        last.append((own[-found[0] :], shape[-found[1] :]))
        own, shape = own[: -found[0]], shape[: -found[1]]
    between: list[_Group] = [(own, shape)] if own or shape else []
    return [*first, *between, *last[::-1]]


def _tail(a: list[Size], b: list[Size]) -> tuple[int, int] | None:
    """Return how many axes at the end of two shapes have one product, None if that is unsure."""
    if not a or not b:
        return None
    if has_equal_sizes(a[-1], b[-1]):
        return 1, 1
    counts, products = [1, 1], [a[-1], b[-1]]
    while True:
        one, other = products
        if not isinstance(one, int) or not isinstance(other, int) or not one or not other:
            return None
        if one == other:
            return counts[0], counts[1]
        k = int(one > other)
        shape = (a, b)[k]
        if counts[k] == len(shape):
            return None
        products[k] = product([products[k], shape[-1 - counts[k]]])
        counts[k] += 1


def reshape(x: Tensor, shape: Sequence[Size]) -> Tensor:
    """Take elements in row-major order into another shape, of which one extent may be -1.

    Shapes: ``shape``. Errors: TE0104 unless it has certainly as many elements.
    """
    return _regroup("reshape", x, _resolve_shape(x, shape))


def flatten(x: Tensor) -> Tensor:
    """Flatten a tensor to one axis, in row-major order.

    Shapes: ``(number of elements,)``.
    """
    return _regroup("flatten", x, [product(dims(x))])


def squeeze(x: Tensor, axis: Axes = None) -> Tensor:
    """Drop axes of extent 1, all of them where none is named.

    Shapes: without ``axis``. Errors: TE0102, TE0104 where an extent is not the number 1.
    """
    ones = [a for a, d in enumerate(dims(x)) if _is(1, d)]
    gone = ones if axis is None else as_axes("squeeze", axis, x.ndim)
    for a in gone:
        if a not in ones:
            bad("squeeze", f"axis {a} has extent {dims(x)[a]}", "drop axes of extent 1 only")
    kept = [a for a in range(x.ndim) if a not in gone]

    def element(*i: PrimExpr) -> PrimExpr:
        at = dict(zip(kept, i, strict=True))
        return x(*(at.get(a, 0) for a in range(x.ndim)))

    return make("squeeze", [dims(x)[a] for a in kept], element)


def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Insert axes of extent 1, at places counted in the result.

    Shapes: with extents of 1 at ``axis``. Errors: TE0102.
    """
    count = 1 if isinstance(axis, int) else len(axis)
    new = as_axes("expand_dims", axis, x.ndim + count)
    old = iter(dims(x))
    shape = [1 if a in new else next(old) for a in range(x.ndim + count)]
    return make("expand_dims", shape, lambda *i: x(*(v for a, v in enumerate(i) if a not in new)))


# -- axes in another order -----------------------------------------------------------------------
def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Permute axes; reverse them where no order is given.

    Shapes: extents in the new order. Errors: TE0102, TE0104 unless each axis is named once.
    """
    order = list(range(x.ndim))[::-1]
    if axes is not None:
        order = [as_axis("transpose", a, x.ndim) for a in axes]
    if sorted(order) != list(range(x.ndim)):
        bad(
            "transpose",
            f"{tuple(axes or ())} is not an order of {x.ndim} axes",
            "name each axis once",
        )
    return make(
        "transpose",
        [dims(x)[a] for a in order],
        lambda *i: x(*(i[order.index(a)] for a in range(x.ndim))),
    )


def moveaxis(x: Tensor, source: int, destination: int) -> Tensor:
    """Move an axis to another place.

    Shapes: extents in the new order. Errors: TE0102.
    """
    a = as_axis("moveaxis", source, x.ndim)
    b = as_axis("moveaxis", destination, x.ndim)
    order = [k for k in range(x.ndim) if k != a]
    order.insert(b, a)
    return transpose(x, order)


def swapaxes(x: Tensor, first: int, second: int) -> Tensor:
    """Exchange two axes.

    Shapes: with the two extents exchanged. Errors: TE0102.
    """
    a, b = as_axis("swapaxes", first, x.ndim), as_axis("swapaxes", second, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return transpose(x, order)


def flip(x: Tensor, axis: Axes = None) -> Tensor:
    """Reverse the order of elements along axes.

    Shapes: that of ``x``. Errors: TE0102.
    """
    flipped = as_axes("flip", axis, x.ndim)
    shape = dims(x)
    return make(
        "flip",
        shape,
        lambda *i: x(*((shape[a] - 1) - v if a in flipped else v for a, v in enumerate(i))),
    )


def roll(x: Tensor, shift: int, axis: int) -> Tensor:
    """Roll elements along an axis; those shifted out at the end come in at the start.

    Shapes: that of ``x``. Errors: TE0102.
    """
    moved = as_axis("roll", axis, x.ndim)
    extent = dims(x)[moved]
    if _is(0, extent):
        return make("roll", dims(x), lambda *_: const(0, x.dtype))

    def element(*i: PrimExpr) -> PrimExpr:
        return x(*((v - shift) % extent if a == moved else v for a, v in enumerate(i)))

    return make("roll", dims(x), element)


# -- several tensors -------------------------------------------------------------------------------
def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Concatenate tensors along an axis.

    Shapes: equal but for ``axis``, along which extents add up. Errors: TE0101 to TE0104.
    """
    if not tensors:
        bad("concatenate", "there are no tensors", "give at least one")
    need("concatenate", "any", *tensors)
    first = dims(tensors[0])
    at_axis = as_axis("concatenate", axis, len(first))
    starts: list[Size] = [0]
    for t in tensors:
        fits = t.ndim == len(first) and all(
            a == at_axis or has_equal_sizes(d, e) for a, (d, e) in enumerate(zip(dims(t), first))
        )
        if not fits:
            refuse_shapes("concatenate", *map(dims, tensors))
        starts.append(dims(t)[at_axis] + starts[-1] if starts[-1] != 0 else dims(t)[at_axis])

    def element(*i: PrimExpr) -> PrimExpr:
        at = i[at_axis]

        def read_part(k: int) -> PrimExpr:
            start = starts[k]
            here = at if _is(0, start) else at - start
            return tensors[k](*(here if a == at_axis else v for a, v in enumerate(i)))

        # What is empty has no elements to read.
        full = [k for k, t in enumerate(tensors) if not _is(0, dims(t)[at_axis])]
        made = read_part(full[-1]) if full else const(0, tensors[0].dtype)
        for k in reversed(full[:-1]):
            made = if_then_else(at < starts[k + 1], read_part(k), made)
        return made

    shape = [starts[-1] if a == at_axis else d for a, d in enumerate(first)]
    return make("concatenate", shape, element)


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Stack tensors along a new axis.

    Shapes: equal; the result has their number at ``axis``. Errors: TE0101 to TE0104.
    """
    if not tensors:
        bad("stack", "there are no tensors", "give at least one")
    place = as_axis("stack", axis, tensors[0].ndim + 1)
    return concatenate([expand_dims(t, place) for t in tensors], place)


def split(x: Tensor, sections: int | Sequence[Size], axis: int = 0) -> tuple[Tensor, ...]:
    """Split an axis into a number of equal parts, or at indices.

    Shapes: parts of the extent at ``axis``. Errors: TE0102, TE0104 where parts are not equal.
    """
    cut = as_axis("split", axis, x.ndim)
    extent = dims(x)[cut]
    if isinstance(sections, int):
        if sections < 1 or (isinstance(extent, int) and extent % sections):
            bad("split", f"{extent} elements do not make {sections} equal parts", "give places")
        if not isinstance(extent, int) and sections > 1:
            bad("split", f"whether {extent} is a multiple of {sections} is unknown", "give places")
        sections = [extent // sections * k for k in range(1, sections)] if sections > 1 else []
    ends = [None, *sections, None]
    return tuple(strided_slice(x, [a], [b], axes=[cut]) for a, b in pairwise(ends))


# -- copies --------------------------------------------------------------------------------------
def tile(x: Tensor, reps: Sequence[int]) -> Tensor:
    """Repeat the whole tensor along each axis; missing axes or counts are 1, in front.

    Shapes: extents times ``reps``. Errors: TE0104.
    """
    if any(r < 0 for r in reps):
        bad("tile", f"{tuple(reps)} has a negative count", "repeat 0 times or more")
    ndim = max(x.ndim, len(reps))
    own: list[Size] = [*[1] * (ndim - x.ndim), *dims(x)]
    times = [*[1] * (ndim - len(reps)), *reps]
    shape = [product([d, r]) for d, r in zip(own, times, strict=True)]
    if any(_is(0, s) for s in shape):
        return make("tile", shape, lambda *_: const(0, x.dtype))

    def element(*i: PrimExpr) -> PrimExpr:
        kept = list(zip(i, own, times, strict=True))[ndim - x.ndim :]
        return x(*(v if r == 1 else v % d for v, d, r in kept))

    return make("tile", shape, element)


def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Repeat each element along an axis, or all elements in row-major order.

    Shapes: the extent at ``axis`` times ``repeats``. Errors: TE0102, TE0104.
    """
    if repeats < 0:
        bad("repeat", f"{repeats} is a negative count", "repeat 0 times or more")
    if axis is None:
        return repeat(flatten(x), repeats, 0)
    place = as_axis("repeat", axis, x.ndim)
    shape = [product([d, repeats]) if a == place else d for a, d in enumerate(dims(x))]
    if repeats == 0:
        return make("repeat", shape, lambda *_: const(0, x.dtype))
    return make(
        "repeat", shape, lambda *i: x(*(v // repeats if a == place else v for a, v in enumerate(i)))
    )


# -- parts ---------------------------------------------------------------------------------------
def _bounds(extent: Size, start: Size | None, stop: Size | None, step: int) -> tuple[Size, Size]:
    """Return where a slice of an axis starts and how many elements it has, as Python slices do."""
    if all(isinstance(v, (int, type(None))) for v in (extent, start, stop)):
        found = range(*slice(start, stop, step).indices(extent))  # pyright: ignore[reportArgumentType]
        return found.start, len(found)
    low, high = (0, extent) if step > 0 else (-1, extent - 1)

    def clamp(v: Size) -> Size:
        below = isinstance(v, int) and v < 0
        a, b = match_dtypes(convert(v) + extent if below else convert(v), convert(high))
        if step > 0 and _is(0, v):
            return v
        return size(Max(Min(a, b), const(low, a.dtype)))

    first = (low if step > 0 else high) if start is None else clamp(start)
    last = (high if step > 0 else low) if stop is None else clamp(stop)
    length = last - first if step > 0 else first - last
    count = length if abs(step) == 1 else (length + (abs(step) - 1)) // abs(step)
    surely = start is None and stop is None
    if surely or isinstance(count, int):
        return first, count
    return first, Max(count, const(0, count.dtype))


def strided_slice(
    x: Tensor,
    begin: Sequence[Size | None],
    end: Sequence[Size | None],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """Take slices as Python does: None, negative places and negative strides have its meaning.

    A negative number counts from the end; a symbolic place must not be negative.
    Shapes: the number of elements of each slice. Errors: TE0102, TE0104.
    """
    cut = (
        list(range(len(begin)))
        if axes is None
        else [as_axis("strided_slice", a, x.ndim) for a in axes]
    )
    steps = [1] * len(cut) if strides is None else list(strides)
    if not len(begin) == len(end) == len(steps) == len(cut) <= x.ndim or len({*cut}) < len(cut):
        bad("strided_slice", "begin, end and strides are of other axes", "give one each per axis")
    if 0 in steps:
        bad("strided_slice", "a stride is 0", "step by another number")
    given = {
        a: (size_or(b), size_or(e), s) for a, b, e, s in zip(cut, begin, end, steps, strict=True)
    }
    found = {a: _bounds(dims(x)[a], b, e, s) for a, (b, e, s) in given.items()}

    def index(a: int, v: PrimExpr) -> PrimExpr:
        if a not in found:
            return v
        start, step = found[a][0], given[a][2]
        moved = v if step == 1 else v * step
        return moved if _is(0, start) else moved + start

    shape = [found[a][1] if a in found else d for a, d in enumerate(dims(x))]
    return make("strided_slice", shape, lambda *i: x(*(index(a, v) for a, v in enumerate(i))))


def size_or(value: Size | None) -> Size | None:
    """Return a size as a number where it is one, or None."""
    return None if value is None else size(value)


# -- layouts -------------------------------------------------------------------------------------
_AXIS = re.compile(r"(\d*)([A-Za-z])")


def _layout(text: str) -> list[tuple[str, int]]:
    """Read a layout: ``NCHW4c`` has four whole axes, and the inner 4 of the second."""
    found = [(letter, int(count or 0)) for count, letter in _AXIS.findall(text)]
    letters = [letter for letter, _ in found]
    right = "".join(f"{c or ''}{letter}" for letter, c in found) == text and all(
        (letter.isupper() and not c) or (letter.islower() and c and letter.upper() in letters)
        for letter, c in found
    )
    if not right or len({*letters}) < len(letters):
        bad(
            "layout_transform",
            f"{text!r} is not a layout",
            'write layouts as in "NCHW" or "NCHW4c"',
        )
    return found


def layout_transform(x: Tensor, source: str, target: str) -> Tensor:
    """Permute and split axes, as layouts such as ``"NCHW"`` and ``"NCHW4c"`` say.

    Shapes: extents in the layout ``target``. Errors: TE0104 unless they are certainly multiples.
    """
    old, new = _layout(source), _layout(target)
    same = {a for a, _ in old if a.isupper()} == {a for a, _ in new if a.isupper()}
    if len(old) != x.ndim or not same:
        bad("layout_transform", f"{source!r} to {target!r} does not fit {x.ndim} axes", "name each")
    inner_old = {a.upper(): c for a, c in old if c}
    inner_new = {a.upper(): c for a, c in new if c}
    whole = {a: product([d, inner_old.get(a, 1)]) for (a, _), d in zip(old, dims(x)) if a.isupper()}
    for a, c in inner_new.items():
        extent = whole[a]
        if not has_equal_sizes(extent % c, 0):
            bad(
                "layout_transform",
                f"{extent} is not surely a multiple of {c}",
                "pad the axis first",
            )
    for (a, c), d in zip(old, dims(x), strict=True):
        if c and d != c:
            bad("layout_transform", f"axis {a!r} has extent {d}, not {c}", "give the true layout")
    shape = [c or (whole[a] if a not in inner_new else whole[a] // inner_new[a]) for a, c in new]

    def element(*i: PrimExpr) -> PrimExpr:
        at = {a: v for (a, _), v in zip(new, i, strict=True)}
        combined = {
            a: at[a] if a not in inner_new else at[a] * inner_new[a] + at[a.lower()] for a in whole
        }
        return x(
            *(
                combined[a.upper()] % c
                if c
                else (combined[a] // inner_old[a] if a in inner_old else combined[a])
                for a, c in old
            )
        )

    return make("layout_transform", shape, element)
