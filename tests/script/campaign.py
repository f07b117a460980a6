"""Many random programs and texts through the parser and the printer.

python -m tests.script.campaign round-trip --count 20000
python -m tests.script.campaign mutate --count 100000
python -m tests.script.campaign calls --count 100000
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from loomir.check.relax.verify import verify
from loomir.ir import IRModule, assert_structural_equal
from loomir.relax.expr import Function
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.tir import PrimFunc
from tests.script.graph_mutations import GRAPHS, odd_graph
from tests.script.mutations import corpus, mutate, odd_call
from tests.script.printer.odd_program import OddMaker

__all__ = ["check_mutation", "check_round_trip", "main"]

SECONDS: Final = 10.0
_CORPUS: list[str] = []


def come_back(program: PrimFunc | Function | IRModule) -> None:
    """Check that a program equals what is parsed from its text."""
    text = program.script()
    again = from_source(text)
    assert_structural_equal(program, again)
    assert again.script() == text, "the text changes when it is printed again"


def check_round_trip(seed: int) -> str:
    """Print and read the program of a seed; return what it was."""
    maker = OddMaker(seed)
    program = maker.module() if seed % 3 == 0 else maker.func()
    come_back(program)
    return type(program).__name__


def text_of(seed: int) -> str:
    """Return the changed text of a seed."""
    if not _CORPUS:
        _CORPUS.extend(corpus())
    random = Random(seed)
    return mutate(random.choice(_CORPUS), random)


def check_mutation(seed: int) -> str:
    """Read the changed text of a seed; return how that ended."""
    return check_text(text_of(seed))


def check_call(seed: int) -> str:
    """Read a program that calls a function of ``T`` with odd arguments; return how that ended."""
    return check_text(odd_call(Random(seed)))


def check_graph_mutation(seed: int) -> str:
    """Read the changed text of a program of Relax; return how that ended."""
    random = Random(seed)
    return check_text(mutate(random.choice(GRAPHS), random))


def check_graph(seed: int) -> str:
    """Read a program that calls a name of ``R`` with odd arguments; return how that ended."""
    return check_text(odd_graph(Random(seed)))


def check_text(text: str) -> str:
    """Read a text, which must be a program or refused with its mistakes in their places."""
    start = time.process_time()
    try:
        program = from_source(text)
    except CompileError as error:
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for found in error.diagnostics:
            assert found.message, found
            assert found.code[:3] in ("SCR", "TIR", "RLX", "OPS"), found
            assert found.code != "SCR0014" or found.help, found
            if found.span is not None:
                assert 1 <= found.span.line <= len(lines), found
                assert 1 <= found.span.column <= len(lines[found.span.line - 1]) + 1, found
            else:
                assert found.code == "SCR0014", found  # no program has no place
        ended = error.diagnostic.code
    else:
        if not verify(program):
            come_back(program)
            ended = "read"
        else:
            assert program.script()
            ended = "read, with mistakes"
    assert time.process_time() - start < SECONDS, "this takes too long"
    return ended


CHECKS: Final[dict[str, Callable[[int], str]]] = {
    "round-trip": check_round_trip,
    "mutate": check_mutation,
    "calls": check_call,
    "mutate-graphs": check_graph_mutation,
    "graphs": check_graph,
}


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; return the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    given = parser.parse_args(arguments)
    ends: Counter[str] = Counter()
    failures = 0
    for seed in range(given.start, given.start + given.count):
        try:
            ends[CHECKS[given.check](seed)] += 1
        except Exception as error:  # noqa: BLE001, whatever it is, it is what is looked for
            failures += 1
            first = str(error).partition("\n")[0][:200]
            sys.stdout.write(f"seed {seed}: {type(error).__name__}: {first}\n")
    counts = ", ".join(f"{number} {name}" for name, number in ends.most_common())
    sys.stdout.write(f"{given.count} seeds, {failures} failures: {counts}\n")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
