"""Loop programs under construction: lines, arrays, sizes, and the resulting case."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from fuzz.choices import Choices
from fuzz.families.as_python import dtype_of, float_like, run_as_python
from fuzz.families.cases import Case
from fuzz.families.layouts import laid, strides_of
from loomir.ir.module import IRModule
from loomir.script import from_source

__all__ = ["Array", "Dim", "Draft", "rewriting"]

SHORT: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10)
MIDDLE: Final = (9, 11, 12, 13, 15, 16, 17, 19, 23, 24, 31, 32, 33)
LONG: Final = (40, 47, 48, 63, 64, 65, 97, 127, 128, 129, 200, 257, 300)
GARBAGE: Final = 55
"""What outputs hold before the call."""
_Rewrite: TypeAlias = Callable[[Sequence[str]], list[str]]
_rewrite: ContextVar[_Rewrite | None] = ContextVar("_rewrite", default=None)


@contextmanager
def rewriting(rewrite: _Rewrite) -> Generator[None]:
    """Let a function write the bodies of programs differently."""
    before = _rewrite.set(rewrite)
    try:
        yield
    finally:
        _rewrite.reset(before)


@dataclass(frozen=True)
class Dim:
    """A size, and how it is written."""

    value: int
    text: str

    @property
    def is_name(self) -> bool:
        """Whether the program gives it a name, and nothing else."""
        return self.text.isidentifier()

    def _made(self, value: int, text: str) -> Dim:
        return Dim(value, str(value) if self.text.isdigit() else text)

    def __add__(self, more: int | Dim) -> Dim:
        if isinstance(more, Dim):
            whole = self.value + more.value
            both = self.text.isdigit() and more.text.isdigit()
            return Dim(whole, str(whole) if both else f"{self.text} + {more.text}")
        if more == 0:
            return self
        return self._made(self.value + more, f"{self.text} {'+-'[more < 0]} {abs(more)}")

    def __mul__(self, by: int | Dim) -> Dim:
        text = self.text if self.text.isalnum() else f"({self.text})"
        if isinstance(by, Dim):
            whole = self.value * by.value
            other = by.text if by.text.isalnum() else f"({by.text})"
            both = self.text.isdigit() and by.text.isdigit()
            return Dim(whole, str(whole) if both else f"{text} * {other}")
        return self if by == 1 else self._made(self.value * by, f"{text} * {by}")

    def __floordiv__(self, by: int) -> Dim:
        text = self.text if self.text.isalnum() else f"({self.text})"
        return self if by == 1 else self._made(self.value // by, f"{text} // {by}")


@dataclass(eq=False)
class Array:
    """An array of a program: an argument, or one that the program allocates."""

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    content: Any = None
    """What it holds before the call; None where the program allocates it."""
    strides: tuple[int, ...] = ()
    named_strides: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents."""
        return tuple(dim.value for dim in self.dims)

    @property
    def shape_text(self) -> str:
        """Write the extents."""
        return _tuple(dim.text for dim in self.dims)

    def at(self, *indices: object) -> str:
        """Write an element."""
        return f"{self.name}[{', '.join(map(str, indices)) or '()'}]"


def _tuple(parts: Iterable[object]) -> str:
    texts = [str(part) for part in parts]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


