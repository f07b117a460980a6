"""Take Loomir's frames out of tracebacks of errors that the user's own code raised.

A formula, a pass, a converter or a packed function that fails stands between frames of Loomir,
which say nothing of why. Where the error was raised in Loomir, all frames stay: somebody must
find the bug.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from loomir.support.diagnostics import InternalError

__all__ = ["explain_bug", "hook_notebook", "strip_our_frames"]

_OURS: Final = __name__.partition(".")[0]


def strip_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without Loomir's frames; None if it has none, or if Loomir raised."""
    frames: list[TracebackType] = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    ours = [_is_ours(one) for one in frames]
    if not any(ours) or all(ours):
        return None
    # An error of Python's library, or of another one, is that of its caller.
    callers = [mine for one, mine in zip(frames, ours) if mine or not _is_library(one)]
    if not callers or callers[-1]:
        return None
    made: TracebackType | None = None
    for one, mine in zip(reversed(frames), reversed(ours)):
        if not mine:
            made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made


def _is_ours(trace: TracebackType) -> bool:
    home = str(trace.tb_frame.f_globals.get("__name__", ""))
    return home == _OURS or home.startswith(f"{_OURS}.")


def _is_library(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return file.startswith("<frozen") or f"{os.sep}site-packages{os.sep}" in file or _is_std(file)


def _is_std(file: str) -> bool:
    return file.startswith(os.path.dirname(os.__file__) + os.sep)


def explain_bug(error: InternalError) -> str:
    """Describe a bug of Loomir in a few lines; the traceback goes to a file for a report.

    Errors: OSError if no file can be written.
    """
    descriptor, path = tempfile.mkstemp(prefix="loomir-error-", suffix=".txt")
    with open(descriptor, "w", encoding="utf-8") as file:
        version = sys.modules[_OURS].__version__
        file.write(f"Loomir {version}, Python {platform.python_version()}, {platform.platform()}\n")
        file.writelines(traceback.format_exception(error))
    lines = ["".join(traceback.format_exception_only(error)).partition(": ")[2].rstrip()]
    own = [one for one in traceback.extract_tb(error.__traceback__) if not _is_of_package(one)]
    if own:
        lines.append(f" --> {own[-1].filename}:{own[-1].lineno}, in {own[-1].name}")
    lines.append(f"The traceback is in {path}, which belongs in the report.")
    return "internal error: " + "\n".join(lines)


def _is_of_package(frame: traceback.FrameSummary) -> bool:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return frame.filename.startswith((package + os.sep, "<frozen"))


def hook_notebook() -> None:
    """Let IPython, if it runs, show tracebacks of users' errors without Loomir's frames."""
    shell_of: Callable[[], Any] | None = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if shell_of is None else shell_of()
    shown = getattr(shell, "InteractiveTB", None)
    if shown is None or getattr(shown, "without_loomir", False):
        return
    write = shown.structured_traceback

    def format_traceback(
        kind: Any, error: Any, trace: Any = None, *args: Any, **options: Any
    ) -> Any:
        if os.environ.get("LOOMIR_TRACEBACK") != "full" and isinstance(trace, TracebackType):
            kept = strip_our_frames(trace)
            if kept is not None:
                return write(kind, error.with_traceback(kept), kept, *args, **options)
        return write(kind, error, trace, *args, **options)

    shown.structured_traceback = format_traceback
    shown.without_loomir = True
