"""Programs with indirect accesses: histograms, sparse matrices, tables."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.random import Generator

from benchmarks.programs.program import Arrays, Program

__all__ = ["PROGRAMS"]


def _segments(rng: Generator) -> Arrays:
    return [rng.integers(0, 256, 4096, "int32"), rng.standard_normal((4096, 64), "float32")]


def _segment_sum(idx: Any, x: Any) -> Any:
    out = np.zeros((256, 64), "float32")
    np.add.at(out, idx, x)
    return out


def _csr(rng: Generator) -> Arrays:
    counts = rng.integers(0, 40, 4096)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype("int32")
    full = np.zeros(1 << 17, "int32")
    full[: indptr[-1]] = rng.integers(0, 4096, indptr[-1])
    return [indptr, full, rng.standard_normal(1 << 17, "float32")]


def _scipyless(indptr: Any, col: Any, val: Any, x: Any) -> Any:
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    out = np.zeros((len(indptr) - 1, *x.shape[1:]), "float64")
    n = indptr[-1]
    weight = val[:n].reshape(-1, *[1] * (x.ndim - 1))
    np.add.at(out, rows, weight * x[col[:n]].astype("float64"))
    return out.astype("float32")


def _bags(table: Any, idx: Any) -> Any:
    return table[idx].sum(axis=1)


def _one_hot(idx: Any) -> Any:
    return np.eye(100, dtype="float32")[idx]


def _runs(x: Any) -> Any:
    starts = np.flatnonzero(np.concatenate([[True], x[1:] != x[:-1]]))
    out = np.zeros(len(x), "int32")
    out[: len(starts)] = np.diff(np.append(starts, len(x)))
    return out


def _gather_elements(x: Any, idx: Any) -> Any:
    return np.take_along_axis(x, idx.astype("int64"), axis=1)


_CSR: Final = (
    'indptr: T.Buffer((4097,), "int32"), col: T.Buffer((131072,), "int32"), '
    'val: T.Buffer((131072,), "float32"), '
)

PROGRAMS: Final[dict[str, Program]] = {
    "segment sum": Program(
        'idx: T.Buffer((4096,), "int32"), x: T.Buffer((4096, 64), "float32"), '
        'out: T.Buffer((256, 64), "float32")',
        """
for i, j in T.grid(256, 64):
    out[i, j] = 0.0
for i, j in T.grid(4096, 64):
    out[idx[i], j] += x[i, j]
""",
        _segments,
        _segment_sum,
    ),
    "segment sum of short rows": Program(
        'idx: T.Buffer((16384,), "int32"), x: T.Buffer((16384, 3), "float32"), '
        'out: T.Buffer((256, 3), "float32")',
        """
for i, j in T.grid(256, 3):
    out[i, j] = 0.0
for i, j in T.grid(16384, 3):
    out[idx[i], j] += x[i, j]
""",
        lambda rng: [
            rng.integers(0, 256, 16384, "int32"),
            rng.standard_normal((16384, 3), "float32"),
        ],
        lambda idx, x: np.stack(
            [np.bincount(idx, x[:, k], minlength=256) for k in range(3)], axis=1
        ).astype("float32"),
    ),
    "segment maximum": Program(
        'idx: T.Buffer((4096,), "int32"), x: T.Buffer((4096, 64), "float32"), '
        'out: T.Buffer((256, 64), "float32")',
        """
for i, j in T.grid(256, 64):
    out[i, j] = T.float32(-1e30)
for i in range(4096):
    for j in range(64):
        out[idx[i], j] = T.max(out[idx[i], j], x[i, j])
""",
        _segments,
        lambda idx, x: np.array(
            [x[idx == k].max(axis=0, initial=-1e30) for k in range(256)], "float32"
        ),
        direct=False,
    ),
    "histogram": Program(
        'x: T.Buffer((262144,), "uint8"), out: T.Buffer((256,), "int32")',
        """
