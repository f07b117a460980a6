"""Real and imaginary parts: taken from tensors, put together, and combined by formulas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from loomir import op
from loomir.frontend.torch.node import Node
from loomir.relax.node import RelaxExpr
from loomir.te import Tensor, compute, const, select
from loomir.tir.expr import IntImm, PrimExpr

__all__ = ["Complex", "compute_elements", "join_parts", "make_complex", "take_part"]


class Complex(NamedTuple):
    """A complex number in a formula."""

    real: PrimExpr
    imag: PrimExpr


class _Operand(NamedTuple):
    """An operand of a formula: a tensor whose elements are complex or not."""

    tensor: RelaxExpr
    is_complex: bool


def take_part(node: Node, x: RelaxExpr, part: int) -> RelaxExpr:
    """Return the real parts, or with ``part`` 1 the imaginary ones, of a complex tensor."""
    last = len(node.dims_of(x)) - 1
    cut = node.emit(op.strided_slice(x, [last], [part], [part + 1]))
    return node.emit(op.squeeze(cut, [last]))


def join_parts(node: Node, real: RelaxExpr, imag: RelaxExpr) -> RelaxExpr:
    """Make a complex tensor of real and imaginary parts."""
    return node.emit(op.stack((real, imag), len(node.dims_of(real))))


def make_complex(node: Node, value: Any, is_complex: bool) -> RelaxExpr:
    """Return a tensor or a number as a complex tensor with parts of the result's dtype."""
    if isinstance(value, complex):
        return node.constant([value.real, value.imag])
    x = node.as_tensor(value, node.dtype)
    if is_complex:
        return x
    zero = node.emit(op.full(tuple(node.dims_of(x)), node.constant(0)))
    return join_parts(node, x, zero)


def compute_elements(
    node: Node, formula: Callable[..., Complex | PrimExpr], *places: int | str
) -> RelaxExpr:
    """Make each element of a result by a formula of elements of arguments, which are broadcast.

    All arguments are complex in the formula, with parts of the dtype that they are combined in.
    """
    dtype = node.dtype if node.makes_complex else node.promote(*places)
    operands: list[_Operand] = []
    for place in places:
        value = node[place]
        if isinstance(value, complex):
            pair = node.constant([value.real, value.imag], dtype)
            operands.append(_Operand(pair, True))
        else:
            operands.append(_Operand(node.tensor(place, dtype), node.is_complex(place)))
    kernel = partial(
        _combine,
        formula=formula,
        flags=[o.is_complex for o in operands],
        shape=node.shape,
        pairs=node.makes_complex,
    )
    kernel.__name__ = formula.__name__.strip("_")  # type: ignore[attr-defined]
    return node.compute(kernel, *[o.tensor for o in operands])


def _combine(
    *tensors: Tensor,
    formula: Callable[..., Complex | PrimExpr],
    flags: list[bool],
    shape: list[Any],
    pairs: bool,
) -> Tensor:
    def element(*place: PrimExpr) -> PrimExpr:
        outer = place[:-1] if pairs else place
        made = formula(*[_load(t, outer, flag) for t, flag in zip(tensors, flags, strict=True)])
        if isinstance(made, Complex):
            return select(place[-1] == 0, made.real, made.imag)
        return made

    return compute((*shape, 2) if pairs else tuple(shape), element, name="complex")


def _load(x: Tensor, place: tuple[PrimExpr, ...], is_complex: bool) -> Complex:
    """Read the element that a place of the result is made of."""
    extents = x.shape[:-1] if is_complex else x.shape
    own = [
        const(0, i.dtype) if isinstance(n, IntImm) and n.value == 1 else i
        for n, i in zip(extents, place[len(place) - len(extents) :], strict=True)
    ]
    if is_complex:
        return Complex(x(*own, 0), x(*own, 1))
    value = x(*own)
    return Complex(value, const(0, value.dtype))
