"""Programs that move elements: transpose, concatenate, crop, pad, reshape, reverse."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fuzz.choices import Choices
from fuzz.families.drafts import Array, Dim, Draft

__all__ = ["Movements"]


class Movements:
    """Writes loops that move elements into a draft, one movement after another."""

    def __init__(self, d: Draft, dtypes: Sequence[str], budget: int) -> None:
        self.c: Choices = d.c
        self.d, self.budget = d, budget
        self.dtype = self.c.pick(dtypes)
        self.form = self.c.pick(["block", "loops"])

    def write(self) -> None:
        """Write some movements, each of what the one before it made."""
        c, d = self.c, self.d
        rank = c.weighted([(4, 1), (6, 2), (4, 3), (1, 4)])
        dims = [d.dim(n) for n in d.extents(rank, self.budget)]
        kind = c.weighted([(4, "any"), (2, "small"), (1, "special")])
        content = d.content(self.dtype, [dim.value for dim in dims], kind)
        x = d.argument("X", self.dtype, dims, content)
        count = c.weighted([(4, 1), (3, 2), (2, 3)])
        for number in range(count):
            self.inner = number < count - 1 and c.chance(0.6)
            x = c.weighted(
                [
                    (4, self.turn),
                    (3, self.reshape),
                    (3, self.join),
                    (3, self.pad),
                    (3, self.cut),
                    (2, self.reverse),
                    (2, self.repeat),
                    (1, self.roll),
                    (1, self.stack),
                ]
            )(x)

    # -- pieces ----------------------------------------------------------------------------------
    def out(self, dims: Sequence[Dim]) -> Array:
        """Add what a movement makes."""
        if self.inner:
            return self.d.allocated(0, "T", self.dtype, dims)
        return self.d.argument("Y", self.dtype, dims)

    def nest(self, dims: Sequence[Dim], transposed: bool = False) -> tuple[int, list[str]]:
        """Open loops over a shape, and a block where programs are written so."""
        d = self.d
        spans = [(d.name("i"), dim) for dim in dims]
        loops = spans[::-1] if transposed else spans
        depth, _ = d.body(self.form, d.loops(0, loops), loops)
        return depth, [f"v{v}" if self.form == "block" else v for v, _ in spans]

    def moved(self, read: str) -> str:
        """Write what is made of an element on its way."""
        c = self.c
        if c.chance(0.75) or self.dtype == "bool":
            return read
        return f"{read} {c.pick('+*')} T.{self.dtype}({c.integer(1, 3)})"

    # -- movements -------------------------------------------------------------------------------
    def turn(self, x: Array) -> Array:
        """Write a transpose."""
        c = self.c
        order = list(range(len(x.dims)))
        if len(order) == 2:
            order.reverse()
        else:
            order = [order.pop(c.integer(0, len(order) - 1)) for _ in range(len(order))]
        out = self.out([x.dims[at] for at in order])
        depth, use = self.nest(out.dims, c.chance(0.4))
        back = [use[order.index(at)] for at in range(len(order))]
        self.d.line(depth, f"{out.at(*use)} = {self.moved(x.at(*back))}")
        return out

    def reshape(self, x: Array) -> Array:
        """Write a reshape, by quotients and remainders of flattened indices."""
        c, d = self.c, self.d
        if math.prod(x.shape) == 0:
            return self.turn(x)
        if len(x.dims) > 1 and c.chance(0.6):  # to one axis, or from the first two to one
            count = len(x.dims) if c.chance(0.6) else 2
            fused = x.dims[0]
            for dim in x.dims[1:count]:
                fused = fused * dim
            out = self.out([fused, *x.dims[count:]])
            if c.chance(0.5):
                depth, use = self.nest(out.dims)
                at: list[str] = []
                rest = use[0]
                for dim in reversed(x.dims[1:count]):
                    text = dim.text if dim.text.isalnum() else f"({dim.text})"
                    at.insert(0, f"{rest} % {text}")
                    rest = f"{rest} // {text}"
                d.line(depth, f"{out.at(*use)} = {self.moved(x.at(rest, *at, *use[1:]))}")
                return out
            depth, use = self.nest(x.dims)
            flat = use[0]
            for u, dim in zip(use[1:count], x.dims[1:count], strict=True):
                text = dim.text if dim.text.isalnum() else f"({dim.text})"
                flat = f"({flat}) * {text} + {u}"
            d.line(depth, f"{out.at(flat, *use[count:])} = {self.moved(x.at(*use))}")
            return out
        axis = c.integer(0, len(x.dims) - 1)  # one axis becomes two
        size = x.dims[axis].value
        by = c.pick([n for n in range(1, min(size, 64) + 1) if size % n == 0])
        first = Dim(size // by, str(size // by))
        if not x.dims[axis].text.isdigit():
            first = x.dims[axis] // by
        dims = [*x.dims[:axis], first, Dim(by, str(by)), *x.dims[axis + 1 :]]
        blocked = c.chance(0.4)  # as layouts in blocks have it: the inner part last
        order = list(range(len(dims)))
        if blocked:
            order.append(order.pop(axis + 1))
        out = self.out([dims[at] for at in order])
        depth, use = self.nest(out.dims)
        of = {at: use[n] for n, at in enumerate(order)}
        flat = f"{of[axis]} * {by} + {of[axis + 1]}"
        places = [of[at] for at in range(axis)] + [flat]
        places += [of[at] for at in range(axis + 2, len(dims))]
        d.line(depth, f"{out.at(*use)} = {self.moved(x.at(*places))}")
        return out

    def join(self, x: Array) -> Array:
        """Write two arrays behind each other."""
        c, d = self.c, self.d
        axis = c.integer(0, len(x.dims) - 1)
        more = d.dim(d.extent(40))
        dims = [more if at == axis else dim for at, dim in enumerate(x.dims)]
        y = d.argument(
            "X", self.dtype, dims, d.content(self.dtype, [dim.value for dim in dims], "any")
        )
        whole = [dim + more if at == axis else dim for at, dim in enumerate(x.dims)]
        out = self.out(whole)
        if c.chance(0.5):
            depth, use = self.nest(out.dims)
            other = list(use)
            other[axis] = f"{use[axis]} - {_once(x.dims[axis])}"
            test = f"{use[axis]} < {x.dims[axis].text}"
            value = f"T.if_then_else({test}, {x.at(*use)}, {y.at(*other)})"
            d.line(depth, f"{out.at(*use)} = {value}")
            return out
        depth, use = self.nest(x.dims)
        d.line(depth, f"{out.at(*use)} = {self.moved(x.at(*use))}")
        depth, use = self.nest(y.dims)
        place = list(use)
        place[axis] = f"{use[axis]} + {x.dims[axis].text}"
        d.line(depth, f"{out.at(*place)} = {y.at(*use)}")
        return out

    def pad(self, x: Array) -> Array:
        """Write an array with a border."""
        c, d = self.c, self.d
        low = [c.pick([0, 0, 1, 2, 5]) for _ in x.dims]
        high = [c.pick([0, 0, 1, 3]) for _ in x.dims]
        dims = [dim + (a + b) for dim, a, b in zip(x.dims, low, high, strict=True)]
        out = self.out(dims)
        depth, use = self.nest(dims)
        places, tests = list[str](), list[str]()
        way = c.pick(["zero", "zero", "edge", "if"])
        if way == "edge" and 0 in x.shape:
            way = "zero"
        for u, a, dim in zip(use, low, x.dims, strict=True):
            place = f"{u} - {a}" if a else u
            if way == "edge":
                place = f"T.min(T.max({place}, 0), {dim.text} - 1)"
            else:
                tests += [f"{u} >= {a}"] if a else []
                tests.append(f"{u} < {(dim + a).text}")
            places.append(place)
        read, fill = self.moved(x.at(*places)), f"T.{self.dtype}({c.pick([0, 1])})"
        place = out.at(*use)
        if way == "edge":
            d.line(depth, f"{place} = {read}")
        elif way == "zero":
            d.line(depth, f"{place} = T.if_then_else({' and '.join(tests)}, {read}, {fill})")
        else:
            d.line(depth, f"{place} = {fill}")
            d.line(depth, f"if {' and '.join(tests)}:")
            d.line(depth + 1, f"{place} = {read}")
        return out

    def cut(self, x: Array) -> Array:
        """Write a part of an array, with steps."""
        c, d = self.c, self.d
        dims, begins, steps = list[Dim](), list[int](), list[int]()
        for dim in x.dims:
            step = c.weighted([(4, 1), (2, 2), (1, 3)])
            begin = min(dim.value, c.pick([0, 0, 1, 2]))
            dims.append((dim + (step - 1 - begin)) // step)
            begins.append(begin)
            steps.append(step)
        out = self.out(dims)
        depth, use = self.nest(dims, c.chance(0.2))
        places = [
            (u if step == 1 else f"{u} * {step}") + (f" + {begin}" if begin else "")
            for u, step, begin in zip(use, steps, begins, strict=True)
        ]
        d.line(depth, f"{out.at(*use)} = {self.moved(x.at(*places))}")
        return out

    def reverse(self, x: Array) -> Array:
        """Write an array backwards along some axes."""
        c = self.c
        back = [c.chance(0.6) for _ in x.dims]
        out = self.out(x.dims)
        depth, use = self.nest(x.dims)
        places = [
            f"{dim.text} - 1 - {u}" if b else u for u, dim, b in zip(use, x.dims, back, strict=True)
        ]
        if c.chance(0.5):
            self.d.line(depth, f"{out.at(*use)} = {self.moved(x.at(*places))}")
        else:
            self.d.line(depth, f"{out.at(*places)} = {self.moved(x.at(*use))}")
        return out

    def repeat(self, x: Array) -> Array:
        """Write each element several times, or all of them again and again."""
        c = self.c
        axis, by = c.integer(0, len(x.dims) - 1), c.integer(2, 3)
        if math.prod(x.shape) * by > 4 * self.budget or 0 in x.shape:
            return self.reverse(x)
        dims = [dim * by if at == axis else dim for at, dim in enumerate(x.dims)]
        out = self.out(dims)
        depth, use = self.nest(dims)
        places = list(use)
        places[axis] = (
            f"{use[axis]} // {by}" if c.chance(0.5) else f"{use[axis]} % {_once(x.dims[axis])}"
        )
        self.d.line(depth, f"{out.at(*use)} = {self.moved(x.at(*places))}")
        return out

    def roll(self, x: Array) -> Array:
        """Write an array rotated by some places."""
        c = self.c
        if 0 in x.shape:
            return self.reverse(x)
        out = self.out(x.dims)
        depth, use = self.nest(x.dims)
        places = [
            f"({u} + {c.integer(1, 5)}) % {_once(dim)}" if c.chance(0.6) else u
            for u, dim in zip(use, x.dims, strict=True)
        ]
        self.d.line(depth, f"{out.at(*use)} = {self.moved(x.at(*places))}")
        return out

    def stack(self, x: Array) -> Array:
        """Write an array beside one that is made of it, as a new axis."""
        c, d = self.c, self.d
        at = c.integer(0, len(x.dims))
        dims = [*x.dims[:at], Dim(2, "2"), *x.dims[at:]]
        out = self.out(dims)
        depth, use = self.nest(x.dims)
        for number in range(2):
            place = out.at(*use[:at], number, *use[at:])
            d.line(depth, f"{place} = {self.moved(x.at(*use))}")
        return out


def _once(dim: Dim) -> str:
    return dim.text if dim.text.isalnum() else f"({dim.text})"
