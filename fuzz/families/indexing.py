"""Programs with indirect accesses, as people write them: gathers, scatters, histograms, merges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fuzz.choices import Choices
from fuzz.families.as_python import float_like
from fuzz.families.drafts import Array, Dim, Draft

__all__ = ["Indexing"]


class Indexing:
    """Writes loops whose indices are numbers of arrays into a draft."""

    def __init__(self, d: Draft, dtype: str, budget: int) -> None:
        self.c: Choices = d.c
        self.d, self.dtype, self.budget = d, dtype, budget
        self.whole = self.c.pick(["int32", "int32", "int64"])
        """The dtype of indices."""

    def write(self) -> None:
        """Write one such program."""
        self.c.weighted(
            [
                (3, self.gather),
                (3, self.scatter),
                (3, self.histogram),
                (2, self.bags),
                (2, self.sparse_rows),
                (2, self.merge),
                (2, self.search),
                (2, self.compact),
                (1, self.insertion),
                (1, self.bubbles),
                (1, self.runs),
            ]
        )()

    def rows(self, stem: str, dims: Sequence[Dim], kind: str = "") -> Array:
        """Add an argument with numbers."""
        kind = kind or self.c.pick(["any", "small"])
        content = self.d.content(self.dtype, [dim.value for dim in dims], kind)
        return self.d.argument(stem, self.dtype, dims, content)

    def indices(self, dims: Sequence[Dim], below: int, kind: str = "") -> Array:
        """Add an argument with indices below a number."""
        shape = tuple(dim.value for dim in dims)
        random = self.d.random()
        dtype = kind or self.whole
        if below <= 0:
            shape = tuple(0 for _ in shape)
        made = random.integers(0, max(1, below), shape)
        if self.c.chance(0.2):
            made = np.sort(made.ravel()).reshape(shape)
        return self.d.argument("J", dtype, dims, made)

    def size(self, most: int = 200) -> Dim:
        """Draw a size that is not zero."""
        return self.d.dim(max(1, self.d.extent(most)))

    def two(self) -> tuple[Dim, Dim]:
        """Draw two sizes, neither of them zero."""
        rows, columns = (self.d.dim(max(1, n)) for n in self.d.extents(2, self.budget))
        return rows, columns

    # -- gathers and scatters --------------------------------------------------------------------
    def gather(self) -> None:
        """Write rows or elements that indices name."""
        c, d = self.c, self.d
        count, columns = self.two()
        known = self.size(60)
        i, j = d.name("i"), d.name("j")
        way = c.pick(["rows", "columns", "elements", "pairs"])
        if way == "rows":
            x, index = self.rows("X", [known, columns]), self.indices([count], known.value)
            out = d.argument("Y", self.dtype, [count, columns])
            value = x.at(index.at(i), j)
        elif way == "columns":
            x, index = self.rows("X", [count, known]), self.indices([columns], known.value)
            out = d.argument("Y", self.dtype, [count, columns])
            value = x.at(i, index.at(j))
        elif way == "elements":
            x, index = self.rows("X", [count, known]), self.indices([count, columns], known.value)
            out = d.argument("Y", self.dtype, [count, columns])
            value = x.at(i, index.at(i, j))
        else:
            x, index = self.rows("X", [known]), self.indices([count], known.value)
            again = self.indices([columns], count.value)
            out = d.argument("Y", self.dtype, [count, columns])
            value = f"{x.at(index.at(i))} + {x.at(index.at(again.at(j)))}"
        spans = [(i, count), (j, columns)]
        form = c.pick(["block", "loops"])
        spans = spans if c.chance(0.7) else spans[::-1]
        depth = d.loops(0, spans)
        place = out.at(i, j)
        if form == "block":
            depth, _ = d.body(form, depth, spans)
            for var in (i, j):
                value = value.replace(f"{var}]", f"v{var}]").replace(f"{var},", f"v{var},")
            place = out.at(f"v{i}", f"v{j}")
        if c.chance(0.2):
            d.line(depth, f"{place} = {value} + {value}")
        else:
            d.line(depth, f"{place} = {value}")

    def scatter(self) -> None:
        """Write elements to where indices say: the last one stays, or all are combined."""
        c, d = self.c, self.d
        count, columns = self.two()
        known = self.size(60)
        x = self.rows("X", [count, columns])
        index = self.indices([count], known.value)
        out = self.rows("Y", [known, columns])
        i, j = d.name("i"), d.name("j")
        spans = [(i, count), (j, columns)]
        depth = d.loops(0, spans if c.chance(0.7) else spans[::-1])
        place, read = out.at(index.at(i), j), x.at(i, j)
        how = c.pick(["set", "add", "add", "max", "other"])
        if how == "set":
            d.line(depth, f"{place} = {read}")
        elif how == "add":
            d.line(depth, f"{place} += {read}")
        elif how == "max":
            d.line(depth, f"{place} = T.max({place}, {read})")
        else:
            d.line(depth, f"if {read} > T.{self.dtype}(0):")
            d.line(depth + 1, f"{place} = {read} - {place}")

    def histogram(self) -> None:
        """Count, or sum up weights, by bins."""
        c, d = self.c, self.d
        count, bins = self.size(300), self.size(40)
        key = c.pick(["int32", "uint8", "int64"])
        x = self.indices([count], min(bins.value, 200), key)
        kind = c.pick(["int32", "float32", "int64", "uint8"])
        out = d.argument("H", kind, [bins])
        b, i = d.name("b"), d.name("i")
        if c.chance(0.7):
            d.line(d.loop(0, b, bins), f"{out.at(b)} = T.{kind}(0)")
        depth = d.loop(0, i, count)
        bin_of = f'T.Cast("int32", {x.at(i)})' if key == "uint8" or c.chance(0.3) else x.at(i)
        if c.chance(0.3):
            name = d.name("w")
            d.line(depth, f"{name} = {bin_of}")
            bin_of = name
        more = f"T.{kind}(1)"
        if c.chance(0.4):
            weights = d.argument(
                "W", kind, [count], d.content(kind, [count.value], c.pick(["any", "small"]))
            )
            more = weights.at(i)
        if c.chance(0.3):
            d.line(depth, f"if {i} % 3 != 1:")
            depth += 1
        d.line(depth, f"{out.at(bin_of)} = {out.at(bin_of)} + {more}")

    # -- segments --------------------------------------------------------------------------------
    def bags(self) -> None:
        """Sum up the rows that the indices of each bag name."""
        c, d = self.c, self.d
        count, columns = self.two()
        known, many = self.size(40), self.size(12)
        x = self.rows("X", [known, columns])
        index = self.indices([count, many], known.value)
        out = d.argument("Y", self.dtype, [count, columns])
        i, j, k = d.name("i"), d.name("j"), d.name("k")
        orders = [[i, j, k], [i, k, j], [k, i, j]]
        order = c.pick(orders)
        dims = {i: count, j: columns, k: many}
        if order[-1] == k:
            depth = d.loops(0, [(i, count), (j, columns)])
            d.line(depth, f"{out.at(i, j)} = T.{self.dtype}(0)")
            depth = d.loop(depth, k, many)
        else:
            depth = d.loops(0, [(i, count), (j, columns)])
            d.line(depth, f"{out.at(i, j)} = T.{self.dtype}(0)")
            depth = d.loops(0, [(v, dims[v]) for v in order])
        d.line(depth, f"{out.at(i, j)} += {x.at(index.at(i, k), j)}")

    def starts(self, rows: Dim, most: int) -> tuple[Array, int]:
        """Add an argument with where each row starts in a list, and where the last one ends."""
        made = self.d.random().integers(0, max(1, most), rows.value + 1)
        made[0] = 0
        ends = np.cumsum(made)
        return self.d.argument("P", self.whole, [rows + 1], ends), int(ends[-1])

    def sparse_rows(self) -> None:
        """Sum up sparse rows, each from where it starts to where the next one starts."""
        c, d = self.c, self.d
        rows, known = self.size(40), self.size(40)
        starts, end = self.starts(rows, 9)
        many = d.dim(end)
        values, columns = self.rows("A", [many]), self.indices([many], known.value)
        i, k = d.name("i"), d.name("k")
        dense = c.chance(0.5)
        depth = d.loop(0, i, rows)
        span = f"{starts.at(i)}, {starts.at(f'{i} + 1')}"
        if dense:
            wide = self.size(20)
            x = self.rows("X", [known, wide])
            out = d.argument("Y", self.dtype, [rows, wide])
            j = d.name("j")
            inner = d.loop(depth, j, wide)
            d.line(inner, f"{out.at(i, j)} = T.{self.dtype}(0)")
            if c.chance(0.5):
                d.line(inner, f"for {k} in range({span}):")
                inner += 1
            else:
                d.line(depth, f"for {k} in range({span}):")
                inner = d.loop(depth + 1, j, wide)
            d.line(inner, f"{out.at(i, j)} += {values.at(k)} * {x.at(columns.at(k), j)}")
            return
        x = self.rows("X", [known])
        out = d.argument("Y", self.dtype, [rows])
        s = d.name("s")
        d.line(depth, f"{s} = T.{self.dtype}(0)")
        d.line(depth, f"for {k} in range({span}):")
        d.line(depth + 1, f"{s} = {s} + {values.at(k)} * {x.at(columns.at(k))}")
        d.line(depth, f"{out.at(i)} = {s}")

    # -- loops that stop -------------------------------------------------------------------------
    def sorted_rows(self, stem: str, size: Dim) -> Array:
        """Add an argument with sorted numbers."""
        kind = "any" if self.c.chance(0.4) else "small"
        return self.d.argument(
            stem, self.dtype, [size], np.sort(self.d.content(self.dtype, [size.value], kind))
        )

    def merge(self) -> None:
        """Merge two sorted lists."""
        c, d = self.c, self.d
        one, other = self.size(60), self.size(60)
        a, b = self.sorted_rows("A", one), self.sorted_rows("B", other)
        out = d.argument("Y", self.dtype, [one + other])
        i, j = d.name("i"), d.name("j")
        d.line(0, f"{i}: T.int64 = T.int64(0)")
        d.line(0, f"{j}: T.int64 = T.int64(0)")
        if c.chance(0.5):
            k = d.name("k")
            depth = d.loop(0, k, one + other)
            d.line(
                depth,
                f"if {j} >= {other.text} or {i} < {one.text} and {a.at(i)} <= {b.at(j)}:",
            )
            d.line(depth + 1, f"{out.at(k)} = {a.at(i)}")
            d.line(depth + 1, f"{i} = {i} + T.int64(1)")
            d.line(depth, "else:")
            d.line(depth + 1, f"{out.at(k)} = {b.at(j)}")
            d.line(depth + 1, f"{j} = {j} + T.int64(1)")
            return
        k = f"{i} + {j}"
        d.line(0, f"while {i} < {one.text} and {j} < {other.text}:")
        d.line(1, f"if {a.at(i)} <= {b.at(j)}:")
        d.line(2, f"{out.at(k)} = {a.at(i)}")
        d.line(2, f"{i} = {i} + T.int64(1)")
        d.line(1, "else:")
        d.line(2, f"{out.at(k)} = {b.at(j)}")
        d.line(2, f"{j} = {j} + T.int64(1)")
        for at, of, dim in ((i, a, one), (j, b, other)):
            d.line(0, f"while {at} < {dim.text}:")
            d.line(1, f"{out.at(k)} = {of.at(at)}")
            d.line(1, f"{at} = {at} + T.int64(1)")

    def search(self) -> None:
        """Find where each number stands in a sorted list."""
        c, d = self.c, self.d
        known, count = self.size(100), self.size(60)
        a, x = self.sorted_rows("A", known), self.rows("X", [count])
        out = d.argument("Y", self.whole, [count])
        i, low, high = d.name("i"), d.name("l"), d.name("h")
        depth = d.loop(0, i, count)
        if c.chance(0.3):
            k, s = d.name("k"), d.name("s")
            d.line(depth, f"{s} = T.{self.whole}(0)")
            inner = d.loop(depth, k, known)
            d.line(inner, f"if {a.at(k)} >= {x.at(i)}:")
            d.line(inner + 1, "break")
            d.line(inner, f"{s} = {s} + T.{self.whole}(1)")
            d.line(depth, f"{out.at(i)} = {s}")
            return
        d.line(depth, f"{low}: T.int64 = T.int64(0)")
        d.line(depth, f'{high}: T.int64 = T.Cast("int64", {known.text})')
        d.line(depth, f"while {low} < {high}:")
        middle = d.name("m")
        d.line(depth + 1, f"{middle}: T.int64 = ({low} + {high}) // T.int64(2)")
        d.line(depth + 1, f"if {a.at(middle)} < {x.at(i)}:")
        d.line(depth + 2, f"{low} = {middle} + T.int64(1)")
        d.line(depth + 1, "else:")
        d.line(depth + 2, f"{high} = {middle}")
        d.line(depth, f'{out.at(i)} = T.Cast("{self.whole}", {low})')

    def compact(self) -> None:
        """Keep the elements that satisfy a condition, and count them."""
        c, d = self.c, self.d
        count = self.size(200)
        x = self.rows("X", [count])
        out, many = d.argument("Y", self.dtype, [count]), d.argument("N", "int32", [Dim(1, "1")])
        i = d.name("i")
        n = many.at(0) if c.chance(0.5) else d.name("n")
        d.line(0, f"{n} = T.int32(0)")
        depth = d.loop(0, i, count)
        d.line(depth, f"if {x.at(i)} > T.{self.dtype}(1):")
        d.line(depth + 1, f"{out.at(n)} = {x.at(i)}")
        d.line(depth + 1, f"{n} = {n} + T.int32(1)")
        if c.chance(0.3):
            d.line(depth, f"if {i} > {count.value * 3 // 4}:")
            d.line(depth + 1, "break")
        if n != many.at(0):
            d.line(0, f"{many.at(0)} = {n}")

    def insertion(self) -> None:
        """Sort by insertion, in place."""
        d = self.d
        count = self.size(30)
        x = self.rows("X", [count])
        i, j, v = d.name("i"), d.name("j"), d.name("v")
        depth = d.loop(0, i, count)
        d.line(depth, f"{v} = {x.at(i)}")
        d.line(depth, f'{j}: T.int64 = T.Cast("int64", {i})')
        before = x.at(f"{j} - T.int64(1)")
        d.line(depth, f"while {j} > T.int64(0) and {before} > {v}:")
        d.line(depth + 1, f"{x.at(j)} = {before}")
        d.line(depth + 1, f"{j} = {j} - T.int64(1)")
        d.line(depth, f"{x.at(j)} = {v}")

    def bubbles(self) -> None:
        """Sort the rows of an array by exchanges of neighbours, in place."""
        c, d = self.c, self.d
        rows, columns = self.size(8), self.size(17)
        x = self.rows("X", [rows, columns])
        r, i, j = d.name("r"), d.name("i"), d.name("j")
        spans = [(r, rows), (i, columns)]
        depth = d.loops(0, spans if c.chance(0.6) else spans[::-1])
        short = c.chance(0.5)
        last = f"{columns.text} - 1 - {i}" if short else f"{columns.text} - 1"
        d.line(depth, f"for {j} in range({last}):")
        one, other = x.at(r, j), x.at(r, f"{j} + 1")
        way = c.pick(["swap", "saved", "extremes"])
        if way == "extremes" and not float_like(self.dtype):
            low, high = d.name("a"), d.name("b")
            d.line(depth + 1, f"{low} = T.min({one}, {other})")
            d.line(depth + 1, f"{high} = T.max({one}, {other})")
            d.line(depth + 1, f"{one} = {low}")
            d.line(depth + 1, f"{other} = {high}")
            return
        d.line(depth + 1, f"if {one} > {other}:")
        if way == "swap":
            d.line(depth + 2, f"{one}, {other} = {other}, {one}")
            return
        saved = d.name("t")
        d.line(depth + 2, f"{saved} = {one}")
        d.line(depth + 2, f"{one} = {other}")
        d.line(depth + 2, f"{other} = {saved}")

    def runs(self) -> None:
        """Encode a list by the lengths of its runs."""
        d = self.d
        count = self.size(100)
        content = np.sort(self.d.content(self.dtype, [count.value], "small"))
        x = d.argument("X", self.dtype, [count], content)
        out, long = d.argument("Y", self.dtype, [count]), d.argument("L", "int32", [count])
        i, n = d.name("i"), d.name("n")
        d.line(0, f"{n} = T.int32(-1)")
        depth = d.loop(0, i, count)
        d.line(depth, f"if {i} == 0 or {x.at(i)} != {x.at(f'{i} - 1')}:")
        d.line(depth + 1, f"{n} = {n} + T.int32(1)")
        d.line(depth + 1, f"{out.at(n)} = {x.at(i)}")
        d.line(depth + 1, f"{long.at(n)} = T.int32(0)")
        d.line(depth, f"{long.at(n)} = {long.at(n)} + T.int32(1)")
