"""Pooling: maximum, mean or norm of windows, or of whole images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.converters.windows import choose_padding, read_per_axis
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Converter, Row, row
from loomir.relax.expr import Constant
from loomir.relax.node import RelaxExpr
from loomir.relax.operator.reference import xp
from loomir.support.array import Array

_MAX: Final = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEAN: Final = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}


def _options(node: Node) -> tuple[int, dict[str, Any]]:
    image = node.dims(0)[2:]
    kernel = [int(v) for v in node.get("kernel_shape", ())]
    axes = len(image)
    if axes not in _MAX or len(kernel) != axes:
        raise node.refuse(f"its window has {len(kernel)} axes, and its image has {axes}")
    strides, dilations = [read_per_axis(node, name, axes) for name in ("strides", "dilations")]
    return axes, {
        "pool_size": kernel,
        "strides": strides,
        "padding": choose_padding(node, image, kernel, strides, dilations),
        "dilation": dilations,
        "ceil_mode": bool(node.get("ceil_mode", 0)),
    }


def _max_pool(node: Node) -> list[Any]:
    axes, options = _options(node)
    if node.wants(1):
        return _max_pool_with_places(node, axes, options)
    return [node.emit(_MAX[axes](node[0], **options))]


def _max_pool_with_places(node: Node, axes: int, options: dict[str, Any]) -> list[Any]:
    """Gather the elements of each window, by tables that are made at import."""
    dims = node.dims(0)
    if not all(isinstance(d, int) for d in dims):
        raise node.refuse("the output Indices needs known extents")
    made = node.dims_of(node.emit(_MAX[axes](node[0], **options)))
    image = dims[2:]
    places, inside = _window_places(image, made[2:], options)
    flat = node.emit(op.reshape(node[0], (dims[0] * dims[1], int(xp.prod(image)))))
    taken = node.emit(op.take(flat, Constant(Array(places.astype("int32"))), 1))
    low = constant(_find_least(node.dtype(0)), node.dtype(0))
    seen = node.emit(op.where(Constant(Array(inside[None])), taken, low))
    best = node.emit(op.argmax(seen, 2, True))
    values = node.emit(op.squeeze(node.emit(op.gather_elements(seen, best, 2)), [2]))
    table = Constant(Array(xp.broadcast_to(places[None], (dims[0] * dims[1], *places.shape))))
    where = node.emit(op.squeeze(node.emit(op.gather_elements(table, best, 2)), [2]))
    if node.get("storage_order", 0):
        where = _columns_first(node, where, image)
    first = xp.arange(dims[0] * dims[1], dtype="int64") * int(xp.prod(image))
    where = node.emit(op.add(where, Constant(Array(first[:, None]))))
    shape = (dims[0], dims[1], *made[2:])
    return [node.emit(op.reshape(v, shape)) for v in (values, where)]


def _columns_first(node: Node, where: RelaxExpr, image: Sequence[int]) -> RelaxExpr:
    """Count the places of images column by column."""
    order = xp.arange(int(xp.prod(image)), dtype="int64").reshape(tuple(image)[::-1]).T
    return node.emit(op.take(Constant(Array(order.reshape(-1))), where, 0))


def _find_least(dtype: str) -> Any:
    return -xp.inf if dtype.startswith(("float", "bfloat")) else xp.iinfo(dtype).min


def _window_places(
    image: Sequence[int], made: Sequence[int], options: dict[str, Any]
) -> tuple[Any, Any]:
    """Return, for each window, the places of its elements, and which lie in the image."""
    axes = len(image)
    grids: list[Any] = []
    fits: list[Any] = []
    for i in range(axes):
        start = xp.arange(made[i]) * options["strides"][i] - options["padding"][i]
        taps = xp.arange(options["pool_size"][i]) * options["dilation"][i]
        place = start[:, None] + taps
        shape = [1] * (2 * axes)
        shape[i], shape[axes + i] = place.shape
        grids.append(place.reshape(shape))
        fits.append(((place >= 0) & (place < image[i])).reshape(shape))
    inside: Any = fits[0]
    flat: Any = xp.zeros((1,) * (2 * axes), "int64")
    for i in range(axes):
        inside = inside & fits[i]
        flat = flat * image[i] + xp.clip(grids[i], 0, image[i] - 1)
    windows, taps = int(xp.prod(made)), int(xp.prod(options["pool_size"]))
    return flat.reshape(windows, taps), inside.reshape(windows, taps)


def _max_unpool(node: Node) -> RelaxExpr:
    dims = node.dims(0)
    kernel = [int(v) for v in node.get("kernel_shape", ())]
    axes = len(kernel)
    strides = read_per_axis(node, "strides", axes)
    pads = [int(v) for v in node.get("pads", [0] * (2 * axes))]
    plain = [
        (d - 1) * strides[i] + kernel[i] - pads[i] - pads[axes + i] for i, d in enumerate(dims[2:])
    ]
    image = plain
    if node.has(2):
        image = [int(v) for v in node.numbers(2, "extents").reshape(-1)][2:]
    inner = int(xp.prod(plain))
    whole = dims[0] * dims[1]
    count = int(xp.prod(dims[2:]))
    places = node.emit(op.reshape(node[1], (whole, count)))
    places = node.emit(op.floor_mod(places, constant(inner, "int64")))
    if image != plain:  # places count in the image without what was asked for
        order = xp.arange(int(xp.prod(image)), dtype="int64").reshape(image)
        cut = order[tuple([slice(0, p) for p in plain])].reshape(-1)
        places = node.emit(op.take(Constant(Array(cut)), places, 0))
    empty = node.emit(op.zeros((whole, int(xp.prod(image))), node.dtype(0)))
    values = node.emit(op.reshape(node[0], (whole, count)))
    filled = node.emit(op.scatter_elements(empty, places, values, 1))
    return op.reshape(filled, (dims[0], dims[1], *image))


def _average_pool(node: Node) -> RelaxExpr:
    axes, options = _options(node)
    counted = bool(node.get("count_include_pad", 0))
    return _MEAN[axes](node[0], count_include_pad=counted, **options)


def _lp_pool(node: Node) -> RelaxExpr:
    axes, options = _options(node)
    p = int(node.get("p", 2))
    size = int(xp.prod(options["pool_size"]))
    powers = _power(node, p)
    mean = node.emit(_MEAN[axes](powers, count_include_pad=True, **options))
    return _root(node, node.emit(op.multiply(mean, node.constant_like(size))), p)


def _power(node: Node, p: int) -> RelaxExpr:
    x = node.emit(op.abs(node[0]))
    if p == 1:
        return x
    return node.emit(op.square(x) if p == 2 else op.power(x, node.constant_like(p)))


def _root(node: Node, x: RelaxExpr, p: int) -> RelaxExpr:
    if p == 1:
        return x
    return op.sqrt(x) if p == 2 else op.power(x, node.constant_like(1 / p))


def _global_lp_pool(node: Node) -> RelaxExpr:
    p = int(node.get("p", 2))
    total = node.emit(op.sum(_power(node, p), list(range(2, node.rank(0))), True))
    return _root(node, total, p)


def _make_global(operator: Any) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        return operator(node[0], list(range(2, node.rank(0))), True)

    return convert


ROWS: Final[tuple[Row, ...]] = (
    row("AveragePool", _average_pool, note="images of more than three axes"),
    row("GlobalAveragePool", _make_global(op.mean)),
    row("GlobalLpPool", _global_lp_pool),
    row("GlobalMaxPool", _make_global(op.max)),
    row("LpPool", _lp_pool, note="images of more than three axes"),
    row("MaxPool", _max_pool, note="images of more than three axes"),
    row("MaxUnpool", _max_unpool),
)
