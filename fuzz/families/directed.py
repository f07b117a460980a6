"""Products and convolutions with sizes just around the thresholds of rules.

Sizes of other families are drawn for all rules; few of them reach the matrix unit, strips of
columns, vectors of channels or remainder pixels. Here sizes are close to tiles: most are whole, or
have a few more elements.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fuzz.choices import SeedChoices
from fuzz.families import directed_channels
from fuzz.families.cases import Case
from loomir.ir.module import IRModule
from loomir.script import from_source
from loomir.support.dtype import DataType, numpy_of

__all__ = ["VERSION", "draw"]

VERSION: Final = 6

_PAIRS: Final = (
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
    ("int8", "uint8", "int32"),
    ("uint8", "uint8", "int32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float32", "float32", "float32"),
    ("float16", "float16", "float32"),
    ("int16", "int16", "int32"),
    ("float64", "float64", "float64"),
)
"""Dtypes of two factors and of their sums."""
_WIDTHS: Final = (4, 8, 16, 32)
_MOST: Final = 40_000
"""Products of most convolutions: those of tiles and channels, by few pixels."""
_HEAD: Final = """
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main({params}):
"""


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    if SeedChoices(f"directed kind {VERSION} {seed}").chance(0.25):
        return directed_channels.draw(seed)
    made = _Directed(seed)
    return made.product() if made.c.chance(0.55) else made.convolution()


class _Directed:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.c = SeedChoices(f"directed {VERSION} {seed}")
        self.numbers = np.random.default_rng(seed)
        plain = ("float32", "float32", "float32")  # most rules are for these
        self.left, self.right, self.sum = plain if self.c.chance(0.35) else self.c.pick(_PAIRS)
        self.clipped = self.c.chance(0.4)
        self.zeros = self._draw_zero(self.left), self._draw_zero(self.right)
        """What is subtracted of the factors where they are bytes; 0 for nothing."""

    def _draw_zero(self, dtype: str) -> int:
        if not dtype.endswith("int8") or self.c.chance(0.6):
            return 0
        kind = DataType(dtype)
        return self.c.integer(int(kind.min_value), int(kind.max_value))

    def _size(self, most: int) -> int:
        """Draw a size that is some tiles, or a little more or less."""
        width = self.c.pick([w for w in _WIDTHS if w <= most])
        tiles = self.c.integer(1, max(1, min(3, most // width)))
        return max(1, width * tiles + self.c.weighted([(3.0, 0), (1.0, 1), (1.0, -1), (1.0, 3)]))

    def _filled(self, shape: tuple[int, ...], dtype: str) -> Any:
        most = 3 if DataType(dtype).is_float else 127
        least = 0 if dtype.startswith("u") else -most
        high = 255 if dtype == "uint8" else most
        return self.numbers.integers(least, high, shape, endpoint=True).astype(
            numpy_of(DataType(dtype))
        )

    def _wide(self, array: Any) -> Any:
        return array.astype(np.float64 if self.sum.startswith("float") else np.int64)

    def _zero(self) -> str:
        return f"T.{self.sum}(0)"

    def _as_sum(self, text: str, dtype: str, zero: int = 0) -> str:
        wide = text if dtype == self.sum else f'T.Cast("{self.sum}", {text})'
        return f"({wide} - {zero})" if zero else wide

    def _end(self, axes: str, shape: tuple[int, ...], bias: str) -> str:
        """Write the stage behind a sum: a bias by one axis, then a clip."""
        names = ", ".join(f"v{axis}" for axis in axes)
        return f"""\
        for {", ".join(axes)} in T.grid({", ".join(map(str, shape))}):
            with T.block("end"):
                {names} = T.axis.remap("{"S" * len(axes)}", [{", ".join(axes)}])
                D[{names}] = T.max(C[{names}] + bias[v{bias}], {self._zero()})
"""

    def _case(self, lines: str, arrays: dict[str, Any], wanted: Any, axis: int) -> Case:
        """Make the case of loops that write C, or D by a bias along an axis of C."""
        shape: tuple[int, ...] = wanted.shape
        dtype = numpy_of(DataType(self.sum))
        last = np.zeros(shape, dtype)
        arguments = dict(arrays)
        if self.clipped:
            bias = self._filled((shape[axis],), self.sum)
            sides = [1] * len(shape)
            sides[axis] = -1
            wanted = np.maximum(wanted + self._wide(bias).reshape(sides), 0)
            arguments |= {"bias": bias, "D": last}
            local = f'        C = T.alloc_buffer({shape}, "{self.sum}")\n'
            lines = local + lines + self._end("abcd"[: len(shape)], shape, "abcd"[axis])
        else:
            arguments["C"] = last
        params = ", ".join(
            f'{name}: T.Buffer({array.shape}, "{array.dtype}")' for name, array in arguments.items()
        )
        module = from_source(_HEAD.format(params=params) + lines)
        assert isinstance(module, IRModule)
        given = tuple(arguments.values())
        expected = (*given[:-1], wanted.astype(dtype))
        return Case("directed", self.seed, module, "main", given, expected)

    def product(self) -> Case:
        """Draw a product of two matrices, of a batch of them, or by a vector."""
        c = self.c
        m, n, k = self._size(40), c.pick([self._size(48), 64, 96]), self._size(64)
        few = c.weighted([(4.0, 0), (1.0, 1), (1.0, 4)])
        m = few or m
        a_transposed, b_transposed = c.chance(0.2), c.chance(0.4)
        if c.chance(0.2):  # so many rows and columns that strips of columns pay
            m, n, k = c.pick([48, 50, 64]), c.pick([64, 96, 100, 128]), c.pick([8, 16, 24])
            b_transposed = False
        a = self._filled((k, m) if a_transposed else (m, k), self.left)
        b = self._filled((n, k) if b_transposed else (k, n), self.right)
        x = "A[vk, va]" if a_transposed else "A[va, vk]"
        y = "B[vb, vk]" if b_transposed else "B[vk, vb]"
        one, other = self.zeros
        factors = [self._as_sum(x, self.left, one), self._as_sum(y, self.right, other)]
        if c.chance(0.2):
            factors.reverse()
        order = c.pick(["abk", "akb", "bak", "kab"])
        extents = {"a": m, "b": n, "k": k}
        lines = f"""\
        for {", ".join(order)} in T.grid({", ".join(str(extents[axis]) for axis in order)}):
            with T.block("sum"):
                va, vb, vk = T.axis.remap("SSR", [a, b, k])
                with T.init():
                    C[va, vb] = {self._zero()}
                C[va, vb] = C[va, vb] + {" * ".join(factors)}
