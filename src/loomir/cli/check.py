"""``loomir check``: list every mistake in files without running them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from loomir.check.relax.verify import verify, warnings_of
from loomir.cli.files.source import is_model, is_tc, load_model, read_tc, read_text
from loomir.cli.files.walk import gather, with_count_of_files
from loomir.cli.report import Report, fail
from loomir.cli.work.progress import Progress
from loomir.driver import as_module
from loomir.script.parser.whole_file import read_file
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError
from loomir.target import Target
from loomir.validate import validate_schedule

__all__ = ["check"]


def check(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE.py|FOLDER...", help="What to check; models, FILE.onnx, where named."
        ),
    ],
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
    """List all mistakes in the programs of files, which are parsed, not run.

    In a folder, all Python files with TVMScript and all .tc files are checked. With --schedule,
    each program and its default schedule, for any machine, are interpreted without rounding on
    small arguments, and must have the same results.

    For a model, FILE.onnx, all nodes that cannot be imported are listed.
    """
    report = Report(json)
    programs: dict[Path, list[str]] = {}
    mistakes: dict[Path, tuple[Diagnostic, ...]] = {}
    progress = Progress(report)
    try:
        files = gather(targets)
        chosen = [Target(name) for name in machines or ["native"]] if schedule else []
        with progress:
            for path in files:
                progress.step(f"checking {path}")
                try:
                    programs[path] = _check_file(path, chosen, report)
                except CompileError as error:
                    mistakes[path] = error.diagnostics
    except LoomirError as error:
        fail(error, json)
    several = len(files) > 1
    for path, names in programs.items():
        report.line(f"{path}: {len(names)} program{'s' * (len(names) != 1)}, no mistakes")
    if mistakes:
        summary = _summary(len(files), mistakes) if several else ""
        fail(CompileError.of([d for found in mistakes.values() for d in found]), json, summary)
    report.fact("ok", True)
    report.fact("programs", [name for names in programs.values() for name in names])
    if several:
        report.fact("files", {str(path): names for path, names in programs.items()})
        total = sum(map(len, programs.values()))
        report.line(f"{with_count_of_files(len(files))}, {total} programs, no mistakes", "bold")
    report.finish()


def _summary(count: int, mistakes: Mapping[Path, Sequence[Diagnostic]]) -> str:
    total = sum(map(len, mistakes.values()))
    return (
        f"{total} mistake{'s' * (total != 1)} in {len(mistakes)} of {with_count_of_files(count)}: "
        + ", ".join(map(str, mistakes))
    )


def _check_file(path: Path, machines: list[Target], report: Report) -> list[str]:
    """Check the programs of a file; return their names. Errors: all their mistakes."""
    if is_tc(path):
        lowered = read_tc(path)
        warnings = lowered.warnings
        programs: dict[str, Any] = {unit.name: unit.func for unit in lowered.units}
    elif is_model(path):
        programs, warnings = {"model": load_model(path)}, ()
    else:
        found, warnings = read_file(read_text(path), name=str(path))
        programs = dict(found)
    mistakes = [d for program in programs.values() for d in verify(program)]
    if mistakes:
        raise CompileError.of(mistakes)
    later = [d for program in programs.values() for d in warnings_of(program)]
    for text in dict.fromkeys(map(str, (*warnings, *later))):
        report.line(f"{text}\n", "yellow")
    _check_schedules(programs, machines, report)
    return list(programs)


def _check_schedules(programs: Mapping[str, Any], machines: list[Target], report: Report) -> None:
    """Compare the schedules of all programs for each machine. Errors: SCH0011."""
    mistakes: list[Diagnostic] = []
    for machine in machines:
        for name, program in programs.items():
            found = validate_schedule(as_module(program), machine)
            for one in found.functions:
                report.fact(f"{machine.name} {name} {one.name}", str(one))
            report.line(str(found), "bold red" if found.wrong else "" if found.ok else "yellow")
            mistakes += found.mistakes()
    if mistakes:
        raise CompileError.of(mistakes)
