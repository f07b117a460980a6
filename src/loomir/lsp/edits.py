"""Formatting as edits: only the changed lines, all of them or those in a range."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from loomir.cli.files.layout import format_text

__all__ = ["Edit", "edits_of"]


class Edit(NamedTuple):
    """Replace lines ``start`` to ``end``, counted from 0 and exclusive, by a text."""

    start: int
    end: int
    text: str


def edits_of(text: str, name: str, first: int = 0, last: int | None = None) -> list[Edit]:
    """Format a file like ``loomir fmt``; return the edits from line ``first`` to ``last``, from 0.

    A formatted part fits its unformatted surroundings.
    Errors: SCR0001, the mistakes of a text in Tensor Comprehensions, CLI0014.
    """
    before, after = text.split("\n"), format_text(text, Path(name)).split("\n")
    return [
        edit
        for edit in _changes(before, after)
        if last is None or (edit.start <= last and max(edit.end, edit.start + 1) > first)
    ]


def _changes(before: list[str], after: list[str]) -> Iterator[Edit]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield Edit(start, end, "".join(f"{line}\n" for line in after[new_start:new_end]))
