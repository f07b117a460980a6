"""The process that runs what is tested: when it dies, the campaign learns which program it was.

Reads lines ``seed engine engine…``; answers each with a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections import Counter
from typing import Any

from fuzz.engines import ENGINES, disagreement, reference, run_with
from fuzz.kinds import kinds_of
from fuzz.program import Program
from fuzz.tirgen import program_of_seed
from loomir.ir.module import IRModule
from loomir.support.diagnostics import LoomirError

__all__ = ["check", "main"]


def check(program: Program, module: IRModule, seed: int, engines: list[str]) -> dict[str, str]:
    """Run a module with engines; gives how each disagrees with the interpreter, where one does."""
    wanted = reference(program, module, seed)
    if wanted.error and not program.may_fail:
        return {"reference": f"{wanted.error} {wanted.text}"}
    found: dict[str, str] = {}
    for name in engines:
        try:
            got = run_with(ENGINES[name], program, module, seed)
        except LoomirError as error:
            text = str(error).splitlines()
            found[name] = f"{type(error).__name__}: {text[0] if text else ''}"
            continue
        except Exception as error:  # noqa: BLE001 - a bug of ours, whatever it is
            where = traceback.extract_tb(error.__traceback__)[-1]
            found[name] = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
            continue
        difference = disagreement(program, wanted, got)
        if difference:
            found[name] = difference
    return found


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Generate and check the program of a seed."""
    started = time.perf_counter()
    program = program_of_seed(seed)
    kinds = Counter(kinds_of(program.module))
    found = check(program, program.module, seed, engines)
    seconds = time.perf_counter() - started
    return {"seed": seed, "found": found, "kinds": dict(kinds), "seconds": round(seconds, 4)}


def main() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        seed, *engines = line.split()
        try:
            reply = answer(int(seed), engines)
        except Exception as error:  # noqa: BLE001 - a bug of ours, whatever it is
            text = "".join(traceback.format_exception(error))
            reply = {"seed": int(seed), "found": {"generator": text}, "kinds": {}, "seconds": 0}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
