"""Normalisations. 16-bit floats are computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.te import reduction as te
from loomir.te.tensor import Tensor
from loomir.te.topi.assume import assume_shape
from loomir.te.topi.reduction import count_as_float, reduce_over, wide_mean, wide_variance
from loomir.te.topi.shape import (
    Axes,
    Size,
    as_axes,
    as_axis,
    bad,
    compute_dtype,
    dims,
    has_equal_sizes,
    make,
    need,
    product,
    refuse_shapes,
)
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import PrimExpr, const, convert
from loomir.tir.expr import cast as converted

__all__ = [
    "batch_norm",
    "batch_norm_training",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "softmax",
]

Element = Callable[[Sequence[PrimExpr]], PrimExpr]


def _shift(name: str, x: Tensor, axis: int) -> tuple[int, Tensor]:
    """Take the greatest along an axis away, so that no exponential overflows."""
    need(name, "float", x)
    along = as_axis(name, axis, x.ndim)
    wide = compute_dtype(x.dtype)
    most = reduce_over("most", x, (along,), True, lambda at, _: converted(x(*at), wide), te.max)

    def element(*i: PrimExpr) -> PrimExpr:
        return converted(x(*i), wide) - most(*_with_zeros(i, along))

    return along, make("shifted", dims(x), element)


def _with_zeros(indices: Sequence[PrimExpr], *gone: int) -> list[PrimExpr | int]:
    """Return indices with 0 at axes of extent 1."""
    return [0 if a in gone else i for a, i in enumerate(indices)]


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Compute the softmax along an axis.

    Shapes: that of ``x``. Errors: TE0102, TE0103.
    """
    along, shifted = _shift("softmax", x, axis)
    power = make("power", dims(x), lambda *i: call_builtin("exp", shifted(*i)))
    total = reduce_over("total", power, (along,), True, lambda at, _: power(*at), te.sum)
    # One quotient for all elements: a division takes as long as a dozen products.
    share = make("share", dims(total), lambda *i: const(1, total.dtype) / total(*i))
    return make(
        "softmax", dims(x), lambda *i: converted(power(*i) * share(*_with_zeros(i, along)), x.dtype)
    )


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Compute the logarithm of the softmax along an axis, accurate for small values.

    Shapes: that of ``x``. Errors: TE0102, TE0103.
    """
    along, shifted = _shift("log_softmax", x, axis)
    total = reduce_over(
        "total", shifted, (along,), True, lambda at, _: call_builtin("exp", shifted(*at)), te.sum
    )

    def element(*i: PrimExpr) -> PrimExpr:
        rest = call_builtin("log", total(*_with_zeros(i, along)))
        return converted(shifted(*i) - rest, x.dtype)

    return make("log_softmax", dims(x), element)


def _make_scaling(
    name: str, x: Tensor, axes: Sequence[int], gamma: Tensor | None, beta: Tensor | None
) -> Callable[[PrimExpr, Sequence[PrimExpr]], PrimExpr]:
    """Return what multiplies by ``gamma`` and adds ``beta``, which have some axes of ``x``."""
    given = [t for t in (gamma, beta) if t is not None]
    need(name, "float", x, *given)
    wanted = [dims(x)[a] for a in axes]
    for t in given:
        if t.ndim != len(wanted) or not all(map(has_equal_sizes, dims(t), wanted)):
            refuse_shapes(name, wanted, dims(t))
    wide = compute_dtype(x.dtype)

    def scale_element(value: PrimExpr, i: Sequence[PrimExpr]) -> PrimExpr:
        at = [i[a] for a in axes]
        if gamma is not None:
            value = value * converted(gamma(*at), wide)
        if beta is not None:
            value = value + converted(beta(*at), wide)
        return converted(value, x.dtype)

    return scale_element


def _factor(squares: Tensor, epsilon: float, count: PrimExpr | None = None) -> Tensor:
    """Return the factor that scales to a variance of 1: one division for each variance."""

    def element(*i: PrimExpr) -> PrimExpr:
        value = squares(*i) if count is None else squares(*i) / count
        root = call_builtin("sqrt", value + const(epsilon, squares.dtype))
        return const(1, squares.dtype) / root

    made: Tensor = make("factor", dims(squares), element)
    return made


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
    scaled = _make_scaling("layer_norm", x, axes, gamma, beta)
    wide = compute_dtype(x.dtype)
    middle = wide_mean(x, axes, keepdims=True)
    variance = wide_variance(x, axes, keepdims=True, middle=middle)
    factor = _factor(variance, epsilon)

    def element(*i: PrimExpr) -> PrimExpr:
        at = _with_zeros(i, *axes)
        return scaled((converted(x(*i), wide) - middle(*at)) * factor(*at), i)

    return make("layer_norm", dims(x), element)


def rms_norm(
    x: Tensor, gamma: Tensor | None = None, axis: Axes = -1, epsilon: float = 1e-5
) -> Tensor:
    """Scale elements to a mean square of 1 over axes, then by ``gamma``.

    Shapes: that of ``x``; ``gamma`` has its extents at ``axis``. Errors: TE0101 to TE0103.
    """
    axes = as_axes("rms_norm", axis, x.ndim)
    scaled = _make_scaling("rms_norm", x, axes, gamma, None)
    wide = compute_dtype(x.dtype)

    def square(at: Sequence[PrimExpr], _: Sequence[PrimExpr]) -> PrimExpr:
        value = converted(x(*at), wide)
        return value * value

    total = reduce_over("squares", x, axes, True, square, te.sum)
    factor = _factor(total, epsilon, count_as_float(product(dims(x)[a] for a in axes), wide))

    def element(*i: PrimExpr) -> PrimExpr:
        return scaled(converted(x(*i), wide) * factor(*_with_zeros(i, *axes)), i)

    return make("rms_norm", dims(x), element)


def batch_norm(
    x: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Shift and scale channels by the given statistics, then by ``gamma`` and ``beta``.

    Shapes: that of ``x``; the others have one element per channel. Errors: TE0101 to TE0103.
    """
    channel = as_axis("batch_norm", axis, x.ndim)
    scaled = _make_scaling("batch_norm", x, [channel], gamma, beta)
    _make_scaling("batch_norm", x, [channel], mean, variance)
    wide = compute_dtype(x.dtype)

    def element(*i: PrimExpr) -> PrimExpr:
        c = i[channel]
        factor = call_builtin("sqrt", converted(variance(c), wide) + const(epsilon, wide))
        return scaled((converted(x(*i), wide) - converted(mean(c), wide)) / factor, i)

    return make("batch_norm", dims(x), element)


