"""``loomir fmt``: write the programs of a file in canonical TVMScript."""

from __future__ import annotations

from typing import Annotated

import typer

from loomir.cli.files.source import is_tc, read_text, split_target
from loomir.cli.report import Report, fail
from loomir.script import parse_file
from loomir.support.diagnostics import LoomirError
from loomir.tc.fmt import fmt as fmt_tc
from loomir.tc.parse import parse

__all__ = ["fmt"]


def fmt(
    target: Annotated[str, typer.Argument(metavar="FILE.py", help="The file to read.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the programs of a file in canonical form; the file is read, not run or changed."""
    report = Report(json)
    try:
        path, _ = split_target(target)
        text = read_text(path)
        if is_tc(path):
            texts = {path.stem: fmt_tc(parse(text, str(path)))}
        else:
            programs = parse_file(text, name=str(path))
            texts = {name: program.script() for name, program in programs.items()}
    except LoomirError as error:
        fail(error, json)
    report.fact("programs", texts)
    report.line("\n\n".join(text.rstrip() for text in texts.values()))
    report.finish()
