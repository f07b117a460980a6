"""Loomir as users run it: an ONNX file, compiled by default."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.models.peers import Running

__all__ = ["Peer"]


class Peer:
    """``loomir.onnx``."""

    def __init__(self, threads: int, cache: Path) -> None:
        os.environ["LOOMIR_CACHE_DIR"] = str(cache)
        import loomir  # noqa: PLC0415 - reads its settings now

        self.loomir = loomir

    def load(self, folder: Path, inputs: Sequence[Any]) -> Running:
        """Import and compile."""
        run = self.loomir.compile(self.loomir.onnx.load(folder / "model.onnx"))["main"]
        return running(run, inputs)


def running(run: Any, inputs: Sequence[Any]) -> Running:
    """Call a program and keep what it returns."""
    result: list[Any] = [None]

    def once() -> None:
        result[0] = run(*inputs)

    def results() -> Sequence[Any]:
        return result[0] if isinstance(result[0], (tuple, list)) else [result[0]]

    return Running(once, results)
