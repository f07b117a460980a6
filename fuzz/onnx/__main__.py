"""Corrupt ONNX models at random, and load, compile and run the results.

    python -m fuzz.onnx --count 10000

Models are those of the standard's operator tests, and small networks. A file must be refused with
its mistakes, or be a model: one that loads is compiled, and its run ends with values or a typed
error. A process that dies, exceeds its memory, does not end, reads a file outside of the model's
folder, or raises anything else is a failure.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fuzz.onnx.mutate import model_of_seed
from fuzz.processes import Campaign, kept, run_from_command_line

__all__ = ["ModelCampaign", "main"]


class ModelCampaign(Campaign):
    """Checks damaged models."""

    command = ("-m", "fuzz.onnx.worker")
    programs = "models"

    def keep(self, reply: dict[str, Any], folder: Path) -> Path:
        """Write a failure down: what happened, and the bytes of the file beside it."""
        seed = reply["seed"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"model-{seed}.onnx").write_bytes(model_of_seed(seed).data)
        lines = [f"# seed {seed} of models", *[f"{k}: {v}" for k, v in reply["found"].items()]]
        return kept(reply, folder, "model", lines)


def main() -> int:
    """Run a campaign from the command line."""
    return run_from_command_line(ModelCampaign, __doc__, ["model"])


if __name__ == "__main__":
    sys.exit(main())
