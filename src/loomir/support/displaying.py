"""The hook through which notebooks show values; the pages are written in a higher layer."""

from __future__ import annotations

from collections.abc import Callable

from loomir.support.diagnostics import LoomirError

__all__ = ["Displayed", "render_html", "set_renderer"]

_renderer: list[Callable[[object], str]] = []


def set_renderer(renderer: Callable[[object], str]) -> None:
    """Make ``renderer`` what writes pages; ``display`` calls this when imported."""
    _renderer[:] = [renderer]


def render_html(value: object) -> str:
    """Write a value as a page of HTML."""
    return _renderer[0](value)


class Displayed:
    """A value that a notebook shows as a page; ``repr`` is what it shows elsewhere."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """Write the value as HTML; None, which makes a notebook show the text, where it cannot."""
        try:
            return render_html(self) if _renderer else None
        except LoomirError:
            return None
