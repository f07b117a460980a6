"""Insert run-time checks of shapes that are not known to fit at compile time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loomir.te.operation import extern
from loomir.te.scalar import select
from loomir.te.tensor import Tensor
from loomir.te.topi.loops import nest, wide
from loomir.te.topi.shape import Size, dims, has_equal_sizes, refuse_shapes, size
from loomir.tir.buffer import Buffer, BufferLoad
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import Eq, Or, PrimExpr, StringImm, const
from loomir.tir.stmt import BufferStore, Evaluate, Stmt, seq

__all__ = ["assume_broadcast", "assume_elements", "assume_shape"]


def _differ(a: Size, b: Size) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


def _copy_checked(
    name: str,
    x: Tensor,
    shape: Sequence[Size],
    checks: Sequence[tuple[PrimExpr, Size, Size]],
    place: Callable[[Sequence[PrimExpr]], Sequence[PrimExpr]],
    row: str = "extent",
    named: str = "",
) -> Tensor:
    """Check conditions, each with the extent that is and the one that is wanted, then copy."""

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        (source,), (out,) = ins, outs
        tests = [
            Evaluate(
                call_builtin(
                    "check", fits, StringImm(row), StringImm(named or x.name), StringImm(""), *both
                )
            )
            for fits, *extents in checks
            for both in [[wide(e) for e in extents]]
        ]

        def copy(i: Sequence[PrimExpr]) -> Stmt:
            return BufferStore(out, BufferLoad(source, tuple(place(i))), tuple(i))

        return seq([*tests, nest(out.shape, copy)])

    return extern(tuple(shape), [x], body, name=name, dtype=x.dtype)


def assume_shape(x: Tensor, shape: Sequence[Size]) -> Tensor:
    """Return a tensor with another static shape, which must equal its own at run time.

    Shapes: ``shape``. Errors: TE0101 where an extent certainly differs; RUN0212 where one turns out
    to.
    """
    own, wanted = dims(x), [size(s) for s in shape]
    if len(own) != len(wanted) or any(map(_differ, own, wanted)):
        refuse_shapes("assume_shape", own, wanted)
    unsure = [(d, w) for d, w in zip(own, wanted, strict=True) if not has_equal_sizes(d, w)]
    if not unsure:
        return x
    checks = [(Eq(wide(d), wide(w)), d, w) for d, w in unsure]
    return _copy_checked("assume_shape", x, wanted, checks, lambda i: i)


def assume_broadcast(x: Tensor, shape: Sequence[Size]) -> Tensor:
    """Broadcast at run time: repeat axes of extent 1, and add axes in front.

    Shapes: ``shape``. Errors: TE0101 where an extent certainly is neither 1 nor that of ``shape``;
    RUN0212 where one turns out not to be.
    """
    own, wanted = dims(x), [size(s) for s in shape]
    ends = wanted[len(wanted) - len(own) :]
    if len(own) > len(wanted) or any(d != 1 and _differ(d, w) for d, w in zip(own, ends)):
        refuse_shapes("assume_broadcast", own, wanted)
    checks = [
        (Or(Eq(wide(d), wide(w)), Eq(wide(d), wide(1))), d, w)
        for d, w in zip(own, ends, strict=True)
        if not has_equal_sizes(d, w) and d != 1
    ]

    if not checks and len(own) == len(wanted) and all(map(has_equal_sizes, own, wanted)):
        return x

    def place(i: Sequence[PrimExpr]) -> list[PrimExpr]:
        made: list[PrimExpr] = []
        for at, d, w in zip(i[len(wanted) - len(own) :], own, ends, strict=True):
            zero = const(0, at.dtype)
            if isinstance(d, int):
                made.append(zero if d == 1 else at)
            else:
                made.append(at if has_equal_sizes(d, w) else select(Eq(wide(d), wide(1)), zero, at))
        return made

    return _copy_checked("assume_broadcast", x, wanted, checks, place)


def assume_elements(made: Tensor, x: Tensor, axes: Sequence[int], count: Size = 1) -> Tensor:
    """Return ``made`` where axes of ``x`` turn out to have ``count`` elements or more.

    Shapes: that of ``made``. Errors: RUN0212 where an axis turns out to have less.
    """
    own = dims(x)
    unsure = [own[a] for a in axes if not isinstance(own[a], int) or not isinstance(count, int)]
    if not unsure:
        return made
    checks = [(wide(d) >= wide(count), d, count) for d in unsure]
    return _copy_checked("assume_elements", made, dims(made), checks, lambda i: i, "few", x.name)
