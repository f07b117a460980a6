"""Products in tensor-expression chains: of matrices, of windows, and by subscripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuzz.families.as_python import float_like
from fuzz.families.tensors.pieces import EXACT, KnownTensor, Pieces
from loomir.te import topi

__all__ = ["Products"]


class Products(Pieces):
    """Makes sums of products."""

    def product(self, x: KnownTensor) -> KnownTensor | None:
        """Multiply matrices."""
        c = self.c
        if len(x.shape) < 2 or x.dtype == "bool" or math.prod(x.shape) > 2 * self.budget:
            return None
        k, m = x.shape[-1], c.pick([1, 3, 8, 16, 17, 33])
        transposed = c.chance(0.4)
        batch = x.shape[:-2] if c.chance(0.5) else ()
        dtype = x.dtype
        if dtype in ("int8", "uint8", "int16"):
            dtype = "int32"
        elif dtype in ("float16", "bfloat16") and c.chance(0.6):
            dtype = "float32"
        before = self.pool[:]
        depth = x.tensor.shape[-1]
        extents = [*x.tensor.shape[: len(batch)], *((m, depth) if transposed else (depth, m))]
        y = self.given([*batch, *((m, k) if transposed else (k, m))], x.dtype, extents=extents)
        self.pool = before
        wide = "float64" if float_like(dtype) else dtype
        a, b = x.value.astype(wide), y.value.astype(wide)
        b = np.swapaxes(b, -1, -2) if transposed else b
        if float_like(dtype) and np.max(abs(a) @ abs(b), initial=0) > EXACT[dtype]:
            self.inputs.remove(y)
            return None
        return self.made(
            lambda: topi.matmul(x.tensor, y.tensor, dtype, transpose_b=transposed), a @ b, dtype
        )

    def window(self, x: KnownTensor) -> KnownTensor | None:
        """Slide windows over the last axes: a convolution, or a pool."""
        c = self.c
        if not 3 <= len(x.shape) <= 5 or x.dtype == "bool" or not self.fixed(x):
            return None
        rank = len(x.shape) - 2
        taps = [c.integer(1, min(3, n)) for n in x.shape[2:]]
        stride, gap = c.pick([1, 1, 2]), c.pick([1, 1, 2])
        pad = c.integer(0, min(taps) - 1) if min(taps) > 1 else 0
        reach = [gap * (t - 1) + 1 for t in taps]
        if any(n + 2 * pad < r for n, r in zip(x.shape[2:], reach, strict=True)):
            return None
        if (c.chance(0.4) and not float_like(x.dtype)) or c.chance(0.3):
            low = -np.inf if float_like(x.dtype) else np.iinfo(x.value.dtype).min
            seen = self.seen(x.value, taps, stride, gap, pad, low)
            return self.made(
                lambda: topi.max_pool(x.tensor, taps, stride, pad, gap),
                seen.max(axis=tuple(range(-rank, 0))),
                x.dtype,
            )
        dtype = "int32" if x.dtype in ("int8", "uint8", "int16") else x.dtype
        groups = c.pick([g for g in range(1, min(x.shape[1], 8) + 1) if x.shape[1] % g == 0])
        outs = groups * c.pick([1, 2, 3, 4, 8])
        before, passed = self.pool[:], len(self.inputs)
        kernel_shape = [outs, x.shape[1] // groups, *taps]
        w = self.given(kernel_shape, x.dtype, extents=kernel_shape)
        self.pool = before
        wide = "float64" if float_like(dtype) else dtype
        seen = self.seen(x.value.astype(wide), taps, stride, gap, pad, 0)

        def convolved(seen: Any, kernel: Any) -> Any:
            each = x.shape[1] // groups
            parts = [
                np.einsum(
                    seen[:, g * each : (g + 1) * each],
                    [0, 1, *range(10, 10 + 2 * rank)],
                    kernel[g * (outs // groups) : (g + 1) * (outs // groups)],
                    [2, 1, *range(10 + rank, 10 + 2 * rank)],
                    [0, 2, *range(10, 10 + rank)],
                )
                for g in range(groups)
            ]
            return np.concatenate(parts, 1)

        kernel = w.value.astype(wide)
        if float_like(dtype) and np.max(convolved(abs(seen), abs(kernel)), initial=0) > min(
            EXACT[dtype], 2.0**24
        ):
            del self.inputs[passed:]
            return None
        value = convolved(seen, kernel)
        if value.size * w.value[0].size > 20 * self.budget:
            del self.inputs[passed:]
            return None
        if c.chance(0.3):  # channels last
            last = [0, *range(2, 2 + rank), 1]
            layout, words = "N" + "DHW"[3 - rank :] + "C", "DHW"[3 - rank :] + "IO"
            weight_order = [*range(2, 2 + rank), 1, 0]

            def tensor() -> Any:
                image = topi.transpose(x.tensor, last)
                weight = topi.transpose(w.tensor, weight_order)
                return topi.conv(
                    image, weight, stride, pad, gap, groups, layout, words, dtype=dtype
                )

            return self.made(tensor, value.transpose(last), dtype)
        return self.made(
            lambda: topi.conv(x.tensor, w.tensor, stride, pad, gap, groups, dtype=dtype),
            value,
            dtype,
        )

    def seen(
        self, value: Any, taps: Sequence[int], stride: int, gap: int, pad: int, border: Any
    ) -> Any:
        """Return what each window sees, as axes at the end."""
        rank = len(taps)
        value = value.astype("float64") if value.dtype.kind not in "iu" else value
        wide = np.pad(value, [(0, 0), (0, 0), *[(pad, pad)] * rank], constant_values=border)
        reach = [gap * (t - 1) + 1 for t in taps]
        view = np.lib.stride_tricks.sliding_window_view(wide, reach, tuple(range(2, 2 + rank)))
        steps = (slice(None), slice(None), *[slice(None, None, stride)] * rank)
        return view[(*steps, *[slice(None, None, gap)] * rank)]

    def summed_products(self, x: KnownTensor) -> KnownTensor | None:
        """Sum up products by subscripts."""
        c = self.c
        if not 1 <= len(x.shape) <= 4 or x.dtype == "bool" or math.prod(x.shape) > 8_000:
            return None
        letters = "abcd"[: len(x.shape)]
        sizes = dict(zip(letters, x.shape, strict=True))
        known = dict(zip(letters, x.tensor.shape, strict=True))
        if len(set(letters)) < len(letters):
            return None
        other = [letter for letter in letters if c.chance(0.6)]
        more = {"e": c.integer(1, 9), "f": c.integer(1, 4)}
        other += [letter for letter in more if c.chance(0.5)]
        other = [other.pop(c.integer(0, len(other) - 1)) for _ in range(len(other))]
        if not other:
            return None
        sizes |= more
        before, passed = self.pool[:], len(self.inputs)
        extents = [known.get(letter, sizes[letter]) for letter in other]
        y = self.given([sizes[letter] for letter in other], x.dtype, extents=extents)
        self.pool = before
        every = sorted({*letters, *other})
        kept = [letter for letter in every if c.chance(0.55)]
        kept = [kept.pop(c.integer(0, len(kept) - 1)) for _ in range(len(kept))]
        words = f"{letters},{''.join(other)}->{''.join(kept)}"
        wide = "float64" if float_like(x.dtype) else x.dtype
        a, b = x.value.astype(wide), y.value.astype(wide)
        most = np.einsum(words, abs(a), abs(b)) if float_like(x.dtype) else np.zeros(())
        if math.prod(sizes[n] for n in every) > 200_000 or (
            float_like(x.dtype) and np.max(most, initial=0) > EXACT[x.dtype]
        ):
            del self.inputs[passed:]
            return None
        value = np.einsum(words, a, b)
        return self.made(lambda: topi.einsum(words, x.tensor, y.tensor), value, x.dtype)

    def conv_transpose(self, x: KnownTensor) -> KnownTensor | None:
        """Scatter each element over a window: a transposed convolution."""
        c = self.c
        if not 3 <= len(x.shape) <= 4 or not self.fixed(x):
            return None
        if not float_like(x.dtype) or x.dtype in ("float16", "bfloat16") or 0 in x.shape:
            return None
        rank = len(x.shape) - 2
        taps, stride = [c.integer(1, 4) for _ in range(rank)], c.pick([1, 2, 2, 3])
        pad, more = c.integer(0, min(taps) - 1), c.integer(0, stride - 1)
        sizes = [
            (n - 1) * stride - 2 * pad + t + more for n, t in zip(x.shape[2:], taps, strict=True)
        ]
        if min(sizes) < 1 or math.prod(sizes) * x.shape[0] * x.shape[1] > 50_000:
            return None
        outs = c.pick([1, 2, 3, 4, 8, 16])
        before, passed = self.pool[:], len(self.inputs)
        kernel_shape = [x.shape[1], outs, *taps]
        w = self.given(kernel_shape, x.dtype, extents=kernel_shape)
        self.pool = before

        def reference(image: Any, kernel: Any) -> Any:
            full = [(n - 1) * stride + t + more for n, t in zip(x.shape[2:], taps, strict=True)]
            made = np.zeros((x.shape[0], outs, *full))
            for tap in np.ndindex(*taps):
                part = np.tensordot(image, kernel[(slice(None), slice(None), *tap)], (1, 0))
                spans = [
                    slice(t, t + (n - 1) * stride + 1, stride)
                    for t, n in zip(tap, x.shape[2:], strict=True)
                ]
                made[(slice(None), slice(None), *spans)] += np.moveaxis(part, -1, 1)
            cut = [slice(pad, n - pad) for n in full]
            return made[(slice(None), slice(None), *cut)]

        a, b = x.value.astype("float64"), w.value.astype("float64")
        if np.max(reference(abs(a), abs(b)), initial=0) > EXACT[x.dtype]:
            del self.inputs[passed:]
            return None
        return self.made(
            lambda: topi.conv_transpose(x.tensor, w.tensor, stride, pad, more),
            reference(a, b),
            x.dtype,
        )
