"""Choose tile, panel and block sizes: registers hold accumulators, caches hold panels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loomir.autoschedule.ir.decision import decide
from loomir.support.dtype import DataType
from loomir.target import Target

__all__ = [
    "FEW_STEPS",
    "FEW_TILES",
    "MOST_STREAMED",
    "WORTH_THREADS",
    "Tiles",
    "choose_row_tiles",
    "choose_tiles",
    "div_up",
]

WORTH_THREADS: Final = 1 << 20
"""Multiply-adds from which threads pay: about 20 microseconds on one core."""

MOST_STREAMED: Final = 64
"""Rows up to which the right operand is better read in place than packed.

The time in place, divided by the time with columns packed block by block, is 0.55 for 7 rows, 0.7
for 32, 0.85 for 64, and 1 for 100 (on a Xeon, Emerald Rapids).
"""

FEW_TILES: Final = 16
"""Tiles of rows up to which the kernels of a convolution are better read in place."""

FEW_STEPS: Final = 4
"""Steps up to which writing the result dominates: tiles have one row, and nothing is packed.

Relative to tiles of several rows, 64 x 1024 with 1 step take half of the time, 1000 x 1000 with 4
steps 0.75, and with 8 steps as much (on a Xeon, Emerald Rapids).
"""

_VECTORS: Final = 4
"""Vectors of a tile of one row, for products of at most ``FEW_STEPS`` steps."""

_STREAMED_ROWS: Final = 32
"""Steps of a panel that is read from memory, as so many parallel streams."""

_NEAR_ROWS: Final = 128
"""Steps of a panel that is read from L2: so many that accumulators are seldom spilled."""

_STREAMED_COLUMNS: Final = (512, 1024)
"""Columns of a block: few enough for each thread to have work, or a page of each wide row."""

_SHALLOW: Final = 64
"""Steps up to which storing a tile takes as long as its products."""

_DEEP: Final = 1024
"""Steps of a panel if half of L2 holds that many for all rows of a block.

Accumulators are then spilled half as often between panels: square products of 1024 take 0.98 of the
time (on a Xeon, Emerald Rapids).
"""

_PAGES: Final = 4096
"""Columns of a block of products with few steps, whose rows are written as streams."""

_LOWEST: Final = 4
"""Least rows of a tile that must divide a line: without it, lines of 29 got tiles of one row."""

_CANDIDATES: Final = 10
"""Tiles among which a search chooses: those of least predicted time."""

_IN_FLIGHT: Final = 10
"""Independent accumulators that keep two FMA pipelines of five cycles busy."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """``rows`` x ``columns`` accumulators in registers, ``vectors`` of ``lanes`` to a row.

    ``depth`` is the number of steps of a panel; a block is ``down`` x ``across`` tiles.
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
        """Return the columns of a tile."""
        return self.vectors * self.lanes


