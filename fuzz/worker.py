"""The process that runs what is tested: when it dies, the campaign learns which program it was.

Reads lines ``seed limit engine engine…``; answers each with a line of JSON. A program that takes
more than ``limit`` seconds ends the process, which says on the error stream where it was.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from fuzz.choices import SeedChoices
from fuzz.engines import ENGINES, difference, inputs_of, reference
from fuzz.illtyped import accepted_mistake
from fuzz.kinds import kinds_of
from fuzz.native import object_digest
from fuzz.program import Program
from fuzz.tirgen import program_of_seed
from loomir.ir.module import IRModule
from loomir.support.diagnostics import LoomirError

__all__ = ["CHECKS", "ROTATION", "answer", "check", "main", "plan_of"]

ROTATION = "rotation"
"""The name of an engine that stands for those whose turn it is."""

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
    (0.30, "ill-typed"),
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
    """Run a module with engines; gives how each disagrees with the interpreter, where one does.

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
    found: dict[str, str] = {}
    for name in engines:
        started = time.process_time()
        try:
            if name in CHECKS:
                said = CHECKS[name](module, seed)
            else:
                said = difference(ENGINES[name], program, module, inputs, wanted)
        except LoomirError as error:
            text = str(error).splitlines()
            said = f"{type(error).__name__}: {text[0] if text else ''}"
        except Exception as error:  # noqa: BLE001 - a bug of ours, whatever it is
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        times[name] = time.process_time() - started
        if said:
            found[name] = said
    return found


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
    seconds = time.process_time() - started
    return {
        "seed": seed,
        "found": found,
        "kinds": kinds,
        "engines": names,
        "seconds": round(seconds, 4),
        "spent": {name: round(t, 4) for name, t in spent.items()},
    }


def main() -> None:
    """Answer requests until there are no more."""
    gc.disable()  # what a program leaves is collected between programs, not while one runs
    gc.freeze()  # and what is there before the first one is never looked at
    for line in sys.stdin:
        seed, limit, *engines = line.split()
        faulthandler.dump_traceback_later(float(limit), exit=True)
        try:
            reply = answer(int(seed), engines)
        except Exception as error:  # noqa: BLE001 - a bug of ours, whatever it is
            text = "".join(traceback.format_exception(error))
            reply = {"seed": int(seed), "found": {"generator": text}}
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
        if int(seed) % 20 == 0:
            gc.collect()


if __name__ == "__main__":
    main()
