"""The process that measures: reads requests, a line each, and answers by a line each."""

from __future__ import annotations

import json
import os
import signal
import sys

from loomir.tuning.measure import measure
from loomir.tuning.request import Request

__all__ = ["serve"]


def serve(version: str) -> None:
    """Answer requests until the standard input ends, as it does when the parent is gone.

    If a kernel hangs after that, an alarm ends the process.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of programs must not mix with answers
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when Ctrl-C ends a search
    for line in sys.stdin:
        request = Request.from_plain(json.loads(line))
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, request.limit + 5)
        outcome = measure(request)._replace(version=version)
        answers.write(json.dumps(outcome.to_plain()) + "\n")
        answers.flush()
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
