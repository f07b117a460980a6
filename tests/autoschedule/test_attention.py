"""Products with rows between: blocks of rows go through all stages, and give what the stages do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.te import topi
from loomir.tir.function import PrimFunc
from tests.autoschedule.agreement import scheduled

RANDOM = np.random.default_rng(5)


def arrays_of(func: PrimFunc) -> list[np.ndarray]:
    made: list[np.ndarray] = []
    for buffer in func.buffer_map.values():
        shape = [e.value for e in buffer.shape]  # type: ignore[attr-defined]
        dtype = str(buffer.dtype)
        if dtype == "bool":
            made.append(RANDOM.integers(0, 2, shape).astype("bool"))
        else:
            made.append(RANDOM.standard_normal(shape).astype(dtype))
    return made


def check(func: PrimFunc, *targets: str, tolerance: float = 1e-5) -> list[str]:
    """Hold the scheduled function to the function as it is written; give the kinds of its plans."""
    arrays = arrays_of(func)
    wanted = [array.copy() for array in arrays]
    loomir.interpret(func, func.name, *wanted)
    kinds: list[str] = []
    for target in targets or ("native",):
        made = scheduled(func, target=target)
        kinds = [plan.kind for plan in made.plans]
        assert not loomir.verify(made.func)
        interpreted, native = ([array.copy() for array in arrays] for _ in range(2))
        loomir.interpret(made.func, func.name, *interpreted)
        loomir.compile(made.func, target, cache=False)(*native)
        for a, b, c in zip(wanted, interpreted, native, strict=True):
            np.testing.assert_allclose(b.astype("float64"), a.astype("float64"), 1e-4, tolerance)
            np.testing.assert_allclose(c.astype("float64"), b.astype("float64"), 1e-4, tolerance)
    return kinds


def attention(
    queries: tuple[int, ...],
    keys: tuple[int, ...],
    values: tuple[int, ...] | None = None,
    dtype: str = "float32",
    mask: tuple[int, ...] | None = None,
    **options: Any,
) -> PrimFunc:
    shapes = (queries, keys, values or keys)
    given = [te.placeholder(s, dtype, name=n) for s, n in zip(shapes, "qkv", strict=True)]
    if mask is not None:
        given.append(te.placeholder(mask, "bool", name="mask"))
        options["mask"] = given[-1]
    return te.create_prim_func([*given, topi.attention(*given[:3], **options)])


@pytest.mark.parametrize(
    "func",
    [
        attention((1, 2, 40, 8), (1, 2, 33, 8)),  # a block of 32 rows, and one of 8
        attention((2, 1, 48, 5), (2, 1, 17, 5), (2, 1, 17, 9), causal="bottom_right"),
        attention((1, 4, 16, 16), (1, 2, 20, 16), mask=(1, 1, 16, 20)),  # heads share keys
        attention((1, 17, 2, 8), (1, 19, 2, 8), layout="BSHD", dtype="float16"),
    ],
    ids=["rest", "causal", "mask", "half"],
)
def test_attention_goes_in_blocks(func: PrimFunc) -> None:
    half = any(str(b.dtype) == "float16" for b in func.buffer_map.values())
    assert check(func, tolerance=2e-3 if half else 1e-5) == ["attention"]


def test_softmax_between_products_goes_in_blocks() -> None:
    a, b, c = (te.placeholder(s, "float32") for s in ((50, 12), (12, 30), (30, 7)))
    mixed = topi.matmul(topi.softmax(topi.matmul(a, b)), c)
    func = te.create_prim_func([a, b, c, topi.relu(mixed)])
    assert check(func, "native", "haswell") == ["attention"]
    (plan,) = scheduled(func).plans
    assert "blocks of 48 rows" in plan.choices[0]


def test_what_is_read_afterwards_is_kept() -> None:
    a, b, c = (te.placeholder(s, "float32") for s in ((40, 12), (12, 30), (30, 7)))
    scores = topi.matmul(a, b)
    func = te.create_prim_func([a, b, c, scores, topi.matmul(topi.softmax(scores), c)])
    assert "attention" not in check(func)


def test_rows_of_other_blocks_are_not_read() -> None:
    """A sum over the rows needs all of them."""
    a, b, c = (te.placeholder(s, "float32") for s in ((40, 12), (12, 30), (30, 7)))
    scores = topi.matmul(a, b)
    mixed = topi.matmul(topi.softmax(scores, 0), c)
    func = te.create_prim_func([a, b, c, mixed])
    assert "attention" not in check(func)
