"""Programs on images and grids: filters, colours, resizing, stencils, automata."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.random import Generator

from benchmarks.programs.program import Program, floats

__all__ = ["PROGRAMS"]


def _bytes(*shape: int) -> Any:
    return lambda rng: [rng.integers(0, 256, shape, "uint8")]


def _box(x: Any, r: int) -> Any:
    h, w = x.shape[0] - 2 * r, x.shape[1] - 2 * r
    n = 2 * r + 1
    return sum(x[a : a + h, b : b + w] for a in range(n) for b in range(n)) / np.float32(n * n)


def _box_of_bytes(p: Any) -> Any:
    wide = p.astype("int32")
    total: Any = sum(wide[a : a + 512, b : b + 512] for a in range(3) for b in range(3))
    return (total // 9).astype("uint8")


def _sobel(p: Any) -> Any:
    p = p.astype("float32")
    gx = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    gy = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    return np.sqrt(gx * gx + gy * gy)


def _bilateral(p: Any) -> Any:
    h, w = p.shape[0] - 4, p.shape[1] - 4
    mid = p[2:-2, 2:-2]
    top, low = np.zeros_like(mid), np.zeros_like(mid)
    for a in range(5):
        for b in range(5):
            v = p[a : a + h, b : b + w]
            d = v - mid
            r = np.float32((a - 2) ** 2 + (b - 2) ** 2)
            k = np.exp(-(d * d) * np.float32(2) - r * np.float32(0.125))
            top += k * v
            low += k
    return top / low


def _suppress(m: Any, d: Any) -> Any:
    out = np.zeros_like(m)
    mid = m[1:-1, 1:-1]
    near = [(m[1:-1, 2:], m[1:-1, :-2]), (m[2:, 1:-1], m[:-2, 1:-1])]
    best = [np.maximum(a, b) for a, b in near]
    chosen = np.where(d[1:-1, 1:-1] == 0, best[0], best[1])
    out[1:-1, 1:-1] = np.where(mid >= chosen, mid, 0)
    return out


def _life(g: Any) -> Any:
    n = sum(np.roll(g, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - g
    return ((n == 3) | ((g == 1) & (n == 2))).astype("uint8")


def _bilinear(p: Any) -> Any:
    h, w = 480, 480
    y = np.arange(h, dtype="float32") * np.float32(0.5)
    x = np.arange(w, dtype="float32") * np.float32(0.5)
    y0, x0 = y.astype("int32"), x.astype("int32")
    y1, x1 = np.minimum(y0 + 1, 239), np.minimum(x0 + 1, 239)
    fy, fx = (y - y0)[:, None], (x - x0)[None, :]
    top = p[y0][:, x0] * (1 - fx) + p[y0][:, x1] * fx
    low = p[y1][:, x0] * (1 - fx) + p[y1][:, x1] * fx
    return top * (1 - fy) + low * fy


def _yuv(p: Any) -> Any:
    m = np.array([[0.299, 0.587, 0.114], [-0.147, -0.289, 0.436], [0.615, -0.515, -0.1]], "float32")
    return p @ m.T


def _mandelbrot() -> Any:
    y = (np.arange(128, dtype="float32") * np.float32(2 / 128) - np.float32(1))[:, None]
    x = (np.arange(128, dtype="float32") * np.float32(3 / 128) - np.float32(2))[None, :]
    zx, zy = np.zeros((128, 128), "float32"), np.zeros((128, 128), "float32")
    n = np.zeros((128, 128), "int32")
    for _ in range(64):
        inside = zx * zx + zy * zy <= 4
        n += inside
        t = zx * zx - zy * zy + x
        zy = np.where(inside, np.float32(2) * zx * zy + y, zy)
        zx = np.where(inside, t, zx)
    return n


def _heat3(p: Any) -> Any:
    c = p[1:-1, 1:-1, 1:-1]
    n = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1]
    n = n + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
    return c + np.float32(0.1) * (n - np.float32(6) * c)


def _jacobi(p: Any) -> Any:
    u = p.copy()
    for _ in range(10):
        v = u.copy()
        v[1:-1, 1:-1] = np.float32(0.25) * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = v
    return u


def _seidel(p: Any) -> Any:
    u = p.copy()
    for i in range(1, len(u) - 1):
        for j in range(1, len(u) - 1):
            u[i, j] = np.float32(0.25) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


def _conv_guarded(p: Any, w: Any) -> Any:
    q = np.pad(p, 1)
    return sum(
        (q[a : a + 256, b : b + 256] * w[a, b] for a in range(3) for b in range(3)),
        np.zeros((256, 256), "float32"),
    )


_TWO: Final = 'p: T.Buffer((256, 256), "float32"), w: T.Buffer((3, 3), "float32"), '


def _two(rng: Generator) -> list[Any]:
    return [rng.standard_normal((256, 256), "float32"), rng.standard_normal((3, 3), "float32")]


PROGRAMS: Final[dict[str, Program]] = {
    "box blur": Program(
        'p: T.Buffer((516, 516), "float32"), out: T.Buffer((512, 512), "float32")',
        """
