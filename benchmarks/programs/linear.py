"""Programs of linear algebra and geometry: factorisations, distances, small products, bodies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.random import Generator

from benchmarks.programs.program import Arrays, Program, floats

__all__ = ["PROGRAMS"]


def _positive(n: int) -> Any:
    def draw(rng: Generator) -> Arrays:
        a = rng.standard_normal((n, n), "float32")
        return [a @ a.T / np.float32(n) + 4 * np.eye(n, dtype="float32")]

    return draw


def _lu(a: Any) -> Any:
    u = a.astype("float64")
    for k in range(len(u)):
        u[k + 1 :, k] /= u[k, k]
        u[k + 1 :, k + 1 :] -= np.outer(u[k + 1 :, k], u[k, k + 1 :])
    return u.astype("float32")


def _triangular(n: int, m: int) -> Any:
    def draw(rng: Generator) -> Arrays:
        a = np.tril(rng.standard_normal((n, n), "float32")) / np.float32(n)
        a += 2 * np.eye(n, dtype="float32")
        return [a, rng.standard_normal((n, m) if m else n, "float32")]

    return draw


def _two(*shape: int) -> Any:
    return lambda rng: [rng.standard_normal(shape, "float32") for _ in range(2)]


def _cosine(x: Any, y: Any) -> Any:
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    v = y / np.linalg.norm(y, axis=1, keepdims=True)
    return u @ v.T


def _distances(x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(axis=2)


def _manhattan(x: Any, y: Any) -> Any:
    return np.abs(x[:, None] - y[None]).sum(axis=2)


def _nearest(x: Any, c: Any) -> Any:
    return _distances(x, c).argmin(axis=1)


def _bodies(p: Any) -> Any:
    d = p[None, :, :3] - p[:, None, :3]
    r = (d * d).sum(axis=2) + np.float32(0.01)
    f = p[None, :, 3] / (r * np.sqrt(r))
    return (d * f[:, :, None]).sum(axis=1)


def _band(a: Any, x: Any) -> Any:
    n = a.shape[0]
    out = np.zeros((n, x.shape[1]), "float32")
    for k in range(7):
        low, high = max(0, 3 - k), min(n, n + 3 - k)
        out[low:high] += a[low:high, k, None] * x[low + k - 3 : high + k - 3]
    return out


def _banded_full(a: Any, b: Any) -> Any:
    i = np.arange(len(a))
    near = np.abs(i[:, None] - i[None]) <= 4
    return (np.where(near, a, 0) @ b).astype("float32")


def _power(a: Any) -> Any:
    v = np.ones(len(a), "float32")
    for _ in range(8):
        v = (a @ v) / np.linalg.norm(a @ v)
    return v


def _shortest(a: Any) -> Any:
    d = a
    for k in range(len(a)):
        d = np.minimum(d, d[:, k : k + 1] + d[k])
    return d


_SQUARE: Final = 'a: T.Buffer((128, 128), "float32"), out: T.Buffer((128, 128), "float32")'
_POINTS: Final = (
    'x: T.Buffer((256, 64), "float32"), y: T.Buffer((256, 64), "float32"), '
    'out: T.Buffer((256, 256), "float32")'
)
_SMALL: Final = "a: T.Buffer((4096, {n}, {n}), 'float32'), b: T.Buffer((4096, {n}, {n}), 'float32'), out: T.Buffer((4096, {n}, {n}), 'float32')"  # noqa: E501
_SMALL_BODY: Final = """
for t, i, j in T.grid(4096, {n}, {n}):
    acc = T.float32(0)
    for k in range({n}):
        acc += a[t, i, k] * b[t, k, j]
    out[t, i, j] = acc
"""


def _many(n: int) -> Program:
    return Program(_SMALL.format(n=n), _SMALL_BODY.format(n=n), _two(4096, n, n), np.matmul)


PROGRAMS: Final[dict[str, Program]] = {
    "LU": Program(
        _SQUARE,
        """
for i, j in T.grid(128, 128):
    out[i, j] = a[i, j]
