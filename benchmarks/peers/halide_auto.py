"""Halide: algorithms as users write them, scheduled by its autoscheduler of 2019."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import halide as hl
import numpy as np

from benchmarks.peers import PreparedRun
from benchmarks.rows import Row

__all__ = ["Peer"]


def _sum_over(size: int) -> Any:
    return hl.RDom([hl.Range(0, size)])


def _matmul(row: Row, a: Any, b: Any) -> Any:
    # Halide's first index is the one that is contiguous: the reverse of NumPy's.
    made, variables = hl.Func("made"), [hl.Var(f"v{i}") for i in range(len(row.out))]
    j, i, *batch = variables
    k = _sum_over(row.shapes[0][-1])
    made[tuple(variables)] = hl.f32(0)
    made[tuple(variables)] += a[(k.x, i, *batch)] * b[(j, k.x, *batch)]
    return made


def _linear(row: Row, x: Any, w: Any) -> Any:
    made, j, i = hl.Func("made"), hl.Var("j"), hl.Var("i")
    k = _sum_over(row.shapes[0][-1])
    made[j, i] = hl.f32(0)
    made[j, i] += x[k.x, i] * w[k.x, j]
    return made


def _conv(row: Row, x: Any, w: Any) -> Any:
    s = row.settings
    made = hl.Func("made")
    j, i, c, n = (hl.Var(v) for v in "jicn")
    padded = hl.BoundaryConditions.constant_exterior(x, hl.f32(0))
    into, high, wide = row.shapes[1][1:]
    window = hl.RDom([hl.Range(0, wide), hl.Range(0, high), hl.Range(0, into)])
    channel = c if s["groups"] > 1 else window.z
    at = (
        j * s["stride"] + window.x - s["padding"],
        i * s["stride"] + window.y - s["padding"],
        channel,
        n,
    )
    made[j, i, c, n] = hl.f32(0)
    made[j, i, c, n] += padded[at] * w[window.x, window.y, window.z, c]
    return made


def _softmax(row: Row, x: Any) -> Any:
    top, e, total, made = (hl.Func(n) for n in ("top", "e", "total", "made"))
    j, i = hl.Var("j"), hl.Var("i")
    k = _sum_over(row.shapes[0][1])
    top[i] = hl.f32(-math.inf)
    top[i] = hl.max(top[i], x[k.x, i])
    e[j, i] = hl.exp(x[j, i] - top[i])
    total[i] = hl.f32(0)
    total[i] += e[k.x, i]
    made[j, i] = e[j, i] / total[i]
    return made


def _layer_norm(row: Row, x: Any, gamma: Any, beta: Any) -> Any:
    total, squares, made = (hl.Func(n) for n in ("total", "squares", "made"))
    j, i = hl.Var("j"), hl.Var("i")
    size = row.shapes[0][1]
    k = _sum_over(size)
    total[i] = hl.f32(0)
    total[i] += x[k.x, i]
    squares[i] = hl.f32(0)
    d = x[k.x, i] - total[i] / size
    squares[i] += d * d
    scale = hl.f32(1) / hl.sqrt(squares[i] / size + hl.f32(1e-5))
    made[j, i] = (x[j, i] - total[i] / size) * scale * gamma[j] + beta[j]
    return made


def _rms_norm(row: Row, x: Any, gamma: Any) -> Any:
    squares, made = hl.Func("squares"), hl.Func("made")
    j, i = hl.Var("j"), hl.Var("i")
    size = row.shapes[0][1]
    k = _sum_over(size)
    squares[i] = hl.f32(0)
    squares[i] += x[k.x, i] * x[k.x, i]
    made[j, i] = x[j, i] * (hl.f32(1) / hl.sqrt(squares[i] / size + hl.f32(1e-5))) * gamma[j]
    return made


def _sum(row: Row, x: Any) -> Any:
    made, j = hl.Func("made"), hl.Var("j")
    k = _sum_over(row.shapes[0][0])
    made[j] = hl.f32(0)
    made[j] += x[j, k.x] if row.settings["axis"] == 0 else x[k.x, j]
    return made


def _transpose(row: Row, x: Any) -> Any:
    made, j, i = hl.Func("made"), hl.Var("j"), hl.Var("i")
    made[j, i] = x[i, j]
    return made


ALGORITHMS: Final[dict[str, Callable[..., Any]]] = {
    "matmul": _matmul,
    "linear": _linear,
    "conv": _conv,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "sum": _sum,
    "transpose": _transpose,
}


class Peer:
    """Compiled for this CPU, into a buffer that is there already."""

    def __init__(self, threads: int) -> None:
        folder = Path(str(hl.__file__)).parent / "lib64"
        ctypes.CDLL(str(folder / "libautoschedule_adams2019.so"), ctypes.RTLD_GLOBAL)
        hl.load_plugin(str(folder / "libautoschedule_adams2019.so"))
        self.threads = threads  # of its pool: HL_NUM_THREADS

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Schedule and compile a row."""
        if row.kind not in ALGORITHMS or row.dtype != "float32" or not row.out:
            return None
        given = [hl.Buffer(x) for x in inputs]
        made = ALGORITHMS[row.kind](row, *given)
        for place, extent in enumerate(reversed(row.out)):
            made.set_estimate(made.args()[place], 0, extent)
        settings = hl.AutoschedulerParams(
            "Adams2019", {"parallelism": str(self.threads), "beam_size": "8"}
        )
        pipeline = hl.Pipeline(made)
        pipeline.apply_autoscheduler(hl.get_host_target(), settings)
        pipeline.compile_jit(hl.get_host_target())
        out = np.empty(row.out, "float32")
        output = hl.Buffer(out)
        return PreparedRun(lambda: pipeline.realize(output), lambda: out)
