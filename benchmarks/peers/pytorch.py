"""PyTorch's eager operators, into existing tensors if they support that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.peers import PreparedRun
from benchmarks.rows import Row

__all__ = ["FUNCTIONS", "Peer", "as_array", "as_tensor"]

FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "matmul": torch.matmul,
    "linear": F.linear,
    "conv": F.conv2d,
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x, g, b: F.layer_norm(x, x.shape[1:], g, b),
    "rms_norm": lambda x, g: F.rms_norm(x, x.shape[1:], g, 1e-5),
    "gelu": F.gelu,
    "sum": lambda x, axis: torch.sum(x) if axis is None else torch.sum(x, axis),
    "transpose": lambda x: x.t().contiguous(),
    "attention": F.scaled_dot_product_attention,
}


def as_tensor(array: Any) -> Any:
    """Return an array to PyTorch, which has a bfloat16 of its own."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("uint16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_array(tensor: Any) -> Any:
    """Return a tensor to NumPy, wide enough for all that it holds."""
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


class Peer:
    """Channels first."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Choose an operator."""
        return self.called(row, [as_tensor(x) for x in inputs])

    def called(self, row: Row, given: list[Any]) -> PreparedRun:
        """Return a call of the operator."""
        into = self._into(row, given)
        if into is not None:
            return into
        function = torch._int_mm if row.dtype == "int8" else FUNCTIONS[row.kind]
        result: list[Any] = [None]

        def run() -> None:
            result[0] = function(*given, **row.settings)

        return PreparedRun(run, lambda: as_array(result[0]))

    def _into(self, row: Row, given: list[Any]) -> PreparedRun | None:
        """Use ``out`` where the operator has it."""
        out = torch.empty(row.out, dtype=given[0].dtype)
        runs: dict[str, Callable[[], Any]] = {
            "matmul": lambda: torch.matmul(*given, out=out),
            "softmax": lambda: torch.softmax(given[0], -1, out=out),
            "sum": lambda: torch.sum(given[0], axis, out=out),
            "transpose": lambda: out.copy_(given[0].t()),
        }
        axis = row.settings.get("axis")
        if row.kind not in runs or row.dtype == "int8" or (row.kind == "sum" and axis is None):
            return None
        return PreparedRun(runs[row.kind], lambda: np.asarray(as_array(out)))
