"""Notebook pages (HTML and SVG) of programs, schedules and measurements.

Importing this package makes ``_repr_html_`` of these values work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir.display.nest import schedule_page, trace_page
from loomir.display.profile_pages import profile_page
from loomir.display.tables import executable_page, graph_page, kernel_page, module_page
from loomir.ir.module import IRModule
from loomir.relax.expr import Function
from loomir.runtime.executable import Executable
from loomir.runtime.report.profile import Profile
from loomir.schedule.schedule import Schedule
from loomir.schedule.trace import Trace
from loomir.support.displaying import set_renderer
from loomir.support.highlight import to_html
from loomir.tir.function import PrimFunc

__all__ = ["render"]

_PAGES: Final[dict[type, Callable[[Any], str]]] = {
    PrimFunc: kernel_page,
    Function: graph_page,
    IRModule: module_page,
    Schedule: schedule_page,
    Trace: trace_page,
    Profile: profile_page,
    Executable: executable_page,
}


def render(value: object) -> str:
    """Render a value as HTML for a notebook."""
    for kind in type(value).__mro__:
        made = _PAGES.get(kind)
        if made is not None:
            return made(value)
    return to_html(str(value))


set_renderer(render)
