"""Index maps as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir.arith.iterators.index_map import IndexMap
from loomir.relax.operator.index_text import index_function, index_map_of, index_text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (lambda i, j: (j, i // 4, i % 4), "lambda i0, i1: (i1, i0 // 4, i0 % 4)"),
        (lambda n: n * 2 - 1, "lambda i0: ((i0 * 2) - 1,)"),
        ("lambda a, b: (a * 8 + b,)", "lambda i0, i1: ((i0 * 8) + i1,)"),
        (IndexMap.from_func(lambda i: (i, 0)), "lambda i0: (i0, 0)"),
    ],
)
def test_maps_are_kept_in_one_form(given: Any, kept: str):
    assert index_text(given) == kept
    assert index_text(kept) == kept
    assert index_text(index_map_of(kept)) == kept


@pytest.mark.parametrize(
    "given",
    [
        3,
        "i, j",
        "lambda i: (",
        "lambda i: i.real",
        "lambda i: (j,)",
        "lambda i: (abs(i),)",
        "lambda i: (i / 2,)",
        "lambda i: (i + 0.5,)",
        "lambda i: (lambda: i)",
        "lambda *i: i",
        "lambda i=3: (i,)",
        lambda *i: i,
        lambda i: (-i // 2).astype("int32") > 3,
    ],
)
def test_what_is_no_map_is_none(given: Any):
    assert index_text(given) is None


def test_the_function_takes_arrays_of_indices():
    i = np.arange(6)
    row, column = index_function("lambda i: (i // 4, i % 4)")(i)
    assert row.tolist() == [0, 0, 0, 0, 1, 1]
    assert column.tolist() == [0, 1, 2, 3, 0, 1]
