"""Stencils as people write them: in time steps, and sums over boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fuzz.choices import Choices
from fuzz.families.as_python import float_like
from fuzz.families.drafts import Array, Dim, Draft

__all__ = ["Stencils"]


class Stencils:
    """Writes neighbours of elements into a draft; ``numbers`` fills arguments."""

    def __init__(
        self, d: Draft, form: str, total: str, budget: int, numbers: Callable[..., Any]
    ) -> None:
        self.c: Choices = d.c
        self.d, self.form, self.total, self.budget = d, form, total, budget
        self.numbers = numbers

    def stencil(self) -> None:
        """Write neighbours one by one, in the expression."""
        c, d = self.c, self.d
        rank = c.weighted([(4, 1), (5, 2), (2, 3)])
        dtype = self.total
        sizes = [d.dim(n) for n in d.extents(rank, self.budget)]
        data = d.argument("X", dtype, sizes, self.numbers(dtype, sizes, 12, 1))
        steps = c.weighted([(5, 1), (2, 2), (1, 3)])
        for _ in range(steps):
            outside = c.pick(["inside", "choice", "clamp", "wrap", "if"])
            spans = [(d.name("i"), dim) for dim in sizes]
            out = d.argument("Y", dtype, sizes)
            reach = c.pick([1, 1, 1, 2])
            points = self.points(rank, reach)
            if outside == "inside":
                self.inside(data, out, spans, points, reach)
            else:
                self.everywhere(data, out, spans, points, outside)
            data = out

    def points(self, rank: int, reach: int) -> list[tuple[int, ...]]:
        """Draw neighbours."""
        c = self.c
        if c.chance(0.6):  # a cross
            made = [(0,) * rank]
            for axis in range(rank):
                for by in (-reach, reach) if c.chance(0.8) else (-reach,):
                    made.append(tuple(by if a == axis else 0 for a in range(rank)))
            return made
        return [
            tuple(c.integer(-reach, reach) for _ in range(rank)) for _ in range(c.integer(1, 6))
        ]

    def summed(self, reads: Sequence[str], dtype: str) -> str:
        """Combine neighbours."""
        c = self.c
        way = c.weighted([(5, "sum"), (2, "max"), (1, "min"), (2, "weighted")])
        made = reads[0]
        for read in reads[1:]:
            if way in ("max", "min"):
                made = f"T.{way}({made}, {read})"
            elif way == "weighted":
                made = f"{made} {c.pick('+-')} T.{dtype}({c.integer(1, 3)}) * {read}"
            else:
                made = f"{made} + {read}"
        if way == "sum" and c.chance(0.3):
            if float_like(dtype):
                return f"({made}) * T.{dtype}({c.pick([0.5, 0.25])})"
            return f"T.shift_right({made}, T.{dtype}({c.integer(1, 3)}))"
        return made

    def inside(
        self,
        data: Array,
        out: Array,
        spans: Sequence[tuple[str, Dim]],
        points: Sequence[tuple[int, ...]],
        reach: int,
    ) -> None:
        """Write loops over the places whose neighbours are all inside."""
        d = self.d
        near = [(v, dim + -2 * reach) for v, dim in spans]
        plain = self.c.chance(0.5) or self.form == "block"
        if plain:
            depth = d.loops(0, near)
            use = [f"{v} + {reach}" for v, _ in near]
            if self.form == "block":
                depth = d.block(depth, [(f"v{v}", "S", dim, v) for v, dim in near])
                use = [f"v{v} + {reach}" for v, _ in near]
        else:
            depth = 0
            for v, dim in spans:
                d.line(depth, f"for {v} in range({reach}, {(dim + -reach).text}):")
                depth += 1
            use = [v for v, _ in spans]
        reads = [
            data.at(
                *(
                    f"{u} + {o}" if o > 0 else f"{u} - {-o}" if o else u
                    for u, o in zip(use, point, strict=True)
                )
            )
            for point in points
        ]
        d.line(depth, f"{out.at(*use)} = {self.summed(reads, data.dtype)}")

    def everywhere(
        self,
        data: Array,
        out: Array,
        spans: Sequence[tuple[str, Dim]],
        points: Sequence[tuple[int, ...]],
        outside: str,
    ) -> None:
        """Write loops over all places, with what is read outside."""
        c, d, dtype = self.c, self.d, data.dtype
        depth = d.loops(0, spans)
        depth, use = self.d.body(self.form, depth, spans)
        reads: list[str] = []
        tests: list[str] = []
        for point in points:
            places, mine = list[str](), list[str]()
            for u, o, (_, dim) in zip(use, point, spans, strict=True):
                place = f"{u} + {o}" if o > 0 else f"{u} - {-o}" if o else u
                if o and outside == "clamp":
                    place = f"T.min({place}, {dim.text} - 1)" if o > 0 else f"T.max({place}, 0)"
                elif o and outside == "wrap":
                    place = f"({place} + {dim.text} * 2) % {dim.text}"
                elif o:
                    mine.append(f"{place} < {dim.text}" if o > 0 else f"{place} >= 0")
                places.append(place)
            read = data.at(*places)
            if mine and outside == "choice":
                read = f"T.if_then_else({' and '.join(mine)}, {read}, T.{dtype}(0))"
            tests += mine
            reads.append(read)
        value = self.summed(reads, dtype)
        if outside == "if" and tests:
            d.line(depth, f"if {' and '.join(dict.fromkeys(tests))}:")
            d.line(depth + 1, f"{out.at(*use)} = {value}")
            if c.chance(0.6):
                d.line(depth, "else:")
                d.line(depth + 1, f"{out.at(*use)} = {data.at(*use)}")
        else:
            d.line(depth, f"{out.at(*use)} = {value}")

    def boxes(self) -> None:
        """Write sums over boxes, an axis at a time."""
        c, d = self.c, self.d
        rank = c.weighted([(4, 2), (2, 3), (1, 1)])
        dtype = self.total
        sizes = [d.dim(n) for n in d.extents(rank, max(8, self.budget // 6))]
        data = d.argument("X", dtype, sizes, self.numbers(dtype, sizes, 4**rank, 1))
        axes = list(range(rank))
        if c.chance(0.5):
            axes.reverse()
        for number, axis in enumerate(axes):
            taps = c.integer(2, 4)
            if data.dims[axis].value < taps:
                taps = 1
            dims = [dim + -(taps - 1) if at == axis else dim for at, dim in enumerate(data.dims)]
            inner = number < rank - 1 and c.chance(0.7)
            out = d.allocated(0, "T", dtype, dims) if inner else d.argument("Y", dtype, dims)
            spans = [(d.name("i"), dim) for dim in dims]
            tap = d.name("k")
            self.box(data, out, spans, axis, tap, taps)
            data = out

    def box(
        self,
        data: Array,
        out: Array,
        spans: Sequence[tuple[str, Dim]],
        axis: int,
        tap: str,
        taps: int,
    ) -> None:
        """Write a sum over neighbours along one axis."""
        c, d = self.c, self.d
        window = Dim(taps, str(taps))
        if self.form == "block":
            depth = d.loops(0, [*spans, (tap, window)])
            axes = [(f"v{v}", "S", dim, v) for v, dim in spans]
            depth = d.block(depth, [*axes, (f"v{tap}", "R", window, tap)])
            use, k = [name for name, *_ in axes], f"v{tap}"
            d.line(depth, "with T.init():")
            d.line(depth + 1, f"{out.at(*use)} = T.{data.dtype}(0)")
        else:
            depth = d.loops(0, spans)
            use, k = [v for v, _ in spans], tap
            if c.chance(0.4):  # written out
                reads = [
                    data.at(*(f"{u} + {t}" if a == axis else u for a, u in enumerate(use)))
                    for t in range(taps)
                ]
                d.line(depth, f"{out.at(*use)} = {' + '.join(reads)}")
                return
            d.line(depth, f"{out.at(*use)} = T.{data.dtype}(0)")
            depth = d.loop(depth, tap, window)
        read = data.at(*(f"{u} + {k}" if a == axis else u for a, u in enumerate(use)))
        d.line(depth, f"{out.at(*use)} = {out.at(*use)} + {read}")
