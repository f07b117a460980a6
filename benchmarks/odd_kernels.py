"""Kernels in the plain form and in equivalent ones, for ``benchmarks.odd``."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["KINDS", "Kind"]


class Kind(NamedTuple):
    """A kernel: its arrays (the last is the result), the plain form, and the other ways."""

    arrays: str
    plain: str
    ways: dict[str, str]
    alike: bool = True
    """Whether all ways have the same result; else the plain form does a part of their work."""


def _cased(text: str, **swaps: tuple[str, str]) -> dict[str, str]:
    """Vary a text: each way replaces one piece of it."""
    made: dict[str, str] = {}
    for name, (old, new) in swaps.items():
        assert old in text, (name, old)
        made[name.replace("_", " ")] = text.replace(old, new)
    return made


_PRODUCT: Final = """
for i, j in T.grid(384, 384):
    acc = T.float32(0)
    for l in range(384):
        acc += p[i, l] * q[l, j]
    o[i, j] = T.max(acc + 1.0, 0.0)
"""
_PRODUCT_WAYS: Final = {
    **_cased(
        _PRODUCT,
        named_sum=(
            "    o[i, j] = T.max(acc + 1.0, 0.0)",
            "    z = acc + 1.0\n    o[i, j] = T.max(z, 0.0)",
        ),
        named_and_typed=(
            "    o[i, j] = T.max(acc + 1.0, 0.0)",
            "    z: T.float32 = acc + 1.0\n    r: T.float32 = T.max(z, 0.0)\n    o[i, j] = r",
        ),
        sum_assigned_again=(
            "    o[i, j] = T.max(acc + 1.0, 0.0)",
            "    acc = acc + 1.0\n    acc = T.max(acc, 0.0)\n    o[i, j] = acc",
        ),
        sum_assigned_if_negative=(
            "    o[i, j] = T.max(acc + 1.0, 0.0)",
            "    z = acc + 1.0\n    if z < 0.0:\n        z = T.float32(0)\n    o[i, j] = z",
        ),
        named_factor=(
            "        acc += p[i, l] * q[l, j]",
            "        u = p[i, l]\n        acc += u * q[l, j]",
        ),
        named_factors=(
            "        acc += p[i, l] * q[l, j]",
            "        u = p[i, l]\n        w = q[l, j]\n        t = u * w\n        acc += t",
        ),
        T_let=(
            "        acc += p[i, l] * q[l, j]",
            "        u: T.let[T.float32] = p[i, l]\n        acc += u * q[l, j]",
        ),
        T_LetStmt=(
            "        acc += p[i, l] * q[l, j]",
            "        with T.LetStmt(p[i, l]) as u:\n            acc += u * q[l, j]",
        ),
        T_bind=(
            "        acc += p[i, l] * q[l, j]",
            "        u = T.bind(p[i, l])\n        acc += u * q[l, j]",
        ),
        not_in_place=("acc += p[i, l] * q[l, j]", "acc = acc + p[i, l] * q[l, j]"),
        nested_ranges=(
            "for i, j in T.grid(384, 384):",
            "for i in range(384):\n  for j in range(384):",
        ),
        T_serial=(
            "for i, j in T.grid(384, 384):",
            "for i in T.serial(384):\n  for j in T.serial(0, 384):",
        ),
        parallel_rows=(
            "for i, j in T.grid(384, 384):",
            "for i in T.parallel(384):\n  for j in range(384):",
        ),
        vectorized_columns=(
            "for i, j in T.grid(384, 384):",
            "for i in range(384):\n  for j in T.vectorized(384):",
        ),
        unrolled_sum=("for l in range(384):", "for l in T.unroll(384):"),
        parallel_and_vectorized=(
            "for i, j in T.grid(384, 384):",
            "for i in T.parallel(384):\n  for j in T.vectorized(384):",
        ),
    ),
    "named index": """
for i, j in T.grid(384, 384):
    row = i
    acc = T.float32(0)
    for l in range(384):
        at = l
        acc += p[row, at] * q[at, j]
    o[row, j] = T.max(acc + 1.0, 0.0)
""",
    "buffer of one element": """
