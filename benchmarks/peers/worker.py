"""The process of one peer: it prepares rows, and runs them on command.

It reads a command per line and answers each with a line of JSON. Between its turns the whole
process is stopped, so that spinning threads disturb nobody.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any

import numpy as np

from benchmarks.peers import Peer, PreparedRun, load
from benchmarks.rows import ROWS, inputs_of

__all__ = ["main"]


class _Worker:
    def __init__(self, peer: str, threads: int) -> None:
        self.peer: Peer = load(peer, threads)
        self.prepared: PreparedRun | None = None
        self.inputs: list[Any] = []

    def prepare(self, row: str, path: str) -> dict[str, Any]:
        """Compile a row, as far as the first call does, and write what it gives."""
        self.prepared = None
        (found,) = (r for r in ROWS if r.name == row)
        inputs = self.inputs = inputs_of(found)  # libraries may borrow their memory
        start = time.perf_counter()
        self.prepared = self.peer.prepare(found, inputs)
        if self.prepared is None:
            return {"skipped": True}
        made = time.perf_counter() - start
        begin = time.perf_counter()
        self.prepared.run()  # some compile when they are first called
        again = time.perf_counter()
        self.prepared.run()
        once = time.perf_counter() - again
        made += max(0.0, again - begin - once)
        result = np.asarray(self.prepared.result())
        np.save(path, result.astype("int64" if found.dtype == "int8" else "float64"))
        return {"compile": made, "once": once}

    def turn(self, seconds: float) -> dict[str, Any]:
        """Run for a while; the first call warms the caches again and does not count."""
        assert self.prepared is not None
        run = self.prepared.run
        times: list[float] = []
        end = time.perf_counter() + seconds
        latest = end + 10 * seconds
        while (now := time.perf_counter()) < end or (len(times) < 4 and now < latest):
            run()
            times.append(time.perf_counter() - now)
        return {"times": times[1:] or times}

    def roof(self) -> dict[str, Any]:
        """Measure the machine with as many threads as everybody has."""
        import loomir  # noqa: PLC0415 - only the process of Loomir is asked
        from loomir.profiling.roof import measure_roof  # noqa: PLC0415

        roof = measure_roof(loomir.compile)._asdict()
        # Instructions for narrow numbers take two or four steps of a sum for each float32.
        machine = loomir.Target("native")
        steps = {
            "int8": 4 if machine.has("avx512_vnni") or machine.has("avx_vnni") else 1,
            "bfloat16": 2 if machine.has("avx512_bf16") else 1,
        }
        return roof | {f"{dtype} flops": roof["flops"] * n for dtype, n in steps.items()}


def main() -> None:
    """Serve until the input ends."""
    # Libraries print; what they print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker: _Worker | None = None
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            if name == "start":
                worker = _Worker(*arguments)
                reply: dict[str, Any] = {"ok": True}
            else:
                reply = getattr(worker, name)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is told
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
