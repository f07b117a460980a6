"""Programs to schedule at random: common ones, and ones that are hard to schedule correctly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fuzz.choices import Choices
from loomir import te
from loomir.script import from_source
from loomir.te import topi
from loomir.tir.expr import And
from loomir.tir.function import PrimFunc

__all__ = ["PROGRAMS", "Program", "program_of"]


class Program(NamedTuple):
    """A function, and how far its results may be off where sums are done in another order.

    ``moves`` are those that it is hard for, in an order that may do harm.
    """

    name: str
    func: PrimFunc
    tolerance: float = 0.0
    moves: tuple[str, ...] = ()


class Hard(NamedTuple):
    """A function, and moves that it is hard for."""

    func: PrimFunc
    moves: tuple[str, ...]


def _size(c: Choices) -> int:
    return c.pick([4, 6, 1, 3, 8, 5, 12])


def _dtype(c: Choices) -> str:
    return c.pick(["int32", "float32", "int64"])


def matmul(c: Choices) -> PrimFunc:
    """Make a product of matrices, with something done to what comes of it."""
    n, m, k, dtype = _size(c), _size(c), _size(c), _dtype(c)
    a, b = te.placeholder((n, k), dtype, name="A"), te.placeholder((k, m), dtype, name="B")
    r = te.reduce_axis((0, k), "k")
    made = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    if c.chance(0.6):
        made = te.compute((n, m), lambda i, j, t=made: t[i, j] + a[i, 0], name="D")
    if c.chance(0.3):
        made = te.compute((m, n), lambda i, j, t=made: t[j, i] * 2, name="E")
    return te.create_prim_func([a, b, made])


def convolution(c: Choices) -> PrimFunc:
    """Make a convolution of one axis, padded."""
    n, w, dtype = _size(c) + 2, c.pick([3, 2, 1]), _dtype(c)
    a, f = te.placeholder((n,), dtype, name="A"), te.placeholder((w,), dtype, name="F")
    zero = te.const(0, dtype)
    pad = te.compute(
        (n + w - 1,),
        lambda i: te.if_then_else(And(i >= w // 2, i < n + w // 2), a[i - w // 2], zero),
        name="P",
    )
    r = te.reduce_axis((0, w), "r")
    out = te.compute((n,), lambda i: te.sum(pad[i + r] * f[r], axis=r), name="C")
    return te.create_prim_func([a, f, out])


def chain(c: Choices) -> PrimFunc:
    """Make computes that take one another, at shifted, transposed or same places."""
    n, m, dtype = _size(c), _size(c), _dtype(c)
    a = te.placeholder((n, m), dtype, name="A")
    made: list[Any] = [a]
    for number in range(c.integer(1, 4)):
        x, y = c.pick(made), c.pick(made[-2:])
        how = c.integer(0, 3)
        at: Callable[..., Any] = (
            (lambda t, i, j: t[i, j]) if how else (lambda t, i, j: t[n - 1 - i, j])
        )
        made.append(
            te.compute(
                (n, m),
                lambda i, j, x=x, y=y, at=at: at(x, i, j) + y[i, j] * 3,
                name=f"T{number}",
            )
        )
    return te.create_prim_func([a, made[-1]])


def reduction(c: Choices) -> PrimFunc:
    """Make sums, maxima and products over some axes, one after the other."""
    n, m, p, dtype = _size(c), _size(c), c.pick([2, 3, 1]), _dtype(c)
    a = te.placeholder((n, m, p), dtype, name="A")
    op = c.pick([te.sum, te.max, te.min])
    j, k = te.reduce_axis((0, m), "j"), te.reduce_axis((0, p), "k")
    if c.chance(0.5):
        out = te.compute((n,), lambda i: op(a[i, j, k], axis=[j, k]), name="R")
    else:
        out = te.compute((n, p), lambda i, q: op(a[i, j, q], axis=j), name="R")
    if c.chance(0.5):
        i, rest, inner = te.reduce_axis((0, n), "i"), tuple(out.shape[1:]) or (1,), out
        depth = len(out.shape) - 1
        out = te.compute(rest, lambda *q: te.sum(inner[(i, *q[:depth])], axis=i), name="S")
    return te.create_prim_func([a, out])


def symbolic(c: Choices) -> PrimFunc:
    """Make a chain and a sum over an axis of unknown extent."""
    n, m = te.size_var("n", c.pick(["int32", "int64"])), _size(c)
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    if c.chance(0.5):
        k = te.reduce_axis((0, n), "k")
        return te.create_prim_func(
            [a, te.compute((m,), lambda j: te.sum(b[k, j], axis=k), name="C")]
        )
    return te.create_prim_func([a, te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")])


def softmax(c: Choices) -> PrimFunc:
    """Make a softmax."""
    a = te.placeholder((_size(c), _size(c)), name="A")
    return te.create_prim_func([a, topi.softmax(a)])


def argmax(c: Choices) -> PrimFunc:
    """Make the places of maxima."""
    a = te.placeholder((_size(c), _size(c)), name="A")
    return te.create_prim_func([a, topi.argmax(a, 1)])


def counting(c: Choices) -> PrimFunc:
    """Add one to each element, which an intrinsic of the moves does, and go on from there."""
    n, m, dtype = _size(c), 2 * c.pick([2, 3, 4]), c.pick(["int32", "float32"])
    a = te.placeholder((n, m), dtype, name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + te.const(1, dtype), name="B")
    if c.chance(0.4):
        return te.create_prim_func([a, b])
    return te.create_prim_func(
        [a, te.compute((m, n), lambda i, j: b[j, i] + te.const(1, dtype), name="C")]
    )


_HEAD = "from loomir.script import tir as T\n\n\n@T.prim_func\n"
HARD: Final = (
    # Each iteration needs the one before.
    (
        """def main(A: T.Buffer((9, 6), "int32")):
    for i, j in T.grid(8, 6):
        with T.sblock("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj] + A[vi + 1, vj]
""",
        ("reorder", "parallel"),
    ),
    # What one order reads before it is written, another reads after.
    (
        """def main(A: T.Buffer((7, 7), "int32")):
    for i, j in T.grid(6, 6):
        with T.sblock("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + 1
""",
        ("reorder", "fuse", "vectorize"),
    ),
    # The second block needs later iterations of the first.
    (
        """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[7 - v] + A[v]
""",
        ("merge", "compute_at", "compute_inline"),
    ),
    # A temporary of one element for all iterations, and bounds that change.
    (
        """def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((1,), "int32")
    for i in range(8):
        for j in range(i + 1):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[0] = A[vi, vj] + 1
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[0] * 2
""",
        ("parallel", "reorder"),
    ),
    # Writes to places that are read from memory, and a sum that is none.
    (
        """def main(
    A: T.Buffer((6,), "int32"), I: T.Buffer((6,), "int32"), C: T.Buffer((16,), "int32")
):
    for i in range(6):
        with T.sblock("S"):
            v = T.axis.spatial(6, i)
            C[I[v] + 5] = A[v]
    for i, k in T.grid(4, 6):
        with T.sblock("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi + 12] = 1
            C[vi + 12] = C[vi + 12] * 2 - A[vk]
""",
        ("parallel", "decompose_reduction", "rfactor"),
    ),
    # Blocks in blocks, statements outside of blocks, and a predicate.
    (
        """def main(A: T.Buffer((8, 6), "int32"), C: T.Buffer((8, 6), "int32")):
    for i0, i1 in T.grid(3, 3):
        with T.sblock("outer"):
            vi = T.axis.spatial(8, i0 * 3 + i1)
            T.where(i0 * 3 + i1 < 8)
            for j in range(6):
                with T.sblock("inner"):
                    vj = T.axis.spatial(6, j)
                    C[vi, vj] = A[vi, vj] + vi * 7
    for i in range(8):
        C[i, 0] = C[i, 0] + 1
""",
        ("blockize", "merge"),
    ),
    # Sums that start more than once, that share elements, and that see others'.
    (
        """def main(
    A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((6,), "int32")
):
    for i, k, again in T.grid(4, 6, 2):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
    for i, k in T.grid(4, 6):
        with T.sblock("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi // 2] = 0
            D[vi // 2] = D[vi // 2] + A[vi, vk]
    for i, k in T.grid(3, 6):
        with T.sblock("Q"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = 0
            D[vi] = D[vi] + A[vi, vk] + D[vi + 1]
""",
        ("decompose_reduction", "rfactor", "blockize"),
    ),
    # Regions that are declared wrongly, in a block and in one inside of it.
    (
        """def main(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 4), "int32")):
    for i in range(8):
        with T.sblock("outer"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(C[vi, 0:4])
            for j in range(4):
                with T.sblock("inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A[vi, vj])
                    T.writes(C[vi, vj])
                    C[0, vj] = C[0, vj] * 2 + A[vi, vj]
""",
        ("parallel", "reorder"),
    ),
    # An operand that changes between where it is taken and where the result is.
    (
        """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    for i in range(8):
        with T.sblock("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] * 3
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * 2 - A[v]
""",
        ("compute_inline", "compute_at", "reverse_compute_inline"),
    ),
    # A row that each row after it needs, in two loops.
    (
        """def main(A: T.Buffer((6, 5), "int32"), C: T.Buffer((6, 5), "int32")):
    for j, i in T.grid(4, 5):
        with T.sblock("A"):
            vj, vi = T.axis.remap("SS", [j, i])
            A[vi, vj + 1] = A[vi + 1, vj] - A[vi, vj]
    for j, i in T.grid(4, 5):
        with T.sblock("C"):
            vj, vi = T.axis.remap("SS", [j, i])
            C[vi, vj] = A[vi + 1, vj] + A[vi, vj + 1]
""",
        ("merge", "reorder"),
    ),
    # The same block twice at each point, and in the other direction.
    (
        """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i, j in T.grid(8, 2):
        with T.sblock("C"):
            v = T.axis.spatial(8, 7 - i)
            C[v] = A[v] * 2
    for i in range(7):
        with T.sblock("D"):
            v = T.axis.spatial(7, i)
            C[v] = C[v + 1] - A[v]
""",
        ("merge", "rfactor"),
    ),
    # Each element needs the one before, and is taken from the last to the first.
    (
        """def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.if_then_else(v > 0, B[v - 1], 0) + A[v]
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[7 - v] * 2
""",
        ("compute_at",),
    ),
    # A sum that a loop starts anew.
    (
        """def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
    for i, k, again in T.grid(4, 6, 2):
        with T.sblock("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
""",
        ("decompose_reduction", "rfactor"),
    ),
    # Neighbours of which each is taken twice.
    (
        """def main(A: T.Buffer((9,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((9,), "int32")
    for i in range(9):
        with T.sblock("B"):
            v = T.axis.spatial(9, i)
            B[v] = A[v] * 3
    for i in range(8):
        with T.sblock("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] - B[v + 1]
""",
        ("parallel", "compute_at", "compute_at", "vectorize", "compute_at"),
    ),
)


def hard(c: Choices) -> Hard:
    """Return a program in which little is allowed."""
    text, moves = c.pick(HARD)
    return Hard(_read(text), moves)


@functools.cache
def _read(text: str) -> PrimFunc:
    func = from_source(_HEAD + text)
    assert isinstance(func, PrimFunc)
    return func


PROGRAMS: Final[tuple[tuple[float, Callable[[Choices], PrimFunc | Hard], float], ...]] = (
    (4.0, matmul, 0.0),
    (2.0, chain, 0.0),
    (2.0, reduction, 0.0),
    (7.0, hard, 0.0),
    (1.0, counting, 0.0),
    (1.5, convolution, 0.0),
    (1.5, symbolic, 0.0),
    (0.7, softmax, 1e-5),
    (0.5, argmax, 0.0),
)
"""How often each kind of program is made, and its tolerance."""


def program_of(c: Choices) -> Program:
    """Draw a program."""
    _, make, tolerance = c.weighted([(row[0], row) for row in PROGRAMS])
    made = make(c)
    func, moves = made if isinstance(made, Hard) else (made, ())
    return Program(make.__name__, func, tolerance, moves)
