"""Sizes of tiles, from the machine: registers hold sums, caches hold panels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loomir.support.dtype import DataType
from loomir.target import Target

__all__ = [
    "FEW_STEPS",
    "FEW_TILES",
    "MOST_STREAMED",
    "WORTH_THREADS",
    "Tiles",
    "choose_tiles",
    "row_by_row",
    "up",
]

WORTH_THREADS: Final = 1 << 20
"""Products, about 20 microseconds of them, from which on threads are worth their start."""

MOST_STREAMED: Final = 64
"""Rows up to which a factor is better read where it is than packed.

7 rows take 0.55 of the time so that they take with columns packed where they are used, 32 rows
0.7, 64 rows 0.85, and 100 rows as much.
"""

FEW_TILES: Final = 16
"""Tiles of rows up to which kernels of a convolution are better read where they are."""

FEW_STEPS: Final = 4
"""Steps up to which a product is written as fast as it can be: row by row, and nothing copied.

64 x 1024 with 1 step take half of the time that they take in tiles of several rows, 1000 x 1000
with 4 steps 0.75, and with 8 steps no less.
"""

_VECTORS: Final = 4
"""Vectors at a time of such a row."""

_STREAMED_ROWS: Final = 32
"""Steps at a time of what comes from memory: pages of so many rows are read side by side."""

_NEAR_ROWS: Final = 128
"""Steps at a time of what is in the second cache: sums are kept and read back seldom."""

_STREAMED_COLUMNS: Final = (512, 1024)
"""Columns of a block: so few that threads have work, or a page of each row of a wide factor."""

_SHALLOW: Final = 64
"""Steps up to which storing a tile takes as long as its products."""

_DEEP: Final = 1024
"""Steps of a panel where half of the second cache holds so many of the rows of a block.

