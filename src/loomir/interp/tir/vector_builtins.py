"""Semantics of builtins on whole vectors and on pointers, and of hints to the compiler."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from loomir.interp.arithmetic import wrapper
from loomir.interp.builtins import builtin_function
from loomir.interp.exact_memory import reinterpret
from loomir.interp.machine import Code, strict
from loomir.interp.scope import Scope
from loomir.interp.tir.calls_out import address_of
from loomir.interp.tir.tiles import dot_tiles
from loomir.interp.values import Pointer, Value, pack, unpack
from loomir.support.dtype import DataType
from loomir.tir.builtins.hint import choose_undefined_value
from loomir.tir.expr import Call

__all__ = ["SPECIAL"]

_ADDRESS: Final = DataType("uint64")
_LEAST_NORMAL: Final = 2.0**-126
"""The smallest positive normal float32, and bfloat16."""


# -- vectors and bits --------------------------------------------------------------------------
def _reinterpret(node: Call, parts: list[Code], scope: Scope) -> Code:
    source, target = node.args[0].dtype, node.dtype
    if scope.numbers.exact and not (source.is_handle or target.is_handle):

        def look(value: Value) -> Value:
            return reinterpret(value, source, target)

        return strict(parts, look)

    def read(value: Value) -> Value:
        if source.is_handle:
            return value if target.is_handle else unpack(pack(address_of(value), _ADDRESS), target)
        return unpack(pack(value, source), _ADDRESS if target.is_handle else target)

    return strict(parts, read)


def _low(node: Call, parts: list[Code], scope: Scope) -> Code:
    half = node.args[0].dtype.lanes // 2

    def take(lanes: tuple[Value, ...]) -> Value:
        return lanes[:half] if half > 1 else lanes[0]

    return strict(parts, take)


def _high(node: Call, parts: list[Code], scope: Scope) -> Code:
    half = node.args[0].dtype.lanes // 2

    def take(lanes: tuple[Value, ...]) -> Value:
        return lanes[half:] if half > 1 else lanes[1]

    return strict(parts, take)


def _combine(node: Call, parts: list[Code], scope: Scope) -> Code:
    many = node.args[0].dtype.is_vector

    def join(low: Value, high: Value) -> Value:
        return (*low, *high) if many else (low, high)

    return strict(parts, join)


def _dp4a(node: Call, parts: list[Code], scope: Scope) -> Code:
    wrap = wrapper(node.dtype.element)

    def dot(xs: tuple[int, ...], ys: tuple[int, ...], acc: int) -> Any:
        return wrap(acc + sum(x * y for x, y in zip(xs, ys, strict=True)))

    return strict(parts, _group(node, 4, dot))


def _dp2a(node: Call, parts: list[Code], scope: Scope) -> Code:
    if scope.numbers.exact:
        return strict(parts, _group(node, 2, _exact_dot(scope.numbers.builtin)))
    fma = builtin_function("fma", node.dtype.element)

    def flush(x: float) -> float:
        return math.copysign(0.0, x) if abs(x) < _LEAST_NORMAL else x

    def dot(xs: tuple[float, ...], ys: tuple[float, ...], acc: float) -> float:
        acc = flush(acc)
        for x, y in ((xs[1], ys[1]), (xs[0], ys[0])):
            acc = flush(fma(flush(x), flush(y), acc))
        return acc

    return strict(parts, _group(node, 2, dot))


def _exact_dot(builtin: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    fma = builtin("fma", DataType("float32"))
    return lambda xs, ys, acc: fma(xs[0], ys[0], fma(xs[1], ys[1], acc))


def _group(node: Call, group: int, dot: Callable[[Any, Any, Any], Any]) -> Callable[..., Value]:
    """Combine groups of lanes of two vectors with each lane of a third one."""
    lanes = range(node.dtype.lanes)
    if len(lanes) == 1:
        return dot

    def dots(xs: tuple[Any, ...], ys: tuple[Any, ...], accs: tuple[Any, ...]) -> Value:
        cuts = [slice(group * i, group * (i + 1)) for i in lanes]
        return tuple([dot(xs[cut], ys[cut], acc) for cut, acc in zip(cuts, accs)])

    return dots


def _lane_mask(node: Call, parts: list[Code], scope: Scope) -> Code:
    lanes = range(node.dtype.lanes)

    def mask(base: int, limit: int) -> Value:
        below = tuple([base + i < limit for i in lanes])
        return below if len(lanes) > 1 else below[0]

    return strict(parts, mask)


# -- pointers ----------------------------------------------------------------------------------
def _advance(pointer: Any, count: int) -> Value:
    if isinstance(pointer, Pointer):
        return Pointer(pointer.memory, pointer.offset + count)
    return (address_of(pointer) + count) & _ADDRESS.max_value


def _add_bytes(node: Call, parts: list[Code], scope: Scope) -> Code:
    return strict(parts[:2], _advance)


def _access_ptr(node: Call, parts: list[Code], scope: Scope) -> Code:
    size = node.args[0].dtype.itemsize

    def move(data: Value, offset: int) -> Value:
        return _advance(data, offset * size)

    return strict(parts, move)


def _is_null(node: Call, parts: list[Code], scope: Scope) -> Code:
    def is_null(pointer: Value) -> bool:
        return not isinstance(pointer, (Pointer, str)) and not pointer

    return strict(parts, is_null)


def _prefetch(node: Call, parts: list[Code], scope: Scope) -> Code:
    def fetch(*given: Value) -> None:
        pass

    return strict(parts, fetch)


# -- hints and marks ---------------------------------------------------------------------------
def _undef(node: Call, parts: list[Code], scope: Scope) -> Code:
    one = choose_undefined_value(node.dtype)
    value: Any = bool(one) if node.dtype.is_bool else one
    many = (value,) * node.dtype.lanes
    return Code(lambda env: many if node.dtype.is_vector else value)


def _nothing(node: Call, parts: list[Code], scope: Scope) -> Code:
    return Code(lambda env: None)


SPECIAL: Final[dict[str, Callable[[Call, list[Code], Scope], Code]]] = {
    "reinterpret": _reinterpret,
    "vectorlow": _low,
    "vectorhigh": _high,
    "vectorcombine": _combine,
    "dot_tiles": dot_tiles,
    "dp2a": _dp2a,
    "dp4a": _dp4a,
    "get_active_lane_mask": _lane_mask,
    "handle_add_byte_offset": _add_bytes,
    "ptr_byte_offset": _add_bytes,
    "tvm_access_ptr": _access_ptr,
    "isnullptr": _is_null,
    "prefetch": _prefetch,
    "undef": _undef,
    "type_annotation": _nothing,
    "assume": _nothing,
    "tvm_tuple": _nothing,
}
"""By name of the builtin; ``parts`` are its arguments, or empty if they are not evaluated."""
