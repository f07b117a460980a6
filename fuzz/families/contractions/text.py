"""Contractions as programs: blocks, plain loops, scalar sums, tensor expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.choices import Choices
from fuzz.families.contractions.terms import (
    Axis,
    Grid,
    Index,
    Load,
    Term,
    TeWriter,
    TextWriter,
    are_exact,
    dtype_of,
    float_like,
)
from fuzz.families.layouts import laid, strides_of
from loomir import te
from loomir.ir.module import GlobalVar, IRModule
from loomir.script import from_source

__all__ = ["ArrayArgument", "Unit", "made_of"]

Array = Any
_SCALAR = "s"


@dataclass(eq=False)
class ArrayArgument:
    """An array: by which indices it is accessed, and how it lies in memory."""

    name: str
    dtype: str
    indices: tuple[Index, ...]
    shape: tuple[int, ...]
    beyond: int = 0
    """By how much each axis is longer than it need be."""
    layout: str = ""
    """How elements lie: packed, or ``strided``."""
    fixed: set[int] = field(default_factory=set[int])
    """The axes whose extent is a number in any case."""
    out: bool = False
    read: bool = False
    inner: bool = False
    """Whether it is allocated by the program."""
    strides: tuple[int, ...] = ()

    def extents(self) -> list[str]:
        """Write the shape; a name of its own for what is no simple formula of sizes."""
        made: list[str] = []
        for at, (index, size) in enumerate(zip(self.indices, self.shape, strict=True)):
            plain = index.plain
            named = [f for _, f in index.terms if isinstance(f, Axis)]
            if at in self.fixed or not any(
                a.symbolic for a in (*(x for x, _ in index.terms), *named)
            ):
                made.append(str(size))
            elif plain is not None:
                made.append(f"{plain.extent} + {self.beyond}" if self.beyond else plain.extent)
            else:
                made.append(f"h{self.name}{at}")
        return made

    def own_names(self) -> list[str]:
        """List the names of extents that only this array has."""
        return [text for text in self.extents() if text.startswith("h")]

    def lay(self, c: Choices) -> None:
        """Draw the strides of an array that is not packed."""
        self.strides = strides_of(c, self.shape)

    def array(self, c: Choices, content: Array) -> Array:
        """Put a content into an array as it lies."""
        return laid(c, content, self.strides)


@dataclass(eq=False)
class Unit:
    """A sum of products, and what follows it."""

    outer: list[Axis]
    reduced: list[Axis]
    term: Term
    given: ArrayArgument
    target: Load
    start: Term | None
    init_place: str
    """Where sums start: in an ``init``, in loops ``before`` them, or ``none``."""
    after: tuple[Load, Term] | None = None
    after_axes: list[Axis] = field(default_factory=list[Axis])
    inner: bool = False

    @property
    def last(self) -> Load:
        """Return the result."""
        return self.after[0] if self.after is not None else self.target

    @property
    def idle(self) -> bool:
        """Whether there is nothing to sum, so that an ``init`` does not run either."""
        return self.init_place == "init" and any(axis.size == 0 for axis in self.reduced)

    def run(self, arrays: dict[str, Array], *, starts: bool) -> bool:
        """Compute the results; say whether all sums are exact. ``starts``: idle sums too."""
        grid = Grid([*self.outer, *self.reduced], arrays)
        terms = np.broadcast_to(self.term.value(grid), grid.shape)
        dtype = self.target.dtype
        wide = "float64" if float_like(dtype) else "int64"
        axes = tuple(range(len(self.outer), len(grid.shape)))
        sums: Array = terms.astype(wide).sum(axis=axes)
        exact, outer = grid.exact, Grid(self.outer, arrays)
        place = tuple(np.broadcast_to(i.value(outer), outer.shape) for i in self.target.indices)
        result = arrays[self.target.name]
        first = self.start.value(outer) if self.start is not None else result[place]
        if float_like(dtype) and terms.size:
            given = (terms.astype(wide), first.astype(wide))
            most = abs(given[0]).sum(axis=axes) + abs(given[1])
            exact &= are_exact(dtype, np.concatenate([part.ravel() for part in given]), most)
        with np.errstate(all="ignore"):
            total = (first.astype(wide) + sums).astype(dtype_of(dtype))
        if starts or not self.idle:
            result[place] = np.broadcast_to(total, outer.shape)
        if self.after is not None:
            to, value = self.after
            place = tuple(np.broadcast_to(i.value(outer), outer.shape) for i in to.indices)
            arrays[to.name][place] = np.broadcast_to(value.value(outer), outer.shape)
        return exact


def made_of(
    c: Choices,
    form: str,
    units: Sequence[Unit],
    given: Sequence[ArrayArgument],
    axes: Sequence[Axis],
) -> IRModule:
    """Write a program."""
    if form == "te":
        return _tensor_expressions(units, given, axes)
    text = _Text(c, form, units, given).text()
    module = from_source(text)
    assert isinstance(module, IRModule)
    return module


# -- tensor expressions ------------------------------------------------------------------------
def _tensor_expressions(
    units: Sequence[Unit], given: Sequence[ArrayArgument], axes: Sequence[Axis]
) -> IRModule:
    sizes = {axis.size_name: te.var(axis.size_name, "int64") for axis in axes if axis.symbolic}
    made: dict[str, Any] = {}
    for one in given:
        if not one.out:
            shape: list[Any] = []
            for text in one.extents():
                name, _, more = text.partition(" + ")
                size: Any = int(name) if name.isdigit() else sizes.get(name)
                if size is None:
                    size = sizes[name] = te.var(name, "int64")
                shape.append(size + int(more) if more else size)
            made[one.name] = te.placeholder(tuple(shape), one.dtype, name=one.name)

    def writer(table: dict[Axis, Any]) -> TeWriter:
        return TeWriter(table, sizes, made)

    def extent(axis: Axis) -> Any:
        return sizes[axis.size_name] if axis.symbolic else axis.size

    def computed(name: str, axes: Sequence[Axis], value: Callable[[dict[Axis, Any]], Any]) -> None:
        made[name] = te.compute(
            tuple(extent(axis) for axis in axes),
            lambda *at: value(dict(zip(axes, at, strict=True))),
            name=name,
        )

    for unit in units:
        reduced = {axis: te.reduce_axis((0, extent(axis)), name=axis.name) for axis in unit.reduced}

        def total(
            at: dict[Axis, Any], unit: Unit = unit, reduced: dict[Axis, Any] = reduced
        ) -> Any:
            table = {**at, **{axis: getattr(k, "var", k) for axis, k in reduced.items()}}
            value = unit.term.write(writer(table))
            return te.sum(value, axis=list(reduced.values())) if reduced else value

        computed(unit.target.name, unit.outer, total)
        if unit.after is not None:
            to, value = unit.after
            computed(to.name, unit.after_axes, lambda at, value=value: value.write(writer(at)))
    func = te.create_prim_func([made[one.name] for one in given if not one.inner])
    return IRModule({GlobalVar("main"): func})


# -- text --------------------------------------------------------------------------------------
class _Text:
    def __init__(
        self, c: Choices, form: str, units: Sequence[Unit], given: Sequence[ArrayArgument]
    ) -> None:
        self.c, self.form, self.units, self.given = c, form, units, given
        self.lines: list[str] = []
        self.count = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def text(self) -> str:
        """Write the program."""
        passed = [one for one in self.given if not one.inner]
        handles = ", ".join(f"p{one.name}: T.handle" for one in passed)
        self.line(0, "from loomir.script import ir as I, tir as T")
        self.line(0, "@I.ir_module")
        self.line(0, "class Module:")
        self.line(1, "@T.prim_func")
        self.line(1, f"def main({handles}):")
        every = {a.size_name: a for u in self.units for a in (*u.outer, *u.reduced)}
        names = {name for name, axis in every.items() if axis.symbolic}
        for name in sorted(names):
            self.line(2, f"{name} = T.int64()")
        for one in self.given:
            self.buffer(one)
        for unit in self.units:
            self.unit(unit)
        return "\n".join(self.lines) + "\n"

    def buffer(self, one: ArrayArgument) -> None:
        extents = one.extents()
        shape = ", ".join(extents) + ("," if len(extents) == 1 else "")
        if one.inner:
            real = [e if not e.startswith("h") else str(n) for e, n in zip(extents, one.shape)]
            shape = ", ".join(real) + ("," if len(real) == 1 else "")
            self.line(2, f'{one.name} = T.alloc_buffer(({shape}), "{one.dtype}")')
            return
        for name in one.own_names():
            self.line(2, f"{name} = T.int64()")
        more = ""
        if one.layout == "strided":
            one.lay(self.c)
            numbers = [str(s) for s in one.strides]
            if self.c.chance(0.7):
                numbers = [f"s{one.name}{at}" for at in range(len(numbers))]
                for name in numbers:
                    self.line(2, f"{name} = T.int64()")
            more = f", strides=({', '.join(numbers)}{',' if len(numbers) == 1 else ''})"
            if not numbers:
                more = ""
        self.line(2, f'{one.name} = T.match_buffer(p{one.name}, ({shape}), "{one.dtype}"{more})')

    # -- forms -----------------------------------------------------------------------------------
    def unit(self, unit: Unit) -> None:
        """Write a contraction in its form."""
        if self.form == "block":
            self.blocks(unit)
        elif self.form == "loops":
            self.loops(unit)
        else:
            self.scalar(unit)
            return
        if unit.after is not None:
            self.stored(*unit.after, unit.after_axes)

    def stored(self, to: Load, value: Term, axes: Sequence[Axis]) -> None:
        """Write a nest that stores values one by one."""
        block = self.form == "block"
        w = TextWriter((lambda a: f"v{a.name}") if block else (lambda a: a.name))
        depth = self.nest(axes)
        if block:
            depth = self.block(depth, f"B{self.next()}", axes)
        self.line(depth, f"{to.write(w)} = {value.write(w)}")

    def next(self) -> int:
        self.count += 1
        return self.count

    def nest(self, axes: Sequence[Axis], depth: int = 2) -> int:
        """Open loops; return the depth within."""
        c = self.c
        if len(axes) > 1 and c.chance(0.6):
            names = ", ".join(axis.name for axis in axes)
            self.line(depth, f"for {names} in T.grid({', '.join(a.extent for a in axes)}):")
            return depth + 1
        for axis in axes:
            how = c.pick(["range", "T.serial"])
            self.line(depth, f"for {axis.name} in {how}({axis.extent}):")
            depth += 1
        return depth

    def shuffled(self, axes: Sequence[Axis]) -> list[Axis]:
        left, made = list(axes), list[Axis]()
        keep = self.c.chance(0.6)
        while left:
            made.append(left.pop(0 if keep else self.c.integer(0, len(left) - 1)))
        return made

    def block(self, depth: int, name: str, axes: Sequence[Axis]) -> int:
        """Open a block for axes; return the depth within."""
        self.line(depth, f'with T.block("{name}"):')
        if len(axes) > 1 and self.c.chance(0.6):
            names = ", ".join(f"v{axis.name}" for axis in axes)
            kinds = "".join("R" if axis.reduced else "S" for axis in axes)
            loops = ", ".join(axis.name for axis in axes)
            self.line(depth + 1, f'{names} = T.axis.remap("{kinds}", [{loops}])')
        else:
            for axis in axes:
                kind = "reduce" if axis.reduced else "spatial"
                self.line(depth + 1, f"v{axis.name} = T.axis.{kind}({axis.extent}, {axis.name})")
        return depth + 1

    def added(self, target: str, term: str) -> str:
        """Write how a term joins a sum."""
        forms = [
            f"{target} = {target} + {term}",
            f"{target} += {term}",
            f"{target} = {term} + {target}",
        ]
        return self.c.weighted([(5, forms[0]), (4, forms[1]), (1, forms[2])])

    def blocks(self, unit: Unit) -> None:
        """Write a block with its iterators."""
        w = TextWriter(lambda a: f"v{a.name}")
        if unit.init_place == "before":
            assert unit.start is not None
            self.stored(unit.target, unit.start, unit.outer)
        axes = [*unit.outer, *unit.reduced]
        depth = self.nest(self.shuffled(axes))
        depth = self.block(depth, f"C{self.next()}", self.shuffled(axes))
        target = unit.target.write(w)
        if unit.init_place == "init":
            assert unit.start is not None
            self.line(depth, "with T.init():")
            self.line(depth + 1, f"{target} = {unit.start.write(w)}")
        self.line(depth, self.added(target, unit.term.write(w)))

    def loops(self, unit: Unit) -> None:
        """Write plain loops."""
        w = TextWriter(lambda a: a.name)
        target = unit.target.write(w)
        if unit.init_place == "before":
            assert unit.start is not None
            self.stored(unit.target, unit.start, unit.outer)
        if unit.init_place == "init":
            assert unit.start is not None
            depth = self.nest(self.shuffled(unit.outer))
            self.line(depth, f"{target} = {unit.start.write(w)}")
            depth = self.nest(self.shuffled(unit.reduced), depth)
        else:
            depth = self.nest(self.shuffled([*unit.outer, *unit.reduced]))
        self.line(depth, self.added(target, unit.term.write(w)))

    def scalar(self, unit: Unit) -> None:
        """Write loops that sum up in a scalar."""
        c, dtype = self.c, unit.target.dtype
        w = TextWriter(lambda a: a.name)
        depth = self.nest(self.shuffled(unit.outer))
        start = unit.start.write(w) if unit.start is not None else unit.target.write(w)
        name = f"{_SCALAR}{self.next()}"
        accumulator = name
        if c.chance(0.5):
            self.line(depth, f"{name} = {start}")
        else:
            accumulator = f"{name}[0]"
            self.line(depth, f'{name} = T.alloc_buffer((1,), "{dtype}", scope="local")')
            self.line(depth, f"{accumulator} = {start}")
        inner = self.nest(self.shuffled(unit.reduced), depth)
        self.line(inner, self.added(accumulator, unit.term.write(w)))
        self.line(depth, f"{unit.target.write(w)} = {accumulator}")
        if unit.after is not None:
            to, value = unit.after
            self.line(depth, f"{to.write(w)} = {value.write(w)}")
