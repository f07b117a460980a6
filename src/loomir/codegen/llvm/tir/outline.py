"""Outline parts of long bodies into functions, so that LLVM's time stays linear.

Several LLVM passes take time quadratic in the number of loops of a function, and instruction
selection in the number of instructions of a block. So a large function is cut between statements,
at every nesting level, into functions of bounded size, which get the variables that they use as
parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from loomir.codegen.llvm.support.ir.faults import FAULTED, FINE
from loomir.codegen.llvm.tir.capture import capture, define_inner
from loomir.codegen.llvm.tir.frame import FunctionFrame, Size
from loomir.ir.op import Effect
from loomir.ir.visit import Step, by_class, children
from loomir.tir.builtins.table import BREAK_LOOP, CONTINUE_LOOP, effect_of
from loomir.tir.expr import Call
from loomir.tir.stmt import For, SeqStmt, Stmt, While

__all__ = ["measure", "run_in_pieces"]


class _Limit(NamedTuple):
    """A limit on the size of one function: its loops and its TIR nodes."""

    loops: int
    nodes: int

    def is_exceeded(self, size: Size) -> bool:
        """Tell whether something of this size is larger."""
        return size.loops > self.loops or size.nodes > self.nodes


# A body up to _WHOLE is never split, so that values stay in registers: a matrix product took three
# times as long in pieces. A larger one is split into runs of statements of up to _PIECE.
_WHOLE: Final = _Limit(48, 12_000)
_PIECE: Final = _Limit(16, 4_000)
_WORTH_A_CALL: Final = 200
"""Nodes from which one statement without loops is a piece; a bound on code, which was not tuned."""
_STACK: Final = 4096
"""The most bytes of allocations on the stack of a piece."""

_NEAR: Final = {BREAK_LOOP, CONTINUE_LOOP}


def measure(body: Stmt) -> dict[int, Size]:
    """Return the sizes of a large body's statements, by id; empty if the body is not split."""
    if _is_short(body):
        return {}
    sizes: dict[int, Size] = {}
    stack: list[tuple[Stmt, bool]] = [(body, False)]
    while stack:
        stmt, done = stack.pop()
        inner: list[Stmt] = []
        nodes, near, far = 1, False, False
        for part in _parts(stmt):
            if isinstance(part, Stmt):
                inner.append(part)
            else:
                nodes += 1
                if isinstance(part, Call) and effect_of(part) is Effect.CONTROL_JUMP:
                    near, far = near or part.op in _NEAR, far or part.op not in _NEAR
        if not done and inner:
            stack.append((stmt, True))
            stack += [(part, False) for part in inner]
            continue
        below = [sizes[id(part)] for part in inner]
        is_loop = isinstance(stmt, (For, While))
        sizes[id(stmt)] = Size(
            is_loop + sum(s.loops for s in below),
            nodes + sum(s.nodes for s in below),
            not is_loop and (near or any(s.jumps for s in below)),
            far or any(s.leaves for s in below),
        )
    return sizes if _WHOLE.is_exceeded(sizes[id(body)]) else {}


def _is_short(body: Stmt) -> bool:
    """Tell quickly whether a body is certainly short."""
    found = by_class(body)
    loops = len(found.get(For, ())) + len(found.get(While, ()))
    return not _WHOLE.is_exceeded(Size(loops, sum(map(len, found.values())), False, False))


def _parts(stmt: Stmt) -> Iterator[object]:
    """List a statement's direct children and all nodes of its expressions."""
    stack = children(stmt)
    while stack:
        part = stack.pop()
        yield part
        if not isinstance(part, Stmt):
            stack += children(part)


def run_in_pieces(frame: FunctionFrame, s: SeqStmt) -> Step[None]:
    """Emit a sequence of a large function: runs of statements as functions that it calls."""
    sizes = frame.unit.sizes
    piece: list[Stmt] = []
    total = Size(0, 0, False, False)
    for part in s.seq:
        size = sizes[id(part)]
        by_itself = size.jumps or size.leaves or _WHOLE.is_exceeded(size)
        combined = Size(total.loops + size.loops, total.nodes + size.nodes, False, False)
        if piece and (by_itself or _PIECE.is_exceeded(combined)):
            yield _call(frame, piece)
            piece, combined = [], size
        if by_itself:
            yield frame.run(part)
            combined = Size(0, 0, False, False)
        else:
            piece.append(part)
        total = combined
    if piece:
        yield _call(frame, piece)


def _call(frame: FunctionFrame, piece: list[Stmt]) -> Step[None]:
    size = frame.unit.sizes[id(piece[0])]
    if len(piece) == 1 and not size.loops and size.nodes < _WORTH_A_CALL:
        yield frame.run(piece[0])
        return
    captured = capture(frame, piece)
    symbol = f"{frame.b.function.name}.piece{frame.unit.count_piece()}"
    made, inner = define_inner(frame, symbol, captured, [], {"noinline": None})
    inner.stack_left = _STACK
    sizes, frame.unit.sizes = frame.unit.sizes, {}  # the piece is small enough: split no further
    for part in piece:
        yield inner.run(part)
    frame.unit.sizes = sizes
    inner.close(FAULTED, FINE)
    frame.propagate(frame.b.call(made, [frame.context, *captured.values]))
