"""Pooling: maximum or mean of windows, and the gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import mul
from typing import Any, Final

from loomir import op, te
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import Converter, register
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, all_of, any_of, compute, if_then_else, isnan, reduce_axis, select
from loomir.te.topi.shape import compute_dtype
from loomir.tir.expr import Max, Min, Not, PrimExpr, cast, const

_MAX: Final = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEAN: Final = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}
_ADAPTIVE: Final = {
    1: op.nn.adaptive_avg_pool1d,
    2: op.nn.adaptive_avg_pool2d,
    3: op.nn.adaptive_avg_pool3d,
}


class _Windows:
    """The windows of a pooling, one number for each spatial axis."""

    def __init__(self, node: Node, axes: int, *, dilated: bool) -> None:
        self.axes = axes
        self.size = node.ints("kernel_size", axes)
        self.stride = node.ints("stride", axes) if node["stride"] else self.size
        self.padding = node.ints("padding", axes)
        self.dilation = node.ints("dilation", axes) if dilated else [1] * axes
        self.ceil = bool(node["ceil_mode"])

    def options(self) -> dict[str, Any]:
        """Return what operators of graphs take."""
        return {
            "pool_size": self.size,
            "strides": self.stride,
            "padding": self.padding * 2,
            "dilation": self.dilation,
            "ceil_mode": self.ceil,
        }


def _add_batch(node: Node, x: RelaxExpr, axes: int) -> RelaxExpr:
    dims = node.dims_of(x)
    return x if len(dims) == axes + 2 else node.emit(op.reshape(x, (1, *dims)))


def _bind_shape(node: Node, made: RelaxExpr, shape: list[Any]) -> RelaxExpr:
    bound = node.emit(made)
    same = len(node.dims_of(bound)) == len(shape)
    return bound if same else node.emit(op.reshape(bound, tuple(shape)))


def _max_pool(axes: int, *, places: bool) -> Converter:
    def convert(node: Node) -> Any:
        windows = _Windows(node, axes, dilated=True)
        x = _add_batch(node, node.tensor(0), axes)
        shape = node.shape
        made = _bind_shape(node, _MAX[axes](x, **windows.options()), shape)
        if not places:
            return made
        if not node.wants(1):
            return [made, None]
        out = shape if len(shape) == axes + 2 else [1, *shape]
        found = node.compute(_places(windows), x, out)
        return [made, _bind_shape(node, found, shape)]

    return convert


for _axes in (1, 2, 3):
    register(f"aten.max_pool{_axes}d.default")(_max_pool(_axes, places=False))
    register(f"aten.max_pool{_axes}d_with_indices.default")(_max_pool(_axes, places=True))


def _make_greatest() -> Callable[..., Any]:
    """Make the reduction of pairs, a place and an element, to that of the greatest element."""

    def combine(a: Any, b: Any) -> Any:
        first = all_of(b[1].equal(a[1]), b[0] < a[0])
        better = any_of(b[1] > a[1], first)
        if b[1].dtype.is_float:
            # A NaN is the greatest, the last of several.
            lost = isnan(a[1])
            better = any_of(better, all_of(isnan(b[1]), any_of(Not(lost), b[0] > a[0])))
            better = all_of(better, any_of(Not(lost), isnan(b[1])))
        return select(better, b[0], a[0]), select(better, b[1], a[1])

    def identity(place: str, dtype: str) -> Any:
        low: Any = te.min_value(dtype)
        if "float" in str(dtype):
            low = const(float("-inf"), dtype)
        return te.max_value(place), low  # no place is after it

    return te.comm_reducer(combine, identity, "greatest_place")


def _places(windows: _Windows) -> Callable[[Tensor, list[Any]], Tensor]:
    """Make the kernel that finds, in the flat image, where the greatest of each window stands."""
    reducer = _make_greatest()

    def kernel(x: Tensor, out: list[Any]) -> Tensor:
        extents = list(x.shape)[2:]

        def element(*i: PrimExpr) -> Any:
            taps = [reduce_axis((0, k), name=f"k{a}") for a, k in enumerate(windows.size)]
            at: list[PrimExpr] = []
            inside: list[Any] = []
            for a, tap in enumerate(taps):
                here = i[a + 2] * windows.stride[a] + tap * windows.dilation[a]
                here = here - windows.padding[a]
                inside += [here >= 0, here < extents[a]]
                at.append(here)
            flat = reduce(lambda total, p: total * p[0] + p[1], zip(extents, at), const(0, "int64"))
            return reducer((cast(flat, "int64"), x(i[0], i[1], *at)), taps, all_of(*inside))

        made: Any = compute(tuple(out), element, name="places")
        return made[0]

    return kernel


def _avg_pool(axes: int) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        windows = _Windows(node, axes, dilated=False)
        x = _add_batch(node, node.tensor(0), axes)
        divisor = node.arguments.get("divisor_override")
        include = bool(node["count_include_pad"])
        if not divisor:
            made = _MEAN[axes](x, **windows.options(), count_include_pad=include)
            return _bind_shape(node, made, node.shape)
        if windows.ceil:
            raise node.refuse("divisor_override is not supported with ceil_mode")
        made = node.emit(_MEAN[axes](x, **windows.options(), count_include_pad=True))
        by = reduce(mul, windows.size, 1) / float(divisor)
        return _bind_shape(node, op.multiply(made, node.constant(by)), node.shape)

    return convert


for _axes in (1, 2, 3):
    register(f"aten.avg_pool{_axes}d.default")(_avg_pool(_axes))


def _adaptive_avg_pool(axes: int) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        x = _add_batch(node, node.tensor(0), axes)
        shape = node.shape
        size = shape[-axes:]
        if not all(isinstance(v, int) for v in size):
            out = shape if len(shape) == axes + 2 else [1, *shape]
            return _bind_shape(node, node.compute(_average_parts, x, out), shape)
        if all(v == 1 for v in size):
            made = op.mean(x, list(range(2, 2 + axes)), True)
        else:
            made = _ADAPTIVE[axes](x, size)
        return _bind_shape(node, made, shape)

    return convert


def _average_parts(x: Tensor, out: list[Any]) -> Tensor:
    """Average the parts of images, as many along each axis as the result has elements."""
    extents = [cast(e, "int64") for e in list(x.shape)[2:]]
    counts = [const(e, "int64") if isinstance(e, int) else cast(e, "int64") for e in out[2:]]

    def bounds(i: tuple[PrimExpr, ...]) -> list[tuple[PrimExpr, PrimExpr]]:
        made: list[tuple[PrimExpr, PrimExpr]] = []
        for at, extent, count in zip(i[2:], extents, counts, strict=True):
            here = cast(at, "int64")
            first = here * extent // count
            made.append((first, ((here + 1) * extent + (count - 1)) // count))
        return made

    def add(*i: PrimExpr) -> PrimExpr:
        at: list[PrimExpr] = []
        inside: list[PrimExpr] = []
        taps: list[Any] = []
        for axis, (first, last) in enumerate(bounds(i)):
            most = (extents[axis] + (counts[axis] - 1)) // counts[axis] + 1
            taps.append(reduce_axis((0, most), name=f"k{axis}"))
            at.append(first + cast(taps[-1], "int64"))
            inside.append(at[-1] < last)
        value = if_then_else(all_of(*inside), x(i[0], i[1], *at), const(0, x.dtype))
        return te.sum(value, axis=taps)

    sums = compute(tuple(out), add, name="sums")

    def divide(*i: PrimExpr) -> PrimExpr:
        size = reduce(lambda product, b: product * (b[1] - b[0]), bounds(i), const(1, "int64"))
        return sums(*i) / cast(size, x.dtype)

    return compute(tuple(out), divide, name="averages")


for _axes in (1, 2, 3):
    register(f"aten._adaptive_avg_pool{_axes}d.default")(_adaptive_avg_pool(_axes))
    register(f"aten.adaptive_avg_pool{_axes}d.default")(_adaptive_avg_pool(_axes))


def _adaptive_max_pool(axes: int) -> Converter:
    def convert(node: Node) -> list[Any]:
        shape = node.shape
        x = _add_batch(node, node.tensor(0), axes)
        out = shape if len(shape) == axes + 2 else [1, *shape]
        counts = [int(v) for v in shape[-axes:]]
        if any(v == 0 for v in counts):
            return [op.full(tuple(shape), node.constant(0, d)) for d in (node.dtype, "int64")]
        places = node.compute(_places_of_parts(axes, counts), x, out)
        found = _bind_shape(node, places, shape)
        flat = (*out[:2], -1)
        rows = node.emit(op.reshape(x, flat))
        values = node.emit(op.gather_elements(rows, node.emit(op.reshape(places, flat)), 2))
        return [node.emit(op.reshape(values, tuple(shape))), found]

    return convert


for _axes in (2, 3):
    register(f"aten.adaptive_max_pool{_axes}d.default")(_adaptive_max_pool(_axes))


def _places_of_parts(axes: int, counts: list[int]) -> Callable[[Tensor, list[Any]], Tensor]:
    """Make the kernel that finds the greatest of each part of images that are divided evenly."""
    reducer = _make_greatest()

    def kernel(x: Tensor, out: list[Any]) -> Tensor:
        extents = [cast(e, "int64") for e in list(x.shape)[2:]]

        def element(*i: PrimExpr) -> Any:
            at: list[PrimExpr] = []
            inside: list[Any] = []
            taps: list[Any] = []
            for a, (extent, count) in enumerate(zip(extents, counts, strict=True)):
                here = cast(i[a + 2], "int64")
                start = here * extent // count
                end = ((here + 1) * extent + (count - 1)) // count
                tap = reduce_axis((0, (extent + (count - 1)) // count + 1), name=f"k{a}")
                taps.append(tap)
                at.append(start + cast(tap, "int64"))
                inside.append(at[-1] < end)
            flat = reduce(lambda total, p: total * p[0] + p[1], zip(extents, at), const(0, "int64"))
            return reducer((flat, x(i[0], i[1], *at)), taps, all_of(*inside))

        made: Any = compute(tuple(out), element, name="places")
        return made[0]

    return kernel


# -- gradients -----------------------------------------------------------------------------------
@register("aten.max_pool2d_with_indices_backward.default",
          "aten.max_pool3d_with_indices_backward.default")  # fmt: skip
def _max_pool_backward(node: Node) -> RelaxExpr:
    axes = 2 if "2d" in node.operator else 3
    grad, places = node.tensor(0), node.tensor("indices")
    dims, made = node.shape, node.dims(0)
    front = dims[:-axes]
    flat = (*front, node.simplify(reduce(mul, dims[-axes:], 1)))
    less = (*front, node.simplify(reduce(mul, made[-axes:], 1)))
    zeros = node.emit(op.full(flat, node.constant(0)))
    added = node.emit(
        op.scatter_elements(
            zeros,
            node.emit(op.reshape(places, less)),
            node.emit(op.reshape(grad, less)),
            len(front),
            "add",
        )
    )
    return op.reshape(added, tuple(dims))


@register("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def _avg_pool_backward(node: Node) -> RelaxExpr:
    axes = 2 if "2d" in node.operator else 3
    windows = _Windows(node, axes, dilated=False)
    grad = _add_batch(node, node.tensor(0), axes)
    dims = node.shape if len(node.shape) == axes + 2 else [1, *node.shape]
    include = bool(node["count_include_pad"])
    divisor = node["divisor_override"]
    made = node.compute(_make_gathering(windows, include, divisor), grad, dims)
    return _bind_shape(node, made, node.shape)


def _make_gathering(
    windows: _Windows, include: bool, divisor: int | None
) -> Callable[[Tensor, list[Any]], Tensor]:
    """Make the kernel that sums, for each element, over the windows that it is in."""

    def kernel(grad: Tensor, dims: list[Any]) -> Tensor:
        counts = list(grad.shape)[2:]
        wide = compute_dtype(grad.dtype)

        def element(*i: PrimExpr) -> PrimExpr:
            taps = [reduce_axis((0, k), name=f"k{a}") for a, k in enumerate(windows.size)]
            inside: list[Any] = []
            places: list[PrimExpr] = []
            elements: Any = const(1, "int64")
            for a, tap in enumerate(taps):
                extent, stride, pad = dims[a + 2], windows.stride[a], windows.padding[a]
                moved = i[a + 2] + pad - tap
                place = moved // stride
                inside += [(moved % stride).equal(0), place >= 0, place < counts[a]]
                places.append(place)
                start = place * stride - pad
                end = _emit_min(start + windows.size[a], extent + pad)
                if not include:
                    start, end = Max(start, const(0, start.dtype)), _emit_min(end, extent)
                elements = elements * cast(end - start, "int64")
            value = cast(grad(i[0], i[1], *places), wide)
            by = const(divisor, wide) if divisor else cast(elements, wide)
            return te.sum(if_then_else(all_of(*inside), value / by, const(0.0, wide)), axis=taps)

        total = compute(tuple(dims), element, name="pool_gradient")
        return compute(tuple(dims), lambda *i: cast(total(*i), grad.dtype), name="rounded")

    return kernel


def _emit_min(a: PrimExpr, b: Any) -> PrimExpr:
    other = b if isinstance(b, PrimExpr) else const(b, a.dtype)
    return Min(cast(a, "int64"), cast(other, "int64"))


@register("aten._adaptive_avg_pool2d_backward.default",
          "aten._adaptive_avg_pool3d_backward.default",
          note="images whose extents are not known, unless they become one element")  # fmt: skip
def _adaptive_backward(node: Node) -> RelaxExpr:
    axes = 2 if "2d" in node.operator else 3
    grad = node.tensor(0)
    dims, made = node.shape, node.dims(0)
    for axis in range(len(dims) - axes, len(dims)):
        extent, count = dims[axis], made[axis]
        if isinstance(count, int) and count == 1:
            share = node.as_tensor(extent, node.dtype)
            grad = node.emit(op.divide(grad, share))
            continue
        if not isinstance(extent, int) or not isinstance(count, int):
            raise node.refuse("the spatial extents of its input are unknown")
        grad = node.compute(_make_covering(axis, extent, count), grad)
    return op.broadcast_to(grad, tuple(dims))


def _make_covering(axis: int, extent: int, count: int) -> Callable[[Tensor], Tensor]:
    """Make the kernel that sums along an axis over the windows that each element is in."""

    def kernel(grad: Tensor) -> Tensor:
        shape = [*grad.shape]
        shape[axis] = const(extent, "int64")

        def element(*i: PrimExpr) -> PrimExpr:
            k = reduce_axis((0, count), name="k")
            window = cast(k, "int64")
            start = window * extent // count
            end = ((window + 1) * extent + (count - 1)) // count
            here = cast(i[axis], "int64")
            place = [*i]
            place[axis] = k
            value = grad(*place) / cast(end - start, grad.dtype)
            inside = all_of(here >= start, here < end)
            return te.sum(if_then_else(inside, value, const(0.0, grad.dtype)), axis=k)

        return compute(tuple(shape), element, name="adaptive_gradient")

    return kernel
