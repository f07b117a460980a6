"""Operators that resize images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from loomir.op.rules.arguments import dims_of, need_rank
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.operator.definition import Infer, Mistake, Sample, TensorSample, define_op
from loomir.relax.operator.params import flag, kind_dtype, number, numbers, shape, tensor, text
from loomir.relax.operator.reference import NPArray, convert_array, is_float, xp
from loomir.relax.operator.rules import need
from loomir.relax.shape import as_dim
from loomir.support.dtype import DataType, dtype_of_numpy
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.tir.expr import Min, PrimExpr

__all__ = ["resize2d", "resize3d"]

T = TensorSample
_METHODS: Final = ("nearest_neighbor", "linear", "cubic")
_COORDINATES: Final = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
)
_ROUNDINGS: Final = ("round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _axes(layout: str) -> tuple[int, ...] | None:
    """Return the axes of images in their order, None for what is not a layout of images."""
    for spatial in ("HW", "DHW"):
        if sorted(layout) == sorted("NC" + spatial):
            return tuple([layout.index(letter) for letter in spatial])
    return None


def _resize(count: int) -> Infer:
    """Infer the images that images of so many axes become."""
    names = "N, C, H and W" if count == 2 else "N, C, D, H and W"
    few = "a height and a width, or one number for both"
    many = "a depth, a height and a width, or one number for all"

    def infer(c: OpContext) -> StructInfo:
        x, size, axes = need_rank(c, 0, count + 2), c.shape(1), _axes(c["layout"])
        need(c, "number", x.dtype, 0)
        dtype = c["out_dtype"] or x.dtype
        need(c, "number", dtype, 0)
        if axes is None or len(axes) != count:
            c.refuse(
                "OPS0044",
                f"{c['layout']!r} is not a layout of images",
                help=f"order the letters {names}, each once",
            )
        if size.ndim not in (-1, 1, count):
            c.refuse(
                "OPS0036",
                f"the size has {size.ndim} extents",
                help=f"give {few if count == 2 else many}",
                arg=1,
            )
        if x.dims is None or size.values is None:
            return c.make(None, dtype, x, ndim=count + 2)
        wanted = size.values if len(size.values) == count else size.values * count
        return c.make(_infer_resized_dims(c, x.dims, axes, wanted), dtype, x)

    return infer


def _infer_resized_dims(
    c: OpContext, own: Sequence[PrimExpr], axes: Sequence[int], sizes: Sequence[PrimExpr]
) -> list[PrimExpr]:
    dims = list(own)
    for axis, wanted in zip(axes, sizes, strict=True):
        help_text = "give images of one element or more, and sizes of 0 or more"
        c.require_order("OPS0036", 0, wanted, "a size is negative", help=help_text, arg=1)
        least = Min(wanted, as_dim(1))
        empty = "images of no elements are not resized"
        c.require_order("OPS0036", least, dims[axis], empty, help=help_text, arg=0)
        dims[axis] = wanted
    return dims


def _lower_resize(
    data: Tensor,
    size: Any,
    roi: Any,
    layout: str,
    method: Any,
    coordinate_transformation_mode: Any,
    rounding_method: Any,
    cubic_alpha: float,
    cubic_exclude: bool,
    extrapolation_value: float,
    out_dtype: DataType | None,
    out: StructInfo,
) -> Tensor:
    axes = _axes(layout)
    assert axes is not None
    made = (topi.resize2d if len(axes) == 2 else topi.resize3d)(
        data,
        [dims_of(out)[axis] for axis in axes],
        "nearest" if method == "nearest_neighbor" else method,
        coordinate_transformation_mode,
        rounding_method,
        cubic_alpha,
        cubic_exclude,
        layout,
    )
    return made if out_dtype is None else topi.cast(made, str(out_dtype))


# -- meaning -------------------------------------------------------------------------------------
def _places(n: int, m: int, mode: str) -> tuple[NPArray, NPArray]:
    """Return where the elements of an axis stand, as numerators and denominators."""
    i = xp.arange(m, dtype="int64")
    one = xp.ones(m, "int64")
    if mode == "asymmetric":
        return i * n, one * m
    if mode == "align_corners":
        return i * (n - 1), one * max(m - 1, 1)
    middle = (i * 2 + 1) * n
    if mode == "tf_half_pixel_for_nn":
        return middle, one * (2 * m)
    top = middle - m
    return (top * 0 if mode == "pytorch_half_pixel" and m <= 1 else top), one * (2 * m)


def _round_half_even(p: NPArray, q: NPArray) -> NPArray:
    nearest = (2 * p + q) // (2 * q)
    tie = ((2 * p + q) % (2 * q) == 0) & (nearest % 2 == 1)
    return nearest - tie


_NEAREST: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "round": _round_half_even,
    "round_prefer_floor": lambda p, q: -((q - 2 * p) // (2 * q)),
    "round_prefer_ceil": lambda p, q: (2 * p + q) // (2 * q),
    "floor": lambda p, q: p // q,
    "ceil": lambda p, q: -(-p // q),
}


def _weights(t: NPArray, method: str, alpha: float) -> list[tuple[int, NPArray]]:
    rest = 1 - t
    if method == "linear":
        return [(0, rest), (1, t)]

    def near(d: Any) -> Any:
        return ((alpha + 2) * d - (alpha + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return alpha * d * (1 - d) * (1 - d)

    return [(-1, far(t)), (0, near(t)), (1, near(rest)), (2, far(rest))]


def _resize_along(
    x: NPArray, axis: int, m: int, mode: str, method: str, alpha: float, exclude: bool
) -> NPArray:
    """Interpolate along one axis."""
    n = x.shape[axis]
    top, bottom = _places(n, m, mode)
    base, last = top // bottom, n - 1
    t = (top % bottom).astype(x.dtype) / bottom.astype(x.dtype)
    weights = _weights(t, method, alpha)
    if exclude and method == "cubic":
        kept = [(k, xp.where((base + k >= 0) & (base + k < n), w, 0)) for k, w in weights]
        total: Any = sum(w for _, w in kept)
        weights = [(k, w / total) for k, w in kept]

    def value(k: int) -> Any:
        return xp.take(x, xp.clip(base + k, 0, max(last, 0)), axis)

    line = [-1 if a == axis else 1 for a in range(x.ndim)]
    made: Any = sum(value(k) * xp.reshape(w.astype(x.dtype), line) for k, w in weights)
    return xp.where(xp.reshape(t == 0, line), value(0), made)


def _resize_with_numpy(
    data: Any,
    size: tuple[int, ...],
    roi: Any,
    layout: str,
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: bool,
    extrapolation_value: float,
    out_dtype: DataType | None,
) -> NPArray:
    x: NPArray = xp.asarray(data)
    own = dtype_of_numpy(x.dtype)
    axes, mode = _axes(layout), coordinate_transformation_mode
    assert own is not None
    assert axes is not None
    wanted = size if len(size) == len(axes) else size * len(axes)
    whole = not is_float(x.dtype)
    small = x.dtype.itemsize <= (2 if whole else 4)
    made: NPArray = x
    for axis, m in zip(axes, wanted, strict=True):
        if method == "nearest_neighbor":
            at = _NEAREST[rounding_method](*_places(x.shape[axis], m, mode))
            made = xp.take(made, xp.clip(at, 0, max(x.shape[axis] - 1, 0)), axis)
        elif m != x.shape[axis] or mode == "tf_half_pixel_for_nn":
            made = made.astype("float32" if small else "float64") if made is x else made
            made = _resize_along(made, axis, m, mode, method, cubic_alpha, cubic_exclude)
    if made is not x and whole and method != "nearest_neighbor":
        made = xp.round(made)
    made = convert_array(made, own)
    return made if out_dtype is None else convert_array(made, out_dtype)


_IMAGE = T((1, 2, 3, 4))
_NEAR = 1e-5
_HOW = (
    text("method", "linear", _METHODS),
    text("coordinate_transformation_mode", "half_pixel", _COORDINATES),
    text("rounding_method", "round", _ROUNDINGS),
    number("cubic_alpha", -0.75),
    flag("cubic_exclude", False),
    number("extrapolation_value", 0.0),
    kind_dtype("out_dtype", None),
)

resize2d = define_op(
    "image.resize2d",
    tensor("data"),
    shape("size"),
    numbers("roi", None),
    text("layout", "NCHW"),
    *_HOW,
    infer=_resize(2),
    doc="""Resize images, interpolating between the elements around each coordinate.

    On an axis of n that becomes m, element i stands at ``(i + 1/2) * n / m - 1/2`` (``half_pixel``;
    ``pytorch_half_pixel`` too, but at 0 where m is 1), ``i * (n - 1) / (m - 1)``
    (``align_corners``), ``i * n / m`` (``asymmetric``) or ``(i + 1/2) * n / m``
    (``tf_half_pixel_for_nn``). ``nearest_neighbor`` takes the element chosen by
    ``rounding_method``, where ``round`` rounds half to even; ``linear`` interpolates between two;
    ``cubic`` convolves four with Keys' kernel of ``cubic_alpha``. Beyond the image its last
    elements are repeated, or with ``cubic_exclude`` have no weight. Integers are rounded, halves to
    even. ``roi`` and ``extrapolation_value`` have no effect in these modes. Shapes: the extents of
    H and W become ``size``. Types: that of ``data``, or ``out_dtype``. Errors: OPS0007, OPS0030,
    OPS0036, OPS0044.""",
    family="image",
    lower=_lower_resize,
    reference=_resize_with_numpy,
    samples=(
        Sample((_IMAGE, (5, 3)), absolute=_NEAR),
        Sample((_IMAGE, 2), {"layout": "NHWC"}, absolute=_NEAR),
        Sample((T((1, 1, 3, 4), "uint8", 0, 255), (7, 2))),
        Sample((T((1, 1, 3, 4), "bfloat16"), (6, 8)), {"method": "cubic"}, ulps=1),
        Sample((_IMAGE, (3, 4))),
        *[
            Sample(
                (T((1, 1, 4, 5)), (6, 3)),
                {"method": m, "coordinate_transformation_mode": k},
                absolute=_NEAR,
            )
            for m in _METHODS
            for k in _COORDINATES
        ],
        *[
            Sample(
                (T((1, 1, 4, 6), "int8"), (8, 3)),
                {"method": "nearest_neighbor", "rounding_method": r},
            )
            for r in _ROUNDINGS
        ],
        Sample((_IMAGE, (5, 9)), {"method": "cubic", "cubic_exclude": True}, absolute=1e-4),
        Sample((_IMAGE, (2, 2)), {"out_dtype": "float16", "method": "nearest_neighbor"}),
        Sample((_IMAGE, (0, 2))),
    ),
    mistakes=(
        Mistake((T((3, 4)), (2, 2)), {}, "OPS0030"),
        Mistake((_IMAGE, (2, 2)), {"layout": "NCWW"}, "OPS0044"),
        Mistake((_IMAGE, (2, 2, 2)), {}, "OPS0036"),
        Mistake((_IMAGE, (2, -2)), {}, "OPS0036"),
        Mistake((T((1, 1, 0, 2)), (2, 2)), {}, "OPS0036"),
        Mistake((T((1, 1, 2, 2), "bool"), (2, 2)), {}, "OPS0007"),
        Mistake((_IMAGE, (2, 2)), {"method": "area"}, "OPS0002"),
    ),
)

_VOLUME = T((1, 2, 2, 3, 4))

resize3d = define_op(
    "image.resize3d",
    tensor("data"),
    shape("size"),
    numbers("roi", None),
    text("layout", "NCDHW"),
    *_HOW,
    infer=_resize(3),
    doc="""Resize images of three axes, as ``R.image.resize2d`` does those of two.

    Shapes: the extents of D, H and W become ``size``. Types: that of ``data``, or ``out_dtype``.
    Errors: OPS0007, OPS0030, OPS0036, OPS0044.""",
    family="image",
    lower=_lower_resize,
    reference=_resize_with_numpy,
    samples=(
        Sample((_VOLUME, (3, 2, 5)), absolute=_NEAR),
        Sample((_VOLUME, 2), {"layout": "NDHWC", "method": "nearest_neighbor"}),
        Sample((T((1, 1, 2, 3, 2), "uint8", 0, 255), (4, 3, 1)), {"method": "cubic"}),
        Sample((T((1, 1, 2, 3, 2), "float16"), (1, 2, 3)), ulps=1),
        Sample((_VOLUME, (0, 2, 1)), {"out_dtype": "float16"}),
    ),
    mistakes=(
        Mistake((_IMAGE, (2, 2, 2)), {}, "OPS0030"),
        Mistake((_VOLUME, (2, 2, 2)), {"layout": "NCHW"}, "OPS0044"),
        Mistake((_VOLUME, (2, 2)), {}, "OPS0036"),
        Mistake((_VOLUME, (2, 2, -2)), {}, "OPS0036"),
        Mistake((T((1, 1, 2, 2, 2), "bool"), (2, 2, 2)), {}, "OPS0007"),
    ),
)