def div_up(size: int, step: int) -> int:
    """Divide, and round up."""
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
    """Choose tiles by the sizes of the product, None if they are dynamic.

    ``streamed``: the rows are few, and the right operand is read in place. ``within``: it can be
    read in place, where a tile is no wider than it. ``run``: so many rows lie in a line, at whose
    end a tile had better end too.
    """
    widest = target.lanes(dtype.bits)
    lanes = widest
    while n is not None and lanes > 1 and (lanes // 2 >= n or (within and lanes > n)):
        lanes //= 2
    shapes = _list_shapes(
        target.registers - (not target.fma)
    )  # without FMA a product takes a register
    if m is not None:  # rows that are padding fill pipelines, but take loads
        shapes = [s for s in shapes if s[0] <= max(1, m)]
    if within and n is not None:
        shapes = [s for s in shapes if s[1] * lanes <= n] or shapes
    if run is not None:
        shapes = [s for s in shapes if run % s[0] == 0 and s[0] >= min(run, _LOWEST)] or shapes
        if m is not None and n is not None:
            few = [s for s in shapes if div_up(m, s[0]) <= FEW_TILES and n % (s[1] * lanes) == 0]
            shapes = few or shapes

    def predict(shape: tuple[int, int]) -> tuple[float, int, int]:
        return _estimate_speed(*shape, lanes, m, n)

    best = max(shapes, key=predict)
    rows, vectors = decide(
        "tile", best, lambda: sorted(shapes, key=predict, reverse=True)[:_CANDIDATES]
    )
    first, second, _ = target.caches
    size = dtype.itemsize
    # A panel of the columns takes half of L2 at most, together with one of the rows.
    columns = vectors * lanes
    most = _DEEP if _block_rows(m, n, target) * _DEEP * size <= second // 2 else _DEEP // 2
    deepest = max(64, min(most, (second or first * 8) // (4 * columns * size)))
    depth = deepest if k is None else _split_evenly(k, deepest)
    across = max(1, 256 // columns)
    down = max(1, _block_rows(m, n, target) // rows)
    if not streamed and m is not None and m <= 128 and n is not None and n >= 512:
        # Columns are packed block by block. Deep and narrow panels are read from memory as long
        # streams: 1024 steps of 48 columns take 0.85 of the time of 512 steps of 240 (on a Xeon).
        down, across = div_up(m, rows), 1
        depth = _DEEP if k is None else _split_evenly(k, _DEEP)
    if streamed:
        near = n is not None and k is not None and n * k * size <= (second or first * 8)
        few, many = _STREAMED_COLUMNS
        depth = min(depth, _NEAR_ROWS if near else _STREAMED_ROWS)
        across = max(1, (many if n is None or n >= 4 * many else few) // columns)
    shallow = k is not None and k <= _SHALLOW and not streamed
    if m is None or n is None or m * n * size < (second or first * 8) // 2:
        shallow = False  # a result in the cache may be written in any order
    if shallow:
        across = max(1, _PAGES // columns)
        enough = div_up(4 * target.cores, max(1, div_up(n or 1, across * columns)))
        down = min(max(1, _block_rows(m, n, target) // rows), div_up(div_up(m or 1, rows), enough))
    if m is not None:
        down = min(down, max(1, div_up(m, rows)))
    if n is not None:
        across = min(across, max(1, div_up(n, columns)))
    depth = decide("depth", max(1, depth), lambda: _list_near(depth, k))
    down = decide("down", down, lambda: _list_near(down, None if m is None else div_up(m, rows)))
    wide = None if n is None else div_up(n, columns)
    across = decide("across", across, lambda: _list_near(across, wide))
    return Tiles(rows, vectors, lanes, max(1, depth), down, across, shallow)


def _list_near(size: int, most: int | None) -> list[int]:
    """List sizes around the predicted one, from a quarter to four times as many."""
    near = {max(1, size // 4), max(1, size // 2), size, 2 * size, 4 * size}
    limit = max(near) if most is None else max(1, most)
    return sorted({min(each, limit) for each in near})


def choose_row_tiles(m: int | None, n: int | None, dtype: DataType, target: Target) -> Tiles | None:
    """Choose tiles of one row for ``FEW_STEPS`` steps; None if rows are too short for it."""
    lanes = target.lanes(dtype.bits)
    columns = _VECTORS * lanes
    if n is None or n < columns:
        return None
    across = min(max(1, _PAGES // columns), div_up(n, columns))
    down = _block_rows(m, n, target)
    if m is not None:
        enough = div_up(4 * target.cores, div_up(n, across * columns))
        down = min(down, max(1, div_up(m, enough)))
    return Tiles(1, _VECTORS, lanes, FEW_STEPS, down, across, by_rows=True)


def _block_rows(m: int | None, n: int | None, target: Target) -> int:
    """Choose the rows of a block: with more, columns are read less often; fewer balance threads.

    Square products of 2048 take 0.9 of the time with 192 rows instead of 96 (on a Xeon, Emerald
    Rapids).
    """
    if m is None:
        return 96
    strips = 1 if n is None else div_up(n, 256)
    return next((r for r in (192, 96) if div_up(m, r) * strips >= 4 * target.cores), 48)


def _split_evenly(size: int, most: int) -> int:
    """Split into pieces of equal size, of at most about ``most``."""
    pieces = max(1, div_up(size, most + most // 4))
    return div_up(size, pieces)


def _list_shapes(registers: int) -> list[tuple[int, int]]:
    """List tiles whose accumulators leave registers for a row of vectors and a broadcast."""
    return [
        (rows, vectors)
        for vectors in range(1, 9)
        for rows in range(1, 17)
        if rows * vectors + vectors + 1 <= registers
    ]


def _estimate_speed(
    rows: int, vectors: int, lanes: int, m: int | None, n: int | None
) -> tuple[float, int, int]:
    """Estimate the share of peak speed that a tile reaches."""
    sums = rows * vectors
    useful = 1.0
    if m is not None and m:
        useful *= m / (div_up(m, rows) * rows)
    if n is not None and n:
        useful *= n / (div_up(n, vectors * lanes) * vectors * lanes)
    busy = min(1.0, sums / _IN_FLIGHT)
    # Each step broadcasts an element for each row and loads each vector of columns.
    loads = 1 - 0.25 * (rows + vectors) / sums
    # Panels of wide tiles take more of the caches; those of low tiles are read more often.
    shape = rows / (rows + 0.2) * (1 - 0.004 * vectors)
    return useful * busy * loads * shape, min(sums, 24), -rows
