"""Machines other than the one at hand: their code is made and looked at, not run.

The same rules give SSE, AVX and NEON tiles of their own: the loops in which the time goes are of
vectors, keep sums in registers, and call nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import loomir
from loomir import te
from loomir.te import topi

TARGETS = ["x86-64", "ivybridge", "haswell", "neoverse-n1"]


def tensor(*shape: int, dtype: str = "float32") -> Any:
    return te.placeholder(shape, dtype)


def product(dtype: str, rows: int = 64) -> list[Any]:
    a, b = tensor(rows, 512, dtype=dtype), tensor(512, 512, dtype=dtype)
    return [a, b, topi.matmul(a, b, transpose_b=rows == 1)]


def convolution(side: int, size: int, channels: int, groups: int) -> list[Any]:
    x, w = tensor(1, channels, side, side), tensor(channels, channels // groups, size, size)
    return [x, w, topi.conv(x, w, padding=size // 2, groups=groups)]


def of_one(operator: Callable[..., Any], *options: Any) -> list[Any]:
    x = tensor(128, 512)
    return [x, operator(x, *options)]


# What is computed, and how many instructions on vectors the hottest loop has at least.
KERNELS: dict[str, tuple[Callable[[], list[Any]], int]] = {
    "product": (lambda: product("float32"), 12),
    "product of doubles": (lambda: product("float64"), 12),
    "matrix by vector": (lambda: product("float32", 1), 6),
    "convolution": (lambda: convolution(28, 3, 32, 1), 12),
    "depthwise": (lambda: convolution(56, 3, 32, 32), 9),
    "softmax": (lambda: of_one(topi.softmax), 10),
    "exponential": (lambda: of_one(topi.exp), 8),
    "sums of rows": (lambda: of_one(topi.sum, 1), 4),
    "sums of columns": (lambda: of_one(topi.sum, 0), 4),
    "greatest": (lambda: of_one(topi.max, 1), 2),
}


class Loop(NamedTuple):
    """An innermost loop: instructions of each kind."""

    vectors: int
    scalars: int
    spilled: int
    calls: int


_OPERATION = "(?:add|mul|sub|div|max|min|cmp|fn?m(?:add|sub)(?:132|213|231)?)"
_KINDS = {
    "x86_64": (
        rf"^v?{_OPERATION}\w*p[sd]\s",
        rf"^v?{_OPERATION}\w*s[sd]\s",
        r"mm\d.*rsp|rsp.*mm\d",
        r"^call",
    ),
    "aarch64": (
        r"^f\w+\s+v\d",
        r"^f(?:add|mul|n?madd|sub|div)\s+[sd]\d",
        r"[qv]\d+, \[sp",
        r"^bl\s",
    ),
}


def loops_of(assembly: str, arch: str) -> Iterator[Loop]:
    """List the innermost loops: from a label to the jump back to it, with no such jump between."""
    labels: dict[str, int] = {}
    code: list[str] = []
    jumped_to = -1
    for line in map(str.strip, assembly.splitlines()):
        if line.startswith(".L") and line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif line and not line.startswith((".", "#", "//")):
            code.append(line)
            start = labels.get(line.replace(",", " ").split()[-1])
            if start is not None and start > jumped_to and line[0] in "jbct":
                jumped_to = start
                loop = code[start:]
                yield Loop(*(sum(bool(re.search(k, i)) for i in loop) for k in _KINDS[arch]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_the_time_goes_in_loops_of_vectors(target: str, kernel: str):
    make, least = KERNELS[kernel]
    machine = loomir.Target(target)
    exe = loomir.compile(te.create_prim_func(make()), target=machine, cache=False)
    loops = list(loops_of(exe.assembly(), machine.triple.split("-")[0]))
    # Borders have loops of their own, in which less is done side by side.
    hottest = max(loops, key=lambda loop: loop.vectors - 4 * loop.scalars)
    assert hottest.vectors >= least, loops
    assert hottest.scalars <= hottest.vectors / 10, hottest
    assert hottest.calls == 0
    if "product" in kernel or kernel == "convolution":
        assert hottest.spilled <= 2, hottest