for k in range(128):
    for i in range(k + 1, 128):
        out[i, k] = out[i, k] / out[k, k]
        for j in range(k + 1, 128):
            out[i, j] -= out[i, k] * out[k, j]
""",
        _positive(128),
        _lu,
        direct=False,
    ),
    "LU, two nests": Program(
        _SQUARE,
        """
for i, j in T.grid(128, 128):
    out[i, j] = a[i, j]
for k in range(128):
    for i in range(k + 1, 128):
        out[i, k] = out[i, k] / out[k, k]
    for i in range(k + 1, 128):
        for j in range(k + 1, 128):
            out[i, j] = out[i, j] - out[i, k] * out[k, j]
""",
        _positive(128),
        _lu,
        direct=False,
    ),
    "Cholesky": Program(
        _SQUARE,
        """
for i, j in T.grid(128, 128):
    out[i, j] = 0.0
for j in range(128):
    s = a[j, j]
    for k in range(j):
        s -= out[j, k] * out[j, k]
    out[j, j] = T.sqrt(s)
    for i in range(j + 1, 128):
        t = a[i, j]
        for k in range(j):
            t -= out[i, k] * out[j, k]
        out[i, j] = t / out[j, j]
""",
        _positive(128),
        np.linalg.cholesky,
        tolerance=1e-3,
    ),
    "triangular solve": Program(
        'a: T.Buffer((512, 512), "float32"), b: T.Buffer((512,), "float32"), '
        'out: T.Buffer((512,), "float32")',
        """
for i in range(512):
    s = b[i]
    for j in range(i):
        s -= a[i, j] * out[j]
    out[i] = s / a[i, i]
""",
        _triangular(512, 0),
        np.linalg.solve,
        direct=False,
    ),
    "triangular solve of columns": Program(
        'a: T.Buffer((128, 128), "float32"), b: T.Buffer((128, 64), "float32"), '
        'out: T.Buffer((128, 64), "float32")',
        """
for i in range(128):
    for c in range(64):
        out[i, c] = b[i, c]
    for j in range(i):
        for c in range(64):
            out[i, c] -= a[i, j] * out[j, c]
    for c in range(64):
        out[i, c] = out[i, c] / a[i, i]
""",
        _triangular(128, 64),
        np.linalg.solve,
        direct=False,
    ),
    "triangular product": Program(
        'a: T.Buffer((256, 256), "float32"), x: T.Buffer((256,), "float32"), '
        'out: T.Buffer((256,), "float32")',
        """
for i in range(256):
    acc = T.float32(0)
    for j in range(i + 1):
        acc += a[i, j] * x[j]
    out[i] = acc
""",
        lambda rng: [rng.standard_normal((256, 256), "float32"), rng.random(256, "float32")],
        lambda a, x: np.tril(a) @ x,
    ),
    "lower part": Program(
        'a: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "float32")',
        """
for i, j in T.grid(512, 512):
    if j <= i:
        out[i, j] = a[i, j]
    else:
        out[i, j] = 0.0
""",
        floats(512, 512),
        np.tril,
    ),
    "band times columns": Program(
        'a: T.Buffer((1024, 7), "float32"), x: T.Buffer((1024, 16), "float32"), '
        'out: T.Buffer((1024, 16), "float32")',
        """
for i, c in T.grid(1024, 16):
    acc = T.float32(0)
    for k in range(7):
        if i + k >= 3 and i + k < 1027:
            acc += a[i, k] * x[i + k - 3, c]
    out[i, c] = acc
""",
        lambda rng: [rng.standard_normal((1024, 7), "float32"), rng.random((1024, 16), "float32")],
        _band,
    ),
    "banded matrix product": Program(
        'a: T.Buffer((256, 256), "float32"), b: T.Buffer((256, 256), "float32"), '
        'out: T.Buffer((256, 256), "float32")',
        """
for i, j in T.grid(256, 256):
    acc = T.float32(0)
    for k in range(T.max(i - 4, 0), T.min(i + 5, 256)):
        acc += a[i, k] * b[k, j]
    out[i, j] = acc
