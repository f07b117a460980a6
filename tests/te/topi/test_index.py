"""Operators that read or write at places which tensors hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.te import topi
from tests.te.topi.running import BFLOAT16, check, placeholders
from tests.tir.refusal import refused


def numbers(*shape: int, dtype: str = "float32"):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["bool", "int8", BFLOAT16, "float64"], ids=str)
def test_where(dtype: Any):
    c = np.array([[True], [False]])
    x, y = numbers(3).astype(dtype), numbers(2, 1).astype(dtype)
    check([c, x, y], [(topi.where, np.where(c, x, y))])
    cases = [(lambda p, a, _: topi.where(p, a, 1), np.where(c, x, np.ones_like(x)))]
    check([c, x, y], [*cases, (topi.where, np.where(c, x, y))], symbolic=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_take(dtype: str):
    x = numbers(4, 3, 2)
    i = np.array([[0, 2], [1, 1]]).astype(dtype)
    if dtype.startswith("int"):
        i[0, 0] = -1
    cases = [(lambda a, b, k=k: topi.take(a, b, k), np.take(x, i, k)) for k in (0, 1, -2, None)]
    check([x, i], cases)
    check([x, i], cases[:2], symbolic=True)
    check([x, i[:0]], [(lambda a, b: topi.take(a, b, 0), np.take(x, i[:0], 0))])
    check([x, np.array(i[0, 0])], [(lambda a, b: topi.take(a, b, -3), np.take(x, i[0, 0], 0))])


def test_gather_elements():
    x = numbers(3, 4)
    i, j = np.array([[0, -1, 2, 1]]), np.array([[0, 3], [-1, 1], [2, 2]])
    check([x, i], [(topi.gather_elements, np.take_along_axis(x, i, 0))])
    wanted = np.take_along_axis(x, j, 1)
    check([x, j], [(lambda a, b: topi.gather_elements(a, b, -1), wanted)])


def test_gather_nd():
    x = numbers(2, 3, 4)
    i = np.array([[0, 1], [-1, 2], [1, 0]])
    check([x, i], [(topi.gather_nd, x[i[:, 0], i[:, 1]])])
    check([x, i[:, :1]], [(topi.gather_nd, x[i[:, 0]])])
    j = np.array([[2], [0]])
    check([x, j], [(lambda a, b: topi.gather_nd(a, b, 1), x[[0, 1], [2, 0]])])


def test_one_hot():
    i = np.array([[0, 2], [-1, 5]])
    wanted = np.zeros((2, 2, 3), "float32")
    wanted[0, 0, 0] = wanted[0, 1, 2] = wanted[1, 0, 2] = 1
    cases = [(lambda a: topi.one_hot(a, 3), wanted)]
    cases += [(lambda a: topi.one_hot(a, 3, axis=0), np.moveaxis(wanted, -1, 0))]
    other = np.where(wanted > 0, 7, -1).astype("int8")
    check([i], [*cases, (lambda a: topi.one_hot(a, 3, 7, -1, dtype="int8"), other)])
    check([i], cases, symbolic=True)


REDUCTIONS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_scatter_elements(dtype: str):
    x = numbers(3, 4, dtype=dtype)
    i = np.array([[0, 1, -1], [2, 2, 0]])
    u = (numbers(2, 3) + 20).astype(dtype)
    rows, columns = np.indices(i.shape)
    for axis in (0, 1):
        to = (i, columns) if axis == 0 else (rows, i)
        plain = x.copy()
        plain[to] = u
        cases = [(lambda a, b, c, k=axis: topi.scatter_elements(a, b, c, k), plain)]
        for name, combine in REDUCTIONS.items():
            wanted = x.copy()
            combine.at(wanted, to, u)
            cases.append((lambda a, b, c, k=axis, r=name: topi.scatter_elements(a, b, c, k, r), wanted))  # fmt: skip
        check([x, i, u], cases)


def test_scatter_nd():
    x = numbers(4, 3)
    i = np.array([[1], [-1], [1]])
    u = numbers(3, 3) + 100
    last, total = x.copy(), x.copy()
    for k in range(3):
        last[i[k, 0]] = u[k]
        total[i[k, 0]] += u[k]
    cases = [(topi.scatter_nd, last), (lambda a, b, c: topi.scatter_nd(a, b, c, "add"), total)]
    check([x, i, u], cases)
    j = np.array([[0, 1], [3, -1]])
    points = x.copy()
    points[j[:, 0], j[:, 1]] = [5, 6]
    check([x, j, np.array([5, 6], "float32")], [(topi.scatter_nd, points)])
    check([x, i[:0], u[:0]], [(topi.scatter_nd, x)])


def test_scatter_of_symbolic_sizes():
    x, i, u = numbers(4, 3), np.array([2, 0]), numbers(2, 3) + 50
    wanted = x.copy()
    wanted[i] = u
    cases = [(lambda a, b, c: topi.scatter_nd(a, topi.expand_dims(b, -1), c), wanted)]
    check([x, i, u], cases, symbolic=True)


def test_mistakes():
    x, i = te.placeholder((3, 4), name="x"), te.placeholder((2, 2), "int64", name="i")
    with refused("TE0103", "take takes integers, not float32"):
        topi.take(x, x)
    with refused("TE0102", "axis 2"):
        topi.take(x, i, 2)
    with refused("TE0101", "(3, 4) and (4, 5)"):
        topi.gather_elements(x, te.placeholder((4, 5), "int64"), 0)
    with refused("TE0104", "too long"):
        topi.gather_nd(te.placeholder((3,)), i)
    with refused("TE0104", "is unknown"):
        topi.gather_nd(x, te.placeholder((2, te.size_var("n")), "int64"))
    with refused("TE0104", "'sum' is no way to combine", "update, add"):
        topi.scatter_nd(x, i, te.placeholder((2,)), "sum")
    with refused("TE0101"):
        topi.scatter_nd(x, i, te.placeholder((3,)))
    with refused("TE0104", "neither choice"):
        topi.where(te.placeholder((2,), "bool"), 1, 2)
    with refused("TE0103", "where takes bools"):
        topi.where(x, x, x)


@pytest.mark.parametrize(
    ("dtype", "place"),
    [("int8", 4), ("int8", -5), ("uint8", 4), ("int64", -(2**63)), ("uint64", 2**64 - 1)],
)
def test_places_outside_raise(dtype: str, place: int):
    x, i, u = numbers(4, 2), np.array([[0], [place]], dtype), numbers(2, 1)
    calls = [
        (lambda a, b: topi.take(topi.strided_slice(a, [0, 0], [4, 1]), b), [x, i[:, 0]], (2,)),
        (lambda a, b: topi.take(a, b, 0), [x, i[:, 0]], (2, 2)),
        (topi.gather_elements, [x, i], (2, 1)),
        (topi.gather_nd, [x, i], (2, 2)),
        (topi.scatter_elements, [x, i, u], (4, 2)),
        (topi.scatter_nd, [x, i, numbers(2, 2)], (4, 2)),
    ]
    for operator, arrays, shape in calls:
        inputs = placeholders(arrays)
        func = te.create_prim_func([*inputs, operator(*inputs)])
        for run in (loomir.compile(func, cache=False), lambda *a, f=func: loomir.interpret(f, *a)):
            wanted = min(place, 2**63 - 1)
            with pytest.raises(IndexError, match=f"index {wanted} is outside of axis"):
                run(*arrays, np.zeros(shape, "float32"))
