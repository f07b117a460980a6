"""Operators that sample images at the points of a grid, and grids of affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loomir.op.rules.arguments import dims_of, find_common_dtype, must_equal, need_rank
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, shape, tensor, text
from loomir.relax.operator.reference import NPArray, compute_dtype, convert_array, xp
from loomir.relax.operator.rules import need
from loomir.relax.shape import as_dim
from loomir.support.dtype import DataType, dtype_of_numpy
from loomir.te import topi
from loomir.te.operation import compute
from loomir.te.scalar import abs as magnitude
from loomir.te.scalar import all_of, floor, if_then_else, round, select
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import wide
from loomir.te.topi.shape import compute_dtype as inner_dtype
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Max, Min, PrimExpr, cast, const

__all__ = ["affine_grid", "grid_sample"]

T = TensorSample
_METHODS: Final = ("nearest", "bilinear", "bicubic")
_PADDINGS: Final = ("zeros", "border", "reflection")
_LAYOUTS: Final = ("NCHW", "NHWC")
_ALPHA: Final = -0.75
_NEAR: Final = 1e-5


# -- sampling at places ----------------------------------------------------------------------------
def _grid_sample(c: OpContext) -> StructInfo:
    x, grid = need_rank(c, 0, 4), need_rank(c, 1, 4)
    dtype = find_common_dtype(c, [x, grid])
    need(c, "float", dtype)
    if grid.dims is not None:
        must_equal(c, grid.dims[1], 2, "the coordinates of a place and the axes", arg=1)
    if x.dims is None or grid.dims is None:
        return c.make(None, dtype, x, ndim=4)
    must_equal(c, x.dims[0], grid.dims[0], "the numbers of images and of grids", arg=1)
    made = list(x.dims)
    for letter, extent in zip("HW", grid.dims[2:], strict=True):
        made[c["layout"].index(letter)] = extent
    return c.make(made, dtype, x)


class _Axis:
    """An axis of an image, on which places stand."""

    def __init__(self, extent: Any, dtype: DataType, padding: str, align: bool) -> None:
        self.extent, self.dtype = wide(extent), dtype
        self.size = cast(self.extent, dtype)
        self.padding, self.align = padding, align

    def number(self, value: float) -> PrimExpr:
        """Make a constant of the dtype that places are computed in."""
        return const(value, self.dtype)

    def place(self, at: PrimExpr) -> PrimExpr:
        """Return where a coordinate stands, counted in elements."""
        one, half = self.number(1.0), self.number(0.5)
        if self.align:
            return (at + one) * half * (self.size - one)
        return ((at + one) * self.size - one) * half

    def pad(self, at: PrimExpr) -> PrimExpr:
        """Bring a place to the image, or next to it; one that is NaN to its beginning."""
        last = self.size - self.number(1.0)
        if self.padding == "reflection":
            at = self._reflect(at)
        if self.padding == "zeros":
            low, high = self.number(-4.0), self.size + self.number(4.0)
        else:
            low, high = self.number(0.0), Max(last, self.number(0.0))
        return Max(Min(select(at.equal(at), at, low), high), low)

    def _reflect(self, at: PrimExpr) -> PrimExpr:
        zero, one, half = map(self.number, (0.0, 1.0, 0.5))
        low, span = (zero, self.size - one) if self.align else (-half, self.size)
        safe = Max(span, one)
        away = magnitude(at - low)
        rest = call_builtin("fmod", away, safe)
        turns = floor((away - rest) / safe + half)
        odd = call_builtin("fmod", turns, self.number(2.0)) > half
        return select(span > zero, select(odd, safe - rest, rest) + low, zero)


def _weights(axis: _Axis, at: PrimExpr, method: str) -> list[tuple[PrimExpr, PrimExpr]]:
    """Return the elements next to a place, and how much each weighs."""
    if method == "nearest":
        return [(round(at), axis.number(1.0))]
    base = floor(at)
    t, one = at - base, axis.number(1.0)
    rest = one - t
    if method == "bilinear":
        return [(base, rest), (base + one, t)]

    def near(d: PrimExpr) -> PrimExpr:
        return ((d * (_ALPHA + 2) - (_ALPHA + 3)) * d) * d + 1.0

    def far(d: PrimExpr) -> PrimExpr:
        return ((d * _ALPHA - 5 * _ALPHA) * d + 8 * _ALPHA) * d - 4 * _ALPHA

    weights = [far(t + 1.0), near(t), near(rest), far(rest + 1.0)]
    return [(base + float(k - 1), w) for k, w in enumerate(weights)]


def _sample(
    data: Tensor, grid: Tensor, method: str, layout: str, padding_mode: str, align_corners: bool
) -> Tensor:
    at = [layout.index(letter) for letter in "NCHW"]
    grid = topi.assume_shape(grid, [data.shape[at[0]], 2, *grid.shape[2:]])
    inner = inner_dtype(data.dtype)
    axes = [_Axis(data.shape[a], inner, padding_mode, align_corners) for a in at[2:]]
    count, _, *extents = grid.shape
    bicubic = method == "bicubic"

    def compute_place(k: int) -> Tensor:
        def element(n: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
            # The horizontal coordinate comes first.
            place = axes[k].place(cast(grid(n, 1 - k, i, j), inner))
            return _clamp_place(axes[k], place) if bicubic else axes[k].pad(place)

        return compute((count, *extents), element, name="yx"[k])

    places = [compute_place(0), compute_place(1)]

    def value(i: Sequence[PrimExpr], spot: Sequence[PrimExpr]) -> PrimExpr:
        inside = [wide(p) for p in spot]
        index = list(i)
        for a, p in zip(at[2:], inside, strict=True):
            index[a] = p
        fits = [f for p, axis in zip(inside, axes) for f in (p >= 0, p < axis.extent)]
        return cast(if_then_else(all_of(*fits), data(*index), const(0, data.dtype)), inner)

    def element(*i: PrimExpr) -> PrimExpr:
        rows, columns = [
            [(axis.pad(p) if bicubic else p, w) for p, w in _weights(axis, place(*here), method)]
            for axis, place in zip(axes, places, strict=True)
            for here in [(i[at[0]], i[at[2]], i[at[3]])]
        ]
        sums = [[value(i, (r, s)) * w for s, w in columns] for r, _ in rows]
        made = const(0, inner)
        for line, (_, weight) in zip(sums, rows, strict=True):
            total = line[0]
            for part in line[1:]:
                total = total + part
            made = made + total * weight
        return cast(made, data.dtype)

    made = list(data.shape)
    made[at[2]], made[at[3]] = extents
    return compute(tuple(made), element, name="grid_sample")


def _clamp_place(axis: _Axis, place: PrimExpr) -> PrimExpr:
    """Keep a place where floats count elements exactly; NaN becomes one outside."""
    most = axis.number(2.0**20)
    return Max(Min(select(place.equal(place), place, -most), most), -most)


def _grid_sample_with_numpy(
    data: Any, grid: Any, method: str, layout: str, padding_mode: str, align_corners: bool
) -> NPArray:
    own = dtype_of_numpy(xp.asarray(data).dtype)
    assert own is not None
    wanted = compute_dtype(xp.asarray(data).dtype)
    images: NPArray = xp.transpose(
        xp.asarray(data).astype(wanted), [layout.index(k) for k in "NCHW"]
    )
    places: NPArray = xp.asarray(grid).astype(wanted)
    sizes = images.shape[2:]

    def pad(p: Any, n: int) -> Any:
        if padding_mode == "zeros":
            return xp.clip(xp.where(p == p, p, -4), -4, n + 4)
        if padding_mode == "reflection":
            low, span = (0.0, n - 1) if align_corners else (-0.5, n)
            period = 2 * max(span, 1)
            folded = xp.mod(p - low, period)
            folded = xp.where(folded > period / 2, period - folded, folded) + low
            p = folded if span > 0 else p * 0
        return xp.clip(xp.where(p == p, p, 0), 0, max(n - 1, 0)).astype(wanted)

    def spots(k: int) -> list[tuple[Any, Any]]:
        n, at = sizes[k], places[:, 1 - k]
        at = (at + 1) / 2 * (n - 1) if align_corners else ((at + 1) * n - 1) / 2
        if method != "bicubic":
            at = pad(at, n)
        else:
            at = xp.clip(xp.where(at == at, at, -(2.0**20)), -(2.0**20), 2.0**20)
        at = at.astype(wanted)
        if method == "nearest":
            return [(xp.rint(at), 1)]
        base = xp.floor(at)
        if method == "bilinear":
            return [(base, 1 - (at - base)), (base + 1, at - base)]
        found: list[tuple[Any, Any]] = []
        for step in (-1, 0, 1, 2):
            d = xp.abs(at - (base + step))
            close = (_ALPHA + 2) * d**3 - (_ALPHA + 3) * d**2 + 1
            away = _ALPHA * (d**3 - 5 * d**2 + 8 * d - 4)
            found.append((pad(base + step, n), xp.where(d <= 1, close, away)))
        return found

    with xp.errstate(all="ignore"):
        made: Any = xp.zeros((*images.shape[:2], *places.shape[2:]), wanted)
        batch = xp.arange(images.shape[0])[:, None, None]
        for y, v in spots(0):
            for x, w in spots(1):
                r, s = y.astype("int64"), x.astype("int64")
                inside = (r >= 0) & (r < sizes[0]) & (s >= 0) & (s < sizes[1])
                if min(sizes) > 0:
                    taken = images[batch, :, xp.where(inside, r, 0), xp.where(inside, s, 0)]
                    parts = xp.where(inside[..., None], taken, 0) * xp.asarray(v * w)[..., None]
                    made = made + xp.moveaxis(parts, -1, 1)
    back = ["NCHW".index(k) for k in layout]
    return xp.ascontiguousarray(convert_array(xp.transpose(made.astype(wanted), back), own))


_IMAGE, _GRID = T((2, 3, 4, 5)), T((2, 2, 3, 2), low=-1.4, high=1.4)
_WILD = T((1, 2, 1, 4), values=[[[[float("nan"), 9, -1e9, 0]], [[0, float("inf"), 2.5, -1]]]])

grid_sample = define_op(
    "image.grid_sample",
    tensor("data"),
    tensor("grid"),
    text("method", "bilinear", _METHODS),
    text("layout", "NCHW", _LAYOUTS),
    text("padding_mode", "zeros", _PADDINGS),
    flag("align_corners", True),
    infer=_grid_sample,
    doc="""Sample images at the coordinates of a grid, one for each element of the result.

    ``grid[n, 0]`` has the horizontal coordinates and ``grid[n, 1]`` the vertical ones: -1 and 1 are
    the middles of the first and the last element, or with ``align_corners`` off their outer edges.
    ``nearest`` takes an element, halves to the even one; ``bilinear`` interpolates between four;
    ``bicubic`` convolves sixteen with Keys' kernel of -0.75. What lies outside is 0 (``zeros``),
    the nearest element (``border``), or the image folded at its ends (``reflection``). A
    coordinate that is NaN lies before the first element; images of no elements are 0.
    Shapes: images ``(n, c, h, w)`` and grids ``(n, 2, p, q)`` give ``(n, c, p, q)``, ordered as
    ``layout`` says. Types: floats, the same for both; those of 16 bits are computed in float32.
    Errors: OPS0006, OPS0007, OPS0030, OPS0032.""",
    family="image",
    lower=_sample,
    reference=_grid_sample_with_numpy,
    samples=(
        *[
            Sample(
                (_IMAGE, _GRID),
                {"method": m, "padding_mode": p, "align_corners": (k + n) % 2 == 0},
                absolute=_NEAR,
            )
            for k, m in enumerate(_METHODS)
            for n, p in enumerate(_PADDINGS)
        ],
        *[
            Sample((T((1, 1, 3, 4)), _WILD), {"padding_mode": p, "align_corners": False}, 0, _NEAR)
            for p in _PADDINGS
        ],
        Sample((T((1, 3, 4, 2)), T((1, 2, 2, 3))), {"layout": "NHWC"}, absolute=_NEAR),
        Sample(
            (T((1, 1, 3, 3), "float16"), T((1, 2, 2, 2), "float16", -1, 1)),
            {"padding_mode": "border"},
            ulps=1,
        ),
        Sample((T((1, 2, 1, 0)), T((1, 2, 2, 1))), {"padding_mode": "reflection"}),
        Sample((T((0, 1, 2, 2), "float64"), T((0, 2, 2, 2), "float64"))),
    ),
    mistakes=(
        Mistake((_IMAGE, T((2, 3, 3, 2))), {}, "OPS0032"),
        Mistake((_IMAGE, T((1, 2, 3, 2))), {}, "OPS0032"),
        Mistake((_IMAGE, T((2, 3, 2))), {}, "OPS0030"),
        Mistake((_IMAGE, T((2, 2, 3, 2), "float64")), {}, "OPS0006"),
        Mistake((T((1, 1, 2, 2), "int32"), T((1, 2, 2, 2), "int32")), {}, "OPS0007"),
        Mistake((_IMAGE, _GRID), {"layout": "CHWN"}, "OPS0002"),
        Mistake((_IMAGE, _GRID, "trilinear"), {}, "OPS0002"),
    ),
)


# -- grids of affine maps --------------------------------------------------------------------------
def _affine_grid(c: OpContext) -> StructInfo:
    data, size = need_rank(c, 0, 3), c.shape(1)
    need(c, "float", data.dtype)
    if data.dims is not None:
        must_equal(c, data.dims[1], 2, "the rows of a map and the axes", arg=0)
        must_equal(c, data.dims[2], 3, "the columns of a map and what it takes", arg=0)
    if size.ndim not in (-1, 2):
        c.refuse("OPS0036", f"the size has {size.ndim} extents", help="give two extents", arg=1)
    if data.dims is None or size.values is None:
        return c.make(None, data.dtype, data, ndim=4)
    if any(c.analyzer.can_prove(extent < as_dim(0)) for extent in size.values):
        c.refuse("OPS0036", "a size is negative", help="give sizes of 0 or more", arg=1)
    return c.make([data.dims[0], 2, *size.values], data.dtype, data)


def _make_grid(data: Tensor, size: Any, align_corners: bool, out: StructInfo) -> Tensor:
    data = topi.assume_shape(data, [data.shape[0], 2, 3])
    inner = inner_dtype(data.dtype)
    _, _, *extents = dims_of(out)

    def coordinate(i: PrimExpr, extent: Any) -> PrimExpr:
        count = wide(extent)
        top = wide(i) * 2 - count + 1
        bottom = Max(count - 1, wide(1)) if align_corners else count
        return cast(top, inner) / cast(bottom, inner)

    def element(n: PrimExpr, k: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        a, b, d = [cast(data(n, k, m), inner) for m in range(3)]
        made = a * coordinate(j, extents[1]) + b * coordinate(i, extents[0]) + d
        return cast(made, data.dtype)

    return compute((data.shape[0], 2, *extents), element, name="affine_grid")


def _affine_grid_with_numpy(data: Any, size: tuple[int, ...], align_corners: bool) -> NPArray:
    maps: NPArray = xp.asarray(data)
    own = dtype_of_numpy(maps.dtype)
    assert own is not None

    def line(n: int) -> Any:
        if n == 1:
            return xp.zeros(1)
        edge = 1.0 if align_corners else 1 - 1 / max(n, 1)
        return xp.linspace(-edge, edge, n)

    y, x = xp.meshgrid(line(size[0]), line(size[1]), indexing="ij")
    basis = xp.stack([x, y, xp.ones_like(x)])
    made = xp.einsum("nkm,mij->nkij", maps.astype("float64"), basis)
    return convert_array(convert_array(made, dtype_of_numpy(compute_dtype(maps.dtype)) or own), own)


affine_grid = define_op(
    "image.affine_grid",
    tensor("data"),
    shape("size"),
    flag("align_corners", True),
    infer=_affine_grid,
    doc="""Compute sampling grids for ``R.image.grid_sample`` from affine maps.

    Element (i, j) of a result has the coordinates that a map gives for (x, y, 1), where x goes
    from -1 to 1 with j, and y with i; with ``align_corners`` off these are the outer edges. On an
    axis of one element the coordinate is 0.
    Shapes: ``(n, 2, 3)`` and a size of (h, w) give ``(n, 2, h, w)``. Types: floats.
    Errors: OPS0007, OPS0030, OPS0032, OPS0036.""",
    family="image",
    lower=_make_grid,
    reference=_affine_grid_with_numpy,
    samples=(
        Sample((T((2, 2, 3)), (3, 4)), absolute=_NEAR),
        Sample((T((1, 2, 3), "float64"), (2, 3)), {"align_corners": False}, absolute=1e-12),
        Sample((T((1, 2, 3), "float16"), (1, 2)), ulps=1, absolute=1e-3),
        Sample((T((0, 2, 3)), (2, 1))),
        Sample((T((1, 2, 3)), (0, 2)), {"align_corners": False}),
    ),
    mistakes=(
        Mistake((T((2, 3)), (2, 2)), {}, "OPS0030"),
        Mistake((T((1, 3, 3)), (2, 2)), {}, "OPS0032"),
        Mistake((T((1, 2, 2)), (2, 2)), {}, "OPS0032"),
        Mistake((T((1, 2, 3)), (2, 2, 2)), {}, "OPS0036"),
        Mistake((T((1, 2, 3)), (2, -2)), {}, "OPS0036"),
        Mistake((T((1, 2, 3), "int32"), (2, 2)), {}, "OPS0007"),
    ),
)
