"""Products and sums rounded once, where the CPU has no instruction for it."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.values import Value
from loomir.codegen.llvm.jit.engine import TargetMachine
from loomir.codegen.llvm.math.fused_multiply_add import multiply_add
from loomir.support.dtype import DataType
from tests.codegen.llvm.kernels import kernel


def emit(b: Builder, values: list[Value]) -> Value:
    return multiply_add(b, *values)


def drawn(seed: int) -> tuple[np.ndarray, ...]:
    """Draw any bits, numbers whose product cancels the sum, and special values in all ways."""
    rng = np.random.default_rng(seed)
    anything = rng.integers(0, 2**32, (3, 200_000), dtype=np.uint32).view("float32")
    x, y = (rng.standard_normal(200_000).astype("float32") for _ in range(2))
    exact = x.astype("float64") * y.astype("float64")
    close = -exact.astype("float32") * rng.choice(np.float32([1, 2**-24, 0.5, 1 + 2**-23]), len(x))
    tiny = np.float32(2.0) ** rng.integers(-149, -100, 200_000).astype("float32")
    least, most = np.float32(1e-45), np.finfo("float32").max
    odd = np.float32([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, least, -least, most, -most])
    special = np.array(np.meshgrid(odd, odd, odd)).reshape(3, -1)
    parts = [anything, np.stack([x, y, close]), np.stack([x * tiny, y, tiny]), special]
    return tuple(np.concatenate(parts, axis=1).astype("float32"))


@pytest.mark.skipif(
    not TargetMachine.host().has("fma"), reason="the CPU has no instruction to compare with"
)
def test_a_product_in_double_rounded_to_odd_is_what_the_instruction_gives():
    dtype = DataType("float32x4")
    by_instruction = kernel(emit, [dtype] * 3, dtype)
    by_steps = kernel(emit, [dtype] * 3, dtype, features=())
    arrays = drawn(7)
    one, other = by_instruction(*arrays), by_steps(*arrays)
    both_lost = np.isnan(one) & np.isnan(other)
    assert np.array_equal(one.view("uint32")[~both_lost], other.view("uint32")[~both_lost])
    assert both_lost.mean() < 0.1
