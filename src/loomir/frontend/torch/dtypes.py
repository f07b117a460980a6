"""Convert PyTorch's dtypes, and view the memory of tensors as arrays."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from loomir.frontend.torch.mistakes import CannotImport
from loomir.frontend.torch.package import torch_package
from loomir.support.array import Array

__all__ = ["array_of", "dtype_of", "part_dtype_of", "tensor_of", "view_pairs", "view_parts"]

_NAMES: Final = {
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64",
}  # fmt: skip
_PARTS: Final = {"torch.complex64": "float32", "torch.complex128": "float64"}


def dtype_of(dtype: Any) -> str:
    """Return the name of the Loomir dtype for elements of a ``torch.dtype``.

    Raises CannotImport (PTC0013) for unsupported ones, such as complex and quantised dtypes.
    """
    name = str(dtype).rpartition(".")[2]
    if name not in _NAMES:
        kind = "complex numbers are" if name.startswith("complex") else f"elements of {name} are"
        raise CannotImport(
            f"{kind} not supported",
            code="PTC0013",
            help="take their real and imaginary parts: torch.view_as_real(x)"
            if name.startswith("complex")
            else "convert them to a dtype that is supported: integers, floats of 16 to 64 bits",
        )
    return name


def part_dtype_of(dtype: Any) -> str:
    """Return ``dtype_of``, and for complex numbers the dtype of their parts."""
    return _PARTS.get(str(dtype)) or dtype_of(dtype)


def array_of(tensor: Any) -> Array:
    """Return a tensor as a constant that shares its memory.

    Only tensors that are not row-major are copied. Complex numbers are pairs along a last axis.
    """
    torch = torch_package()
    plain = tensor.detach()
    if plain.device.type != "cpu":
        raise CannotImport(
            f"a parameter is on device {plain.device}, and Loomir compiles for the CPU",
            code="PTC0013",
            help="move the model first: model.cpu()",
        )
    if plain.layout is not torch.strided:
        raise CannotImport(
            "a parameter is sparse", code="PTC0013", help="make it dense: tensor.to_dense()"
        )
    part_dtype_of(plain.dtype)
    plain = plain.resolve_conj().resolve_neg().contiguous()
    if plain.is_complex():
        plain = view_parts(plain)
    if plain.dtype is torch.bfloat16:
        data: Any = plain.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    else:
        data = plain.numpy()
    return Array.wrap_own(np.asarray(data))


def tensor_of(value: Any) -> Any:
    """Return a NumPy array as a tensor that shares its memory; a tensor unchanged."""
    torch = torch_package()
    if isinstance(value, torch.Tensor):
        return value
    data: Any = np.asarray(value)
    if data.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(data.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(data)


def view_parts(tensor: Any) -> Any:
    """View complex numbers as their real and imaginary parts, along a last axis."""
    return torch_package().view_as_real(tensor.resolve_conj())


def view_pairs(tensor: Any) -> Any:
    """View the pairs along the last axis as complex numbers."""
    return torch_package().view_as_complex(tensor)
