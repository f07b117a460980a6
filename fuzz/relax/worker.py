"""The process that checks graphs."""

from __future__ import annotations

import time
import warnings
from typing import Any

from fuzz.choices import SeedChoices
from fuzz.relax.engines import reference, trouble
from fuzz.relax.generate import program_of_seed
from fuzz.relax.program import RelaxProgram
from fuzz.serving import ROTATION, answer_of, complaints, serve
from loomir.support.compile_warning import CompileWarning

__all__ = ["ROTATION", "answer", "check", "main", "plan_of"]

_NATIVE = [(70.0, "quick"), (6.0, "native-O0"), (8.0, "native"), (1.0, "native-O3")]
_OTHERS = [
    (1.0, "described"),
    (0.4, "well-formed"),
    (0.3, "normal"),
    (0.3, "reparsed"),
    (0.1, "serialized"),
    (0.25, "each-pass"),
    (0.15, "other-passes"),
    (0.08, "renamed"),
    (0.12, "dead-code"),
    (0.12, "inlined"),
    (0.25, "ill-formed"),
    (0.2, "mistaken"),
    (0.2, "other-sizes"),
]


def plan_of(seed: int) -> list[str]:
    """Say whose turn it is: one way to compile, and some of the others."""
    choices = SeedChoices(f"rx plan {seed}")
    native = choices.weighted(_NATIVE)
    return [native, *(name for share, name in _OTHERS if choices.chance(share))]


def check(
    program: RelaxProgram, seed: int, engines: list[str], spent: dict[str, float] | None = None
) -> dict[str, str]:
    """Run engines; return how each disagrees with the interpreter, where one does."""
    times: dict[str, float] = {} if spent is None else spent
    started = time.process_time()
    wanted = reference(program)
    times["reference"] = time.process_time() - started

    def ask(name: str) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)  # mistakes ask for some
            return trouble(name, program, seed, wanted)

    return complaints(engines, ask, times)


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Generate and check the program of a seed."""
    started = time.process_time()
    program = program_of_seed(seed)
    spent = {"generate": time.process_time() - started}
    names = plan_of(seed) if engines == [ROTATION] else engines
    found = check(program, seed, names, spent)
    kinds = {*program.made, *(f"refused {name}" for name in program.refused)}
    return answer_of(seed, names, found, kinds, spent)


def main() -> None:
    """Answer requests until there are no more."""
    serve(answer)


if __name__ == "__main__":
    main()
