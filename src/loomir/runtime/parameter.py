"""Parameters of compiled functions, as far as the native boundary needs them."""

from __future__ import annotations

from dataclasses import dataclass

from loomir.support.dtype import DataType
from loomir.support.span import Span

__all__ = ["Parameter"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a compiled function: a buffer's memory, a number, or a bare handle.

    ``dtype`` is that of the buffer's elements, or of the number; ``is_written`` says whether the
    program may write to the buffer.
    """

    name: str
    dtype: DataType
    is_buffer: bool
    is_written: bool = False
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{' buffer' if self.is_buffer else ''}"
