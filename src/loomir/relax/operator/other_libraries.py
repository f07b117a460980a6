"""What NumPy, PyTorch and ONNX call operators of graphs."""

from __future__ import annotations

from typing import Final

from loomir.relax.operator.definition import op_names

__all__ = ["ELSEWHERE", "OF_TENSORS", "find_operator"]

ELSEWHERE: Final = {
    "addmm": "linear",
    "amax": "max",
    "amin": "min",
    "batchnorm": "nn.batch_norm",
    "bmm": "matmul",
    "cast": "astype",
    "cat": "concat",
    "clamp": "clip",
    "concatenate": "concat",
    "conv": "nn.conv2d",
    "dense": "linear",
    "div": "divide",
    "dot": "matmul",
    "expand": "broadcast_to",
    "gather": "take",
    "gemm": "matmul",
    "layernorm": "nn.layer_norm",
    "leaky_relu": "nn.leakyrelu",
    "mm": "matmul",
    "mul": "multiply",
    "neg": "negative",
    "permute": "permute_dims",
    "pow": "power",
    "rmsnorm": "nn.rms_norm",
    "sub": "subtract",
    "swapaxes": "permute_dims",
    "transpose": "permute_dims",
    "true_divide": "divide",
    "unsqueeze": "expand_dims",
    "view": "reshape",
}
"""The operators that other names stand for."""
OF_TENSORS: Final = {
    "T": "permute_dims({})",
    "double": 'astype({}, "float64")',
    "float": 'astype({}, "float32")',
    "half": 'astype({}, "float16")',
    "int": 'astype({}, "int32")',
    "long": 'astype({}, "int64")',
    "shape": "shape_of({})",
    "size": "size({})",
    "to": 'astype({}, "float32")',
    "type": 'astype({}, "float32")',
}
"""Attributes of arrays elsewhere, and the call that has their value."""
_PREFIX: Final = "relax."


def find_operator(name: str) -> str | None:
    """Return the operator that a name elsewhere stands for, as ``nn.relu``."""
    known = [full.removeprefix(_PREFIX) for full in op_names()]
    meant = ELSEWHERE.get(name.lower(), name.lower())
    if meant in known:
        return meant
    return next((one for one in known if one.rpartition(".")[2] == meant), None)
