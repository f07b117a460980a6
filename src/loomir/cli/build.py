"""``loomir build``: compile a program into a file that outlives the process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import loomir
from loomir.cli.files.source import load_file, pick_one, programs_of, split_target
from loomir.cli.names import check_names
from loomir.cli.report import Report, fail
from loomir.cli.settings import OptimizeGraph, Sizes, read_settings
from loomir.cli.work.progress import Progress
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError

__all__ = ["build"]

_SUFFIXES = (".loom", ".o", ".so")


def build(
    target: Annotated[str, typer.Argument(metavar="FILE.py[:NAME]", help="What to compile.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="OUT.loom|OUT.o|OUT.so", help="What to write."),
    ],
    machine: Annotated[
        str, typer.Option("--target", metavar="CPU", help="The machine to compile for.")
    ] = "native",
    size: Sizes = None,
    check_bounds: Annotated[
        bool, typer.Option("--check-bounds", help="Raise an error for an index out of bounds.")
    ] = False,
    optimize_graph: OptimizeGraph = True,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compile a program of a file, and write it for loomir.load, or as a library for C.

    OUT.loom is an executable for loomir.load(path). OUT.o and OUT.so are libraries for programs in
    C; their header is written next to them. FILE.py is run by Python.
    """
    report = Report(json)
    try:
        if output.suffix not in _SUFFIXES:
            raise CompileError(
                Diagnostic(
                    "CLI0009",
                    f"what {output.name!r} should be is not clear from its name",
                    help="end it in .loom for loomir.load, or in .o or .so for programs in C",
                )
            )
        path, name = split_target(target)
        settings = read_settings(size)
        file = load_file(path, settings)
        check_names(settings, file, {})
        program = pick_one(programs_of(file), name, path)
        with Progress(report) as progress:
            progress.step(str(output))
            exe = loomir.compile(
                program,
                target=machine,
                check_bounds=check_bounds,
                optimize_graph=optimize_graph,
            )
            written = [output]
            if output.suffix == ".loom":
                exe.save(output)
            else:
                exe.export_library(output)
                written.append(output.with_suffix(".h"))
    except LoomirError as error:
        fail(error, json)
    for out in written:
        report.line(f"{out}: {out.stat().st_size:,} bytes")
    report.fact("ok", True)
    report.fact("functions", list(exe.functions))
    report.fact("files", {str(out): out.stat().st_size for out in written})
    report.finish()
