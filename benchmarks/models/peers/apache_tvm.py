"""apache-tvm as users run it: ONNX to Relax, compiled by default, without search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from benchmarks.models.peers import Running

__all__ = ["Peer"]


class Peer:
    """Its default pipeline, for the CPU that runs it."""

    def __init__(self, threads: int, cache: Path) -> None:
        host = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
        cpu = host() if host is not None else ""
        self.target = tvm.target.Target(
            {"kind": "llvm", "num-cores": threads, **({"mcpu": cpu} if cpu else {})}
        )

    def load(self, folder: Path, inputs: Sequence[Any]) -> Running:
        """Import and compile."""
        built = tvm.compile(from_onnx(onnx.load(folder / "model.onnx")), target=self.target)
        run = relax.VirtualMachine(built, tvm.cpu())["main"]
        tensors = [tvm.runtime.tensor(x) for x in inputs]
        result: list[Any] = [None]

        def once() -> None:
            result[0] = run(*tensors)

        def results() -> Sequence[Any]:
            made = result[0]
            return [made.numpy()] if hasattr(made, "numpy") else [x.numpy() for x in made]

        return Running(once, results)
