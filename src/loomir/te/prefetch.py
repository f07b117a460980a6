"""Prefetch hints: regions of memory that will be read soon."""

from __future__ import annotations

from typing import ClassVar

from loomir.ir.node import meta, node, uses
from loomir.support.caller_span import user_span
from loomir.support.diagnostics import with_count
from loomir.support.span import Span
from loomir.tir.buffer import Buffer, Range
from loomir.tir.rules import refuse
from loomir.tir.stmt import Stmt

__all__ = ["Prefetch", "prefetch"]


@node
class Prefetch(Stmt):
    """A hint that a region of ``buffer`` will be read soon; lowering drops it.

    Errors: TE0001 for another number of ranges than axes.
    """

    lowered_by: ClassVar[str] = "te.create_prim_func"

    buffer: Buffer = uses()
    bounds: tuple[Range, ...]
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        axes = len(self.buffer.shape)
        if len(self.bounds) != axes:
            refuse(
                "TE0001",
                f"buffer {self.buffer.name!r} has {with_count(axes, 'axis', 'axes')} but "
                f"{with_count(len(self.bounds), 'range')} of it "
                f"{'is' if len(self.bounds) == 1 else 'are'} prefetched",
                help=f"give {with_count(axes, 'range')}",
                span=self.span,
            )


def prefetch(buffer: Buffer, bounds: tuple[Range, ...]) -> Prefetch:
    """Hint in the statement of a ``te.extern`` that a region is read soon. Errors: TE0001."""
    return Prefetch(buffer, tuple(bounds), span=user_span())
