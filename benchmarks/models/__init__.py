"""Models in plain PyTorch with seeded random weights, for comparisons and for tests.

A file has the models of one architecture. ``small`` gives models that tests compile in a second,
``full`` those of the papers; both give them by name, each with its inputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["ARCHITECTURES", "Model", "models"]

ARCHITECTURES: Final[Sequence[str]] = (
    "bert",
    "convnext",
    "dlrm",
    "efficientnet",
    "gpt2",
    "llama",
    "lstm",
    "mlp",
    "mobilenet",
    "resnet",
    "unet",
    "vit",
    "whisper",
    "yolo",
)


@dataclass(frozen=True, slots=True)
class Model:
    """A model in evaluation mode, and what it is called with."""

    module: Any
    inputs: tuple[Any, ...]
    dynamic: Mapping[int, Mapping[int, str]] = field(default_factory=dict[int, Mapping[int, str]])
    """Names of the axes whose extents may change, by input and axis."""


def models(architecture: str, size: str = "small") -> Mapping[str, Model]:
    """Return the models of an architecture by name; ``size`` is ``"small"`` or ``"full"``."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    made: Mapping[str, Model] = getattr(
        importlib.import_module(f"benchmarks.models.{architecture}"), size
    )()
    for model in made.values():
        model.module.eval()
        for parameter in model.module.parameters():
            parameter.requires_grad_(False)
    return made
