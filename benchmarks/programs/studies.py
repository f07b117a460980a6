"""Programs of courses and of first prototypes: signals, physics, games, models, strings."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.random import Generator

from benchmarks.programs.program import Arrays, Program, floats

__all__ = ["PROGRAMS"]


def _bytes(*shape: int) -> Any:
    return lambda rng: [rng.integers(0, 256, shape, "uint8")]


def _many(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: [rng.standard_normal(shape, "float32") for shape in shapes]


def _heat(p: Any) -> Any:
    u = p.copy()
    for _ in range(20):
        v = u.copy()
        v[1:-1] = u[1:-1] + np.float32(0.2) * (u[:-2] - np.float32(2) * u[1:-1] + u[2:])
        u = v
    return u


def _wave(u: Any, v: Any) -> Any:
    lap = np.roll(u, 1) + np.roll(u, -1) - np.float32(2) * u
    return np.float32(2) * u - v + np.float32(0.25) * lap


def _equalise(p: Any) -> Any:
    sums = np.cumsum(np.bincount(p.ravel(), minlength=256))
    return ((sums[p] * 255) // p.size).astype("uint8")


def _centres(x: Any, c: Any) -> Any:
    near = np.argmin(((x[:, None] - c[None]) ** 2).sum(2), 1)
    sums = np.zeros_like(c)
    np.add.at(sums, near, x)
    return sums


def _alignment(a: Any, b: Any) -> Any:
    d = np.zeros((65, 65), "int32")
    d[0] = d[:, 0] = -np.arange(65)
    for i in range(64):
        for j in range(64):
            match = 1 if a[i] == b[j] else -1
            d[i + 1, j + 1] = max(d[i, j] + match, d[i, j + 1] - 1, d[i + 1, j] - 1)
    return d


def _zero_padded(p: Any, w: Any) -> Any:
    q = np.pad(p, 1)
    h, n = p.shape
    return sum(w[a, b] * q[a : a + h, b : b + n] for a in range(3) for b in range(3))


def _repeated(p: Any) -> Any:
    q = np.pad(p, 1, "edge")
    h, n = p.shape
    return sum(q[a : a + h, b : b + n] for a in range(3) for b in range(3)) / np.float32(9)


def _dilated(p: Any) -> Any:
    q = np.pad(p, 1)
    h, n = p.shape
    return np.max([q[a : a + h, b : b + n] for a in range(3) for b in range(3)], axis=0)


def _blend(a: Any, b: Any) -> Any:
    alpha = b[..., 3:].astype("int32")
    mixed = b[..., :3].astype("int32") * alpha + a[..., :3].astype("int32") * (255 - alpha)
    return (mixed // 255).astype("uint8")


def _random_walk(seed: Any) -> Any:
    hits = np.zeros(len(seed), "int32")
    state = seed.copy()
    for _ in range(32):
        state = state * np.uint32(1664525) + np.uint32(1013904223)
        x = (state >> np.uint32(16)).astype("int32") - 32768
        state = state * np.uint32(1664525) + np.uint32(1013904223)
        y = (state >> np.uint32(16)).astype("int32") - 32768
        hits += (x // 2) * (x // 2) + (y // 2) * (y // 2) < 268435456
    return hits


def _rotate(q: Any, v: Any) -> Any:
    t = np.float32(2) * np.cross(q[:, 1:], v)
    return v + q[:, :1] * t + np.cross(q[:, 1:], t)


def _batch_norm(x: Any) -> Any:
    mean = x.mean((0, 2, 3), keepdims=True)
    var = x.var((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + np.float32(1e-5))


def _masked(x: Any, m: Any) -> Any:
    return (x * m).sum(1) / np.maximum(m.sum(1), 1)


def _hamming(a: Any, b: Any) -> Any:
    return (a != b).sum(1).astype("int32")


def _embedding(t: Any, i: Any) -> Any:
    return t[i].sum(1)


def _fractions(x: Any) -> Any:
    made = np.zeros((len(x), 8), "uint8")
    left = x.copy()
    for k in range(8):
        made[:, 7 - k] = left % 10
        left = left // 10
    return made


def _lattice(s: Any) -> Any:
    near = np.roll(s, 1, 0) + np.roll(s, -1, 0) + np.roll(s, 1, 1) + np.roll(s, -1, 1)
    return (s * near).astype("int32")


def _moving_max(x: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, 9, axis=1).max(2)


def _bounced(p: Any, v: Any) -> Any:
    new = p + v * np.float32(0.1)
    new = np.where(new < -1, -2 - new, new)
    return np.where(new > 1, 2 - new, new)


def _layer(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w.T + b, 0)


def _ids(n: int, high: int) -> Any:
    def draw(rng: Generator) -> Arrays:
        return [rng.standard_normal((high, 64), "float32"), rng.integers(0, high, (n, 12), "int32")]

    return draw


PROGRAMS: Final[dict[str, Program]] = {
    "heat in place": Program(
        'p: T.Buffer((4096,), "float32"), out: T.Buffer((4096,), "float32")',
        """
