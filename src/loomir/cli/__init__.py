"""The ``loomir`` command: run, check, format, and look at the machine."""

import sys
from typing import Annotated, Any

import typer

import loomir
from loomir.cli.lazy_group import LazyGroup
from loomir.cli.report import guard_output

__all__ = ["app"]


class _Command(typer.Typer):
    """The command; it also reports errors in printing the help."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with guard_output():
                return super().__call__(*args, **kwargs)
        except typer.Exit as left:
            sys.exit(left.exit_code)


app = _Command(
    name="loomir",
    cls=LazyGroup,
    help="A tensor compiler: check, compile and run programs written in TVMScript.",
    epilog="Exit status: 0 if all is well, 1 for mistakes, 2 for a wrong call or a bug of Loomir.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"loomir {loomir.__version__}\n")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """Check, compile and run programs."""
