"""Sums of products as people write them: axes in any order, mixed dtypes, in every form.

A contraction has free, batch and reduced axes, which each factor and the result index in an order
of their own: plain, fused, shifted, counted from the end, as windows with strides, dilations and
padding, or not at all. It is written as a block, as plain loops, with a sum in a scalar, or as a
tensor expression; its epilogue (bias, relu, requantisation, clips, conversions) follows it or is in
the same loop. Arrays are contiguous, transposed, with gaps, or reversed. NumPy is the reference, on
integral values: every sum is exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fuzz.choices import SeedChoices
from fuzz.families.cases import Case
from fuzz.families.contractions.graphs import draw_graph
from fuzz.families.contractions.terms import (
    Axis,
    Cast,
    Const,
    GuardedLoad,
    Index,
    Load,
    Op,
    Term,
    dtype_of,
    float_like,
)
from fuzz.families.contractions.text import ArrayArgument, Unit, made_of

__all__ = ["VERSION", "draw"]

VERSION: Final = 1

_SMALL: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10)
_MIDDLE: Final = (9, 12, 13, 16, 17, 20, 23, 24, 31, 32, 33)
_LONG: Final = (40, 47, 48, 63, 64, 65, 97, 128, 129, 200, 257)
_MOST: Final = ((3, 1_000), (8, 4_000), (5, 12_000), (1, 50_000))
"""Products of a program, about."""

_BYTES: Final = ("int8", "uint8")
_TRIES: Final = ((7, 1.0), (3, 1.0), (2, 0.5), (1, 0.5), (1, 0.2), (1, 0.05), (0, 1.0))
"""Largest numbers, and the share that is not 0, until all sums are exact."""


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    choices = SeedChoices(f"contractions {VERSION} {seed}")
    if choices.chance(0.12):
        return draw_graph(choices, seed)
    return _Drawn(choices).case(seed)


@dataclass
class _Kind:
    """Dtypes of factors, that of the sum, and where conversions stand."""

    factors: list[str]
    total: str
    how: str
    """``each`` factor is converted, or their ``product``, or each to a ``middle`` dtype before."""
    middle: str = ""


@dataclass
class _Drawn:
    c: SeedChoices
    given: list[ArrayArgument] = field(default_factory=list[ArrayArgument])
    axes: list[Axis] = field(default_factory=list[Axis])
    names: int = 0
    whole: bool = False
    """Whether all numbers must be small: floats take part."""

    def __post_init__(self) -> None:
        c = self.c
        self.symbolic = c.weighted([(5, 0.0), (3, 0.5), (2, 1.0)])
        self.odd = c.weighted([(5, 0.0), (3, 0.1), (2, 0.3)])
        self.strided = c.weighted([(6, 0.0), (2, 0.3), (1, 0.8)])
        self.budget = c.weighted(_MOST)
        self.small = c.weighted([(2, 100), (3, 40), (3, 10)])
        self.form = c.weighted([(5, "block"), (3, "loops"), (2, "scalar"), (2, "te")])

    # -- the whole -----------------------------------------------------------------------------
    def case(self, seed: int) -> Case:
        """Draw a program and its arguments."""
        c = self.c
        if self.form == "te":
            self.strided = 0.0
        units = [self.unit()]
        if c.chance(0.12):
            units.append(self.unit(units[0] if c.chance(0.6) else None))
        self.name_sizes(units)
        contents = self.contents(units)
        module = made_of(c, self.form, units, self.given, self.axes)
        before, after = contents
        arguments: list[Any] = []
        expected: list[Any] = []
        for given in self.given:
            if given.inner:
                continue
            view = given.array(c, before[given.name])
            arguments.append(view)
            expected.append(after[given.name].copy())
        return Case("contractions", seed, module, "main", tuple(arguments), tuple(expected))

    def name_sizes(self, units: Sequence[Unit]) -> None:
        """Let sizes be names where an array has such an axis; the others are numbers."""
        bound = {
            index.plain
            for given in self.given
            if not given.inner
            for index in given.indices
            if index.plain is not None and not given.beyond
        }
        for axis in self.axes:
            axis.symbolic &= axis in bound
            if axis.same is not None:
                axis.symbolic = axis.same.symbolic

    def name(self, stem: str) -> str:
        """Return a new name."""
        self.names += 1
        return f"{stem}{self.names}"

    # -- values --------------------------------------------------------------------------------
    def contents(self, units: Sequence[Unit]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fill arrays, and compute what is in them after the call."""
        for most, share in _TRIES if self.whole else ((None, 1.0),):
            before = {given.name: self.filled(given, most, share) for given in self.given}
            after = {name: array.copy() for name, array in before.items()}
            if all(unit.run(after, starts=self.form != "block") for unit in units):
                return before, after
        raise AssertionError("zeros are exact")

    def filled(self, given: ArrayArgument, most: int | None, share: float) -> Any:
        """Fill an array: with any integers, or with small whole numbers."""
        random = np.random.default_rng(self.c.integer(0, 1 << 30))
        dtype = dtype_of(given.dtype)
        if given.out and not given.read:
            return np.full(given.shape, 77, dtype)
        if most is None and not float_like(given.dtype):
            info = np.iinfo(dtype)
            return random.integers(info.min, info.max, given.shape, dtype, endpoint=True)
        most = 7 if most is None else most
        low = 0 if given.dtype.startswith("u") else -most
        made = random.integers(low, most, given.shape, endpoint=True)
        return np.where(random.random(given.shape) < share, made, 0).astype(dtype)

    # -- axes ----------------------------------------------------------------------------------
    def axis(self, stem: str, *, reduced: bool = False) -> Axis:
        """Draw an axis."""
        c = self.c
        sizes = c.weighted([(self.small, _SMALL), (40, _MIDDLE), (12, _LONG), (1, (0,))])
        name = self.name(stem)
        made = Axis(name, c.pick(sizes), reduced, c.chance(self.symbolic), f"n{self.names}")
        self.axes.append(made)
        return made

    def fit(self, axes: Sequence[Axis], fixed: Sequence[Axis] = ()) -> None:
        """Shorten axes until there is not too much work."""
        c = self.c
        while math.prod(max(1, axis.size) for axis in axes) > self.budget:
            long = [a for a in axes if a.size > 2 and a not in fixed]
            if not long:
                return
            axis = max(long, key=lambda a: a.size) if c.chance(0.6) else c.pick(long)
            fewer = [s for s in (*_SMALL, *_MIDDLE, *_LONG) if s < axis.size]
            axis.size = c.pick(fewer[-6:])

    # -- a contraction -------------------------------------------------------------------------
    def unit(self, before: Unit | None = None) -> Unit:
        """Draw a sum of products, and what follows it."""
        c = self.c
        count = c.weighted([(10, 1), (78, 2), (12, 3)])
        kind = self.kind(count)
        if before is not None and float_like(before.last.dtype) and not float_like(kind.total):
            kind = _Kind(kind.factors, "float32", "each")
        self.whole |= float_like(kind.total)
        known: list[Axis] = []
        if before is not None:  # its result is the first factor
            for axis in before.outer:
                same = Axis(self.name("i"), axis.size, c.chance(0.5), False, axis.size_name, axis)
                known.append(same)
                self.axes.append(same)
        batch = [self.axis("b") for _ in range(c.weighted([(65, 0), (25, 1), (8, 2), (2, 3)]))]
        reduced = [
            self.axis("k", reduced=True)
            for _ in range(c.weighted([(2, 0), (35, 1), (43, 2), (20, 3)]))
        ]
        frees = [
            [self.axis(stem) for _ in range(c.weighted([(8, 0), (70, 1), (18, 2), (4, 3)]))]
            for stem in "ijl"[:count]
        ]
        if known:
            reduced = [a for a in known if a.reduced] or reduced[:1]
            frees[0] = [a for a in known if not a.reduced]
            batch = []
        outer = [*batch, *[a for free in frees for a in free]]
        self.fit([*outer, *reduced], known)
        order = self.shuffled(outer)
        factors: list[Term] = []
        for number in range(count):
            mine = [*batch, *frees[number], *reduced]
            if known and number == 0 and before is not None:
                factors.append(self.result_of(before, known))
                continue
            if number == 2:
                mine = [a for a in mine if c.chance(0.6)]
            elif number or count > 1:
                mine = [a for a in mine if a in frees[number] or not c.chance(0.04)]
            factors.append(self.factor(kind.factors[number], mine))
        if kind.how == "product" and len({f.dtype for f in factors}) > 1:
            kind.how = "each"
        term = self.product(kind, factors)
        out, target = self.result(kind.total, order)
        start, init_place = self.start(kind.total, order, reduced)
        out.read = start is None
        if start is None and before is not None and self.form == "te":
            start = Const(0, kind.total)
        made = Unit(order, reduced, term, out, target, start, init_place)
        self.follow(made)
        return made

    def shuffled(self, axes: Sequence[Axis]) -> list[Axis]:
        """Put axes into some order."""
        left, made = list(axes), list[Axis]()
        keep = self.c.chance(0.5)
        while left:
            made.append(left.pop(0 if keep else self.c.integer(0, len(left) - 1)))
        return made

    def kind(self, count: int) -> _Kind:
        """Draw dtypes."""
        c = self.c
        which = c.weighted(
            [
                (34, "bytes"),
                (16, "bfloat16"),
                (8, "float16"),
                (14, "float32"),
                (5, "float64"),
                (12, "integers"),
                (8, "mixed"),
            ]
        )
        how = "each"
        if which == "bytes":
            factors = [c.pick(_BYTES) for _ in range(count)]
            total = c.weighted([(8, "int32"), (1, "int16"), (1, "int64"), (0.5, "float32")])
            how = c.weighted([(8, "each"), (1, "product"), (1.5, "middle")])
            middle = "int16"
        elif which in ("bfloat16", "float16"):
            factors = [which] * count
            total = c.weighted([(6, "float32"), (3, which), (0.5, "float64")])
            how, middle = c.weighted([(8, "each"), (1, "product")]), "float32"
        elif which in ("float32", "float64"):
            factors, total, middle = [which] * count, which, which
        elif which == "integers":
            one = c.pick(["int16", "int32", "int64", "uint16", "uint32", "int8"])
            factors, middle = [one] * count, one
            total = c.pick([one, one, "int32", "int64"])
            how = c.pick(["each", "product"])
        else:
            every = ["int8", "uint8", "int16", "int32", "float16", "bfloat16", "float32", "float64"]
            factors = [c.pick(every) for _ in range(count)]
            wide = any(float_like(d) for d in factors)
            total = c.pick(["float32", "float64"] if wide else ["int32", "int64", "float32"])
            middle = total
        if how == "product" and len(set(factors)) > 1:
            how = "each"
        self.whole |= any(float_like(d) for d in (*factors, total))
        return _Kind(factors, total, how, middle)

    def product(self, kind: _Kind, factors: Sequence[Term]) -> Term:
        """Multiply factors, with conversions."""
        c = self.c
        to = {"each": kind.total, "middle": kind.middle, "product": kind.factors[0]}[kind.how]
        parts = [self.converted(factor, to) for factor in factors]
        made = parts[0]
        for part in parts[1:]:
            made = Op("*", made, part) if c.chance(0.85) else Op("*", part, made)
        return self.converted(made, kind.total)

    def converted(self, term: Term, to: str) -> Term:
        """Convert a term, and maybe take something from it, as zero points are."""
        made = term if term.dtype == to else Cast(to, term)
        narrow = isinstance(term, (Load, GuardedLoad)) and term.dtype in _BYTES
        if narrow and not float_like(to) and self.c.chance(0.08):
            return Op("-", made, Const(self.c.integer(1, 5), to))
        return made

    # -- factors -------------------------------------------------------------------------------
    def factor(self, dtype: str, axes: Sequence[Axis]) -> Term:
        """Draw an array and its element for the axes."""
        c = self.c
        order = self.shuffled(axes)
        if c.chance(0.5):
            order = self.mixed(order)
        indices: list[Index] = []
        guarded: list[int] = []
        windows = self.windows(order) if c.chance(0.22) else {}
        skipped = set(windows.values())
        for axis in order:
            if axis in skipped:
                continue
            if axis in windows:
                pad = c.weighted([(4, 0), (2, 1), (1, 2)])
                if pad:
                    guarded.append(len(indices))
                tap = windows[axis]
                terms = (axis, c.pick([1, 1, 2, 3])), (tap, c.pick([1, 1, 1, 2]))
                indices.append(Index(terms if c.chance(0.8) else terms[::-1], -pad))
            else:
                indices.append(self.index(axis))
        if c.chance(self.odd):
            indices = self.fuse_axes(indices)
            guarded = [at for at, index in enumerate(indices) if index.shift < 0]
        if c.chance(self.odd / 3):
            indices.insert(c.integer(0, len(indices)), Index((), c.integer(0, 2)))
            guarded = [at for at, index in enumerate(indices) if index.shift < 0]
        given = self.array("A", dtype, indices, guarded)
        load = Load(given.name, dtype, tuple(indices))
        return GuardedLoad(load, tuple(guarded), given.shape) if guarded else load

    def mixed(self, axes: list[Axis]) -> list[Axis]:
        """Put axes into another order."""
        left, made = list(axes), list[Axis]()
        while left:
            made.append(left.pop(self.c.integer(0, len(left) - 1)))
        return made

    def windows(self, axes: Sequence[Axis]) -> dict[Axis, Axis]:
        """Pair axes of the result with reduced ones, which go over windows."""
        c = self.c
        taps = [a for a in axes if a.reduced and 0 < a.size <= 24]
        outer = [a for a in axes if not a.reduced]
        count = c.integer(0, min(len(taps), len(outer), 3))
        return dict(zip(self.mixed(outer)[:count], self.mixed(taps)[:count], strict=True))

    def index(self, axis: Axis) -> Index:
        """Draw an index that is one axis, in its way."""
        c = self.c
        if not c.chance(self.odd):
            return Index(((axis, 1),))
        way = c.weighted([(3, "shift"), (2, "back"), (2, "step"), (2, "group")])
        if way == "shift":
            return Index(((axis, 1),), c.integer(1, 3))
        if way == "back":
            return Index(((axis, 1),), back=True)
        if way == "step":
            return Index(((axis, c.pick([2, 3])),), c.integer(0, 1))
        return Index(((axis, 1),), by=c.pick([2, 3, 4]))

    def fuse_axes(self, indices: list[Index]) -> list[Index]:
        """Let two neighbouring axes be one."""
        at = [
            i
            for i in range(len(indices) - 1)
            if indices[i].plain is not None and indices[i + 1].plain is not None
        ]
        if not at:
            return indices
        i = self.c.pick(at)
        one, other = indices[i].terms[0][0], indices[i + 1].terms[0][0]
        return [*indices[:i], Index(((one, other), (other, 1))), *indices[i + 2 :]]

    def array(
        self, stem: str, dtype: str, indices: Sequence[Index], guarded: Sequence[int] = ()
    ) -> ArrayArgument:
        """Draw an array that the indices fit."""
        c = self.c
        beyond = c.integer(1, 2) if c.chance(self.odd / 4) else 0
        shape: list[int] = []
        for at, index in enumerate(indices):
            most = index.most() + 1
            if at in guarded:
                most = max(1, most + index.shift + c.integer(0, 1))
            plain = index.plain
            shape.append((plain.size if plain is not None else most) + beyond)
        layout = c.weighted([(1 - self.strided, ""), (self.strided, "strided")])
        made = ArrayArgument(self.name(stem), dtype, tuple(indices), tuple(shape), beyond, layout)
        made.fixed = set(guarded)
        self.given.append(made)
        return made

    # -- results -------------------------------------------------------------------------------
    def result(self, dtype: str, axes: Sequence[Axis]) -> tuple[ArrayArgument, Load]:
        """Draw the array of sums."""
        c = self.c
        indices = [Index(((axis, 1),)) for axis in axes]
        if self.form != "te":
            if c.chance(self.odd / 2):
                indices = self.fuse_axes(indices)
            if c.chance(self.odd / 2) and indices:
                at = c.integer(0, len(indices) - 1)
                if indices[at].plain is not None:
                    indices[at] = Index(indices[at].terms, c.integer(1, 2))
            if not indices:
                indices = [Index((), 0)]
        out = self.array("C", dtype, indices)
        out.out = True
        if self.form == "te":
            out.shape, out.beyond = tuple(a.size for a in axes), 0
        return out, Load(out.name, dtype, tuple(indices))

    def result_of(self, before: Unit, axes: Sequence[Axis]) -> Term:
        """Read what another contraction gives."""
        again = dict(zip(before.outer, axes, strict=True))
        last = before.last
        indices = tuple(
            Index(
                tuple((again[a], again[f] if isinstance(f, Axis) else f) for a, f in index.terms),
                index.shift,
            )
            for index in last.indices
        )
        return Load(last.name, last.dtype, indices)

    def start(
        self, dtype: str, outer: Sequence[Axis], reduced: Sequence[Axis]
    ) -> tuple[Term | None, str]:
        """Draw what sums start from, and where that is stored."""
        c = self.c
        init_place = c.weighted([(6, "init"), (3, "before"), (2, "none")])
        if self.form == "te":
            return Const(0, dtype), "init"
        if init_place == "none":
            return (None, init_place) if self.form != "scalar" else (Const(0, dtype), "init")
        if not reduced:
            init_place = "before"
        if c.chance(0.12) and outer:
            some = [axis for axis in outer if c.chance(0.5)]
            given = self.array("S", dtype, [Index(((axis, 1),)) for axis in some])
            return Load(given.name, dtype, given.indices), init_place
        return Const(c.weighted([(8, 0), (1, 3)]), dtype), init_place

    # -- what follows --------------------------------------------------------------------------
    def follow(self, unit: Unit) -> None:
        """Draw what is made of the sums."""
        c = self.c
        if c.chance(0.55):
            return
        value: Term = unit.target
        for _ in range(c.integer(1, 3)):
            value = self.followed(value, unit.outer)
        axes = unit.outer if c.chance(0.8) else self.mixed(unit.outer)
        out = self.array("D", value.dtype, [Index(((axis, 1),)) for axis in axes])
        out.out = True
        if not out.indices or self.form == "te":
            out.beyond, out.shape = 0, tuple(axis.size for axis in axes)
        if not out.indices:
            out.indices, out.shape = (Index((), 0),), (1,)
        if self.form == "te" and not axes:
            out.indices, out.shape = (), ()
        unit.after = Load(out.name, value.dtype, out.indices), value
        unit.after_axes = axes
        unit.inner = c.chance(0.7) and unit.start is not None
        unit.inner &= self.form != "block" or not unit.idle
        unit.given.inner = unit.inner

    def followed(self, value: Term, axes: Sequence[Axis]) -> Term:
        """Draw one thing that is made of a value."""
        c, dtype = self.c, value.dtype
        way = c.weighted(
            [(3, "bias"), (3, "relu"), (2, "clip"), (3, "narrow"), (2, "shift"), (1, "scale")]
        )
        is_float = float_like(dtype)
        if way == "bias":
            some = [axis for axis in axes if c.chance(0.4)] or list(axes[-1:])
            given = self.array("B", dtype, [Index(((axis, 1),)) for axis in some])
            if not some:
                given.indices, given.shape = (Index((), 0),), (1 + given.beyond,)
            return Op("+", value, Load(given.name, dtype, given.indices))
        if way == "relu":
            return Op("max", value, Const(0, dtype))
        if way == "clip":
            low = 0 if dtype.startswith("u") else -100
            return Op("min", Op("max", value, Const(low, dtype)), Const(100, dtype))
        if way == "shift" and not is_float:
            return Op(">>", value, Const(c.integer(1, 6), dtype))
        if way == "narrow":
            if is_float:
                to = c.pick(["bfloat16", "float16", "float32"])
                return Cast(to, value, rounds=True) if to != dtype else value
            to = c.pick(["int8", "int16", "uint8", "int32"])
            return Cast(to, value) if to != dtype else value
        if way == "scale" and dtype == "float32":
            return Op("*", value, Const(0.5, dtype))
        if way == "scale" and dtype in ("int32", "int8", "int16") and not self.whole:
            return Op("*", Cast("float32", value, rounds=True), Const(0.25, "float32"))
        return value