for i in range(256):
    out[i] = 0
for i in range(262144):
    out[x[i]] += 1
""",
        lambda rng: [rng.integers(0, 256, 262144, "uint8")],
        lambda x: np.bincount(x, minlength=256),
    ),
    "histogram of floats": Program(
        'x: T.Buffer((262144,), "float32"), out: T.Buffer((64,), "int32")',
        """
for i in range(64):
    out[i] = 0
for i in range(262144):
    b = T.cast(x[i] * T.float32(64), "int32")
    out[T.min(T.max(b, 0), 63)] += 1
""",
        lambda rng: [rng.random(262144, "float32")],
        lambda x: np.histogram(x, 64, (0, 1))[0],
    ),
    "SpMV by CSR": Program(
        _CSR + 'x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")',
        """
for row in range(4096):
    y[row] = 0.0
    for p in range(indptr[row], indptr[row + 1]):
        y[row] += val[p] * x[col[p]]
""",
        lambda rng: [*_csr(rng), rng.standard_normal(4096, "float32")],
        _scipyless,
        direct=False,
    ),
    "SpMV by CSR in a local": Program(
        _CSR + 'x: T.Buffer((4096,), "float32"), y: T.Buffer((4096,), "float32")',
        """
for row in range(4096):
    acc = T.float32(0)
    for k in range(indptr[row + 1] - indptr[row]):
        acc += val[indptr[row] + k] * x[col[indptr[row] + k]]
    y[row] = acc
""",
        lambda rng: [*_csr(rng), rng.standard_normal(4096, "float32")],
        _scipyless,
        direct=False,
    ),
    "SpMM by CSR": Program(
        _CSR + 'x: T.Buffer((4096, 32), "float32"), y: T.Buffer((4096, 32), "float32")',
        """
for row in range(4096):
    for j in range(32):
        y[row, j] = 0.0
    for p in range(indptr[row], indptr[row + 1]):
        for j in range(32):
            y[row, j] += val[p] * x[col[p], j]
""",
        lambda rng: [*_csr(rng), rng.standard_normal((4096, 32), "float32")],
        _scipyless,
        direct=False,
    ),
    "SpMM by CSR, columns outside": Program(
        _CSR + 'x: T.Buffer((4096, 32), "float32"), y: T.Buffer((4096, 32), "float32")',
        """
for row, j in T.grid(4096, 32):
    y[row, j] = 0.0
    for p in range(indptr[row], indptr[row + 1]):
        y[row, j] += val[p] * x[col[p], j]
""",
        lambda rng: [*_csr(rng), rng.standard_normal((4096, 32), "float32")],
        _scipyless,
        direct=False,
    ),
    "SpMV by COO": Program(
        'row: T.Buffer((65536,), "int32"), col: T.Buffer((65536,), "int32"), '
        'val: T.Buffer((65536,), "float32"), x: T.Buffer((4096,), "float32"), '
        'y: T.Buffer((4096,), "float32")',
        """
for i in range(4096):
    y[i] = 0.0
for p in range(65536):
    y[row[p]] += val[p] * x[col[p]]
""",
        lambda rng: [
            np.sort(rng.integers(0, 4096, 65536, "int32")),
            rng.integers(0, 4096, 65536, "int32"),
            rng.standard_normal(65536, "float32"),
            rng.standard_normal(4096, "float32"),
        ],
        lambda row, col, val, x: np.bincount(row, val * x[col], minlength=4096).astype("float32"),
    ),
    "embedding bag": Program(
        'table: T.Buffer((5000, 64), "float32"), idx: T.Buffer((512, 20), "int32"), '
        'out: T.Buffer((512, 64), "float32")',
        """
for b, d in T.grid(512, 64):
    out[b, d] = 0.0
    for k in range(20):
        out[b, d] += table[idx[b, k], d]
