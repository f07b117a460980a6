# ruff: noqa: A001  (``T.any`` and its like are called as in the language)
"""Builtins of ``T`` that take more than expressions of one dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Final
from typing import cast as cast_type

from loomir.script.builder.arguments import as_dtype, as_expr, as_exprs, as_int, describe
from loomir.script.builder.dtypes import DTypeLike
from loomir.script.builder.expressions import Binary, cast, operator
from loomir.script.builder.mistakes import wrong_argument
from loomir.support.dtype import DataType
from loomir.tir import expr as nodes
from loomir.tir.buffer import Buffer, BufferLoad, BufferRegion
from loomir.tir.builtins.table import call_builtin
from loomir.tir.expr import ExprLike, IntImm, PrimExpr, Var, match_dtypes

__all__ = [
    "address_of",
    "all",
    "any",
    "assume",
    "dot_tiles",
    "dp2a",
    "dp4a",
    "get_active_lane_mask",
    "handle_add_byte_offset",
    "ignore_loop_partition",
    "isnullptr",
    "logaddexp",
    "prefetch",
    "ptr_byte_offset",
    "q_multiply_shift",
    "q_multiply_shift_per_axis",
    "tvm_access_ptr",
    "tvm_tuple",
    "type_annotation",
    "undef",
    "vectorcombine",
    "vectorhigh",
    "vectorlow",
]


# -- several conditions --------------------------------------------------------------------------
def any(*conditions: ExprLike) -> PrimExpr:
    """Tell whether one of several conditions holds; those after it are not evaluated."""
    return _reduce_conditions(nodes.Or, conditions, "any")


def all(*conditions: ExprLike) -> PrimExpr:
    """Tell whether all of several conditions hold; those after one that does not are skipped."""
    return _reduce_conditions(nodes.And, conditions, "all")


def _reduce_conditions(
    node: type[nodes.Or] | type[nodes.And], conditions: tuple[ExprLike, ...], name: str
) -> PrimExpr:
    if not conditions:
        raise wrong_argument(
            conditions, f"T.{name} takes at least one condition", help=f"write T.{name}(a, b)"
        )
    made = [
        nodes.const(c, DataType("bool")) if isinstance(c, (bool, int)) else as_expr(c)
        for c in conditions
    ]
    return reduce(node, made)


# -- numbers ---------------------------------------------------------------------------------------
def logaddexp(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return log(exp(a) + exp(b)), without overflow.

    Short floats are computed in float32 and rounded at the end.
    """
    x, y = as_exprs([a, b])
    x, y = match_dtypes(x, y)
    dtype = x.dtype
    if not dtype.is_float:
        raise wrong_argument(
            a,
            f"T.logaddexp takes floats, not {dtype}",
            code="TIR0114",
            help="convert the arguments with T.cast",
        )
    if dtype.bits == 16:
        wide = DataType("float32").with_lanes(dtype.lanes)
        return cast(logaddexp(cast(x, wide), cast(y, wide)), dtype)
    one, other = Var("a", dtype), Var("b", dtype)
    # Where they are equal, also as infinities, the difference would say nothing.
    ratio = call_builtin("exp", 0.0 - call_builtin("abs", one - other))
    body = nodes.Select(
        nodes.Eq(one, other),
        one + math.log(2),
        operator(nodes.Max)(one, other) + call_builtin("log1p", ratio),
    )
    return nodes.Let(one, x, nodes.Let(other, y, body))


def q_multiply_shift(x: ExprLike, y: ExprLike, q: ExprLike, s: ExprLike) -> PrimExpr:
    """Multiply fixed-point numbers of q fraction bits, then scale by 2 to the power s; int32."""
    return call_builtin("q_multiply_shift", *_alike(as_exprs([x, y, q, s])))


def q_multiply_shift_per_axis(
    x: ExprLike,
    y: ExprLike,
    ls: ExprLike,
    rs: ExprLike,
    q: ExprLike,
    is_lshift_required: ExprLike,
    is_rshift_required: ExprLike,
) -> PrimExpr:
    """Multiply fixed-point numbers, with a shift up and a shift down that flags switch; int32."""
    numbers = _alike(as_exprs([x, y, ls, rs, q]))
    flags = [
        nodes.const(f, DataType("bool")) if isinstance(f, (bool, int)) else as_expr(f)
        for f in (is_lshift_required, is_rshift_required)
    ]
    lanes = numbers[0].dtype.lanes
    return call_builtin("q_multiply_shift_per_axis", *numbers, *[_repeat(f, lanes) for f in flags])


def _alike(values: list[PrimExpr]) -> list[PrimExpr]:
    """Repeat scalars beside vectors."""
    lanes = max(v.dtype.lanes for v in values)
    return [_repeat(v, lanes) for v in values]


def _repeat(value: PrimExpr, lanes: int) -> PrimExpr:
    return nodes.Broadcast(value, lanes) if value.dtype.lanes == 1 < lanes else value


