"""``loomir tune``: search for faster schedules of a program, and record them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import loomir
from loomir.cli.files.source import load_file, pick_one, programs_of, split_target
from loomir.cli.names import check_names
from loomir.cli.report import Report, fail
from loomir.cli.settings import Sizes, read_settings
from loomir.cli.work.progress import Progress
from loomir.support.diagnostics import LoomirError
from loomir.tuning.result import TaskResult, Trial

__all__ = ["tune"]


def tune(
    target: Annotated[
        str, typer.Argument(metavar="FILE.py[:NAME]", help="What to tune; a model, FILE.onnx, too.")
    ],
    database: Annotated[
        Path,
        typer.Option("--database", "-d", metavar="FILE", help="Where records are kept."),
    ] = Path("tuning.db"),
    trials: Annotated[
        int | None,  # typer reads this annotation at run time, on Python 3.10 too
        typer.Option(min=1, help="The most measurements of each kernel."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for the whole search.")] = 60.0,
    machine: Annotated[
        str, typer.Option("--target", metavar="CPU", help="The machine, of those that run here.")
    ] = "native",
    size: Sizes = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the random choices.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Search for faster schedules of the kernels of a program, within a given time.

    Records are written to the database, which loomir.compile(program, database="FILE") uses. You
    can stop the command at any time; when it is called again, it goes on from there.
    """
    report = Report(json)
    try:
        path, name = split_target(target)
        settings = read_settings(size)
        file = load_file(path, settings)
        check_names(settings, file, {})
        program = pick_one(programs_of(file), name, path)
        sizes = {key: value for key, value in settings.items() if isinstance(value, int)}
        with Progress(report) as progress:
            progress.step("kernels")
            result = loomir.tune(
                program,
                machine,
                trials=trials,
                timeout=timeout,
                database=database,
                sizes=sizes,
                seed=seed,
                on_trial=lambda trial: progress.step(_progress(trial)),
            )
    except LoomirError as error:
        fail(error, json)
    for line in str(result).splitlines():
        report.line(line)
    report.line(f"records: {database}")
    report.fact("ok", True)
    report.fact("database", str(database))
    report.fact("speedup", result.speedup)
    report.fact("seconds", result.seconds)
    report.fact("kernels", [_fact(task) for task in result.tasks])
    report.finish()


def _progress(trial: Trial) -> str:
    return f"{trial.task}: trial {trial.number}, {trial.best:.2f} times as fast at best"


def _fact(task: TaskResult) -> dict[str, object]:
    made = task._asdict()
    made["choices"] = dict(task.choices)
    made["speedup"] = task.speedup
    return made
