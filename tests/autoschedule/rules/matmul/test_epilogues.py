"""What is done to the elements of a product is done before they are stored, however long it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.autoschedule.ir.plan import Plan
from loomir.ir.visit import by_class
from loomir.te import topi
from loomir.tir.expr import PrimExpr
from loomir.tir.stmt import Block
from tests.autoschedule.agreement import interpret_both

RANDOM = np.random.default_rng(8)
WIDE = "x86-64-v4"


def polynomial(x: PrimExpr, degree: int = 70) -> PrimExpr:
    """Write an expression of so many nodes that it is not repeated for each row of a tile."""
    value = x
    for i in range(degree):
        value = value * (x * te.const(0.1, "float32")) + te.const(1 / (i + 2), "float32")
    return value


def list_buffers(plan: Plan) -> list[str]:
    return [b.name for block in by_class(plan.stmt)[Block] for b in block.alloc_buffers]


def draw(*shapes: tuple[int, ...]) -> list[Any]:
    return [RANDOM.uniform(-1, 1, shape).astype("float32") for shape in shapes]


def test_a_long_epilogue_is_one_loop_over_the_rows_of_a_tile() -> None:
    a, b = te.placeholder((12, 3)), te.placeholder((3, 32))
    product = topi.matmul(a, b)
    done = te.compute((12, 32), lambda i, j: polynomial(product[i, j]))
    func = te.create_prim_func([a, b, done])
    (plan,) = interpret_both(func, draw((12, 3), (3, 32), (12, 32)), target=WIDE)
    assert plan.kind == "matrix product"
    assert "edge" in list_buffers(plan)


READERS: dict[str, Callable[[Any, Any, Any], PrimExpr]] = {
    "distances": lambda g, i, j: g[i, i] + g[j, j] - g[i, j] * te.const(2.0, "float32"),
    "differences": lambda g, i, j: g[i, 0] - g[j, 0],
}


@pytest.mark.parametrize("name", READERS)
def test_what_reads_several_elements_comes_after_the_product(name: str) -> None:
    x, k = te.placeholder((7, 5)), te.reduce_axis((0, 5))
    gram = te.compute((7, 7), lambda i, j: te.sum(x[i, k] * x[j, k], k))
    func = te.create_prim_func([x, te.compute((7, 7), lambda i, j: READERS[name](gram, i, j))])
    plans = interpret_both(func, draw((7, 5), (7, 7)), target=WIDE)
    assert [plan.kind for plan in plans] == ["matrix product", "element-wise"]


def test_a_factor_may_be_scaled_by_groups_of_its_elements() -> None:
    """Heads share keys, and the elements of a key share scales: only the heads are split."""
    q, k, s = (te.placeholder(shape) for shape in ((4, 5, 8), (2, 7, 8), (7, 2)))
    d = te.reduce_axis((0, 8))
    scores = te.compute(
        (4, 5, 7), lambda h, i, j: te.sum(q[h, i, d] * (k[h // 2, j, d] * s[j, d // 4]), d)
    )
    func = te.create_prim_func([q, k, s, scores])
    plans = interpret_both(func, draw((4, 5, 8), (2, 7, 8), (7, 2), (4, 5, 7)), target=WIDE)
    assert [plan.kind for plan in plans] == ["matrix product"]
