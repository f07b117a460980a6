"""PyTorch without a compiler; its weights are mapped from the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.models.peers import Running

__all__ = ["Peer"]


class Peer:
    """Eager PyTorch."""

    def __init__(self, threads: int, cache: Path) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def load(self, folder: Path, inputs: Sequence[Any]) -> Running:
        """Read the module, which this benchmark wrote a moment ago."""
        module = torch.load(folder / "model.pt", weights_only=False, mmap=True)
        given = [torch.from_numpy(x) for x in inputs]
        result: list[Any] = [None]
        called = self.prepare(module)

        def once() -> None:
            result[0] = called(*given)

        def results() -> Sequence[Any]:
            made = result[0] if isinstance(result[0], (tuple, list)) else [result[0]]
            return [x.numpy() for x in made]

        return Running(once, results)

    def prepare(self, module: Any) -> Any:
        """Return what is called."""
        return module
