"""Element-wise programs, as people write them.

There are chains with broadcasts, in plain loops and blocks; arrays that are transposed,
concatenated, cropped, padded and read with steps; sequential updates in place; views, loops of one
iteration, branches, loops that stop early; arithmetic and conversions of all dtypes. The text of a
program, run as Python, is the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fuzz.choices import Choices, SeedChoices
from fuzz.families.as_python import float_like
from fuzz.families.cases import Case
from fuzz.families.drafts import Array, Dim, Draft
from fuzz.families.formulas import DTYPES, Formulas, Read
from fuzz.families.movements import Movements
from fuzz.families.updates import Updates

__all__ = ["VERSION", "draw"]

VERSION: Final = 3

_WORK: Final = ((4, 300), (6, 1_500), (3, 5_000), (1, 20_000))
_ULPS: Final = 64
_FUNCTIONS: Final = (
    *("exp", "exp2", "log", "sqrt", "tanh", "sigmoid", "erf", "sin", "cos", "atan", "log1p"),
)


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    return _Elements(SeedChoices(f"elements {VERSION} {seed}")).case(seed)


class _Elements:
    def __init__(self, c: Choices) -> None:
        self.c = c
        self.d = Draft.drawn(c)
        self.budget = c.weighted(_WORK)
        self.dtypes = [c.pick(DTYPES) for _ in range(c.integer(1, 3))]
        self.ulps = 0
        self.deep = c.weighted([(3, 1), (5, 2), (3, 3), (1, 5)])

    def case(self, seed: int) -> Case:
        """Draw a program and its arguments."""
        what = self.c.weighted(
            [
                (8, self.chain),
                (2, self.functions),
                (5, Movements(self.d, self.dtypes, self.budget).write),
                (5, Updates(self.d, self.dtypes, self.budget).write),
                (3, self.branches),
                (2, self.locals),
                (2, self.calls),
                (2, self.lanes),
            ]
        )
        what()
        return self.d.case("elements", seed, self.ulps)

    # -- chains ----------------------------------------------------------------------------------
    def pool(self, dims: Sequence[Dim], count: int) -> list[Array]:
        """Add arguments that broadcast to a shape: some axes are left out or are 1."""
        c, d, made = self.c, self.d, list[Array]()
        for _ in range(count):
            shape = list(dims)
            if c.chance(0.4):
                how = c.pick(["last", "first", "ones"])
                if how == "last":
                    shape = shape[c.integer(0, len(shape)) :]
                elif how == "ones":
                    shape = [Dim(1, "1") if c.chance(0.5) else dim for dim in shape]
                else:
                    shape = shape[: c.integer(0, len(shape))] + [Dim(1, "1")] * 0
            dtype = c.pick(self.dtypes)
            kind = c.weighted([(5, "any"), (2, "small"), (2, "special")])
            content = d.content(dtype, [dim.value for dim in shape], kind)
            made.append(
                d.argument(
                    "X",
                    dtype,
                    shape or [Dim(1, "1")],
                    content.reshape([dim.value for dim in shape] or [1]),
                )
            )
        return made

    def read(self, array: Array, use: Sequence[str], dims: Sequence[Dim]) -> str:
        """Write the element of an array that broadcasts."""
        rank = len(array.dims)
        if rank == len(use) or not (rank == 1 and array.dims[0].text == "1"):
            names = list(use[len(use) - rank :])
            if array.dims != tuple(dims[len(dims) - rank :]) and rank < len(dims):
                same = array.dims == tuple(dims[:rank])
                names = list(use[:rank]) if same else names
            return array.at(
                *("0" if dim.text == "1" else u for dim, u in zip(array.dims, names, strict=True))
            )
        return array.at("0")

    def chain(self) -> None:
        """Write formulas of elements, one after another."""
        c, d = self.c, self.d
        rank = c.weighted([(5, 1), (5, 2), (3, 3), (1, 4)])
        dims = [d.dim(n) for n in d.extents(rank, self.budget)]
        pool = self.pool(dims, c.integer(1, 3))
        formulas = Formulas(c, smooth=c.chance(0.15))
        count = c.weighted([(3, 1), (4, 2), (3, 3), (1, 5)])
        for number in range(count):
            dtype = c.pick(self.dtypes)
            inner = number < count - 1 and c.chance(0.5)
            out = d.allocated(0, "T", dtype, dims) if inner else d.argument("Y", dtype, dims)
            spans = [(d.name("i"), dim) for dim in dims]
            loops = spans if c.chance(0.75) else spans[::-1]
            depth = self.nest(loops)
            form = c.pick(["block", "loops"])
            depth, _ = d.body(form, depth, loops)
            use = [f"v{v}" if form == "block" else v for v, _ in spans]
            reads: list[Read] = [(self.read(a, use, dims), a.dtype) for a in pool]
            if c.chance(0.2):
                reads.append((f'T.Cast("int32", {c.pick(use)})', "int32"))
            if c.chance(0.3):
                kind = c.pick(self.dtypes)
                name = d.name("t")
                text = formulas.of(kind, reads, self.deep)
                d.line(depth, f"{name}{c.pick(['', f': T.{kind}'])} = {text}")
                reads.append((name, kind))
            value = formulas.of(dtype, reads, self.deep)
            if c.chance(0.1):
                d.line(depth, f"{out.at(*use)} = {formulas.number(dtype)}")
                d.line(depth, f"if {formulas.of('bool', reads, 1)}:")
                depth += 1
            d.line(depth, f"{out.at(*use)} = {value}")
            pool.append(out)
        self.ulps = _ULPS if formulas.used else 0

    def nest(self, spans: Sequence[tuple[str, Dim]]) -> int:
        """Open loops, some of them declared parallel, as lanes, or to be written out."""
        c, d = self.c, self.d
        if c.chance(0.75):
            return d.loops(0, spans)
        depth = 0
        for at, (var, dim) in enumerate(spans):
            kinds = ["range", "range"]
            if at == 0:
                kinds.append("T.parallel")
            if at == len(spans) - 1:
                kinds.append("T.vectorized")
                if dim.value <= 16 and dim.text.isdigit():
                    kinds.append("T.unroll")
            depth = d.loop(depth, var, dim, kinds)
        return depth

    # -- functions of mathematics ----------------------------------------------------------------
    def functions(self) -> None:
        """Write one function of mathematics of each element."""
        c, d = self.c, self.d
        dtype = c.pick(["float32", "float32", "float64", "float16", "bfloat16"])
        dims = [d.dim(n) for n in d.extents(c.integer(1, 2), self.budget)]
        x = d.argument("X", dtype, dims, d.content(dtype, [dim.value for dim in dims], "any"))
        for _ in range(c.integer(1, 3)):
            out = d.argument("Y", dtype, dims)
            spans = [(d.name("i"), dim) for dim in dims]
            depth, use = d.body(c.pick(["block", "loops"]), self.nest(spans), spans)
            name = c.pick(_FUNCTIONS)
            value = x.at(*use)
            if name in ("log", "sqrt", "log1p"):
                value = f"T.abs({value})"
            d.line(depth, f"{out.at(*use)} = T.{name}({value})")
        self.ulps = 4

    # -- branches --------------------------------------------------------------------------------
    def branches(self) -> None:
        """Write branches, and loops that stop when something holds."""
        c, d = self.c, self.d
        dims = [d.dim(n) for n in d.extents(c.integer(1, 2), max(50, self.budget // 4))]
        pool = self.pool(dims, c.integer(1, 2))
        out = d.argument("Y", c.pick(self.dtypes), dims)
        spans = [(d.name("i"), dim) for dim in dims]
        depth = d.loops(0, spans)
        use = [v for v, _ in spans]
        reads: list[Read] = [(self.read(a, use, dims), a.dtype) for a in pool]
        formulas = Formulas(c)
        place = out.at(*use)
        if c.chance(0.5):
            self.branch(depth, place, out.dtype, reads, formulas, 2)
            return
        way = c.pick(["while", "break", "continue"])
        s, n = d.name("s"), d.name("n")
        d.line(depth, f"{s} = {formulas.of(out.dtype, reads, 1)}")
        d.line(depth, f"{n} = T.int32(0)")
        reads = [*reads, (s, out.dtype), (n, "int32")]
        test = formulas.of("bool", reads, 2)
        step = formulas.of(out.dtype, reads, 2)
        most = c.integer(1, 9)
        if way == "while":
            d.line(depth, f"while {n} < {most} and {test}:")
            d.line(depth + 1, f"{s} = {step}")
            d.line(depth + 1, f"{n} = {n} + 1")
        else:
            k = d.name("k")
            inner = d.loop(depth, k, most)
            d.line(inner, f"{n} = {n} + 1")
            d.line(inner, f"if {test}:")
            d.line(inner + 1, way)
            d.line(inner, f"{s} = {step}")
        d.line(depth, f"{place} = {s}")
        if c.chance(0.4):
            many = d.argument("N", "int32", dims)
            d.line(depth, f"{many.at(*use)} = {n}")

    def branch(
        self,
        depth: int,
        place: str,
        dtype: str,
        reads: Sequence[Read],
        formulas: Formulas,
        levels: int,
    ) -> None:
        """Write an if and its branches."""
        c, d = self.c, self.d
        d.line(depth, f"if {formulas.of('bool', reads, 2)}:")
        for at in range(2):
            if at == 1:
                if c.chance(0.25):
                    return
                d.line(depth, "else:")
            if levels > 1 and c.chance(0.4):
                self.branch(depth + 1, place, dtype, reads, formulas, levels - 1)
            else:
                d.line(depth + 1, f"{place} = {formulas.of(dtype, reads, self.deep)}")

    # -- arrays of one iteration -----------------------------------------------------------------
    def locals(self) -> None:
        """Write arrays that each iteration fills and reads."""
        c, d = self.c, self.d
        rows, columns = (d.dim(n) for n in d.extents(2, self.budget))
        if c.chance(0.6):
            columns = Dim(columns.value, str(columns.value))
        x = self.pool([rows, columns], 1)[0]
        kind, dtype = c.pick(self.dtypes), c.pick(self.dtypes)
        i, j = d.name("i"), d.name("j")
        depth = self.nest([(i, rows)])
        t = d.allocated(depth, "T", kind, [columns])
        formulas = Formulas(c)
        inner = d.loop(depth, j, columns)
        read = self.read(x, [i, j], [rows, columns])
        d.line(inner, f"{t.at(j)} = {formulas.of(kind, [(read, x.dtype)], self.deep)}")
        if c.chance(0.4):
            inner = d.loop(depth, j, columns)
            more = [(t.at(f"{columns.text} - 1 - {j}"), kind), (t.at(j), kind)]
            d.line(inner, f"{t.at(j)} = {formulas.of(kind, more, 1)}")
        out = d.argument("Y", dtype, [rows, columns])
        inner = d.loop(depth, j, columns)
        place = c.pick([j, f"{columns.text} - 1 - {j}", f"({j} + 1) % {columns.text}"])
        reads = [(t.at(place), kind), (t.at(j), kind), (read, x.dtype)]
        d.line(inner, f"{out.at(i, j)} = {formulas.of(dtype, reads, self.deep)}")

    # -- calls -----------------------------------------------------------------------------------
    def calls(self) -> None:
        """Write a function that another calls: for each element, or for whole arrays."""
        c, d = self.c, self.d
        dims = [d.dim(n) for n in d.extents(c.integer(1, 2), self.budget)]
        kind, dtype = c.pick(self.dtypes), c.pick(self.dtypes)
        formulas = Formulas(c)
        x = d.argument("X", kind, dims, d.content(kind, [dim.value for dim in dims], "any"))
        out = d.argument("Y", dtype, dims)
        if c.chance(0.5):
            value = formulas.of(dtype, [("a", kind)], self.deep)
            d.before += [
                "    @T.prim_func(private=True)" if c.chance(0.6) else "    @T.prim_func",
                f"    def helper(a: T.{kind}) -> T.{dtype}:",
                f"        return {value}",
            ]
            spans = [(d.name("i"), dim) for dim in dims]
            depth = self.nest(spans)
            use = [v for v, _ in spans]
            d.line(depth, f"{out.at(*use)} = cls.helper({x.at(*use)})")
            return
        names = [f"m{at}" for at in range(len(dims))]
        free = c.chance(0.5) and not (x.strides or out.strides)
        shape = ", ".join(names if free else [str(dim.value) for dim in dims])
        if not free and any(not dim.text.isdigit() for dim in dims):
            shape, free = ", ".join(names), True
        x.strides = out.strides = ()
        use = [f"i{at}" for at in range(len(dims))]
        value = formulas.of(dtype, [(f"A[{', '.join(use)}]", kind)], self.deep)
        indent = "        "
        lines = ["    @T.prim_func(private=True)", "    def helper(a: T.handle, b: T.handle):"]
        lines += [f"{indent}{name} = T.int64()" for name in names if free]
        lines += [
            f'{indent}A = T.match_buffer(a, ({shape},), "{kind}")',
            f'{indent}B = T.match_buffer(b, ({shape},), "{dtype}")',
        ]
        for at, v in enumerate(use):
            extent = names[at] if free else str(dims[at].value)
            lines.append(f"{indent}{'    ' * at}for {v} in range({extent}):")
        lines.append(f"{indent}{'    ' * len(use)}B[{', '.join(use)}] = {value}")
        d.before += lines
        d.line(0, f"cls.helper({x.name}, {out.name})")
        if c.chance(0.4):
            again = d.argument("Z", dtype, dims)
            again.strides = ()
            d.line(0, f"cls.helper({x.name}, {again.name})")

    # -- vectors ---------------------------------------------------------------------------------
    def lanes(self) -> None:
        """Write vectors of several elements at once."""
        c, d = self.c, self.d
        lanes = c.pick([2, 4, 8, 16])
        kind = c.pick([dtype for dtype in self.dtypes if dtype != "bool"] or ["float32"])
        count = c.integer(1, 20)
        size = Dim(count * lanes, str(count * lanes))
        names = [
            d.argument("X", kind, [size], self.numbers(kind, size), packed=True) for _ in range(2)
        ]
        out = d.argument("Y", kind, [size], packed=True)
        i = d.name("i")
        depth = d.loop(0, i, count)
        span = f"{i} * {lanes}:{i} * {lanes} + {lanes}"
        one, other = (a.at(span) for a in names)
        signs = "+-*" if float_like(kind) else "+-*&|^"
        value = f"{one} {c.pick(signs)} {other}"
        d.line(depth, f"{out.at(span)} = {value}")
        if c.chance(0.4):
            d.line(depth, f"{out.at(span)} = {out.at(span)} {c.pick(signs)} {one}")

    def numbers(self, dtype: str, size: Dim) -> Any:
        """Draw numbers."""
        return self.d.content(dtype, [size.value], "any")
