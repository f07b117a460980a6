"""Pages of functions, modules and executables: names and parameters."""

from __future__ import annotations

from typing import Any

from loomir.display.graph import graph_of, picture, type_of
from loomir.display.page import badge, code, escape, fold, page, plain, table
from loomir.ir.module import BaseFunc, IRModule
from loomir.relax.expr import Function as Graph
from loomir.relax.info.describe import format_info
from loomir.runtime.executable import Executable, show_seconds
from loomir.runtime.function import Function
from loomir.support.printing import to_text
from loomir.tir.buffer import Buffer
from loomir.tir.expr import PrimExpr
from loomir.tir.function import PrimFunc
from loomir.tir.signature import signature_of

__all__ = ["executable_page", "graph_page", "kernel_page", "module_page", "shape_of"]

_FIELDS_SHOWN = 3


def shape_of(buffer: Buffer) -> str:
    """Return the shape of a buffer as users write it."""
    return f"({', '.join(map(_extent, buffer.shape))}{',' * (len(buffer.shape) == 1)})"


def _extent(value: PrimExpr) -> str:
    return plain(str(value))


def kernel_page(func: PrimFunc) -> str:
    """Render a loop-level function: its parameters, and its text in colour."""
    rows = [
        (
            f"<code>{escape(p.name)}</code>",
            escape(p.dtype),
            "scalar" if p.buffer is None else f"<code>{escape(shape_of(p.buffer))}</code>",
            badge("written") if p.written else "",
        )
        for p in signature_of(func).parameters
    ]
    listed = table(("parameter", "dtype", "shape", ""), rows) if rows else ""
    return page(f"<b>{escape(func.name)}</b> {badge('loops')}", listed, _text(func))


def graph_page(func: Graph) -> str:
    """Render a graph function: its picture, its parameters, and its text."""
    name = str(func.attrs.get("global_symbol", "main"))
    return page(
        f"<b>{escape(name)}</b> {badge('graph')}",
        picture(graph_of(func)),
        fold("parameters", _parameters(func)),
        fold("program", _text(func)),
    )


def _parameters(func: Graph) -> str:
    rows = [
        (f"<code>{escape(p.name_hint)}</code>", f"<code>{escape(_info(p))}</code>")
        for p in func.params
    ]
    return table(("parameter", "is"), rows)


def _info(value: Any) -> str:
    found = value.struct_info_annotation
    return "" if found is None else format_info(found)


def module_page(module: IRModule) -> str:
    """Render a module: its functions, the picture of its main graph, and its text."""
    rows: list[tuple[str, str, str]] = []
    graphs: list[Graph] = []
    for var, func in module.functions.items():
        is_graph = isinstance(func, Graph)
        if is_graph:
            graphs.append(func)
        rows.append(
            (
                f"<code>{escape(var.name_hint)}</code>",
                badge("graph" if is_graph else "loops"),
                f"<code>{escape(_takes(func))}</code>",
            )
        )
    listed = table(("function", "", "takes"), rows)
    title = f"<b>module</b> {badge(f'{len(rows)} function' + 's' * (len(rows) != 1))}"
    if not graphs:
        return page(title, listed, _text(module))
    main = next((g for g in graphs if g.attrs.get("global_symbol") == "main"), graphs[0])
    return page(title, listed, picture(graph_of(main)), fold("program", _text(module)))


def _takes(func: BaseFunc) -> str:
    """Return the parameters of a function on one line."""
    if isinstance(func, PrimFunc):
        parts = [
            f"{b.name}: {shape_of(b)} {b.dtype}" if b is not None else f"{p.name_hint}: {p.dtype}"
            for p in func.params[: _FIELDS_SHOWN + 1]
            for b in (func.buffer_map.get(p),)
        ]
    else:
        parts = [f"{p.name_hint}: {type_of(p)}" for p in func.params[: _FIELDS_SHOWN + 1]]
    more = len(func.params) - _FIELDS_SHOWN
    if more > 0 and len(parts) > _FIELDS_SHOWN:
        parts[_FIELDS_SHOWN:] = [f"and {more} more"]
    return ", ".join(parts)


def _text(program: BaseFunc | IRModule) -> str:
    return code(to_text(program, constants="stored"), "print(program.script())")


def executable_page(executable: Executable) -> str:
    """Render an executable: the functions that can be called."""
    rows: list[tuple[str, str, str]] = []
    for name, function in executable.functions.items():
        if isinstance(function, Function):
            takes = ", ".join(f"{p}{' (written)' * p.is_written}" for p in function.parameters)
            gives = "" if function.returns is None else str(function.returns)
        else:
            takes, gives = ", ".join(function.parameters), ""
        kind = "loops" if isinstance(function, Function) else "graph"
        call = f"<code>{escape(name)}</code> {badge(kind)}"
        rows.append((call, f"<code>{escape(takes, 300)}</code>", escape(gives)))
    took = executable.compile_time
    when = "" if took is None else f" {badge(f'compiled in {show_seconds(took)}')}"
    has_results = any(gives for _, _, gives in rows)
    headings = ("function", "takes", "returns")[: 2 + has_results]
    shown = [row[: len(headings)] for row in rows]
    return page(f"<b>executable</b>{when}", table(headings, shown))
