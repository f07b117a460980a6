"""Programs along rows and sequences: scans, filters, searches, norms, hashes, quantisation."""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from benchmarks.programs.program import Arrays, Program, floats

__all__ = ["PROGRAMS"]


def _fir(x: Any, h: Any) -> Any:
    return np.convolve(x, h[::-1], "valid")


def _iir(x: Any) -> Any:
    y = np.zeros(len(x), "float64")
    for i in range(len(x)):
        y[i] = 0.2 * x[i] + (0.8 * y[i - 1] if i else 0)
    return y.astype("float32")


def _biquads(x: Any) -> Any:
    y = np.zeros(x.shape, "float64")
    y[:, :2] = x[:, :2]
    for t in range(2, x.shape[1]):
        y[:, t] = 0.3 * x[:, t] + 0.2 * x[:, t - 1] + 0.1 * x[:, t - 2]
        y[:, t] += 0.3 * y[:, t - 1] - 0.1 * y[:, t - 2]
    return y.astype("float32")


def _rolling(x: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, 16, axis=1).mean(axis=2)


def _fft(re: Any, im: Any) -> Any:
    a: Any = re + 1j * im
    half = a.shape[1] // 2
    k = np.arange(half, dtype="float32")
    w = np.exp(-2j * np.pi * k / a.shape[1])
    b = a[:, half:] * w
    out: Any = np.concatenate([a[:, :half] + b, a[:, :half] - b], axis=1)
    return np.stack([out.real, out.imag], axis=2).astype("float32")


def _rope(x: Any, c: Any, s: Any) -> Any:
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    out[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
    return out


def _rope_inputs(rng: Generator) -> Arrays:
    a = rng.random((256, 32), "float32")
    return [rng.standard_normal((256, 8, 64), "float32"), np.cos(a), np.sin(a)]


def _split(x: Any, c: Any, s: Any) -> Any:
    return _rope(x, c[:, None], s[:, None])


def _complex(a: Any, b: Any) -> Any:
    return (a.view("complex64") * b.view("complex64")).view("float32")


def _pairs(*shape: int) -> Any:
    return lambda rng: [rng.standard_normal(shape, "float32") for _ in range(2)]


def _pack(x: Any) -> Any:
    return np.packbits(x, bitorder="little", axis=1)


def _topk(x: Any) -> Any:
    return -np.sort(-x, axis=1)[:, :8]


def _levenshtein(a: Any, b: Any) -> Any:
    row = np.arange(len(b) + 1)
    for i in range(len(a)):
        new = row.copy()
        new[0] = i + 1
        for j in range(len(b)):
            new[j + 1] = min(row[j + 1] + 1, new[j] + 1, row[j] + (a[i] != b[j]))
        row = new
    return row.astype("int32")


def _hash(x: Any) -> Any:
    h = x.astype("uint32")
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B & 0x7FFFFFFF)
    return h ^ (h >> np.uint32(16))


def _dropout(x: Any) -> Any:
    i = np.arange(x.size, dtype="uint32").reshape(x.shape)
    h = (i ^ (i >> np.uint32(16))) * np.uint32(0x7FEB352D)
    h = h ^ (h >> np.uint32(15))
    return np.where((h & np.uint32(255)) >= 26, x * np.float32(1.25), np.float32(0))


def _quantise(x: Any) -> Any:
    top = np.abs(x).max(axis=1, keepdims=True)
    return np.rint(x * (np.float32(127) / top)).astype("int8")


def _nibbles(q: Any, s: Any) -> Any:
    low, high = (q & 15).astype("float32") - 8, (q >> 4).astype("float32") - 8
    both = np.stack([low, high], axis=2).reshape(q.shape[0], -1)
    return (both.reshape(q.shape[0], -1, 32) * s[:, :, None]).reshape(both.shape)


def _fnv(x: Any) -> Any:
    h = np.full(len(x), 2166136261, "uint32")
    for c in x.T:
        h = (h ^ c.astype("uint32")) * np.uint32(16777619)
    return h


def _crc_table() -> Any:
    table = np.arange(256, dtype="uint32")
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table.astype("uint32")


def _crc_inputs(rng: Generator) -> Arrays:
    return [_crc_table(), rng.integers(0, 256, 16384, "uint8")]