for i, j in T.grid(384, 384):
    acc = T.alloc_buffer((1,), "float32")
    acc[0] = 0.0
    for l in range(384):
        acc[0] += p[i, l] * q[l, j]
    z = acc[0] + 1.0
    o[i, j] = T.max(z, 0.0)
""",
    "buffer before the loops": """
acc = T.alloc_buffer((1,), "float32")
for i, j in T.grid(384, 384):
    acc[0] = 0.0
    for l in range(384):
        acc[0] += p[i, l] * q[l, j]
    z = acc[0] + 1.0
    o[i, j] = T.max(z, 0.0)
""",
    "into the result": """
for i, j in T.grid(384, 384):
    o[i, j] = 0.0
    for l in range(384):
        u = p[i, l]
        o[i, j] += u * q[l, j]
    o[i, j] = T.max(o[i, j] + 1.0, 0.0)
""",
    "sum in the middle": """
for i, j in T.grid(384, 384):
    o[i, j] = 0.0
for i, l in T.grid(384, 384):
    u = p[i, l]
    for j in range(384):
        o[i, j] += u * q[l, j]
for i, j in T.grid(384, 384):
    z = o[i, j] + 1.0
    o[i, j] = T.max(z, 0.0)
""",
    "sum outside, parallel rows": """
for i, j in T.grid(384, 384):
    o[i, j] = 0.0
for l in range(384):
    for i in T.parallel(384):
        for j in T.vectorized(384):
            o[i, j] = o[i, j] + p[i, l] * q[l, j]
for i, j in T.grid(384, 384):
    o[i, j] = T.max(o[i, j] + 1.0, 0.0)
""",
    "in a block": """
for i, j in T.grid(384, 384):
    with T.block("o"):
        vi, vj = T.axis.remap("SS", [i, j])
        acc = T.float32(0)
        for l in range(384):
            u = p[vi, l]
            acc += u * q[l, vj]
        z = acc + 1.0
        o[vi, vj] = T.max(z, 0.0)
""",
    "reducing block with names": """
for i, j, l in T.grid(384, 384, 384):
    with T.block("sum"):
        vi, vj, vl = T.axis.remap("SSR", [i, j, l])
        with T.init():
            o[vi, vj] = 0.0
        u = p[vi, vl]
        w = q[vl, vj]
        o[vi, vj] += u * w
for i, j in T.grid(384, 384):
    with T.block("end"):
        vi, vj = T.axis.remap("SS", [i, j])
        z = o[vi, vj] + 1.0
        o[vi, vj] = T.max(z, 0.0)
""",
    "reducing block, parallel rows": """
for i in T.parallel(384):
    for j, l in T.grid(384, 384):
        with T.block("sum"):
            vi, vj, vl = T.axis.remap("SSR", [i, j, l])
            with T.init():
                o[vi, vj] = 0.0
            o[vi, vj] += p[vi, vl] * q[vl, vj]
for i, j in T.grid(384, 384):
    with T.block("end"):
        vi, vj = T.axis.remap("SS", [i, j])
        o[vi, vj] = T.max(o[vi, vj] + 1.0, 0.0)
""",
}

_SOFTMAX: Final = """
for i in range(512):
    top = T.min_value("float32")
    for j in range(1000):
        top = T.max(top, x[i, j])
    total = T.float32(0)
    for j in range(1000):
        o[i, j] = T.exp(x[i, j] - top)
        total += o[i, j]
    for j in range(1000):
        o[i, j] = o[i, j] / total
"""
_SOFTMAX_WAYS: Final = {
    **_cased(
        _SOFTMAX,
        named_exponential=(
            "        o[i, j] = T.exp(x[i, j] - top)\n        total += o[i, j]",
            "        e = T.exp(x[i, j] - top)\n        o[i, j] = e\n        total += e",
        ),
        added_before_it_is_stored=(
            "        o[i, j] = T.exp(x[i, j] - top)\n        total += o[i, j]",
            (
                "        d = x[i, j] - top\n        e = T.exp(d)\n        total += e\n"
                "        o[i, j] = e"
            ),
        ),
        named_total=(
            "    for j in range(1000):\n        o[i, j] = o[i, j] / total",
            "    whole = total\n    for j in range(1000):\n        o[i, j] = o[i, j] / whole",
        ),
        named_element=(
            "        top = T.max(top, x[i, j])",
            "        v = x[i, j]\n        top = T.max(top, v)",
        ),
        if_greater=(
            "        top = T.max(top, x[i, j])",
            "        v = x[i, j]\n        if v > top:\n            top = v",
        ),
        parallel_rows=("for i in range(512)", "for i in T.parallel(512)"),
        vectorized_ends=(
            "for j in range(1000):\n        o[i, j] = o[i, j] / total",
            "for j in T.vectorized(1000):\n        o[i, j] = o[i, j] / total",
        ),
        buffers=(
            '    top = T.min_value("float32")',
            '    top = T.float32(0)\n    top = T.min_value("float32")',
        ),
    ),
    "names between loops": """
