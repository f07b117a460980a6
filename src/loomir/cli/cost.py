"""``loomir cost``: what the programs of a file do, by estimate."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Final

import typer

from loomir.cli.files.sizes import whole
from loomir.cli.files.source import is_tc, pick, read_tc, read_text, split_target
from loomir.cli.report import Report, fail
from loomir.cli.settings import read_settings
from loomir.ir.module import IRModule
from loomir.script import parse_file
from loomir.support.diagnostics import LoomirError
from loomir.tir.analysis.cost import Cost, estimate_cost
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
    target: Annotated[str, typer.Argument(metavar="FILE.py[:NAME]", help="What to estimate.")],
    size: Annotated[
        list[str] | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option("--size", metavar="n=1024", help="A symbolic size; may be repeated."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Estimate operations and memory traffic of a file's programs; the file is read, not run."""
    report = Report(json)
    try:
        path, name = split_target(target)
        found = (
            {unit.name: unit.func for unit in read_tc(path).units}
            if is_tc(path)
            else parse_file(read_text(path), name=str(path))
        )
        programs = {k: p for k, p in found.items() if isinstance(p, (PrimFunc, IRModule))}
        sizes = {k: whole(k, v) for k, v in read_settings(size or [], "--size").items()}
        for key, program in pick(programs, name, path).items():
            for label, func in _functions(key, program):
                _show(report, label, estimate_cost(func, sizes))
    except LoomirError as error:
        fail(error, json)
    report.finish()


def _functions(key: str, program: PrimFunc | IRModule) -> list[tuple[str, PrimFunc]]:
    if isinstance(program, PrimFunc):
        return [(key, program)]
    named = ((var.name_hint, func) for var, func in program.functions.items())
    return [(f"{key}.{name}", func) for name, func in named if isinstance(func, PrimFunc)]


def _show(report: Report, label: str, found: Cost) -> None:
    report.fact(label, dataclasses.asdict(found))
    report.line(f"{label}: {'exactly' if found.exact else 'at most'}", style="bold")
    for field, words in _WORDS.items():
        value: int = getattr(found, field)
        if value:
            report.line(f"  {value:>20,} {words}")
    if found.flops + found.math_calls:
        report.line(f"  {found.intensity:>20,.2f} float operations per byte touched")
