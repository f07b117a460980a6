"""Reductions, and reductions to an index (ArgMax)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loomir import op
from loomir.frontend.onnx.node import Node, constant
from loomir.frontend.onnx.registry import Converter, Row, row
from loomir.relax.expr import PrimValue
from loomir.relax.node import RelaxExpr
from loomir.relax.shape import as_dim
from loomir.support.dtype import DataType

_Operator = Callable[..., RelaxExpr]
_Step = Callable[[RelaxExpr], RelaxExpr]


def _identity(x: RelaxExpr) -> RelaxExpr:
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
    operator: _Operator, *, before: _Step = _identity, after: _Step = _identity, since: int = 18
) -> Converter:
    def convert(node: Node) -> RelaxExpr:
        axes = _axes(node, since)
        x = node[0]
        if before is not _identity:
            x = node.emit(before(x))
        if axes is not None and not axes:
            made = x
        else:
            made = node.emit(operator(x, axes, bool(node.get("keepdims", 1))))
        return made if after is _identity else node.emit(after(made))

    return convert


def _make_float_step(step: _Step) -> Callable[[Node], _Step]:
    """Apply a function of floats; its results for integers are truncated."""

    def step_of(node: Node) -> _Step:
        dtype = node.dtype(0)
        if DataType(dtype).is_float:
            return step
        return lambda x: op.astype(node.emit(step(node.emit(op.astype(x, "float64")))), dtype)

    return step_of


def _reduce_by_floats(operator: _Operator, step: _Step, before: _Step = _identity) -> Converter:
    """Import a reduction whose results go through a function of floats."""
    after = _make_float_step(step)

    def convert(node: Node) -> RelaxExpr:
        return _reduction(operator, before=before, after=after(node))(node)

    return convert


def _mean(node: Node) -> RelaxExpr:
    if DataType(node.dtype(0)).is_float:
        return _reduction(op.mean)(node)
    total, count = _reduction(op.sum), _reduction(op.sum, before=op.ones_like)
    if _axes(node, 18) == []:
        return node[0]
    least = node.constant_like(1)
    counted = node.emit(op.maximum(node.emit(count(node)), least))
    return op.divide(node.emit(total(node)), counted)


def _shape_of_nothing(node: Node) -> tuple[Any, ...] | None:
    """Return the shape of a reduction of axes that have no elements; None for any other."""
    dims, axes = node.dims(0), _axes(node, 18)
    over = range(len(dims)) if axes is None else [node.count_axis(a, len(dims)) for a in axes]
    if not any(isinstance(dims[a], int) and dims[a] == 0 for a in over):
        return None
    if node.get("keepdims", 1):
        return tuple([1 if a in over else d for a, d in enumerate(dims)])
    return tuple([d for a, d in enumerate(dims) if a not in over])


def _neutral(dtype: str, least: bool) -> Any:
    """Return the element that a maximum, or with ``least`` a minimum, of nothing is."""
    if dtype == "bool":
        return least
    kind = DataType(dtype)
    if kind.is_float:
        return float("inf") if least else float("-inf")
    return kind.max_value if least else kind.min_value


def _greatest(operator: _Operator, *, least: bool = False) -> Converter:
    """Import a maximum or a minimum; of truths, whether any or all hold."""
    plain = _reduction(operator)
    logical = _reduction(operator, before=lambda x: op.astype(x, "uint8"))

    def convert(node: Node) -> RelaxExpr:
        shape = _shape_of_nothing(node)
        if shape is not None:
            return op.full(shape, constant(_neutral(node.dtype(0), least), node.dtype(0)))
        if node.dtype(0) != "bool":
            return plain(node)
        return op.astype(node.emit(logical(node)), "bool")

    return convert


def _log_sum_exp(node: Node) -> RelaxExpr:
    axes = _axes(node, 18)
    x, keep = node[0], bool(node.get("keepdims", 1))
    if axes is not None and not axes:
        return x
    if not DataType(node.dtype(0)).is_float:
        floats = node.emit(op.astype(x, "float64"))
        made = node.emit(_log_sum_exp_of(node, floats, "float64", axes, keep))
        return op.astype(made, node.dtype(0))
    return _log_sum_exp_of(node, x, node.dtype(0), axes, keep)


def _log_sum_exp_of(
    node: Node, x: RelaxExpr, dtype: str, axes: list[int] | None, keep: bool
) -> RelaxExpr:
    if any(d == 0 for d in node.dims(0) if isinstance(d, int)):
        return op.log(node.emit(op.sum(node.emit(op.exp(x)), axes, keep)))
    top = node.emit(op.max(x, axes, True))
    finite = node.emit(op.where(node.emit(op.isfinite(top)), top, constant(0, dtype)))
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
        # The last of equals is the first from the other end.
        extent = node.dims(0)[axis]
        first = node.emit(operator(node.emit(op.flip(node[0], axis)), axis, keep))
        last = node.emit(op.full((), PrimValue(as_dim(extent) - 1), "int64"))
        return op.subtract(last, first)

    return convert


ROWS: Final[tuple[Row, ...]] = (
    row("ArgMax", _arg(op.argmax)),
    row("ArgMin", _arg(op.argmin)),
    row("ReduceL1", _reduction(op.sum, before=op.abs)),
    row("ReduceL2", _reduce_by_floats(op.sum, op.sqrt, before=op.square)),
    row("ReduceLogSum", _reduce_by_floats(op.sum, op.log)),
    row("ReduceLogSumExp", _log_sum_exp),
    row("ReduceMax", _greatest(op.max)),
    row("ReduceMean", _mean),
    row("ReduceMin", _greatest(op.min, least=True)),
    row("ReduceProd", _reduction(op.prod)),
    row("ReduceSum", _reduction(op.sum, since=13)),
    row("ReduceSumSquare", _reduction(op.sum, before=op.square)),
)
