"""Read the pages of the documentation: their code blocks, headings and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(\s*)```(.*)$")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced code block: its language, what stands after it, its text and its first line."""

    page: Path
    language: str
    options: tuple[str, ...]
    text: str
    line: int

    def option(self, name: str) -> str | None:
        """Return the value of ``name=value`` in the fence, or None."""
        values = [o.partition("=")[2] for o in self.options if o.startswith(name + "=")]
        return values[0] if values else None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def pages() -> tuple[Path, ...]:
    """Return every page: the Markdown files of the root and of docs/."""
    return tuple(sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]))


def name_of(page: Path) -> str:
    """Return a page's path from the repository's root, for the names of tests."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Read the code blocks of a page, in order.

    Errors: ValueError for a fence that is indented or never closed: it would go untested.
    """
    found: list[Block] = []
    start: tuple[int, str] | None = None
    body: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        if fence is None:
            body.append(line)
        elif fence[1]:
            raise ValueError(f"{name_of(page)}:{number}: start the fence at the first column")
        elif start is None:
            start, body = (number, fence[2].strip()), []
        else:
            language, *options = start[1].split() or [""]
            text = "".join(row + "\n" for row in body)
            found.append(Block(page, language, tuple(options), text, start[0] + 1))
            start = None
    if start is not None:
        raise ValueError(f"{name_of(page)}:{start[0]}: the block is never closed")
    return found


def prose(page: Path) -> list[tuple[int, str]]:
    """Return the numbered lines of a page that are not in a code block."""
    lines: list[tuple[int, str]] = []
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            lines.append((number, line))
    return lines


def headings(page: Path) -> list[str]:
    """Return the headings of a page, in order."""
    return [hit[1] for _, line in prose(page) if (hit := HEADING.match(line))]


def anchor(heading: str) -> str:
    """Return the name by which a link reaches a heading."""
    plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return plain.replace(" ", "-")


def links(page: Path) -> list[tuple[int, str]]:
    """Return the line number and target of every link of a page."""
    return [
        (number, target)
        for number, line in prose(page)
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line))
    ]
