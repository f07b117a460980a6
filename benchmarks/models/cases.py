"""The cases of ``python -m benchmarks.models``: names, and tolerances relative to float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CASES", "Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """A model of an architecture.

    ``bound``: the largest difference from PyTorch in float64, as a share of the largest element of
    an output. ``symbolic``: whether the axes that the model calls dynamic stay unknown until calls.
    """

    name: str
    architecture: str
    bound: float = 2e-5
    symbolic: bool = False

    @property
    def model(self) -> str:
        """Name the model among those of the architecture."""
        return self.name.removesuffix("_symbolic")


CASES: Final = (
    Case("mlp", "mlp"),
    Case("resnet18", "resnet"),
    Case("resnet50", "resnet"),
    Case("mobilenet_v2", "mobilenet"),
    Case("mobilenet_v3", "mobilenet"),
    Case("efficientnet_b0", "efficientnet"),
    Case("convnext_t", "convnext"),
    Case("vit", "vit"),
    Case("yolo", "yolo"),
    Case("unet", "unet"),
    Case("bert", "bert"),
    Case("bert_symbolic", "bert", symbolic=True),
    Case("gpt2_prefill", "gpt2"),
    Case("gpt2_decode", "gpt2"),
    Case("llama_prefill", "llama"),
    Case("llama_decode", "llama"),
    Case("whisper_encoder", "whisper"),
    Case("whisper_decoder", "whisper"),
    Case("lstm", "lstm"),
    Case("dlrm", "dlrm"),
)
