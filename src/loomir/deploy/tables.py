"""Metadata of compiled code as plain data: signatures, faults, graphs, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, overload

from loomir.codegen.llvm.generated_module import FunctionCheck, FunctionInfo, GeneratedModule, Graph
from loomir.deploy.span_table import SpanTable, read_spans
from loomir.ir.module import IRModule
from loomir.ir.node import Node
from loomir.ir.serialize import from_rows, to_rows
from loomir.runtime.fault import Fault, FaultKind, Value
from loomir.runtime.graph.function import Signature
from loomir.runtime.graph.values import ExpectedDTypes
from loomir.runtime.parameter import Parameter
from loomir.support.array import Array
from loomir.support.dtype import DataType
from loomir.support.fork_safe import lazy_property
from loomir.support.span import Span

if TYPE_CHECKING:
    from loomir.relax.struct_info import FuncStructInfo
    from loomir.tir.expr import Var as ShapeVar

__all__ = [
    "KernelSignature",
    "Tables",
    "fault_row",
    "graph_rows",
    "read_fault",
    "read_graph",
    "read_graph_lazily",
    "read_tables",
    "write_tables",
]

_Item = TypeVar("_Item")


class KernelSignature(NamedTuple):
    """The parameters and the result of a public loop-level function."""

    parameters: tuple[Parameter, ...]
    returns: DataType | None


@dataclass(frozen=True, slots=True)
class Tables:
    """The metadata of compiled code.

    ``loops`` is the module of loop-level functions, used to explain refused calls.
    ``copy_arguments``: arrays that are not row-major are copied. ``strided`` lists the parameters
    whose arrays are copied in any case, by graph function.
    """

    generated: GeneratedModule
    kernels: Mapping[str, KernelSignature]
    loops: IRModule
    allow_alias: bool
    copy_arguments: bool = False
    strided: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


# -- writing -----------------------------------------------------------------------------------
def write_tables(tables: Tables) -> tuple[dict[str, object], bytes]:
    """Return the tables as plain data, and the constants that they list.

    Errors: TIR0003 for attributes that are not plain data.
    """
    generated = tables.generated
    places = SpanTable()
    roots: list[Node] = []

    def root(node: Node) -> int:
        roots.append(node)
        return len(roots) - 1

    loops = root(tables.loops)
    data: list[bytes] = []
    graph = None
    if generated.graph is not None:
        graph = graph_rows(generated.graph, root, places)
        graph["data"] = _data_rows(generated.graph, data)
    faults = [fault_row(f, places) for f in generated.faults]
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
        "strided": {name: list(parameters) for name, parameters in tables.strided.items()},
        "loops": loops,
        "graph": graph,
        "roots": numbers,
        "nodes": rows,
        **places.data(),
    }
    return written, b"".join(data)


def fault_row(fault: Fault, places: SpanTable) -> list[object]:
    """Return a fault as plain data."""
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


def _data_rows(graph: Graph, data: list[bytes]) -> list[object]:
    """List the constants of a graph; their bytes are added to ``data``."""
    listed: list[object] = []
    for symbol, content in graph.data.items():
        data.append(content.to_bytes())
        listed.append([symbol, str(content.dtype), list(content.shape), len(data[-1])])
    return listed


def graph_rows(graph: Graph, root: Callable[[Node], int], places: SpanTable) -> dict[str, object]:
    """Return a graph as plain data, without its constants; ``root`` numbers nodes."""
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
    return {
        "entries": list(graph.entries),
        "numbers": dict(graph.numbers),
        "sites": [[number, s.start, s.stop] for number, s in graph.sites.items()],
        "infos": infos,
        "checks": checks,
        "values": graph.values,
        "signatures": [
            [s.name, list(s.names), [_write_wanted(w) for w in s.wanted], list(s.sizes)]
            for s in graph.signatures
        ],
        "packed": list(graph.packed),
    }


def _write_wanted(wanted: ExpectedDTypes) -> object:
    if isinstance(wanted, tuple):
        return [_write_wanted(part) for part in wanted]
    return None if wanted is None else str(wanted)


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
    generated = GeneratedModule(
        llvm_ir,
        tuple([read_fault(row, spans) for row in data["faults"]]),
        MappingProxyType(dict(data["entries"])),
        bool(data["needs_pool"]),
        bool(data["needs_callback"]),
        MappingProxyType(dict(data["externs"])),
        None if graph is None else read_graph(graph, nodes, spans, _read_data(graph, constants)),
        shaped=bool(data.get("shaped", False)),
    )
    kernels = {name: _read_kernel(row, spans) for name, row in data["kernels"].items()}
    copies = bool(data.get("copy_arguments", False))
    strided = {name: tuple(names) for name, names in data.get("strided", {}).items()}
    return Tables(generated, kernels, loops, bool(data["allow_alias"]), copies, strided)


def _span(number: int | None, spans: Sequence[Span]) -> Span | None:
    return None if number is None else spans[number]


def read_fault(row: Any, spans: Sequence[Span]) -> Fault:
    """Return the fault of ``fault_row``."""
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


def _read_data(row: Any, constants: bytes) -> dict[str, Array]:
    data: dict[str, Array] = {}
    start = 0
    for symbol, dtype, shape, size in row["data"]:
        data[symbol] = Array.from_bytes(constants[start : start + size], dtype, shape)
        start += size
    return data


def read_graph(
    row: Any, nodes: Sequence[Node], spans: Sequence[Span], data: Mapping[str, Array]
) -> Graph:
    """Return the graph of ``graph_rows``, with its constants."""
    return _plain_graph(row, data, _read_infos(row, nodes, spans), _read_checks(row, nodes, spans))


def read_graph_lazily(
    row: Any, nodes: Callable[[], Sequence[Node]], spans: Sequence[Span], data: Mapping[str, Array]
) -> Graph:
    """Return the graph of ``graph_rows``, with nodes that are created on demand."""
    infos = _LazySequence(lambda: _read_infos(row, nodes(), spans))
    checks = _LazySequence(lambda: _read_checks(row, nodes(), spans))
    return _plain_graph(row, data, infos, checks)


class _LazySequence(Sequence[_Item]):
    """A sequence that is created on first use."""

    def __init__(self, make: Callable[[], Sequence[_Item]]) -> None:
        self._make = make

    @lazy_property
    def _items(self) -> Sequence[_Item]:
        return self._make()

    @overload
    def __getitem__(self, index: int) -> _Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Item]: ...
    def __getitem__(self, index: int | slice) -> _Item | Sequence[_Item]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)


def _read_infos(row: Any, nodes: Sequence[Node], spans: Sequence[Span]) -> tuple[FunctionInfo, ...]:
    return tuple(
        [
            FunctionInfo(
                cast("FuncStructInfo", nodes[info]),
                tuple([(cast("ShapeVar", nodes[var]), at) for var, at in captured]),
                tuple(names),
                name,
                tuple([_span(span, spans) for span in listed]),
            )
            for info, captured, names, name, listed in row["infos"]
        ]
    )


def _read_checks(
    row: Any, nodes: Sequence[Node], spans: Sequence[Span]
) -> tuple[FunctionCheck, ...]:
    return tuple(
        [
            FunctionCheck(
                cast("FuncStructInfo", nodes[info]),
                tuple([cast("ShapeVar", nodes[v]) for v in variables]),
                where,
                _span(span, spans),
                claim,
            )
            for info, variables, where, span, claim in row["checks"]
        ]
    )


def _plain_graph(
    row: Any,
    data: Mapping[str, Array],
    infos: Sequence[FunctionInfo],
    checks: Sequence[FunctionCheck],
) -> Graph:
    return Graph(
        tuple(row["entries"]),
        dict(row["numbers"]),
        {number: range(start, stop) for number, start, stop in row["sites"]},
        infos,
        checks,
        data,
        int(row["values"]),
        tuple([_read_signature(*known) for known in row["signatures"]]),
        tuple(row["packed"]),
    )


def _read_signature(name: str, names: Any, wanted: Any, sizes: Any) -> Signature:
    return Signature(name, tuple(names), tuple([_read_wanted(w) for w in wanted]), tuple(sizes))


def _read_wanted(wanted: Any) -> ExpectedDTypes:
    if isinstance(wanted, list):
        return tuple([_read_wanted(part) for part in cast("list[Any]", wanted)])
    return None if wanted is None else DataType(wanted)
