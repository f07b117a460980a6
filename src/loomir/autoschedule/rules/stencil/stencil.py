"""Stencils: reduce a small window of neighbours, as depthwise convolution and pooling do.

A register tile holds accumulators for some indices of the last axis but one, times vectors along
the last axis. Terms are unrolled, so that an element that neighbouring windows share is loaded
once. If reads are padded, the border is peeled into loops of its own, and the interior needs no
guards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loomir.arith.fold import FOLDS, add, fold_expr, imm64, int64, mul, product, sub
from loomir.autoschedule.builders.evaluate import (
    number,
    storage_order,
    time_of,
    unravel_index,
    value_at,
    widest,
)
from loomir.autoschedule.builders.loops import INDEX, allocate, loop, scratch, unroll, vectorize
from loomir.autoschedule.builders.operand_access import let
from loomir.autoschedule.builders.reduction_ops import accumulate
from loomir.autoschedule.builders.thread_partition import parallelize, task_size
from loomir.autoschedule.ir.decision import decide
from loomir.autoschedule.ir.plan import Plan
from loomir.autoschedule.ir.stage import Axis, Combine, Stage
from loomir.autoschedule.rewrite.affine_guards import (
    PaddingGuards,
    affine_form,
    read_padding_guards,
)
from loomir.autoschedule.rules.elementwise.elementwise import is_heavy, plan_elementwise
from loomir.autoschedule.rules.elementwise.transpose import plan_transpose
from loomir.autoschedule.rules.matmul.operands import bind_values
from loomir.autoschedule.rules.matmul.recognise import find_epilogue, has_overlap
from loomir.autoschedule.rules.stencil.line_buffer import read_sliding, slide
from loomir.ir.visit import by_class, rewrite
from loomir.loops.conditions import conjunction
from loomir.target import Target
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import IF_THEN_ELSE, call_builtin
from loomir.tir.expr import (
    LE,
    LT,
    Call,
    Cast,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Var,
)
from loomir.tir.stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq

__all__ = ["plan_windows"]

_MOST: Final = 144
"""Terms of a window."""
_UNROLLED: Final = 16
"""Terms that are unrolled, at most."""
_COPIED: Final = 1 << 16
"""Elements of a buffer that may be copied before it is read."""
_STRIDE: Final = 4
"""Greatest stride of windows along vectors."""

_Place = Mapping[Var, PrimExpr]


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """A matched stage: vectors run along the axis ``across``, tiles along ``down``."""

    stage: Stage
    fused: bool
    """Whether products are added without a rounding between."""
    epilogue: tuple[Stage, ...]
    inner: frozenset[Buffer]
    outer: tuple[Axis, ...]
    down: Axis
    across: Axis
    padding: PaddingGuards
    rows: int
    vectors: int
    lanes: int
    copies: tuple[Stage, ...]
    """Copies of small buffers, to lie along vectors too."""

    @property
    def width(self) -> int:
        """The elements of a row of a tile."""
        return self.vectors * self.lanes

    def inside(self, axis: Axis) -> tuple[PrimExpr, PrimExpr]:
        """Return the range of an axis in which no read is padded."""
        return self.padding.inside.get(axis.var, (imm64(0), axis.extent))


def plan_windows(stages: Sequence[Stage], inner: frozenset[Buffer], target: Target) -> Plan | None:
    """Plan a stage that combines windows, and the element-wise stages after it; None for others."""
    found = _read(stages, inner, target)
    if found is None or _has_heavy_epilogue(found, target):
        return None
    stage, down = found.stage, found.down
    copied = None
    if not found.copies:
        copied = read_sliding(stage, found.padding.value, down, found.across, target)
    if copied is not None:
        stmt, how = slide(
            copied,
            found.outer,
            target,
            lambda acc, term: _add_term(found, acc, term),
            lambda place, total: _finish(found, place, total),
        )
        fused = ("products are added without a rounding between",) if found.fused else ()
        return Plan("windows", stmt, (*how[:-1], *fused, how[-1]), _flops(found))
    if found.lanes < 2:
        return None
    terms = _terms(stage)
    each = terms * time_of(stage.value, stage.buffer.dtype) / 4
    size = 1 if found.across.size is None else found.across.size
    low, high = found.inside(down)
    block = -(-task_size(each * size) // found.rows) * found.rows
    middle = number(sub(high, low))
    if middle is not None:
        block = max(1, min(block, middle))
    cut = imm64(block)
    blocks = fold_expr(Max(imm64(1), FloorDiv(add(sub(high, low), imm64(block - 1)), cut)))
    count = fold_expr(mul(product(axis.extent for axis in found.outer), blocks))

    def item(t: PrimExpr) -> Stmt:
        row = unravel_index(FloorDiv(t, blocks), found.outer)
        return let(
            "b", t % blocks, lambda b: bind_values(list(row.items()), lambda row: band(row, b))
        )

    def band(row: _Place, b: PrimExpr) -> Stmt:
        start = fold_expr(add(low, mul(b, cut)))
        end = fold_expr(Min(high, add(start, cut)))
        tests = [
            test
            for axis in found.outer
            if axis.var in found.padding.inside
            for test in _list_range_tests(row[axis.var], *found.inside(axis))
        ]
        border = {axis.var for axis in found.outer if axis.var in found.padding.inside}
        names = {axis.var for axis in (*found.outer, found.down, found.across)}
        fast = _band(found, row, frozenset(names), start, end, b, blocks)
        if not tests:
            return fast
        slow = _band(found, row, frozenset(names - border), start, end, b, blocks)
        return IfThenElse(conjunction(tests), fast, slow)

    stmt, how = parallelize(count, each * size * block, f"bands of {block} rows", item)
    if found.copies:
        made = [plan_transpose(c, target) or plan_elementwise(c, target) for c in found.copies]
        copied = [plan.stmt for plan in made if plan is not None]
        stmt = allocate((c.buffer for c in found.copies), *copied, stmt)
    return Plan("windows", stmt, (*_choices(found, target), how), _flops(found))


def _has_heavy_epilogue(found: _Window, target: Target) -> bool:
    """Whether math functions behind the windows are better a stage of their own.

    They need the registers that hold sums, and take as long for a part of a vector; a stage of its
    own runs along all rows as if they were one. SiLU of rows of 112 then took 0.7 to 0.9 of the
    time, of rows of 14 a third, of rows of 7 a ninth (on an AMD Zen 4, single core). Rows shorter
    than a vector pay for memory that no cache holds, others do not.
    """
    if not any(is_heavy(stage.value) for stage in found.epilogue):
        return False
    dtype, length = found.stage.buffer.dtype, found.across.size
    if length is not None and length < target.lanes(max(8, dtype.bits)):
        return True
    size = number(product(axis.extent for axis in found.stage.axes))
    return size is not None and 2 * size * dtype.itemsize <= max(target.caches)


def _terms(stage: Stage) -> int:
    terms = 1
    for axis in stage.reduced:
        terms *= axis.size or 1
    return terms


def _flops(found: _Window) -> int | None:
    sizes = [axis.size for axis in found.stage.axes]
    total = _terms(found.stage) * (2 if isinstance(found.stage.value, Mul) else 1)
    for size in sizes:
        if size is None:
            return None
        total *= size
    return total


def _choices(found: _Window, target: Target) -> list[str]:
    tile = f"tile of {found.rows} x {found.width}"
    sums = found.rows * found.vectors
    lies = f"vectors lie along {found.across.var.name_hint}"
    slides = f"windows of {_terms(found.stage)} terms slide along {found.down.var.name_hint}"
    made = [f"{tile}: {sums} of {target.registers} registers hold results, {slides}, {lies}"]
    if found.padding.inside:
        names = ", ".join(axis.name_hint for axis in found.padding.inside)
        made.append(f"padding is read where it is: borders of {names} have loops of their own")
    made += [f"{copy.name} is copied to lie along vectors too" for copy in found.copies]
    if found.fused:
        made.append("products are added without a rounding between")
    return made


def _list_range_tests(x: PrimExpr, low: PrimExpr, high: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    return LE(low, x), LT(x, high)


# -- reading -----------------------------------------------------------------------------------
def _read(stages: Sequence[Stage], inner: frozenset[Buffer], target: Target) -> _Window | None:
    first = stages[0]
    if first.combine is Combine.NONE or not first.reduced or not 1 < _terms(first) <= _MOST:
        return None
    if any(axis.size is None or axis.size == 0 for axis in first.reduced):
        return None
    if any(axis.size == 0 for axis in first.axes) or has_overlap(stages):
        return None
    if any(stage.buffer.dtype.lanes != 1 for stage in stages):
        return None
    epilogue = find_epilogue(stages)
    placed = [axis for axis in storage_order(first) if axis.size != 1]
    if epilogue is None or len(placed) < 2 or first.init is None:
        return None
    across, down = placed[-1], placed[-2]
    outer = tuple(axis for axis in first.axes if axis is not across and axis is not down)
    value, copies = _copy_small(_plain(first), first, across)
    if not _slides(first, value, across):
        return None
    padding = read_padding_guards(value, first.axes, first.reduced)
    if padding is None:
        return None
    lanes = target.lanes(max(8, widest(value, first.buffer.dtype)))
    low, high = padding.inside.get(across.var, (imm64(0), across.extent))
    length = number(sub(high, low))
    while length is not None and lanes > max(1, length):
        lanes //= 2
    vectors = 2 if length is None or length >= 2 * lanes else 1
    vectors = decide("vectors", vectors, lambda: (1, 2, 4))
    low, high = padding.inside.get(down.var, (imm64(0), down.extent))
    rows = _rows(number(sub(high, low)), vectors, target.registers)
    rows = decide("rows", rows, lambda: [r for r in (1, 2, 3, 4, 6, 8) if r <= 2 * rows])
    fused = target.fma and _is_fused(first)
    return _Window(
        first, fused, epilogue, inner, outer, down, across, padding, rows, vectors, lanes, copies
    )


def _plain(stage: Stage) -> PrimExpr:
    """Simplify the indices of a value: drop casts of axes whose values fit the dtype."""
    sizes = {axis.var: axis.size for axis in (*stage.axes, *stage.reduced)}

    def drop_cast(e: Cast) -> PrimExpr:
        inner = e.value
        if not isinstance(inner, Cast) or not isinstance(inner.value, Var):
            return e
        size = sizes.get(inner.value)
        fits = size is not None and inner.dtype.is_integer and size - 1 <= inner.dtype.max_value
        return inner.value if fits and e.dtype is inner.value.dtype else e

    return rewrite(stage.value, {**FOLDS, Cast: drop_cast})


def _copy_small(value: PrimExpr, stage: Stage, across: Axis) -> tuple[PrimExpr, tuple[Stage, ...]]:
    """Copy small buffers, such as weights, so that ``across`` is their last axis."""
    steps = {axis.var for axis in stage.reduced}
    made: dict[Buffer, tuple[int, Stage]] = {}

    def read_copy(load: BufferLoad) -> PrimExpr:
        places = [k for k, i in enumerate(load.indices) if i is across.var]
        others = [i for i in load.indices if i is not across.var]
        fits = all(isinstance(i, IntImm) or (isinstance(i, Var) and i in steps) for i in others)
        size = number(product(int64(n) for n in load.buffer.shape))
        if len(places) != 1 or places[0] == len(others) or not fits or load.dtype.lanes != 1:
            return load
        if size is None or size > _COPIED:
            return load
        k, copy = made.setdefault(load.buffer, (places[0], _copy(load.buffer, places[0])))
        return load if k != places[0] else BufferLoad(copy.buffer, (*others, across.var))

    value = rewrite(value, {BufferLoad: read_copy})
    return value, tuple(copy for _, copy in made.values())


def _copy(buffer: Buffer, last: int) -> Stage:
    axes = [Axis(Var(f"d{k}", INDEX), int64(n)) for k, n in enumerate(buffer.shape)]
    order = [*axes[:last], *axes[last + 1 :], axes[last]]
    to = scratch(f"{buffer.name}_copy", [axis.extent for axis in order], buffer.dtype)
    indices = tuple(axis.var for axis in order)
    value = BufferLoad(buffer, tuple(axis.var for axis in axes))
    return Stage(buffer.name, tuple(order), (), to, indices, value)


def _slides(stage: Stage, value: PrimExpr, across: Axis) -> bool:
    """Whether reads move with results and steps (windows), and are contiguous along ``across``."""
    axes = (*stage.axes, *stage.reduced)
    own = {axis.var for axis in stage.axes if axis.size != 1}
    steps = {axis.var for axis in stage.reduced if axis.size != 1}
    loads: list[BufferLoad] = by_class(value).get(BufferLoad, [])
    moving: set[Var] = set()  # what the windows move with
    along = False
    if any(load.dtype.lanes != 1 for load in loads):
        return False
    for load in loads:
        forms = [affine_form(index, axes) for index in load.indices]
        for form in forms:
            if form is not None and form.terms.keys() & own and form.terms.keys() & steps:
                moving |= {var for index in load.indices for var in by_class(index).get(Var, ())}
        for k, index in enumerate(load.indices):
            form = forms[k]
            if across.var not in by_class(index).get(Var, ()):
                continue
            if form is None or k != len(load.indices) - 1:
                return False
            if not 1 <= form.terms.get(across.var, 0) <= _STRIDE:
                return False
            along = True
    if not moving or not along:
        return False
    # A product that leaves out an axis, or sums over channels too, is one of matrices.
    return not isinstance(value, Mul) or not (
        own - moving or _find_unmoved(loads, axes, own, steps)
    )


def _find_unmoved(
    loads: Sequence[BufferLoad], axes: Sequence[Axis], own: set[Var], steps: set[Var]
) -> set[Var]:
    """Return the reduced axes along which no window moves, such as the channels of a group."""
    left = set(steps)
    for load in loads:
        for index in load.indices:
            form = affine_form(index, axes)
            if form is not None and form.terms.keys() & own:
                left -= form.terms.keys()
    return left


def _rows(size: int | None, vectors: int, registers: int) -> int:
    """Choose the height of a tile: results, a row of the window and a factor fit in registers."""
    most = max(1, (registers - 8) // (2 * vectors))
    fitting = range(1, min(most, 8) + 1)
    if size is None or size <= 0:
        return min(4, most)
    return max(fitting, key=lambda n: (size / (-(-size // n) * n)) * n / (n + 1.5))


# -- bands -------------------------------------------------------------------------------------
def _band(
    found: _Window,
    row: _Place,
    known: frozenset[Var],
    start: PrimExpr,
    end: PrimExpr,
    block: PrimExpr,
    blocks: PrimExpr,
) -> Stmt:
    """Compute a band of rows: tiles inside, and the border before the first or after the last."""
    down, zero = found.down, imm64(0)
    low, high = found.inside(down)
    made: list[Stmt] = []

    def single(d: PrimExpr) -> Stmt:
        return _line(found, {**row, down.var: d}, known - {down.var}, 1)

    if number(low) != 0:
        above = loop("above", low, single)
        made.append(above if number(blocks) == 1 else IfThenElse(block.equal(zero), above))
    length = fold_expr(sub(end, start))
    tiles = fold_expr(FloorDiv(length, imm64(found.rows)))
    made.append(
        loop(
            "tile",
            tiles,
            lambda t: let(
                down.var.name_hint,
                add(start, mul(t, imm64(found.rows))),
                lambda d: _line(found, {**row, down.var: d}, known, found.rows),
            ),
        )
    )
    done = fold_expr(mul(tiles, imm64(found.rows)))
    left = fold_expr(sub(length, done))
    whole = number(sub(high, low))
    if whole is None or whole % found.rows:  # otherwise tiles fill each band
        rest = 1 if whole is None else whole % found.rows
        made.append(
            loop(
                "rest",
                fold_expr(FloorDiv(left, imm64(rest))),
                lambda t: _line(
                    found,
                    {**row, down.var: add(add(start, done), mul(t, imm64(rest)))},
                    known,
                    rest,
                ),
            )
        )
    if number(sub(down.extent, high)) != 0:
        below = loop("below", fold_expr(sub(down.extent, high)), lambda t: single(add(high, t)))
        last = block.equal(fold_expr(sub(blocks, imm64(1))))
        made.append(below if number(blocks) == 1 else IfThenElse(last, below))
    return seq(made)


def _line(found: _Window, row: _Place, known: frozenset[Var], rows: int) -> Stmt:
    """Compute some rows from end to end."""
    across = found.across
    low, high = found.inside(across)
    made: list[Stmt] = []

    def piece(width: int, inside: bool) -> Callable[[PrimExpr], Stmt]:
        names = known if inside else known - {across.var}
        return lambda a: _tile(found, {**row, across.var: a}, names, rows, width)

    if number(low) != 0:
        made.append(loop("left", low, piece(1, False)))
    length = fold_expr(sub(high, low))
    size = number(length)
    done: PrimExpr = imm64(0)
    for width in _widths(found, size):
        step = imm64(width)
        here = fold_expr(FloorDiv(sub(length, done), step))
        body, first = piece(width, True), fold_expr(add(low, done))

        def several(
            v: PrimExpr,
            body: Callable[[PrimExpr], Stmt] = body,
            first: PrimExpr = first,
            step: PrimExpr = step,
        ) -> Stmt:
            return let(across.var.name_hint, fold_expr(add(first, mul(v, step))), body)

        made.append(loop("v", here, several))
        done = fold_expr(add(done, mul(here, step)))
    if size is not None and (number(done) or 0) < size:
        last = _choose_last_width(found, size)  # some elements are computed twice, to the same
        made.append(piece(last, True)(fold_expr(sub(high, imm64(last)))))
    if number(sub(across.extent, high)) != 0:
        right = piece(1, False)
        count = fold_expr(sub(across.extent, high))
        made.append(loop("right", count, lambda a: right(add(high, a))))
    return seq(made)


def _widths(found: _Window, size: int | None) -> list[int]:
    """List the widths of pieces of a row, from its start on."""
    if size is None:
        return [found.width, 1]
    made: list[int] = []
    if size >= found.width:
        made.append(found.width)
        size %= found.width
    if found.vectors > 1 and size >= found.lanes:
        made.append(found.lanes)
    return made or ([found.lanes] if size else [])


def _choose_last_width(found: _Window, size: int) -> int:
    left = size % found.lanes
    width = found.lanes
    while width // 2 >= left:
        width //= 2
    return width


# -- tiles -------------------------------------------------------------------------------------
def _is_fused(stage: Stage) -> bool:
    dtype = stage.buffer.dtype
    fits = dtype.is_float and dtype.bits in (32, 64)
    return (
        fits and stage.free_order and stage.combine is Combine.SUM and isinstance(stage.value, Mul)
    )


def _add_term(found: _Window, acc: PrimExpr, term: PrimExpr) -> PrimExpr:
    if found.fused and isinstance(term, Mul):
        return call_builtin("fma", term.a, term.b, acc)
    return accumulate(found.stage.combine, acc, term)


def _tile(found: _Window, place: _Place, known: frozenset[Var], rows: int, width: int) -> Stmt:
    """Combine a tile and store it."""
    stage, down = found.stage, found.down
    acc = scratch("acc", (rows * width,), stage.buffer.dtype, "local")
    value = found.padding.drop_known(known.__contains__)

    def write_rows(body: Callable[[_Place, PrimExpr], Stmt]) -> Stmt:
        made: list[Stmt] = []
        for r in range(rows):
            row = {**place, down.var: fold_expr(add(place[down.var], imm64(r)))}
            base = imm64(r * width)

            def lane(x: PrimExpr, row: _Place = row, base: PrimExpr = base) -> Stmt:
                first = row[found.across.var]
                return body({**row, found.across.var: add(first, x)}, add(base, x))

            made.append(lane(imm64(0)) if width == 1 else vectorize("lane", width, lane))
        return seq(made)

    def start(here: _Place, x: PrimExpr) -> Stmt:
        assert stage.init is not None
        return BufferStore(acc, value_at(stage.init, here), (x,))

    def step(steps: _Place, term: PrimExpr) -> Stmt:
        return write_rows(
            lambda here, x: BufferStore(
                acc,
                _add_term(found, BufferLoad(acc, (x,)), value_at(term, {**here, **steps})),
                (x,),
            )
        )

    def end(here: _Place, x: PrimExpr) -> Stmt:
        return _finish(found, here, BufferLoad(acc, (x,)))

    return allocate((acc,), write_rows(start), _steps(found, value, place, step), write_rows(end))


def _steps(
    found: _Window,
    value: PrimExpr,
    place: _Place,
    step: Callable[[_Place, PrimExpr], Stmt],
) -> Stmt:
    """Run the loops of the reduction; test a remaining condition once for all elements."""
    reduced = found.stage.reduced
    choices = [c for c in by_class(value).get(Call, ()) if c.op is IF_THEN_ELSE]
    condition = choices[0].args[0] if len(choices) == 1 else None
    written = 1
    from_here = len(reduced)
    limit = 1 if choices else _UNROLLED
    while from_here and written * (reduced[from_here - 1].size or 1) <= limit:
        from_here -= 1
        written *= reduced[from_here].size or 1

    def choose(yes: bool) -> PrimExpr:
        def choice(e: Call) -> PrimExpr:
            return e.args[1 if yes else 2] if e.op is IF_THEN_ELSE else e

        return rewrite(value, {Call: choice})

    def inside(k: int, steps: _Place) -> Stmt:
        if k == len(reduced):
            if condition is None:
                return step(steps, value)
            test = value_at(condition, {**place, **steps})
            return IfThenElse(test, step(steps, choose(True)), step(steps, choose(False)))
        axis = reduced[k]
        if axis.size == 1:
            return inside(k + 1, {**steps, axis.var: imm64(0)})
        make = unroll if k >= from_here else loop
        return make(
            axis.var.name_hint, axis.size or 1, lambda i: inside(k + 1, {**steps, axis.var: i})
        )

    return inside(0, {})


def _finish(found: _Window, place: _Place, total: PrimExpr) -> Stmt:
    """Store an element, and the results of later stages for it."""
    values: dict[Buffer, Var] = {}
    bound: list[tuple[Var, PrimExpr]] = []
    stores: list[Stmt] = []
    value = total

    def read_value(load: BufferLoad) -> PrimExpr:
        return values.get(load.buffer, load)

    for part in (found.stage, *found.epilogue):
        if part is not found.stage:
            value = rewrite(value_at(part.value, place), {BufferLoad: read_value})
        var = Var(part.buffer.name, part.buffer.dtype)
        values[part.buffer] = var
        bound.append((var, value))
        if part.buffer not in found.inner:
            indices = tuple(value_at(index, place) for index in part.indices)
            stores.append(BufferStore(part.buffer, var, indices))
    body = seq(stores)
    for var, made in reversed(bound):
        body = LetStmt(var, made, body)
    return body
