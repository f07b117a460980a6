"""Draw a Relax function: a box for each operator, a line for each value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from loomir.display.layered_layout import Box, Line, PlacedBox, place
from loomir.display.page import cut, escape, note
from loomir.ir.module import GlobalVar
from loomir.ir.op import Op
from loomir.relax.expr import (
    Call,
    Constant,
    ExternFunc,
    Function,
    If,
    MatchCast,
    SeqExpr,
    TupleGetItem,
    Var,
    VarBinding,
)
from loomir.relax.expr import Tuple as TupleExpr
from loomir.relax.info.describe import format_extent, format_info
from loomir.relax.node import StructInfo
from loomir.relax.shape import ShapeExpr
from loomir.relax.struct_info import TensorStructInfo
from loomir.support.dtype import VOID

__all__ = ["Graph", "graph_of", "picture", "type_of"]

_MAX_BOXES: Final = 150
_MAX_NAME: Final = 34
_PARAMS_SHOWN: Final = 8
_HANDED_ON: Final = frozenset({"call_tir", "call_dps_packed", "call_pure_packed"})


class Graph:
    """Boxes and the lines between them; ``more`` says how many bindings are left out."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self.more = 0
        self._homes: dict[int, int] = {}  # the box of each variable

    def add(self, box: Box) -> int:
        """Add a box, and return its number."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def bind(self, var: Var | None, box: int) -> None:
        """Record the box of a variable."""
        if var is not None:
            self._homes[id(var)] = box

    def connect(self, value: object, box: int) -> bool:
        """Add lines from the boxes of the variables in a value; tell whether there are any."""
        sources = dict.fromkeys(
            self._homes[id(v)] for v in _list_used(value) if id(v) in self._homes
        )
        self.lines += [Line(source, box) for source in sources]
        return bool(sources)

    def home(self, value: object) -> int | None:
        """Return the box whose value this is, or None."""
        return self._homes.get(id(value))


def graph_of(func: Function) -> Graph:
    """Collect the boxes of a function, in the order of its bindings."""
    graph = Graph()
    for param in _inputs(func):
        graph.bind(param, graph.add(Box(cut(param.name_hint, _MAX_NAME), type_of(param), "input")))
    bindings = list(_bindings(func))
    for number, binding in enumerate(bindings):
        if len(graph.boxes) >= _MAX_BOXES:
            graph.more = len(bindings) - number
            break
        value, var = binding.value, binding.var
        same = graph.home(value)
        if same is not None and isinstance(binding, VarBinding):
            graph.bind(var, same)
            continue
        weights = [_weight(v, graph) for v in _arguments(value)]
        kept = tuple(w for w in weights if w)
        made = graph.add(Box(_name(value), "" if var is None else type_of(var), "op", kept))
        graph.connect(value, made)
        graph.bind(var, made)
    if not graph.more:
        result = func.body.body if isinstance(func.body, SeqExpr) else func.body
        end = graph.add(Box("result", "", "output"))
        graph.connect(result, end)
    return graph


def _bindings(func: Function) -> Iterator[VarBinding | MatchCast]:
    if isinstance(func.body, SeqExpr):
        for block in func.body.blocks:
            for binding in block.bindings:
                if isinstance(binding, (VarBinding, MatchCast)):
                    yield binding


def _inputs(func: Function) -> tuple[Var, ...]:
    """Return the parameters that have boxes; weights are named in the boxes of their users."""
    count = func.attrs.get("num_input")
    if isinstance(count, int):
        return func.params[:count]
    if len(func.params) <= _PARAMS_SHOWN:
        return func.params
    first: dict[int, None] = {}
    for binding in _bindings(func):
        for value in _arguments(binding.value)[:1]:
            first[id(value)] = None
    found = tuple(p for p in func.params if id(p) in first)
    return (found or func.params)[:_PARAMS_SHOWN]


def _arguments(value: object) -> tuple[object, ...]:
    return value.args if isinstance(value, Call) else ()


def _list_used(value: object) -> Iterator[Var]:
    """List the variables that a value uses, except inside branches."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, Var):
            yield part
        elif isinstance(part, Call):
            stack.extend(reversed(part.args))
            if isinstance(part.op, Var):
                stack.append(part.op)
        elif isinstance(part, TupleExpr):
            stack.extend(reversed(part.fields))
        elif isinstance(part, TupleGetItem):
            stack.append(part.tuple_value)
        elif isinstance(part, If):
            stack.append(part.cond)


