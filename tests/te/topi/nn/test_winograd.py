"""The matrices of Winograd's transforms, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from loomir.te.topi.nn.winograd import Rows, winograd

CASES = [
    (2, 3, (0, 1, -1)),
    (4, 3, (0, 1, -1, 2, -2)),
    (4, 3, (0, Fraction(1, 2), -1, 3, -2)),
    (1, 4, (5, 0, -3)),
    (3, 1, (0, 7)),
    (6, 3, (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 2))),
]


def times(matrix: Rows, values: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, values, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize(("results", "kernel", "points"), CASES)
def test_transforms_convolve_exactly(results: int, kernel: int, points: tuple[Fraction | int, ...]):
    way = winograd(results, kernel, points)
    assert (way.step, way.size) == (results, results + kernel - 1)
    image = [Fraction(k * k - 3 * k, k + 2) for k in range(way.size)]
    weights = [Fraction(2 * k + 1, 3 - 2 * k) for k in range(kernel)]
    products = [a * b for a, b in zip(times(way.image, image), times(way.kernel, weights))]
    wanted = [
        sum((image[k + j] * weights[j] for j in range(kernel)), Fraction(0)) for k in range(results)
    ]
    assert times(way.back, products) == wanted


def test_images_are_transformed_by_small_whole_numbers():
    way = winograd(4, 3, (0, 1, -1, 2, -2))
    assert max(abs(c) for row in (*way.image, *way.back) for c in row) == 8
    assert all(c.denominator == 1 for row in (*way.image, *way.back) for c in row)
