"""The worker's side of a campaign: if it dies, the campaign learns the program.

It reads lines ``seed limit engine engine…`` and answers each with a line of JSON. A program that
takes more than ``limit`` seconds ends the process, which reports on stderr where it was.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from loomir.support.diagnostics import LoomirError

__all__ = ["ROTATION", "answer_of", "complaints", "serve"]

ROTATION = "rotation"
"""The name of an engine that stands for those whose turn it is."""


def serve(answer: Callable[[int, list[str]], dict[str, Any]]) -> None:
    """Answer requests, each a seed and names of engines, until there are no more."""
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


def complaints(
    engines: Iterable[str], ask: Callable[[str], str], times: dict[str, float]
) -> dict[str, str]:
    """Ask engines what is wrong; what they raise is wrong. ``times`` gets the seconds of each."""
    found: dict[str, str] = {}
    for name in engines:
        started = time.process_time()
        try:
            said = ask(name)
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


def answer_of(
    seed: int,
    engines: list[str],
    found: dict[str, str],
    kinds: Iterable[str],
    spent: dict[str, float],
) -> dict[str, Any]:
    """Make the answer about a program."""
    return {
        "seed": seed,
        "found": found,
        "kinds": sorted(kinds),
        "engines": engines,
        "seconds": round(sum(spent.values()), 4),
        "spent": {name: round(t, 4) for name, t in spent.items()},
    }
