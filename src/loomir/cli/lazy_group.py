"""A group of commands that are imported when they run, so that ``--help`` is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from loomir.support.fork_safe import import_module

__all__ = ["COMMANDS", "LazyGroup"]

COMMANDS: Final = (
    "run",
    "build",
    "check",
    "cost",
    "explain",
    "tune",
    "diff",
    "bisect",
    "fmt",
    "doctor",
)
"""The commands in the order of the help; each is a function in the module of its name."""
_loaded: Final[dict[str, Any]] = {}


class LazyGroup(TyperGroup):
    """Imports a command on demand; its help line is read from the text of its module."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands in the order of the help."""
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in _loaded:
            module = import_module(f"loomir.cli.{cmd_name}")
            single = typer.Typer(
                add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
            )
            single.command(cmd_name)(getattr(module, cmd_name))
            _loaded[cmd_name] = typer.main.get_command(single)
        return _loaded[cmd_name]

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the called command, or suggest a similar one."""
        for name in COMMANDS:  # for the suggestion
            self.commands.setdefault(name, TyperCommand(name))
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: Any) -> Any:
        """Run the called command; explain how to name a program of a file."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            message: Any = getattr(error, "message", None)
            if isinstance(message, str) and message.startswith("Got unexpected extra argument"):
                hint = "Write FILE.py:NAME for one program of a file."
                setattr(error, "message", f"{message}. {hint}")  # noqa: B010 - typer's own class
            raise

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _read_first_line(name)) for name in COMMANDS])


def _read_first_line(name: str) -> str:
    """Return the first line of a command's docstring, from the text of its module."""
    text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    _, found, function = text.partition(f"\ndef {name}(")
    return function.split('"""', 2)[1].partition("\n")[0] if found else ""
