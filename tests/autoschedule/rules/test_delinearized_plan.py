"""Axes that are divided by sizes known only at run time are delinearized as by constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.autoschedule.rewrite.monomial import ONE, Monomial
from loomir.ir.visit import by_class
from loomir.tir.expr import FloorDiv, FloorMod, Max, Min, Var
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import agrees, scheduled

RANDOM = np.random.default_rng(23)
SIZES = [(2, 3, 5), (1, 1, 1), (0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 2, 67), (7, 1, 4)]


def array(*shape: int, dtype: str = "float32") -> Any:
    return RANDOM.integers(-9, 9, shape).astype(dtype)


def flat(b: Any, s: Any, d: Any) -> tuple[Any, Any]:
    x = te.placeholder((b, s, d), name="x")
    return x, te.compute((b * s * d,), lambda i: x[i // d // s, i // d % s, i % d])


def tiled(b: Any, s: Any, d: Any) -> tuple[Any, Any]:
    x = te.placeholder((b, s, d), name="x")
    return x, te.compute((2 * b, s, d * 3), lambda i, j, k: x[i % b, j, k % d])


def shuffled(b: Any, s: Any, d: Any) -> tuple[Any, Any]:
    x = te.placeholder((b, 4, s, d), name="x")
    return x, te.compute((b, 2 * s, 2 * d), lambda i, j, k: x[i, j % 2 * 2 + k % 2, j // 2, k // 2])


def across(b: Any, s: Any, d: Any) -> tuple[Any, Any]:
    x = te.placeholder((b, s, d), name="x")
    return x, te.compute((d, b * s), lambda i, j: x[j // s, j % s, i] + x[j // s, 0, i])


def repeated(b: Any, s: Any, d: Any) -> tuple[Any, Any]:
    x = te.placeholder((b, s, d), name="x")
    return x, te.compute((b, s * d, d), lambda i, j, k: x[i, j // d, k] * x[i, j // d, j % d])


def scaled(b: Any, s: Any, d: Any) -> tuple[Any, Any]:
    """As images that become twice as large."""
    x = te.placeholder((b, s, d), name="x")

    def place(j: Any) -> Any:
        return Max(Min(j * s // (s * 2), s - 1), te.const(0, "int64"))

    return x, te.compute((b, s * 2, d), lambda i, j, k: x[i, place(j), k])


MAKERS = [scaled, flat, tiled, shuffled, across, repeated]


@pytest.mark.parametrize("make", MAKERS)
def test_nothing_is_divided(make: Any) -> None:
    names = [te.var(name, "int64") for name in "bsd"]
    func = te.create_prim_func([*make(*names)])
    (plan,) = scheduled(func).plans
    if make is shuffled:  # to divide by numbers may be read, so that the stage is as it was
        assert plan.kind == "transpose"
    else:
        assert not {FloorDiv, FloorMod} & {c for s in plan.stages for c in by_class(s.value)}
    run = loomir.compile(func)
    for b, s, d in SIZES:
        x, out = (array(*_shape(t, (b, s, d))) for t in make(*names))
        wanted = out.copy()
        loomir.interpret(func, func.name, x, wanted)
        run(x, out)
        np.testing.assert_array_equal(out, wanted)
    x, out = (array(*_shape(t, SIZES[0])) for t in make(*names))
    agrees(func, [x, out], rtol=0, targets=("native", "haswell"))


def _shape(tensor: Any, sizes: tuple[int, ...]) -> list[int]:
    """Evaluate a shape by a function of it."""
    b, s, d = sizes
    known = {"b": b, "s": s, "d": d}
    made: list[int] = []
    for extent in tensor.shape:
        value = 1
        found = Monomial.of(extent)
        assert found is not None
        for name in found.names:
            value *= known[name.name_hint]
        made.append(value * found.number)
    return made


def test_narrow_sizes_and_bytes() -> None:
    n, m = te.var("n", "int32"), te.var("m", "int32")
    x = te.placeholder((n, m), "int8", name="x")
    func = te.create_prim_func([x, te.compute((2 * n, m * 2), lambda i, j: x[i % n, j % m])])
    for rows, columns in ((1, 1), (5, 37), (0, 3)):
        x0 = array(rows, columns, dtype="int8")
        out = array(2 * rows, 2 * columns, dtype="int8")
        loomir.compile(func)(x0, out)
        np.testing.assert_array_equal(out, np.tile(x0, (2, 2)))


def kept(formula: Any, shape: Any) -> PrimFunc:
    n, m = te.var("n", "int64"), te.var("m", "int64")
    x = te.placeholder((n, m), name="x")
    return te.create_prim_func([x, te.compute(shape(n, m), lambda *i: formula(x, n, m, *i))])


@pytest.mark.parametrize(
    ("formula", "shape", "sizes", "result"),
    [
        # What it divides by is no part of how many there are: it may be 0.
        (lambda x, n, m, i: x[0, i % m], lambda n, m: (n,), (5, 3), (5,)),
        # No multiple of what it divides by.
        (lambda x, n, m, i: x[0, i % m], lambda n, m: (n * m + 1,), (2, 3), (7,)),
        (lambda x, n, m, i: x[i // 2, 0], lambda n, m: (n,), (7, 2), (7,)),
        # Another size than that of the axis.
        (lambda x, n, m, i, j: x[i, j % n], lambda n, m: (n, m), (3, 8), (3, 8)),
        # It goes across the digits.
        (lambda x, n, m, i: x[0, (i + 1) % m], lambda n, m: (n * m,), (3, 4), (12,)),
        (lambda x, n, m, i: x[0, (n * m - 1 - i) % m], lambda n, m: (n * m,), (3, 4), (12,)),
    ],
)
def test_what_stays_divided(formula: Any, shape: Any, sizes: Any, result: Any) -> None:
    func = kept(formula, shape)
    x, out = array(*sizes), array(*result)
    wanted = out.copy()
    loomir.interpret(func, func.name, x, wanted)
    loomir.compile(func)(x, out)
    np.testing.assert_array_equal(out, wanted)


def test_to_divide_by_nothing_is_an_error_still() -> None:
    run = loomir.compile(kept(lambda x, n, m, i: x[0, i % m], lambda n, m: (n,)))
    with pytest.raises(Exception, match=r"divi|zero|0"):
        run(array(3, 0), array(3))


def test_products_of_sizes() -> None:
    n, m = Var("n", ONE.expr().dtype), Var("m", ONE.expr().dtype)
    both = Monomial.of(n * 6 * m)
    assert both is not None
    assert both == Monomial.of(m * (n * 6))
    assert both.divide(Monomial(3, (m,))) == Monomial(2, (n,))
    assert both.divide(Monomial(4)) is None
    assert Monomial(2, (n,)).divide(Monomial(2, (n, n))) is None
    assert both.divide(Monomial(0)) is None
    assert Monomial.of(n + m) is None
    assert both.known is None
    assert both.divide(both) == ONE


def normalised(shape: tuple[Any, Any, Any], groups: int, *, more: bool = False) -> PrimFunc:
    """Take away the mean of each group of channels, which lie behind one another."""
    n, c, p = shape
    size = c // groups
    x, y = te.placeholder((n, c, p), name="x"), te.placeholder((c,), name="y")
    k, q = te.reduce_axis((0, size), name="k"), te.reduce_axis((0, p), name="q")
    total = te.compute(
        (n, groups), lambda i, g: te.sum(x[i, g * size + k, q], axis=[k, q]), name="total"
    )
    out = te.compute(
        (n, c, p), lambda i, j, r: (x[i, j, r] - total[i, j // size]) * y[j], name="out"
    )
    if not more:
        return te.create_prim_func([x, y, out])
    last = te.compute((n, c, p), lambda i, j, r: out[i, c - 1 - j, r] + y[j], name="last")
    return te.create_prim_func([x, y, out, last])


@pytest.mark.parametrize(("shape", "groups"), [((2, 6, 35), 2), ((1, 4, 1), 4), ((3, 5, 7), 1)])
def test_groups_of_channels(shape: tuple[int, int, int], groups: int) -> None:
    func = normalised(shape, groups)
    arrays = [array(*shape), array(shape[1]), array(*shape)]
    agrees(func, arrays, rtol=0, targets=("native", "haswell"))
    if groups == 2:
        assert [s.name for s in scheduled(func).plans[0].stages] == ["total", "out"]


def test_groups_of_pixels_known_when_it_runs() -> None:
    n, p = te.var("n", "int64"), te.var("p", "int64")
    func = normalised((n, 6, p), 3)
    for rows, pixels in ((2, 37), (0, 3), (3, 0), (1, 1)):
        arrays = [array(rows, 6, pixels), array(6), array(rows, 6, pixels)]
        agrees(func, arrays, rtol=0)


def test_a_result_that_another_one_is_made_of() -> None:
    func = normalised((2, 6, 35), 2, more=True)
    agrees(func, [array(2, 6, 35), array(6), array(2, 6, 35), array(2, 6, 35)], rtol=0)


def test_a_quotient_of_constants_beside_keeps_its_dtype() -> None:
    x = te.placeholder((5000,), "uint64", name="x")
    quotient = te.const(100, "uint64") // te.const(3, "uint64")
    out = te.compute((5000,), lambda i: Max(quotient, x[i % 4]))
    arrays = [array(5000).astype("uint64") % 99, np.zeros(5000, "uint64")]
    agrees(te.create_prim_func([x, out]), arrays, rtol=0)