def batch_norm_training(
    x: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    momentum: float = 0.1,
) -> list[Tensor]:
    """Shift and scale channels by their own statistics, and move the running ones towards them.

    Returns the channels, then ``(1 - momentum) * running + momentum * own`` of means and of
    variances, which divide by the number of elements.
    Shapes: that of ``x``; the others have one element per channel. Errors: TE0101 to TE0103.
    """
    channel = as_axis("batch_norm_training", axis, x.ndim)
    over = tuple(a for a in range(x.ndim) if a != channel)
    scaled = _make_scaling("batch_norm_training", x, [channel], gamma, beta)
    _make_scaling("batch_norm_training", x, [channel], mean, variance)
    wide = compute_dtype(x.dtype)
    own = [wide_mean(x, over, keepdims=False), wide_variance(x, over, keepdims=False)]

    def element(*i: PrimExpr) -> PrimExpr:
        c = i[channel]
        factor = call_builtin("sqrt", own[1](c) + const(epsilon, wide))
        return scaled((converted(x(*i), wide) - own[0](c)) / factor, i)

    def move_axes(running: Tensor, current: Tensor) -> Tensor:
        def place(c: PrimExpr) -> PrimExpr:
            kept = converted(running(c), wide) * const(1 - momentum, wide)
            return converted(kept + current(c) * const(momentum, wide), x.dtype)

        made: Tensor = make("moved", dims(running), place)
        return made

    made: Tensor = make("batch_norm_training", dims(x), element)
    return [made, move_axes(mean, own[0]), move_axes(variance, own[1])]


def instance_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    channel_axis: int = 1,
    axis: Axes = None,
) -> Tensor:
    """Shift and scale each channel of each item to mean 0 and variance 1.

    ``axis``: those to normalise over, where it is left out all but items and channels.
    Shapes: that of ``x``; ``gamma`` and ``beta`` have one element per channel.
    Errors: TE0101 to TE0104.
    """
    if x.ndim < 2:
        bad("instance_norm", f"there are {x.ndim} axes", "give items and channels")
    channel, over = _find_normalised_axes("instance_norm", x, channel_axis, axis)
    scaled = _make_scaling("instance_norm", x, [channel], gamma, beta)
    wide = compute_dtype(x.dtype)
    middle = wide_mean(x, over, keepdims=True)
    variance = wide_variance(x, over, keepdims=True, middle=middle)
    factor = _factor(variance, epsilon)

    def element(*i: PrimExpr) -> PrimExpr:
        at = _with_zeros(i, *over)
        return scaled((converted(x(*i), wide) - middle(*at)) * factor(*at), i)

    made: Tensor = make("instance_norm", dims(x), element)
    return made


