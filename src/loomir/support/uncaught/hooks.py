"""Python hooks that end scripts with a diagnostic instead of Loomir's stack frames."""

from __future__ import annotations

import contextlib
import sys
import threading
from types import TracebackType

from loomir.support.diagnostics import CompileError, InternalError, RunError
from loomir.support.fork_safe import import_module

__all__ = ["hook_uncaught"]


def hook_uncaught() -> None:
    """Make scripts end with the diagnostic, unless another exception hook is installed."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _report_in_script
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _report_in_thread
    if "IPython" in sys.modules:
        import_module("loomir.support.uncaught.frames").hook_notebook()


def _report_in_script(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not _is_written(error, ""):
        error = _strip_our_frames(error)
        sys.__excepthook__(kind, error, error.__traceback__)


def _report_in_thread(args: threading.ExceptHookArgs) -> None:
    head = "" if args.thread is None else f"in thread {args.thread.name}:\n"
    if not _is_written(args.exc_value, head):
        if args.exc_value is not None:
            error = _strip_our_frames(args.exc_value)
            given = (args.exc_type, error, error.__traceback__, args.thread)
            args = threading.ExceptHookArgs(given)
        threading.__excepthook__(args)


def _strip_our_frames(error: BaseException) -> BaseException:
    """Return an error of the user's own code without the frames of Loomir around it."""
    with contextlib.suppress(Exception):
        if not import_module("loomir.support.uncaught.text").wants_frames():
            find = import_module("loomir.support.uncaught.frames").strip_our_frames
            kept = find(error.__traceback__)
            if kept is not None:
                return error.with_traceback(kept)
    return error


def _is_written(error: BaseException | None, head: str) -> bool:
    """Write an error with diagnostics to standard error; tell whether that was complete."""
    out = sys.stderr
    diagnosed = isinstance(error, (CompileError, RunError, InternalError))
    if not diagnosed or not hasattr(out, "write"):
        return False
    try:
        explain = import_module("loomir.support.uncaught.text")
        if explain.wants_frames():
            return False
        if isinstance(error, InternalError):
            written = import_module("loomir.support.uncaught.frames").explain_bug(error)
        else:
            written = explain.explain_uncaught(error)
        text = f"{head}{written}\n"
    except Exception:  # noqa: BLE001 - Python's own traceback is better than none
        return False
    encoding = getattr(out, "encoding", None) or "utf-8"
    with contextlib.suppress(OSError, ValueError):
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        out.flush()
    return True
