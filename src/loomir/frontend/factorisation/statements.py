"""Build the statements of kernels that work on matrices in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from loomir.support.dtype import DataType
from loomir.te.operation import extern
from loomir.te.reduction import as_tuple
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import nest, with_buffers
from loomir.tir.buffer import Buffer, BufferLoad, decl_buffer
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import IntImm, PrimExpr, Select, Var, cast, const, convert
from loomir.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt, seq

__all__ = [
    "INT64",
    "Matrix",
    "absolute",
    "as_index",
    "choose",
    "copy_rows",
    "factor_batch",
    "let",
    "loop",
    "loop_down",
    "room",
    "root",
    "run_if",
]

INT64: Final = DataType("int64")


class Matrix:
    """The matrix, or the vector, of one item of a batch in a buffer."""

    def __init__(self, buffer: Buffer, batch: Sequence[PrimExpr] = ()) -> None:
        self.buffer = buffer
        self._batch = tuple(batch)

    def __getitem__(self, at: PrimExpr | int | tuple[Any, ...]) -> PrimExpr:
        """Read an element."""
        return BufferLoad(self.buffer, self._place(at))

    def store(self, at: Any, value: PrimExpr) -> Stmt:
        """Write an element."""
        return BufferStore(self.buffer, value, self._place(at))

    def _place(self, at: Any) -> tuple[PrimExpr, ...]:
        return (*self._batch, *[as_index(i) for i in as_tuple(at)])

    def constant(self, value: float) -> PrimExpr:
        """Return a number of the dtype of the elements."""
        return const(value, self.buffer.dtype)


def as_index(value: Any) -> PrimExpr:
    """Return an integer as int64."""
    return cast(convert(value), INT64)


def loop(begin: Any, end: Any, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Run ``body`` of each integer from ``begin`` up to ``end``."""
    var = Var("i", INT64)
    first = as_index(begin)
    return For(var, first, as_index(end) - first, ForKind.SERIAL, body(var))


def loop_down(end: Any, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Run ``body`` of each integer below ``end``, down to 0."""
    last = as_index(end) - 1
    return loop(0, end, lambda i: body(last - i))


def let(value: PrimExpr, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Run ``body`` with a value that is computed once."""
    var = Var("v", value.dtype)
    return LetStmt(var, value, body(var))


def run_if(condition: PrimExpr, then: Stmt) -> Stmt:
    """Run a statement under a condition."""
    return IfThenElse(condition, then)


def choose(condition: PrimExpr, then: PrimExpr, other: PrimExpr) -> PrimExpr:
    """Return one of two values."""
    return Select(condition, then, other)


def absolute(value: PrimExpr) -> PrimExpr:
    """Return the absolute value."""
    return call_builtin("abs", value)


def root(value: PrimExpr) -> PrimExpr:
    """Return the square root."""
    return call_builtin("sqrt", value)


def room(count: Any, dtype: DataType | str) -> Matrix:
    """Return a vector, or a matrix of several extents, for the kernel's own use."""
    extents = tuple([as_index(n) for n in as_tuple(count)])
    return Matrix(decl_buffer(extents, str(dtype), "room"))


def copy_rows(target: Matrix, source: Matrix, rows: Any, columns: Any) -> Stmt:
    """Copy a matrix."""
    return loop(0, rows, lambda i: loop(0, columns, lambda j: target.store((i, j), source[i, j])))


def factor_batch(
    name: str,
    inputs: Sequence[tuple[Tensor, int]],
    outputs: Sequence[tuple[Sequence[Any], str]],
    body: Callable[..., Sequence[Stmt]],
    rooms: Sequence[Matrix] = (),
) -> Any:
    """Make tensors by statements on each item of a batch.

    ``inputs``: tensors, and how many last axes an item has. ``outputs``: the extents of an item and
    the dtype of each. ``body`` gets the items of the inputs and of the outputs.
    """
    first, axes = inputs[0]
    batch = first.shape[: first.ndim - axes]

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        def item(at: Sequence[PrimExpr]) -> Stmt:
            made = body(*[Matrix(b, at) for b in (*ins, *outs)])
            return with_buffers([r.buffer for r in rooms], made) if rooms else seq(made)

        return nest(batch, item)

    shapes = [(*batch, *[as_extent(e) for e in extents]) for extents, _ in outputs]
    return extern(
        shapes, [t for t, _ in inputs], statements, name=name, dtype=[d for _, d in outputs]
    )


def as_extent(extent: Any) -> PrimExpr:
    """Return an extent as an expression of 64 bits."""
    return extent if isinstance(extent, PrimExpr) else IntImm(int(extent), INT64)
