"""The ``loomir`` command: run, check, format, and look at the machine."""

import sys
from typing import Any

import typer

from loomir.cli.bisect import bisect
from loomir.cli.build import build
from loomir.cli.check import check
from loomir.cli.cost import cost
from loomir.cli.diff import diff
from loomir.cli.doctor import doctor
from loomir.cli.explain import explain
from loomir.cli.fmt import fmt
from loomir.cli.report import writing
from loomir.cli.run import run

__all__ = ["app"]


class _Command(typer.Typer):
    """The command, which tells where the help cannot be printed either."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with writing():
                return super().__call__(*args, **kwargs)
        except typer.Exit as left:
            sys.exit(left.exit_code)


app = _Command(
    name="loomir",
    help="A tensor compiler: check, compile and run programs written in TVMScript.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(run)
app.command()(build)
app.command()(check)
app.command()(cost)
app.command()(explain)
app.command()(diff)
app.command()(bisect)
app.command()(fmt)
app.command()(doctor)
