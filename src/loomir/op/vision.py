"""Operators on regions of images, ``R.vision`` in TVMScript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loomir.op.rules.arguments import find_common_dtype, must_equal, need_rank
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, integer, ints, number, tensor, text
from loomir.relax.operator.reference import NPArray, compute_dtype, convert_array, xp
from loomir.relax.operator.rules import need
from loomir.support.dtype import dtype_of_numpy
from loomir.te import topi
from loomir.te.operation import compute, extern
from loomir.te.scalar import all_of, ceil, floor, if_then_else, select
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import count_loop, nest, wide
from loomir.te.topi.shape import compute_dtype as inner_dtype
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Max, Min, PrimExpr, StringImm, cast, const
from loomir.tir.stmt import BufferStore, Stmt, seq

__all__ = ["roi_align"]

T = TensorSample
_MOST: Final = 2.0**16
_FAR: Final = 2.0**30


def _roi_align(c: OpContext) -> StructInfo:
    x, rois = need_rank(c, 0, 4), need_rank(c, 1, 2)
    dtype = find_common_dtype(c, [x, rois])
    need(c, "float", dtype)
    pooled: tuple[int, ...] = c["pooled_size"]
    if len(pooled) != 2 or any(n < 1 for n in pooled):
        c.refuse("OPS0036", f"the pooled size is {pooled}", help="give two sizes of 1 or more")
    if rois.dims is not None:
        must_equal(c, rois.dims[1], 5, "the columns of the regions and what each has", arg=1)
    if x.dims is None or rois.dims is None:
        return c.make(None, dtype, x, ndim=4)
    made: list[Any] = list(x.dims)
    for letter, extent in zip("NHW", (rois.dims[0], *pooled), strict=True):
        made[c["layout"].index(letter)] = extent
    return c.make(made, dtype, x)


def _align(
    data: Tensor,
    rois: Tensor,
    pooled_size: tuple[int, int],
    spatial_scale: float,
    sample_ratio: int,
    aligned: bool,
    layout: str,
    mode: str,
) -> Tensor:
    at = [layout.index(letter) for letter in "NCHW"]
    inner = inner_dtype(data.dtype)
    count = rois.shape[0]
    rois = topi.assume_shape(rois, [count, 5])
    zero, one, half = (const(v, inner) for v in (0.0, 1.0, 0.5))

    def edge(n: PrimExpr, column: int) -> PrimExpr:
        place = cast(rois(n, column), inner) * const(spatial_scale, inner)
        return place - half if aligned else place

    def start(n: PrimExpr, k: PrimExpr) -> PrimExpr:
        return select(k.equal(0), edge(n, 2), edge(n, 1))

    def step(n: PrimExpr, k: PrimExpr) -> PrimExpr:
        rows, columns = [edge(n, 4 - a) - edge(n, 2 - a) for a in (0, 1)]
        if not aligned:
            rows, columns = Max(rows, one), Max(columns, one)
        high, broad = (const(float(p), inner) for p in pooled_size)
        return select(k.equal(0), rows / high, columns / broad)

    starts = compute((count, 2), start, name="starts")
    steps = compute((count, 2), step, name="steps")

    def points(n: PrimExpr, k: PrimExpr) -> PrimExpr:
        if sample_ratio > 0:
            return const(sample_ratio, "int64")
        wanted = ceil(steps(n, k))
        kept = select(wanted.equal(wanted), wanted, zero)
        return wide(Max(Min(kept, const(_MOST, inner)), zero))

    def image(n: PrimExpr) -> PrimExpr:
        given, far = cast(rois(n, 0), inner), const(_FAR, inner)
        place = wide(Max(Min(select(given.equal(given), given, far), far), -far))
        extent = wide(data.shape[at[0]])
        return call_builtin("checked_index", place, extent, StringImm("data"), const(0, "int32"))

    counts = compute((count, 2), points, name="points")
    images = compute((count,), image, name="images")
    extents = [wide(data.shape[a]) for a in at[2:]]
    shape: list[Any] = list(data.shape)
    shape[at[0]], shape[at[2]], shape[at[3]] = count, *pooled_size

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (x, first, gap, number, batch), (out,) = ins, outs

        def value(i: Sequence[Any], spots: Sequence[PrimExpr]) -> PrimExpr:
            return _interpolate(x, at, i, BufferLoad(batch, (i[at[0]],)), spots, extents)

        def element(i: Sequence[Any]) -> Stmt:
            n, pooled = i[at[0]], (i[at[2]], i[at[3]])
            many = [BufferLoad(number, (n, const(k, "int32"))) for k in range(2)]

            def spot(k: int, g: PrimExpr) -> PrimExpr:
                column = const(k, "int32")
                gap_ = BufferLoad(gap, (n, column))
                part = (cast(g, inner) + half) * gap_ / cast(many[k], inner)
                return BufferLoad(first, (n, column)) + cast(pooled[k], inner) * gap_ + part

            here, total = tuple(i), const(1, "int64")
            total = Max(many[0] * many[1], total)
            so_far = BufferLoad(out, here)

            def add(row: PrimExpr, column: PrimExpr) -> Stmt:
                made = value(i, (spot(0, row), spot(1, column)))
                if mode == "avg":
                    return BufferStore(out, so_far + made, here)
                begun = all_of(row.equal(wide(0)), column.equal(wide(0)))
                return BufferStore(out, select(begun, made, Max(so_far, made)), here)

            steps = [
                BufferStore(out, zero, here),
                count_loop(
                    "row",
                    many[0],
                    lambda r: count_loop("column", many[1], lambda s: add(r, s)),
                ),
            ]
            if mode == "avg":
                steps.append(BufferStore(out, so_far / cast(total, inner), here))
            return seq(steps)

        return nest(out.shape, element)

    made = extern(
        tuple(shape), [data, starts, steps, counts, images], body, name="roi_align", dtype=inner
    )
    return made if inner is data.dtype else topi.cast(made, data.dtype)


def _interpolate(
    x: Buffer,
    at: Sequence[int],
    i: Sequence[Any],
    image: PrimExpr,
    spots: Sequence[PrimExpr],
    extents: Sequence[PrimExpr],
) -> PrimExpr:
    """Interpolate between four elements; more than one element off the image there is 0."""
    dtype = spots[0].dtype
    zero, one = const(0, dtype), const(1, dtype)
    sizes = [cast(e, dtype) for e in extents]
    inside = [f for s, z in zip(spots, sizes, strict=True) for f in (s >= const(-1, dtype), s <= z)]
    some = [e > wide(0) for e in extents]
    pairs: list[list[tuple[PrimExpr, PrimExpr]]] = []
    for spot, size in zip(spots, sizes, strict=True):
        last = Max(size - one, zero)
        place = Max(Min(select(spot.equal(spot), spot, zero), last), zero)
        base = floor(place)
        t = place - base
        pairs.append([(base, one - t), (Min(base + one, last), t)])
    made = zero
    for row, v in pairs[0]:
        for column, w in pairs[1]:
            index = list(i)
            index[at[0]], index[at[2]], index[at[3]] = image, wide(row), wide(column)
            made = made + cast(BufferLoad(x, tuple(index)), dtype) * (v * w)
    return if_then_else(all_of(*some, *inside), made, zero)


def _roi_align_with_numpy(
    data: Any,
    rois: Any,
    pooled_size: tuple[int, int],
    spatial_scale: float,
    sample_ratio: int,
    aligned: bool,
    layout: str,
    mode: str,
) -> NPArray:
    own = dtype_of_numpy(xp.asarray(data).dtype)
    assert own is not None
    dtype = compute_dtype(xp.asarray(data).dtype)
    x: NPArray = xp.transpose(xp.asarray(data).astype(dtype), [layout.index(k) for k in "NCHW"])
    regions: NPArray = xp.asarray(rois).astype(dtype)
    sizes = x.shape[2:]
    made: Any = xp.zeros((len(regions), x.shape[1], *pooled_size), dtype)
    with xp.errstate(all="ignore"):
        for n, region in enumerate(regions):
            number, edges = region[0], region[1:] * dtype.type(spatial_scale)
            edges = edges - dtype.type(0.5) if aligned else edges
            if not 0 <= number < len(x):
                raise IndexError(f"there is no image {number}")
            image, lines = x[int(number)], list[Any]()
            for k, pooled in enumerate(pooled_size):
                first, length = edges[1 - k], edges[3 - k] - edges[1 - k]
                length = length if aligned else max(length, dtype.type(1))
                gap = length / dtype.type(pooled)
                least = 0 if gap != gap else max(0, min(xp.ceil(gap), _MOST))
                many = sample_ratio if sample_ratio > 0 else int(least)
                steps = (xp.arange(many, dtype=dtype) + dtype.type(0.5)) * gap / dtype.type(many)
                lines.append(first + xp.arange(pooled, dtype=dtype)[:, None] * gap + steps)
            if lines[0].size and lines[1].size and min(sizes):
                found = _interpolate_at(image, lines[0], lines[1], sizes)
                made[n] = found.mean((2, 4)) if mode == "avg" else found.max((2, 4))
    back = ["NCHW".index(k) for k in layout]
    return xp.ascontiguousarray(convert_array(xp.transpose(made, back), own))


def _interpolate_at(image: NPArray, rows: Any, columns: Any, sizes: Sequence[int]) -> Any:
    """Interpolate at all pairs of places, which have an axis of parts and one of points."""
    parts: list[Any] = []
    for places, size in zip((rows, columns), sizes, strict=True):
        inside = (places >= -1) & (places <= size)
        place = xp.clip(xp.where(inside, places, 0), 0, size - 1)
        base = xp.floor(place).astype("int64")
        weights = xp.zeros((*places.shape, size), image.dtype)
        grid = tuple(xp.indices(places.shape))
        t = place - base
        weights[(*grid, base)] += (1 - t) * inside
        weights[(*grid, xp.minimum(base + 1, size - 1))] += t * inside
        parts.append(weights)
    return xp.einsum("chw,pyh,qxw->cpyqx", image, *parts)


_IMAGE = T((2, 3, 5, 6))
_REGIONS = T((3, 5), values=((0, 0, 0, 4, 3), (1, 1.5, 2, 9, 7.5), (1, -3, 2.5, 2, 2)))
_NEAR = 1e-5

roi_align = define_op(
    "vision.roi_align",
    tensor("data"),
    tensor("rois"),
    ints("pooled_size"),
    number("spatial_scale"),
    integer("sample_ratio", -1),
    flag("aligned", False),
    text("layout", "NCHW", ("NCHW", "NHWC")),
    text("mode", "avg", ("avg", "max")),
    infer=_roi_align,
    doc="""Resample regions of images to a fixed size (region of interest align).

    A row of ``rois`` has the number of an image and the corners ``x1, y1, x2, y2``, which
    ``spatial_scale`` turns into elements; with ``aligned`` these are half an element less, without
    it a region is at least one element large. A region has as many parts as the pooled size says;
    in each, ``sample_ratio`` points on either axis, or as many as it has elements, are interpolated
    bilinearly, and their mean is taken, or the greatest. Points more than one element outside are
    0. An image that is not there raises (RUN0203).
    Shapes: ``(n, c, h, w)`` and ``(r, 5)`` give ``(r, c, *pooled_size)``, ordered as ``layout``
    says. Types: floats, the same for both. Errors: OPS0006, OPS0007, OPS0030, OPS0032, OPS0036.""",
    family="vision",
    lower=_align,
    reference=_roi_align_with_numpy,
    samples=(
        Sample((_IMAGE, _REGIONS, (2, 3), 1.0), absolute=_NEAR),
        Sample((_IMAGE, _REGIONS, (2, 2), 0.5, 2, True), absolute=_NEAR),
        Sample((_IMAGE, _REGIONS, (1, 2), 0.7), {"mode": "max"}, absolute=_NEAR),
        Sample(
            (T((1, 4, 4, 2)), T((1, 5), values=((0, 1, 1, 3, 2),)), (2, 2), 1.0),
            {"layout": "NHWC", "sample_ratio": 1},
            absolute=_NEAR,
        ),
        Sample((_IMAGE, T((0, 5)), (2, 2), 1.0)),
    ),
    mistakes=(
        Mistake((_IMAGE, T((3, 4)), (2, 2), 1.0), {}, "OPS0032"),
        Mistake((_IMAGE, T((5,)), (2, 2), 1.0), {}, "OPS0030"),
        Mistake((_IMAGE, _REGIONS, (2,), 1.0), {}, "OPS0036"),
        Mistake((_IMAGE, _REGIONS, (2, 0), 1.0), {}, "OPS0036"),
        Mistake((_IMAGE, T((3, 5), "float64"), (2, 2), 1.0), {}, "OPS0006"),
        Mistake((_IMAGE, _REGIONS, (2, 2), 1.0), {"mode": "sum"}, "OPS0002"),
    ),
)
