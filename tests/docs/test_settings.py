"""The page of settings lists every variable and option that there is."""

from __future__ import annotations

import inspect
import re
import typing

import pytest
import typer

import loomir
from loomir.cli.lazy_group import COMMANDS
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
# Names of macros in headers for C, and what stands for the run of another library for a moment.
NO_SETTINGS = {"LOOMIR_DLTENSOR", "LOOMIR_VALUES", "LOOMIR_"}


def rows(section: str) -> list[list[str]]:
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_variable_of_the_environment_is_on_the_page():
    sources = [f.read_text(encoding="utf-8") for f in (ROOT / "src").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"\bLOOMIR_[A-Z_]*", text)}
    asked = {
        name for text in sources for name in re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", text)
    }
    listed = {row[0].strip("`") for row in rows("Variables of the environment")}
    assert (named | asked) - NO_SETTINGS - listed == set()
    assert {name for name in listed if name.startswith("LOOMIR_")} - named == set()


def test_every_option_of_compile_is_on_the_page():
    options = inspect.signature(loomir.compile).parameters
    listed = {row[0].strip("`"): row[1].strip("`") for row in rows("Options of loomir.compile")}
    wanted = {
        name: str(p.default).replace("native", '"native"')
        for name, p in options.items()
        if name != "program"
    }
    assert listed == wanted


def options_of(command: str) -> set[str]:
    function = getattr(__import__(f"loomir.cli.{command}", fromlist=[command]), command)
    hints = typing.get_type_hints(function, include_extras=True)
    found: set[str] = set()
    for name, hint in hints.items():
        for part in getattr(hint, "__metadata__", ()):
            if isinstance(part, typer.models.OptionInfo):
                names = (part.default, *(part.param_decls or ()))
                declared = [n for n in names if isinstance(n, str) and n.startswith("--")]
                found |= set(declared) or {"--" + name.replace("_", "-")}
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_command_is_on_the_page(command: str):
    listed = {
        option
        for row in rows("Options of the command")
        if row[1] == "all" or command in row[1].split(", ")
        for option in re.findall(r"`(--[\w-]+)`", row[0])
    }
    assert options_of(command) == listed