def _haversine(a: Any, b: Any) -> Any:
    p, q = a[:, 0], b[:, 0]
    d = np.sin((q - p) / 2) ** 2
    d = d + np.cos(p) * np.cos(q) * np.sin((b[:, 1] - a[:, 1]) / 2) ** 2
    return 2 * np.float32(6371) * np.arcsin(np.sqrt(d))


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _welford(x: Any) -> Any:
    m = x.mean(axis=1, keepdims=True)
    return (x - m) / np.sqrt(x.var(axis=1, keepdims=True) + np.float32(1e-5))


PROGRAMS: Final[dict[str, Program]] = {
    "prefix sum": Program(
        'x: T.Buffer((65536,), "float32"), out: T.Buffer((65536,), "float32")',
        """
acc = T.float32(0)
for i in range(65536):
    acc += x[i]
    out[i] = acc
""",
        lambda rng: [rng.random(65536, "float32")],
        np.cumsum,
        tolerance=1e-2,
    ),
    "prefix sum in place": Program(
        'x: T.Buffer((65536,), "int32"), out: T.Buffer((65536,), "int32")',
        """
out[0] = x[0]
for i in range(1, 65536):
    out[i] = out[i - 1] + x[i]
""",
        lambda rng: [rng.integers(0, 9, 65536, "int32")],
        np.cumsum,
    ),
    "prefix sums of columns": Program(
        'x: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "float32")',
        """
for j in range(512):
    out[0, j] = x[0, j]
for i in range(1, 512):
    for j in range(512):
        out[i, j] = out[i - 1, j] + x[i, j]
""",
        floats(512, 512),
        lambda x: np.cumsum(x, axis=0),
        tolerance=1e-3,
    ),
    "cumulative maximum": Program(
        'x: T.Buffer((256, 1024), "float32"), out: T.Buffer((256, 1024), "float32")',
        """
for i in range(256):
    top = x[i, 0]
    for j in range(1024):
        top = T.max(top, x[i, j])
        out[i, j] = top
""",
        floats(256, 1024),
        lambda x: np.maximum.accumulate(x, axis=1),
    ),
    "differences": Program(
        'x: T.Buffer((256, 1025), "float32"), out: T.Buffer((256, 1024), "float32")',
        """
for i, j in T.grid(256, 1024):
    out[i, j] = x[i, j + 1] - x[i, j]
""",
        floats(256, 1025),
        lambda x: np.diff(x, axis=1),
    ),
    "FIR": Program(
        'x: T.Buffer((65567,), "float32"), h: T.Buffer((32,), "float32"), '
        'out: T.Buffer((65536,), "float32")',
        """
for i in range(65536):
    acc = T.float32(0)
    for k in range(32):
        acc += x[i + k] * h[k]
    out[i] = acc
""",
        lambda rng: [rng.standard_normal(65567, "float32"), rng.standard_normal(32, "float32")],
        _fir,
        tolerance=1e-3,
    ),
    "FIR, backwards": Program(
        'x: T.Buffer((65567,), "float32"), h: T.Buffer((32,), "float32"), '
        'out: T.Buffer((65536,), "float32")',
        """
for i in range(65536):
    out[i] = 0.0
    for k in range(32):
        out[i] += x[i + 31 - k] * h[k]
""",
        lambda rng: [rng.standard_normal(65567, "float32"), rng.standard_normal(32, "float32")],
        lambda x, h: np.convolve(x, h, "valid"),
        tolerance=1e-3,
    ),
    "IIR": Program(
        'x: T.Buffer((65536,), "float32"), out: T.Buffer((65536,), "float32")',
        """
last = T.float32(0)
for i in range(65536):
    last = T.float32(0.2) * x[i] + T.float32(0.8) * last
    out[i] = last
""",
        floats(65536),
        _iir,
        direct=False,
    ),
    "biquads of channels": Program(
        'x: T.Buffer((64, 1024), "float32"), out: T.Buffer((64, 1024), "float32")',
        """
for c in range(64):
    out[c, 0] = x[c, 0]
    out[c, 1] = x[c, 1]
    for t in range(2, 1024):
        out[c, t] = (T.float32(0.3) * x[c, t] + T.float32(0.2) * x[c, t - 1]
            + T.float32(0.1) * x[c, t - 2] + T.float32(0.3) * out[c, t - 1]
            - T.float32(0.1) * out[c, t - 2])
""",
        floats(64, 1024),
        _biquads,
        direct=False,
    ),
    "rolling mean": Program(
        'x: T.Buffer((64, 1039), "float32"), out: T.Buffer((64, 1024), "float32")',
        """
for i, j in T.grid(64, 1024):
    acc = T.float32(0)
    for k in range(16):
        acc += x[i, j + k]
    out[i, j] = acc / T.float32(16)
""",
        floats(64, 1039),
        _rolling,
    ),
    "rolling mean by differences": Program(
        'x: T.Buffer((64, 1039), "float32"), out: T.Buffer((64, 1024), "float32")',
        """
for i in range(64):
    acc = T.float32(0)
    for k in range(16):
        acc += x[i, k]
    out[i, 0] = acc / T.float32(16)
    for j in range(1, 1024):
        acc += x[i, j + 15] - x[i, j - 1]
        out[i, j] = acc / T.float32(16)
""",
        floats(64, 1039),
        _rolling,
    ),
    "FFT butterfly": Program(
        're: T.Buffer((64, 512), "float32"), im: T.Buffer((64, 512), "float32"), '
        'out: T.Buffer((64, 512, 2), "float32")',
        """
for b, k in T.grid(64, 256):
    angle = T.float32(-6.2831853) * T.cast(k, "float32") / T.float32(512)
    wr = T.cos(angle)
    wi = T.sin(angle)
    tr = re[b, k + 256] * wr - im[b, k + 256] * wi
    ti = re[b, k + 256] * wi + im[b, k + 256] * wr
    out[b, k, 0] = re[b, k] + tr
    out[b, k, 1] = im[b, k] + ti
    out[b, k + 256, 0] = re[b, k] - tr
    out[b, k + 256, 1] = im[b, k] - ti
""",
        _pairs(64, 512),
        _fft,
    ),
    "RoPE on adjacent pairs": Program(
        'x: T.Buffer((256, 8, 64), "float32"), c: T.Buffer((256, 32), "float32"), '
        's: T.Buffer((256, 32), "float32"), out: T.Buffer((256, 8, 64), "float32")',
        """
for t, h, k in T.grid(256, 8, 32):
    a = x[t, h, 2 * k]
    b = x[t, h, 2 * k + 1]
    out[t, h, 2 * k] = a * c[t, k] - b * s[t, k]
    out[t, h, 2 * k + 1] = a * s[t, k] + b * c[t, k]
""",
        _rope_inputs,
        _split,
    ),
    "RoPE on halves": Program(
        'x: T.Buffer((256, 8, 64), "float32"), c: T.Buffer((256, 32), "float32"), '
        's: T.Buffer((256, 32), "float32"), out: T.Buffer((256, 8, 64), "float32")',
        """
for t, h, k in T.grid(256, 8, 32):
    out[t, h, k] = x[t, h, k] * c[t, k] - x[t, h, k + 32] * s[t, k]
    out[t, h, k + 32] = x[t, h, k] * s[t, k] + x[t, h, k + 32] * c[t, k]
""",
        _rope_inputs,
        lambda x, c, s: np.concatenate(
            [
                x[..., :32] * c[:, None] - x[..., 32:] * s[:, None],
                x[..., :32] * s[:, None] + x[..., 32:] * c[:, None],
            ],
            axis=2,
        ),
    ),
    "RoPE by parity": Program(
        'x: T.Buffer((256, 8, 64), "float32"), c: T.Buffer((256, 32), "float32"), '
        's: T.Buffer((256, 32), "float32"), out: T.Buffer((256, 8, 64), "float32")',
        """
for t, h, d in T.grid(256, 8, 64):
    other = T.if_then_else(d % 2 == 0, -x[t, h, d + 1], x[t, h, d - 1])
    out[t, h, d] = x[t, h, d] * c[t, d // 2] + other * s[t, d // 2]
""",
        _rope_inputs,
        _split,
    ),
    "complex products": Program(
        'a: T.Buffer((65536, 2), "float32"), b: T.Buffer((65536, 2), "float32"), '
        'out: T.Buffer((65536, 2), "float32")',
        """
for i in range(65536):
    out[i, 0] = a[i, 0] * b[i, 0] - a[i, 1] * b[i, 1]
    out[i, 1] = a[i, 0] * b[i, 1] + a[i, 1] * b[i, 0]
""",
        _pairs(65536, 2),
        _complex,
    ),
    "complex magnitudes": Program(
        'a: T.Buffer((65536, 2), "float32"), out: T.Buffer((65536,), "float32")',
        """
for i in range(65536):
    out[i] = T.sqrt(a[i, 0] * a[i, 0] + a[i, 1] * a[i, 1])
""",
        floats(65536, 2),
        lambda a: np.abs(a.view("complex64")[:, 0]),
    ),
    "bit packing": Program(
        'x: T.Buffer((512, 1024), "uint8"), out: T.Buffer((512, 128), "uint8")',
        """
for i, j in T.grid(512, 128):
    acc = T.uint8(0)
    for k in range(8):
        acc = acc | (x[i, j * 8 + k] << T.cast(k, "uint8"))
    out[i, j] = acc
""",
        lambda rng: [rng.integers(0, 2, (512, 1024), "uint8")],
        _pack,
    ),
    "bit unpacking": Program(
        'x: T.Buffer((512, 128), "uint8"), out: T.Buffer((512, 1024), "uint8")',
        """
for i, j in T.grid(512, 1024):
    out[i, j] = (x[i, j // 8] >> T.cast(j % 8, "uint8")) & T.uint8(1)
""",
        lambda rng: [rng.integers(0, 256, (512, 128), "uint8")],
        lambda x: np.unpackbits(x, axis=1, bitorder="little"),
    ),
    "population count": Program(
        'x: T.Buffer((65536,), "uint32"), out: T.Buffer((65536,), "int32")',
        """
for i in range(65536):
    n = T.int32(0)
    for k in range(32):
        n += T.cast((x[i] >> T.cast(k, "uint32")) & T.uint32(1), "int32")
    out[i] = n
""",
        lambda rng: [rng.integers(0, 1 << 32, 65536, "uint32")],
        np.bitwise_count,
    ),
    "top-k by selection": Program(
        'x: T.Buffer((64, 512), "float32"), out: T.Buffer((64, 8), "float32")',
        """
for i in range(64):
    for k in range(8):
        out[i, k] = T.float32(-1e30)
    for j in range(512):
        v = x[i, j]
        if v > out[i, 7]:
            out[i, 7] = v
            for k in range(7):
                if out[i, 7 - k] > out[i, 6 - k]:
                    t = out[i, 7 - k]
                    out[i, 7 - k] = out[i, 6 - k]
                    out[i, 6 - k] = t
""",
        floats(64, 512),
        _topk,
    ),
    "argmax of rows": Program(
        'x: T.Buffer((1024, 512), "float32"), out: T.Buffer((1024,), "int32")',
        """
for i in range(1024):
    top = x[i, 0]
    at = T.int32(0)
    for j in range(512):
        if x[i, j] > top:
            top = x[i, j]
            at = j
    out[i] = at
""",
        floats(1024, 512),
        lambda x: x.argmax(axis=1),
    ),
    "argmin of columns": Program(
        'x: T.Buffer((512, 512), "float32"), out: T.Buffer((512,), "int32")',
        """
for j in range(512):
    low = x[0, j]
    at = T.int32(0)
    for i in range(512):
        if x[i, j] < low:
            low = x[i, j]
            at = i
    out[j] = at
""",
        floats(512, 512),
        lambda x: x.argmin(axis=0),
    ),
    "layer norm by Welford": Program(
        'x: T.Buffer((256, 768), "float32"), out: T.Buffer((256, 768), "float32")',
        """
for i in range(256):
    mean = T.float32(0)
    m2 = T.float32(0)
    for j in range(768):
        d = x[i, j] - mean
        mean += d / T.cast(j + 1, "float32")
        m2 += d * (x[i, j] - mean)
    scale = T.rsqrt(m2 / T.float32(768) + T.float32(1e-5))
    for j in range(768):
        out[i, j] = (x[i, j] - mean) * scale
""",
        floats(256, 768),
        _welford,
        tolerance=1e-3,
    ),
    "log-sum-exp": Program(
        'x: T.Buffer((512, 512), "float32"), out: T.Buffer((512,), "float32")',
        """
for i in range(512):
    top = x[i, 0]
    for j in range(512):
        top = T.max(top, x[i, j])
    total = T.float32(0)
    for j in range(512):
        total += T.exp(x[i, j] - top)
    out[i] = top + T.log(total)
""",
        floats(512, 512),
        lambda x: np.logaddexp.reduce(x, axis=1),
        tolerance=1e-3,
    ),
    "softmax, online": Program(
        'x: T.Buffer((256, 512), "float32"), out: T.Buffer((256, 512), "float32")',
        """
for i in range(256):
    top = T.float32(-1e30)
    total = T.float32(0)
    for j in range(512):
        new = T.max(top, x[i, j])
        total = total * T.exp(top - new) + T.exp(x[i, j] - new)
        top = new
    for j in range(512):
        out[i, j] = T.exp(x[i, j] - top) / total
""",
        floats(256, 512),
        _softmax,
    ),
    "dropout by hash": Program(
        'x: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "float32")',
        """
for i, j in T.grid(512, 512):
    n = T.cast(i * 512 + j, "uint32")
    h = (n ^ (n >> T.uint32(16))) * T.uint32(0x7FEB352D)
    g = h ^ (h >> T.uint32(15))
    out[i, j] = T.Select((g & T.uint32(255)) >= T.uint32(26), x[i, j] * T.float32(1.25),
        T.float32(0))
""",
        floats(512, 512),
        _dropout,
    ),
    "quantise rows": Program(
        'x: T.Buffer((512, 512), "float32"), out: T.Buffer((512, 512), "int8")',
        """
for i in range(512):
    top = T.float32(0)
    for j in range(512):
        top = T.max(top, T.abs(x[i, j]))
    scale = T.float32(127) / top
    for j in range(512):
        out[i, j] = T.cast(T.round(x[i, j] * scale), "int8")
""",
        floats(512, 512),
        _quantise,
        tolerance=1,
    ),
    "dequantise 4-bit": Program(
        'q: T.Buffer((256, 256), "uint8"), s: T.Buffer((256, 16), "float32"), '
        'out: T.Buffer((256, 512), "float32")',
        """
for i, j in T.grid(256, 256):
    v = q[i, j]
    out[i, 2 * j] = (T.cast(v & T.uint8(15), "float32") - T.float32(8)) * s[i, j // 16]
    out[i, 2 * j + 1] = (T.cast(v >> T.uint8(4), "float32") - T.float32(8)) * s[i, j // 16]
""",
        lambda rng: [rng.integers(0, 256, (256, 256), "uint8"), rng.random((256, 16), "float32")],
        _nibbles,
    ),
    "dequantise 4-bit by parity": Program(
        'q: T.Buffer((256, 256), "uint8"), s: T.Buffer((256, 16), "float32"), '
        'out: T.Buffer((256, 512), "float32")',
        """
for i, j in T.grid(256, 512):
    v = (q[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15)
    out[i, j] = (T.cast(v, "float32") - T.float32(8)) * s[i, j // 32]
""",
        lambda rng: [rng.integers(0, 256, (256, 256), "uint8"), rng.random((256, 16), "float32")],
        _nibbles,
    ),
    "Haversine": Program(
        'a: T.Buffer((16384, 2), "float32"), b: T.Buffer((16384, 2), "float32"), '
        'out: T.Buffer((16384,), "float32")',
        """
for i in range(16384):
    dp = T.sin((b[i, 0] - a[i, 0]) / T.float32(2))
    dl = T.sin((b[i, 1] - a[i, 1]) / T.float32(2))
    h = dp * dp + T.cos(a[i, 0]) * T.cos(b[i, 0]) * (dl * dl)
    out[i] = T.float32(12742) * T.asin(T.sqrt(h))
""",
        lambda rng: [rng.random((16384, 2), "float32") for _ in range(2)],
        _haversine,
        tolerance=1,
    ),
    "polynomial": Program(
        'c: T.Buffer((12,), "float32"), x: T.Buffer((65536,), "float32"), '
        'out: T.Buffer((65536,), "float32")',
        """
for i in range(65536):
    acc = T.float32(0)
    for k in range(12):
        acc = acc * x[i] + c[k]
    out[i] = acc
""",
        lambda rng: [rng.standard_normal(12, "float32"), rng.random(65536, "float32")],
        np.polyval,
    ),
    "CRC": Program(
        'table: T.Buffer((256,), "uint32"), x: T.Buffer((16384,), "uint8"), '
        'out: T.Buffer((1,), "uint32")',
        """
crc = T.uint32(0xFFFFFFFF)
for i in range(16384):
    crc = (crc >> T.uint32(8)) ^ table[(crc ^ T.cast(x[i], "uint32")) & T.uint32(255)]
out[0] = crc ^ T.uint32(0xFFFFFFFF)
""",
        _crc_inputs,
        lambda table, x: np.array([zlib.crc32(x.tobytes())], "uint32"),
    ),
    "hash of words": Program(
        'x: T.Buffer((65536,), "uint32"), out: T.Buffer((65536,), "uint32")',
        """
for i in range(65536):
    h = x[i]
    h = (h ^ (h >> T.uint32(16))) * T.uint32(0x7FEB352D)
    h = (h ^ (h >> T.uint32(15))) * T.uint32(0x046CA68B)
    out[i] = h ^ (h >> T.uint32(16))
""",
        lambda rng: [rng.integers(0, 1 << 32, 65536, "uint32")],
        _hash,
    ),
    "FNV of rows": Program(
        'x: T.Buffer((1024, 64), "uint8"), out: T.Buffer((1024,), "uint32")',
        """
for i in range(1024):
    h = T.uint32(2166136261)
    for j in range(64):
        h = (h ^ T.cast(x[i, j], "uint32")) * T.uint32(16777619)
    out[i] = h
""",
        lambda rng: [rng.integers(0, 256, (1024, 64), "uint8")],
        _fnv,
    ),
    "Levenshtein": Program(
        'a: T.Buffer((256,), "uint8"), b: T.Buffer((256,), "uint8"), '
        'out: T.Buffer((257,), "int32")',
        """
for j in range(257):
    out[j] = j
for i in range(256):
    diag = out[0]
    out[0] = i + 1
    for j in range(256):
        up = out[j + 1]
        cost = T.Select(a[i] == b[j], 0, 1)
        out[j + 1] = T.min(T.min(up + 1, out[j] + 1), diag + cost)
        diag = up
""",
        lambda rng: [rng.integers(97, 101, 256, "uint8") for _ in range(2)],
        _levenshtein,
        direct=False,
    ),
    "bubble sort of rows": Program(
        'x: T.Buffer((512, 16), "int32"), out: T.Buffer((512, 16), "int32")',
        """
for i in range(512):
    for j in range(16):
        out[i, j] = x[i, j]
    for a in range(15):
        for b in range(15 - a):
            if out[i, b] > out[i, b + 1]:
                t = out[i, b]
                out[i, b] = out[i, b + 1]
                out[i, b + 1] = t
""",
        lambda rng: [rng.integers(0, 1000, (512, 16), "int32")],
        lambda x: np.sort(x, axis=1),
    ),
    "mean and variance of columns": Program(
        'x: T.Buffer((512, 256), "float32"), out: T.Buffer((2, 256), "float32")',
        """
for j in range(256):
    s = T.float32(0)
    q = T.float32(0)
    for i in range(512):
        s += x[i, j]
        q += x[i, j] * x[i, j]
    out[0, j] = s / T.float32(512)
    out[1, j] = q / T.float32(512) - (s / T.float32(512)) * (s / T.float32(512))
""",
        floats(512, 256),
        lambda x: np.stack([x.mean(0), x.var(0)]),
        tolerance=1e-3,
    ),
    "clip": Program(
        'x: T.Buffer((262144,), "float32"), out: T.Buffer((262144,), "float32")',
        """
for i in range(262144):
    if x[i] > T.float32(1):
        out[i] = 1.0
    else:
        if x[i] < T.float32(-1):
            out[i] = -1.0
        else:
            out[i] = x[i]
""",
        floats(262144),
        lambda x: np.clip(x, -1, 1),
    ),
    "compaction": Program(
        'x: T.Buffer((65536,), "float32"), out: T.Buffer((65536,), "float32")',
        """
n = T.int32(0)
for i in range(65536):
    out[i] = 0.0
for i in range(65536):
    if x[i] > T.float32(0):
        out[n] = x[i]
        n += 1
""",
        floats(65536),
        lambda x: np.pad(x[x > 0], (0, 65536 - (x > 0).sum())),
    ),
    "interleaved channels": Program(
        'a: T.Buffer((65536,), "float32"), b: T.Buffer((65536,), "float32"), '
        'out: T.Buffer((131072,), "float32")',
        """
for i in range(65536):
    out[2 * i] = a[i]
    out[2 * i + 1] = b[i]
""",
        _pairs(65536),
        lambda a, b: np.stack([a, b], axis=1).reshape(-1),
    ),
    "every second": Program(
        'x: T.Buffer((256, 1024), "float32"), out: T.Buffer((256, 512), "float32")',
        """
for i, j in T.grid(256, 512):
    out[i, j] = x[i, 2 * j]
""",
        floats(256, 1024),
        lambda x: x[:, ::2].copy(),
    ),
    "reversed": Program(
        'x: T.Buffer((262144,), "float32"), out: T.Buffer((262144,), "float32")',
        """
for i in range(262144):
    out[262143 - i] = x[i]
""",
        floats(262144),
        lambda x: x[::-1].copy(),
    ),
}
