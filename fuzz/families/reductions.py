"""Reductions as people write them: sums, extremes, scans, histograms, merges.

Any axes are reduced by any combiner, or by several over the same data. The initial value is in an
init, before the loops, in the first iteration, in a scalar, or is the first element. Chains such as
softmax reduce, and use the result in the next loop. The text of a program, run as Python, is the
reference: plain loops run in order, so any floats will do; in blocks sums are exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fuzz.choices import Choices, SeedChoices
from fuzz.families.as_python import dtype_of, float_like
from fuzz.families.cases import Case
from fuzz.families.drafts import Array, Dim, Draft
from fuzz.families.indexing import Indexing
from fuzz.families.ordered import NAMES as ORDERED
from fuzz.families.ordered import ordered_step
from fuzz.families.scanning import Scanning

__all__ = ["VERSION", "draw"]

VERSION: Final = 2

_WORK: Final = ((4, 500), (6, 3_000), (3, 10_000), (1, 40_000))
_EXACT: Final = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}
_DTYPES: Final = (
    (8, "float32"),
    (4, "float64"),
    (4, "float16"),
    (4, "bfloat16"),
    (5, "int32"),
    (4, "int8"),
    (4, "uint8"),
    (3, "int16"),
    (2, "uint16"),
    (2, "int64"),
    (1, "uint32"),
)
_ULPS: Final = 24


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    return _Reductions(SeedChoices(f"reductions {VERSION} {seed}")).case(seed)


@dataclass
class _Reducer:
    """How elements join: the dtype of the result, what it starts from, and the step."""

    name: str
    total: str
    start: str
    step: Callable[[str, str], str]
    after: Callable[[str], str] | None = None


class _Reductions:
    def __init__(self, c: Choices) -> None:
        self.c = c
        self.d = Draft.drawn(c)
        self.form = c.weighted([(5, "block"), (6, "loops"), (4, "scalar")])
        self.budget = c.weighted(_WORK)
        self.dtype = c.weighted(_DTYPES)
        self.ulps = 0

    def case(self, seed: int) -> Case:
        """Draw a program and its arguments."""
        c = self.c
        what = c.weighted(
            [(12, "reduce"), (3, "arg"), (3, "chain"), (5, "scan"), (5, "index"), (3, "moments")]
        )
        if what == "scan":
            Scanning(self.d, self.dtype, self.budget).write()
        elif what == "index":
            Indexing(self.d, self.dtype, self.budget).write()
        else:
            {
                "reduce": self.reduce,
                "arg": self.extremes,
                "chain": self.chain,
                "moments": self.moments,
            }[what]()
        return self.d.case("reductions", seed, self.ulps)

    # -- data ----------------------------------------------------------------------------------
    def numbers(self, dtype: str, shape: Sequence[int], terms: int, kind: str = "sum") -> Any:
        """Draw numbers; in blocks their sums and products are exact in any order."""
        c, d = self.c, self.d
        if not float_like(dtype):
            return d.content(dtype, shape, c.pick(["any", "small"]))
        random = d.random()
        if kind == "prod":
            made = random.choice([1.0, -1.0, 2.0, 0.5], tuple(shape), p=[0.47, 0.47, 0.03, 0.03])
            return made.astype(dtype_of(dtype))
        if self.form != "block":
            return d.content(dtype, shape, c.weighted([(6, "any"), (2, "small"), (1, "special")]))
        if kind in ("max", "min"):
            return d.content(dtype, shape, c.pick(["any", "small"]))
        most = min(7, math.isqrt(_EXACT[dtype] // max(1, terms)))
        made = random.integers(-max(1, most), max(1, most), tuple(shape), endpoint=True)
        if not most or terms * most * most > _EXACT[dtype]:
            made = np.where(random.random(tuple(shape)) < 0.1, made, 0)
            made = np.where(np.cumsum(abs(made).ravel()).reshape(made.shape) < 100, made, 0)
        return made.astype(dtype_of(dtype))

    def reducer(self, dtype: str) -> _Reducer:
        """Draw how elements join."""
        c = self.c
        wide = dtype
        if c.chance(0.5):
            wide = {
                "int8": c.pick(["int32", "int16", "int64"]),
                "uint8": c.pick(["int32", "uint32", "uint16"]),
                "int16": "int32",
                "uint16": "uint32",
                "float16": "float32",
                "bfloat16": "float32",
                "float32": c.pick(["float32", "float64"]),
                "int32": c.pick(["int32", "int64"]),
            }.get(dtype, dtype)
        names = ["sum", "sum", "sum", "prod", "max", "min", "absmax", "squares", "count"]
        if not float_like(dtype):
            names += ["and", "or", "xor", "any", "all"]
        name = c.pick(ORDERED if c.chance(0.15) else names)
        zero, one = f"T.{wide}(0)", f"T.{wide}(1)"

        def to(text: str) -> str:
            return text if wide == dtype else f'T.Cast("{wide}", {text})'

        def positive(text: str) -> str:
            if dtype.startswith("u"):
                return to(text)
            if c.chance(0.5):
                return f"T.abs({to(text)})"
            return f"T.max({to(text)}, T.{wide}(0) - {to(text)})"

        if name in ORDERED:
            return _Reducer(name, wide, zero, ordered_step(name, wide, c, to))
        low = f'T.min_value("{wide}")'
        if name == "max" and float_like(wide) and c.chance(0.3):
            low = f'T.Cast("{wide}", T.float32(-3.0))'
        made = {
            "sum": _Reducer(name, wide, zero, lambda s, x: f"{s} + {to(x)}"),
            "prod": _Reducer(name, wide, one, lambda s, x: f"{s} * {to(x)}"),
            "max": _Reducer(name, wide, low, lambda s, x: f"T.max({s}, {to(x)})"),
            "min": _Reducer(
                name, wide, f'T.max_value("{wide}")', lambda s, x: f"T.min({s}, {to(x)})"
            ),
            "absmax": _Reducer(name, wide, zero, lambda s, x: f"T.max({s}, {positive(x)})"),
            "squares": _Reducer(name, wide, zero, lambda s, x: f"{s} + {to(x)} * {to(x)}"),
            "count": _Reducer(
                name,
                "int32",
                "T.int32(0)",
                lambda s, x: (
                    f'{s} + T.Cast("int32", {x} > T.{dtype}(1))'
                    if c.chance(0.5)
                    else f"{s} + T.if_then_else({x} > T.{dtype}(1), T.int32(1), T.int32(0))"
                ),
            ),
            "and": _Reducer(name, wide, f"T.{wide}(127)", lambda s, x: f"{s} & {to(x)}"),
            "or": _Reducer(name, wide, zero, lambda s, x: f"{s} | {to(x)}"),
            "xor": _Reducer(name, wide, zero, lambda s, x: f"{s} ^ {to(x)}"),
            "any": _Reducer(
                name, "bool", "T.bool(False)", lambda s, x: f"{s} or {x} == T.{dtype}(5)"
            ),
            "all": _Reducer(
                name, "bool", "T.bool(True)", lambda s, x: f"{s} and {x} != T.{dtype}(5)"
            ),
        }[name]
        if name == "squares" and float_like(wide) and c.chance(0.5):
            made.after = lambda s: f"T.sqrt({s})"
        return made

    # -- reductions of some axes -----------------------------------------------------------------
    def reduce(self) -> None:
        """Write reductions of any axes, by one reducer or several over the same data."""
        c, d = self.c, self.d
        rank = c.weighted([(4, 1), (6, 2), (4, 3), (2, 4)])
        dims = [d.dim(n) for n in d.extents(rank, self.budget)]
        gone = [c.chance(0.55) for _ in range(rank)]
        if not any(gone) and c.chance(0.9):
            gone[c.integer(0, rank - 1)] = True
        reducers = [self.reducer(self.dtype) for _ in range(c.weighted([(6, 1), (2, 2), (1, 3)]))]
        kinds = {r.name for r in reducers}
        kind = "prod" if "prod" in kinds else "max" if kinds <= {"max", "min", "absmax"} else "sum"
        terms = math.prod(dim.value for dim, g in zip(dims, gone, strict=True) if g)
        shape = [dim.value for dim in dims]
        x = d.argument("X", self.dtype, dims, self.numbers(self.dtype, shape, terms, kind))
        mask = None
        if c.chance(0.15):
            mask = d.argument("M", c.pick(["bool", "int8"]), dims, self.flags(shape))
        names = [d.name("i") for _ in dims]
        kept = [at for at in range(rank) if not gone[at]]
        order = kept if c.chance(0.8) else kept[::-1]
        keepdims = c.chance(0.2)
        outs = [
            d.argument(
                "Y",
                r.total,
                [Dim(1, "1") if gone[at] else dims[at] for at in range(rank)]
                if keepdims
                else [dims[at] for at in order] or [Dim(1, "1")],
            )
            for r in reducers
        ]

        def place(out: Array, use: Sequence[str]) -> str:
            if keepdims:
                return out.at(*("0" if gone[at] else use[at] for at in range(rank)))
            return out.at(*([use[at] for at in order] or ["0"]))

        spans = list(zip(names, dims, strict=True))
        outer = [spans[at] for at in kept]
        inner = [spans[at] for at in range(rank) if gone[at]]
        inner = self.mixed(inner) if c.chance(0.25) else inner
        if self.form == "block":
            self.blocks(x, mask, spans, gone, reducers, [lambda u, o=o: place(o, u) for o in outs])
        else:
            self.plain(x, mask, names, outer, inner, reducers, [place(o, names) for o in outs])

    def flags(self, shape: Sequence[int]) -> Any:
        return self.d.random().random(tuple(shape)) < 0.6

    def mixed(self, things: Sequence[Any]) -> list[Any]:
        """Put things into another order."""
        left, made = list(things), list[Any]()
        while left:
            made.append(left.pop(self.c.integer(0, len(left) - 1)))
        return made

    def asked(self, mask: Array, use: Sequence[str]) -> str:
        """Write whether an element counts."""
        return mask.at(*use) if mask.dtype == "bool" else f"{mask.at(*use)} != T.int8(0)"

    def blocks(
        self,
        x: Array,
        mask: Array | None,
        spans: Sequence[tuple[str, Dim]],
        gone: Sequence[bool],
        reducers: Sequence[_Reducer],
        places: Sequence[Callable[[Sequence[str]], str]],
    ) -> None:
        """Write blocks: one for all reducers, or one for each."""
        c, d = self.c, self.d
        groups = [[n] for n in range(len(reducers))]
        if c.chance(0.5):
            groups = [list(range(len(reducers)))]
        use = [f"v{var}" for var, _ in spans]
        for group in groups:
            order = list(range(len(spans)))
            order = self.mixed(order) if c.chance(0.3) else order
            depth = d.loops(0, [spans[at] for at in order])
            depth = d.block(
                depth,
                [(use[at], "R" if gone[at] else "S", spans[at][1], spans[at][0]) for at in order],
            )
            starts = [self.start(reducers[n], places[n](use)) for n in group]
            d.line(depth, "with T.init():")
            for n, start in zip(group, starts, strict=True):
                d.line(depth + 1, f"{places[n](use)} = {start}")
            read = x.at(*use)
            for n in group:
                accumulator = places[n](use)
                value = reducers[n].step(accumulator, read)
                if mask is not None and c.chance(0.5):
                    value = f"T.if_then_else({self.asked(mask, use)}, {value}, {accumulator})"
                d.line(depth, f"{accumulator} = {value}")
        for n, reducer in enumerate(reducers):
            if reducer.after is not None:
                kept = [spans[at] for at in range(len(spans)) if not gone[at]]
                depth, _ = d.body(self.form, d.loops(0, kept), kept)
                accumulator = places[n](use)
                d.line(depth, f"{accumulator} = {reducer.after(accumulator)}")

    def start(self, reducer: _Reducer, place: str) -> str:
        """Write what a reduction starts from; some start from an element of an array."""
        if reducer.total == "bool" or self.c.chance(0.85):
            return reducer.start
        out = next(a for a in self.d.arrays if place.startswith(f"{a.name}["))
        small = self.d.content(reducer.total, out.shape, "small")
        given = self.d.argument("S", reducer.total, out.dims, small)
        return f"{given.name}{place[len(out.name) :]}"

    def plain(
        self,
        x: Array,
        mask: Array | None,
        names: Sequence[str],
        outer: Sequence[tuple[str, Dim]],
        inner: Sequence[tuple[str, Dim]],
        reducers: Sequence[_Reducer],
        places: Sequence[str],
    ) -> None:
        """Write loops."""
        c, d = self.c, self.d
        begin = c.pick(["before", "before", "own loop", "first"])
        begin = "before" if not inner or self.form == "scalar" else begin
        if begin == "own loop":
            depth = d.loops(0, outer)
            for place, reducer in zip(places, reducers, strict=True):
                d.line(depth, f"{place} = {reducer.start}")
            spans = self.mixed([*outer, *inner]) if c.chance(0.6) else [*outer, *inner]
            depth, outside = d.loops(0, spans), None
        else:
            outside = depth = d.loops(0, outer)
        accumulators = list(places)
        if self.form == "scalar":
            accumulators = [self.local(depth, r.total) for r in reducers]
        if begin == "before":
            for place, reducer in zip(accumulators, reducers, strict=True):
                d.line(depth, f"{place} = {reducer.start}")
        if outside is not None:
            depth = d.loops(depth, inner)
        if begin == "first":
            test = " and ".join(f"{var} == 0" for var, _ in inner)
            d.line(depth, f"if {test}:")
            for place, reducer in zip(accumulators, reducers, strict=True):
                d.line(depth + 1, f"{place} = {reducer.start}")
        read = x.at(*names)
        if c.chance(0.2):
            value = d.name("t")
            d.line(depth, f"{value} = {read}")
            read = value
        if mask is not None:
            d.line(depth, f"if {self.asked(mask, names)}:")
            depth += 1
        for place, reducer in zip(accumulators, reducers, strict=True):
            if reducer.name in ("max", "min") and c.chance(0.3):
                to = read if reducer.total == x.dtype else f'T.Cast("{reducer.total}", {read})'
                d.line(depth, f"if {to} {'<>'[reducer.name == 'max']} {place}:")
                d.line(depth + 1, f"{place} = {to}")
            else:
                d.line(depth, f"{place} = {reducer.step(place, read)}")
        if outside is not None:
            for place, reducer, to in zip(accumulators, reducers, places, strict=True):
                value = reducer.after(place) if reducer.after else place
                if value != to:
                    d.line(outside, f"{to} = {value}")

    def local(self, depth: int, dtype: str) -> str:
        """Declare a scalar, as a name or an array of one element; the name is stored to first."""
        name = self.d.name("s")
        if self.c.chance(0.5):
            return name
        self.d.line(depth, f'{name} = T.alloc_buffer((1,), "{dtype}", scope="local")')
        return f"{name}[0]"

    # -- where the greatest is -------------------------------------------------------------------
    def extremes(self) -> None:
        """Write which element is the greatest or the least."""
        c, d, dtype = self.c, self.d, self.dtype
        rank = c.weighted([(3, 1), (5, 2), (2, 3)])
        dims = [d.dim(n) for n in d.extents(rank, self.budget)]
        shape = [dim.value for dim in dims]
        content = d.content(dtype, shape, c.pick(["small", "any"]))
        x = d.argument("X", dtype, dims, content)
        axis = c.integer(0, rank - 1)
        names = [d.name("i") for _ in dims]
        spans = list(zip(names, dims, strict=True))
        kept = [dim for at, dim in enumerate(dims) if at != axis] or [Dim(1, "1")]
        index = c.pick(["int32", "int64"])
        value, where = d.argument("V", dtype, kept), d.argument("I", index, kept)
        most = c.chance(0.6)
        better = (">" if most else "<") + ("=" if c.chance(0.2) else "")
        start = f'T.min_value("{dtype}")' if most else f'T.max_value("{dtype}")'
        k = names[axis]
        if self.form == "block":
            self.extreme_blocks(x, value, where, spans, axis, better, start)
            return
        outer = [span for at, span in enumerate(spans) if at != axis]
        at = [v for v, _ in outer] or ["0"]
        depth = d.loops(0, outer)
        best, place = value.at(*at), where.at(*at)
        if self.form == "scalar":
            best, place = self.local(depth, dtype), self.local(depth, index)
        d.line(depth, f"{best} = {start}")
        d.line(depth, f"{place} = T.{index}(0)")
        inner = d.loop(depth, k, dims[axis])
        d.line(inner, f"if {x.at(*names)} {better} {best}:")
        d.line(inner + 1, f"{best} = {x.at(*names)}")
        d.line(inner + 1, f'{place} = T.Cast("{index}", {k})')
        if c.chance(0.2):
            d.line(inner + 1, "break")
        if self.form == "scalar":
            d.line(depth, f"{value.at(*at)} = {best}")
            d.line(depth, f"{where.at(*at)} = {place}")

    def extreme_blocks(
        self,
        x: Array,
        value: Array,
        where: Array,
        spans: Sequence[tuple[str, Dim]],
        axis: int,
        better: str,
        start: str,
    ) -> None:
        """Write which element is the greatest or the least as a block."""
        c, d, index, k = self.c, self.d, where.dtype, spans[axis][0]
        depth = d.loops(0, spans)
        axes = [(f"v{v}", "R" if at == axis else "S", dim, v) for at, (v, dim) in enumerate(spans)]
        depth = d.block(depth, axes)
        use = [f"v{v}" for v, _ in spans]
        at = [u for n, u in enumerate(use) if n != axis] or ["0"]
        d.line(depth, "with T.init():")
        d.line(depth + 1, f"{value.at(*at)} = {start}")
        d.line(depth + 1, f"{where.at(*at)} = T.{index}({c.pick([0, -1])})")
        read, old = x.at(*use), value.at(*at)
        choose = c.pick(["T.Select", "T.if_then_else"])
        at_k = f'T.Cast("{index}", v{k})'
        one, other = d.name("w"), d.name("w")
        d.line(depth, f"{one} = {choose}({read} {better} {old}, {at_k}, {where.at(*at)})")
        if c.chance(0.5):
            best = f"T.{'max' if better[0] == '>' else 'min'}({read}, {old})"
        else:
            best = f"{choose}({read} {better} {old}, {read}, {old})"
        d.line(depth, f"{other} = {best}")
        d.line(depth, f"{where.at(*at)} = {one}")
        d.line(depth, f"{old} = {other}")

    # -- mean and variance -----------------------------------------------------------------------
    def moments(self) -> None:
        """Write means and variances of rows: in two passes, by sums of squares, one by one."""
        c, d = self.c, self.d
        dtype = c.pick(["float32", "float32", "float64", "float16", "bfloat16"])
        self.form = "loops"
        rows, columns = (d.dim(n) for n in d.extents(2, self.budget))
        x = d.argument(
            "X", dtype, [rows, columns], self.numbers(dtype, (rows.value, columns.value), 1)
        )
        mean, variance = d.argument("U", dtype, [rows]), d.argument("V", dtype, [rows])
        i, k = d.name("i"), d.name("k")
        depth = d.loop(0, i, rows)
        m, v = f"{mean.at(i)}", f"{variance.at(i)}"
        if c.chance(0.6):
            m, v = self.local(depth, dtype), self.local(depth, dtype)
        d.line(depth, f"{m} = T.{dtype}(0)")
        d.line(depth, f"{v} = T.{dtype}(0)")
        read, size = x.at(i, k), f'T.Cast("{dtype}", {columns.text})'
        way = c.pick(["two", "squares", "one"])
        inner = d.loop(depth, k, columns)
        if way == "two":
            d.line(inner, f"{m} = {m} + {read}")
            d.line(depth, f"{m} = {m} / {size}")
            inner = d.loop(depth, k, columns)
            d.line(inner, f"{v} += ({read} - {m}) * ({read} - {m})")
            d.line(depth, f"{v} = {v} / {size}")
        elif way == "squares":
            d.line(inner, f"{m} += {read}")
            d.line(inner, f"{v} += {read} * {read}")
            d.line(depth, f"{m} = {m} / {size}")
            d.line(depth, f"{v} = {v} / {size} - {m} * {m}")
        else:
            delta = d.name("e")
            d.line(inner, f"{delta}: T.{dtype} = {read} - {m}")
            d.line(inner, f'{m} = {m} + {delta} / T.Cast("{dtype}", {k} + 1)')
            d.line(inner, f"{v} = {v} + {delta} * ({read} - {m})")
        if m != mean.at(i):
            d.line(depth, f"{mean.at(i)} = {m}")
            d.line(depth, f"{variance.at(i)} = {v}")
        if c.chance(0.4):
            out = d.argument("Z", dtype, [rows, columns])
            inner = d.loop(depth, k, columns)
            d.line(
                inner,
                f"{out.at(i, k)} = ({read} - {mean.at(i)})"
                f" / T.sqrt({variance.at(i)} + T.{dtype}(1))",
            )

    # -- chains ----------------------------------------------------------------------------------
    def chain(self) -> None:
        """Write a softmax, a logarithm of sums, or rows that are divided by what they sum up to."""
        c, d = self.c, self.d
        way = c.pick(["softmax", "softmax", "logsum", "norm", "rms"])
        dtype = c.pick(["float32", "float32", "float64"])
        if way in ("softmax", "logsum"):
            self.ulps = _ULPS
        rows, columns = (d.dim(max(1, n)) for n in d.extents(2, max(100, self.budget // 2)))
        shape = (rows.value, columns.value)
        content = d.content(dtype, shape, "small" if self.form == "block" else "any")
        x = d.argument("X", dtype, [rows, columns], content)
        out = d.argument("Y", dtype, [rows, columns] if way != "logsum" else [rows])
        if self.form == "block":
            self.chain_of_blocks(way, dtype, x, out, rows, columns)
            return
        i = d.name("i")
        depth = d.loop(0, i, rows)
        m, s = self.local(depth, dtype), self.local(depth, dtype)
        k = d.name("k")
        first = c.chance(0.3) and columns.value > 0
        if way in ("softmax", "logsum"):
            d.line(depth, f"{m} = {x.at(i, 0) if first else f'T.min_value({dtype!r})'}")
            inner = d.loop(depth, k, columns)
            d.line(inner, f"{m} = T.max({m}, {x.at(i, k)})")
        d.line(depth, f"{s} = T.{dtype}(0)")
        inner = d.loop(depth, k, columns)
        if way == "softmax":
            if c.chance(0.5):
                d.line(inner, f"{out.at(i, k)} = T.exp({x.at(i, k)} - {m})")
                d.line(inner, f"{s} += {out.at(i, k)}")
                inner = d.loop(depth, k, columns)
                d.line(inner, f"{out.at(i, k)} = {out.at(i, k)} / {s}")
            else:
                d.line(inner, f"{s} = {s} + T.exp({x.at(i, k)} - {m})")
                inner = d.loop(depth, k, columns)
                d.line(inner, f"{out.at(i, k)} = T.exp({x.at(i, k)} - {m}) / {s}")
        elif way == "logsum":
            d.line(inner, f"{s} = {s} + T.exp({x.at(i, k)} - {m})")
            d.line(depth, f"{out.at(i)} = T.exp({m} * T.{dtype}(0.125)) * {s}")
        else:
            read = x.at(i, k)
            d.line(inner, f"{s} += {f'{read} * {read}' if way == 'rms' else f'T.abs({read})'}")
            inner = d.loop(depth, k, columns)
            by = f"T.sqrt({s} + T.{dtype}(1))" if way == "rms" else f"({s} + T.{dtype}(1))"
            d.line(inner, f"{out.at(i, k)} = {read} / {by}")

    def chain_of_blocks(
        self, way: str, dtype: str, x: Array, out: Array, rows: Dim, columns: Dim
    ) -> None:
        """Write a chain as blocks, with what is reduced in arrays of the program."""
        d = self.d
        shape = [rows, columns]

        def reduced(name: str, start: str, step: Callable[[str, Sequence[str]], str]) -> Array:
            made = d.allocated(0, name, dtype, [rows])
            i, k = d.name("i"), d.name("k")
            depth = d.loops(0, [(i, rows), (k, columns)])
            depth = d.block(depth, [(f"v{i}", "S", rows, i), (f"v{k}", "R", columns, k)])
            d.line(depth, "with T.init():")
            d.line(depth + 1, f"{made.at(f'v{i}')} = {start}")
            d.line(depth, f"{made.at(f'v{i}')} = {step(made.at(f'v{i}'), [f'v{i}', f'v{k}'])}")
            return made

        def each(to: Array, value: Callable[[Sequence[str]], str]) -> None:
            spans = [(d.name("i"), dim) for dim in shape[: len(to.dims)]]
            depth, use = d.body("block", d.loops(0, spans), spans)
            d.line(depth, f"{to.at(*use)} = {value(use)}")

        zero = f"T.{dtype}(0)"
        if way in ("softmax", "logsum"):
            low = f'T.min_value("{dtype}")'
            m = reduced("M", low, lambda s, u: f"T.max({s}, {x.at(*u)})")
            e = d.allocated(0, "E", dtype, shape)
            each(e, lambda u: f"T.exp({x.at(*u)} - {m.at(u[0])})")
            s = reduced("S", zero, lambda s, u: f"{s} + {e.at(*u)}")
            if way == "softmax":
                each(out, lambda u: f"{e.at(*u)} / {s.at(u[0])}")
            else:
                each(out, lambda u: f"T.exp({m.at(u[0])} * T.{dtype}(0.125)) * {s.at(u[0])}")
            return
        s = reduced("S", zero, lambda s, u: f"{s} + {x.at(*u)} * {x.at(*u)}")
        each(out, lambda u: f"{x.at(*u)} / T.sqrt({s.at(u[0])} + T.{dtype}(1))")
