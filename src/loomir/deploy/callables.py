"""Build the callable functions of an executable from compiled code and its metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from loomir.codegen.llvm.generated_module import FunctionInfo
from loomir.codegen.llvm.graphs import graph_functions
from loomir.codegen.llvm.native_module import NativeModule
from loomir.deploy.tables import Tables
from loomir.relax import expr as relax
from loomir.runtime.copying import CopyingFunction, CopyingGraphFunction
from loomir.runtime.function import ArgumentCompleter, Function
from loomir.runtime.graph.function import GraphFunction
from loomir.support.fork_safe import import_module
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of

if TYPE_CHECKING:
    from loomir.interp.tir.missing_outputs import OutputAllocator

__all__ = ["callables", "explain_graph"]


def callables(tables: Tables, native: NativeModule) -> dict[str, Function | GraphFunction]:
    """Return the public functions, by name."""
    copies = tables.copy_arguments
    graph_kind = CopyingGraphFunction if copies or tables.strided else GraphFunction
    functions: dict[str, Function | GraphFunction] = dict(
        graph_functions(tables.generated, native, explain_graph, graph_kind)
    )
    for name, function in functions.items():
        if isinstance(function, CopyingGraphFunction):
            function.copied = None if copies else tables.strided.get(name, ())
            function.written = function.parameters if _may_write(tables, name) else ()
    for name, kernel in tables.kernels.items():
        made = (CopyingFunction if copies else Function)(
            name,
            kernel.parameters,
            _address(native, name),
            tables.generated.faults,
            _explain(tables, name),
            keep_alive=native,
            returns=kernel.returns,
            complete=_complete(tables, name),
        )
        if isinstance(made, CopyingFunction):
            made.copied = _list_without_strides(tables, name)
        functions[name] = made
    return functions


def _may_write(tables: Tables, name: str) -> bool:
    """Whether a graph function may write its arguments: those that are pure do not."""
    graph = tables.generated.graph
    assert graph is not None
    return not graph.infos[graph.numbers[name]].info.purity


def _list_without_strides(tables: Tables, name: str) -> frozenset[str]:
    """List the parameters whose buffers declare no strides."""
    func = tables.loops[name]
    assert isinstance(func, PrimFunc)
    parameters = signature_of(func, tables.loops).parameters
    return frozenset(p.name for p in parameters if p.buffer is not None and not p.buffer.strides)


def explain_graph(known: FunctionInfo, args: tuple[object, ...]) -> None:
    """Raise an error with everything wrong with a graph's arguments, found by the interpreter."""
    spans = known.spans or (None,) * len(known.names)
    infos = known.info.params or ()
    params = [relax.Var(n, i, span=s) for n, i, s in zip(known.names, infos, spans, strict=True)]
    attrs = {"global_symbol": known.name}
    # Imported only for refused arguments.
    interp: Any = import_module("loomir.interp.program")
    interp.interpret(relax.Function(tuple(params), relax.Tuple(()), attrs=attrs), *args)


def _address(native: NativeModule, name: str) -> Callable[[], int]:
    return lambda: native.address(name)


def _explain(tables: Tables, name: str) -> Callable[[tuple[object, ...]], None]:
    def explain_call(args: tuple[object, ...]) -> None:
        for var, func in tables.loops.functions.items():
            if var.name_hint == name and isinstance(func, PrimFunc):
                arguments: Any = import_module("loomir.interp.tir.arguments")
                arguments.explain(func, args, tables.allow_alias, tables.loops)

    return explain_call


def _complete(tables: Tables, name: str) -> ArgumentCompleter:
    @cache
    def allocator() -> OutputAllocator:
        outputs: Any = import_module("loomir.interp.tir.missing_outputs")
        func = tables.loops[name]
        assert isinstance(func, PrimFunc)
        return outputs.OutputAllocator(func, tables.loops)

    def complete(
        args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[tuple[object, ...], object] | str:
        completed = allocator().complete(args, kwargs)
        return completed if isinstance(completed, str) else (completed.args, completed.result)

    return complete
