"""``loomir cost``: estimate the work of the programs of a file."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Final

import typer

from loomir.cli.files.sizes import require_whole
from loomir.cli.files.source import (
    Program,
    is_model,
    is_tc,
    load_model,
    pick,
    read_tc,
    read_text,
    split_target,
)
from loomir.cli.graphs import graph_names, graphs_of
from loomir.cli.names import check_names, functions_of
from loomir.cli.report import Report, fail
from loomir.cli.settings import Sizes, read_settings
from loomir.cli.work.graph_cost import GraphCost, estimate_graph
from loomir.driver import as_module
from loomir.ir.visit import pre_order
from loomir.relax.expr import Function
from loomir.script.parser.whole_file import read_file
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError
from loomir.tir.analysis.cost import Cost, estimate_cost
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc

__all__ = ["cost"]

_WORDS: Final = {
    "flops": "float operations",
    "math_calls": "math functions",
    "int_ops": "integer operations",
    "bytes_read": "bytes read",
    "bytes_written": "bytes written",
    "bytes_touched": "bytes touched",
    "bytes_allocated": "bytes allocated",
}


def cost(
    target: Annotated[
        str, typer.Argument(metavar="FILE.py[:NAME]", help="What to estimate; a model too.")
    ],
    size: Sizes = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Estimate operations and memory traffic of a file's programs, which are parsed, not run.

    The cost of a graph is that of all calls of its kernels after fusion.
    """
    report = Report(json)
    try:
        path, name = split_target(target)
        settings = read_settings(size)
        programs, constants = _read(path, settings)
        chosen = pick(programs, name, path)
        check_names(settings, constants, chosen)
        sizes = {k: require_whole(k, v) for k, v in settings.items()}
        for key, program in chosen.items():
            _estimate(report, key, program, sizes)
    except LoomirError as error:
        fail(error, json)
    report.finish()


def _read(path: Path, settings: Mapping[str, int | float]) -> tuple[dict[str, Program], ModuleType]:
    """Parse the programs of a file, and read the constants that may be set."""
    constants = ModuleType(path.stem)
    if is_tc(path):
        return {unit.name: unit.func for unit in read_tc(path).units}, constants
    if is_model(path):
        return {"model": load_model(path)}, constants
    text = read_text(path)
    found = read_file(text, name=str(path), constants=settings)
    for part in ast.parse(text).body:
        if isinstance(part, ast.Assign):
            named = (each for target in part.targets for each in ast.walk(target))
            vars(constants).update({each.id: 0 for each in named if isinstance(each, ast.Name)})
    return dict(found.programs), constants


def _estimate(report: Report, key: str, program: Program, sizes: Mapping[str, int]) -> None:
    """Print the cost of each function of a program; loops in a module with graphs are its parts."""
    graphs = graphs_of(program)
    for name, graph in graphs.items():
        label = key if isinstance(program, Function) else f"{key}.{name}"
        known = {k: v for k, v in sizes.items() if k in graph_names(graph)}
        _check_all_given(graph, known)
        found = estimate_graph(as_module(program), name, _select_sizes(graph, known))
        _show(report, label, found.total, bool(found.unknown))
        _show_kernels(report, label, found)
    if graphs:
        return
    for func in functions_of(program):
        label = key if isinstance(program, PrimFunc) else f"{key}.{func.name}"
        names = _names(func)
        _show(report, label, estimate_cost(func, {k: v for k, v in sizes.items() if k in names}))


def _names(func: PrimFunc) -> set[str]:
    """List the sizes and integer parameters of a function."""
    parts = (dim for b in func.buffer_map.values() for dim in (*b.shape, *b.strides))
    names = {v.name_hint for part in parts for v in pre_order(part) if isinstance(v, Var)}
    return names | {p.name_hint for p in func.params if p not in func.buffer_map}


def _select_sizes(graph: Function, sizes: Mapping[str, int]) -> dict[str, int]:
    shapes = {
        part.name_hint
        for param in graph.params
        for part in pre_order(param.struct_info)
        if isinstance(part, Var)
    }
    return {k: v for k, v in sizes.items() if k in shapes}


def _check_all_given(graph: Function, sizes: Mapping[str, int]) -> None:
    needed = sorted(_select_sizes(graph, dict.fromkeys(graph_names(graph), 0)))
    missing = [name for name in needed if name not in sizes]
    if missing:
        raise CompileError(
            Diagnostic(
                "TIR0601",
                f"the size {missing[0]!r} of {graph.name!r} is not given",
                graph.span,
                help=f"give a number for each of {', '.join(needed)}: "
                + " ".join(f"--size {name}=64" for name in needed),
            )
        )


def _show(report: Report, label: str, found: Cost, unknown: bool = False) -> None:
    report.fact(label, dataclasses.asdict(found))
    how = "in part" if unknown else "exactly" if found.exact else "at most"
    report.line(f"{label}: {how}", style="bold")
    for field, words in _WORDS.items():
        value: int = getattr(found, field)
        if value:
            report.line(f"  {value:>20,} {words}")
    if found.flops + found.math_calls:
        report.line(f"  {found.intensity:>20,.2f} float operations per byte touched")


def _show_kernels(report: Report, label: str, found: GraphCost) -> None:
    """Print the kernels of a graph, the one with the most operations first."""
    report.fact(
        f"{label} kernels",
        [{"name": k.name, "calls": k.calls, **dataclasses.asdict(k.each)} for k in found.kernels],
    )
    for kernel in sorted(found.kernels, key=lambda kernel: kernel.work, reverse=True):
        many = "" if kernel.calls == 1 else f", {kernel.calls} calls"
        touched = kernel.calls * kernel.each.bytes_touched
        report.line(f"  {kernel.name}{many}: {kernel.work:,} operations, {touched:,} bytes")
    for name in found.unknown:
        report.line(f"  {name}: not counted, since the data decide on its sizes", "yellow")
