"""OpenVINO: its own format, whose weights it maps from the file, float32 kept as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openvino

from benchmarks.models.peers import Running

__all__ = ["Peer"]


class Peer:
    """One request with its tensors set."""

    def __init__(self, threads: int, cache: Path) -> None:
        self.core = openvino.Core()
        self.settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "CACHE_DIR": str(cache),
        }

    def load(self, folder: Path, inputs: Sequence[Any]) -> Running:
        """Compile a model."""
        compiled = self.core.compile_model(str(folder / "model.xml"), "CPU", self.settings)
        request = compiled.create_infer_request()
        for i, array in enumerate(inputs):
            request.set_tensor(f"x{i}", openvino.Tensor(array, shared_memory=True))
        count = len(compiled.outputs)

        def results() -> Sequence[Any]:
            return [request.get_output_tensor(i).data for i in range(count)]

        return Running(request.infer, results)