""",
        _two(256, 256),
        _banded_full,
        direct=False,
    ),
    "banded matrix product by if": Program(
        'a: T.Buffer((128, 128), "float32"), b: T.Buffer((128, 128), "float32"), '
        'out: T.Buffer((128, 128), "float32")',
        """
for i, j in T.grid(128, 128):
    acc = T.float32(0)
    for k in range(128):
        if k >= i - 4 and k <= i + 4:
            acc += a[i, k] * b[k, j]
    out[i, j] = acc
""",
        _two(128, 128),
        _banded_full,
        direct=False,
    ),
    "tridiagonal product": Program(
        'a: T.Buffer((65536, 3), "float32"), x: T.Buffer((65538,), "float32"), '
        'out: T.Buffer((65536,), "float32")',
        """
for i in range(65536):
    out[i] = a[i, 0] * x[i] + a[i, 1] * x[i + 1] + a[i, 2] * x[i + 2]
""",
        lambda rng: [rng.random((65536, 3), "float32"), rng.random(65538, "float32")],
        lambda a, x: a[:, 0] * x[:-2] + a[:, 1] * x[1:-1] + a[:, 2] * x[2:],
    ),
    "tridiagonal solve": Program(
        'a: T.Buffer((3, 4096), "float32"), b: T.Buffer((4096,), "float32"), '
        'out: T.Buffer((4096,), "float32")',
        """
c = T.alloc_buffer((4096,), "float32")
c[0] = a[2, 0] / a[1, 0]
out[0] = b[0] / a[1, 0]
for i in range(1, 4096):
    m = a[1, i] - a[0, i] * c[i - 1]
    c[i] = a[2, i] / m
    out[i] = (b[i] - a[0, i] * out[i - 1]) / m
for i in range(4095):
    out[4094 - i] -= c[4094 - i] * out[4095 - i]
""",
        lambda rng: [
            np.stack([rng.random(4096), 3 + rng.random(4096), rng.random(4096)]).astype("float32"),
            rng.random(4096, "float32"),
        ],
        lambda a, b: np.linalg.solve(
            np.diag(a[1]) + np.diag(a[0, 1:], -1) + np.diag(a[2, :-1], 1), b
        ),
        direct=False,
    ),
    "transpose in tiles": Program(
        'a: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "float32")',
        """
for bi, bj, i, j in T.grid(16, 16, 32, 32):
    out[bj * 32 + j, bi * 32 + i] = a[bi * 32 + i, bj * 32 + j]
""",
        floats(512, 512),
        lambda a: a.T.copy(),
    ),
    "product of 3 by 3": _many(3),
    "product of 4 by 4": _many(4),
    "product of 2 by 2": _many(2),
    "points by a matrix": Program(
        'm: T.Buffer((4, 4), "float32"), p: T.Buffer((16384, 4), "float32"), '
        'out: T.Buffer((16384, 4), "float32")',
        """
for i, r in T.grid(16384, 4):
    acc = T.float32(0)
    for k in range(4):
        acc += m[r, k] * p[i, k]
    out[i, r] = acc
""",
        lambda rng: [rng.random((4, 4), "float32"), rng.random((16384, 4), "float32")],
        lambda m, p: p @ m.T,
    ),
    "determinants": Program(
        'a: T.Buffer((16384, 3, 3), "float32"), out: T.Buffer((16384,), "float32")',
        """
for t in range(16384):
    out[t] = (a[t, 0, 0] * (a[t, 1, 1] * a[t, 2, 2] - a[t, 1, 2] * a[t, 2, 1])
        - a[t, 0, 1] * (a[t, 1, 0] * a[t, 2, 2] - a[t, 1, 2] * a[t, 2, 0])
        + a[t, 0, 2] * (a[t, 1, 0] * a[t, 2, 1] - a[t, 1, 1] * a[t, 2, 0]))
""",
        floats(16384, 3, 3),
        np.linalg.det,
        tolerance=1e-3,
    ),
    "cross products": Program(
        'a: T.Buffer((16384, 3), "float32"), b: T.Buffer((16384, 3), "float32"), '
        'out: T.Buffer((16384, 3), "float32")',
        """