for i in range(512):
    m = T.alloc_buffer((1,), "float32")
    s = T.alloc_buffer((1,), "float32")
    m[0] = T.min_value("float32")
    for j in range(1000):
        m[0] = T.max(m[0], x[i, j])
    top = m[0]
    s[0] = 0.0
    for j in range(1000):
        e = T.exp(x[i, j] - top)
        o[i, j] = e
        s[0] += e
    total = s[0]
    for j in range(1000):
        o[i, j] = o[i, j] / total
""",
    "in a block": """
for i in range(512):
    with T.block("row"):
        vi = T.axis.spatial(512, i)
        top = T.min_value("float32")
        for j in range(1000):
            top = T.max(top, x[vi, j])
        total = T.float32(0)
        for j in range(1000):
            e = T.exp(x[vi, j] - top)
            o[vi, j] = e
            total += e
        for j in range(1000):
            o[vi, j] = o[vi, j] / total
""",
}

_NORM: Final = """
for i in range(512):
    total = T.float32(0)
    for j in range(768):
        total += x[i, j]
    squares = T.float32(0)
    for j in range(768):
        squares += (x[i, j] - total / 768.0) * (x[i, j] - total / 768.0)
    for j in range(768):
        o[i, j] = (x[i, j] - total / 768.0) * T.rsqrt(squares / 768.0 + 1e-5) * w[j] + b[j]
"""
_NORM_WAYS: Final = {
    "named mean": """
for i in range(512):
    total = T.float32(0)
    for j in range(768):
        total += x[i, j]
    mean = total / 768.0
    squares = T.float32(0)
    for j in range(768):
        d = x[i, j] - mean
        squares += d * d
    scale = T.rsqrt(squares / 768.0 + 1e-5)
    for j in range(768):
        o[i, j] = (x[i, j] - mean) * scale * w[j] + b[j]
""",
    "named everything": """
for i in range(512):
    total = T.float32(0)
    for j in range(768):
        v = x[i, j]
        total += v
    mean: T.float32 = total / 768.0
    squares = T.float32(0)
    for j in range(768):
        v = x[i, j]
        d: T.float32 = v - mean
        sq = d * d
        squares += sq
    var = squares / 768.0
    scale = T.rsqrt(var + 1e-5)
    for j in range(768):
        d = x[i, j] - mean
        n = d * scale
        g = n * w[j]
        r = g + b[j]
        o[i, j] = r
""",
    "sums assigned again": """
for i in range(512):
    mean = T.float32(0)
    for j in range(768):
        mean += x[i, j]
    mean = mean / 768.0
    scale = T.float32(0)
    for j in range(768):
        scale += (x[i, j] - mean) * (x[i, j] - mean)
    scale = T.rsqrt(scale / 768.0 + 1e-5)
    for j in range(768):
        o[i, j] = (x[i, j] - mean) * scale * w[j] + b[j]
""",
    "parallel rows": _NORM.replace("for i in range(512)", "for i in T.parallel(512)"),
    "parallel rows, named mean": """
for i in T.parallel(512):
    total = T.float32(0)
    for j in range(768):
        total += x[i, j]
    mean = total / 768.0
    squares = T.float32(0)
    for j in range(768):
        d = x[i, j] - mean
        squares += d * d
    scale = T.rsqrt(squares / 768.0 + 1e-5)
    for j in T.vectorized(768):
        o[i, j] = (x[i, j] - mean) * scale * w[j] + b[j]
""",
    "in a block": """
