"""The hook through which notebooks show values; the pages are written in a higher layer."""

from __future__ import annotations

from collections.abc import Callable

from loomir.support.diagnostics import LoomirError

__all__ = ["HtmlDisplay", "render_html", "set_renderer"]

_renderer: list[Callable[[object], str]] = []


def set_renderer(renderer: Callable[[object], str]) -> None:
    """Set the function that renders HTML; ``display`` calls this when imported."""
    _renderer[:] = [renderer]


def render_html(value: object) -> str:
    """Render a value as HTML."""
    return _renderer[0](value)


class HtmlDisplay:
    """A value that a notebook shows as HTML; elsewhere, its ``repr`` is shown."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Render the value as HTML; None, for which a notebook shows the text, if that fails."""
        try:
            return render_html(self) if _renderer else None
        except LoomirError:
            return None
