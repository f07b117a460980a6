"""Loomir on a file of ``torch.export``, with PyTorch tensors as arguments and results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.models.peers import Running
from benchmarks.models.peers.loomir_onnx import running

__all__ = ["Peer"]


class Peer:
    """``loomir.torch``."""

    def __init__(self, threads: int, cache: Path) -> None:
        os.environ["LOOMIR_CACHE_DIR"] = str(cache)
        import torch  # noqa: PLC0415

        import loomir  # noqa: PLC0415 - reads its settings now

        torch.set_num_threads(threads)
        self.loomir, self.torch = loomir, torch

    def load(self, folder: Path, inputs: Sequence[Any]) -> Running:
        """Import and compile."""
        program = self.torch.export.load(folder / "model.pt2")
        run = self.loomir.compile(self.loomir.torch.from_exported(program))["main"]
        del program
        return running(run, [self.torch.from_numpy(x) for x in inputs])
