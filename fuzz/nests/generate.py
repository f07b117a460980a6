"""Random plain loops as people write them, to test the default schedule.

Loop nests in the forms of textbooks (products, convolutions, stencils, recurrences, solvers,
histograms, reductions with scalars, loops with exit conditions) are drawn with small changes: an
index shifted, reversed, looked up or taken modulo, loops in another order or over a triangle, an
array that is read and written, a condition, an initial value other than zero. Loops run in order,
so every program has one meaning, and no rule may change a bit of it. Indices stay in bounds because
every axis is as long as its uses need, or is taken modulo.

A program is a function of ``VERSION`` and a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from fuzz.choices import Choices, SeedChoices
from fuzz.tir.program import ArraySpec, Program, ScalarSpec
from loomir.ir.module import IRModule
from loomir.script import from_source
from loomir.support.dtype import DataType

__all__ = ["VERSION", "nests_of_seed", "text_of_seed"]

VERSION = 2

DTYPES: Final = (
    *(["int32"] * 4),
    *(["float32"] * 4),
    "int64",
    "float64",
    "int8",
    "uint8",
    "int16",
    "float16",
)
MOST: Final = 3_000
"""Iterations of loops inside of each other, about."""
SHORT: Final = (1, 2, 3, 4, 5, 6, 7, 8)
LONG: Final = (9, 13, 16, 17, 24, 31, 32, 33, 40)


@dataclass
class Array:
    """An array argument: what each of its axes is as long as, and by how much longer."""

    name: str
    dtype: str
    axes: tuple[str, ...]
    slack: tuple[int, ...]


@dataclass
class Scope:
    """What a statement may use: loop variables with the axis that each runs over, and scalars."""

    loops: dict[str, str] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)

    def over(self, axis: str) -> list[str]:
        """Return the loop variables of an axis."""
        return [var for var, other in self.loops.items() if other == axis]


def nests_of_seed(seed: int) -> Program:
    """Return the program of a seed."""
    return _Nests(SeedChoices(f"nests {VERSION} {seed}")).program()


def text_of_seed(seed: int) -> str:
    """Return the text of the program of a seed."""
    return _Nests(SeedChoices(f"nests {VERSION} {seed}")).text()


class _Nests:
    def __init__(self, choices: Choices) -> None:
        self.c = c = choices
        self.dtype = c.pick(DTYPES)
        self.is_float = self.dtype.startswith("float")
        self.sizes = self._sizes()
        self.symbolic = {axis for axis in self.sizes if c.chance(0.2)}
        self.odd = c.pick([0.0, 0.05, 0.2, 0.4])
        """How often something is done in another way than the textbook's."""
        self.lines: list[str] = []
        self.names = 0
        self.arrays: list[Array] = []
        for number in range(c.integer(2, 4)):
            self.arrays.append(self._array(f"A{number}"))
        self.near: list[Array] = []
        """Arrays that the statements at hand write: what is read is often one of them."""
        self.places = Array("J", "int32", (c.pick("nmk"),), (0,))

    def _sizes(self) -> dict[str, int]:
        c = self.c
        long = c.pick(["n", "m", "k", "", "nm"])
        sizes = {axis: c.pick(LONG if axis in long else SHORT) for axis in "nmk"}
        if sizes["n"] * sizes["m"] * sizes["k"] > MOST:
            sizes["k"] = 1
        return sizes

    def _array(self, name: str) -> Array:
        c = self.c
        rank = c.weighted([(4, 2), (3, 1), (1, 3)])
        axes = tuple(c.pick("nmk") for _ in range(rank))
        if self.arrays and c.chance(0.5):
            axes = c.pick(self.arrays).axes
            axes = axes[::-1] if c.chance(0.2) else axes
        slack = c.pick([0, 0, 0, 1, 3])
        return Array(name, self.dtype, axes, tuple(slack for _ in axes))

    # -- the whole -----------------------------------------------------------------------------
    def program(self) -> Program:
        """Read the text, and say what its arguments are."""
        module = from_source(self.text())
        assert isinstance(module, IRModule)
        given: list[ArraySpec | ScalarSpec] = [
            ArraySpec(
                a.name,
                DataType(a.dtype),
                tuple(self.sizes[x] + more for x, more in zip(a.axes, a.slack, strict=True)),
            )
            for a in [*self.arrays, self.places]
        ]
        return Program(module, "main", given, may_fail=False)

    def text(self) -> str:
        """Write the program."""
        c = self.c
        for _ in range(c.weighted([(4, 1), (3, 2), (2, 3)])):
            shape: Callable[[], None] = c.weighted(
                [
                    (6, self.product),
                    (2, self.windows),
                    (3, self.accumulated),
                    (4, self.pointwise),
                    (2, self.stencil),
                    (2, self.recurrence),
                    (1, self.histogram),
                    (2, self.mixed),
                    (1, self.until),
                    (2, self.rows),
                    (2, self.carried),
                    (3, self.together),
                ]
            )
            self.near, odd = [], self.odd
            shape()
            self.odd = odd
        arrays = [*self.arrays, self.places]
        handles = ", ".join(f"{a.name.lower()}: T.handle" for a in arrays)
        head = [
            "from loomir.script import ir as I, tir as T",
            "",
            "@I.ir_module",
            "class Module:",
            "    @T.prim_func",
            f"    def main({handles}):",
        ]
        for axis in sorted(self.symbolic):
            if any(axis in a.axes and not a.slack[a.axes.index(axis)] for a in arrays):
                head.append(f"        {axis} = T.int64()")
            else:
                self.symbolic.discard(axis)
        for a in arrays:
            shape_of = [self._long(x, more) for x, more in zip(a.axes, a.slack, strict=True)]
            shape_text = ", ".join(shape_of) + ("," if len(shape_of) == 1 else "")
            head.append(
                f'        {a.name} = T.match_buffer({a.name.lower()}, ({shape_text}), "{a.dtype}")'
            )
        for axis in sorted(set("nmk") - self.symbolic):
            self.lines = [line.replace(f"#{axis}#", str(self.sizes[axis])) for line in self.lines]
        for axis in self.symbolic:
            self.lines = [line.replace(f"#{axis}#", axis) for line in self.lines]
        return "\n".join([*head, *self.lines]) + "\n"

    def _long(self, axis: str, more: int) -> str:
        size = axis if axis in self.symbolic else str(self.sizes[axis])
        return f"{size} + {more}" if more else size

    # -- pieces --------------------------------------------------------------------------------
    def odds(self) -> bool:
        """Say whether to leave the textbook here."""
        return self.c.chance(self.odd)

    def line(self, depth: int, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * (depth + 2) + text)

    def name(self, stem: str) -> str:
        """Return a new name."""
        self.names += 1
        return f"{stem}{self.names}"

    def loop(self, depth: int, scope: Scope, axis: str, triangle: bool = True) -> str:
        """Open a loop over an axis, or a part of it; return its variable."""
        c, var = self.c, self.name("i")
        begin, end = "0", f"#{axis}#"
        outer = [v for v in scope.over(axis) if triangle]
        if outer and self.c.chance(0.5):
            other = c.pick(outer)
            begin, end = c.pick(
                [("0", other), ("0", f"{other} + 1"), (other, end), (f"{other} + 1", end)]
            )
        elif self.odds():
            begin = str(c.integer(1, 2))
        if math.prod(self.sizes[x] for x in (axis, *scope.loops.values())) > MOST:
            begin, end = "0", "1"
        span = end if begin == "0" else f"{begin}, {end}"
        self.line(depth, f"for {var} in range({span}):")
        scope.loops[var] = axis
        return var

    def whole(self, depth: int, scope: Scope, axis: str) -> str:
        """Open a loop over all of an axis; return its variable."""
        var = self.name("i")
        self.line(depth, f"for {var} in range(#{axis}#):")
        scope.loops[var] = axis
        return var

    def index(self, scope: Scope, array: Array, at: int, more: tuple[int, ...] = (0,)) -> str:
        """Draw an index into an axis of an array, inside of it."""
        c, axis, slack = self.c, array.axes[at], array.slack[at]
        size = f"(#{axis}# + {slack})" if slack else f"#{axis}#"
        same = scope.over(axis)
        if not same or self.odds():
            return self._odd_index(scope, axis, slack, size)
        shift = c.pick([s for s in more if s <= slack] or [0])
        return f"{c.pick(same)} + {shift}" if shift else c.pick(same)

    def _odd_index(self, scope: Scope, axis: str, slack: int, size: str) -> str:
        c = self.c
        same, every = scope.over(axis), list(scope.loops)
        ways: list[Callable[[], str]] = [lambda: "0"]
        if same:
            ways += [
                lambda: f"#{axis}# - 1 - {c.pick(same)}",
                lambda: f"{c.pick(same)} // 2",
                lambda: f"T.max({c.pick(same)} - {c.integer(1, 2)}, 0)",
                lambda: f"T.min({c.pick(same)} + {c.integer(1, 2)}, {size} - 1)",
                lambda: f"{c.pick(same)} + {c.integer(0, slack)}",
            ]
        if every:
            ways += [
                lambda: f"({c.pick(every)} + {c.integer(0, 3)}) % {size}",
                lambda: f"({c.pick(every)} * {c.integer(2, 3)} + {c.pick(every)}) % {size}",
            ]
            known = scope.over(self.places.axes[0])
            if known:
                ways.append(lambda: f"J[{c.pick(known)}] % T.Cast('int32', {size})")
        return c.pick(ways)()

    def element(self, scope: Scope, array: Array, more: tuple[int, ...] = (0,)) -> str:
        """Name an element of an array."""
        where = ", ".join(self.index(scope, array, at, more) for at in range(len(array.axes)))
        return f"{array.name}[{where}]"

    def number(self) -> str:
        """Draw a constant."""
        value = self.c.pick([0, 1, 2, 3, 7])
        return f"T.{self.dtype}({value}{'.5' if self.is_float and self.c.chance(0.5) else ''})"

    def term(self, scope: Scope, more: tuple[int, ...] = (0,)) -> str:
        """Draw something to compute with."""
        c = self.c
        if scope.scalars and c.chance(0.4):
            return c.pick(scope.scalars)
        if scope.loops and self.odds():
            return f'T.Cast("{self.dtype}", {c.pick(list(scope.loops))})'
        if c.chance(0.15):
            return self.number()
        return self.element(scope, self.some(), more)

    def some(self) -> Array:
        """Draw an array."""
        return self.c.pick(self.near if self.near and self.c.chance(0.5) else self.arrays)

    def value(self, scope: Scope, more: tuple[int, ...] = (0,)) -> str:
        """Draw a formula."""
        c = self.c
        a, b = self.term(scope, more), self.term(scope, more)
        kind = c.integer(0, 9)
        if kind <= 2:
            return f"{a} + {b}"
        if kind <= 4:
            return f"{a} * {b}"
        if kind == 5:
            return f"T.max({a}, {b})"
        if kind == 6:
            return f"{a} * {b} + {self.term(scope, more)}"
        if kind == 7:
            return f"T.if_then_else({self.condition(scope)}, {a}, {b})"
        return a if kind == 8 else f"{a} - {b}"

    def condition(self, scope: Scope) -> str:
        """Draw a condition."""
        c, loops = self.c, list(scope.loops)
        if loops and c.chance(0.6):
            one, other = c.pick(loops), c.pick(loops)
            forms = [f"{one} < {c.integer(0, 9)}", f"{one} % 2 == 0", f"{one} >= {other}"]
            return c.pick(forms)
        return f"{self.term(scope)} > {self.term(scope)}"

    def combined(self, target: str, what: str) -> str:
        """Combine something into a place."""
        kind = self.c.weighted([(6, "+"), (1, "max"), (1, "min"), (1, "-"), (1, "*")])
        if kind in ("max", "min"):
            both = [target, what] if self.c.chance(0.6) else [what, target]
            return f"{target} = T.{kind}({', '.join(both)})"
        if kind in "+*" and self.c.chance(0.2):
            return f"{target} = ({what}) {kind} {target}"
        return f"{target} = {target} {kind} ({what})"

    def order(self, axes: list[str]) -> list[str]:
        """Put loops into some order."""
        left, made = list(axes), list[str]()
        while left:
            made.append(left.pop(self.c.integer(0, len(left) - 1) if self.c.chance(0.4) else 0))
        return made

    def guarded(self, depth: int, scope: Scope) -> int:
        """Maybe put a condition around what follows."""
        if self.odds():
            self.line(depth, f"if {self.condition(scope)}:")
            return depth + 1
        return depth

    # -- shapes of programs --------------------------------------------------------------------
    def product(self) -> None:
        """Sum products of elements of two arrays into those of a third, from some start."""
        c = self.c
        out, left, right = (c.pick(self.arrays) for _ in range(3))
        if c.chance(0.8):
            out, left, right = self.factors()
            self.odd = 0.0 if c.chance(0.6) else self.odd
        axes = list(dict.fromkeys(out.axes))
        summed = [x for x in dict.fromkeys(left.axes + right.axes) if x not in axes]
        if not summed:
            summed = [c.pick("nmk")]
        scope, depth = Scope(), 0
        start = c.weighted([(4, "zero"), (3, "bias"), (3, "none"), (2, "before")])
        if start == "before":
            self.fill(out)
            start = "none"
        loops = [*axes, *summed] if start != "none" else self.order([*axes, *summed])
        for number, axis in enumerate(loops):
            if number == len(axes) and start != "none":
                place = self.element(scope, out)
                first = self.number() if start == "zero" else self.term(scope)
                self.line(depth, f"{place} = {first}")
            self.loop(depth, scope, axis)
            depth += 1
        target = self.element(scope, out)
        depth = self.guarded(depth, scope)
        a, b = self.element(scope, left, (0, 1)), self.element(scope, right)
        if c.chance(0.6):
            self.line(depth, f"{target} = {target} + {a} * {b}")
        else:
            self.line(depth, self.combined(target, f"{a} * {b}"))

    def factors(self) -> tuple[Array, Array, Array]:
        """Add arrays that fit: those of a product of matrices, or of one with a vector."""
        c = self.c
        rows, columns, summed = self.order(["n", "m", "k"])
        rank = c.weighted([(3, 2), (1, 1)])
        wanted = [(rows, columns), (rows, summed), (summed, columns)]
        if rank == 1:
            wanted = [(rows,), (rows, summed), (summed,)]
        made: list[Array] = []
        for axes in wanted:
            reversed_axes = axes[::-1] if c.chance(0.3) else axes
            slack = c.pick([0, 0, 0, 1])
            made.append(
                Array(self.name("M"), self.dtype, reversed_axes, tuple(slack for _ in axes))
            )
        self.arrays += made
        return made[0], made[1], made[2]

    def windows(self) -> None:
        """Combine elements of small windows: a convolution, or a pooling."""
        c = self.c
        rank = c.weighted([(2, 1), (2, 2)])
        axes = tuple(self.order(["n", "m", "k"])[:rank])
        taps = tuple(c.integer(1, 4) for _ in axes)
        out = Array(self.name("M"), self.dtype, axes, (0,) * rank)
        image = Array(self.name("M"), self.dtype, axes, tuple(t - 1 for t in taps))
        self.arrays += [out, image]
        scope, depth = Scope(), 0
        for axis in axes:
            self.loop(depth, scope, axis, triangle=False)
            depth += 1
        place = self.element(scope, out)
        self.line(depth, f"{place} = {self.number() if c.chance(0.7) else self.term(scope)}")
        inside: list[str] = []
        for at, count in enumerate(taps):
            tap = self.name("t")
            self.line(depth, f"for {tap} in range({count}):")
            depth += 1
            inside.append(f"{self.index(scope, out, at)} + {tap}")
        read = f"{image.name}[{', '.join(inside)}]"
        if c.chance(0.6):
            read = f"{read} * {self.term(scope)}"
        self.line(self.guarded(depth, scope), self.combined(place, read))

    def fill(self, out: Array) -> None:
        """Write a store of a value to all elements of an array."""
        scope, depth = Scope(), 0
        for axis in out.axes:
            self.loop(depth, scope, axis, triangle=False)
            depth += 1
        self.line(depth, f"{self.element(scope, out)} = {self.term(scope)}")

    def accumulated(self) -> None:
        """Sum up in a scalar, and store what comes of it."""
        c = self.c
        out = c.pick(self.arrays)
        scope, depth = Scope(), 0
        for axis in dict.fromkeys(out.axes):
            self.loop(depth, scope, axis)
            depth += 1
        sums = [self.name("s") for _ in range(c.weighted([(3, 1), (1, 2)]))]
        for total in sums:
            self.line(depth, f"{total} = T.{self.dtype}(0)")
            if c.chance(0.4):
                self.line(depth, f"{total} = {self.term(scope)}")
        inner = Scope(dict(scope.loops), list(scope.scalars))
        at = depth
        for _ in range(c.weighted([(3, 1), (1, 2)])):
            self.loop(at, inner, c.pick("nmk"))
            at += 1
        at = self.guarded(at, inner)
        for total in sums:
            self.line(at, self.combined(total, self.value(inner, (0, 1))))
        scope.scalars += sums
        place = self.element(scope, out)
        self.line(depth, f"{place} = {self.value(scope)}")

    def pointwise(self) -> None:
        """Store formulas of elements, one or several in a nest."""
        c = self.c
        scope, depth = Scope(), 0
        out = c.pick(self.arrays)
        for axis in self.order(list(dict.fromkeys(out.axes))):
            self.loop(depth, scope, axis)
            depth += 1
        for _ in range(c.weighted([(3, 1), (2, 2), (1, 3)])):
            at = self.guarded(depth, scope)
            place = self.element(scope, out, (0, 0, 1))
            self.near.append(out)
            what = self.value(scope, (0, 1, 2))
            if c.chance(0.3):
                self.line(at, self.combined(place, what))
            else:
                self.line(at, f"{place} = {what}")
            fit = [a for a in self.arrays if set(a.axes) <= set(out.axes)]
            out = c.pick(fit if c.chance(0.7) else self.arrays)

    def together(self) -> None:
        """Compute several arrays of one shape in one nest, from each other's neighbours."""
        c = self.c
        axes = tuple(self.order(["n", "m", "k"])[: c.integer(1, 2)])
        slack = c.integer(0, 2)
        made = [
            Array(self.name("M"), self.dtype, axes, tuple(slack for _ in axes))
            for _ in range(c.integer(2, 3))
        ]
        self.arrays += made
        scope, depth = Scope(), 0
        for axis in self.order(list(axes)):
            self.loop(depth, scope, axis, triangle=False)
            depth += 1
        for _ in range(c.integer(2, 4)):
            place = self.element(scope, c.pick(made), (0, 0, 0, 1))
            terms = [self.element(scope, c.pick(made), (0, 1, 2)) for _ in range(c.integer(1, 3))]
            self.line(depth, f"{place} = {' + '.join([*terms, self.number()])}")

    def stencil(self) -> None:
        """Combine neighbours, maybe again and again."""
        c = self.c
        scope, depth = Scope(), 0
        out, of = c.pick(self.arrays), c.pick(self.arrays)
        if c.chance(0.3):
            self.line(depth, f"for t in range({c.integer(1, 3)}):")
            depth += 1
        for axis in dict.fromkeys(out.axes):
            self.loop(depth, scope, axis)
            depth += 1
        terms = [self.element(scope, of, (0, 1, 2, 3)) for _ in range(c.integer(2, 4))]
        self.line(depth, f"{self.element(scope, out)} = {' + '.join(terms)}")
        if c.chance(0.4):
            self.line(depth, f"{self.element(scope, of)} = {self.element(scope, out)}")

    def recurrence(self) -> None:
        """Compute elements from those before them."""
        c = self.c
        scope, depth = Scope(), 0
        out = c.pick(self.arrays)
        for axis in self.order(list(dict.fromkeys(out.axes))):
            self.loop(depth, scope, axis)
            depth += 1
        at = c.integer(0, len(out.axes) - 1)
        self.odd = max(self.odd, 0.2)
        where = [self.index(scope, out, n) for n in range(len(out.axes))]
        before = list(where)
        var = where[at]
        before[at] = c.pick([f"T.max({var} - 1, 0)", f"{var} - T.if_then_else({var} > 0, 1, 0)"])
        if "%" in var or "J[" in var:
            before[at] = var
        one, other = ", ".join(where), ", ".join(before)
        self.line(depth, f"{out.name}[{one}] = {out.name}[{other}] + {self.term(scope)}")

    def histogram(self) -> None:
        """Count into places that are looked up."""
        c = self.c
        scope, depth = Scope(), 0
        out = c.pick(self.arrays)
        axis = self.places.axes[0]
        var = self.loop(depth, scope, axis)
        size = f"(#{out.axes[0]}# + {out.slack[0]})"
        place = f"J[{var}] % T.Cast('int32', {size})"
        if c.chance(0.5):
            name = self.name("p")
            self.line(1, f"{name} = {place}")
            place = name
        rest = "".join(f", {self.index(scope, out, at)}" for at in range(1, len(out.axes)))
        depth = self.guarded(1, scope)
        target = f"{out.name}[{place}{rest}]"
        self.line(depth, self.combined(target, self.term(scope)))

    def mixed(self) -> None:
        """Put statements at several depths of a nest."""
        c = self.c
        scope, depth = Scope(), 0
        axes = [c.pick("nmk") for _ in range(c.integer(1, 3))]
        for axis in axes:
            if depth and c.chance(0.5):
                self.store(depth, scope)
            self.loop(depth, scope, axis)
            depth += 1
        for _ in range(c.integer(1, 2)):
            self.store(self.guarded(depth, scope), scope)
        if depth > 1 and c.chance(0.4):
            fewer = Scope(dict(list(scope.loops.items())[: depth - 1]))
            self.store(depth - 1, fewer)

    def store(self, depth: int, scope: Scope) -> None:
        """Store or combine a formula."""
        out = self.some()
        self.near.append(out)
        place, what = self.element(scope, out), self.value(scope, (0, 1))
        text = f"{place} = {what}" if self.c.chance(0.5) else self.combined(place, what)
        self.line(depth, text)

    def until(self) -> None:
        """Repeat something until a count is reached or a value is large."""
        c = self.c
        scope, depth = Scope(), 0
        out = c.pick(self.arrays)
        for axis in dict.fromkeys(out.axes):
            self.loop(depth, scope, axis)
            depth += 1
        count, value = self.name("c"), self.name("v")
        self.line(depth, f"{count} = T.int32(0)")
        self.line(depth, f"{value} = T.{self.dtype}(0)")
        self.line(depth, f"{value} = {self.term(scope)}")
        limit = c.integer(0, 5)
        self.line(depth, f"while {count} < {limit} and {value} < T.{self.dtype}(50):")
        scope.scalars.append(value)
        self.line(depth + 1, f"{value} = {self.value(scope)}")
        self.line(depth + 1, f"{count} = {count} + 1")
        self.line(depth, f"{self.element(scope, out)} = {value}")

    def rows(self) -> None:
        """Do several things with each row, through a row of its own or one for all of them."""
        c = self.c
        axis, over, name = c.pick("nmk"), c.pick("nmk"), self.name("r")
        row = Array(name, self.dtype, (axis,), (0,))
        self.symbolic.discard(axis)
        whole, depth = f'{name} = T.alloc_buffer((#{axis}#,), "{self.dtype}")', 0
        one_for_all = c.chance(0.5)
        if one_for_all:
            self.line(0, whole)
            self.each(0, Scope(), row, axis)
        scope = Scope()
        self.loop(0, scope, over)
        if not one_for_all:
            self.line(1, whole)
            self.each(1, Scope(dict(scope.loops)), row, axis)
        elif c.chance(0.8):
            part = Scope(dict(scope.loops))
            self.loop(1, part, axis)
            depth = self.guarded(2, part)
            self.line(depth, f"{self.element(part, row)} = {self.value(part)}")
        total = self.name("s")
        self.line(1, f"{total} = T.{self.dtype}(0)")
        second = Scope(dict(scope.loops))
        self.loop(1, second, axis)
        self.line(2, self.combined(total, self.element(second, row)))
        third = Scope(dict(scope.loops), [total])
        self.loop(1, third, axis)
        out = c.pick(self.arrays)
        self.arrays.append(row)
        self.line(2, f"{self.element(third, out)} = {self.value(third)}")
        self.arrays.remove(row)

    def each(self, depth: int, scope: Scope, row: Array, axis: str) -> None:
        """Write a store of a value to every element of a row."""
        var = self.whole(depth, scope, axis)
        self.line(depth + 1, f"{row.name}[{var}] = {self.value(scope)}")

    def carried(self) -> None:
        """Hand a scalar on from one iteration to the next, now and then."""
        c = self.c
        scope, depth, kept = Scope(), 0, self.name("s")
        axes = [c.pick("nmk") for _ in range(c.integer(1, 3))]
        declared = c.integer(0, len(axes) - 1)
        late = c.chance(0.3)
        for number, axis in enumerate(axes):
            if number == declared:
                start = f'T.alloc_buffer((1,), "{self.dtype}")' if late else f"T.{self.dtype}(0)"
                self.line(depth, f"{kept} = {start}")
            if number == declared and late:
                kept += "[0]"
                var = self.whole(depth, scope, axis)
                self.line(depth + 1, f"if {var} == 0:")
                self.line(depth + 2, f"{kept} = {self.term(scope)}")
            else:
                self.loop(depth, scope, axis)
            depth += 1
        inside = Scope(dict(scope.loops), [kept])
        if c.chance(0.5):
            self.store(depth, inside)
        at = depth
        if c.chance(0.6):
            self.line(depth, f"if {self.condition(inside)}:")
            at += 1
        value = self.value(inside if c.chance(0.4) else scope)
        self.line(at, f"{kept} = {value}")
        self.store(depth, inside)
