"""Decorated functions whose annotations Python evaluates may hold arithmetic in strings."""

import pytest

import loomir
from loomir.script import relax as R
from loomir.support.diagnostics import CompileError


# No `from __future__ import annotations` here: the annotations are evaluated.
@R.function
def doubled(x: R.Tensor(("n", "m * 2"), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(
    ("n", "m + m"), "float32"
):
    return R.exp(x)


def test_extents_are_arithmetic():
    assert "R.Tensor((n, m * 2)" in doubled.script()
    again = loomir.script.from_source(doubled.script())
    loomir.ir.assert_structural_equal(doubled, again)


@pytest.mark.parametrize("text", ["", "n +", "f(n)", "[n]", "'n'", "n.m", "__import__('os')"])
def test_what_is_no_extent_is_refused(text: str):
    with pytest.raises(CompileError):
        R.Tensor((text,), "float32")


def test_extents_outside_of_programs():
    info = R.Tensor(("n * 2 + 1", 3), "float32")
    assert str(info) == 'R.Tensor((n * 2 + 1, 3), dtype="float32")'