for y, x in T.grid(512, 512):
    acc = T.float32(0)
    for a, b in T.grid(5, 5):
        acc += p[y + a, x + b]
    out[y, x] = acc / T.float32(25)
""",
        floats(516, 516),
        lambda p: _box(p, 2),
    ),
    "box blur of bytes": Program(
        'p: T.Buffer((514, 514), "uint8"), out: T.Buffer((512, 512), "uint8")',
        """
for y, x in T.grid(512, 512):
    acc = T.int32(0)
    for a, b in T.grid(3, 3):
        acc += T.cast(p[y + a, x + b], "int32")
    out[y, x] = T.cast(acc // 9, "uint8")
""",
        _bytes(514, 514),
        _box_of_bytes,
    ),
    "Sobel": Program(
        'p: T.Buffer((514, 514), "uint8"), out: T.Buffer((512, 512), "float32")',
        """
for y, x in T.grid(512, 512):
    gx = (T.cast(p[y, x + 2], "float32") + T.float32(2) * T.cast(p[y + 1, x + 2], "float32")
        + T.cast(p[y + 2, x + 2], "float32") - T.cast(p[y, x], "float32")
        - T.float32(2) * T.cast(p[y + 1, x], "float32") - T.cast(p[y + 2, x], "float32"))
    gy = (T.cast(p[y + 2, x], "float32") + T.float32(2) * T.cast(p[y + 2, x + 1], "float32")
        + T.cast(p[y + 2, x + 2], "float32") - T.cast(p[y, x], "float32")
        - T.float32(2) * T.cast(p[y, x + 1], "float32") - T.cast(p[y, x + 2], "float32"))
    out[y, x] = T.sqrt(gx * gx + gy * gy)
""",
        _bytes(514, 514),
        _sobel,
    ),
    "bilateral filter": Program(
        'p: T.Buffer((132, 132), "float32"), out: T.Buffer((128, 128), "float32")',
        """
for y, x in T.grid(128, 128):
    top = T.float32(0)
    low = T.float32(0)
    for a, b in T.grid(5, 5):
        v = p[y + a, x + b]
        d = v - p[y + 2, x + 2]
        r = T.cast((a - 2) * (a - 2) + (b - 2) * (b - 2), "float32")
        k = T.exp(-(d * d) * T.float32(2) - r * T.float32(0.125))
        top += k * v
        low += k
    out[y, x] = top / low
""",
        floats(132, 132),
        _bilateral,
    ),
    "non-max suppression": Program(
        'm: T.Buffer((512, 512), "float32"), d: T.Buffer((512, 512), "int8"), '
        'out: T.Buffer((512, 512), "float32")',
        """
for y, x in T.grid(512, 512):
    out[y, x] = 0.0
for y in range(1, 511):
    for x in range(1, 511):
        v = m[y, x]
        if d[y, x] == 0:
            if v >= m[y, x + 1] and v >= m[y, x - 1]:
                out[y, x] = v
        else:
            if v >= m[y + 1, x] and v >= m[y - 1, x]:
                out[y, x] = v
""",
        lambda rng: [
            rng.random((512, 512), "float32"),
            rng.integers(0, 2, (512, 512), "int8"),
        ],
        _suppress,
    ),
    "game of life": Program(
        'g: T.Buffer((256, 256), "uint8"), out: T.Buffer((256, 256), "uint8")',
        """
for y, x in T.grid(256, 256):
    n = T.int32(0)
    for a, b in T.grid(3, 3):
        if a != 1 or b != 1:
            n += T.cast(g[(y + a + 255) % 256, (x + b + 255) % 256], "int32")
    alive = n == 3 or (g[y, x] == 1 and n == 2)
    out[y, x] = T.cast(alive, "uint8")
""",
        lambda rng: [rng.integers(0, 2, (256, 256), "uint8")],
        _life,
    ),
    "game of life, written out": Program(
        'g: T.Buffer((258, 258), "uint8"), out: T.Buffer((256, 256), "uint8")',
        """
for y, x in T.grid(256, 256):
    n = (g[y, x] + g[y, x + 1] + g[y, x + 2] + g[y + 1, x] + g[y + 1, x + 2]
        + g[y + 2, x] + g[y + 2, x + 1] + g[y + 2, x + 2])
    out[y, x] = T.Select(n == 3 or (n == 2 and g[y + 1, x + 1] == 1), T.uint8(1), T.uint8(0))
""",
        lambda rng: [rng.integers(0, 2, (258, 258), "uint8")],
        lambda g: _life(g)[1:-1, 1:-1],
    ),
    "resize, bilinear": Program(
        'p: T.Buffer((240, 240), "float32"), out: T.Buffer((480, 480), "float32")',
        """
for y, x in T.grid(480, 480):
    sy = T.cast(y, "float32") * T.float32(0.5)
    sx = T.cast(x, "float32") * T.float32(0.5)
    y0 = T.cast(sy, "int32")
    x0 = T.cast(sx, "int32")
    y1 = T.min(y0 + 1, 239)
    x1 = T.min(x0 + 1, 239)
    fy = sy - T.cast(y0, "float32")
    fx = sx - T.cast(x0, "float32")
    top = p[y0, x0] * (T.float32(1) - fx) + p[y0, x1] * fx
    low = p[y1, x0] * (T.float32(1) - fx) + p[y1, x1] * fx
    out[y, x] = top * (T.float32(1) - fy) + low * fy
""",
        floats(240, 240),
        _bilinear,
    ),
    "resize, nearest": Program(
        'p: T.Buffer((200, 200, 3), "uint8"), out: T.Buffer((300, 300, 3), "uint8")',
        """
for y, x, c in T.grid(300, 300, 3):
    out[y, x, c] = p[y * 2 // 3, x * 2 // 3, c]
""",
        _bytes(200, 200, 3),
        lambda p: p[np.arange(300) * 2 // 3][:, np.arange(300) * 2 // 3],
    ),
    "gray": Program(
        'p: T.Buffer((480, 640, 3), "uint8"), out: T.Buffer((480, 640), "uint8")',
        """
for y, x in T.grid(480, 640):
    v = (T.cast(p[y, x, 0], "float32") * T.float32(0.299)
        + T.cast(p[y, x, 1], "float32") * T.float32(0.587)
        + T.cast(p[y, x, 2], "float32") * T.float32(0.114))
    out[y, x] = T.cast(v, "uint8")
""",
        _bytes(480, 640, 3),
        lambda p: (
            p[..., 0] * np.float32(0.299)
            + p[..., 1] * np.float32(0.587)
            + p[..., 2] * np.float32(0.114)
        ).astype("uint8"),
    ),
    "gray by integers": Program(
        'p: T.Buffer((480, 640, 3), "uint8"), out: T.Buffer((480, 640), "uint8")',
        """
for y, x in T.grid(480, 640):
    v = (T.cast(p[y, x, 0], "int32") * 77 + T.cast(p[y, x, 1], "int32") * 150
        + T.cast(p[y, x, 2], "int32") * 29)
    out[y, x] = T.cast(v >> 8, "uint8")
""",
        _bytes(480, 640, 3),
        lambda p: (
            (
                p[..., 0].astype("int32") * 77
                + p[..., 1].astype("int32") * 150
                + p[..., 2].astype("int32") * 29
            )
            >> 8
        ).astype("uint8"),
    ),
    "YUV": Program(
        'p: T.Buffer((240, 320, 3), "float32"), out: T.Buffer((240, 320, 3), "float32")',
        """
for y, x in T.grid(240, 320):
    r = p[y, x, 0]
    g = p[y, x, 1]
    b = p[y, x, 2]
    out[y, x, 0] = T.float32(0.299) * r + T.float32(0.587) * g + T.float32(0.114) * b
    out[y, x, 1] = T.float32(-0.147) * r - T.float32(0.289) * g + T.float32(0.436) * b
    out[y, x, 2] = T.float32(0.615) * r - T.float32(0.515) * g - T.float32(0.1) * b
""",
        floats(240, 320, 3),
        _yuv,
    ),
    "alpha blending": Program(
        'a: T.Buffer((240, 320, 4), "float32"), b: T.Buffer((240, 320, 3), "float32"), '
        'out: T.Buffer((240, 320, 3), "float32")',
        """
for y, x, c in T.grid(240, 320, 3):
    alpha = a[y, x, 3]
    out[y, x, c] = alpha * a[y, x, c] + (T.float32(1) - alpha) * b[y, x, c]
""",
        lambda rng: [rng.random((240, 320, 4), "float32"), rng.random((240, 320, 3), "float32")],
        lambda a, b: a[..., 3:] * a[..., :3] + (1 - a[..., 3:]) * b,
    ),
    "channels first": Program(
        'p: T.Buffer((224, 224, 3), "uint8"), m: T.Buffer((3,), "float32"), '
        's: T.Buffer((3,), "float32"), out: T.Buffer((3, 224, 224), "float32")',
        """
for c, y, x in T.grid(3, 224, 224):
    out[c, y, x] = (T.cast(p[y, x, c], "float32") / T.float32(255) - m[c]) / s[c]
""",
        lambda rng: [
            rng.integers(0, 256, (224, 224, 3), "uint8"),
            rng.random(3, "float32"),
            rng.random(3, "float32") + np.float32(0.5),
        ],
        lambda p, m, s: ((p.astype("float32") / np.float32(255) - m) / s).transpose(2, 0, 1),
    ),
    "Mandelbrot": Program(
        'out: T.Buffer((128, 128), "int32")',
        """
for y, x in T.grid(128, 128):
    cy = T.cast(y, "float32") * T.float32(0.015625) - T.float32(1)
    cx = T.cast(x, "float32") * T.float32(0.0234375) - T.float32(2)
    zx = T.float32(0)
    zy = T.float32(0)
    n = T.int32(0)
    while n < 64 and zx * zx + zy * zy <= T.float32(4):
        t = zx * zx - zy * zy + cx
        zy = T.float32(2) * zx * zy + cy
        zx = t
        n += 1
    out[y, x] = n
""",
        lambda rng: [],
        _mandelbrot,
        tolerance=64,
    ),
    "Mandelbrot with a fixed count": Program(
        'out: T.Buffer((128, 128), "int32")',
        """
for y, x in T.grid(128, 128):
    cy = T.cast(y, "float32") * T.float32(0.015625) - T.float32(1)
    cx = T.cast(x, "float32") * T.float32(0.0234375) - T.float32(2)
    zx = T.float32(0)
    zy = T.float32(0)
    n = T.int32(0)
    for k in range(64):
        if zx * zx + zy * zy <= T.float32(4):
            t = zx * zx - zy * zy + cx
            zy = T.float32(2) * zx * zy + cy
            zx = t
            n += 1
    out[y, x] = n
""",
        lambda rng: [],
        _mandelbrot,
        tolerance=64,
    ),
    "stencil in 3-D": Program(
        'p: T.Buffer((66, 66, 66), "float32"), out: T.Buffer((64, 64, 64), "float32")',
        """
for z, y, x in T.grid(64, 64, 64):
    out[z, y, x] = p[z + 1, y + 1, x + 1] + T.float32(0.1) * (
        p[z, y + 1, x + 1] + p[z + 2, y + 1, x + 1] + p[z + 1, y, x + 1]
        + p[z + 1, y + 2, x + 1] + p[z + 1, y + 1, x] + p[z + 1, y + 1, x + 2]
        - T.float32(6) * p[z + 1, y + 1, x + 1])
""",
        floats(66, 66, 66),
        _heat3,
    ),
    "Jacobi": Program(
        'p: T.Buffer((128, 128), "float32"), out: T.Buffer((128, 128), "float32")',
        """
new = T.alloc_buffer((128, 128), "float32")
for i, j in T.grid(128, 128):
    out[i, j] = p[i, j]
for t in range(10):
    for i in range(1, 127):
        for j in range(1, 127):
            new[i, j] = T.float32(0.25) * (
                out[i - 1, j] + out[i + 1, j] + out[i, j - 1] + out[i, j + 1])
    for i in range(1, 127):
        for j in range(1, 127):
            out[i, j] = new[i, j]
""",
        floats(128, 128),
        _jacobi,
    ),
    "Gauss-Seidel": Program(
        'p: T.Buffer((128, 128), "float32"), out: T.Buffer((128, 128), "float32")',
        """
for i, j in T.grid(128, 128):
    out[i, j] = p[i, j]
for i in range(1, 127):
    for j in range(1, 127):
        out[i, j] = T.float32(0.25) * (
            out[i - 1, j] + out[i + 1, j] + out[i, j - 1] + out[i, j + 1])
""",
        floats(128, 128),
        _seidel,
        direct=False,
    ),
    "guarded neighbours": Program(
        _TWO + 'out: T.Buffer((256, 256), "float32")',
        """
for y, x in T.grid(256, 256):
    acc = T.float32(0)
    for a, b in T.grid(3, 3):
        if y + a >= 1 and y + a < 257 and x + b >= 1 and x + b < 257:
            acc += p[y + a - 1, x + b - 1] * w[a, b]
    out[y, x] = acc
""",
        _two,
        _conv_guarded,
    ),
    "guarded neighbours with names": Program(
        _TWO + 'out: T.Buffer((256, 256), "float32")',
        """
for y in range(256):
    for x in range(256):
        acc = T.float32(0)
        for a in range(3):
            for b in range(3):
                yy = y + a - 1
                xx = x + b - 1
                if yy >= 0 and yy < 256 and xx >= 0 and xx < 256:
                    acc = acc + p[yy, xx] * w[a, b]
        out[y, x] = acc
""",
        _two,
        _conv_guarded,
    ),
    "guarded neighbours, nested ifs": Program(
        _TWO + 'out: T.Buffer((256, 256), "float32")',
        """
for y, x in T.grid(256, 256):
    acc = T.float32(0)
    for a in range(3):
        if y + a - 1 >= 0 and y + a - 1 < 256:
            for b in range(3):
                if x + b - 1 >= 0 and x + b - 1 < 256:
                    acc += p[y + a - 1, x + b - 1] * w[a, b]
    out[y, x] = acc
""",
        _two,
        _conv_guarded,
    ),
    "guarded borders": Program(
        'p: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "float32")',
        """
for y, x in T.grid(512, 512):
    if y > 0 and y < 511 and x > 0 and x < 511:
        out[y, x] = T.float32(0.25) * (p[y - 1, x] + p[y + 1, x] + p[y, x - 1] + p[y, x + 1])
    else:
        out[y, x] = p[y, x]
""",
        floats(512, 512),
        lambda p: (
            np.pad(np.float32(0.25) * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]), 1)
            + np.where(np.pad(np.ones((510, 510), "float32"), 1) > 0, 0, p).astype("float32")
        ),
    ),
    "guarded pooling": Program(
        'p: T.Buffer((32, 56, 56), "float32"), out: T.Buffer((32, 28, 28), "float32")',
        """
for c, y, x in T.grid(32, 28, 28):
    top = T.float32(-1e30)
    for a, b in T.grid(3, 3):
        if y * 2 + a >= 1 and y * 2 + a < 57 and x * 2 + b >= 1 and x * 2 + b < 57:
            top = T.max(top, p[c, y * 2 + a - 1, x * 2 + b - 1])
    out[c, y, x] = top
""",
        floats(32, 56, 56),
        lambda p: np.max(
            [
                np.pad(p, ((0, 0), (1, 1), (1, 1)), constant_values=-1e30)[
                    :, a : a + 56 : 2, b : b + 56 : 2
                ]
                for a in range(3)
                for b in range(3)
            ],
            axis=0,
        ),
    ),
    "flipped": Program(
        'p: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "float32")',
        """
for y, x in T.grid(512, 512):
    out[y, x] = p[y, 511 - x]
""",
        floats(512, 512),
        lambda p: p[:, ::-1].copy(),
    ),
    "rotated": Program(
        'p: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "float32")',
        """
for y, x in T.grid(512, 512):
    out[y, x] = p[511 - x, y]
""",
        floats(512, 512),
        lambda p: p[::-1].T.copy(),
    ),
    "integral image": Program(
        'p: T.Buffer((256, 256), "int32"), out: T.Buffer((256, 256), "int32")',
        """
for y in range(256):
    row = T.int32(0)
    for x in range(256):
        row += p[y, x]
        if y > 0:
            out[y, x] = row + out[y - 1, x]
        else:
            out[y, x] = row
""",
        lambda rng: [rng.integers(0, 256, (256, 256), "int32")],
        lambda p: p.cumsum(0).cumsum(1),
    ),
    "median of three by three": Program(
        'p: T.Buffer((258, 258), "float32"), out: T.Buffer((256, 256), "float32")',
        """
for y, x in T.grid(256, 256):
    v = T.alloc_buffer((9,), "float32")
    for a, b in T.grid(3, 3):
        v[a * 3 + b] = p[y + a, x + b]
    for i in range(5):
        for j in range(8 - i):
            if v[j] > v[j + 1]:
                t = v[j]
                v[j] = v[j + 1]
                v[j + 1] = t
    out[y, x] = v[4]
""",
        floats(258, 258),
        lambda p: np.median(
            np.lib.stride_tricks.sliding_window_view(p, (3, 3)), axis=(2, 3)
        ).astype("float32"),
    ),
}