# -- vectors ---------------------------------------------------------------------------------------
def _is_dtype(value: object) -> bool:
    return not isinstance(value, (PrimExpr, BufferRegion, int, float))


def _dtype_first(name: str, args: tuple[Any, ...]) -> PrimExpr:
    """Make a call whose first argument may be the dtype of what it gives."""
    if args and _is_dtype(args[0]):
        dtype, *rest = args
        return call_builtin(name, *as_exprs(rest), dtype=as_dtype(dtype))
    return call_builtin(name, *as_exprs(args))


def vectorlow(*args: ExprLike | DTypeLike) -> PrimExpr:
    """Return the first half of a vector's lanes: ``(vec)`` or ``(dtype, vec)``."""
    return _dtype_first("vectorlow", args)


def vectorhigh(*args: ExprLike | DTypeLike) -> PrimExpr:
    """Return the second half of a vector's lanes: ``(vec)`` or ``(dtype, vec)``."""
    return _dtype_first("vectorhigh", args)


def vectorcombine(*args: ExprLike | DTypeLike) -> PrimExpr:
    """Put the lanes of two vectors together: ``(low, high)`` or ``(dtype, low, high)``."""
    return _dtype_first("vectorcombine", args)


def dp4a(vec1: ExprLike, vec2: ExprLike, acc: ExprLike = 0) -> PrimExpr:
    """Add the products of four pairs of bytes to each lane of ``acc``, an int32 or uint32."""
    return call_builtin("dp4a", as_expr(vec1), as_expr(vec2), as_expr(acc))


def dp2a(vec1: ExprLike, vec2: ExprLike, acc: ExprLike) -> PrimExpr:
    """Add the products of two pairs of bfloat16 to each lane of ``acc``, a float32."""
    return call_builtin("dp2a", as_expr(vec1), as_expr(vec2), as_expr(acc))


def get_active_lane_mask(dtype: DTypeLike, base: ExprLike, limit: ExprLike) -> PrimExpr:
    """Tell for each lane i of a bool vector whether ``base + i`` is below ``limit``."""
    pair = match_dtypes(*as_exprs([base, limit]))
    return call_builtin("get_active_lane_mask", *pair, dtype=as_dtype(dtype))


# -- pointers --------------------------------------------------------------------------------------
def _pointer(value: object, what: str) -> PrimExpr:
    """Read a pointer; a buffer stands for its data."""
    return value.data if isinstance(value, Buffer) else as_expr(value, what)


def address_of(element: PrimExpr | Buffer) -> PrimExpr:
    """Return a pointer to an element, as in ``T.address_of(A[i])``; a buffer means its first."""
    if isinstance(element, Buffer):
        zero = IntImm(0, DataType("int64"))
        element = BufferLoad(element, (zero,) * len(element.shape))
    if not isinstance(element, BufferLoad):
        raise wrong_argument(
            element,
            f"T.address_of takes an element of a buffer, not {describe(element)}",
            code="TIR0114",
            help="name one element, as in T.address_of(A[i])",
        )
    return call_builtin("address_of", element)


def handle_add_byte_offset(handle: PrimExpr | Buffer, offset: ExprLike) -> PrimExpr:
    """Return a pointer so many bytes further on."""
    return call_builtin(
        "handle_add_byte_offset", _pointer(handle, "the pointer"), as_expr(offset, "the offset")
    )


def ptr_byte_offset(
    ptr: PrimExpr | Buffer, byte_offset: ExprLike, dtype: DTypeLike | PrimExpr
) -> PrimExpr:
    """Return a pointer so many bytes further on, to elements of ``dtype``."""
    offset = as_expr(byte_offset, "the offset")
    return call_builtin("ptr_byte_offset", _pointer(ptr, "the pointer"), offset, _annotation(dtype))


def isnullptr(ptr: PrimExpr | Buffer) -> PrimExpr:
    """Tell whether a pointer is null."""
    return call_builtin("isnullptr", _pointer(ptr, "the pointer"))


def type_annotation(dtype: DTypeLike) -> PrimExpr:
    """Make a dtype an argument of another builtin."""
    return call_builtin("type_annotation", dtype=as_dtype(dtype))


def _annotation(dtype: DTypeLike | PrimExpr) -> PrimExpr:
    return dtype if isinstance(dtype, PrimExpr) else type_annotation(dtype)


def tvm_access_ptr(
    ptype: DTypeLike | PrimExpr,
    data: PrimExpr | Buffer,
    offset: ExprLike,
    extent: ExprLike,
    rw_mask: ExprLike,
) -> PrimExpr:
    """Return a pointer to ``extent`` elements that a call reads (1), writes (2), or both (3)."""
    numbers = [as_expr(v) for v in (offset, extent, rw_mask)]
    pointer = _pointer(data, "the pointer")
    return call_builtin("tvm_access_ptr", _annotation(ptype), pointer, *numbers)


_MASKS: Final = {"r": 1, "w": 2, "rw": 3, "wr": 3}


