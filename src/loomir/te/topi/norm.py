"""Normalisations. Floats of 16 bits are computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.te import reduction as te
from loomir.te.tensor import Tensor
from loomir.te.topi.manipulate import reshape
from loomir.te.topi.reduction import counted_as, reduced, wide_mean, wide_variance
from loomir.te.topi.shape import (
    Axes,
    as_axes,
    as_axis,
    bad,
    dims,
    equal_sizes,
    make,
    need,
    product,
    refuse_shapes,
    working,
)
from loomir.tir.expr import PrimExpr, const
from loomir.tir.expr import cast as converted
from loomir.tir.op import call_builtin

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "softmax",
]

Element = Callable[[Sequence[PrimExpr]], PrimExpr]


def _shifted(name: str, x: Tensor, axis: int) -> tuple[int, Tensor]:
    """Take the greatest along an axis away, so that no exponential overflows."""
    need(name, "float", x)
    along = as_axis(name, axis, x.ndim)
    wide = working(x.dtype)
    most = reduced("most", x, (along,), True, lambda at, _: converted(x(*at), wide), te.max)

    def element(*i: PrimExpr) -> PrimExpr:
        return converted(x(*i), wide) - most(*_with(i, along))

    return along, make("shifted", dims(x), element)


def _with(indices: Sequence[PrimExpr], *gone: int) -> list[PrimExpr | int]:
    """Give indices with 0 at axes of extent 1."""
    return [0 if a in gone else i for a, i in enumerate(indices)]


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Make exponentials that add up to 1 along an axis.

    Shapes: that of ``x``. Errors: TE0102, TE0103.
    """
    along, shifted = _shifted("softmax", x, axis)
    power = make("power", dims(x), lambda *i: call_builtin("exp", shifted(*i)))
    total = reduced("total", power, (along,), True, lambda at, _: power(*at), te.sum)
    return make(
        "softmax", dims(x), lambda *i: converted(power(*i) / total(*_with(i, along)), x.dtype)
    )


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Make logarithms of softmax, without losing small ones.

    Shapes: that of ``x``. Errors: TE0102, TE0103.
    """
    along, shifted = _shifted("log_softmax", x, axis)
    total = reduced(
        "total", shifted, (along,), True, lambda at, _: call_builtin("exp", shifted(*at)), te.sum
    )

    def element(*i: PrimExpr) -> PrimExpr:
        rest = call_builtin("log", total(*_with(i, along)))
        return converted(shifted(*i) - rest, x.dtype)

    return make("log_softmax", dims(x), element)


def _scaled(
    name: str, x: Tensor, axes: Sequence[int], gamma: Tensor | None, beta: Tensor | None
) -> Callable[[PrimExpr, Sequence[PrimExpr]], PrimExpr]:
    """Give what multiplies by ``gamma`` and adds ``beta``, which have some axes of ``x``."""
    given = [t for t in (gamma, beta) if t is not None]
    need(name, "float", x, *given)
    wanted = [dims(x)[a] for a in axes]
    for t in given:
        if t.ndim != len(wanted) or not all(map(equal_sizes, dims(t), wanted)):
            refuse_shapes(name, wanted, dims(t))
    wide = working(x.dtype)

    def scaled(value: PrimExpr, i: Sequence[PrimExpr]) -> PrimExpr:
        at = [i[a] for a in axes]
        if gamma is not None:
            value = value * converted(gamma(*at), wide)
        if beta is not None:
            value = value + converted(beta(*at), wide)
        return converted(value, x.dtype)

    return scaled


def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axis: Axes = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Shift and scale elements to mean 0 and variance 1 over axes, then by ``gamma`` and ``beta``.

    Shapes: that of ``x``; ``gamma`` and ``beta`` have its extents at ``axis``.
    Errors: TE0101 to TE0103.
    """
    axes = as_axes("layer_norm", axis, x.ndim)
    scaled = _scaled("layer_norm", x, axes, gamma, beta)
    wide = working(x.dtype)
    middle = wide_mean(x, axes, keepdims=True)
    spread = wide_variance(x, axes, keepdims=True)

    def element(*i: PrimExpr) -> PrimExpr:
        at = _with(i, *axes)
        factor = call_builtin("sqrt", spread(*at) + const(epsilon, wide))
        return scaled((converted(x(*i), wide) - middle(*at)) / factor, i)

    return make("layer_norm", dims(x), element)


