"""Programs of ``benchmarks.as_written`` compute what they say, by loops and by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.as_written import PROGRAMS, loops_agree, measure
from benchmarks.programs.program import read


def test_programs_are_read():
    for name, program in PROGRAMS.items():
        assert list(read(program).buffer_map), name


@pytest.mark.parametrize("name", ["segment sum", "quantise rows", "cross products"])
def test_a_program_is_measured_after_its_results_are_compared(name: str):
    row = measure(PROGRAMS[name], rounds=1)
    assert row.ours > 0
    assert row.written > 0


def test_a_wrong_reference_is_found():
    program = PROGRAMS["clip"]._replace(reference=lambda x: np.clip(x, -1, 2))
    with pytest.raises(AssertionError):
        measure(program, rounds=1)


def test_results_that_differ_do_not_agree():
    a = np.ones(4, "float32")
    assert loops_agree(a, a + np.float32(1e-6), step=1e-4)
    assert not loops_agree(a, a + 1, step=1e-4)
