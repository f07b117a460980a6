"""The builder: a stack of frames, one for each scope of the program.

A frame is pushed on entry. On exit it builds its part of the program and attaches it to the
enclosing frame. Some frames last for the rest of the enclosing scope (a ``let``, an allocation):
``IRBuilder.open`` enters them, and they are closed with the enclosing frame.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from loomir.ir.module import IRModule
from loomir.script.builder.mistakes import mistake, with_span
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.support.span import Span
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import SeqStmt, Stmt, seq

if TYPE_CHECKING:
    from loomir.relax.expr import Function

__all__ = ["Frame", "IRBuilder", "Program", "StmtFrame"]

_V = TypeVar("_V")
_F = TypeVar("_F", bound="Frame[Any]")

Program: TypeAlias = "PrimFunc | Function | IRModule"


class _Active(threading.local):
    """The builders that are entered in this thread, innermost last."""

    def __init__(self) -> None:
        self.builders: list[IRBuilder] = []


_ACTIVE = _Active()


class IRBuilder:
    """Builds a program from frames; ``get`` returns the finished program.

    Errors: SCR0024 where a builder function is used without a builder or the frame that it needs.
    """

    def __init__(self) -> None:
        self.frames: list[Frame[Any]] = []
        self.result: Program | None = None
        self.warnings: list[Diagnostic] = []
        """What may not be meant in the functions that are finished."""
        self.nulls: dict[int, object] = {}
        """The variables that ``R.null_value()`` is bound to, by ``id``."""

    def __enter__(self) -> IRBuilder:
        _ACTIVE.builders.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _ACTIVE.builders.remove(self)

    @staticmethod
    def active() -> IRBuilder | None:
        """Return the innermost builder of this thread, or None."""
        return _ACTIVE.builders[-1] if _ACTIVE.builders else None

    @staticmethod
    def current() -> IRBuilder:
        """Return the innermost builder of this thread."""
        if not _ACTIVE.builders:
            raise mistake(
                "SCR0024",
                "this builds part of a program, but no program is under construction",
                help="use it in a function under @T.prim_func, or in `with IRBuilder():`",
            )
        return _ACTIVE.builders[-1]

    def get(self) -> Program:
        """Return the program whose outermost frame was left."""
        if self.result is None:
            raise mistake(
                "SCR0024",
                "the builder has no finished program",
                help="leave the frame of the function or module first",
            )
        return self.result

    def find(self, kind: type[_F]) -> _F | None:
        """Return the innermost frame of a kind, or None."""
        for frame in reversed(self.frames):
            if isinstance(frame, kind):
                return frame
        return None

    def need(self, kind: type[_F], what: str, help: str) -> _F:
        """Return the innermost frame of a kind; ``what`` says in the error what needs it."""
        found = self.find(kind)
        if found is None:
            raise mistake("SCR0024", f"{what} is used outside of {kind.what}", help=help)
        return found

    def scope(self) -> Frame[Any] | None:
        """Return the innermost frame, those aside that hold for the rest of it."""
        for frame in reversed(self.frames):
            if not frame.rest:
                return frame
        return None

    def emit(self, statement: Stmt) -> None:
        """Add a statement to the innermost frame."""
        top = self.frames[-1] if self.frames else None
        if not isinstance(top, StmtFrame):
            raise mistake(
                "SCR0024",
                "a statement is outside of a function",
                help="write statements in a function, a loop, a block or a branch",
                span=getattr(statement, "span", None),
            )
        top.add(statement)

    def open(self, frame: Frame[_V]) -> _V:
        """Enter a frame that holds for the rest of the scope."""
        frame.rest = True
        return frame.__enter__()

    def close(self, frame: Frame[Any], failed: bool) -> None:
        """Leave a frame, and first those opened in it; all are popped even where one refuses."""
        refused: CompileError | None = None
        while True:
            top = self.frames.pop()
            if not failed and refused is None:
                try:
                    top.finish(self)
                except CompileError as error:
                    refused = with_span(error, top.span)
            else:
                top.abandon()
            if top is frame:
                break
        if refused is not None:
            raise refused


class Frame(Generic[_V]):
    """A scope of the program that is being built."""

    what = "its scope"
    """How errors call a frame of this kind."""

    span: Span | None = None
    rest: bool = False

    def __enter__(self) -> _V:
        frames = IRBuilder.current().frames
        frames.append(self)
        try:
            return self.enter()
        except CompileError:
            frames.remove(self)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        IRBuilder.current().close(self, failed=kind is not None)

    def enter(self) -> _V:
        """Make what ``with … as`` binds."""
        raise TypeError(f"{type(self).__name__} cannot be entered")

    def finish(self, builder: IRBuilder) -> None:
        """Make this frame's part and attach it to the frame around it."""

    def abandon(self) -> None:
        """Leave the frame without making anything: what stands in it was refused."""


class StmtFrame(Frame[_V]):
    """A scope that holds statements."""

    def __init__(self) -> None:
        self.statements: list[Stmt] = []

    def add(self, statement: Stmt) -> None:
        """Take a statement."""
        self.statements.append(statement)

    def body(self) -> Stmt:
        """Return the statements as one."""
        return seq(self.statements) if self.statements else SeqStmt(())
