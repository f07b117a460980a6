"""Conversions between all dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from loomir.relax.operator.definition import Sample, TensorSample, find_op
from loomir.support.dtype import DataType, numpy_of
from tests.op.running import LoweredModule, call_of
from tests.op.test_operators import DTYPES, special_values


@pytest.mark.parametrize("source", DTYPES)
def test_special_values_convert_to_all_dtypes(source: str):
    astype = find_op("relax.astype")
    assert astype is not None
    lowered = LoweredModule()
    values = np.array(special_values(source), numpy_of(DataType(source)))
    for target in DTYPES:
        sample = Sample((TensorSample(values.shape, source, values=values), target))
        lowered.add(call_of(astype, sample), f"{source} to {target}")
    lowered.check()


def test_values_between_those_of_a_dtype_go_to_the_nearest():
    astype = find_op("relax.astype")
    assert astype is not None
    lowered = LoweredModule()
    wide = 2.0**24 + np.arange(-8, 9)
    near = [1 + 2.0**-k + e for k in (7, 8, 9, 10, 11, 12) for e in (0, 2.0**-40, -(2.0**-40))]
    given = {
        "int64": 2**53 + np.arange(-9, 10),
        "int32": 2**24 + np.arange(-9, 10),
        "float64": np.concatenate([wide, wide + 0.5, near]),
    }
    for source, values in given.items():
        for target in ("float16", "bfloat16", "float32", "float64"):
            sample = Sample((TensorSample(values.shape, source, values=values), target))
            lowered.add(call_of(astype, sample), f"{source} to {target}")
    lowered.check()