""",
        lambda rng: [
            rng.standard_normal((5000, 64), "float32"),
            rng.integers(0, 5000, (512, 20), "int32"),
        ],
        _bags,
    ),
    "embedding bag, rows inside": Program(
        'table: T.Buffer((5000, 64), "float32"), idx: T.Buffer((512, 20), "int32"), '
        'out: T.Buffer((512, 64), "float32")',
        """
for b in range(512):
    for d in range(64):
        out[b, d] = 0.0
    for k in range(20):
        for d in range(64):
            out[b, d] += table[idx[b, k], d]
""",
        lambda rng: [
            rng.standard_normal((5000, 64), "float32"),
            rng.integers(0, 5000, (512, 20), "int32"),
        ],
        _bags,
    ),
    "one-hot": Program(
        'idx: T.Buffer((2048,), "int32"), out: T.Buffer((2048, 100), "float32")',
        """
for i, j in T.grid(2048, 100):
    out[i, j] = T.Select(idx[i] == j, T.float32(1), T.float32(0))
""",
        lambda rng: [rng.integers(0, 100, 2048, "int32")],
        _one_hot,
    ),
    "one-hot by a store": Program(
        'idx: T.Buffer((2048,), "int32"), out: T.Buffer((2048, 100), "float32")',
        """
for i in range(2048):
    for j in range(100):
        out[i, j] = 0.0
    out[i, idx[i]] = 1.0
""",
        lambda rng: [rng.integers(0, 100, 2048, "int32")],
        _one_hot,
    ),
    "gamma by table": Program(
        'table: T.Buffer((256,), "uint8"), x: T.Buffer((480, 640), "uint8"), '
        'out: T.Buffer((480, 640), "uint8")',
        """
for y, i in T.grid(480, 640):
    out[y, i] = table[x[y, i]]
""",
        lambda rng: [rng.integers(0, 256, 256, "uint8"), rng.integers(0, 256, (480, 640), "uint8")],
        lambda table, x: table[x],
    ),
    "gather elements": Program(
        'x: T.Buffer((512, 512), "float32"), idx: T.Buffer((512, 512), "int32"), '
        'out: T.Buffer((512, 512), "float32")',
        """
for i, j in T.grid(512, 512):
    out[i, j] = x[i, idx[i, j]]
""",
        lambda rng: [
            rng.standard_normal((512, 512), "float32"),
            rng.integers(0, 512, (512, 512), "int32"),
        ],
        _gather_elements,
    ),
    "permuted rows": Program(
        'p: T.Buffer((1024,), "int32"), x: T.Buffer((1024, 256), "float32"), '
        'out: T.Buffer((1024, 256), "float32")',
        """
for i, j in T.grid(1024, 256):
    out[p[i], j] = x[i, j]
""",
        lambda rng: [
            rng.permutation(1024).astype("int32"),
            rng.standard_normal((1024, 256), "float32"),
        ],
        lambda p, x: x[np.argsort(p)],
    ),
    "run-length": Program(
        'x: T.Buffer((65536,), "int32"), out: T.Buffer((65536,), "int32")',
        """
n = T.int32(0)
for i in range(65536):
    out[i] = 0
out[0] = 1
for i in range(1, 65536):
    if x[i] != x[i - 1]:
        n += 1
    out[n] += 1
""",
        lambda rng: [rng.integers(0, 3, 65536, "int32")],
        _runs,
    ),
    "bins by search": Program(
        'edges: T.Buffer((33,), "float32"), x: T.Buffer((32768,), "float32"), '
        'out: T.Buffer((32768,), "int32")',
        """
for i in range(32768):
    n = T.int32(0)
    for k in range(33):
        if x[i] >= edges[k]:
            n += 1
    out[i] = n
""",
        lambda rng: [
            np.sort(rng.standard_normal(33, "float32")),
            rng.standard_normal(32768, "float32"),
        ],
        lambda edges, x: np.searchsorted(edges, x, side="right"),
    ),
}
