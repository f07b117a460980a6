"""Bounds checks cost nothing where loops prove every index, and little elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from benchmarks.checks import case_of, unproved_cases
from benchmarks.rows import ROWS
from loomir.autoschedule.driver import SCHEDULED, schedule_function
from loomir.target import Target
from loomir.transform.tir.instrument.split_bounds_checks import split_bounds_checks


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_index_of_the_table_is_proved(row: Any):
    program = case_of(row).program
    made = split_bounds_checks(program)
    assert made is not None
    assert made.fast is program


@pytest.mark.parametrize("case", unproved_cases(), ids=lambda case: case.name)
def test_kernels_with_checks_are_scheduled_and_right(case: Any):
    made = split_bounds_checks(case.program)
    assert made is not None
    scheduled = schedule_function(made.fast, Target("native")).func
    assert scheduled.attrs.get(SCHEDULED) or case.name.startswith(("scatter", "CSR"))
    out = np.empty_like(case.out)
    loomir.compile(case.program)(*case.inputs, case.out)
    loomir.compile(case.program, check_bounds=True)(*case.inputs, out)
    np.testing.assert_allclose(out, case.out, rtol=1e-5)
