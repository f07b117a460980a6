"""Every operator, run by the interpreter, gives what its reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir.relax import Function
from loomir.relax.operator.definition import OpDef, find_op, op_names
from loomir.relax.struct_info import OBJECT
from tests.clause import clauses
from tests.interp.relax.build import run
from tests.op.running import concrete, made_of

OPERATORS = [op for op in map(find_op, op_names()) if op is not None and op.samples]


@clauses("RX-SEM-18", "RX-SEM-30")
@pytest.mark.parametrize("known", ["all", "nothing"])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_operator_gives_what_its_reference_gives(op: OpDef, known: str):
    for sample in op.samples:
        describe = concrete if known == "all" else lambda shape, dtype: OBJECT
        made = made_of(op, sample.args, sample.attrs, describe)
        given = list(made.values.values())
        before = [array.copy() for array in given]
        with np.errstate(all="ignore"):
            wanted = made.reference()
        got = run(Function(tuple(made.values), made.call), *given)
        _same(got, wanted)
        for array, copy in zip(given, before, strict=True):
            np.testing.assert_array_equal(array, copy)


def _same(got: Any, wanted: Any) -> None:
    if isinstance(wanted, (tuple, list)) and isinstance(got, tuple):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            _same(a, b)
        return
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.asarray(wanted).dtype
    assert got.flags.c_contiguous
    assert got.flags.writeable
    np.testing.assert_array_equal(got, wanted)
