"""Scans as people write them: running sums, products and extremes, recurrences, segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuzz.choices import Choices
from fuzz.families.as_python import dtype_of, float_like
from fuzz.families.drafts import Array, Dim, Draft

__all__ = ["Scanning"]


class Scanning:
    """Writes a scan along one axis of an array into a draft."""

    def __init__(self, d: Draft, dtype: str, budget: int) -> None:
        self.c: Choices = d.c
        self.d, self.dtype, self.budget = d, dtype, budget

    def write(self) -> None:
        """Write a scan, and maybe one of its result."""
        c, d = self.c, self.d
        rank = c.weighted([(5, 1), (5, 2), (2, 3)])
        dims = [d.dim(n) for n in d.extents(rank, self.budget)]
        shape = [dim.value for dim in dims]
        self.way = c.weighted([(6, "+"), (3, "*"), (3, "max"), (2, "min"), (3, "linear")])
        x = d.argument("X", self.dtype, dims, self.content(shape))
        for _ in range(c.weighted([(5, 1), (1, 2)])):
            x = self.scan(x, dims)

    def content(self, shape: Sequence[int]) -> Any:
        """Draw numbers, with zeros and infinities among the factors of products."""
        c, d = self.c, self.d
        if not float_like(self.dtype):
            return d.content(self.dtype, shape, c.pick(["any", "small"]))
        if self.way == "*":
            some = [1.0, -1.0, 0.5, 1.5] if c.chance(0.6) else [1.0, 2.0, 0.0, 1.5, np.inf, -1.0]
            return d.random().choice(some, tuple(shape)).astype(dtype_of(self.dtype))
        return d.content(self.dtype, shape, c.weighted([(4, "any"), (3, "small"), (1, "special")]))

    def combine(self, before: str, read: str, more: str) -> str:
        """Write how an element joins."""
        if self.way in ("max", "min"):
            return f"T.{self.way}({before}, {read})"
        if self.way == "linear":
            return f"{before} * {more} + {read}"
        return f"{before} {self.way} {read}"

    def unit(self) -> str:
        """Write what a scan starts from."""
        if self.way == "max":
            return f'T.min_value("{self.dtype}")'
        if self.way == "min":
            return f'T.max_value("{self.dtype}")'
        return f"T.{self.dtype}({int(self.way == '*')})"

    def scan(self, x: Array, dims: Sequence[Dim]) -> Array:
        """Write a scan along one axis; return the result."""
        c, d = self.c, self.d
        axis = c.integer(0, len(dims) - 1)
        names = [d.name("i") for _ in dims]
        k = names[axis]
        more = f"T.{self.dtype}({2 if not float_like(self.dtype) else c.pick([0.5, 2.0, -0.75])})"
        if self.way == "linear" and c.chance(0.5):
            content = d.content(self.dtype, [dim.value for dim in dims], "small")
            more = d.argument("F", self.dtype, dims, content).at(*names)
        place = c.pick(["out", "out", "in place", "exclusive", "segments"])
        back = c.chance(0.2)
        if back:
            names[axis] = f"{dims[axis].text} - 1 - {k}"
            more = more.replace(f"[{k}", f"[{names[axis]}").replace(f", {k}", f", {names[axis]}")
        outer = [
            (name, dim)
            for at, (name, dim) in enumerate(zip(names, dims, strict=True))
            if at != axis
        ]
        inside = c.chance(0.75)  # the loop along the scan is the innermost
        out = x if place == "in place" else d.argument("Y", self.dtype, dims)
        flags: Array | None = None
        if place == "segments":
            content = d.random().random(dims[axis].value) < 0.25
            flags = d.argument("G", c.pick(["bool", "int8"]), [dims[axis]], content)
        if inside and c.chance(0.5):
            self.carried(x, out, names, axis, outer, dims[axis], k, place, more, flags)
        else:
            self.stored(x, out, names, axis, outer, dims[axis], k, place, more, flags, inside)
        return out

    def carried(
        self,
        x: Array,
        out: Array,
        names: Sequence[str],
        axis: int,
        outer: Sequence[tuple[str, Dim]],
        dim: Dim,
        k: str,
        place: str,
        more: str,
        flags: Array | None,
    ) -> None:
        """Write a scan whose value so far is in a scalar."""
        c, d = self.c, self.d
        depth = d.loops(0, outer)
        accumulator = d.name("s")
        if c.chance(0.5):
            d.line(depth, f'{accumulator} = T.alloc_buffer((1,), "{self.dtype}", scope="local")')
            accumulator = f"{accumulator}[0]"
        d.line(depth, f"{accumulator} = {self.unit()}")
        depth = d.loop(depth, k, dim)
        if flags is not None:
            at = flags.at(names[axis])
            d.line(depth, f"if {at if flags.dtype == 'bool' else f'{at} != T.int8(0)'}:")
            d.line(depth + 1, f"{accumulator} = {self.unit()}")
        if place == "exclusive":
            d.line(depth, f"{out.at(*names)} = {accumulator}")
        d.line(depth, f"{accumulator} = {self.combine(accumulator, x.at(*names), more)}")
        if place != "exclusive":
            d.line(depth, f"{out.at(*names)} = {accumulator}")

    def stored(
        self,
        x: Array,
        out: Array,
        names: Sequence[str],
        axis: int,
        outer: Sequence[tuple[str, Dim]],
        dim: Dim,
        k: str,
        place: str,
        more: str,
        flags: Array | None,
        inside: bool,
    ) -> None:
        """Write a scan that reads what it stored one step before."""
        c, d = self.c, self.d
        back = names[axis] != k
        before = list(names)
        before[axis] = f"{dim.text} - {k}" if back else f"{k} - 1"
        spans = [*outer, (k, dim)] if inside else [(k, dim), *outer]
        if c.chance(0.4) and place != "segments" and not back:
            # the first element is stored by itself, and the loop begins at the second
            if place == "in place":
                first = ""
            else:
                first = self.unit() if place == "exclusive" else x.at(*names).replace(k, "0")
            if first:
                depth = d.loops(0, outer)
                d.line(depth, f"if 0 < {dim.text}:")
                start = [*names]
                start[axis] = "0"
                value = first if place == "exclusive" else x.at(*start)
                d.line(depth + 1, f"{out.at(*start)} = {value}")
            depth = 0
            for var, extent in spans:
                bounds = f"1, {extent.text}" if var == k else extent.text
                d.line(depth, f"for {var} in range({bounds}):")
                depth += 1
            read = x.at(*(before if place == "exclusive" else names))
            d.line(depth, f"{out.at(*names)} = {self.combine(out.at(*before), read, more)}")
            return
        depth = d.loops(0, spans)
        read = x.at(*(before if place == "exclusive" else names))
        value = self.combine(out.at(*before), read, more)
        first = self.unit() if place == "exclusive" else x.at(*names)
        test = f"{k} == 0"
        if flags is not None:
            at = flags.at(names[axis])
            test += f" or {at if flags.dtype == 'bool' else f'{at} != T.int8(0)'}"
        if c.chance(0.5):
            d.line(depth, f"{out.at(*names)} = T.if_then_else({test}, {first}, {value})")
            return
        d.line(depth, f"if {test}:")
        d.line(depth + 1, f"{out.at(*names)} = {first}")
        d.line(depth, "else:")
        d.line(depth + 1, f"{out.at(*names)} = {value}")
