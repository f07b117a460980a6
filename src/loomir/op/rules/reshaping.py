"""Rules of operators that take the shape of their result as an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loomir.arith.analyzer import Analyzer
from loomir.op.rules.arguments import (
    dims_of,
    find_known_tensor,
    format_dim,
    is_one,
    number_of,
    product,
)
from loomir.relax.expr import Call, Var
from loomir.relax.node import StructInfo
from loomir.relax.operator.context import OpContext
from loomir.relax.shape import Dim, ShapeExpr, as_dim
from loomir.relax.struct_info import TensorStructInfo
from loomir.te import topi
from loomir.te.tensor import Tensor
from loomir.tir.expr import FloorDiv, PrimExpr

__all__ = [
    "infer_broadcast_to",
    "infer_reshape",
    "lower_broadcast_to",
    "lower_reshape",
    "normalize_reshape",
]


def infer_of_shape(c: OpContext, index: int, like: TensorStructInfo) -> TensorStructInfo:
    """Describe a tensor of the shape that an argument is; a variable of unknown extents too."""
    wanted, arg = c.shape(index), c.call.args[index]
    if wanted.values is None and wanted.ndim >= 0 and isinstance(arg, Var):
        return TensorStructInfo(arg, like.dtype, like.vdevice)
    return c.make(wanted.values, like.dtype, like, ndim=wanted.ndim)


# -- reshape -------------------------------------------------------------------------------------
def _rest(dims: Sequence[Dim], others: Sequence[Dim], analyzer: Analyzer) -> PrimExpr | None:
    """Divide the number of elements by the extents that are given; None if that is not a number.

    Symbolic factors that both have cancel out, also where they may be 0.
    """
    left, right = [as_dim(d) for d in dims], list[PrimExpr]()
    for other in map(as_dim, others):
        same = next((k for k, d in enumerate(left) if analyzer.can_prove_equal(d, other)), None)
        if same is None or number_of(other) == 0:
            right.append(other)
        else:
            left.pop(same)
    total, known = product(left), product(right)
    if number_of(known) == 0:
        return None
    return analyzer.simplify(total if is_one(known) else FloorDiv(total, known))


def _places(wanted: Sequence[PrimExpr]) -> list[int]:
    return [k for k, d in enumerate(wanted) if number_of(d) == -1]


def infer_reshape(c: OpContext) -> StructInfo:
    """Infer a tensor of the shape, its -1 replaced by what is left."""
    x, wanted = c.tensor(0), c.shape(1).values
    if wanted is None:
        return infer_of_shape(c, 1, x)
    left = _places(wanted)
    wrong = next((n for n in map(number_of, wanted) if n is not None and n < -1), None)
    if len(left) > 1 or wrong is not None:
        c.refuse(
            "OPS0036",
            f"{format_dims(wanted)} is not a shape",
            help="give extents of 0 or more, and -1 at most once for what is left",
            arg=1,
        )
    if x.dims is None:
        return c.make(None if left else wanted, x.dtype, x, ndim=len(wanted))
    dims = list(wanted)
    if left:
        rest = _rest(x.dims, [d for k, d in enumerate(wanted) if k != left[0]], c.analyzer)
        if rest is None:
            return _refuse_shape(c, x.dims, wanted)
        dims[left[0]] = rest
    if c.equal(product(x.dims), product(dims)) is False:
        _refuse_shape(c, x.dims, wanted)
    return c.make(dims, x.dtype, x)


def _refuse_shape(c: OpContext, dims: Sequence[PrimExpr], wanted: Sequence[PrimExpr]) -> Any:
    return c.refuse(
        "OPS0032",
        f"a tensor of shape {format_dims(dims)} cannot take the shape {format_dims(wanted)}",
        help="give a shape of as many elements, or -1 for one extent",
        arg=1,
    )


def format_dims(dims: Sequence[PrimExpr]) -> str:
    """Write a shape as Python writes tuples."""
    texts = list(map(format_dim, dims))
    return "(" + ", ".join(texts) + ("," if len(texts) == 1 else "") + ")"


def normalize_reshape(call: Call) -> Call:
    """Replace -1 in the shape by what is left, where that is known."""
    x, wanted = find_known_tensor(call, 0), call.args[1]
    if x is None or x.dims is None or not isinstance(wanted, ShapeExpr):
        return call
    left = _places(wanted.values)
    if len(left) != 1:
        return call
    dims = list(wanted.values)
    others = [d for k, d in enumerate(dims) if k != left[0]]
    rest = _rest(x.dims, others, Analyzer())
    if rest is None:
        return call
    dims[left[0]] = rest
    made = ShapeExpr(tuple(dims), span=wanted.span)
    return Call(call.op, (call.args[0], made), call.sinfo_args, call.attrs, span=call.span)


def lower_reshape(x: Tensor, shape: Sequence[Any], out: StructInfo) -> Tensor:
    """Reshape to the inferred extents."""
    wanted = dims_of(out)
    if is_known_to_fit(x, wanted):
        return topi.reshape(x, wanted)
    return topi.reshape(topi.assume_shape(topi.flatten(x), [product(wanted)]), wanted)


def is_known_to_fit(x: Tensor, wanted: Sequence[Any]) -> bool:
    """Tell whether a tensor is certain to have as many elements as a shape."""
    return Analyzer().can_prove_equal(product(x.shape), product(wanted))


# -- broadcast_to --------------------------------------------------------------------------------
def infer_broadcast_to(c: OpContext) -> StructInfo:
    """Infer a tensor of the shape, to which the extents must broadcast."""
    x, wanted = c.tensor(0), c.shape(1)
    if 0 <= wanted.ndim < x.ndim:
        _refuse_broadcast(c, f"{x.ndim} axes do not become {wanted.ndim}")
    if x.dims is not None and wanted.values is not None:
        for d, w in zip(x.dims[::-1], wanted.values[::-1]):
            if c.equal(d, w) is False and c.equal(d, 1) is False:
                _refuse_broadcast(
                    c, f"{format_dims(x.dims)} does not broadcast to {format_dims(wanted.values)}"
                )
    return infer_of_shape(c, 1, x)


def _refuse_broadcast(c: OpContext, why: str) -> None:
    c.refuse(
        "OPS0008",
        why,
        help="give extents that are equal, or 1, from the last axis on",
        arg=0,
    )


def lower_broadcast_to(x: Tensor, shape: Sequence[Any], out: StructInfo) -> Tensor:
    """Broadcast to the inferred extents."""
    return topi.assume_broadcast(x, dims_of(out))
