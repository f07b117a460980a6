"""Emit the entry of a public function in the calling convention of tvm-ffi."""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Block, Function
from loomir.codegen.llvm.assembler.types import DOUBLE, I1, I8, I32, I64, PTR
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.math.floats import cast, register_type
from loomir.codegen.llvm.support.ir.faults import FINE, open_context
from loomir.codegen.llvm.tir.frame import LinkedFunction, Unit
from loomir.codegen.llvm.tir.memory import load_value, memory_type
from loomir.codegen.llvm.tir.stack import call_entered
from loomir.runtime import layout as at
from loomir.support.dtype import DataType
from loomir.tir.signature import Parameter

__all__ = ["ONCE", "define_entry"]

ONCE: Final = {"noinline": None, "optnone": None}
"""Attributes of code that runs once for each call from outside: optimising it would take LLVM
longer than a small kernel itself."""

_INT64: Final = DataType("int64")
_FLOAT64: Final = DataType("float64")


def define_entry(unit: Unit, symbol: str, linked: LinkedFunction) -> None:
    """Define the entry: decode the arguments, call, encode the result or raise the fault."""
    params = [("self", PTR), ("args", PTR), ("count", I32), ("ret", PTR)]
    made = unit.module.define(symbol, I32, params, attributes=ONCE)
    b = Builder(made)
    context = b.alloca(unit.faults.context, hint="context")
    open_context(b, context)
    bad = b.append("bad")
    parameters = linked.signature.parameters
    _require(b, b.icmp("eq", made.params[2], const(I32, len(parameters))), bad, unit)
    args: list[Value] = []
    for parameter in parameters:
        slot = b.gep(I8, made.params[1], const(I64, parameter.position * at.ANY_SIZE))
        args.append(_Decoder(b, unit, slot, bad).decode(parameter))
    returns = linked.returns
    result = NULL if returns.is_void else b.alloca(memory_type(returns), hint="result")
    status = call_entered(b, unit, context, linked, [context, *args, result])
    fine, fault = b.append("fine"), b.append("fault")
    b.condbr(b.icmp("eq", status, FINE), fine, fault, meta=unit.faults.rare())
    _raise(b, unit, made, (context, status), fault, bad)
    b.position_at_end(fine)
    if not returns.is_void:
        _encode(b, returns, load_value(b, returns, result), made.params[3])
    b.ret(const(I32, 0))


def _raise(
    b: Builder,
    unit: Unit,
    made: Function,
    what: tuple[Value, Value],
    fault: Block,
    bad: Block,
) -> None:
    context, status = what
    b.position_at_end(fault)
    unit.faults.raise_context(b, context, status)
    b.ret(const(I32, -1))
    b.position_at_end(bad)
    unit.faults.refuse(b, context)
    b.ret(const(I32, -1))


def _require(b: Builder, holds: Value, bad: Block, unit: Unit) -> None:
    fine = b.append("fine")
    b.condbr(holds, fine, bad, meta=unit.faults.rare())
    b.position_at_end(fine)


# -- arguments ---------------------------------------------------------------------------------
class _Decoder:
    """Reads one ``TVMFFIAny``; goes to ``bad`` if it does not fit."""

    def __init__(self, b: Builder, unit: Unit, slot: Value, bad: Block) -> None:
        self._b = b
        self._unit = unit
        self._bad = bad
        self._kind = b.load(I32, slot)
        self._place = b.gep(I8, slot, const(I64, at.ANY_VALUE))

    def decode(self, parameter: Parameter) -> Value:
        """Convert the argument to the type that the checked function takes."""
        if parameter.buffer is not None:
            return self._tensor()
        dtype = parameter.dtype
        if dtype.is_handle:
            return self._handle()
        if dtype.is_float:
            return self._float(dtype)
        return self._integer(dtype)

    def _is(self, kind: int) -> Value:
        return self._b.icmp("eq", self._kind, const(I32, kind))

    def _require(self, holds: Value) -> None:
        _require(self._b, holds, self._bad, self._unit)

    def _tensor(self) -> Value:
        b = self._b
        is_object = self._is(at.TYPE_TENSOR)
        self._require(b.or_(is_object, self._is(at.TYPE_DLTENSOR_PTR)))
        value = b.load(PTR, self._place)
        inner = b.gep(I8, value, const(I64, at.TENSOR_OBJECT_DLTENSOR))
        return b.select(is_object, inner, value)

    def _handle(self) -> Value:
        b = self._b
        is_none = self._is(at.TYPE_NONE)
        self._require(b.or_(is_none, self._is(at.TYPE_OPAQUE_PTR)))
        return b.select(is_none, NULL, b.load(PTR, self._place))

    def _float(self, dtype: DataType) -> Value:
        b = self._b
        is_float = self._is(at.TYPE_FLOAT)
        is_whole = b.or_(self._is(at.TYPE_INT), self._is(at.TYPE_BOOL))
        self._require(b.or_(is_float, is_whole))
        whole = cast(b, b.load(I64, self._place), _INT64, _FLOAT64)
        number = b.select(is_float, b.load(DOUBLE, self._place), whole)
        made = cast(b, number, _FLOAT64, dtype)
        if dtype.bits < 64:  # a finite number must not become an infinity
            back = cast(b, made, dtype, _FLOAT64)
            self._require(
                b.or_(self._is_finite(back), b.xor(self._is_finite(number), const(I1, 1)))
            )
        return made

    def _is_finite(self, number: Value) -> Value:
        """Tell whether a double is finite: only then is ``x - x`` 0."""
        return self._b.fcmp("oeq", self._b.fsub(number, number), const(DOUBLE, 0.0))

    def _integer(self, dtype: DataType) -> Value:
        b = self._b
        is_known = b.or_(self._is(at.TYPE_INT), self._is(at.TYPE_BOOL))
        value = b.load(I64, self._place)
        if dtype.is_bool:
            self._require(b.and_(is_known, b.icmp("ult", value, const(I64, 2))))
            return b.trunc(value, I1)
        if dtype.is_uint and dtype.bits == 64:
            # Values beyond the range of signed integers are passed as pointers.
            known = b.and_(is_known, b.icmp("sge", value, const(I64, 0)))
            self._require(b.or_(known, self._is(at.TYPE_OPAQUE_PTR)))
            return value
        self._require(is_known)
        if dtype.bits == 64:
            return value
        narrow = b.trunc(value, register_type(dtype))
        self._require(b.icmp("eq", cast(b, narrow, dtype, _INT64), value))
        return narrow


# -- the result --------------------------------------------------------------------------------
def _encode(b: Builder, dtype: DataType, value: Value, ret: Value) -> None:
    """Write a result as a ``TVMFFIAny``."""
    if dtype.is_handle:
        kind, wide = at.TYPE_OPAQUE_PTR, value
    elif dtype.is_float:
        kind, wide = at.TYPE_FLOAT, cast(b, value, dtype, _FLOAT64)
    elif dtype.is_bool:
        kind, wide = at.TYPE_BOOL, b.zext(value, I64)
    else:
        kind, wide = at.TYPE_INT, cast(b, value, dtype, _INT64)
    b.store(const(I32, kind), ret)
    b.store(const(I32, 0), b.gep(I8, ret, const(I64, at.ANY_PADDING)))
    b.store(wide, b.gep(I8, ret, const(I64, at.ANY_VALUE)))
