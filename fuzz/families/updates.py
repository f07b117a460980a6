"""Updates in place as people write them: each sees the effects of those before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fuzz.choices import Choices
from fuzz.families.drafts import Array, Dim, Draft
from fuzz.families.formulas import Formulas

__all__ = ["Updates"]

_BYTES: Final = {
    **dict.fromkeys(("int8", "uint8"), 1),
    **dict.fromkeys(("int16", "uint16"), 2),
    **dict.fromkeys(("int32", "uint32"), 4),
    **dict.fromkeys(("int64", "uint64"), 8),
}


class Updates:
    """Writes loops that change the arrays they read into a draft."""

    def __init__(self, d: Draft, dtypes: Sequence[str], budget: int) -> None:
        self.c: Choices = d.c
        self.d, self.budget = d, budget
        self.dtypes = dtypes
        self.dtype = self.c.pick(dtypes)
        self.formulas = Formulas(self.c)

    def write(self) -> None:
        """Write some updates of the same array."""
        c, d = self.c, self.d
        rank = c.weighted([(5, 1), (5, 2), (2, 3)])
        dims = [d.dim(n) for n in d.extents(rank, self.budget)]
        self.shape = [dim.value for dim in dims]
        x = d.argument("X", self.dtype, dims, d.content(self.dtype, self.shape, "any"))
        if rank == 1 and c.chance(0.25):
            x.strides = ()
            self.viewed(x)
            return
        for _ in range(c.weighted([(4, 1), (3, 2), (2, 3)])):
            c.weighted(
                [
                    (3, self.own),
                    (5, self.neighbours),
                    (2, self.mirror),
                    (3, self.swap),
                    (2, self.broadcast),
                    (2, self.together),
                    (1, self.shifted),
                    (2, self.part),
                ]
            )(x)

    def nest(self, dims: Sequence[Dim]) -> tuple[int, list[str]]:
        """Open loops over a shape."""
        names = [self.d.name("i") for _ in dims]
        spans = list(zip(names, dims, strict=True))
        return self.d.loops(0, spans if self.c.chance(0.75) else spans[::-1]), names

    def other(self, dims: Sequence[Dim]) -> Array:
        """Add an argument of the same shape."""
        content = self.d.content(self.dtype, [dim.value for dim in dims], "any")
        return self.d.argument("X", self.dtype, dims, content)

    def value(self, *reads: str) -> str:
        """Draw a formula in which one thing is read at least."""
        c = self.c
        if self.dtype != "bool" and c.chance(0.6):
            made = reads[0]
            for read in reads[1:]:
                made = f"{made} {c.pick('+-*')} {read}"
            return made
        return self.formulas.of(self.dtype, [(read, self.dtype) for read in reads], 2)

    # -- updates ---------------------------------------------------------------------------------
    def part(self, x: Array) -> None:
        """Change a part of the array, in loops of which some end before they begin."""
        c, d = self.c, self.d
        spans: list[tuple[str, Dim]] = []
        along = len(x.dims) > 1 and c.chance(0.5)
        for dim in x.dims[:-1] if along else x.dims:
            less = c.integer(1, 6)
            count = c.integer(-4, 0) if c.chance(0.5) else c.integer(0, dim.value)
            name = d.scalar("m", c.pick(["int64", "int32"]), count + less)
            spans.append((d.name("i"), Dim(count, f"{name} - {less}")))
        depth, use = d.loops(0, spans), [var for var, _ in spans]
        if along:
            k = d.name("k")
            depth = d.loop(depth, k, next(reversed(x.dims)) + -1)
            place = x.at(*use, f"{k} + 1")
            d.line(depth, f"{place} = {self.value(place, x.at(*use, k))}")
        elif self.dtype == "bool" or c.chance(0.4):
            place = x.at(*use)
            d.line(depth, f"{place} = {self.value(place, self.other(x.dims).at(*use))}")
        else:
            terms, total, k = self.other([*x.dims, Dim(5, "5")]), d.name("t"), d.name("k")
            d.line(depth, f"{total} = T.{self.dtype}(0)")
            d.line(d.loop(depth, k, 5), f"{total} = {total} + {terms.at(*use, k)}")
            d.line(depth, f"{x.at(*use)} = {total}")

    def own(self, x: Array) -> None:
        """Change each element by itself."""
        depth, use = self.nest(x.dims)
        place = x.at(*use)
        more = [place, self.other(x.dims).at(*use)] if self.c.chance(0.5) else [place]
        for _ in range(self.c.integer(1, 2)):
            self.d.line(depth, f"{place} = {self.value(*more)}")

    def neighbours(self, x: Array) -> None:
        """Read neighbours that were changed before, or that will be changed after."""
        c, d = self.c, self.d
        axis = c.integer(0, len(x.dims) - 1)
        by = c.pick([1, 1, 2, 3, 8, 16])
        ahead = c.chance(0.4)
        if x.dims[axis].value < by:
            return self.own(x)
        names = [d.name("i") for _ in x.dims]
        spans = list(zip(names, x.dims, strict=True))
        depth = 0
        guarded = c.chance(0.3)
        for at in range(len(spans)) if c.chance(0.7) else reversed(range(len(spans))):
            var, dim = spans[at]
            bounds = dim.text
            if at == axis and not guarded:
                bounds = (dim + -by).text if ahead else f"{by}, {dim.text}"
                if not ahead and c.chance(0.15):
                    bounds = f"{dim.text} - 1, {by - 1}, -1"
            d.line(depth, f"for {var} in range({bounds}):")
            depth += 1
        near = list(names)
        near[axis] = f"{names[axis]} {'+' if ahead else '-'} {by}"
        if len(x.dims) > 1 and c.chance(0.3):  # a diagonal one, which wraps around
            at = (axis + 1) % len(x.dims)
            near[at] = f"({names[at]} + 1) % {x.dims[at].text}"
        if guarded:
            test = f"{near[axis]} < {x.dims[axis].text}" if ahead else f"{near[axis]} >= 0"
            d.line(depth, f"if {test}:")
            depth += 1
        reads = [x.at(*near)]
        if c.chance(0.6):
            reads.append(x.at(*names))
        return d.line(depth, f"{x.at(*names)} = {self.value(*reads)}")

    def mirror(self, x: Array) -> None:
        """Read the element at the other end, which may have changed."""
        axis = self.c.integer(0, len(x.dims) - 1)
        depth, use = self.nest(x.dims)
        far = list(use)
        far[axis] = f"{x.dims[axis].text} - 1 - {use[axis]}"
        reads = [x.at(*far)] if self.c.chance(0.4) else [x.at(*far), x.at(*use)]
        self.d.line(depth, f"{x.at(*use)} = {self.value(*reads)}")

    def swap(self, x: Array) -> None:
        """Exchange elements of an array, or of two."""
        c, d = self.c, self.d
        way = c.pick(["halves", "ends", "two", "pairs"])
        axis = c.integer(0, len(x.dims) - 1)
        dim = x.dims[axis]
        dims = list(x.dims)
        if way != "two":
            dims[axis] = dim // 2
        depth, use = self.nest(dims)
        far, one = list(use), x.at(*use)
        if way == "two":
            other = self.other(x.dims).at(*use)
        else:
            if way == "halves":
                far[axis] = f"{use[axis]} + {dims[axis].text}"
            elif way == "ends":
                far[axis] = f"{dim.text} - 1 - {use[axis]}"
            else:
                near = list(use)
                near[axis], far[axis] = f"{use[axis]} * 2", f"{use[axis]} * 2 + 1"
                one = x.at(*near)
            other = x.at(*far)
        if c.chance(0.5):
            d.line(depth, f"{one}, {other} = {other}, {one}")
            return
        saved = d.name("t")
        d.line(depth, f"{saved} = {one}")
        d.line(depth, f"{one} = {other}")
        d.line(depth, f"{other} = {saved if c.chance(0.7) else self.value(saved, one)}")

    def broadcast(self, x: Array) -> None:
        """Read one element or one row of the array, which changes on the way."""
        c = self.c
        if 0 in x.shape:
            return self.own(x)
        depth, use = self.nest(x.dims)
        one = [
            c.pick([0, dim.value // 2, dim.value - 1]) if c.chance(0.6) else u
            for u, dim in zip(use, x.dims, strict=True)
        ]
        reads = [x.at(*one), x.at(*use)]
        return self.d.line(depth, f"{x.at(*use)} = {self.value(*reads)}")

    def together(self, x: Array) -> None:
        """Change two arrays, of which each reads the other."""
        c, d = self.c, self.d
        y = self.other(x.dims)
        depth, use = self.nest(x.dims)
        axis = c.integer(0, len(x.dims) - 1)
        near = list(use)
        if c.chance(0.5) and 0 not in x.shape:
            near[axis] = (
                f"T.max({use[axis]} - 1, 0)"
                if c.chance(0.5)
                else (f"T.min({use[axis]} + 1, {x.dims[axis].text} - 1)")
            )
        d.line(depth, f"{x.at(*use)} = {self.value(y.at(*near), x.at(*use))}")
        d.line(depth, f"{y.at(*use)} = {self.value(x.at(*near), y.at(*use))}")

    def shifted(self, x: Array) -> None:
        """Move all elements along, in the array itself."""
        c, d = self.c, self.d
        axis = c.integer(0, len(x.dims) - 1)
        if x.dims[axis].value < 2:
            return self.own(x)
        dims = [dim + -1 if at == axis else dim for at, dim in enumerate(x.dims)]
        depth, use = self.nest(dims)
        far = list(use)
        far[axis] = f"{use[axis]} + 1"
        one, other = x.at(*use), x.at(*far)
        if c.chance(0.5):
            one, other = other, one
        return d.line(depth, f"{one} = {other}")

    # -- views -----------------------------------------------------------------------------------
    def viewed(self, x: Array) -> None:
        """Change an array by way of another view of its memory."""
        c, d = self.c, self.d
        size, dtype = x.dims[0].value, self.dtype
        if dtype in _BYTES and c.chance(0.4):  # the same bytes as other integers
            dtype = c.pick([kind for kind in _BYTES if _BYTES[kind] <= _BYTES[self.dtype]])
            size = size * _BYTES[self.dtype] // _BYTES[dtype]
        offset = c.pick([0, 0, 1, 3])
        offset = min(offset, size)
        columns = c.pick([1, 2, 3, 4, 8])
        rows = (size - offset) // columns
        name = d.name("V")
        more = f", elem_offset={offset}" if offset else ""
        shape = f'({rows}, {columns}), "{dtype}"'
        d.line(0, f"{name} = T.decl_buffer({shape}, data={x.name}.data{more})")
        i, j = d.name("i"), d.name("j")
        depth = d.loops(0, [(i, Dim(rows, str(rows))), (j, Dim(columns, str(columns)))])
        place = f"{name}[{i}, {j}]"
        near = f"{x.name}[{c.pick([i, f'{i} * {columns} + {j}'])}]"
        if dtype != self.dtype:
            less = _BYTES[self.dtype] // _BYTES[dtype]
            near = f'T.Cast("{dtype}", {x.name}[({i} * {columns} + {j}) // {less}])'
            d.line(depth, f"{place} = {place} {c.pick('+-*')} {near}")
        else:
            d.line(depth, f"{place} = {self.value(place, near)}")
        if c.chance(0.5):
            depth, use = self.nest(x.dims)
            d.line(depth, f"{x.at(*use)} = {self.value(x.at(*use))}")
