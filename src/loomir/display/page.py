"""Building blocks of pages: frames, tables, programs, and their styles.

All colours derive from the text colour of the surrounding page, so that they suit light and dark
themes. Selectors repeat a class, to outweigh the rules of notebooks.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

from loomir.support.diagnostics import with_count
from loomir.support.highlight import to_html

__all__ = ["MAX_ROWS", "badge", "code", "cut", "escape", "fold", "note", "page", "plain", "table"]

MAX_ROWS: Final = 200
"""The most rows of a table or nest that are shown."""
_MAX_LINES: Final = 300
_MAX_WIDTH: Final = 400
_MAX_TEXT: Final = 120
_NUMBER: Final = re.compile(r"T\.int64\((-?\d+)\)")

_STYLE: Final = """<style>
.loomir{--loomir-line:rgba(128,128,128,.35);--loomir-soft:rgba(128,128,128,.13);
--loomir-blue:#3b8fd9;--loomir-green:#2fa36b;--loomir-orange:#d9822b;--loomir-violet:#8f6be0;
font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:inherit;max-width:100%}
.loomir-title{font-size:14px;margin:2px 0 6px}
.loomir-title b{font-family:var(--jp-code-font-family,Menlo,Consolas,monospace)}
.loomir-quiet{opacity:.68}
.loomir.loomir code{font-family:var(--jp-code-font-family,Menlo,Consolas,monospace);font-size:12px;
color:inherit;background:none;padding:0}
.loomir.loomir pre{font-size:12px;margin:4px 0;padding:0;background:none;color:inherit}
.loomir table.loomir-table{border-collapse:collapse;margin:2px 0 8px;color:inherit;
font-size:12px;table-layout:auto;border:0}
.loomir .loomir-table th,.loomir .loomir-table td{text-align:left;padding:3px 14px 3px 0;
border:0;border-bottom:1px solid var(--loomir-line);background:none;color:inherit;
vertical-align:middle;white-space:nowrap}
.loomir .loomir-table th{font-weight:600;opacity:.68}
.loomir .loomir-table tr{background:none!important}
.loomir .loomir-table .loomir-right{text-align:right}
.loomir-badge{font-size:11px;padding:0 7px;border-radius:9px;background:var(--loomir-soft);
border:1px solid var(--loomir-line)}
.loomir details{margin:4px 0}
.loomir summary{cursor:pointer;opacity:.8}
.loomir-bar{display:inline-block;position:relative;width:160px;height:11px;border-radius:3px;
background:var(--loomir-soft);vertical-align:middle;margin-right:8px;overflow:hidden}
.loomir-bar i{position:absolute;left:0;top:0;bottom:0;border-radius:3px;
background:var(--loomir-blue)}
.loomir-row{display:flex;white-space:nowrap;line-height:22px}
.loomir-guide{flex:none;width:15px;margin-left:5px;border-left:1px solid var(--loomir-line)}
.loomir-row code{margin-right:8px}
.loomir-loop{border-left:4px solid;padding-left:7px}
.loomir-block{border:1px solid var(--loomir-line);border-radius:4px;background:var(--loomir-soft);
padding:0 8px;margin:1px 0}
.loomir-scroll{overflow-x:auto;margin:4px 0;scrollbar-width:thin;
scrollbar-color:var(--loomir-line) transparent}
.loomir svg text{fill:currentColor;font:12px var(--jp-ui-font-family,system-ui,sans-serif)}
</style>"""


def escape(text: object, limit: int = _MAX_TEXT) -> str:
    """Escape a text for a page; cut it at the limit."""
    return html.escape(cut(str(text), limit))


def cut(text: str, limit: int) -> str:
    """Shorten a text to at most so many characters, with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def plain(text: str) -> str:
    """Return an expression with numbers as a user writes them: ``4``, not ``T.int64(4)``."""
    return _NUMBER.sub(r"\1", text)


def page(title: str, *parts: str) -> str:
    """Render parts below a title, which is HTML."""
    head = f'<div class="loomir-title">{title}</div>' if title else ""
    return f'{_STYLE}<div class="loomir">{head}{"".join(parts)}</div>'


def note(text: str) -> str:
    """Render a remark."""
    return f'<div class="loomir-quiet">{html.escape(text)}</div>'


def badge(text: object, color: str = "") -> str:
    """Render a word as a badge."""
    style = f' style="border-color:{color}"' if color else ""
    return f'<span class="loomir-badge"{style}>{escape(text)}</span>'


def fold(summary: str, *parts: str, is_open: bool = False) -> str:
    """Render parts that a summary opens."""
    state = " open" if is_open else ""
    return f"<details{state}><summary>{html.escape(summary)}</summary>{''.join(parts)}</details>"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Render a table of HTML cells; the columns ``right`` are right-aligned."""

    def line(cells: Sequence[str], tag: str) -> str:
        written = (
            f"<{tag}{' class=loomir-right' if index in right else ''}>{cell}</{tag}>"
            for index, cell in enumerate(cells)
        )
        return f"<tr>{''.join(written)}</tr>"

    listed = list(rows)
    body = "".join(line(row, "td") for row in listed[:MAX_ROWS])
    head = line([html.escape(text) for text in headings], "th")
    more = len(listed) - MAX_ROWS
    rest = note(f"and {with_count(more, 'more row')}") if more > 0 else ""
    return (
        '<div class="loomir-scroll"><table class="loomir-table">'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>{rest}"
    )


def code(text: str, whole: str) -> str:
    """Render a program in colour; ``whole`` is Python that prints one completely that is cut."""
    lines = text.rstrip().split("\n")
    shown = "\n".join(cut(line, _MAX_WIDTH) for line in lines[:_MAX_LINES])
    more = len(lines) - _MAX_LINES
    rest = f"{with_count(more, 'more line')}: {whole} writes them all"
    return to_html(shown) + (note(rest) if more > 0 else "")