for i in range(512):
    with T.block("row"):
        vi = T.axis.spatial(512, i)
        total = T.float32(0)
        for j in range(768):
            total += x[vi, j]
        mean = total / 768.0
        squares = T.float32(0)
        for j in range(768):
            d = x[vi, j] - mean
            squares += d * d
        scale = T.rsqrt(squares / 768.0 + 1e-5)
        for j in range(768):
            o[vi, j] = (x[vi, j] - mean) * scale * w[j] + b[j]
""",
}

_BYTES: Final = """
for i, j in T.grid(256, 256):
    acc = T.int32(0)
    for l in range(256):
        acc += T.cast(p[i, l], "int32") * T.cast(q[l, j], "int32")
    o[i, j] = T.cast(T.max(T.min(T.round(T.cast(acc, "float32") * s[j]), 127.0), -128.0), "int8")
"""
_BYTES_WAYS: Final = {
    "named values": """
for i, j in T.grid(256, 256):
    acc = T.int32(0)
    for l in range(256):
        u = T.cast(p[i, l], "int32")
        w = T.cast(q[l, j], "int32")
        acc += u * w
    scaled = T.cast(acc, "float32") * s[j]
    r = T.round(scaled)
    low = T.min(r, 127.0)
    o[i, j] = T.cast(T.max(low, -128.0), "int8")
""",
    "assigned again": """
for i, j in T.grid(256, 256):
    acc = T.int32(0)
    for l in range(256):
        acc += T.cast(p[i, l], "int32") * T.cast(q[l, j], "int32")
    v = T.cast(acc, "float32") * s[j]
    v = T.round(v)
    v = T.min(v, 127.0)
    v = T.max(v, -128.0)
    o[i, j] = T.cast(v, "int8")
""",
    "clipped by ifs": """
for i, j in T.grid(256, 256):
    acc = T.int32(0)
    for l in range(256):
        acc += T.cast(p[i, l], "int32") * T.cast(q[l, j], "int32")
    v = T.round(T.cast(acc, "float32") * s[j])
    if v > 127.0:
        v = T.float32(127)
    if v < -128.0:
        v = T.float32(-128)
    o[i, j] = T.cast(v, "int8")
""",
    "parallel rows": _BYTES.replace(
        "for i, j in T.grid(256, 256):", "for i in T.parallel(256):\n  for j in range(256):"
    ),
    "sum in a block, scaled in another": """
acc = T.alloc_buffer((256, 256), "int32")
for i, j, l in T.grid(256, 256, 256):
    with T.block("sum"):
        vi, vj, vl = T.axis.remap("SSR", [i, j, l])
        with T.init():
            acc[vi, vj] = 0
        u = T.cast(p[vi, vl], "int32")
        acc[vi, vj] += u * T.cast(q[vl, vj], "int32")
for i, j in T.grid(256, 256):
    with T.block("scale"):
        vi, vj = T.axis.remap("SS", [i, j])
        v = T.cast(acc[vi, vj], "float32") * s[vj]
        r = T.max(T.min(T.round(v), 127.0), -128.0)
        o[vi, vj] = T.cast(r, "int8")
""",
}

_CONV: Final = """
for c, y, x in T.grid(32, 28, 28):
    acc = T.float32(0)
    for k, dy, dx in T.grid(32, 3, 3):
        acc += image[k, y + dy, x + dx] * w[c, k, dy, dx]
    o[c, y, x] = T.max(acc + b[c], 0.0)
"""
_CONV_WAYS: Final = {
    **_cased(
        _CONV,
        named_values=(
            (
                "        acc += image[k, y + dy, x + dx] * w[c, k, dy, dx]\n"
                "    o[c, y, x] = T.max(acc + b[c], 0.0)"
            ),
            (
                "        pixel = image[k, y + dy, x + dx]\n        weight = w[c, k, dy, dx]\n"
                "        acc += pixel * weight\n"
                "    biased = acc + b[c]\n    o[c, y, x] = T.max(biased, 0.0)"
            ),
        ),
        named_places=(
            "        acc += image[k, y + dy, x + dx] * w[c, k, dy, dx]",
            (
                "        row = y + dy\n        col = x + dx\n"
                "        acc += image[k, row, col] * w[c, k, dy, dx]"
            ),
        ),
        parallel_channels=(
            "for c, y, x in T.grid(32, 28, 28):",
            "for c in T.parallel(32):\n  for y, x in T.grid(28, 28):",
        ),
        unrolled_window=(
            "    for k, dy, dx in T.grid(32, 3, 3):",
            "    for k in range(32):\n     for dy in T.unroll(3):\n      for dx in T.unroll(3):",
        ),
        not_in_place=(
            "acc += image[k, y + dy, x + dx] * w[c, k, dy, dx]",
            "acc = acc + image[k, y + dy, x + dx] * w[c, k, dy, dx]",
        ),
    ),
    "channels innermost": """
