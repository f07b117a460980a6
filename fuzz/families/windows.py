"""Sliding windows as people write them: convolutions, pooling, stencils, blurs.

A window has strides, dilations and padding along one to three axes. Channels are mixed, grouped or
depthwise, and come first, last, or in blocks. Reads outside are guarded in the expression or by a
statement, copied into a larger array first, clamped or wrapped around. Programs are written as
blocks, as plain loops, or with a scalar sum. Their text, run as Python, is the reference.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fuzz.choices import Choices, SeedChoices
from fuzz.families.as_python import dtype_of, float_like
from fuzz.families.cases import Case
from fuzz.families.drafts import Array, Dim, Draft
from fuzz.families.stencils import Stencils

__all__ = ["VERSION", "draw"]

VERSION: Final = 3

_WORST: Final = 3_000_000
"""The most terms of a program: its reference in Python takes some seconds for them."""
_WORK: Final = ((5, 300), (6, 1_200), (4, 3_000), (1, 12_000))
"""Products of a program, a quarter of them, by how often."""
_EXACT: Final = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}
_KINDS: Final = (
    (10, ("int8", "int8", "int32")),
    (6, ("uint8", "int8", "int32")),
    (3, ("uint8", "uint8", "int32")),
    (2, ("int8", "uint8", "int32")),
    (3, ("int16", "int16", "int32")),
    (2, ("int8", "int8", "int16")),
    (2, ("uint8", "uint8", "uint16")),
    (2, ("int32", "int32", "int32")),
    (1, ("uint16", "uint16", "uint32")),
    (1, ("int16", "int16", "int64")),
    (5, ("float16", "float16", "float32")),
    (3, ("float16", "float16", "float16")),
    (5, ("bfloat16", "bfloat16", "float32")),
    (2, ("bfloat16", "bfloat16", "bfloat16")),
    (10, ("float32", "float32", "float32")),
    (4, ("float64", "float64", "float64")),
    (1, ("float32", "float32", "float64")),
    (1, ("int8", "float32", "float32")),
)
_CLASSIC: Final = (
    (8, ("float32", "float32", "float32")),
    (2, ("float64", "float64", "float64")),
    (2, ("float16", "float16", "float32")),
    (2, ("bfloat16", "bfloat16", "float32")),
    (3, ("uint8", "int8", "int32")),
    (3, ("int8", "int8", "int32")),
)


_CHANNELS: Final = {
    "conv": (["i"], ["o"]),
    "transposed": (["i"], ["o"]),
    "grouped": (["g", "i"], ["g", "o"]),
}
"""Channels that are read and written, by kind; others treat each channel by itself."""


def draw(seed: int) -> Case:
    """Draw the case of a seed; where it is too much work, draw again."""
    for attempt in itertools.count():
        again = f" {attempt}" if attempt else ""
        try:
            return _Windows(SeedChoices(f"windows {VERSION} {seed}{again}")).case(seed)
        except _TooMuchWorkError:
            continue
    raise AssertionError


class _TooMuchWorkError(Exception):
    """A program has more terms than Python adds in a few seconds."""


@dataclass
class _Side:
    """One axis along which a window slides."""

    size: Dim
    out: Dim
    taps: Dim
    step: int
    gap: int
    before: int
    var: str
    tap: str
    whole: Dim
    """The extent of a padded copy."""


class _Windows:
    def __init__(self, c: Choices) -> None:
        self.c = c
        self.d = Draft.drawn(c)
        self.form = c.weighted([(5, "block"), (4, "loops"), (3, "scalar")])
        self.budget = c.weighted(_WORK)
        self.data, self.weight, self.total = c.weighted(_KINDS)
        self.outside = c.weighted(
            [(4, "none"), (4, "choice"), (2, "if"), (3, "copy"), (1, "clamp"), (1, "wrap")]
        )
        self.kind = c.weighted(
            [
                (8, "conv"),
                (4, "depthwise"),
                (3, "grouped"),
                (4, "blocked"),
                (4, "transposed"),
                (6, "pool"),
                (4, "stencil"),
                (2, "box"),
            ]
        )
        self.classic = c.chance(0.4)
        """Whether it is one as models have them: fixed sizes, a sum of floats, zeros around."""
        if self.classic:
            self.d.symbolic = self.d.strided = 0.0
            self.form = c.weighted([(6, "block"), (1, "loops"), (1, "scalar")])
            self.budget = c.weighted([(5, 1_200), (4, 3_000), (1, 12_000)])
            self.data, self.weight, self.total = c.weighted(_CLASSIC)
            self.outside = c.weighted([(3, "none"), (4, "copy"), (3, "choice")])
            kinds = [(8, "conv"), (4, "depthwise"), (3, "grouped"), (5, "transposed"), (2, "pool")]
            self.kind = c.weighted(kinds)
        if self.kind == "transposed":
            self.outside = "choice" if self.classic else c.pick(["choice", "choice", "if"])
        self.exact = self.form == "block"
        """Whether sums may be regrouped, so that they must be exact in any order."""
        self.reducer = "sum"
        if self.kind == "pool":
            self.reducer = c.weighted([(4, "max"), (2, "min"), (3, "sum"), (3, "mean")])
            self.total = self.data if self.reducer in ("max", "min") else self.total

    def case(self, seed: int) -> Case:
        """Draw a program and its arguments."""
        if self.kind in ("stencil", "box"):
            made = Stencils(self.d, self.form, self.total, self.budget, self.numbers)
            (made.stencil if self.kind == "stencil" else made.boxes)()
        else:
            self.window()
        return self.d.case("windows", seed)

    # -- sides -----------------------------------------------------------------------------------
    def sides(self, rank: int, most: int) -> list[_Side]:
        """Draw the axes along which a window slides."""
        c, d, made = self.c, self.d, list[_Side]()
        sizes = d.extents(rank, max(2, most))
        for size in sizes:
            taps = c.weighted([(3, 1), (4, 2), (8, 3), (2, 4), (3, 5), (1, 7), (0.5, 11)])
            step = c.weighted([(8, 1), (4, 2), (1, 3), (0.3, 5)])
            gap = c.weighted([(8, 1), (2, 2), (1, 3)])
            before = after = 0
            if self.outside != "none":
                before = c.integer(0, taps - 1 if c.chance(0.8) or size < 4 else taps)
                after = before if c.chance(0.6) else c.integer(0, taps)
            reach = gap * (taps - 1) + 1
            extent = d.dim(max(size, reach - before - after, 1))
            out = (extent + (before + after - reach)) // step + 1
            if self.kind == "transposed":
                before = min(before, reach - 1)
                more = reach - before - min(after, reach - 1 - before) + c.integer(0, step - 1)
                out = (extent + -1) * step + more
            if not out.text.isdigit() and c.chance(0.3):
                out = Dim(out.value, d.name("n"))  # a name of its own
                d.sizes.append(out)
            name = d.name("")
            window = d.dim(taps) if out.is_name or out.text.isdigit() else Dim(taps, str(taps))
            whole = extent + (before + after)
            sides = _Side(extent, out, window, step, gap, before, f"y{name}", f"k{name}", whole)
            made.append(sides)
        return made

    def place(self, side: _Side, var: str, tap: str) -> str:
        """Write where a tap reads."""
        c = self.c
        if self.kind == "transposed":
            shifted = f"{var} + {side.before}" if side.before else var
            back = tap if side.gap == 1 else f"{tap} * {side.gap}"
            return f"({shifted} - {back}) // {side.step}"
        one = var if side.step == 1 else f"{var} * {side.step}"
        other = tap if side.gap == 1 else f"{tap} * {side.gap}"
        text = f"{one} + {other}" if c.chance(0.8) else f"{other} + {one}"
        shift = 0 if self.outside == "copy" else side.before
        return f"{text} - {shift}" if shift else text

    def kept(self, place: str, side: _Side) -> str:
        """Write a place that is inside in any case, where that is how the outside is read."""
        if self.outside == "clamp":
            return f"T.max(T.min({place}, {side.size.text} - 1), 0)"
        if self.outside == "wrap":
            return f"({place}) % {side.size.text}"
        return place

    def tests(self, sides: Sequence[_Side], places: Sequence[str]) -> list[str]:
        """Write what must hold for places to be inside."""
        made: list[str] = []
        if self.kind == "transposed":
            for side, place in zip(sides, places, strict=True):
                if side.step > 1:
                    made.append(f"{place.replace('//', '%')} == 0")
                made += [f"{place} >= 0", f"{place} < {side.size.text}"]
            return made
        for side, place in zip(sides, places, strict=True):
            if side.before or self.c.chance(0.3):
                made.append(f"0 <= {place}" if self.c.chance(0.5) else f"{place} >= 0")
            made.append(f"{place} < {side.size.text}")
        return made

    # -- arrays ----------------------------------------------------------------------------------
    def numbers(self, dtype: str, dims: Sequence[Dim], terms: int, powers: int = 2) -> Any:
        """Draw numbers whose sums are exact where they must be."""
        d = self.d
        shape = tuple(dim.value for dim in dims)
        if not float_like(self.total) and not float_like(dtype):
            return d.content(dtype, shape, self.c.pick(["any", "any", "small"]))
        if not self.exact:
            small = not float_like(dtype) or self.total != dtype
            return d.content(dtype, shape, "small" if small else "any")
        room = _EXACT.get(self.total, 2**30) / max(1, terms)
        most = int(min(7, max(0, room) ** (1 / powers)))
        random = d.random()
        share = 1.0 if most else min(1.0, math.sqrt(room) * 0.5)
        low = 0 if dtype.startswith("u") else -max(1, most)
        made = random.integers(low, max(1, most), shape, endpoint=True)
        kept = made * (random.random(shape) < share)
        if not most:  # few enough ones that all together are exact
            kept = np.zeros_like(kept)
        return kept.astype(dtype_of(dtype))

    # -- convolutions and pools ------------------------------------------------------------------
    def window(self) -> None:
        """Write a window that slides, over channels."""
        c, d = self.c, self.d
        rank = c.weighted([(3, 1), (6, 2), (2, 3)])
        self.tags = self.channels()
        separate = math.prod(dim.value for dim in self.tags.values())
        self.slides = slides = self.sides(rank, self.budget // max(1, separate) + 3)
        self.shrink(slides, separate)
        for at, side in enumerate(slides):
            self.tags |= {f"x{at}": side.size, f"y{at}": side.out, f"k{at}": side.taps}
        first = ["n"] if "n" in self.tags else []
        ins, outs = _CHANNELS.get(self.kind, (["g"], ["g"]))
        taps = [f"k{at}" for at in range(rank)]
        every = {stem: [f"{stem}{at}" for at in range(rank)] for stem in "xy"}
        last = c.chance(0.45)
        if self.kind == "blocked":
            first, ins, outs, last = [*first, "I"], ["i"], ["o"], True
        self.order = [*first, *every["x"], *ins] if last else [*first, *ins, *every["x"]]
        first = [{"I": "O"}.get(tag, tag) for tag in first]
        self.outs = [*first, *every["y"], *outs] if last else [*first, *outs, *every["y"]]
        if c.chance(0.1):
            self.order, self.outs = self.mixed(self.order), self.mixed(self.outs)
        self.reduced = [*(tag for tag in ("I", "i") if tag in self.tags), *taps]
        terms = math.prod(self.tags[t].value for t in self.reduced)
        self.x = self.filled_argument("X", self.data, self.order, terms)
        self.w: Array | None = None
        if self.kind != "pool":
            heads = [tag for tag in ("g", "o", "i") if tag in self.tags]
            self.w_order = [*heads, *taps] if c.chance(0.5) else [*taps, *heads[::-1]]
            if self.kind == "transposed" and c.chance(0.6):
                self.w_order = ["i", "o", *taps]
            if self.kind == "blocked":
                self.w_order = ["O", "I", *taps, *c.pick(["io", "oi"])]
            elif c.chance(0.05):  # kernels of their own for each place
                self.w_order += [f"y{at}" for at in range(rank)]
            if c.chance(0.1):
                self.w_order = self.mixed(self.w_order)
            self.w = self.filled_argument("W", self.weight, self.w_order, terms)
        self.y = d.argument("Y", self.total, self.dims(self.outs))
        if self.outside == "copy":
            self.padded()
        self.names = {tag: d.name(tag) for tag in (*self.outs, *self.reduced)}
        for at, side in enumerate(slides):
            self.names |= {f"y{at}": side.var, f"k{at}": side.tap}
        if self.form == "block":
            self.blocks()
        elif self.kind == "transposed" and c.chance(0.4):
            self.scattered()
        else:
            self.plain()

    def channels(self) -> dict[str, Dim]:
        """Draw the axes along which nothing slides: a batch, groups, channels in and out."""
        c, d = self.c, self.d
        made: dict[str, int] = {}
        if c.chance(0.7):
            made["n"] = c.pick([1, 1, 2, 3])
        some = (1, 2, 3, 4, 5, 7, 8, 12, 16)
        inner = c.pick([8, 16, 32, 64]) if c.chance(0.3) else c.pick(some)
        if self.classic:
            some = (4, 8, 16, 17, 24, 32, 33, 48, 64)
            inner = c.pick([3, *some])
        if self.kind == "blocked":
            for stem in "IO":
                made[stem] = c.integer(1, 4)
            for stem in "io":
                made[stem] = c.pick([2, 4, 8, 16])
        elif self.kind in ("conv", "transposed"):
            made["i"] = inner
            made["o"] = c.pick([*some, 9, 17, 24, 32, 33, 64])
        elif self.kind == "grouped":
            made["g"] = c.pick([2, 3, 4, 8])
            made["i"], made["o"] = c.pick(some), c.pick(some)
        else:
            made["g"] = inner
        while math.prod(made.values()) > max(16, self.budget):
            made[max(made, key=lambda tag: made[tag])] //= 2
        return {tag: d.dim(extent) for tag, extent in made.items()}

    def dims(self, order: Sequence[str]) -> list[Dim]:
        """Return the extents of axes."""
        return [self.tags[tag] for tag in order]

    def filled_argument(self, stem: str, dtype: str, order: Sequence[str], terms: int) -> Array:
        """Add an argument whose numbers are summed up."""
        dims = self.dims(order)
        numbers = self.numbers(dtype, dims, terms, 1 if self.kind == "pool" else 2)
        return self.d.argument(stem, dtype, dims, numbers)

    def mixed(self, tags: Sequence[Any]) -> list[Any]:
        """Put things into another order."""
        left, made = list(tags), list[Any]()
        while left:
            made.append(left.pop(self.c.integer(0, len(left) - 1)))
        return made

    def shrink(self, sides: Sequence[_Side], separate: int) -> None:
        """Let windows be small where there is too much work; sizes stay."""
        most = 4 * self.budget
        while separate * math.prod(s.out.value * s.taps.value for s in sides) > most:
            long = [s for s in sides if s.gap * (s.taps.value - 2) >= s.before]
            long = [s for s in long if s.taps.value > 1 and s.taps.text.isdigit()]
            if not long:
                break
            one = max(long, key=lambda s: s.taps.value)
            one.taps = Dim(one.taps.value - 1, str(one.taps.value - 1))
        if separate * math.prod(s.out.value * s.taps.value for s in sides) > _WORST:
            raise _TooMuchWorkError

    def padded(self) -> None:
        """Write the copy into a larger array, which is read from then on."""
        c, d, order, data = self.c, self.d, self.order, self.x
        at = {f"x{i}": side for i, side in enumerate(self.slides)}
        dims = [at[tag].whole if tag in at else self.tags[tag] for tag in order]
        self.x = made = d.allocated(0, "P", data.dtype, dims)
        names = {tag: d.name("p") for tag in order}
        spans = [(names[tag], dim) for tag, dim in zip(order, dims, strict=True)]
        empty = self.empty(data.dtype)
        depth = d.loops(0, spans)
        depth, inside = d.body(self.form, depth, spans)
        if c.chance(0.4):  # all of it, then the middle
            d.line(depth, f"{made.at(*inside)} = {empty}")
            spans = [(names[tag], self.tags[tag]) for tag in order]
            depth = d.loops(0, spans)
            depth, inside = d.body(self.form, depth, spans)
            places = [
                f"{v} + {at[tag].before}" if tag in at and at[tag].before else v
                for v, tag in zip(inside, order, strict=True)
            ]
            d.line(depth, f"{made.at(*places)} = {data.at(*inside)}")
            return
        tests, places = list[str](), list[str]()
        for v, tag in zip(inside, order, strict=True):
            side = at.get(tag)
            if side is None:
                places.append(v)
                continue
            tests.append(f"{v} >= {side.before} and {v} < {(side.size + side.before).text}")
            places.append(f"{v} - {side.before}" if side.before else v)
        test = " and ".join(tests)
        if c.chance(0.25):
            d.line(depth, f"if {test}:")
            d.line(depth + 1, f"{made.at(*inside)} = {data.at(*places)}")
            d.line(depth, "else:")
            d.line(depth + 1, f"{made.at(*inside)} = {empty}")
        else:
            value = f"T.if_then_else({test}, {data.at(*places)}, {empty})"
            d.line(depth, f"{made.at(*inside)} = {value}")

    def empty(self, dtype: str) -> str:
        """Write what counts for nothing."""
        if self.reducer == "max":
            return f'T.min_value("{dtype}")'
        if self.reducer == "min":
            return f'T.max_value("{dtype}")'
        return f"T.{dtype}(0)"

    def factor(self, text: str, dtype: str) -> str:
        """Write a conversion, where one is needed, and what zero points take away."""
        total = self.total
        made = text if dtype == total else f'T.Cast("{total}", {text})'
        if dtype in ("int8", "uint8") and total == "int32" and self.c.chance(0.08):
            return f"({made} - T.int32({self.c.integer(1, 128)}))"
        return made

    def spans(self, tags: Sequence[str]) -> list[tuple[str, Dim]]:
        """Return the loops over axes."""
        return [(self.names[t], self.tags[t]) for t in tags]

    def blocks(self) -> None:
        """Write a block with its iterators."""
        c, d = self.c, self.d
        outer, inner = self.spans(self.outs), self.spans(self.reduced)
        fills_first = self.outside == "if" or c.chance(0.25)
        use = {tag: f"v{var}" for tag, var in self.names.items()}
        place = self.y.at(*(use[t] for t in self.outs))
        empty = self.start(use)
        if fills_first:
            depth, _ = d.body(self.form, d.loops(0, outer), outer)
            d.line(depth, f"{place} = {empty}")
        spans = [*outer, *inner] if c.chance(0.6) else self.mixed([*outer, *inner])
        reduced = {var for var, _ in inner}
        axes = [(f"v{var}", "R" if var in reduced else "S", dim, var) for var, dim in spans]
        depth = d.block(d.loops(0, spans), axes)
        if not fills_first:
            d.line(depth, "with T.init():")
            d.line(depth + 1, f"{place} = {empty}")
        self.step(depth, use, place)
        if self.reducer == "mean" or c.chance(0.4):
            self.after()

    def start(self, use: dict[str, str]) -> str:
        """Write what a window starts from; some sums start from an element of an array."""
        c, d, total = self.c, self.d, self.total
        exact = total not in ("float16", "bfloat16")
        if self.reducer != "sum" or not exact or c.chance(0.8):
            return self.empty(total)
        tags = [t for t in self.outs if c.chance(0.7)] or self.outs[-1:]
        dims = self.dims(tags)
        small = d.content(total, [dim.value for dim in dims], "small")
        return d.argument("S", total, dims, small).at(*(use[t] for t in tags))

    def plain(self) -> None:
        """Write loops, with a sum in the result or in a scalar."""
        c, d = self.c, self.d
        outer, inner = self.spans(self.outs), self.spans(self.reduced)
        outer = self.mixed(outer) if c.chance(0.3) else outer
        inner = self.mixed(inner) if c.chance(0.4) else inner
        place = self.y.at(*(self.names[t] for t in self.outs))
        depth = d.loops(0, outer)
        accumulator = place
        if self.form == "scalar":
            accumulator = d.name("s")
            if c.chance(0.5):
                d.line(
                    depth, f'{accumulator} = T.alloc_buffer((1,), "{self.total}", scope="local")'
                )
                accumulator = f"{accumulator}[0]"
        d.line(depth, f"{accumulator} = {self.start(self.names)}")
        self.step(d.loops(depth, inner), self.names, accumulator)
        if self.reducer == "mean":
            d.line(depth, f"{place} = {self.mean(accumulator)}")
        elif accumulator != place:
            d.line(depth, f"{place} = {accumulator}")
        if c.chance(0.15):
            self.after()

    def step(self, depth: int, use: dict[str, str], accumulator: str) -> None:
        """Write how one element joins."""
        c, d, total = self.c, self.d, self.total
        places = [self.place(s, use[f"y{at}"], use[f"k{at}"]) for at, s in enumerate(self.slides)]
        test = " and ".join(self.tests(self.slides, places))
        at = {
            f"x{i}": self.kept(p, s)
            for i, (p, s) in enumerate(zip(places, self.slides, strict=True))
        }
        read = self.x.at(*(at.get(t) or use[t] for t in self.order))
        whole = (
            self.outside == "choice"
            and self.reducer == "sum"
            and (c.chance(0.8 if self.kind == "transposed" else 0.15))
        )
        if self.outside == "choice" and not whole:
            read = f"T.if_then_else({test}, {read}, {self.empty(self.x.dtype)})"
        value = self.factor(read, self.x.dtype)
        if self.w is not None:
            factor = self.factor(self.w.at(*(use[t] for t in self.w_order)), self.w.dtype)
            value = f"{value} * {factor}" if c.chance(0.8) else f"{factor} * {value}"
        if whole:
            value = f"T.if_then_else({test}, {value}, T.{total}(0))"
        if self.outside == "if":
            d.line(depth, f"if {test}:")
            depth += 1
        if self.reducer in ("max", "min"):
            d.line(depth, f"{accumulator} = T.{self.reducer}({accumulator}, {value})")
        elif c.chance(0.5):
            d.line(depth, f"{accumulator} += {value}")
        else:
            d.line(depth, f"{accumulator} = {accumulator} + {value}")

    def mean(self, text: str) -> str:
        """Write a sum that is divided."""
        count = f"T.{self.total}({math.prod(self.tags[t].value for t in self.reduced)})"
        if float_like(self.total):
            return f"{text} / {count}"
        return f"T.div({text}, {count})" if self.c.chance(0.5) else f"{text} // {count}"

    def scattered(self) -> None:
        """Write loops in which each element of the image adds to all results it reaches."""
        c, d = self.c, self.d
        outer = self.spans(self.outs)
        place = self.y.at(*(self.names[t] for t in self.outs))
        d.line(d.loops(0, outer), f"{place} = {self.empty(self.total)}")
        every = dict.fromkeys([*self.order, *self.outs, *self.reduced])
        tags = [tag for tag in every if tag[0] != "y"]
        names = {tag: d.name(tag) for tag in tags}
        spans = [(names[t], self.tags[t]) for t in (self.mixed(tags) if c.chance(0.4) else tags)]
        depth = d.loops(0, spans)
        at, tests = dict(names), list[str]()
        for number, side in enumerate(self.slides):
            text = f"{names[f'x{number}']} * {side.step} + {names[f'k{number}']} * {side.gap}"
            text += f" - {side.before}" if side.before else ""
            tests += [f"{text} >= 0", f"{text} < {side.out.text}"]
            at[f"y{number}"] = text
        d.line(depth, f"if {' and '.join(tests)}:")
        assert self.w is not None
        value = self.factor(self.x.at(*(at[t] for t in self.order)), self.x.dtype)
        other = self.factor(self.w.at(*(at[t] for t in self.w_order)), self.w.dtype)
        d.line(depth + 1, f"{self.y.at(*(at[t] for t in self.outs))} += {value} * {other}")

    def after(self) -> None:
        """Write what is made of the sums, in loops of its own."""
        c, d, total = self.c, self.d, self.total
        dims, exact = [self.tags[t] for t in self.outs], not float_like(total)
        kind, value = total, self.y
        if self.reducer == "mean" and self.form == "block":
            steps: list[str] = ["mean"]
        else:
            steps = [c.pick(["relu", "bias", "add", "clip", "narrow"])]
            steps += ["relu", "narrow"] if c.chance(0.3) else []
        spans = [(d.name("f"), dim) for dim in dims]
        depth, use = d.body(self.form, d.loops(0, spans), spans)
        text = value.at(*use)
        for step in steps:
            if step == "mean":
                text = self.mean(text)
            elif step == "relu":
                text = f"T.max({text}, T.{kind}(0))"
            elif step == "clip":
                text = f"T.min(T.max({text}, T.{kind}(0)), T.{kind}(6))"
            elif step == "narrow":
                to = c.pick(["int8", "uint8", "int16"] if exact else ["float16", "bfloat16"])
                text = f'T.Cast("{to}", {text})' if to != kind else text
                kind = to
            else:
                axes = [at for at in range(len(dims)) if step == "add" or self.outs[at] in "go"]
                shape = [dims[at] for at in axes] or [Dim(1, "1")]
                numbers = d.content(kind, [dim.value for dim in shape], "small")
                more = d.argument("B", kind, shape, numbers)
                text = f"{text} + {more.at(*([use[at] for at in axes] or ['0']))}"
        if kind == total and c.chance(0.5):
            d.line(depth, f"{value.at(*use)} = {text}")
            return
        to_array = d.argument("Z", kind, dims)
        d.line(depth, f"{to_array.at(*use)} = {text}")
