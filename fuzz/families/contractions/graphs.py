"""Graphs of products: matrices, einsums, linear layers, convolutions, and their epilogues."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fuzz.choices import Choices
from fuzz.families.cases import Case
from fuzz.families.contractions.terms import dtype_of, exact_up_to, float_like
from loomir.ir.module import IRModule
from loomir.script import from_source

__all__ = ["draw_graph"]

Array = Any
Reference = Callable[..., Array]
"""Computes a result of arrays of a wide dtype."""

_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 31, 32, 33)
_MOST: Final = 20_000
_SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}


def draw_graph(c: Choices, seed: int) -> Case:
    """Draw a graph of one product."""
    return _Graph(c).case(seed)


class _Graph:
    def __init__(self, c: Choices) -> None:
        self.c = c
        self.sizes: dict[str, int] = {}
        """Names of sizes, and what they are in the call."""
        self.dtype, self.total = c.weighted(
            [
                (8, ("int8", "int32")),
                (3, ("uint8", "int32")),
                (2, ("bfloat16", "float32")),
                (1, ("bfloat16", "bfloat16")),
                (1, ("float16", "float32")),
                (2, ("float32", "float32")),
                (1, ("float64", "float64")),
                (1, ("int32", "int32")),
                (1, ("int64", "int64")),
            ]
        )
        self.params: list[tuple[str, str, str, tuple[int, ...]]] = []
        """Names, shapes as text, dtypes and shapes."""
        self.lines: list[str] = []

    def case(self, seed: int) -> Case:
        """Draw a graph, its inputs, and what they give."""
        c = self.c
        make = c.weighted(
            [
                (5, self.matmul),
                (4, self.einsum),
                (1, self.linear),
                (5, self.convolution),
                (3, self.transposed),
            ]
        )
        reference = make()
        inputs = self.inputs(reference)
        wide = [self.widened(array) for array in inputs]
        with np.errstate(all="ignore"):
            result = np.asarray(reference(*wide)).astype(dtype_of(self.total))
        result, extra = self.follow(result)
        handles = ", ".join(f'{n}: R.Tensor(({s}), "{d}")' for n, s, d, _ in self.params)
        head = ["from loomir.script import ir as I, tir as T, relax as R", "@I.ir_module"]
        head += ["class Module:", "    @R.function", f"    def main({handles}):"]
        lines = ["with R.dataflow():", *(f"    {line}" for line in self.lines), "    R.output(y)"]
        text = "\n".join([*head, *(f"        {line}" for line in lines), "        return y", ""])
        module = from_source(text)
        assert isinstance(module, IRModule)
        return Case("contractions", seed, module, "main", (*inputs, *extra), (result,))

    # -- values --------------------------------------------------------------------------------
    def widened(self, array: Array) -> Array:
        """Convert an array to where sums are exact."""
        return array.astype("float64" if float_like(self.dtype) else "int64")

    def inputs(self, reference: Reference) -> list[Array]:
        """Fill the arrays: with any integers, or with whole numbers whose sums are exact."""
        random = np.random.default_rng(self.c.integer(0, 1 << 30))
        dtype = dtype_of(self.dtype)
        if not float_like(self.dtype):
            info = np.iinfo(dtype)
            return [
                random.integers(info.min, info.max, shape, dtype, endpoint=True)
                for _, _, _, shape in self.params
            ]
        limit = min(exact_up_to(self.total), 2.0**30)
        for most, share in ((7, 1.0), (2, 1.0), (1, 0.5), (1, 0.1), (0, 1.0)):
            made = [
                np.where(
                    random.random(shape) < share,
                    random.integers(-most, most, shape, endpoint=True),
                    0,
                ).astype(dtype)
                for _, _, _, shape in self.params
            ]
            sums = np.asarray(reference(*[abs(self.widened(array)) for array in made]))
            if not sums.size or sums.max() <= limit:
                return made
        raise AssertionError("zeros are exact")

    def follow(self, value: Array) -> tuple[Array, list[Array]]:
        """Draw what is made of the product."""
        c, extra = self.c, list[Array]()
        dtype = self.total
        if c.chance(0.5):
            return value, extra
        if c.chance(0.5) and value.ndim:
            width = value.shape[-1]
            bias = (np.arange(width) % 7).astype(value.dtype)
            self.params.append(("bias", f"{width},", dtype, (width,)))
            self.lines.append("y = R.add(y, bias)")
            extra.append(bias)
            value = value + bias
        if c.chance(0.5):
            self.lines.append("y = R.nn.relu(y)")
            value = np.maximum(value, np.zeros((), value.dtype))
        if c.chance(0.5):
            self.lines.append("y = R.clip(y, -100, 100)")
            low, high = np.array(-100, value.dtype), np.array(100, value.dtype)
            value = np.clip(value, low, high).astype(value.dtype)  # NumPy makes bfloat16 wider
            if not float_like(dtype):
                self.lines.append('y = R.astype(y, "int8")')
                value = value.astype("int8")
        return value, extra

    # -- shapes --------------------------------------------------------------------------------
    def size(self, *, most: int = 33, known: bool = False) -> tuple[str, int]:
        """Draw an extent, as text and as a number."""
        size = self.c.pick([s for s in _SIZES if s <= most])
        if known or self.c.chance(0.65):
            return str(size), size
        name = f"n{len(self.sizes)}"
        self.sizes[name] = size
        return f'"{name}"', size

    def param(self, name: str, extents: Sequence[tuple[str, int]]) -> None:
        """Add a parameter."""
        text = ", ".join(e for e, _ in extents) + ("," if len(extents) == 1 else "")
        self.params.append((name, text, self.dtype, tuple(n for _, n in extents)))

    def out(self) -> str:
        """Write the dtype of the result."""
        return f', out_dtype="{self.total}"' if self.total != self.dtype else ""

    # -- products ------------------------------------------------------------------------------
    def matmul(self) -> Reference:
        """Multiply matrices, with batches that may broadcast, maybe one of them transposed."""
        c = self.c
        m, n, k = self.size(), self.size(), self.size(most=33)
        batch = [self.size(most=4) for _ in range(c.weighted([(6, 0), (3, 1), (1, 2)]))]
        one = [b if c.chance(0.8) else ("1", 1) for b in batch]
        other = batch if c.chance(0.5) else batch[c.integer(0, len(batch)) :]
        transposed = c.chance(0.3)
        self.param("a", [*one, m, k])
        self.param("b", [*other, *((n, k) if transposed else (k, n))])
        right = "b"
        if transposed:
            axes = [*range(len(other)), len(other) + 1, len(other)]
            self.lines.append(f"bt = R.permute_dims(b, axes={axes})")
            right = "bt"
        self.lines.append(f"y = R.matmul(a, {right}{self.out()})")
        return lambda a, b: a @ (np.swapaxes(b, -1, -2) if transposed else b)

    def linear(self) -> Reference:
        """Apply a linear layer."""
        m, n, k = self.size(), self.size(), self.size()
        self.param("a", [m, k])
        self.param("b", [n, k])
        self.lines.append(f"y = R.linear(a, b{self.out()})")
        return lambda a, b: a @ b.T

    def einsum(self) -> Reference:
        """Sum over letters in any order; what is narrow is converted before."""
        c = self.c
        letters = {x: self.size(most=33 if x in "ijp" else 5) for x in "ijpqb"}
        lists = [["i", "p"], ["p", "j"], ["i", "j"]]
        if c.chance(0.7):
            lists[0].append("q")
            lists[1].append("q")
        if c.chance(0.3):
            for one in lists:
                one.append("b")
        parts = ["".join(self.mixed(one)) for one in lists]
        if np.prod([n for _, n in letters.values()]) > _MOST:
            letters["p"] = ("3", 3)
        for name, part in zip("ab", parts, strict=False):
            self.param(name, [letters[x] for x in part])
        operands = ["a", "b"]
        if self.dtype != self.total:
            for name in "ab":
                self.lines.append(f'{name}w = R.astype({name}, "{self.total}")')
            operands = ["aw", "bw"]
        subscripts = f"{parts[0]},{parts[1]}->{parts[2]}"
        self.lines.append(f'y = R.einsum(({", ".join(operands)}), "{subscripts}")')
        return lambda a, b: np.einsum(subscripts, a, b)

    def mixed(self, letters: Sequence[str]) -> list[str]:
        """Put letters into some order."""
        left, made = list(letters), list[str]()
        while left:
            made.append(left.pop(self.c.integer(0, len(left) - 1)))
        return made

    # -- convolutions --------------------------------------------------------------------------
    def options(self, rank: int) -> tuple[list[int], list[int], list[int], list[int]]:
        """Draw strides, paddings before and after, and dilations."""
        c = self.c
        strides = [c.pick([1, 1, 1, 2, 3]) for _ in range(rank)]
        before = [c.pick([0, 0, 1, 2]) for _ in range(rank)]
        after = before if c.chance(0.7) else [c.pick([0, 1]) for _ in range(rank)]
        return strides, before, after, [c.pick([1, 1, 1, 2]) for _ in range(rank)]

    def channels(self, taps: int, pixels: int) -> tuple[int, int, int]:
        """Draw groups, and channels in and out of each."""
        c = self.c
        groups = c.weighted([(7, 1), (2, 2), (1, 3)])
        ins, outs = c.pick([1, 2, 3, 4, 8, 16, 17]), c.pick([1, 2, 3, 4, 8, 16, 17, 32])
        while groups * ins * outs * taps * pixels > _MOST and ins * outs > 1:
            ins, outs = (ins, outs // 2) if outs > ins else (ins // 2, outs)
        return groups, ins, outs

    def convolution(self) -> Reference:
        """Convolve images in any layout."""
        c = self.c
        rank = c.weighted([(2, 1), (6, 2), (2, 3)])
        strides, before, after, dilation = self.options(rank)
        kernel = [c.pick([1, 2, 3, 3, 5] if rank < 3 else [1, 2, 3]) for _ in range(rank)]
        sizes = zip(dilation, kernel, before, after)
        least = [max(1, d * (k - 1) + 1 - b - a) for d, k, b, a in sizes]
        spatial = [n + c.pick([0, 1, 3, 5] if rank > 1 else [0, 3, 30]) for n in least]
        groups, ins, outs = self.channels(int(np.prod(kernel)), int(np.prod(spatial)))
        letters = _SPATIAL[rank]
        last = c.chance(0.4)
        data = f"N{letters}C" if last else f"NC{letters}"
        first = f"OI{letters}"
        weight = c.pick([first, f"{letters}IO" if last else first, f"O{letters}I"])
        batch = self.size(most=3)
        extents = dict(zip(letters, [(str(n), n) for n in spatial]))
        extents |= {"N": batch, "C": (str(groups * ins), groups * ins)}
        self.param("a", [extents[x] for x in data])
        taps = dict(zip(letters, [(str(n), n) for n in kernel]))
        taps |= {"O": (str(groups * outs), groups * outs), "I": (str(ins), ins)}
        self.param("b", [taps[x] for x in weight])
        self.lines.append(
            f"y = R.nn.conv{rank}d(a, b, strides={strides}, padding={before + after}, "
            f'dilation={dilation}, groups={groups}, data_layout="{data}", '
            f'kernel_layout="{weight}"{self.out()})'
        )

        def reference(a: Array, b: Array) -> Array:
            x = a.transpose([data.index(i) for i in f"NC{letters}"])
            w = b.transpose([weight.index(i) for i in f"OI{letters}"])
            made = _convolved(x, w, strides, before, after, dilation, groups)
            return made.transpose([f"NC{letters}".index(i) for i in data])

        return reference

    def transposed(self) -> Reference:
        """Scatter elements over windows: a transposed convolution."""
        c = self.c
        rank = c.weighted([(3, 1), (5, 2), (1, 3)])
        strides, before, after, dilation = self.options(rank)
        kernel = [c.pick([1, 2, 3]) for _ in range(rank)]
        spatial = [c.pick([1, 2, 3, 5]) for _ in range(rank)]
        more = [c.pick([0, s - 1]) for s in strides]
        for i in range(rank):
            whole = (spatial[i] - 1) * strides[i] + dilation[i] * (kernel[i] - 1) + 1 + more[i]
            if whole - before[i] - after[i] < 1:
                before[i] = after[i] = 0
        groups, ins, outs = self.channels(int(np.prod(kernel)), int(np.prod(spatial)))
        self.param("a", [self.size(most=3), *[(str(n), n) for n in (groups * ins, *spatial)]])
        self.param("b", [(str(n), n) for n in (groups * ins, outs, *kernel)])
        self.lines.append(
            f"y = R.nn.conv{rank}d_transpose(a, b, strides={strides}, padding={before + after}, "
            f"output_padding={more}, dilation={dilation}, groups={groups}{self.out()})"
        )
        return lambda a, b: _conv_transposed(a, b, strides, before, after, more, dilation, groups)


def _convolved(
    x: Array,
    w: Array,
    strides: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after)])
    kernel = w.shape[2:]
    out = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilation)
    ]
    ins, outs = w.shape[1], w.shape[0] // groups
    made = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    for tap in itertools.product(*map(range, kernel)):
        part = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, dilation, strides, out)
        )
        for g in range(groups):
            seen = x[(slice(None), slice(g * ins, (g + 1) * ins), *part)]
            weights = w[(slice(g * outs, (g + 1) * outs), slice(None), *tap)]
            made[:, g * outs : (g + 1) * outs] += np.einsum("ni...,oi->no...", seen, weights)
    return made


def _conv_transposed(
    x: Array,
    w: Array,
    strides: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    more: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    near, kernel = x.shape[2:], w.shape[2:]
    whole = [
        (n - 1) * s + d * (k - 1) + 1 + m
        for n, s, d, k, m in zip(near, strides, dilation, kernel, more)
    ]
    ins, outs = x.shape[1] // groups, w.shape[1]
    made = np.zeros((x.shape[0], outs * groups, *whole), x.dtype)
    for tap in itertools.product(*map(range, kernel)):
        part = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s)
            for t, d, s, n in zip(tap, dilation, strides, near)
        )
        for g in range(groups):
            seen = x[:, g * ins : (g + 1) * ins]
            weights = w[(slice(g * ins, (g + 1) * ins), slice(None), *tap)]
            place = (slice(None), slice(g * outs, (g + 1) * outs), *part)
            made[place] += np.einsum("ni...,io->no...", seen, weights)
    part = tuple(slice(b, n - a) for b, a, n in zip(before, after, whole))
    return made[(slice(None), slice(None), *part)]
