"""The process that checks loops."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fuzz.choices import SeedChoices
from fuzz.native import object_digest
from fuzz.serving import ROTATION, answer_of, complaints, serve
from fuzz.tir.engines import ENGINES, difference, inputs_of, reference
from fuzz.tir.generate import program_of_seed
from fuzz.tir.ill_typed import accepted_mistake
from fuzz.tir.kinds import kinds_of
from fuzz.tir.program import Program
from loomir.ir.module import IRModule

__all__ = ["CHECKS", "ROTATION", "answer", "check", "main", "plan_of"]

CHECKS: dict[str, Callable[[IRModule, int], str]] = {"ill-typed": accepted_mistake}
"""What else can be asked about a program; each says what is wrong."""

_NATIVE = [
    (60.0, "quick"),
    (9.0, "quick-checked"),
    (9.0, "quick-watched"),
    (8.0, "quick-alias"),
    (4.0, "native-O0"),
    (2.0, "native-O1"),
    (8.0, "native"),
    (3.0, "native-O3"),
    (1.0, "native-checked"),
    (1.0, "native-watched"),
    (1.0, "native-alias"),
]
_OTHERS = [
    (0.08, "each-pass"),
    (0.02, "each-pass-checked"),
    (0.03, "lowered-checked"),
    (0.12, "reparsed"),
    (0.12, "watched"),
    (0.06, "renamed"),
    (0.05, "dead-code"),
    (0.20, "scheduled"),
    (0.30, "ill-typed"),
    (0.05, "scheduled-haswell"),
]


def plan_of(seed: int) -> list[str]:
    """Say whose turn it is: one way to compile, and some of the others."""
    choices = SeedChoices(f"plan {seed}")
    native = choices.weighted(_NATIVE)
    return [native, *(name for share, name in _OTHERS if choices.chance(share))]


def check(
    program: Program,
    module: IRModule,
    seed: int,
    engines: list[str],
    spent: dict[str, float] | None = None,
) -> dict[str, str]:
    """Run a module with engines; return how each disagrees with the interpreter, where one does.

    ``spent`` gets the seconds of each.
    """
    times: dict[str, float] = {} if spent is None else spent
    started = time.process_time()
    inputs = inputs_of(program, seed)
    wanted = reference(program, module, inputs)
    times["reference"] = time.process_time() - started
    if not program.may_fail:
        for how, outcome in wanted.items():
            if outcome.error:
                return {"reference": f"{how}: {outcome.error} {outcome.text}"}

    def ask(name: str) -> str:
        if name in CHECKS:
            return CHECKS[name](module, seed)
        return difference(ENGINES[name], program, module, inputs, wanted)

    return complaints(engines, ask, times)


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Generate and check the program of a seed."""
    if engines == ["digest"]:
        return {"seed": seed, "digest": object_digest(program_of_seed(seed).module)}
    started = time.process_time()
    program = program_of_seed(seed)
    spent = {"generate": time.process_time() - started}
    kinds = kinds_of(program.module)
    names = plan_of(seed) if engines == [ROTATION] else engines
    found = check(program, program.module, seed, names, spent)
    return answer_of(seed, names, found, kinds, spent)


def main() -> None:
    """Answer requests until there are no more."""
    serve(answer)


if __name__ == "__main__":
    main()
