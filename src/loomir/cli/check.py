"""``loomir check``: list every mistake in a file without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from loomir.build import as_module
from loomir.cli.files.source import (
    is_model,
    is_tc,
    load_model,
    read_tc,
    read_text,
    split_target,
)
from loomir.cli.report import Report, fail
from loomir.relax.check.verify import verify, warnings_of
from loomir.script.parser.whole_file import read_file
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError
from loomir.target import Target
from loomir.validate import validate_schedule

__all__ = ["check"]


def check(
    target: Annotated[str, typer.Argument(metavar="FILE.py", help="The file to check.")],
    schedule: Annotated[
        bool,
        typer.Option("--schedule", help="Compare default schedules with the program as written."),
    ] = False,
    machines: Annotated[
        list[str] | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option(
            "--target", metavar="NAME", help="With --schedule: for which machine; any number."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List all mistakes in the programs of a file; the file is read, not run.

    With --schedule, each program and its default schedule are interpreted without rounding, on
    small arguments, and must give the same: for any machine, on this one.

    Of a model, FILE.onnx, all that cannot be imported is listed, by node.
    """
    report = Report(json)
    try:
        path, _ = split_target(target)
        if is_tc(path):
            lowered = read_tc(path)
            warnings = lowered.warnings
            programs = {unit.name: unit.func for unit in lowered.units}
        elif is_model(path):
            programs, warnings = {"model": load_model(path)}, ()
        else:
            programs, warnings = read_file(read_text(path), name=str(path))
        found = [d for program in programs.values() for d in verify(program)]
        if found:
            raise CompileError.of(found)
        later = [d for program in programs.values() for d in warnings_of(program)]
        for text in dict.fromkeys(map(str, (*warnings, *later))):
            report.line(f"{text}\n", "yellow")
        if schedule:
            _check_schedules(programs, machines or ["native"], report)
    except LoomirError as error:
        fail(error, json)
    report.fact("ok", True)
    report.fact("programs", list(programs))
    report.line(f"{path}: {len(programs)} program{'s' * (len(programs) != 1)}, no mistakes")
    report.finish()


def _check_schedules(programs: Mapping[str, Any], machines: list[str], report: Report) -> None:
    """Compare the schedules of all programs for machines. Errors: SCH0011, TGT0001."""
    mistakes: list[Diagnostic] = []
    for machine in [Target(name) for name in machines]:
        for name, program in programs.items():
            found = validate_schedule(as_module(program), machine)
            for one in found.functions:
                report.fact(f"{machine.name} {name} {one.name}", str(one))
            report.line(str(found), "bold red" if found.wrong else "" if found.ok else "yellow")
            mistakes += found.mistakes()
    if mistakes:
        raise CompileError.of(mistakes)