"""
        left = (self._wide(a).T if a_transposed else self._wide(a)) - one
        right = (self._wide(b).T if b_transposed else self._wide(b)) - other
        return self._case(lines, {"A": a, "B": b}, left @ right, c.integer(0, 1))

    def convolution(self) -> Case:
        """Draw a convolution of images, with a border of zeros in most cases."""
        c = self.c
        kernel = c.pick([1, 1, 2, 3, 3])
        step = c.weighted([(3.0, 1), (1.0, 2)])
        border = c.integer(0, kernel // 2)
        high, wide = c.integer(kernel, 9), c.pick([kernel, 4, 7, 8, 9, 16])
        wide = max(wide, kernel)
        images, channels = c.weighted([(3.0, 1), (1.0, 2)]), self._size(16)
        kernels = c.pick([self._size(32), 48, 64])
        last = c.chance(0.5)  # channels lie innermost
        work = images * channels * kernels * kernel * kernel
        while work * high * wide > _MOST and (high > kernel or wide > kernel):  # tiles stay
            high, wide = (high, max(kernel, wide - 4)) if wide > high else (high - 1, wide)
        rows, columns = ((size + 2 * border - kernel) // step + 1 for size in (high, wide))
        x = self._filled((images, channels, high, wide), self.left)
        w = self._filled((kernels, channels, kernel, kernel), self.right)
        one, other = self.zeros
        wide_x, wide_w = self._wide(x) - one, self._wide(w) - other
        padded = np.pad(wide_x, ((0, 0), (0, 0), (border, border), (border, border)))
        wanted: Any = np.zeros((images, kernels, rows, columns), padded.dtype)
        for p in range(kernel):
            for q in range(kernel):
                part = padded[:, :, p : p + step * rows : step, q : q + step * columns : step]
                part = part[:, :, :rows, :columns]
                wanted += np.einsum("nchw,oc->nohw", part, wide_w[:, :, p, q])
        outer, inner = high + 2 * border, wide + 2 * border
        at = "vn, vy, vx, vf" if last else "vn, vf, vy, vx"
        y, z = f"vy * {step} + vp", f"vx * {step} + vq"
        source = "P" if border else "A"
        read = f"{source}[vn, {y}, {z}, vc]" if last else f"{source}[vn, vc, {y}, {z}]"
        weight = "B[vp, vq, vc, vf]" if last else "B[vf, vc, vp, vq]"
        # A border is 0 after the zero point is subtracted, or the zero point before.
        early = bool(border and one) and c.chance(0.6)
        kept = self.sum if early else self.left
        factor = self._as_sum(read, kept, 0 if early else one)
        terms = f"{factor} * {self._as_sum(weight, self.right, other)}"
        space, extents = (
            ("n, y, x, f", (images, rows, columns, kernels))
            if last
            else ("n, f, y, x", (images, kernels, rows, columns))
        )
        lines = ""
        if border:
            whole = (images, outer, inner, channels) if last else (images, channels, outer, inner)
            place = "vi, vj, vk, vl"
            h, v = ("vj", "vk") if last else ("vk", "vl")
            pixel = f"{h} - {border}, {v} - {border}"
            pixel = f"A[vi, {pixel}, vl]" if last else f"A[vi, vj, {pixel}]"
            outside = f"T.{kept}({0 if early else one})"
            pixel = self._as_sum(pixel, self.left, one) if early else pixel
            inside = " and ".join(
                f"{border} <= {name} and {name} < {size + border}"
                for name, size in ((h, high), (v, wide))
            )
            lines = f"""\
        P = T.alloc_buffer({whole}, "{kept}")
        for i, j, k, l in T.grid({", ".join(map(str, whole))}):
            with T.block("pad"):
                {place} = T.axis.remap("SSSS", [i, j, k, l])
                P[{place}] = T.if_then_else({inside}, {pixel}, {outside})
"""
        ends = ", ".join(map(str, (*extents, channels, kernel, kernel)))
        lines += f"""\
        for {space}, c, p, q in T.grid({ends}):
            with T.block("sum"):
                vn, vf, vy, vx, vc, vp, vq = T.axis.remap("SSSSRRR", [n, f, y, x, c, p, q])
                with T.init():
                    C[{at}] = {self._zero()}
                C[{at}] = C[{at}] + {terms}
"""
        if last:
            x, w = x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()
            wanted = wanted.transpose(0, 2, 3, 1)
        return self._case(lines, {"A": x, "B": w}, wanted, 3 if last else 1)
