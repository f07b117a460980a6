"""Views of memory lie inside of their tensors."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.script import from_source
from loomir.support.diagnostics import CompileError

PROGRAM = """
from loomir.script import relax as R, tir as T

@R.function
def main(x: R.Tensor((16,), "float32")):
    return R.memory.view(x, R.shape({shape}), "{dtype}", {offset})
"""


@pytest.mark.parametrize(
    ("shape", "dtype", "offset"),
    [
        ([17], "float32", 0),
        ([9], "float64", 0),
        ([16], "float32", 4),
        ([15], "float32", -4),
        ([4], "float32", 2),
        ([4], "float64", 4),
        ([0], "float32", 68),
    ],
)
def test_views_that_leave_the_tensor_are_refused(shape: list[int], dtype: str, offset: int):
    with pytest.raises(CompileError) as caught:
        from_source(PROGRAM.format(shape=shape, dtype=dtype, offset=offset))
    assert caught.value.diagnostic.code == "OPS0028"


@pytest.mark.parametrize(
    ("shape", "dtype", "offset"),
    [([4, 4], "float32", 0), ([7], "float32", 36), ([7], "float64", 8), ([0], "float32", 64)],
)
def test_views_read_the_same_bytes(shape: list[int], dtype: str, offset: int):
    module = from_source(PROGRAM.format(shape=shape, dtype=dtype, offset=offset))
    x = np.arange(16, dtype="float32")
    found = loomir.compile(module)(x)
    wanted = np.frombuffer(x.tobytes(), dtype, int(np.prod(shape)), offset).reshape(shape)
    np.testing.assert_array_equal(np.asarray(found), wanted)
