"""Run the code blocks of a page the way a reader would.

The ``python`` blocks of a page run in order and share their names. What the fence adds:

- ``python file=add.py``: the block is also written to that file, for the commands below it.
- ``python raises``: the block must raise an error of Loomir's.
- ``console fails``: the command must end with a status other than 0.

A ``console`` block holds commands after ``$``; ``loomir`` commands are run, in a folder of the
page's own that has ``examples/``. An ``output`` block must be what the block before it printed, or
the text of the error it raised; lines after a command in a ``console`` block must be what that
command printed. ``...`` in them stands for any text.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import os
import shlex
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from loomir.cli import app
from loomir.support.diagnostics import LoomirError
from tests.docs.markdown import ROOT, Block, blocks

INSTALL = ("python3 -m venv", ".venv/bin/", "pip install", "git clone", "cd ", "make ")


class PageError(AssertionError):
    """A block does not do what its page says."""


@contextlib.contextmanager
def working_in(folder: Path) -> Generator[None, None, None]:
    """Make a folder the current one for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@dataclass
class Reader:
    """Someone who follows a page, in a folder of their own."""

    folder: Path
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "example"})
    printed: str = ""
    error: Exception | None = None

    def __post_init__(self) -> None:
        (self.folder / "examples").symlink_to(ROOT / "examples", target_is_directory=True)

    def follow(self, block: Block) -> None:
        """Run one block, or compare it with what the block before it printed.

        Errors: PageError where the page promises something else.
        """
        if block.language == "python":
            self.run_python(block)
        elif block.language == "console":
            self.run_console(block)
        elif block.language == "output":
            check_same(block, block.text, self.printed)

    def run_python(self, block: Block) -> None:
        refused = [o for o in block.options if o != "raises" and not o.startswith("file=")]
        if refused:
            raise PageError(f"{block}: every python block is run; {refused[0]!r} is not an option")
        name = block.option("file")
        if name is not None:
            (self.folder / name).write_text(block.text, encoding="utf-8")
        filename = name or "example.py"
        # The decorators read the source by its file's name; this block has none on disk.
        linecache.cache[filename] = (len(block.text), None, block.text.splitlines(True), filename)
        out = io.StringIO()
        self.error = None
        with working_in(self.folder), contextlib.redirect_stdout(out):
            try:
                exec(compile(block.text, filename, "exec"), self.names)  # noqa: S102
            except LoomirError as error:
                self.error = error
        self.printed = out.getvalue() + (f"{self.error}\n" if self.error else "")
        if "raises" in block.options and self.error is None:
            raise PageError(f"{block}: nothing was raised")
        if "raises" not in block.options and self.error is not None:
            raise PageError(f"{block}: raised\n{self.error}") from self.error

    def run_console(self, block: Block) -> None:
        for command, expected in commands(block):
            if command.startswith("loomir "):
                output = self.run_loomir(block, command)
                if expected:
                    check_same(block, expected, output)
            elif not command.startswith(INSTALL):
                raise PageError(f"{block}: cannot check {command!r}")

    def run_loomir(self, block: Block, command: str) -> str:
        """Run a command as its process would, in this one: starting Python takes far longer."""
        with working_in(self.folder):
            done = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "100"}).invoke(
                app, shlex.split(command)[1:]
            )
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if (done.exit_code != 0) != ("fails" in block.options):
            raise PageError(f"{block}: {command!r} ended with {done.exit_code}\n{done.output}")
        return done.output


def commands(block: Block) -> list[tuple[str, str]]:
    """Split a console block into its commands and what is printed below each."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif not found:
            raise PageError(f"{block}: a console block starts with a command after '$ '")
        else:
            command, output = found.pop()
            found.append((command, output + line + "\n"))
    return found


def is_same(expected: str, actual: str) -> bool:
    """Tell whether a text is the expected one, in which ``...`` stands for anything.

    Space at the ends of lines does not count; elsewhere it does, as carets stand in columns.
    """
    want, got = ("".join(row.rstrip() + "\n" for row in t.splitlines()) for t in (expected, actual))
    return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS)


def with_outputs(page: Path, folder: Path) -> str:
    """Return the text of a page with its ``output`` blocks as they are now.

    Blocks that are right as they stand are kept, with their ``...``.
    """
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    reader = Reader(folder)
    edits: list[tuple[Block, str]] = []
    for block in blocks(page):
        if block.language != "output":
            reader.follow(block)
        elif not is_same(block.text, reader.printed):
            edits.append((block, reader.printed))
    for block, printed in reversed(edits):
        start = block.line - 1
        lines[start : start + len(block.text.splitlines())] = printed.splitlines(keepends=True)
    return "".join(lines)


def check_same(block: Block, expected: str, actual: str) -> None:
    """Refuse a page whose output is not what its block gives."""
    if not is_same(expected, actual):
        raise PageError(f"{block}: the page shows\n{expected}\nbut it is\n{actual}")
