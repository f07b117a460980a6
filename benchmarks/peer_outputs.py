"""Compare apache-tvm with the definition of the language, on random programs.

This is a second opinion: if Loomir and the peer differ, one of them is wrong. Every program runs in
Loomir's interpreter, natively, and in the peer, which has a process of its own since some programs
end it. Prints how many agree; programs that the peer refuses, or does not survive, are counted
separately.

Run, with the extra ``bench``: python -m benchmarks.peer_outputs [--count 200] [--show]
"""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.util
import multiprocessing
import re
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import loomir
from fuzz.choices import SeedChoices
from fuzz.tir.generate import program_of_seed
from fuzz.tir.program import ArraySpec, Program
from loomir.support.diagnostics import RunError

SECONDS = 30.0
"""What the peer gets for one program."""


def for_peer(text: str) -> str:
    """Write a module as the peer reads it: no imports, its name of the dialect."""
    lines = [line for line in text.splitlines() if not line.startswith(("from ", "import "))]
    body = "\n".join(lines)
    body = body.replace("@T.prim_func(private=True)", "@T.prim_func(private=True, s_tir=True)")
    return re.sub(r"@T\.prim_func$", "@T.prim_func(s_tir=True)", body, flags=re.MULTILINE).strip()


def serve(pipe: Connection) -> None:
    """Run what comes through the pipe in the peer, until it closes."""
    tvm: Any = importlib.import_module("tvm")
    script: Any = importlib.import_module("tvm.script")
    while True:
        try:
            text, entry, arguments = pipe.recv()
        except EOFError:
            return
        try:
            built = tvm.compile(script.from_source(text), target="llvm").jit()
            tensors = [tvm.runtime.tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]
            result = built[entry](*tensors)
            arrays = [h.numpy() if hasattr(h, "numpy") else None for h in tensors]
            pipe.send(("ran", result, arrays))
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is its answer
            pipe.send(("refused", f"{type(error).__name__}: {error}"[:200], []))


class Peer:
    """The peer's process, started anew after each end."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._process = self._context.Process(target=serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def run(self, text: str, entry: str, arguments: list[Any]) -> tuple[str, Any, list[Any]]:
        """Return what happened, the result, and the arrays as they are then."""
        try:
            self._pipe.send((text, entry, arguments))
            if self._pipe.poll(SECONDS):
                return self._pipe.recv()
            answer = "hung"
        except (EOFError, OSError):
            answer = "ended its process"
        self.stop()
        self._start()
        return answer, None, []

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def same(ours: list[Any], theirs: list[Any], program: Program) -> bool:
    """Compare arrays bit for bit, NaNs alike, and by the stated error where math is involved."""
    for spec, a, b in zip(program.arguments, ours, theirs, strict=True):
        if not isinstance(spec, ArraySpec):
            continue
        if spec.tolerance:
            with np.errstate(all="ignore"):
                wide = [x.astype("float64") for x in (a, b)]
                if not np.allclose(*wide, rtol=1e-2, atol=1e-6, equal_nan=True):
                    return False
        elif a.tobytes() != b.tobytes() and not np.array_equal(
            *(x.astype("float64") if x.dtype.kind not in "iub" else x for x in (a, b)),
            equal_nan=a.dtype.kind not in "iub",
        ):
            return False
    return True


def judge(program: Program, peer: Peer) -> str:
    """Say how the peer did on one program."""
    strided = any(isinstance(s, ArraySpec) and (s.steps or s.offset) for s in program.arguments)
    if strided or program.may_fail:
        return "not asked: strided arrays, or errors that are a meaning"
    ours = program.make_arguments(SeedChoices("peer"))
    native = program.make_arguments(SeedChoices("peer"))
    theirs = program.make_arguments(SeedChoices("peer"))
    try:
        loomir.interpret(program.module, program.entry, *ours)
        loomir.compile(program.module, cache=False)[program.entry](*native)
    except RunError:
        return "not asked: strided arrays, or errors that are a meaning"
    if not same(ours, native, program):
        return "LOOMIR DIFFERS FROM ITS INTERPRETER"
    what, _, arrays = peer.run(for_peer(program.module.script()), program.entry, theirs)
    if what != "ran":
        return what
    return "agrees" if same(ours, arrays, program) else "differs"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--show", action="store_true", help="name the seeds that differ")
    options = parser.parse_args()
    if importlib.util.find_spec("tvm") is None:
        raise SystemExit("apache-tvm is not installed: pip install '.[bench]'")
    counts: collections.Counter[str] = collections.Counter()
    peer = Peer()
    for seed in range(options.start, options.start + options.count):
        answer = judge(program_of_seed(seed), peer)
        counts[answer] += 1
        if options.show and answer != "agrees" and not answer.startswith("not asked"):
            print(f"seed {seed}: {answer}", flush=True)
    peer.stop()
    for answer, count in counts.most_common():
        print(f"{count:6} {answer}")


if __name__ == "__main__":
    main()
