"""Index maps: made of functions, applied, inverted, compared."""

from __future__ import annotations

import random
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

import loomir.script  # noqa: F401 - prints expressions
from fuzz.iter_maps import values_of
from loomir.arith import Analyzer, IndexMap, is_bijective
from loomir.ir import structural_equal
from loomir.support.diagnostics import CompileError
from loomir.tir import IntImm, PrimExpr, Range, Var, const


def tiled() -> IndexMap:
    return IndexMap.from_func(lambda i, j: (i // 4, j, i % 4))


def numbers(exprs: tuple[PrimExpr, ...]) -> list[int]:
    assert all(isinstance(e, IntImm) for e in exprs)
    return [e.value for e in exprs if isinstance(e, IntImm)]


def test_a_map_is_made_of_a_function():
    made = tiled()
    assert str(made) == "lambda i, j: (i // 4, j, i % 4)"
    assert str(IndexMap.from_func(lambda i: i, dtype="int64")) == "lambda i: (i)"
    assert str(IndexMap.from_func(lambda *axes: axes[::-1], ndim=3)) == (
        "lambda axes0, axes1, axes2: (axes2, axes1, axes0)"
    )
    assert str(IndexMap.from_func(lambda n, *rest: [*rest, n, 0], ndim=2)) == (
        "lambda n, rest0: (rest0, n, 0)"
    )


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        (lambda: IndexMap.from_func(lambda *i: i), "takes any number of indices, as *i"),
        (lambda: IndexMap.from_func(lambda i: i, ndim=2), "takes 1 indices, not 2"),
        (lambda: IndexMap.from_func(lambda i: "i"), "gives indices, not 'i'"),
        (lambda: tiled().map_indices([1]), "is of 2 indices, not of 1"),
        (lambda: tiled().inverse([10, 4]), "not a multiple of its digits: i"),
        (lambda: tiled().map_shape([8]), "is of 2 indices, not of 1"),
        (
            lambda: IndexMap.from_func(lambda i, j: i).non_surjective_inverse([4, 4]),
            "an iterator is not used, or only some of its digits: j",
        ),
    ],
)
def test_what_a_map_cannot_do_is_explained(run: Any, wanted: str):
    with pytest.raises(CompileError) as caught:
        run()
    assert caught.value.diagnostic.code == "ARI0001"
    assert wanted in caught.value.diagnostic.message


def test_indices_shapes_and_ranges_are_mapped():
    made = tiled()
    assert numbers(made.map_indices([13, 5])) == [3, 5, 1]
    assert numbers(made.map_shape([16, 7])) == [4, 7, 4]
    assert numbers(made.map_shape([10, 7])) == [3, 7, 4]
    x = Var("x", "int64")
    known = Analyzer()
    known.assume_size(x)
    wide = made.map_indices([x * 4, x], analyzer=known)
    assert [str(e) for e in wide] == ["x", "x", "T.int64(0)"]
    ranges = made.map_ranges([Range(const(8, "int32"), const(4, "int32"))] * 2)
    assert [(str(r.min), str(r.extent)) for r in ranges] == [("2", "1"), ("8", "4"), ("0", "4")]
    n = Var("n", "int64")
    analyzer = Analyzer()
    analyzer.assume_size(n)
    fused = IndexMap.from_func(lambda i, j: i * 3 + j, dtype="int64")
    assert [str(e) for e in fused.map_shape([n, 3], analyzer=analyzer)] == ["n * T.int64(3)"]
    # No iterator map, yet its values have bounds.
    assert numbers(IndexMap.from_func(lambda i, j: i + j).map_shape([4, 4])) == [7]


def test_a_bijective_map_has_an_inverse():
    made = tiled()
    assert is_bijective(made, [16, 7])
    assert not is_bijective(made, [10, 7])
    assert not is_bijective(IndexMap.from_func(lambda i: i * 2), [4])
    assert not is_bijective(IndexMap.from_func(lambda i: i + 1), [4])
    back = made.inverse([16, 7])
    assert str(back) == "lambda axis0, axis1, axis2: (axis0 * 4 + axis2, axis1)"
    assert back.inverse([4, 7, 4]).is_equivalent_to(made)
    both = made.map_indices(back.final_indices)
    assert numbers(back.map_indices([3, 5, 1])) == [13, 5]
    assert len(both) == 3
    assert str(IndexMap.from_func(lambda i, j: j).inverse([1, 5])) == "lambda axis0: (0, axis0)"


