"""Winograd convolution: few multiplications for a tile of results, between linear transforms.

``m`` neighbouring results of a kernel of ``r`` taps take ``m + r - 1`` multiplications instead of
``m * r``: ``y = A^T ((G g) * (B^T d))``. Images have their channels last, so that neighbours in
memory undergo the same operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from loomir.support.dtype import DataType
from loomir.te.operation import extern
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import wide
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.expr import (
    GE,
    LT,
    Add,
    And,
    Broadcast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
    const,
)
from loomir.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt, seq

__all__ = ["Plane", "Winograd", "winograd", "winograd_image", "winograd_result"]

INT64 = DataType("int64")

Rows = tuple[tuple[Fraction, ...], ...]


class Winograd(NamedTuple):
    """The matrices of one axis, exactly: ``y = back ((kernel g) * (image d))``."""

    image: Rows
    kernel: Rows
    back: Rows

    @property
    def step(self) -> int:
        """How many results a tile has."""
        return len(self.back)

    @property
    def size(self) -> int:
        """How many elements a tile of the image has."""
        return len(self.image)


def winograd(results: int, kernel: int, points: Sequence[Fraction | int]) -> Winograd:
    """Make the matrices for tiles of so many results of kernels of so many steps.

    Products of polynomials are found from their values at ``points``, and at infinity
    (Toom and Cook); transposed, that is a convolution. ``points`` are distinct, one less than the
    elements of a tile of the image.
    """
    size = results + kernel - 1
    at = [Fraction(p) for p in points]
    assert len(at) == size - 1 == len(set(at))
    image: list[tuple[Fraction, ...]] = []
    weights: list[tuple[Fraction, ...]] = []
    for p in at:
        others = [q for q in at if q != p]
        image.append(_with_roots(others, size))
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        weights.append(tuple(p**k / scale for k in range(kernel)))
    image.append(_with_roots(at, size))
    weights.append(tuple(Fraction(int(k == kernel - 1)) for k in range(kernel)))
    back = tuple(
        (*(p**row for p in at), Fraction(int(row == results - 1))) for row in range(results)
    )
    return Winograd(tuple(image), tuple(weights), back)


def _with_roots(roots: Sequence[Fraction], size: int) -> tuple[Fraction, ...]:
    """Return the coefficients of the polynomial with these roots, from the lowest power on."""
    made = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *made], [-root * c for c in made] + [Fraction(0)]
        made = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return (*made, *[Fraction(0)] * (size - len(made)))


class Plane(NamedTuple):
    """The sizes of images and results, and how many zeros stand above and left of images."""

    height: int
    width: int
    above: int
    left: int
    out_height: int
    out_width: int

    def tiles(self, step: int) -> tuple[int, int]:
        """Count the tiles of the results, down and across."""
        return -(-self.out_height // step), -(-self.out_width // step)

    def count(self, step: int) -> int:
        """Count all of them."""
        down, across = self.tiles(step)
        return down * across


def winograd_image(x: Tensor, way: Winograd, plane: Plane, lanes: int, threads: bool) -> Tensor:
    """Transform the tiles of images: (N, H, W, C) to (places in a tile, tiles, C).

    ``lanes``: channels that are computed at a time. ``threads``: whether they share the tiles.
    """
    down, across = plane.tiles(way.step)
    batch, *_, channels = x.shape
    assert isinstance(channels, IntImm)
    count = batch * (down * across)

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (source,), (target,) = ins, outs
        zero = const(0, source.dtype)

        def tile(made: _Code, p: PrimExpr) -> Callable[[_Code, PrimExpr, int], None]:
            n, row, column = _place(made, p, down, across)
            rows = _inside(made, "y", row, way, plane.above, plane.height, down)
            columns = _inside(made, "x", column, way, plane.left, plane.width, across)

            def transform_image(made: _Code, c: PrimExpr, width: int) -> None:
                def load(i: int, j: int) -> PrimExpr:
                    (y, in_y), (x, in_x) = rows[i], columns[j]
                    value = BufferLoad(source, (n, y, x, _span(c, width)))
                    inside = in_x if in_y is None else in_y if in_x is None else And(in_y, in_x)
                    if inside is None:
                        return value
                    return Select(_wide(inside, width), value, _wide(zero, width))

                whole = range(way.size)
                half = [
                    made.transform(way.image, [made.let("d", load(i, j)) for i in whole])
                    for j in whole
                ]
                for i in whole:
                    done = made.transform(way.image, [half[j][i] for j in whole])
                    for j in whole:
                        index = const(i * way.size + j, "int64")
                        made.store(target, done[j], (index, p, _span(c, width)))

            return transform_image

        return _loop_over_tiles(count, channels.value, lanes, threads, tile)

    shape = (way.size**2, count, channels)
    made: Tensor = extern(shape, [x], body, name="winograd_image")
    return made


def winograd_result(
    x: Tensor, batch: PrimExpr, way: Winograd, plane: Plane, lanes: int, threads: bool
) -> Tensor:
    """Transform tiles of products back: (places in a tile, tiles, C) to (N, H, W, C).

    ``lanes`` and ``threads`` as for ``winograd_image``.
    """
    down, across = plane.tiles(way.step)
    _, count, channels = x.shape
    assert isinstance(channels, IntImm)

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (source,), (target,) = ins, outs

        def tile(made: _Code, p: PrimExpr) -> Callable[[_Code, PrimExpr, int], None]:
            n, row, column = _place(made, p, down, across)
            y, x = (made.let("y", row * way.step), made.let("x", column * way.step))

            def transform_result(made: _Code, c: PrimExpr, width: int) -> None:
                def load(i: int, j: int) -> PrimExpr:
                    index = const(i * way.size + j, "int64")
                    return BufferLoad(source, (index, p, _span(c, width)))

                whole, kept = range(way.size), range(way.step)
                half = [
                    made.transform(way.back, [made.let("d", load(i, j)) for i in whole])
                    for j in whole
                ]
                for i in kept:
                    done = made.transform(way.back, [half[j][i] for j in whole])
                    for j in kept:
                        place = (n, y + i, x + j, _span(c, width))
                        guards: list[PrimExpr] = []
                        if i >= (plane.out_height - 1) % way.step + 1:
                            guards.append(LT(y + i, const(plane.out_height, "int64")))
                        if j >= (plane.out_width - 1) % way.step + 1:
                            guards.append(LT(x + j, const(plane.out_width, "int64")))
                        made.store(target, done[j], place, guards)

            return transform_result

        return _loop_over_tiles(count, channels.value, lanes, threads, tile)

    shape = (batch, plane.out_height, plane.out_width, channels)
    made: Tensor = extern(shape, [x], body, name="winograd_result")
    return made


# -- code ----------------------------------------------------------------------------------------
class _Code:
    """Statements in order; values that are used more than once get names."""

    def __init__(self) -> None:
        self.around: list[Callable[[Stmt | None], Stmt]] = []

    def let(self, name: str, value: PrimExpr) -> PrimExpr:
        """Bind a value to a name."""
        var = Var(name, value.dtype)

        def limit(body: Stmt | None) -> Stmt:
            assert body is not None
            return LetStmt(var, value, body)

        self.around.append(limit)
        return var

    def store(
        self,
        buffer: Buffer,
        value: PrimExpr,
        indices: tuple[PrimExpr, ...],
        guards: Sequence[PrimExpr] = (),
    ) -> None:
        """Store a value where all guards hold."""
        stmt: Stmt = BufferStore(buffer, value, indices)
        for guard in guards:
            stmt = IfThenElse(guard, stmt)
        self.around.append(lambda body: stmt if body is None else seq((stmt, body)))

    def finish(self, last: Stmt | None = None) -> Stmt:
        """Return all statements, and one that is last."""
        for wrap in reversed(self.around):
            last = wrap(last)
        assert last is not None
        return last

    def transform(self, matrix: Rows, values: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Multiply a matrix with values; rows that differ in signs only share their parts."""
        made: dict[int, PrimExpr] = {}
        for i, row in enumerate(matrix):
            if i in made:
                continue
            twin = next((k for k in range(i + 1, len(matrix)) if _twins(row, matrix[k])), None)
            if twin is None:
                made[i] = self.let("t", self.sum(row, values))
                continue
            pairs = list(zip(row, matrix[twin], strict=True))
            same = self.let("s", self.sum([a if a == b else Fraction(0) for a, b in pairs], values))
            other = self.let(
                "o", self.sum([a if a != b else Fraction(0) for a, b in pairs], values)
            )
            made[i] = self.let("t", Add(same, other))
            made[twin] = self.let("t", Sub(same, other))
        return [made[i] for i in range(len(matrix))]

    def sum(self, row: Sequence[Fraction], values: Sequence[PrimExpr]) -> PrimExpr:
        """Write a sum of multiples, a positive one first where there is one."""
        terms = sorted(
            ((c, v) for c, v in zip(row, values, strict=True) if c), key=lambda t: t[0] < 0
        )
        total: PrimExpr | None = None
        for factor, value in terms:
            size = abs(factor) if total is not None else factor
            term = value
            if size != 1:
                term = Mul(value, const(float(size), value.dtype))
            if total is None:
                total = term
            else:
                total = Add(total, term) if factor > 0 else Sub(total, term)
        assert total is not None
        return total


