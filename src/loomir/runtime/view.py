"""View an argument's memory as a NumPy array, to explain why a call was refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loomir.runtime.arguments import refuse
from loomir.runtime.dlpack import Array, capsule_of, is_array, plain_array
from loomir.runtime.errors import RunTypeError
from loomir.runtime.ffi import is_tensor, tensor_from_capsule
from loomir.runtime.parameter import Parameter
from loomir.runtime.torch_tensor import is_torch_tensor
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType, numpy_of

__all__ = ["Lender", "Views", "array_at", "view_arguments"]


_NOWHERE: Final = 64


class Lender:
    """Memory for NumPy arrays: they keep this object alive, and it keeps the owner alive."""

    __slots__ = ("__array_interface__", "__weakref__", "owner")

    def __init__(self, owner: object = None) -> None:
        self.owner = owner
        self.__array_interface__: dict[str, object] = {}


def array_at(
    lender: Lender,
    address: int,
    dtype: DataType,
    shape: Sequence[int],
    strides: Sequence[int] = (),
) -> Array:
    """Make an array of memory at an address; strides count elements, None means row-major."""
    bits: Any = np.dtype(f"u{dtype.element.itemsize}")
    lanes = (dtype.lanes,) if dtype.is_vector else ()
    steps = None
    if strides:
        steps = (*[s * dtype.itemsize for s in strides], *[bits.itemsize for _ in lanes])
    lender.__array_interface__ = {
        "version": 3,
        "shape": (*shape, *lanes),
        "strides": steps,
        "typestr": bits.str,
        # NumPy before 2.3 does not accept NULL, which an empty array may have.
        "data": (address or _NOWHERE, False),
    }
    memory: Any = np.asarray(lender)
    return memory.view(numpy_of(dtype))


def view_arguments(
    parameters: Sequence[Parameter], given: Sequence[object], adapted: Sequence[object]
) -> tuple[object, ...]:
    """Return NumPy arrays for buffers and Python numbers for scalars; nothing is copied.

    ``adapted`` is the result of ``adapt`` for ``given``.

    Errors: RUN0105 for elements of a dtype that TIR lacks.
    """
    views = Views(
        _view(parameter, before, after) if parameter.is_buffer else _number(parameter, after)
        for parameter, before, after in zip(parameters, given, adapted, strict=True)
    )
    views.tensors = frozenset(
        parameter.name
        for parameter, value in zip(parameters, given, strict=True)
        if is_torch_tensor(value)
    )
    return views


class Views(tuple[object, ...]):
    """Arguments as arrays and numbers; ``tensors`` are the names of those from PyTorch."""

    tensors: frozenset[str] = frozenset()


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
    return array_at(Lender(tensor), tensor.data_ptr(), dtype, tensor.shape, tensor.strides)
