"""Compile operators, many in one function, and compare them with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import ml_dtypes
import numpy as np

import loomir
from fuzz.native import quick_codegen
from loomir import te
from loomir.te.tensor import Tensor

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.7, np.nan, np.inf, -np.inf, 1e-6]
# Relative errors that dtypes allow: a few units in their last place.
SLACK = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 3e-6, "float64": 1e-12}

Case = tuple[Callable[..., Any], Any]


def placeholders(arrays: Sequence[Array], symbolic: bool = False) -> list[Tensor]:
    """Declare a tensor for each array; ``symbolic`` sizes are one variable per extent above 1."""
    sizes: dict[int, Any] = {}

    def size(extent: int) -> Any:
        if not symbolic or extent == 1:
            return extent
        return sizes.setdefault(extent, te.size_var(f"n{extent}", "int64"))

    return [
        te.placeholder([size(e) for e in a.shape], str(a.dtype), name=f"A{i}")
        for i, a in enumerate(arrays)
    ]


def same(actual: Array, expected: Any, what: str, slack: float | None = None) -> None:
    """Compare with NumPy: integers exactly, floats nearly, and NaN and infinities in their places."""
    wanted = np.asarray(expected)
    assert actual.shape == wanted.shape, what
    assert actual.dtype == wanted.dtype, f"{what}: {actual.dtype} for {wanted.dtype}"
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, wanted, err_msg=what)
        return
    near = SLACK[str(actual.dtype)] if slack is None else slack
    np.testing.assert_allclose(
        actual.astype("float64"), wanted.astype("float64"), rtol=near, atol=near / 10, err_msg=what
    )


def check(
    arrays: Sequence[Array],
    cases: Sequence[Case],
    *,
    symbolic: bool = False,
    slack: float | None = None,
    arranged: bool = False,
) -> None:
    """Compile one function of all cases: ``(operator of tensors, what NumPy gives)``.

    ``arranged``: with schedules and LLVM's passes, which take up to twenty times as long.
    """
    inputs = placeholders(arrays, symbolic)
    outputs: list[Tensor] = []
    expected: list[Array] = []
    for operator, wanted in cases:
        made = operator(*inputs)
        several = isinstance(made, (tuple, list))
        outputs += made if several else [made]
        expected += [np.asarray(w) for w in wanted] if several else [np.asarray(wanted)]
    func = te.create_prim_func([*inputs, *outputs])
    assert loomir.verify(func) == ()
    results = [np.full(e.shape, 77).astype(e.dtype) for e in expected]
    before = [a.copy() for a in arrays]
    with nullcontext() if arranged else quick_codegen():
        loomir.compile(func, opt_level=int(arranged), cache=False)(*before, *results)
    for out, actual, wanted in zip(outputs, results, expected, strict=True):
        same(actual, wanted, out.name, slack)
        if not symbolic:
            assert [int(str(e).split("(")[-1].rstrip(")")) for e in out.shape] == [*wanted.shape]
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))
