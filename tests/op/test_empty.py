"""Axes that turn out to have too few elements, where the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import te
from loomir.relax.operator.definition import find_op

CHOOSING: list[tuple[str, dict[str, Any], list[tuple[tuple[int, ...], str]]]] = [
    ("max", {"axis": (0,), "keepdims": False}, [((3,), "float32")]),
    ("min", {"axis": None, "keepdims": True}, [((1, 1), "float32")]),
    ("argmax", {"axis": 0, "keepdims": False}, [((3,), "int64")]),
    ("argmin", {"axis": None, "keepdims": False}, [((), "int64")]),
    ("median", {"axis": (0,), "keepdims": False}, [((3,), "float32"), ((3,), "int64")]),
    (
        "topk",
        {"k": 2, "axis": 0, "ret_type": "both", "largest": True, "dtype": "int32"},
        [((2, 3), "float32"), ((2, 3), "int32")],
    ),
]


@pytest.mark.parametrize(("name", "options", "outputs"), CHOOSING, ids=[c[0] for c in CHOOSING])
def test_too_few_elements_raise(name: str, options: Any, outputs: Any):
    op = find_op(f"relax.{name}")
    assert op is not None
    assert op.lower is not None
    assert op.reference is not None
    x = te.placeholder((te.size_var("n", "int64"), 3), "float32", "x")
    made = op.lower(x, **options)
    func = te.create_prim_func([x, *(made if isinstance(made, (list, tuple)) else [made])])
    given = np.zeros((0, 3), "float32")
    with pytest.raises(ValueError, match=r"element|empty|zero-size"):
        op.reference(given, **options)
    compiled = loomir.compile(func, opt_level=1, cache=False)
    for run in (compiled, lambda *a: loomir.interpret(func, *a)):
        with pytest.raises(ValueError, match="RUN0212"):
            run(given, *[np.zeros(shape, dtype) for shape, dtype in outputs])


def test_rows_that_no_distribution_is_in_raise():
    op = find_op("relax.multinomial_from_uniform")
    assert op is not None
    assert op.lower is not None
    shapes = [((2, 4), "float32"), ((1, 1), "float32"), ((1, 1), "int64")]
    inputs = [te.placeholder(s, d, f"x{i}") for i, (s, d) in enumerate(shapes)]
    func = te.create_prim_func([*inputs, op.lower(*inputs, dtype="int64")])
    arrays = [np.full(s, 0.25).astype(d) for s, d in shapes]
    compiled = loomir.compile(func, opt_level=1, cache=False)
    for run in (compiled, lambda *a: loomir.interpret(func, *a)):
        for row in (2, -3):
            arrays[2][:] = row
            with pytest.raises(IndexError):
                run(*arrays, np.zeros((1, 1), "int64"))