def pointer_to(
    buffer: Buffer,
    access_mask: object,
    ptr_type: DTypeLike,
    content_lanes: object,
    offset: ExprLike,
    extent: ExprLike | None,
) -> PrimExpr:
    """Return ``buffer.access_ptr(…)``: a pointer to elements of a buffer, from ``offset`` on.

    With ``content_lanes`` they are vectors of so many elements. Errors: SCR0005.
    """
    mask = _MASKS.get(access_mask) if isinstance(access_mask, str) else access_mask
    if mask not in (1, 2, 3):
        raise wrong_argument(
            access_mask, f"there is no access {access_mask!r}", help='write "r", "w" or "rw"'
        )
    if not as_dtype(ptr_type).is_handle:
        raise wrong_argument(
            ptr_type, "the pointer is of no pointer type", help='leave it out, or write "handle"'
        )
    lanes = as_int(content_lanes, "content_lanes")
    extents: list[ExprLike] = list(buffer.shape)
    if buffer.strides and buffer.shape:
        extents = [buffer.strides[0], buffer.shape[0]]
    start = 0 if buffer.elem_offset is None else buffer.elem_offset
    size = reduce(lambda a, b: _compute("*", a, b), extents, 1)
    count = _compute("-", size, offset) if extent is None else extent
    first = _compute("+", start, offset)
    if lanes > 1:
        first = _compute("//", first, lanes)
        count = _compute("//", count, lanes) if extent is None else count
    dtype = buffer.dtype.with_lanes(lanes) if lanes > 1 else buffer.dtype
    return tvm_access_ptr(dtype, buffer.data, first, count, int(cast_type("int", mask)))


_INTEGERS: Final[dict[str, tuple[Callable[[int, int], int], Binary]]] = {
    "+": (lambda a, b: a + b, operator(nodes.Add)),
    "-": (lambda a, b: a - b, operator(nodes.Sub)),
    "*": (lambda a, b: a * b, operator(nodes.Mul)),
    "//": (lambda a, b: a // b, operator(nodes.FloorDiv)),
}


def _compute(op: str, a: ExprLike, b: ExprLike) -> ExprLike:
    """Compute with integers at once where both are constants."""
    x, y = (v.value if isinstance(v, IntImm) else v for v in (a, b))
    on_numbers, on_nodes = _INTEGERS[op]
    if isinstance(x, int) and isinstance(y, int):
        return on_numbers(x, y)
    trivial = (op in "+-" and y == 0) or (op in ("*", "//") and y == 1)
    if isinstance(y, int) and trivial:
        return x
    if isinstance(x, int) and (op, x) in (("+", 0), ("*", 1)):
        return y
    return on_nodes(x, y)


def prefetch(
    address: PrimExpr | Buffer, rw: ExprLike = 0, locality: ExprLike = 3, cache: ExprLike = 1
) -> PrimExpr:
    """Have the caches fetch the line of memory at an address, to read it (0) or write it (1)."""
    numbers = [as_expr(v) for v in (rw, locality, cache)]
    return call_builtin("prefetch", _pointer(address, "the address"), *numbers)


def dot_tiles(
    sums: PrimExpr | Buffer,
    left: PrimExpr | Buffer,
    right: PrimExpr | Buffer,
    steps: ExprLike,
    rows: ExprLike,
    columns: ExprLike,
    left_dtype: DTypeLike | PrimExpr,
    right_dtype: DTypeLike | PrimExpr,
    fresh: ExprLike,
) -> PrimExpr:
    """Add the products of two packed factors to a tile of sums."""
    pointers = [_pointer(p, "the pointer") for p in (sums, left, right)]
    numbers = [as_expr(v) for v in (steps, rows, columns)]
    made = nodes.const(fresh, DataType("bool")) if isinstance(fresh, bool) else as_expr(fresh)
    kinds = _annotation(left_dtype), _annotation(right_dtype)
    return call_builtin("dot_tiles", *pointers, *numbers, *kinds, made)


# -- hints -----------------------------------------------------------------------------------------
def assume(condition: ExprLike) -> PrimExpr:
    """State that a condition holds here; it is never evaluated."""
    made = nodes.const(condition, DataType("bool")) if isinstance(condition, bool) else condition
    return call_builtin("assume", as_expr(made, "the condition"))


def ignore_loop_partition(predicate: ExprLike) -> PrimExpr:
    """Return the predicate; no loop is split for it."""
    return call_builtin("ignore_loop_partition", as_expr(predicate, "the predicate"))


def tvm_tuple(*values: ExprLike | str) -> PrimExpr:
    """Take several values as one, for ``T.attr``; they are never evaluated."""
    return call_builtin("tvm_tuple", *[as_expr(v, "a value") for v in values])


def undef(dtype: DTypeLike = "int32") -> PrimExpr:
    """Return an undefined value."""
    return call_builtin("undef", dtype=as_dtype(dtype))