for i in range(4096):
    out[i] = p[i]
for t in range(20):
    before = out[0]
    for i in range(1, 4095):
        here = out[i]
        out[i] = here + T.float32(0.2) * (before - T.float32(2) * here + out[i + 1])
        before = here
""",
        floats(4096),
        _heat,
    ),
    "wave on a ring": Program(
        'u: T.Buffer((8192,), "float32"), v: T.Buffer((8192,), "float32"), '
        'out: T.Buffer((8192,), "float32")',
        """
for i in range(8192):
    lap = u[(i + 8191) % 8192] + u[(i + 1) % 8192] - T.float32(2) * u[i]
    out[i] = T.float32(2) * u[i] - v[i] + T.float32(0.25) * lap
""",
        _many((8192,), (8192,)),
        _wave,
    ),
    "histogram equalisation": Program(
        'p: T.Buffer((256, 256), "uint8"), out: T.Buffer((256, 256), "uint8")',
        """
counts = T.alloc_buffer((256,), "int32")
for k in range(256):
    counts[k] = 0
for y, x in T.grid(256, 256):
    counts[p[y, x]] += 1
for k in range(1, 256):
    counts[k] += counts[k - 1]
for y, x in T.grid(256, 256):
    out[y, x] = T.cast(counts[p[y, x]] * 255 // 65536, "uint8")
""",
        _bytes(256, 256),
        _equalise,
    ),
    "k-means sums": Program(
        'x: T.Buffer((2048, 8), "float32"), c: T.Buffer((16, 8), "float32"), '
        'out: T.Buffer((16, 8), "float32")',
        """
for k, d in T.grid(16, 8):
    out[k, d] = 0.0
for i in range(2048):
    best = T.int32(0)
    least = T.float32(1e30)
    for k in range(16):
        s = T.float32(0)
        for d in range(8):
            s += (x[i, d] - c[k, d]) * (x[i, d] - c[k, d])
        if s < least:
            least = s
            best = k
    for d in range(8):
        out[best, d] += x[i, d]
""",
        _many((2048, 8), (16, 8)),
        _centres,
        tolerance=1e-2,
    ),
    "Needleman-Wunsch": Program(
        'a: T.Buffer((64,), "uint8"), b: T.Buffer((64,), "uint8"), '
        'out: T.Buffer((65, 65), "int32")',
        """
for i in range(65):
    out[i, 0] = -i
    out[0, i] = -i
for i in range(64):
    for j in range(64):
        match = -1
        if a[i] == b[j]:
            match = 1
        best = out[i, j] + match
        best = T.max(best, out[i, j + 1] - 1)
        out[i + 1, j + 1] = T.max(best, out[i + 1, j] - 1)
""",
        lambda rng: [rng.integers(0, 4, 64, "uint8"), rng.integers(0, 4, 64, "uint8")],
        _alignment,
        direct=False,
    ),
    "convolution with ifs at borders": Program(
        'p: T.Buffer((240, 320), "float32"), w: T.Buffer((3, 3), "float32"), '
        'out: T.Buffer((240, 320), "float32")',
        """
for y in range(240):
    for x in range(320):
        s = T.float32(0)
        for a in range(3):
            for b in range(3):
                yy = y + a - 1
                xx = x + b - 1
                if yy >= 0 and yy < 240 and xx >= 0 and xx < 320:
                    s += w[a, b] * p[yy, xx]
        out[y, x] = s
""",
        _many((240, 320), (3, 3)),
        _zero_padded,
    ),
    "blur that repeats borders": Program(
        'p: T.Buffer((240, 320), "float32"), out: T.Buffer((240, 320), "float32")',
        """
for y, x in T.grid(240, 320):
    s = T.float32(0)
    for a, b in T.grid(3, 3):
        s += p[T.min(T.max(y + a - 1, 0), 239), T.min(T.max(x + b - 1, 0), 319)]
    out[y, x] = s / T.float32(9)
""",
        floats(240, 320),
        _repeated,
    ),
    "dilation of bytes": Program(
        'p: T.Buffer((240, 320), "uint8"), out: T.Buffer((240, 320), "uint8")',
        """
for y, x in T.grid(240, 320):
    top = T.uint8(0)
    for a, b in T.grid(3, 3):
        if y + a >= 1 and y + a <= 240 and x + b >= 1 and x + b <= 320:
            top = T.max(top, p[y + a - 1, x + b - 1])
    out[y, x] = top
""",
        _bytes(240, 320),
        _dilated,
    ),
    "threshold and count": Program(
        'p: T.Buffer((480, 640), "uint8"), out: T.Buffer((480,), "int32")',
        """
for y in range(480):
    n = T.int32(0)
    for x in range(640):
        if p[y, x] > 128:
            n += 1
    out[y] = n
""",
        _bytes(480, 640),
        lambda p: (p > 128).sum(1),
    ),
    "blending of pixels": Program(
        'a: T.Buffer((160, 200, 4), "uint8"), b: T.Buffer((160, 200, 4), "uint8"), '
        'out: T.Buffer((160, 200, 3), "uint8")',
        """
for y, x in T.grid(160, 200):
    alpha = T.cast(b[y, x, 3], "int32")
    for c in range(3):
        mixed = T.cast(b[y, x, c], "int32") * alpha + T.cast(a[y, x, c], "int32") * (255 - alpha)
        out[y, x, c] = T.cast(mixed // 255, "uint8")
""",
        lambda rng: [rng.integers(0, 256, (160, 200, 4), "uint8") for _ in range(2)],
        _blend,
    ),
    "half the size": Program(
        'p: T.Buffer((480, 640), "uint8"), out: T.Buffer((240, 320), "uint8")',
        """
for y, x in T.grid(240, 320):
    s = T.int32(2)
    for a, b in T.grid(2, 2):
        s += T.cast(p[2 * y + a, 2 * x + b], "int32")
    out[y, x] = T.cast(s // 4, "uint8")
""",
        _bytes(480, 640),
        lambda p: ((p.astype("int32").reshape(240, 2, 320, 2).sum((1, 3)) + 2) // 4).astype(
            "uint8"
        ),
    ),
    "Monte Carlo by LCG": Program(
        'seed: T.Buffer((4096,), "uint32"), out: T.Buffer((4096,), "int32")',
        """
for i in range(4096):
    state = seed[i]
    hits = T.int32(0)
    for k in range(32):
        state = state * T.uint32(1664525) + T.uint32(1013904223)
        x = T.cast(state >> T.uint32(16), "int32") - 32768
        state = state * T.uint32(1664525) + T.uint32(1013904223)
        y = T.cast(state >> T.uint32(16), "int32") - 32768
        if (x // 2) * (x // 2) + (y // 2) * (y // 2) < 268435456:
            hits += 1
    out[i] = hits
""",
        lambda rng: [rng.integers(0, 1 << 32, 4096, "uint32")],
        _random_walk,
    ),
    "rotation by quaternions": Program(
        'q: T.Buffer((8192, 4), "float32"), v: T.Buffer((8192, 3), "float32"), '
        'out: T.Buffer((8192, 3), "float32")',
        """
for i in range(8192):
    tx = T.float32(2) * (q[i, 2] * v[i, 2] - q[i, 3] * v[i, 1])
    ty = T.float32(2) * (q[i, 3] * v[i, 0] - q[i, 1] * v[i, 2])
    tz = T.float32(2) * (q[i, 1] * v[i, 1] - q[i, 2] * v[i, 0])
    out[i, 0] = v[i, 0] + q[i, 0] * tx + (q[i, 2] * tz - q[i, 3] * ty)
    out[i, 1] = v[i, 1] + q[i, 0] * ty + (q[i, 3] * tx - q[i, 1] * tz)
    out[i, 2] = v[i, 2] + q[i, 0] * tz + (q[i, 1] * ty - q[i, 2] * tx)
""",
        _many((8192, 4), (8192, 3)),
        _rotate,
        tolerance=1e-3,
    ),
    "batch norm by hand": Program(
        'x: T.Buffer((8, 16, 24, 24), "float32"), out: T.Buffer((8, 16, 24, 24), "float32")',
        """
for c in range(16):
    s = T.float32(0)
    for n, h, w in T.grid(8, 24, 24):
        s += x[n, c, h, w]
    mean = s / T.float32(4608)
    v = T.float32(0)
    for n, h, w in T.grid(8, 24, 24):
        v += (x[n, c, h, w] - mean) * (x[n, c, h, w] - mean)
    scale = T.float32(1) / T.sqrt(v / T.float32(4608) + T.float32(1e-5))
    for n, h, w in T.grid(8, 24, 24):
        out[n, c, h, w] = (x[n, c, h, w] - mean) * scale
""",
        floats(8, 16, 24, 24),
        _batch_norm,
        tolerance=1e-3,
    ),
    "masked mean": Program(
        'x: T.Buffer((512, 256), "float32"), m: T.Buffer((512, 256), "int8"), '
        'out: T.Buffer((512,), "float32")',
        """
for i in range(512):
    s = T.float32(0)
    n = T.int32(0)
    for j in range(256):
        if m[i, j] != 0:
            s += x[i, j]
            n += 1
    out[i] = s / T.cast(T.max(n, 1), "float32")
""",
        lambda rng: [
            rng.standard_normal((512, 256), "float32"),
            rng.integers(0, 2, (512, 256), "int8"),
        ],
        _masked,
    ),
    "embedding sum": Program(
        't: T.Buffer((1000, 64), "float32"), i: T.Buffer((256, 12), "int32"), '
        'out: T.Buffer((256, 64), "float32")',
        """
for b, d in T.grid(256, 64):
    s = T.float32(0)
    for k in range(12):
        s += t[i[b, k], d]
    out[b, d] = s
""",
        _ids(256, 1000),
        _embedding,
    ),
    "Hamming distance of strings": Program(
        'a: T.Buffer((512, 128), "uint8"), b: T.Buffer((512, 128), "uint8"), '
        'out: T.Buffer((512,), "int32")',
        """
for i in range(512):
    n = T.int32(0)
    for j in range(128):
        if a[i, j] != b[i, j]:
            n += 1
    out[i] = n
""",
        lambda rng: [rng.integers(97, 100, (512, 128), "uint8") for _ in range(2)],
        _hamming,
    ),
    "decimal digits": Program(
        'x: T.Buffer((8192,), "uint32"), out: T.Buffer((8192, 8), "uint8")',
        """
for i in range(8192):
    left = x[i]
    for k in range(8):
        out[i, 7 - k] = T.cast(left % T.uint32(10), "uint8")
        left = left // T.uint32(10)
""",
        lambda rng: [rng.integers(0, 10**8, 8192, "uint32")],
        _fractions,
    ),
    "Ising energies": Program(
        's: T.Buffer((128, 128), "int8"), out: T.Buffer((128, 128), "int32")',
        """
for y, x in T.grid(128, 128):
    near = T.int32(0)
    near += T.cast(s[(y + 127) % 128, x], "int32") + T.cast(s[(y + 1) % 128, x], "int32")
    near += T.cast(s[y, (x + 127) % 128], "int32") + T.cast(s[y, (x + 1) % 128], "int32")
    out[y, x] = near * T.cast(s[y, x], "int32")
""",
        lambda rng: [(rng.integers(0, 2, (128, 128), "int8") * 2 - 1).astype("int8")],
        _lattice,
    ),
    "moving maximum": Program(
        'x: T.Buffer((64, 1032), "float32"), out: T.Buffer((64, 1024), "float32")',
        """
for i, j in T.grid(64, 1024):
    top = x[i, j]
    for k in range(1, 9):
        top = T.max(top, x[i, j + k])
    out[i, j] = top
""",
        floats(64, 1032),
        _moving_max,
    ),
    "layer of a small net": Program(
        'x: T.Buffer((256, 20), "float32"), w: T.Buffer((10, 20), "float32"), '
        'b: T.Buffer((10,), "float32"), out: T.Buffer((256, 10), "float32")',
        """
for i in range(256):
    for o in range(10):
        s = b[o]
        for k in range(20):
            s += x[i, k] * w[o, k]
        if s < T.float32(0):
            s = T.float32(0)
        out[i, o] = s
""",
        _many((256, 20), (10, 20), (10,)),
        _layer,
    ),
    "positions of particles": Program(
        'p: T.Buffer((8192, 3), "float32"), v: T.Buffer((8192, 3), "float32"), '
        'out: T.Buffer((8192, 3), "float32")',
        """
for i in range(8192):
    for d in range(3):
        new = p[i, d] + v[i, d] * T.float32(0.1)
        if new < T.float32(-1):
            new = T.float32(-2) - new
        if new > T.float32(1):
            new = T.float32(2) - new
        out[i, d] = new
""",
        _many((8192, 3), (8192, 3)),
        _bounced,
        direct=False,
        tolerance=1e-3,
    ),
    "Horner with an array": Program(
        'c: T.Buffer((8,), "float32"), x: T.Buffer((32768,), "float32"), '
        'out: T.Buffer((32768,), "float32")',
        """
for i in range(32768):
    s = c[0]
    for k in range(1, 8):
        s = s * x[i] + c[k]
    out[i] = s
""",
        _many((8,), (32768,)),
        np.polyval,
        tolerance=1e-1,
    ),
    "greatest of each row and where": Program(
        'x: T.Buffer((512, 200), "float32"), out: T.Buffer((512,), "int32")',
        """
for i in range(512):
    best = T.int32(0)
    for j in range(1, 200):
        if x[i, j] > x[i, best]:
            best = j
    out[i] = best
""",
        floats(512, 200),
        lambda x: np.argmax(x, 1),
    ),
    "total variation": Program(
        'p: T.Buffer((257, 257), "float32"), out: T.Buffer((256,), "float32")',
        """
for y in range(256):
    s = T.float32(0)
    for x in range(256):
        s += T.abs(p[y + 1, x] - p[y, x]) + T.abs(p[y, x + 1] - p[y, x])
    out[y] = s
""",
        floats(257, 257),
        lambda p: (np.abs(p[1:, :-1] - p[:-1, :-1]) + np.abs(p[:-1, 1:] - p[:-1, :-1])).sum(1),
        tolerance=1e-2,
    ),
    "upsampling": Program(
        'p: T.Buffer((120, 160), "float32"), out: T.Buffer((240, 320), "float32")',
        """
for y, x in T.grid(240, 320):
    out[y, x] = p[y // 2, x // 2]
""",
        floats(120, 160),
        lambda p: p.repeat(2, 0).repeat(2, 1),
    ),
    "pooling that keeps the size": Program(
        'p: T.Buffer((128, 128), "float32"), out: T.Buffer((128, 128), "float32")',
        """
for y, x in T.grid(128, 128):
    s = T.float32(0)
    n = T.int32(0)
    for a, b in T.grid(3, 3):
        if y + a >= 1 and y + a < 129 and x + b >= 1 and x + b < 129:
            s += p[y + a - 1, x + b - 1]
            n += 1
    out[y, x] = s / T.cast(n, "float32")
""",
        floats(128, 128),
        lambda p: (
            _zero_padded(p, np.ones((3, 3), "float32"))
            / _zero_padded(np.ones_like(p), np.ones((3, 3), "float32"))
        ),
    ),
    "key of XOR": Program(
        'x: T.Buffer((65536,), "uint8"), k: T.Buffer((16,), "uint8"), '
        'out: T.Buffer((65536,), "uint8")',
        """
for i in range(65536):
    out[i] = x[i] ^ k[i % 16]
""",
        lambda rng: [rng.integers(0, 256, 65536, "uint8"), rng.integers(0, 256, 16, "uint8")],
        lambda x, k: (x.reshape(-1, 16) ^ k).ravel(),
    ),
    "chessboard": Program(
        'out: T.Buffer((512, 512), "uint8")',
        """
for y, x in T.grid(512, 512):
    if (y // 8 + x // 8) % 2 == 0:
        out[y, x] = T.uint8(255)
    else:
        out[y, x] = T.uint8(0)
""",
        lambda rng: [],
        lambda: np.where(
            (np.arange(512)[:, None] // 8 + np.arange(512) // 8) % 2 == 0, 255, 0
        ).astype("uint8"),
    ),
    "distance to the nearest point": Program(
        'p: T.Buffer((128, 2), "float32"), out: T.Buffer((64, 64), "float32")',
        """
for y, x in T.grid(64, 64):
    least = T.float32(1e30)
    for k in range(128):
        dy = T.cast(y, "float32") - p[k, 0]
        dx = T.cast(x, "float32") - p[k, 1]
        least = T.min(least, dy * dy + dx * dx)
    out[y, x] = T.sqrt(least)
""",
        lambda rng: [rng.uniform(0, 64, (128, 2)).astype("float32")],
        lambda p: np.sqrt(
            np.min(
                (np.arange(64, dtype="float32")[:, None, None] - p[:, 0]) ** 2
                + (np.arange(64, dtype="float32")[None, :, None] - p[:, 1]) ** 2,
                2,
            )
        ),
    ),
}
