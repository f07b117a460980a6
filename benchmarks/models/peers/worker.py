"""The process of one peer and one model, which starts like a program that runs the model once.

It reads a command per line and answers each with a line of JSON. NumPy and the library are imported
within ``start``, whose clock begins at the creation of the process.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

__all__ = ["main", "memory"]


def memory(field: str) -> int:
    """Return bytes of this process from the status that Linux keeps, such as of ``VmHWM``."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return 0


class _Worker:
    run: Any = None

    def start(self, peer: str, threads: int, folder: str, cache: str, result: str) -> Any:
        """Import, load and call; say when each was done, and what memory that took."""
        import numpy as np  # noqa: PLC0415 - part of what is measured

        from benchmarks.models.peers import load  # noqa: PLC0415

        made = load(peer, threads, Path(cache))
        imported, empty = time.monotonic(), memory("VmRSS")
        with np.load(Path(folder) / "inputs.npz") as file:
            inputs = [file[f"x{i}"] for i in range(len(file.files))]
        running = made.load(Path(folder), inputs)
        loaded, own = time.monotonic(), memory("VmRSS")
        running.run()
        called = time.monotonic()
        peak, resident = memory("VmHWM"), memory("VmRSS")
        running.run()
        arrays: dict[str, Any] = {f"y{i}": y for i, y in enumerate(running.results())}
        np.savez(result, **arrays)
        self.run = running.run
        return {
            "imported": imported,
            "loaded": loaded,
            "called": called,
            "memory": {"imported": empty, "loaded": own, "called": resident, "peak": peak},
        }

    def turn(self, seconds: float) -> Any:
        """Run for a while; the first call warms the caches again and does not count."""
        times: list[float] = []
        end = time.perf_counter() + seconds
        latest = end + 4 * seconds
        while (now := time.perf_counter()) < end or (len(times) < 4 and now < latest):
            self.run()
            times.append(time.perf_counter() - now)
        return {"times": times[1:] or times}


def main() -> None:
    """Serve until the input ends."""
    # Libraries print; what they print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = _Worker()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            reply: Any = getattr(worker, name)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is told
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
