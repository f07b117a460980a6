"""Stencils with a line buffer: load each row of the image once for all windows over it.

A band of rows is copied with its halo and padding, so that any vector of it can be loaded; in the
copy, elements at a distance of the stride are contiguous. For each step along a row of the window,
a tile of results visits all rows that its windows reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from loomir.arith.fold import add, fold_expr, imm64, int64, mul, product, sub
from loomir.arith.linear_form import LinearForm
from loomir.autoschedule.builders.evaluate import time_of, unravel_index, value_at, widest
from loomir.autoschedule.builders.loops import allocate, loop, scratch, vectorize
from loomir.autoschedule.builders.operand_access import let
from loomir.autoschedule.builders.thread_partition import parallelize
from loomir.autoschedule.ir.stage import Axis, Stage
from loomir.autoschedule.rewrite.affine_guards import affine_form, guard_form
from loomir.autoschedule.rules.convolution.image_panels import parts_of
from loomir.autoschedule.rules.matmul.operands import bind_values
from loomir.ir.visit import by_class, rewrite
from loomir.loops.conditions import conjunction, conjuncts
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE
from loomir.tir.expr import (
    GE,
    LE,
    LT,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Min,
    Mod,
    PrimExpr,
    Sub,
    Var,
    const,
)
from loomir.tir.stmt import TRUE, BufferStore, IfThenElse, Stmt, seq

__all__ = ["AxisMotion", "SlidingWindow", "read_sliding", "slide"]

_FEWEST: Final = 20
"""Terms of a window from which a line buffer pays.

