"""PyTorch's compiler, with weights frozen so that it may pack them."""

from __future__ import annotations

import shutil
from typing import Any

import torch
import torch._inductor.config as config

from benchmarks.peers import PreparedRun
from benchmarks.peers.pytorch import FUNCTIONS, as_array, as_tensor
from benchmarks.rows import Row

__all__ = ["Peer"]


class _Module(torch.nn.Module):
    def __init__(self, row: Row, weights: dict[int, Any]) -> None:
        super().__init__()
        self.row = row
        for place, weight in weights.items():
            self.register_buffer(f"w{place}", weight)

    def forward(self, *given: Any) -> Any:
        """Call the operator with the weights in their places."""
        rest = iter(given)
        arguments = [
            getattr(self, f"w{i}") if i in self.row.constant else next(rest)
            for i in range(len(self.row.shapes))
        ]
        return FUNCTIONS[self.row.kind](*arguments, **self.row.settings)


class Peer:
    """``torch.compile``."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        if shutil.which("g++") is None and shutil.which("clang++") is None:
            raise RuntimeError("there is no C++ compiler")
        config.freezing = True

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        if row.dtype == "int8":
            return None
        torch._dynamo.reset()
        tensors = [as_tensor(x) for x in inputs]
        module = _Module(row, {i: tensors[i] for i in row.constant}).eval()
        compiled = torch.compile(module)
        given = [t for i, t in enumerate(tensors) if i not in row.constant]
        result: list[Any] = [None]

        def run() -> None:
            result[0] = compiled(*given)

        return PreparedRun(run, lambda: as_array(result[0]))
