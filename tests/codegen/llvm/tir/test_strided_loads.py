"""Lanes at a distance of a few elements are loaded together, and nothing beyond the last."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest

import loomir
from loomir.script import tir as T


def gaps(stride: int, lanes: int, dtype: str):
    size = (lanes - 1) * stride + 2

    @T.prim_func
    def func(a: T.Buffer((size,), dtype), b: T.Buffer((lanes,), dtype)):
        b[T.Ramp(0, 1, lanes)] = a[T.Ramp(T.int64(1), T.int64(stride), lanes)]

    return func


@pytest.mark.parametrize("stride", [2, 3, 4, 5, 9, 300])
@pytest.mark.parametrize(("lanes", "dtype"), [(2, "int64"), (8, "float32"), (16, "int8")])
def test_a_strided_load(stride: int, lanes: int, dtype: str):
    source = np.arange(1, (lanes - 1) * stride + 3).astype(dtype)
    out = np.zeros(lanes, dtype)
    loomir.compile(gaps(stride, lanes, dtype), cache=False)(source, out)
    np.testing.assert_array_equal(out, source[1::stride])


@pytest.mark.parametrize("stride", [-7, -2, 2, 9])
@pytest.mark.parametrize(("lanes", "dtype"), [(2, "int64"), (8, "float32"), (16, "int8")])
def test_strided_loads_and_stores_both_ways(stride: int, lanes: int, dtype: str):
    size = (lanes - 1) * abs(stride) + 3
    begin = 1 if stride > 0 else size - 2

    @T.prim_func
    def func(n: T.int32, a: T.Buffer((size,), dtype), b: T.Buffer((size,), dtype)):
        b[T.Ramp(n, stride, lanes)] = a[T.Ramp(n, stride, lanes)] + T.Broadcast(
            T.Cast(dtype, 1), lanes
        )

    source = np.arange(size).astype(dtype)
    out = np.zeros(size, dtype)
    run = loomir.compile(func, cache=False)
    run(begin, source, out)
    wanted = np.zeros(size, dtype)
    places = begin + stride * np.arange(lanes)
    wanted[places] = source[places] + 1
    np.testing.assert_array_equal(out, wanted)


def sums(stride: int, lanes: int, dtype: str):
    @T.prim_func
    def func(a: T.Buffer(("n", stride), dtype), b: T.Buffer(("n",), dtype)):
        for v in range(b.shape[0] // lanes):
            for lane in T.vectorized(lanes):
                b[v * lanes + lane] = (
                    a[v * lanes + lane, stride - 1] - a[v * lanes + lane, 0]
                    if stride == 2
                    else a[v * lanes + lane, stride - 1]
                    - a[v * lanes + lane, 0]
                    + a[v * lanes + lane, 1]
                )

    return func


@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize(("lanes", "dtype"), [(8, "float32"), (4, "float64"), (16, "int8")])
def test_elements_of_groups(stride: int, lanes: int, dtype: str):
    source = np.random.default_rng(stride).integers(-9, 9, (5 * lanes, stride)).astype(dtype)
    out = np.zeros(5 * lanes, dtype)
    loomir.compile(sums(stride, lanes, dtype), schedule=False, cache=False)(source, out)
    first, second, last = source[:, 0], source[:, 1], source[:, -1]
    wanted = last - first if stride == 2 else last - first + second
    np.testing.assert_array_equal(out, wanted)


def test_elements_of_groups_share_what_is_loaded():
    text = loomir.compile(sums(3, 8, "float32"), "haswell", schedule=False, cache=False).assembly()
    assert len(re.findall(r"vmovups\s+-?\d*\(\S+\), %ymm", text)) == 3


@T.prim_func
def pairs_at_three(a: T.Buffer((8, 2), "float32", strides=(3, 1)), b: T.Buffer((8,), "float32")):
    for lane in T.vectorized(8):
        b[lane] = a[lane, 0] + a[lane, 1]


def test_groups_that_the_buffer_ends_within_are_not_read_whole():
    text = loomir.compile(pairs_at_three, "haswell", schedule=False, cache=False).llvm_ir()
    steps = [
        int(step)
        for step in re.findall(r"getelementptr (?:inbounds )?float, ptr \S+, i64 (\d+)", text)
    ]
    assert max(steps) + 8 <= 7 * 3 + 2
    memory = np.arange(24, dtype="float32").reshape(8, 3)
    out = np.zeros(8, "float32")
    loomir.compile(pairs_at_three, schedule=False, cache=False)(memory[:, :2], out)
    np.testing.assert_array_equal(out, memory[:, 0] + memory[:, 1])


def widened(source: str, target: str, stride: int, first: int):
    @T.prim_func
    def func(a: T.Buffer((48 * stride,), source), b: T.Buffer((48,), target)):
        for v in range(3):
            for lane in T.vectorized(16):
                b[v * 16 + lane] = T.Cast(target, a[(v * 16 + lane) * stride + first])

    return func


@pytest.mark.parametrize(
    ("source", "target", "stride"),
    [("uint8", "uint16", 2), ("int8", "int16", 2), ("int8", "uint32", 4), ("uint16", "int64", 4)],
)
def test_integers_that_are_widened_to_the_width_of_their_group(
    source: str, target: str, stride: int
):
    given = np.random.default_rng(5).integers(-(2**15), 2**15, 48 * stride).astype(source)
    for first in range(stride):
        out = np.zeros(48, target)
        run = loomir.compile(
            widened(source, target, stride, first), schedule=False, cache=False, opt_level=0
        )
        assert "shufflevector" not in run.llvm_ir()
        run(given, out)
        np.testing.assert_array_equal(out, given[first::stride].astype(target))


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_bytes_of_pixels_are_separated_from_one_load(lanes: int):
    func = sums(3, lanes, "uint8")
    run = loomir.compile(func, "haswell", schedule=False, cache=False)
    assert re.findall(rf"load <{3 * lanes} x i8>", run.llvm_ir())
    source = np.random.default_rng(0).integers(0, 255, (5 * lanes, 3)).astype("uint8")
    for target in ("native", "x86-64-v2")[: 2 if platform.machine() == "x86_64" else 1]:
        out = np.zeros(5 * lanes, "uint8")
        loomir.compile(func, target, schedule=False, cache=False)(source, out)
        np.testing.assert_array_equal(out, source[:, 2] - source[:, 0] + source[:, 1])


def test_bytes_are_permuted_at_once_where_the_cpu_can():
    text = loomir.compile(sums(3, 32, "uint8"), "znver4", schedule=False, cache=False).llvm_ir()
    assert "load <96 x i8>" not in text


@T.prim_func
def rotate(
    x: T.Buffer((256, 8, 64), "float32"),
    c: T.Buffer((256, 32), "float32"),
    s: T.Buffer((256, 32), "float32"),
    out: T.Buffer((256, 8, 64), "float32"),
):
    for t in T.parallel(256):
        for h, k in T.grid(8, 32):
            out[t, h, 2 * k] = x[t, h, 2 * k] * c[t, k] - x[t, h, 2 * k + 1] * s[t, k]
            out[t, h, 2 * k + 1] = x[t, h, 2 * k] * s[t, k] + x[t, h, 2 * k + 1] * c[t, k]


@pytest.mark.parametrize("target", ["haswell", "znver4"])
def test_no_address_of_a_parallel_loop_is_asked_whether_it_wraps_around(target: str):
    """Else LLVM keeps a loop of scalars beside that of vectors, and chooses at run time."""
    text = loomir.compile(rotate, target, schedule=False, cache=False).assembly()
    assert "mulps" in text
    assert "mulss" not in text
