"""PyTorch's convolutions with channels last."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.peers import PreparedRun, pytorch
from benchmarks.peers.pytorch import as_tensor
from benchmarks.rows import Row

__all__ = ["Peer"]


class Peer(pytorch.Peer):
    """Only where the layout makes a difference."""

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Choose an operator."""
        if row.kind != "conv":
            return None
        given = [as_tensor(x).contiguous(memory_format=torch.channels_last) for x in inputs]
        return self.called(row, given)
