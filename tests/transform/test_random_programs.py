"""Random programs mean the same after every pass, and every fact holds."""

from __future__ import annotations

import pytest

from fuzz.tir.generate import program_of_seed
from fuzz.tir.worker import check


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_every_pass_keeps_the_meaning(first: int):
    for seed in range(first, first + 20):
        program = program_of_seed(seed)
        engine = "each-pass-checked" if seed % 2 else "each-pass"
        assert not check(program, program.module, seed, [engine]), seed
