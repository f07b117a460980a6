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
        _settle(torch, model)
        for parameter in model.module.parameters():
            parameter.requires_grad_(False)
    return made


def _settle(torch: Any, model: Model) -> None:
    """Let normalisations learn from the inputs, so that signals reach the outputs."""
    norms = [m for m in model.module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    model.module.eval()
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model.module(*model.inputs)
    model.module.eval()