for i in range(16384):
    out[i, 0] = a[i, 1] * b[i, 2] - a[i, 2] * b[i, 1]
    out[i, 1] = a[i, 2] * b[i, 0] - a[i, 0] * b[i, 2]
    out[i, 2] = a[i, 0] * b[i, 1] - a[i, 1] * b[i, 0]
""",
        _two(16384, 3),
        np.cross,
    ),
    "outer product": Program(
        'x: T.Buffer((512,), "float32"), y: T.Buffer((512,), "float32"), '
        'out: T.Buffer((512, 512), "float32")',
        """
for i, j in T.grid(512, 512):
    out[i, j] = x[i] * y[j]
""",
        _two(512),
        np.outer,
    ),
    "dot product": Program(
        'x: T.Buffer((65536,), "float32"), y: T.Buffer((65536,), "float32"), '
        'out: T.Buffer((1,), "float32")',
        """
acc = T.float32(0)
for i in range(65536):
    acc += x[i] * y[i]
out[0] = acc
""",
        _two(65536),
        lambda x, y: np.array([np.dot(x, y)]),
        tolerance=1e-1,
    ),
    "trace": Program(
        'a: T.Buffer((512, 512), "float32"), out: T.Buffer((1,), "float32")',
        """
out[0] = 0.0
for i in range(512):
    out[0] += a[i, i]
""",
        floats(512, 512),
        lambda a: np.array([np.trace(a)]),
        tolerance=1e-2,
    ),
    "cosine similarity": Program(
        _POINTS,
        """
for i, j in T.grid(256, 256):
    dot = T.float32(0)
    xx = T.float32(0)
    yy = T.float32(0)
    for k in range(64):
        dot += x[i, k] * y[j, k]
        xx += x[i, k] * x[i, k]
        yy += y[j, k] * y[j, k]
    out[i, j] = dot / (T.sqrt(xx) * T.sqrt(yy))
""",
        _two(256, 64),
        _cosine,
    ),
    "pairwise L1": Program(
        _POINTS,
        """
for i, j in T.grid(256, 256):
    acc = T.float32(0)
    for k in range(64):
        acc += T.abs(x[i, k] - y[j, k])
    out[i, j] = acc
""",
        _two(256, 64),
        _manhattan,
        tolerance=1e-3,
    ),
    "squared distances": Program(
        _POINTS,
        """
for i, j in T.grid(256, 256):
    acc = T.float32(0)
    for k in range(64):
        acc += (x[i, k] - y[j, k]) * (x[i, k] - y[j, k])
    out[i, j] = acc
""",
        _two(256, 64),
        _distances,
        tolerance=1e-3,
    ),
    "squared distances with a name": Program(
        _POINTS,
        """
for i, j in T.grid(256, 256):
    acc = T.float32(0)
    for k in range(64):
        d = x[i, k] - y[j, k]
        acc += d * d
    out[i, j] = acc
""",
        _two(256, 64),
        _distances,
        tolerance=1e-3,
    ),
    "squared distances in a block": Program(
        _POINTS,
        """