@dataclass
class Draft:
    """A program that is being written."""

    c: Choices
    symbolic: float = 0.0
    """The share of sizes that have names."""
    strided: float = 0.0
    """The share of arguments that are not packed."""
    arrays: list[Array] = field(default_factory=list[Array])
    lines: list[str] = field(default_factory=list[str])
    before: list[str] = field(default_factory=list[str])
    """Lines of other functions of the module."""
    scalars: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    """Parameters that are numbers: name, dtype and value."""
    sizes: list[Dim] = field(default_factory=list[Dim])
    """Sizes that have names."""
    count: int = 0

    @staticmethod
    def drawn(c: Choices) -> Draft:
        """Draw how much of a program is out of the ordinary."""
        symbolic = c.weighted([(5, 0.0), (2, 0.5), (2, 1.0)])
        return Draft(c, symbolic, c.weighted([(6, 0.0), (2, 0.3), (1, 0.8)]))

    # -- names, sizes, arrays --------------------------------------------------------------------
    def name(self, stem: str) -> str:
        """Return a new name."""
        self.count += 1
        return f"{stem}{self.count}"

    def dim(self, value: int) -> Dim:
        """Draw whether a size has a name."""
        if not self.c.chance(self.symbolic):
            return Dim(value, str(value))
        made = Dim(value, self.name("n"))
        self.sizes.append(made)
        return made

    def extent(self, most: int = 300) -> int:
        """Draw a size."""
        c = self.c
        sizes = c.weighted([(50, SHORT), (30, MIDDLE), (18, LONG), (1.5, (0,))])
        fitting = [n for n in sizes if n <= most] or [max(1, most)]
        return c.pick(fitting)

    def extents(self, rank: int, most: int) -> list[int]:
        """Draw sizes whose product is at most about a number."""
        made = [self.extent() for _ in range(rank)]
        while math.prod(max(1, n) for n in made) > most:
            at = self.c.integer(0, rank - 1)
            if made[at] <= 2:
                at = made.index(max(made))
            fewer = [n for n in (*SHORT, *MIDDLE, *LONG) if n < made[at]]
            made[at] = self.c.pick(sorted(fewer)[-8:])
        return made

    def argument(
        self, stem: str, dtype: str, dims: Sequence[Dim], content: Any = None, packed: bool = False
    ) -> Array:
        """Add an argument, which holds garbage where no content is given."""
        shape = tuple(dim.value for dim in dims)
        if content is None:
            content = np.full(shape, GARBAGE, dtype_of(dtype))
        assert content.shape == shape, (content.shape, shape)
        made = Array(self.name(stem), dtype, tuple(dims), content.astype(dtype_of(dtype)))
        if not packed and dims and self.c.chance(self.strided):
            made.strides = strides_of(self.c, shape)
            made.named_strides = self.c.chance(0.7)
        self.arrays.append(made)
        return made

    def scalar(self, stem: str, dtype: str, value: Any) -> str:
        """Add a parameter that is a number."""
        name = self.name(stem)
        self.scalars.append((name, dtype, value))
        return name

    def allocated(self, depth: int, stem: str, dtype: str, dims: Sequence[Dim]) -> Array:
        """Write the allocation of an array."""
        made = Array(self.name(stem), dtype, tuple(dims))
        scope = self.c.weighted([(5, ""), (1, ', scope="local"'), (1, ', scope="global"')])
        self.line(depth, f'{made.name} = T.alloc_buffer({made.shape_text}, "{dtype}"{scope})')
        return made

    def random(self) -> np.random.Generator:
        """Return a generator of numbers."""
        return np.random.default_rng(self.c.integer(0, 1 << 30))

    def content(self, dtype: str, shape: Sequence[int], kind: str = "") -> Any:
        """Draw numbers: ``small`` whole ones, ``any`` of integers or floats, or ``special`` too."""
        random, shape = self.random(), tuple(shape)
        if dtype == "bool":
            return random.random(shape) < 0.5
        if not float_like(dtype):
            info = np.iinfo(dtype)
            if kind == "small":
                low = 0 if info.min == 0 else -7
                return random.integers(low, 7, shape, endpoint=True).astype(dtype)
            made = random.integers(info.min, info.max, shape, dtype, endpoint=True)
            return np.asarray(made)
        if kind == "small":
            return random.integers(-7, 7, shape, endpoint=True).astype(dtype_of(dtype))
        made = (random.standard_normal(shape) * 4).astype(dtype_of(dtype))
        if kind == "special":
            odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 0.5, 1.5, 300.0])
            with np.errstate(all="ignore"):
                odd = odd.astype(dtype_of(dtype))
            made = np.where(random.random(shape) < 0.3, random.choice(odd, shape), made)
        return made

    # -- lines -----------------------------------------------------------------------------------
    def line(self, depth: int, text: str) -> None:
        """Add a line to the body."""
        self.lines.append("    " * (depth + 2) + text)

    def loop(self, depth: int, var: str, extent: object, kinds: Sequence[str] = ()) -> int:
        """Open a loop; return the depth within."""
        how = self.c.pick(kinds or ("range", "range", "T.serial"))
        text = extent.text if isinstance(extent, Dim) else str(extent)
        self.line(depth, f"for {var} in {how}({text}):")
        return depth + 1

    def loops(self, depth: int, spans: Sequence[tuple[str, Dim]]) -> int:
        """Open loops, as a grid or one by one; return the depth within."""
        if len(spans) > 1 and self.c.chance(0.5):
            names = ", ".join(var for var, _ in spans)
            extents = ", ".join(dim.text for _, dim in spans)
            self.line(depth, f"for {names} in T.grid({extents}):")
            return depth + 1
        for var, dim in spans:
            depth = self.loop(depth, var, dim)
        return depth

    def block(self, depth: int, axes: Sequence[tuple[str, str, Dim, str]]) -> int:
        """Open a block for axes of a name, a kind, an extent and a value; return the depth."""
        self.line(depth, f'with T.block("{self.name("B")}"):')
        plain = all(value.isidentifier() for *_, value in axes)
        if plain and len(axes) > 1 and self.c.chance(0.6):
            names = ", ".join(name for name, *_ in axes)
            kinds = "".join(kind for _, kind, *_ in axes)
            values = ", ".join(value for *_, value in axes)
            self.line(depth + 1, f'{names} = T.axis.remap("{kinds}", [{values}])')
            return depth + 1
        for name, kind, dim, value in axes:
            what = {"S": "spatial", "R": "reduce"}[kind]
            self.line(depth + 1, f"{name} = T.axis.{what}({dim.text}, {value})")
        return depth + 1

    def body(
        self, form: str, depth: int, spans: Sequence[tuple[str, Dim]]
    ) -> tuple[int, list[str]]:
        """Open a block, where a program is written in blocks; return depth and names within."""
        if form != "block":
            return depth, [var for var, _ in spans]
        axes = [(f"v{var}", "S", dim, var) for var, dim in spans]
        return self.block(depth, axes), [name for name, *_ in axes]

    # -- the whole -------------------------------------------------------------------------------
    def text(self) -> str:
        """Write the module."""
        names = {dim.text for a in self.arrays for dim in a.dims if dim.is_name}
        handles = [f"p{a.name}: T.handle" for a in self.arrays]
        numbers = [f"{name}: T.{dtype}" for name, dtype, _ in self.scalars]
        head = [
            "from loomir.script import ir as I, tir as T",
            "@I.ir_module",
            "class Module:",
            *self.before,
            "    @T.prim_func",
            f"    def main({', '.join([*handles, *numbers])}):",
        ]
        given = {name for name, *_ in self.scalars}
        head += [f"        {name} = T.int64()" for name in sorted(names - given)]
        for a in self.arrays:
            more = ""
            if a.strides:
                steps = [f"s{a.name}_{at}" for at in range(len(a.strides))]
                if a.named_strides:
                    head += [f"        {step} = T.int64()" for step in steps]
                more = f", strides={_tuple(steps if a.named_strides else a.strides)}"
            shape = f'{a.shape_text}, "{a.dtype}"{more}'
            head.append(f"        {a.name} = T.match_buffer(p{a.name}, {shape})")
        return "\n".join([*head, *(self.lines or ["        T.evaluate(0)"])]) + "\n"

    def bind_names(self) -> None:
        """Pass the named sizes that no array has as an extent by themselves."""
        bound = {dim.text for a in self.arrays for dim in a.dims}
        used = set(
            re.findall(r"\w+", " ".join([*self.lines, *(a.shape_text for a in self.arrays)]))
        )
        for dim in self.sizes:
            if dim.text in used - bound:
                self.scalars.append((dim.text, self.c.pick(["int64", "int32"]), dim.value))

    def case(self, family: str, seed: int, ulps: int = 0) -> Case:
        """Read the program, and run its text as Python on copies of the arguments."""
        self.bind_names()
        rewrite = _rewrite.get()
        if rewrite is not None:
            self.lines = rewrite(self.lines)
        text = self.text()
        module = from_source(text)
        assert isinstance(module, IRModule)
        numbers = [value for *_, value in self.scalars]
        after = [a.content.copy() for a in self.arrays]
        run_as_python(text, "main", (*after, *numbers))
        given = [laid(self.c, a.content, a.strides) for a in self.arrays]
        expected = (*after, *[None for _ in numbers])
        return Case(family, seed, module, "main", (*given, *numbers), expected, ulps)
