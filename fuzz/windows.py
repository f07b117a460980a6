"""Windows that slide over arrays, as people write them: convolutions, pools, stencils, blurs.

A window has strides, dilations and padding along one to three axes; channels are mixed, grouped or
kept apart, and stand first, last, or in blocks. What lies outside is guarded in the expression or
by a statement, copied into a larger array first, clamped or wrapped around. Programs are written as
blocks, as plain loops, or with a sum in a scalar. Their text, run as Python, is the judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fuzz.as_python import dtype_of, float_like
from fuzz.cases import Case
from fuzz.choices import Choices, SeedChoices
from fuzz.drafts import Array, Dim, Draft
from fuzz.stencils import Stencils

__all__ = ["VERSION", "draw"]

VERSION: Final = 1

_WORK: Final = ((4, 600), (6, 4_000), (3, 12_000), (1, 40_000))
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


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    return _Windows(SeedChoices(f"windows {VERSION} {seed}")).case(seed)


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
    read: Dim
    """The extent of what is read, which is larger where a padded copy was made."""


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
            [(8, "conv"), (4, "depthwise"), (3, "grouped"), (6, "pool"), (4, "stencil"), (2, "box")]
        )
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
                before = c.integer(0, taps - 1 if c.chance(0.8) else taps)
                after = before if c.chance(0.6) else c.integer(0, taps)
            reach = gap * (taps - 1) + 1
            extent = d.dim(max(size, reach - before - after, 1))
            out = (extent + (before + after - reach)) // step + 1
            if not out.text.isdigit() and c.chance(0.3):
                out = Dim(out.value, d.name("n"))  # a name of its own
                d.sizes.append(out)
            name = d.name("")
            window = d.dim(taps) if out.is_name or out.text.isdigit() else Dim(taps, str(taps))
            read = extent + (before + after) if self.outside == "copy" else extent
            sides = _Side(extent, out, window, step, gap, before, f"y{name}", f"k{name}", read)
            made.append(sides)
        return made

    def place(self, side: _Side, var: str, tap: str) -> str:
        """Write where a tap reads."""
        c = self.c
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
        apart = math.prod(dim.value for dim in self.tags.values())
        self.slides = slides = self.sides(rank, self.budget // max(1, apart) + 3)
        self.shrink(slides, apart)
        for at, side in enumerate(slides):
            self.tags |= {f"x{at}": side.size, f"y{at}": side.out, f"k{at}": side.taps}
        first = ["n"] if "n" in self.tags else []
        ins = {"conv": ["i"], "grouped": ["g", "i"]}.get(self.kind, ["g"])
        outs = {"conv": ["o"], "grouped": ["g", "o"]}.get(self.kind, ["g"])
        taps = [f"k{at}" for at in range(rank)]
        every = {stem: [f"{stem}{at}" for at in range(rank)] for stem in "xy"}
        last = c.chance(0.45)
        self.order = [*first, *every["x"], *ins] if last else [*first, *ins, *every["x"]]
        self.outs = [*first, *every["y"], *outs] if last else [*first, *outs, *every["y"]]
        if c.chance(0.1):
            self.order, self.outs = self.mixed(self.order), self.mixed(self.outs)
        self.reduced = [*(["i"] if "i" in ins else []), *taps]
        terms = math.prod(self.tags[t].value for t in self.reduced)
        self.x = self.filled_argument("X", self.data, self.order, terms)
        self.w: Array | None = None
        if self.kind != "pool":
            heads = {"conv": ["o", "i"], "grouped": ["g", "o", "i"]}.get(self.kind, ["g"])
            self.w_order = [*heads, *taps] if c.chance(0.5) else [*taps, *heads[::-1]]
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
        else:
            self.plain()

    def channels(self) -> dict[str, Dim]:
        """Draw the axes along which nothing slides: a batch, groups, channels in and out."""
        c, d = self.c, self.d
        made: dict[str, Dim] = {}
        if c.chance(0.7):
            made["n"] = d.dim(c.pick([1, 1, 2, 3]))
        some = (1, 2, 3, 4, 5, 7, 8, 12, 16)
        inner = c.pick([8, 16, 32, 64]) if c.chance(0.3) else c.pick(some)
        if self.kind == "conv":
            made["i"] = d.dim(inner)
            made["o"] = d.dim(c.pick([*some, 9, 17, 24, 32, 33, 64]))
        elif self.kind == "grouped":
            made["g"] = d.dim(c.pick([2, 3, 4, 8]))
            made["i"], made["o"] = d.dim(c.pick(some)), d.dim(c.pick(some))
        else:
            made["g"] = d.dim(inner)
        return made

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

    def shrink(self, sides: Sequence[_Side], apart: int) -> None:
        """Let windows be small where there is too much work; sizes stay."""
        most = 4 * self.budget
        while apart * math.prod(s.out.value * s.taps.value for s in sides) > most:
            one = max(sides, key=lambda s: s.taps.value)
            if one.taps.value == 1 or not one.taps.text.isdigit():
                return
            one.taps = Dim(one.taps.value - 1, str(one.taps.value - 1))

    def padded(self) -> None:
        """Write the copy into a larger array, which is read from then on."""
        c, d, order, data = self.c, self.d, self.order, self.x
        at = {f"x{i}": side for i, side in enumerate(self.slides)}
        dims = [at[tag].read if tag in at else self.tags[tag] for tag in order]
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

    def converted(self, text: str, dtype: str, to: str) -> str:
        """Write a conversion, where one is needed."""
        return text if dtype == to else f'T.Cast("{to}", {text})'

    def spans(self, tags: Sequence[str]) -> list[tuple[str, Dim]]:
        """Return the loops over axes."""
        return [(self.names[t], self.tags[t]) for t in tags]

    def blocks(self) -> None:
        """Write a block with its iterators."""
        c, d = self.c, self.d
        outer, inner = self.spans(self.outs), self.spans(self.reduced)
        apart = self.outside == "if" or c.chance(0.25)
        use = {tag: f"v{var}" for tag, var in self.names.items()}
        place = self.y.at(*(use[t] for t in self.outs))
        empty = self.empty(self.total)
        if apart:
            depth, _ = d.body(self.form, d.loops(0, outer), outer)
            d.line(depth, f"{place} = {empty}")
        spans = [*outer, *inner] if c.chance(0.6) else self.mixed([*outer, *inner])
        reduced = {var for var, _ in inner}
        axes = [(f"v{var}", "R" if var in reduced else "S", dim, var) for var, dim in spans]
        depth = d.block(d.loops(0, spans), axes)
        if not apart:
            d.line(depth, "with T.init():")
            d.line(depth + 1, f"{place} = {empty}")
        self.step(depth, use, place)
        if self.reducer == "mean" or c.chance(0.3):
            self.after()

    def plain(self) -> None:
        """Write loops, with a sum in the result or in a scalar."""
        c, d = self.c, self.d
        outer, inner = self.spans(self.outs), self.spans(self.reduced)
        outer = self.mixed(outer) if c.chance(0.3) else outer
        inner = self.mixed(inner) if c.chance(0.4) else inner
        place = self.y.at(*(self.names[t] for t in self.outs))
        depth = d.loops(0, outer)
        held = place
        if self.form == "scalar":
            held = d.name("s")
            if c.chance(0.5):
                d.line(depth, f'{held} = T.alloc_buffer((1,), "{self.total}", scope="local")')
                held = f"{held}[0]"
        d.line(depth, f"{held} = {self.empty(self.total)}")
        self.step(d.loops(depth, inner), self.names, held)
        if self.reducer == "mean":
            d.line(depth, f"{place} = {self.mean(held)}")
        elif held != place:
            d.line(depth, f"{place} = {held}")
        if c.chance(0.15):
            self.after()

    def step(self, depth: int, use: dict[str, str], held: str) -> None:
        """Write how one element joins."""
        c, d, total = self.c, self.d, self.total
        places = [self.place(s, use[f"y{at}"], use[f"k{at}"]) for at, s in enumerate(self.slides)]
        test = " and ".join(self.tests(self.slides, places))
        at = {
            f"x{i}": self.kept(p, s)
            for i, (p, s) in enumerate(zip(places, self.slides, strict=True))
        }
        read = self.x.at(*(at.get(t) or use[t] for t in self.order))
        if self.outside == "choice":
            read = f"T.if_then_else({test}, {read}, {self.empty(self.x.dtype)})"
        value = self.converted(read, self.x.dtype, total)
        if self.w is not None:
            factor = self.w.at(*(use[t] for t in self.w_order))
            factor = self.converted(factor, self.w.dtype, total)
            value = f"{value} * {factor}" if c.chance(0.8) else f"{factor} * {value}"
        if self.outside == "if":
            d.line(depth, f"if {test}:")
            depth += 1
        if self.reducer in ("max", "min"):
            d.line(depth, f"{held} = T.{self.reducer}({held}, {value})")
        elif c.chance(0.5):
            d.line(depth, f"{held} += {value}")
        else:
            d.line(depth, f"{held} = {held} + {value}")

    def mean(self, text: str) -> str:
        """Write a sum that is divided."""
        count = f"T.{self.total}({math.prod(self.tags[t].value for t in self.reduced)})"
        if float_like(self.total):
            return f"{text} / {count}"
        return f"T.div({text}, {count})" if self.c.chance(0.5) else f"{text} // {count}"

    def after(self) -> None:
        """Write what is made of the sums, in loops of its own."""
        c, d = self.c, self.d
        spans = [(d.name("f"), self.tags[t]) for t in self.outs]
        depth, use = d.body(self.form, d.loops(0, spans), spans)
        place = self.y.at(*use)
        value = f"T.max({place}, T.{self.total}(0))"
        if self.reducer == "mean" and self.form == "block":
            value = self.mean(place)
        if c.chance(0.5):
            d.line(depth, f"{place} = {value}")
            return
        to = d.argument("Z", self.total, self.y.dims)
        d.line(depth, f"{to.at(*use)} = {value}")
