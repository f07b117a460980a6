"""The process that runs compiled programs on an emulated CPU; engines: a family, and a target.

contractions sapphirerapids
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from typing import Any, Final

import loomir
from fuzz.bochs.library import EmulatorError, model_of
from fuzz.bochs.running import Machine
from fuzz.choices import SeedChoices
from fuzz.default_schedule.small_machines import LEVELS, draw_size
from fuzz.families.cases import Case, flat_results, fresh, is_graph, outcome
from fuzz.families.table import FAMILIES
from fuzz.native import set_threads
from fuzz.serving import answer_of, complaints, serve

__all__ = ["LEVEL", "answer", "main"]

LEVEL: Final = "LOOMIR_FUZZ_LEVEL"
"""The variable of the environment that sets the level of optimising for all programs."""


@functools.lru_cache(maxsize=1)
def _machine(target: str) -> Machine:
    made = Machine(model_of(target))
    set_threads(1)
    return made


def _emulated(case: Case, name: str) -> str:
    """Run a case, and judge what comes of it."""
    machine = _machine(name)
    choices = SeedChoices(f"emulated {case.seed} {name}")
    level = int(os.environ.get(LEVEL) or choices.weighted(LEVELS))
    sized = draw_size(choices, name)
    before = machine.calls
    with sized as target:
        exe = loomir.compile(case.module, target, opt_level=level, cache=False)
        arguments = [fresh(argument) for argument in case.arguments]
        try:
            result = exe[case.entry](*arguments)
        except Exception:
            said = machine.failure()
            if said:
                raise EmulatorError(said) from None
            raise
    said = machine.failure() or ("" if machine.calls > before else "it ran on the real CPU")
    if said:
        raise EmulatorError(said)
    said = outcome(case, flat_results(result) if is_graph(case) else arguments)
    return f"opt_level {level}: {said}" if said else ""


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Draw the case of a seed, and run it for the target."""
    family, name = engines
    started = time.process_time()
    case = FAMILIES[family](seed)
    spent = {"draw": time.process_time() - started}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = complaints([name], lambda target: _emulated(case, target), spent)
    kinds = ["tiles"] if _machine(name).cpu.tiles.took_part() else []
    return answer_of(seed, [name], found, kinds, spent)


def main() -> None:
    """Answer requests until there are no more."""
    serve(answer)


if __name__ == "__main__":
    main()
