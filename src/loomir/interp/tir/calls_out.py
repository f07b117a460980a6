"""Calls of packed functions, with the semantics of ``runtime.packed.packed_call``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from loomir.interp.machine import Code, strict
from loomir.interp.memory import Memory, View
from loomir.interp.rational import exact_of, round_to_dtype
from loomir.interp.values import Pointer, Value, rounder
from loomir.ir.op import Op
from loomir.runtime.packed.externs import c_function, find_extern
from loomir.runtime.packed.packed_call import (
    CalleeError,
    LentArray,
    call_c_function,
    call_function,
    with_place,
)
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType
from loomir.tir.builtins.calls import (
    CALL_CPACKED,
    CALL_EXTERN,
    CALL_PACKED,
    CALL_PURE_EXTERN,
    name_of,
    unknown_extern,
)
from loomir.tir.expr import Call

__all__ = ["CALLS", "address_of", "call_out"]


def call_out(
    node: Call, parts: list[Code], returns: DataType | None, *, exact: bool = False
) -> Code:
    """Compile a call; if ``returns`` is None, the result is dropped.

    The callee takes and returns rounded floats, even if numbers are ``exact``.
    """
    assert isinstance(node.op, Op)
    function = CALLS[node.op](node, returns)
    dtypes = [arg.dtype for arg in node.args[1:]]

    def call(*values: Value) -> Value:
        passed = [
            _pass(round_to_dtype(v, d) if exact and d.is_float else v, d)
            for v, d in zip(values, dtypes, strict=True)
        ]
        try:
            made = function(passed)
            return exact_of(made) if exact and isinstance(made, float) else made
        except BaseException as error:
            own = with_place(error, node.span)
            if own is not error:
                raise own from None
            if isinstance(error, StopIteration):
                # In a generator, which may evaluate the expression, it would be misinterpreted.
                raise CalleeError(error) from None
            raise

    return strict(parts[1:], call)


def _compile_packed(node: Call, returns: DataType | None) -> Callable[[list[object]], Value]:
    name, cut = name_of(node), _make_rounding(returns)
    return lambda values: cut(call_function(name, values, returns))


def _call_packed_in_c(node: Call, returns: DataType | None) -> Callable[[list[object]], Value]:
    name, cut = name_of(node), _make_rounding(returns)
    return lambda values: cut(call_c_function(name, values, returns))


def _call_in_c(node: Call, returns: DataType | None) -> Callable[[list[object]], Value]:
    name = name_of(node)
    address = find_extern(name)
    if not address:
        raise CompileError(unknown_extern(name, node.span))
    dtypes = [a.dtype for a in node.args[1:]]
    # The function returns its result even if it is not used.
    function, cut = c_function(address, name, dtypes, node.dtype), _make_rounding(node.dtype)
    return lambda values: cut(function(values))


def _make_rounding(dtype: DataType | None) -> Callable[[Any], Value]:
    return rounder(dtype) if dtype is not None and dtype.is_float else lambda value: value


CALLS: Final[dict[Op, Callable[[Call, DataType | None], Callable[[list[object]], Value]]]] = {
    CALL_PACKED: _compile_packed,
    CALL_CPACKED: _call_packed_in_c,
    CALL_EXTERN: _call_in_c,
    CALL_PURE_EXTERN: _call_in_c,
}


# -- arguments ---------------------------------------------------------------------------------
def _pass(value: Value, dtype: DataType) -> object:
    """Convert a value to the form that Python functions take."""
    if isinstance(value, View):
        return _lend(value)
    if isinstance(value, str) or not dtype.is_handle:
        return value
    address = address_of(value)
    if isinstance(value, Pointer):
        _may_write(value.memory)
    return ctypes.c_void_p(address) if address else None


def address_of(value: Value) -> int:
    """Return the address of a handle's memory in this process."""
    if isinstance(value, Pointer):
        return _start(value.memory.data) + value.offset
    if isinstance(value, ctypes.c_void_p):
        return value.value or 0
    return value or 0


def _start(data: Any) -> int:
    if not len(data):
        return 0
    place: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return place


def _may_write(memory: Memory) -> None:
    """Mark all bytes as written, since the function's writes are unknown."""
    memory.numbers = None
    if memory.written is not None:
        memory.written[:] = b"\1" * len(memory.written)


def _lend(view: View) -> LentArray:
    _may_write(view.memory)
    return LentArray(address_of(view.pointer), view.dtype, view.shape, view.strides)
