"""NumPy: ufuncs and BLAS, into existing arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.peers import PreparedRun
from benchmarks.rows import Row

__all__ = ["Peer"]


class Peer:
    """Calls with ``out``."""

    def __init__(self, threads: int) -> None:
        pass  # OPENBLAS_NUM_THREADS is set

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Choose a function."""
        make = getattr(self, f"_{row.kind}", None)
        if make is None or row.dtype != "float32":
            return None
        out = np.empty(row.out, "float32")
        return PreparedRun(make(out, *inputs, **row.settings), lambda: out)

    def _matmul(self, out: Any, a: Any, b: Any) -> Any:
        return lambda: np.matmul(a, b, out=out)

    def _linear(self, out: Any, x: Any, w: Any) -> Any:
        return lambda: np.matmul(x, w.T, out=out)

    def _softmax(self, out: Any, x: Any) -> Any:
        def run() -> None:
            np.subtract(x, x.max(-1, keepdims=True), out=out)
            np.exp(out, out=out)
            np.divide(out, out.sum(-1, keepdims=True), out=out)

        return run

    def _layer_norm(self, out: Any, x: Any, gamma: Any, beta: Any) -> Any:
        def run() -> None:
            np.subtract(x, x.mean(-1, keepdims=True), out=out)
            scale = 1 / np.sqrt(np.einsum("ij,ij->i", out, out) / x.shape[1] + 1e-5)
            np.multiply(out, scale[:, None].astype("float32"), out=out)
            np.multiply(out, gamma, out=out)
            np.add(out, beta, out=out)

        return run

    def _rms_norm(self, out: Any, x: Any, gamma: Any) -> Any:
        def run() -> None:
            scale = 1 / np.sqrt(np.einsum("ij,ij->i", x, x) / x.shape[1] + 1e-5)
            np.multiply(x, scale[:, None].astype("float32"), out=out)
            np.multiply(out, gamma, out=out)

        return run

    def _sum(self, out: Any, x: Any, axis: int | None) -> Any:
        return lambda: np.sum(x, axis, out=out)

    def _transpose(self, out: Any, x: Any) -> Any:
        return lambda: np.copyto(out, x.T)

    def _attention(self, out: Any, q: Any, k: Any, v: Any) -> Any:
        scores = np.empty((*q.shape[:-1], k.shape[-2]), "float32")
        scale = np.float32(1 / math.sqrt(q.shape[-1]))

        def run() -> None:
            np.matmul(q, k.swapaxes(-1, -2), out=scores)
            np.multiply(scores, scale, out=scores)
            np.subtract(scores, scores.max(-1, keepdims=True), out=scores)
            np.exp(scores, out=scores)
            np.divide(scores, scores.sum(-1, keepdims=True), out=scores)
            np.matmul(scores, v, out=out)

        return run