def _weight(value: object, graph: Graph) -> str:
    """Return the name of an argument without a box: a constant, or a weight."""
    if isinstance(value, Constant):
        return "constant" if not value.data.shape else f"constant {_shape(value.data.shape)}"
    if isinstance(value, Var) and graph.home(value) is None:
        return cut(f"{value.name_hint} {type_of(value)}", _MAX_NAME)
    return ""


def _name(value: object) -> str:
    """Return the name of the operator or function of a value, as in a program."""
    if isinstance(value, Call):
        callee: object = value.op
        if isinstance(callee, Op):
            name = callee.name.removeprefix("relax.")
            if name in _HANDED_ON and value.args:
                callee = value.args[0]
        if isinstance(callee, Op):
            return cut(callee.name.removeprefix("relax."), _MAX_NAME)
        if isinstance(callee, (GlobalVar, Var)):
            return cut(callee.name_hint, _MAX_NAME)
        if isinstance(callee, ExternFunc):
            return cut(callee.global_symbol, _MAX_NAME)
    if isinstance(value, TupleGetItem):
        return f"[{value.index}]"
    kinds: dict[type, str] = {
        TupleExpr: "tuple",
        Constant: "constant",
        If: "if",
        ShapeExpr: "shape",
    }
    return kinds.get(type(value), type(value).__name__.lower())


def type_of(var: Var) -> str:
    """Describe the structural information of a variable briefly."""
    info = var.struct_info_annotation
    return "" if info is None else cut(_write(info), _MAX_NAME)


def _write(info: StructInfo) -> str:
    if not isinstance(info, TensorStructInfo):
        return format_info(info)
    dtype = "" if info.dtype is VOID else str(info.dtype)
    if isinstance(info.shape, ShapeExpr):
        return f"{_shape(map(format_extent, info.shape.values))} {dtype}"
    return f"{dtype} tensor" if info.ndim < 0 else f"{dtype} tensor of rank {info.ndim}"


def _shape(extents: Iterable[object]) -> str:
    listed = list(map(str, extents))
    return f"({', '.join(listed)}{',' * (len(listed) == 1)})"


# -- drawing -------------------------------------------------------------------------------------
_COLORS: Final = {
    "input": "var(--loomir-green,#2fa36b)",
    "op": "var(--loomir-blue,#3b8fd9)",
    "output": "var(--loomir-violet,#8f6be0)",
}


def picture(graph: Graph) -> str:
    """Draw a graph as SVG, from top to bottom."""
    if not graph.boxes:
        return ""
    placed = place(graph.boxes, graph.lines)
    parts = [_curve(points) for points in placed.curves]
    parts += [_box(box, at) for box, at in zip(graph.boxes, placed.boxes, strict=True)]
    left = f"and {graph.more} more bindings, which the program lists" if graph.more else ""
    return (
        f'<div class="loomir-scroll"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="the graph" width="{placed.width:.0f}" height="{placed.height:.0f}" '
        f'viewBox="0 0 {placed.width:.0f} {placed.height:.0f}">{"".join(parts)}</svg></div>'
        + (note(left) if left else "")
    )


def _box(box: Box, at: PlacedBox) -> str:
    color = _COLORS[box.kind]
    lines = box.texts()
    text = "".join(
        f'<text x="{at.x:.1f}" y="{at.y - at.height / 2 + 17 + 16 * row:.1f}" '
        f'text-anchor="middle" fill="currentColor" font-size="12"'
        + (' font-weight="600"' if row == 0 else ' opacity="0.7"')
        + f">{escape(line)}</text>"
        for row, line in enumerate(lines)
    )
    radius = 4 if box.kind == "op" else 13
    return (
        f'<g><rect x="{at.x - at.width / 2:.1f}" y="{at.y - at.height / 2:.1f}" '
        f'width="{at.width:.1f}" height="{at.height:.1f}" rx="{radius}" fill="{color}" '
        f'fill-opacity="0.14" stroke="{color}"/>{text}</g>'
    )


def _curve(points: list[tuple[float, float]]) -> str:
    """Draw an arrow through points that starts and ends vertically."""
    x, y = points[0]
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in points[1:]:
        middle = (y + to_y) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    head = f"M{x - 4:.1f} {y - 7:.1f}L{x:.1f} {y:.1f}L{x + 4:.1f} {y - 7:.1f}"
    return (
        f'<path d="{"".join(parts)}{head}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.5" stroke-width="1.2"/>'
    )
