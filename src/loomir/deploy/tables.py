"""Metadata of compiled code as plain data: signatures, faults, graphs, constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from loomir.codegen.llvm.module import Generated
from loomir.codegen.llvm.relax.program import Graph
from loomir.codegen.llvm.relax.unit import FunctionCheck, FunctionInfo
from loomir.deploy.span_table import SpanTable, read_spans
from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.serialize import from_rows, to_rows
from loomir.relax.struct_info import FuncStructInfo
from loomir.runtime.fault import Fault, FaultKind, Value
from loomir.runtime.parameter import Parameter
from loomir.support.array import Array
from loomir.support.dtype import DataType
from loomir.support.span import Span
from loomir.tir.expr import Var as ShapeVar

__all__ = ["KernelSignature", "Tables", "read_tables", "write_tables"]


class KernelSignature(NamedTuple):
    """The parameters and the result of a public loop-level function."""

    parameters: tuple[Parameter, ...]
    returns: DataType | None


@dataclass(frozen=True, slots=True)
class Tables:
    """The metadata of compiled code.

    ``loops`` is the module of loop-level functions, by which refused calls are explained.
    ``copy_arguments``: arrays that are not row-major are copied.
    """

    generated: Generated
    kernels: Mapping[str, KernelSignature]
    loops: IRModule
    allow_alias: bool
    copy_arguments: bool = False


# -- writing -----------------------------------------------------------------------------------
def write_tables(tables: Tables) -> tuple[dict[str, object], bytes]:
    """Return the tables as plain data, and the constants that they list.

    Errors: TIR0003 for attributes that are no plain data.
    """
    generated = tables.generated
    places = SpanTable()
    roots: list[Node] = []

    def root(node: Node) -> int:
        roots.append(node)
        return len(roots) - 1

    loops = root(tables.loops)
    data: list[bytes] = []
    graph = None if generated.graph is None else _graph(generated.graph, root, places, data)
    faults = [_fault(f, places) for f in generated.faults]
    kernels = {name: _kernel(k, places) for name, k in tables.kernels.items()}
    numbers, rows = to_rows(roots, places.number)
    written: dict[str, object] = {
        "faults": faults,
        "entries": dict(generated.entries),
        "needs_pool": generated.needs_pool,
        "needs_callback": generated.needs_callback,
        "shaped": generated.shaped,
        "externs": dict(generated.externs),
        "kernels": kernels,
        "allow_alias": tables.allow_alias,
        "copy_arguments": tables.copy_arguments,
        "loops": loops,
        "graph": graph,
        "roots": numbers,
        "nodes": rows,
        **places.data(),
    }
    return written, b"".join(data)


def _fault(fault: Fault, places: SpanTable) -> list[object]:
    parts = [
        {"value": [p.index, p.unsigned, list(p.names)]} if isinstance(p, Value) else p
        for p in fault.message
    ]
    span = places.optional(fault.span)
    return [fault.kind.name, parts, span, fault.label, list(fault.notes), fault.help, fault.code]


def _kernel(kernel: KernelSignature, places: SpanTable) -> list[object]:
    listed = [
        [p.name, str(p.dtype), p.is_buffer, p.is_written, places.optional(p.span)]
        for p in kernel.parameters
    ]
    return [listed, None if kernel.returns is None else str(kernel.returns)]


def _graph(graph: Graph, root: Any, places: SpanTable, data: list[bytes]) -> dict[str, object]:
    infos = [
        [
            root(i.info),
            [[root(var), at] for var, at in i.captured],
            list(i.names),
            i.name,
            [places.optional(span) for span in i.spans],
        ]
        for i in graph.infos
    ]
    checks = [
        [root(c.info), [root(v) for v in c.variables], c.where, places.optional(c.span), c.claim]
        for c in graph.checks
    ]
    listed: list[object] = []
    for symbol, content in graph.data.items():
        data.append(content.to_bytes())
        listed.append([symbol, str(content.dtype), list(content.shape), len(data[-1])])
    return {
        "entries": list(graph.entries),
        "numbers": dict(graph.numbers),
        "sites": [[number, s.start, s.stop] for number, s in graph.sites.items()],
        "infos": infos,
        "checks": checks,
        "data": listed,
        "values": graph.values,
    }


# -- reading -----------------------------------------------------------------------------------
def read_tables(data: Mapping[str, Any], constants: bytes, llvm_ir: str) -> Tables:
    """Read what ``write_tables`` gave.

    Errors: KeyError, IndexError, TypeError, ValueError, AttributeError, CompileError for other
    data.
    """
    spans = read_spans(data)
    made = from_rows(data["nodes"], spans)
    roots: list[int] = data["roots"]
    nodes = [made[number] for number in roots]
    number: int = data["loops"]
    loops = nodes[number]
    if not isinstance(loops, IRModule):
        raise TypeError("the loops are no module")
    graph = data["graph"]
    generated = Generated(
        llvm_ir,
        tuple([_read_fault(row, spans) for row in data["faults"]]),
        MappingProxyType(dict(data["entries"])),
        bool(data["needs_pool"]),
        bool(data["needs_callback"]),
        MappingProxyType(dict(data["externs"])),
        None if graph is None else _read_graph(graph, nodes, spans, constants),
        shaped=bool(data.get("shaped", False)),
    )
    kernels = {name: _read_kernel(row, spans) for name, row in data["kernels"].items()}
    copies = bool(data.get("copy_arguments", False))
    return Tables(generated, kernels, loops, bool(data["allow_alias"]), copies)


def _span(number: int | None, spans: Sequence[Span]) -> Span | None:
    return None if number is None else spans[number]


def _read_fault(row: Any, spans: Sequence[Span]) -> Fault:
    kind, parts, span, label, notes, remedy, code = row
    message = tuple([_read_part(part) for part in parts])
    return Fault(FaultKind[kind], message, _span(span, spans), label, tuple(notes), remedy, code)


def _read_part(part: Any) -> str | int | Value:
    if not isinstance(part, dict):
        return cast("str | int", part)
    index, unsigned, names = cast("dict[str, Any]", part)["value"]
    return Value(index, unsigned, tuple(names))


def _read_kernel(row: Any, spans: Sequence[Span]) -> KernelSignature:
    listed, returns = row
    parameters = [
        Parameter(name, DataType(dtype), is_buffer, is_written, _span(span, spans))
        for name, dtype, is_buffer, is_written, span in listed
    ]
    return KernelSignature(tuple(parameters), None if returns is None else DataType(returns))


def _read_graph(row: Any, nodes: Sequence[Node], spans: Sequence[Span], constants: bytes) -> Graph:
    infos = [
        FunctionInfo(
            cast("FuncStructInfo", nodes[info]),
            tuple([(cast("ShapeVar", nodes[var]), at) for var, at in captured]),
            tuple(names),
            name,
            tuple([_span(span, spans) for span in listed]),
        )
        for info, captured, names, name, listed in row["infos"]
    ]
    checks = [
        FunctionCheck(
            cast("FuncStructInfo", nodes[info]),
            tuple([cast("ShapeVar", nodes[v]) for v in variables]),
            where,
            _span(span, spans),
            claim,
        )
        for info, variables, where, span, claim in row["checks"]
    ]
    data: dict[str, Array] = {}
    start = 0
    for symbol, dtype, shape, size in row["data"]:
        data[symbol] = Array.from_bytes(constants[start : start + size], dtype, shape)
        start += size
    return Graph(
        tuple(row["entries"]),
        dict(row["numbers"]),
        {number: range(start, stop) for number, start, stop in row["sites"]},
        tuple(infos),
        tuple(checks),
        data,
        int(row["values"]),
    )