def test_a_map_that_needs_padding_has_an_inverse_where_there_is_no_padding():
    made = IndexMap.from_func(lambda i: (i // 4, i % 4))
    back, outside = made.non_surjective_inverse([10])
    assert str(back) == "lambda axis0, axis1: (axis0 * 4 + axis1)"
    a, b = back.initial_indices
    for x, y in product(range(3), range(4)):
        given = {a: np.array([x], "int32"), b: np.array([y], "int32")}
        assert bool(values_of(outside, given, 1)[0]) == (x * 4 + y >= 10)
    assert str(made.non_surjective_inverse([12])[1]) == "T.bool(False)"


def test_maps_are_compared_by_their_values():
    made = tiled()
    same = IndexMap.from_func(lambda a, b: (a // 4, b, a - a // 4 * 4))
    assert made.is_equivalent_to(same)
    assert not made.is_equivalent_to(IndexMap.from_func(lambda a, b: (a // 4, a % 4, b)))
    assert not made.is_equivalent_to(IndexMap.from_func(lambda a, b: (a, b)))
    assert not made.is_equivalent_to(IndexMap.from_func(lambda a: (a, a, a)))


def random_map(rng: random.Random) -> tuple[IndexMap, list[int]]:
    shape = [rng.choice([1, 2, 3, 4, 6, 7, 8, 10]) for _ in range(rng.randint(1, 3))]
    initial = [Var(f"i{place}", "int32") for place in range(len(shape))]
    terms: list[tuple[PrimExpr, int]] = list(zip(initial, shape))
    for _ in range(rng.randint(0, 5)):
        at = rng.randrange(len(terms))
        expr, extent = terms[at]
        if rng.random() < 0.6:
            by = rng.choice([2, 3, 4])
            terms[at : at + 1] = [(expr // by, -(-extent // by)), (expr % by, by)]
        elif len(terms) > 1 and at:
            (a, _), (b, count) = terms[at - 1], terms[at]
            terms[at - 1 : at + 1] = [(a * count + b, terms[at - 1][1] * count)]
        elif rng.random() < 0.2:
            terms[at] = (expr * rng.choice([1, 2]) + rng.choice([0, 1, 3]), extent * 2 + 2)
        rng.shuffle(terms)
    return IndexMap(tuple(initial), tuple(expr for expr, _ in terms)), shape


def test_inverses_of_random_maps_lead_back():
    rng = random.Random(7)
    inverted = padded = 0
    for _ in range(300):
        made, shape = random_map(rng)
        points = np.indices(shape).reshape(len(shape), -1).astype("int32")
        given = dict(zip(made.initial_indices, points))
        values = [values_of(e, given, prod(shape)) for e in made.final_indices]
        new_shape = numbers(made.map_shape(shape))
        for value, extent in zip(values, new_shape):
            assert value.max() < extent
        reached = set(zip(*(value.tolist() for value in values)))
        if is_bijective(made, shape):
            assert len(reached) == prod(new_shape) == prod(shape)
        try:
            back, outside = made.non_surjective_inverse(shape)
        except CompileError:
            continue
        inverted += 1
        count = prod(new_shape)
        news = np.indices(new_shape).reshape(len(new_shape), -1).astype("int32")
        at = dict(zip(back.initial_indices, news))
        olds = [values_of(e, at, count) for e in back.final_indices]
        is_outside = values_of(outside, at, count)
        assert [tuple(p) in reached for p in news.T.tolist()] == (~is_outside).tolist()
        padded += bool(is_outside.any())
        again = dict(zip(made.initial_indices, olds))
        for final, new in zip(made.final_indices, news):
            mapped = values_of(final, again, count)
            assert (mapped == new)[~is_outside].all()
    assert inverted > 150
    assert padded > 10


def test_symbolic_shapes():
    n = Var("n", "int64")
    analyzer = Analyzer()
    analyzer.assume_size(n)
    made = IndexMap.from_func(lambda i: (i // 16, i % 16), dtype="int64")
    with analyzer.assume((n % 16).equal(0)):
        assert is_bijective(made, [n], analyzer=analyzer)
        back = made.inverse([n], analyzer=analyzer)
        a, b = back.initial_indices
        assert structural_equal(back.final_indices[0], a * 16 + b)
    assert not is_bijective(made, [n], analyzer=analyzer)
