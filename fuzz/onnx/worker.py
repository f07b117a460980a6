"""The process that checks corrupted models."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import warnings
from contextlib import redirect_stdout
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

import loomir
from fuzz.onnx.mutate import model_of_seed
from fuzz.serving import answer_of, complaints, serve
from loomir.ir.visit import pre_order
from loomir.relax.expr import Constant, Function
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.diagnostics import CompileError, RunError
from loomir.support.dtype import numpy_of
from loomir.tir import IntImm

__all__ = ["answer", "main"]

MEMORY: Final = 6 << 30
ELEMENTS: Final = 1 << 16
"""Of the largest input; models that take more are compiled and not run."""
EXTENT: Final = 2
"""What stands for extents that are names."""
SECRET: Final = b"outside of the model's folder " * 4096


@cache
def _folder() -> Path:
    """Make a folder for models, with weights in it, and a file outside that none may read."""
    top = Path(tempfile.mkdtemp(prefix="loomir-onnx-"))
    (top / "secret").write_bytes(SECRET)
    folder = top / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(bytes(4096))
    (folder / "link").symlink_to(top / "secret")
    return folder


def _constants(module: Any) -> list[Any]:
    found: list[Any] = []
    for func in module.functions.values():
        if isinstance(func, Function):
            found += [n.data.data for n in pre_order(func) if isinstance(n, Constant)]
    return found


def _inputs(func: Function) -> list[Any] | None:
    made: list[Any] = []
    for param in func.params:
        info = param.struct_info
        if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype.is_void:
            return None
        extents = [d.value if isinstance(d, IntImm) else EXTENT for d in info.dims]
        if prod(extents) > ELEMENTS or any(e < 0 for e in extents):
            return None
        made.append(np.ones(extents, numpy_of(info.dtype)))
    return made


def _check(seed: int, kinds: list[str]) -> str:
    damaged = model_of_seed(seed)
    kinds.extend(damaged.changes)
    path = _folder() / "model.onnx"
    path.write_bytes(damaged.data)
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # answers go to the output
        warnings.simplefilter("ignore")
        try:
            module = loomir.onnx.load(path)
        except CompileError as error:
            if not str(error).strip():
                return "an error without a message"
            kinds.append(f"load {error.diagnostic.code}")
            return ""
        if any(SECRET[:16] in c.tobytes() for c in _constants(module)):
            return "it read a file outside of the model's folder"
        try:
            run = loomir.compile(module, cache=False)
        except CompileError as error:
            kinds.append(f"compile {error.diagnostic.code}")
            return ""
        func = module["main"]
        inputs = _inputs(func) if isinstance(func, Function) else None
        if inputs is None:
            kinds.append("compiled")
            return ""
        try:
            run(*inputs)
        except RunError as error:
            kinds.append(f"run {error.diagnostic.code}")
            return ""
        kinds.append("ran")
    return ""


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Damage and check the model of a seed."""
    started = time.process_time()
    spent = {"start": time.process_time() - started}
    kinds: list[str] = []
    found = complaints(["model"], lambda _: _check(seed, kinds), spent)
    return answer_of(seed, ["model"], found, kinds, spent)


def main() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    serve(answer)


if __name__ == "__main__":
    main()
