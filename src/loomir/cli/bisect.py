"""``loomir bisect``: find the pass that makes a program compute something else."""

from __future__ import annotations

from typing import Annotated

import typer

from loomir.cli.files.source import load_file, pick, programs_of, split_target
from loomir.cli.inputs import make_inputs
from loomir.cli.names import check_names
from loomir.cli.report import Report, fail
from loomir.cli.settings import Sizes, read_settings
from loomir.cli.work.progress import Progress
from loomir.debug.bisection import bisect as search
from loomir.debug.values import entry_of
from loomir.driver import as_module
from loomir.support.diagnostics import LoomirError

__all__ = ["bisect"]


def bisect(
    target: Annotated[str, typer.Argument(metavar="FILE.py[:NAME]", help="What to compile.")],
    size: Sizes = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the random inputs.")] = 0,
    tolerance: Annotated[
        float | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option(help="The tolerated error, as a fraction of the largest value."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run every stage of compiling by the interpreter, and name the first with other results.

    Inputs are drawn at random, as by loomir run; the machine code is run at the end. The status is
    1 if a stage is wrong.
    """
    report = Report(json)
    right = True
    try:
        path, name = split_target(target)
        settings = read_settings(size)
        file = load_file(path, settings)
        programs = pick(programs_of(file), name, path)
        check_names(settings, file, programs)
        with Progress(report) as progress:
            for key, program in programs.items():
                progress.step(key)
                mod = as_module(program)
                entry = entry_of(mod, None)
                inputs = make_inputs(mod, entry, settings, seed, file)
                found = search(mod, inputs, name=entry, tolerance=tolerance)
                right &= found is None
                report.fact(key, None if found is None else str(found))
                if found is None:
                    report.line(f"{key}: every stage computes the same", "green")
                else:
                    report.line(f"{key}: the first wrong stage is {found}", "bold red")
    except LoomirError as error:
        fail(error, json)
    report.finish()
    if not right:
        raise typer.Exit(1)
