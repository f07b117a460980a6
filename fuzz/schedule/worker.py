"""The process that runs scheduled programs; if it dies, the campaign learns the seed."""

from __future__ import annotations

import time
import warnings
from typing import Any

from fuzz.schedule.generate import check
from fuzz.serving import answer_of, serve

__all__ = ["answer", "main"]


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Make and check the sequence of a seed."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reply = check(seed)
    spent = {"sequence": time.process_time() - started}
    return answer_of(seed, engines, reply["found"], reply["kinds"], spent)


def main() -> None:
    """Answer requests until there are no more."""
    serve(answer)


if __name__ == "__main__":
    main()
