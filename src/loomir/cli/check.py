"""``loomir check``: list every mistake in a file without running it."""

from __future__ import annotations

from typing import Annotated

import typer

from loomir.cli.report import Report, fail
from loomir.cli.source import is_tc, read_tc, read_text, split_target
from loomir.relax.verify import verify, warnings_of
from loomir.script.parser.whole_file import read_file
from loomir.support.diagnostics import CompileError, LoomirError

__all__ = ["check"]


def check(
    target: Annotated[str, typer.Argument(metavar="FILE.py", help="The file to check.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List all mistakes in the programs of a file; the file is read, not run."""
    report = Report(json)
    try:
        path, _ = split_target(target)
        if is_tc(path):
            lowered = read_tc(path)
            warnings = lowered.warnings
            programs = {unit.name: unit.func for unit in lowered.units}
        else:
            programs, warnings = read_file(read_text(path), name=str(path))
        found = [d for program in programs.values() for d in verify(program)]
        if found:
            raise CompileError.of(found)
        later = [d for program in programs.values() for d in warnings_of(program)]
        for text in dict.fromkeys(map(str, (*warnings, *later))):
            report.line(f"{text}\n", "yellow")
    except LoomirError as error:
        fail(error, json)
    report.fact("ok", True)
    report.fact("programs", list(programs))
    report.line(f"{path}: {len(programs)} program{'s' * (len(programs) != 1)}, no mistakes")
    report.finish()
