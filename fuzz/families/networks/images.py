"""Layers of vision networks: convolutions, pooling and normalisations in any layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fuzz.families.contractions.terms import dtype_of, float_like
from fuzz.families.networks.graph import Array, Net, Value

__all__ = ["Images", "convolve_transposed", "convolved"]

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def convolved(
    x: Array, w: Array, strides: Any, before: Any, after: Any, dilation: Any, groups: int
) -> Array:
    """Convolve (N, C, …) with (O, C / groups, …)."""
    axes = tuple(range(2, x.ndim))
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, after)])
    whole = [d * (k - 1) + 1 for k, d in zip(w.shape[2:], dilation)]
    seen = sliding_window_view(padded, whole, axis=axes)
    steps = (slice(None), slice(None), *[slice(None, None, s) for s in strides])
    seen = seen[(*steps, *[slice(None, None, d) for d in dilation])]
    n, outs = x.shape[0], w.shape[0] // groups
    grouped = seen.reshape(n, groups, x.shape[1] // groups, *seen.shape[2:])
    weights = w.reshape(groups, outs, *w.shape[1:])
    made = np.einsum(
        f"ngi{'xyz'[: len(axes)]}{'abc'[: len(axes)]},goi{'abc'[: len(axes)]}"
        f"->ngo{'xyz'[: len(axes)]}",
        grouped,
        weights,
    )
    return made.reshape(n, w.shape[0], *made.shape[3:])


def convolve_transposed(
    x: Array, w: Array, strides: Any, before: Any, after: Any, more: Any, dilation: Any, groups: int
) -> Array:
    """Transposed convolution of (N, C, …) by (C, O / groups, …)."""
    gaps = np.zeros(
        (*x.shape[:2], *[(n - 1) * s + 1 for n, s in zip(x.shape[2:], strides)]), x.dtype
    )
    gaps[(slice(None), slice(None), *[slice(None, None, s) for s in strides])] = x
    reach = [d * (k - 1) for k, d in zip(w.shape[2:], dilation)]
    pads = [(r - b, r - a + m) for r, b, a, m in zip(reach, before, after, more)]
    cut = [slice(max(0, -lo), n - max(0, -hi)) for (lo, hi), n in zip(pads, gaps.shape[2:])]
    gaps = gaps[(slice(None), slice(None), *cut)]
    pads = [(max(0, lo), max(0, hi)) for lo, hi in pads]
    flipped = np.flip(w, tuple(range(2, w.ndim)))
    ins = w.shape[0] // groups
    parts = flipped.reshape(groups, ins, *w.shape[1:]).swapaxes(1, 2)
    weights = parts.reshape(-1, ins, *w.shape[2:])
    ones = [1] * len(reach)
    first, last = zip(*pads)
    return convolved(gaps, weights, ones, first, last, dilation, groups)


def laid_out(array: Array, plain: str, layout: str) -> Array:
    """Put the axes of a plain layout into another one, which may have blocks such as ``4c``."""
    tokens = _tokens(layout)
    parts: list[str] = []
    extents: list[int] = []
    for letter, extent in zip(plain, array.shape):
        block = next((size for name, size in tokens if name == letter.lower()), None)
        parts += [letter] if block is None else [letter, letter.lower()]
        extents += [extent] if block is None else [extent // block, block]
    order = [parts.index(name) for name, _ in tokens]
    return np.ascontiguousarray(array.reshape(extents).transpose(order))


def plainly(array: Array, plain: str, layout: str) -> Array:
    """Undo ``laid_out``."""
    names = [name for name, _ in _tokens(layout)]
    order: list[int] = []
    shape: list[int] = []
    for letter in plain:
        places = [names.index(n) for n in (letter, letter.lower()) if n in names]
        order += places
        shape.append(int(np.prod([array.shape[p] for p in places], dtype=np.int64)))
    return array.transpose(order).reshape(shape)


def _tokens(layout: str) -> list[tuple[str, int]]:
    """List the axes of a layout, blocks in lower case with their sizes."""
    found: list[tuple[str, int]] = []
    digits = ""
    for mark in layout:
        if mark.isdigit():
            digits += mark
        else:
            found.append((mark, int(digits or 0)))
            digits = ""
    return found


def _beyond(extent: int, before: int, after: int, whole: int, stride: int) -> int:
    """Return how far a last window that starts inside reaches beyond the padding."""
    room = extent + before + after - whole
    start = (room // stride + 1) * stride
    return start - room if room % stride and start < extent + before else 0


class Images:
    """Layers on one tensor of images, in one layout."""

    def __init__(self, net: Net, dtype: str, total: str) -> None:
        c = self.c = net.c
        self.net, self.dtype, self.total = net, dtype, total
        self.rank = c.weighted([(2, 1), (6, 2), (2, 3)])
        letters = _SPATIAL[self.rank]
        self.plain = f"NC{letters}"
        options = [(6.0, self.plain), (4.0, f"N{letters}C"), (0.7, f"NC{letters}4c")]
        self.layout = c.weighted(options)
        self.blocked = self.layout[-1] == "c"
        batch = net.open_size("n", 3)
        channels = 4 * c.integer(1, 4) if self.blocked else c.pick([1, 2, 3, 4, 8, 12, 16, 17])
        most = {1: 33, 2: 12, 3: 6}[self.rank]
        if net.large:
            batch, most = ("1", 1), {1: 300, 2: 40, 3: 12}[self.rank]
            channels = c.pick([32, 48, 64] if self.blocked else [16, 32, 48, 64, 65])
        spatial = [c.integer(1, most) for _ in letters]
        self.batch = batch[0]
        array = laid_out(
            net.numbers((batch[1], channels, *spatial), dtype), self.plain, self.layout
        )
        extents = [batch if n == "N" else e for (n, _), e in zip(_tokens(self.layout), array.shape)]
        self.x = net.param(extents, dtype, array=array)

    def images(self, value: Value) -> Array:
        """Return the images in the plain layout."""
        return plainly(value.array, self.plain, self.layout)

    def put(self, text: str, plain: Array) -> Value:
        """Add a line that gives images."""
        made = laid_out(plain, self.plain, self.layout)
        dims = [
            self.batch if n == "N" else str(e)
            for (n, _), e in zip(_tokens(self.layout), made.shape)
        ]
        return self.net.emit(text, made, dims)

    # -- convolutions --------------------------------------------------------------------------
    def windows(self, spatial: Sequence[int], most: int = 5) -> tuple[list[int], ...]:
        """Draw kernels, strides, paddings before and after, and dilations that fit images."""
        c = self.c
        kernel = [c.pick([k for k in (1, 1, 2, 3, 3, 4, 5) if k <= most]) for _ in spatial]
        strides = [c.pick([1, 1, 1, 2, 3]) for _ in spatial]
        dilation = [c.pick([1, 1, 1, 2]) for _ in spatial]
        before = [c.integer(0, (k * d) // 2) for k, d in zip(kernel, dilation)]
        after = list(before) if c.chance(0.7) else [c.integer(0, 2) for _ in spatial]
        for i, n in enumerate(spatial):
            if n + before[i] + after[i] < dilation[i] * (kernel[i] - 1) + 1:
                kernel[i] = 1
        return kernel, strides, before, after, dilation

    def conv(self, x: Value) -> Value:
        """Convolve: densely, by groups, or each channel by itself."""
        c, net = self.c, self.net
        plain = self.images(x)
        channels = plain.shape[1]
        kernel, strides, before, after, dilation = self.windows(
            plain.shape[2:], 3 if self.rank > 2 else 5
        )
        groups = c.pick([g for g in (1, 1, 1, 2, 3, 4, channels) if channels % g == 0])
        if self.blocked and groups != 1:
            groups = 1
        outs = c.pick([16, 32, 64, 96] if net.large else [1, 2, 3, 4, 8, 16, 17, 32])
        outs = 4 * max(1, outs // 4) if self.blocked else groups * max(1, outs // groups)
        cost = np.prod([*plain.shape[:1], *plain.shape[2:], *kernel, outs, channels // groups])
        while cost > (30_000_000 if net.large else 300_000) and outs > 4:
            outs, cost = outs // 2, cost / 2
            outs = 4 * max(1, outs // 4) if self.blocked else groups * max(1, outs // groups)
        first = f"OI{_SPATIAL[self.rank]}"
        layouts = [first, first, f"{_SPATIAL[self.rank]}IO", f"O{_SPATIAL[self.rank]}I"]
        layout = f"{first}4i4o" if self.blocked else c.pick(layouts)
        shape = (outs, channels // groups, *kernel)
        weights = net.numbers(shape, self.dtype, -2, 2)

        def compute(a: Array, b: Array) -> Array:
            return convolved(a, b, strides, before, after, dilation, groups)

        return self.product(
            "", x, weights, layout, first, compute, strides, before, after, dilation, groups
        )

    def transposed(self, x: Value) -> Value:
        """Convolve the other way round."""
        c, net = self.c, self.net
        if self.blocked:
            return self.conv(x)
        plain = self.images(x)
        channels = plain.shape[1]
        kernel, strides, before, after, dilation = self.windows(plain.shape[2:], 3)
        more = [c.pick([0, s - 1]) for s in strides]
        for i, n in enumerate(plain.shape[2:]):
            whole = (n - 1) * strides[i] + dilation[i] * (kernel[i] - 1) + 1 + more[i]
            if whole - before[i] - after[i] < 1 or whole > (100 if net.large else 24):
                before[i] = after[i] = more[i] = 0
                strides[i] = 1
        groups = c.pick([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
        weights = net.numbers((channels, c.pick([1, 2, 3, 4, 8]), *kernel), self.dtype, -2, 2)
        first = f"IO{_SPATIAL[self.rank]}"

        def compute(a: Array, b: Array) -> Array:
            return convolve_transposed(a, b, strides, before, after, more, dilation, groups)

        extra = f", output_padding={more}"
        return self.product(
            f"_transpose{extra}",
            x,
            weights,
            first,
            first,
            compute,
            strides,
            before,
            after,
            dilation,
            groups,
        )

    def product(
        self,
        kind: str,
        x: Value,
        weights: Array,
        layout: str,
        first: str,
        compute: Any,
        strides: Any,
        before: Any,
        after: Any,
        dilation: Any,
        groups: int,
    ) -> Value:
        """Add a line that multiplies and sums."""
        net = self.net
        kind, comma, extra = kind.partition(",")
        extra = comma + extra
        x = (
            net.small(x, 2 if self.dtype == "bfloat16" else 3)
            if x.dtype == self.dtype
            else self.narrowed(x)
        )
        laid = laid_out(weights, first, layout)
        w = Value("", laid, ())

        def whole(a: Array, b: Array) -> Array:
            return compute(plainly(a, self.plain, self.layout), plainly(b, first, layout))

        made = net.summed_exactly(whole, self.total, x, w)
        if made is None:
            laid = np.where(net.random.random(laid.shape) < 0.2, np.sign(laid), 0).astype(
                laid.dtype
            )
            w = Value("", laid, ())
            made = net.summed_exactly(whole, self.total, x, w)
        if made is None:
            return x
        w = net.param(list(laid.shape), self.dtype, array=laid, weight=True)
        out = f', out_dtype="{self.total}"' if self.total != self.dtype else ""
        return self.put(
            f"R.nn.conv{self.rank}d{kind}({x.name}, {w.name}, strides={list(strides)}, "
            f"padding={[*before, *after]}, dilation={list(dilation)}, groups={groups}, "
            f'data_layout="{self.layout}", kernel_layout="{layout}"{extra}{out})',
            made,
        )

    def narrowed(self, x: Value) -> Value:
        """Quantise sums: shift, clip, convert."""
        net = self.net
        if not float_like(x.dtype):
            shifted = net.emit(
                f"R.right_shift({x.name}, {net.const(4, x.dtype)})",
                x.array >> dtype_of(x.dtype).type(4),
                x.dims,
            )
            info = np.iinfo(self.dtype)
            x = net.emit(
                f"R.clip({shifted.name}, {info.min}, {info.max})",
                np.clip(shifted.array, info.min, info.max),
                x.dims,
            )
        else:
            x = net.small(x)
        return net.emit(
            f'R.astype({x.name}, "{self.dtype}")', x.array.astype(dtype_of(self.dtype)), x.dims
        )

    # -- what follows --------------------------------------------------------------------------
    def bias(self, x: Value) -> Value:
        """Add one number to each channel."""
        net = self.net
        channels = self.images(x).shape[1]
        at = self.layout.index("C")
        if self.blocked:
            return self.activation(x)
        b = net.weight([channels], x.dtype)
        ndim = len(x.dims)
        shape = [channels if a == at else 1 for a in range(ndim)]
        if self.c.chance(0.5) and at != ndim - 1:
            axes = list(range(1, ndim - at))
            wide = net.emit(
                f"R.expand_dims({b.name}, {axes})", b.array.reshape(channels, *[1] * len(axes))
            )
        else:
            wide = net.emit(f"R.reshape({b.name}, {tuple(shape)})", b.array.reshape(shape))
        with np.errstate(all="ignore"):
            made = (x.array + wide.array).astype(x.array.dtype)
        return net.emit(f"R.add({x.name}, {wide.name})", made, x.dims)

    def activation(self, x: Value) -> Value:
        """Keep what is positive, or clip."""
        net, zero = self.net, x.array.dtype.type(0)
        if self.c.chance(0.6):
            return net.emit(f"R.nn.relu({x.name})", np.maximum(x.array, zero), x.dims)
        six = x.array.dtype.type(6)
        return net.emit(
            f"R.clip({x.name}, 0, 6)", np.clip(x.array, zero, six).astype(x.array.dtype), x.dims
        )

    def pool(self, x: Value) -> Value:
        """Take the greatest element, or the mean, of windows."""
        c, net = self.c, self.net
        plain = self.images(x)
        kernel, strides, before, after, dilation = self.windows(plain.shape[2:], 4)
        pairs = zip(kernel, dilation, before, after)
        for i, (k, d, lo, hi) in enumerate(list(pairs)):
            # A window lies within the image at least in part.
            if max(lo, hi) >= d * (k - 1) + 1:
                before[i] = after[i] = 0
            if plain.shape[2 + i] + before[i] + after[i] < d * (k - 1) + 1:
                kernel[i], before[i], after[i] = 1, 0, 0
            if d > 1 and (before[i] or after[i]):
                dilation[i], before[i], after[i] = 1, 0, 0
                kernel[i] = min(kernel[i], plain.shape[2 + i])
        mean = float_like(x.dtype) and c.chance(0.5)
        include = c.chance(0.5)
        options = (
            f"pool_size={kernel}, strides={strides}, padding={before + after}, "
            f'dilation={dilation}, layout="{self.layout}"'
        )
        whole = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
        axes = tuple(range(2, plain.ndim))
        beyond = [0] * self.rank
        if c.chance(0.4):
            options += ", ceil_mode=True"
            sides = zip(plain.shape[2:], before, after, whole, strides)
            beyond = [_beyond(*side) for side in sides]

        def seen(array: Array, fill: Any, padding: Any = None) -> Array:
            """List the windows of an image, its padding, and what lies beyond, of ``fill``."""
            sides = [(0, 0), (0, 0), *zip(before, after)]
            padded = np.pad(array, sides, constant_values=fill if padding is None else padding)
            ends = [(0, 0), (0, 0), *[(0, more) for more in beyond]]
            padded = np.pad(padded, ends, constant_values=fill)
            found = sliding_window_view(padded, whole, axis=axes)
            steps = (slice(None), slice(None), *[slice(None, None, s) for s in strides])
            return found[(*steps, *[slice(None, None, d) for d in dilation])]

        last = tuple(range(-self.rank, 0))
        if not mean:
            low = -np.inf if float_like(x.dtype) else int(np.iinfo(x.dtype).min)
            wide = plain.astype("float64" if float_like(x.dtype) else "int64")
            made = seen(wide, low).max(last).astype(x.array.dtype)
            return self.put(f"R.nn.max_pool{self.rank}d({x.name}, {options})", made)
        x = net.small(x)
        plain = self.images(x).astype("float64")
        sums = seen(plain, 0).sum(last)
        counts = seen(np.ones_like(plain), 0, int(include)).sum(last)
        made = laid_out(sums / counts, self.plain, self.layout)
        text = f"R.nn.avg_pool{self.rank}d({x.name}, {options}, count_include_pad={include})"
        dims = [
            self.batch if n == "N" else str(e)
            for (n, _), e in zip(_tokens(self.layout), made.shape)
        ]
        return net.settle(text, made, x.dtype, dims) or x

    def norm(self, x: Value) -> Value:
        """Shift and scale channels as a model has learnt."""
        net, dtype = self.net, x.dtype
        if not float_like(dtype) or self.blocked:
            return self.activation(x)
        x = net.small(x)
        plain = self.images(x)
        channels = plain.shape[1]
        gamma, beta, mean = (net.weight([channels], dtype) for _ in range(3))
        var = net.weight([channels], dtype, 1, 4)
        column = (channels, *[1] * self.rank)
        g, b, m, v = (a.wide().reshape(column) for a in (gamma, beta, mean, var))
        made = laid_out(
            (plain.astype("float64") - m) / np.sqrt(v + 1e-5) * g + b, self.plain, self.layout
        )
        axis = self.layout.index("C")
        if self.c.chance(0.7):
            text = (
                f"R.nn.batch_norm({x.name}, {gamma.name}, {beta.name}, {mean.name}, {var.name}, "
                f"axis={axis}, epsilon=1e-5, training=False)[0]"
            )
        else:
            text = (
                f"R.nn.batch_norm({x.name}, {gamma.name}, {beta.name}, {mean.name}, {var.name}, "
                f"{axis}, 1e-5, True, True, 0.1, False)[0]"
            )
        return net.settle(text, made, dtype, x.dims) or x

    def residual(self, x: Value) -> Value:
        """Add what a convolution that keeps the shape makes of the images."""
        net = self.net
        other = self.step(self.step(x))
        if other.shape == x.shape and other.dtype == x.dtype and other is not x:
            with np.errstate(all="ignore"):
                made = (x.array + other.array).astype(x.array.dtype)
            return net.emit(f"R.add({other.name}, {x.name})", made, x.dims)
        if other.shape[0] == x.shape[0] and self.c.chance(0.5):
            one, two = self.pooled(x), self.pooled(other)
            if one.dtype == two.dtype:
                made = np.concatenate([one.array, two.array], -1)
                return net.emit(
                    f"R.concat(({one.name}, {two.name}), axis=-1)",
                    made,
                    (self.batch, str(made.shape[-1])),
                )
        return other

    def pooled(self, x: Value) -> Value:
        """Take the greatest of all pixels of each channel."""
        axes = [a for a, (n, _) in enumerate(_tokens(self.layout)) if n in "DHW"]
        if len(x.dims) != len(_tokens(self.layout)):
            return x
        made = x.array.max(tuple(axes))
        dims = [d for a, d in enumerate(x.dims) if a not in axes]
        found = self.net.emit(f"R.max({x.name}, axis={axes})", made, dims)
        if self.blocked:
            flat = made.reshape(made.shape[0], made.shape[1] * made.shape[2])
            return self.net.emit(
                f"R.nn.batch_flatten({found.name})", flat, (self.batch, str(flat.shape[1]))
            )
        return found

    def step(self, x: Value) -> Value:
        """Apply one layer."""
        if len(x.dims) != len(_tokens(self.layout)):
            return x
        layer = self.c.weighted(
            [
                (6, self.conv),
                (2, self.transposed),
                (3, self.bias),
                (3, self.activation),
                (2, self.pool),
                (2, self.norm),
            ]
        )
        return layer(x)

    def run(self) -> list[Value]:
        """Apply a few layers; return what they end with."""
        x = self.x
        for _ in range(self.c.integer(2, 6)):
            x = self.residual(x) if self.c.chance(0.15) else self.step(x)
        return [self.pooled(x) if self.c.chance(0.3) else x]
