"""Peers of Loomir in measurements: one module each, with a class ``Peer``.

``Peer(threads)`` sets a library up; ``prepare(row, inputs)`` returns a function that runs a row, or
None if the library has nothing for it. Only the process of that peer imports its module.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from benchmarks.rows import Row

__all__ = ["PEERS", "Peer", "PreparedRun", "load", "missing"]


class PreparedRun(NamedTuple):
    """``run`` does the work once, and waits for it; ``result`` gives what it made."""

    run: Callable[[], object]
    result: Callable[[], Any]


class Peer(Protocol):
    """A library at its best setting."""

    def __init__(self, threads: int) -> None: ...

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        ...


PEERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "loomir": ("loomir_default", ("loomir",)),
    "numpy": ("numpy_calls", ("numpy",)),
    "pytorch": ("pytorch", ("torch",)),
    "pytorch nhwc": ("pytorch_channels_last", ("torch",)),
    "inductor": ("inductor", ("torch",)),
    "jax": ("jax_jit", ("jax",)),
    "jax nhwc": ("jax_channels_last", ("jax",)),
    "onnxruntime": ("onnx_runtime", ("onnxruntime", "onnx")),
    "openvino": ("open_vino", ("openvino",)),
    "numba": ("numba_loops", ("numba",)),
    "apache-tvm": ("apache_tvm", ("tvm",)),
    "iree": ("iree_stablehlo", ("iree.compiler", "iree.runtime", "jax")),
    "halide": ("halide_auto", ("halide",)),
}
"""The module of each, and what it needs."""


def missing(name: str) -> list[str]:
    """List the packages that a peer needs and that are not installed."""
    return [package for package in PEERS[name][1] if not _found(package)]


def _found(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it lies in
        return False


def load(name: str, threads: int) -> Peer:
    """Import a peer and set it up."""
    return importlib.import_module(f"benchmarks.peers.{PEERS[name][0]}").Peer(threads)
