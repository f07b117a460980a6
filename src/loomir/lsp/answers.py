"""Answer requests about a position: meaning of a name, its definition, completions."""

from __future__ import annotations

import re
from typing import Final

from loomir.lsp.analysis import Analysis, Symbol
from loomir.lsp.meanings import Binding
from loomir.lsp.names import Name, aliases_of, completions, describe
from loomir.lsp.places import Place, lines_of, word_at

__all__ = ["complete", "definition", "hover"]

_DOTTED: Final = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)\.(\w*)$")


def hover(analysis: Analysis, text: str, line: int, column: int) -> tuple[str, Place] | None:
    """Describe the name at a position in Markdown; also return the range of the name."""
    row = _line(text, line)
    dotted, start, end = word_at(row, column)
    if not dotted:
        return None
    where = Place(line, start, line, end)
    known = describe(dotted, aliases_of(text))
    if known is not None:
        return f"```python\n{known.signature}\n```\n\n{known.text}".rstrip(), where
    name = row[start - 1 : end - 1]
    binding = _find_binding(analysis, name, line, column) if dotted == name else None
    if binding is None:
        symbol = _symbol(analysis, dotted, line)
        if symbol is None:
            return None
        return f"```python\n{_line(text, symbol.name_place.line).strip()}\n```", where
    made = _line(text, binding.place.line).strip()
    return f"```python\n{binding.text}\n```\n\n{binding.kind}: `{made}`", where


def definition(analysis: Analysis, text: str, line: int, column: int) -> Place | None:
    """Find where the name at a position is defined in the file."""
    row = _line(text, line)
    dotted, start, end = word_at(row, column)
    name = row[start - 1 : end - 1]
    if not name:
        return None
    if dotted == name:
        binding = _find_binding(analysis, name, line, column)
        if binding is not None:
            return binding.place
    symbol = _symbol(analysis, dotted, line)
    return None if symbol is None else symbol.name_place


def complete(text: str, line: int, column: int) -> tuple[Name, ...]:
    """List the completions of ``T.`` or ``R.nn.`` at a position."""
    found = _DOTTED.search(_line(text, line)[: column - 1])
    return () if found is None else completions(found[1], aliases_of(text))


def _line(text: str, number: int) -> str:
    lines = lines_of(text)
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _find_around(analysis: Analysis, line: int) -> Symbol | None:
    """Find the innermost function around a line."""
    found: Symbol | None = None
    for symbol in analysis.functions():
        if symbol.place.line <= line <= symbol.place.end_line:
            found = symbol
    return found


def _find_binding(analysis: Analysis, name: str, line: int, column: int) -> Binding | None:
    """Find the latest binding of a name before its use, in the function around."""
    around = _find_around(analysis, line)
    if around is None:
        return None
    first, last = around.place.line, around.place.end_line
    inside = [b for b in analysis.bindings if b.name == name and first <= b.place.line <= last]
    before = [b for b in inside if (b.place.line, b.place.column) <= (line, column)]
    return (before or inside or [None])[-1 if before else 0]


def _symbol(analysis: Analysis, dotted: str, line: int) -> Symbol | None:
    """Find the function that ``cls.f``, ``Module.f`` or ``f`` names."""
    owner, _, name = dotted.rpartition(".")
    if owner == "cls":
        modules = [s for s in analysis.symbols if s.place.line <= line <= s.place.end_line]
    else:
        modules = [s for s in analysis.symbols if s.name == owner]
    listed = [p for s in modules for p in s.parts] if owner else analysis.symbols
    return next((s for s in listed if s.name == name), None)
