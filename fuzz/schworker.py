"""The process that runs what is scheduled: when it dies, the campaign learns which seed it was.

Reads lines ``seed limit``; answers each with a line of JSON, as ``fuzz.worker`` does.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time
import traceback
import warnings
from typing import Any

from fuzz.schgen import check

__all__ = ["main"]


def _answer(seed: int) -> dict[str, Any]:
    started = time.process_time()
    try:
        reply = check(seed)
    except Exception as error:  # noqa: BLE001 - a bug of ours, whatever it is
        text = "".join(traceback.format_exception(error))
        reply = {"seed": seed, "found": {"generator": text}}
    return {**reply, "seconds": round(time.process_time() - started, 4)}


def main() -> None:
    """Answer requests until there are no more."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        seed, limit, *_ = line.split()
        faulthandler.dump_traceback_later(float(limit), exit=True)
        reply = _answer(int(seed))
        faulthandler.cancel_dump_traceback_later()
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
