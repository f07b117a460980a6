"""Wrap compiled graph functions for Python, and validate functions that are passed to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from loomir.codegen.llvm.generated_module import FunctionInfo, GeneratedModule, Graph
from loomir.codegen.llvm.native_module import NativeModule
from loomir.codegen.llvm.support.objects import fast_call_address, object_symbols
from loomir.runtime.graph.fast_call import connect_fast_call
from loomir.runtime.graph.function import GraphFunction, GraphProgram
from loomir.runtime.graph.objects import connect
from loomir.support.fork_safe import import_module

if TYPE_CHECKING:
    from loomir.relax.struct_info import FuncStructInfo

__all__ = ["graph_functions"]


def graph_functions(
    generated: GeneratedModule,
    native: NativeModule,
    explain: Callable[[FunctionInfo, tuple[object, ...]], None],
    kind: type[GraphFunction] = GraphFunction,
) -> dict[str, GraphFunction]:
    """Return the public graph functions of compiled code, by name.

    ``explain`` raises an error that lists everything wrong with the arguments of a function.
    """
    graph = generated.graph
    if graph is None:
        return {}
    connect(object_symbols())
    connect_fast_call(fast_call_address)
    program = GraphProgram(
        native,
        generated.faults,
        graph.values,
        graph.signatures,
        lambda number, sizes: _describe(graph, number, sizes),
        lambda check, given, sizes: _compare(graph, check, given, sizes),
        {site: name for name in graph.numbers for site in graph.sites[graph.numbers[name]]},
        lambda name, args: explain(graph.infos[graph.numbers[name]], args),
        never_calls_python=not graph.packed,
    )
    return {
        name: program.function(number, graph.numbers[name], kind)
        for number, name in enumerate(graph.entries)
    }


def _describe(graph: Graph, number: int, sizes: Sequence[Any]) -> FuncStructInfo:
    known = graph.infos[number]
    # Imported on demand: most programs never ask for it.
    known_functions: Any = import_module("loomir.codegen.llvm.known_functions")
    return known_functions.concrete(known.info, [var for var, _ in known.captured], sizes)


def _compare(graph: Graph, check: int, given: object, sizes: Sequence[Any]) -> None:
    """Raise if a function value does not have the signature that is required. Errors: RUN0407."""
    known_functions: Any = import_module("loomir.codegen.llvm.known_functions")
    known_functions.compare(graph.checks[check], given, sizes)
