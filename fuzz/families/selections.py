"""Selections: argmax, argmin and what people write like them, with the rule for equal elements.

Each keeps a value and where it was found, or more: in a block with an initial state, or in plain
loops with ``if``. Rows are short, long, of symbolic length or empty; the axis is the last, the
first, one between, or all of them. Python judges, element by element in the order of the loops.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np

from fuzz.choices import SeedChoices
from fuzz.families.cases import Case
from loomir.ir.module import IRModule
from loomir.script import from_source
from loomir.support.dtype import DataType, numpy_of

__all__ = ["VERSION", "draw"]

VERSION: Final = 1

_DTYPES: Final = ("float32", "float32", "float64", "float16", "int32", "int8", "uint8", "int64")
_LENGTHS: Final = (1, 2, 5, 16, 31, 33, 64, 100, 129, 300)
_COMPARES: Final = (">", ">=", "<", "<=")
_HEAD: Final = """
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main({params}):
"""


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    return _Selection(seed).case()


class _Selection:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.c = c = SeedChoices(f"selections {VERSION} {seed}")
        self.numbers = np.random.default_rng(seed)
        self.dtype = c.pick(_DTYPES)
        self.index = c.pick(["int32", "int64"])
        rank = c.weighted([(2.0, 1), (3.0, 2), (1.5, 3)])
        self.shape = tuple(
            c.weighted([(4.0, c.pick(_LENGTHS[:5])), (0.1, 0), (3.0, c.pick(_LENGTHS))])
            for _ in range(rank)
        )
        some = c.weighted([(3.0, [rank - 1]), (1.0, [0]), (1.0, list(range(rank)))])
        self.reduced = some
        self.kept = [axis for axis in range(rank) if axis not in some]
        while int(np.prod(self.shape)) > 1500:
            self.shape = tuple(max(1, size // 2) for size in self.shape)
        self.compare = c.pick(_COMPARES)
        self.symbolic = c.chance(0.3)
        self.earlier = c.chance(0.4)
        """Whether of equal elements the one of the smallest position is kept, in any order."""
        self.prefers_nan = False

    def _values(self) -> Any:
        dtype = numpy_of(DataType(self.dtype))
        reach = self.c.pick([2, 9, 100])  # few values: many are equal
        low = 0 if self.dtype.startswith("u") else -reach
        values: Any = self.numbers.integers(low, reach, self.shape, endpoint=True).astype(dtype)
        if DataType(self.dtype).is_float and self.c.chance(0.15) and values.size:
            values.flat[self.c.integer(0, values.size - 1)] = np.nan
        return values

    def _first(self) -> tuple[Any, int]:
        """Draw the initial state: mostly what every element beats."""
        kind = DataType(self.dtype)
        least: Any = -np.inf if kind.is_float else kind.min_value
        most: Any = np.inf if kind.is_float else kind.max_value
        value = least if ">" in self.compare else most
        if self.c.chance(0.15):
            value = 0
        return value, self.c.pick([-1, 0, 2147483647 if self.earlier else -1])

    def _number(self, value: Any, dtype: str) -> str:
        return f'T.{dtype}("{value}")' if np.isinf(value) else f"T.{dtype}({value})"

    def case(self) -> Case:
        """Write the program, and find what it must give."""
        values, (first, start) = self._values(), self._first()
        extents = [f"n{axis}" if self.symbolic else str(e) for axis, e in enumerate(self.shape)]
        axes = [f"i{axis}" for axis in range(len(self.shape))]
        order = [*self.kept, *self.reduced] if self.c.chance(0.8) else [*self.reduced, *self.kept]
        self.blocked = blocked = order[: len(self.kept)] != self.kept or self.c.chance(0.6)
        name = (lambda axis: f"v{axis}") if blocked else (lambda axis: axis)
        element = f"X[{', '.join(name(axis) for axis in axes)}]"
        at = ", ".join(name(axes[axis]) for axis in self.kept) or "0"
        place = " + ".join(name(axes[axis]) + self._step(axis, extents) for axis in self.reduced)
        where = f"T.Cast('{self.index}', {place})"
        init = [
            f"P[{at}] = {self._number(start, self.index)}",
            f"V[{at}] = {self._number(first, self.dtype)}",
        ]
        beats = f"{element} {self.compare} V[{at}]"
        if DataType(self.dtype).is_float and self.c.chance(0.3):  # NaN beats all, as in NumPy
            beats = f"({beats} or T.isnan({element}) and not T.isnan(V[{at}]))"
            self.prefers_nan = True
        if self.earlier:
            beats = f"{beats} or {element} == V[{at}] and {where} < P[{at}]"
        body = self._write_block if blocked else self._write_loops
        lines = body(axes, extents, order, init, [beats, element, where, at])
        results = tuple(self.shape[axis] for axis in self.kept) or (1,)
        lengths = [extents[axis] for axis in self.kept] or ["1"]
        made = ", ".join(lengths) + ","
        buffers = {
            "X": f'({", ".join(extents)},), "{self.dtype}"',
            "P": f'({made}), "{self.index}"',
            "V": f'({made}), "{self.dtype}"',
        }
        params = [f"{b}: T.Buffer({described})" for b, described in buffers.items()]
        if self.symbolic:
            params = [f"p{b}: T.handle" for b in buffers]
            names = [f"        n{axis} = T.int64()\n" for axis in range(len(self.shape))]
            matched = [
                f"        {b} = T.match_buffer(p{b}, {described})\n"
                for b, described in buffers.items()
            ]
            lines = "".join((*names, *matched)) + lines
        module = from_source(_HEAD.format(params=", ".join(params)) + lines)
        assert isinstance(module, IRModule)
        wanted = self._expected(values, first, start, results)
        empty = np.zeros(results, self.index), np.zeros(results, values.dtype)
        return Case(
            "selections", self.seed, module, "main", (values, *empty), (values.copy(), *wanted)
        )

    def _step(self, axis: int, extents: list[str]) -> str:
        return "".join(f" * {extents[k]}" for k in self.reduced if k > axis)

    def _write_block(
        self,
        axes: list[str],
        extents: list[str],
        order: list[int],
        init: list[str],
        parts: list[str],
    ) -> str:
        """Write a block that selects, by ``T.Select`` or by ``if``."""
        beats, element, where, at = parts
        loops = [axes[axis] for axis in order]
        kinds = "".join("R" if axis in self.reduced else "S" for axis in order)
        grid = ", ".join(extents[axis] for axis in order)
        names = ", ".join(f"v{loop}" for loop in loops)
        head = f"""\
        for {", ".join(loops)} in T.grid({grid}):
            with T.block("selection"):
                {names} = T.axis.remap("{kinds}", [{", ".join(loops)}])
                with T.init():
                    {init[0]}
                    {init[1]}
