"""Programs of the cache: what a process needs to call one that another process compiled.

Of the program itself nothing is kept but what is known of its functions, for errors. What else an
executable can do, such as to show its code, is done by compiling again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from loomir.codegen.llvm.generated_module import FunctionInfo, GeneratedModule
from loomir.codegen.llvm.graphs import graph_functions
from loomir.codegen.llvm.jit.engine import TargetMachine
from loomir.codegen.llvm.native_module import NativeModule
from loomir.deploy.span_table import SpanTable, read_spans
from loomir.deploy.tables import Tables, fault_row, graph_rows, read_fault, read_graph_lazily
from loomir.ir.node import Node
from loomir.runtime.executable import Executable
from loomir.runtime.storage.program_cache import CachedProgram, ProgramCache
from loomir.support.fork_safe import import_module

__all__ = ["CachedExecutable", "cache_program", "find_cached"]

_LANGUAGES: Final = ("loomir.relax.expr", "loomir.relax.struct_info", "loomir.tir.expr")


def cache_program(key: str, tables: Tables, code: bytes) -> bool:
    """Cache a program of graphs and their kernels; tell whether that worked."""
    generated = tables.generated
    graph = generated.graph
    if graph is None or generated.externs or tables.kernels or tables.copy_arguments:
        return False
    places = SpanTable()
    roots: list[Node] = []

    def root(node: Node) -> int:
        roots.append(node)
        return len(roots) - 1

    rows = graph_rows(graph, root, places)
    faults = [fault_row(fault, places) for fault in generated.faults]
    numbers, nodes = import_module("loomir.ir.serialize").to_rows(roots, places.number)
    known: dict[str, object] = {
        "faults": faults,
        "needs_pool": generated.needs_pool,
        "needs_callback": generated.needs_callback,
        "graph": rows,
        "roots": numbers,
        "nodes": nodes,
        **places.data(),
    }
    return ProgramCache().put(key, known, code, graph.data)


class CachedExecutable(NamedTuple):
    """An executable from the cache, and a function that loads its code now."""

    executable: Executable
    prepare: Callable[[], None]


def find_cached(key: str, compile_again: Callable[[], Executable]) -> CachedExecutable | None:
    """Return the cached executable of a key, if there is one.

    ``compile_again`` makes an executable for operations that a cached one lacks.
    """
    found = ProgramCache().get(key)
    if found is None:
        return None
    generated = _rebuild_generated(found)
    native = NativeModule(generated, TargetMachine.host(), compiled=found.code)
    executable = Executable(
        graph_functions(generated, native, _explain),
        script=lambda: compile_again().script(),
        llvm_ir=lambda: compile_again().llvm_ir(),
        assembly=lambda: compile_again().assembly(),
        save=lambda path: compile_again().save(path),
        reduce=lambda: compile_again().__reduce__(),
        export=lambda path: compile_again().export_library(path),
        profile=lambda name, args: compile_again().profile(*args, name=name),
    )
    return CachedExecutable(executable, native.prepare)


def _rebuild_generated(found: CachedProgram) -> GeneratedModule:
    known: Any = found.known
    spans = read_spans(known)

    def nodes() -> Sequence[Node]:
        for language in _LANGUAGES:
            import_module(language)
        made: Any = import_module("loomir.ir.serialize").from_rows(known["nodes"], spans)
        return [made[number] for number in known["roots"]]

    graph = read_graph_lazily(known["graph"], nodes, spans, found.arrays)
    return GeneratedModule(
        "",
        tuple([read_fault(row, spans) for row in known["faults"]]),
        MappingProxyType({}),
        bool(known["needs_pool"]),
        bool(known["needs_callback"]),
        MappingProxyType({}),
        graph,
    )


def _explain(known: FunctionInfo, args: tuple[object, ...]) -> None:
    import_module("loomir.deploy.callables").explain_graph(known, args)