For 240 channels of 28 x 28, windows of 3 x 3 take 0.9 to 1.1 of the time, those of 5 x 5 a third
(on a Xeon, Emerald Rapids).
"""
_FEWEST_NARROW: Final = 9
"""The same for rows that fit a vector: 512 channels of 14 x 14 take 0.7 for 3 x 3 (on a Xeon)."""
_TALLEST: Final = 11
"""Rows of a window whose products are unrolled, at most."""
_ROWS: Final = 8
"""The most rows of a tile."""

_Place = Mapping[Var, PrimExpr]


@dataclass(frozen=True, slots=True)
class AxisMotion:
    """How reads move along an axis: by ``stride`` for a result, by ``dilation`` for a step."""

    axis: Axis
    step: Axis | None
    stride: int
    dilation: int
    first: int

    @property
    def steps(self) -> int:
        """The steps of a window."""
        return 1 if self.step is None else self.step.size or 1

    @property
    def reach(self) -> int:
        """The places from the first of a window to its last."""
        return (self.steps - 1) * self.dilation


@dataclass(frozen=True, slots=True, eq=False)
class SlidingWindow:
    """A stage whose ``read`` is copied: its value at row ``y`` and column ``x`` of an image.

    ``whole`` is the value of the stage, and ``copied`` stands in it for what was copied.
    """

    stage: Stage
    whole: PrimExpr
    copied: Var
    down: AxisMotion
    across: AxisMotion
    y: Var
    x: Var
    read: PrimExpr
    other: PrimExpr | None
    """What is read where a condition does not hold, if there is one."""
    rows: tuple[PrimExpr, ...]
    """The conditions on rows."""
    low: int
    high: int
    """From where to where along ``x`` nothing is padded."""
    tile: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """The elements of a row of a tile."""
        return self.vectors * self.lanes

    @property
    def pieces(self) -> list[tuple[int, int, int]]:
        """List the pieces of a row of results: first element, vectors, and elements to store."""
        size, width = self.across.axis.size or 0, self.width
        made = [(i * width, self.vectors, width) for i in range(size // width)]
        rest = size % width
        if rest:
            made.append((size - rest, -(-rest // self.lanes), rest))
        return made

    @property
    def run(self) -> int:
        """How many elements at a distance of the stride are contiguous in the copy."""
        first, vectors, _ = self.pieces[-1]
        return first + vectors * self.lanes + self.across.reach // self.across.stride

    @property
    def pitch(self) -> int:
        """The elements of a row of the copy."""
        return self.run * min(self.across.stride, self.across.reach + 1)


# -- reading -----------------------------------------------------------------------------------
def read_sliding(
    stage: Stage, value: PrimExpr, down: Axis, across: Axis, target: Target
) -> SlidingWindow | None:
    """Match windows of one image; None if anything else moves with them."""
    terms = 1
    for axis in stage.reduced:
        terms *= axis.size or 0
    if terms < _FEWEST_NARROW or across.size is None:
        return None
    value = value_at(value, {axis.var: imm64(0) for axis in stage.reduced if axis.size == 1})
    axes, found = (*stage.axes, *stage.reduced), _find_moving(value, across)
    if found is None or Let in by_class(value):
        return None
    conditions, inner, other = _parts(found)
    steps = {axis.var: axis for axis in stage.reduced if axis.size != 1}
    motions = _read_motions(inner, axes, (down, across), steps)
    if motions is None or steps.keys() - {
        motion.step.var for motion in motions if motion.step is not None
    }:
        return None
    if not _keeps_order(stage, motions) or motions[0].steps > _TALLEST:
        return None
    y, x = Var("y", down.var.dtype), Var("x", across.var.dtype)
    moved = _ReadRewriter(axes, motions, (y, x), {down.var, across.var, *steps})
    read = moved.value(inner)
    tests = None if read is None else moved.tests(conditions, read)
    if read is None or tests is None or (other is not None and not moved.is_fixed(other)):
        return None
    rows, low, high = tests
    copied = Var("copied", found.dtype)
    whole = rewrite(value, {type(found): lambda e: copied if e is found else e})
    lanes = target.lanes(max(8, widest(value, stage.buffer.dtype)))
    narrow = across.size <= lanes and motions[1].stride == 1
    if terms < (_FEWEST_NARROW if narrow else _FEWEST):
        return None
    while lanes > 2 and lanes // 2 >= across.size:
        lanes //= 2
    # Lanes beyond the last result are computed too: they may only read the copy.
    others = (whole,) if stage.init is None else (whole, stage.init)
    if across.size % lanes and any(_is_computed_within(expr, across.var) for expr in others):
        return None
    tile, vectors = _tile(motions, lanes, target.registers)
    return SlidingWindow(
        stage, whole, copied, *motions, y, x, read, other, rows, low, high, tile, vectors, lanes
    )


def _find_moving(value: PrimExpr, across: Axis) -> Call | BufferLoad | None:
    """Find the read that moves: a padded one, or the only one that is contiguous along vectors."""
    calls: list[Call] = by_class(value).get(Call, [])
    choices = [call for call in calls if call.op is IF_THEN_ELSE]
    if choices:
        return choices[0] if len(choices) == 1 else None
    loads: list[BufferLoad] = by_class(value).get(BufferLoad, [])
    moving = [
        load
        for load in loads
        if any(across.var in by_class(index).get(Var, ()) for index in load.indices)
    ]
    return moving[0] if len(moving) == 1 else None


def _is_computed_within(expr: PrimExpr, var: Var) -> bool:
    """Whether a value of a variable beyond its range may be read out of bounds, or trap."""
    groups = by_class(expr)
    return any(
        var in by_class(node).get(Var, ())
        for kind in (BufferLoad, Div, FloorDiv, FloorMod, Mod)
        for node in groups.get(kind, ())
    )


def _parts(found: Call | BufferLoad) -> tuple[list[PrimExpr], PrimExpr, PrimExpr | None]:
    """Return the conditions of a read, the value read, and the value of the padding."""
    if isinstance(found, BufferLoad):
        return [], found, None
    return conjuncts(found.args[0]), found.args[1], found.args[2]


def _read_motions(
    read: PrimExpr,
    axes: tuple[Axis, ...],
    places: tuple[Axis, Axis],
    steps: Mapping[Var, Axis],
) -> tuple[AxisMotion, AxisMotion] | None:
    """Find how reads move along two axes; None if they do not all move alike."""
    made: list[AxisMotion] = []
    loads: list[BufferLoad] = by_class(read).get(BufferLoad, [])
    forms = [affine_form(index, axes) for load in loads for index in load.indices]
    for axis in places:
        mine = [form for form in forms if form is not None and axis.var in form.terms]
        if not mine or any(form.terms != mine[0].terms for form in mine):
            return None
        terms, rest = mine[0].terms, mine[0].rest
        others = [var for var in terms if var is not axis.var]
        step = steps.get(others[0]) if others else None
        if len(others) > 1 or (others and step is None) or not isinstance(rest, IntImm):
            return None
        dilation = 1 if step is None else terms[step.var]
        if terms[axis.var] < 1 or dilation < 1:
            return None
        made.append(AxisMotion(axis, step, terms[axis.var], dilation, rest.value))
    down, across = made
    same = down.step is not None and across.step is not None and down.step.var is across.step.var
    return None if same else (down, across)


def _keeps_order(stage: Stage, motions: tuple[AxisMotion, AxisMotion]) -> bool:
    """Whether results stay the same if steps along rows are the outer ones."""
    if stage.free_order:
        return True
    down, across = (motion.step for motion in motions)
    order = [axis.var for axis in stage.reduced]
    return down is None or across is None or order.index(across.var) < order.index(down.var)


@dataclass(frozen=True, slots=True)
class _ReadRewriter:
    """Rewrites a read as a function of its position in the image, ``here``."""

    axes: tuple[Axis, ...]
    motions: tuple[AxisMotion, AxisMotion]
    here: tuple[Var, Var]
    moving: set[Var]

    def is_fixed(self, expr: PrimExpr) -> bool:
        """Whether an expression does not depend on the position."""
        return self.moving.isdisjoint(by_class(expr).get(Var, ()))

    def motion(self, form: LinearForm[Var]) -> tuple[int, int] | None:
        """Return the coordinate that a form contains, and its factor."""
        for k, motion in enumerate(self.motions):
            times, rest = divmod(form.terms.get(motion.axis.var, 0), motion.stride)
            wanted = {motion.axis.var: motion.stride * times}
            if motion.step is not None:
                wanted[motion.step.var] = motion.dilation * times
            if times and not rest and form.terms == wanted:
                return k, times
        return None

    def index(self, index: PrimExpr) -> PrimExpr:
        """Write an index as a function of the position."""
        form = affine_form(index, self.axes)
        found = None if form is None else self.motion(form)
        if form is None or found is None:
            return index
        k, times = found
        less = imm64(times * self.motions[k].first)
        return add(mul(self.here[k], imm64(times)), sub(form.rest, less))

    def value(self, expr: PrimExpr) -> PrimExpr | None:
        """Write a value as a function of the position; None if it depends on more."""

        def load(e: BufferLoad) -> PrimExpr:
            return BufferLoad(e.buffer, tuple(self.index(index) for index in e.indices))

        made = rewrite(expr, {BufferLoad: load})
        return made if self.is_fixed(made) else None

    def tests(
        self, conditions: list[PrimExpr], read: PrimExpr
    ) -> tuple[tuple[PrimExpr, ...], int, int] | None:
        """Return the conditions on rows, and the range in which the others hold along a row.

        Both ask too whether the place is in the buffers: the program may read some places only.
        """
        rows: list[PrimExpr] = []
        low, high = self.motions[1].first, self._end()
        wanted = [(guard_form(part, self.axes), part) for part in conditions]
        for form, part in wanted:
            found = None if form is None else self.motion(form)
            if form is None or found is None:
                if not self.is_fixed(part):
                    return None
                rows.append(part)
                continue
            k, times = found
            rest = sub(form.rest, imm64(times * self.motions[k].first))
            if k == 0:
                rows.append(GE(add(mul(self.here[0], imm64(times)), rest), imm64(0)))
            elif not isinstance(rest, IntImm):
                return None
            elif times > 0:
                low = max(low, -(rest.value // times))
            else:
                high = min(high, rest.value // -times + 1)
        for load in by_class(read).get(BufferLoad, []):
            for index, size in zip(load.indices, load.buffer.shape, strict=True):
                form = affine_form(index, tuple(Axis(var, imm64(0)) for var in self.here))
                if form is None or not form.terms:
                    continue
                (var,) = form.terms  # that of the axis with which the index moves, once
                if var is self.here[0]:
                    rows += [LE(imm64(0), index), LT(index, int64(size))]
                elif not isinstance(form.rest, IntImm) or not isinstance(size, IntImm):
                    return None
                else:
                    low = max(low, -form.rest.value)
                    high = min(high, size.value - form.rest.value)
        return tuple(rows), low, max(low, high)

    def _end(self) -> int:
        across = self.motions[1]
        last = ((across.axis.size or 1) - 1) * across.stride + across.reach
        return across.first + last + 1


def _tile(motions: tuple[AxisMotion, AxisMotion], lanes: int, registers: int) -> tuple[int, int]:
    """Choose the rows and vectors of a tile, whose accumulators and operands fit in registers."""
    down, across = motions
    height, width, steps = down.axis.size, across.axis.size or 1, down.steps

    def worth(tile: int, vectors: int) -> float:
        useful = 1.0 if not height else height / (-(-height // tile) * tile)
        reach = (tile - 1) * down.stride + down.reach + 1
        loads = min(reach, tile * steps) * vectors + steps
        return useful / (1 + loads / (tile * steps * vectors))

    shapes = [
        (tile, vectors)
        for vectors in ((1, 2) if width > lanes else (1,))
        for tile in range(1, _ROWS + 1)
        if tile * vectors + steps + vectors + 1 <= registers
    ]
    return max(shapes, key=lambda shape: worth(*shape), default=(1, 1))


# -- loops -------------------------------------------------------------------------------------
Start = Callable[[_Place], PrimExpr]
Join = Callable[[PrimExpr, PrimExpr], PrimExpr]
Finish = Callable[[_Place, PrimExpr], Stmt]


def slide(
    found: SlidingWindow, outer: tuple[Axis, ...], target: Target, join: Join, finish: Finish
) -> tuple[Stmt, tuple[str, ...]]:
    """Write the loops: ``join`` adds a term to an accumulator, ``finish`` stores a result."""
    down, across = found.down, found.across
    band = _band(found, target)
    lines = (band - 1) * down.stride + down.reach + 1
    copy = scratch("rows", (lines, found.pitch), found.read.dtype)
    bands = fold_expr(FloorDiv(add(down.axis.extent, imm64(band - 1)), imm64(band)))
    count = fold_expr(mul(product(axis.extent for axis in outer), bands))

    def item(t: PrimExpr) -> Stmt:
        row = unravel_index(FloorDiv(t, bands), outer)
        first = mul(FloorMod(t, bands), imm64(band))
        return let(
            "first",
            fold_expr(first),
            lambda b: bind_values(list(row.items()), lambda row: inside(row, b)),
        )

    def inside(row: _Place, first: PrimExpr) -> Stmt:
        size = imm64(band)
        if down.axis.size is None or down.axis.size % band:
            size = fold_expr(Min(size, Sub(down.axis.extent, first)))
        return let("size", size, lambda n: seq([fill(row, first, n), tiles(row, first, n)]))

    def fill(row: _Place, first: PrimExpr, size: PrimExpr) -> Stmt:
        lines = add(mul(sub(size, imm64(1)), imm64(down.stride)), imm64(down.reach + 1))
        start = add(mul(first, imm64(down.stride)), imm64(down.first))
        return loop("line", fold_expr(lines), lambda u: _line(found, copy, row, u, add(start, u)))

    def tiles(row: _Place, first: PrimExpr, size: PrimExpr) -> Stmt:
        def tile(d: PrimExpr, rows: int) -> Stmt:
            place = {**row, down.axis.var: add(first, d)}
            line = fold_expr(mul(d, imm64(down.stride)))
            return let("line", line, lambda u: _pieces(found, copy, u, place, rows, join, finish))

        whole = fold_expr(FloorDiv(size, imm64(found.tile)))
        made = [loop("tile", whole, lambda t: tile(mul(t, imm64(found.tile)), found.tile))]
        height = down.axis.size
        rest = 1 if height is None else height % found.tile
        if rest:
            done = fold_expr(mul(whole, imm64(found.tile)))
            left = fold_expr(FloorDiv(sub(size, done), imm64(rest)))
            made.append(loop("rest", left, lambda t: tile(add(done, mul(t, imm64(rest))), rest)))
        return seq(made)

    terms = down.steps * across.steps
    each = terms * time_of(found.stage.value, found.stage.buffer.dtype) / 4
    each *= band * (across.axis.size or 1)
    stmt, how = parallelize(count, each, f"bands of {band} rows", item, private=(copy,))
    sums = found.tile * found.vectors
    tile = (
        f"tile of {found.tile} x {found.width}: {sums} of {target.registers} registers hold results"
    )
    slides = f"windows of {terms} terms slide along {down.axis.var.name_hint}"
    return stmt, (
        f"{tile}, {slides}, vectors lie along {across.axis.var.name_hint}",
        "rows are copied with their padding, and each is loaded once for all windows over it",
        how,
    )


def _band(found: SlidingWindow, target: Target) -> int:
    """Choose the rows of a band: its copy fits a cache, and little of it is copied twice."""
    down, tile = found.down, found.tile
    first, second, _ = target.caches
    line = found.pitch * found.read.dtype.itemsize

    def count_fitting(size: int) -> int:
        return ((size // line - down.reach - 1) // down.stride + 1) // tile * tile

    band = count_fitting(first // 2)
    if band * down.stride < 2 * down.reach:
        band = count_fitting((second or first * 8) // 4)
    band = max(tile, band)
    height = down.axis.size
    if height is not None:
        even = -(-height // -(-height // band))
        band = max(1, min(height, -(-even // tile) * tile))
    return band


def _line(found: SlidingWindow, copy: Buffer, row: _Place, line: PrimExpr, y: PrimExpr) -> Stmt:
    """Copy a row of the image, so that elements at a distance of the stride are contiguous."""
    across, run = found.across, found.run
    blank = const(0, found.read.dtype) if found.other is None else found.other

    def copy_range(phase: int, begin: int, end: int, value: PrimExpr) -> list[Stmt]:
        def copy_vector(first: PrimExpr, size: int) -> Stmt:
            def lane(i: PrimExpr) -> Stmt:
                k = add(first, i)
                x = add(mul(k, imm64(across.stride)), imm64(across.first + phase))
                made = value_at(value, {**row, found.y: y, found.x: x})
                return BufferStore(copy, made, (line, add(k, imm64(phase * run))))

            return lane(imm64(0)) if size == 1 else vectorize("lane", size, lane)

        length, lanes, made = end - begin, found.lanes, list[Stmt]()
        whole = length // lanes
        if whole > 0:
            made.append(
                loop(
                    "v",
                    whole,
                    lambda v: copy_vector(add(imm64(begin), mul(v, imm64(lanes))), lanes),
                )
            )
        done = begin + whole * lanes
        made += [copy_vector(imm64(done + i), n) for i, n in parts_of(end - done, lanes)]
        return made

    def fill(inside: bool) -> Stmt:
        made: list[Stmt] = []
        for phase in range(found.pitch // run):
            low, high = (
                min(run, max(0, -((across.first + phase - x) // across.stride)))
                for x in ((found.low, found.high) if inside else (found.low, found.low))
            )
            made += copy_range(phase, 0, low, blank)
            made += copy_range(phase, low, high, found.read)
            made += copy_range(phase, high, run, blank)
        return seq(made)

    condition = conjunction(value_at(part, {**row, found.y: y}) for part in found.rows)
    return fill(True) if condition is TRUE else IfThenElse(condition, fill(True), fill(False))


def _pieces(
    found: SlidingWindow,
    copy: Buffer,
    line: PrimExpr,
    place: _Place,
    rows: int,
    join: Join,
    finish: Finish,
) -> Stmt:
    """Compute some rows of results, from end to end."""
    across = found.across.axis
    made: list[Stmt] = []

    def piece(first: PrimExpr, vectors: int, size: int) -> Stmt:
        here = {**place, across.var: first}
        return _results(found, copy, line, here, (rows, vectors, size), join, finish)

    *most, last = found.pieces
    if most:
        width = imm64(found.width)
        made.append(
            loop("piece", len(most), lambda p: piece(mul(p, width), found.vectors, found.width))
        )
    made.append(piece(imm64(last[0]), *last[1:]))
    return seq(made)


def _results(
    found: SlidingWindow,
    copy: Buffer,
    line: PrimExpr,
    place: _Place,
    shape: tuple[int, int, int],
    join: Join,
    finish: Finish,
) -> Stmt:
    """Combine a tile, so many vectors wide, and store so many of each row."""
    stage, down, across = found.stage, found.down, found.across
    rows, vectors, size = shape
    width = vectors * found.lanes
    acc = scratch("acc", (rows * width,), stage.buffer.dtype, "local")
    row, column = place[down.axis.var], place[across.axis.var]

    def lane(r: int, x: PrimExpr) -> tuple[_Place, PrimExpr]:
        here = {down.axis.var: add(row, imm64(r)), across.axis.var: add(column, x)}
        return {**place, **here}, add(imm64(r * width), x)

    def start(r: int, x: PrimExpr) -> Stmt:
        assert stage.init is not None
        here, slot = lane(r, x)
        return BufferStore(acc, value_at(stage.init, here), (slot,))

    def end(r: int, x: PrimExpr) -> Stmt:
        here, slot = lane(r, x)
        return finish(here, BufferLoad(acc, (slot,)))

    def step(k: PrimExpr, r: int, j: int, x: PrimExpr) -> Stmt:
        here, slot = lane(r, x)
        steps = {} if across.step is None else {across.step.var: k}
        if down.step is not None:
            steps[down.step.var] = imm64(j)
        moved = mul(k, imm64(across.dilation))
        by = imm64(across.stride)
        start = add(mul(FloorMod(moved, by), imm64(found.run)), FloorDiv(moved, by))
        x = add(fold_expr(start), add(column, x))
        u = add(line, imm64(r * down.stride + j * down.dilation))
        value = value_at(found.whole, {**here, **steps, found.copied: BufferLoad(copy, (u, x))})
        return BufferStore(acc, join(BufferLoad(acc, (slot,)), value), (slot,))

    def lines(k: PrimExpr) -> Stmt:
        made: list[Stmt] = []
        for u in range((rows - 1) * down.stride + down.reach + 1):
            for r in range(rows):
                j, rest = divmod(u - r * down.stride, down.dilation)
                if 0 <= j < down.steps and not rest:
                    made.append(vectorize("lane", width, lambda x, r=r, j=j: step(k, r, j, x)))
        return seq(made)

    begun = [vectorize("lane", width, lambda x, r=r: start(r, x)) for r in range(rows)]
    steps = lines(imm64(0)) if across.step is None else loop("step", across.steps, lines)
    ended: list[Stmt] = []
    for r in range(rows):
        for first, n in parts_of(size, width):
            f = imm64(first)
            if n == 1:
                ended.append(end(r, f))
            else:
                ended.append(vectorize("lane", n, lambda x, r=r, f=f: end(r, add(f, x))))
    return allocate([acc], *begun, steps, *ended)
