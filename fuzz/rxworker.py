"""The process that checks graphs: when it dies, the campaign learns which one it was.

It reads and answers lines as ``fuzz.worker`` does.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import time
import traceback
import warnings
from typing import Any

from fuzz.choices import SeedChoices
from fuzz.rxengines import reference, trouble
from fuzz.rxgen import program_of_seed
from fuzz.rxprogram import RelaxProgram
from loomir.support.cautions import CompileWarning
from loomir.support.diagnostics import LoomirError

__all__ = ["ROTATION", "answer", "check", "main", "plan_of"]

ROTATION = "rotation"
"""The name of an engine that stands for those whose turn it is."""

_NATIVE = [(70.0, "quick"), (6.0, "native-O0"), (8.0, "native"), (1.0, "native-O3")]
_OTHERS = [
    (1.0, "described"),
    (0.4, "well-formed"),
    (0.3, "normal"),
    (0.3, "reparsed"),
    (0.1, "serialized"),
    (0.25, "each-pass"),
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
    """Run engines; gives how each disagrees with the interpreter, where one does."""
    times: dict[str, float] = {} if spent is None else spent
    started = time.process_time()
    wanted = reference(program)
    times["reference"] = time.process_time() - started
    found: dict[str, str] = {}
    for name in engines:
        started = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CompileWarning)  # mistakes ask for some
                said = trouble(name, program, seed, wanted)
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
    started = time.process_time()
    program = program_of_seed(seed)
    spent = {"generate": time.process_time() - started}
    names = plan_of(seed) if engines == [ROTATION] else engines
    found = check(program, seed, names, spent)
    seconds = time.process_time() - started
    return {
        "seed": seed,
        "found": found,
        "kinds": sorted({*program.made, *(f"refused {name}" for name in program.refused)}),
        "engines": names,
        "seconds": round(seconds, 4),
        "spent": {name: round(t, 4) for name, t in spent.items()},
    }


def main() -> None:
    """Answer requests until there are no more."""
    gc.disable()  # what a program leaves is collected between programs, not while one runs
    gc.freeze()
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