Sums are then kept for the next panel half as often: products of 1024 take 0.98 of the time.
"""

_PAGES: Final = 4096
"""Columns of a block whose rows are written as streams."""

_LOWEST: Final = 4
"""Rows of a tile that is worth ending where lines end: lines of 29 had tiles of one row."""

_IN_FLIGHT: Final = 10
"""Sums that must be independent to keep two pipelines of five steps busy."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """``rows`` x ``columns`` sums in registers, ``vectors`` of ``lanes`` to a row.

    ``depth`` is how much of the reduced extent a panel holds; a block is ``down`` x ``across``
    tiles.
    """

    rows: int
    vectors: int
    lanes: int
    depth: int
    down: int
    across: int
    by_rows: bool = False
    """Whether a block goes along rows first, so that the result is written as few long streams."""

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return self.vectors * self.lanes


def up(size: int, step: int) -> int:
    """Round up to whole steps, and count them."""
    return -(-size // step)


def choose_tiles(
    m: int | None,
    n: int | None,
    k: int | None,
    dtype: DataType,
    target: Target,
    *,
    streamed: bool = False,
    within: bool = False,
    run: int | None = None,
) -> Tiles:
    """Choose by the sizes of the product, None where they are known at run time only.

    ``streamed``: the rows are few, and the right factor is read where it is. ``within``: it can be,
    where a tile is no wider than it. ``run``: so many rows lie in a line, at the end of which a
    tile had better end too.
    """
    widest = target.lanes(dtype.bits)
    lanes = widest
    while n is not None and lanes > 1 and (lanes // 2 >= n or (within and lanes > n)):
        lanes //= 2
    shapes = _shapes(target.registers - (not target.fma))  # a product waits to be added
    if m is not None:  # rows that are not there fill pipelines, but take loads
        shapes = [s for s in shapes if s[0] <= max(1, m)]
    if within and n is not None:
        shapes = [s for s in shapes if s[1] * lanes <= n] or shapes
    if run is not None:
        shapes = [s for s in shapes if run % s[0] == 0 and s[0] >= min(run, _LOWEST)] or shapes
        if m is not None and n is not None:
            few = [s for s in shapes if up(m, s[0]) <= FEW_TILES and n % (s[1] * lanes) == 0]
            shapes = few or shapes
    best = max(shapes, key=lambda shape: _worth(*shape, lanes, m, n))
    rows, vectors = best
    first, second, _ = target.caches
    size = dtype.itemsize
    # A panel of the columns takes half of the second-level cache at most, with one of the rows.
    columns = vectors * lanes
    most = _DEEP if _block_rows(m, n, target) * _DEEP * size <= second // 2 else _DEEP // 2
    deepest = max(64, min(most, (second or first * 8) // (4 * columns * size)))
    depth = deepest if k is None else _even(k, deepest)
    across = max(1, 256 // columns)
    down = max(1, _block_rows(m, n, target) // rows)
    if not streamed and m is not None and m <= 128 and n is not None and n >= 512:
        # Columns are packed where they are used. What is long of few of them comes from memory as
        # long streams: 1024 steps of 48 columns take 0.85 of the time of 512 steps of 240.
        down, across = up(m, rows), 1
        depth = _DEEP if k is None else _even(k, _DEEP)
    if streamed:
        near = n is not None and k is not None and n * k * size <= (second or first * 8)
        few, many = _STREAMED_COLUMNS
        depth = min(depth, _NEAR_ROWS if near else _STREAMED_ROWS)
        across = max(1, (many if n is None or n >= 4 * many else few) // columns)
    shallow = k is not None and k <= _SHALLOW and not streamed
    if m is None or n is None or m * n * size < (second or first * 8) // 2:
        shallow = False  # what caches hold may be written in any order
    if shallow:
        across = max(1, _PAGES // columns)
        enough = up(4 * target.cores, max(1, up(n or 1, across * columns)))
        down = min(max(1, _block_rows(m, n, target) // rows), up(up(m or 1, rows), enough))
    if m is not None:
        down = min(down, max(1, up(m, rows)))
    if n is not None:
        across = min(across, max(1, up(n, columns)))
    return Tiles(rows, vectors, lanes, max(1, depth), down, across, shallow)


def row_by_row(m: int | None, n: int | None, dtype: DataType, target: Target) -> Tiles | None:
    """Give tiles of one row for ``FEW_STEPS`` steps; None where rows are too short for it."""
    lanes = target.lanes(dtype.bits)
    columns = _VECTORS * lanes
    if n is None or n < columns:
        return None
    across = min(max(1, _PAGES // columns), up(n, columns))
    down = _block_rows(m, n, target)
    if m is not None:
        enough = up(4 * target.cores, up(n, across * columns))
        down = min(down, max(1, up(m, enough)))
    return Tiles(1, _VECTORS, lanes, FEW_STEPS, down, across, by_rows=True)


def _block_rows(m: int | None, n: int | None, target: Target) -> int:
    """Give how many rows a block has: many read columns seldom, few are shared evenly.

    Products of 2048 take 0.9 of the time with 192 rows that they take with 96.
    """
    if m is None:
        return 96
    strips = 1 if n is None else up(n, 256)
    return next((r for r in (192, 96) if up(m, r) * strips >= 4 * target.cores), 48)


def _even(size: int, most: int) -> int:
    """Cut into pieces of equal size, of at most about ``most``."""
    pieces = max(1, up(size, most + most // 4))
    return up(size, pieces)


def _shapes(registers: int) -> list[tuple[int, int]]:
    """List tiles whose sums leave registers for a row of vectors and a number."""
    return [
        (rows, vectors)
        for vectors in range(1, 9)
        for rows in range(1, 17)
        if rows * vectors + vectors + 1 <= registers
    ]


def _worth(
    rows: int, vectors: int, lanes: int, m: int | None, n: int | None
) -> tuple[float, int, int]:
    """Estimate the share of the machine's speed that a tile reaches."""
    sums = rows * vectors
    useful = 1.0
    if m is not None and m:
        useful *= m / (up(m, rows) * rows)
    if n is not None and n:
        useful *= n / (up(n, vectors * lanes) * vectors * lanes)
    busy = min(1.0, sums / _IN_FLIGHT)
    # Each step loads a number for each row and a vector for each column of the tile.
    loads = 1 - 0.25 * (rows + vectors) / sums
    # Panels of wide tiles take more of the caches; low ones are read more often.
    shape = rows / (rows + 0.2) * (1 - 0.004 * vectors)
    return useful * busy * loads * shape, min(sums, 24), -rows
