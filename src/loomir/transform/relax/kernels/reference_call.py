"""Call the NumPy reference of an operator that cannot be lowered to a kernel.

This applies to tensors of unknown rank or dtype, and to results whose extents depend on the
contents of arguments. Such a call becomes a call of the packed function ``loomir.reference``, which
gets the operator's name and options.
"""

from __future__ import annotations

import json
from typing import Any, Final

from loomir.relax.expr import Call, ExternFunc, StringImm
from loomir.relax.faults import REFUSALS, refused_by_reference
from loomir.relax.node import StructInfo
from loomir.relax.operator.definition import OpDef, find_op
from loomir.relax.operator.values import infer_of_values
from loomir.runtime.packed.registry import register_func
from loomir.support.diagnostics import InternalError
from loomir.support.dtype import DataType

__all__ = ["NAME", "reference_call"]

NAME: Final = "loomir.reference"


def reference_call(definition: OpDef, call: Call, result: StructInfo) -> Call:
    """Replace a call of an operator by a call of its reference."""
    options = json.dumps({name: _encode(value) for name, value in call.attrs.items()})
    args = (ExternFunc(NAME), StringImm(definition.name), StringImm(options), *call.args)
    pure = find_op("relax.call_pure_packed")
    if pure is None:
        raise InternalError("there is no operator call_pure_packed")
    return Call(pure.op, args, (result,), span=call.span)


def _encode(value: Any) -> Any:
    if isinstance(value, DataType):
        return {"dtype": str(value)}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        ((kind, text),) = value.items()  # pyright: ignore[reportUnknownVariableType]
        return DataType(str(text)) if kind == "dtype" else float.fromhex(str(text))  # pyright: ignore[reportUnknownArgumentType]
    return value


def _reference(name: str, options: str, *args: Any) -> Any:
    found = find_op(name)
    if found is None or found.reference is None:
        raise InternalError(f"operator {name} has no reference")
    decoded = {key: _decode(value) for key, value in json.loads(options).items()}
    infer_of_values(found, args, decoded)
    try:
        return found.reference(*args, **decoded)
    except REFUSALS as error:
        raise refused_by_reference(name, error) from None


register_func(NAME, _reference, override=True)