for i, j, k in T.grid(256, 256, 64):
    with T.block("d"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            out[vi, vj] = 0.0
        out[vi, vj] += (x[vi, vk] - y[vj, vk]) * (x[vi, vk] - y[vj, vk])
""",
        _two(256, 64),
        _distances,
        tolerance=1e-3,
    ),
    "distances of points": Program(
        'x: T.Buffer((512, 3), "float32"), y: T.Buffer((512, 3), "float32"), '
        'out: T.Buffer((512, 512), "float32")',
        """
for i, j in T.grid(512, 512):
    acc = T.float32(0)
    for k in range(3):
        acc += (x[i, k] - y[j, k]) * (x[i, k] - y[j, k])
    out[i, j] = T.sqrt(acc)
""",
        _two(512, 3),
        lambda x, y: np.sqrt(_distances(x, y)),
        tolerance=1e-3,
    ),
    "k-means assignment": Program(
        'x: T.Buffer((2048, 8), "float32"), c: T.Buffer((16, 8), "float32"), '
        'out: T.Buffer((2048,), "int32")',
        """
for i in range(2048):
    best = T.float32(1e30)
    at = T.int32(0)
    for k in range(16):
        d = T.float32(0)
        for j in range(8):
            d += (x[i, j] - c[k, j]) * (x[i, j] - c[k, j])
        if d < best:
            best = d
            at = k
    out[i] = at
""",
        lambda rng: [
            rng.standard_normal((2048, 8), "float32"),
            rng.standard_normal((16, 8), "float32"),
        ],
        _nearest,
    ),
    "n-body": Program(
        'p: T.Buffer((512, 4), "float32"), out: T.Buffer((512, 3), "float32")',
        """
for i in range(512):
    ax = T.float32(0)
    ay = T.float32(0)
    az = T.float32(0)
    for j in range(512):
        dx = p[j, 0] - p[i, 0]
        dy = p[j, 1] - p[i, 1]
        dz = p[j, 2] - p[i, 2]
        r = dx * dx + dy * dy + dz * dz + T.float32(0.01)
        f = p[j, 3] / (r * T.sqrt(r))
        ax += dx * f
        ay += dy * f
        az += dz * f
    out[i, 0] = ax
    out[i, 1] = ay
    out[i, 2] = az
""",
        lambda rng: [rng.random((512, 4), "float32")],
        _bodies,
        tolerance=1e-1,
    ),
    "guarded product": Program(
        'a: T.Buffer((128, 128), "float32"), b: T.Buffer((128, 128), "float32"), '
        'm: T.Buffer((128,), "uint8"), out: T.Buffer((128, 128), "float32")',
        """
for i, j in T.grid(128, 128):
    acc = T.float32(0)
    for k in range(128):
        if m[k] != T.uint8(0):
            acc += a[i, k] * b[k, j]
    out[i, j] = acc
""",
        lambda rng: [
            rng.standard_normal((128, 128), "float32"),
            rng.standard_normal((128, 128), "float32"),
            rng.integers(0, 2, 128, "uint8"),
        ],
        lambda a, b, m: (a * m) @ b,
        tolerance=1e-3,
    ),
    "guarded dot products": Program(
        'a: T.Buffer((1024, 256), "float32"), m: T.Buffer((1024, 256), "uint8"), '
        'x: T.Buffer((256,), "float32"), out: T.Buffer((1024,), "float32")',
        """
for i in range(1024):
    acc = T.float32(0)
    for k in range(256):
        if m[i, k] != T.uint8(0):
            acc += a[i, k] * x[k]
    out[i] = acc
""",
        lambda rng: [
            rng.standard_normal((1024, 256), "float32"),
            rng.integers(0, 2, (1024, 256), "uint8"),
            rng.standard_normal(256, "float32"),
        ],
        lambda a, m, x: (a * m) @ x,
        tolerance=1e-3,
    ),
    "power iteration": Program(
        'a: T.Buffer((128, 128), "float32"), out: T.Buffer((128,), "float32")',
        """
y = T.alloc_buffer((128,), "float32")
for i in range(128):
    out[i] = 1.0
for t in range(8):
    norm = T.float32(0)
    for i in range(128):
        acc = T.float32(0)
        for j in range(128):
            acc += a[i, j] * out[j]
        y[i] = acc
        norm += acc * acc
    for i in range(128):
        out[i] = y[i] / T.sqrt(norm)
""",
        _positive(128),
        _power,
        tolerance=1e-3,
    ),
    "Floyd-Warshall": Program(
        'a: T.Buffer((64, 64), "float32"), out: T.Buffer((64, 64), "float32")',
        """
for i, j in T.grid(64, 64):
    out[i, j] = a[i, j]
for k in range(64):
    for i in range(64):
        for j in range(64):
            out[i, j] = T.min(out[i, j], out[i, k] + out[k, j])
""",
        lambda rng: [rng.random((64, 64), "float32")],
        _shortest,
    ),
}
