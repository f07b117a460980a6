"""Run-time errors that are also the exceptions that Python programmers expect.

``except ZeroDivisionError`` and ``except loomir.RunError`` both catch a division by zero.
"""

from __future__ import annotations

from typing import Any

from loomir.support.diagnostics import Diagnostic, RunError

__all__ = [
    "CacheWarning",
    "RunAssertionError",
    "RunIndexError",
    "RunKeyError",
    "RunMemoryError",
    "RunOverflowError",
    "RunRecursionError",
    "RunTypeError",
    "RunValueError",
    "RunZeroDivisionError",
    "not_row_major",
    "refuse_pickle",
]


class RunTypeError(RunError, TypeError):
    """An argument is of the wrong kind, or there are too few or too many arguments."""


class RunValueError(RunError, ValueError):
    """An argument is of the right kind but cannot be used, or a size is impossible."""


class RunOverflowError(RunError, OverflowError):
    """A number does not fit the dtype of its parameter."""


class RunZeroDivisionError(RunError, ZeroDivisionError):
    """The program divided an integer by zero."""


class RunAssertionError(RunError, AssertionError):
    """An assertion of the program does not hold."""


class RunIndexError(RunError, IndexError):
    """The program accessed an element outside of a buffer."""


class RunRecursionError(RunError, RecursionError):
    """The program's functions called one another too deeply."""


class RunMemoryError(RunError, MemoryError):
    """Memory for the program could not be allocated."""


class RunKeyError(RunError, KeyError):
    """No function is known by that name."""


class RunAttributeError(RunError, AttributeError):
    """What a call gives or takes has no such attribute."""


class CacheWarning(UserWarning):
    """The cache of compiled code cannot be used; programs work, but are compiled every time."""


def refuse_pickle(what: str) -> RunTypeError:
    """Create the error for pickling an object that exists in one process only."""
    return RunTypeError(
        Diagnostic(
            "RUN0468",
            f"{what} cannot be pickled: its machine code belongs to this process",
            help="pickle the executable that loomir.compile returned, or write it to a file: "
            "exe.save(path)",
        )
    )


def not_row_major(name: str, array: Any, is_tensor: bool) -> RunValueError:
    """Create the error for an argument of a graph that is transposed or sliced."""
    copy = f"{name}.contiguous()" if is_tensor else f"numpy.ascontiguousarray({name})"
    return RunValueError(
        Diagnostic(
            "RUN0006",
            f"{name} must be row-major; its strides in bytes are {array.strides}",
            help=f"pass {copy}, or compile with copy_arguments=True",
        )
    )
