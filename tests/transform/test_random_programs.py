"""Random programs mean the same after every pass, and every fact holds."""

from __future__ import annotations

import pytest

from fuzz.tirgen import program_of_seed
from fuzz.worker import check


@pytest.mark.parametrize("first", range(0, 80, 20))
@pytest.mark.parametrize("engine", ["each-pass", "each-pass-checked"])
def test_every_pass_keeps_the_meaning(first: int, engine: str):
    for seed in range(first, first + 20):
        program = program_of_seed(seed)
        assert not check(program, program.module, seed, [engine]), seed