"""
        if self.c.chance(0.3):
            return (
                head
                + f"""\
                if {beats}:
                    P[{at}] = {where}
                    V[{at}] = {element}
"""
            )
        return (
            head
            + f"""\
                position: T.{self.index} = T.Select({beats}, {where}, P[{at}])
                value: T.{self.dtype} = T.Select({beats}, {element}, V[{at}])
                P[{at}] = position
                V[{at}] = value
"""
        )

    def _write_loops(
        self,
        axes: list[str],
        extents: list[str],
        order: list[int],
        init: list[str],
        parts: list[str],
    ) -> str:
        """Write plain loops that begin with the initial state."""
        beats, element, where, at = parts
        lines: list[str] = []
        deep = 2
        for axis in self.kept:
            lines.append("    " * deep + f"for {axes[axis]} in range({extents[axis]}):")
            deep += 1
        lines += ["    " * deep + line for line in init]
        for axis in self.reduced:
            lines.append("    " * deep + f"for {axes[axis]} in range({extents[axis]}):")
            deep += 1
        lines.append("    " * deep + f"if {beats}:")
        lines.append("    " * (deep + 1) + f"P[{at}] = {where}")
        lines.append("    " * (deep + 1) + f"V[{at}] = {element}")
        return "\n".join(lines) + "\n"

    def _expected(self, values: Any, first: Any, start: int, results: tuple[int, ...]) -> Any:
        """Select as the loops do."""
        positions: Any = np.zeros(results, self.index)
        best: Any = np.zeros(results, values.dtype)
        sizes = [self.shape[axis] for axis in self.reduced]
        runs = all(sizes)
        for kept in product(*(range(self.shape[axis]) for axis in self.kept)):
            at = kept or (0,)
            if runs or not self.blocked:  # a block that never runs does not begin either
                positions[at], best[at] = start, first
            for number, inner in enumerate(product(*map(range, sizes))):
                full = dict(zip(self.kept, kept, strict=True)) | dict(
                    zip(self.reduced, inner, strict=True)
                )
                value = values[tuple(full[axis] for axis in range(len(self.shape)))]
                won = {
                    ">": value > best[at],
                    ">=": value >= best[at],
                    "<": value < best[at],
                    "<=": value <= best[at],
                }[self.compare]
                if self.prefers_nan:
                    won = won or (np.isnan(value) and not np.isnan(best[at]))
                if won or (self.earlier and value == best[at] and number < positions[at]):
                    positions[at], best[at] = number, value
        return positions, best
