"""NumPy's view of an argument's memory, for explaining why a call failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loomir.runtime.arguments import refuse
from loomir.runtime.capsule import Array, capsule_of, is_array, plain_array
from loomir.runtime.errors import RunTypeError
from loomir.runtime.ffi import is_tensor, tensor_from_capsule
from loomir.runtime.parameter import Parameter
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType, numpy_of

__all__ = ["view_arguments"]


class _Memory:
    """Memory that NumPy can look at; it keeps the owner alive."""

    def __init__(self, owner: object, interface: dict[str, object]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def view_arguments(
    parameters: Sequence[Parameter], given: Sequence[object], adapted: Sequence[object]
) -> tuple[object, ...]:
    """Give NumPy arrays for buffers and Python's numbers for scalars; nothing is copied.

    ``adapted`` is what ``adapt`` made of ``given``.

    Errors: RUN0105 for elements of a dtype that TIR lacks.
    """
    return tuple(
        _view(parameter, before, after) if parameter.is_buffer else _number(parameter, after)
        for parameter, before, after in zip(parameters, given, adapted, strict=True)
    )


def _number(parameter: Parameter, value: Any) -> object:
    if parameter.dtype.is_handle:
        return value
    return getattr(value, "value", value)


def _dtype(parameter: Parameter, tensor: Any) -> DataType:
    name = "of another kind"
    try:
        name = f"of {tensor.dtype}"
        return DataType.parse(str(tensor.dtype))
    except (CompileError, ValueError):  # the latter: tvm-ffi has no name for complex numbers
        error = refuse(
            parameter,
            RunTypeError,
            "RUN0105",
            f"has elements {name}, which TIR lacks",
            f"the function takes {parameter.dtype}",
        )
    raise error


def _view(parameter: Parameter, before: object, after: Any) -> Array:
    if is_array(before):
        return plain_array(before)
    tensor: Any = after if is_tensor(after) else tensor_from_capsule(capsule_of(after))
    dtype = _dtype(parameter, tensor)
    bits: Any = np.dtype(f"u{dtype.element.itemsize}")
    lanes = (dtype.lanes,) if dtype.is_vector else ()
    interface: dict[str, object] = {
        "version": 3,
        "shape": (*tensor.shape, *lanes),
        "strides": (
            *(stride * dtype.itemsize for stride in tensor.strides),
            *(bits.itemsize for _ in lanes),
        ),
        "typestr": bits.str,
        "data": (tensor.data_ptr(), False),
    }
    memory: Any = np.asarray(_Memory(tensor, interface))
    return memory.view(numpy_of(dtype))
