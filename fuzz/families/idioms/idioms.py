"""Idioms that code generators recognise, as people write them; NumPy checks each element.

A program has one to three results, each of some idiom (``kinds.py``): stored element by element,
interleaved, in reverse, or summed, over a row of 0 to 300 elements or several rows. It is written
as plain loops, as blocks, with a scalar sum, or with loops that the user split, vectorised and
unrolled, with and without a remainder. Float results are compared bit for bit; sums of floats have
integral terms, so that they are exact in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fuzz.choices import Choices, SeedChoices
from fuzz.families.cases import Case
from fuzz.families.idioms.kinds import KINDS, condition
from fuzz.families.idioms.source import Source
from fuzz.families.idioms.text import Result, Row, written
from fuzz.families.idioms.values import (
    INTEGERS,
    Value,
    cast,
    converted,
    is_float,
    larger,
    limits,
    numpy_of,
    smaller,
)
from loomir.ir.module import IRModule
from loomir.script import from_source

__all__ = ["VERSION", "draw"]

VERSION: Final = 1

_EXACT: Final = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}
_SUMS: Final = {
    "+": np.add,
    "*": np.multiply,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.logical_or,
    "and": np.logical_and,
}
_LENGTHS: Final = (
    (4, (4, 8, 16, 32, 64)),
    (4, (12, 20, 24, 40, 48, 56, 96, 100, 128)),
    (3, (1, 2, 3, 5, 7, 11, 13, 17, 23, 31, 33)),
    (3, (15, 18, 26, 35, 46, 63, 65, 67, 97, 127, 129)),
    (1, (160, 192, 200, 255, 256, 257, 288, 300)),
    (0.3, (0,)),
)


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    return _Drawn(SeedChoices(f"idioms {VERSION} {seed}")).case(seed)


@dataclass(eq=False)
class _Array:
    """An argument: how its shape is written, and what is in it."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    content: Any
    names: tuple[str, ...] = ()
    after: Any = None
    plain: bool = True
    """Whether it is read only where the loops are."""


