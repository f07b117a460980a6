"""PyTorch's compiler, with weights frozen so that it may pack them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from benchmarks.models.peers import eager

__all__ = ["Peer"]


class Peer(eager.Peer):
    """``torch.compile``."""

    def __init__(self, threads: int, cache: Path) -> None:
        super().__init__(threads, cache)
        if shutil.which("g++") is None and shutil.which("clang++") is None:
            raise RuntimeError("there is no C++ compiler")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        import torch._inductor.config as config  # noqa: PLC0415 - reads the environment

        config.freezing = True

    def prepare(self, module: Any) -> Any:
        """Compile at the first call."""
        return eager.torch.compile(module)
