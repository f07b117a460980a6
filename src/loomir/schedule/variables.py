"""Random variables: the names of loops, blocks and numbers in a schedule and its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from weakref import WeakMethod

from loomir.support.diagnostics import Diagnostic, ScheduleError
from loomir.tir.expr import Var

__all__ = ["BlockRV", "ExprRV", "LoopRV"]


class VariableAttributeError(ScheduleError, AttributeError):
    """A random variable has no such attribute."""


class _Variable:
    """A name for a part of a program; what it stands for is the schedule's to say.

    ``describe`` refers to what writes that for ``repr``, and keeps no schedule alive; it is None
    where no schedule made the name.
    """

    __slots__ = ("_describe",)

    kind: ClassVar[str]
    """What it names, in a word."""

    def __init__(self, describe: WeakMethod[Callable[[object], str | None]] | None = None) -> None:
        self._describe = describe

    if not TYPE_CHECKING:  # checkers know the names that there are

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(f"a random variable has no attribute {name!r}")
            message = f"what names a {self.kind} has no attribute {name!r}"
            help_ = f"ask the schedule for the {self.kind} itself: sch.get(rv).{name}"
            raise VariableAttributeError(Diagnostic("SCH0003", message, help=help_))

    def __repr__(self) -> str:
        if self._describe is None:
            return f"<{self.kind} of a trace>"
        describe = self._describe()
        known = None if describe is None else describe(self)
        return f"<{self.kind} {known or 'that is gone'}>"


class BlockRV(_Variable):
    """A name for a block."""

    __slots__ = ()

    kind: ClassVar[str] = "block"


class LoopRV(_Variable):
    """A name for a loop."""

    __slots__ = ()

    kind: ClassVar[str] = "loop"


ExprRV: TypeAlias = Var
"""A number that was drawn: a variable, so that numbers can be computed from it."""