@dataclass(eq=False)
class _Drawn(Source):
    c: Choices
    arrays: list[_Array] = field(default_factory=list[_Array])
    lets: list[tuple[str, Value]] = field(default_factory=list[tuple[str, Value]])
    count: int = 0

    def __post_init__(self) -> None:
        c = self.c
        length = c.pick(c.weighted(_LENGTHS))
        rows = c.weighted([(7, 1), (2, c.integer(2, 9)), (0.5, c.pick([16, 17, 33]))])
        self.row = Row(length, rows if length * rows < 4_000 else 1, c.chance(0.3))
        self.near = c.chance(0.5)
        """Whether a pattern of numbers is all that an integer can be."""
        self.flat = c.chance(0.6)
        """Whether all elements are where the loops are."""

    # -- the whole -----------------------------------------------------------------------------
    def case(self, seed: int) -> Case:
        """Draw a program and its arguments."""
        c = self.c
        reduced = c.chance(0.45)
        results = [self.result(reduced) for _ in range(c.weighted([(7, 1), (2, 2), (1, 3)]))]
        text = self.text(results)
        module = from_source(text)
        assert isinstance(module, IRModule)
        arguments: list[Any] = []
        expected: list[Any] = []
        for array in self.arrays:
            arguments.append(self.laid(array.content))
            expected.append(array.content if array.after is None else array.after)
        if self.passes_length:
            arguments.append(self.row.length)
            expected.append(None)
        return Case("idioms", seed, module, "main", tuple(arguments), tuple(expected))

    def laid(self, content: Any) -> Any:
        """Put an array somewhere, maybe between the lines of a cache."""
        shift = self.c.weighted([(6, 0), (1, 1), (1, 3)])
        base = np.zeros(content.size + shift + 2, content.dtype)
        view = base[shift : shift + content.size].reshape(content.shape)
        view[...] = content
        return view

    def text(self, results: Sequence[Result]) -> str:
        """Write the program."""
        named = dict.fromkeys(name for array in self.arrays for name in array.names)
        self.passes_length = self.row.symbolic and "n" not in named
        """Whether no array has the length, which then is an argument."""
        parameters = [f"p{a.name}: T.handle" for a in self.arrays]
        parameters += ["n: T.int64"] * self.passes_length
        lines = [
            "from loomir.script import ir as I, tir as T",
            "@I.ir_module",
            "class Module:",
            "    @T.prim_func",
            f"    def main({', '.join(parameters)}):",
        ]
        lines += [f"        {name} = T.int64()" for name in named]
        for a in self.arrays:
            shape = f"({', '.join(a.shape)}{',' if len(a.shape) == 1 else ''})"
            lines.append(f'        {a.name} = T.match_buffer(p{a.name}, {shape}, "{a.dtype}")')
        body = written(self.c, self.row, results)
        return "\n".join([*lines, *(f"        {line}" for line in body)]) + "\n"

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    # -- elements ------------------------------------------------------------------------------
    def named(self, value: Value) -> Value:
        """Return a value a name in the program, maybe."""
        if not self.c.chance(0.5 if len(value.text) < 60 else 0.9):
            return value
        name = self.name("t")
        self.lets.append((name, value))
        return Value(value.dtype, f"{name}@@", value.array)

    def load(self, dtype: str) -> Value:
        """Read an element of some array."""
        c = self.c
        known = [a for a in self.arrays if a.dtype == dtype and a.plain and a.after is None]
        if known and c.chance(0.2):
            return self.at(c.pick(known))
        how = (
            ""
            if self.flat
            else c.weighted(
                [
                    (8, ""),
                    (2, "shift"),
                    (1, "reverse"),
                    (2, "step"),
                    (1, "column"),
                    (1, "scalar"),
                    (1, "row"),
                    (1, "repeat"),
                ]
            )
        )
        n, m = self.row.length, self.row.rows
        i = np.arange(n)
        if not how:
            return self.at(self.array(dtype, self.row.shape(), self.row.sizes()))
        if how == "column" and self.row.deep:
            array = self.array(dtype, self.row.shape()[::-1], (n, m))
            array.plain = False
            return Value(dtype, f"{array.name}[@i, @r]", array.content.T)
        if how == "row" and self.row.deep:
            array = self.array(dtype, (str(m),), (m,))
            return Value(dtype, f"{array.name}[@r]", array.content[:, None])
        if how == "scalar":
            array = self.array(dtype, ("1",), (1,))
            return Value(dtype, f"{array.name}[0]", array.content[0])
        if how == "reverse":
            array = self.array(dtype, (self.row.extent,), (n,))
            array.plain = False
            return Value(dtype, f"{array.name}[{self.row.extent} - 1 - @i]", array.content[::-1])
        if how == "repeat":
            by = c.pick([2, 3, 4])
            array = self.own(dtype, max(1, -(-n // by)))
            return Value(dtype, f"{array.name}[@i // {by}]", array.content[i // by])
        by = c.pick([2, 2, 3, 4]) if how == "step" else 1
        more = c.integer(0, 3)
        array = self.own(dtype, n * by + more)
        place = "@i" if by == 1 else f"@i * {by}"
        place = f"{place} + {more}" if more else place
        return Value(dtype, f"{array.name}[{place}]", array.content[i * by + more])

    def pair(self, dtype: str, count: int = 2) -> list[Value]:
        """Read neighbouring elements."""
        n = self.row.length
        if self.c.chance(0.2):
            return [self.load(dtype) for _ in range(count)]
        array = self.own(dtype, n * count)
        i = np.arange(n) * count
        return [
            Value(dtype, f"{array.name}[@i * {count} + {k}]", array.content[i + k])
            for k in range(count)
        ]

    def look_up(self, dtype: str, index: Value, size: int) -> Value:
        """Read an element of a table."""
        table = self.array(dtype, (str(size),), (size,))
        table.plain = False
        return Value(dtype, f"{table.name}[{index.text}]", table.content[index.array])

    def short(self, dtype: str) -> Value:
        """Read a float of few digits."""
        array = self.array(dtype, self.row.shape(), self.row.sizes())
        random = np.random.default_rng(self.c.integer(0, 1 << 30))
        most = 120 if dtype == "bfloat16" else 1_000
        made = random.integers(-most, most, array.content.shape) / 2.0 ** random.integers(0, 9)
        array.content = converted(made, dtype)
        return self.at(array)

    def at(self, array: _Array) -> Value:
        """Read an array where the loops are."""
        return Value(array.dtype, f"{array.name}[{self.row.place}]", array.content)

    def own(self, dtype: str, size: int) -> _Array:
        """Draw an array of an axis of its own."""
        name = f"h{self.count + 1}" if self.row.symbolic else str(size)
        array = self.array(dtype, (name,), (size,))
        array.plain = False
        return array

    def array(self, dtype: str, shape: tuple[str, ...], sizes: tuple[int, ...]) -> _Array:
        """Draw an array."""
        names = tuple(part for part in shape if part.isidentifier())
        made = _Array(self.name("A"), dtype, shape, self.filled(dtype, sizes), names)
        made.plain = sizes == self.row.sizes() and shape == self.row.shape()
        self.arrays.append(made)
        return made

    def filled(self, dtype: str, sizes: tuple[int, ...]) -> Any:
        """Fill an array."""
        c = self.c
        random = np.random.default_rng(c.integer(0, 1 << 30))
        if dtype == "bool":
            return random.random(sizes) < 0.5
        if not is_float(dtype):
            low, high = limits(dtype)
            if self.near:
                made = random.integers(low, high, sizes, numpy_of(dtype), endpoint=True)
            else:
                made = random.integers(-9 if low else 0, 9, sizes).astype(dtype)
            ends = np.array([low, high, low + 1, high - 1, 0, 1, high // 2], dtype)
            share = c.pick([0.0, 0.1, 0.5])
            return np.where(random.random(sizes) < share, random.choice(ends, sizes), made)
        kind = c.weighted([(4, "whole"), (4, "any"), (2, "edges")])
        whole = random.integers(-7, 7, sizes, endpoint=True).astype(np.float64)
        if kind == "whole":
            return converted(whole, dtype)
        scale = 2.0 ** random.integers(-3, 20, sizes)
        made = random.standard_normal(sizes) * scale
        if kind == "edges":
            powers = 2.0 ** random.choice([7, 8, 15, 16, 31, 32, 63, 64], sizes)
            near = random.choice([-1.0, 1.0], sizes) * (powers - random.choice([0, 0.5, 1], sizes))
            odd = random.choice(
                [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -3e38, 65504.0, 0.5, -0.5, 1e300],
                sizes,
            )
            some = random.random(sizes)
            made = np.where(some < 0.4, near, np.where(some < 0.6, odd, made))
        return converted(made, dtype)

    # -- results -------------------------------------------------------------------------------
    def value(self) -> tuple[Value, list[tuple[str, Value]]]:
        """Draw an idiom, and what has a name in it."""
        self.lets = []
        made = self.c.weighted(KINDS)(self)
        return made, self.lets

    def broadcast(self, value: Value) -> Any:
        """Return the elements at all places."""
        return np.broadcast_to(value.array, self.row.sizes())

    def result(self, reduced: bool) -> Result:
        """Draw a result."""
        if not reduced:
            return self.stored()
        if self.c.chance(0.08):
            return self.asked()
        return self.summed()

    def stored(self) -> Result:
        """Draw a result that is stored element by element."""
        c = self.c
        value, lets = self.value()
        content = self.broadcast(value).copy()
        mine = [a for a in self.arrays if a.plain and a.after is None and a.dtype == value.dtype]
        if mine and c.chance(0.07) and all(a.plain for a in mine):
            array = c.pick(mine)
            array.after = content
            # Nothing else may read it in another loop.
            return Result(f"{array.name}[{self.row.place}]", value, lets, own_loop=True)
        how = c.weighted([(8, ""), (1, "reverse"), (1, "step"), (1, "column")])
        n = self.row.length
        if self.row.deep or not how:
            transposed = how == "column"
            shape = self.row.shape()[::-1] if transposed else self.row.shape()
            array = self.array(value.dtype, shape, self.row.sizes()[:: -1 if transposed else 1])
            array.after = content.T.copy() if transposed else content
            place = "@i, @r" if transposed else self.row.place
        elif how == "step":
            by, at = c.pick([(2, 0), (2, 1), (3, 1)])
            array = self.own(value.dtype, n * by)
            array.after = array.content.copy()
            array.after[at::by] = content
            place = f"@i * {by} + {at}" if at else f"@i * {by}"
        else:
            array = self.array(value.dtype, (self.row.extent,), (n,))
            array.after = content[::-1].copy() if how == "reverse" else content
            place = f"{self.row.extent} - 1 - @i" if how == "reverse" else "@i"
        return Result(f"{array.name}[{place}]", value, lets)

    def summed(self) -> Result:
        """Draw a result that is a sum, a maximum and so on of each row."""
        c = self.c
        value, lets = self.value()
        if value.dtype == "bool" and c.chance(0.5):
            value = cast(value, c.pick(INTEGERS))
        dtype = value.dtype
        if dtype == "bool":
            op = c.pick(["or", "and"])
        elif is_float(dtype):
            op = c.pick(["max", "min", "+"])
            if op == "+":
                to = c.pick([dtype, dtype, "float32", "float64"])
                value = value if to == dtype else cast(value, to)
                if not self.exact(value):
                    op = c.pick(["max", "min"])
        else:
            to = c.weighted([(4, dtype), (5, "int32"), (3, c.pick(INTEGERS))])
            value = value if to == dtype else cast(value, to)
            op = c.weighted([(8, "+"), (1, "max"), (1, "min"), (0.5, "^"), (0.5, "|"), (0.5, "&")])
        if is_float(value.dtype) and op != "+":  # which of two zeros is larger is nobody's concern
            value = value * value + 1.0 if c.chance(0.5) else value + 0.0
        return self.total(op, value, lets)

    def exact(self, value: Value) -> bool:
        """Whether a sum of floats is the same in any order."""
        values = self.broadcast(value).astype(np.float64)
        if not np.isfinite(values).all() or (values != np.rint(values)).any():
            return False
        most = np.abs(values).sum(axis=-1).max() if values.size else 0
        return bool(most + 10 < _EXACT[value.dtype])

    def total(self, op: str, value: Value, lets: list[tuple[str, Value]]) -> Result:
        """Sum up."""
        c = self.c
        columns = self.row.deep and c.chance(0.3)
        size = self.row.length if columns else self.row.rows
        extent = self.row.extent if columns else str(size)
        array = self.array(value.dtype, (extent,), (size,))
        array.plain = False
        values = self.broadcast(value)
        if not self.row.deep:
            values = values[None]
        if is_float(value.dtype):
            array.content = converted(np.arange(size) % 7 + 1.0, value.dtype)
        with np.errstate(all="ignore"):
            start = array.content
            terms = values if columns else values.T
            array.after = start.copy()
            for k in range(terms.shape[0]):
                if is_float(value.dtype) and op in ("max", "min"):
                    join = larger if op == "max" else smaller
                    array.after = join(
                        Value(value.dtype, "", array.after), Value(value.dtype, "", terms[k])
                    ).array
                else:
                    array.after = _SUMS[op](array.after, terms[k]).astype(array.content.dtype)
        place = "@i" if columns else "@r" if self.row.deep else "0"
        return Result(f"{array.name}[{place}]", value, lets, op, columns)

    def asked(self) -> Result:
        """Draw whether any, or all, of a row are so."""
        self.lets = []
        return self.total(self.c.pick(["or", "and"]), condition(self), self.lets)
