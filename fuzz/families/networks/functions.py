"""Private functions of graphs, of any form, with the attributes that passes write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from fuzz.families.networks.graph import Array, Net, Value, annotated

__all__ = ["Function", "draw_function"]

_ATTRS: Final = [
    '{"Primitive": True}',
    '{"Composite": "mine.part"}',
    '{"Primitive": 1, "Composite": "a"}',
]

Arrays: TypeAlias = Mapping[str, Array]
Loops: TypeAlias = Callable[[str], str]
"""Writes a kernel of a kind for a tensor, and gives its name."""


class Step(NamedTuple):
    """A line, and the arrays of what it binds."""

    name: str
    text: str
    compute: Callable[[Arrays, int], Array]


class Function(NamedTuple):
    """A function of a tensor and maybe a scalar; its results by the paths to them."""

    name: str
    takes_scalar: bool
    steps: tuple[Step, ...]
    results: tuple[tuple[str, str], ...]

    def apply(self, array: Array, number: int) -> list[tuple[str, Array]]:
        """Return each result with the path to it."""
        found: dict[str, Array] = {"x": array}
        with np.errstate(all="ignore"):
            for step in self.steps:
                found[step.name] = step.compute(found, number)
        return [(path, found[name]) for path, name in self.results]


def draw_function(net: Net, x: Value, loops: Loops, others: list[Function]) -> Function:
    """Draw a function, and add it to the module."""
    drawn = _Drawn(net, x, loops, others)
    return drawn.function()


class _Drawn:
    def __init__(self, net: Net, x: Value, loops: Loops, others: list[Function]) -> None:
        self.net, self.c, self.x, self.loops, self.others = net, net.c, x, loops, others
        self.names = ["x"]
        self.steps: list[Step] = []
        self.lines: list[str] = []
        self.takes_scalar = net.c.chance(0.4)
        self.info = annotated(x.dims, x.dtype, quoted=False)

    def add(self, text: str, compute: Callable[[Arrays, int], Array]) -> str:
        """Add a line."""
        name = f"y{len(self.steps)}"
        self.steps.append(Step(name, text, compute))
        self.lines.append(f"{name} = {text}")
        return name

    def one(self) -> None:
        """Add a step."""
        c, kind = self.c, self.x.array.dtype.type
        a, b = c.pick(self.names), c.pick(self.names)
        number = c.integer(1, 3)
        scalar = "k" if self.takes_scalar and c.chance(0.6) else f"R.prim_value({number})"
        given = (lambda k: k) if scalar == "k" else (lambda k: number)
        way = c.pick(
            ["multiply", "maximum", "subtract", "kernel", "kernel", "pair", "inplace", "call"]
        )
        fits = [f for f in self.others if len(f.results) == 1 and not f.takes_scalar]
        if way == "call" and fits:
            other = c.pick(fits)
            made = self.add(f"cls.{other.name}({a})", lambda v, k: other.apply(v[a], 0)[0][1])
        elif way == "kernel":
            text = f"R.call_tir(cls.{self.loops('scale')}, ({scalar}, {a}), out_sinfo={self.info})"
            made = self.add(text, lambda v, k: (v[a] * kind(2) + kind(given(k))).astype(kind))
        elif way == "inplace":
            twice = self.add(f"R.add({a}, {a})", lambda v, k: (v[a] + v[a]).astype(kind))
            name = self.loops("move")
            text = f"R.call_tir_inplace(cls.{name}, ({scalar}, {twice}), [1], {self.info})"
            made = self.add(text, lambda v, k: (v[twice] + kind(given(k))).astype(kind))
        elif way == "pair":
            infos = f"[{self.info}, {self.info}]"
            text = f"R.call_tir(cls.{self.loops('pair')}, ({a},), out_sinfo={infos})"
            both = f"t{len(self.steps)}"
            self.lines.append(f"{both} = {text}")
            made = self.add(f"{both}[0]", lambda v, k: (v[a] * v[a]).astype(kind))
            self.names.append(self.add(f"{both}[1]", lambda v, k: (v[a] - kind(1)).astype(kind)))
        elif way == "maximum":
            made = self.add(f"R.maximum({a}, {b})", lambda v, k: np.maximum(v[a], v[b]))
        else:
            way = "multiply" if way == "multiply" else "subtract"
            function = np.multiply if way == "multiply" else np.subtract
            text = f"R.{way}({a}, {self.net.const(number, self.x.dtype)})"
            made = self.add(text, lambda v, k: function(v[a], kind(number)).astype(kind))
        self.names.append(made)

    def function(self) -> Function:
        """Draw the function."""
        c, net = self.c, self.net
        for _ in range(c.integer(1, 4)):
            self.one()
        one, two = self.names[-1], c.pick(self.names)
        nested = [("[0][0]", one), ("[0][1]", two), ("[1][0]", two)]
        pair = f"R.Tuple({self.info}, {self.info})"
        text, results, returned = c.weighted(
            [
                (4.0, (one, [("", one)], self.info)),
                (1.0, (f"({one}, {two})", [("[0]", one), ("[1]", two)], pair)),
                (
                    1.0,
                    (
                        f"(({one}, {two}), ({two},), ())",
                        nested,
                        f"R.Tuple({pair}, R.Tuple({self.info}), R.Tuple())",
                    ),
                ),
            ]
        )
        name = net.fresh("f")
        sizes = sorted({d for d in self.x.dims if not d.isdigit()})
        params = f"x: {annotated(self.x.dims, self.x.dtype)}"
        params += ', k: R.Prim("int64")' if self.takes_scalar else ""
        quoted = returned.replace(self.info, annotated(self.x.dims, self.x.dtype))
        lines = ["    @R.function(private=True)", f"    def {name}({params}) -> {quoted}:"]
        if c.chance(0.6):
            lines.append(f"        R.func_attr({c.pick(_ATTRS)})")
        lines += [f"        {size} = T.int64()" for size in sizes]
        lines.append("        cls = Module")
        bound = [s.name for s in self.steps if s.name in (one, two)]
        if bound and c.chance(0.5):
            inner = [*self.lines, f"R.output({', '.join(bound)})"]
            lines += ["        with R.dataflow():", *(f"            {line}" for line in inner)]
        else:
            lines += [f"        {line}" for line in self.lines]
        net.functions.append("\n".join([*lines, f"        return {text}"]))
        return Function(name, self.takes_scalar, tuple(self.steps), tuple(results))
