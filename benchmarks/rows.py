"""The kernels of the table: formula, inputs, and work of each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np

__all__ = ["ROWS", "Row", "inputs_of", "reference_of"]

Arrays = list[Any]


@dataclass(frozen=True)
class Row:
    """A kernel. ``kind`` is what peers know it by, ``shapes`` those of its inputs.

    ``constant`` inputs are weights: a peer may pack them before the clock runs. ``flops`` and
    ``bytes`` are the work that no peer can avoid.
    """

    name: str
    kind: str
    shapes: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]
    flops: int
    dtype: str = "float32"
    out_dtype: str = "float32"
    constant: tuple[int, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-4

    @property
    def bytes(self) -> int:
        """Return how much is read and written at least."""
        into = sum(math.prod(s) for s in self.shapes) * np.dtype(_dtype(self.dtype)).itemsize
        return into + math.prod(self.out) * np.dtype(_dtype(self.out_dtype)).itemsize


def _dtype(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


# -- rows --------------------------------------------------------------------------------------
def _gemm(n: int) -> Row:
    return Row(f"gemm {n}", "matmul", ((n, n), (n, n)), (n, n), 2 * n**3)


def _linear(m: int, k: int = 4096, n: int = 4096) -> Row:
    return Row(f"linear M={m}", "linear", ((m, k), (n, k)), (m, n), 2 * m * k * n, constant=(1,))


def _conv(
    name: str, size: int, into: int, out: int, kernel: int, stride: int = 1, groups: int = 1
) -> Row:
    pad = kernel // 2
    side = (size + 2 * pad - kernel) // stride + 1
    work = 2 * side * side * out * (into // groups) * kernel * kernel
    return Row(
        name,
        "conv",
        ((1, into, size, size), (out, into // groups, kernel, kernel)),
        (1, out, side, side),
        work,
        constant=(1,),
        settings={"stride": stride, "padding": pad, "groups": groups},
    )


def _along_rows(kind: str, name: str, m: int, n: int, extra: int, work: int) -> Row:
    return Row(name, kind, ((m, n), *[(n,)] * extra), (m, n), work * m * n)


def _sum(axis: int | None, n: int = 4096) -> Row:
    name = f"sum {n}² over {'all' if axis is None else f'axis {axis}'}"
    out = () if axis is None else (n,)
    return Row(name, "sum", ((n, n),), out, n * n, settings={"axis": axis}, tolerance=1e-3)


def _attention(batch: int, heads: int, length: int, width: int) -> Row:
    shape = (batch, heads, length, width)
    work = 4 * batch * heads * length * length * width
    name = f"attention {batch}×{heads}×{length}×{width}"
    return Row(name, "attention", (shape,) * 3, shape, work)


ROWS: Final = (
    _gemm(512),
    _gemm(1024),
    _gemm(2048),
    _linear(1),
    _linear(8),
    _linear(32),
    Row(
        "batched matmul 12×128×64×128",
        "matmul",
        ((12, 128, 64), (12, 64, 128)),
        (12, 128, 128),
        2 * 12 * 128 * 64 * 128,
    ),
    _conv("conv 7×7 s2 3→64 @224", 224, 3, 64, 7, 2),
    _conv("conv 3×3 64→64 @56", 56, 64, 64, 3),
    _conv("conv 1×1 256→64 @56", 56, 256, 64, 1),
    _conv("conv 3×3 256→256 @14", 14, 256, 256, 3),
    _conv("conv 3×3 s2 512→512 @14", 14, 512, 512, 3, 2),
    _conv("depthwise 3×3 32 @112", 112, 32, 32, 3, groups=32),
    _conv("depthwise 3×3 512 @14", 14, 512, 512, 3, groups=512),
    _along_rows("softmax", "softmax 32×32000", 32, 32000, 0, 5),
    _along_rows("softmax", "softmax 4096×1024", 4096, 1024, 0, 5),
    _along_rows("layer_norm", "layer norm 4096×768", 4096, 768, 2, 8),
    _along_rows("rms_norm", "rms norm 4096×768", 4096, 768, 1, 4),
    Row("gelu 4M", "gelu", ((1 << 22,),), (1 << 22,), 5 << 22),
    _sum(0),
    _sum(1),
    _sum(None),
    Row("transpose 4096²", "transpose", ((4096, 4096),), (4096, 4096), 0),
    _attention(1, 12, 512, 64),
    Row(
        "gemm int8 1024",
        "matmul",
        ((1024, 1024), (1024, 1024)),
        (1024, 1024),
        2 * 1024**3,
        "int8",
        "int32",
        tolerance=0,
    ),
    Row(
        "gemm bfloat16 1024",
        "matmul",
        ((1024, 1024), (1024, 1024)),
        (1024, 1024),
        2 * 1024**3,
        "bfloat16",
        "bfloat16",
        tolerance=1e-2,
    ),
)


# -- inputs and what they give -----------------------------------------------------------------
def inputs_of(row: Row) -> Arrays:
    """Draw the inputs, the same in every process."""
    rng = np.random.default_rng(7)
    if row.dtype == "int8":
        return [rng.integers(-128, 128, shape, "int8") for shape in row.shapes]
    return [rng.standard_normal(shape, "float32").astype(_dtype(row.dtype)) for shape in row.shapes]


def reference_of(row: Row, inputs: Arrays) -> Any:
    """Compute a row in float64, or in int64 for integers."""
    wide = "int64" if row.dtype == "int8" else "float64"
    return _REFERENCES[row.kind](*(x.astype(wide) for x in inputs), **row.settings)


def _convolved(x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, edges), w.shape[2:], axis=(2, 3))
    windows = windows[0, :, ::stride, ::stride]
    if groups == 1:
        return np.tensordot(w, windows, ((1, 2, 3), (0, 3, 4)))[None]
    return np.einsum("chwij,cij->chw", windows, w[:, 0])[None]


def _normalised(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def _gelu(x: Any) -> Any:
    # Erf by its values at nodes and Taylor's series around the nearest one: good to 1e-13.
    t = np.abs(x) / np.sqrt(2)
    step = 1 / 64
    near = np.minimum(np.round(t / step), 6 / step).astype("int64")
    nodes = np.arange(int(6 / step) + 1) * step
    values = np.array([math.erf(v) for v in nodes])
    a, d = nodes[near], t - nodes[near]
    slope = 2 / np.sqrt(np.pi) * np.exp(-a * a)
    series = d - a * d**2 + (4 * a * a - 2) / 6 * d**3 - (8 * a**3 - 12 * a) / 24 * d**4
    erf = np.where(t > 6, 1.0, values[near] + slope * series)
    return 0.5 * x * (1 + np.sign(x) * erf)


_REFERENCES: Final[dict[str, Callable[..., Any]]] = {
    "matmul": np.matmul,
    "linear": lambda x, w: x @ w.T,
    "conv": _convolved,
    "softmax": _normalised,
    "layer_norm": _layer_norm,
    "rms_norm": lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g,
    "gelu": _gelu,
    "sum": lambda x, axis: x.sum(axis),
    "transpose": lambda x: x.T,
    "attention": lambda q, k, v: _normalised(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])) @ v,
}
