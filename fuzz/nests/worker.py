"""The process that checks plain loops."""

from __future__ import annotations

import time
from typing import Any

from fuzz.choices import SeedChoices
from fuzz.nests.generate import nests_of_seed
from fuzz.scheduling import rules_of
from fuzz.serving import ROTATION, answer_of, serve
from fuzz.tir.worker import check

__all__ = ["answer", "main", "plan_of"]


def plan_of(seed: int) -> list[str]:
    """Say which engines look at a program: all schedule it."""
    choices = SeedChoices(f"plan {seed}")
    scheduled = "scheduled-haswell" if choices.chance(0.2) else "scheduled"
    return [scheduled, *(["native"] if choices.chance(0.2) else [])]


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Generate and check the program of a seed; its kinds are the rules that took its loops."""
    started = time.process_time()
    program = nests_of_seed(seed)
    spent = {"generate": time.process_time() - started}
    names = plan_of(seed) if engines == [ROTATION] else engines
    found = check(program, program.module, seed, names, spent)
    return answer_of(seed, names, found, rules_of(program.module), spent)


def main() -> None:
    """Answer requests until there are no more."""
    serve(answer)


if __name__ == "__main__":
    main()
