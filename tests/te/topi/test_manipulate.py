"""Operators that move elements to other places."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.te import topi
from tests.te.topi.running import check, placeholders
from tests.tir.refusal import refused


def numbers(*shape: int, dtype: str = "int32"):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def test_reshape():
    x = numbers(2, 3, 4)
    shapes = [(24,), (4, 6), (-1, 8), (3, 1, 2, 4), (1, 24, 1), (2, 3, 4, 1)]
    cases = [(lambda a, s=s: topi.reshape(a, s), x.reshape(s)) for s in shapes]
    check([x], [*cases, (topi.flatten, x.ravel())])
    check([numbers(1)], [(lambda a: topi.reshape(a, ()), numbers(1).reshape(()))])
    check([numbers()], [(lambda a: topi.reshape(a, (1, 1)), numbers(1, 1)), (topi.flatten, numbers(1))])  # fmt: skip
    empty = numbers(0, 3)
    check([empty], [(lambda a: topi.reshape(a, (3, 0)), empty.reshape(3, 0))])
    check([empty], [(lambda a: topi.reshape(a, (-1, 3)), empty), (topi.flatten, empty.ravel())])


PARTS = [
    ("bsx", "bshd"), ("bshd", "bsx"), ("bsx", "tx"), ("tx", "bsx"), ("b1sx", "bsx"), ("bsx", "b1s1x"),
    ("bshd", "tx"), ("bsx", "y"), ("bhds", "bxs"), ("xb", "hdb"), ("bx", "bhd1"), ("bhd", "1bx"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), PARTS)
@pytest.mark.parametrize("sizes", [(2, 3), (1, 5), (0, 4), (7, 0)])
def test_axes_that_stay_are_not_divided(before: str, after: str, sizes: tuple[int, int]):
    b, s = te.size_var("b", "int64"), te.size_var("s", "int64")
    known = {"b": b, "s": s, "x": 12, "h": 3, "d": 4, "1": 1, "t": b * s, "y": b * s * 12}
    m, n = sizes
    sized = {**known, "b": m, "s": n, "t": m * n, "y": m * n * 12}
    x = te.placeholder([known[k] for k in before], "int32", name="x")
    func = te.create_prim_func([b, s, x, topi.reshape(x, [known[k] for k in after])])
    if not {"t", "y"} & {*before, *after}:
        assert not {"% s", "% b"} & {*re.findall("% .", func.script())}
    given = numbers(*(sized[k] for k in before)).astype("int32")
    out = np.full([sized[k] for k in after], -1, "int32")
    loomir.interpret(func, *sizes, given, out)
    np.testing.assert_array_equal(out, given.reshape(out.shape))
    native = np.full_like(out, -1)
    loomir.compile(func, opt_level=0, cache=False)(*sizes, given, native)
    np.testing.assert_array_equal(native, out)


@pytest.mark.parametrize("shape", [(5, 3, 4), (0, 3, 4), (5, 1, 4)])
def test_reshape_of_symbolic_sizes(shape: tuple[int, int, int]):
    x = numbers(*shape)

    def regrouped(a: Any):
        n, m, p = a.shape
        return topi.reshape(topi.reshape(topi.reshape(a, (p, m, -1)), (n, m * p)), (n, p, m))

    wanted = x.reshape(shape[0], shape[2], shape[1])
    check([x], [(regrouped, wanted), (topi.flatten, x.ravel())], symbolic=True)


def test_axes():
    x = numbers(2, 3, 4)
    cases = [(lambda a, o=o: topi.transpose(a, o), x.transpose(o)) for o in (None, (1, 0, 2), (-1, 0, 1))]  # fmt: skip
    cases += [(lambda a: topi.moveaxis(a, 0, -1), np.moveaxis(x, 0, -1))]
    cases += [(lambda a: topi.swapaxes(a, 0, -1), np.swapaxes(x, 0, -1))]
    cases += [(lambda a, k=k: topi.flip(a, k), np.flip(x, k)) for k in (None, 0, -1, (0, 2))]
    cases += [(lambda a, s=s: topi.roll(a, s, -1), np.roll(x, s, -1)) for s in (0, 1, -3, 9)]
    cases += [(lambda a, k=k: topi.expand_dims(a, k), np.expand_dims(x, k)) for k in (0, -1, (1, 3), (-1, 0))]  # fmt: skip
    check([x], cases)
    y = numbers(1, 3, 1)
    check(
        [y], [(lambda a, k=k: topi.squeeze(a, k), np.squeeze(y, k)) for k in (None, 0, -1, (0, 2))]
    )
    cases = [(topi.transpose, x.T), (topi.flip, np.flip(x)), (lambda a: topi.roll(a, 1, 0), np.roll(x, 1, 0))]  # fmt: skip
    check([x], cases, symbolic=True)
    check([numbers(2, 0)], [(topi.transpose, numbers(0, 2)), (lambda a: topi.roll(a, 1, 1), numbers(2, 0))])  # fmt: skip


def test_joining():
    x, y, z = numbers(2, 3), numbers(4, 3) + 50, numbers(0, 3)
    check([x, y, z], [(lambda *t: topi.concatenate(t), np.concatenate([x, y, z]))])
    check([x, y, z], [(lambda a, b, c: topi.concatenate([c, b, c, a], -2), np.concatenate([z, y, z, x]))])  # fmt: skip
    check([z], [(lambda a: topi.concatenate([a, a]), z)])
    cases = [(lambda a, b, k=k: topi.stack([a, b], k), np.stack([x, x + 9], k)) for k in (0, 1, -1)]
    check([x, x + 9], cases)
    check([x, y], [(lambda a, b: topi.concatenate([a, b]), np.concatenate([x, y]))], symbolic=True)


def test_splitting():
    x = numbers(6, 4)
    check([x], [(lambda a, n=n: topi.split(a, n), np.split(x, n)) for n in (1, 2, 3)])
    check([x], [(lambda a: topi.split(a, [1, 3], -1), np.split(x, [1, 3], -1))])
    check([x], [(lambda a: topi.split(a, [2, 2, 9]), np.split(x, [2, 2, 9]))])


def test_copies():
    x = numbers(2, 3)
    counts = [(2,), (2, 1), (3, 2), (2, 1, 2), (0, 2)]
    cases = [(lambda a, r=r: topi.tile(a, r), np.tile(x, r)) for r in counts]
    cases += [(lambda a, n=n, k=k: topi.repeat(a, n, k), np.repeat(x, n, k)) for n in (0, 1, 3) for k in (None, 0, -1)]  # fmt: skip
    check([x], cases)
    check([x], [(lambda a: topi.tile(a, (2, 2)), np.tile(x, (2, 2))), (lambda a: topi.repeat(a, 2, 0), np.repeat(x, 2, 0))], symbolic=True)  # fmt: skip


SLICES = [
    (None, None, 1), (1, 4, 1), (-3, -1, 1), (0, 99, 2), (5, 2, 1), (None, None, -1),
    (4, 1, -1), (-1, None, -2), (99, -99, -3), (2, 5, -1), (-99, 3, 1), (None, 0, -1),
]  # fmt: skip


@pytest.mark.parametrize("extent", [7, 1, 0])
def test_slices(extent: int):
    x = numbers(extent, 3)

    def sliced(begin: Any, end: Any, step: Any):
        return lambda a: topi.strided_slice(a, [begin], [end], [step], [0])

    check([x], [(sliced(b, e, s), x[b:e:s]) for b, e, s in SLICES])
    n = te.size_var("n", "int64")
    for b, e, s in SLICES:
        a = te.placeholder((n, 3), "int32", name="A")
        run = loomir.compile(te.create_prim_func([a, sliced(b, e, s)(a)]), opt_level=0, cache=False)
        result = np.full_like(x[b:e:s], 99)
        run(x, result)
        np.testing.assert_array_equal(result, x[b:e:s])


def test_slices_of_several_axes():
    x = numbers(4, 5, 6)
    check([x], [(lambda a: topi.strided_slice(a, [1, 0], [3, 5], [1, 2]), x[1:3, 0:5:2])])
    check([x], [(lambda a: topi.strided_slice(a, [4, 1], [0, 2], [-2, 1], [-1, 0]), x[1:2, :, 4:0:-2])])  # fmt: skip
    check([x], [(lambda a: topi.strided_slice(a, [], []), x)])


def test_layouts():
    x = numbers(2, 8, 3, 5)
    blocked = x.reshape(2, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    cases = [
        (lambda a: topi.layout_transform(a, "NCHW", "NHWC"), x.transpose(0, 2, 3, 1)),
        (lambda a: topi.layout_transform(a, "NCHW", "NCHW4c"), blocked),
    ]
    check([x], cases)
    back = [(lambda a: topi.layout_transform(a, "NCHW4c", "NCHW"), x)]
    other = x.reshape(2, 4, 2, 3, 5).transpose(0, 1, 3, 4, 2)
    check([blocked], [*back, (lambda a: topi.layout_transform(a, "NCHW4c", "NCHW2c"), other)])
    n = te.size_var("n")
    a = te.placeholder((n, 3), "int32", name="A")
    assert str(topi.layout_transform(a, "NC", "CN").shape[1]) == "n"


def test_mistakes():
    n = te.size_var("n")
    x, y = te.placeholder((2, 3), name="x"), te.placeholder((n, 4), name="y")
    for shape in ((5,), (4, -1), (-1, -1), (-2, 3), (2, 0, -1), (n,)):
        with refused("TE0104", "reshape"):
            topi.reshape(x, shape)
    with refused("TE0104", "(n, 4) cannot take shape (n,)"):
        topi.reshape(y, (n,))
    with refused("TE0104", "axis 0 has extent 2"):
        topi.squeeze(x, 0)
    with refused("TE0102", "named twice"):
        topi.expand_dims(x, (0, -4))
    with refused("TE0104", "(0, 0) is not an order of 2 axes"):
        topi.transpose(x, (0, 0))
    with refused("TE0101", "(2, 3) and (n, 4)"):
        topi.concatenate([x, y])
    with refused("TE0104", "no tensors"):
        topi.stack([])
    with refused("TE0104", "3 elements do not make 2 equal parts"):
        topi.split(x, 2, 1)
    with refused("TE0104", "unknown"):
        topi.split(y, 2)
    with refused("TE0104", "a stride is 0"):
        topi.strided_slice(x, [0], [1], [0])
    with refused("TE0104", "of other axes"):
        topi.strided_slice(x, [0, 0], [1])
    with refused("TE0104", "negative count"):
        topi.tile(x, (-1,))
    with refused("TE0104", "'NC3' is not a layout"):
        topi.layout_transform(x, "NC", "NC3")
    with refused("TE0104", "3 is not surely a multiple of 2"):
        topi.layout_transform(x, "NC", "NC2c")
    assert placeholders([np.zeros((1, 2))], symbolic=True)[0].ndim == 2
