"""``loomir diff``: compare two programs, as text or by their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from loomir.cli.files.source import (
    Program,
    load_file,
    pick_one,
    programs_of,
    read_text,
    split_target,
)
from loomir.cli.inputs import make_inputs
from loomir.cli.report import Report, fail
from loomir.cli.settings import Sizes, read_settings
from loomir.debug.texts import compare_texts
from loomir.debug.values import compare_stages, entry_of
from loomir.driver import as_module
from loomir.ir.module import IRModule
from loomir.ir.stage_files import UNCHANGED
from loomir.script import parse_file
from loomir.support.diagnostics import LoomirError

__all__ = ["diff"]

_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def diff(
    left: Annotated[str, typer.Argument(metavar="A", help="A stage, or FILE.py:NAME.")],
    right: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    run: Annotated[
        bool, typer.Option("--run", help="Run both, and name the first value that differs.")
    ] = False,
    size: Sizes = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the random inputs.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two programs; the status is 1 if they differ.

    A file without a name is parsed, not run; for FILE.py:NAME, Python runs the file. With --run,
    both are interpreted on the same random inputs, and values are matched by name.
    """
    report = Report(json)
    try:
        a, b = _read(left), _read(right)
        same = (
            _values(report, a, b, read_settings(size), seed)
            if run
            else _texts(report, a, b, left, right)
        )
    except LoomirError as error:
        fail(error, json)
    report.fact("same", same)
    report.finish()
    if not same:
        raise typer.Exit(1)


def _texts(report: Report, a: IRModule, b: IRModule, left: str, right: str) -> bool:
    found = compare_texts(a, b, (left, right))
    report.line(found.say_result(), "bold")
    if found.difference is None:
        return True
    report.fact("path", found.difference.path)
    report.fact("diff", list(found.diff))
    for line in found.diff:
        report.line(line, _STYLES.get(line[:1], ""))
    return False


def _values(
    report: Report, a: IRModule, b: IRModule, settings: Mapping[str, int | float], seed: int
) -> bool:
    name = entry_of(a, None)
    inputs = make_inputs(a, name, settings, seed)
    found = compare_stages(a, b, inputs, name=name)
    if found is None:
        report.line("all values agree", "green")
        return True
    report.fact("value", found.name)
    report.fact("difference", str(found))
    report.line(str(found), "bold red")
    if found.span is not None:
        report.line(f"  --> {found.span}")
    return False


def _read(target: str) -> IRModule:
    path, name = split_target(target)
    programs: dict[str, Program]
    if name is None and path.suffix == ".py":
        text = read_text(path)
        if text.startswith(UNCHANGED):
            # Each stage is stored once: the named file has the text, and does not name another
            # file.
            path = path.parent / text.removeprefix(UNCHANGED).strip()
            text = read_text(path)
        programs = dict(parse_file(text, name=str(path)))
    else:
        programs = programs_of(load_file(path))
    return as_module(pick_one(programs, name, path))
