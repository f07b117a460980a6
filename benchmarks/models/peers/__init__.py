"""Runtimes for models: one module each, with a class ``Peer``.

``Peer(threads, cache)`` imports a library and sets it up; ``load(folder, inputs)`` reads the model
in the library's format and returns a function that runs it. Only the process of that peer imports
its module.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

__all__ = ["PEERS", "Peer", "PeerModule", "Running", "load", "missing"]


class Running(NamedTuple):
    """``run`` calls the model once; ``results`` gives what the last call made, as arrays."""

    run: Callable[[], object]
    results: Callable[[], Sequence[Any]]


class Peer(Protocol):
    """A library with its threads and the folder of its cache."""

    def __init__(self, threads: int, cache: Path) -> None: ...

    def load(self, folder: Path, inputs: Sequence[Any]) -> Running:
        """Read a model and compile it."""
        ...


class PeerModule(NamedTuple):
    """Where a peer is, which packages it needs, and which file of a model it reads."""

    module: str
    packages: tuple[str, ...]
    format: str


PEERS: Final[dict[str, PeerModule]] = {
    "loomir": PeerModule("loomir_onnx", ("loomir", "onnx"), "onnx"),
    "loomir pt2": PeerModule("loomir_exported", ("loomir", "torch"), "pt2"),
    "pytorch": PeerModule("eager", ("torch",), "pt"),
    "inductor": PeerModule("inductor", ("torch",), "pt"),
    "onnxruntime": PeerModule("onnx_runtime", ("onnxruntime",), "onnx"),
    "openvino": PeerModule("open_vino", ("openvino",), "xml"),
    "apache-tvm": PeerModule("apache_tvm", ("tvm", "onnx"), "onnx"),
}


def missing(name: str) -> list[str]:
    """List the packages that a peer needs and that are not installed."""
    return [p for p in PEERS[name].packages if importlib.util.find_spec(p) is None]


def load(name: str, threads: int, cache: Path) -> Peer:
    """Import a peer and set it up."""
    module = importlib.import_module(f"benchmarks.models.peers.{PEERS[name].module}")
    return module.Peer(threads, cache)