def _twins(a: Sequence[Fraction], b: Sequence[Fraction]) -> bool:
    """Whether rows have the same numbers, some with other signs, but not all."""
    flips = {x == y for x, y in zip(a, b, strict=True) if x or y}
    return all(abs(x) == abs(y) for x, y in zip(a, b, strict=True)) and len(flips) == 2


def _loop_over_tiles(
    count: PrimExpr,
    channels: int,
    lanes: int,
    threads: bool,
    tile: Callable[[_Code, PrimExpr], Callable[[_Code, PrimExpr, int], None]],
) -> Stmt:
    """Run a body for each tile and channel, many channels at a time; the last may come twice."""
    p = Var("tile", INT64)
    outer, inner = _Code(), _Code()
    width = min(lanes, channels)
    while width & (width - 1):
        width &= width - 1
    k = Var("k", INT64)
    one = tile(outer, p)
    start: PrimExpr = k * width
    if channels % width:
        start = inner.let("c", Min(start, const(channels - width, "int64")))
    one(inner, start, width)
    steps = const(-(-channels // width), "int64")
    body = For(k, IntImm(0, k.dtype), steps, ForKind.SERIAL, inner.finish())
    kind = ForKind.PARALLEL if threads else ForKind.SERIAL
    return For(p, IntImm(0, p.dtype), wide(count), kind, outer.finish(body))


def _place(made: _Code, p: PrimExpr, down: int, across: int) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return the image of a tile, and its row and column there."""
    rows = made.let("rows", FloorDiv(p, const(across, "int64")))
    column = made.let("column", FloorMod(p, const(across, "int64")))
    n = made.let("n", FloorDiv(rows, const(down, "int64")))
    return n, made.let("row", FloorMod(rows, const(down, "int64"))), column


def _inside(
    made: _Code, name: str, tile: PrimExpr, way: Winograd, before: int, extent: int, tiles: int
) -> list[tuple[PrimExpr, PrimExpr | None]]:
    """Return each place of a tile along an axis, moved into the image, and whether it was there."""
    first = made.let(name, Sub(tile * way.step, const(before, "int64")))
    found: list[tuple[PrimExpr, PrimExpr | None]] = []
    for i in range(way.size):
        at = made.let(name, Add(first, const(i, "int64")))
        low, high = i < before, (tiles - 1) * way.step + i - before >= extent
        tests: list[PrimExpr] = []
        moved = at
        if low:
            tests.append(GE(at, const(0, "int64")))
            moved = Max(moved, const(0, "int64"))
        if high:
            tests.append(LT(at, const(extent, "int64")))
            moved = Min(moved, const(extent - 1, "int64"))
        if not tests:
            found.append((at, None))
            continue
        inside = tests[0] if len(tests) == 1 else And(*tests)
        found.append((made.let(name, moved), made.let(f"in_{name}", inside)))
    return found


def _span(c: PrimExpr, width: int) -> PrimExpr:
    return c if width == 1 else Ramp(c, const(1, "int64"), width)


def _wide(value: PrimExpr, width: int) -> PrimExpr:
    return value if width == 1 else Broadcast(value, width)
