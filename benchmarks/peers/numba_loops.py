"""Numba: handwritten loops, parallel over rows, with reassociated sums."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import prange

from benchmarks.peers import PreparedRun
from benchmarks.rows import Row

__all__ = ["Peer"]

# Sums may be regrouped, as Loomir and the libraries do; nothing else is loosened.
jit = numba.njit(parallel=True, fastmath={"reassoc", "contract", "nsz"})


@jit
def softmax(x: Any, out: Any) -> None:
    """Write each row's exponentials over their sum."""
    for i in prange(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            e = np.exp(x[i, j] - top)
            out[i, j] = e
            total += e
        scale = np.float32(1) / total
        for j in range(x.shape[1]):
            out[i, j] *= scale


@jit
def layer_norm(x: Any, gamma: Any, beta: Any, out: Any) -> None:
    """Normalise each row."""
    n = np.float32(x.shape[1])
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / n
        squares = np.float32(0)
        for j in range(x.shape[1]):
            d = x[i, j] - mean
            squares += d * d
        scale = np.float32(1) / np.sqrt(squares / n + np.float32(1e-5))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * gamma[j] + beta[j]


@jit
def rms_norm(x: Any, gamma: Any, out: Any) -> None:
    """Scale each row."""
    for i in prange(x.shape[0]):
        squares = np.float32(0)
        for j in range(x.shape[1]):
            squares += x[i, j] * x[i, j]
        scale = np.float32(1) / np.sqrt(squares / np.float32(x.shape[1]) + np.float32(1e-5))
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * scale * gamma[j]


@jit
def gelu(x: Any, out: Any) -> None:
    """Apply the exact function."""
    half, root = np.float32(0.5), np.float32(1 / math.sqrt(2))
    for i in prange(x.shape[0]):
        out[i] = half * x[i] * (np.float32(1) + math.erf(x[i] * root))


@jit
def sum_rows(x: Any, out: Any) -> None:
    """Add columns up, strip by strip."""
    strip = 64
    for b in prange(x.shape[1] // strip):
        acc = np.zeros(strip, np.float32)
        for i in range(x.shape[0]):
            for j in range(strip):
                acc[j] += x[i, b * strip + j]
        for j in range(strip):
            out[b * strip + j] = acc[j]


@jit
def sum_columns(x: Any, out: Any) -> None:
    """Add each row up."""
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        out[i] = total


@jit
def sum_all(x: Any, parts: Any, out: Any) -> None:
    """Add all up, row by row."""
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        parts[i] = total
    out[()] = parts.sum()


@jit
def transpose(x: Any, out: Any) -> None:
    """Copy tiles."""
    tile = 16
    for b in prange(x.shape[0] // tile):
        for c in range(x.shape[1] // tile):
            for j in range(c * tile, c * tile + tile):
                for i in range(b * tile, b * tile + tile):
                    out[j, i] = x[i, j]


class Peer:
    """Rows that a loop nest of a few lines is good at."""

    def __init__(self, threads: int) -> None:
        numba.set_num_threads(threads)

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        out = np.empty(row.out, row.out_dtype) if row.dtype == "float32" else None
        functions = {
            "softmax": softmax,
            "layer_norm": layer_norm,
            "rms_norm": rms_norm,
            "gelu": gelu,
            "transpose": transpose,
            "sum": {0: sum_rows, 1: sum_columns, None: sum_all}[row.settings.get("axis")],
        }
        if out is None or row.kind not in functions:
            return None
        function = functions[row.kind]
        extra = [np.empty(len(inputs[0]), "float32")] if function is sum_all else []
        given = [*inputs, *extra, out]
        return PreparedRun(lambda: function(*given), lambda: out)
