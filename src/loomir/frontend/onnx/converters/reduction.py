"""Reductions: one element of many, and its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node
from loomir.frontend.onnx.registry import Converter, Row, row
from loomir.relax.node import RelaxExpr

_Operator = Callable[..., RelaxExpr]
_Step = Callable[[RelaxExpr], RelaxExpr]


def _same(x: RelaxExpr) -> RelaxExpr:
    return x


def _axes(node: Node, since: int) -> list[int] | None:
    """Return the axes to reduce over; None for all of them, an empty list for none."""
    if node.version < since:
        given = node.get("axes")
        return None if given is None else list(given)
    if node.has(1):
        given = [int(v) for v in node.numbers(1, "axes").reshape(-1)]
        if given:
            return given
    return [] if node.get("noop_with_empty_axes", 0) else None


def _reduction(
    operator: _Operator, *, before: _Step = _same, after: _Step = _same, since: int = 18
) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        axes = _axes(node, since)
        x = node[0]
        if before is not _same:
            x = node.emit(before(x))
        if axes is not None and not axes:
            made = x
        else:
            made = node.emit(operator(x, axes, bool(node.get("keepdims", 1))))
        return made if after is _same else node.emit(after(made))

    return convert


def _greatest(operator: _Operator, combine: _Operator) -> Converter:
    """Import a maximum or a minimum; of truths, whether any or all hold."""
    plain = _reduction(operator)
    logical = _reduction(operator, before=lambda x: op.astype(x, "uint8"))

    def convert(node: Node) -> RelaxExpr:
        if node.dtype(0) != "bool":
            return plain(node)
        return op.astype(node.emit(logical(node)), "bool")

    return convert


def _log_sum_exp(node: Node) -> RelaxExpr:
    axes = _axes(node, 18)
    x, keep = node[0], bool(node.get("keepdims", 1))
    if axes is not None and not axes:
        return x
    if any(d == 0 for d in node.dims(0) if isinstance(d, int)):
        return op.log(node.emit(op.sum(node.emit(op.exp(x)), axes, keep)))
    top = node.emit(op.max(x, axes, True))
    finite = node.emit(op.where(node.emit(op.isfinite(top)), top, node.constant_like(0)))
    total = node.emit(op.sum(node.emit(op.exp(node.emit(op.subtract(x, finite)))), axes, keep))
    if not keep:
        finite = node.emit(op.reshape(finite, tuple(node.dims_of(total))))
    return op.add(node.emit(op.log(total)), finite)


def _arg(operator: _Operator) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        axis = node.axis("axis", 0, node.rank(0))
        keep = bool(node.get("keepdims", 1))
        if not node.get("select_last_index", 0):
            return operator(node[0], axis, keep)
        extent: Any = node.dims(0)[axis]
        first = node.emit(operator(node.emit(op.flip(node[0], axis)), axis, keep))
        last = node.graph.expression(node.convert("Size", first)[0]) if extent is None else extent
        shape = node.emit(op.full((), _extent_value(last), "int64"))
        return op.subtract(shape, first)

    return convert


def _extent_value(extent: Any) -> Any:
    return extent - 1


ROWS: Final[tuple[Row, ...]] = (
    row("ArgMax", _arg(op.argmax)),
    row("ArgMin", _arg(op.argmin)),
    row("ReduceL1", _reduction(op.sum, before=op.abs)),
    row("ReduceL2", _reduction(op.sum, before=op.square, after=op.sqrt)),
    row("ReduceLogSum", _reduction(op.sum, after=op.log)),
    row("ReduceLogSumExp", _log_sum_exp),
    row("ReduceMax", _greatest(op.max, op.logical_or)),
    row("ReduceMean", _reduction(op.mean)),
    row("ReduceMin", _greatest(op.min, op.logical_and)),
    row("ReduceProd", _reduction(op.prod)),
    row("ReduceSum", _reduction(op.sum, since=13)),
    row("ReduceSumSquare", _reduction(op.sum, before=op.square)),
)
