"""Import the torch package on first use."""

from __future__ import annotations

import importlib
from typing import Any

from loomir.frontend.torch.mistakes import refuse_program

__all__ = ["torch_package"]


def torch_package(part: str = "") -> Any:
    """Return the torch package, or a part of it. Errors: PTC0001 where it is not installed."""
    try:
        return importlib.import_module(f"torch.{part}" if part else "torch")
    except ImportError as error:
        raise refuse_program(
            "PTC0001",
            f"reading PyTorch programs needs the package torch, which cannot be imported: {error}",
            help='install it: pip install "loomir[torch]"',
        ) from error
