"""The process that checks mutated texts."""

from __future__ import annotations

import os
import resource
import sys
import time
import warnings
from contextlib import redirect_stdout
from functools import cache
from math import prod
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

import loomir
from fuzz.serving import answer_of, complaints, serve
from loomir.check.relax.verify import verify
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import pre_order
from loomir.relax.expr import Function
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.script import from_source
from loomir.support.diagnostics import CompileError
from loomir.support.dtype import DataType, numpy_of
from loomir.tir import For, IntImm, PrimFunc, While
from tests.script.campaign import check_text
from tests.script.graph_mutations import GRAPHS
from tests.script.mutations import corpus, mutate

__all__ = ["answer", "main", "text_of_seed"]

MEMORY: Final = 6 << 30
STEPS: Final = 1 << 16
ELEMENTS: Final = 1 << 20
EXTENT: Final = 4
"""What stands for extents that are names."""


@cache
def _texts() -> tuple[str, ...]:
    given = os.environ.get("TEXTS")
    files = sorted(Path(given).glob("*.py")) if given else []
    return (*[file.read_text(encoding="utf-8") for file in files], *corpus(), *GRAPHS)


def text_of_seed(seed: int) -> str:
    """Return the changed text of a seed."""
    random = Random(seed)
    return mutate(random.choice(_texts()), random)


def _steps(func: PrimFunc) -> float:
    """Bound how often a body runs; loops without a known end run for ever."""
    most = 1.0
    for node in pre_order(func.body):
        if isinstance(node, While):
            return float("inf")
        if isinstance(node, For):
            most *= node.extent.value if isinstance(node.extent, IntImm) else 64
    return most


def _array(shape: Any, dtype: DataType) -> Any:
    extents = [e.value if isinstance(e, IntImm) else EXTENT for e in shape]
    if prod(extents) > ELEMENTS or any(extent < 0 for extent in extents):
        return None
    return np.ones(extents, numpy_of(dtype))


def _arguments(func: BaseFunc) -> list[Any]:
    if isinstance(func, PrimFunc):
        found: list[Any] = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            found.append(1 if buffer is None else _array(buffer.shape, buffer.dtype))
        return found
    assert isinstance(func, Function)
    infos = [param.struct_info_annotation for param in func.params]
    return [
        _array(info.shape.values, info.dtype)
        if isinstance(info, TensorStructInfo)
        and isinstance(info.shape, ShapeExpr)
        and not info.dtype.is_void
        else None
        for info in infos
    ]


def _run(module: IRModule) -> None:
    """Compile a module in both ways, and run what ends soon."""
    loomir.compile(module, cache=False)
    made = loomir.compile(module, checked=True, cache=False)
    funcs = list(module.functions.items())
    if any(isinstance(f, PrimFunc) and _steps(f) > STEPS for _, f in funcs):
        return
    for var, func in funcs:
        if not func.attrs.get("global_symbol", var.name_hint):
            continue
        try:
            made[var.name_hint](*_arguments(func))
        except Exception as error:
            if getattr(error, "diagnostic", None) is None:
                raise


def _module_of(func: Any) -> IRModule:
    return IRModule({GlobalVar("main"): func})


def _check(text: str, kinds: list[str]) -> str:
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # answers go to the output
        warnings.simplefilter("ignore")
        ended = check_text(text)
        kinds.append(ended)
        if ended != "read":
            return ""
        program = from_source(text)
        module = program if isinstance(program, IRModule) else _module_of(program)
        if verify(module):
            return ""
        try:
            _run(module)
            kinds.append("ran")
        except CompileError as error:
            kinds.append(f"compile {error.diagnostic.code}")
    return ""


def answer(seed: int, engines: list[str]) -> dict[str, Any]:
    """Change and check the text of a seed."""
    started = time.process_time()
    text = text_of_seed(seed)
    spent = {"generate": time.process_time() - started}
    kinds: list[str] = []
    found = complaints(["text"], lambda _: _check(text, kinds), spent)
    return answer_of(seed, ["text"], found, kinds, spent)


def main() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    serve(answer)


if __name__ == "__main__":
    main()