for y, x, c in T.grid(28, 28, 32):
    acc = T.float32(0)
    for k in range(32):
        for dy in range(3):
            for dx in range(3):
                acc += image[k, y + dy, x + dx] * w[c, k, dy, dx]
    o[c, y, x] = T.max(acc + b[c], 0.0)
""",
    "in a block": """
for c, y, x in T.grid(32, 28, 28):
    with T.block("conv"):
        vc, vy, vx = T.axis.remap("SSS", [c, y, x])
        acc = T.float32(0)
        for k, dy, dx in T.grid(32, 3, 3):
            acc += image[k, vy + dy, vx + dx] * w[vc, k, dy, dx]
        z = acc + b[vc]
        o[vc, vy, vx] = T.max(z, 0.0)
""",
}

_STENCIL: Final = """
for y, x in T.grid(1022, 1022):
    o[y, x] = 0.5 * p[y + 1, x + 1] + 0.125 * (
        p[y, x + 1] + p[y + 2, x + 1] + p[y + 1, x] + p[y + 1, x + 2])
"""
_STENCIL_WAYS: Final = {
    "named neighbours": """
for y, x in T.grid(1022, 1022):
    up = p[y, x + 1]
    down = p[y + 2, x + 1]
    left = p[y + 1, x]
    right = p[y + 1, x + 2]
    around = up + down + left + right
    o[y, x] = 0.5 * p[y + 1, x + 1] + 0.125 * around
""",
    "sum assigned again": """
for y, x in T.grid(1022, 1022):
    s = p[y, x + 1]
    s = s + p[y + 2, x + 1]
    s = s + p[y + 1, x]
    s = s + p[y + 1, x + 2]
    o[y, x] = 0.5 * p[y + 1, x + 1] + 0.125 * s
""",
    "parallel rows": _STENCIL.replace(
        "for y, x in T.grid(1022, 1022):", "for y in T.parallel(1022):\n  for x in range(1022):"
    ),
    "vectorized rows": _STENCIL.replace(
        "for y, x in T.grid(1022, 1022):", "for y in range(1022):\n  for x in T.vectorized(1022):"
    ),
    "columns outside": _STENCIL.replace("for y, x in T.grid", "for x, y in T.grid"),
    "in a block": """
for y, x in T.grid(1022, 1022):
    with T.block("o"):
        vy, vx = T.axis.remap("SS", [y, x])
        around = p[vy, vx + 1] + p[vy + 2, vx + 1] + p[vy + 1, vx] + p[vy + 1, vx + 2]
        o[vy, vx] = 0.5 * p[vy + 1, vx + 1] + 0.125 * around
""",
}

_REDUCTION: Final = """
for i in range(2000):
    acc = T.float32(0)
    for j in range(1000):
        acc += x[i, j] * x[i, j]
    o[i] = T.sqrt(acc)
"""
_REDUCTION_WAYS: Final = {
    **_cased(
        _REDUCTION,
        named_element=(
            "        acc += x[i, j] * x[i, j]",
            "        v = x[i, j]\n        acc += v * v",
        ),
        named_root=("    o[i] = T.sqrt(acc)", "    r = T.sqrt(acc)\n    o[i] = r"),
        assigned_again=("    o[i] = T.sqrt(acc)", "    acc = T.sqrt(acc)\n    o[i] = acc"),
        parallel_rows=("for i in range(2000)", "for i in T.parallel(2000)"),
        unrolled=("for j in range(1000)", "for j in T.unroll(1000)"),
        not_in_place=("acc += x[i, j] * x[i, j]", "acc = x[i, j] * x[i, j] + acc"),
    ),
    "into the result": """
for i in range(2000):
    o[i] = 0.0
    for j in range(1000):
        v = x[i, j]
        o[i] += v * v
    o[i] = T.sqrt(o[i])
