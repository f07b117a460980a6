"""Convolutions of few pixels by many channels, whose kernels are constant.

vectors along output channels pay for those only, and only where the machine has many registers:
pixels that fill no vectors, lines of which tiles hold several, padding whose taps are left out,
groups, and images that the caches hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fuzz.choices import SeedChoices
from fuzz.families.cases import Case
from loomir.ir.module import IRModule
from loomir.script import from_source

__all__ = ["VERSION", "draw"]

VERSION: Final = 1

_MOST: Final = 30_000
"""Products of most programs."""
_TEXT: Final = """
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main({params}):
{lines}
"""


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    return _Channels(seed).case()


def _shape(extents: Sequence[Any]) -> str:
    return f"({', '.join(map(str, extents))},)"


class _Channels:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        c = self.c = SeedChoices(f"directed channels {VERSION} {seed}")
        self.numbers = np.random.default_rng(seed)
        self.dtype = c.pick(["float32", "float32", "float64"])
        lanes = 16 if self.dtype == "float32" else 8
        self.images, self.groups = (
            c.weighted([(4.0, 1), (1.0, 2)]),
            c.weighted([(4.0, 1), (1.0, 2)]),
        )
        self.kernel = c.pick([(3, 3), (3, 3), (1, 3), (3, 1), (2, 2), (1, 1), (1, 5), (3, 5)])
        self.step = c.weighted([(3.0, 1), (1.0, 2)])
        self.symbolic = c.chance(0.1)
        """Whether the height of the image is not known."""
        if self.symbolic:
            self.step, self.border = 1, (0, 0)
        else:
            self.border = (c.integer(0, self.kernel[0] // 2), c.integer(0, self.kernel[1] // 2))
        self.shape = (c.pick([1, 3, 4, 5, 7]), c.pick([2, 3, 4, 5, 7, 9, 10, 14]))
        vectors = c.integer(2, 4)
        self.kernels = max(1, lanes * vectors + c.weighted([(5.0, 0), (1.0, -3), (1.0, 1)]))
        self.channels = c.pick([2, 3, 4, 5, 7, 8, 10, 12])
        taps = self.kernel[0] * self.kernel[1] * self.groups * self.images
        work = self.kernels * taps * self.shape[0] * self.shape[1]
        while self.channels > 1 and self.channels * work > _MOST:
            self.channels -= 1

    def _filled(self, *shape: int) -> Any:
        return self.numbers.integers(-3, 3, shape, endpoint=True).astype(self.dtype)

    def case(self) -> Case:
        """Make the case: an image that is padded, its convolution, and what follows."""
        c, g = self.c, self.groups
        (rows, columns), (p, q), (above, left) = self.shape, self.kernel, self.border
        step = self.step
        high, wide = (rows - 1) * step + p - 2 * above, (columns - 1) * step + q - 2 * left
        high, wide = max(high, 1), max(wide, 1)
        outer, inner = high + 2 * above, wide + 2 * left
        rows, columns = (outer - p) // step + 1, (inner - q) // step + 1
        x = self._filled(self.images, g * self.channels, high, wide)
        w = self._filled(g * self.kernels, self.channels, p, q)
        padded = np.pad(x, ((0, 0), (0, 0), (above, above), (left, left)))
        wanted = np.zeros((self.images, g * self.kernels, rows, columns), self.dtype)
        for group in range(g):
            own = slice(group * self.kernels, (group + 1) * self.kernels)
            read = padded[:, group * self.channels : (group + 1) * self.channels]
            for i in range(p):
                for j in range(q):
                    part = read[:, :, i : i + step * rows : step, j : j + step * columns : step]
                    part = part[:, :, :rows, :columns]
                    wanted[:, own] += np.einsum("nchw,oc->nohw", part, w[own, :, i, j])
        zero = f"T.{self.dtype}(0)"
        lines: list[str] = []
        source = "A"
        if above or left:
            source = "P"
            lines = self._pad(x.shape, padded.shape)
        channel = f"vf // {self.kernels} * {self.channels} + vc" if g > 1 else "vc"
        read = f"{source}[vn, {channel}, vy * {step} + vp, vx * {step} + vq]"
        down: Any = "h" if self.symbolic else wanted.shape[2]
        result = (*wanted.shape[:2], down, wanted.shape[3])
        ends = (*result, self.channels, p, q)
        lines += [
            f"for n, f, y, x, c, p, q in T.grid({', '.join(map(str, ends))}):",
            '    with T.block("sum"):',
            '        vn, vf, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, f, y, x, c, p, q])',
            "        with T.init():",
            f"            C[vn, vf, vy, vx] = {zero}",
            f"        C[vn, vf, vy, vx] = C[vn, vf, vy, vx] + {read} * B[vf, vc, vp, vq]",
        ]
        arrays = {"A": x, "B": w}
        if c.chance(0.4):
            bias = self._filled(g * self.kernels)
            wanted = np.maximum(wanted + bias.reshape(1, -1, 1, 1), 0)
            lines = [f'C = T.alloc_buffer({_shape(result)}, "{self.dtype}")', *lines]
            lines += [
                f"for n, f, y, x in T.grid({', '.join(map(str, result))}):",
                '    with T.block("end"):',
                '        vn, vf, vy, vx = T.axis.remap("SSSS", [n, f, y, x])',
                f"        D[vn, vf, vy, vx] = T.max(C[vn, vf, vy, vx] + bias[vf], {zero})",
            ]
            arrays |= {"bias": bias, "D": np.zeros_like(wanted)}
        else:
            arrays["C"] = np.zeros_like(wanted)
        params = ", ".join(
            f"p{name}: T.handle"
            if self.symbolic
            else f'{name}: T.Buffer({array.shape}, "{self.dtype}")'
            for name, array in arrays.items()
        )
        if self.symbolic:
            high = f"h + {p - 1}"
            shapes: dict[str, Any] = {"A": (*x.shape[:2], high, wide), "C": result, "D": result}
            lines = [
                "h = T.int64()",
                *(
                    f"{name} = T.match_buffer(p{name}, "
                    f'{_shape(shapes.get(name, array.shape))}, "{self.dtype}")'
                    for name, array in reversed(arrays.items())
                ),
                *lines,
            ]
        text = _TEXT.format(params=params, lines="\n".join(f"        {line}" for line in lines))
        module = from_source(text)
        assert isinstance(module, IRModule)
        given = tuple(arrays.values())
        return Case("directed", self.seed, module, "main", given, (*given[:-1], wanted))

    def _pad(self, shape: tuple[int, ...], padded: tuple[int, ...]) -> list[str]:
        inside = " and ".join(
            f"{border} <= v{axis} and v{axis} < {size + border}"
            for axis, size, border in zip("kl", shape[2:], self.border, strict=True)
            if border
        )
        place = ", ".join(
            f"v{axis} - {border}" if border else f"v{axis}"
            for axis, border in zip("kl", self.border, strict=True)
        )
        zero = f"T.{self.dtype}(0)"
        return [
            f'P = T.alloc_buffer({padded}, "{self.dtype}")',
            f"for i, j, k, l in T.grid({', '.join(map(str, padded))}):",
            '    with T.block("pad"):',
            '        vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])',
            f"        P[vi, vj, vk, vl] = T.if_then_else({inside}, A[vi, vj, {place}], {zero})",
        ]
