"""Highlight programs: in colour on a terminal, as HTML in a notebook."""

from __future__ import annotations

import html
import io
import os
import sys
from typing import Any, Final

from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.fork_safe import import_module

__all__ = ["show_text", "to_html"]

_NAMED: Final = {"ansi": "ansi_dark", "dark": "monokai", "light": "default"}
_PRE: Final = (
    "white-space: pre; overflow-x: auto; line-height: normal; font-family: "
    "var(--jp-code-font-family, Menlo, Consolas, monospace)"
)
_HTML: Final = f'<pre style="{_PRE}">{{code}}</pre>'
# Mixtures of the page's text colour with one of these are legible on light and dark pages.
_COLOURS: Final = {
    "Token.Keyword": ("k", "#8250df"),
    "Token.Operator.Word": ("k", "#8250df"),
    "Token.Literal.String": ("s", "#1a9e4b"),
    "Token.Literal.Number": ("n", "#d9730d"),
    "Token.Comment": ("c", "#808080"),
    "Token.Name.Decorator": ("d", "#0f7fd6"),
    "Token.Name.Function": ("d", "#0f7fd6"),
    "Token.Name.Class": ("d", "#0f7fd6"),
    "Token.Name.Builtin": ("b", "#0f7fd6"),
}
_RULES: Final = "".join(
    f".loomir-{name}{{color:{colour};color:color-mix(in srgb,currentColor 40%,{colour})}}"
    for name, colour in dict(_COLOURS.values()).items()
)


class _HighlightedText:
    """A text that a notebook displays in colour."""

    def __init__(self, text: str, style: str | None) -> None:
        self.text, self.style = text, style

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return to_html(self.text, self.style)


def show_text(text: str, style: str | None = None) -> None:
    """Display a program: in colour on a terminal and in a notebook, plain anywhere else.

    ``style`` is ``"light"``, ``"dark"``, ``"ansi"`` (the terminal's own colours), or the name of a
    Pygments style. If NO_COLOR is set, or TERM is ``dumb``, a terminal gets plain text.

    Errors: SCR0005 for an unknown style.
    """
    theme = _theme(style)
    display = _notebook_display()
    if display is not None:
        display(_HighlightedText(text, style))
    elif sys.stdout.isatty() and not os.environ.get("NO_COLOR") and _term() != "dumb":
        console = _rich("console").Console(file=sys.stdout, force_terminal=True)
        console.print(_highlight(text, theme), soft_wrap=True)
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")


def to_html(text: str, style: str | None = None) -> str:
    """Return a program as coloured HTML without a background.

    Without a style, colours are derived from the text colour of the page.

    Errors: SCR0005 for an unknown style.
    """
    if style is None:
        return f'<style>{_RULES}</style><pre style="{_PRE}">{_spans(text)}</pre>'
    theme = _theme(style)
    console = _rich("console").Console(record=True, file=io.StringIO(), force_terminal=True)
    console.print(_highlight(text, theme), soft_wrap=True)
    written: str = console.export_html(code_format=_HTML, inline_styles=True)
    return written


def _spans(text: str) -> str:
    """Return the tokens of a program as HTML, each with the class of its colour."""
    lexer: Any = _rich("syntax").Syntax("", "python").lexer
    parts: list[str] = []
    for kind, value in lexer.get_tokens(text.rstrip()):
        name = str(kind)
        while name and name not in _COLOURS:
            name = name.rpartition(".")[0]
        written = html.escape(value)
        found = _COLOURS.get(name)
        parts.append(f'<span class="loomir-{found[0]}">{written}</span>' if found else written)
    return "".join(parts)


def _rich(part: str) -> Any:
    """Import a part of rich on demand, since that takes longer than parsing most programs."""
    return import_module(f"rich.{part}")


def _highlight(text: str, theme: str) -> Any:
    syntax = _rich("syntax").Syntax("", "python", theme=theme, background_color="default")
    made: Any = syntax.highlight(text.rstrip())
    made.rstrip()
    return made


def _theme(style: str | None) -> str:
    if style is None:
        return "ansi_dark"
    if style in _NAMED:
        return _NAMED[style]
    try:
        _rich("syntax").get_style_by_name(style)
    except ValueError as error:
        guess = nearest(style, [*_NAMED, "monokai", "vim", "friendly", "solarized-dark"])
        raise CompileError(
            Diagnostic(
                "SCR0005",
                f"there is no style {style!r}",
                help=f"did you mean {guess!r}?" if guess else 'use "light", "dark" or "ansi"',
            )
        ) from error
    return style


def _term() -> str:
    return os.environ.get("TERM", "")


def _notebook_display() -> Any:
    """Return IPython's ``display`` in a notebook, else None; this never imports IPython."""
    shell_of = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if shell_of is None else shell_of()
    if getattr(shell, "kernel", None) is None:
        return None
    return import_module("IPython.display").display