""",
    "loops by themselves": """
for i in range(2000):
    o[i] = 0.0
for i, j in T.grid(2000, 1000):
    v = x[i, j]
    o[i] = o[i] + v * v
for i in range(2000):
    o[i] = T.sqrt(o[i])
""",
    "in blocks": """
acc = T.alloc_buffer((2000,), "float32")
for i, j in T.grid(2000, 1000):
    with T.block("sum"):
        vi, vj = T.axis.remap("SR", [i, j])
        with T.init():
            acc[vi] = 0.0
        v = x[vi, vj]
        acc[vi] += v * v
for i in range(2000):
    with T.block("root"):
        vi = T.axis.spatial(2000, i)
        r = T.sqrt(acc[vi])
        o[vi] = r
""",
}

_GELU: Final = """
for i, j in T.grid(512, 1024):
    o[i, j] = 0.5 * x[i, j] * (1.0 + T.tanh(0.79788456 * (
        x[i, j] + 0.044715 * x[i, j] * x[i, j] * x[i, j])))
"""
_GELU_WAYS: Final = {
    "named values": """
for i, j in T.grid(512, 1024):
    v = x[i, j]
    cube = v * v * v
    inner = 0.79788456 * (v + 0.044715 * cube)
    t = T.tanh(inner)
    o[i, j] = 0.5 * v * (1.0 + t)
""",
    "vectorized": _GELU.replace(
        "for i, j in T.grid(512, 1024):", "for i in range(512):\n  for j in T.vectorized(1024):"
    ),
    "parallel": _GELU.replace(
        "for i, j in T.grid(512, 1024):", "for i in T.parallel(512):\n  for j in range(1024):"
    ),
    "in a block": """
for i, j in T.grid(512, 1024):
    with T.block("o"):
        vi, vj = T.axis.remap("SS", [i, j])
        v = x[vi, vj]
        t = T.tanh(0.79788456 * (v + 0.044715 * v * v * v))
        o[vi, vj] = 0.5 * v * (1.0 + t)
""",
    "columns outside": _GELU.replace(
        "for i, j in T.grid(512, 1024)", "for j, i in T.grid(1024, 512)"
    ),
}

KINDS: Final[dict[str, Kind]] = {
    "product": Kind(
        'p: T.Buffer((384, 384), "float32"), q: T.Buffer((384, 384), "float32"), '
        'o: T.Buffer((384, 384), "float32")',
        _PRODUCT,
        _PRODUCT_WAYS,
    ),
    "softmax": Kind(
        'x: T.Buffer((512, 1000), "float32"), o: T.Buffer((512, 1000), "float32")',
        _SOFTMAX,
        _SOFTMAX_WAYS,
    ),
    "layer norm": Kind(
        'x: T.Buffer((512, 768), "float32"), w: T.Buffer((768,), "float32"), '
        'b: T.Buffer((768,), "float32"), o: T.Buffer((512, 768), "float32")',
        _NORM,
        _NORM_WAYS,
    ),
    "requantisation": Kind(
        'p: T.Buffer((256, 256), "int8"), q: T.Buffer((256, 256), "int8"), '
        's: T.Buffer((256,), "float32"), o: T.Buffer((256, 256), "int8")',
        _BYTES,
        _BYTES_WAYS,
    ),
    "convolution": Kind(
        'image: T.Buffer((32, 30, 30), "float32"), w: T.Buffer((32, 32, 3, 3), "float32"), '
        'b: T.Buffer((32,), "float32"), o: T.Buffer((32, 28, 28), "float32")',
        _CONV,
        _CONV_WAYS,
    ),
    "stencil": Kind(
        'p: T.Buffer((1024, 1024), "float32"), o: T.Buffer((1022, 1022), "float32")',
        _STENCIL,
        _STENCIL_WAYS,
    ),
    "reduction": Kind(
        'x: T.Buffer((2000, 1000), "float32"), o: T.Buffer((2000,), "float32")',
        _REDUCTION,
        _REDUCTION_WAYS,
    ),
    "gelu": Kind(
        'x: T.Buffer((512, 1024), "float32"), o: T.Buffer((512, 1024), "float32")',
        _GELU,
        _GELU_WAYS,
    ),
}
