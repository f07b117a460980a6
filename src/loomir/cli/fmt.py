"""``loomir fmt``: format files of programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loomir.cli.files.layout import format_text
from loomir.cli.files.source import is_tc, read_text
from loomir.cli.files.walk import gather, with_count_of_files
from loomir.cli.report import Report, fail
from loomir.script import parse_file
from loomir.support.diagnostics import CompileError, Diagnostic, LoomirError

__all__ = ["fmt"]


def fmt(
    targets: Annotated[
        list[str], typer.Argument(metavar="FILE.py|FOLDER...", help="What to format.")
    ],
    write: Annotated[bool, typer.Option("--write", "-w", help="Change the files.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="List the files that would change; then status 1.")
    ] = False,
    canonical: Annotated[
        bool, typer.Option("--canonical", help="Print the programs in the printer's own form.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Format files of programs; they are parsed, never run.

    Comments, constants and names stay. Without --write or --check, one file is printed; of several
    files, those that would change are listed.

    With --canonical, only the programs are printed, in the printer's own form: with constants as
    numbers, and without comments.
    """
    report = Report(json)
    changed: list[Path] = []
    mistakes: list[Diagnostic] = []
    try:
        files = gather(targets)
        for path in files:
            try:
                before = read_text(path)
                after = _canonical(before, path) if canonical else format_text(before, path)
            except CompileError as error:
                mistakes += error.diagnostics
                continue
            if after != before:
                changed.append(path)
            if canonical or (len(files) == 1 and not write and not check):
                report.fact("text", after)
                report.line(after.rstrip())
            elif write and path in changed:
                _write(path, after)
    except LoomirError as error:
        fail(error, json)
    if mistakes:
        fail(CompileError.of(mistakes), json)
    report.fact("changed" if write else "would_change", list(map(str, changed)))
    is_list = not canonical and (write or check or len(files) > 1)
    if is_list:
        verb = "changed" if write else "would change"
        for path in changed:
            report.line(f"{path} {verb}")
        hint = "" if write or check or not changed else "; --write changes them"
        report.line(f"{len(changed)} of {with_count_of_files(len(files))} {verb}{hint}", "bold")
    report.finish()
    if is_list and changed and not write:
        raise typer.Exit(1)


def _canonical(text: str, path: Path) -> str:
    if is_tc(path):
        return format_text(text, path)
    programs = parse_file(text, name=str(path))
    return "\n\n".join(program.script().rstrip() for program in programs.values()) + "\n"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise CompileError(
            Diagnostic("CLI0009", f"cannot write {path}: {error.strerror}", help="make it writable")
        ) from error