def rms_norm(
    x: Tensor, gamma: Tensor | None = None, axis: Axes = -1, epsilon: float = 1e-5
) -> Tensor:
    """Scale elements to a mean square of 1 over axes, then by ``gamma``.

    Shapes: that of ``x``; ``gamma`` has its extents at ``axis``. Errors: TE0101 to TE0103.
    """
    axes = as_axes("rms_norm", axis, x.ndim)
    scaled = _scaled("rms_norm", x, axes, gamma, None)
    wide = working(x.dtype)

    def square(at: Sequence[PrimExpr], _: Sequence[PrimExpr]) -> PrimExpr:
        value = converted(x(*at), wide)
        return value * value

    total = reduced("squares", x, axes, True, square, te.sum)
    count = counted_as(product(dims(x)[a] for a in axes), wide)

    def element(*i: PrimExpr) -> PrimExpr:
        mean = total(*_with(i, *axes)) / count
        factor = call_builtin("sqrt", mean + const(epsilon, wide))
        return scaled(converted(x(*i), wide) / factor, i)

    return make("rms_norm", dims(x), element)


def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Shift and scale channels by the given statistics, then by ``gamma`` and ``beta``.

    Shapes: that of ``x``; the others have one element per channel. Errors: TE0101 to TE0103.
    """
    channel = as_axis("batch_norm", axis, x.ndim)
    scaled = _scaled("batch_norm", x, [channel], gamma, beta)
    _scaled("batch_norm", x, [channel], mean, variance)
    wide = working(x.dtype)

    def element(*i: PrimExpr) -> PrimExpr:
        c = i[channel]
        factor = call_builtin("sqrt", converted(variance(c), wide) + const(epsilon, wide))
        return scaled((converted(x(*i), wide) - converted(mean(c), wide)) / factor, i)

    return make("batch_norm", dims(x), element)


def instance_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Shift and scale each channel of each item to mean 0 and variance 1.

    Shapes: ``(items, channels, ...)``; ``gamma`` and ``beta`` have one element per channel.
    Errors: TE0101, TE0103, TE0104.
    """
    if x.ndim < 2:
        bad("instance_norm", f"there are {x.ndim} axes", "give items and channels")
    return _over("instance_norm", x, tuple(range(2, x.ndim)), gamma, beta, epsilon)


def _over(
    name: str,
    x: Tensor,
    axes: tuple[int, ...],
    gamma: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
) -> Tensor:
    """Normalise over axes, and scale channels."""
    scaled = _scaled(name, x, [1], gamma, beta)
    wide = working(x.dtype)
    middle = wide_mean(x, axes, keepdims=True)
    spread = wide_variance(x, axes, keepdims=True)

    def element(*i: PrimExpr) -> PrimExpr:
        at = _with(i, *axes)
        factor = call_builtin("sqrt", spread(*at) + const(epsilon, wide))
        return scaled((converted(x(*i), wide) - middle(*at)) / factor, i)

    return make(name, dims(x), element)


def group_norm(
    x: Tensor,
    groups: int,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Shift and scale groups of channels of each item to mean 0 and variance 1.

    Shapes: ``(items, channels, ...)``; ``gamma`` and ``beta`` have one element per channel.
    Errors: TE0101, TE0103, TE0104 unless the channels make equal groups.
    """
    channels = dims(x)[1] if x.ndim >= 2 else 0
    if not isinstance(channels, int) or groups < 1 or not channels or channels % groups:
        bad("group_norm", f"{channels} channels do not make {groups} groups", "use a divisor")
    per = channels // groups
    scaled = _scaled("group_norm", x, [1], gamma, beta)
    wide = working(x.dtype)
    parts = reshape(x, [dims(x)[0], groups, per, *dims(x)[2:]])
    axes = tuple(range(2, parts.ndim))
    middle = wide_mean(parts, axes, keepdims=False)
    spread = wide_variance(parts, axes, keepdims=False)

    def element(*i: PrimExpr) -> PrimExpr:
        at = (i[0], i[1] // per)
        factor = call_builtin("sqrt", spread(*at) + const(epsilon, wide))
        return scaled((converted(x(*i), wide) - middle(*at)) / factor, i)

    return make("group_norm", dims(x), element)
