"""Draw random inputs for a function of a module, by its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from loomir.cli.compare import default_sizes, inputs_for
from loomir.cli.files.file_options import ask_for_inputs, constants
from loomir.cli.graphs import graph_inputs, graph_sizes
from loomir.ir.module import IRModule
from loomir.relax.expr import Function
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of

__all__ = ["make_inputs"]


def make_inputs(
    mod: IRModule,
    name: str,
    settings: Mapping[str, int | float],
    seed: int,
    file: ModuleType | None = None,
) -> list[object]:
    """Return arguments; ``settings`` are sizes and scalars by name.

    ``file`` may define SIZES and inputs(rng, **sizes). Errors: CLI0003, CLI0008, CLI0011,
    CLI0012.
    """
    func = mod[name]
    given = {**constants(file, "SIZES"), **settings}
    if isinstance(func, Function):
        names = {p.name_hint for p in func.params}
        sizes = graph_sizes(func, given)
        made = ask_for_inputs(file, seed, sizes)
        made.update({k: v for k, v in settings.items() if k in names})
        return graph_inputs(func, sizes, made, seed)
    assert isinstance(func, PrimFunc)
    signature = signature_of(func, mod)
    sizes = default_sizes(signature, given)
    made = ask_for_inputs(file, seed, sizes)
    scalars = {p.name for p in signature.parameters if p.buffer is None}
    made.update({k: v for k, v in settings.items() if k in scalars})
    return list(inputs_for(signature, sizes, made, seed))