def _find_normalised_axes(
    name: str, x: Tensor, channel_axis: int, axis: Axes
) -> tuple[int, tuple[int, ...]]:
    """Return the axis of channels, and those to normalise over."""
    channel = as_axis(name, channel_axis, x.ndim)
    over = as_axes(name, axis, x.ndim)
    if axis is None:
        over = tuple(a for a in over if a not in (0, channel))
    return channel, over


def group_norm(
    x: Tensor,
    groups: int,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    channel_axis: int = 1,
    axis: Axes = None,
) -> Tensor:
    """Shift and scale groups of channels of each item to mean 0 and variance 1.

    ``axis``: those to normalise over besides channels, all but items where it is left out.
    Shapes: that of ``x``; ``gamma`` and ``beta`` have one element per channel.
    Errors: TE0101 to TE0104, RUN0212 where the channels turn out not to make equal groups.
    """
    if x.ndim < 2:
        bad("group_norm", f"there are {x.ndim} axes", "give items and channels")
    channel, rest = _find_normalised_axes("group_norm", x, channel_axis, axis)
    channels = dims(x)[channel]
    if groups < 1 or (isinstance(channels, int) and (not channels or channels % groups)):
        bad("group_norm", f"{channels} channels do not make {groups} groups", "use a divisor")
    per = channels // groups
    scaled = _make_scaling("group_norm", x, [channel], gamma, beta)
    wide = compute_dtype(x.dtype)
    shape = dims(x)
    x = assume_shape(x, [per * groups if a == channel else n for a, n in enumerate(shape)])

    over = [a for a in rest if a != channel]
    if channel == x.ndim - 1 and over:
        middle, factor = _group_statistics(x, groups, per, over, epsilon)

        def compute_element(*i: PrimExpr) -> PrimExpr:
            at = _with_zeros(i, *over)
            return scaled((converted(x(*i), wide) - middle(*at)) / factor(*at), i)

        return make("group_norm", shape, compute_element)

    def member(*i: PrimExpr) -> PrimExpr:
        return x(*i[:channel], i[channel] * per + i[channel + 1], *i[channel + 2 :])

    parts = make("parts", [*shape[:channel], groups, per, *shape[channel + 1 :]], member)
    over = sorted({channel + 1, *(a + (a > channel) for a in rest)})
    middle = wide_mean(parts, tuple(over), keepdims=True)
    variance = wide_variance(parts, tuple(over), keepdims=True, middle=middle)

    def element(*i: PrimExpr) -> PrimExpr:
        place = [*i[:channel], i[channel] // per, i[channel] % per, *i[channel + 1 :]]
        at = _with_zeros(place, *over)
        factor = call_builtin("sqrt", variance(*at) + const(epsilon, wide))
        return scaled((converted(x(*i), wide) - middle(*at)) / factor, i)

    made: Tensor = make("group_norm", shape, element)
    return made


def _group_statistics(
    x: Tensor, groups: int, per: Size, over: Sequence[int], epsilon: float
) -> tuple[Tensor, Tensor]:
    """Return the mean and the divisor of each channel, where channels are the last axis.

    Channels are summed side by side, as they lie, and only then together.
    """
    wide, shape = compute_dtype(x.dtype), dims(x)
    count = count_as_float(product([per, *(shape[a] for a in over)]), wide)

    def average(name: str, value: Callable[[Sequence[PrimExpr]], PrimExpr]) -> Tensor:
        each = reduce_over(name, x, tuple(over), True, lambda at, _: value(at), te.sum)
        member = te.reduce_axis((0, convert(per)), "c")

        def group(*i: PrimExpr) -> PrimExpr:
            return te.sum(each(*i[:-1], i[-1] * per + member), axis=member)

        total = make(f"{name}_of_groups", [*dims(each)[:-1], groups], group)
        made: Tensor = make("mean", dims(total), lambda *i: total(*i) / count)
        return made

    def elements_at(*i: PrimExpr) -> list[PrimExpr]:
        return [*i[:-1], i[-1] // per]

    mean = average("sum", lambda at: converted(x(*at), wide))
    own = [1 if a in over else n for a, n in enumerate(shape)]
    middle: Tensor = make("middle", own, lambda *i: mean(*elements_at(*i)))

    def square(at: Sequence[PrimExpr]) -> PrimExpr:
        rest = converted(x(*at), wide) - middle(*_with_zeros(at, *over))
        return rest * rest

    variance = average("squares", square)

    def divisor(*i: PrimExpr) -> PrimExpr:
        return call_builtin("sqrt", variance(*elements_at(*i)) + const(epsilon, wide))

    return middle, make("factor", own, divisor)
