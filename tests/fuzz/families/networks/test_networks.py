"""Networks as users write them: right as they are written, and as they are compiled."""

from __future__ import annotations

import pytest

import loomir
from fuzz.families.cases import flat_results, fresh, outcome
from fuzz.families.networks.networks import draw


@pytest.mark.parametrize("seed", range(40))
def test_numpy_and_the_interpreter_agree_on_networks(seed: int) -> None:
    case, again = draw(seed), draw(seed)
    assert case.module.script() == again.module.script()
    result = loomir.interpret(case.module, case.entry, *map(fresh, case.arguments))
    assert outcome(case, flat_results(result)) == ""


@pytest.mark.parametrize("seed", range(1_000, 1_006))
def test_compiled_networks_give_what_numpy_expects(seed: int) -> None:
    case = draw(seed)
    compiled = loomir.compile(case.module, opt_level=1, cache=False)
    result = compiled[case.entry](*map(fresh, case.arguments))
    assert outcome(case, flat_results(result)) == ""
